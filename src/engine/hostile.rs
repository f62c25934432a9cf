//! Effects that no decision makes: from a broken file, a forged RESTORE, a made-up
//! APPLY.
//!
//! A seeded generator makes effects with every number and moment at its limits and
//! beyond. What the codec refuses is done with; what it takes is applied on a primary
//! and a replica with another clock, and after it every decision there is, at times
//! that step. It must hold, after each:
//!
//! - what was decided is something the codec takes: `decode(encode(x)) == x`;
//! - primary and replica have equal ground state, and so has what they save once it is
//!   loaded again, as often as that is done;
//! - no structure is broken, and no answer disagrees with the record.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that fails should fail loudly"
)]

use super::decide::Env;
use super::effect::{
    AfterTry, Base, Bytes, Effect, Ended, FinishedBy, Granted, LeaseKind, LeaseOf, Requeued, Whole,
    WholeEnding, WholeGrant, WholeHolder, WholeLife, WholePhase,
};
use super::model::{Dice, digest, from_environment, loaded};
use super::number::{NUMBER_END, Numbers};
use super::outcome::{Decision, Outcome};
use super::queue::{Duty, Queue};
use super::settings::{Defaults, Setting, TRANSITIONS};
use crate::codec;
use crate::error::Error;
use crate::request::{Configure, Limits, Request, Verb, parse};
use crate::words::state::State;
use crate::words::time::{MOMENT_MAX, Now, WALL_MS_MAX, WallMs};

/// The orders.
const IDS: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"f"];

/// Numbers at the limits of everything, and at those of the types.
const EDGES: [u64; 18] = [
    0,
    1,
    2,
    1_000,
    (1 << 32) - 1,
    1 << 32,
    WALL_MS_MAX.0,
    WALL_MS_MAX.0 + 1,
    MOMENT_MAX - 1,
    MOMENT_MAX,
    MOMENT_MAX + 1,
    MOMENT_MAX + 2,
    NUMBER_END - 1,
    NUMBER_END,
    1 << 53,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX,
];

/// Makes effects and requests.
struct Maker<'d> {
    /// Where its choices come from.
    dice: &'d mut Dice,
    /// The wall clock, milliseconds.
    wall: u64,
}

