//! The brake: so many orders are handed out a second, over all claimers, and evenly.
//!
//! A bucket of a tenth of a second that fills by the monotonic clock. Decisions look into
//! it and take nothing out: that is done by [`Queue::spend_claims`], when the server that
//! has decided a grant carries it out. So what is refused, or held back by something
//! else, uses nothing up, and replicas and files know nothing of it.
//!
//! A bucket is made by the first grant; until then, and after a change of the setting,
//! it is full.

use super::Queue;
use crate::engine::decide::Env;
use crate::engine::settings::{Defaults, Setting};
use crate::engine::tables::tokens::{Rate, Tokens};
use crate::request::Claim;
use crate::words::time::{Now, WallMs};

/// So much of a second may be handed out at once, microseconds: but always one order.
const AT_ONCE_US: u64 = 100_000;

/// What may be handed out of a queue that is braked. Volatile.
#[derive(Debug)]
pub(super) struct Brake {
    /// The bucket.
    tokens: Tokens,
    /// The rate it was filled at: at another one it is full.
    rate: Rate,
}

impl Queue {
    /// How many orders may be handed out a second; `None` without limit.
    fn rate(&self, defaults: &Defaults) -> Option<Rate> {
        let per_s = self.setting(Setting::ClaimsPerSMax, defaults);
        (per_s != 0).then_some(Rate {
            per_s,
            depth_us: AT_ONCE_US,
        })
    }

    /// The bucket for a rate, if it was made and not everything has changed since.
    fn brake_at(&self, rate: Rate) -> Option<&Brake> {
        self.busy
            .brake
            .as_deref()
            .filter(|brake| brake.rate == rate)
    }

    /// Whether so many orders are handed out a second and no more. O(1).
    pub fn is_braked(&self, defaults: &Defaults) -> bool {
        self.rate(defaults).is_some()
    }

    /// How many orders may be handed out now; `u64::MAX` without limit. O(1).
    pub fn claims_left(&self, now: &Now, defaults: &Defaults) -> u64 {
        let Some(rate) = self.rate(defaults) else {
            return u64::MAX;
        };
        match self.brake_at(rate) {
            Some(brake) => brake.tokens.count(rate, now.mono_us),
            None => Tokens::full(rate, now.mono_us).count(rate, now.mono_us),
        }
    }

    /// In how many microseconds the next order may be handed out; 0: now. O(1).
    pub fn claim_limit_wait_us(&self, now: &Now, defaults: &Defaults) -> u64 {
        self.rate(defaults).map_or(0, |rate| {
            self.brake_at(rate)
                .map_or(0, |brake| brake.tokens.next_us(rate, now.mono_us))
        })
    }

    /// When somebody who waits for orders can be served: a wall millisecond that has
    /// passed means now. `None`: not before something else happens. As far as
    /// [`Queue::advance`] has got. O(1).
    pub fn claim_wake(&self, now: &Now, defaults: &Defaults) -> Option<WallMs> {
        if !self.has_claimable(now, defaults) {
            return None;
        }
        Some(match self.claim_limit_wait_us(now, defaults) {
            0 => WallMs(0),
            // Rounded up: a pass that came a microsecond early would find nothing.
            ahead_us => WallMs(now.wall_us.saturating_add(ahead_us).div_ceil(1000)),
        })
    }

    /// Counts orders as handed out: called where this server has decided a grant and
    /// carried it out, and nowhere else. O(1).
    pub fn spend_claims(&mut self, now: &Now, defaults: &Defaults, count: u64) {
        let Some(rate) = self.rate(defaults) else {
            return self.refill_brake();
        };
        if self.brake_at(rate).is_none() {
            self.busy.brake = Some(Box::new(Brake {
                tokens: Tokens::full(rate, now.mono_us),
                rate,
            }));
        }
        if let Some(brake) = &mut self.busy.brake {
            brake.tokens.take(count, rate, now.mono_us);
        }
    }

    /// Makes the bucket full: a setting has changed, or this server became the primary.
    /// O(1).
    pub fn refill_brake(&mut self) {
        if self.busy.brake.is_some() {
            self.busy.brake = None;
        }
    }

    /// Whether the brake alone would keep something back from this claim, if it came now
    /// and nothing could go. O(256).
    pub fn is_held_back(&self, env: &Env<'_>, ask: &Claim<'_>) -> bool {
        self.is_braked(env.defaults) && self.claimable_for(env, ask, 0).1
    }

    /// Counts a claim that the brake has kept something back from. O(1).
    pub fn note_held_back(&mut self) {
        self.busy.meters.held_back += 1;
    }
}
