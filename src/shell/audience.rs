//! Whether anybody can hear an event.
//!
//! Each write raises an event for each order it touched, and making one costs
//! about 600 instructions (its name is a string of the server's), mostly for
//! nobody: keyspace messages are off unless `notify-keyspace-events` asks for
//! them. Other modules hear events whatever that setting says, and the server
//! does not tell whether one listens. It does tell which modules there are: where
//! this one is alone, the setting decides.
//!
//! The modules are counted by the server's cron, as calls of other commands are
//! safe there, and counted anew when one comes or goes. Until then somebody may
//! be listening.

use redis_module::raw;

use super::cell::SharedCell;
use super::commands::CLASS_MODULE;
use super::ffi::{Ctx, api};

/// What is known of other modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// Not counted yet.
    Unknown,
    /// There are none.
    None,
    /// There are some.
    Some,
}

/// What is known of other modules.
static OTHERS: SharedCell<Others> = SharedCell::new(Others::Unknown);

/// Whether an event of an order can reach anybody.
pub(super) fn is_there() -> bool {
    OTHERS.get() != Others::None
        || api!(RedisModule_GetNotifyKeyspaceEvents).is_none_or(|call| {
            // SAFETY: reads a setting of the server, under its lock.
            let classes = unsafe { call() };
            classes & CLASS_MODULE != 0
        })
}

/// A module came or went.
pub(super) fn changed() {
    OTHERS.set(Others::Unknown);
}

/// The server's cron: counts the modules, once after each change.
pub(super) fn on_cron(ctx: Ctx) {
    if OTHERS.get() == Others::Unknown
        && let Some(count) = ctx.count_modules()
    {
        OTHERS.set(if count <= 1 {
            Others::None
        } else {
            Others::Some
        });
    }
}
