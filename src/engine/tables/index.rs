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

use std::hint::black_box;

use super::NIL;
use super::memory::{allocated, free_page, growth};
use super::slab::tight::{WASTE_MIN, grown, pack, roomy};
use super::slab::{Slab, Vacant};

/// Records that know their hash.
pub trait Hashed {
    /// The whole hash of record `i`, computed anew from its id: asked when its
    /// bucket is split and the print does not say where it goes.
    fn hash_of(&self, i: u32) -> u64;
}

/// Entries of a line.
const LINE_ENTRIES: usize = 10;
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
/// The lowest hash bit of a print.
const PRINT_SHIFT: u32 = 12;

/// The part of a hash that an entry keeps, bits 12 to 27; see the head of the
/// file. The bucket is chosen by the bottom bits.
const fn print_of(hash: u64) -> u16 {
    (hash >> PRINT_SHIFT) as u16
}

/// A record and the print of its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// The record.
    handle: u32,
    /// [`print_of`] its hash.
    print: u16,
}

/// Ten entries, from the left, and where more are: one cache line.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// The prints; those of free places mean nothing.
    prints: [u16; LINE_ENTRIES],
    /// The records, [`NIL`] for a free place.
    handles: [u32; LINE_ENTRIES],
    /// The spilled line behind this one, or [`NIL`]; of a vacant one, the next.
    next: u32,
}

impl Line {
    /// A line without entries.
    const EMPTY: Self = Self {
        prints: [0; LINE_ENTRIES],
        handles: [NIL; LINE_ENTRIES],
        next: NIL,
    };

    /// The places, as bits, whose print is this one. Free places may be among them.
    #[inline]
    fn hits(&self, print: u16) -> u32 {
        let mut hits = 0;
        for (place, mine) in self.prints.iter().enumerate() {
            hits |= u32::from(*mine == print) << place;
        }
        hits
    }

    /// The records whose print is this one.
    #[inline]
    fn matches(&self, print: u16) -> impl Iterator<Item = u32> + use<'_> {
        let mut hits = self.hits(print);
        std::iter::from_fn(move || {
            let handle = self.handles.get(hits.trailing_zeros() as usize)?;
            hits &= hits - 1;
            Some(*handle)
        })
        .filter(|handle| *handle != NIL)
    }

    /// Its entries.
    fn entries(&self) -> impl Iterator<Item = Entry> + use<'_> {
        self.handles
            .iter()
            .zip(&self.prints)
            .take_while(|(handle, _)| **handle != NIL)
            .map(|(handle, print)| Entry {
                handle: *handle,
                print: *print,
            })
    }

    /// Puts an entry into the first free place; false if there is none.
    fn push(&mut self, entry: Entry) -> bool {
        let Some(place) = self.handles.iter().position(|handle| *handle == NIL) else {
            return false;
        };
        self.set(place, entry);
        true
    }

    /// Takes the last entry out.
    fn pop(&mut self) -> Option<Entry> {
        let place = self.handles.iter().rposition(|handle| *handle != NIL)?;
        let print = *self.prints.get(place)?;
        let handle = std::mem::replace(self.handles.get_mut(place)?, NIL);
        Some(Entry { handle, print })
    }

    /// Puts an entry into a place.
    fn set(&mut self, place: usize, entry: Entry) {
        if let (Some(handle), Some(print)) =
            (self.handles.get_mut(place), self.prints.get_mut(place))
        {
            (*handle, *print) = (entry.handle, entry.print);
        }
    }

    /// Whether it has one entry and no more.
    fn has_one(&self) -> bool {
        !self.is_empty() && self.handles.get(1) == Some(&NIL)
    }

    /// Whether it has no entry.
    fn is_empty(&self) -> bool {
        self.handles.first() == Some(&NIL)
    }
}

impl Vacant for Line {
    fn vacant(next: u32) -> Self {
        Self {
            next,
            ..Self::EMPTY
        }
    }

