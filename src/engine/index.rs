//! The index from id to record: linear hashing, chained through the records.
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
//!                           └── next to be split: its records with bit 8 set go here
//!
//!   bucket ─► head ─► record ─► record ─► NIL      (hash_next in the records)
//! ```
//!
//! A bucket is the handle of its first record, four bytes. Buckets live in pages
//! of 16384 that are filled from the left, so no table is ever rebuilt, moved or
//! cleared: the first page grows by doubling (at most 64 KiB are copied), later
//! ones are allocated whole. There are as many buckets as records, so a search
//! looks at about one and a half records; a byte of the hash kept in the record
//! (the *tag*) lets it skip the others without looking at their ids.
//!
//! The tag serves splits as well. A split needs one more bit of the hash of each
//! record of the bucket, and to compute it anew from the id costs a cache miss.
//! So the tag is not taken from the far end of the hash but from bits 17 to 24,
//! the very bits by which the buckets 131 072 to 33 554 431 are split. In return
//! it tells fewer records of a bucket apart there: a million records share a
//! bucket's first 19 or 20 bits, so the tag has 5 or 4 of use, and above 33
//! million it has none and ids are compared instead. An insert is what must be
//! fast at that size, and the ids of the few records of one bucket are few.
//!
//! Up to eight records hang in one single chain, without a table: most ids of a
//! partition with a handful of orders are found at the first tag.
//!
//! Removing merges buckets again when they are twice as many as records: two a
//! removal, as one would not keep up (the number of records that half the
//! buckets may hold falls by two with each bucket).
//!
//! Invariants ([`Index::check`] tests them): every record is in the bucket of its
//! hash, once; the pages hold exactly the buckets there are, or nothing if there
//! is one; `buckets <= max(1, records ever)`, and after a removal
//! `buckets <= 2 * records + 2`.
//!
//! Deliberately absent: keys (the records are asked), iteration (the slab is
//! scanned), and any defence against ids chosen to collide (the caller hashes
//! with a secret key).

use super::slab::NIL;

/// Records with a link for their hash chain.
///
/// A record that is not there reads as [`NIL`] and 0; setting its link does nothing.
pub trait Chained {
    /// The record behind `i` in its chain, or [`NIL`].
    fn hash_next(&self, i: u32) -> u32;
    /// Sets the record behind `i`.
    fn set_hash_next(&mut self, i: u32, next: u32);
    /// The whole hash of record `i`, computed anew from its id: asked when its
    /// bucket is split and the tag does not say where it goes.
    fn hash_of(&self, i: u32) -> u64;
    /// [`tag_of`] the hash, as kept in record `i`.
    fn tag(&self, i: u32) -> u8;
}

/// Records that one single chain holds before there is a table.
const SINGLE_MAX: u32 = 8;
/// At this many records the table is given up again. Less than [`SINGLE_MAX`],
/// so that a queue that swings around it does not allocate at each swing.
const SINGLE_AGAIN: u32 = 4;
/// Buckets of a page, as a power of two: 64 KiB.
const PAGE_BITS: u32 = 14;
/// Buckets of a page.
const PAGE_BUCKETS: usize = 1 << PAGE_BITS;
/// The most buckets there are; beyond, chains grow.
const BUCKETS_MAX: u32 = 1 << 31;

/// The lowest hash bit of a tag.
const TAG_SHIFT: u32 = 17;

/// The part of a hash that a record keeps, bits 17 to 24; see the head of the
/// file. The bucket is chosen by the bottom bits.
pub const fn tag_of(hash: u64) -> u8 {
    (hash >> TAG_SHIFT) as u8
}

/// The index; see the head of the file.
#[derive(Debug)]
pub struct Index {
    /// Heads of the chains, [`NIL`] for an empty one; nothing while there is one bucket.
    pages: Vec<Vec<u32>>,
    /// Head of the chain while there is one bucket.
    single: u32,
    /// Number of buckets, 1 and up.
    buckets: u32,
    /// Number of records.
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
            single: NIL,
            buckets: 1,
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
    pub const fn bytes(&self) -> usize {
        self.page_bytes + self.pages.capacity() * size_of::<Vec<u32>>()
    }