impl Maker<'_> {
    /// An edge now and then, else something near `usual`.
    fn edge(&mut self, usual: u64) -> u64 {
        if self.dice.chance(150) {
            self.dice.pick(&EDGES)
        } else {
            (usual + self.dice.below(200)).saturating_sub(100)
        }
    }

    fn moment(&mut self) -> WallMs {
        WallMs(self.edge(self.wall))
    }

    fn maybe_moment(&mut self) -> Option<WallMs> {
        self.dice.chance(500).then(|| self.moment())
    }

    fn number(&mut self) -> u64 {
        let usual = self.wall * 1000 + self.dice.below(1 << 20);
        self.edge(usual)
    }

    fn small(&mut self) -> u32 {
        self.dice.pick(&[0, 1, 1, 2, 3, u32::MAX - 1, u32::MAX])
    }

    fn id(&mut self) -> Bytes<'static> {
        Bytes::of(self.dice.pick(&IDS))
    }

    fn ids(&mut self) -> Vec<Bytes<'static>> {
        (0..self.dice.below(4)).map(|_| self.id()).collect()
    }

    fn text(&mut self) -> Bytes<'static> {
        let texts: [&'static [u8]; 5] = [
            b"",
            b"x",
            b"unpaid",
            b"a text of just thirty-two bytes!",
            b"one that is longer than thirty-two",
        ];
        Bytes::of(self.dice.pick(&texts))
    }

    fn maybe_text(&mut self) -> Option<Bytes<'static>> {
        self.dice.chance(500).then(|| self.text())
    }

    fn owner(&mut self) -> Bytes<'static> {
        Bytes::of(self.dice.pick(&[&b"me"[..], b"me", b"another", b""]))
    }

    fn after(&mut self) -> AfterTry {
        match self.dice.below(3) {
            0 => AfterTry::Now,
            1 => AfterTry::At {
                since: self.moment(),
                at: self.moment(),
            },
            _ => AfterTry::Dead(self.moment()),
        }
    }

    fn kind(&mut self) -> LeaseKind {
        self.dice.pick(&[LeaseKind::Claim, LeaseKind::Lock])
    }

    fn setting(&mut self) -> Effect<'static> {
        if self.dice.chance(100) {
            return Effect::Configure {
                name: Bytes::of(TRANSITIONS),
                value: self.maybe_text(),
            };
        }
        let setting = self.dice.pick(&Setting::ALL);
        let (min, max) = setting.range();
        let value = match self.dice.below(8) {
            0 => min,
            1 => max,
            2 => max + 1,
            3 => self.dice.pick(&EDGES),
            _ => self.dice.below(2_000),
        };
        Effect::Configure {
            name: Bytes::of(setting.name().as_bytes()),
            value: self
                .dice
                .chance(900)
                .then(|| Bytes::copied(value.to_string().as_bytes())),
        }
    }

    fn phase(&mut self) -> WholePhase<'static> {
        match self.dice.below(5) {
            0 => WholePhase::Plain,
            1 => WholePhase::Dead(self.moment()),
            2 => WholePhase::Retrying {
                since: self.moment(),
                at: self.moment(),
            },
            _ => WholePhase::Granted(WholeGrant {
                kind: self.kind(),
                owner: self.owner(),
                fence: self.number(),
                made: self.moment(),
                since: self.moment(),
                end: self.moment(),
                cap: self.moment(),
                holds: self.small(),
                last_try: self.dice.chance(500),
            }),
        }
    }

    fn whole(&mut self) -> Whole<'static> {
        let life = if self.dice.chance(300) {
            WholeLife::Finished {
                keep_end: self.moment(),
                result: self.maybe_text(),
                ending: self.dice.chance(500).then(|| WholeEnding {
                    at: self.moment(),
                    deadline: self.maybe_moment(),
                    attempt: self.small(),
                    holder: self.dice.chance(500).then(|| WholeHolder {
                        kind: self.kind(),
                        owner: self.owner(),
                    }),
                }),
            }
        } else {
            WholeLife::Open {
                deadline: self.dice.chance(700).then(|| self.moment()),
                payload: self.maybe_text(),
                attempt: self.small(),
                error: self.maybe_text(),
                phase: self.phase(),
            }
        };
        Whole {
            id: self.id(),
            status: self.text(),
            rev: self.number(),
            fp: self.dice.chance(300).then(|| Bytes::of(b"fp")),
            life,
        }
    }

    /// Any effect at all: for orders that are in no such state, with times and numbers
    /// that no decision makes.
    fn effect(&mut self) -> Effect<'static> {
        match self.dice.below(19) {
            0 | 1 => Effect::Schedule {
                id: self.id(),
                deadline: self.moment(),
                rev: self.number(),
                status: self.maybe_text(),
                payload: self.maybe_text(),
                base: self
                    .dice
                    .pick(&[Base::Fresh, Base::Record, Base::RecordAndLock]),
            },
            2 => Effect::Finish {
                id: self.id(),
                rev: self.number(),
                status: self.maybe_text(),
                result: self.maybe_text(),
                keep_end: self.maybe_moment(),
                creates: self.dice.chance(300),
                by: self.dice.pick(&[FinishedBy::Finish, FinishedBy::Ack]),
                at: self.moment(),
                by_holder: self.dice.chance(500),
            },
            3 => Effect::Status {
                id: self.id(),
                rev: self.number(),
                status: self.text(),
                payload: self.maybe_text(),
                ends_grant: self.dice.chance(300),
            },
            4 | 5 => Effect::Claim {
                owner: self.owner(),
                since: self.moment(),
                end: self.moment(),
                cap: self.moment(),
                grants: (0..self.dice.below(4))
                    .map(|_| Granted {
                        id: self.id(),
                        fence: self.number(),
                        attempt: self.small(),
                        last_try: self.dice.chance(300),
                    })
                    .collect(),
            },
            6 => Effect::Nack {
                id: self.id(),
                rev: self.number(),
                then: self.after(),
                error: self.maybe_text(),
                untried: self.dice.chance(300),
            },
            7 => Effect::Renew {
                id: self.id(),
                rev: self.number(),
                since: self.moment(),
                end: self.moment(),
            },
            8 => Effect::Lock {
                id: self.id(),
                owner: self.owner(),
                fence: self.number(),
                since: self.moment(),
                end: self.moment(),
                cap: self.moment(),
                fp: self.dice.chance(500).then(|| Bytes::of(b"fp")),
                creates: self.dice.chance(300),
            },
            9 => Effect::Hold {
                id: self.id(),
                rev: self.number(),
                holds: self.small(),
                since: self.moment(),
                end: self.moment(),
            },
            10 => Effect::Release {
                id: self.id(),
                rev: self.number(),
                ended: if self.dice.chance(500) {
                    Ended::Lock
                } else {
                    Ended::Claim {
                        then: self.after(),
                        untried: self.dice.chance(500),
                    }
                },
            },
            11 => Effect::Forget { ids: self.ids() },
            12 => Effect::Requeue {
                rev: self.number(),
                orders: (0..self.dice.below(4))
                    .map(|_| Requeued {
                        id: self.id(),
                        attempt: self.small(),
                    })
                    .collect(),
            },
            13 => Effect::Pause {
                on: self.dice.chance(300),
                until: self.maybe_moment(),
                reason: self.text(),
            },
            14 => self.setting(),
            15 if self.dice.chance(30) => Effect::Floor(self.number()),
            16 => Effect::Lapse {
                end: self.moment(),
                leases: (0..self.dice.below(4))
                    .map(|_| LeaseOf {
                        id: self.id(),
                        fence: self.number(),
                    })
                    .collect(),
            },
            _ => Effect::Restore(self.whole()),
        }
    }

    /// A command of a client, with the fence and rev that `queue` shows.
    fn command(&mut self, queue: &Queue, now: &Now) -> (Verb, Vec<Vec<u8>>) {
        let id = self.dice.pick(&IDS);
        let name = String::from_utf8_lossy(id).into_owned();
        let view = queue.view(now, id);
        let fence = view.map_or(1, |view| view.fence.max(1));
        let status = view.map_or_else(String::new, |view| {
            String::from_utf8_lossy(view.status).into_owned()
        });
        let ms = self
            .dice
            .pick(&["0", "1", "5", "50", "60000", "253402300799999"]);
        let lease = self.dice.pick(&["1", "5", "50", "86400000"]);
        let (verb, line) = match self.dice.below(20) {
            0 => (Verb::Schedule, format!("{name} PX {ms} UPSERT PAYLOAD p")),
            1 => (Verb::Schedule, format!("{name} PX 0 FENCE {fence}")),
            2 => (
                Verb::Schedule,
                format!("{name} PXAT {} FROM {status}", WALL_MS_MAX.0),
            ),
            3 => (
                Verb::Finish,
                format!("{name} CREATE STATUS paid RESULT r KEEP {ms}"),
            ),
            4 => (Verb::Finish, format!("{name} FENCE {fence}")),
            5 => (Verb::Status, format!("{name} held PAYLOAD q")),
            6 => (Verb::Claim, format!("me PX {lease} COUNT 3")),
            7 => (Verb::Claim, format!("me ID {name}")),
            8 => (Verb::Ack, format!("{name} {fence} STATUS closed")),
            9 => (Verb::Ack, format!("{name} {fence} KEEP {ms} RESULT r")),
            10 => (Verb::Nack, format!("{name} {fence}")),
            11 => (Verb::Nack, format!("{name} {fence} UNTRIED DELAY {ms}")),
            12 => (Verb::Nack, format!("{name} {fence} DEAD ERROR e")),
            13 => (Verb::Renew, format!("{name} {fence} PX {lease}")),
            14 => (Verb::Renew, format!("{name} {fence} PX {lease} LT")),
            15 => (Verb::Lock, format!("{name} me PX {lease} REENTRANT FP fp")),
            16 => (Verb::Lock, format!("{name} me PX {lease} MAX 60")),
            17 => (Verb::Unlock, format!("{name} {fence}")),
            18 => (Verb::Break, name),
            _ => match self.dice.below(8) {
                0 => (Verb::Pause, format!("PX {}", self.dice.below(50))),
                1 => (Verb::Resume, String::new()),
                2 => (Verb::Requeue, "COUNT 2".into()),
                3 => (Verb::Config, "RESET".into()),
                4 => (Verb::Purge, format!("STATE dead STATUS {status}")),
                5 => (Verb::Requeue, "STATE retrying".into()),
                6 => (Verb::Release, "me COUNT 2".into()),
                _ => (Verb::Purge, "STATE finished COUNT 1".into()),
            },
        };
        let mut args = vec![verb.command().as_bytes().to_vec(), b"queue".to_vec()];
        args.extend(
            line.split(' ')
                .filter(|word| !word.is_empty())
                .map(Into::into),
        );
        (verb, args)
    }
}

