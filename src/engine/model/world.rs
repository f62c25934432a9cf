//! The world of a run: a primary and a replica with their clocks, and all that the
//! reference knows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::reference::record::{Record, mono_of};
use super::run::Kind;
use crate::codec;
use crate::engine::decide::Env;
use crate::engine::effect::{Effect, LeaseKind};
use crate::engine::number::{NUMBER_END, Numbers};
use crate::engine::outcome::Decision;
use crate::engine::queue::Queue;
use crate::engine::settings::{Defaults, Setting};
use crate::engine::testing::{Dice, loaded};
use crate::error::Error;
use crate::words::time::Now;

/// A process with a clock and a queue.
pub(super) struct Server {
    /// The queue.
    pub(super) queue: Queue,
    /// Its wall clock, microseconds.
    pub(super) wall_us: u64,
    /// Its monotonic clock, microseconds.
    pub(super) mono_us: u64,
}

impl Server {
    /// Both clocks.
    pub(super) fn now(&self) -> Now {
        Now {
            wall_us: self.wall_us,
            mono_us: self.mono_us,
        }
    }
}

/// A run.
pub(super) struct World {
    /// What it is like.
    pub(super) kind: Kind,
    /// The dice.
    pub(super) dice: Dice<'static>,
    /// Both servers.
    pub(super) servers: [Server; 2],
    /// Which one is primary.
    pub(super) active: usize,
    /// Number generator of the primary.
    pub(super) numbers: Numbers,
    /// The same, of the model: numbers that are followed, and those far ahead.
    pub(super) last: u64,
    /// See [`World::learn`].
    pub(super) far: u64,
    /// The server's defaults.
    pub(super) defaults: Defaults,
    /// Ids by number.
    pub(super) ids: Vec<Vec<u8>>,
    /// Numbers by id.
    pub(super) numbers_of: HashMap<Vec<u8>, u32>,
    /// The model's records.
    pub(super) records: BTreeMap<u32, Record>,
    /// The model's floor.
    pub(super) floor: u64,
    /// The queue's own settings.
    pub(super) own: HashMap<Setting, u64>,
    /// Allowed changes of status.
    pub(super) transitions: bool,
    /// The pause: its end, `None` for RESUME only.
    pub(super) pause: Option<Option<u64>>,
    /// Writes that set a deadline.
    pub(super) seq: u64,
    /// The largest fence each order ever had, whatever became of it.
    pub(super) fences: BTreeMap<u32, u64>,
    /// Orders that were finished because paid, and not reopened.
    pub(super) paid: BTreeSet<u32>,
    /// Lapses that may still be announced.
    pub(super) credit: BTreeMap<u32, u32>,
    /// Whether the wall clock was ever set.
    pub(super) stepped: bool,
    /// The wake of the scheduler.
    pub(super) armed: u64,
    /// How much came of it all.
    pub(super) counts: BTreeMap<&'static str, u64>,
}

impl World {
    /// The start of a run.
    pub(super) fn new(kind: Kind, seed: u64) -> Self {
        let mut dice = Dice::Seeded(seed);
        let ids: Vec<Vec<u8>> = (0..kind.ids)
            .map(|n| {
                let mut id = format!("order:{n}").into_bytes();
                // Some are as long as they may be, some are not text.
                if n % 13 == 0 {
                    id.resize(255, b'x');
                }
                if n % 7 == 0 {
                    id[0] = (n % 256) as u8;
                }
                id
            })
            .collect();
        let numbers_of = ids
            .iter()
            .enumerate()
            .map(|(n, id)| (id.clone(), n as u32))
            .collect();
        let start_us = 1_100_000_000_000_000 + dice.below(1_000_000);
        let phase = if kind.is_exact() {
            start_us % 1000
        } else {
            dice.below(1000)
        };
        let server = |skew_us: i64, mono_us: u64| Server {
            queue: Queue::new(),
            wall_us: start_us.checked_add_signed(skew_us).unwrap(),
            mono_us,
        };
        let skew_us = if kind.is_exact() {
            0
        } else {
            dice.below(400_000) as i64 - 200_000
        };
        let servers = [
            server(0, 5_000_000 + phase),
            server(skew_us, 9_000_000_000 + phase),
        ];
        let mut numbers = Numbers::new();
        numbers.guard(start_us, 10_000_000);
        let last = start_us + 10_000_000;
        let mut defaults = Defaults::default();
        defaults.set(Setting::MaxAttempts, 5);
        defaults.set(Setting::BackoffMs, 10);
        defaults.set(Setting::BackoffMsMax, 300);
        defaults.set(Setting::LeaseMs, 100);
        defaults.set(Setting::KeepMs, 500);
        defaults.set(Setting::DeadMax, 20);
        defaults.set(Setting::LockMsMax, 300);
        defaults.lease_ms_max = 30_000;
        Self {
            kind,
            dice,
            servers,
            active: 0,
            numbers,
            last,
            far: 0,
            defaults,
            ids,
            numbers_of,
            records: BTreeMap::new(),
            floor: 0,
            own: HashMap::new(),
            transitions: false,
            pause: None,
            seq: 0,
            fences: BTreeMap::new(),
            paid: BTreeSet::new(),
            credit: BTreeMap::new(),
            stepped: false,
            armed: u64::MAX,
            counts: BTreeMap::new(),
        }
    }

    /// Counts something that happened, so that a run can say it was not idle.
    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Clocks of the primary.
    pub(super) fn now(&self) -> Now {
        self.servers[self.active].now()
    }

    /// Clocks of both servers.
    pub(super) fn nows(&self) -> [Now; 2] {
        [self.servers[0].now(), self.servers[1].now()]
    }

