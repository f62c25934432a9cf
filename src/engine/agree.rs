//! Whatever happened to the clock: all questions are answered alike.
//!
//! GET, PTTL and SCAN read records. STATS, NEXT and CLAIM read the lists and wheels
//! that records stand in, and those know of a step of the wall clock only what
//! [`Queue::advance`] has told them. So short random lives of a queue, made of every
//! command, end here in a step of the clock, in a reload, or in both; then, after one
//! `advance` without a limit, all of them must tell of the same orders.
//!
//! ```text
//!   dice ─► a few commands ─► clock step / reload ─► advance ─┬► view of each id ─┐
//!                                                             ├► SCAN, STATS      ├─ equal?
//!                                                             └► NEXT, CLAIM     ─┘
//! ```
//!
//! A life prints its number when it fails. `ORDER_TEST_SEED` gives other lives,
//! `ORDER_TEST_STEPS` another number of them.

#![allow(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that fails should fail loudly"
)]

use std::collections::BTreeMap;

use super::decide::Env;
use super::effect::{Bytes, Effect, LeaseKind};
use super::model::{Dice, from_environment, loaded};
use super::number::Numbers;
use super::outcome::Decision;
use super::queue::Queue;
use super::settings::{Defaults, Setting};
use super::view::StatValue;
use crate::error::Error;
use crate::request::{
    Ack, Again, Break, Claim, Configure, Direction, Finish, Guard, Lock, Mode, Nack, Pause, Pick,
    Purge, Renew, Requeue, Scan, Schedule, SetStatus, Unlock, When,
};
use crate::words::state::State;
use crate::words::time::{Now, WallMs};

/// How many lives are lived.
const LIVES: u64 = 50_000;
/// The ids of a life.
const IDS: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"f"];
/// Lengths of leases, waits and deadlines, milliseconds.
const LENGTHS: [u64; 6] = [1, 5, 40, 300, 5_000, 4_000_000];
/// Steps of the wall clock, microseconds.
const STEPS: [i64; 7] = [1, 700, 1_000, 30_000, 400_000, 20_000_000, 3_600_000_000];

/// A queue, its clocks, and the dice.
struct Life {
    /// The dice.
    dice: Dice,
    /// The queue.
    queue: Queue,
    /// The number generator of its server.
    numbers: Numbers,
    /// The server's defaults.
    defaults: Defaults,
    /// Wall clock, microseconds.
    wall_us: u64,
    /// Monotonic clock, microseconds.
    mono_us: u64,
}

impl Life {
    /// The start of a life.
    fn new(seed: u64) -> Self {
        let mut defaults = Defaults::default();
        defaults.set(Setting::MaxAttempts, 3);
        defaults.set(Setting::BackoffMs, 20);
        defaults.set(Setting::DeadMax, 4);
        defaults.set(Setting::KeepMs, 300);
        let mut dice = Dice(seed);
        Self {
            queue: Queue::new(),
            numbers: Numbers::new(),
            defaults,
            wall_us: 1_700_000_000_000_000 + dice.below(1_000_000),
            mono_us: 50_000_000 + dice.below(1_000_000),
            dice,
        }
    }

    /// Both clocks.
    fn now(&self) -> Now {
        Now {
            wall_us: self.wall_us,
            mono_us: self.mono_us,
        }
    }

    /// Lets time pass on both clocks.
    fn wait(&mut self) {
        let us = match self.dice.below(6) {
            0 | 1 => 0,
            2 => self.dice.below(1_500),
            3 => self.dice.below(50_000),
            4 => self.dice.below(400_000),
            _ => self.dice.below(6_000_000),
        };
        self.wall_us += us;
        self.mono_us += us;
    }

    /// Sets the wall clock, more often back than forward.
    fn step_clock(&mut self) {
        let size = self.dice.pick(&STEPS);
        let size = 1 + self.dice.below(size as u64) as i64;
        let step = if self.dice.chance(700) { -size } else { size };
        self.wall_us = self.wall_us.checked_add_signed(step).unwrap();
    }

