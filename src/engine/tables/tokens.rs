//! So many a second and no more: a token bucket, in whole numbers.
//!
//! Pure: the rate and the clock come in as arguments. Nothing is ever rounded away, so
//! a second brings exactly the rate however it is cut.

/// A token in the unit that is counted in: at a rate of one a second a microsecond
/// brings one unit.
const TOKEN: u64 = 1_000_000;

/// How fast a bucket fills, and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens a second; 0: without limit.
    pub per_s: u64,
    /// It holds what so many microseconds bring, at least one token.
    pub depth_us: u64,
}

impl Rate {
    /// What a bucket holds, in millionths of a token.
    const fn room(self) -> u64 {
        let room = self.per_s.saturating_mul(self.depth_us);
        if room < TOKEN { TOKEN } else { room }
    }
}

/// A bucket that a rate fills. 16 bytes.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// Millionths of a token that were in it.
    left: u64,
    /// When (monotonic) they were counted, microseconds.
    at_us: u64,
}

impl Tokens {
    /// An empty bucket, as of the start of the clock. O(1).
    pub const fn new() -> Self {
        Self { left: 0, at_us: 0 }
    }

    /// A bucket that is full at `now_us` (monotonic, microseconds). O(1).
    pub const fn full(rate: Rate, now_us: u64) -> Self {
        Self {
            left: rate.room(),
            at_us: now_us,
        }
    }

    /// What is in it at `now_us`, in millionths of a token.
    fn units(&self, rate: Rate, now_us: u64) -> u64 {
        let passed_us = now_us.saturating_sub(self.at_us);
        let brought = passed_us.saturating_mul(rate.per_s);
        self.left.saturating_add(brought).min(rate.room())
    }

    /// How many whole tokens are in it at `now_us` (monotonic, microseconds), at a rate
    /// that has a limit. A clock that went back brings nothing. O(1).
    pub fn count(&self, rate: Rate, now_us: u64) -> u64 {
        self.units(rate, now_us) / TOKEN
    }

    /// Takes at most `want` tokens at `now_us` (monotonic, microseconds), and says how
    /// many; all of them where the rate has no limit. O(1).
    pub fn take(&mut self, want: u64, rate: Rate, now_us: u64) -> u64 {
        if rate.per_s == 0 {
            return want;
        }
        self.left = self.units(rate, now_us);
        self.at_us = self.at_us.max(now_us);
        let taken = want.min(self.left / TOKEN);
        self.left = self.left.saturating_sub(taken.saturating_mul(TOKEN));
        taken
    }

    /// In how many microseconds after `now_us` (monotonic) there is a token; 0: there is
    /// one. Without a rate as at one a second. O(1).
    pub fn next_us(&self, rate: Rate, now_us: u64) -> u64 {
        let missing = TOKEN.saturating_sub(self.left);
        if missing == 0 {
            return 0;
        }
        let ahead_us = missing.div_ceil(rate.per_s.max(1));
        self.at_us.saturating_add(ahead_us).saturating_sub(now_us)
    }
}

impl Default for Tokens {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{Rate, TOKEN, Tokens};

    /// Announcing: as much as ten milliseconds bring at once.
    fn fast(per_s: u64) -> Rate {
        Rate {
            per_s,
            depth_us: 10_000,
        }
    }

    /// Handing out: as much as a tenth of a second brings at once.
    fn deep(per_s: u64) -> Rate {
        Rate {
            per_s,
            depth_us: 100_000,
        }
    }

    #[test]
    fn a_second_brings_the_rate_however_it_is_cut() {
        for per_s in [1, 2, 3, 7, 99, 100, 101, 333, 1_000, 65_537, 1_000_000] {
            for step_us in [1, 3, 7, 250, 999, 1_000, 9_999] {
                let rate = fast(per_s);
                let mut tokens = Tokens::new();
                tokens.take(u64::MAX, rate, 5_000_000);
                let mut taken = 0;
                let mut now_us = 5_000_000;
                while now_us < 8_000_000 {
                    now_us += step_us;
                    taken += tokens.take(64, rate, now_us);
                }
                // Not more than it brings, and no less but for what 64 a step are less
                // and for what comes within a step that finds the bucket full.
                let brought = per_s * (now_us - 5_000_000) / 1_000_000;
                let most = 64 * (now_us - 5_000_000).div_ceil(step_us);
                let spilt = (taken + 1) * step_us * per_s / 1_000_000;
                assert!(
                    taken <= brought && taken + spilt + 1 >= brought.min(most),
                    "{per_s} a second, every {step_us} us: {taken} of {brought}"
                );
            }
        }
    }

