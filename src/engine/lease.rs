//! Decisions on locks and on the end of leases: LOCK, UNLOCK, BREAK, and what a
//! client that waits for a lock is told.
//!
//! A lock is a lease like a claim, in the same field of the same record, so a
//! record has at most one of either. It is asked for by id and before the
//! deadline; while it is live the close waits, until its end or cap. On an id
//! without an order it makes a `reserved` record that ends with it.

use super::decide::{Env, Existing, accept, refuse};
use super::effect::{AfterTry, Bytes, Effect, Ended, LIST_MAX, LeaseKind, LeaseOf};
use super::outcome::{Decision, Outcome};
use super::queue::Queue;
use super::settings::Setting;
use crate::error::Error;
use crate::request::{Break, Lock, Unlock};
use crate::words::state::State;
use crate::words::time::Now;

impl Queue {
    /// Decides `ORDER.LOCK`. `queued`: other clients wait for this lock already,
    /// and nobody passes by them. O(1).
    pub fn decide_lock<'a>(
        &self,
        env: &mut Env<'_>,
        ask: &Lock<'a>,
        queued: bool,
    ) -> Result<Decision<'a>, Error> {
        let met = self.meet(&env.now, ask.id);
        let was = met.as_ref().map_or(State::Missing, |met| met.state);
        if ask.must_exist && is_no_order(met.as_ref()) {
            return Ok(refuse(was, Outcome::Missing));
        }
        if let Some(met) = &met {
            if self.is_other_request(met, ask.fp) {
                return Ok(refuse(was, Outcome::Mismatch));
            }
            if was == State::Finished {
                return Ok(refuse(was, Outcome::Finished));
            }
            if met.is_leased() {
                return Self::lock_again(env, ask, met);
            }
            if has_expired(met, &env.now) {
                return Ok(refuse(was, Outcome::Expired));
            }
        }
        if queued {
            return Ok(refuse(was, Outcome::Busy));
        }
        if met.is_none() && !self.store.has_room() {
            return Err(Error::QueueFull);
        }
        let cap_ms = self.lock_cap_ms(env, ask.max_ms);
        let lease_ms = ask.lease_ms.min(cap_ms);
        let fence = env
            .numbers
            .grant(env.now.wall_us, self.floor)
            .ok_or(Error::NumbersUsedUp)?;
        let since = env.now.wall_ms_ceil();
        let effect = Effect::Lock {
            id: Bytes::of(ask.id),
            owner: Bytes::of(ask.owner),
            fence,
            since,
            end: since.plus(lease_ms),
            cap: since.plus(cap_ms),
            fp: ask.fp.map(Bytes::of),
            creates: met.is_none(),
        };
        Ok(accept(was, effect))
    }

    /// What a lock does not pass, counted from its grant: the caller's MAX, the
    /// queue's `lock-ms-max`, the server's `lease-ms-max`, whichever is shortest.
    fn lock_cap_ms(&self, env: &Env<'_>, max_ms: Option<u64>) -> u64 {
        let lock_ms_max = self.setting(Setting::LockMsMax, env.defaults);
        max_ms
            .unwrap_or(u64::MAX)
            .min(lock_ms_max)
            .min(env.defaults.lease_ms_max)
    }

    /// Whether a fingerprint says that this is another request than the one the
    /// record belongs to. Only compared where both sides have one.
    fn is_other_request(&self, met: &Existing<'_>, fp: Option<&[u8]>) -> bool {
        let stored = self
            .store
            .rows
            .extra(met.i)
            .and_then(|extra| extra.fp.as_deref());
        matches!((fp, stored), (Some(asked), Some(stored)) if asked != stored)
    }

    /// LOCK where there is a live lease: the caller's own lock is HELD, its lease
    /// never shortened and its cap kept; anything else is BUSY.
    fn lock_again<'a>(
        env: &mut Env<'_>,
        ask: &Lock<'a>,
        met: &Existing<'_>,
    ) -> Result<Decision<'a>, Error> {
        let Some(grant) = met
            .grant
            .filter(|grant| grant.kind == LeaseKind::Lock && *grant.owner == *ask.owner)
        else {
            return Ok(refuse(met.state, Outcome::Busy));
        };
        let left = grant.end_mono.left(&env.now);
        let lease_ms = ask.lease_ms.min(grant.cap_mono.left(&env.now)).max(left);
        let holds = if ask.reentrant {
            grant.holds.saturating_add(1)
        } else {
            grant.holds
        };
        let since = env.now.wall_ms_ceil();
        let effect = Effect::Hold {
            id: Bytes::of(ask.id),
            rev: Self::next_rev(env, met.rev)?,
            holds,
            since,
            end: since.plus(lease_ms),
        };
        Ok(Decision {
            outcome: Outcome::Held,
            was: met.state,
            effect: Some(effect),
        })
    }

    /// What a client that waits for a lock is told without a grant of its own;
    /// `None`: go on waiting, or be granted it. With `must_exist` it waits for the lock
    /// of an order that is there. O(1).
    pub fn lock_waiter_outcome(
        &self,
        now: &Now,
        id: &[u8],
        fp: Option<&[u8]>,
        must_exist: bool,
    ) -> Option<Outcome> {
        let met = self.meet(now, id);
        if must_exist && is_no_order(met.as_ref()) {
            return Some(Outcome::Missing);
        }
        let met = met?;
        if self.is_other_request(&met, fp) {
            return Some(Outcome::Mismatch);
        }
        if met.state == State::Finished {
            return Some(Outcome::Finished);
        }
        has_expired(&met, now).then_some(Outcome::Expired)
    }

    /// The wall millisecond at which a client that waits for this lock may be
    /// told more, if nobody writes before: the end of the lease, or the deadline;
    /// `u64::MAX`: never. O(1).
    pub fn lock_wake(&self, now: &Now, id: &[u8]) -> u64 {
        let Some(met) = self.meet(now, id) else {
            return 0;
        };
        let lease = met
            .grant
            .map(|grant| now.wall_ms().plus(grant.end_mono.left(now)));
        let deadline = met.deadline.filter(|deadline| !deadline.is_due(now));
        lease
            .into_iter()
            .chain(deadline)
            .min()
            .map_or(u64::MAX, |wake| wake.0)
    }

    /// Decides `ORDER.UNLOCK`. O(1). Of a claim it is a NACK without delay that does not
    /// count the try.
    pub fn decide_unlock<'a>(
        &self,
        env: &mut Env<'_>,
        ask: &Unlock<'a>,
    ) -> Result<Decision<'a>, Error> {
        let Some(met) = self.meet(&env.now, ask.id) else {
            return Ok(refuse(State::Missing, Outcome::Missing));
        };
        let was = met.state;
        let grant = match Self::live_grant(&met, &env.now, Some(ask.fence)) {
            Ok(grant) => grant,
            Err(outcome) => return Ok(refuse(was, outcome)),
        };
        let rev = Self::next_rev(env, met.rev)?;
        let id = Bytes::of(ask.id);
        if grant.kind == LeaseKind::Lock && grant.holds > 1 {
            let left = grant.end_mono.left(&env.now);
            let since = env.now.wall_ms_ceil();
            let effect = Effect::Hold {
                id,
                rev,
                holds: grant.holds.saturating_sub(1),
                since,
                end: since.plus(left),
            };
            return Ok(Decision {
                outcome: Outcome::Held,
                was,
                effect: Some(effect),
            });
        }
        let ended = match grant.kind {
            LeaseKind::Lock => Ended::Lock,
            LeaseKind::Claim => Ended::Claim {
                then: AfterTry::Now,
                untried: true,
            },
        };
        Ok(accept(was, Effect::Release { id, rev, ended }))
    }

    /// Decides `ORDER.BREAK`. O(1). Of a claim it counts as a failed try.
    pub fn decide_break<'a>(
        &self,
        env: &mut Env<'_>,
        ask: &Break<'a>,
    ) -> Result<Decision<'a>, Error> {
        let Some(met) = self.meet(&env.now, ask.id) else {
            return Ok(refuse(State::Missing, Outcome::Missing));
        };
        let was = met.state;
        let grant = match Self::live_grant(&met, &env.now, ask.fence) {
            Ok(grant) => grant,
            Err(outcome) => return Ok(refuse(was, outcome)),
        };
        let rev = Self::next_rev(env, met.rev)?;
        let ended = match grant.kind {
            LeaseKind::Lock => Ended::Lock,
            LeaseKind::Claim => Ended::Claim {
                then: if grant.last_try {
                    AfterTry::Dead(env.now.wall_ms())
                } else {
                    AfterTry::Now
                },
                untried: false,
            },
        };
        Ok(accept(
            was,
            Effect::Release {
                id: Bytes::of(ask.id),
                rev,
                ended,
            },
        ))
    }

    /// The effect that ends these leases now as if their time had come, given as ids and
    /// fences; those that are not live are left out. `None` if none is. Of more than
    /// [`LIST_MAX`] live ones the first so many are taken. O(1) for each.
    pub fn decide_lapse<'a>(
        &self,
        now: &Now,
        leases: impl IntoIterator<Item = (&'a [u8], u64)>,
    ) -> Option<Effect<'a>> {
        let live = leases.into_iter().filter(|(id, fence)| {
            let met = self.meet(now, id);
            met.is_some_and(|met| Self::live_grant(&met, now, Some(*fence)).is_ok())
        });
        let leases: Vec<_> = live
            .take(LIST_MAX)
            .map(|(id, fence)| LeaseOf {
                id: Bytes::of(id),
                fence,
            })
            .collect();
        let end = now.wall_ms();
        (!leases.is_empty()).then_some(Effect::Lapse { end, leases })
    }

    /// The live grant with this fence, or why there is none: GONE where there is
    /// no grant or it is over, STALE where it has another number.
    pub(super) fn live_grant<'q>(
        met: &Existing<'q>,
        now: &Now,
        fence: Option<u64>,
    ) -> Result<&'q super::record::Grant, Outcome> {
        let grant = met.grant.ok_or(Outcome::Gone)?;
        if fence.is_some_and(|fence| fence != grant.fence) {
            return Err(Outcome::Stale);
        }
        if grant.end_mono.is_over(now) {
            return Err(Outcome::Gone);
        }
        Ok(grant)
    }
}

/// Whether there is no order, but at most a reservation.
fn is_no_order(met: Option<&Existing<'_>>) -> bool {
    met.is_none_or(|met| met.state == State::Reserved)
}

/// Whether it is too late for a lock: the deadline has come. An order that was
/// tried since is past it too, also when the wall clock was set back meanwhile.
fn has_expired(met: &Existing<'_>, now: &Now) -> bool {
    matches!(met.state, State::Retrying | State::Dead)
        || met.deadline.is_some_and(|deadline| deadline.is_due(now))
}
