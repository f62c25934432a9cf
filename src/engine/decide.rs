//! Decisions: what a request comes to. Each reads the order, the clocks and the
//! settings, and returns the outcome with the effect that carries it out. A decision
//! changes nothing in the queue, so one whose effect is refused leaves no trace but
//! the numbers it took from the generator. Those on many orders (CLAIM, REQUEUE,
//! PURGE) read lists and wheels: whoever asks calls [`Queue::advance`] before.
//!
//! The order in which answers are tried is the same for all: missing, finished,
//! exists, a fence that is not the last grant's, a live lease in the way, rev,
//! status, deadline, unchanged, done. `tests/states.rs` holds them against the page of
//! states, row by row.

use super::effect::{AfterTry, Base, Bytes, Effect, FinishedBy, Granted, LeaseKind};
use super::number::Numbers;
use super::outcome::{Claimed, Decision, Outcome};
use super::queue::Queue;
use super::record::Grant;
use super::settings::{Defaults, Setting};
use super::store::is_one_of;
use super::tables::NIL;
use super::views::by_deadline;
use crate::error::Error;
use crate::request::{
    Ack, Again, Claim, Direction, Finish, Guard, Mode, Nack, Pick, Renew, Schedule, SetStatus, When,
};
use crate::words::state::State;
use crate::words::time::{Now, WALL_MS_MAX, WallMs};

/// So much payload one CLAIM hands out at most (but always one order).
pub const CLAIM_BYTES_MAX: usize = 1 << 20;

/// So many records a CLAIM looks at beyond those it hands out: after a step back of
/// the clock it may meet some that are not due any more.
const PICK_LOOKS_MORE: usize = 256;

/// What the server brings to a decision.
#[derive(Debug)]
pub struct Env<'s> {
    /// The clocks, read once for the command.
    pub now: Now,
    /// The server's number generator.
    pub numbers: &'s mut Numbers,
    /// The server's defaults.
    pub defaults: &'s Defaults,
}

/// An order as a decision sees it.
pub(super) struct Existing<'q> {
    /// Its handle.
    pub(super) i: u32,
    /// Its state, never `Missing`.
    pub(super) state: State,
    /// Its deadline.
    pub(super) deadline: Option<WallMs>,
    /// Number of its last write.
    pub(super) rev: u64,
    /// Its status.
    pub(super) status: &'q [u8],
    /// Its last grant.
    pub(super) grant: Option<&'q Grant>,
}

impl Existing<'_> {
    /// Whether a lease is live.
    pub(super) fn is_leased(&self) -> bool {
        matches!(self.state, State::Leased | State::Reserved)
    }

    /// Whether `fence` is that of the last grant.
    fn has_fence(&self, fence: u64) -> bool {
        self.grant.is_some_and(|grant| grant.fence == fence)
    }
}

/// A refusal: nothing is done.
pub(super) fn refuse<'a>(was: State, outcome: Outcome) -> Decision<'a> {
    Decision {
        outcome,
        was,
        effect: None,
    }
}

/// Done, by this effect.
pub(super) fn accept(was: State, effect: Effect<'_>) -> Decision<'_> {
    Decision {
        outcome: Outcome::Ok,
        was,
        effect: Some(effect),
    }
}

/// The moment that a deadline was asked for.
///
/// # Errors
/// [`Error::DeadlineTooFar`] after the end of the year 9999.
pub(super) fn deadline_of(when: When, now: &Now) -> Result<WallMs, Error> {
    let deadline = match when {
        When::In(0) => now.wall_ms(),
        When::In(ms) => now.wall_ms_ceil().plus(ms),
        When::At(at) => at,
    };
    if deadline > WALL_MS_MAX {
        return Err(Error::DeadlineTooFar);
    }
    Ok(deadline)
}

/// Borrowed bytes of an option.
fn bytes(text: Option<&[u8]>) -> Option<Bytes<'_>> {
    text.map(Bytes::of)
}

