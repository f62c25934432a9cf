//! Clients that wait for an order: `CLAIM … BLOCK`.
//!
//! A waiting client is blocked on its queue's key, so that the server handles
//! slot moves, timeouts and CLIENT UNBLOCK for it; but the key is never
//! signalled by us, for a signal calls every waiter. Instead the scheduler's pass
//! takes the first one that still lives, makes the grant, stores the reply under
//! the waiter's ticket and wakes that one; its timeout callback prints what it
//! finds under the ticket, or an empty array when the time is really over.
//!
//! A ticket is a number, given to the server as private data: no callback follows
//! a pointer of ours. A waiter stands in its queue's line until it is served,
//! timed out or gone; its entry lives until the server says (`on_free`) that it
//! has done with the client, and only so long is the server's handle valid.
//! Callbacks print and remove; they write nothing and grant nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use redis_module::raw;

use super::cell::Shared;
use super::ffi::{Blocked, BlockedCalls, Ctx, ERR, Name, OK, guarded};
use super::reply::{self, Row};

/// One waiting client.
struct Waiter {
    /// Database of its queue.
    db: i32,
    /// Key of its queue.
    key: Arc<[u8]>,
    /// In whose name it claims.
    owner: Arc<[u8]>,
    /// Length of the lease it asked for.
    lease_ms: Option<u64>,
    /// How many orders it takes at most.
    count: u32,
    /// The client's id.
    client: u64,
    /// The server's handle.
    blocked: Blocked,
    /// What it is to be told.
    reply: Option<Vec<Row>>,
}

/// What the pass needs to know to serve a waiter.
pub(super) struct Turn {
    /// Its ticket.
    pub(super) ticket: usize,
    /// In whose name it claims.
    pub(super) owner: Arc<[u8]>,
    /// Length of the lease it asked for.
    pub(super) lease_ms: Option<u64>,
    /// How many orders it takes at most.
    pub(super) count: u32,
}

/// All waiting clients.
struct Waiters {
    /// The last ticket given out; tickets only grow, so their order is first
    /// come first served.
    last: usize,
    /// Every client the server has not done with.
    all: BTreeMap<usize, Waiter>,
    /// The lines: tickets by database and key.
    lines: BTreeMap<i32, BTreeMap<Arc<[u8]>, BTreeSet<usize>>>,
}

impl Waiters {
    /// Takes a ticket out of its line.
    fn leave(&mut self, ticket: usize) {
        let Some(waiter) = self.all.get(&ticket) else {
            return;
        };
        let Some(lines) = self.lines.get_mut(&waiter.db) else {
            return;
        };
        if let Some(line) = lines.get_mut(&waiter.key) {
            line.remove(&ticket);
            if line.is_empty() {
                lines.remove(&waiter.key);
            }
        }
        if lines.is_empty() {
            self.lines.remove(&waiter.db);
        }
    }

    /// The line of a queue.
    fn line(&self, db: i32, key: &[u8]) -> Option<&BTreeSet<usize>> {
        if self.lines.is_empty() {
            return None;
        }
        self.lines.get(&db)?.get(key)
    }
}

/// The waiting clients of this server.
static WAITERS: Shared<Waiters> = Shared::new(Waiters {
    last: 0,
    all: BTreeMap::new(),
    lines: BTreeMap::new(),
});

/// Whether anybody waits for this queue.
pub(super) fn waiting(db: i32, key: &[u8]) -> bool {
    WAITERS
        .with(|waiters| waiters.line(db, key).is_some())
        .unwrap_or(false)
}

/// How many wait for this queue.
pub(super) fn count(db: i32, key: &[u8]) -> u64 {
    WAITERS
        .with(|waiters| waiters.line(db, key).map_or(0, BTreeSet::len))
        .unwrap_or(0) as u64
}

/// How many wait for any queue.
pub(super) fn count_all() -> u64 {
    WAITERS
        .with(|waiters| {
            waiters
                .lines
                .values()
                .flat_map(BTreeMap::values)
                .map(BTreeSet::len)
                .sum::<usize>()
        })
        .unwrap_or(0) as u64
}

/// The queues of a database that somebody waits for.
pub(super) fn awaited(db: i32) -> Vec<Arc<[u8]>> {
    WAITERS
        .with(|waiters| {
            waiters
                .lines
                .get(&db)
                .map(|lines| lines.keys().cloned().collect())
        })
        .flatten()
        .unwrap_or_default()
}

