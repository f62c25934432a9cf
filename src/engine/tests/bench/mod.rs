//! The bench that stories are told on: a queue, its replica, and a clock that only the
//! test moves.
//!
//! It takes commands as a client would type them (through the real grammar), carries
//! their effects out, and says in one short line what came of it. Next to the queue runs
//! a replica that gets the effects alone, encoded and decoded; after every command both
//! must have the same ground state. So each story is also a test of promise P9.
//!
//! A new command needs an arm in `ask`; what there is no command for stands in `direct`,
//! how an answer is written as a line in `said`.

use crate::engine::Outcome;
use std::collections::BTreeMap;

use crate::codec;
use crate::engine::effect::Effect;
use crate::engine::number::Numbers;
use crate::engine::queue::Queue;
use crate::engine::settings::Defaults;
use crate::engine::testing::digest;
use crate::engine::view::{OrderView, StatValue};
use crate::words::state::State;
use crate::words::time::Now;

mod ask;
mod direct;
mod said;

/// Wall clock at the start of every story, Unix milliseconds.
pub(super) const START_MS: u64 = 1_700_000_000_000;

/// Monotonic clock at the start of every story, milliseconds.
pub(super) const START_MONO_MS: u64 = 777_000;

/// A queue, its replica and a clock.
pub(super) struct Bench {
    /// The queue.
    pub(super) queue: Queue,
    /// Gets the effects alone.
    pub(super) replica: Queue,
    /// Number generator of the server.
    pub(super) numbers: Numbers,
    /// Defaults of the server.
    pub(super) defaults: Defaults,
    /// Wall clock, microseconds.
    pub(super) wall_us: u64,
    /// Monotonic clock, microseconds.
    pub(super) mono_us: u64,
    /// Fences by order, in the order they were given.
    pub(super) fences: BTreeMap<Vec<u8>, Vec<u64>>,
    /// Whether a pass moves the derived structures on before each command.
    pub(super) passes: bool,
    /// Whether to hold the replica against the queue after each command.
    pub(super) compares: bool,
    /// Whether others wait for every lock.
    pub(super) queued: bool,
}

impl Bench {
    /// An empty queue at the start of a story.
    pub(super) fn new(passes: bool) -> Self {
        Self {
            queue: Queue::new(),
            replica: Queue::new(),
            numbers: Numbers::new(),
            defaults: Defaults::default(),
            wall_us: START_MS * 1000,
            mono_us: START_MONO_MS * 1000,
            fences: BTreeMap::new(),
            passes,
            compares: true,
            queued: false,
        }
    }

    /// Both clocks.
    pub(super) fn now(&self) -> Now {
        Now {
            wall_us: self.wall_us,
            mono_us: self.mono_us,
        }
    }

    /// Lets time pass until `ms` after the start of the story.
    pub(super) fn until(&mut self, ms: f64) {
        let mono_us = START_MONO_MS * 1000 + (ms * 1000.0).round() as u64;
        assert!(mono_us >= self.mono_us, "time only passes: {ms}");
        self.wall_us += mono_us - self.mono_us;
        self.mono_us = mono_us;
    }

    /// Moves derived structures on to now.
    pub(super) fn advance(&mut self) {
        let now = self.now();
        assert!(self.queue.advance(&now, &mut || true));
    }

    /// Carries an effect out, here and on the replica.
    pub(super) fn carry(&mut self, effect: &Effect<'_>) {
        let now = self.now();
        let mut events = Vec::new();
        assert!(self.queue.apply(&now, effect, &mut events), "{effect:?}");
        let mut blob = Vec::new();
        codec::encode(effect, &mut blob).unwrap();
        let decoded = codec::decode(codec::VERSION, &blob).unwrap();
        assert_eq!(decoded.as_slice(), std::slice::from_ref(effect));
        let mut replicas_events = Vec::new();
        for effect in &decoded {
            assert!(self.replica.apply(&now, effect, &mut replicas_events));
        }
        assert_eq!(events, replicas_events);
        for queue in [&mut self.queue, &mut self.replica] {
            queue.take_times();
        }
    }

    /// Carries out what was decided on a pause: as [`Bench::carry_all`], or the outcome.
    fn hold(&mut self, outcome: Outcome, effect: Option<Effect<'_>>) -> String {
        match (outcome, effect) {
            (Outcome::Ok, effect) => self.carry_all(effect.as_slice()),
            (outcome, None) => outcome.word().into(),
            (outcome, Some(effect)) => panic!("{outcome:?}: {effect:?}"),
        }
    }

