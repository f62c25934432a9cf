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
use super::effect::{
    AfterTry, Bytes, Effect, Ended, Granted, LeaseKind, Whole, WholeGrant, WholeLife, WholePhase,
};
use super::number::{FOREIGN_AHEAD_US_MAX, NUMBER_END, Numbers};
use super::outcome::{Announcement, Decision, Outcome};
use super::queue::{Duty, Queue};
use super::settings::{Defaults, Setting};
use super::view::{OrderView, StatValue};
use crate::codec;
use crate::error::Error;
use crate::request::{Configure, Limits, Request, Scan, Verb, parse};
use crate::words::glob;
use crate::words::state::State;
use crate::words::time::{Now, WALL_MS_MAX, WallMs};

mod endings;
mod lengths;
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

// --------------------------------------------------- every command, every state

#[path = "../../tests/support/states.rs"]
mod page;

/// How the order `x` comes into the state of a row, and the state word.
fn way_into(row: &str) -> (&'static [(f64, &'static str)], State) {
    match row {
        "missing" => (&[], State::Missing),
        "reserved, lock live" => (&[(0.0, "LOCK x me PX 10000")], State::Reserved),
        "scheduled, never leased" => (
            &[(0.0, "SCHEDULE x PX 60000 STATUS unpaid")],
            State::Scheduled,
        ),
        "expired, never leased" => (
            &[(0.0, "SCHEDULE x PX 1000 STATUS unpaid"), (2000.0, "GET x")],
            State::Expired,
        ),
        "leased by claim" => (
            &[
                (0.0, "SCHEDULE x PX 1000 STATUS unpaid"),
                (2000.0, "CLAIM me PX 10000"),
            ],
            State::Leased,
        ),
        "leased by lock, deadline ahead" => (
            &[
                (0.0, "SCHEDULE x PX 60000 STATUS unpaid"),
                (1.0, "LOCK x me PX 10000"),
            ],
            State::Leased,
        ),
        "leased by lock, deadline passed" => (
            &[
                (0.0, "SCHEDULE x PX 1000 STATUS unpaid"),
                (1.0, "LOCK x me PX 10000"),
                (2000.0, "GET x"),
            ],
            State::Leased,
        ),
        "lock lapsed, deadline ahead" => (
            &[
                (0.0, "SCHEDULE x PX 60000 STATUS unpaid"),
                (1.0, "LOCK x me PX 1000"),
                (2000.0, "GET x"),
            ],
            State::Scheduled,
        ),
        "claim lapsed, not regranted" => (
            &[
                (0.0, "SCHEDULE x PX 1000 STATUS unpaid"),
                (2000.0, "CLAIM me PX 1000"),
                (3500.0, "GET x"),
            ],
            State::Expired,
        ),
        "lock lapsed, deadline passed, not regranted" => (
            &[
                (0.0, "SCHEDULE x PX 1000 STATUS unpaid"),
                (1.0, "LOCK x me PX 2000"),
                (3500.0, "GET x"),
            ],
            State::Expired,
        ),
        "lapsed on its last attempt" => (
            &[
                (0.0, "CONFIG SET max-attempts 1"),
                (0.0, "SCHEDULE x PX 1000 STATUS unpaid"),
                (2000.0, "CLAIM me PX 1000"),
                (3500.0, "GET x"),
            ],
            State::Dead,
        ),
        "reserved, lock lapsed" => (
            &[(0.0, "LOCK x me PX 1000"), (2000.0, "GET x")],
            State::Missing,
        ),
        "retrying" => (
            &[
                (0.0, "SCHEDULE x PX 1000 STATUS unpaid"),
                (2000.0, "CLAIM me"),
                (2001.0, "NACK x $x DELAY 60000"),
                (3000.0, "GET x"),
            ],
            State::Retrying,
        ),
        "dead by NACK" => (
            &[
                (0.0, "SCHEDULE x PX 1000 STATUS unpaid"),
                (2000.0, "CLAIM me"),
                (2001.0, "NACK x $x DEAD"),
                (3000.0, "GET x"),
            ],
            State::Dead,
        ),
        "finished" => (
            &[
                (0.0, "SCHEDULE x PX 1000 STATUS unpaid"),
                (500.0, "FINISH x STATUS paid"),
                (2000.0, "GET x"),
            ],
            State::Finished,
        ),
        "finished, keep time over, not yet removed" => (
            &[
                (0.0, "SCHEDULE x PX 1000 STATUS unpaid"),
                (500.0, "FINISH x STATUS paid KEEP 100"),
                (2000.0, "GET x"),
            ],
            State::Missing,
        ),
        other => panic!("no such row: {other}"),
    }
}

/// The commands of a column. `last` is the fence of the last grant.
fn commands_of(column: &str, last: u64) -> Vec<String> {
    let others = [last + 1, last - 1, 0];
    let with_others = |command: &str| {
        others
            .map(|other| command.replace("OTHER", &other.to_string()))
            .to_vec()
    };
    let one = |command: &str| vec![command.replace("LAST", &last.to_string())];
    match column {
        "SCHEDULE" => vec![
            "SCHEDULE x PX 5000".into(),
            "SCHEDULE x PX 0 NX STATUS s".into(),
        ],
        "SCHEDULE XX" => vec![
            "SCHEDULE x PX 5000 XX".into(),
            "SCHEDULE x PX 0 XX STATUS s PAYLOAD p".into(),
        ],
        "SCHEDULE UPSERT" => vec![
            "SCHEDULE x PX 5000 UPSERT".into(),
            "SCHEDULE x PX 0 UPSERT".into(),
        ],
        "SCHEDULE XX FROM its status" => vec![
            "SCHEDULE x PX 5000 XX FROM unpaid FROM paid FROM ''".into(),
            "SCHEDULE x PX 5000 FROM unpaid FROM paid FROM ''".into(),
        ],
        "SCHEDULE XX FENCE last" => [
            "SCHEDULE x PX 5000 XX FENCE LAST",
            "SCHEDULE x PX 0 FENCE LAST",
        ]
        .iter()
        .flat_map(|c| one(c))
        .collect(),
        "SCHEDULE UPSERT FROM its status" => {
            vec!["SCHEDULE x PX 5000 UPSERT FROM unpaid FROM paid FROM ''".into()]
        }
        "SCHEDULE XX FENCE other" => with_others("SCHEDULE x PX 5000 XX FENCE OTHER"),
        "FINISH" => vec![
            "FINISH x".into(),
            "FINISH x STATUS paid RESULT r KEEP 5000".into(),
        ],
        "FINISH STRICT" => vec!["FINISH x STRICT".into()],
        "FINISH CREATE" => vec!["FINISH x CREATE STATUS paid".into()],
        "FINISH FENCE last" => one("FINISH x FENCE LAST STATUS paid"),
        "FINISH FENCE other" => with_others("FINISH x FENCE OTHER"),
        "CLAIM" => vec![
            "CLAIM you COUNT 10".into(),
            "CLAIM you ID x".into(),
            "CLAIM you PX 500".into(),
        ],
        "ACK last" => one("ACK x LAST STATUS closed RESULT r"),
        "ACK other" => with_others("ACK x OTHER"),
        "NACK last" => [
            "NACK x LAST",
            "NACK x LAST DELAY 0 ERROR e",
            "NACK x LAST DELAY 500",
            "NACK x LAST DEAD",
        ]
        .iter()
        .flat_map(|c| one(c))
        .collect(),
        "NACK UNTRIED last" => [
            "NACK x LAST UNTRIED",
            "NACK x LAST UNTRIED DELAY 0 ERROR e",
            "NACK x LAST DELAY 500 UNTRIED",
        ]
        .iter()
        .flat_map(|c| one(c))
        .collect(),
        "NACK other" => with_others("NACK x OTHER DELAY 0"),
        "RENEW last" => ["RENEW x LAST PX 20000", "RENEW x LAST PX 500 LT"]
            .iter()
            .flat_map(|c| one(c))
            .collect(),
        "RENEW other" => with_others("RENEW x OTHER PX 20000"),
        "LOCK other owner" => vec![
            "LOCK x you PX 5000".into(),
            "LOCK x you EX 5 REENTRANT MAX 9000 FP f BLOCK 5".into(),
        ],
        "LOCK same owner" => vec![
            "LOCK x me PX 5000".into(),
            "LOCK x me PX 5000 REENTRANT MAX 9000 FP f BLOCK 5".into(),
        ],
        "UNLOCK last" => one("UNLOCK x LAST"),
        "UNLOCK other" => with_others("UNLOCK x OTHER"),
        "BREAK" => ["BREAK x", "BREAK x LAST"]
            .iter()
            .flat_map(|c| one(c))
            .collect(),
        "REQUEUE" => vec!["REQUEUE".into(), "REQUEUE COUNT 1".into()],
        "PURGE" => State::LISTED
            .map(|state| format!("PURGE STATE {}", state.word()))
            .to_vec(),
        "STATUS" => vec!["STATUS x s".into()],
        "STATUS FENCE last" => one("STATUS x s FENCE LAST"),
        "BREAK other" => with_others("BREAK x OTHER"),
        "GET" => vec!["GET x".into()],
        "PTTL" => vec!["PTTL x".into()],
        "NEXT" => vec!["NEXT COUNT 10".into()],
        "SCAN state" => vec!["SCAN 0 COUNT 1000".into()],
        other => panic!("no such column: {other}"),
    }
}

/// Holds one answer against one cell.
fn check_cell(
    bench: &mut Bench,
    what: &str,
    command: &str,
    cell: &str,
    was: State,
    last: u64,
) -> Digest {
    let before = digest(&bench.queue);
    let said = bench.run(command);
    let after = digest(&bench.queue);
    let word = page::word(cell);
    let is = |expected: &str| assert_eq!(said, expected, "{what}");
    match word {
        _ if command.starts_with("REQUEUE") || command.starts_with("PURGE") => {
            // PURGE of each state: only that of the order counts.
            let asked = command.strip_prefix("PURGE STATE ");
            let concerned = asked.is_none_or(|state| state == was.word());
            is(match word {
                "yes" if concerned => "x left:0",
                "no" if concerned => "- left:1",
                _ => "- left:0",
            });
        }
        "–" if command.starts_with("SCAN") => is("0"),
        "–" | "no" => is("-"),
        "null" | "0" | "-1" | "-2" => is(word),
        "absent" => is("0"),
        "map" => assert!(said.starts_with(was.word()), "{what}: {said}"),
        "ms" => {
            let left = bench.view("x").unwrap().deadline.unwrap().0 - bench.now().wall_ms().0;
            is(&left.to_string());
        }
        "yes" => assert!(said.starts_with("x+"), "{what}: {said}"),
        "granted" => {
            assert!(said.starts_with("x#"), "{what}: {said}");
            assert_eq!(bench.state(b"x"), State::Leased, "{what}");
        }
        "OK" if command.starts_with("RENEW") => assert!(said.starts_with("OK "), "{what}: {said}"),
        // Held more than once: see the stories of locks.
        "HELD" => assert!(said.starts_with("HELD "), "{what}: {said}"),
        "OK" => assert!(
            said.starts_with(&format!("OK {}>", was.word())),
            "{what}: {said}"
        ),
        _ if command.starts_with("SCAN") => is(&format!("0 x:{word}")),
        _ => is(&format!("{word} {}", was.word())),
    }
    let changes = matches!(word, "OK" | "granted") || (word == "yes" && said == "x left:0");
    if word != "HELD" {
        assert_eq!(before != after, changes, "{what}: P12");
    }
    let state = bench.state(b"x");
    let fence = bench.view("x").map_or(0, |view| view.fence);
    let attempt = bench.view("x").map_or(0, |view| view.attempt);
    if word == "HELD" {
        assert_eq!((state, fence), (was, last), "{what}");
    }
    if command.starts_with("LOCK") && word == "OK" {
        assert!(fence > 0 && fence != last, "{what}: {fence}");
    }
    if command.starts_with("PURGE") && changes {
        assert_eq!(state, State::Missing, "{what}");
    }
    if cell.contains("then EXPIRED") {
        assert_eq!(bench.run("waiter x"), "EXPIRED", "{what}");
    }
    if cell.contains("new fence") && was != State::Missing {
        assert!(fence > last, "{what}: {fence}");
    }
    if cell.contains("a failed try") {
        assert_eq!((state, fence, attempt), (State::Expired, 0, 1), "{what}");
    }
    if cell.contains("untried") {
        let back = matches!(state, State::Expired | State::Retrying);
        assert_eq!((back, fence, attempt), (true, 0, 0), "{what}");
    }
    if cell.contains("attempt 0") {
        assert_eq!((state, fence, attempt), (State::Expired, 0, 0), "{what}");
    }
    if cell.contains("reopened") {
        assert_eq!(state, State::Scheduled, "{what}");
    }
    if cell.contains("claim ends") {
        assert!(
            matches!(state, State::Scheduled | State::Expired) && fence == 0,
            "{what}: {state:?} {fence}"
        );
    }
    if cell.contains("lock stays") {
        assert_eq!((state, fence), (State::Leased, last), "{what}");
    }
    if cell.contains("ends it") {
        assert_eq!((state, fence), (State::Finished, 0), "{what}");
    }
    if cell.contains("stays dead") {
        assert_eq!((state, fence), (State::Dead, 0), "{what}");
    }
    after
}

/// Holds every cell of a table against the core.
fn check_table(table: &[Vec<&str>]) -> usize {
    let (head, rows) = table.split_first().unwrap();
    let mut cells = 0;
    for line in rows {
        let row = line[0];
        assert_eq!(line.len(), head.len(), "{row}: as many cells as columns");
        for (column, cell) in head.iter().zip(line).skip(1) {
            let (way, was) = way_into(row);
            let last = |bench: &Bench| {
                bench
                    .fences
                    .get(b"x".as_slice())
                    .and_then(|f| f.last())
                    .copied()
            };
            for command in commands_of(column, 1_234_567_890) {
                let mut digests = Vec::new();
                for passes in [false, true] {
                    let mut bench = Bench::new(passes);
                    for (ms, command) in way {
                        bench.until(*ms);
                        bench.run(command);
                    }
                    assert_eq!(bench.state(b"x"), was, "{row}");
                    let fence = last(&bench).unwrap_or(1_234_567_890);
                    // NEXT lists what stands in the wheel, so a pass comes first.
                    if *column == "NEXT" {
                        bench.advance();
                    }
                    let command = command
                        .replace("1234567890", &fence.to_string())
                        .replace("1234567891", &(fence + 1).to_string())
                        .replace("1234567889", &(fence - 1).to_string());
                    let what = format!("{row} | {column} | {command} | passes: {passes}");
                    digests.push(check_cell(&mut bench, &what, &command, cell, was, fence));
                    cells += 1;
                }
                assert_eq!(
                    digests.first(),
                    digests.last(),
                    "{row} | {column}: a pass is no write"
                );
            }
        }
    }
    cells
}

#[test]
fn every_command_answers_as_the_table_says_in_every_state() {
    let tables = page::tables();
    let rows: Vec<usize> = tables.iter().map(|table| table.len() - 1).collect();
    assert_eq!(
        rows, [16; 5],
        "docs/states.md has five tables of all states"
    );
    let columns: usize = tables.iter().map(|table| table[0].len() - 1).sum();
    let answers: usize = tables.iter().map(|table| check_table(table)).sum();
    assert!(answers > columns * 16 * 2, "{answers} answers");
}

#[test]
fn a_failed_last_try_is_dead_whatever_nack_asks_for() {
    for nack in [
        "NACK x $x",
        "NACK x $x DELAY 0",
        "NACK x $x DELAY 5000",
        "NACK x $x DEAD",
    ] {
        story(&[
            (0.0, "CONFIG SET max-attempts 1", "done"),
            (0.0, "SCHEDULE x PX 0", "OK missing>expired"),
            (0.0, "CLAIM me", "x#1"),
            (1.0, nack, "OK leased>dead"),
            (100_000.0, "CLAIM me", "-"),
        ]);
    }
}

// --------------------------------------------------------------------- deadlines

