//! The way from an id to its record: the index, what the last lookup found, and
//! what was looked up ahead.
//!
//! One command looks for its id up to four times (decide, apply, reply), and at a
//! million orders most of the time of a lookup is spent on waiting for memory.
//! So the last id is remembered, and a command on many orders looks them up
//! ahead: each step is made for all of them before the next one, so that they
//! wait for memory together.

use std::cell::Cell;
use std::hint::black_box;

use super::hash::hash_of_id;
use super::rows::Rows;
use super::tables::NIL;
use super::tables::index::Index;
use super::tables::memory::allocated;

/// So many ids are looked up ahead at a time: more misses than a processor has in
/// flight, and few enough that what they brought is still there when it is used.
pub const AHEAD_MAX: usize = 64;

/// The longest id that is remembered.
const RECENT_BYTES: usize = 40;

/// What is believed to be found under an id.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The record, or [`NIL`].
    pub found: u32,
    /// The hash of the id, if it is known.
    hash: Option<u64>,
}

impl Seen {
    /// Nothing.
    const NOTHING: Self = Self {
        found: NIL,
        hash: None,
    };
}

/// The last id that was looked for, and what was found.
#[derive(Clone, Copy, Debug)]
struct Recent {
    /// The id; longer ones are not remembered.
    id: [u8; RECENT_BYTES],
    /// Length of the id; 0: nothing is remembered.
    len: u8,
    /// What was found.
    seen: Seen,
}

impl Recent {
    /// Nothing.
    const NOTHING: Self = Self {
        id: [0; RECENT_BYTES],
        len: 0,
        seen: Seen::NOTHING,
    };

    /// Whether this is about `id`.
    fn is(&self, id: &[u8]) -> bool {
        self.len != 0 && self.id.get(..usize::from(self.len)) == Some(id)
    }
}

/// See the head of the file.
#[derive(Debug)]
pub struct Lookup {
    /// Records by id.
    index: Index,
    /// The last id that was looked for.
    recent: Cell<Recent>,
    /// What was found for the ids that are looked for next, in their order.
    ahead: Vec<Seen>,
    /// How many of those were used.
    ahead_used: Cell<usize>,
}

impl Lookup {
    /// The way to all records there are. O(records).
    pub fn of(rows: &Rows) -> Self {
        let mut index = Index::new();
        for i in 0..rows.end() {
            if rows.get(i).is_some() {
                index.insert(rows, hash_of_id(rows.id(i)), i);
            }
        }
        Self {
            index,
            recent: Cell::new(Recent::NOTHING),
            ahead: Vec::new(),
            ahead_used: Cell::new(0),
        }
    }

    /// What is found under an id: remembered, expected, or looked for. O(1).
    pub fn look_up(&self, rows: &Rows, id: &[u8]) -> Seen {
        let recent = self.recent.get();
        if recent.is(id) {
            return recent.seen;
        }
        let seen = self.expected(rows, id).unwrap_or_else(|| {
            let hash = hash_of_id(id);
            let same = |i| {
                rows.touch(i);
                rows.is(i, id)
            };
            Seen {
                found: self.index.find(hash, same).unwrap_or(NIL),
                hash: Some(hash),
            }
        });
        self.remember(id, seen);
        seen
    }

    /// Puts a record in, whose id was looked up as `seen` and not found.
    pub fn insert(&mut self, rows: &Rows, id: &[u8], seen: Seen, i: u32) {
        let hash = seen.hash.unwrap_or_else(|| hash_of_id(id));
        self.index.insert(rows, hash, i);
        let seen = Seen {
            found: i,
            hash: Some(hash),
        };
        self.remember(id, seen);
    }

    /// Takes a record out that is still there.
    pub fn remove(&mut self, rows: &Rows, i: u32) {
        let recent = self.recent.replace(Recent::NOTHING);
        let hash = (recent.len != 0 && recent.seen.found == i)
            .then_some(recent.seen.hash)
            .flatten();
        let hash = hash.unwrap_or_else(|| hash_of_id(rows.id(i)));
        self.index.remove(hash, i);
    }

    /// The record with this id, looked for and not remembered. O(1).
    pub fn seek(&self, rows: &Rows, id: &[u8]) -> Option<u32> {
        self.index.find(hash_of_id(id), |i| rows.is(i, id))
    }

    /// Record `from` has the handle `to` now. O(1).
    pub fn moved(&mut self, rows: &Rows, from: u32, to: u32) {
        self.recent.set(Recent::NOTHING);
        self.index.moved(hash_of_id(rows.id(to)), from, to);
    }

    /// Whether it is worth a compaction. O(1).
    pub fn is_sparse(&self) -> bool {
        self.index.is_sparse()
    }

    /// See [`Index::pack`].
    pub fn pack(&mut self, rows: &Rows) -> bool {
        self.index.pack(rows)
    }