    /// The primary's queue.
    pub(super) fn queue(&mut self) -> &mut Queue {
        &mut self.servers[self.active].queue
    }

    /// The primary's wall clock in milliseconds.
    pub(super) fn wall(&self) -> u64 {
        self.now().wall_us / 1000
    }

    /// Asks the primary.
    pub(super) fn ask<'a>(
        &mut self,
        decide: impl FnOnce(&Queue, &mut Env<'_>) -> Result<Decision<'a>, Error>,
    ) -> Result<Decision<'a>, Error> {
        let now = self.now();
        let mut env = Env {
            now,
            numbers: &mut self.numbers,
            defaults: &self.defaults,
        };
        decide(&self.servers[self.active].queue, &mut env)
    }

    /// Carries an effect out on both servers.
    pub(super) fn carry(&mut self, effect: &Effect<'_>) {
        let nows = self.nows();
        let mut events = Vec::new();
        let primary = self.active;
        // What is to be said before is said once, and by this server alone.
        let before = |queue: &Queue| queue.lapses_before(&nows[primary], effect);
        for said in &before(&self.servers[primary].queue) {
            self.announced(said);
        }
        assert!(
            self.servers[primary]
                .queue
                .apply(&nows[primary], effect, &mut events),
            "{effect:?}"
        );
        let mut blob = Vec::new();
        codec::encode(effect, &mut blob).unwrap();
        let decoded = codec::decode(codec::VERSION, &blob).unwrap();
        assert_eq!(decoded.as_slice(), std::slice::from_ref(effect));
        let mut replicas_events = Vec::new();
        for effect in &decoded {
            let replica = &mut self.servers[1 - primary].queue;
            assert!(
                replica.apply(&nows[1 - primary], effect, &mut replicas_events),
                "{effect:?}"
            );
        }
        assert_eq!(events, replicas_events);
    }

    /// Carries out what a command of an operator comes to.
    pub(super) fn carry_all(&mut self, effects: &[Effect<'_>]) {
        for effect in effects {
            self.carry(effect);
        }
    }

    /// Lets time pass.
    pub(super) fn pass_time(&mut self) {
        let us = match self.dice.below(100) {
            0..=39 => 0,
            40..=59 => self.dice.below(900),
            60..=74 => 1_000,
            75..=93 => self.dice.below(20_000),
            94..=97 => self.dice.below(400_000),
            98 => self.dice.below(5_000_000),
            _ if self.dice.chance(20) && self.wall() < 3_500_000_000_000 => {
                self.dice.below(31_536_000_000_000)
            }
            _ if self.dice.chance(300) => self.dice.below(600_000_000),
            _ => 0,
        };
        for server in &mut self.servers {
            server.wall_us += us;
            server.mono_us += us;
        }
        if self.kind.clock_steps && self.dice.chance(4) {
            self.stepped = true;
            let size = self.dice.pick(&[1, 300, 20_000, 2_000_000]);
            let step = self.dice.below(2 * size) as i64 - size as i64;
            let which = self.dice.below(2) as usize;
            let server = &mut self.servers[which];
            server.wall_us = server.wall_us.checked_add_signed(step).unwrap();
            self.count("clock steps");
        }
    }

    /// One of the servers is stopped and loads what it saved.
    pub(super) fn restart(&mut self) {
        let which = self.dice.below(2) as usize;
        let server = &mut self.servers[which];
        server.mono_us = 1_000 * (1 + self.dice.below(1_000_000)) + server.mono_us % 1000;
        let now = server.now();
        server.queue = loaded(&server.queue, &now, &self.defaults);
        let lease_ms_max = self.defaults.lease_ms_max;
        let lock_ms_max = self.setting(Setting::LockMsMax).min(lease_ms_max);
        for record in self.records.values_mut() {
            if let Some(grant) = &mut record.grant {
                let most = match grant.kind {
                    LeaseKind::Claim => lease_ms_max,
                    LeaseKind::Lock => lock_ms_max,
                };
                let left = |end, since| mono_of(end, most.min(end - since), &now);
                grant.over[which] = left(grant.end, grant.since);
                grant.cap_over[which] = left(grant.cap, grant.made);
            }
            if let Some((at, over)) = &mut record.retry {
                over[which] = mono_of(*at, *at - record.retry_since, &now);
            }
        }
        self.count("restart");
        if which == self.active {
            self.take_over();
            for record in self.records.values_mut() {
                if let Some(deadline) = record.deadline {
                    record.since = deadline;
                }
            }
            self.armed = 0;
        }
    }

    /// A server starts as primary: it knows no numbers but its queue's, and has
    /// announced nothing.
    fn take_over(&mut self) {
        let (now, floor) = (self.now(), self.floor);
        self.numbers = Numbers::new();
        self.numbers.learn(floor, now.wall_us);
        self.numbers.guard(now.wall_us, 10_000_000);
        (self.last, self.far) = (0, 0);
        self.learn(floor);
        self.last = self.last.max(now.wall_us) + 10_000_000;
        if self.far > 0 {
            self.far = (self.far + 10_000_000).min(NUMBER_END - (1 << 40));
        }
        self.credit.clear();
        for (n, record) in &mut self.records {
            record.announced = false;
            if let Some(grant) = &mut record.grant {
                grant.said = false;
                self.credit.insert(*n, 1);
            }
        }
    }

    /// The replica becomes the primary.
    pub(super) fn promote(&mut self) {
        self.active = 1 - self.active;
        self.queue().announce_again();
        self.take_over();
        self.count("promotion");
    }
}
