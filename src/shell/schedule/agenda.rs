//! When the scheduler looks at which queue next.
//!
//! A queue may hold a single order, so what is known of it here must be small. The
//! engine's own tables serve: a record for each queue, found by the key, with the
//! wake as its deadline, and a wheel of those that have one.
//!
//! ```text
//!   db 0   store   orders → 7: wake 1795958000123     empty → 8: never
//!          wakes   wheel of 7 …
//! ```
//!
//! Keys, not pointers: a value may be freed on another thread, and FLUSHALL never
//! says which. The agenda is a set of hints: an entry that comes too early costs
//! one look, one whose queue is gone is dropped when it is looked up. Only too
//! late would be wrong, so whoever makes a wake earlier files it.
//!
//! No step grows with the number of queues, and SWAPDB swaps two books.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};

use crate::engine::store::Store;
use crate::engine::tables::wheel::Wheel;
use crate::engine::views::by_deadline;
use crate::words::time::WallMs;

/// The wake of a queue that has nothing to wait for.
pub(crate) const NEVER: u64 = u64::MAX;

/// Keys from this length on are long: ids in a store have 255 bytes at most.
const LONG: usize = 255;
/// The largest backlog that is told from larger ones.
const BACKLOG_MAX: u64 = (1 << 52) - 1;

/// What is known of one queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Wall milliseconds at which to look at it, [`NEVER`] for not at all.
    pub(crate) wake: u64,
    /// It was overdue when the server started or was promoted: its announcements
    /// wait until subscribers are back.
    pub(crate) held: bool,
}

/// A queue that was taken out of the wakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// Its database.
    pub(crate) db: i32,
    /// Its key.
    pub(crate) key: Arc<[u8]>,
    /// The wall millisecond it was filed for.
    pub(crate) wake: u64,
}

/// Where a walk through all queues is: the database, and a bound above the
/// queues that it did not meet yet.
pub(crate) type Cursor = (i32, u32);

/// The queues of one database.
#[derive(Debug)]
pub(crate) struct Book {
    /// A record for each queue: deadline is the wake, rev the backlog, the mark
    /// of the announced says that it is held.
    store: Store,
    /// The queues that have a wake.
    wakes: Wheel,
    /// The earliest wake, where it is known.
    first: Option<u64>,
    /// Sum of the backlogs.
    backlog: u64,
    /// Long keys, by record.
    long: BTreeMap<u32, Arc<[u8]>>,
}

/// What a key is called in the store: itself, or of a long one the beginning and
/// a hash of 128 bits.
fn id_of(key: &[u8]) -> Cow<'_, [u8]> {
    static HASHER: OnceLock<RandomState> = OnceLock::new();
    if key.len() < LONG {
        return Cow::Borrowed(key);
    }
    let hasher = HASHER.get_or_init(RandomState::new);
    let mut id = key.get(..LONG - 16).unwrap_or_default().to_vec();
    id.extend(hasher.hash_one((0, key)).to_le_bytes());
    id.extend(hasher.hash_one((1, key)).to_le_bytes());
    Cow::Owned(id)
}

impl Book {
    /// A book without queues.
    fn new() -> Self {
        Self {
            store: Store::new(),
            wakes: Wheel::new(),
            first: None,
            backlog: 0,
            long: BTreeMap::new(),
        }
    }

    /// The record of a queue.
    fn find(&self, key: &[u8]) -> Option<u32> {
        self.store.find(&id_of(key))
    }

    /// What is known of the queue of a record.
    fn entry(&self, i: u32) -> Option<Entry> {
        let record = self.store.rows.get(i)?;
        Some(Entry {
            wake: record.deadline().map_or(NEVER, |wake| wake.0),
            held: record.is_announced(),
        })
    }

    /// The key of a record.
    fn key(&self, i: u32) -> Arc<[u8]> {
        match self.long.get(&i) {
            Some(key) => Arc::clone(key),
            None => self.store.rows.id(i).into(),
        }
    }

