//! Clients that wait: for an order (`CLAIM … BLOCK`) or for a lock (`LOCK … BLOCK`).
//!
//! A waiting client is blocked on its queue's key, so that the server handles
//! slot moves, timeouts and CLIENT UNBLOCK for it; but the key is never
//! signalled by us, for a signal calls every waiter. Instead the scheduler's pass
//! takes the first one that still lives, makes the grant, stores the reply under
//! the waiter's ticket and wakes that one; its timeout callback prints what it
//! finds under the ticket, or that the time is really over.
//!
//! ```text
//! (db, key) ─► claims:  tickets, first come first served
//!           └► locks:   id ─► tickets, and when to look at that id again
//! ticket    ─► waiter:  what it asked for, its client, its reply
//! ```
//!
//! A ticket is a number, given to the server as private data: no callback follows
//! a pointer of ours. A waiter stands in its line until it is served, timed out or
//! gone; its entry lives until the server says (`on_free`) that it has done with
//! the client, and only so long is the server's handle valid. Callbacks print and
//! remove; they write nothing and grant nothing.
//!
//! A pass looks only at ids of which it can know that something has changed: a
//! write named them ([`changed`]), the lease or deadline they were filed for has
//! come, or their queue has gone.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use redis_module::raw;

use crate::engine::Outcome;
use crate::request::Lock;
use crate::shell::server::api::{Blocked, BlockedCalls, Ctx, ERR, Mode, Name, OK, Text, guarded};
use crate::shell::server::cell::Shared;
use crate::shell::server::reply::{self, LeaseAnswer, Row};
use crate::shell::server::{clock, value};

/// What a client waits for.
#[derive(Clone)]
pub(crate) enum Want {
    /// The next orders.
    Claim {
        /// How many at most.
        count: u32,
        /// It waits because the queue is braked, and is counted as such.
        held_back: bool,
    },
    /// The lock of one order.
    Lock {
        /// The order.
        id: Arc<[u8]>,
        /// As in [`Lock`].
        reentrant: bool,
        /// As in [`Lock`].
        max_ms: Option<u64>,
        /// As in [`Lock`].
        fp: Option<Arc<[u8]>>,
        /// As in [`Lock`].
        must_exist: bool,
    },
}

/// What a client that is woken is told.
pub(crate) enum Reply {
    /// The orders of a CLAIM.
    Rows(Vec<Row>),
    /// The answer of a LOCK.
    Lease(LeaseAnswer),
}

/// One waiting client.
struct Waiter {
    /// Database of its queue.
    db: i32,
    /// Key of its queue.
    key: Arc<[u8]>,
    /// In whose name it asks.
    owner: Arc<[u8]>,
    /// Length of the lease it asked for.
    lease_ms: Option<u64>,
    /// The lease is to end with its connection.
    session: bool,
    /// What it waits for.
    want: Want,
    /// The client's id.
    client: u64,
    /// The server's handle.
    blocked: Blocked,
    /// Since when (monotonic), microseconds.
    since_us: u64,
    /// What it is to be told when its turn comes, if that is known already.
    verdict: Option<LeaseAnswer>,
    /// What it is to be told.
    reply: Option<Reply>,
}

/// What the pass needs to know to serve a waiter.
pub(crate) struct Turn {
    /// Its ticket.
    pub(crate) ticket: usize,
    /// In whose name it asks.
    pub(crate) owner: Arc<[u8]>,
    /// Length of the lease it asked for.
    pub(crate) lease_ms: Option<u64>,
    /// The client, where the lease is to end with its connection.
    pub(crate) session: Option<u64>,
    /// What it waits for.
    pub(crate) want: Want,
    /// Since when (monotonic), microseconds.
    pub(crate) since_us: u64,
    /// What it is to be told, if that is known already.
    pub(crate) verdict: Option<LeaseAnswer>,
}

/// The line for one lock.
#[derive(Default)]
struct LockLine {
    /// The tickets.
    tickets: BTreeSet<usize>,
    /// The wall millisecond at which it has to be looked at; 0: now.
    wake: u64,
}