impl Queue {
    /// The order with this id, `None` if it is missing.
    pub(super) fn meet(&self, now: &Now, id: &[u8]) -> Option<Existing<'_>> {
        let i = self.store.find(id)?;
        let state = self.store.rows.state(i, now);
        if state == State::Missing {
            return None;
        }
        let record = self.store.rows.get(i)?;
        Some(Existing {
            i,
            state,
            deadline: record.deadline(),
            rev: record.rev(),
            status: self.store.status(i),
            grant: self.store.rows.grant(i),
        })
    }

    /// The rev of an order that is created: larger than every number of the queue
    /// and all that this server has given out, so that no rev of an order of the
    /// same id, forgotten before, comes back.
    fn first_rev(&self, env: &mut Env<'_>) -> Result<u64, Error> {
        env.numbers
            .grant(env.now.wall_us, self.floor)
            .ok_or(Error::NumbersUsedUp)
    }

    /// The next rev of an order whose rev is `old`.
    pub(super) fn next_rev(env: &mut Env<'_>, old: u64) -> Result<u64, Error> {
        env.numbers
            .write(env.now.wall_us, old)
            .ok_or(Error::NumbersUsedUp)
    }

    /// Whether a lease is in the way of a write: a fence that is not the last
    /// grant's, or a live lease and no fence.
    fn lease_in_way(met: &Existing<'_>, fence: Option<u64>) -> Option<Outcome> {
        match fence {
            Some(fence) if !met.has_fence(fence) => Some(Outcome::Stale),
            None if met.is_leased() => Some(Outcome::Leased),
            _ => None,
        }
    }

    /// Whether rev or status are in the way of a write that sets `to`.
    fn guard_in_way(
        &self,
        met: &Existing<'_>,
        if_rev: Option<u64>,
        from: &[&[u8]],
        to: Option<&[u8]>,
    ) -> Option<Outcome> {
        if if_rev.is_some_and(|rev| rev != met.rev) {
            return Some(Outcome::Stale);
        }
        let allowed = self
            .busy
            .own
            .as_ref()
            .is_none_or(|own| to.is_none_or(|to| own.allows(met.status, to)));
        (!is_one_of(met.status, from) || !allowed).then_some(Outcome::State)
    }

    /// Both of the above, in order.
    fn in_way(&self, met: &Existing<'_>, guard: &Guard<'_>, to: Option<&[u8]>) -> Option<Outcome> {
        Self::lease_in_way(met, guard.fence)
            .or_else(|| self.guard_in_way(met, guard.if_rev, &guard.from, to))
    }

    /// Decides `ORDER.SCHEDULE`. O(1).
    pub fn decide_schedule<'a>(
        &self,
        env: &mut Env<'_>,
        ask: &Schedule<'a>,
    ) -> Result<Decision<'a>, Error> {
        let deadline = deadline_of(ask.when, &env.now)?;
        let effect = |base, rev, status| Effect::Schedule {
            id: Bytes::of(ask.id),
            deadline,
            rev,
            status,
            payload: bytes(ask.payload),
            base,
        };
        let Some(met) = self.meet(&env.now, ask.id) else {
            if ask.mode == Mode::Move {
                return Ok(refuse(State::Missing, Outcome::Missing));
            }
            if !self.store.has_room() {
                return Err(Error::QueueFull);
            }
            let rev = self.first_rev(env)?;
            return Ok(accept(
                State::Missing,
                effect(Base::Fresh, rev, bytes(ask.status)),
            ));
        };
        self.room_for(ask.payload)?;
        let was = met.state;
        let by_holder = ask.guard.fence.is_some_and(|fence| met.has_fence(fence));
        let blocked = if was == State::Finished {
            // A finished order reopens only when FROM names its status.
            let named = ask.mode != Mode::Create && ask.guard.from.contains(&met.status);
            if named {
                self.in_way(&met, &ask.guard, ask.status)
            } else {
                Some(Outcome::Finished)
            }
        } else if ask.mode == Mode::Create && met.deadline.is_some() {
            Some(Outcome::Exists)
        } else if was == State::Reserved && by_holder && ask.mode == Mode::Move {
            // There is a lock, but no order that could be moved.
            Some(Outcome::Missing)
        } else {
            self.in_way(&met, &ask.guard, ask.status)
        };
        if let Some(outcome) = blocked {
            return Ok(refuse(was, outcome));
        }
        let unchanged = match (ask.only, met.deadline) {
            (Some(Direction::Later), Some(old)) => deadline <= old,
            (Some(Direction::Earlier), Some(old)) => deadline >= old,
            _ => false,
        };
        if unchanged {
            return Ok(refuse(was, Outcome::Unchanged));
        }
        let keeps_lock = by_holder
            && met.is_leased()
            && met.grant.is_some_and(|grant| grant.kind == LeaseKind::Lock);
        let base = if keeps_lock {
            Base::RecordAndLock
        } else {
            Base::Record
        };
        let rev = Self::next_rev(env, met.rev)?;
        Ok(accept(was, effect(base, rev, bytes(ask.status))))
    }

    /// An error where there is no room for a payload or result of an order that is
    /// there. Without one every write has room.
    fn room_for(&self, second: Option<&[u8]>) -> Result<(), Error> {
        if second.is_some() && !self.store.has_room_for_bytes() {
            return Err(Error::QueueFull);
        }
        Ok(())
    }

    /// Until when an order that is finished now is kept; `None`: not at all.
    fn keep_end(&self, env: &Env<'_>, keep_ms: Option<u64>) -> Option<WallMs> {
        let keep_ms = keep_ms.unwrap_or_else(|| self.setting(Setting::KeepMs, env.defaults));
        (keep_ms != 0).then(|| env.now.wall_ms_ceil().plus(keep_ms))
    }

    /// Decides `ORDER.FINISH`. O(1).
    pub fn decide_finish<'a>(
        &self,
        env: &mut Env<'_>,
        ask: &Finish<'a>,
    ) -> Result<Decision<'a>, Error> {
        let keep_end = self.keep_end(env, ask.keep_ms);
        let at = env.now.wall_ms();
        let effect = |rev, creates| Effect::Finish {
            id: Bytes::of(ask.id),
            rev,
            status: bytes(ask.status),
            result: bytes(ask.result),
            keep_end,
            creates,
            by: FinishedBy::Finish,
            at,
            by_holder: !creates && ask.guard.fence.is_some(),
        };
        let Some(met) = self.meet(&env.now, ask.id) else {
            if !ask.create {
                return Ok(refuse(State::Missing, Outcome::Missing));
            }
            if !self.store.has_room() {
                return Err(Error::QueueFull);
            }
            let rev = self.first_rev(env)?;
            return Ok(accept(State::Missing, effect(rev, true)));
        };
        let was = met.state;
        if was == State::Finished {
            return Ok(refuse(was, Outcome::Finished));
        }
        if let Some(outcome) = self.in_way(&met, &ask.guard, ask.status) {
            return Ok(refuse(was, outcome));
        }
        if ask.strict
            && met
                .deadline
                .is_some_and(|deadline| deadline.is_due(&env.now))
        {
            return Ok(refuse(was, Outcome::Expired));
        }
        self.room_for(ask.result)?;
        let rev = Self::next_rev(env, met.rev)?;
        Ok(accept(was, effect(rev, false)))
    }

    /// Decides `ORDER.STATUS`. O(1). A finished order has no payload any more,
    /// so one that is to be set there is answered STATE.
    pub fn decide_status<'a>(
        &self,
        env: &mut Env<'_>,
        ask: &SetStatus<'a>,
    ) -> Result<Decision<'a>, Error> {
        let Some(met) = self.meet(&env.now, ask.id) else {
            return Ok(refuse(State::Missing, Outcome::Missing));
        };
        let was = met.state;
        if let Some(outcome) = self.in_way(&met, &ask.guard, Some(ask.status)) {
            return Ok(refuse(was, outcome));
        }
        if was == State::Finished && ask.payload.is_some() {
            return Ok(refuse(was, Outcome::State));
        }
        self.room_for(ask.payload)?;
        let effect = Effect::Status {
            id: Bytes::of(ask.id),
            rev: Self::next_rev(env, met.rev)?,
            status: Bytes::of(ask.status),
            payload: bytes(ask.payload),
            // Without a fence nothing is live here; with one it is the holder.
            ends_grant: ask.guard.fence.is_none() && met.grant.is_some(),
        };
        Ok(accept(was, effect))
    }

    /// Decides `ORDER.ACK`. O(1).
    pub fn decide_ack<'a>(&self, env: &mut Env<'_>, ask: &Ack<'a>) -> Result<Decision<'a>, Error> {
        let Some(met) = self.meet(&env.now, ask.id) else {
            return Ok(refuse(State::Missing, Outcome::Missing));
        };
        let was = met.state;
        let blocked = if was == State::Finished {
            Some(Outcome::Finished)
        } else {
            Self::lease_in_way(&met, Some(ask.fence))
                .or_else(|| self.guard_in_way(&met, None, &ask.from, ask.status))
        };
        if let Some(outcome) = blocked {
            return Ok(refuse(was, outcome));
        }
        self.room_for(ask.result)?;
        let effect = Effect::Finish {
            id: Bytes::of(ask.id),
            rev: Self::next_rev(env, met.rev)?,
            status: bytes(ask.status),
            result: bytes(ask.result),
            keep_end: self.keep_end(env, ask.keep_ms),
            creates: false,
            by: FinishedBy::Ack,
            at: env.now.wall_ms(),
            by_holder: true,
        };
        Ok(accept(was, effect))
    }

    /// Decides `ORDER.NACK`. O(1).
    pub fn decide_nack<'a>(
        &self,
        env: &mut Env<'_>,
        ask: &Nack<'a>,
    ) -> Result<Decision<'a>, Error> {
        let Some(met) = self.meet(&env.now, ask.id) else {
            return Ok(refuse(State::Missing, Outcome::Missing));
        };
        let was = met.state;
        if was == State::Finished {
            return Ok(refuse(was, Outcome::Finished));
        }
        let Some(grant) = met.grant.filter(|grant| grant.fence == ask.fence) else {
            return Ok(refuse(was, Outcome::Stale));
        };
        if grant.kind == LeaseKind::Lock {
            return Ok(refuse(was, Outcome::State));
        }
        let attempt = self
            .store
            .rows
            .extra(met.i)
            .map_or(1, |extra| extra.attempt)
            .saturating_sub(u32::from(ask.untried));
        let wait_ms = match ask.again {
            Again::Delay(ms) => ms,
            Again::Backoff => self.backoff_ms(env.defaults, ask.id, attempt),
            Again::Dead => 0,
        };
        let is_final = ask.again == Again::Dead || (grant.last_try && !ask.untried);
        let then = if is_final {
            AfterTry::Dead(env.now.wall_ms())
        } else if wait_ms == 0 {
            AfterTry::Now
        } else {
            let since = env.now.wall_ms_ceil();
            AfterTry::At {
                since,
                at: since.plus(wait_ms),
            }
        };
        let rev = Self::next_rev(env, met.rev)?;
        Ok(accept(
            was,
            Effect::Nack {
                id: Bytes::of(ask.id),
                rev,
                then,
                error: bytes(ask.error),
                untried: ask.untried,
            },
        ))
    }

    /// How long an order waits after its `attempt`-th try failed (0 as 1: it was
    /// handed back before its first one counted): `backoff-ms`, doubled with each try up to `backoff-ms-max`, ± 10 % that come from the
    /// id, so that orders that failed together do not come back together.
    fn backoff_ms(&self, defaults: &Defaults, id: &[u8], attempt: u32) -> u64 {
        let first = self.setting(Setting::BackoffMs, defaults);
        let max = self.setting(Setting::BackoffMsMax, defaults);
        let doubled = first.saturating_mul(
            1_u64
                .checked_shl(attempt.saturating_sub(1))
                .unwrap_or(u64::MAX),
        );
        let wait = doubled.min(max);
        // FNV-1a; any even spread does.
        let hash = id
            .iter()
            .chain(&attempt.to_le_bytes())
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
        let jitter = wait / 10;
        let offset = (hash >> 16)
            .checked_rem(jitter.saturating_mul(2).saturating_add(1))
            .unwrap_or(0);
        wait.saturating_sub(jitter).saturating_add(offset)
    }

    /// Decides `ORDER.RENEW`. O(1).
    pub fn decide_renew<'a>(
        &self,
        env: &mut Env<'_>,
        ask: &Renew<'a>,
    ) -> Result<Decision<'a>, Error> {
        let Some(met) = self.meet(&env.now, ask.id) else {
            return Ok(refuse(State::Missing, Outcome::Missing));
        };
        let was = met.state;
        let grant = match Self::live_grant(&met, &env.now, Some(ask.fence)) {
            Ok(grant) => grant,
            Err(outcome) => return Ok(refuse(was, outcome)),
        };
        let left = grant.end_mono.left(&env.now);
        let wanted = if ask.shorten {
            ask.lease_ms.min(left)
        } else {
            ask.lease_ms.max(left)
        };
        let lease_ms = wanted.min(grant.cap_mono.left(&env.now));
        let since = env.now.wall_ms_ceil();
        let end = since.plus(lease_ms);
        let rev = Self::next_rev(env, met.rev)?;
        Ok(accept(
            was,
            Effect::Renew {
                id: Bytes::of(ask.id),
                rev,
                since,
                end,
            },
        ))
    }

    /// Decides `ORDER.CLAIM`: takes the next orders in the order in which they
    /// became claimable, as far as [`Queue::advance`] has got. O(count + 256).
    pub fn decide_claim(&self, env: &mut Env<'_>, ask: &Claim<'_>) -> Result<Claimed, Error> {
        let left = self.claims_left(&env.now, env.defaults);
        let (picks, held_back) = self.claimable_for(env, ask, left);
        let mut claimed = Claimed {
            held_back,
            ..Claimed::default()
        };
        if picks.is_empty() {
            return Ok(claimed);
        }
        let lease_ms = ask
            .lease_ms
            .unwrap_or_else(|| self.setting(Setting::LeaseMs, env.defaults));
        let lease_ms = lease_ms.min(env.defaults.lease_ms_max);
        let attempts_max = self.setting(Setting::MaxAttempts, env.defaults);
        let mut grants = Vec::with_capacity(picks.len());
        let mut floor = self.floor;
        for i in &picks {
            let fence = env
                .numbers
                .grant(env.now.wall_us, floor)
                .ok_or(Error::NumbersUsedUp)?;
            // The generator alone does not keep numbers apart that it does not follow.
            floor = floor.max(fence);
            let attempt = self
                .store
                .rows
                .extra(*i)
                .map_or(0, |extra| extra.attempt)
                .saturating_add(1);
            let last_try = attempts_max != 0 && u64::from(attempt) >= attempts_max;
            let id = Bytes::copied(self.store.rows.id(*i));
            self.catch_up_announcing(*i, &id, &env.now, &mut claimed);
            grants.push(Granted {
                id,
                fence,
                attempt,
                last_try,
            });
        }
        let since = env.now.wall_ms_ceil();
        claimed.effect = Some(Effect::Claim {
            owner: Bytes::copied(ask.owner),
            since,
            end: since.plus(lease_ms),
            cap: since.plus(env.defaults.lease_ms_max),
            grants,
        });
        claimed.picks = picks;
        Ok(claimed)
    }

    /// What a claim gets of which `left` may be handed out, and whether that alone keeps
    /// more from it.
    pub(super) fn claimable_for(
        &self,
        env: &Env<'_>,
        ask: &Claim<'_>,
        left: u64,
    ) -> (Vec<u32>, bool) {
        let live_max = self.setting(Setting::MaxLeased, env.defaults);
        let mut room = if live_max == 0 {
            u64::MAX
        } else {
            live_max.saturating_sub(u64::from(self.busy.tally.claims))
        };
        if self.is_paused(&env.now) {
            room = 0;
        }
        // One more than may go is looked for: so it is known whether there is one.
        let room = room.min(left.saturating_add(1));
        let mut picks = match ask.pick {
            Pick::Id(id) => {
                let found = self
                    .meet(&env.now, id)
                    .filter(|met| met.state == State::Expired && room > 0);
                found.map(|met| vec![met.i]).unwrap_or_default()
            }
            Pick::Next { count, .. } => self.pick(&env.now, u64::from(count).min(room) as usize),
        };
        let held_back = picks.len() as u64 > left;
        picks.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        (picks, held_back)
    }

    /// Notes what is still to be said of an order that is being claimed.
    fn catch_up_announcing(&self, i: u32, id: &Bytes<'_>, now: &Now, claimed: &mut Claimed) {
        use super::outcome::{Announcement, EventKind};
        let Some(record) = self.store.rows.get(i) else {
            return;
        };
        let mut say = |kind| {
            claimed.announcements.push(Announcement {
                kind,
                id: id.shared(),
            });
        };
        if self.busy.notices.has(&**id) {
            say(EventKind::Lapsed);
        }
        if record.is_announced() {
            return;
        }
        if record.is_lapsed() {
            say(EventKind::Lapsed);
        }
        say(EventKind::Expired);
        let since_us = self.claimable_since(i).0.saturating_mul(1000);
        claimed.late_us.push(now.wall_us.saturating_sub(since_us));
    }

    /// The next `count` claimable orders, as many as fit in
    /// [`CLAIM_BYTES_MAX`]: those drawn, then those that are due in the wheel, and
    /// among them those that returned, each by the time it became claimable. All stay
    /// where they stand.
    fn pick(&self, now: &Now, count: usize) -> Vec<u32> {
        let rows = &self.store.rows;
        let mut picks = Vec::new();
        let mut payload_bytes = 0_usize;
        let mut drawn = self.busy.drawn.iter(rows).peekable();
        let mut due: Option<std::iter::Peekable<std::vec::IntoIter<u32>>> = None;
        let mut returned = self.busy.returned.iter(rows).peekable();
        for _ in 0..count.saturating_add(PICK_LOOKS_MORE) {
            if picks.len() == count {
                break;
            }
            let by_deadline = drawn.peek().copied().or_else(|| {
                let wanted = count - picks.len();
                due.get_or_insert_with(|| self.due(now, wanted).into_iter().peekable())
                    .peek()
                    .copied()
            });
            let i = self.earlier(
                by_deadline.unwrap_or(NIL),
                returned.peek().copied().unwrap_or(NIL),
            );
            let Some(record) = rows.get(i) else {
                break;
            };
            if by_deadline != Some(i) {
                returned.next();
            } else if drawn.next().is_none()
                && let Some(due) = &mut due
            {
                due.next();
            }
            // Set back by a clock step that `advance` has not come to yet.
            if rows.state(i, now) != State::Expired {
                continue;
            }
            if record.has_second() {
                payload_bytes =
                    payload_bytes.saturating_add(rows.parts(i).1.map_or(0, <[u8]>::len));
            }
            if payload_bytes > CLAIM_BYTES_MAX && !picks.is_empty() {
                break;
            }
            picks.push(i);
        }
        picks
    }

    /// The first `count` orders of the wheel that are due.
    fn due(&self, now: &Now, count: usize) -> Vec<u32> {
        let mut due = Vec::new();
        let view = by_deadline(&self.store.rows);
        self.deadlines
            .first_due(&view, now.wall_ms().0, count, &mut due);
        due
    }
}
