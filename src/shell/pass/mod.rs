//! A pass: what is due in the queues that are due.
//!
//! ```text
//!   timer ──► pass ─┬─ advance     (derived structures)
//!                   ├─ sessions    ─┐
//!                   ├─ forget      ─┤
//!                   ├─ waiters     ─┼─► RM_Call ORDER.APPLY
//!                   └─ announce ────┘   (a probe first)
//! ```
//!
//! It looks each due queue up anew and works for at most `tick-budget-us`.
//! Everything that writes goes through `ORDER.APPLY` by `RM_Call` with the checks of
//! a script's write: so role, slot, cluster state and `min-replicas` are the server's
//! judgement, not ours. While replica traffic is paused nothing is tried, for
//! replicating then ends the server. Refused work is tried again in [`RETRY_MS`].
//!
//! On a replica a pass only advances. It need not run at all for answers to be
//! right: they depend on record and clock alone.
//!
//! What is left of its time goes to the compaction of queues that have shrunk, on
//! every server for itself. Not while a child process saves: each page of memory
//! that is written to meanwhile is copied.
//!
//! No queue is borrowed over anything that runs other code (`RM_Call`, events,
//! waking a client): each step opens the key, takes data out, and closes it.

mod announce;
mod claims;
mod locks;
mod sessions;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::engine::{Duty, Queue};
use crate::shell::schedule::agenda::{Due, NEVER};
use crate::shell::schedule::timer::{self, AGENDA};
use crate::shell::server::api::{
    Ctx, Mode, Name, Text, flag, guarded, log_once_a_second, replication_is_paused,
};
use crate::shell::server::cell::SharedCell;
use crate::shell::server::{clock, counters, value};
use crate::shell::state::{self, events, settings, waiters};
use crate::shell::write::call_apply;
use crate::words::time::Now;

/// When refused work is tried again, milliseconds.
const RETRY_MS: u64 = 10;
/// When a replica looks again at a queue it can do nothing more for.
const REPLICA_MS: u64 = 1_000;
/// When a queue is looked at again in whose service a panic was caught.
const PANIC_MS: u64 = 1_000;
/// How many queues are taken out of the agenda at a time.
const TAKE_MAX: usize = 64;
/// Compactions take this part of the server's time at most, however often passes come.
const COMPACT_PART: u64 = 10;
/// When it is tried again where a child process is saving.
const COMPACT_LATER_MS: u64 = 1_000;
/// How many records one APPLY forgets.
const FORGET_MAX: usize = 256;

/// Whether anybody can hear announcements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    /// Somebody may. Announcing has half of a pass then: nobody waits for an announcement
    /// as for a grant, and where a million are due the closers' own commands fill the
    /// server.
    There,
    /// Nobody. All that announcing does then is to note that it was done, which a claim
    /// does by itself: it has a quarter of a pass, and not of every one, see
    /// [`announce::GATHER_MS`].
    Nowhere,
}

impl Audience {
    /// What there is now.
    fn now() -> Self {
        if events::is_there() {
            Self::There
        } else {
            Self::Nowhere
        }
    }

    /// The part of a pass that announcing has: one in so many.
    const fn part(self) -> u64 {
        match self {
            Self::There => 2,
            Self::Nowhere => 4,
        }
    }
}

/// When (monotonic) it was last logged that dead orders were dropped.
static DROPPED_AT: SharedCell<u64> = SharedCell::new(0);

/// When (monotonic) the next compaction may begin or go on, microseconds.
static COMPACT_AT: SharedCell<u64> = SharedCell::new(0);

/// Whether the last pass ended before it came to all that was due.
static BEHIND: SharedCell<bool> = SharedCell::new(false);

/// What a pass knows from its start.
struct Pass {
    /// The clocks at its start.
    now: Now,
    /// When (monotonic) it has to end.
    end_us: u64,
    /// Who can hear announcements.
    audience: Audience,
    /// When (monotonic) it has to end announcing.
    announced_us: u64,
    /// This server may write, announce and grant.
    primary: bool,
    /// Writing is forbidden for the moment.
    paused: bool,
    /// Announcements of what was overdue at the start are held until then.
    hold_until_us: u64,
    /// A child process shares the memory.
    is_shared: bool,
}