/// Blocks the calling client until the pass serves it, `ms` milliseconds have
/// passed (0: without limit), or it goes away. False where the server refuses.
pub(super) fn wait(
    ctx: Ctx,
    name: Name<'_>,
    db: i32,
    owner: &[u8],
    lease_ms: Option<u64>,
    count: u32,
    ms: u64,
) -> bool {
    let Some(ticket) = WAITERS.with(|waiters| {
        waiters.last = waiters.last.wrapping_add(1).max(1);
        waiters.last
    }) else {
        return false;
    };
    let calls = BlockedCalls {
        reply: on_key_ready,
        timeout: on_timeout,
        free: on_free,
        gone: on_disconnect,
    };
    let blocked = Blocked::on_key(ctx, name, ms, ticket, calls);
    let Some(blocked) = blocked else { return false };
    let client = ctx.client_id();
    WAITERS.with(|waiters| {
        let key: Arc<[u8]> = waiters
            .lines
            .get(&db)
            .and_then(|lines| lines.get_key_value(name.bytes()))
            .map_or_else(|| Arc::from(name.bytes()), |(key, _)| Arc::clone(key));
        waiters
            .lines
            .entry(db)
            .or_default()
            .entry(Arc::clone(&key))
            .or_default()
            .insert(ticket);
        let owner = Arc::from(owner);
        waiters.all.insert(
            ticket,
            Waiter {
                db,
                key,
                owner,
                lease_ms,
                count,
                client,
                blocked,
                reply: None,
            },
        );
    });
    true
}

/// The first waiter of a queue whose client still lives; dead ones leave the line.
pub(super) fn first(db: i32, key: &[u8]) -> Option<Turn> {
    loop {
        let (client, turn) = WAITERS
            .with(|waiters| {
                let ticket = *waiters.line(db, key)?.first()?;
                let Some(waiter) = waiters.all.get(&ticket) else {
                    // Can not be: a ticket leaves its line before its entry goes.
                    if let Some(line) = waiters
                        .lines
                        .get_mut(&db)
                        .and_then(|lines| lines.get_mut(key))
                    {
                        line.remove(&ticket);
                    }
                    return None;
                };
                let owner = Arc::clone(&waiter.owner);
                Some((
                    waiter.client,
                    Turn {
                        ticket,
                        owner,
                        lease_ms: waiter.lease_ms,
                        count: waiter.count,
                    },
                ))
            })
            .flatten()?;
        if Ctx::client_lives(client) {
            return Some(turn);
        }
        WAITERS.with(|waiters| waiters.leave(turn.ticket));
    }
}

/// Stores what a waiter is to be told, and wakes it. Runs other code.
pub(super) fn serve(ticket: usize, rows: Vec<Row>) {
    let blocked = WAITERS
        .with(|waiters| {
            waiters.leave(ticket);
            let waiter = waiters.all.get_mut(&ticket)?;
            waiter.reply = Some(rows);
            Some(waiter.blocked)
        })
        .flatten();
    if let Some(blocked) = blocked {
        blocked.unblock();
    }
}

/// The key was signalled, by the server itself (it appeared): the waiter stays
/// where it is, the pass serves it.
unsafe extern "C" fn on_key_ready(
    _ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    ERR
}

/// The waiter was served, or its time is over: prints which.
unsafe extern "C" fn on_timeout(
    ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    guarded(OK, || {
        // SAFETY: the server's context for this callback.
        let ctx = unsafe { Ctx::new(ctx) };
        let ticket = Blocked::ticket(ctx);
        let rows = WAITERS
            .with(|waiters| {
                waiters.leave(ticket);
                waiters
                    .all
                    .get_mut(&ticket)
                    .and_then(|waiter| waiter.reply.take())
            })
            .flatten();
        reply::rows(ctx, rows.as_deref().unwrap_or(&[]));
        OK
    })
}

/// The client went away, or CLIENT UNBLOCK … ERROR answered it: it is out of the
/// line from now on, so that no grant is made to it in the same turn.
unsafe extern "C" fn on_disconnect(
    ctx: *mut raw::RedisModuleCtx,
    _client: *mut raw::RedisModuleBlockedClient,
) {
    guarded((), || {
        // SAFETY: the server's context for this callback.
        let ticket = Blocked::ticket(unsafe { Ctx::new(ctx) });
        WAITERS.with(|waiters| waiters.leave(ticket));
    });
}

/// The server has done with the client: its handle is dead after this.
unsafe extern "C" fn on_free(_ctx: *mut raw::RedisModuleCtx, data: *mut c_void) {
    guarded((), || {
        WAITERS.with(|waiters| {
            waiters.leave(data.addr());
            waiters.all.remove(&data.addr());
        });
    });
}
