//! Whether the server may evict a queue, and the warning of it.
//!
//! With `allkeys-*` any queue may go, with `volatile-*` one with an `EXPIRE`. The
//! latter counts too, whether or not a queue has one now: it can be set at any time, no
//! queue is looked at here, and who never sets one loses nothing by `noeviction`.
//! Without `maxmemory` nothing is evicted.

use crate::shell::server::api::{Ctx, Level, flag, log};
use crate::shell::server::cell::SharedCell;

/// Whether the last look found such a policy.
static SEEN: SharedCell<bool> = SharedCell::new(false);

/// Whether the server may evict a queue.
pub(crate) fn may_evict(ctx: Ctx) -> bool {
    ctx.flags() & flag::EVICT != 0
}

/// Warns when the policy has become one that evicts: once, not with each look. O(1).
pub(crate) fn look(ctx: Ctx) {
    let sees = may_evict(ctx);
    if sees && !SEEN.get() {
        log(
            Level::Warning,
            c"orderwheel: with this maxmemory-policy the server may evict whole queues (volatile-*: those with an EXPIRE) and every order in them; set maxmemory-policy noeviction (orderwheel_evicting_policy in INFO)",
        );
    }
    SEEN.set(sees);
}
