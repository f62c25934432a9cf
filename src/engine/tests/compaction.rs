//! A queue that has shrunk gives memory back, and nothing of it shows.

use std::collections::{BTreeSet, HashMap};

use super::super::tables::slab::tight::MOVES_MAX;
use super::{Bench, digest};
use crate::testing::Run;

/// A bench for many orders.
fn bench() -> Bench {
    let mut bench = Bench::new(false);
    bench.compares = false;
    bench
}

/// What the orders of a queue are like.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// They wait for deadlines that are minutes apart, or equal.
    Waiting,
    /// All are claimed.
    Leased,
    /// All are finished and kept.
    Kept,
    /// They wait, with payloads of up to 600 bytes, some of 9,000.
    Payload,
    /// They were announced, and wait to be claimed.
    Expired,
}

/// The id of an order.
fn id(n: u32) -> String {
    format!("order:{n:010}")
}

/// A number that looks random and is the same for one `n`.
fn mixed(n: u32) -> u32 {
    let mut mixed = u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 33) as u32
}

/// A queue with these orders; those that do not `stay` are kept for a short time,
/// where they are kept.
fn built(kind: Kind, orders: impl Iterator<Item = u32>, stays: impl Fn(u32) -> bool) -> Bench {
    let mut bench = bench();
    build(&mut bench, kind, orders, stays);
    bench
}

/// As [`built`], into a queue that is there.
fn build(
    bench: &mut Bench,
    kind: Kind,
    orders: impl Iterator<Item = u32>,
    stays: impl Fn(u32) -> bool,
) {
    let mut count = 0;
    for n in orders {
        count += 1;
        let id = id(n);
        let said = match kind {
            Kind::Waiting => {
                let at = 60_000 + mixed(n) % 100 * 60_000;
                bench.run(&format!("SCHEDULE {id} PX {at}"))
            }
            Kind::Payload => {
                let len = if n.is_multiple_of(97) { 9_000 } else { 600 };
                let payload = "p".repeat((mixed(n) % len) as usize);
                bench.run(&format!("SCHEDULE {id} PX 60000 PAYLOAD p{payload}"))
            }
            Kind::Leased | Kind::Expired => bench.run(&format!("SCHEDULE {id} PX 0")),
            Kind::Kept => {
                let keep = if stays(n) { 86_400_000 } else { 10 };
                bench.run(&format!("FINISH {id} CREATE KEEP {keep}"))
            }
        };
        assert!(said.starts_with("OK"), "{said}");
    }
    match kind {
        Kind::Leased => while bench.run("CLAIM w COUNT 1000 PX 3600000") != "-" {},
        Kind::Expired => {
            let said = bench.run("pass");
            assert_eq!(said.split(' ').count(), count);
        }
        _ => {}
    }
}

/// Where everything is: record, and its body, of each order.
fn handles(bench: &Bench) -> HashMap<Vec<u8>, (u32, u32)> {
    let rows = &bench.queue.store.rows;
    let all = (0..rows.end()).filter_map(|i| Some((i, rows.get(i)?.body)));
    all.map(|(i, body)| (rows.id(i).to_vec(), (i, body)))
        .collect()
}

/// Compacts step by step; after each one all is whole, and little has moved.
fn compact_in_steps(bench: &mut Bench) {
    let mut before = handles(bench);
    let state = digest(&bench.queue);
    loop {
        let done = bench.queue.compact(&mut || false);
        bench.queue.check();
        let after = handles(bench);
        let moved = |differs: &dyn Fn((u32, u32), (u32, u32)) -> bool| {
            let all = after.iter().filter(|(id, at)| differs(before[*id], **at));
            all.count()
        };
        assert!(moved(&|was, is| was.0 != is.0) <= MOVES_MAX, "records");
        assert!(moved(&|was, is| was.1 != is.1) <= MOVES_MAX, "bodies");
        assert_eq!(after.len(), before.len());
        before = after;
        if done {
            break;
        }
    }
    assert_eq!(digest(&bench.queue), state);
    assert!(!bench.queue.is_sparse());
}

