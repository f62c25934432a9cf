//! A run: what it is like, its steps, and whether all that it is there for happened.

use super::world::World;
use crate::engine::testing::from_environment;

/// How often something happens.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Often {
    /// Before every operation.
    Always,
    /// Now and then.
    Sometimes,
    /// Not at all.
    Never,
}

/// What a run is like.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    /// For messages.
    pub(super) name: &'static str,
    /// Steps.
    pub(super) steps: u64,
    /// Number of ids.
    pub(super) ids: u64,
    /// Number of statuses.
    pub(super) statuses: u64,
    /// Passes that advance.
    pub(super) advance: Often,
    /// Passes that announce.
    pub(super) announce: Often,
    /// Whether the wall clock is set now and then.
    pub(super) clock_steps: bool,
    /// Whether primary and replica change places.
    pub(super) promotions: bool,
    /// Whether the floor is raised far ahead of the clock.
    pub(super) far: bool,
    /// Steps between comparisons of everything.
    pub(super) compare_every: u64,
}

impl Kind {
    /// Whether everything is certain: the clocks only pass, and passes come first.
    pub(super) fn is_exact(&self) -> bool {
        self.advance == Often::Always && !self.clock_steps && !self.promotions
    }
}

impl World {
    /// One step.
    fn step(&mut self, step: u64) {
        self.pass_time();
        self.pass();
        let touched = match self.dice.below(1000) {
            0..=269 => Some(self.schedule()),
            270..=299 => {
                self.batch();
                None
            }
            300..=399 => Some(self.finish()),
            400..=459 => Some(self.set_status()),
            460..=659 => Some(self.claim()),
            660..=739 => Some(self.ack()),
            740..=819 => Some(self.nack()),
            820..=869 => Some(self.renew()),
            870..=919 => Some(self.lock()),
            920..=939 => Some(self.unlock()),
            940..=946 => Some(self.break_lease()),
            947..=949 => self.release_owner(),
            950..=959 => {
                self.requeue();
                None
            }
            960..=975 => {
                self.forget();
                None
            }
            976..=979 => {
                self.purge();
                None
            }
            980..=994 => {
                self.configure();
                None
            }
            995..=997 if self.dice.chance(1000 / (1 + self.kind.ids / 500)) => {
                self.restart();
                None
            }
            998 if self.kind.promotions => {
                self.promote();
                None
            }
            _ => None,
        };
        if let Some(n) = touched {
            self.compare_order(n);
        }
        for server in &self.servers {
            assert_eq!(server.queue.floor(), self.floor, "floor");
        }
        if self.kind.is_exact() && self.kind.announce == Often::Always {
            self.check_armed();
        }
        if step.is_multiple_of(self.kind.compare_every) {
            self.compare_all();
        }
    }
}

/// Plays a run to its end, and says where it was if it fails.
pub(super) fn play(kind: Kind, seed: u64) {
    /// Prints where the run was, unless it ended well.
    struct Where(&'static str, u64, u64, bool);
    impl Drop for Where {
        fn drop(&mut self) {
            if !self.3 {
                let Self(name, seed, step, _) = self;
                eprintln!("run '{name}' failed: ORDER_TEST_SEED={seed}, step {step}");
            }
        }
    }
    let seed = from_environment("ORDER_TEST_SEED").unwrap_or(seed);
    let steps = from_environment("ORDER_TEST_STEPS").unwrap_or(kind.steps);
    let mut place = Where(kind.name, seed, 0, false);
    let mut world = World::new(kind, seed);
    for step in 0..steps {
        place.2 = step;
        world.step(step);
    }
    world.compare_all();
    place.3 = true;
    // Everything the generator is there for must have happened.
    let mut lacking: Vec<&str> = vec![
        "OK",
        "EXISTS",
        "MISSING",
        "UNCHANGED",
        "LEASED",
        "FINISHED",
        "STATE",
        "STALE",
    ];
    lacking.extend([
        "EXPIRED",
        "GONE",
        "HELD",
        "BUSY",
        "MISMATCH",
        "claim: some",
        "claim: none",
        "lock",
        "unlock",
        "break",
        "release",
        "requeue",
        "requeue: retrying",
        "requeue: filtered",
        "requeue: by id",
        "purge",
        "bad setting",
        "restart",
        "mschedule",
        "mfinish",
        "mack",
        "mnack",
        "mrenew",
        "twice in a batch",
    ]);
    lacking.extend(["forgotten", "expired", "lapsed"]);
    if kind.announce != Often::Never {
        lacking.push("dead");
    }
    if kind.clock_steps {
        lacking.push("clock steps");
    }
    if kind.promotions {
        lacking.push("promotion");
    }
    lacking.retain(|what| !world.counts.contains_key(what));
    assert!(
        steps < 50_000 || lacking.is_empty(),
        "never happened in '{}': {lacking:?}",
        kind.name
    );
}
