//! Keyspace events, and whether anybody can hear them.
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

use std::ffi::c_int;

use redis_module::raw;

use crate::engine::{Announcement, EventKind};
use crate::shell::server::api::{Ctx, Name, Text, api};
use crate::shell::server::cell::SharedCell;
use crate::shell::server::counters;

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
pub(crate) fn is_there() -> bool {
    OTHERS.get() != Others::None
        || api!(RedisModule_GetNotifyKeyspaceEvents).is_none_or(|call| {
            // SAFETY: reads a setting of the server, under its lock.
            let classes = unsafe { call() };
            classes & CLASS_MODULE != 0
        })
}

/// A module came or went.
pub(crate) fn changed() {
    OTHERS.set(Others::Unknown);
}

/// The server's cron: counts the modules, once after each change.
pub(crate) fn on_cron(ctx: Ctx) {
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

/// Keyspace events of the module class.
pub(crate) const CLASS_MODULE: c_int = raw::REDISMODULE_NOTIFY_MODULE;

/// Keyspace events of keys in general.
pub(crate) const CLASS_GENERIC: c_int = raw::REDISMODULE_NOTIFY_GENERIC;

/// Raises one event under `<queue>:<id>`, if anybody can hear it. Runs other code.
pub(crate) fn notify_order(ctx: Ctx, name: Name<'_>, kind: EventKind, id: &[u8]) {
    /// Names up to this length need no heap.
    const INLINE: usize = 512;
    if !is_there() {
        return;
    }
    let queue = name.bytes();
    let text = if queue.len().saturating_add(id.len()) < INLINE {
        let mut buffer = [0_u8; INLINE];
        let mut len = 0_usize;
        for part in [queue, b":", id] {
            if let Some(to) = buffer.get_mut(len..len.saturating_add(part.len())) {
                to.copy_from_slice(part);
            }
            len = len.saturating_add(part.len());
        }
        Text::new(buffer.get(..len).unwrap_or(&[]))
    } else {
        Text::new(&[queue, b":", id].concat())
    };
    if let Some(text) = text {
        ctx.notify(CLASS_MODULE, kind.name(), text.name());
    }
}

/// Raises time's events. Runs other code.
pub(crate) fn publish(ctx: Ctx, name: Name<'_>, announcements: &[Announcement]) {
    for Announcement { kind, id } in announcements {
        counters::count(*kind);
        counters::ANNOUNCED.add(u64::from(
            *kind == EventKind::Expired || *kind == EventKind::Dead,
        ));
        notify_order(ctx, name, *kind, id);
    }
}
