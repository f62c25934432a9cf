//! Leases of clients whose connection has closed: they end now, as if by time.
//!
//! When a connection closes only a note is taken, for that may be in the middle of
//! somebody's command. Here the leases are made to end, by an effect that replicas carry
//! out too; what follows is a lapse like any other.

use std::sync::Arc;

use super::Pass;
use crate::shell::schedule::timer;
use crate::shell::server::api::{Ctx, Mode, Name};
use crate::shell::server::{counters, value};
use crate::shell::state::{sessions, waiters};
use crate::shell::write::call_apply;

/// Leases of this queue were bound to a client that waited for them. Where it has gone
/// meanwhile they end in the next pass.
pub(super) fn bound(client: u64, db: i32, key: &[u8]) {
    sessions::bound(client, db, key);
    if !Ctx::client_lives(client) {
        timer::disconnected(client);
    }
}

/// How many leases one APPLY ends.
const RELEASE_MAX: usize = 256;

/// Ends the leases of clients that are gone, as long as there is time. False if refused;
/// then nothing is lost, they end later.
pub(super) fn release(ctx: Ctx, pass: &Pass, db: i32, key: &Arc<[u8]>, name: Name<'_>) -> bool {
    for client in sessions::closed_in(db, key) {
        loop {
            let leases = value::with_queue(ctx, name, Mode::Quiet, |queue| {
                let leases = queue.closed(&pass.now, client, RELEASE_MAX);
                // Behind those that were over already there may be others.
                (leases, queue.is_bound_to(client))
            });
            let (leases, more) = leases.unwrap_or_default();
            let bound = leases.iter().map(|(id, fence)| (&**id, *fence));
            let effect = value::with_queue(ctx, name, Mode::Quiet, |queue| {
                queue.decide_lapse(&pass.now, bound)
            });
            match effect.flatten() {
                None if more => {}
                None => break,
                Some(effect) => {
                    if !call_apply(ctx, name, &effect, Vec::new()) {
                        return false;
                    }
                    counters::DISCONNECT_RELEASED.add(leases.len() as u64);
                    effect.each_id(&mut |id| waiters::changed(db, key, id));
                }
            }
            if !pass.more() {
                return true;
            }
        }
        sessions::done(client, db, key);
    }
    true
}