    /// Saves the queue and loads it into another process.
    fn reload(&mut self) {
        self.mono_us = 1_000 + self.dice.below(1_000_000_000);
        self.queue = loaded(&self.queue, &self.now(), &self.defaults);
        self.numbers = Numbers::new();
        self.numbers.learn(self.queue.floor(), self.wall_us);
        self.numbers.guard(self.wall_us, 1_000_000);
    }

    /// Carries an effect out.
    fn carry(&mut self, effect: &Effect<'_>) {
        let now = self.now();
        assert!(
            self.queue.apply(&now, effect, &mut Vec::new()),
            "{effect:?}"
        );
    }

    /// Carries an effect out whose order may be gone.
    fn carry_if_there(&mut self, effect: &Effect<'_>) {
        let now = self.now();
        self.queue.apply(&now, effect, &mut Vec::new());
    }

    /// Asks for something on one order, and does it.
    fn ask<'a>(
        &mut self,
        decide: impl FnOnce(&Queue, &mut Env<'_>) -> Result<Decision<'a>, Error>,
    ) {
        let mut env = Env {
            now: Now {
                wall_us: self.wall_us,
                mono_us: self.mono_us,
            },
            numbers: &mut self.numbers,
            defaults: &self.defaults,
        };
        let decision = decide(&self.queue, &mut env).unwrap();
        if let Some(effect) = &decision.effect {
            self.carry(effect);
        }
    }

    /// The fence of the last grant of an order, 1 where there is none.
    fn fence(&self, id: &[u8]) -> u64 {
        let view = self.queue.view(&self.now(), id);
        view.map_or(1, |view| view.fence.max(1))
    }

    /// A deadline.
    fn when(&mut self) -> When {
        let wall = self.wall_us / 1000;
        match self.dice.below(4) {
            0 => When::In(0),
            1 => When::In(self.dice.pick(&LENGTHS)),
            2 => When::At(WallMs(wall - self.dice.below(5_000))),
            _ => When::At(WallMs(wall + self.dice.below(5_000))),
        }
    }