impl Pass {
    /// Whether there is time left.
    fn more(&self) -> bool {
        clock::mono_us() < self.end_us
    }

    /// The wall millisecond that is `ms` after its start.
    fn in_ms(&self, ms: u64) -> u64 {
        self.now.wall_ms().plus(ms).0
    }

    /// In how many milliseconds to go on with what is due and was not done: refused, or
    /// not come to.
    fn retry_ms(&self, refused: bool) -> u64 {
        match (self.primary, refused) {
            (false, _) => REPLICA_MS,
            (true, true) => RETRY_MS,
            (true, false) => u64::from(self.more()),
        }
    }

    /// Whether there is time left for announcing.
    fn may_announce(&self) -> bool {
        clock::mono_us() < self.announced_us
    }
}

/// One pass.
pub(crate) fn run(ctx: Ctx) {
    counters::TIMER_RUNS.add(1);
    let now = clock::now();
    let flags = ctx.flags();
    let primary = flags & flag::MASTER != 0 && flags & (flag::LOADING | flag::ASYNC_LOADING) == 0;
    let budget_us = settings::TICK_BUDGET_US.get();
    let audience = Audience::now();
    let pass = Pass {
        now,
        end_us: now.mono_us.saturating_add(budget_us),
        audience,
        announced_us: now.mono_us.saturating_add(budget_us / audience.part()),
        primary,
        paused: replication_is_paused(),
        hold_until_us: timer::hold_until_us(),
        is_shared: flags & flag::ACTIVE_CHILD != 0,
    };
    walk(ctx, &pass);
    // Filed again only after the loop: a queue that can not go on does not come
    // round twice in one pass.
    let mut again = Vec::new();
    if BEHIND.get() {
        let until_us = now.mono_us.saturating_add(budget_us / 2);
        look_after_each(
            awaited_and_due(now.wall_ms().0),
            |due| look_after(ctx, &pass, due.db, &due.key),
            || clock::mono_us() < until_us,
            pass.in_ms(PANIC_MS),
            &mut again,
        );
    }
    let mut in_hand = VecDeque::new();
    let next = || {
        if in_hand.is_empty() {
            AGENDA.with(|agenda| agenda.take_due(now.wall_ms().0, TAKE_MAX, &mut in_hand));
        }
        in_hand.pop_front()
    };
    look_after_each(
        std::iter::from_fn(next),
        |due| look_after(ctx, &pass, due.db, &due.key),
        || pass.more(),
        pass.in_ms(PANIC_MS),
        &mut again,
    );
    BEHIND.set(!pass.more());
    AGENDA.with(|agenda| {
        // Those there was no time for stand where they stood.
        for Due { db, key, wake } in again.into_iter().chain(in_hand) {
            // It may have been deleted, or filed for earlier, meanwhile.
            if agenda
                .entry(db, &key)
                .is_some_and(|entry| wake < entry.wake)
            {
                agenda.file(db, &key, wake);
            }
        }
    });
    counters::PASS_US_MAX.raise(clock::mono_us().saturating_sub(now.mono_us));
}

/// Looks after one queue after the other, as long as there is time after each, and
/// appends to `again` when to look at which of them next. A panic costs the queue in
/// whose service it came up the time until `panicked`, and the others nothing.
fn look_after_each(
    queues: impl Iterator<Item = Due>,
    mut look: impl FnMut(&Due) -> Option<u64>,
    more: impl Fn() -> bool,
    panicked: u64,
    again: &mut Vec<Due>,
) {
    for due in queues {
        if let Some(wake) = guarded(Some(panicked), || look(&due)) {
            again.push(Due { wake, ..due });
        }
        if !more() {
            return;
        }
    }
}

/// The queues that somebody waits for and that are due, each taken out of the wakes
/// when it is its turn. For where passes do not get to all that is due: where 20,000
/// queues fall due in one millisecond, one by one that takes them 0.2 s.
fn awaited_and_due(now_ms: u64) -> impl Iterator<Item = Due> {
    waiters::awaited(None)
        .into_iter()
        .filter_map(move |(db, key)| {
            AGENDA
                .with(|agenda| {
                    let wake = agenda.entry(db, &key)?.wake;
                    (wake <= now_ms).then(|| agenda.file(db, &key, NEVER))?;
                    Some(Due { db, key, wake })
                })
                .flatten()
        })
}

