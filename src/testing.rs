//! What the tests of the whole crate share: one source of random numbers, seeded, and
//! the run that says its seed when it fails.

#![allow(
    clippy::expect_used,
    reason = "a run that is asked for in wrong words should end at once"
)]

/// The next number of splitmix64, the one source of random numbers of all tests: the
/// same everywhere for one seed.
pub(crate) fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A seeded generator.
pub(crate) struct Random(u64);

impl Random {
    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        mix(&mut self.0)
    }

    /// A number below `end`, which is at least 1.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// One random run: where it stands, told when it fails.
pub(crate) struct Run {
    /// The numbers of the run.
    pub(crate) random: Random,
    /// `ORDER_TEST_SEED`, or a fixed one.
    seed: u64,
    /// `ORDER_TEST_STEPS`, or 250 000.
    pub(crate) steps: u64,
    /// The step the run is at.
    pub(crate) step: u64,
}

impl Run {
    /// A run as the environment asks for.
    pub(crate) fn new() -> Self {
        let number = |name: &str, default| {
            std::env::var(name)
                .ok()
                .map_or(default, |text| text.parse().expect("a plain number"))
        };
        let seed = number("ORDER_TEST_SEED", 1_795_958);
        Self {
            random: Random(seed),
            seed,
            steps: number("ORDER_TEST_STEPS", 250_000),
            step: 0,
        }
    }
}

impl Drop for Run {
    #[expect(
        clippy::print_stderr,
        reason = "the seed of a failed run must reach the reader"
    )]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "failed at step {} of ORDER_TEST_SEED={} ORDER_TEST_STEPS={}",
                self.step, self.seed, self.steps
            );
        }
    }
}