#[test]
fn a_queue_that_has_shrunk_takes_at_most_twice_what_a_fresh_one_takes() {
    for kind in [
        Kind::Waiting,
        Kind::Leased,
        Kind::Kept,
        Kind::Payload,
        Kind::Expired,
    ] {
        for (orders, of_hundred) in [(1_500, 10), (9_000, 10), (20_000, 1), (20_000, 10)] {
            let stays = |n| mixed(n) % 100 < of_hundred;
            let mut bench = built(kind, 0..orders, stays);
            let all = bench.queue.bytes();
            bench.until(20.0);
            for n in (0..orders).filter(|n| !stays(*n)) {
                let id = id(n);
                match kind {
                    Kind::Leased => bench.run(&format!("ACK {id} ${id} KEEP 0")),
                    Kind::Kept => break,
                    _ => bench.run(&format!("FINISH {id} KEEP 0")),
                };
            }
            while bench.run("forget 1000") != "-" {}
            let fresh = built(kind, (0..orders).filter(|n| stays(*n)), stays);
            assert_eq!(bench.queue.len(), fresh.queue.len());
            let (before, fresh) = (bench.queue.bytes(), fresh.queue.bytes());
            compact_in_steps(&mut bench);
            let after = bench.queue.bytes();
            let said = format!(
                "{kind:?}, {of_hundred} of 100 of {orders}: {all}, {before}, {after}, fresh {fresh}"
            );
            assert!(before > 2 * fresh, "nothing to do: {said}");
            assert!(after <= 2 * fresh, "{said}");
            // The last ones can still go.
            for n in (0..orders).filter(|n| stays(*n)) {
                let id = id(n);
                match kind {
                    Kind::Leased => bench.run(&format!("ACK {id} ${id} KEEP 0")),
                    Kind::Kept => bench.run("PURGE STATE finished"),
                    _ => bench.run(&format!("FINISH {id} KEEP 0")),
                };
            }
            assert!(bench.queue.is_empty());
            bench.queue.compact(&mut || true);
            // The meters stay.
            assert!(bench.queue.bytes() < 9_000, "{}", bench.queue.bytes());
        }
    }
}

#[test]
fn a_queue_that_breathes_is_left_alone() {
    for orders in [200, 3_000, 20_000] {
        let mut bench = built(Kind::Waiting, 0..orders, |_| true);
        for round in 0..3 {
            let goes = |n: &u32| mixed(*n + round * orders) % 10 < 3;
            for n in (0..orders).filter(goes) {
                bench.run(&format!("FINISH {} KEEP 0", id(n)));
                let sparse = bench.queue.sparse_parts();
                assert_eq!(sparse, "[]", "{n} of {orders}, round {round}");
            }
            build(&mut bench, Kind::Waiting, (0..orders).filter(goes), |_| {
                true
            });
        }
    }
}

/// Two queues with the same life. One is compacted at any moment, wholly or in
/// part, and its replica at others: whatever is asked, both say the same.
#[test]
fn compaction_changes_no_answer_no_order_and_no_wake() {
    let mut run = Run::new();
    let (mut moving, mut still) = (bench(), bench());
    let mut ms = 0.0;
    let mut grows = true;
    let steps = run.steps / 4;
    while run.step < steps {
        run.step += 1;
        let many = moving.queue.len();
        grows = if grows { many < 9_000 } else { many < 300 };
        let n = run.random.below(12_000) as u32;
        let (id, then) = (id(n), run.random.below(4_000));
        let fence = moving
            .fences
            .get(id.as_bytes())
            .map_or(1, |fences| fences[fences.len() - 1]);
        let line = match run.random.below(if grows { 100 } else { 240 }) {
            0..=49 => format!(
                "SCHEDULE {id} PX {then} PAYLOAD {:0>1$}",
                n,
                n as usize % 300
            ),
            50..=54 => format!("SCHEDULE {id} PX {then} XX STATUS s{}", then % 5),
            55..=59 => format!("LOCK {id} me PX {then} FP {then}"),
            60..=64 => format!("CLAIM w COUNT {} PX {then}", then % 50 + 1),
            65..=69 => format!("ACK {id} {fence} KEEP {then}"),
            70..=74 => format!("NACK {id} {fence} DELAY {} ERROR e{then}", then % 300),
            75..=76 => format!("NACK {id} {fence} DEAD"),
            77..=79 => format!("RENEW {id} {fence} PX {then}"),
            80..=82 => format!("UNLOCK {id} {fence}"),
            83 => format!("BREAK {id}"),
            84 => format!("STATUS {id} s{}", then % 5),
            85..=88 => format!("GET {id}"),
            89 => "NEXT 100".into(),
            90 => "REQUEUE COUNT 5".into(),
            91 => "PURGE STATE dead COUNT 10".into(),
            92..=94 => format!("pass {}", then % 40),
            95 => "promote".into(),
            96 => "forget 30".into(),
            97 => "wake".into(),
            98 => format!("wall {}", (then % 200) as i64 - 60),
            99 => "lapsed".into(),
            _ => format!("FINISH {id} KEEP {}", then.saturating_sub(3_000)),
        };
        ms += (then % 5) as f64;
        moving.until(ms);
        still.until(ms);
        assert_eq!(moving.run(&line), still.run(&line), "{line}");
        for queue in [&mut moving.queue, &mut moving.replica] {
            let mut budget = run.random.below(40);
            if run.random.below(60) == 0 {
                queue.compact_all(&mut || {
                    budget = budget.saturating_sub(1);
                    budget > 0
                });
            }
        }
        if run.step.is_multiple_of(499) {
            moving.queue.check();
            moving.replica.check();
            let state = digest(&still.queue);
            assert!(state == digest(&moving.queue) && state == digest(&moving.replica));
            assert_eq!(moving.run("wake"), still.run("wake"));
            for field in ["scheduled", "expired", "leased", "dead", "finished"] {
                assert_eq!(moving.stat(field), still.stat(field), "{field}");
            }
        }
    }
    // What is left is claimed in the same order, and none of it is lost.
    moving.until(ms + 1e7);
    still.until(ms + 1e7);
    let mut left = 0;
    loop {
        let said = still.run("CLAIM w COUNT 100 PX 1");
        assert_eq!(moving.run("CLAIM w COUNT 100 PX 1"), said);
        moving.queue.compact_all(&mut || false);
        if said == "-" {
            break;
        }
        left += said.split(' ').count();
    }
    assert!(left > 100, "{left}");
}

