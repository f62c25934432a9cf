//! Tables: what the core answers in every state, and over time.
//!
//! A [`Bench`] is a queue with a clock that only the test moves. It takes commands
//! as a client would type them (through the real grammar), carries their effects
//! out, and says in one short line what came of it. Next to the queue runs a
//! replica that gets the effects alone, encoded and decoded; after every command
//! both must have the same ground state. So each table below is also a test of
//! promise P9, and, because every story is told twice, with and without a pass
//! before each command, of P3: answers do not depend on whether a timer has run.

#![allow(
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "stories are told in small signed milliseconds"
)]

mod compaction;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::control::Swept;
use super::decide::{CLAIM_BYTES_MAX, Env};
use super::number::{FOREIGN_AHEAD_US_MAX, NUMBER_END, Numbers};
use super::outcome::{Announcement, Decision, Outcome};
use super::queue::{Duty, Queue};
use super::settings::{Defaults, Setting};
use super::view::{OrderView, StatValue};
use crate::codec;
use crate::engine::effect::{
    AfterTry, Bytes, Effect, Ended, Granted, LeaseKind, Whole, WholeGrant, WholeLife, WholePhase,
};
use crate::error::Error;
use crate::request::{Configure, Limits, Request, Scan, Verb, parse};
use crate::words::glob;
use crate::words::state::State;
use crate::words::time::{Now, WALL_MS_MAX, WallMs};

mod announcing;
mod claim_order;
mod clocks;
mod deadlines;
mod endings;
mod finished;
mod full;
mod guards;
mod leases;
mod lengths;
mod locks;
mod numbers;
mod overdue;
mod questions;
mod queue;
mod refused;
mod states;
mod stored;
mod tries;
mod untried;

// ------------------------------------------------------------------- the bench

/// Wall clock at the start of every story, Unix milliseconds.
const START_MS: u64 = 1_700_000_000_000;
/// Monotonic clock at the start of every story, milliseconds.
const START_MONO_MS: u64 = 777_000;

/// Ground state as a sorted list of elements.
type Digest = Vec<(Vec<Vec<u8>>, Vec<u64>)>;

/// The ground state of a queue.
fn digest(queue: &Queue) -> Digest {
    let mut elements = Vec::new();
    queue.digest(&mut |texts, numbers| {
        elements.push((
            texts.iter().map(|text| text.to_vec()).collect(),
            numbers.to_vec(),
        ));
    });
    elements.sort();
    elements
}

/// A queue, its replica and a clock.
struct Bench {
    /// The queue.
    queue: Queue,
    /// Gets the effects alone.
    replica: Queue,
    /// Number generator of the server.
    numbers: Numbers,
    /// Defaults of the server.
    defaults: Defaults,
    /// Wall clock, microseconds.
    wall_us: u64,
    /// Monotonic clock, microseconds.
    mono_us: u64,
    /// Fences by order, in the order they were given.
    fences: BTreeMap<Vec<u8>, Vec<u64>>,
    /// Whether a pass moves the derived structures on before each command.
    passes: bool,
    /// Whether to hold the replica against the queue after each command.
    compares: bool,
    /// Whether others wait for every lock.
    queued: bool,
}

