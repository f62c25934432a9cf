//! When the scheduler looks at which queue next.
//!
//! Per database a set of (wake, key) in order of the wake, and an entry for every
//! queue the module knows of, by key:
//!
//! ```text
//!   db 0   wakes    (1795958000123, orders) (1795958000900, mail) …
//!          entries  mail → 1795958000900   orders → 1795958000123   empty → never
//! ```
//!
//! Keys, not pointers: a value may be freed on another thread, and FLUSHALL never
//! says which. The agenda is a set of hints: an entry that comes too early costs
//! one look, one whose queue is gone is dropped when it is looked up. Only too
//! late would be wrong, so whoever makes a wake earlier files it.
//!
//! Trees, not hash tables: no step of theirs grows with the number of queues, and
//! SWAPDB swaps two of them. Filing and dropping are O(log queues).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

/// The wake of a queue that has nothing to wait for.
pub(super) const NEVER: u64 = u64::MAX;

/// What is known of one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Wall milliseconds at which to look at it, [`NEVER`] for not at all.
    pub(super) wake: u64,
    /// Announcements it held back when it was last looked at.
    pub(super) backlog: u64,
    /// It was overdue when the server started or was promoted: its announcements
    /// wait until subscribers are back.
    pub(super) held: bool,
}

impl Entry {
    /// An entry that is not in the wakes.
    const IDLE: Self = Self {
        wake: NEVER,
        backlog: 0,
        held: false,
    };
}

/// The queues of one database.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// The queues that have a wake, earliest first.
    wakes: BTreeSet<(u64, Arc<[u8]>)>,
    /// All queues.
    entries: BTreeMap<Arc<[u8]>, Entry>,
}

/// The queues of all databases.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// One book for each database that ever had a queue.
    books: BTreeMap<i32, Book>,
    /// Number of queues.
    queues: u64,
    /// Sum of the entries' backlogs.
    backlog: u64,
}

impl Agenda {
    /// An empty agenda.
    pub(super) const fn new() -> Self {
        Self {
            books: BTreeMap::new(),
            queues: 0,
            backlog: 0,
        }
    }

    /// Number of queues.
    pub(super) const fn queues(&self) -> u64 {
        self.queues
    }

    /// Announcements that were held back when their queues were last looked at.
    pub(super) const fn backlog(&self) -> u64 {
        self.backlog
    }

    /// Files a queue, new or known, under `wake`.
    pub(super) fn file(&mut self, db: i32, key: &[u8], wake: u64) {
        let book = self.books.entry(db).or_default();
        let name = if let Some((name, entry)) = book.entries.get_key_value(key) {
            if entry.wake == wake {
                return;
            }
            Arc::clone(name)
        } else {
            self.queues = self.queues.saturating_add(1);
            Arc::from(key)
        };
        let entry = book.entries.entry(Arc::clone(&name)).or_insert(Entry::IDLE);
        let old = std::mem::replace(&mut entry.wake, wake);
        if old != NEVER {
            book.wakes.remove(&(old, Arc::clone(&name)));
        }
        if wake != NEVER {
            book.wakes.insert((wake, name));
        }
    }

    /// What is known of a queue.
    pub(super) fn entry(&self, db: i32, key: &[u8]) -> Option<Entry> {
        self.books.get(&db)?.entries.get(key).copied()
    }

    /// Notes whether a queue's announcements are held.
    pub(super) fn hold(&mut self, db: i32, key: &[u8], held: bool) {
        if let Some(entry) = self
            .books
            .get_mut(&db)
            .and_then(|book| book.entries.get_mut(key))
        {
            entry.held = held;
        }
    }

    /// Notes a queue's backlog.
    pub(super) fn note_backlog(&mut self, db: i32, key: &[u8], backlog: u64) {
        if let Some(entry) = self
            .books
            .get_mut(&db)
            .and_then(|book| book.entries.get_mut(key))
        {
            let old = std::mem::replace(&mut entry.backlog, backlog);
            self.backlog = self.backlog.saturating_sub(old).saturating_add(backlog);
        }
    }