#[test]
fn scan_returns_what_is_there_all_the_time_whatever_moves_meanwhile() {
    let mut run = Run::new();
    for round in 0..20 {
        run.step = round;
        let stays = |n: u32| mixed(n + round as u32).is_multiple_of(10);
        let mut bench = built(Kind::Waiting, 0..9_000, stays);
        let mut goes: Vec<u32> = (0..9_000).filter(|n| !stays(*n)).collect();
        let (mut cursor, mut met, mut new) = ("0".to_owned(), BTreeSet::new(), 9_000);
        loop {
            for _ in 0..run.random.below(100) {
                let at = run.random.below(goes.len().max(1) as u64) as usize;
                if at < goes.len() {
                    bench.run(&format!("FINISH {} KEEP 0", id(goes.swap_remove(at))));
                }
            }
            if run.random.below(4) == 0 {
                new += 1;
                bench.run(&format!("SCHEDULE {} PX 5", id(new)));
            }
            let mut budget = run.random.below(8);
            bench.queue.compact_all(&mut || {
                budget = budget.saturating_sub(1);
                budget > 0
            });
            let said = bench.run(&format!("SCAN {cursor} COUNT 50"));
            let mut words = said.split(' ');
            cursor = words.next().unwrap().to_owned();
            met.extend(words.map(|row| row.rsplit_once(':').unwrap().0.to_owned()));
            if cursor == "0" {
                break;
            }
        }
        for n in (0..9_000).filter(|n| stays(*n)) {
            assert!(met.contains(&id(n)), "{n} was missed");
        }
    }
}

#[test]
fn purge_comes_to_all_whatever_moves_meanwhile() {
    let mut run = Run::new();
    let mut bench = bench();
    for n in 0..6_000 {
        let status = ["x", "y"][(mixed(n) % 2) as usize];
        bench.run(&format!("SCHEDULE {} PX 60000 STATUS {status}", id(n)));
    }
    let wanted = (0..6_000).filter(|n| mixed(*n).is_multiple_of(2)).count();
    let mut done = 0;
    for _ in 0..6_000 {
        let said = bench.run("PURGE STATE scheduled STATUS x COUNT 20");
        done += said
            .split(' ')
            .filter(|word| word.starts_with("order"))
            .count();
        let mut budget = run.random.below(3);
        bench.queue.compact_all(&mut || {
            budget = budget.saturating_sub(1);
            budget > 0
        });
    }
    assert_eq!((done, bench.queue.len()), (wanted, 6_000 - wanted));
    bench.queue.check();
}