/// The lines of one queue.
#[derive(Default)]
struct Lines {
    /// Who waits for orders.
    claims: BTreeSet<usize>,
    /// Who waits for a lock.
    locks: BTreeMap<Arc<[u8]>, LockLine>,
    /// The locks by when they have to be looked at.
    wakes: BTreeSet<(u64, Arc<[u8]>)>,
}

impl Lines {
    /// Whether nobody waits.
    fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.locks.is_empty()
    }

    /// Files a lock for `wake`.
    fn refile(&mut self, id: &[u8], wake: u64) {
        let Some((id, line)) = self
            .locks
            .get_key_value(id)
            .map(|(id, line)| (Arc::clone(id), line.wake))
        else {
            return;
        };
        self.wakes.remove(&(line, Arc::clone(&id)));
        if let Some(line) = self.locks.get_mut(&id) {
            line.wake = wake;
        }
        self.wakes.insert((wake, id));
    }
}

/// All waiting clients.
struct Waiters {
    /// The last ticket given out; tickets only grow, so their order is first
    /// come first served.
    last: usize,
    /// Every client the server has not done with.
    all: BTreeMap<usize, Waiter>,
    /// The lines by database and key.
    lines: BTreeMap<i32, BTreeMap<Arc<[u8]>, Lines>>,
}

impl Waiters {
    /// Takes a ticket out of its line.
    fn leave(&mut self, ticket: usize) {
        let Some(waiter) = self.all.get(&ticket) else {
            return;
        };
        let Some(queues) = self.lines.get_mut(&waiter.db) else {
            return;
        };
        if let Some(lines) = queues.get_mut(&waiter.key) {
            match &waiter.want {
                Want::Claim { .. } => {
                    lines.claims.remove(&ticket);
                }
                Want::Lock { id, .. } => {
                    if let Some(line) = lines.locks.get_mut(id) {
                        line.tickets.remove(&ticket);
                        if line.tickets.is_empty() {
                            let wake = line.wake;
                            lines.locks.remove(id);
                            lines.wakes.remove(&(wake, Arc::clone(id)));
                        }
                    }
                }
            }
            if lines.is_empty() {
                queues.remove(&waiter.key);
            }
        }
        if queues.is_empty() {
            self.lines.remove(&waiter.db);
        }
    }

    /// The lines of a queue.
    fn of(&self, db: i32, key: &[u8]) -> Option<&Lines> {
        if self.lines.is_empty() {
            return None;
        }
        self.lines.get(&db)?.get(key)
    }

    /// The lines of a queue, to change.
    fn of_mut(&mut self, db: i32, key: &[u8]) -> Option<&mut Lines> {
        if self.lines.is_empty() {
            return None;
        }
        self.lines.get_mut(&db)?.get_mut(key)
    }
}

/// The waiting clients of this server.
static WAITERS: Shared<Waiters> = Shared::new(Waiters {
    last: 0,
    all: BTreeMap::new(),
    lines: BTreeMap::new(),
});

/// Whether anybody waits for orders of this queue.
pub(crate) fn waiting(db: i32, key: &[u8]) -> bool {
    WAITERS
        .with(|waiters| {
            waiters
                .of(db, key)
                .is_some_and(|lines| !lines.claims.is_empty())
        })
        .unwrap_or(false)
}

/// Whether anybody waits for this lock.
pub(crate) fn lock_waiting(db: i32, key: &[u8], id: &[u8]) -> bool {
    WAITERS
        .with(|waiters| {
            waiters
                .of(db, key)
                .is_some_and(|lines| lines.locks.contains_key(id))
        })
        .unwrap_or(false)
}

/// How many wait for orders, and for locks, of this queue.
pub(crate) fn count(db: i32, key: &[u8]) -> (u64, u64) {
    WAITERS
        .with(|waiters| waiters.of(db, key).map_or((0, 0), count_lines))
        .unwrap_or_default()
}

/// How many wait in the lines of a queue, for orders and for locks.
fn count_lines(lines: &Lines) -> (u64, u64) {
    let locks: usize = lines.locks.values().map(|line| line.tickets.len()).sum();
    (lines.claims.len() as u64, locks as u64)
}

