//! The index from id to record: linear hashing over buckets of one cache line.
//!
//! A hash table that doubles stalls the server when it does (73 ms were measured
//! at a million orders). Linear hashing (Litwin 1980; Larson 1988, "Dynamic hash
//! tables") grows by one bucket at a time instead: buckets are split in order,
//! whichever of them happens to be full, and a bucket that was not split yet is
//! addressed with one hash bit less.
//!
//! ```text
//!   13 buckets = 8 + 5:   h & 15 where that is below 13, else h & 7
//!
//!    0   1   2   3   4   5   6   7 │ 8   9  10  11  12 ┆ 13
//!   └──── split already ──┘ ▲      │                   ┆  ▲
//!                           └── next to be split: its entries with bit 8 set go here
//!
//!   bucket = line, 64 bytes:  10 prints of 2 bytes │ 10 handles of 4 │ next line
//!                                                                       └─► line
//! ```
//!
//! At a million orders the time of a lookup is that of its cache misses. So what
//! a lookup needs lies together: a bucket is a *line* of ten entries, and an entry
//! is the handle of a record and sixteen bits of its hash, the *print*. A record
//! is looked at only when its print fits. The id of a new order is told to be new
//! by one miss; one that is there costs three: line, record, id.
//!
//! There are nine entries to a line on average. A bucket that was not split yet
//! has up to twice as many as one that was, so entries that find no room go on in
//! *spilled* lines: by reckoning (Poisson) 13 % of the entries, at 9.4 bytes an
//! entry all in all.
//!
//! A split or merge moves entries and looks at no record: the print is the bits
//! 12 to 27 of the hash, the very bits by which the buckets 4096 to 268 million
//! are split. Smaller tables (and larger ones, beyond two billion records) ask
//! for the hash of each record that may move; they lie in the processor's cache.
//! The bits of the print that do not choose the bucket tell entries of one line
//! apart: at ten million orders 8 bits, so a lookup meets a foreign record by
//! mistake once in 25 times.
//!
//! Home lines live in pages of 1024 that are filled from the left, so no table is
//! ever rebuilt, moved or cleared: the first page grows in steps (at most
//! 48 KiB are copied), later ones are allocated whole. (A queue with a handful of
//! orders has no index at all, see `store`.)
//!
//! Removing merges buckets again, one a removal, when there are four entries to a
//! line and less.
//!
//! Invariants ([`Index::check`] tests them): every record is in the bucket of its
//! hash, once, with its print; all lines of a bucket but the last are full, and a
//! spilled line is never empty; after an insert there are at most nine entries
//! for each bucket, after a removal at least about four.
//!
//! Deliberately absent: keys (the records are asked), iteration (the slab is
//! scanned), and any defence against ids chosen to collide (the caller hashes
//! with a secret key).

#[cfg(any(test, debug_assertions))]
mod check;
mod line;

use std::hint::black_box;

use super::NIL;
use super::memory::{allocated, free_page, growth};
use super::slab::Slab;
use super::slab::tight::{WASTE_MIN, grown, pack, roomy};
use line::{Entry, Line, PRINT_SHIFT, print_of};

/// Records that know their hash.
pub trait Hashed {
    /// The whole hash of record `i`, computed anew from its id: asked when its
    /// bucket is split and the print does not say where it goes.
    fn hash_of(&self, i: u32) -> u64;
}

/// So many entries for each bucket, and one is split.
const SPLIT_ABOVE: u32 = 9;

/// So few entries for each bucket, and two are merged.
const MERGE_BELOW: u32 = 4;

/// Lines of a page, as a power of two: 64 KiB.
const PAGE_BITS: u32 = 10;

/// Lines of a page.
const PAGE_LINES: usize = 1 << PAGE_BITS;

/// Spilled lines of a page, as a power of two: 16 KiB.
const SPILL_PAGE_BITS: u32 = 8;

/// The most buckets there are; beyond, more lines are spilled.
const BUCKETS_MAX: u32 = 1 << 31;

/// Where a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// The home line of a bucket.
    Home(u32),
    /// A spilled line.
    Spilled(u32),
}

