//! Claims for clients that wait for orders.

use super::{Pass, sessions};
use crate::engine::effect::{Effect, Granted};
use crate::engine::{Claimed, Queue};
use crate::request::{Claim, Pick};
use crate::shell::server::api::{Ctx, Mode, Name};
use crate::shell::server::reply::Row;
use crate::shell::server::{clock, counters, value};
use crate::shell::state::settings;
use crate::shell::state::waiters::{self, Reply, Turn, Want};
use crate::shell::write::{self, call_apply};
use crate::words::time::Now;

/// Hands what is claimable to those who wait, first come first served. False if
/// refused.
pub(super) fn serve(ctx: Ctx, pass: &Pass, db: i32, key: &[u8], name: Name<'_>) -> bool {
    let defaults = settings::defaults();
    while waiters::waiting(db, key) {
        let claimable = value::with_queue(ctx, name, Mode::Quiet, |queue| {
            queue.claimable(&pass.now, &defaults)
        });
        if claimable != Some(true) {
            break;
        }
        let Some(turn) = waiters::first(db, key) else {
            break;
        };
        let Want::Claim { count, .. } = turn.want else {
            break;
        };
        let ask = Claim {
            owner: &turn.owner,
            lease_ms: turn.lease_ms,
            pick: Pick::Next {
                count,
                block_ms: None,
            },
            session: turn.session.is_some(),
        };
        let granted = value::with_queue(ctx, name, Mode::Quiet, |queue| {
            queue.advance(&pass.now, &mut || pass.more());
            let claimed = write::decide(pass.now, &defaults, |env| queue.decide_claim(env, &ask));
            // Numbers used up: nothing changes soon, so not every millisecond.
            let Ok(mut claimed) = claimed else {
                return Some(None);
            };
            let effect = claimed.effect.take()?;
            Some(Some((effect, claimed)))
        });
        let Some(granted) = granted.flatten() else {
            break;
        };
        let Some((effect, mut claimed)) = granted else {
            return false;
        };
        let announcements = std::mem::take(&mut claimed.announcements);
        if !call_apply(ctx, name, &effect, announcements) {
            return false;
        }
        // Looked up now: so a lease is never said to be longer than what is left of it.
        let now = clock::now();
        let rows = value::with_queue(ctx, name, Mode::Quiet, |queue| {
            hand_over(queue, &now, &turn, &effect, &claimed)
        })
        .unwrap_or_default();
        if let Some(client) = turn.session {
            sessions::bound(client, db, key);
        }
        counters::WAITERS_SERVED.add(rows.len() as u64);
        waiters::serve(turn.ticket, Reply::Rows(rows));
        if !pass.more() {
            break;
        }
    }
    true
}

/// Notes in the queue what follows from a grant that was made to a waiter, and says what
/// the waiter is told.
fn hand_over(
    queue: &mut Queue,
    now: &Now,
    turn: &Turn,
    effect: &Effect<'_>,
    claimed: &Claimed,
) -> Vec<Row> {
    queue.note_late(now, &claimed.late_us);
    if let (Some(client), Effect::Claim { grants, .. }) = (turn.session, effect) {
        for Granted { id, fence, .. } in grants {
            queue.bind(now, id, Some(*fence), client);
        }
    }
    // Once for each call.
    let noted = matches!(turn.want, Want::Claim { held_back, .. } if held_back);
    if claimed.held_back && !noted {
        queue.note_held_back();
        counters::CLAIMS_HELD_BACK.add(1);
    }
    grant_rows(queue, now, effect, &claimed.picks)
}

/// What a waiter is told of a grant that was made to it. What runs when a claim is
/// announced (another module) may have written to an order already; then it is not
/// the waiter's any more.
fn grant_rows(queue: &Queue, now: &Now, effect: &Effect<'_>, picks: &[u32]) -> Vec<Row> {
    let Effect::Claim { grants, .. } = effect else {
        return Vec::new();
    };
    let row = |(granted, pick): (&Granted<'_>, &u32)| {
        let view = queue.view_at(now, *pick)?;
        if view.fence != granted.fence || view.id != &*granted.id {
            return None;
        }
        Some(Row {
            id: view.id.into(),
            fence: view.fence,
            deadline: view.deadline,
            attempt: view.attempt,
            lease_ms: view.lease_ms.unwrap_or(0),
            status: view.status.into(),
            payload: view.payload.map(Into::into),
        })
    };
    grants.iter().zip(picks).filter_map(row).collect()
}
