//! Locks for clients that wait for one.
//!
//! A lock is handed over here, never inside somebody's command: what a write changed is
//! noted ([`waiters::changed`]) and the pass is armed for at once, so the next holder is
//! granted within the same turn of the event loop.

use std::sync::Arc;

use super::sessions;
use crate::engine::effect::{Bytes, Effect};
use crate::engine::{Announcement, Outcome, Queue};
use crate::error::Error;
use crate::request::Lock;
use crate::shell::server::api::{Ctx, Mode, Name};
use crate::shell::server::reply::LeaseAnswer;
use crate::shell::server::{clock, counters, value};
use crate::shell::state::settings;
use crate::shell::state::waiters::{self, Reply, Turn, Want};
use crate::shell::write;
use crate::words::time::Now;

/// What a look at a lock comes to for the first client in its line.
enum Look {
    /// It is told something without being granted the lock.
    Told(LeaseAnswer),
    /// It is granted the lock, or holds it already.
    Granted(Box<Granted>),
    /// It waits on; nothing changes before this wall millisecond by itself.
    Waits(u64),
}

/// A grant that is about to be made.
struct Granted {
    /// What the client is told.
    outcome: Outcome,
    /// What is done.
    effect: Effect<'static>,
    /// What is to be said before: that the lease before has lapsed.
    lapse: Vec<Announcement>,
}

/// Serves the locks of a queue that have to be looked at, as long as there is time:
/// asked for after each client that is told something and each lock that has to wait
/// on. False if the server refuses writing; then nothing is lost, they are looked at
/// again.
pub(crate) fn serve(
    ctx: Ctx,
    now: &Now,
    more: &dyn Fn() -> bool,
    db: i32,
    key: &[u8],
    name: Name<'_>,
) -> bool {
    while let Some(id) = waiters::lock_due(db, key, now.wall_ms().0) {
        // Those who are told how one order ended share what they are told.
        let mut told = None;
        while let Some(turn) = waiters::first_for_lock(db, key, &id) {
            let Some(look) = look(ctx, now, name, &id, &turn) else {
                return false;
            };
            let waits = match look {
                Look::Told(answer) => {
                    let answer = answer.sharing(told.as_ref());
                    waiters::serve(turn.ticket, Reply::Lease(answer.clone()));
                    told = Some(answer);
                    false
                }
                Look::Granted(granted) => {
                    if !grant(ctx, now, name, &id, &turn, *granted) {
                        return false;
                    }
                    false
                }
                Look::Waits(wake) => {
                    // At least a millisecond on, so that this loop ends.
                    let wake = wake.max(now.wall_ms().0.saturating_add(1));
                    waiters::lock_looked_at(db, key, &id, wake);
                    true
                }
            };
            if !more() {
                return true;
            }
            if waits {
                break;
            }
        }
    }
    true
}

/// Makes a grant, and tells the client. False if the server refuses.
fn grant(ctx: Ctx, now: &Now, name: Name<'_>, id: &[u8], turn: &Turn, granted: Granted) -> bool {
    let Granted {
        outcome,
        effect,
        lapse,
    } = granted;
    if !write::call_apply(ctx, name, &effect, lapse) {
        return false;
    }
    counters::WAITERS_SERVED.add(1);
    let answer = value::with_queue(ctx, name, Mode::Quiet, |queue| {
        if let Some(client) = turn.session {
            let fence = match effect {
                Effect::Lock { fence, .. } => Some(fence),
                _ => None,
            };
            queue.bind(&clock::now(), id, fence, client);
        }
        queue.note_lock_wait(now, now.mono_us.saturating_sub(turn.since_us));
        // By a clock of now: never more than what is left.
        LeaseAnswer::of(outcome, queue.view(&clock::now(), id).as_ref())
    });
    if let Some(client) = turn.session {
        sessions::bound(client, ctx.db(), name.bytes());
    }
    let answer = answer.unwrap_or_else(|| LeaseAnswer::of(Outcome::Missing, None));
    waiters::serve(turn.ticket, Reply::Lease(answer));
    true
}

/// Decides for the first client in line. `None`: it can not be decided now.
fn look(ctx: Ctx, now: &Now, name: Name<'_>, id: &Arc<[u8]>, turn: &Turn) -> Option<Look> {
    if let Some(verdict) = &turn.verdict {
        return Some(Look::Told(verdict.clone()));
    }
    let Want::Lock {
        reentrant,
        max_ms,
        fp,
        must_exist,
        ..
    } = &turn.want
    else {
        return None;
    };
    let decide = |queue: &Queue| {
        if let Some(outcome) = queue.lock_waiter_outcome(now, id, fp.as_deref(), *must_exist) {
            return Ok(Look::Told(LeaseAnswer::of(
                outcome,
                queue.view(now, id).as_ref(),
            )));
        }
        let ask = Lock {
            id,
            owner: &turn.owner,
            lease_ms: turn.lease_ms.unwrap_or(1),
            reentrant: *reentrant,
            max_ms: *max_ms,
            fp: fp.as_deref(),
            block_ms: None,
            session: turn.session.is_some(),
            must_exist: *must_exist,
        };
        let decision = write::decide(*now, &settings::defaults(), |env| {
            queue.decide_lock(env, &ask, false)
        })?;
        Ok::<_, Error>(match (decision.outcome, decision.effect) {
            (outcome, Some(effect)) => {
                let effect = own(effect);
                let lapse = queue.lapses_before(now, &effect);
                Look::Granted(Box::new(Granted {
                    outcome,
                    effect,
                    lapse,
                }))
            }
            (Outcome::Busy, None) => Look::Waits(queue.lock_wake(now, id)),
            (outcome, None) => Look::Told(LeaseAnswer::of(outcome, queue.view(now, id).as_ref())),
        })
    };
    // No queue, or a key of another type that APPLY will be refused on: as if
    // there were none.
    let there = value::with_queue(ctx, name, Mode::Quiet, |queue| decide(queue));
    let looked = there.unwrap_or_else(|| decide(&Queue::new()));
    looked.ok()
}

/// The effect of a LOCK, with its own bytes.
fn own(effect: Effect<'_>) -> Effect<'static> {
    match effect {
        Effect::Lock {
            id,
            owner,
            fence,
            since,
            end,
            cap,
            fp,
            creates,
        } => Effect::Lock {
            id: id.into_owned(),
            owner: owner.into_owned(),
            fence,
            since,
            end,
            cap,
            fp: fp.map(Bytes::into_owned),
            creates,
        },
        Effect::Hold {
            id,
            rev,
            holds,
            since,
            end,
        } => Effect::Hold {
            id: id.into_owned(),
            rev,
            holds,
            since,
            end,
        },
        // LOCK decides on nothing else; this one does nothing.
        _ => Effect::Floor(1),
    }
}