/// The index; see the head of the file.
#[derive(Debug)]
pub struct Index {
    /// The home lines of the buckets.
    pages: Vec<Vec<Line>>,
    /// The spilled lines.
    spilled: Slab<Line, SPILL_PAGE_BITS>,
    /// Number of buckets; none while there is no entry.
    buckets: u32,
    /// Number of entries.
    len: u32,
    /// Bytes of the pages.
    page_bytes: usize,
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

impl Index {
    /// An empty index, without allocation.
    pub const fn new() -> Self {
        Self {
            pages: Vec::new(),
            spilled: Slab::new(),
            buckets: 0,
            len: 0,
            page_bytes: 0,
        }
    }

    /// Records in the index.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether no record is in the index.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes on the heap. O(1).
    pub fn bytes(&self) -> usize {
        let pages = if self.pages.len() > 1 {
            // Whole pages of a size that an allocator has.
            self.page_bytes
        } else {
            allocated(self.page_bytes)
        };
        allocated(self.pages.capacity() * size_of::<Vec<Line>>()) + pages + self.spilled.bytes()
    }

    /// Forgets all records, and leaves them as they are. O(pages).
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// The record with this hash for which `same` says yes: `same` compares ids,
    /// and is asked only where the print fits. O(1) on average.
    #[inline]
    pub fn find(&self, hash: u64, same: impl Fn(u32) -> bool) -> Option<u32> {
        let print = print_of(hash);
        let mut line = self.home(self.bucket_of(hash));
        while let Some(at) = line {
            if let Some(i) = at.matches(print).find(|i| same(*i)) {
                return Some(i);
            }
            line = self.spilled.get(at.next);
        }
        None
    }

    /// Begins to read the line of a hash, before it is needed. O(1).
    #[inline]
    pub fn touch(&self, hash: u64) {
        let line = self.home(self.bucket_of(hash));
        black_box(line.map(|line| line.next));
    }

    /// The record that most likely has this hash, or [`NIL`]: for a look ahead,
    /// which costs the one miss of the line and asks no record. O(1).
    #[inline]
    pub fn guess(&self, hash: u64) -> u32 {
        self.home(self.bucket_of(hash))
            .and_then(|line| line.matches(print_of(hash)).next())
            .unwrap_or(NIL)
    }

    /// Puts record `i` in, which has this hash and is not in the index. Splits
    /// at most one bucket: O(1) on average, at worst O(entries of one bucket).
    pub fn insert(&mut self, records: &impl Hashed, hash: u64, i: u32) {
        if self.buckets == 0 {
            self.add_bucket();
        }
        let entry = Entry {
            handle: i,
            print: print_of(hash),
        };
        self.push(self.bucket_of(hash), entry);
        self.len += 1;
        if self.len > self.buckets.saturating_mul(SPLIT_ABOVE) && self.buckets < BUCKETS_MAX {
            self.split(records);
        }
    }

    /// Takes record `i` with this hash out; false if it is not in. Merges at
    /// most two buckets: O(1) on average, at worst O(entries of three buckets).
    pub fn remove(&mut self, hash: u64, i: u32) -> bool {
        if !self.take(self.bucket_of(hash), i) {
            return false;
        }
        self.len -= 1;
        if self.len == 0 {
            self.clear();
        } else if self.buckets > 1 && self.len / MERGE_BELOW < self.buckets {
            self.merge();
        }
        true
    }

    /// Record `from` with this hash has the handle `to` now. O(1) on average.
    pub fn moved(&mut self, hash: u64, from: u32, to: u32) {
        let mut at = At::Home(self.bucket_of(hash));
        loop {
            let Some(line) = self.line_mut(at) else {
                debug_assert!(false, "record {from} is not in the index");
                return;
            };
            if let Some(handle) = line.handles.iter_mut().find(|handle| **handle == from) {
                *handle = to;
                return;
            }
            at = At::Spilled(line.next);
        }
    }

    /// Lines of the only page, and lines for which it has memory; nothing where there
    /// are several, which are whole but for the last.
    const fn only_page(&self) -> (usize, usize) {
        match self.pages.as_slice() {
            [page] => (page.len(), page.capacity()),
            _ => (0, 0),
        }
    }

