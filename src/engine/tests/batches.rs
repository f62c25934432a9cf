//! Tests of the engine: batches. Each order is answered as by itself; what would be an
//! error of one of them is an error of all, and nothing is done.

use super::*;

#[test]
fn each_order_is_answered_as_by_itself() {
    story(&[
        (
            0.0,
            "MSCHEDULE PX 3 a 0 b 500 c 0 STATUS unpaid",
            "OK missing>expired, OK missing>scheduled, OK missing>expired",
        ),
        (
            0.0,
            "MSCHEDULE PX 2 a 5 d 5",
            "EXISTS expired, OK missing>scheduled",
        ),
        (
            0.0,
            "MSCHEDULE PX PAYLOADS 2 b 600 p d 900 '' GT FROM unpaid",
            "OK scheduled>scheduled, STATE scheduled",
        ),
        (0.0, "GET b", "scheduled +600 status:unpaid payload:p"),
        (0.0, "CLAIM me COUNT 2 PX 100", "a#1 c#1"),
        (
            1.0,
            "MRENEW 3 a $a c 7 x 7 PX 300",
            "OK 300, STALE leased, MISSING missing",
        ),
        (
            1.0,
            "MNACK 2 c $c a 7 DELAY 0 ERROR away",
            "OK leased>expired, STALE leased",
        ),
        (1.0, "CLAIM me PX 100", "c#2"),
        (2.0, "MNACK 1 c $c UNTRIED DELAY 0", "OK leased>expired"),
        (2.0, "GET c", "expired +0 status:unpaid #1 error:away"),
        (2.0, "CLAIM me PX 100", "c#2"),
        (
            3.0,
            "MACK STATUSES 3 a $a paid c $c '' x 7 s",
            "OK leased>finished, OK leased>finished, MISSING missing",
        ),
        (
            3.0,
            "GET a",
            "finished status:paid #1 owner:me keep:+86400003 at:+3 of:+0",
        ),
        (
            3.0,
            "MFINISH 4 a b x d STRICT KEEP 0",
            "FINISHED finished, OK scheduled>missing, MISSING missing, OK scheduled>missing",
        ),
        (
            3.0,
            "MFINISH 2 a y CREATE STATUS paid KEEP 10",
            "FINISHED finished, OK missing>finished",
        ),
    ]);
}

#[test]
fn the_second_of_two_with_one_id_meets_what_the_first_made() {
    story(&[
        (
            0.0,
            "MSCHEDULE PX 2 a 0 a 5",
            "OK missing>expired, EXISTS expired",
        ),
        (
            0.0,
            "MSCHEDULE PX 3 b 5 b 9 b 7 UPSERT GT",
            "OK missing>scheduled, OK scheduled>scheduled, UNCHANGED scheduled",
        ),
        (0.0, "CLAIM me PX 100", "a#1"),
        (0.0, "MRENEW 2 a $a a $a PX 200", "OK 200, OK 200"),
        (
            0.0,
            "MNACK 2 a $a a $a DELAY 0",
            "OK leased>expired, STALE expired",
        ),
        (0.0, "CLAIM me PX 100", "a#2"),
        (
            0.0,
            "MACK 2 a $a a $a",
            "OK leased>finished, FINISHED finished",
        ),
        (
            0.0,
            "MFINISH 2 b b",
            "OK scheduled>finished, FINISHED finished",
        ),
        (
            0.0,
            "MFINISH 2 c c CREATE KEEP 0",
            "OK missing>missing, OK missing>missing",
        ),
        (
            0.0,
            "MSCHEDULE PX 2 d 0 d 5 FROM '' UPSERT",
            "OK missing>expired, OK expired>scheduled",
        ),
    ]);
}

#[test]
fn a_deadline_that_is_too_far_names_its_place_and_nothing_is_done() {
    let mut bench = Bench::new(false);
    bench.run("SCHEDULE a PX 5");
    let before = digest(&bench.queue);
    let far = WALL_MS_MAX.0 - START_MS;
    for (batch, place) in [
        (format!("MSCHEDULE PX 3 x 5 y 6 z {}", far + 1), 3),
        (format!("MSCHEDULE PX 3 x {} y 6 z 5", far + 1), 1),
        // Of an order that would not be moved anyway, too: a SCHEDULE says the same.
        (format!("MSCHEDULE PX 2 x 5 a {} XX", far + 1), 2),
    ] {
        let said = format!("{} (order {place} of the list)", Error::DeadlineTooFar);
        assert_eq!(bench.run(&batch), said, "{batch}");
        assert_eq!(digest(&bench.queue), before, "{batch}");
    }
    let last = format!("MSCHEDULE PX 2 x 5 y {far}");
    assert_eq!(
        bench.run(&last),
        "OK missing>scheduled, OK missing>scheduled"
    );
}