    /// A guard, mostly none.
    fn guard(&mut self, id: &[u8]) -> Guard<'static> {
        let fence = self.dice.chance(300).then(|| self.fence(id));
        Guard {
            from: if self.dice.chance(100) {
                vec![b"s"]
            } else {
                Vec::new()
            },
            if_rev: None,
            fence,
        }
    }

    /// One command on one order.
    fn command(&mut self) {
        let id = self.dice.pick(&IDS);
        let fence = self.fence(id);
        let lease_ms = self.dice.pick(&LENGTHS);
        match self.dice.below(12) {
            0..=3 => {
                let mode = self.dice.pick(&[Mode::Create, Mode::Move, Mode::Upsert]);
                let is_move = mode != Mode::Create;
                let ask = Schedule {
                    id,
                    when: self.when(),
                    mode,
                    only: (is_move && self.dice.chance(200)).then_some(Direction::Later),
                    guard: if is_move {
                        self.guard(id)
                    } else {
                        Guard::default()
                    },
                    status: self.dice.chance(300).then_some(b"s"),
                    payload: self.dice.chance(300).then_some(b"payload"),
                };
                self.ask(|queue, env| queue.decide_schedule(env, &ask));
            }
            4 => {
                let ask = Finish {
                    id,
                    strict: self.dice.chance(200),
                    create: false,
                    guard: self.guard(id),
                    status: None,
                    result: self.dice.chance(300).then_some(b"result"),
                    keep_ms: self.dice.pick(&[None, Some(0), Some(50)]),
                };
                self.ask(|queue, env| queue.decide_finish(env, &ask));
            }
            5 => {
                let ask = SetStatus {
                    id,
                    status: b"s",
                    guard: self.guard(id),
                    payload: None,
                };
                self.ask(|queue, env| queue.decide_status(env, &ask));
            }
            6 => {
                let ask = Ack {
                    id,
                    fence,
                    from: Vec::new(),
                    status: None,
                    result: None,
                    keep_ms: None,
                };
                self.ask(|queue, env| queue.decide_ack(env, &ask));
            }
            7 => {
                let ms = self.dice.pick(&LENGTHS);
                let again = self.dice.pick(&[
                    Again::Backoff,
                    Again::Delay(0),
                    Again::Delay(0),
                    Again::Delay(ms),
                    Again::Dead,
                ]);
                let ask = Nack {
                    id,
                    fence,
                    again,
                    error: None,
                    untried: again != Again::Dead && self.dice.chance(300),
                };
                self.ask(|queue, env| queue.decide_nack(env, &ask));
            }
            8 => {
                let shorten = self.dice.chance(500);
                let ask = Renew {
                    id,
                    fence,
                    lease_ms,
                    shorten,
                };
                self.ask(|queue, env| queue.decide_renew(env, &ask));
            }
            9 | 10 => {
                let ask = Lock {
                    id,
                    owner: self.dice.pick(&[b"one", b"two"]),
                    lease_ms,
                    reentrant: self.dice.chance(300),
                    max_ms: None,
                    fp: None,
                    block_ms: None,
                    must_exist: self.dice.chance(100),
                };
                self.ask(|queue, env| queue.decide_lock(env, &ask, false));
            }
            _ if self.dice.chance(500) => {
                let ask = Unlock { id, fence };
                self.ask(|queue, env| queue.decide_unlock(env, &ask));
            }
            _ => {
                let ask = Break { id, fence: None };
                self.ask(|queue, env| queue.decide_break(env, &ask));
            }
        }
    }

    /// CLAIM, of the next ones or of one. Returns the orders.
    fn claim(&mut self, count: u32, id: Option<&[u8]>) -> Vec<Vec<u8>> {
        let ask = Claim {
            owner: b"closer",
            lease_ms: Some(self.dice.pick(&LENGTHS)),
            pick: match id {
                Some(id) => Pick::Id(id),
                None => Pick::Next {
                    count,
                    block_ms: None,
                },
            },
        };
        let mut env = Env {
            now: Now {
                wall_us: self.wall_us,
                mono_us: self.mono_us,
            },
            numbers: &mut self.numbers,
            defaults: &self.defaults,
        };
        self.queue.advance(&env.now, &mut || true);
        let claimed = self.queue.decide_claim(&mut env, &ask).unwrap();
        let Some(effect) = claimed.effect else {
            return Vec::new();
        };
        self.carry(&effect);
        let Effect::Claim { grants, .. } = effect else {
            panic!("a claim claims")
        };
        grants.iter().map(|granted| granted.id.to_vec()).collect()
    }

    /// A command on the queue, or a part of a pass.
    fn command_on_queue(&mut self) {
        let now = self.now();
        match self.dice.below(9) {
            0 | 1 => {
                let mut budget = self.dice.below(3);
                self.queue.advance(&now, &mut || {
                    budget = budget.saturating_sub(1);
                    budget > 0
                });
            }
            2 | 3 => {
                let max = self.dice.pick(&[1, 2, 100]);
                self.queue.announce(&now, max, &mut Vec::new());
            }
            4 => {
                if let Some(effect) = self.queue.due_forget(&now, &self.defaults, 3) {
                    self.carry(&effect);
                }
            }
            5 => {
                let mut env = Env {
                    now,
                    numbers: &mut self.numbers,
                    defaults: &self.defaults,
                };
                let ask = Requeue::Next(Purge {
                    state: self.dice.pick(&[State::Dead, State::Retrying]),
                    status: None,
                    pattern: None,
                    count: 2,
                });
                let swept = self
                    .queue
                    .decide_requeue(&mut env, &ask, &|_| true)
                    .unwrap();
                if let Some(effect) = swept.effect {
                    self.carry(&effect);
                }
            }
            6 => {
                let ask = Purge {
                    state: self.dice.pick(&State::LISTED),
                    status: self.dice.chance(500).then_some(b"s"),
                    pattern: None,
                    count: 2,
                };
                let swept = self.queue.decide_purge(&now, &ask, &|_| true);
                self.queue.sweep_on(&swept);
                if let Some(effect) = swept.effect {
                    self.carry(&effect);
                }
            }
            7 => {
                let value = self.dice.pick(&[&b"1"[..], b"0"]);
                let name = self.dice.pick(&[&b"max-leased"[..], b"max-attempts"]);
                let ask = Configure::Set(vec![(name, value)]);
                for effect in self.queue.decide_configure(&ask).unwrap() {
                    self.carry(&effect);
                }
            }
            _ if self.dice.chance(300) => {
                let env = Env {
                    now,
                    numbers: &mut self.numbers,
                    defaults: &self.defaults,
                };
                let ask = Pause {
                    ms: Some(self.dice.pick(&LENGTHS)),
                    reason: b"",
                };
                if let Some(effect) = self.queue.decide_pause(&env, &ask).1 {
                    self.carry(&effect);
                }
            }
            _ => {
                if let Some(effect) = self.queue.decide_resume(&self.now()).1 {
                    self.carry(&effect);
                }
            }
        }
    }

    /// One step of a life.
    fn step(&mut self) {
        self.wait();
        match self.dice.below(20) {
            0..=10 => self.command(),
            11..=14 => {
                let count = self.dice.pick(&[1, 2, 100]);
                self.claim(count, None);
            }
            15 => {
                let id = self.dice.pick(&IDS);
                self.claim(1, Some(id));
            }
            16 if self.dice.chance(300) => self.step_clock(),
            _ => self.command_on_queue(),
        }
    }

    /// The end of a life: the clock is set, the process is another, or both.
    fn end(&mut self) {
        let (leases, lengths) = (self.leases(), self.lengths());
        let (steps, reloads, step_first) = match self.dice.below(5) {
            0 => (false, true, false),
            1 | 2 => (true, false, true),
            step_first => (true, true, step_first == 3),
        };
        if steps && step_first {
            self.step_clock();
        }
        if reloads {
            self.reload();
        }
        if steps && !step_first {
            self.step_clock();
        }
        // A new process knows the ends of leases on the wall clock alone: one may come
        // back there, for its length at most.
        self.no_lease_grows(if reloads { &lengths } else { &leases });
        self.wait();
    }

    /// What is left of each live lease, milliseconds.
    fn leases(&self) -> BTreeMap<&'static [u8], u64> {
        let left = |id: &&'static [u8]| {
            let view = self.queue.view(&self.now(), id)?;
            Some((*id, view.lease_ms?))
        };
        IDS.iter().filter_map(left).collect()
    }

    /// The length of each last grant, live or over, milliseconds: from when it was made
    /// or renewed until its end.
    fn lengths(&self) -> BTreeMap<&'static [u8], u64> {
        let length = |id: &&'static [u8]| {
            let i = self.queue.store.find(id)?;
            let grant = self.queue.store.rows.grant(i)?;
            Some((*id, grant.end.0 - grant.since.0))
        };
        IDS.iter().filter_map(length).collect()
    }

    /// No lease has more left than `most` says, and none is there of which it says
    /// nothing.
    fn no_lease_grows(&self, most: &BTreeMap<&'static [u8], u64>) {
        for (id, left) in self.leases() {
            let most = most.get(id).copied();
            assert!(
                most.is_some_and(|most| left <= most),
                "{}: {left} ms left of {most:?}",
                id.escape_ascii()
            );
        }
    }

    /// All questions are answered alike.
    fn agrees(&mut self) {
        let now = self.now();
        assert!(self.queue.advance(&now, &mut || true), "no limit");
        self.queue.check();
        // GET.
        let mut met: BTreeMap<Vec<u8>, State> = BTreeMap::new();
        let mut scheduled = Vec::new();
        for id in IDS {
            let Some(view) = self.queue.view(&now, id) else {
                continue;
            };
            met.insert(id.to_vec(), view.state);
            if view.state == State::Scheduled {
                scheduled.push((view.deadline.unwrap(), id.to_vec()));
            }
        }
        // SCAN.
        let ask = Scan {
            cursor: 0,
            state: None,
            status: None,
            pattern: None,
            count: 100,
            owner: None,
        };
        let (cursor, rows) = self.queue.scan(&now, &ask, &|_| true);
        assert_eq!(cursor, 0);
        let listed: BTreeMap<_, _> = rows.into_iter().map(|row| (row.id, row.state)).collect();
        assert_eq!(listed, met, "SCAN and GET");
        // STATS.
        let stats = self.queue.stats(&now, &self.defaults, (0, 0));
        let value = |name: &str| match stats.iter().find(|(field, _)| *field == name) {
            Some((_, StatValue::Int(value))) => *value,
            other => panic!("{other:?}"),
        };
        for state in State::LISTED {
            let orders = met.values().filter(|one| **one == state).count();
            assert_eq!(value(state.word()), orders as i64, "STATS {}", state.word());
        }
        assert_eq!(value("orders"), met.len() as i64);
        assert_eq!(value("behind_ms"), 0);
        let claims = |id: &&&[u8]| {
            self.queue.view(&now, id).is_some_and(|view| {
                view.state == State::Leased && view.kind == Some(LeaseKind::Claim)
            })
        };
        assert_eq!(
            value("live_claims"),
            IDS.iter().filter(claims).count() as i64
        );
        // NEXT.
        let mut next: Vec<_> = self
            .queue
            .next(&now, 100)
            .into_iter()
            .map(|(id, deadline)| (deadline, id))
            .collect();
        assert!(next.is_sorted_by_key(|(deadline, _)| *deadline));
        next.sort();
        scheduled.sort();
        assert_eq!(next, scheduled, "NEXT and GET");
        let first = scheduled.first().map(|(deadline, _)| deadline.0 as i64);
        assert_eq!(value("next_deadline"), first.unwrap_or(-1));
        // CLAIM.
        self.let_claims_go();
        let mut claimed = self.claim(100, None);
        claimed.sort();
        met.retain(|_, state| *state == State::Expired);
        assert!(
            claimed.iter().eq(met.keys()),
            "CLAIM gave {claimed:?} of {met:?}"
        );
    }

    /// Takes away what holds a CLAIM back.
    fn let_claims_go(&mut self) {
        for effect in self
            .queue
            .decide_configure(&Configure::Set(vec![(b"max-leased", b"0")]))
            .unwrap()
        {
            self.carry(&effect);
        }
        if let Some(effect) = self.queue.decide_resume(&self.now()).1 {
            self.carry(&effect);
        }
    }
}