/// A primary and its replica.
struct World {
    primary: Queue,
    replica: Queue,
    numbers: Numbers,
    defaults: Defaults,
    /// The clocks of the primary.
    now: Now,
    /// Milliseconds that the replica's wall clock is ahead.
    ahead_ms: i64,
    /// Effects that were decided, for the last look at whether the run meant anything.
    decided: u64,
}

impl World {
    /// The clocks of the replica.
    fn replicas_now(&self) -> Now {
        Now {
            wall_us: self
                .now
                .wall_us
                .saturating_add_signed(self.ahead_ms * 1000 + 333),
            mono_us: self.now.mono_us + 777_777,
        }
    }

    /// Carries out what the codec took, here and on the replica.
    fn carry(&mut self, effect: &Effect<'_>, is_decided: bool) {
        let mut blob = Vec::new();
        if let Err(error) = codec::encode(effect, &mut blob) {
            assert!(!is_decided, "decided and not storable: {error}: {effect:?}");
            return;
        }
        self.decided += u64::from(is_decided);
        let decoded = codec::decode(codec::VERSION, &blob).unwrap();
        assert_eq!(decoded.as_slice(), std::slice::from_ref(effect));
        let mut events = Vec::new();
        let known = self.primary.apply(&self.now, effect, &mut events);
        assert!(known || !is_decided, "decided for nobody: {effect:?}");
        let now = self.replicas_now();
        self.replica.apply(&now, &decoded[0], &mut Vec::new());
    }

