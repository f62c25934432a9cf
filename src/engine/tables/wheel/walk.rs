//! Questions: how many, which is the first, and all in order. Nothing is changed.

use super::node::{Slot, TIME_MAX, digit, digits};
use super::reader::Reader;
use super::{Filed, Wheel, time_of};

impl Wheel {
    /// How many records have a time of at most `until`. O(8 * 64 + 256).
    pub fn count_until(&self, records: &impl Filed, until: u64) -> usize {
        let until = until.min(TIME_MAX);
        let mut count = 0;
        let mut slot = self.root;
        while let Some(node) = slot.node() {
            let Some(node) = self.node(node) else {
                return count;
            };
            if !node.covers(until) {
                return count
                    + if node.base <= until {
                        node.count as usize
                    } else {
                        0
                    };
            }
            let last = digit(until, node.level());
            count += digits(node.bits & ((1 << last) - 1))
                .map(|digit| self.count_in(node.slot(digit)))
                .sum::<usize>();
            slot = node.slot(last);
            if node.level == 0 {
                return count + slot.len as usize;
            }
        }
        count
            + slot
                .iter(records)
                .filter(|i| time_of(records, *i) <= until)
                .count()
    }

    /// The earliest time, `None` if the wheel is empty. O(8 + 256).
    pub fn first_time(&self, records: &impl Filed) -> Option<u64> {
        let path = self.path_to_first();
        let slot = self.slot(path.end);
        if path.at_bottom {
            return (!slot.is_empty()).then(|| time_of(records, slot.head));
        }
        slot.iter(records).map(|i| time_of(records, i)).min()
    }

    /// Appends to `out` the `n` earliest records with a time above `after`, in
    /// order of time, then arrival, and leaves them in the wheel. O(n + 256) and
    /// two cache misses a level.
    pub fn first_n(&self, records: &impl Filed, after: u64, n: usize, out: &mut Vec<u32>) {
        if after >= TIME_MAX {
            return;
        }
        let from = after + 1;
        let end = out.len().saturating_add(n);
        if out.len() < end {
            let mut walk = Walk {
                records,
                from,
                ahead: n,
                reader: Reader::new(),
                each: &mut |i| {
                    out.push(i);
                    out.len() < end
                },
            };
            self.walk(self.root, &mut walk);
        }
    }

    /// As [`Wheel::first_n`], of those with a time of at most `until`.
    pub fn first_due(&self, records: &impl Filed, until: u64, n: usize, out: &mut Vec<u32>) {
        let end = out.len().saturating_add(n);
        if out.len() < end {
            let mut walk = Walk {
                records,
                from: 0,
                ahead: n,
                reader: Reader::new(),
                each: &mut |i| {
                    let is_due = time_of(records, i) <= until;
                    if is_due {
                        out.push(i);
                    }
                    is_due && out.len() < end
                },
            };
            self.walk(self.root, &mut walk);
        }
    }

    /// Calls `f` with every record in order of time, then arrival, until it says
    /// no. O(records).
    pub fn for_each_in_order(&self, records: &impl Filed, f: &mut dyn FnMut(u32) -> bool) {
        let mut walk = Walk {
            records,
            from: 0,
            ahead: usize::MAX,
            reader: Reader::new(),
            each: f,
        };
        self.walk(self.root, &mut walk);
    }

    /// Goes through the records of a slot in order. False once it was told to stop.
    fn walk<R: Filed>(&self, slot: Slot, walk: &mut Walk<'_, R>) -> bool {
        let Some(node) = slot.node() else {
            return slot.is_empty() || (walk.reader.add(slot) && walk.read());
        };
        let Some(node) = self.node(node) else {
            return true;
        };
        let start = if walk.from <= node.base {
            0
        } else if node.covers(walk.from) {
            digit(walk.from, node.level())
        } else {
            return true;
        };
        let mut slots = node.filled(start).peekable();
        while let Some(slot) = slots.next() {
            let go_on = if slot.node().is_some() {
                self.walk(slot, walk)
            } else if node.level == 0 {
                walk.list(slot)
            } else {
                walk.reader.add(slot);
                while slots
                    .next_if(|next| {
                        walk.reader.records < walk.ahead
                            && next.node().is_none()
                            && walk.reader.add(*next)
                    })
                    .is_some()
                {}
                walk.read()
            };
            if !go_on {
                return false;
            }
        }
        true
    }
}

/// A walk through records in order.
struct Walk<'w, R> {
    /// The records.
    records: &'w R,
    /// The time it starts from.
    from: u64,
    /// How many records are wanted: so many are read at once where they lie apart.
    ahead: usize,
    /// Reads lists, and is empty between them.
    reader: Reader,
    /// Is called with each record until it says no.
    each: &'w mut dyn FnMut(u32) -> bool,
}

impl<R: Filed> Walk<'_, R> {
    /// Goes through a list of level 0.
    fn list(&mut self, slot: Slot) -> bool {
        slot.is_empty()
            || time_of(self.records, slot.head) < self.from
            || slot.iter(self.records).all(&mut *self.each)
    }

    /// Goes through the lists the reader was given.
    fn read(&mut self) -> bool {
        self.reader.read(self.records);
        let from = self.from;
        let go_on = self
            .reader
            .sorted(|time| time >= from)
            .flatten()
            .all(|(_, i)| (self.each)(*i));
        self.reader.clear();
        go_on
    }
}
