//! A life: a queue, its clocks and the dice, step by step to its end.

use super::{IDS, STEPS};
use crate::engine::decide::Env;
use crate::engine::effect::Effect;
use crate::engine::number::Numbers;
use crate::engine::outcome::Decision;
use crate::engine::queue::Queue;
use crate::engine::settings::{Defaults, Setting};
use crate::engine::testing::{Dice, loaded};
use crate::error::Error;
use crate::words::time::Now;

/// A queue, its clocks, and the dice.
pub(super) struct Life {
    /// The dice.
    pub(super) dice: Dice<'static>,
    /// The queue.
    pub(super) queue: Queue,
    /// The number generator of its server.
    pub(super) numbers: Numbers,
    /// The server's defaults.
    pub(super) defaults: Defaults,
    /// Wall clock, microseconds.
    pub(super) wall_us: u64,
    /// Monotonic clock, microseconds.
    pub(super) mono_us: u64,
}

impl Life {
    /// The start of a life.
    pub(super) fn new(seed: u64) -> Self {
        let mut defaults = Defaults::default();
        defaults.set(Setting::MaxAttempts, 3);
        defaults.set(Setting::BackoffMs, 20);
        defaults.set(Setting::DeadMax, 4);
        defaults.set(Setting::KeepMs, 300);
        let mut dice = Dice::Seeded(seed);
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
    pub(super) fn now(&self) -> Now {
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
    pub(super) fn carry(&mut self, effect: &Effect<'_>) {
        let now = self.now();
        assert!(
            self.queue.apply(&now, effect, &mut Vec::new()),
            "{effect:?}"
        );
    }

    /// Carries an effect out whose order may be gone.
    pub(super) fn carry_if_there(&mut self, effect: &Effect<'_>) {
        let now = self.now();
        self.queue.apply(&now, effect, &mut Vec::new());
    }

    /// Asks for something on one order, and does it.
    pub(super) fn ask<'a>(
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

    /// One step of a life.
    pub(super) fn step(&mut self) {
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
    pub(super) fn end(&mut self) {
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
}
