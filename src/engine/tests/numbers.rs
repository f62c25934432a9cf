//! Tests of the engine: numbers.

use super::*;

#[test]
fn a_grant_is_larger_than_the_last_than_the_floor_and_not_behind_the_clock() {
    let mut numbers = Numbers::new();
    let table = [
        // now, floor, grant
        (100, 0, 100),
        (100, 0, 101),
        (90, 0, 102),
        (90, 500, 501),
        (1000, 500, 1000),
        (1000, 1000, 1001),
        (NUMBER_END - 2, 0, NUMBER_END - 2),
        (5, 0, NUMBER_END - 1),
    ];
    for (now_us, floor, number) in table {
        assert_eq!(
            numbers.grant(now_us, floor),
            Some(number),
            "{now_us} {floor}"
        );
        assert_eq!(numbers.last(), number);
    }
    assert_eq!(numbers.grant(5, 0), None, "used up");
    assert_eq!(numbers.last(), NUMBER_END - 1, "and it stays that way");
    assert_eq!(numbers.grant(u64::MAX, u64::MAX), None);
}

/// Wherever a queue's numbers are - by the clock, ahead of it, out of reach of the
/// server's own, just before the end - each order of one CLAIM has a fence of its own.
#[test]
fn each_order_of_a_claim_has_its_own_fence_however_far_ahead_the_floor_is() {
    let start = START_MS * 1000;
    for floor in [
        1,
        start + 5,
        start + FOREIGN_AHEAD_US_MAX - 1,
        start + FOREIGN_AHEAD_US_MAX,
        start + FOREIGN_AHEAD_US_MAX + 1,
        4_070_908_810_022_341,
        NUMBER_END - (1 << 40) - 2,
        NUMBER_END - (1 << 40),
        NUMBER_END - 5,
    ] {
        for passes in [false, true] {
            let mut bench = Bench::new(passes);
            for id in ["a", "b", "c"] {
                bench.run(&format!("SCHEDULE {id} PX 0"));
            }
            bench.carry(&Effect::Floor(floor));
            assert_eq!(bench.run("CLAIM me COUNT 3"), "a#1 b#1 c#1");
            let fences: Vec<u64> = ["a", "b", "c"]
                .map(|id| bench.view(id).unwrap().fence)
                .to_vec();
            assert!(
                fences.first() > Some(&floor) && fences.is_sorted_by(|a, b| a < b),
                "{floor}: {fences:?}"
            );
            assert_eq!(bench.queue.floor(), fences[2]);
        }
    }
}

/// A queue and its copy are granted from by turns, on a server that was started anew
/// or taken over in between: no fence comes twice.
#[test]
fn a_queue_and_its_copy_hand_out_no_fence_twice() {
    let now_us = START_MS * 1000;
    for first in [
        now_us + 10,
        now_us + FOREIGN_AHEAD_US_MAX + 10,
        4_070_908_810_022_341,
    ] {
        let mut numbers = Numbers::new();
        let mut floors = [first, first, first + 7];
        let mut given = BTreeSet::new();
        for turn in 0..300 {
            if turn % 100 == 99 {
                // Another process: it learns of what is there, and moves on.
                numbers = Numbers::new();
                for floor in floors {
                    numbers.learn(floor, now_us);
                }
                numbers.guard(now_us, 1_000);
            }
            let floor = &mut floors[turn * turn % 3];
            let number = numbers.grant(now_us, *floor).unwrap();
            assert!(number > *floor && given.insert(number), "{first}: {number}");
            *floor = number;
        }
        assert!(
            numbers.last() <= now_us + FOREIGN_AHEAD_US_MAX,
            "and other queues go by the clock"
        );
    }
    // One queue at the end of the number line does not take the others along.
    let mut numbers = Numbers::new();
    numbers.learn(NUMBER_END - 1, now_us);
    assert_eq!(numbers.grant(now_us, NUMBER_END - 1), None);
    assert_eq!(
        numbers.grant(now_us, 4_070_908_810_022_341),
        Some(4_070_908_810_022_342)
    );
}