    /// Whether it is worth a compaction. Of the spilled lines most go long before a
    /// bucket does, so they are held against the home lines. O(1).
    pub fn is_sparse(&self) -> bool {
        let (lines, room) = self.only_page();
        let surplus = room.saturating_sub(grown(roomy(lines)));
        surplus * size_of::<Line>() > WASTE_MIN
            || self.spilled.surplus() > WASTE_MIN + self.page_bytes / 2
    }

    /// One step towards an index that takes no more memory than it needs, see
    /// [`pack`]: at most half a page is copied. False if there is none to be made.
    /// Buckets are merged by removals, not here.
    pub fn pack(&mut self, records: &impl Hashed) -> bool {
        let (lines, room) = self.only_page();
        if room > grown(lines)
            && let Some(page) = self.pages.first_mut()
        {
            page.shrink_to(grown(lines));
            self.page_bytes = page.capacity() * size_of::<Line>();
            return page.capacity() < room;
        }
        pack(
            self,
            |index| &mut index.spilled,
            |index, line| index.line_before(records, line),
            |index, before, _, to| {
                if let Some(before) = index.line_mut(before) {
                    before.next = to;
                }
            },
        )
    }

    /// The line before a spilled one. O(1) on average.
    fn line_before(&self, records: &impl Hashed, line: u32) -> Option<At> {
        let first = self.spilled.get(line)?.entries().next()?;
        let mut before = At::Home(self.bucket_of(records.hash_of(first.handle)));
        loop {
            let next = self.next(before)?;
            if next == At::Spilled(line) {
                return Some(before);
            }
            before = next;
        }
    }

    /// The largest power of two that is not above the number of buckets.
    const fn low(&self) -> u32 {
        match self.buckets.checked_ilog2() {
            Some(bits) => 1 << bits,
            None => 1,
        }
    }

    /// The bucket of a hash.
    const fn bucket_of(&self, hash: u64) -> u32 {
        let low = self.low();
        let bucket = hash as u32 & (low | (low - 1));
        if bucket < self.buckets {
            bucket
        } else {
            bucket & (low - 1)
        }
    }

    /// Page number and place in the page of a bucket.
    const fn place(bucket: u32) -> (usize, usize) {
        (
            (bucket >> PAGE_BITS) as usize,
            bucket as usize & (PAGE_LINES - 1),
        )
    }

    /// The home line of a bucket.
    #[inline]
    fn home(&self, bucket: u32) -> Option<&Line> {
        let (page, place) = Self::place(bucket);
        self.pages.get(page)?.get(place)
    }

    /// A line.
    #[inline]
    fn line(&self, at: At) -> Option<&Line> {
        match at {
            At::Home(bucket) => self.home(bucket),
            At::Spilled(line) => self.spilled.get(line),
        }
    }

    /// A line, to be changed.
    fn line_mut(&mut self, at: At) -> Option<&mut Line> {
        match at {
            At::Home(bucket) => {
                let (page, place) = Self::place(bucket);
                self.pages.get_mut(page)?.get_mut(place)
            }
            At::Spilled(line) => self.spilled.get_mut(line),
        }
    }

    /// The line behind another.
    fn next(&self, at: At) -> Option<At> {
        let next = self.line(at)?.next;
        (next != NIL).then_some(At::Spilled(next))
    }

    /// The last two lines of a bucket; the first of them is missing where there
    /// is one line only.
    fn last(&self, bucket: u32) -> (Option<At>, At) {
        let (mut before, mut last) = (None, At::Home(bucket));
        while let Some(next) = self.next(last) {
            (before, last) = (Some(last), next);
        }
        (before, last)
    }

    /// Puts an entry into a bucket.
    fn push(&mut self, bucket: u32, entry: Entry) {
        let (_, last) = self.last(bucket);
        if self.line_mut(last).is_none_or(|line| line.push(entry)) {
            return;
        }
        let mut line = Line::EMPTY;
        line.push(entry);
        // There always is room: 2^31 records fill 2^29 lines at most.
        let made = self.spilled.insert(line);
        debug_assert!(made.is_some(), "the store of lines is full");
        if let (Some(made), Some(last)) = (made, self.line_mut(last)) {
            last.next = made;
        }
    }