impl Bench {
    /// An empty queue at the start of a story.
    fn new(passes: bool) -> Self {
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
    fn now(&self) -> Now {
        Now {
            wall_us: self.wall_us,
            mono_us: self.mono_us,
        }
    }

    /// Lets time pass until `ms` after the start of the story.
    fn until(&mut self, ms: f64) {
        let mono_us = START_MONO_MS * 1000 + (ms * 1000.0).round() as u64;
        assert!(mono_us >= self.mono_us, "time only passes: {ms}");
        self.wall_us += mono_us - self.mono_us;
        self.mono_us = mono_us;
    }

    /// Moves derived structures on to now.
    fn advance(&mut self) {
        let now = self.now();
        assert!(self.queue.advance(&now, &mut || true));
    }

    /// Carries an effect out, here and on the replica.
    fn carry(&mut self, effect: &Effect<'_>) {
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

    /// Holds the replica against the queue.
    fn compare(&self) {
        if self.compares {
            self.queue.check();
            self.replica.check();
            assert_eq!(digest(&self.queue), digest(&self.replica));
        }
    }

    /// Saves the queue, and goes on with one loaded from that.
    fn reload(&mut self) {
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
    fn view(&self, id: &str) -> Option<OrderView<'_>> {
        self.queue.view(&self.now(), id.as_bytes())
    }

    /// State word of an order.
    fn state(&self, id: &[u8]) -> State {
        self.queue
            .view(&self.now(), id)
            .map_or(State::Missing, |view| view.state)
    }

    /// Where a wall moment lies in the story.
    fn at(wall: WallMs) -> String {
        format!("{:+}", wall.0 as i64 - START_MS as i64)
    }

    /// Carries a decision out and says what came of it:
    /// `outcome state-met>state-after`, or `outcome state` where nothing changed.
    fn finish(&mut self, id: &[u8], decision: Result<Decision<'_>, Error>) -> String {
        let decision = match decision {
            Ok(decision) => decision,
            Err(error) => return error.to_string(),
        };
        // P12: OK if and only if something is done; HELD aside.
        assert_eq!(
            matches!(decision.outcome, Outcome::Ok | Outcome::Held),
            decision.effect.is_some(),
            "{decision:?}"
        );
        assert_eq!(
            decision.was,
            self.state(id),
            "the state met is the one GET shows"
        );
        self.queue.note(decision.outcome);
        let Some(effect) = decision.effect else {
            return format!("{} {}", decision.outcome.word(), decision.was.word());
        };
        self.carry(&effect);
        format!(
            "{} {}>{}",
            decision.outcome.word(),
            decision.was.word(),
            self.state(id).word()
        )
    }

    /// Words of a command with the story's own spelled out: `''` nothing, `$a`
    /// the last fence of order a, `$a.1` its first, `@a` its rev, `T+5` the wall
    /// moment 5 ms into the story.
    fn words(&self, line: &str) -> Vec<Vec<u8>> {
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
    fn run(&mut self, line: &str) -> String {
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

    /// Does one command of a client.
    fn command(&mut self, name: &[u8], rest: &[Vec<u8>]) -> String {
        let full = [b"order.".as_slice(), &name.to_ascii_lowercase()].concat();
        let verb = Verb::ALL
            .into_iter()
            .find(|verb| verb.command().as_bytes() == full)
            .expect("a command");
        let mut args: Vec<&[u8]> = vec![&full, b"queue"];
        args.extend(rest.iter().map(Vec::as_slice));
        let limits = Limits {
            lease_ms_max: self.defaults.lease_ms_max,
            payload_bytes_max: 4 << 20,
        };
        let request = match parse(verb, &args, &limits) {
            Ok(request) => request,
            Err(error) => return error.to_string(),
        };
        self.ask(&request)
    }

    /// Does one request.
    fn ask(&mut self, request: &Request<'_>) -> String {
        let now = self.now();
        let mut numbers = self.numbers;
        let defaults = self.defaults.clone();
        let mut env = Env {
            now,
            numbers: &mut numbers,
            defaults: &defaults,
        };
        let before = if self.compares {
            digest(&self.queue)
        } else {
            Vec::new()
        };
        let (id, decision) = match request {
            Request::Schedule(ask) => (ask.id, self.queue.decide_schedule(&mut env, ask)),
            Request::Finish(ask) => (ask.id, self.queue.decide_finish(&mut env, ask)),
            Request::Status(ask) => (ask.id, self.queue.decide_status(&mut env, ask)),
            Request::Ack(ask) => (ask.id, self.queue.decide_ack(&mut env, ask)),
            Request::Nack(ask) => (ask.id, self.queue.decide_nack(&mut env, ask)),
            Request::Renew(ask) => (ask.id, self.queue.decide_renew(&mut env, ask)),
            Request::Lock(ask) => (ask.id, self.queue.decide_lock(&mut env, ask, self.queued)),
            Request::Unlock(ask) => (ask.id, self.queue.decide_unlock(&mut env, ask)),
            Request::Break(ask) => (ask.id, self.queue.decide_break(&mut env, ask)),
            Request::Claim(ask) => {
                self.queue.advance(&now, &mut || true);
                let claimed = match self.queue.decide_claim(&mut env, ask) {
                    Ok(claimed) => claimed,
                    Err(error) => return error.to_string(),
                };
                assert_eq!(claimed.effect.is_some(), !claimed.picks.is_empty());
                if self.compares {
                    assert_eq!(before, digest(&self.queue), "deciding is no write");
                }
                self.numbers = numbers;
                let Some(effect) = claimed.effect else {
                    return "-".into();
                };
                let Effect::Claim { grants, .. } = &effect else {
                    panic!("{effect:?}")
                };
                assert_eq!(grants.len(), claimed.picks.len());
                let mut said = String::new();
                for (granted, i) in grants.iter().zip(&claimed.picks) {
                    let view = self.queue.view_at(&now, *i).unwrap();
                    assert_eq!((view.id, view.state), (&*granted.id, State::Expired));
                    let _ = write!(said, "{}#{} ", granted.id.escape_ascii(), granted.attempt);
                    self.fences
                        .entry(granted.id.to_vec())
                        .or_default()
                        .push(granted.fence);
                }
                self.carry(&effect);
                return said.trim_end().to_owned();
            }
            Request::Get { id } => return self.get(id),
            Request::Pttl { id } => {
                return match self.queue.view(&now, id) {
                    None => "-2".into(),
                    Some(OrderView { deadline: None, .. }) => "-1".into(),
                    Some(OrderView {
                        deadline: Some(deadline),
                        ..
                    }) => deadline.0.saturating_sub(now.wall_ms().0).to_string(),
                };
            }
            Request::Next { count } => {
                let rows = self.queue.next(&now, *count as usize);
                let rows: Vec<String> = rows
                    .iter()
                    .map(|(id, deadline)| format!("{}{}", id.escape_ascii(), Self::at(*deadline)))
                    .collect();
                return if rows.is_empty() {
                    "-".into()
                } else {
                    rows.join(" ")
                };
            }
            Request::Scan(ask) => {
                let pattern = ask.pattern.unwrap_or(b"*");
                let (cursor, rows) = self.queue.scan(&now, ask, &|id| glob::matches(pattern, id));
                let mut said = cursor.to_string();
                for row in rows {
                    let _ = write!(said, " {}:{}", row.id.escape_ascii(), row.state.word());
                }
                return said;
            }
            Request::Config(Configure::Get(only)) => {
                let settings = match self.queue.settings(&defaults, *only) {
                    Ok(settings) => settings,
                    Err(error) => return error.to_string(),
                };
                let each: Vec<String> = settings
                    .iter()
                    .map(|(name, value)| format!("{name}={}", value.escape_ascii()))
                    .collect();
                return each.join(" ");
            }
            Request::Config(ask) => {
                let effects = match self.queue.decide_configure(ask) {
                    Ok(effects) => effects,
                    Err(error) => return error.to_string(),
                };
                return self.carry_all(&effects);
            }
            Request::Pause(ask) => {
                let effect = self.queue.decide_pause(&env, ask);
                return self.carry_all(&[effect]);
            }
            Request::Resume => {
                let effects: Vec<Effect<'_>> = self.queue.decide_resume().into_iter().collect();
                return self.carry_all(&effects);
            }
            Request::Requeue { count } => {
                self.queue.advance(&now, &mut || true);
                return match self.queue.decide_requeue(&mut env, *count as usize) {
                    Ok(swept) => self.sweep(&swept),
                    Err(error) => error.to_string(),
                };
            }
            Request::Purge(ask) => {
                self.queue.advance(&now, &mut || true);
                let pattern = ask.pattern.unwrap_or(b"*");
                let swept = self
                    .queue
                    .decide_purge(&now, ask, &|id| glob::matches(pattern, id));
                self.queue.purge_on(&swept);
                return self.sweep(&swept);
            }
            Request::Mack(_) | Request::Stats | Request::Apply(_) => {
                panic!("not for stories: {request:?}")
            }
        };
        let said = self.finish(id, decision);
        self.numbers = numbers;
        let lease = self
            .queue
            .view(&now, id)
            .map(|view| (view.fence, view.lease_ms, view.holds));
        if said.starts_with("HELD") {
            let (_, left, holds) = lease.unwrap();
            return format!("HELD {} x{holds}", left.unwrap());
        }
        if said.starts_with("OK") {
            match request {
                Request::Renew(_) => {
                    let left = lease.and_then(|(_, left, _)| left);
                    return format!("OK {}", left.map_or(-2, |left| left as i64));
                }
                Request::Lock(_) => {
                    let (fence, _, holds) = lease.unwrap();
                    assert_eq!(holds, 1);
                    self.fences.entry(id.to_vec()).or_default().push(fence);
                }
                _ => {}
            }
        } else if self.compares {
            assert_eq!(before, digest(&self.queue), "a refusal is no write");
        }
        said
    }

    /// Carries effects out one after the other: `done`, or `-` if there are none.
    fn carry_all(&mut self, effects: &[Effect<'_>]) -> String {
        for effect in effects {
            self.carry(effect);
        }
        if effects.is_empty() { "-" } else { "done" }.into()
    }

    /// Carries out what was decided on many orders: their ids, or `-`, and how
    /// many are left.
    fn sweep(&mut self, swept: &Swept) -> String {
        let mut said = String::new();
        if let Some(effect) = &swept.effect {
            self.carry(effect);
            let (Effect::Forget { ids } | Effect::Requeue { ids, .. }) = effect else {
                panic!("{effect:?}")
            };
            assert_eq!(ids.len() as u64, swept.done);
            for id in ids {
                let _ = write!(said, "{} ", id.escape_ascii());
            }
        } else {
            assert_eq!(swept.done, 0, "P12");
            said.push_str("- ");
        }
        let _ = write!(said, "left:{}", swept.left);
        said
    }

    /// The order as it stands, in one line.
    fn get(&self, id: &[u8]) -> String {
        let Some(view) = self.queue.view(&self.now(), id) else {
            return "null".into();
        };
        let mut said = view.state.word().to_owned();
        let mut add = |name: &str, text: String| {
            let _ = write!(said, " {name}{text}");
        };
        if let Some(deadline) = view.deadline {
            add("", Self::at(deadline));
        }
        if !view.status.is_empty() {
            add("status:", view.status.escape_ascii().to_string());
        }
        if view.attempt > 0 {
            add("#", view.attempt.to_string());
        }
        if let Some(owner) = view.owner {
            add("owner:", owner.escape_ascii().to_string());
        }
        if let Some(lease_ms) = view.lease_ms {
            add("lease:", lease_ms.to_string());
        }
        if view.holds > 1 {
            add("x", view.holds.to_string());
        }
        if let Some(at) = view.retry_at {
            add("retry:", Self::at(at));
        }
        if let Some(at) = view.keep_end {
            add("keep:", Self::at(at));
        }
        if let Some(at) = view.finished_at {
            add("at:", Self::at(at));
        }
        if let Some(deadline) = view.finished_deadline {
            add("of:", Self::at(deadline));
        }
        for (name, text) in [
            ("payload:", view.payload),
            ("result:", view.result),
            ("error:", view.error),
        ] {
            if let Some(text) = text {
                add(name, text.escape_ascii().to_string());
            }
        }
        said
    }

    /// Announcements in one line.
    fn announcements(list: &[Announcement]) -> String {
        let each: Vec<String> = list
            .iter()
            .map(|one| {
                let name = one
                    .kind
                    .name()
                    .to_str()
                    .unwrap()
                    .trim_start_matches("order.")
                    .to_owned();
                format!("{name}:{}", one.id.escape_ascii())
            })
            .collect();
        if each.is_empty() {
            "-".into()
        } else {
            each.join(" ")
        }
    }

    /// What there is no command for: passes, clocks, what the shell asks.
    fn direct(&mut self, name: &str, rest: &[&str]) -> String {
        let now = self.now();
        let number = |n: usize| rest.get(n).map_or(0, |text| text.parse::<u64>().unwrap());
        let text = |n: usize| Bytes::of(rest.get(n).copied().unwrap_or("").as_bytes());
        match name {
            // waiting, nobody: whether others stand in line for every lock.
            "waiting" | "nobody" => {
                self.queued = name == "waiting";
                "done".into()
            }
            // waiter ID, waiter ID FP: what one who waits for a lock is told.
            "waiter" => {
                let fp = rest.get(1).map(|fp| fp.as_bytes());
                let told = self.queue.lock_waiter_outcome(&now, &text(0), fp);
                told.map_or("waits", Outcome::word).into()
            }
            // lock-wake ID: when one who waits for a lock is looked at again.
            "lock-wake" => match self.queue.lock_wake(&now, &text(0)) {
                u64::MAX => "never".into(),
                at => Self::at(WallMs(at)),
            },
            // lapsed: whether a lease has lapsed since the last time it was asked.
            "lapsed" => {
                self.advance();
                self.queue.take_lapsed().to_string()
            }
            // wall +MS, wall -MS: somebody sets the clock.
            "wall" => {
                let ms: i64 = rest[0].parse().unwrap();
                self.wall_us = self.wall_us.checked_add_signed(ms * 1000).unwrap();
                "done".into()
            }
            // pass, pass N: what the scheduler does, with at most N announcements.
            "pass" => {
                self.advance();
                let mut list = Vec::new();
                let max = if rest.is_empty() {
                    usize::MAX
                } else {
                    number(0) as usize
                };
                self.queue.announce(&now, max, &mut list);
                Self::announcements(&list)
            }
            "promote" => {
                self.queue.announce_again();
                "done".into()
            }
            "forget" => {
                self.advance();
                let max = if rest.is_empty() {
                    100
                } else {
                    number(0) as usize
                };
                match self.queue.due_forget(&now, &self.defaults.clone(), max) {
                    None => "-".into(),
                    Some(effect) => {
                        self.carry(&effect);
                        match &effect {
                            Effect::Forget { ids } => {
                                let ids: Vec<String> =
                                    ids.iter().map(|id| id.escape_ascii().to_string()).collect();
                                ids.join(" ")
                            }
                            Effect::Pause { on: false, .. } => "resumed".into(),
                            other => panic!("{other:?}"),
                        }
                    }
                }
            }
            "reload" => {
                self.reload();
                "done".into()
            }
            "claimable" => {
                self.advance();
                self.queue.claimable(&now, &self.defaults).to_string()
            }
            "wake" => {
                let wake = self.queue.next_wake(&now, Duty::All);
                wake.map_or("never".into(), |wake| {
                    if wake <= now.wall_ms() {
                        "now".into()
                    } else {
                        Self::at(wake)
                    }
                })
            }
            other => panic!("{other}?"),
        }
    }

    /// Value of a whole-number field of STATS.
    fn stat(&self, name: &str) -> i64 {
        let stats = self.queue.stats(&self.now(), &self.defaults, (0, 0));
        match stats.iter().find(|(field, _)| *field == name) {
            Some((_, StatValue::Int(value))) => *value,
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// One row per moment: milliseconds into the story, command, expected line.
type Row<'r> = (f64, &'r str, &'r str);

/// Tells a story twice, with and without a pass before each command.
#[track_caller]
fn story(rows: &[Row<'_>]) {
    for passes in [false, true] {
        let mut bench = Bench::new(passes);
        tell(&mut bench, rows);
    }
}

/// Tells a story on a bench.
#[track_caller]
fn tell(bench: &mut Bench, rows: &[Row<'_>]) {
    for (ms, line, expected) in rows {
        bench.until(*ms);
        let said = bench.run(line);
        assert_eq!(
            said, *expected,
            "at {ms} ms: {line} (passes: {})",
            bench.passes
        );
    }
}