#[test]
fn a_write_takes_no_step_of_its_own_and_is_known() {
    let mut numbers = Numbers::new();
    assert_eq!(numbers.write(100, 0), Some(100));
    assert_eq!(numbers.write(100, 0), Some(100));
    assert_eq!(numbers.write(100, 100), Some(101));
    assert_eq!(
        numbers.write(100, 0),
        Some(101),
        "what was given out is known"
    );
    assert_eq!(numbers.grant(200, 0), Some(200));
    assert_eq!(numbers.write(100, 0), Some(200), "not behind a grant");
    assert_eq!(numbers.write(100, NUMBER_END - 2), Some(NUMBER_END - 1));
    assert_eq!(numbers.write(100, NUMBER_END - 1), None);
    assert_eq!(numbers.write(NUMBER_END, 0), None);
}

#[test]
fn foreign_numbers_count_up_to_an_hour_ahead_and_a_guard_lies_above_all() {
    let mut numbers = Numbers::new();
    assert!(numbers.learn(500, 100));
    assert_eq!(numbers.last(), 500);
    assert!(numbers.learn(400, 100));
    assert_eq!(numbers.last(), 500);
    assert!(numbers.learn(100 + FOREIGN_AHEAD_US_MAX, 100));
    assert_eq!(numbers.last(), 100 + FOREIGN_AHEAD_US_MAX);
    assert!(!numbers.learn(101 + FOREIGN_AHEAD_US_MAX, 100));
    assert_eq!(numbers.last(), 100 + FOREIGN_AHEAD_US_MAX);
    numbers.guard(7, 10);
    assert_eq!(numbers.last(), 110 + FOREIGN_AHEAD_US_MAX);
    let mut numbers = Numbers::new();
    numbers.guard(1000, 10);
    assert_eq!(numbers.grant(1005, 0), Some(1011));
}

#[test]
fn a_queue_whose_numbers_are_used_up_says_so_and_changes_nothing() {
    let mut bench = Bench::new(false);
    bench.run("SCHEDULE a PX 0");
    bench.carry(&Effect::Floor(NUMBER_END - 1));
    assert_eq!(bench.run("CLAIM me"), Error::NumbersUsedUp.to_string());
    assert_eq!(
        bench.run("FINISH a"),
        "OK expired>finished",
        "a plain write goes by its own order"
    );
    // An order whose own rev is the last number there is takes no write at all.
    let mut bench = Bench::new(false);
    bench.run("SCHEDULE a PX 0");
    let rev = NUMBER_END - 1;
    bench.carry(&Effect::Status {
        id: Bytes::of(b"a"),
        rev,
        status: Bytes::of(b"s"),
        payload: None,
        ends_grant: false,
    });
    for command in ["SCHEDULE a PX 0 XX", "FINISH a", "STATUS a t", "CLAIM me"] {
        assert_eq!(
            bench.run(command),
            Error::NumbersUsedUp.to_string(),
            "{command}"
        );
    }
    assert_eq!(bench.view("a").unwrap().rev, rev);
}

#[test]
fn a_rev_grows_with_each_write_also_when_the_clock_is_set_back() {
    let mut bench = Bench::new(true);
    let mut last = 0;
    for command in [
        "SCHEDULE a PX 0",
        "STATUS a s",
        "wall -5000",
        "SCHEDULE a PX 0 XX",
        "CLAIM me PX 1000",
        "RENEW a $a PX 2000",
        "NACK a $a DELAY 0",
        "wall -5000",
        "SCHEDULE a PX 0 XX",
        "CLAIM me PX 1000",
        "ACK a $a KEEP 10",
        "SCHEDULE a PX 5 FROM s",
        "FINISH a KEEP 10",
    ] {
        let said = bench.run(command);
        assert!(
            said.starts_with("OK") || said.starts_with('a') || said == "done",
            "{command}: {said}"
        );
        let rev = bench.view("a").unwrap().rev;
        assert!(
            rev > last || command.starts_with("wall"),
            "{command}: {rev} after {last}"
        );
        last = rev;
    }
    // What reads as missing still counts while it is there.
    bench.until(50.0);
    assert_eq!(bench.run("SCHEDULE a PX 5"), "OK missing>scheduled");
    assert!(bench.view("a").unwrap().rev > last);
    let fences = &bench.fences[b"a".as_slice()];
    assert!(fences.is_sorted() && fences.len() == 2 && fences[0] != fences[1]);
}