    /// Carries effects out one after the other: `done`, or `-` if there are none.
    pub(super) fn carry_all(&mut self, effects: &[Effect<'_>]) -> String {
        for effect in effects {
            self.carry(effect);
        }
        if effects.is_empty() { "-" } else { "done" }.into()
    }

    /// Holds the replica against the queue.
    pub(super) fn compare(&self) {
        if self.compares {
            self.queue.check();
            self.replica.check();
            assert_eq!(digest(&self.queue), digest(&self.replica));
        }
    }

    /// Saves the queue, and goes on with one loaded from that.
    pub(super) fn reload(&mut self) {
        let mut writer = codec::ChunkWriter::new();
        let mut chunks: Vec<Vec<u8>> = Vec::new();
        self.queue.for_each_saved(&mut |effect| {
            chunks.extend(writer.push(effect).map(<[u8]>::to_vec));
            true
        });
        chunks.extend(writer.finish().map(<[u8]>::to_vec));
        let mut loaded = Queue::new();
        self.mono_us -= 1_000; // Another process has another monotonic clock ...
        for chunk in &chunks {
            for effect in codec::decode(codec::VERSION, chunk).unwrap() {
                assert!(loaded.replay(&self.now(), &effect, &self.defaults));
            }
        }
        assert_eq!(digest(&self.queue), digest(&loaded));
        self.queue = loaded;
        // ... but stories count by it, so what was said of it is taken back.
        let (wall_us, now) = (self.wall_us, self.mono_us + 1_000);
        let mut again = Queue::new();
        self.mono_us = now;
        let now = Now {
            wall_us,
            mono_us: now,
        };
        self.queue
            .for_each_saved(&mut |effect| again.replay(&now, effect, &self.defaults));
        self.queue = again;
    }

    /// The order with this id as it stands.
    pub(super) fn view(&self, id: &str) -> Option<OrderView<'_>> {
        self.queue.view(&self.now(), id.as_bytes())
    }

    /// State word of an order.
    pub(super) fn state(&self, id: &[u8]) -> State {
        self.queue
            .view(&self.now(), id)
            .map_or(State::Missing, |view| view.state)
    }

    /// Value of a whole-number field of STATS.
    pub(super) fn stat(&self, name: &str) -> i64 {
        let stats = self.queue.stats(&self.now(), &self.defaults, (0, 0));
        match stats.iter().find(|(field, _)| *field == name) {
            Some((_, StatValue::Int(value))) => *value,
            other => panic!("{name}: {other:?}"),
        }
    }

    /// Words of a command with the story's own spelled out: `''` nothing, `$a`
    /// the last fence of order a, `$a.1` its first, `@a` its rev, `T+5` the wall
    /// moment 5 ms into the story.
    pub(super) fn words(&self, line: &str) -> Vec<Vec<u8>> {
        let word = |word: &str| {
            if word == "''" {
                return Vec::new();
            }
            if let Some(name) = word.strip_prefix('$') {
                let (id, nth) = name
                    .split_once('.')
                    .map_or((name, 0), |(id, nth)| (id, nth.parse().unwrap()));
                let fences = self
                    .fences
                    .get(id.as_bytes())
                    .expect("an order that was leased");
                let fence = if nth == 0 {
                    fences.last()
                } else {
                    fences.get(nth - 1)
                };
                return fence.unwrap().to_string().into_bytes();
            }
            if let Some(id) = word.strip_prefix('@') {
                return self.view(id).unwrap().rev.to_string().into_bytes();
            }
            if let Some(ms) = word.strip_prefix('T').and_then(|ms| ms.parse::<i64>().ok()) {
                return START_MS
                    .checked_add_signed(ms)
                    .unwrap()
                    .to_string()
                    .into_bytes();
            }
            word.as_bytes().to_vec()
        };
        line.split_whitespace().map(word).collect()
    }

    /// Does one command and says what came of it.
    pub(super) fn run(&mut self, line: &str) -> String {
        if self.passes {
            self.advance();
        }
        let words = self.words(line);
        let (name, rest) = words.split_first().unwrap();
        let said = if name.is_ascii() && name.iter().any(u8::is_ascii_uppercase) {
            self.command(name, rest)
        } else {
            let texts: Vec<&str> = rest
                .iter()
                .map(|word| std::str::from_utf8(word).unwrap())
                .collect();
            self.direct(std::str::from_utf8(name).unwrap(), &texts)
        };
        self.compare();
        said
    }
}