    /// Sets the wake of a record.
    fn set_wake(&mut self, i: u32, wake: u64) {
        let old = self.entry(i).map_or(NEVER, |entry| entry.wake);
        if old != NEVER {
            self.wakes.remove(&mut by_deadline(&mut self.store.rows), i);
            if self.first == Some(old) {
                self.first = None;
            }
        }
        let Some(record) = self.store.rows.get_mut(i) else {
            return;
        };
        record.set_deadline((wake != NEVER).then_some(WallMs(wake)));
        if wake != NEVER {
            self.first = if self.wakes.is_empty() {
                Some(wake)
            } else {
                self.first.map(|first| first.min(wake))
            };
            self.wakes.insert(&mut by_deadline(&mut self.store.rows), i);
        }
    }

    /// The earliest wake, [`NEVER`] if there is none.
    fn first_wake(&mut self) -> u64 {
        if self.first.is_none() {
            self.first = self.wakes.first_time(&by_deadline(&self.store.rows));
        }
        self.first.unwrap_or(NEVER)
    }

    /// Notes the backlog of a record.
    fn set_backlog(&mut self, i: u32, backlog: u64) {
        if let Some(record) = self.store.rows.get_mut(i) {
            let (old, new) = (record.rev(), backlog.min(BACKLOG_MAX));
            record.set_rev(new);
            self.backlog = self.backlog.saturating_sub(old).saturating_add(new);
        }
    }

    /// Forgets a record.
    fn remove(&mut self, i: u32) {
        self.set_wake(i, NEVER);
        self.set_backlog(i, 0);
        self.store.remove(i);
        self.long.remove(&i);
    }
}

/// The queues of all databases.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    /// One book for each database that ever had a queue.
    books: BTreeMap<i32, Book>,
    /// Number of queues.
    queues: u64,
}

impl Agenda {
    /// An empty agenda.
    pub(crate) const fn new() -> Self {
        Self {
            books: BTreeMap::new(),
            queues: 0,
        }
    }

    /// Number of queues.
    pub(crate) const fn queues(&self) -> u64 {
        self.queues
    }

    /// Announcements that were held back when their queues were last looked at.
    /// O(databases).
    pub(crate) fn backlog(&self) -> u64 {
        self.books.values().map(|book| book.backlog).sum()
    }

    /// Bytes that a queue of a database takes here, on average. What queues that
    /// are gone have left behind is not of those that stay.
    pub(crate) fn share(&self, db: i32) -> usize {
        /// More no queue takes but for the pages it shares with others.
        const MOST: usize = 128;
        self.books.get(&db).map_or(0, |book| {
            ((book.store.bytes() + book.wakes.bytes()) / book.store.len().max(1)).min(MOST)
        })
    }

    /// Files a queue, new or known, under `wake`.
    pub(crate) fn file(&mut self, db: i32, key: &[u8], wake: u64) {
        let book = self.books.entry(db).or_insert_with(Book::new);
        let id = id_of(key);
        let i = if let Some(i) = book.store.find(&id) {
            i
        } else {
            let Some(i) = book.store.create(&id) else {
                return;
            };
            self.queues = self.queues.saturating_add(1);
            if key.len() >= LONG {
                book.long.insert(i, key.into());
            }
            i
        };
        if book.entry(i).is_some_and(|entry| entry.wake != wake) {
            book.set_wake(i, wake);
        }
    }

    /// What is known of a queue.
    pub(crate) fn entry(&self, db: i32, key: &[u8]) -> Option<Entry> {
        let book = self.books.get(&db)?;
        book.entry(book.find(key)?)
    }

    /// Notes whether a queue's announcements are held.
    pub(crate) fn hold(&mut self, db: i32, key: &[u8], held: bool) {
        if let Some(book) = self.books.get_mut(&db)
            && let Some(i) = book.find(key)
            && let Some(record) = book.store.rows.get_mut(i)
        {
            record.set_announced(held);
        }
    }

    /// Notes a queue's backlog.
    pub(crate) fn note_backlog(&mut self, db: i32, key: &[u8], backlog: u64) {
        if let Some(book) = self.books.get_mut(&db)
            && let Some(i) = book.find(key)
        {
            book.set_backlog(i, backlog);
        }
    }

