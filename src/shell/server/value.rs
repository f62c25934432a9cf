//! The value under a key: looked at, stored, and lent to whoever works on it.
//!
//! Knows that a value of ours is a boxed [`Queue`], and nothing of what is done to it.

use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use crate::engine::Queue;
use crate::shell::server::api::{Ctx, Key, Mode, Name, OK, api};
use crate::shell::server::gauges::{self, Watch};

/// The server's name for our type, once it is registered.
static KIND: AtomicPtr<raw::RedisModuleType> = AtomicPtr::new(std::ptr::null_mut());

/// Takes note of the registered type: called once while the module loads.
pub(crate) fn know_type(kind: *mut raw::RedisModuleType) {
    KIND.store(kind, Ordering::Relaxed);
}

/// The registered type.
fn kind_of_queues() -> *mut raw::RedisModuleType {
    KIND.load(Ordering::Relaxed)
}

/// What an open key holds.
pub(crate) enum Found<'k> {
    /// There is no such key.
    Missing,
    /// A queue.
    Queue(&'k mut Queue),
    /// Another type.
    Other,
}

/// Looks into an open key. The queue is borrowed for as long as the key is: close
/// the key before anything that runs other code.
pub(crate) fn look(key: &mut Key) -> Found<'_> {
    if key.is_missing() {
        return Found::Missing;
    }
    let (Some(get_type), Some(get_value)) = (
        api!(RedisModule_ModuleTypeGetType),
        api!(RedisModule_ModuleTypeGetValue),
    ) else {
        return Found::Other;
    };
    // SAFETY: the key is open and not missing.
    let kind = unsafe { get_type(key.as_ptr()) };
    if kind.is_null() || kind != kind_of_queues() {
        return Found::Other;
    }
    // SAFETY: as above.
    let value = unsafe { get_value(key.as_ptr()) }.cast::<Queue>();
    if value.is_null() {
        return Found::Other;
    }
    // SAFETY: every value of our type is a boxed Queue (`put`, `load`, `copy`).
    // Under the server's lock nobody else has it, and by the rule above nobody
    // gets it while it is borrowed.
    Found::Queue(unsafe { &mut *value })
}

/// Stores a new queue under a key opened for writing. Runs other code. False if
/// the server refused; the queue is gone then.
pub(crate) fn put(key: &mut Key, queue: Queue) -> bool {
    let Some(call) = api!(RedisModule_ModuleTypeSetValue) else {
        return false;
    };
    let mut queue = Box::new(queue);
    gauges::add(&mut queue);
    let value = Box::into_raw(queue);
    // SAFETY: the key is open for writing; the value is a box of our type, which
    // the server owns from here on.
    let done = unsafe { call(key.as_ptr(), kind_of_queues(), value.cast()) };
    if done == OK {
        return true;
    }
    // SAFETY: not taken over, so still ours.
    let queue = unsafe { Box::from_raw(value) };
    gauges::remove(&queue);
    false
}

/// Runs `body` with the queue under `name` in the selected database; `None`
/// where there is none. `body` calls nothing that runs other code.
pub(crate) fn with_queue<R>(
    ctx: Ctx,
    name: Name<'_>,
    mode: Mode,
    body: impl FnOnce(&mut Queue) -> R,
) -> Option<R> {
    with_queue_in(ctx, name, mode, |_, queue| body(queue))
}

/// As [`with_queue`], and tells `body` the database. It is asked of the key: in an event
/// of MOVE or COPY in MULTI, Valkey 9 gives a context that looks into the event's database
/// and names the client's.
pub(crate) fn with_queue_in<R>(
    ctx: Ctx,
    name: Name<'_>,
    mode: Mode,
    body: impl FnOnce(i32, &mut Queue) -> R,
) -> Option<R> {
    let mut key = Key::open(ctx, name, mode);
    let db = key.db().unwrap_or_else(|| ctx.db());
    match look(&mut key) {
        Found::Queue(queue) => Some(body(db, &mut Watch::of(queue))),
        Found::Missing | Found::Other => None,
    }
}