    /// Takes a record out of a bucket; its place is filled with the bucket's last
    /// entry. False if it is not there.
    fn take(&mut self, bucket: u32, i: u32) -> bool {
        if i == NIL {
            return false;
        }
        let mut at = At::Home(bucket);
        let place = loop {
            let Some(line) = self.line(at) else {
                return false;
            };
            if let Some(place) = line.handles.iter().position(|handle| *handle == i) {
                break place;
            }
            let Some(next) = self.next(at) else {
                return false;
            };
            at = next;
        };
        let (before, last) = self.last(bucket);
        let entry = match (before, last) {
            (Some(before), At::Spilled(line)) if self.line(last).is_some_and(Line::has_one) => {
                if let Some(before) = self.line_mut(before) {
                    before.next = NIL;
                }
                self.spilled.remove(line).and_then(|mut line| line.pop())
            }
            _ => self.line_mut(last).and_then(Line::pop),
        };
        if let Some(entry) = entry
            && entry.handle != i
            && let Some(line) = self.line_mut(at)
        {
            line.set(place, entry);
        }
        true
    }

    /// Takes all entries of a bucket out, one line after the other.
    fn drain(&mut self, bucket: u32, mut each: impl FnMut(&mut Self, Entry)) {
        let home = self.line_mut(At::Home(bucket));
        let mut line = home.map(|line| std::mem::replace(line, Line::EMPTY));
        while let Some(taken) = line {
            for entry in taken.entries() {
                each(self, entry);
            }
            line = self.spilled.remove(taken.next);
        }
    }

    /// Appends an empty bucket to the pages. The first page grows by half of what
    /// it has, later ones are allocated whole.
    fn add_bucket(&mut self) {
        if self
            .pages
            .last()
            .is_none_or(|page| page.len() == PAGE_LINES)
        {
            if self.pages.len() == self.pages.capacity() {
                self.pages.reserve_exact(self.pages.len().max(1));
            }
            self.pages.push(Vec::new());
        }
        let first = self.pages.len() == 1;
        let Some(page) = self.pages.last_mut() else {
            return;
        };
        if page.len() == page.capacity() {
            let more = if first {
                growth(page.len()).min(PAGE_LINES - page.len())
            } else {
                PAGE_LINES
            };
            let before = page.capacity();
            page.reserve_exact(more);
            self.page_bytes += (page.capacity() - before) * size_of::<Line>();
        }
        page.push(Line::EMPTY);
        self.buckets += 1;
    }

    /// Takes the last bucket, which is empty, from the pages. An empty page is
    /// given back, but for the first.
    fn drop_bucket(&mut self) {
        let first = self.pages.len() == 1;
        let Some(page) = self.pages.last_mut() else {
            return;
        };
        page.pop();
        if page.is_empty() && !first {
            self.page_bytes -= page.capacity() * size_of::<Line>();
            if let Some(page) = self.pages.pop() {
                free_page(page);
            }
        }
        self.buckets -= 1;
    }

    /// Makes one bucket more: the entries of the bucket whose turn it is that have
    /// the next hash bit set move to it.
    fn split(&mut self, records: &impl Hashed) {
        let new = self.buckets;
        let low = self.low();
        let source = new & (low - 1);
        // Which bit of a print tells who moves, if one does.
        let print_bit = low
            .ilog2()
            .checked_sub(PRINT_SHIFT)
            .filter(|bit| *bit < u16::BITS);
        self.add_bucket();
        self.drain(source, |index, entry| {
            let moves = match print_bit {
                Some(bit) => entry.print >> bit & 1 != 0,
                None => records.hash_of(entry.handle) as u32 & low != 0,
            };
            index.push(if moves { new } else { source }, entry);
        });
    }

    /// Makes one bucket less: the entries of the last one go to the one it was
    /// split from.
    fn merge(&mut self) {
        let last = self.buckets - 1;
        let target = last & !(1 << last.ilog2());
        self.drain(last, |index, entry| index.push(target, entry));
        self.drop_bucket();
    }
}

#[cfg(test)]
mod tests;