    /// Forgets a queue.
    pub(super) fn drop_key(&mut self, db: i32, key: &[u8]) {
        let Some(book) = self.books.get_mut(&db) else {
            return;
        };
        if let Some((name, entry)) = book.entries.remove_entry(key) {
            book.wakes.remove(&(entry.wake, name));
            self.queues = self.queues.saturating_sub(1);
            self.backlog = self.backlog.saturating_sub(entry.backlog);
        }
    }

    /// The earliest wake, [`NEVER`] if there is none. O(databases).
    pub(super) fn first_wake(&self) -> u64 {
        self.books
            .values()
            .filter_map(|book| book.wakes.first())
            .map(|(wake, _)| *wake)
            .min()
            .unwrap_or(NEVER)
    }

    /// Takes the queue with the earliest wake at or before `now_ms` out of the
    /// wakes (its entry stays).
    pub(super) fn take_due(&mut self, now_ms: u64) -> Option<(i32, Arc<[u8]>)> {
        let (db, book) = self
            .books
            .iter_mut()
            .filter(|(_, book)| !book.wakes.is_empty())
            .min_by_key(|(_, book)| book.wakes.first().map_or(NEVER, |(wake, _)| *wake))?;
        if book.wakes.first()?.0 > now_ms {
            return None;
        }
        let (_, name) = book.wakes.pop_first()?;
        if let Some(entry) = book.entries.get_mut(&name) {
            entry.wake = NEVER;
        }
        Some((*db, name))
    }

    /// Empties one database, or all (`None`). What was in them is handed back, to
    /// be dropped on another thread.
    pub(super) fn clear(&mut self, db: Option<i32>) -> Vec<Book> {
        let gone: Vec<Book> = match db {
            Some(db) => self.books.remove(&db).into_iter().collect(),
            None => std::mem::take(&mut self.books).into_values().collect(),
        };
        if db.is_none() {
            self.queues = 0;
            self.backlog = 0;
        } else {
            for book in &gone {
                self.queues = self.queues.saturating_sub(book.entries.len() as u64);
                self.backlog = self
                    .backlog
                    .saturating_sub(book.entries.values().map(|entry| entry.backlog).sum());
            }
        }
        gone
    }

    /// Swaps two databases.
    pub(super) fn swap(&mut self, one: i32, other: i32) {
        let first = self.books.remove(&one);
        let second = self.books.remove(&other);
        if let Some(book) = first {
            self.books.insert(other, book);
        }
        if let Some(book) = second {
            self.books.insert(one, book);
        }
    }

    /// The queue that follows `after` in the order of (database, key), the very
    /// first one for `None`: for walking through all of them in steps.
    pub(super) fn next_after(&self, after: Option<&(i32, Arc<[u8]>)>) -> Option<(i32, Arc<[u8]>)> {
        let start = after.map_or(i32::MIN, |(db, _)| *db);
        for (db, book) in self.books.range(start..) {
            let next = match after {
                Some((last_db, key)) if last_db == db => book
                    .entries
                    .range::<[u8], _>((Excluded(&**key), Unbounded))
                    .next(),
                _ => book.entries.iter().next(),
            };
            if let Some((name, _)) = next {
                return Some((*db, Arc::clone(name)));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Agenda, NEVER};

    #[test]
    fn the_earliest_wake_over_all_databases_comes_first() {
        let mut agenda = Agenda::new();
        agenda.file(0, b"a", 30);
        agenda.file(1, b"b", 10);
        agenda.file(0, b"c", 20);
        agenda.file(0, b"idle", NEVER);
        assert_eq!((agenda.first_wake(), agenda.queues()), (10, 4));
        assert!(agenda.take_due(9).is_none());
        let order: Vec<(i32, Vec<u8>)> = std::iter::from_fn(|| agenda.take_due(25))
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
        while let Some(next) = agenda.next_after(last.as_ref()) {
            seen.push((next.0, next.1.to_vec()));
            last = Some(next);
        }
        let all: Vec<(i32, Vec<u8>)> = [(0, "x"), (0, "y"), (3, "a"), (7, "z")]
            .iter()
            .map(|(db, key)| (*db, key.as_bytes().to_vec()))
            .collect();
        assert_eq!(seen, all);
    }
}
