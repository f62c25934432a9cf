//! Reads lists, several at once.

use super::node::Slot;
use super::{Filed, LIST_MAX_USIZE, time_of};
use crate::engine::tables::NIL;

/// So many lists are read at once.
pub(super) const LISTS_MAX: usize = 8;

/// So many records they may have together.
pub(super) const ROOM: usize = 4 * LIST_MAX_USIZE;

/// Reads lists, several at once.
///
/// A record says where the next one is, so reading a list waits for memory once a
/// record. But lists can be read from both ends, and each of them beside the others:
/// the processor then waits for up to 16 records at a time.
pub(super) struct Reader {
    /// The lists, in the order of time.
    pub(super) lists: [Slot; LISTS_MAX],
    /// How many there are.
    count: usize,
    /// How many records they have together.
    pub(super) records: usize,
    /// Time and record of each, list by list: as long as what was read last, for
    /// mostly that is a record or two of the [`ROOM`] there is.
    entries: Vec<(u64, u32)>,
}

/// One end of a list that is being read.
#[derive(Clone, Copy)]
struct End {
    /// The next record.
    at: u32,
    /// Its entry.
    entry: usize,
    /// How many are left to read from here.
    left: u32,
    /// Whether it is read from the back.
    back: bool,
}

impl Reader {
    /// Room, and no list.
    pub(super) const fn new() -> Self {
        Self {
            lists: [Slot::EMPTY; LISTS_MAX],
            count: 0,
            records: 0,
            entries: Vec::new(),
        }
    }

    /// Adds a list, later than those before, as far as there is room. False if there
    /// is none.
    pub(super) fn add(&mut self, list: Slot) -> bool {
        let records = self.records + list.len as usize;
        if records > ROOM {
            return false;
        }
        let Some(place) = self.lists.get_mut(self.count) else {
            return false;
        };
        *place = list;
        self.count += 1;
        self.records = records;
        true
    }

    /// Reads all lists, each in its own order.
    pub(super) fn read(&mut self, records: &impl Filed) {
        const NONE: End = End {
            at: NIL,
            entry: 0,
            left: 0,
            back: false,
        };
        self.entries.clear();
        self.entries.resize(self.records, (0, NIL));
        let mut ends = [NONE; 2 * LISTS_MAX];
        let mut start = 0;
        let lists = self.lists.iter().take(self.count);
        for (list, pair) in lists.zip(ends.chunks_exact_mut(2)) {
            let back = list.len / 2;
            let end = start + list.len as usize;
            if let [from_front, from_back] = pair {
                *from_front = End {
                    at: list.head,
                    entry: start,
                    left: list.len - back,
                    back: false,
                };
                *from_back = End {
                    at: list.tail,
                    entry: end.saturating_sub(1),
                    left: back,
                    back: true,
                };
            }
            start = end;
        }
        let mut some = true;
        while some {
            some = false;
            for end in ends.iter_mut().take(2 * self.count) {
                if end.left == 0 {
                    continue;
                }
                some = true;
                let time = time_of(records, end.at);
                if let Some(entry) = self.entries.get_mut(end.entry) {
                    *entry = (time, end.at);
                }
                end.left -= 1;
                if end.back {
                    end.at = records.prev(end.at);
                    end.entry = end.entry.saturating_sub(1);
                } else {
                    end.at = records.next(end.at);
                    end.entry += 1;
                }
            }
        }
    }

    /// The records of each list that was read whose time is wanted, in order of time,
    /// then of the list.
    pub(super) fn sorted(
        &mut self,
        wanted: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = &[(u64, u32)]> {
        let mut rest = self.entries.get_mut(..self.records).unwrap_or_default();
        let lists = self.lists.iter().take(self.count);
        lists.map(move |list| {
            let all = std::mem::take(&mut rest);
            let (these, others) = all.split_at_mut(all.len().min(list.len as usize));
            rest = others;
            let mut len = 0;
            for at in 0..these.len() {
                if these.get(at).is_some_and(|(time, _)| wanted(*time)) {
                    these.swap(len, at);
                    len += 1;
                }
            }
            let these = these.get_mut(..len).unwrap_or_default();
            these.sort_by_key(|(time, _)| *time);
            &*these
        })
    }

    /// Forgets the lists.
    pub(super) const fn clear(&mut self) {
        self.count = 0;
        self.records = 0;
    }
}