/// Goes on with the walk over all queues, if there is one.
fn walk(ctx: Ctx, pass: &Pass) {
    while let Some((db, key, again)) = timer::next_of_walk() {
        guarded((), || {
            if let Some(name) = Text::new(&key).filter(|_| ctx.select(db)) {
                value::with_queue(ctx, name.name(), Mode::Quiet, |queue| {
                    if again {
                        queue.announce_again();
                        queue.refill_brake();
                    }
                    timer::register(db, &key, queue, &pass.now);
                });
            }
        });
        if !pass.more() {
            return;
        }
    }
}

/// What has become of a queue in a pass.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Writing was refused or is forbidden.
    refused: bool,
    /// Announcements are held or out of tokens until this wall millisecond.
    held_until: Option<u64>,
}

/// Does what is due in one queue. Returns when to look at it next, `None` if it
/// is gone.
fn look_after(ctx: Ctx, pass: &Pass, db: i32, key: &Arc<[u8]>) -> Option<u64> {
    // Reading a key that has expired deletes it only where this server may write. What
    // a replica takes for over its primary may still give a longer life.
    let gone = || {
        if pass.primary && !pass.paused {
            timer::forget(db, key);
            return None;
        }
        Some(pass.in_ms(REPLICA_MS))
    };
    let Some(name) = Text::new(key).filter(|_| ctx.select(db)) else {
        return gone();
    };
    let name = name.name();
    let mut progress = Progress {
        refused: pass.paused,
        held_until: None,
    };
    let advance = || {
        value::with_queue(ctx, name, Mode::Quiet, |queue| {
            queue.set_armed(NEVER);
            queue.advance(&pass.now, &mut || pass.more());
            queue.take_stock(&pass.now);
            queue.take_lapsed()
        })
    };
    if pass.primary && !progress.refused {
        progress.refused = !sessions::release(ctx, pass, db, key, name);
    }
    let advanced = advance();
    if pass.primary && !progress.refused {
        // Also where there is no queue any more: what it locked is free.
        progress.refused = !locks::serve(ctx, &pass.now, &|| pass.more(), db, key, name);
    }
    // A lock that was granted there has made a queue.
    let advanced = advanced.or_else(advance);
    match advanced {
        None if waiters::lock_wake(db, key).is_some() => {
            // Refused, or not come to yet.
            return Some(pass.in_ms(pass.retry_ms(progress.refused)));
        }
        None => return gone(),
        // A lease that ended by itself changes what the order is: WATCH and
        // client-side caches are told.
        Some(true) if pass.primary => ctx.signal_modified(name),
        Some(_) => {}
    }
    if pass.primary {
        if !progress.refused {
            progress.refused = !forget_records(ctx, pass, name);
        }
        if !progress.refused {
            progress.refused = !claims::serve(ctx, pass, db, key, name);
        }
        if !progress.refused {
            announce::announce(ctx, pass, db, key, name, &mut progress);
        }
    }
    next_look(ctx, pass, db, key, name, progress).or_else(gone)
}

/// When to look next at a queue that was looked after; notes that, and its backlog.
/// `None` where there is no queue.
fn next_look(
    ctx: Ctx,
    pass: &Pass,
    db: i32,
    key: &Arc<[u8]>,
    name: Name<'_>,
    progress: Progress,
) -> Option<u64> {
    let waiting = waiters::waiting(db, key);
    let closed = state::sessions::closed_in(db, key);
    let defaults = settings::defaults();
    let ended = value::with_queue(ctx, name, Mode::Quiet, |queue| {
        queue.take_hint();
        let now_ms = pass.now.wall_ms().0;
        let duty = match (pass.primary, progress.held_until) {
            (false, _) => Duty::Advance,
            (true, Some(_)) => Duty::AllButAnnounce,
            (true, None) => Duty::All,
        };
        let mut wake = queue
            .next_wake(&pass.now, duty)
            .map_or(NEVER, |wake| wake.0)
            .min(progress.held_until.unwrap_or(NEVER));
        if waiting && let Some(serve) = queue.claim_wake(&pass.now, &defaults) {
            wake = wake.min(serve.0);
        }
        if pass.primary {
            wake = wake.min(waiters::lock_wake(db, key).unwrap_or(NEVER));
        }
        if pass.primary && !closed.is_empty() {
            wake = 0;
        }
        if wake <= now_ms {
            wake = pass.in_ms(pass.retry_ms(progress.refused));
        }
        let stock = queue.stock_wake(&pass.now, duty);
        wake = wake.min(stock.map_or(NEVER, |wake| wake.0));
        wake = wake.min(compact(pass, queue));
        queue.set_armed(wake);
        (wake, queue.announce_backlog(&pass.now))
    });
    let (wake, backlog) = ended?;
    AGENDA.with(|agenda| agenda.note_backlog(db, key, if pass.primary { backlog } else { 0 }));
    Some(wake)
}