    /// Forgets all records, and leaves them as they are. O(pages).
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// The record with this hash for which `same` says yes: `same` compares
    /// ids, and is asked only where the tag fits. O(1) on average.
    #[inline]
    pub fn find(&self, chain: &impl Chained, hash: u64, same: impl Fn(u32) -> bool) -> Option<u32> {
        let tag = tag_of(hash);
        let mut i = self.head(self.bucket_of(hash));
        while i != NIL {
            if chain.tag(i) == tag && same(i) {
                return Some(i);
            }
            i = chain.hash_next(i);
        }
        None
    }

    /// Puts record `i` in, which has this hash and is not in the index. Splits
    /// at most one bucket: O(1) on average, at worst O(records of one bucket).
    pub fn insert(&mut self, chain: &mut impl Chained, hash: u64, i: u32) {
        let bucket = self.bucket_of(hash);
        chain.set_hash_next(i, self.head(bucket));
        self.set_head(bucket, i);
        self.len += 1;
        if self.len > SINGLE_MAX && self.len > self.buckets && self.buckets < BUCKETS_MAX {
            self.split(chain);
        }
    }

    /// Takes record `i` with this hash out; false if it is not in. Merges at
    /// most two buckets: O(1) on average, at worst O(records of three buckets).
    pub fn remove(&mut self, chain: &mut impl Chained, hash: u64, i: u32) -> bool {
        let bucket = self.bucket_of(hash);
        let mut before = NIL;
        let mut at = self.head(bucket);
        while at != i {
            if at == NIL {
                return false;
            }
            before = at;
            at = chain.hash_next(at);
        }
        if i == NIL {
            return false;
        }
        let next = chain.hash_next(i);
        if before == NIL {
            self.set_head(bucket, next);
        } else {
            chain.set_hash_next(before, next);
        }
        chain.set_hash_next(i, NIL);
        self.len -= 1;
        if self.len <= SINGLE_AGAIN {
            // At most 2 * SINGLE_AGAIN + 4 buckets, so this is a short loop.
            while self.buckets > 1 {
                self.merge(chain);
            }
        } else {
            for _ in 0..2 {
                if self.buckets > 1 && self.buckets / 2 > self.len {
                    self.merge(chain);
                }
            }
        }
        true
    }