/// What may grow is refused before the first order; what does not is done.
#[test]
fn a_full_queue_refuses_a_batch_that_may_grow_and_nothing_is_done() {
    use crate::engine::tables::arena::testing::set_pages_max;
    let mut bench = Bench::new(false);
    for id in ["a", "b", "c", "d", "e"] {
        bench.run(&format!("SCHEDULE {id} PX 0 PAYLOAD {}", "p".repeat(40)));
    }
    assert_eq!(bench.run("CLAIM me COUNT 2"), "a#1 b#1");
    set_pages_max(2);
    let before = digest(&bench.queue);
    for batch in [
        "MSCHEDULE PX 2 c 5 new 5",
        "MSCHEDULE PX 2 c 5 d 5 UPSERT",
        "MSCHEDULE PX PAYLOADS 2 c 5 p d 5 p XX",
        "MFINISH 2 c new CREATE",
    ] {
        assert_eq!(bench.run(batch), Error::QueueFull.to_string(), "{batch}");
        assert_eq!(digest(&bench.queue), before, "{batch}");
    }
    for (batch, said) in [
        (
            "MSCHEDULE PX 2 c 5 new 5 XX",
            "OK expired>scheduled, MISSING missing",
        ),
        ("MRENEW 2 a $a b $b EX 60", "OK 60000, OK 60000"),
        ("MACK STATUSES 1 a $a s", "OK leased>finished"),
        ("MNACK 1 b $b DELAY 0 ERROR e", "OK leased>expired"),
        (
            "MFINISH 3 b c new STATUS s",
            "OK expired>finished, OK scheduled>finished, MISSING missing",
        ),
    ] {
        assert_eq!(bench.run(batch), said, "{batch}");
    }
    bench.queue.check();
}

/// Room is asked for all of them: a page each, in the worst case.
#[test]
fn room_for_a_thousand_is_room_for_each_of_them() {
    use crate::engine::tables::arena::testing::set_pages_max;
    let mut bench = Bench::new(false);
    bench.compares = false;
    // Of several sizes, so that the arena is past its first page.
    for i in 0..300 {
        bench.run(&format!("SCHEDULE {i} PX 5 PAYLOAD {}", "p".repeat(i + 1)));
    }
    let batch = |n: usize| {
        let list: Vec<String> = (0..n).map(|i| format!("new{i} 5")).collect();
        format!("MSCHEDULE PX {n} {}", list.join(" "))
    };
    // 4096 pages are kept back for what changes.
    set_pages_max(4096 + 500);
    let is_full = |said: &str| said == Error::QueueFull.to_string();
    assert!(is_full(&bench.run(&batch(1000))), "a thousand do not fit");
    assert_eq!(bench.queue.len(), 300);
    assert!(!is_full(&bench.run(&batch(100))), "a hundred do");
    assert_eq!(bench.queue.len(), 400);
}

/// A queue that was restored with numbers at the end of the line: whoever would meet it
/// in the middle of a batch is told before its start.
#[test]
fn used_up_numbers_refuse_a_batch_before_its_first_order() {
    let used_up = Error::NumbersUsedUp.to_string();
    let mut bench = Bench::new(false);
    bench.run("MSCHEDULE PX 3 a 0 b 0 c 500");
    assert_eq!(bench.run("CLAIM me COUNT 2 PX 1000"), "a#1 b#1");
    // Two numbers are left for b, none for new orders above the floor.
    bench.carry(&Effect::Status {
        id: Bytes::of(b"b"),
        rev: NUMBER_END - 2,
        status: Bytes::of(b"s"),
        payload: None,
        ends_grant: false,
    });
    bench.carry(&Effect::Floor(NUMBER_END - 1));
    let before = digest(&bench.queue);
    for batch in [
        "MSCHEDULE PX 2 c 5 new 5",
        "MSCHEDULE PX 2 c 5 b 5 XX",
        "MFINISH 2 c new CREATE",
        "MFINISH 2 c b",
        "MACK 2 a $a b $b",
        "MNACK 2 a $a b $b",
        "MRENEW 2 a $a b $b PX 2000",
        // Twice the same: the second would find none.
        "MRENEW 2 b $b b $b PX 2000",
    ] {
        assert_eq!(bench.run(batch), used_up, "{batch}");
        assert_eq!(digest(&bench.queue), before, "{batch}");
    }
    // Who is not there takes no number, nor does one that has some left.
    for (batch, said) in [
        (
            "MSCHEDULE PX 2 c 600 new 5 XX",
            "OK scheduled>scheduled, MISSING missing",
        ),
        ("MRENEW 2 a $a new 7 PX 2000", "OK 2000, MISSING missing"),
        ("MRENEW 1 b $b PX 2000", "OK 2000"),
        ("MACK 2 a $a new 7", "OK leased>finished, MISSING missing"),
        ("MFINISH 2 c new", "OK scheduled>finished, MISSING missing"),
    ] {
        assert_eq!(bench.run(batch), said, "{batch}");
    }
    assert_eq!(bench.run("MACK 1 b $b"), used_up, "b had one number left");
}