/// Moves a queue that has shrunk together, as far as there is time. When to go on.
fn compact(pass: &Pass, queue: &mut Queue) -> u64 {
    let Some(watch_ms) = queue.compact_in(&pass.now) else {
        return NEVER;
    };
    let begin_us = clock::mono_us();
    let rest_us = COMPACT_AT.get().saturating_sub(begin_us);
    let wait_ms = if pass.is_shared {
        COMPACT_LATER_MS
    } else if watch_ms > 0 {
        watch_ms
    } else if rest_us > 0 {
        rest_us.div_ceil(1000)
    } else {
        let done = queue.compact(&mut || pass.more());
        let end_us = clock::mono_us();
        let rest_us = end_us.saturating_sub(begin_us) * (COMPACT_PART - 1);
        COMPACT_AT.set(end_us.saturating_add(rest_us));
        if done {
            return NEVER;
        }
        rest_us.div_ceil(1000).max(1)
    };
    pass.in_ms(wait_ms)
}

/// Removes what reads as missing, and the oldest dead. False if refused.
fn forget_records(ctx: Ctx, pass: &Pass, name: Name<'_>) -> bool {
    let defaults = settings::defaults();
    while let Some((effect, lapses)) = value::with_queue(ctx, name, Mode::Quiet, |queue| {
        let effect = queue.due_forget(&pass.now, &defaults, FORGET_MAX)?;
        // A lock on an unknown id goes with its record: said while it is there.
        let lapses = queue.lapses_before(&pass.now, &effect);
        Some((effect, lapses))
    })
    .flatten()
    {
        let dropped = counters::DEAD_DROPPED.get();
        if !call_apply(ctx, name, &effect, lapses) {
            return false;
        }
        if counters::DEAD_DROPPED.get() > dropped {
            log_once_a_second(
                &DROPPED_AT,
                c"orderwheel: a queue has more dead orders than dead-max, the oldest were dropped unclosed \
                  (dead_dropped_total in ORDER.STATS)",
            );
        }
        if !pass.more() {
            break;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{Due, look_after_each};

    /// The queues of these keys.
    fn queues(keys: &[u8]) -> Vec<Due> {
        let due = |key: &u8| Due {
            db: 0,
            key: [*key].into(),
            wake: 5,
        };
        keys.iter().map(due).collect()
    }

    /// Looks after the queues `a` to `f` while there is time for `looks` of them; `c`
    /// panics, `d` is gone. Returns which are looked at again, and when.
    fn after(looks: u32) -> Vec<(u8, u64)> {
        let left = Cell::new(looks);
        let mut again = Vec::new();
        look_after_each(
            queues(b"abcdef").into_iter(),
            |due| {
                left.set(left.get() - 1);
                match due.key[0] {
                    b'c' => panic!("on purpose"),
                    b'd' => None,
                    key => Some(u64::from(key)),
                }
            },
            || left.get() > 0,
            1_000,
            &mut again,
        );
        assert_eq!(left.get(), 0);
        again.iter().map(|due| (due.key[0], due.wake)).collect()
    }

    #[test]
    fn a_panic_loses_no_queue() {
        let all = [
            (b'a', 97),
            (b'b', 98),
            (b'c', 1_000),
            (b'e', 101),
            (b'f', 102),
        ];
        assert_eq!(after(6), all);
        assert_eq!(after(2), all[..2]);
        assert_eq!(after(3), all[..3], "time is asked for after a panic too");
        assert_eq!(after(4), all[..3]);
    }
}