#[test]
fn nothing_is_handed_out_before_its_deadline_and_everything_at_it() {
    story(&[
        (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (99.999, "CLAIM me", "-"),
        (99.999, "CLAIM me ID a", "-"),
        (99.999, "claimable", "false"),
        (99.999, "pass", "-"),
        (99.999, "PTTL a", "1"),
        (100.0, "claimable", "true"),
        (100.0, "PTTL a", "0"),
        (100.0, "FINISH a STRICT", "EXPIRED expired"),
        (100.0, "CLAIM me", "a#1"),
    ]);
    story(&[
        (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (
            99.999,
            "FINISH a STRICT STATUS paid",
            "OK scheduled>finished",
        ),
        (100.0, "CLAIM me", "-"),
        (100.0, "pass", "-"),
    ]);
}

#[test]
fn a_relative_deadline_counts_from_the_next_full_millisecond() {
    story(&[
        (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (0.0, "GET a", "scheduled +100"),
        (0.001, "SCHEDULE b PX 100", "OK missing>scheduled"),
        (0.001, "GET b", "scheduled +101"),
        (0.999, "SCHEDULE c EX 1", "OK missing>scheduled"),
        (0.999, "GET c", "scheduled +1001"),
        (100.999, "CLAIM me COUNT 9", "a#1"),
        (101.0, "CLAIM me COUNT 9", "b#1"),
        (1000.999, "CLAIM me ID c", "-"),
        (1001.0, "CLAIM me ID c", "c#1"),
    ]);
}

#[test]
fn px_0_is_due_at_once_and_a_past_deadline_is_stored_as_given() {
    story(&[
        (0.7, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.7, "GET a", "expired +0"),
        (0.7, "CLAIM me", "a#1"),
        (0.7, "SCHEDULE b PXAT T-5000", "OK missing>expired"),
        (0.7, "GET b", "expired -5000"),
        (0.7, "SCHEDULE c EXAT 0", "OK missing>expired"),
        (0.7, "CLAIM me COUNT 9", "b#1 c#1"),
        (0.7, "NEXT COUNT 9", "-"),
    ]);
}

#[test]
fn deadlines_reach_to_the_end_of_the_year_9999_and_no_further() {
    let mut bench = Bench::new(false);
    let left = WALL_MS_MAX.0 - START_MS;
    assert_eq!(
        bench.run(&format!("SCHEDULE a PX {left}")),
        "OK missing>scheduled"
    );
    assert_eq!(bench.view("a").unwrap().deadline, Some(WALL_MS_MAX));
    let said = bench.run(&format!("SCHEDULE b PX {}", left + 1));
    assert_eq!(said, Error::DeadlineTooFar.to_string());
    assert_eq!(bench.run("GET b"), "null");
    bench.until(0.5);
    let said = bench.run(&format!("SCHEDULE b PX {left}"));
    assert_eq!(
        said,
        Error::DeadlineTooFar.to_string(),
        "the start is rounded up, and the sum counts"
    );
    assert_eq!(
        bench.run(&format!("SCHEDULE b PXAT {}", WALL_MS_MAX.0)),
        "OK missing>scheduled"
    );
}

#[test]
fn gt_and_lt_are_strict_and_only_where_there_is_a_deadline() {
    story(&[
        (0.0, "SCHEDULE a PX 100 UPSERT GT", "OK missing>scheduled"),
        (0.0, "SCHEDULE a PX 100 GT", "UNCHANGED scheduled"),
        (0.0, "SCHEDULE a PX 99 GT", "UNCHANGED scheduled"),
        (0.0, "SCHEDULE a PX 101 GT", "OK scheduled>scheduled"),
        (0.0, "SCHEDULE a PX 101 LT", "UNCHANGED scheduled"),
        (0.0, "SCHEDULE a PX 102 LT UPSERT", "UNCHANGED scheduled"),
        (0.0, "SCHEDULE a PX 50 LT", "OK scheduled>scheduled"),
        (0.0, "GET a", "scheduled +50"),
        (0.0, "SCHEDULE b PX 50 LT", "MISSING missing"),
        (0.0, "FINISH a STATUS paid", "OK scheduled>finished"),
        (0.0, "SCHEDULE a PX 10 LT", "FINISHED finished"),
        (
            0.0,
            "SCHEDULE a PX 10 LT FROM paid",
            "OK finished>scheduled",
        ),
    ]);
}

// ------------------------------------------------------------------------ leases

#[test]
fn a_lease_ends_at_its_millisecond() {
    story(&[
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (10.0, "CLAIM me PX 1000", "a#1"),
        (10.0, "GET a", "leased +0 #1 owner:me lease:1000"),
        (1009.999, "GET a", "leased +0 #1 owner:me lease:1"),
        (1009.999, "CLAIM you", "-"),
        (1009.999, "FINISH a", "LEASED leased"),
        (1010.0, "GET a", "expired +0 #1 owner:me"),
        (1010.0, "CLAIM you", "a#2"),
        (1010.0, "ACK a $a.1", "STALE leased"),
        (1010.0, "NACK a $a.1", "STALE leased"),
        (1010.0, "RENEW a $a.1 PX 1000", "STALE leased"),
        (1010.0, "ACK a $a", "OK leased>finished"),
    ]);
    story(&[
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (10.5, "CLAIM me PX 1000", "a#1"),
        (1010.999, "CLAIM you", "-"),
        (1011.0, "CLAIM you", "a#2"),
    ]);
}

#[test]
fn a_renewal_lengthens_lt_shortens_and_none_passes_the_cap() {
    let mut bench = Bench::new(true);
    bench.defaults.lease_ms_max = 3000;
    tell(
        &mut bench,
        &[
            (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
            (0.0, "CLAIM me PX 1000", "a#1"),
            (500.0, "RENEW a $a PX 200", "OK 500"),
            (500.0, "RENEW a $a PX 1000", "OK 1000"),
            (500.0, "RENEW a $a PX 2000 LT", "OK 1000"),
            (500.0, "RENEW a $a PX 400 LT", "OK 400"),
            (899.0, "RENEW a $a PX 3000", "OK 2101"),
            (2999.0, "RENEW a $a PX 3000", "OK 1"),
            (3000.0, "RENEW a $a PX 3000", "GONE expired"),
            (3000.0, "CLAIM you", "a#2"),
            (3000.0, "RENEW a $a.1 PX 3000", "STALE leased"),
        ],
    );
}

#[test]
fn a_claim_without_a_lease_takes_the_queues_and_never_more_than_the_servers_most() {
    let mut bench = Bench::new(false);
    bench.defaults.lease_ms_max = 20_000;
    tell(
        &mut bench,
        &[
            (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
            (0.0, "SCHEDULE b PX 0", "OK missing>expired"),
            (0.0, "CLAIM me", "a#1"),
            (0.0, "GET a", "leased +0 #1 owner:me lease:20000"),
            (0.0, "CONFIG SET lease-ms 700", "done"),
            (0.0, "CLAIM me", "b#1"),
            (0.0, "GET b", "leased +0 #1 owner:me lease:700"),
        ],
    );
}

#[test]
fn the_last_fence_is_accepted_after_the_lapse_until_somebody_else_writes() {
    let start: [Row<'_>; 3] = [
        (0.0, "SCHEDULE a PX 0 STATUS unpaid", "OK missing>expired"),
        (0.0, "CLAIM me PX 1000", "a#1"),
        (5000.0, "GET a", "expired +0 status:unpaid #1 owner:me"),
    ];
    for (command, said) in [
        ("ACK a $a STATUS closed", "OK expired>finished"),
        ("FINISH a FENCE $a", "OK expired>finished"),
        ("NACK a $a DELAY 100", "OK expired>retrying"),
        ("SCHEDULE a PX 100 FENCE $a", "OK expired>scheduled"),
        ("STATUS a closing FENCE $a", "OK expired>expired"),
    ] {
        let mut rows = start.to_vec();
        rows.push((5000.0, command, said));
        story(&rows);
    }
    let mut rows = start.to_vec();
    rows.extend([
        (5000.0, "SCHEDULE a PX 0 XX", "OK expired>expired"),
        (5000.0, "ACK a $a", "STALE expired"),
        (5000.0, "FINISH a FENCE $a", "STALE expired"),
        (5000.0, "FINISH a", "OK expired>finished"),
        (5000.0, "ACK a $a", "FINISHED finished"),
    ]);
    story(&rows);
}

/// A STATUS of somebody else, after the lapse, is a write too. Once it was not taken
/// for one, and the late holder was still believed.
#[test]
fn a_status_set_by_somebody_else_ends_the_last_grant() {
    story(&[
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CLAIM me PX 1000", "a#1"),
        (5000.0, "STATUS a disputed", "OK expired>expired"),
        (5000.0, "ACK a $a", "STALE expired"),
        (5000.0, "CLAIM other", "a#2"),
    ]);
    // The holder's own write, by its fence, does not.
    story(&[
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CLAIM me PX 1000", "a#1"),
        (5000.0, "STATUS a checking FENCE $a", "OK expired>expired"),
        (5000.0, "ACK a $a", "OK expired>finished"),
    ]);
    // The same for a lock, while the deadline is ahead.
    story(&[
        (0.0, "SCHEDULE a PX 9000", "OK missing>scheduled"),
        (0.0, "LOCK a me PX 1000", "OK scheduled>leased"),
        (5000.0, "STATUS a disputed", "OK scheduled>scheduled"),
        (5000.0, "FINISH a FENCE $a", "STALE scheduled"),
        (5000.0, "NEXT", "a+9000"),
        (9000.0, "CLAIM other", "a#1"),
    ]);
    // An order that is dead by its lapse stays so.
    story(&[
        (0.0, "CONFIG SET max-attempts 1", "done"),
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CLAIM me PX 1000", "a#1"),
        (5000.0, "STATUS a disputed", "OK dead>dead"),
        (5000.0, "ACK a $a", "STALE dead"),
        (5000.0, "CLAIM other", "-"),
    ]);
}

#[test]
fn max_leased_limits_live_claims_and_a_lapse_makes_room() {
    story(&[
        (0.0, "CONFIG SET max-leased 2", "done"),
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE b PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE c PX 0", "OK missing>expired"),
        (0.0, "LOCK d me PX 100000", "OK missing>reserved"),
        (0.0, "CLAIM me COUNT 9 PX 1000", "a#1 b#1"),
        (0.0, "CLAIM me COUNT 9", "-"),
        (0.0, "CLAIM me ID c", "-"),
        (0.0, "claimable", "false"),
        (1.0, "NACK a $a DELAY 100000", "OK leased>retrying"),
        (1.0, "claimable", "true"),
        (1.0, "CLAIM me COUNT 9 PX 5000", "c#1"),
        (999.999, "CLAIM me COUNT 9", "-"),
        (1000.0, "CLAIM me COUNT 9", "b#2"),
        (1000.0, "CONFIG RESET max-leased", "done"),
        (1000.0, "SCHEDULE e PX 0", "OK missing>expired"),
        (1000.0, "CLAIM me ID e", "e#1"),
    ]);
}

#[test]
fn a_claim_hands_out_one_mebibyte_of_payload_at_most_but_always_one_order() {
    let mut bench = Bench::new(false);
    let schedule = |bench: &mut Bench, id: &str, bytes: usize| {
        let payload = if bytes == 0 {
            "''".into()
        } else {
            "p".repeat(bytes)
        };
        assert_eq!(
            bench.run(&format!("SCHEDULE {id} PX 0 PAYLOAD {payload}")),
            "OK missing>expired"
        );
    };
    for (id, bytes) in [
        ("a", CLAIM_BYTES_MAX / 2),
        ("b", CLAIM_BYTES_MAX / 2),
        ("c", 1),
        ("d", CLAIM_BYTES_MAX),
        ("e", 3 * CLAIM_BYTES_MAX),
        ("f", 0),
    ] {
        schedule(&mut bench, id, bytes);
    }
    assert_eq!(bench.run("CLAIM me COUNT 9"), "a#1 b#1");
    assert_eq!(bench.run("CLAIM me COUNT 9"), "c#1");
    assert_eq!(bench.run("CLAIM me COUNT 9"), "d#1");
    assert_eq!(bench.run("CLAIM me COUNT 9"), "e#1");
    assert_eq!(bench.run("CLAIM me COUNT 9"), "f#1");
    assert_eq!(bench.run("CLAIM me COUNT 9"), "-");
}

// ------------------------------------------------------------------------- tries

/// How long an order waits after each of its first nine tries. It is checked
/// that it waits as long as it says.
fn waits_of(id: &str, passes: bool) -> Vec<u64> {
    let mut bench = Bench::new(passes);
    let mut waits = Vec::new();
    bench.until(0.25);
    bench.run(&format!("SCHEDULE {id} PX 0"));
    for attempt in 1..=9 {
        assert_eq!(bench.run("CLAIM me"), format!("{id}#{attempt}"));
        assert_eq!(bench.run(&format!("NACK {id} ${id}")), "OK leased>retrying");
        let at = bench.view(id).unwrap().retry_at.unwrap().0;
        waits.push(at - bench.now().wall_ms_ceil().0);
        bench.until((at - START_MS) as f64 - 0.001);
        assert_eq!(bench.run("CLAIM me"), "-");
        assert_eq!(bench.state(id.as_bytes()), State::Retrying);
        bench.until((at - START_MS) as f64);
    }
    waits
}

#[test]
fn the_wait_doubles_with_each_try_up_to_its_most_give_or_take_a_tenth() {
    let ids = ["a", "b", "c", "d", "e"];
    let waits = ids.map(|id| waits_of(id, false));
    assert_eq!(waits, ids.map(|id| waits_of(id, true)));
    for attempt in 0..9 {
        let middle = (1_000 << attempt).min(60_000);
        let of_this = waits.each_ref().map(|waits| waits[attempt]);
        for wait in of_this {
            assert!(
                (middle * 9 / 10..=middle * 11 / 10).contains(&wait),
                "{attempt}: {wait}"
            );
        }
        let different: std::collections::BTreeSet<u64> = of_this.into_iter().collect();
        assert!(
            different.len() > 1,
            "orders that failed together come back apart"
        );
    }
}

#[test]
fn the_wait_never_overflows_however_many_tries() {
    let mut bench = Bench::new(true);
    bench.defaults.set(Setting::MaxAttempts, 0);
    bench.defaults.set(Setting::BackoffMs, 3);
    bench.run("SCHEDULE a PX 0");
    for attempt in 1..=200_u64 {
        assert_eq!(bench.run("CLAIM me"), format!("a#{attempt}"));
        bench.run("NACK a $a");
        let now = bench.now().wall_ms().0;
        let wait = bench.view("a").unwrap().retry_at.unwrap().0 - now;
        let middle = if attempt <= 15 {
            3 << (attempt - 1)
        } else {
            60_000
        }
        .min(60_000);
        assert!(
            (middle * 9 / 10..=middle * 11 / 10).contains(&wait),
            "{attempt}: {wait}"
        );
        bench.until((now + wait - START_MS) as f64);
    }
}

#[test]
fn the_last_allowed_try_that_fails_is_dead() {
    story(&[
        (0.0, "CONFIG SET max-attempts 2", "done"),
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CLAIM me", "a#1"),
        (0.0, "NACK a $a DELAY 10", "OK leased>retrying"),
        (9.999, "CLAIM me", "-"),
        (10.0, "CLAIM me PX 1000", "a#2"),
        (10.0, "NACK a $a ERROR boom", "OK leased>dead"),
        (10.0, "GET a", "dead +0 #2 error:boom"),
        (99_999.0, "CLAIM me", "-"),
        (99_999.0, "CLAIM me ID a", "-"),
        (99_999.0, "REQUEUE", "a left:0"),
        (99_999.0, "CLAIM me PX 1000", "a#1"),
        (100_999.0, "CLAIM me PX 1000", "a#2"),
        (
            101_998.999,
            "GET a",
            "leased +0 #2 owner:me lease:1 error:boom",
        ),
        (101_999.0, "GET a", "dead +0 #2 owner:me error:boom"),
        (101_999.0, "SCHEDULE a PX 0 XX", "OK dead>expired"),
        (
            101_999.0,
            "GET a",
            "expired +0".replace("+0", "+101999").as_str(),
        ),
        (101_999.0, "CLAIM me", "a#1"),
    ]);
}

#[test]
fn a_setting_changed_later_does_not_change_an_order_that_is_there() {
    story(&[
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CONFIG SET max-attempts 1", "done"),
        (0.0, "CLAIM me PX 1000", "a#1"),
        (0.0, "CONFIG SET max-attempts 9", "done"),
        (1000.0, "GET a", "dead +0 #1 owner:me"),
    ]);
}

// ------------------------------------------------------------------------- locks

#[test]
fn a_lock_taken_again_by_its_owner_is_held_and_never_shortened() {
    story(&[
        (0.0, "LOCK a me PX 1000", "OK missing>reserved"),
        (0.0, "GET a", "reserved owner:me lease:1000"),
        (100.0, "LOCK a me PX 10", "HELD 900 x1"),
        (100.0, "LOCK a you PX 9000", "BUSY reserved"),
        (100.5, "LOCK a me PX 10", "HELD 899 x1"),
        (101.0, "LOCK a me PX 5000", "HELD 5000 x1"),
        (5100.999, "GET a", "reserved owner:me lease:1"),
        (5100.999, "UNLOCK a $a", "OK reserved>missing"),
        (5100.999, "UNLOCK a $a", "MISSING missing"),
        (5100.999, "LOCK a you PX 1", "OK missing>reserved"),
    ]);
    // The same with an order, whose deadline is not touched.
    story(&[
        (0.0, "SCHEDULE a PX 60000", "OK missing>scheduled"),
        (0.0, "LOCK a me PX 1000", "OK scheduled>leased"),
        (10.0, "LOCK a me PX 1000", "HELD 1000 x1"),
        (10.0, "LOCK a you PX 1000", "BUSY leased"),
        (10.0, "UNLOCK a 1", "STALE leased"),
        (10.0, "UNLOCK a $a", "OK leased>scheduled"),
        (10.0, "UNLOCK a $a", "GONE scheduled"),
        (10.0, "GET a", "scheduled +60000"),
        (10.0, "LOCK a you PX 1000", "OK scheduled>leased"),
        (10.0, "UNLOCK a $a.1", "STALE leased"),
        (10.0, "RENEW a $a.1 PX 5000", "STALE leased"),
    ]);
}

#[test]
fn a_reentrant_lock_counts_up_and_down_under_one_fence() {
    story(&[
        (0.0, "LOCK a me PX 1000 REENTRANT", "OK missing>reserved"),
        (10.0, "LOCK a me PX 1000 REENTRANT", "HELD 1000 x2"),
        (20.0, "LOCK a me PX 10", "HELD 990 x2"),
        (20.0, "LOCK a me PX 10 REENTRANT", "HELD 990 x3"),
        (20.0, "GET a", "reserved owner:me lease:990 x3"),
        (30.0, "UNLOCK a $a", "HELD 980 x2"),
        (30.5, "UNLOCK a $a", "HELD 979 x1"),
        (31.0, "LOCK a you PX 10", "BUSY reserved"),
        (31.0, "UNLOCK a $a", "OK reserved>missing"),
    ]);
    // It lapses as a whole, and BREAK ends it as a whole.
    story(&[
        (0.0, "SCHEDULE a PX 60000", "OK missing>scheduled"),
        (0.0, "LOCK a me PX 1000", "OK scheduled>leased"),
        (0.0, "LOCK a me PX 1000 REENTRANT", "HELD 1000 x2"),
        (0.0, "reload", "done"),
        (0.0, "LOCK a me PX 1000 REENTRANT", "HELD 1000 x3"),
        (999.999, "LOCK a you PX 10", "BUSY leased"),
        (1000.0, "UNLOCK a $a", "GONE scheduled"),
        (1000.0, "LOCK a you PX 10", "OK scheduled>leased"),
        (1000.0, "LOCK a you PX 10 REENTRANT", "HELD 10 x2"),
        (1000.0, "BREAK a", "OK leased>scheduled"),
        (1000.0, "UNLOCK a $a", "GONE scheduled"),
    ]);
}

#[test]
fn no_lock_passes_its_cap() {
    // MAX, whatever the renewals.
    story(&[
        (0.0, "LOCK a me PX 1000 MAX 3000", "OK missing>reserved"),
        (500.0, "RENEW a $a PX 86400000", "OK 2500"),
        (1000.0, "LOCK a me PX 9000", "HELD 2000 x1"),
        (1000.0, "LOCK a me PX 9000 MAX 9000", "HELD 2000 x1"),
        (2000.0, "RENEW a $a PX 1", "OK 1000"),
        (2999.0, "RENEW a $a PX 9000", "OK 1"),
        (3000.0, "RENEW a $a PX 9000", "MISSING missing"),
        (3000.0, "LOCK a me PX 9000 MAX 10", "OK missing>reserved"),
        (3000.0, "GET a", "reserved owner:me lease:10"),
    ]);
    // The queue's setting, at the time of the grant.
    story(&[
        (0.0, "LOCK b me PX 900000", "OK missing>reserved"),
        (0.0, "GET b", "reserved owner:me lease:600000"),
        (0.0, "CONFIG SET lock-ms-max 500", "done"),
        (0.0, "LOCK a me PX 100 MAX 9000", "OK missing>reserved"),
        (0.0, "RENEW a $a PX 9000", "OK 500"),
        (0.0, "CONFIG SET lock-ms-max 5000", "done"),
        (100.0, "RENEW a $a PX 9000", "OK 400"),
        (100.0, "GET b", "reserved owner:me lease:599900"),
        (100.0, "LOCK c me PX 6000", "OK missing>reserved"),
        (100.0, "GET c", "reserved owner:me lease:5000"),
    ]);
    // And the server's.
    let mut bench = Bench::new(true);
    bench.defaults.lease_ms_max = 2000;
    tell(
        &mut bench,
        &[
            (0.0, "LOCK a me PX 1000", "OK missing>reserved"),
            (0.0, "RENEW a $a PX 2000", "OK 2000"),
            (500.0, "RENEW a $a PX 2000", "OK 1500"),
            (500.0, "RENEW a $a PX 100 LT", "OK 100"),
            (500.0, "RENEW a $a PX 200 LT", "OK 100"),
            (600.0, "RENEW a $a PX 200", "MISSING missing"),
        ],
    );
}

#[test]
fn a_lock_taken_before_the_deadline_defers_the_close_to_its_end() {
    let start: [Row<'_>; 6] = [
        (
            0.0,
            "SCHEDULE a PX 1000 STATUS unpaid",
            "OK missing>scheduled",
        ),
        (900.0, "LOCK a me PX 500", "OK scheduled>leased"),
        (1000.0, "pass", "-"),
        (1000.0, "CLAIM you", "-"),
        (1000.0, "CLAIM you ID a", "-"),
        (1200.0, "LOCK a you PX 500", "BUSY leased"),
    ];
    for end in [
        // It ends by itself, is given back, is broken, or the order is paid.
        &[
            (1399.999, "CLAIM you", "-"),
            (1400.0, "RENEW a $a PX 500", "GONE expired"),
            (1400.0, "LOCK a me PX 500", "EXPIRED expired"),
            (1400.0, "pass", "lapsed:a expired:a"),
            (1400.0, "CLAIM you", "a#1"),
            (1400.0, "FINISH a FENCE $a.1", "STALE leased"),
        ][..],
        &[
            (1300.0, "UNLOCK a $a", "OK leased>expired"),
            (1300.0, "pass", "expired:a"),
            (1300.0, "LOCK a me PX 500", "EXPIRED expired"),
            (1300.0, "CLAIM you", "a#1"),
        ],
        &[
            (1300.0, "BREAK a", "OK leased>expired"),
            (1300.0, "ACK a $a", "STALE expired"),
            (1300.0, "CLAIM you", "a#1"),
        ],
        &[
            (
                1300.0,
                "FINISH a FENCE $a FROM unpaid STATUS paid RESULT r",
                "OK leased>finished",
            ),
            (9000.0, "CLAIM you", "-"),
            (9000.0, "pass", "-"),
        ],
        &[(1300.0, "FINISH a FENCE $a STRICT", "EXPIRED leased")],
        // Late, but before anybody else.
        &[(1500.0, "FINISH a FENCE $a", "OK expired>finished")],
    ] {
        let rows: Vec<Row<'_>> = start.iter().chain(end).copied().collect();
        story(&rows);
    }
}

#[test]
fn no_close_is_deferred_past_the_cap_of_a_lock() {
    story(&[
        (0.0, "SCHEDULE a PX 1000", "OK missing>scheduled"),
        (900.0, "LOCK a me PX 500 MAX 800", "OK scheduled>leased"),
        (1300.0, "RENEW a $a PX 5000", "OK 400"),
        (1600.0, "LOCK a me PX 5000", "HELD 100 x1"),
        (1699.999, "CLAIM you", "-"),
        (1700.0, "LOCK a me PX 500", "EXPIRED expired"),
        (1700.0, "CLAIM you", "a#1"),
    ]);
}

#[test]
fn it_is_too_late_for_a_lock_from_the_deadline_on() {
    story(&[
        (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 100", "OK missing>scheduled"),
        (99.999, "LOCK a me PX 1", "OK scheduled>leased"),
        (100.0, "LOCK b me PX 1", "EXPIRED expired"),
        (100.0, "CLAIM me ID b PX 500", "b#1"),
        (100.0, "LOCK b me PX 1", "BUSY leased"),
        (100.0, "NACK b $b DELAY 100", "OK leased>retrying"),
        (100.0, "LOCK b me PX 1", "EXPIRED retrying"),
        (200.0, "LOCK b me PX 1", "EXPIRED expired"),
        (200.0, "CLAIM me ID b", "b#2"),
        (200.0, "NACK b $b DEAD", "OK leased>dead"),
        (200.0, "LOCK b me PX 1", "EXPIRED dead"),
        (200.0, "waiter b", "EXPIRED"),
        (200.0, "SCHEDULE b PX 100 XX", "OK dead>scheduled"),
        (200.0, "LOCK b me PX 1", "OK scheduled>leased"),
    ]);
    // A dead order came alive by a LOCK while the clock was set back.
    for (nack, state) in [
        ("NACK a $a DEAD", "dead"),
        ("NACK a $a DELAY 90000", "retrying"),
    ] {
        let [met, told] = [format!("OK leased>{state}"), format!("EXPIRED {state}")];
        story(&[
            (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
            (100.0, "CLAIM me", "a#1"),
            (100.0, nack, met.as_str()),
            (100.0, "wall -5000", "done"),
            (100.0, "LOCK a me PX 500", told.as_str()),
            (100.0, "waiter a", "EXPIRED"),
        ]);
    }
}

#[test]
fn a_reserved_id_lives_and_dies_with_its_lock() {
    for passes in [false, true] {
        let mut bench = Bench::new(passes);
        tell(
            &mut bench,
            &[
                (0.0, "LOCK a me PX 100", "OK missing>reserved"),
                (0.0, "SCAN 0", "0 a:reserved"),
                (0.0, "PTTL a", "-1"),
                (0.0, "NEXT", "-"),
                (0.0, "CLAIM you", "-"),
                (0.0, "SCHEDULE a PX 50", "LEASED reserved"),
                (0.0, "FINISH a CREATE", "LEASED reserved"),
                (0.0, "lapsed", "false"),
                (99.999, "GET a", "reserved owner:me lease:1"),
                (100.0, "lapsed", "true"),
                (100.0, "lapsed", "false"),
                (100.0, "GET a", "null"),
                (100.0, "SCAN 0", "0"),
                (100.0, "UNLOCK a $a", "MISSING missing"),
                (100.0, "RENEW a $a PX 100", "MISSING missing"),
                (100.0, "ACK a $a", "MISSING missing"),
                (100.0, "LOCK a you PX 100", "OK missing>reserved"),
                (150.0, "UNLOCK a $a", "OK reserved>missing"),
            ],
        );
        assert!(bench.queue.is_empty(), "nothing is left of it");
        tell(
            &mut bench,
            &[
                (150.0, "LOCK b me PX 100", "OK missing>reserved"),
                (300.0, "pass", "-"),
                (300.0, "forget", "b"),
                (300.0, "LOCK c me PX 100", "OK missing>reserved"),
                (300.0, "BREAK c 1", "STALE reserved"),
                (300.0, "BREAK c $c", "OK reserved>missing"),
            ],
        );
        assert!(bench.queue.is_empty(), "nothing is left of it");
    }
    // The holder finishes it: paid before it was created.
    story(&[
        (0.0, "LOCK a me PX 100", "OK missing>reserved"),
        (
            1.0,
            "FINISH a FENCE $a STATUS paid RESULT r",
            "OK reserved>finished",
        ),
        (2.0, "SCHEDULE a PX 500 STATUS unpaid", "FINISHED finished"),
        (
            2.0,
            "GET a",
            "finished status:paid owner:me keep:+86400001 at:+1 result:r",
        ),
    ]);
}

#[test]
fn a_deadline_joins_a_live_reservation_and_the_lock_stays() {
    story(&[
        (0.0, "LOCK x me PX 10000", "OK missing>reserved"),
        (1.0, "SCHEDULE x PX 500 UPSERT FENCE 5", "STALE reserved"),
        (1.0, "SCHEDULE x PX 500 XX FENCE $x", "MISSING reserved"),
        (
            1.0,
            "SCHEDULE x PX 500 UPSERT FENCE $x STATUS unpaid",
            "OK reserved>leased",
        ),
        (
            1.0,
            "GET x",
            "leased +501 status:unpaid owner:me lease:9999",
        ),
        (1.0, "LOCK x me PX 1", "HELD 9999 x1"),
        (600.0, "CLAIM you", "-"),
        (10_000.0, "CLAIM you", "x#1"),
    ]);
    story(&[
        (0.0, "LOCK x me PX 10000", "OK missing>reserved"),
        (
            1.0,
            "SCHEDULE x PX 60000 UPSERT FENCE $x",
            "OK reserved>leased",
        ),
        (2.0, "UNLOCK x $x", "OK leased>scheduled"),
        (2.0, "GET x", "scheduled +60001"),
    ]);
}

#[test]
fn another_request_under_the_same_id_is_a_mismatch() {
    story(&[
        (0.0, "LOCK a w1 PX 1000 FP one", "OK missing>reserved"),
        (0.0, "LOCK a w2 PX 1000 FP one", "BUSY reserved"),
        (0.0, "LOCK a w2 PX 1000 FP two", "MISMATCH reserved"),
        (0.0, "LOCK a w1 PX 1000 FP two", "MISMATCH reserved"),
        (0.0, "LOCK a w1 PX 1000 FP one", "HELD 1000 x1"),
        (0.0, "LOCK a w2 PX 1000", "BUSY reserved"),
        (0.0, "waiter a two", "MISMATCH"),
        (0.0, "waiter a one", "waits"),
        (
            1.0,
            "ACK a $a STATUS done RESULT r KEEP 1000",
            "OK reserved>finished",
        ),
        (2.0, "reload", "done"),
        (2.0, "LOCK a w1 PX 1000 FP one", "FINISHED finished"),
        (2.0, "LOCK a w1 PX 1000 FP two", "MISMATCH finished"),
        (2.0, "LOCK a w1 PX 1000", "FINISHED finished"),
        (2.0, "waiter a two", "MISMATCH"),
        (2.0, "waiter a one", "FINISHED"),
        (1000.999, "LOCK a w1 PX 1000 FP two", "MISMATCH finished"),
        (1001.0, "LOCK a w1 PX 1000 FP two", "OK missing>reserved"),
        (1001.0, "LOCK a w1 PX 1000 FP one", "MISMATCH reserved"),
    ]);
    // It comes before what the deadline has to say.
    story(&[
        (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (0.0, "LOCK a w1 PX 10 FP one", "OK scheduled>leased"),
        (50.0, "LOCK a w2 PX 10 FP two", "MISMATCH scheduled"),
        (100.0, "LOCK a w2 PX 10 FP two", "MISMATCH expired"),
        (100.0, "LOCK a w2 PX 10 FP one", "EXPIRED expired"),
    ]);
}

/// The fingerprint belongs to the last grant: the next one, and a move, take it off.
#[test]
fn a_fingerprint_goes_with_the_grant_it_was_for() {
    for next in [
        "LOCK a w1 PX 10",
        "SCHEDULE a PX 900 XX",
        "STATUS a on-hold",
    ] {
        story(&[
            (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
            (0.0, "LOCK a w1 PX 10 FP one", "OK scheduled>leased"),
            (50.0, "LOCK a w2 PX 10 FP two", "MISMATCH scheduled"),
            (
                50.0,
                next,
                if next.starts_with("LOCK") {
                    "OK scheduled>leased"
                } else {
                    "OK scheduled>scheduled"
                },
            ),
            (70.0, "LOCK a w2 PX 10 FP two", "OK scheduled>leased"),
        ]);
    }
}

/// UNLOCK left the fingerprint behind where the id had a deadline: no other request
/// ever got that lock again.
#[test]
fn a_request_that_gives_its_lock_back_takes_its_fingerprint_along() {
    for end in ["UNLOCK a $a", "BREAK a"] {
        story(&[
            (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
            (0.0, "LOCK a w1 PX 10 FP one", "OK scheduled>leased"),
            (0.0, end, "OK leased>scheduled"),
            (0.0, "LOCK a w2 PX 10 FP two", "OK scheduled>leased"),
        ]);
        story(&[
            (0.0, "LOCK a w1 PX 10 FP one", "OK missing>reserved"),
            (0.0, end, "OK reserved>missing"),
            (0.0, "LOCK a w2 PX 10 FP two", "OK missing>reserved"),
        ]);
    }
}

/// The story that the design tells of idempotency, word by word.
#[test]
fn a_request_is_done_once_however_often_it_comes() {
    let lock = "LOCK 1001:3:pay w1 PX 30000 FP 5f3a";
    let again = "LOCK 1001:3:pay w2 PX 30000 FP 5f3a";
    let other = "LOCK 1001:3:pay w3 PX 30000 FP 77aa";
    let ack = "ACK 1001:3:pay $1001:3:pay STATUS done RESULT receipt KEEP 86400000";
    story(&[
        (0.0, lock, "OK missing>reserved"),
        (5.0, again, "BUSY reserved"),
        (5.0, other, "MISMATCH reserved"),
        (10.0, ack, "OK reserved>finished"),
        (10.0, ack, "FINISHED finished"),
        (20.0, again, "FINISHED finished"),
        (20.0, other, "MISMATCH finished"),
        (
            20.0,
            "GET 1001:3:pay",
            "finished status:done owner:w1 keep:+86400010 at:+10 result:receipt",
        ),
        (86_400_010.0, again, "OK missing>reserved"),
    ]);
    // The first worker dies: the second does it, and the first is told.
    story(&[
        (0.0, lock, "OK missing>reserved"),
        (29_999.999, again, "BUSY reserved"),
        (30_000.0, again, "OK missing>reserved"),
        (30_000.0, "ACK 1001:3:pay $1001:3:pay.1", "STALE reserved"),
        (30_000.0, ack, "OK reserved>finished"),
    ]);
    // It gives up, and the next one tries.
    story(&[
        (0.0, lock, "OK missing>reserved"),
        (1.0, "UNLOCK 1001:3:pay $1001:3:pay", "OK reserved>missing"),
        (1.0, other, "OK missing>reserved"),
    ]);
}

#[test]
fn a_claim_that_is_unlocked_is_offered_again_at_once() {
    story(&[
        (0.0, "CONFIG SET max-attempts 3", "done"),
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CLAIM me", "a#1"),
        (1.0, "UNLOCK a 5", "STALE leased"),
        (1.0, "UNLOCK a $a", "OK leased>expired"),
        (1.0, "GET a", "expired +0"),
        (1.0, "ACK a $a", "STALE expired"),
        (1.0, "pass", "expired:a"),
        (1.0, "CLAIM you", "a#1"),
        (2.0, "BREAK a $a.1", "STALE leased"),
        (2.0, "BREAK a", "OK leased>expired"),
        (2.0, "ACK a $a", "STALE expired"),
        (2.0, "BREAK a", "GONE expired"),
        (2.0, "BREAK a $a", "GONE expired"),
        (2.0, "CLAIM you", "a#2"),
    ]);
    // Handed back on its last try it has it still; broken, it has failed.
    story(&[
        (0.0, "CONFIG SET max-attempts 1", "done"),
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CLAIM me", "a#1"),
        (1.0, "UNLOCK a $a", "OK leased>expired"),
        (1.0, "CLAIM me", "a#1"),
    ]);
    for end in ["BREAK a", "BREAK a $a"] {
        story(&[
            (0.0, "CONFIG SET max-attempts 1", "done"),
            (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
            (0.0, "CLAIM me", "a#1"),
            (1.0, end, "OK leased>dead"),
            (1.0, "pass", "dead:a"),
            (9999.0, "CLAIM you", "-"),
            (9999.0, "REQUEUE", "a left:0"),
            (9999.0, "CLAIM you", "a#1"),
        ]);
    }
}

#[test]
fn break_goes_by_the_fence_where_one_is_given() {
    story(&[
        (0.0, "BREAK a", "MISSING missing"),
        (0.0, "SCHEDULE a PX 5000", "OK missing>scheduled"),
        (0.0, "BREAK a", "GONE scheduled"),
        (0.0, "BREAK a 7", "GONE scheduled"),
        (0.0, "LOCK a me PX 10", "OK scheduled>leased"),
        (0.0, "BREAK a 7", "STALE leased"),
        (10.0, "BREAK a 7", "STALE scheduled"),
        (10.0, "BREAK a $a", "GONE scheduled"),
        (10.0, "LOCK a me PX 10", "OK scheduled>leased"),
        (10.0, "BREAK a $a", "OK leased>scheduled"),
        (10.0, "FINISH a FENCE $a", "STALE scheduled"),
    ]);
}

#[test]
fn nobody_passes_by_those_who_wait_for_a_lock() {
    story(&[
        (0.0, "SCHEDULE a PX 5000", "OK missing>scheduled"),
        (0.0, "LOCK a me PX 1000", "OK scheduled>leased"),
        (0.0, "lock-wake a", "+1000"),
        (0.0, "waiter a", "waits"),
        (0.0, "RENEW a $a PX 9000", "OK 9000"),
        (0.0, "lock-wake a", "+5000"),
        (1.0, "waiting", "done"),
        (1.0, "LOCK a me PX 10", "HELD 8999 x1"),
        (1.0, "LOCK a you PX 10", "BUSY leased"),
        (1.0, "UNLOCK a $a", "OK leased>scheduled"),
        (1.0, "LOCK a you PX 10", "BUSY scheduled"),
        (1.0, "LOCK a me PX 10", "BUSY scheduled"),
        (1.0, "LOCK b me PX 10", "BUSY missing"),
        (1.0, "lock-wake a", "+5000"),
        (1.0, "nobody", "done"),
        (1.0, "LOCK a you PX 9000", "OK scheduled>leased"),
        (4999.999, "waiter a", "waits"),
        // The holder may finish it, but nobody else gets this lock any more.
        (5000.0, "waiter a", "EXPIRED"),
        (5000.0, "lock-wake a", "+9001"),
        (5000.0, "FINISH a FENCE $a RESULT r", "OK leased>finished"),
        (5000.0, "waiter a", "FINISHED"),
        (5000.0, "waiter nobody", "waits"),
    ]);
}

#[test]
fn a_wall_clock_that_is_set_neither_stretches_nor_cuts_a_lock() {
    for step in ["wall -3600000", "wall +3600000"] {
        story(&[
            (0.0, "LOCK a me PX 3000 MAX 5000", "OK missing>reserved"),
            (1000.0, step, "done"),
            (1000.0, "LOCK a me PX 1", "HELD 2000 x1"),
            (1000.0, "RENEW a $a PX 9000", "OK 4000"),
            (1000.0, "RENEW a $a PX 2000 LT", "OK 2000"),
            (2999.999, "LOCK a you PX 10", "BUSY reserved"),
            (3000.0, "LOCK a you PX 10", "OK missing>reserved"),
        ]);
    }
}

#[test]
fn a_lapsed_lock_on_an_unknown_id_counts_nowhere_whatever_the_wall_clock_says() {
    for step in ["wall -3600000", "wall -1", "wall +3600000"] {
        let mut bench = Bench::new(true);
        tell(
            &mut bench,
            &[
                (0.0, "LOCK a me PX 100", "OK missing>reserved"),
                (50.0, step, "done"),
                (100.0, "GET a", "null"),
                (100.0, "PURGE STATE finished", "- left:0"),
                (100.0, "PURGE STATE reserved", "- left:0"),
            ],
        );
        assert_eq!((bench.stat("finished"), bench.stat("orders")), (0, 0));
        tell(
            &mut bench,
            &[(100.0, "wake", "now"), (100.0, "forget", "a")],
        );
        assert!(bench.queue.is_empty(), "nothing is left of it");
    }
}

#[test]
fn the_fences_of_an_order_grow_for_ever() {
    for passes in [false, true] {
        let mut bench = Bench::new(passes);
        let mut last = 0;
        for round in 0..20 {
            for command in [
                "LOCK a me PX 1000",
                "UNLOCK a $a",
                "LOCK a me PX 10",
                "lapse",
                "LOCK a me PX 1000",
                "BREAK a",
                "wall -60000",
                "LOCK a you PX 1000",
                "SCHEDULE a PX 0 UPSERT FENCE $a",
                "UNLOCK a $a",
                "CLAIM me PX 10",
                "lapse",
                "CLAIM me PX 1000",
                "NACK a $a DELAY 0",
                "reload",
                "CLAIM you PX 1000",
                "restart",
                "ACK a $a KEEP 0",
                "LOCK a me PX 1000",
                "FINISH a FENCE $a KEEP 10",
                "lapse",
                "LOCK a me PX 10",
                "lapse",
                "forget",
                "delete",
            ] {
                let ms = (bench.mono_us / 1000 - START_MONO_MS) as f64;
                match command {
                    "lapse" => bench.until(ms + 10.0),
                    // The server is another one, which knows what it has loaded.
                    "restart" => {
                        bench.run("reload");
                        let (floor, now_us) = (bench.queue.floor(), bench.wall_us);
                        bench.numbers = Numbers::new();
                        assert!(bench.numbers.learn(floor, now_us));
                        bench.numbers.guard(now_us, 1_000);
                    }
                    // The key is gone; the server is the same.
                    "delete" => {
                        bench.queue = Queue::new();
                        bench.replica = Queue::new();
                    }
                    _ => {
                        let said = bench.run(command);
                        let done = ["OK", "a#", "done", "a", "-"];
                        assert!(
                            done.iter().any(|word| said.starts_with(word)),
                            "{command}: {said}"
                        );
                        assert!(!command.starts_with("LOCK") || said.starts_with("OK"));
                        assert!(!command.starts_with("CLAIM") || said.starts_with("a#"));
                    }
                }
                let fence = bench.fences[b"a".as_slice()].last().copied().unwrap();
                assert!(fence >= last, "{round} {command}: {fence} after {last}");
                last = fence;
            }
        }
        let fences = &bench.fences[b"a".as_slice()];
        assert_eq!(fences.len(), 20 * 9);
        assert!(fences.iter().zip(&fences[1..]).all(|(a, b)| a < b));
    }
}

// ----------------------------------------------------------- a queue as a whole

#[test]
fn config_sets_all_or_nothing_and_resets() {
    let all = "lease-ms=30000 lock-ms-max=600000 max-attempts=250 backoff-ms=1000 \
               backoff-ms-max=60000 keep-ms=86400000 max-leased=0 dead-max=0 transitions=";
    story(&[
        (0.0, "CONFIG GET", all),
        (0.0, "CONFIG GET max-leased", "max-leased=0"),
        (0.0, "CONFIG SET max-leased 5 keep-ms 007", "done"),
        (0.0, "CONFIG GET max-leased", "max-leased=5"),
        (0.0, "CONFIG GET keep-ms", "keep-ms=7"),
        (0.0, "CONFIG SET transitions a>b", "done"),
        (0.0, "CONFIG GET transitions", "transitions=a>b"),
        (0.0, "reload", "done"),
        (0.0, "CONFIG RESET dead-max", "-"),
        (0.0, "CONFIG RESET keep-ms", "done"),
        (0.0, "CONFIG RESET keep-ms", "-"),
        (0.0, "CONFIG GET keep-ms", "keep-ms=86400000"),
        (0.0, "CONFIG GET max-leased", "max-leased=5"),
        (0.0, "CONFIG RESET", "done"),
        (0.0, "CONFIG RESET", "-"),
        (0.0, "CONFIG GET", all),
    ]);
    let mut bench = Bench::new(false);
    for (command, error) in [
        (
            "CONFIG GET nothing",
            "ERR unknown setting 'nothing' of a queue",
        ),
        ("CONFIG RESET ''", "ERR unknown setting '' of a queue"),
        (
            "CONFIG SET max-leased 5 nothing 5",
            "ERR unknown setting 'nothing' of a queue",
        ),
        (
            "CONFIG SET max-leased 5 lease-ms 0",
            "ERR value of lease-ms is out of range, must be an integer between 1 and 31536000000",
        ),
    ] {
        assert_eq!(bench.run(command), error, "{command}");
        assert!(bench.queue.is_empty(), "{command}: all or nothing");
    }
    for setting in Setting::ALL {
        let (min, max) = setting.range();
        let name = setting.name();
        let is_default = |bench: &mut Bench| {
            let value = bench.run(&format!("CONFIG GET {name}"));
            assert_eq!(value, format!("{name}={}", setting.default_value()));
        };
        for bad in [
            "''".to_owned(),
            "-1".into(),
            "+1".into(),
            "1.0".into(),
            "5s".into(),
            "yes".into(),
            (max + 1).to_string(),
            min.checked_sub(1).map_or("x".into(), |n| n.to_string()),
            u64::MAX.to_string(),
            "99999999999999999999999".into(),
        ] {
            let error = Error::SettingOutOfRange { name, min, max };
            assert_eq!(
                bench.run(&format!("CONFIG SET {name} {bad}")),
                error.to_string()
            );
            is_default(&mut bench);
        }
        for good in [min, max, u64::midpoint(min, max)] {
            assert_eq!(bench.run(&format!("CONFIG SET {name} {good}")), "done");
            let value = bench.run(&format!("CONFIG GET {name}"));
            assert_eq!(value, format!("{name}={good}"));
        }
        assert_eq!(bench.run(&format!("CONFIG RESET {name}")), "done");
        is_default(&mut bench);
    }
    assert!(bench.queue.is_empty());
    // Lists of changes of status.
    let status = "s".repeat(32);
    let many = vec!["ab>cd"; 683].join(" ");
    let mut set = |text: &str| {
        let ask = Configure::Set(vec![(&b"transitions"[..], text.as_bytes())]);
        bench.ask(&Request::Config(ask))
    };
    for good in [
        "a>b",
        "a>b b>c",
        ">a",
        "a>",
        ">",
        &format!("{status}>{status}"),
        &many[..4091],
    ] {
        assert_eq!(set(good), "done", "{good}");
    }
    for bad in [
        "",
        " ",
        "a",
        "a>b ",
        " a>b",
        "a>b  b>c",
        "a>b>c",
        "a-b",
        &format!("{status}s>a"),
        &format!("a>{status}s"),
        &many,
    ] {
        assert_eq!(set(bad), Error::BadTransitions.to_string(), "{bad}");
    }
}

#[test]
fn transitions_hold_for_the_holder_too() {
    let mut bench = Bench::new(false);
    let value: &[u8] = b"unpaid>paid unpaid>closed";
    let ask = Configure::Set(vec![(&b"transitions"[..], value)]);
    assert_eq!(bench.ask(&Request::Config(ask)), "done");
    tell(
        &mut bench,
        &[
            (
                0.0,
                "SCHEDULE a PX 100 STATUS unpaid",
                "OK missing>scheduled",
            ),
            (0.0, "LOCK a me PX 500", "OK scheduled>leased"),
            (0.0, "FINISH a FENCE $a STATUS shipped", "STATE leased"),
            (0.0, "STATUS a shipped FENCE $a", "STATE leased"),
            (0.0, "UNLOCK a $a", "OK leased>scheduled"),
            (100.0, "CLAIM you", "a#1"),
            (100.0, "ACK a $a STATUS refunded", "STATE leased"),
            (100.0, "ACK a $a STATUS closed", "OK leased>finished"),
            (100.0, "CONFIG RESET transitions", "done"),
            (100.0, "STATUS a refunded", "OK finished>finished"),
        ],
    );
}

#[test]
fn in_a_pause_locks_and_writes_go_on() {
    story(&[
        (0.0, "SCHEDULE a PX 10", "OK missing>scheduled"),
        (0.0, "RESUME", "-"),
        (0.0, "PAUSE REASON lunch", "done"),
        (0.0, "LOCK a me PX 100", "OK scheduled>leased"),
        (0.0, "UNLOCK a $a", "OK leased>scheduled"),
        (5.0, "PAUSE PX 100", "done"),
        (5.0, "SCHEDULE b PX 1", "OK missing>scheduled"),
        (50.0, "CLAIM me COUNT 9", "-"),
        (50.0, "CLAIM me ID a", "-"),
        (50.0, "pass", "-"),
        (50.0, "LOCK c me PX 100", "OK missing>reserved"),
        (50.0, "FINISH b STATUS paid", "OK expired>finished"),
        (104.999, "CLAIM me COUNT 9", "-"),
        // The second pause replaces the first, and ends by itself.
        (105.0, "CLAIM me COUNT 9", "a#1"),
        (105.0, "forget", "resumed"),
        (105.0, "RESUME", "-"),
        (105.0, "SCHEDULE d PX 1", "OK missing>scheduled"),
        (105.0, "SCHEDULE e PX 2", "OK missing>scheduled"),
        (105.0, "PAUSE", "done"),
        (110.0, "pass", "-"),
        (110.0, "RESUME", "done"),
        (110.0, "pass", "expired:d expired:e"),
        (110.0, "CLAIM me COUNT 9", "d#1 e#1"),
    ]);
}

#[test]
fn requeue_takes_the_longest_dead_first_with_no_try_counted() {
    story(&[
        (0.0, "REQUEUE", "- left:0"),
        (0.0, "CONFIG SET max-attempts 1", "done"),
        (0.0, "SCHEDULE d PXAT T-40", "OK missing>expired"),
        (0.0, "SCHEDULE c PXAT T-30", "OK missing>expired"),
        (0.0, "SCHEDULE b PXAT T-20", "OK missing>expired"),
        (0.0, "SCHEDULE a PXAT T-10", "OK missing>expired"),
        (0.0, "CLAIM me COUNT 2 PX 1000", "d#1 c#1"),
        (0.0, "CLAIM me PX 15", "b#1"),
        (0.0, "CLAIM me PX 1000", "a#1"),
        (10.0, "NACK d $d", "OK leased>dead"),
        (20.0, "pass", "dead:d lapsed:b dead:b"),
        (30.0, "NACK a $a ERROR why", "OK leased>dead"),
        (30.0, "BREAK c $c", "OK leased>dead"),
        (40.0, "REQUEUE COUNT 2", "d b left:2"),
        (40.0, "GET b", "expired -20"),
        (40.0, "RENEW b $b PX 5", "GONE expired"),
        (50.0, "REQUEUE COUNT 1", "a left:1"),
        (50.0, "GET a", "expired -10 error:why"),
        (50.0, "pass", "dead:c expired:d expired:b expired:a"),
        (50.0, "REQUEUE", "c left:0"),
        (50.0, "REQUEUE", "- left:0"),
        (60.0, "CLAIM me COUNT 9", "d#1 b#1 a#1 c#1"),
    ]);
}

#[test]
fn purge_removes_what_is_in_the_state_and_no_lease() {
    story(&[
        (
            0.0,
            "SCHEDULE s1 PX 30 STATUS unpaid",
            "OK missing>scheduled",
        ),
        (
            0.0,
            "SCHEDULE s2 PX 20 STATUS unpaid",
            "OK missing>scheduled",
        ),
        (0.0, "SCHEDULE s3 PX 10 STATUS paid", "OK missing>scheduled"),
        (0.0, "LOCK s1 me PX 1000", "OK scheduled>leased"),
        (0.0, "LOCK r1 me PX 1000", "OK missing>reserved"),
        (0.0, "FINISH f1 CREATE KEEP 9000", "OK missing>finished"),
        (0.0, "FINISH f2 CREATE KEEP 8000", "OK missing>finished"),
        (0.0, "SCHEDULE e1 PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE e2 PX 0", "OK missing>expired"),
        (0.0, "CLAIM me ID e2", "e2#1"),
        (0.0, "PURGE STATE leased", "- left:2"),
        (0.0, "PURGE STATE reserved", "- left:1"),
        (0.0, "PURGE STATE leased STATUS unpaid", "- left:2"),
        (0.0, "PURGE STATE dead", "- left:0"),
        (0.0, "PURGE STATE scheduled STATUS unpaid", "s2 left:1"),
        (0.0, "PURGE STATE scheduled MATCH s2*", "- left:1"),
        (0.0, "PURGE STATE scheduled", "s3 left:0"),
        (0.0, "PURGE STATE finished COUNT 1", "f2 left:1"),
        (0.0, "PURGE STATE finished MATCH f*", "f1 left:0"),
        (0.0, "PURGE STATE expired", "e1 left:0"),
        (0.0, "SCAN 0", "0 e2:leased r1:reserved s1:leased"),
        (1.0, "NACK e2 $e2 DELAY 100", "OK leased>retrying"),
        (1.0, "PURGE STATE retrying", "e2 left:0"),
        (1.0, "GET s1", "leased +30 status:unpaid owner:me lease:999"),
        (1.0, "ACK e2 $e2", "MISSING missing"),
    ]);
    // The longest dead and the earliest deadline go first.
    story(&[
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE b PX 0", "OK missing>expired"),
        (0.0, "CLAIM me COUNT 2", "a#1 b#1"),
        (0.0, "NACK b $b DEAD", "OK leased>dead"),
        (0.0, "NACK a $a DEAD", "OK leased>dead"),
        (0.0, "PURGE STATE dead COUNT 1", "b left:1"),
        (0.0, "PURGE STATE dead COUNT 1", "a left:0"),
        (0.0, "SCHEDULE a PX 300", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 200", "OK missing>scheduled"),
        (0.0, "SCHEDULE c PX 100", "OK missing>scheduled"),
        (0.0, "PURGE STATE scheduled COUNT 2", "c b left:1"),
    ]);
}

#[test]
fn purge_called_again_and_again_meets_every_order() {
    for (filter, count, wanted) in [
        ("STATUS s1", 7, 1000),
        ("MATCH *5*", 3, 813),
        ("STATUS s2 MATCH *00", 1, 10),
        ("STATUS nobody", 5, 0),
        ("", 1000, 3000),
    ] {
        let mut bench = Bench::new(false);
        bench.compares = false;
        for n in 0..3000 {
            bench.run(&format!("SCHEDULE {n} PX 0 STATUS s{}", n % 3));
        }
        bench.run("LOCK reserved me PX 5000");
        let mut gone = 0;
        let mut calls = 0;
        // Each call removes what it may, or looks at ten times as many.
        let enough = 3002_usize.div_ceil(10 * count) + wanted / count + 2;
        while calls < enough {
            let said = bench.run(&format!("PURGE STATE expired {filter} COUNT {count}"));
            let ids: Vec<&str> = said
                .split(' ')
                .filter(|id| id.as_bytes()[0].is_ascii_digit())
                .collect();
            assert!(ids.len() <= count);
            gone += ids.len();
            calls += 1;
            // Others come meanwhile.
            bench.run(&format!("SCHEDULE new{calls} PX 60000 STATUS s1"));
        }
        assert_eq!(gone, wanted, "{filter}");
        assert_eq!(bench.state(b"reserved"), State::Reserved);
        let kept = bench.stat("expired");
        assert_eq!(kept, 3000 - wanted as i64, "{filter}");
        assert_eq!(bench.stat("scheduled"), calls as i64);
    }
}

// ----------------------------------------------------------------- finished orders

#[test]
fn a_finished_order_is_kept_to_the_millisecond_and_then_reads_as_missing() {
    story(&[
        (
            0.0,
            "SCHEDULE a PX 100 STATUS unpaid PAYLOAD p",
            "OK missing>scheduled",
        ),
        (
            0.5,
            "FINISH a STATUS paid RESULT r1 KEEP 1000",
            "OK scheduled>finished",
        ),
        (
            0.5,
            "GET a",
            "finished status:paid keep:+1001 at:+0 of:+100 result:r1",
        ),
        (
            1000.999,
            "FINISH a STATUS paid RESULT r2",
            "FINISHED finished",
        ),
        (1000.999, "forget", "-"),
        (1001.0, "GET a", "null"),
        (1001.0, "FINISH a", "MISSING missing"),
        (1001.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (1001.0, "GET a", "scheduled +1101"),
        (1001.0, "forget", "-"),
    ]);
    story(&[
        (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (0.0, "FINISH a KEEP 0", "OK scheduled>missing"),
        (0.0, "forget", "-"),
        (
            0.0,
            "FINISH b CREATE STATUS paid KEEP 0",
            "OK missing>missing",
        ),
        (
            0.0,
            "FINISH c CREATE STATUS paid KEEP 10",
            "OK missing>finished",
        ),
        (0.0, "SCHEDULE c PX 100 STATUS unpaid", "FINISHED finished"),
        (10.0, "forget", "c"),
        (10.0, "forget", "-"),
    ]);
}

#[test]
fn a_finished_order_reopens_only_when_from_names_its_status() {
    story(&[
        (
            0.0,
            "FINISH a CREATE STATUS paid RESULT r",
            "OK missing>finished",
        ),
        (0.0, "SCHEDULE a PX 100 UPSERT", "FINISHED finished"),
        (0.0, "SCHEDULE a PX 100 FROM unpaid", "FINISHED finished"),
        (0.0, "SCHEDULE a PX 100 FROM ''", "FINISHED finished"),
        (0.0, "SCHEDULE a PX 100 FROM paid IFREV 7", "STALE finished"),
        (0.0, "SCHEDULE a PX 100 FROM paid FENCE 7", "STALE finished"),
        (
            0.0,
            "SCHEDULE a PX 100 FROM unpaid FROM paid IFREV @a",
            "OK finished>scheduled",
        ),
        (0.0, "GET a", "scheduled +100 status:paid"),
        (0.0, "FINISH b CREATE", "OK missing>finished"),
        (
            0.0,
            "SCHEDULE b PX 0 FROM '' UPSERT PAYLOAD p",
            "OK finished>expired",
        ),
        (0.0, "GET b", "expired +0 payload:p"),
    ]);
}

#[test]
fn kept_orders_are_forgotten_in_batches_the_oldest_first() {
    story(&[
        (0.0, "FINISH a CREATE KEEP 30", "OK missing>finished"),
        (0.0, "FINISH b CREATE KEEP 10", "OK missing>finished"),
        (0.0, "FINISH c CREATE KEEP 20", "OK missing>finished"),
        (0.0, "FINISH d CREATE KEEP 40", "OK missing>finished"),
        (0.0, "LOCK e me PX 15", "OK missing>reserved"),
        (30.0, "forget 2", "e b"),
        (30.0, "forget 3", "c a"),
        (30.0, "forget 2", "-"),
        (40.0, "forget", "d"),
        (40.0, "SCAN 0", "0"),
    ]);
}

#[test]
fn dead_orders_above_dead_max_are_dropped_the_oldest_first() {
    let mut rows: Vec<Row<'_>> = vec![(0.0, "CONFIG SET dead-max 2", "done")];
    for (schedule, claim, nack) in [
        ("SCHEDULE a PX 0", "CLAIM me ID a", "NACK a $a DEAD"),
        ("SCHEDULE b PX 0", "CLAIM me ID b", "NACK b $b DEAD"),
        ("SCHEDULE c PX 0", "CLAIM me ID c", "NACK c $c DEAD"),
        ("SCHEDULE d PX 0", "CLAIM me ID d", "NACK d $d DEAD"),
    ] {
        let id = &schedule[9..10];
        rows.push((0.0, schedule, "OK missing>expired"));
        rows.push((
            0.0,
            claim,
            match id {
                "a" => "a#1",
                "b" => "b#1",
                "c" => "c#1",
                _ => "d#1",
            },
        ));
        rows.push((0.0, nack, "OK leased>dead"));
    }
    rows.extend([
        (1.0, "forget 1", "a"),
        (1.0, "forget 9", "b"),
        (1.0, "forget 9", "-"),
        (1.0, "GET d", "dead +0 #1"),
    ]);
    story(&rows);
}

// ------------------------------------------------------------------------- guards

#[test]
fn guards_are_tried_in_order_fence_lease_rev_status_deadline() {
    story(&[
        (
            0.0,
            "SCHEDULE a PX 100 STATUS unpaid",
            "OK missing>scheduled",
        ),
        (0.0, "FINISH a FENCE 9 IFREV 9 FROM no", "STALE scheduled"),
        (0.0, "FINISH a IFREV 9 FROM no", "STALE scheduled"),
        (0.0, "FINISH a IFREV @a FROM no", "STATE scheduled"),
        (0.0, "FINISH a FROM ''", "STATE scheduled"),
        (200.0, "FINISH a STRICT FROM no", "STATE expired"),
        (200.0, "FINISH a STRICT FROM unpaid", "EXPIRED expired"),
        (200.0, "SCHEDULE a PXAT T+50 GT FROM no", "STATE expired"),
        (
            200.0,
            "SCHEDULE a PXAT T+50 GT FROM unpaid IFREV @a",
            "UNCHANGED expired",
        ),
        (200.0, "CLAIM me", "a#1"),
        (200.0, "FINISH a IFREV 9 FROM no", "LEASED leased"),
        (200.0, "FINISH a FENCE 9 IFREV 9", "STALE leased"),
        (200.0, "STATUS a s FENCE $a IFREV 9", "STALE leased"),
        (
            200.0,
            "STATUS a s FENCE $a IFREV @a FROM no",
            "STATE leased",
        ),
        (200.0, "FINISH a FENCE $a STRICT", "EXPIRED leased"),
        (200.0, "ACK a $a FROM no FROM other", "STATE leased"),
        (200.0, "ACK a 9 FROM no", "STALE leased"),
        (
            200.0,
            "STATUS a s FENCE $a IFREV @a FROM unpaid FROM no",
            "OK leased>leased",
        ),
        (200.0, "ACK a $a FROM no FROM s", "OK leased>finished"),
        (200.0, "ACK a $a FROM no", "FINISHED finished"),
    ]);
}

#[test]
fn transitions_refuse_every_other_change_of_status() {
    let mut bench = Bench::new(false);
    let value = Some(Bytes::of(b"unpaid>paid unpaid>closed paid>shipped"));
    bench.carry(&Effect::Configure {
        name: Bytes::of(b"transitions"),
        value,
    });
    tell(
        &mut bench,
        &[
            (
                0.0,
                "SCHEDULE a PX 100 STATUS unpaid",
                "OK missing>scheduled",
            ),
            (0.0, "STATUS a shipped", "STATE scheduled"),
            (0.0, "STATUS a unpaid", "OK scheduled>scheduled"),
            (0.0, "STATUS a ''", "STATE scheduled"),
            (
                0.0,
                "SCHEDULE a PX 100 XX STATUS refunded",
                "STATE scheduled",
            ),
            (0.0, "SCHEDULE a PX 200 XX", "OK scheduled>scheduled"),
            (0.0, "FINISH a STATUS paid", "OK scheduled>finished"),
            (0.0, "STATUS a closed", "STATE finished"),
            (0.0, "STATUS a shipped", "OK finished>finished"),
            (0.0, "STATUS a paid FENCE 1", "STALE finished"),
        ],
    );
}

#[test]
fn upsert_tests_guards_and_directions_only_against_an_order_that_is_there() {
    story(&[
        (
            0.0,
            "SCHEDULE a PX 100 UPSERT FROM unpaid IFREV 5 FENCE 6 GT",
            "OK missing>scheduled",
        ),
        (
            0.0,
            "SCHEDULE a PX 200 UPSERT FROM unpaid GT",
            "STATE scheduled",
        ),
        (
            0.0,
            "SCHEDULE a PX 200 UPSERT IFREV 5 GT",
            "STALE scheduled",
        ),
        (0.0, "SCHEDULE a PX 200 UPSERT FENCE 6", "STALE scheduled"),
        (
            0.0,
            "SCHEDULE a PX 50 UPSERT FROM '' GT",
            "UNCHANGED scheduled",
        ),
        (
            0.0,
            "SCHEDULE a PX 200 UPSERT FROM '' GT",
            "OK scheduled>scheduled",
        ),
        (0.0, "FINISH b CREATE FROM unpaid", "OK missing>finished"),
    ]);
}

// -------------------------------------------------------------------- clock steps

#[test]
fn deadlines_follow_the_wall_clock() {
    story(&[
        (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (50.0, "wall -1000", "done"),
        (100.0, "CLAIM me", "-"),
        (1099.999, "CLAIM me", "-"),
        (1099.999, "pass", "-"),
        (1100.0, "pass", "expired:a"),
        (1100.0, "CLAIM me", "a#1"),
    ]);
    story(&[
        (0.0, "SCHEDULE a PX 100000", "OK missing>scheduled"),
        (50.0, "wall +99949", "done"),
        (50.999, "CLAIM me", "-"),
        (51.0, "CLAIM me", "a#1"),
    ]);
}

#[test]
fn leases_and_retry_waits_do_not() {
    for step in ["wall -3600000", "wall +3600000"] {
        story(&[
            (0.0, "SCHEDULE a PXAT T-9000000", "OK missing>expired"),
            (0.0, "SCHEDULE b PXAT T-9000000", "OK missing>expired"),
            (0.0, "CLAIM me PX 1000 COUNT 2", "a#1 b#1"),
            (1.0, "NACK b $b DELAY 1000", "OK leased>retrying"),
            (500.0, step, "done"),
            (999.999, "CLAIM you COUNT 2", "-"),
            (1000.0, "CLAIM you COUNT 2", "a#2"),
            (1000.999, "CLAIM you COUNT 2", "-"),
            (1001.0, "CLAIM you COUNT 2", "b#2"),
        ]);
    }
}

#[test]
fn an_order_drawn_before_the_clock_was_set_back_waits_again() {
    story(&[
        (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 50", "OK missing>scheduled"),
        (100.0, "pass", "expired:b expired:a"),
        (100.0, "wall -40", "done"),
        (100.0, "CLAIM me COUNT 9", "b#1"),
        (100.0, "CLAIM me ID a", "-"),
        (100.0, "NEXT", "a+100"),
        (139.999, "CLAIM me COUNT 9", "-"),
        (140.0, "CLAIM me COUNT 9", "a#1"),
    ]);
    // The same for one that came back by a lapse.
    story(&[
        (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (100.0, "CLAIM me PX 10", "a#1"),
        (110.0, "pass", "lapsed:a expired:a"),
        (110.0, "wall -60", "done"),
        (110.0, "GET a", "scheduled +100 #1 owner:me"),
        (110.0, "CLAIM me", "-"),
        (159.999, "CLAIM me", "-"),
        (160.0, "CLAIM me", "a#2"),
    ]);
}

// -------------------------------------------------------------------- claim order

#[test]
fn claims_come_by_deadline_and_in_schedule_order_within_a_millisecond() {
    story(&[
        (0.0, "SCHEDULE a PX 30", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 10", "OK missing>scheduled"),
        (0.0, "SCHEDULE c PX 20", "OK missing>scheduled"),
        (0.0, "SCHEDULE d PX 10", "OK missing>scheduled"),
        (5.0, "SCHEDULE e PXAT T+10", "OK missing>scheduled"),
        (5.0, "SCHEDULE b PXAT T+10 XX", "OK scheduled>scheduled"),
        (40.0, "CLAIM me COUNT 2", "d#1 e#1"),
        (40.0, "CLAIM me COUNT 9", "b#1 c#1 a#1"),
    ]);
}

#[test]
fn back_dated_and_returned_orders_go_by_when_they_became_claimable() {
    story(&[
        (0.0, "SCHEDULE a PX 10", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 30", "OK missing>scheduled"),
        (0.0, "SCHEDULE c PX 50", "OK missing>scheduled"),
        (20.0, "SCHEDULE late PXAT T-9999", "OK missing>expired"),
        (60.0, "CLAIM me COUNT 9", "a#1 late#1 b#1 c#1"),
    ]);
    story(&[
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE b PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE c PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE y PX 120", "OK missing>scheduled"),
        (0.0, "SCHEDULE z PX 160", "OK missing>scheduled"),
        (0.0, "CLAIM me PX 150 COUNT 1", "a#1"),
        (0.0, "CLAIM me PX 130 COUNT 1", "b#1"),
        (0.0, "CLAIM me COUNT 1", "c#1"),
        (1.0, "NACK c $c DELAY 139", "OK leased>retrying"),
        (500.0, "CLAIM me COUNT 9", "y#1 b#2 c#2 a#2 z#1"),
    ]);
}

/// A lock that lapsed while the deadline was still ahead, but was settled only
/// after both had passed, counted as claimable since the lock's end.
#[test]
fn a_lock_that_lapsed_before_the_deadline_leaves_the_order_to_its_deadline() {
    story(&[
        (0.0, "SCHEDULE a PX 20", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 15", "OK missing>scheduled"),
        (0.0, "LOCK a me PX 10", "OK scheduled>leased"),
        (30.0, "pass", "lapsed:a expired:b expired:a"),
        (30.0, "CLAIM me COUNT 2", "b#1 a#1"),
    ]);
    story(&[
        (0.0, "SCHEDULE a PX 20", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 22", "OK missing>scheduled"),
        (0.0, "LOCK a me PX 25", "OK scheduled>leased"),
        (30.0, "CLAIM me COUNT 2", "b#1 a#1"),
    ]);
}

#[test]
fn after_a_load_orders_go_by_deadline_or_lease_end() {
    story(&[
        (0.0, "SCHEDULE a PX 30", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 30", "OK missing>scheduled"),
        (0.0, "SCHEDULE c PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE d PX 0", "OK missing>expired"),
        (0.0, "CLAIM me PX 60", "c#1"),
        (0.0, "CLAIM me PX 50", "d#1"),
        (20.0, "SCHEDULE late PXAT T-9999", "OK missing>expired"),
        (40.0, "pass", "expired:late expired:a expired:b"),
        (55.0, "reload", "done"),
        (55.0, "GET c", "leased +0 #1 owner:me lease:5"),
        (59.999, "CLAIM me COUNT 9", "late#1 a#1 b#1 d#2"),
        (60.0, "CLAIM me COUNT 9", "c#2"),
    ]);
    // Long down: all of it at once, in the same order.
    story(&[
        (0.0, "SCHEDULE a PX 30", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 30", "OK missing>scheduled"),
        (0.0, "SCHEDULE c PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE d PX 0", "OK missing>expired"),
        (0.0, "CLAIM me PX 60", "c#1"),
        (0.0, "CLAIM me PX 50", "d#1"),
        (99_999.0, "reload", "done"),
        (
            99_999.0,
            "pass",
            "expired:a expired:b lapsed:d expired:d lapsed:c expired:c",
        ),
        (99_999.0, "CLAIM me COUNT 9", "a#1 b#1 d#2 c#2"),
    ]);
}

// ---------------------------------------------------------------------- announcing

#[test]
fn each_entry_into_expired_is_announced_once_and_in_order() {
    story(&[
        (0.0, "SCHEDULE a PX 30", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 10", "OK missing>scheduled"),
        (0.0, "SCHEDULE c PX 10", "OK missing>scheduled"),
        (9.999, "pass", "-"),
        (10.0, "pass 1", "expired:b"),
        (10.0, "pass 1", "expired:c"),
        (10.0, "pass", "-"),
        (20.0, "SCHEDULE late PXAT T-500", "OK missing>expired"),
        (40.0, "pass", "expired:late expired:a"),
        (40.0, "pass", "-"),
        (40.0, "CLAIM me PX 100", "b#1"),
        (40.0, "pass", "-"),
        (139.999, "pass", "-"),
        (140.0, "pass", "lapsed:b expired:b"),
        (140.0, "pass", "-"),
        (140.0, "SCHEDULE c PX 10 XX", "OK expired>scheduled"),
        (149.999, "pass", "-"),
        (150.0, "pass", "expired:c"),
        (150.0, "FINISH c", "OK expired>finished"),
        (150.0, "pass", "-"),
    ]);
}

#[test]
fn a_retry_a_requeue_and_the_dead_are_announced() {
    story(&[
        (0.0, "CONFIG SET max-attempts 2", "done"),
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "pass", "expired:a"),
        (0.0, "CLAIM me", "a#1"),
        (0.0, "NACK a $a DELAY 10", "OK leased>retrying"),
        (0.0, "pass", "-"),
        (10.0, "pass", "expired:a"),
        (10.0, "CLAIM me", "a#2"),
        (10.0, "NACK a $a", "OK leased>dead"),
        (10.0, "pass", "dead:a"),
        (10.0, "pass", "-"),
        (10.0, "REQUEUE", "a left:0"),
        (10.0, "pass", "expired:a"),
        (10.0, "SCHEDULE a PX 0 XX", "OK expired>expired"),
        (10.0, "CLAIM me PX 5", "a#1"),
        (20.0, "CLAIM me PX 5", "a#2"),
        (30.0, "pass", "lapsed:a dead:a"),
        (30.0, "pass", "-"),
    ]);
}

/// The late word of a holder whose last try had lapsed was announced, and
/// counted, as a second death.
#[test]
fn a_late_nack_of_a_dead_order_is_no_second_death() {
    for passes in [false, true] {
        let mut bench = Bench::new(passes);
        tell(
            &mut bench,
            &[
                (0.0, "CONFIG SET max-attempts 1", "done"),
                (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
                (0.0, "CLAIM me PX 5", "a#1"),
                (10.0, "pass", "lapsed:a dead:a"),
                (10.0, "NACK a $a ERROR late", "OK dead>dead"),
                (10.0, "pass", "-"),
            ],
        );
        assert_eq!((bench.stat("dead_total"), bench.stat("dead")), (1, 1));
    }
}

#[test]
fn a_lapsed_lock_is_announced_even_if_its_order_is_not_due() {
    story(&[
        (0.0, "SCHEDULE a PX 1000", "OK missing>scheduled"),
        (0.0, "LOCK a me PX 10", "OK scheduled>leased"),
        (0.0, "LOCK b me PX 10", "OK missing>reserved"),
        (9.999, "pass", "-"),
        (10.0, "pass", "lapsed:a"),
        (10.0, "pass", "-"),
        (1000.0, "pass", "expired:a"),
    ]);
}

#[test]
fn a_pause_holds_announcements_and_claims_until_it_ends() {
    story(&[
        (0.0, "SCHEDULE a PX 10", "OK missing>scheduled"),
        (0.0, "PAUSE PX 100 REASON why", "done"),
        (50.0, "pass", "-"),
        (50.0, "CLAIM me", "-"),
        (50.0, "CLAIM me ID a", "-"),
        (50.0, "claimable", "false"),
        (50.0, "forget", "-"),
        (50.0, "wake", "+100"),
        (100.0, "wake", "now"),
        (100.0, "claimable", "true"),
        (100.0, "forget", "resumed"),
        (100.0, "pass", "expired:a"),
        (100.0, "PAUSE", "done"),
        (100.0, "CLAIM me", "-"),
        (99_999.0, "CLAIM me", "-"),
        (99_999.0, "FINISH a", "OK expired>finished"),
        (99_999.0, "RESUME", "done"),
        (99_999.0, "SCHEDULE b PX 0", "OK missing>expired"),
        (99_999.0, "CLAIM me", "b#1"),
    ]);
}

#[test]
fn after_a_promotion_what_is_unclaimed_is_announced_again() {
    story(&[
        (0.0, "SCHEDULE a PX 10", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 10", "OK missing>scheduled"),
        (0.0, "SCHEDULE c PX 20", "OK missing>scheduled"),
        (0.0, "SCHEDULE d PX 5", "OK missing>scheduled"),
        (20.0, "pass 3", "expired:d expired:a expired:b"),
        (20.0, "CLAIM me", "d#1"),
        (20.0, "promote", "done"),
        (20.0, "pass", "expired:a expired:b expired:c"),
        (20.0, "promote", "done"),
        (20.0, "pass 1", "expired:a"),
        (20.0, "promote", "done"),
        (20.0, "CLAIM me", "a#1"),
        (20.0, "pass", "expired:b expired:c"),
        (20.0, "pass", "-"),
    ]);
}

#[test]
fn a_claim_says_what_was_not_announced_yet() {
    for passes in [false, true] {
        let mut bench = Bench::new(passes);
        tell(
            &mut bench,
            &[
                (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
                (0.0, "SCHEDULE b PX 0", "OK missing>expired"),
            ],
        );
        let claim = |bench: &mut Bench, count: u32| {
            let now = bench.now();
            let defaults = bench.defaults.clone();
            let mut numbers = bench.numbers;
            let pick = crate::request::Pick::Next {
                count,
                block_ms: None,
            };
            let ask = crate::request::Claim {
                owner: b"me",
                lease_ms: Some(10),
                pick,
            };
            let mut env = Env {
                now,
                numbers: &mut numbers,
                defaults: &defaults,
            };
            bench.queue.advance(&now, &mut || true);
            let claimed = bench.queue.decide_claim(&mut env, &ask).unwrap();
            bench.carry(&claimed.effect.unwrap());
            bench.numbers = numbers;
            Bench::announcements(&claimed.announcements)
        };
        tell(&mut bench, &[(0.0, "pass 1", "expired:a")]);
        assert_eq!(claim(&mut bench, 1), "-");
        assert_eq!(claim(&mut bench, 1), "expired:b");
        tell(&mut bench, &[(10.0, "pass 1", "lapsed:a expired:a")]);
        assert_eq!(claim(&mut bench, 9), "lapsed:b expired:b");
        tell(&mut bench, &[(10.0, "pass", "-")]);
        // Also that the lock which kept it from being claimed has lapsed.
        tell(
            &mut bench,
            &[
                (10.0, "SCHEDULE c PX 10", "OK missing>scheduled"),
                (10.0, "LOCK c me PX 5", "OK scheduled>leased"),
            ],
        );
        bench.until(30.0);
        assert_eq!(
            claim(&mut bench, 9),
            "lapsed:c expired:c lapsed:a expired:a lapsed:b expired:b"
        );
        tell(&mut bench, &[(30.0, "pass", "-")]);
    }
}

// ------------------------------------------------------------ a refused effect

/// The effect of a decision that was refused (a server with too few replicas) is
/// decided again and again: what is to be said with it stays to be said, and it is
/// said once.
#[test]
fn what_is_said_with_an_effect_is_said_when_it_is_carried_out() {
    for (lines, effect_on) in [
        (
            &["SCHEDULE a PX 1000", "LOCK a me PX 10"][..],
            "LOCK a you PX 10",
        ),
        (&["LOCK a me PX 10"][..], "LOCK a you PX 10"),
    ] {
        let mut bench = Bench::new(true);
        for line in lines {
            bench.run(line);
        }
        bench.until(20.0);
        bench.advance();
        let now = bench.now();
        let ask = crate::request::Lock {
            id: b"a",
            owner: b"you",
            lease_ms: 10,
            reentrant: false,
            max_ms: None,
            fp: None,
            block_ms: None,
        };
        for _ in 0..100 {
            let defaults = bench.defaults.clone();
            let mut numbers = bench.numbers;
            let mut env = Env {
                now,
                numbers: &mut numbers,
                defaults: &defaults,
            };
            let decision = bench.queue.decide_lock(&mut env, &ask, false).unwrap();
            let effect = decision.effect.unwrap();
            let said = bench.queue.lapses_before(&now, &effect);
            assert_eq!(Bench::announcements(&said), "lapsed:a", "{lines:?}");
        }
        assert_eq!(bench.run(effect_on).split(' ').next(), Some("OK"));
        assert_eq!(bench.run("pass"), "-", "{lines:?}: said once");
    }
    // Nothing is said, and nothing lost, in a pause.
    let mut bench = Bench::new(true);
    bench.run("SCHEDULE a PX 1000");
    bench.run("LOCK a me PX 10");
    bench.until(20.0);
    bench.run("PAUSE");
    assert_eq!(bench.run("LOCK a you PX 500"), "OK scheduled>leased");
    assert_eq!(bench.run("pass"), "-");
    bench.run("RESUME");
    assert_eq!(bench.run("pass"), "lapsed:a");
}

/// As many locks have lapsed as are noted, and nothing was announced: each that is
/// forgotten is said once, the others in their turn.
#[test]
fn a_batch_is_forgotten_among_many_lapses() {
    let mut bench = Bench::new(false);
    bench.compares = false;
    let ids: Vec<String> = (0..600).map(|n| format!("o{n}")).collect();
    for id in &ids {
        bench.run(&format!("SCHEDULE {id} PX 60000"));
        bench.run(&format!("LOCK {id} me PX 10"));
    }
    bench.run("LOCK reserved me PX 10");
    bench.until(20.0);
    bench.advance();
    let mut said = BTreeSet::new();
    let mut batch: Vec<Bytes<'_>> = ids
        .iter()
        .step_by(3)
        .map(|id| Bytes::of(id.as_bytes()))
        .collect();
    batch.push(Bytes::of(b"reserved"));
    let effect = Effect::Forget { ids: batch };
    for one in bench.queue.lapses_before(&bench.now(), &effect) {
        assert!(said.insert(one.id));
    }
    assert_eq!(said.len(), 201);
    bench.carry(&effect);
    assert!(bench.queue.lapses_before(&bench.now(), &effect).is_empty());
    let mut list = Vec::new();
    let now = bench.now();
    bench.queue.announce(&now, usize::MAX, &mut list);
    for one in list {
        assert!(said.insert(one.id), "said twice");
    }
    assert_eq!(said.len(), 601);
}

// ------------------------------------------------------------------ a full queue

/// A queue whose arena takes nothing new: what brings bytes is refused with an error
/// before anything is done, everything else goes through. A replica that has less room
/// than its primary had does what it can: the order is finished, and found.
#[test]
fn a_full_queue_refuses_results_and_finishes_orders() {
    use super::tables::arena::testing::set_pages_max;
    const FULL: &str = "ERR queue is full, spread the orders over several queues";
    let mut bench = Bench::new(false);
    for id in ["a", "b", "c", "d", "e"] {
        bench.run(&format!("SCHEDULE {id} PX 0 PAYLOAD {}", "p".repeat(40)));
    }
    bench.run("SCHEDULE f PX 60000");
    assert_eq!(bench.run("CLAIM me COUNT 2"), "a#1 b#1");
    set_pages_max(2);
    let before = digest(&bench.queue);
    for line in [
        "FINISH c RESULT r",
        "ACK a $a RESULT r",
        "FINISH a FENCE $a RESULT r",
        "FINISH new CREATE RESULT r",
        "STATUS c s PAYLOAD p",
        "SCHEDULE c PX 5 XX PAYLOAD p",
        "SCHEDULE new PX 5",
        "LOCK new me PX 5",
    ] {
        assert_eq!(bench.run(line), FULL, "{line}");
    }
    assert_eq!(digest(&bench.queue), before);
    // What is refused for another reason is told that one.
    assert_eq!(bench.run("FINISH a RESULT r"), "LEASED leased");
    assert_eq!(bench.run("FINISH none RESULT r"), "MISSING missing");
    for (line, said) in [
        ("FINISH c", "OK expired>finished"),
        ("ACK a $a", "OK leased>finished"),
        ("NACK b $b DELAY 0", "OK leased>expired"),
        ("STATUS d s", "OK expired>expired"),
        ("SCHEDULE d PX 500 XX", "OK expired>scheduled"),
        ("CLAIM me", "e#1"),
    ] {
        assert_eq!(bench.run(line), said, "{line}");
    }
    // An effect comes with more than there is room for.
    let finish = |result| Effect::Finish {
        id: Bytes::of(b"e"),
        rev: START_MS * 1000 + 99,
        status: None,
        result: Some(Bytes::of(result)),
        keep_end: Some(WallMs(START_MS + 500)),
        creates: false,
        by: super::effect::FinishedBy::Ack,
        at: WallMs(START_MS),
        by_holder: false,
    };
    let now = bench.now();
    let long = vec![b'r'; 30_000];
    assert!(!bench.replica.apply(&now, &finish(&long), &mut Vec::new()));
    let view = bench.replica.view(&now, b"e").unwrap();
    assert_eq!((view.state, view.result), (State::Finished, None));
    bench.replica.check();
    // One that takes the payload's place has room.
    assert!(bench.queue.apply(&now, &finish(b"short"), &mut Vec::new()));
    let view = bench.queue.view(&now, b"e").unwrap();
    assert_eq!(
        (view.state, view.result),
        (State::Finished, Some(&b"short"[..]))
    );
    bench.queue.check();
}

// ------------------------------------------------------------------------- numbers

#[test]
fn a_grant_is_larger_than_the_last_than_the_floor_and_not_behind_the_clock() {
    let mut numbers = Numbers::new();
    let table = [
        // now, floor, grant
        (100, 0, 100),
        (100, 0, 101),
        (90, 0, 102),
        (90, 500, 501),
        (1000, 500, 1000),
        (1000, 1000, 1001),
        (NUMBER_END - 2, 0, NUMBER_END - 2),
        (5, 0, NUMBER_END - 1),
    ];
    for (now_us, floor, number) in table {
        assert_eq!(
            numbers.grant(now_us, floor),
            Some(number),
            "{now_us} {floor}"
        );
        assert_eq!(numbers.last(), number);
    }
    assert_eq!(numbers.grant(5, 0), None, "used up");
    assert_eq!(numbers.last(), NUMBER_END - 1, "and it stays that way");
    assert_eq!(numbers.grant(u64::MAX, u64::MAX), None);
}

/// Wherever a queue's numbers are - by the clock, ahead of it, out of reach of the
/// server's own, just before the end - each order of one CLAIM has a fence of its own.
#[test]
fn each_order_of_a_claim_has_its_own_fence_however_far_ahead_the_floor_is() {
    let start = START_MS * 1000;
    for floor in [
        1,
        start + 5,
        start + FOREIGN_AHEAD_US_MAX - 1,
        start + FOREIGN_AHEAD_US_MAX,
        start + FOREIGN_AHEAD_US_MAX + 1,
        4_070_908_810_022_341,
        NUMBER_END - (1 << 40) - 2,
        NUMBER_END - (1 << 40),
        NUMBER_END - 5,
    ] {
        for passes in [false, true] {
            let mut bench = Bench::new(passes);
            for id in ["a", "b", "c"] {
                bench.run(&format!("SCHEDULE {id} PX 0"));
            }
            bench.carry(&Effect::Floor(floor));
            assert_eq!(bench.run("CLAIM me COUNT 3"), "a#1 b#1 c#1");
            let fences: Vec<u64> = ["a", "b", "c"]
                .map(|id| bench.view(id).unwrap().fence)
                .to_vec();
            assert!(
                fences.first() > Some(&floor) && fences.is_sorted_by(|a, b| a < b),
                "{floor}: {fences:?}"
            );
            assert_eq!(bench.queue.floor(), fences[2]);
        }
    }
}

/// A queue and its copy are granted from by turns, on a server that was started anew
/// or taken over in between: no fence comes twice.
#[test]
fn a_queue_and_its_copy_hand_out_no_fence_twice() {
    let now_us = START_MS * 1000;
    for first in [
        now_us + 10,
        now_us + FOREIGN_AHEAD_US_MAX + 10,
        4_070_908_810_022_341,
    ] {
        let mut numbers = Numbers::new();
        let mut floors = [first, first, first + 7];
        let mut given = BTreeSet::new();
        for turn in 0..300 {
            if turn % 100 == 99 {
                // Another process: it learns of what is there, and moves on.
                numbers = Numbers::new();
                for floor in floors {
                    numbers.learn(floor, now_us);
                }
                numbers.guard(now_us, 1_000);
            }
            let floor = &mut floors[turn * turn % 3];
            let number = numbers.grant(now_us, *floor).unwrap();
            assert!(number > *floor && given.insert(number), "{first}: {number}");
            *floor = number;
        }
        assert!(
            numbers.last() <= now_us + FOREIGN_AHEAD_US_MAX,
            "and other queues go by the clock"
        );
    }
    // One queue at the end of the number line does not take the others along.
    let mut numbers = Numbers::new();
    numbers.learn(NUMBER_END - 1, now_us);
    assert_eq!(numbers.grant(now_us, NUMBER_END - 1), None);
    assert_eq!(
        numbers.grant(now_us, 4_070_908_810_022_341),
        Some(4_070_908_810_022_342)
    );
}

#[test]
fn a_write_takes_no_step_of_its_own_and_is_known() {
    let mut numbers = Numbers::new();
    assert_eq!(numbers.write(100, 0), Some(100));
    assert_eq!(numbers.write(100, 0), Some(100));
    assert_eq!(numbers.write(100, 100), Some(101));
    assert_eq!(
        numbers.write(100, 0),
        Some(101),
        "what was given out is known"
    );
    assert_eq!(numbers.grant(200, 0), Some(200));
    assert_eq!(numbers.write(100, 0), Some(200), "not behind a grant");
    assert_eq!(numbers.write(100, NUMBER_END - 2), Some(NUMBER_END - 1));
    assert_eq!(numbers.write(100, NUMBER_END - 1), None);
    assert_eq!(numbers.write(NUMBER_END, 0), None);
}

#[test]
fn foreign_numbers_count_up_to_an_hour_ahead_and_a_guard_lies_above_all() {
    let mut numbers = Numbers::new();
    assert!(numbers.learn(500, 100));
    assert_eq!(numbers.last(), 500);
    assert!(numbers.learn(400, 100));
    assert_eq!(numbers.last(), 500);
    assert!(numbers.learn(100 + FOREIGN_AHEAD_US_MAX, 100));
    assert_eq!(numbers.last(), 100 + FOREIGN_AHEAD_US_MAX);
    assert!(!numbers.learn(101 + FOREIGN_AHEAD_US_MAX, 100));
    assert_eq!(numbers.last(), 100 + FOREIGN_AHEAD_US_MAX);
    numbers.guard(7, 10);
    assert_eq!(numbers.last(), 110 + FOREIGN_AHEAD_US_MAX);
    let mut numbers = Numbers::new();
    numbers.guard(1000, 10);
    assert_eq!(numbers.grant(1005, 0), Some(1011));
}

#[test]
fn a_queue_whose_numbers_are_used_up_says_so_and_changes_nothing() {
    let mut bench = Bench::new(false);
    bench.run("SCHEDULE a PX 0");
    bench.carry(&Effect::Floor(NUMBER_END - 1));
    assert_eq!(bench.run("CLAIM me"), Error::NumbersUsedUp.to_string());
    assert_eq!(
        bench.run("FINISH a"),
        "OK expired>finished",
        "a plain write goes by its own order"
    );
    // An order whose own rev is the last number there is takes no write at all.
    let mut bench = Bench::new(false);
    bench.run("SCHEDULE a PX 0");
    let rev = NUMBER_END - 1;
    bench.carry(&Effect::Status {
        id: Bytes::of(b"a"),
        rev,
        status: Bytes::of(b"s"),
        payload: None,
        ends_grant: false,
    });
    for command in ["SCHEDULE a PX 0 XX", "FINISH a", "STATUS a t", "CLAIM me"] {
        assert_eq!(
            bench.run(command),
            Error::NumbersUsedUp.to_string(),
            "{command}"
        );
    }
    assert_eq!(bench.view("a").unwrap().rev, rev);
}

#[test]
fn a_rev_grows_with_each_write_also_when_the_clock_is_set_back() {
    let mut bench = Bench::new(true);
    let mut last = 0;
    for command in [
        "SCHEDULE a PX 0",
        "STATUS a s",
        "wall -5000",
        "SCHEDULE a PX 0 XX",
        "CLAIM me PX 1000",
        "RENEW a $a PX 2000",
        "NACK a $a DELAY 0",
        "wall -5000",
        "SCHEDULE a PX 0 XX",
        "CLAIM me PX 1000",
        "ACK a $a KEEP 10",
        "SCHEDULE a PX 5 FROM s",
        "FINISH a KEEP 10",
    ] {
        let said = bench.run(command);
        assert!(
            said.starts_with("OK") || said.starts_with('a') || said == "done",
            "{command}: {said}"
        );
        let rev = bench.view("a").unwrap().rev;
        assert!(
            rev > last || command.starts_with("wall"),
            "{command}: {rev} after {last}"
        );
        last = rev;
    }
    // What reads as missing still counts while it is there.
    bench.until(50.0);
    assert_eq!(bench.run("SCHEDULE a PX 5"), "OK missing>scheduled");
    assert!(bench.view("a").unwrap().rev > last);
    let fences = &bench.fences[b"a".as_slice()];
    assert!(fences.is_sorted() && fences.len() == 2 && fences[0] != fences[1]);
}

// ------------------------------------------------------------------ what is stored

#[test]
fn more_statuses_than_there_are_codes_for_work_like_the_rest() {
    let mut bench = Bench::new(false);
    bench.compares = false;
    let count = 4_300;
    for n in 0..count {
        let status = format!("status-{n}");
        assert_eq!(
            bench.run(&format!("SCHEDULE {n} PX 0 STATUS {status}")),
            "OK missing>expired"
        );
    }
    let all = |bench: &Bench, shift: u32| {
        for n in 0..count {
            let (id, status) = (n.to_string(), format!("status-{}", n + shift));
            assert_eq!(bench.view(&id).unwrap().status, status.as_bytes(), "{n}");
        }
    };
    all(&bench, 0);
    bench.compares = true;
    bench.compare();
    bench.reload();
    all(&bench, 0);
    bench.compares = false;
    // Each order takes the status of its neighbour; the order of that matters to
    // the codes, not to what is read.
    for n in 0..count {
        assert_eq!(
            bench.run(&format!("STATUS {n} status-{}", n + 1)),
            "OK expired>expired"
        );
    }
    all(&bench, 1);
    // Leases, guards and finishing with a status of its own.
    let last = count - 1;
    assert_eq!(
        bench.run(&format!("CLAIM me ID {last}")),
        format!("{last}#1")
    );
    assert_eq!(
        bench.run(&format!("ACK {last} ${last} FROM status-{count}")),
        "OK leased>finished"
    );
    assert_eq!(
        bench.view(&last.to_string()).unwrap().status,
        format!("status-{count}").as_bytes()
    );
    for n in 0..count - 1 {
        assert_eq!(
            bench.run(&format!("FINISH {n} STATUS paid FROM status-{}", n + 1)),
            "OK expired>finished"
        );
    }
    assert_eq!(bench.view("17").unwrap().status, b"paid");
    bench.compares = true;
    bench.compare();
}

#[test]
fn a_payload_is_replaced_grows_shrinks_and_goes() {
    let mut bench = Bench::new(false);
    let sizes = [
        0, 1, 5, 127, 128, 129, 300, 16_383, 16_384, 70_000, 2_097_151, 2_097_152, 3_000_000,
        16_384, 127, 1, 0,
    ];
    bench.run("SCHEDULE a PX 100");
    assert_eq!(bench.view("a").unwrap().payload, None);
    for (n, size) in sizes.into_iter().enumerate() {
        let payload: Vec<u8> = (0..size).map(|at| (at * 31 + n) as u8).collect();
        let ask = crate::request::SetStatus {
            id: b"a",
            status: b"s",
            guard: crate::request::Guard::default(),
            payload: Some(&payload),
        };
        assert_eq!(bench.ask(&Request::Status(ask)), "OK scheduled>scheduled");
        assert_eq!(
            bench.view("a").unwrap().payload,
            Some(payload.as_slice()),
            "{size}"
        );
        bench.compare();
        bench.reload();
        assert_eq!(
            bench.view("a").unwrap().payload,
            Some(payload.as_slice()),
            "{size}"
        );
        // Kept by a move, by a claim, and by a status alone.
        bench.run("SCHEDULE a PX 0 XX");
        bench.run("CLAIM me");
        bench.run("NACK a $a DELAY 0");
        bench.run("STATUS a t");
        assert_eq!(
            bench.view("a").unwrap().payload,
            Some(payload.as_slice()),
            "{size}"
        );
        bench.run("SCHEDULE a PX 100 XX");
    }
    bench.run("STATUS a s PAYLOAD abc");
    bench.run("FINISH a RESULT ''");
    let view = bench.view("a").unwrap();
    assert_eq!(
        (view.payload, view.result),
        (None, Some(b"".as_slice())),
        "an empty result is one"
    );
    bench.run("SCHEDULE a PX 100 FROM s");
    let view = bench.view("a").unwrap();
    assert_eq!((view.payload, view.result), (None, None));
    assert_eq!(bench.run("FINISH a"), "OK scheduled>finished");
    assert_eq!(
        bench.run("STATUS a s PAYLOAD abc"),
        "STATE finished",
        "a finished order has none"
    );
}

#[test]
fn ids_of_every_length_and_byte_are_told_apart() {
    let mut bench = Bench::new(false);
    bench.compares = false;
    let mut ids: Vec<Vec<u8>> = (1..=255).map(|len| vec![b'i'; len]).collect();
    ids.extend((0..=255).map(|byte| vec![byte, 0]));
    let when = crate::request::When::In(5);
    let schedule = |id| {
        let (mode, guard) = (
            crate::request::Mode::Create,
            crate::request::Guard::default(),
        );
        Request::Schedule(crate::request::Schedule {
            id,
            when,
            mode,
            only: None,
            guard,
            status: None,
            payload: None,
        })
    };
    for id in &ids {
        assert_eq!(bench.ask(&schedule(id)), "OK missing>scheduled");
        assert_eq!(bench.ask(&schedule(id)), "EXISTS scheduled");
    }
    assert_eq!(bench.queue.len(), ids.len());
    bench.compares = true;
    bench.compare();
}

#[test]
fn an_empty_queue_is_one_that_nobody_would_miss() {
    let mut bench = Bench::new(false);
    assert!(bench.queue.is_empty());
    for (command, empty) in [
        ("SCHEDULE a PX 0", false),
        ("FINISH a KEEP 0", true),
        ("CONFIG SET keep-ms 5", false),
        ("CONFIG RESET keep-ms", true),
        ("PAUSE", false),
        ("RESUME", true),
        ("FINISH b CREATE KEEP 10", false),
        ("STATUS c s", false),
    ] {
        bench.run(command);
        assert_eq!(bench.queue.is_empty(), empty, "{command}");
    }
    bench.until(10.0);
    assert!(
        !bench.queue.is_empty(),
        "what reads as missing is still there"
    );
    assert_eq!(bench.run("forget"), "b");
    assert!(bench.queue.is_empty());
    let before = bench.queue.bytes();
    assert!(before < 4096, "{before}");
}

#[test]
fn an_effect_for_a_record_that_is_not_there_says_so_and_changes_nothing() {
    let mut bench = Bench::new(false);
    bench.run("SCHEDULE a PX 0");
    bench.run("CLAIM me");
    let before = digest(&bench.queue);
    let now = bench.now();
    let id = || Bytes::of(b"nobody");
    let rev = bench.queue.floor();
    let (end, owner) = (WallMs(START_MS + 9), Bytes::of(b"me"));
    let base = super::effect::Base::Record;
    let by = super::effect::FinishedBy::Ack;
    let grant = super::effect::Granted {
        id: id(),
        fence: rev,
        attempt: 1,
        last_try: false,
    };
    let (status, payload, result, error, fp) = (None, None, None, None, None);
    let mut events = Vec::new();
    for effect in [
        Effect::Schedule {
            id: id(),
            deadline: end,
            rev,
            status,
            payload,
            base,
        },
        Effect::Finish {
            id: id(),
            rev,
            status: None,
            result,
            keep_end: Some(end),
            creates: false,
            by,
            at: end,
            by_holder: true,
        },
        Effect::Status {
            id: id(),
            rev,
            status: Bytes::of(b"s"),
            payload: None,
            ends_grant: true,
        },
        Effect::Claim {
            owner: owner.clone(),
            since: end,
            end,
            cap: end,
            grants: vec![grant],
        },
        Effect::Nack {
            id: id(),
            rev,
            then: AfterTry::Now,
            error,
            untried: false,
        },
        Effect::Renew {
            id: id(),
            rev,
            since: end,
            end,
        },
        Effect::Hold {
            id: id(),
            rev,
            holds: 2,
            since: end,
            end,
        },
        Effect::Lock {
            id: id(),
            owner,
            fence: rev,
            since: end,
            end,
            cap: end,
            fp,
            creates: false,
        },
        Effect::Release {
            id: id(),
            rev,
            ended: Ended::Lock,
        },
        Effect::Forget { ids: vec![id()] },
        Effect::Requeue {
            rev,
            ids: vec![id()],
        },
        Effect::Configure {
            name: Bytes::of(b"no-such-setting"),
            value: None,
        },
    ] {
        assert!(!bench.queue.apply(&now, &effect, &mut events), "{effect:?}");
        assert_eq!(digest(&bench.queue), before, "{effect:?}");
        assert_eq!(events, [], "{effect:?}");
    }
}

// ----------------------------------------------------------------------- questions

#[test]
fn next_lists_what_is_scheduled_in_order() {
    story(&[
        (0.0, "SCHEDULE a PX 30", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 10", "OK missing>scheduled"),
        (0.0, "SCHEDULE c PX 20", "OK missing>scheduled"),
        (0.0, "SCHEDULE d PX 10", "OK missing>scheduled"),
        (0.0, "LOCK c me PX 1000", "OK scheduled>leased"),
        (0.0, "NEXT", "b+10"),
        (0.0, "NEXT COUNT 9", "b+10 d+10 a+30"),
        (9.999, "NEXT COUNT 9", "b+10 d+10 a+30"),
        (10.0, "NEXT COUNT 9", "a+30"),
        (10.0, "pass", "expired:b expired:d"),
        (10.0, "NEXT COUNT 9", "a+30"),
        (10.0, "UNLOCK c $c", "OK leased>scheduled"),
        (10.0, "NEXT COUNT 9", "c+20 a+30"),
    ]);
}

#[test]
fn next_is_in_order_over_all_levels_of_the_wheel() {
    let mut bench = Bench::new(false);
    bench.compares = false;
    let mut expected = Vec::new();
    for n in 0..3000_u64 {
        let ms = 1 + (n * n * 7919) % (1 << (n % 40));
        bench.run(&format!("SCHEDULE {n} PX {ms}"));
        expected.push((ms, n));
    }
    expected.sort_unstable();
    let rows = bench.queue.next(&bench.now(), 5000);
    let rows: Vec<(u64, u64)> = rows
        .iter()
        .map(|(id, deadline)| {
            (
                deadline.0 - START_MS,
                std::str::from_utf8(id).unwrap().parse().unwrap(),
            )
        })
        .collect();
    assert_eq!(rows, expected);
    assert_eq!(bench.queue.next(&bench.now(), 7).len(), 7);
}

#[test]
fn scan_returns_whatever_is_there_from_the_first_call_to_the_last() {
    for count in [1, 3, 10, 1000] {
        for seed in 0..20_u64 {
            let mut bench = Bench::new(false);
            bench.compares = false;
            let mut dice = seed;
            let mut roll = |sides: u64| {
                dice = dice
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (dice >> 33) % sides
            };
            for n in 0..200 {
                bench.run(&format!("SCHEDULE stay{n} PX 0"));
                bench.run(&format!("SCHEDULE go{n} PX 0"));
            }
            let mut seen = std::collections::BTreeSet::new();
            let (mut cursor, mut calls) = (0, 0);
            loop {
                let ask = Scan {
                    cursor,
                    state: None,
                    status: None,
                    pattern: None,
                    count,
                };
                let (next, rows) = bench.queue.scan(&bench.now(), &ask, &|_| true);
                assert!(rows.len() <= count as usize);
                seen.extend(rows.into_iter().map(|row| row.id));
                calls += 1;
                if next == 0 {
                    break;
                }
                assert!(cursor == 0 || next < cursor, "it comes to an end");
                cursor = next;
                // Meanwhile others come and go.
                for _ in 0..roll(4) {
                    let n = roll(200);
                    bench.run(&format!("FINISH go{n} KEEP 0"));
                    bench.run(&format!("SCHEDULE new{calls}-{n} PX 0"));
                    bench.run(&format!("STATUS stay{n} s PAYLOAD xyz"));
                }
            }
            for n in 0..200 {
                assert!(
                    seen.contains(format!("stay{n}").as_bytes()),
                    "stay{n}, count {count}, seed {seed}"
                );
            }
        }
    }
}

#[test]
fn scan_filters_by_state_status_and_pattern() {
    story(&[
        (0.0, "SCHEDULE a1 PX 0 STATUS unpaid", "OK missing>expired"),
        (
            0.0,
            "SCHEDULE a2 PX 10 STATUS unpaid",
            "OK missing>scheduled",
        ),
        (0.0, "SCHEDULE b1 PX 10 STATUS paid", "OK missing>scheduled"),
        (0.0, "FINISH b2 CREATE STATUS paid", "OK missing>finished"),
        (
            0.0,
            "SCAN 0",
            "0 b2:finished b1:scheduled a2:scheduled a1:expired",
        ),
        (0.0, "SCAN 0 STATE scheduled", "0 b1:scheduled a2:scheduled"),
        (0.0, "SCAN 0 STATUS paid", "0 b2:finished b1:scheduled"),
        (0.0, "SCAN 0 MATCH a*", "0 a2:scheduled a1:expired"),
        (
            0.0,
            "SCAN 0 MATCH a* STATE scheduled STATUS unpaid",
            "0 a2:scheduled",
        ),
        (0.0, "SCAN 0 STATUS ''", "0"),
    ]);
}

#[test]
fn stats_count_every_state() {
    for passes in [false, true] {
        let mut bench = Bench::new(passes);
        for (ms, command) in [
            (0.0, "SCHEDULE s1 PX 1000"),
            (0.0, "SCHEDULE s2 PX 2000"),
            (0.0, "SCHEDULE s3 PX 3000"),
            (0.0, "SCHEDULE c1 PXAT T-20"),
            (0.0, "CLAIM me"),
            (0.0, "SCHEDULE r1 PXAT T-10"),
            (0.0, "CLAIM me"),
            (0.0, "NACK r1 $r1 DELAY 5000"),
            (0.0, "SCHEDULE d1 PX 0"),
            (0.0, "CLAIM me"),
            (0.0, "NACK d1 $d1 DEAD"),
            (0.0, "LOCK s3 me PX 5000"),
            (0.0, "LOCK x1 me PX 5000"),
            (0.0, "LOCK x2 me PX 500"),
            (0.0, "FINISH f1 CREATE"),
            (0.0, "FINISH f2 CREATE KEEP 10"),
            (100.0, "SCHEDULE e1 PXAT T-5"),
            (600.0, "pass 0"),
            (1000.0, "STATUS s1 s IFREV 3"),
        ] {
            bench.until(ms);
            bench.run(command);
        }
        for (name, value) in [
            ("scheduled", 1),
            ("expired", 2),
            ("leased", 2),
            ("retrying", 1),
            ("dead", 1),
            ("finished", 1),
            ("reserved", 1),
            ("orders", 9),
            ("next_deadline", START_MS as i64 + 2000),
            ("oldest_expired_ms", 900),
            ("behind_ms", 0),
            ("live_claims", 1),
            ("paused_ms", -2),
            ("scheduled_total", 7),
            ("claimed_total", 3),
            ("nacked_total", 2),
            ("dead_total", 1),
            ("stale_total", 1),
            ("lapsed_total", 1),
        ] {
            assert_eq!(bench.stat(name), value, "{name} (passes: {passes})");
        }
    }
}

#[test]
fn the_next_wake_is_the_first_thing_that_time_will_do() {
    story(&[
        (0.0, "wake", "never"),
        (0.0, "SCHEDULE a PX 5000", "OK missing>scheduled"),
        (0.0, "wake", "+5000"),
        (0.0, "SCHEDULE b PX 100", "OK missing>scheduled"),
        (0.0, "wake", "+100"),
        (100.0, "wake", "now"),
        (100.0, "pass", "expired:b"),
        (100.0, "wake", "+5000"),
        (100.0, "CLAIM me PX 300", "b#1"),
        (100.0, "wake", "+400"),
        (101.0, "NACK b $b DELAY 1000", "OK leased>retrying"),
        (101.0, "wake", "+1101"),
        (101.0, "LOCK c me PX 200", "OK missing>reserved"),
        (101.0, "wake", "+301"),
        (101.0, "UNLOCK c $c", "OK reserved>missing"),
        (101.0, "FINISH b", "OK retrying>finished"),
        (101.0, "FINISH a", "OK scheduled>finished"),
    ]);
}

/// A DUMP payload with a flipped bit held a record with a grant, a retry wait and a
/// dead mark at once: its place and its state disagreed, and CLAIM went round in
/// circles for ever.
#[test]
fn a_record_that_contradicts_itself_stops_no_claim() {
    let moment = |ms: i64| WallMs(START_MS.saturating_add_signed(ms));
    for kind in [LeaseKind::Claim, LeaseKind::Lock] {
        for end in [-10, 500] {
            for retry_at in [Some(600), Some(-5), None] {
                for granted in [true, false] {
                    let mut bench = Bench::new(false);
                    let grant = WholeGrant {
                        kind,
                        owner: Bytes::of(b"me"),
                        fence: 7,
                        made: WallMs(0),
                        since: WallMs(0),
                        end: moment(end),
                        cap: moment(end),
                        holds: 1,
                        last_try: false,
                    };
                    bench.carry(&Effect::Restore(Whole {
                        id: Bytes::of(b"odd"),
                        status: Bytes::of(b""),
                        rev: 9,
                        fp: None,
                        life: WholeLife::Open {
                            deadline: Some(moment(-20)),
                            payload: None,
                            attempt: 1,
                            error: None,
                            phase: match retry_at {
                                _ if granted => WholePhase::Granted(grant),
                                Some(at) => WholePhase::Retrying {
                                    since: WallMs(0),
                                    at: moment(at),
                                },
                                None => WholePhase::Dead(moment(-5)),
                            },
                        },
                    }));
                    bench.compare();
                    for ms in [1.0, 501.0, 601.0] {
                        bench.until(ms);
                        // What is claimable says so, and the other way round.
                        let expired = bench.state(b"odd") == State::Expired;
                        bench.advance();
                        let now = bench.now();
                        assert_eq!(bench.queue.claimable(&now, &bench.defaults), expired);
                        bench.run("CLAIM me PX 1");
                        bench.compare();
                    }
                }
            }
        }
    }
}

/// An id that was forgotten and made again had its old rev a second time while the
/// server's numbers were ahead of the clock (after a start): IFREV passed on an
/// order that was another one.
#[test]
fn a_rev_never_comes_back_with_an_id_that_is_made_again() {
    let mut bench = Bench::new(false);
    bench.numbers.guard(bench.now().wall_us, 10_000_000);
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        for command in [
            "SCHEDULE a PX 900000",
            "STATUS a one",
            "LOCK a me PX 1000",
            "UNLOCK a $a",
            "FINISH a KEEP 0",
        ] {
            let said = bench.run(command);
            assert!(said.starts_with("OK"), "{command}: {said}");
            let view = bench.queue.view(&bench.now(), b"a");
            if let Some(view) = view {
                assert!(seen.insert(view.rev), "{command}: {}", view.rev);
            }
        }
        // With its last order the queue goes, and with it its floor.
        bench.queue = Queue::new();
        bench.replica = Queue::new();
    }
}

/// A long pattern cost a second and more, because looks were bounded and what a
/// look costs was not.
#[test]
fn a_pattern_makes_looks_dearer_and_a_scan_comes_to_its_end_all_the_same() {
    let mut bench = Bench::new(false);
    for n in 0..500 {
        bench.run(&format!("SCHEDULE {}{n:05} PX 9000", "a".repeat(250)));
    }
    let pattern = format!("*{}b", "a".repeat(240));
    let (mut cursor, mut calls) = (0, 0);
    loop {
        let said = bench.run(&format!("SCAN {cursor} MATCH {pattern} COUNT 1000"));
        cursor = said.parse().expect("a cursor and nothing else");
        calls += 1;
        if cursor == 0 {
            break;
        }
    }
    assert!((10..=50).contains(&calls), "{calls}");
}

/// In the millisecond of their deadlines, requeued orders stood before those that
/// had been dead for longer.
#[test]
fn requeued_orders_come_in_the_order_they_died_whatever_their_deadlines() {
    story(&[
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CLAIM me", "a#1"),
        (0.0, "NACK a $a DEAD", "OK leased>dead"),
        (1.0, "SCHEDULE b PX 0", "OK missing>expired"),
        (1.0, "CLAIM me", "b#1"),
        (1.0, "NACK b $b DEAD", "OK leased>dead"),
        (1.0, "REQUEUE", "a b left:0"),
        (1.0, "CLAIM me COUNT 2", "a#1 b#1"),
    ]);
}

#[test]
fn a_queue_of_one_order_is_small_and_bytes_say_so() {
    assert!(size_of::<Queue>() <= 160, "{}", size_of::<Queue>());
    let mut bench = Bench::new(false);
    assert_eq!(bench.queue.bytes(), 160, "an empty queue owns nothing");
    // Row: orders, and the most bytes of the queue that holds them.
    let mut made = 0;
    for (orders, most) in [(1, 224), (2, 272), (10, 900), (16, 1200), (300, 28_500)] {
        while made < orders {
            let px = 900_000 + made;
            bench.run(&format!("SCHEDULE order-{made:014} PX {px} STATUS unpaid"));
            made += 1;
        }
        let bytes = bench.queue.bytes();
        assert!(bytes <= most, "{bytes} bytes for {orders} orders");
        assert!(
            bytes >= orders as usize * (28 + 24),
            "{bytes} bytes for {orders} orders"
        );
    }
}

/// Effects of a stream that is replayed or made up, on an order that was finished
/// meanwhile: it stays as it is, or no file could hold it.
#[test]
fn a_finished_order_is_neither_claimed_nor_locked_by_an_effect() {
    let moment = |ms: i64| WallMs(START_MS.saturating_add_signed(ms));
    let ids = || vec![Bytes::of(b"a")];
    let now = moment(1);
    let effects = [
        Effect::Claim {
            owner: Bytes::of(b"o"),
            since: now,
            end: moment(500),
            cap: moment(900),
            grants: vec![Granted {
                id: Bytes::of(b"a"),
                fence: 77,
                attempt: 1,
                last_try: false,
            }],
        },
        Effect::Nack {
            id: Bytes::of(b"a"),
            rev: 77,
            then: AfterTry::Dead(now),
            error: Some(Bytes::of(b"late")),
            untried: false,
        },
        Effect::Lock {
            id: Bytes::of(b"a"),
            owner: Bytes::of(b"o"),
            fence: 77,
            since: now,
            end: moment(500),
            cap: moment(900),
            fp: None,
            creates: false,
        },
        Effect::Renew {
            id: Bytes::of(b"a"),
            rev: 77,
            since: now,
            end: moment(500),
        },
        Effect::Release {
            id: Bytes::of(b"a"),
            rev: 77,
            ended: Ended::Claim {
                then: AfterTry::At {
                    since: now,
                    at: moment(50),
                },
                untried: true,
            },
        },
        Effect::Release {
            id: Bytes::of(b"a"),
            rev: 77,
            ended: Ended::Lock,
        },
        Effect::Requeue {
            rev: 77,
            ids: ids(),
        },
    ];
    for effect in &effects {
        let mut bench = Bench::new(false);
        bench.run("SCHEDULE a PX 0 STATUS unpaid");
        bench.run("CLAIM me");
        bench.run("FINISH a STATUS paid FENCE $a KEEP 100000");
        let (now, before) = (bench.now(), digest(&bench.queue));
        assert_eq!(bench.state(b"a"), State::Finished);
        let mut events = Vec::new();
        assert!(!bench.queue.apply(&now, effect, &mut events), "{effect:?}");
        assert_eq!(
            (events.len(), digest(&bench.queue)),
            (0, before),
            "{effect:?}"
        );
        bench.queue.check();
    }
}