    /// One decision, if it is one.
    fn decision(&mut self, decision: Result<Decision<'_>, Error>) {
        match decision {
            Ok(decision) => {
                let done = matches!(decision.outcome, Outcome::Ok | Outcome::Held);
                assert_eq!(done, decision.effect.is_some(), "{decision:?}");
                if let Some(effect) = &decision.effect {
                    self.carry(effect, true);
                }
            }
            Err(Error::NumbersUsedUp | Error::DeadlineTooFar | Error::QueueFull) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Does one command of a client.
    fn ask(&mut self, verb: Verb, args: &[Vec<u8>]) {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let limits = Limits {
            lease_ms_max: self.defaults.lease_ms_max,
            payload_bytes_max: 4 << 20,
        };
        let Ok(request) = parse(verb, &args, &limits) else {
            return;
        };
        let mut numbers = self.numbers;
        let defaults = self.defaults.clone();
        let mut env = Env {
            now: self.now,
            numbers: &mut numbers,
            defaults: &defaults,
        };
        let queue = &mut self.primary;
        let mut effects = Vec::new();
        let decided = match &request {
            Request::Schedule(ask) => queue.decide_schedule(&mut env, ask),
            Request::Finish(ask) => queue.decide_finish(&mut env, ask),
            Request::Status(ask) => queue.decide_status(&mut env, ask),
            Request::Ack(ask) => queue.decide_ack(&mut env, ask),
            Request::Nack(ask) => queue.decide_nack(&mut env, ask),
            Request::Renew(ask) => queue.decide_renew(&mut env, ask),
            Request::Lock(ask) => queue.decide_lock(&mut env, ask, false),
            Request::Unlock(ask) => queue.decide_unlock(&mut env, ask),
            Request::Break(ask) => queue.decide_break(&mut env, ask),
            other => {
                match other {
                    Request::Claim(ask) => {
                        queue.advance(&self.now, &mut || true);
                        if let Ok(claimed) = queue.decide_claim(&mut env, ask) {
                            for i in &claimed.picks {
                                let view = queue.view_at(&self.now, *i).unwrap();
                                assert_eq!(view.state, State::Expired);
                            }
                            effects.extend(claimed.effect);
                        }
                    }
                    Request::Config(ask @ Configure::Reset(None)) => {
                        effects.extend(queue.decide_configure(ask).unwrap());
                    }
                    Request::Pause(ask) => effects.extend(queue.decide_pause(&env, ask).1),
                    Request::Resume => effects.extend(queue.decide_resume(&self.now).1),
                    Request::Release(ask) => {
                        effects.extend(queue.decide_release(&self.now, ask).effect);
                    }
                    Request::Requeue(ask) => {
                        queue.advance(&self.now, &mut || true);
                        if let Ok(swept) = queue.decide_requeue(&mut env, ask, &|_| true) {
                            effects.extend(swept.effect);
                        }
                    }
                    Request::Purge(ask) => {
                        queue.advance(&self.now, &mut || true);
                        let swept = queue.decide_purge(&self.now, ask, &|_| true);
                        effects.extend(swept.effect);
                    }
                    _ => {}
                }
                self.numbers = numbers;
                for effect in &effects {
                    self.carry(effect, true);
                }
                return;
            }
        };
        self.numbers = numbers;
        self.decision(decided);
    }

    /// What time brings.
    fn pass(&mut self, dice: &mut Dice) {
        let now = self.now;
        match dice.below(5) {
            0 => {
                let mut budget = dice.below(5);
                self.primary.advance(&now, &mut || {
                    budget = budget.saturating_sub(1);
                    budget > 0
                });
            }
            1 => {
                let max = dice.below(5) as usize;
                self.primary.announce(&now, max, &mut Vec::new());
            }
            2 => {
                if let Some(effect) = self.primary.due_forget(&now, &self.defaults, 2) {
                    self.carry(&effect, true);
                }
            }
            3 => {
                self.primary.next_wake(&now, Duty::All);
                self.primary.next(&now, 5);
                self.primary.stats(&now, &self.defaults, (0, 0));
                self.replica.advance(&self.replicas_now(), &mut || true);
            }
            _ => self.primary.announce_again(),
        }
    }

    /// Holds everything against everything.
    fn compare(&self) {
        self.primary.check();
        self.replica.check();
        let ground = digest(&self.primary);
        assert_eq!(ground, digest(&self.replica), "the replica");
        let again = loaded(&self.primary, &self.replicas_now(), &self.defaults);
        again.check();
        assert_eq!(ground, digest(&again), "what is saved");
        let again = loaded(&again, &self.now, &self.defaults);
        assert_eq!(ground, digest(&again), "what is saved of that");
        for id in IDS {
            let Some(lease_ms) = again.view(&self.now, id).and_then(|view| view.lease_ms) else {
                continue;
            };
            assert!(lease_ms <= self.defaults.lease_ms_max, "{lease_ms}");
        }
    }
}

#[test]
fn no_effect_however_absurd_breaks_a_queue() {
    let seed = from_environment("ORDER_TEST_SEED").unwrap_or(6);
    let steps = from_environment("ORDER_TEST_STEPS").unwrap_or(200_000);
    eprintln!("seed {seed}, {steps} steps");
    let mut dice = Dice(seed);
    let mut world = World {
        primary: Queue::new(),
        replica: Queue::new(),
        numbers: Numbers::new(),
        defaults: Defaults::default(),
        now: Now {
            wall_us: 1_700_000_000_000_000,
            mono_us: 5_000_000,
        },
        ahead_ms: 0,
        decided: 0,
    };
    for step in 0..steps {
        let us = dice.below(3_000);
        world.now.mono_us += us;
        world.now.wall_us += us;
        match dice.below(200) {
            0 => world.now.wall_us -= dice.below(200_000),
            1 => world.now.wall_us += dice.below(3_600_000_000),
            2 => world.now.wall_us = 1_700_000_000_000_000,
            3 => world.ahead_ms = dice.below(7_200_000).cast_signed() - 3_600_000,
            _ => {}
        }
        let mut maker = Maker {
            wall: world.now.wall_us / 1000,
            dice: &mut dice,
        };
        if maker.dice.chance(300) {
            let effect = maker.effect();
            world.carry(&effect, false);
        } else {
            let (verb, args) = maker.command(&world.primary, &world.now);
            world.ask(verb, &args);
        }
        if dice.chance(300) {
            world.pass(&mut dice);
        }
        if step.is_multiple_of(16) {
            world.compare();
        }
        match dice.below(1_000) {
            0 => world.primary = loaded(&world.primary, &world.now, &world.defaults),
            1 => world.replica = loaded(&world.replica, &world.replicas_now(), &world.defaults),
            2 => {
                // Numbers that a forgery has used up make every write impossible.
                world.primary = Queue::new();
                world.replica = Queue::new();
            }
            _ => {}
        }
    }
    assert!(world.decided > steps / 20, "{} decided", world.decided);
}
