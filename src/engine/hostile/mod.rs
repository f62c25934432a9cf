//! Effects that no decision makes: from a broken file, a forged RESTORE, a made-up
//! APPLY.
//!
//! A seeded generator makes effects with every number and moment at its limits and
//! beyond (`effects`). What the codec refuses is done with; what it takes is applied on a
//! primary and a replica with another clock (`world`), and after it every decision there
//! is (`commands`), at times that step. It must hold, after each:
//!
//! - what was decided is something the codec takes: `decode(encode(x)) == x`;
//! - primary and replica have equal ground state, and so has what they save once it is
//!   loaded again, as often as that is done;
//! - no structure is broken, and no answer disagrees with the record.
//!
//! `ORDER_TEST_SEED` gives another run, `ORDER_TEST_STEPS` another number of steps. A new
//! effect needs an arm in `effects`, a new command a line in `commands` and an arm in
//! `world`.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that fails should fail loudly"
)]

use super::number::Numbers;
use super::queue::Queue;
use super::settings::Defaults;
use super::testing::{Dice, from_environment, loaded};
use crate::words::time::Now;
use effects::Maker;
use world::World;

mod commands;
mod effects;
mod world;

/// The orders.
const IDS: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"f"];

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