/// How many wait for orders, and for locks, of any queue.
pub(crate) fn count_all() -> (u64, u64) {
    WAITERS
        .with(|waiters| {
            let counts = waiters
                .lines
                .values()
                .flat_map(BTreeMap::values)
                .map(count_lines);
            counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1))
        })
        .unwrap_or_default()
}

/// The queues of a database (`None`: of all) that somebody waits for.
pub(crate) fn awaited(db: Option<i32>) -> Vec<(i32, Arc<[u8]>)> {
    WAITERS
        .with(|waiters| {
            let dbs = waiters
                .lines
                .iter()
                .filter(|(at, _)| db.is_none_or(|db| db == **at));
            dbs.flat_map(|(db, queues)| queues.keys().map(|key| (*db, Arc::clone(key))))
                .collect()
        })
        .unwrap_or_default()
}

/// A write changed this order: who waits for its lock is looked at in the next pass.
pub(crate) fn changed(db: i32, key: &[u8], id: &[u8]) {
    WAITERS.with(|waiters| {
        if let Some(lines) = waiters.of_mut(db, key) {
            lines.refile(id, 0);
        }
    });
}

/// What everybody who waits for this lock is to be told, whatever the pass finds:
/// the order was finished, and nothing of it is kept.
pub(crate) fn finished(db: i32, key: &[u8], id: &[u8], answer: &LeaseAnswer) {
    WAITERS.with(|waiters| {
        let tickets = waiters
            .of(db, key)
            .and_then(|lines| lines.locks.get(id))
            .map(|line| line.tickets.iter().copied().collect::<Vec<_>>());
        for ticket in tickets.unwrap_or_default() {
            if let Some(waiter) = waiters.all.get_mut(&ticket) {
                waiter.verdict = Some(answer.clone());
            }
        }
    });
}

/// The queue is another one now, or gone: so is everything about its locks.
pub(crate) fn all_changed(db: i32, key: &[u8]) {
    WAITERS.with(|waiters| {
        if let Some(lines) = waiters.of_mut(db, key) {
            let ids: Vec<Arc<[u8]>> = lines.locks.keys().cloned().collect();
            for id in ids {
                lines.refile(&id, 0);
            }
        }
    });
}

/// The wall millisecond at which a lock of this queue has to be looked at.
pub(crate) fn lock_wake(db: i32, key: &[u8]) -> Option<u64> {
    WAITERS
        .with(|waiters| waiters.of(db, key)?.wakes.first().map(|(wake, _)| *wake))
        .flatten()
}

/// The first lock of this queue that has to be looked at by `wall_ms`.
pub(crate) fn lock_due(db: i32, key: &[u8], wall_ms: u64) -> Option<Arc<[u8]>> {
    WAITERS
        .with(|waiters| {
            let (wake, id) = waiters.of(db, key)?.wakes.first()?;
            (*wake <= wall_ms).then(|| Arc::clone(id))
        })
        .flatten()
}

/// A lock was looked at: not again before `wake`, unless it changes.
pub(crate) fn lock_looked_at(db: i32, key: &[u8], id: &[u8], wake: u64) {
    WAITERS.with(|waiters| {
        if let Some(lines) = waiters.of_mut(db, key) {
            lines.refile(id, wake);
        }
    });
}

/// What [`wait`] is asked for.
pub(crate) struct Wait<'a> {
    /// In whose name.
    pub(crate) owner: &'a [u8],
    /// Length of the lease.
    pub(crate) lease_ms: Option<u64>,
    /// The lease is to end with its connection.
    pub(crate) session: bool,
    /// What for.
    pub(crate) want: Want,
    /// How long, milliseconds; 0: without limit.
    pub(crate) block_ms: u64,
}

impl Want {
    /// What a LOCK waits for.
    pub(crate) fn lock(ask: &Lock<'_>) -> Self {
        Self::Lock {
            id: ask.id.into(),
            reentrant: ask.reentrant,
            max_ms: ask.max_ms,
            fp: ask.fp.map(Into::into),
            must_exist: ask.must_exist,
        }
    }
}

