//! Tests of `index`.

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