#[test]
fn after_a_clock_step_or_a_reload_all_questions_are_answered_alike() {
    /// Prints which life it was, unless it ended well.
    struct Which(u64, bool);
    impl Drop for Which {
        fn drop(&mut self) {
            if !self.1 {
                eprintln!("ORDER_TEST_SEED={} ORDER_TEST_STEPS=1", self.0);
            }
        }
    }
    let first = from_environment("ORDER_TEST_SEED").unwrap_or(1);
    let lives = from_environment("ORDER_TEST_STEPS").unwrap_or(LIVES);
    for seed in first..first + lives {
        let mut which = Which(seed, false);
        let mut life = Life::new(seed);
        for _ in 0..=life.dice.below(14) {
            life.step();
        }
        life.end();
        life.agrees();
        which.1 = true;
    }
}

/// A way for order `a` to become claimable: its name, and what is done.
type Way = (&'static str, fn(&mut Life));

/// Lets `ms` milliseconds pass.
fn pass(life: &mut Life, ms: u64) {
    life.wall_us += ms * 1000;
    life.mono_us += ms * 1000;
}

/// An order that is due, claimed for 50 ms.
fn claimed(life: &mut Life) -> u64 {
    let ask = Schedule {
        id: b"a",
        when: When::In(0),
        mode: Mode::Create,
        only: None,
        guard: Guard::default(),
        status: None,
        payload: None,
    };
    life.ask(|queue, env| queue.decide_schedule(env, &ask));
    assert_eq!(life.claim(1, None), [b"a".to_vec()]);
    life.fence(b"a")
}

/// Hands an order back, to be tried again in `ms`.
fn hand_back(life: &mut Life, ms: u64) {
    let fence = claimed(life);
    let ask = Nack {
        id: b"a",
        fence,
        again: Again::Delay(ms),
        error: None,
        untried: false,
    };
    life.ask(|queue, env| queue.decide_nack(env, &ask));
}

/// Every way in which an order becomes claimable but by its deadline; and then it is
/// not due any more.
#[test]
fn an_order_that_is_not_due_any_more_stands_where_its_state_says() {
    let ways: [Way; 6] = [
        ("the end of a lease", |life| {
            claimed(life);
            pass(life, 4_000_000);
            assert!(life.queue.advance(&life.now(), &mut || true));
        }),
        ("the end of a retry wait", |life| {
            hand_back(life, 40);
            pass(life, 40);
            assert!(life.queue.advance(&life.now(), &mut || true));
        }),
        ("the end of a retry wait, after the step", |life| {
            hand_back(life, 400);
        }),
        ("NACK DELAY 0", |life| hand_back(life, 0)),
        ("BREAK", |life| {
            claimed(life);
            let ask = Break {
                id: b"a",
                fence: None,
            };
            life.ask(|queue, env| queue.decide_break(env, &ask));
        }),
        ("UNLOCK", |life| {
            let fence = claimed(life);
            let ask = Unlock { id: b"a", fence };
            life.ask(|queue, env| queue.decide_unlock(env, &ask));
        }),
    ];
    for (name, way) in ways {
        let mut life = Life::new(1);
        way(&mut life);
        life.wall_us -= 5_000_000_000;
        pass(&mut life, 1_000);
        let now = life.now();
        assert!(life.queue.advance(&now, &mut || true), "{name}");
        let state = life.queue.view(&now, b"a").map(|view| view.state);
        assert_eq!(state, Some(State::Scheduled), "{name}");
        assert_eq!(life.queue.count(&now, State::Scheduled), 1, "{name}");
        assert_eq!(life.queue.count(&now, State::Expired), 0, "{name}");
        assert_eq!(life.queue.next(&now, 9).len(), 1, "{name}");
        life.agrees();
    }
}

/// Five hundred orders, more than a step of `advance` looks at: some drawn, some
/// handed back, announced or not. The clock goes back and forth while `advance` is
/// given one step at a time and commands take orders from under it.
#[test]
fn a_walk_that_is_cut_short_finds_all_that_is_not_due_any_more() {
    for seed in 1..=40 {
        let mut life = Life::new(seed);
        let ids: Vec<Vec<u8>> = (0..500).map(|n| format!("o{n}").into_bytes()).collect();
        let start_us = life.wall_us;
        for id in &ids {
            let ask = Schedule {
                id,
                when: When::At(WallMs(life.wall_us / 1000 + life.dice.below(2_000))),
                mode: Mode::Create,
                only: None,
                guard: Guard::default(),
                status: None,
                payload: None,
            };
            life.ask(|queue, env| queue.decide_schedule(env, &ask));
        }
        pass(&mut life, 2_000);
        for _ in 0..3 {
            let count = 1 + life.dice.below(60) as u32;
            for id in life.claim(count, None) {
                let ask = Break {
                    id: &id,
                    fence: None,
                };
                life.ask(|queue, env| queue.decide_break(env, &ask));
            }
            let (now, max) = (life.now(), life.dice.below(150) as usize);
            life.queue.announce(&now, max, &mut Vec::new());
        }
        for _ in 0..12 {
            let wall_us = start_us + life.dice.below(2_000_000);
            if life.dice.chance(400) {
                life.wall_us = wall_us;
            }
            for _ in 0..life.dice.below(4) {
                let (now, mut once) = (life.now(), true);
                life.queue
                    .advance(&now, &mut || std::mem::replace(&mut once, false));
            }
            for _ in 0..life.dice.below(30) {
                let id = &ids[life.dice.below(500) as usize];
                let ask = Purge {
                    state: State::Scheduled,
                    status: None,
                    pattern: None,
                    count: 1,
                };
                if life.dice.chance(30) {
                    let swept = life.queue.decide_purge(&life.now(), &ask, &|_| true);
                    if let Some(effect) = swept.effect {
                        life.carry(&effect);
                    }
                } else {
                    life.carry_if_there(&Effect::Forget {
                        ids: vec![Bytes::of(id)],
                    });
                }
            }
            let (now, max) = (life.now(), life.dice.below(20) as usize);
            life.queue.announce(&now, max, &mut Vec::new());
        }
        let now = life.now();
        assert!(life.queue.advance(&now, &mut || true));
        life.queue.check();
        for state in [State::Scheduled, State::Expired] {
            let met = ids.iter().filter(|id| {
                life.queue
                    .view(&now, id)
                    .is_some_and(|view| view.state == state)
            });
            let count = met.count() as u64;
            assert_eq!(life.queue.count(&now, state), count, "{seed}: {state:?}");
        }
    }
}