    /// Remembers the last id that was looked for.
    fn remember(&self, id: &[u8], seen: Seen) {
        let mut recent = Recent {
            seen,
            ..Recent::NOTHING
        };
        if let (Some(to), Ok(len)) = (recent.id.get_mut(..id.len()), u8::try_from(id.len())) {
            to.copy_from_slice(id);
            recent.len = len;
        }
        self.recent.set(recent);
    }

    /// The next of what was looked up ahead, if it is the record of this id.
    fn expected(&self, rows: &Rows, id: &[u8]) -> Option<Seen> {
        let used = self.ahead_used.get();
        let seen = *self.ahead.get(used)?;
        self.ahead_used.set(used + 1);
        rows.is(seen.found, id).then_some(seen)
    }

    /// Looks up the ids that are about to be looked for, in this order.
    /// O([`AHEAD_MAX`]): that many are taken, further ids are not.
    pub fn look_ahead<'i>(&mut self, rows: &Rows, ids: impl Iterator<Item = &'i [u8]>) {
        let mut ahead: Vec<Seen> = Vec::with_capacity(AHEAD_MAX);
        ahead.extend(ids.take(AHEAD_MAX).map(|id| {
            let hash = hash_of_id(id);
            self.index.touch(hash);
            Seen {
                found: NIL,
                hash: Some(hash),
            }
        }));
        for seen in &mut ahead {
            seen.found = seen.hash.map_or(NIL, |hash| self.index.guess(hash));
            black_box(rows.get(seen.found).map(|record| record.body));
        }
        self.set_ahead(rows, ahead);
    }

    /// As [`Lookup::look_ahead`], of records that are known already.
    pub fn expect(&mut self, rows: &Rows, records: &[u32]) {
        let seen = |i: &u32| Seen {
            found: *i,
            hash: None,
        };
        self.set_ahead(rows, records.iter().map(seen).collect());
    }

    /// Sets what is found next, and begins to read it.
    fn set_ahead(&mut self, rows: &Rows, ahead: Vec<Seen>) {
        for seen in &ahead {
            rows.touch(seen.found);
        }
        self.ahead = ahead;
        self.ahead_used.set(0);
    }

    /// Gives back what looking ahead has left.
    pub fn end_look_ahead(&mut self) {
        self.ahead = Vec::new();
    }

    /// Bytes on the heap, its own included.
    pub fn bytes(&self) -> usize {
        allocated(size_of::<Self>())
            + self.index.bytes()
            + allocated(self.ahead.capacity() * size_of::<Seen>())
    }

    /// Tests that the index is whole and leads to every record.
    ///
    /// # Panics
    ///
    /// If not.
    #[cfg(any(test, fuzzing))]
    pub fn check(&self, rows: &Rows) {
        self.index.check(rows);
        assert_eq!(self.index.len(), rows.len(), "records in the index");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::store::Store;
    use super::*;
    use crate::testing::Run;

    /// An id of this number, some of them too long to be remembered.
    fn id_of(number: u64) -> Vec<u8> {
        let mut id = format!("id-{number}").into_bytes();
        id.resize(id.len() + (number % 7 * 9) as usize, b'.');
        id
    }

    /// Whatever is looked up ahead - ids that are there or not, twice, in another
    /// order, removed or made again meanwhile - each lookup finds what is there.
    #[test]
    fn looking_ahead_changes_nothing_that_is_found() {
        let mut run = Run::new();
        let mut store = Store::new();
        let mut model: HashMap<u64, u32> = HashMap::new();
        while run.step < run.steps / 10 {
            run.step += 1;
            let most = [10, 40, 3000][(run.step / 1000 % 3) as usize];
            let numbers: Vec<u64> = (0..run.random.below(150))
                .map(|_| run.random.below(most))
                .collect();
            let ids: Vec<Vec<u8>> = numbers.iter().copied().map(id_of).collect();
            match run.random.below(4) {
                0 => store.look_ahead(ids.iter().map(Vec::as_slice)),
                1 => {
                    let records: Vec<u32> = numbers
                        .iter()
                        .map(|number| model.get(number).copied().unwrap_or(NIL))
                        .collect();
                    store.expect_records(&records);
                }
                2 => store.end_look_ahead(),
                _ => {}
            }
            for (number, id) in numbers.iter().zip(&ids) {
                assert_eq!(store.find(id), model.get(number).copied());
                match run.random.below(6) {
                    0 => {
                        if let Some(i) = model.remove(number) {
                            store.remove(i);
                        }
                    }
                    1 | 2 if !model.contains_key(number) => {
                        model.insert(*number, store.create(id).expect("room"));
                    }
                    // Another one in between: what follows is out of step.
                    3 => {
                        let other = run.random.below(most);
                        assert_eq!(store.find(&id_of(other)), model.get(&other).copied());
                    }
                    _ => {}
                }
                assert_eq!(store.find(id), model.get(number).copied());
            }
            assert_eq!(store.len(), model.len());
        }
    }
}
