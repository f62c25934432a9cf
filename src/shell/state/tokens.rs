//! How many announcements may be made: a token bucket, in whole numbers.
//!
//! Pure: the rate and the clock come in as arguments.

/// A token in the unit that is counted in: at a rate of one a second a microsecond
/// brings one unit, so that nothing is ever rounded away.
const TOKEN: u64 = 1_000_000;

/// A bucket that a rate fills and that has room for what ten milliseconds bring.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// Millionths of a token that are in it.
    left: u64,
    /// When (monotonic) they were counted, microseconds.
    at_us: u64,
}

impl Tokens {
    /// An empty bucket.
    pub(crate) const fn new() -> Self {
        Self { left: 0, at_us: 0 }
    }

    /// Takes at most `want` tokens, at a rate of `per_s` a second; all of them where
    /// that is 0, which means without limit. O(1).
    pub(crate) fn take(&mut self, want: u64, per_s: u64, now_us: u64) -> u64 {
        if per_s == 0 {
            return want;
        }
        // As many as ten milliseconds bring may be taken at once, at least one.
        let room = per_s.saturating_mul(TOKEN / 100).max(TOKEN);
        let brought = now_us.saturating_sub(self.at_us).saturating_mul(per_s);
        self.left = self.left.saturating_add(brought).min(room);
        self.at_us = now_us;
        let taken = want.min(self.left / TOKEN);
        self.left -= taken * TOKEN;
        taken
    }

    /// In how many milliseconds from the last [`Self::take`] there is one at `per_s`
    /// a second; at least one. O(1).
    pub(crate) fn next_ms(&self, per_s: u64) -> u64 {
        let missing = TOKEN.saturating_sub(self.left);
        missing.div_ceil(per_s.max(1).saturating_mul(1000)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::Tokens;

    #[test]
    fn a_second_brings_the_rate_however_it_is_cut() {
        for per_s in [1, 2, 3, 7, 99, 100, 101, 333, 1_000, 65_537, 1_000_000] {
            for step_us in [1, 3, 7, 250, 999, 1_000, 9_999] {
                let mut tokens = Tokens::new();
                tokens.take(u64::MAX, per_s, 5_000_000);
                let mut taken = 0;
                let mut now_us = 5_000_000;
                while now_us < 8_000_000 {
                    now_us += step_us;
                    taken += tokens.take(64, per_s, now_us);
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

    #[test]
    fn ten_milliseconds_may_come_at_once_and_no_more() {
        for (per_s, at_once) in [
            (1, 1),
            (50, 1),
            (100, 1),
            (1_000, 10),
            (1_000_000_000, 10_000_000),
        ] {
            let mut tokens = Tokens::new();
            assert_eq!(tokens.take(u64::MAX, per_s, u64::MAX), at_once, "{per_s}");
            assert_eq!(tokens.take(u64::MAX, per_s, u64::MAX), 0, "{per_s}");
        }
    }

    #[test]
    fn none_is_too_early_and_the_next_one_is_told() {
        for per_s in [1, 2, 3, 7, 99, 333, 1_000, 5_000] {
            let mut tokens = Tokens::new();
            let mut now_us = 20_000_000;
            while tokens.take(1, per_s, now_us) == 1 {}
            for _ in 0..50 {
                let ms = tokens.next_ms(per_s);
                assert_eq!(
                    ms,
                    1_000_000_u64
                        .saturating_sub(tokens.left)
                        .div_ceil(per_s * 1_000)
                        .max(1)
                );
                if ms > 1 {
                    assert_eq!(
                        tokens.take(1, per_s, now_us + (ms - 1) * 1_000),
                        0,
                        "{per_s}"
                    );
                }
                now_us += ms * 1_000;
                assert_eq!(tokens.take(1, per_s, now_us), 1, "{per_s}");
            }
        }
    }

    #[test]
    fn without_limit_all_are_given_and_a_changed_rate_holds_at_once() {
        let mut tokens = Tokens::new();
        assert_eq!(tokens.take(123, 0, 7), 123);
        assert_eq!(tokens.take(500, 100_000, 1_000_000), 500);
        assert_eq!(tokens.take(500, 100, 1_000_000), 1, "room for one is left");
        assert_eq!(tokens.next_ms(100), 10);
        assert_eq!(tokens.next_ms(0), 1_000, "no rate: as one a second");
        // A clock that goes back brings nothing.
        assert_eq!(tokens.take(1, 100, 0), 0);
    }
}
