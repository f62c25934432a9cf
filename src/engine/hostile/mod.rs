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
#[cfg(test)]
use super::testing::from_environment;
use super::testing::{Dice, loaded};
use crate::codec;
use crate::words::time::Now;
use effects::Maker;
use world::World;

mod commands;
mod effects;
mod world;

/// The orders.
const IDS: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"f"];

/// Everything that a run of absurd effects and commands needs.
struct Play<'d> {
    world: World,
    dice: Dice<'d>,
    steps: u64,
}

impl<'d> Play<'d> {
    /// Nothing has happened.
    fn new(dice: Dice<'d>) -> Self {
        let world = World {
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
        Self {
            world,
            dice,
            steps: 0,
        }
    }

    /// Some time, an effect or a command, and what is due.
    fn step(&mut self) {
        let Self { world, dice, steps } = self;
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
            dice,
        };
        if maker.dice.chance(300) {
            let effect = maker.effect();
            world.carry(&effect, false);
        } else {
            let (verb, args) = maker.command(&world.primary, &world.now);
            world.ask(verb, &args);
        }
        if dice.chance(300) {
            world.pass(dice);
        }
        if steps.is_multiple_of(16) {
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
        *steps += 1;
    }
}

/// What a fuzzer has chosen is done, and after it everything held against everything.
///
/// # Panics
///
/// If anything is not as it must be.
pub fn play(chosen: &[u8]) {
    let mut play = Play::new(Dice::Chosen(chosen));
    while !play.dice.is_over() {
        play.step();
    }
    play.world.compare();
}

/// [`load`] of one piece: a byte that chooses the version, two of the chunk's length, the
/// chunk, and what chooses what is done with it.
pub fn load_chosen(bytes: &[u8]) {
    let [version, low, high, rest @ ..] = bytes else {
        return;
    };
    let length = usize::from(u16::from_le_bytes([*low, *high]));
    let (chunk, chosen) = rest.split_at(length.min(rest.len()));
    load(1 + u64::from(*version % 3), chunk, chosen);
}

/// Bytes that claim to be a saved queue are loaded, worked with as [`play`] does, saved
/// and loaded again.
///
/// # Panics
///
/// If what was loaded is not as it must be.
fn load(version: u64, chunk: &[u8], chosen: &[u8]) {
    let Ok(effects) = codec::decode_chunk(version, chunk) else {
        return;
    };
    let mut play = Play::new(Dice::Chosen(chosen));
    let World {
        primary,
        replica,
        now,
        defaults,
        ..
    } = &mut play.world;
    for effect in &effects {
        primary.replay(now, effect, defaults);
        replica.replay(now, effect, defaults);
    }
    play.world.compare();
    while !play.dice.is_over() {
        play.step();
    }
    play.world.compare();
}

/// What fuzzers have found worth keeping, see `fuzz/`.
#[cfg(test)]
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = format!("{}/fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(folder).unwrap();
    let seeds: Vec<_> = files
        .map(|file| std::fs::read(file.unwrap().path()).unwrap())
        .collect();
    assert!(seeds.len() > 20, "{target}: {}", seeds.len());
    seeds
}

#[cfg(test)]
#[test]
fn what_fuzzers_have_kept_breaks_nothing() {
    for seed in seeds("orders") {
        play(&seed);
    }
    for seed in seeds("saved") {
        load_chosen(&seed);
    }
}

#[cfg(test)]
#[test]
fn no_effect_however_absurd_breaks_a_queue() {
    let seed = from_environment("ORDER_TEST_SEED").unwrap_or(6);
    let steps = from_environment("ORDER_TEST_STEPS").unwrap_or(200_000);
    eprintln!("seed {seed}, {steps} steps");
    let mut play = Play::new(Dice::Seeded(seed));
    while play.steps < steps {
        play.step();
    }
    assert!(
        play.world.decided > steps / 20,
        "{} decided",
        play.world.decided
    );
}