    /// The largest power of two that is not above the number of buckets.
    const fn low(&self) -> u32 {
        1 << self.buckets.ilog2()
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
            bucket as usize & (PAGE_BUCKETS - 1),
        )
    }

    /// First record of a bucket.
    fn head(&self, bucket: u32) -> u32 {
        if self.buckets == 1 {
            return self.single;
        }
        let (page, place) = Self::place(bucket);
        self.pages
            .get(page)
            .and_then(|page| page.get(place))
            .copied()
            .unwrap_or(NIL)
    }

    /// Sets the first record of a bucket.
    fn set_head(&mut self, bucket: u32, i: u32) {
        if self.buckets == 1 {
            self.single = i;
            return;
        }
        let (page, place) = Self::place(bucket);
        if let Some(head) = self
            .pages
            .get_mut(page)
            .and_then(|page| page.get_mut(place))
        {
            *head = i;
        }
    }

    /// Appends a bucket to the pages. The first page grows from 16 buckets by
    /// doubling, later ones are allocated whole.
    fn push_head(&mut self, head: u32) {
        if self
            .pages
            .last()
            .is_none_or(|page| page.len() == PAGE_BUCKETS)
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
                page.len().clamp(16, PAGE_BUCKETS / 2)
            } else {
                PAGE_BUCKETS
            };
            let before = page.capacity();
            page.reserve_exact(more);
            self.page_bytes += (page.capacity() - before) * size_of::<u32>();
        }
        page.push(head);
    }

    /// Takes the last bucket from the pages and returns its head. An empty page
    /// is given back, but for the first.
    fn pop_head(&mut self) -> u32 {
        let first = self.pages.len() == 1;
        let Some(page) = self.pages.last_mut() else {
            return NIL;
        };
        let head = page.pop().unwrap_or(NIL);
        if page.is_empty() && !first {
            self.page_bytes -= page.capacity() * size_of::<u32>();
            self.pages.pop();
        }
        head
    }

    /// Makes one bucket more: the records of the bucket whose turn it is that
    /// have the next hash bit set move to it. Both chains keep their order, so
    /// only links at the seams are written.
    fn split(&mut self, chain: &mut impl Chained) {
        let new = self.buckets;
        let low = self.low();
        let source = new & (low - 1);
        // Which bit of a tag tells who moves, if one does.
        let tag_bit = low
            .ilog2()
            .checked_sub(TAG_SHIFT)
            .filter(|bit| *bit < u8::BITS);
        let mut i = self.head(source);
        // Head and last record of the chain that stays and of the one that moves.
        let mut heads = [NIL; 2];
        let mut lasts = [NIL; 2];
        while i != NIL {
            let next = chain.hash_next(i);
            let moves = match tag_bit {
                Some(bit) => usize::from(chain.tag(i) >> bit & 1),
                None => usize::from(chain.hash_of(i) as u32 & low != 0),
            };
            let (Some(head), Some(last)) = (heads.get_mut(moves), lasts.get_mut(moves)) else {
                return;
            };
            if *last == NIL {
                *head = i;
            } else if chain.hash_next(*last) != i {
                chain.set_hash_next(*last, i);
            }
            *last = i;
            i = next;
        }
        for last in lasts {
            if last != NIL && chain.hash_next(last) != NIL {
                chain.set_hash_next(last, NIL);
            }
        }
        let [stays, moves] = heads;
        if new == 1 {
            self.push_head(stays);
            self.single = NIL;
        }
        self.push_head(moves);
        self.buckets += 1;
        self.set_head(source, stays);
    }

    /// Makes one bucket less: the last one is hung on to the one it was split from.
    fn merge(&mut self, chain: &mut impl Chained) {
        let last = self.buckets - 1;
        let target = last & !(1 << last.ilog2());
        let head = self.pop_head();
        let kept = self.head(target);
        let joined = if head == NIL {
            kept
        } else {
            let mut end = head;
            while chain.hash_next(end) != NIL {
                end = chain.hash_next(end);
            }
            chain.set_hash_next(end, kept);
            head
        };
        self.buckets = last;
        if last == 1 {
            self.pages = Vec::new();
            self.page_bytes = 0;
        }
        self.set_head(target, joined);
    }

    /// Tests the invariants at the head of the file, in tests and debug builds only.
    /// O(buckets + records).
    ///
    /// # Panics
    ///
    /// If one is broken.
    #[cfg(any(test, debug_assertions))]
    pub fn check(&self, chain: &impl Chained) {
        let mut met = 0;
        for bucket in 0..self.buckets {
            let mut i = self.head(bucket);
            while i != NIL {
                let hash = chain.hash_of(i);
                assert_eq!(self.bucket_of(hash), bucket, "bucket of record {i}");
                assert_eq!(chain.tag(i), tag_of(hash), "tag of record {i}");
                met += 1;
                assert!(met <= self.len, "more records than counted, or a ring");
                i = chain.hash_next(i);
            }
        }
        assert_eq!(met, self.len, "records");
        let heads: usize = self.pages.iter().map(Vec::len).sum();
        assert_eq!(
            heads,
            if self.buckets == 1 {
                0
            } else {
                self.buckets as usize
            },
            "buckets in pages"
        );
        let bytes: usize = self
            .pages
            .iter()
            .map(|page| page.capacity() * size_of::<u32>())
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

    use super::super::slab::testing::Run;
    use super::*;

    /// Hash and chain link of each record.
    #[derive(Default)]
    struct Records(Vec<(u64, u32)>);

    impl Records {
        /// Adds a record with this hash and puts it in.
        fn add(&mut self, index: &mut Index, hash: u64) -> u32 {
            self.0.push((hash, NIL));
            let i = self.0.len() as u32 - 1;
            index.insert(self, hash, i);
            i
        }
    }

    impl Chained for Records {
        fn hash_next(&self, i: u32) -> u32 {
            self.0[i as usize].1
        }
        fn set_hash_next(&mut self, i: u32, next: u32) {
            self.0[i as usize].1 = next;
        }
        fn hash_of(&self, i: u32) -> u64 {
            self.0[i as usize].0
        }
        fn tag(&self, i: u32) -> u8 {
            tag_of(self.0[i as usize].0)
        }
    }

    #[test]
    fn eight_records_need_no_table() {
        let mut index = Index::new();
        let mut records = Records::default();
        for hash in 0..8 {
            records.add(&mut index, hash);
            assert_eq!(index.bytes(), 0);
        }
        records.add(&mut index, 8);
        assert_eq!(index.buckets, 2);
        assert!(index.bytes() <= 100, "{} bytes", index.bytes());
        index.check(&records);
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
    fn an_insert_splits_at_most_one_bucket_and_a_removal_merges_at_most_two() {
        const COUNT: u32 = 300_000;
        let mut index = Index::new();
        let mut records = Records::default();
        let mut run = Run::new();
        // Enough for the splits that ask the tag.
        for _ in 0..COUNT {
            let before = index.buckets;
            records.add(&mut index, run.random.next());
            assert!(index.buckets - before <= 1);
        }
        index.check(&records);
        assert!((COUNT - 10..=COUNT).contains(&index.buckets));
        let pages = index.bytes().div_ceil(65_536);
        assert_eq!(pages, COUNT.div_ceil(PAGE_BUCKETS as u32) as usize + 1);
        for i in 0..COUNT {
            let before = index.buckets;
            let hash = records.hash_of(i);
            assert!(index.remove(&mut records, hash, i));
            if index.len() > SINGLE_AGAIN as usize {
                assert!(before - index.buckets <= 2);
            }
            assert!(index.buckets as usize <= 2 * index.len() + 2 || i < COUNT / 2);
            if i % 50_000 == 0 {
                index.check(&records);
            }
        }
        assert_eq!((index.buckets, index.bytes(), index.len()), (1, 0, 0));
    }

    #[test]
    fn equal_hashes_share_a_chain_and_are_told_apart_by_the_record() {
        let mut index = Index::new();
        let mut records = Records::default();
        for _ in 0..500 {
            records.add(&mut index, 0x0156_0001);
        }
        index.check(&records);
        for i in [0, 250, 499] {
            assert_eq!(index.find(&records, 0x0156_0001, |at| at == i), Some(i));
        }
        assert_eq!(index.find(&records, 0x0156_0001, |_| false), None);
        // Another tag in the same bucket: nobody is asked.
        assert_eq!(index.find(&records, 0x0158_0001, |_| panic!("asked")), None);
        assert!(index.remove(&mut records, 0x0156_0001, 250));
        assert!(!index.remove(&mut records, 0x0156_0001, 250));
        assert!(!index.remove(&mut records, 5, NIL));
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
                target = [0, 3, 9, 40, 700, 20_000][run.random.below(6) as usize];
            }
            let grow = used.len() < target;
            if run.random.below(10) < if grow { 8 } else { 3 } {
                let hash = match run.random.below(3) {
                    0 => run.random.next(),
                    1 => run.random.below(1 << 16),
                    _ => run.random.next() & 0x01fe_00ff,
                };
                if let Some(i) = model.get(&hash) {
                    assert_eq!(
                        index.find(&records, hash, |at| records.hash_of(at) == hash),
                        Some(*i)
                    );
                    continue;
                }
                assert_eq!(
                    index.find(&records, hash, |at| records.hash_of(at) == hash),
                    None
                );
                let i = if let Some(i) = free.pop() {
                    records.0[i as usize].0 = hash;
                    index.insert(&mut records, hash, i);
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
                assert!(index.remove(&mut records, hash, i));
                assert!(!index.remove(&mut records, hash, i));
                free.push(i);
            }
            assert_eq!(index.len(), used.len());
            if let Some(hash) = used.get(run.random.below(used.len().max(1) as u64) as usize) {
                assert_eq!(
                    index.find(&records, *hash, |at| records.hash_of(at) == *hash),
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