/// Blocks the calling client until the pass serves it, its time is over, or it
/// goes away. False where the server refuses.
pub(crate) fn wait(ctx: Ctx, name: Name<'_>, db: i32, wait: Wait<'_>) -> bool {
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
    let Some(blocked) = Blocked::on_key(ctx, name, wait.block_ms, ticket, calls) else {
        return false;
    };
    let client = ctx.client_id();
    WAITERS.with(|waiters| {
        let queues = waiters.lines.entry(db).or_default();
        let key: Arc<[u8]> = queues
            .get_key_value(name.bytes())
            .map_or_else(|| Arc::from(name.bytes()), |(key, _)| Arc::clone(key));
        let lines = queues.entry(Arc::clone(&key)).or_default();
        match &wait.want {
            Want::Claim { .. } => {
                lines.claims.insert(ticket);
            }
            Want::Lock { id, .. } => {
                lines
                    .locks
                    .entry(Arc::clone(id))
                    .or_default()
                    .tickets
                    .insert(ticket);
                lines.refile(id, 0);
            }
        }
        waiters.all.insert(
            ticket,
            Waiter {
                db,
                key,
                owner: Arc::from(wait.owner),
                lease_ms: wait.lease_ms,
                session: wait.session,
                want: wait.want,
                client,
                blocked,
                since_us: clock::mono_us(),
                verdict: None,
                reply: None,
            },
        );
    });
    true
}

/// The first client that waits for orders of a queue and still lives; dead ones
/// leave the line.
pub(crate) fn first(db: i32, key: &[u8]) -> Option<Turn> {
    first_of(|waiters| waiters.of(db, key)?.claims.first().copied())
}

/// The first client that waits for a lock and still lives.
pub(crate) fn first_for_lock(db: i32, key: &[u8], id: &[u8]) -> Option<Turn> {
    first_of(|waiters| waiters.of(db, key)?.locks.get(id)?.tickets.first().copied())
}

/// The first client of a line that still lives.
fn first_of(line: impl Fn(&Waiters) -> Option<usize>) -> Option<Turn> {
    loop {
        let (client, turn) = WAITERS
            .with(|waiters| {
                let ticket = line(waiters)?;
                let waiter = waiters.all.get(&ticket)?;
                let turn = Turn {
                    ticket,
                    owner: Arc::clone(&waiter.owner),
                    lease_ms: waiter.lease_ms,
                    session: waiter.session.then_some(waiter.client),
                    want: waiter.want.clone(),
                    since_us: waiter.since_us,
                    verdict: waiter.verdict.clone(),
                };
                Some((waiter.client, turn))
            })
            .flatten()?;
        if Ctx::client_lives(client) {
            return Some(turn);
        }
        WAITERS.with(|waiters| waiters.leave(turn.ticket));
    }
}

/// Stores what a waiter is to be told, and wakes it. Runs other code.
pub(crate) fn serve(ticket: usize, reply: Reply) {
    let blocked = WAITERS
        .with(|waiters| {
            waiters.leave(ticket);
            let waiter = waiters.all.get_mut(&ticket)?;
            waiter.reply = Some(reply);
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
        let ended = WAITERS
            .with(|waiters| {
                waiters.leave(ticket);
                let waiter = waiters.all.get_mut(&ticket)?;
                Some((
                    waiter.reply.take(),
                    waiter.want.clone(),
                    Arc::clone(&waiter.key),
                ))
            })
            .flatten();
        match ended {
            Some((Some(Reply::Rows(rows)), _, _)) => reply::rows(ctx, &rows),
            Some((Some(Reply::Lease(answer)), _, _)) => reply::lease_answer(ctx, &answer),
            Some((None, Want::Lock { id, .. }, key)) => busy(ctx, &key, &id),
            Some((None, Want::Claim { .. }, _)) | None => ctx.reply_array(0),
        }
        OK
    })
}

/// A LOCK that has waited in vain: BUSY, and who has it.
fn busy(ctx: Ctx, key: &[u8], id: &[u8]) {
    let answer = Text::new(key)
        .and_then(|name| {
            value::with_queue(ctx, name.name(), Mode::Quiet, |queue| {
                LeaseAnswer::of(Outcome::Busy, queue.view(&clock::now(), id).as_ref())
            })
        })
        .unwrap_or_else(|| LeaseAnswer::of(Outcome::Busy, None));
    reply::lease_answer(ctx, &answer);
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