    fn next_vacant(&self) -> Option<u32> {
        self.is_empty().then_some(self.next)
    }
}

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

    /// Tests the invariants at the head of the file, in tests and debug builds only.
    /// O(buckets + records).
    ///
    /// # Panics
    ///
    /// If one is broken.
    #[cfg(any(test, debug_assertions))]
    pub fn check(&self, records: &impl Hashed) {
        let (mut met, mut spilled) = (0, 0);
        for bucket in 0..self.buckets {
            let mut at = At::Home(bucket);
            while let Some(line) = self.line(at) {
                for Entry { handle, print } in line.entries() {
                    let hash = records.hash_of(handle);
                    assert_eq!(self.bucket_of(hash), bucket, "bucket of record {handle}");
                    assert_eq!(print, print_of(hash), "print of record {handle}");
                    met += 1;
                }
                let free = line.handles.iter().skip_while(|handle| **handle != NIL);
                assert!(free.clone().all(|handle| *handle == NIL), "a gap in a line");
                spilled += usize::from(matches!(at, At::Spilled(_)));
                let Some(next) = self.next(at) else { break };
                assert_eq!(free.count(), 0, "a line that is not full and not the last");
                at = next;
            }
        }
        assert_eq!(met, self.len, "records");
        assert_eq!(spilled, self.spilled.len(), "spilled lines");
        let homes: usize = self.pages.iter().map(Vec::len).sum();
        assert_eq!(homes, self.buckets as usize, "buckets in pages");
        let bytes: usize = self
            .pages
            .iter()
            .map(|page| page.capacity() * size_of::<Line>())
            .sum();
        assert_eq!(bytes, self.page_bytes, "bytes");
        let [.., last] = self.pages.as_slice() else {
            return;
        };
        assert!(
            self.pages.len() == 1 || !last.is_empty(),
            "an empty last page"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::testing::Run;

    /// Hash of each record.
    #[derive(Default)]
    struct Records(Vec<u64>);

    impl Records {
        /// Adds a record with this hash and puts it in.
        fn add(&mut self, index: &mut Index, hash: u64) -> u32 {
            self.0.push(hash);
            let i = self.0.len() as u32 - 1;
            index.insert(self, hash, i);
            i
        }
    }

    impl Hashed for Records {
        fn hash_of(&self, i: u32) -> u64 {
            self.0[i as usize]
        }
    }

    #[test]
    fn a_line_is_a_cache_line() {
        assert_eq!(size_of::<Line>(), 64);
    }

    #[test]
    fn a_guess_looks_at_the_first_line_alone() {
        let mut index = Index::new();
        let mut records = Records::default();
        assert_eq!((index.find(7, |_| true), index.guess(7)), (None, NIL));
        assert!(!index.remove(7, 0));
        // All in one bucket, whatever the number of buckets.
        for print in 0..17 {
            records.add(&mut index, print << PRINT_SHIFT);
        }
        assert_eq!((index.buckets, index.spilled.len()), (2, 1));
        for i in 0..17 {
            let hash = records.hash_of(i);
            assert_eq!(index.find(hash, |at| at == i), Some(i));
            assert_eq!(index.guess(hash), if i < 10 { i } else { NIL });
        }
        index.check(&records);
        for i in 0..17 {
            assert!(index.remove(records.hash_of(i), i));
            index.check(&records);
        }
        assert_eq!((index.buckets, index.bytes()), (0, 0));
    }

    #[test]
    fn the_bucket_is_the_hash_cut_to_the_buckets_there_are() {
        // Around powers of two: exhaustively against the definition.
        for buckets in
            (1..300)
                .chain(1020..1030)
                .chain([65_535, 65_536, 65_537, BUCKETS_MAX - 1, BUCKETS_MAX])
        {
            let index = Index {
                buckets,
                ..Index::new()
            };
            for near in [
                0,
                u64::from(buckets),
                u64::from(buckets) * 2,
                1 << 31,
                1 << 32,
                u64::MAX,
            ] {
                for hash in near.saturating_sub(70)..=near.saturating_add(70) {
                    let mut width = 1_u64;
                    while width < u64::from(buckets) {
                        width *= 2;
                    }
                    let mut bucket = hash % width;
                    if bucket >= u64::from(buckets) {
                        bucket %= width / 2;
                    }
                    assert_eq!(u64::from(index.bucket_of(hash)), bucket, "{buckets} {hash}");
                }
            }
        }
    }

    #[test]
    fn an_insert_splits_and_a_removal_merges_at_most_one_bucket() {
        const COUNT: u32 = 300_000;
        let mut index = Index::new();
        let mut records = Records::default();
        let mut run = Run::new();
        // Enough for the splits that ask the print.
        for _ in 0..COUNT {
            let before = index.buckets;
            records.add(&mut index, run.random.next());
            assert!(index.buckets - before <= 1);
        }
        index.check(&records);
        assert_eq!(index.buckets, COUNT.div_ceil(SPLIT_ABOVE));
        let tenths = index.bytes() * 10 / COUNT as usize;
        assert!(
            (72..100).contains(&tenths),
            "{tenths} tenths of a byte an entry"
        );
        let guessed = (0..COUNT)
            .filter(|i| index.guess(records.hash_of(*i)) == *i)
            .count();
        assert!(guessed > COUNT as usize * 8 / 10, "{guessed} guessed right");
        for i in 0..COUNT {
            let before = index.buckets;
            assert!(index.remove(records.hash_of(i), i));
            if !index.is_empty() {
                assert!(before - index.buckets <= 1);
                let most = index.len() / MERGE_BELOW as usize + 1;
                assert!(index.buckets as usize <= most || i < COUNT * 6 / 10);
            }
            if i % 50_000 == 0 {
                index.check(&records);
            }
        }
        assert_eq!((index.buckets, index.len()), (0, 0));
        assert_eq!(index.bytes(), 0);
    }

    #[test]
    fn equal_hashes_share_a_bucket_and_are_told_apart_by_the_record() {
        let mut index = Index::new();
        let mut records = Records::default();
        for _ in 0..500 {
            records.add(&mut index, 0x0156_0001);
        }
        index.check(&records);
        for i in [0, 250, 499] {
            assert_eq!(index.find(0x0156_0001, |at| at == i), Some(i));
        }
        assert_eq!(index.find(0x0156_0001, |_| false), None);
        // Another print in the same bucket: nobody is asked.
        assert_eq!(index.find(0x0158_0001, |_| panic!("asked")), None);
        assert!(index.remove(0x0156_0001, 250));
        assert!(!index.remove(0x0156_0001, 250));
        assert!(!index.remove(5, NIL));
        index.check(&records);
    }

    #[test]
    fn random_operations_against_a_map() {
        let mut run = Run::new();
        let mut index = Index::new();
        let mut records = Records::default();
        // Hash (with many that collide) to record.
        let mut model: HashMap<u64, u32> = HashMap::new();
        let mut free: Vec<u32> = Vec::new();
        let mut used: Vec<u64> = Vec::new();
        let mut target = 0;
        while run.step < run.steps {
            run.step += 1;
            if run.step % 5000 == 1 {
                target = [0, 3, 9, 40, 700, 60_000][run.random.below(6) as usize];
            }
            let grow = used.len() < target;
            if run.random.below(10) < if grow { 8 } else { 3 } {
                let hash = match run.random.below(3) {
                    0 => run.random.next(),
                    1 => run.random.below(1 << 16),
                    _ => run.random.next() & 0x01fe_00ff,
                };
                let known = model.get(&hash).copied();
                assert_eq!(index.find(hash, |at| records.hash_of(at) == hash), known);
                if known.is_some() {
                    continue;
                }
                let i = if let Some(i) = free.pop() {
                    records.0[i as usize] = hash;
                    index.insert(&records, hash, i);
                    i
                } else {
                    records.add(&mut index, hash)
                };
                model.insert(hash, i);
                used.push(hash);
            } else if !used.is_empty() {
                let at = run.random.below(used.len() as u64) as usize;
                let hash = used.swap_remove(at);
                let i = model.remove(&hash).unwrap();
                assert!(index.remove(hash, i));
                assert!(!index.remove(hash, i));
                free.push(i);
            }
            assert_eq!(index.len(), used.len());
            if let Some(hash) = used.get(run.random.below(used.len().max(1) as u64) as usize) {
                assert_eq!(
                    index.find(*hash, |at| records.hash_of(at) == *hash),
                    model.get(hash).copied()
                );
            }
            if run.step.is_multiple_of(1009) {
                index.check(&records);
            }
        }
        index.clear();
        assert_eq!((index.len(), index.bytes()), (0, 0));
    }
}