    /// Every second, not on average: what one second is short of by a fraction the next
    /// one brings.
    #[test]
    fn each_second_brings_the_rate_to_the_token() {
        let mut looked_at = 0;
        for per_s in [11, 99, 333, 1_000, 9_999, 65_537, 1_000_000] {
            for step_us in [7, 64, 1_000, 9_973, 97_000] {
                let rate = deep(per_s);
                // A bucket that runs over loses what it has no room for.
                if TOKEN + step_us * per_s > rate.room() {
                    continue;
                }
                looked_at += 1;
                let mut tokens = Tokens::full(rate, 0);
                assert_eq!(
                    tokens.take(u64::MAX, rate, 0),
                    (per_s / 10).max(1),
                    "{per_s}: a tenth of a second, at least one"
                );
                let left = tokens.left;
                let (mut now_us, mut taken) = (0, 0);
                for second in 1..=3 {
                    while now_us < second * 1_000_000 {
                        now_us = (now_us + step_us).min(second * 1_000_000);
                        taken += tokens.take(u64::MAX, rate, now_us);
                    }
                    let brought = (left + second * 1_000_000 * per_s) / TOKEN;
                    assert_eq!(taken, brought, "{per_s}, second {second} by {step_us} us");
                }
            }
        }
        assert!(looked_at > 20, "{looked_at}");
    }

    #[test]
    fn its_depth_may_come_at_once_and_no_more() {
        for (rate, at_once) in [
            (fast(1), 1),
            (fast(50), 1),
            (fast(100), 1),
            (fast(1_000), 10),
            (fast(1_000_000_000), 10_000_000),
            (deep(1), 1),
            (deep(10), 1),
            (deep(29), 2),
            (deep(1_000), 100),
            (deep(1_000_000), 100_000),
        ] {
            for mut tokens in [Tokens::new(), Tokens::full(rate, 5)] {
                assert_eq!(tokens.count(rate, u64::MAX), at_once, "{rate:?}");
                assert_eq!(tokens.take(u64::MAX, rate, u64::MAX), at_once, "{rate:?}");
                assert_eq!(tokens.count(rate, u64::MAX), 0, "{rate:?}");
                assert_eq!(tokens.take(u64::MAX, rate, u64::MAX), 0, "{rate:?}");
            }
            assert_eq!(Tokens::full(rate, 5).count(rate, 5), at_once, "{rate:?}");
        }
    }

    #[test]
    fn none_is_too_early_and_the_next_one_is_told() {
        for per_s in [1, 2, 3, 7, 99, 333, 1_000, 5_000, 999_999, 1_000_000] {
            let rate = fast(per_s);
            let mut tokens = Tokens::new();
            let mut now_us = 20_000_000;
            assert_eq!(tokens.next_us(rate, now_us), 0);
            while tokens.take(1, rate, now_us) == 1 {}
            for _ in 0..50 {
                let ahead_us = tokens.next_us(rate, now_us);
                assert!(ahead_us > 0, "{per_s}");
                assert_eq!(tokens.count(rate, now_us + ahead_us - 1), 0, "{per_s}");
                assert_eq!(tokens.next_us(rate, now_us + ahead_us - 1), 1, "{per_s}");
                now_us += ahead_us;
                assert_eq!(tokens.next_us(rate, now_us), 0, "{per_s}");
                assert_eq!(tokens.take(1, rate, now_us), 1, "{per_s}");
            }
        }
    }

    #[test]
    fn without_limit_all_are_given_and_a_changed_rate_holds_at_once() {
        let mut tokens = Tokens::new();
        assert_eq!(tokens.take(123, fast(0), 7), 123);
        assert_eq!(tokens.take(500, fast(100_000), 1_000_000), 500);
        assert_eq!(tokens.take(500, fast(100), 1_000_000), 1, "room for one");
        assert_eq!(tokens.next_us(fast(100), 1_000_000), 10_000);
        assert_eq!(tokens.next_us(fast(0), 1_000_000), TOKEN, "no rate: as 1/s");
    }

    #[test]
    fn a_clock_that_goes_back_brings_nothing_and_takes_nothing() {
        let rate = deep(100);
        let mut tokens = Tokens::full(rate, 5_000_000);
        assert_eq!(tokens.take(8, rate, 5_000_000), 8);
        // Seen from before it was counted: what was left then.
        assert_eq!(tokens.count(rate, 1_000_000), 2);
        assert_eq!(tokens.next_us(rate, 1_000_000), 0);
        assert_eq!(tokens.take(9, rate, 1_000_000), 2);
        assert_eq!(tokens.next_us(rate, 5_000_000), 10_000);
        assert_eq!(tokens.take(9, rate, 5_000_000), 0, "it is not paid twice");
    }
}