    /// Forgets a queue.
    pub(crate) fn drop_key(&mut self, db: i32, key: &[u8]) {
        if let Some(book) = self.books.get_mut(&db)
            && let Some(i) = book.find(key)
        {
            book.remove(i);
            self.queues = self.queues.saturating_sub(1);
        }
    }

    /// The earliest wake, [`NEVER`] if there is none. O(databases).
    pub(crate) fn first_wake(&mut self) -> u64 {
        let wakes = self.books.values_mut().map(Book::first_wake);
        wakes.min().unwrap_or(NEVER)
    }

    /// Takes queues with a wake at or before `now_ms` out of the wakes (their entries
    /// stay), the earliest first, at most `max` and all of one database: so many
    /// that the reading of a list of the wheel, which has up to 256 queues, is
    /// not done for one of them alone. Appends them to `out`, with their wakes.
    pub(crate) fn take_due(&mut self, now_ms: u64, max: usize, out: &mut VecDeque<Due>) {
        let books = self.books.iter_mut();
        let Some((wake, db, book)) = books
            .map(|(db, book)| (book.first_wake(), *db, book))
            .min_by_key(|(wake, _, _)| *wake)
        else {
            return;
        };
        if wake == NEVER || wake > now_ms {
            return;
        }
        let mut due = Vec::new();
        let view = &mut by_deadline(&mut book.store.rows);
        book.wakes.take_due(view, now_ms, max, &mut due);
        book.first = None;
        for i in due {
            let wake = book.entry(i).map_or(wake, |entry| entry.wake);
            if let Some(record) = book.store.rows.get_mut(i) {
                record.set_deadline(None);
            }
            let key = book.key(i);
            out.push_back(Due { db, key, wake });
        }
    }

    /// Empties one database, or all (`None`). O(databases): what was in them is handed back, to
    /// be dropped on another thread.
    pub(crate) fn clear(&mut self, db: Option<i32>) -> Vec<Book> {
        let gone: Vec<Book> = match db {
            Some(db) => self.books.remove(&db).into_iter().collect(),
            None => std::mem::take(&mut self.books).into_values().collect(),
        };
        for book in &gone {
            self.queues = self.queues.saturating_sub(book.store.len() as u64);
        }
        gone
    }

    /// Swaps two databases.
    pub(crate) fn swap(&mut self, one: i32, other: i32) {
        let first = self.books.remove(&one);
        let second = self.books.remove(&other);
        if let Some(book) = first {
            self.books.insert(other, book);
        }
        if let Some(book) = second {
            self.books.insert(one, book);
        }
    }

    /// The queue that follows in a walk through all of them in steps, the first
    /// one for `None`, and where the walk is then. A queue that is filed anew
    /// meanwhile may be missed.
    pub(crate) fn next_after(&self, after: Option<Cursor>) -> Option<(Cursor, Arc<[u8]>)> {
        let start = after.map_or(i32::MIN, |(db, _)| db);
        for (db, book) in self.books.range(start..) {
            let rows = &book.store.rows;
            let mut bound = match after {
                Some((last, bound)) if last == *db => bound,
                _ => u32::MAX,
            };
            loop {
                bound = rows.skip_empty(bound);
                let Some(i) = bound.checked_sub(1) else {
                    break;
                };
                bound = i;
                if rows.get(i).is_some() {
                    return Some(((*db, i), book.key(i)));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use super::{Agenda, BACKLOG_MAX, Due, NEVER};

    /// Takes the first queue that is due.
    fn take_one(agenda: &mut Agenda, now_ms: u64) -> Option<(i32, Arc<[u8]>)> {
        let mut due = VecDeque::new();
        agenda.take_due(now_ms, 1, &mut due);
        assert!(due.len() <= 1);
        due.pop_front().map(|Due { db, key, .. }| (db, key))
    }

    #[test]
    fn the_earliest_wake_over_all_databases_comes_first() {
        let mut agenda = Agenda::new();
        agenda.file(0, b"a", 30);
        agenda.file(1, b"b", 10);
        agenda.file(0, b"c", 20);
        agenda.file(0, b"idle", NEVER);
        assert_eq!((agenda.first_wake(), agenda.queues()), (10, 4));
        assert!(take_one(&mut agenda, 9).is_none());
        let order: Vec<(i32, Vec<u8>)> = std::iter::from_fn(|| take_one(&mut agenda, 25))
            .map(|(db, key)| (db, key.to_vec()))
            .collect();
        assert_eq!(order, [(1, b"b".to_vec()), (0, b"c".to_vec())]);
        assert_eq!((agenda.first_wake(), agenda.queues()), (30, 4));
    }

    #[test]
    fn filing_again_moves_and_dropping_removes() {
        let mut agenda = Agenda::new();
        agenda.file(0, b"a", 30);
        agenda.file(0, b"a", 5);
        assert_eq!((agenda.first_wake(), agenda.queues()), (5, 1));
        agenda.file(0, b"a", NEVER);
        assert_eq!((agenda.first_wake(), agenda.queues()), (NEVER, 1));
        agenda.file(0, b"a", 7);
        agenda.note_backlog(0, b"a", 4);
        assert_eq!(agenda.backlog(), 4);
        agenda.drop_key(0, b"a");
        agenda.drop_key(0, b"a");
        assert_eq!(
            (agenda.first_wake(), agenda.queues(), agenda.backlog()),
            (NEVER, 0, 0)
        );
    }

    #[test]
    fn swapdb_and_flush_move_whole_databases() {
        let mut agenda = Agenda::new();
        agenda.file(0, b"a", 1);
        agenda.file(2, b"b", 2);
        agenda.file(2, b"c", 3);
        agenda.swap(0, 2);
        assert_eq!(agenda.entry(2, b"a").map(|entry| entry.wake), Some(1));
        assert_eq!(agenda.entry(0, b"c").map(|entry| entry.wake), Some(3));
        agenda.swap(0, 1);
        assert!(agenda.entry(0, b"b").is_none());
        assert_eq!(agenda.clear(Some(1)).len(), 1);
        assert_eq!(agenda.queues(), 1);
        agenda.clear(None);
        assert_eq!((agenda.queues(), agenda.first_wake()), (0, NEVER));
    }

    #[test]
    fn walking_meets_every_queue_once() {
        let mut agenda = Agenda::new();
        for (db, key) in [(0, "x"), (0, "y"), (3, "a"), (7, "z")] {
            agenda.file(db, key.as_bytes(), NEVER);
        }
        let mut seen = Vec::new();
        let mut last = None;
        while let Some((cursor, key)) = agenda.next_after(last) {
            seen.push((cursor.0, key.to_vec()));
            last = Some(cursor);
        }
        seen.sort();
        let all: Vec<(i32, Vec<u8>)> = [(0, "x"), (0, "y"), (3, "a"), (7, "z")]
            .iter()
            .map(|(db, key)| (*db, key.as_bytes().to_vec()))
            .collect();
        assert_eq!(seen, all);
    }

    #[test]
    fn keys_of_every_length_are_told_apart() {
        let mut agenda = Agenda::new();
        let keys: Vec<Vec<u8>> = [0, 1, 238, 239, 253, 254, 255, 256, 257, 70_000]
            .iter()
            .map(|len| vec![b'k'; *len])
            .collect();
        for round in 0..2 {
            for (wake, key) in (1..).zip(&keys) {
                agenda.file(0, key, wake);
                agenda.file(0, key, wake);
            }
            assert_eq!(agenda.queues(), keys.len() as u64);
            if round == 0 {
                for key in &keys {
                    assert!(agenda.entry(0, key).is_some());
                    agenda.drop_key(0, key);
                    assert!(agenda.entry(0, key).is_none());
                }
                assert_eq!(agenda.queues(), 0);
            }
        }
        let due: Vec<_> = std::iter::from_fn(|| take_one(&mut agenda, 100)).collect();
        assert!(
            due.iter()
                .map(|(_, key)| &**key)
                .eq(keys.iter().map(|key| &**key))
        );
    }

    #[test]
    fn many_queues_come_in_order_at_some_fifty_bytes_each() {
        let mut agenda = Agenda::new();
        for n in 0..20_000_u64 {
            agenda.file(0, format!("q:{n:06}").as_bytes(), (n * 7919) % 20_011 + 1);
        }
        assert!(agenda.share(0) <= 72, "{} bytes", agenda.share(0));
        for n in (0..20_000_u64).step_by(3) {
            agenda.file(0, format!("q:{n:06}").as_bytes(), 20_500 - n);
        }
        for n in (0..20_000_u64).step_by(5) {
            agenda.drop_key(0, format!("q:{n:06}").as_bytes());
        }
        // What the others have left is not charged to the last ones.
        let mut few = Agenda::new();
        for n in 0..20_000_u64 {
            few.file(0, format!("q:{n:06}").as_bytes(), n + 1);
        }
        for n in 1..20_000_u64 {
            few.drop_key(0, format!("q:{n:06}").as_bytes());
        }
        assert!(few.share(0) <= 128, "{} bytes", few.share(0));
        let (mut last, mut met) = (0, 0);
        loop {
            let wake = agenda.first_wake();
            let Some((_, key)) = take_one(&mut agenda, 30_000) else {
                break;
            };
            assert!(wake >= last && agenda.entry(0, &key).is_some());
            (last, met) = (wake, met + 1);
        }
        assert_eq!(
            (met, agenda.queues(), agenda.first_wake()),
            (16_000, 16_000, NEVER)
        );
        let walk = std::iter::successors(agenda.next_after(None), |(at, _)| {
            agenda.next_after(Some(*at))
        });
        assert_eq!(walk.count(), 16_000);
    }
    #[test]
    fn several_at_a_time_are_the_same_ones_in_the_same_order() {
        let mut random = 9_u64;
        let mut dice = move |end: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % end
        };
        for max in [1, 2, 7, 64, 1_000] {
            let mut agenda = Agenda::new();
            let mut model = Vec::new();
            for n in 0..2_000_u64 {
                let (db, wake) = (dice(3) as i32, dice(600));
                agenda.file(db, &n.to_le_bytes(), wake);
                model.push((wake, db, n.to_le_bytes()));
            }
            model.retain(|(wake, _, _)| *wake <= 400);
            let mut taken = VecDeque::new();
            loop {
                let (before, first) = (taken.len(), agenda.first_wake());
                agenda.take_due(400, max, &mut taken);
                if taken.len() == before {
                    assert!(first > 400);
                    break;
                }
                assert!(taken.len() - before <= max && taken[before].wake == first);
                let batch: Vec<&Due> = taken.iter().skip(before).collect();
                assert!(batch.iter().all(|due| due.db == batch[0].db));
                assert!(batch.is_sorted_by_key(|due| due.wake));
            }
            for due in &taken {
                let wake = agenda.entry(due.db, &due.key).map(|entry| entry.wake);
                assert_eq!(wake, Some(NEVER), "its entry stays");
            }
            let mut met: Vec<_> = taken
                .iter()
                .map(|due| (due.wake, due.db, <[u8; 8]>::try_from(&*due.key).unwrap()))
                .collect();
            met.sort_unstable();
            model.sort_unstable();
            assert_eq!(met, model);
        }
    }

    #[test]
    fn the_backlog_is_that_of_the_queues_there_are() {
        let mut agenda = Agenda::new();
        for (db, key, backlog) in [(0, "a", 5), (0, "b", 7), (4, "c", 11), (9, "d", u64::MAX)] {
            agenda.file(db, key.as_bytes(), NEVER);
            agenda.note_backlog(db, key.as_bytes(), backlog);
        }
        agenda.note_backlog(0, b"none", 99);
        assert_eq!(agenda.backlog(), 23 + BACKLOG_MAX);
        agenda.note_backlog(9, b"d", 2);
        agenda.note_backlog(0, b"a", 1);
        assert_eq!(agenda.backlog(), 1 + 7 + 11 + 2);
        agenda.swap(0, 4);
        agenda.drop_key(4, b"b");
        assert_eq!(agenda.backlog(), 1 + 11 + 2);
        agenda.clear(Some(4));
        assert_eq!(agenda.backlog(), 11 + 2, "swapped with its backlog");
        agenda.file(0, b"b", 3);
        assert_eq!(
            agenda.backlog(),
            11 + 2,
            "a slot that is used again has none"
        );
        agenda.clear(None);
        assert_eq!((agenda.backlog(), agenda.queues()), (0, 0));
    }
}
