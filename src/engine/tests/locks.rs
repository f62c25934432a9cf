//! Tests of the engine: locks.

use super::*;

#[test]
fn a_lock_taken_again_by_its_owner_is_held_and_never_shortened() {
    story(&[
        (0.0, "LOCK a me PX 1000", "OK missing>reserved"),
        (0.0, "GET a", "reserved owner:me lease:1000"),
        (100.0, "LOCK a me PX 10", "HELD 900 x1"),
        (100.0, "LOCK a you PX 9000", "BUSY reserved"),
        (100.5, "LOCK a me PX 10", "HELD 899 x1"),
        (101.0, "LOCK a me PX 5000", "HELD 5000 x1"),
        (5100.999, "GET a", "reserved owner:me lease:1"),
        (5100.999, "UNLOCK a $a", "OK reserved>missing"),
        (5100.999, "UNLOCK a $a", "MISSING missing"),
        (5100.999, "LOCK a you PX 1", "OK missing>reserved"),
    ]);
    // The same with an order, whose deadline is not touched.
    story(&[
        (0.0, "SCHEDULE a PX 60000", "OK missing>scheduled"),
        (0.0, "LOCK a me PX 1000", "OK scheduled>leased"),
        (10.0, "LOCK a me PX 1000", "HELD 1000 x1"),
        (10.0, "LOCK a you PX 1000", "BUSY leased"),
        (10.0, "UNLOCK a 1", "STALE leased"),
        (10.0, "UNLOCK a $a", "OK leased>scheduled"),
        (10.0, "UNLOCK a $a", "GONE scheduled"),
        (10.0, "GET a", "scheduled +60000"),
        (10.0, "LOCK a you PX 1000", "OK scheduled>leased"),
        (10.0, "UNLOCK a $a.1", "STALE leased"),
        (10.0, "RENEW a $a.1 PX 5000", "STALE leased"),
    ]);
}

#[test]
fn a_reentrant_lock_counts_up_and_down_under_one_fence() {
    story(&[
        (0.0, "LOCK a me PX 1000 REENTRANT", "OK missing>reserved"),
        (10.0, "LOCK a me PX 1000 REENTRANT", "HELD 1000 x2"),
        (20.0, "LOCK a me PX 10", "HELD 990 x2"),
        (20.0, "LOCK a me PX 10 REENTRANT", "HELD 990 x3"),
        (20.0, "GET a", "reserved owner:me lease:990 x3"),
        (30.0, "UNLOCK a $a", "HELD 980 x2"),
        (30.5, "UNLOCK a $a", "HELD 979 x1"),
        (31.0, "LOCK a you PX 10", "BUSY reserved"),
        (31.0, "UNLOCK a $a", "OK reserved>missing"),
    ]);
    // It lapses as a whole, and BREAK ends it as a whole.
    story(&[
        (0.0, "SCHEDULE a PX 60000", "OK missing>scheduled"),
        (0.0, "LOCK a me PX 1000", "OK scheduled>leased"),
        (0.0, "LOCK a me PX 1000 REENTRANT", "HELD 1000 x2"),
        (0.0, "reload", "done"),
        (0.0, "LOCK a me PX 1000 REENTRANT", "HELD 1000 x3"),
        (999.999, "LOCK a you PX 10", "BUSY leased"),
        (1000.0, "UNLOCK a $a", "GONE scheduled"),
        (1000.0, "LOCK a you PX 10", "OK scheduled>leased"),
        (1000.0, "LOCK a you PX 10 REENTRANT", "HELD 10 x2"),
        (1000.0, "BREAK a", "OK leased>scheduled"),
        (1000.0, "UNLOCK a $a", "GONE scheduled"),
    ]);
}

#[test]
fn no_lock_passes_its_cap() {
    // MAX, whatever the renewals.
    story(&[
        (0.0, "LOCK a me PX 1000 MAX 3000", "OK missing>reserved"),
        (500.0, "RENEW a $a PX 86400000", "OK 2500"),
        (1000.0, "LOCK a me PX 9000", "HELD 2000 x1"),
        (1000.0, "LOCK a me PX 9000 MAX 9000", "HELD 2000 x1"),
        (2000.0, "RENEW a $a PX 1", "OK 1000"),
        (2999.0, "RENEW a $a PX 9000", "OK 1"),
        (3000.0, "RENEW a $a PX 9000", "MISSING missing"),
        (3000.0, "LOCK a me PX 9000 MAX 10", "OK missing>reserved"),
        (3000.0, "GET a", "reserved owner:me lease:10"),
    ]);
    // The queue's setting, at the time of the grant.
    story(&[
        (0.0, "LOCK b me PX 900000", "OK missing>reserved"),
        (0.0, "GET b", "reserved owner:me lease:600000"),
        (0.0, "CONFIG SET lock-ms-max 500", "done"),
        (0.0, "LOCK a me PX 100 MAX 9000", "OK missing>reserved"),
        (0.0, "RENEW a $a PX 9000", "OK 500"),
        (0.0, "CONFIG SET lock-ms-max 5000", "done"),
        (100.0, "RENEW a $a PX 9000", "OK 400"),
        (100.0, "GET b", "reserved owner:me lease:599900"),
        (100.0, "LOCK c me PX 6000", "OK missing>reserved"),
        (100.0, "GET c", "reserved owner:me lease:5000"),
    ]);
    // And the server's.
    let mut bench = Bench::new(true);
    bench.defaults.lease_ms_max = 2000;
    tell(
        &mut bench,
        &[
            (0.0, "LOCK a me PX 1000", "OK missing>reserved"),
            (0.0, "RENEW a $a PX 2000", "OK 2000"),
            (500.0, "RENEW a $a PX 2000", "OK 1500"),
            (500.0, "RENEW a $a PX 100 LT", "OK 100"),
            (500.0, "RENEW a $a PX 200 LT", "OK 100"),
            (600.0, "RENEW a $a PX 200", "MISSING missing"),
        ],
    );
}

#[test]
fn a_lock_taken_before_the_deadline_defers_the_close_to_its_end() {
    let start: [Row<'_>; 6] = [
        (
            0.0,
            "SCHEDULE a PX 1000 STATUS unpaid",
            "OK missing>scheduled",
        ),
        (900.0, "LOCK a me PX 500", "OK scheduled>leased"),
        (1000.0, "pass", "-"),
        (1000.0, "CLAIM you", "-"),
        (1000.0, "CLAIM you ID a", "-"),
        (1200.0, "LOCK a you PX 500", "BUSY leased"),
    ];
    for end in [
        // It ends by itself, is given back, is broken, or the order is paid.
        &[
            (1399.999, "CLAIM you", "-"),
            (1400.0, "RENEW a $a PX 500", "GONE expired"),
            (1400.0, "LOCK a me PX 500", "EXPIRED expired"),
            (1400.0, "pass", "lapsed:a expired:a"),
            (1400.0, "CLAIM you", "a#1"),
            (1400.0, "FINISH a FENCE $a.1", "STALE leased"),
        ][..],
        &[
            (1300.0, "UNLOCK a $a", "OK leased>expired"),
            (1300.0, "pass", "expired:a"),
            (1300.0, "LOCK a me PX 500", "EXPIRED expired"),
            (1300.0, "CLAIM you", "a#1"),
        ],
        &[
            (1300.0, "BREAK a", "OK leased>expired"),
            (1300.0, "ACK a $a", "STALE expired"),
            (1300.0, "CLAIM you", "a#1"),
        ],
        &[
            (
                1300.0,
                "FINISH a FENCE $a FROM unpaid STATUS paid RESULT r",
                "OK leased>finished",
            ),
            (9000.0, "CLAIM you", "-"),
            (9000.0, "pass", "-"),
        ],
        &[(1300.0, "FINISH a FENCE $a STRICT", "EXPIRED leased")],
        // Late, but before anybody else.
        &[(1500.0, "FINISH a FENCE $a", "OK expired>finished")],
    ] {
        let rows: Vec<Row<'_>> = start.iter().chain(end).copied().collect();
        story(&rows);
    }
}

#[test]
fn no_close_is_deferred_past_the_cap_of_a_lock() {
    story(&[
        (0.0, "SCHEDULE a PX 1000", "OK missing>scheduled"),
        (900.0, "LOCK a me PX 500 MAX 800", "OK scheduled>leased"),
        (1300.0, "RENEW a $a PX 5000", "OK 400"),
        (1600.0, "LOCK a me PX 5000", "HELD 100 x1"),
        (1699.999, "CLAIM you", "-"),
        (1700.0, "LOCK a me PX 500", "EXPIRED expired"),
        (1700.0, "CLAIM you", "a#1"),
    ]);
}

#[test]
fn it_is_too_late_for_a_lock_from_the_deadline_on() {
    story(&[
        (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 100", "OK missing>scheduled"),
        (99.999, "LOCK a me PX 1", "OK scheduled>leased"),
        (100.0, "LOCK b me PX 1", "EXPIRED expired"),
        (100.0, "CLAIM me ID b PX 500", "b#1"),
        (100.0, "LOCK b me PX 1", "BUSY leased"),
        (100.0, "NACK b $b DELAY 100", "OK leased>retrying"),
        (100.0, "LOCK b me PX 1", "EXPIRED retrying"),
        (200.0, "LOCK b me PX 1", "EXPIRED expired"),
        (200.0, "CLAIM me ID b", "b#2"),
        (200.0, "NACK b $b DEAD", "OK leased>dead"),
        (200.0, "LOCK b me PX 1", "EXPIRED dead"),
        (200.0, "waiter b", "EXPIRED"),
        (200.0, "SCHEDULE b PX 100 XX", "OK dead>scheduled"),
        (200.0, "LOCK b me PX 1", "OK scheduled>leased"),
    ]);
    // A dead order came alive by a LOCK while the clock was set back.
    for (nack, state) in [
        ("NACK a $a DEAD", "dead"),
        ("NACK a $a DELAY 90000", "retrying"),
    ] {
        let [met, told] = [format!("OK leased>{state}"), format!("EXPIRED {state}")];
        story(&[
            (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
            (100.0, "CLAIM me", "a#1"),
            (100.0, nack, met.as_str()),
            (100.0, "wall -5000", "done"),
            (100.0, "LOCK a me PX 500", told.as_str()),
            (100.0, "waiter a", "EXPIRED"),
        ]);
    }
}

#[test]
fn a_reserved_id_lives_and_dies_with_its_lock() {
    for passes in [false, true] {
        let mut bench = Bench::new(passes);
        tell(
            &mut bench,
            &[
                (0.0, "LOCK a me PX 100", "OK missing>reserved"),
                (0.0, "SCAN 0", "0 a:reserved"),
                (0.0, "PTTL a", "-1"),
                (0.0, "NEXT", "-"),
                (0.0, "CLAIM you", "-"),
                (0.0, "SCHEDULE a PX 50", "LEASED reserved"),
                (0.0, "FINISH a CREATE", "LEASED reserved"),
                (0.0, "lapsed", "false"),
                (99.999, "GET a", "reserved owner:me lease:1"),
                (100.0, "lapsed", "true"),
                (100.0, "lapsed", "false"),
                (100.0, "GET a", "null"),
                (100.0, "SCAN 0", "0"),
                (100.0, "UNLOCK a $a", "MISSING missing"),
                (100.0, "RENEW a $a PX 100", "MISSING missing"),
                (100.0, "ACK a $a", "MISSING missing"),
                (100.0, "LOCK a you PX 100", "OK missing>reserved"),
                (150.0, "UNLOCK a $a", "OK reserved>missing"),
            ],
        );
        assert!(bench.queue.is_empty(), "nothing is left of it");
        tell(
            &mut bench,
            &[
                (150.0, "LOCK b me PX 100", "OK missing>reserved"),
                (300.0, "pass", "-"),
                (300.0, "forget", "b"),
                (300.0, "LOCK c me PX 100", "OK missing>reserved"),
                (300.0, "BREAK c 1", "STALE reserved"),
                (300.0, "BREAK c $c", "OK reserved>missing"),
            ],
        );
        assert!(bench.queue.is_empty(), "nothing is left of it");
    }
    // The holder finishes it: paid before it was created.
    story(&[
        (0.0, "LOCK a me PX 100", "OK missing>reserved"),
        (
            1.0,
            "FINISH a FENCE $a STATUS paid RESULT r",
            "OK reserved>finished",
        ),
        (2.0, "SCHEDULE a PX 500 STATUS unpaid", "FINISHED finished"),
        (
            2.0,
            "GET a",
            "finished status:paid owner:me keep:+86400001 at:+1 result:r",
        ),
    ]);
}

#[test]
fn a_deadline_joins_a_live_reservation_and_the_lock_stays() {
    story(&[
        (0.0, "LOCK x me PX 10000", "OK missing>reserved"),
        (1.0, "SCHEDULE x PX 500 UPSERT FENCE 5", "STALE reserved"),
        (1.0, "SCHEDULE x PX 500 XX FENCE $x", "MISSING reserved"),
        (
            1.0,
            "SCHEDULE x PX 500 UPSERT FENCE $x STATUS unpaid",
            "OK reserved>leased",
        ),
        (
            1.0,
            "GET x",
            "leased +501 status:unpaid owner:me lease:9999",
        ),
        (1.0, "LOCK x me PX 1", "HELD 9999 x1"),
        (600.0, "CLAIM you", "-"),
        (10_000.0, "CLAIM you", "x#1"),
    ]);
    story(&[
        (0.0, "LOCK x me PX 10000", "OK missing>reserved"),
        (
            1.0,
            "SCHEDULE x PX 60000 UPSERT FENCE $x",
            "OK reserved>leased",
        ),
        (2.0, "UNLOCK x $x", "OK leased>scheduled"),
        (2.0, "GET x", "scheduled +60001"),
    ]);
}

#[test]
fn another_request_under_the_same_id_is_a_mismatch() {
    story(&[
        (0.0, "LOCK a w1 PX 1000 FP one", "OK missing>reserved"),
        (0.0, "LOCK a w2 PX 1000 FP one", "BUSY reserved"),
        (0.0, "LOCK a w2 PX 1000 FP two", "MISMATCH reserved"),
        (0.0, "LOCK a w1 PX 1000 FP two", "MISMATCH reserved"),
        (0.0, "LOCK a w1 PX 1000 FP one", "HELD 1000 x1"),
        (0.0, "LOCK a w2 PX 1000", "BUSY reserved"),
        (0.0, "waiter a two", "MISMATCH"),
        (0.0, "waiter a one", "waits"),
        (
            1.0,
            "ACK a $a STATUS done RESULT r KEEP 1000",
            "OK reserved>finished",
        ),
        (2.0, "reload", "done"),
        (2.0, "LOCK a w1 PX 1000 FP one", "FINISHED finished"),
        (2.0, "LOCK a w1 PX 1000 FP two", "MISMATCH finished"),
        (2.0, "LOCK a w1 PX 1000", "FINISHED finished"),
        (2.0, "waiter a two", "MISMATCH"),
        (2.0, "waiter a one", "FINISHED"),
        (1000.999, "LOCK a w1 PX 1000 FP two", "MISMATCH finished"),
        (1001.0, "LOCK a w1 PX 1000 FP two", "OK missing>reserved"),
        (1001.0, "LOCK a w1 PX 1000 FP one", "MISMATCH reserved"),
    ]);
    // It comes before what the deadline has to say.
    story(&[
        (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (0.0, "LOCK a w1 PX 10 FP one", "OK scheduled>leased"),
        (50.0, "LOCK a w2 PX 10 FP two", "MISMATCH scheduled"),
        (100.0, "LOCK a w2 PX 10 FP two", "MISMATCH expired"),
        (100.0, "LOCK a w2 PX 10 FP one", "EXPIRED expired"),
    ]);
}

/// The fingerprint belongs to the last grant: the next one, and a move, take it off.
#[test]
fn a_fingerprint_goes_with_the_grant_it_was_for() {
    for next in [
        "LOCK a w1 PX 10",
        "SCHEDULE a PX 900 XX",
        "STATUS a on-hold",
    ] {
        story(&[
            (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
            (0.0, "LOCK a w1 PX 10 FP one", "OK scheduled>leased"),
            (50.0, "LOCK a w2 PX 10 FP two", "MISMATCH scheduled"),
            (
                50.0,
                next,
                if next.starts_with("LOCK") {
                    "OK scheduled>leased"
                } else {
                    "OK scheduled>scheduled"
                },
            ),
            (70.0, "LOCK a w2 PX 10 FP two", "OK scheduled>leased"),
        ]);
    }
}

/// UNLOCK left the fingerprint behind where the id had a deadline: no other request
/// ever got that lock again.
#[test]
fn a_request_that_gives_its_lock_back_takes_its_fingerprint_along() {
    for end in ["UNLOCK a $a", "BREAK a"] {
        story(&[
            (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
            (0.0, "LOCK a w1 PX 10 FP one", "OK scheduled>leased"),
            (0.0, end, "OK leased>scheduled"),
            (0.0, "LOCK a w2 PX 10 FP two", "OK scheduled>leased"),
        ]);
        story(&[
            (0.0, "LOCK a w1 PX 10 FP one", "OK missing>reserved"),
            (0.0, end, "OK reserved>missing"),
            (0.0, "LOCK a w2 PX 10 FP two", "OK missing>reserved"),
        ]);
    }
}

/// The story that the design tells of idempotency, word by word.
#[test]
fn a_request_is_done_once_however_often_it_comes() {
    let lock = "LOCK 1001:3:pay w1 PX 30000 FP 5f3a";
    let again = "LOCK 1001:3:pay w2 PX 30000 FP 5f3a";
    let other = "LOCK 1001:3:pay w3 PX 30000 FP 77aa";
    let ack = "ACK 1001:3:pay $1001:3:pay STATUS done RESULT receipt KEEP 86400000";
    story(&[
        (0.0, lock, "OK missing>reserved"),
        (5.0, again, "BUSY reserved"),
        (5.0, other, "MISMATCH reserved"),
        (10.0, ack, "OK reserved>finished"),
        (10.0, ack, "FINISHED finished"),
        (20.0, again, "FINISHED finished"),
        (20.0, other, "MISMATCH finished"),
        (
            20.0,
            "GET 1001:3:pay",
            "finished status:done owner:w1 keep:+86400010 at:+10 result:receipt",
        ),
        (86_400_010.0, again, "OK missing>reserved"),
    ]);
    // The first worker dies: the second does it, and the first is told.
    story(&[
        (0.0, lock, "OK missing>reserved"),
        (29_999.999, again, "BUSY reserved"),
        (30_000.0, again, "OK missing>reserved"),
        (30_000.0, "ACK 1001:3:pay $1001:3:pay.1", "STALE reserved"),
        (30_000.0, ack, "OK reserved>finished"),
    ]);
    // It gives up, and the next one tries.
    story(&[
        (0.0, lock, "OK missing>reserved"),
        (1.0, "UNLOCK 1001:3:pay $1001:3:pay", "OK reserved>missing"),
        (1.0, other, "OK missing>reserved"),
    ]);
}

#[test]
fn a_claim_that_is_unlocked_is_offered_again_at_once() {
    story(&[
        (0.0, "CONFIG SET max-attempts 3", "done"),
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CLAIM me", "a#1"),
        (1.0, "UNLOCK a 5", "STALE leased"),
        (1.0, "UNLOCK a $a", "OK leased>expired"),
        (1.0, "GET a", "expired +0"),
        (1.0, "ACK a $a", "STALE expired"),
        (1.0, "pass", "expired:a"),
        (1.0, "CLAIM you", "a#1"),
        (2.0, "BREAK a $a.1", "STALE leased"),
        (2.0, "BREAK a", "OK leased>expired"),
        (2.0, "ACK a $a", "STALE expired"),
        (2.0, "BREAK a", "GONE expired"),
        (2.0, "BREAK a $a", "GONE expired"),
        (2.0, "CLAIM you", "a#2"),
    ]);
    // Handed back on its last try it has it still; broken, it has failed.
    story(&[
        (0.0, "CONFIG SET max-attempts 1", "done"),
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CLAIM me", "a#1"),
        (1.0, "UNLOCK a $a", "OK leased>expired"),
        (1.0, "CLAIM me", "a#1"),
    ]);
    for end in ["BREAK a", "BREAK a $a"] {
        story(&[
            (0.0, "CONFIG SET max-attempts 1", "done"),
            (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
            (0.0, "CLAIM me", "a#1"),
            (1.0, end, "OK leased>dead"),
            (1.0, "pass", "dead:a"),
            (9999.0, "CLAIM you", "-"),
            (9999.0, "REQUEUE", "a left:0"),
            (9999.0, "CLAIM you", "a#1"),
        ]);
    }
}

#[test]
fn break_goes_by_the_fence_where_one_is_given() {
    story(&[
        (0.0, "BREAK a", "MISSING missing"),
        (0.0, "SCHEDULE a PX 5000", "OK missing>scheduled"),
        (0.0, "BREAK a", "GONE scheduled"),
        (0.0, "BREAK a 7", "GONE scheduled"),
        (0.0, "LOCK a me PX 10", "OK scheduled>leased"),
        (0.0, "BREAK a 7", "STALE leased"),
        (10.0, "BREAK a 7", "STALE scheduled"),
        (10.0, "BREAK a $a", "GONE scheduled"),
        (10.0, "LOCK a me PX 10", "OK scheduled>leased"),
        (10.0, "BREAK a $a", "OK leased>scheduled"),
        (10.0, "FINISH a FENCE $a", "STALE scheduled"),
    ]);
}

#[test]
fn nobody_passes_by_those_who_wait_for_a_lock() {
    story(&[
        (0.0, "SCHEDULE a PX 5000", "OK missing>scheduled"),
        (0.0, "LOCK a me PX 1000", "OK scheduled>leased"),
        (0.0, "lock-wake a", "+1000"),
        (0.0, "waiter a", "waits"),
        (0.0, "RENEW a $a PX 9000", "OK 9000"),
        (0.0, "lock-wake a", "+5000"),
        (1.0, "waiting", "done"),
        (1.0, "LOCK a me PX 10", "HELD 8999 x1"),
        (1.0, "LOCK a you PX 10", "BUSY leased"),
        (1.0, "UNLOCK a $a", "OK leased>scheduled"),
        (1.0, "LOCK a you PX 10", "BUSY scheduled"),
        (1.0, "LOCK a me PX 10", "BUSY scheduled"),
        (1.0, "LOCK b me PX 10", "BUSY missing"),
        (1.0, "lock-wake a", "+5000"),
        (1.0, "nobody", "done"),
        (1.0, "LOCK a you PX 9000", "OK scheduled>leased"),
        (4999.999, "waiter a", "waits"),
        // The holder may finish it, but nobody else gets this lock any more.
        (5000.0, "waiter a", "EXPIRED"),
        (5000.0, "lock-wake a", "+9001"),
        (5000.0, "FINISH a FENCE $a RESULT r", "OK leased>finished"),
        (5000.0, "waiter a", "FINISHED"),
        (5000.0, "waiter nobody", "waits"),
    ]);
}

#[test]
fn a_wall_clock_that_is_set_neither_stretches_nor_cuts_a_lock() {
    for step in ["wall -3600000", "wall +3600000"] {
        story(&[
            (0.0, "LOCK a me PX 3000 MAX 5000", "OK missing>reserved"),
            (1000.0, step, "done"),
            (1000.0, "LOCK a me PX 1", "HELD 2000 x1"),
            (1000.0, "RENEW a $a PX 9000", "OK 4000"),
            (1000.0, "RENEW a $a PX 2000 LT", "OK 2000"),
            (2999.999, "LOCK a you PX 10", "BUSY reserved"),
            (3000.0, "LOCK a you PX 10", "OK missing>reserved"),
        ]);
    }
}

#[test]
fn a_lapsed_lock_on_an_unknown_id_counts_nowhere_whatever_the_wall_clock_says() {
    for step in ["wall -3600000", "wall -1", "wall +3600000"] {
        let mut bench = Bench::new(true);
        tell(
            &mut bench,
            &[
                (0.0, "LOCK a me PX 100", "OK missing>reserved"),
                (50.0, step, "done"),
                (100.0, "GET a", "null"),
                (100.0, "PURGE STATE finished", "- left:0"),
                (100.0, "PURGE STATE reserved", "- left:0"),
            ],
        );
        assert_eq!((bench.stat("finished"), bench.stat("orders")), (0, 0));
        tell(
            &mut bench,
            &[(100.0, "wake", "now"), (100.0, "forget", "a")],
        );
        assert!(bench.queue.is_empty(), "nothing is left of it");
    }
}

#[test]
fn the_fences_of_an_order_grow_for_ever() {
    for passes in [false, true] {
        let mut bench = Bench::new(passes);
        let mut last = 0;
        for round in 0..20 {
            for command in [
                "LOCK a me PX 1000",
                "UNLOCK a $a",
                "LOCK a me PX 10",
                "lapse",
                "LOCK a me PX 1000",
                "BREAK a",
                "wall -60000",
                "LOCK a you PX 1000",
                "SCHEDULE a PX 0 UPSERT FENCE $a",
                "UNLOCK a $a",
                "CLAIM me PX 10",
                "lapse",
                "CLAIM me PX 1000",
                "NACK a $a DELAY 0",
                "reload",
                "CLAIM you PX 1000",
                "restart",
                "ACK a $a KEEP 0",
                "LOCK a me PX 1000",
                "FINISH a FENCE $a KEEP 10",
                "lapse",
                "LOCK a me PX 10",
                "lapse",
                "forget",
                "delete",
            ] {
                let ms = (bench.mono_us / 1000 - START_MONO_MS) as f64;
                match command {
                    "lapse" => bench.until(ms + 10.0),
                    // The server is another one, which knows what it has loaded.
                    "restart" => {
                        bench.run("reload");
                        let (floor, now_us) = (bench.queue.floor(), bench.wall_us);
                        bench.numbers = Numbers::new();
                        assert!(bench.numbers.learn(floor, now_us));
                        bench.numbers.guard(now_us, 1_000);
                    }
                    // The key is gone; the server is the same.
                    "delete" => {
                        bench.queue = Queue::new();
                        bench.replica = Queue::new();
                    }
                    _ => {
                        let said = bench.run(command);
                        let done = ["OK", "a#", "done", "a", "-"];
                        assert!(
                            done.iter().any(|word| said.starts_with(word)),
                            "{command}: {said}"
                        );
                        assert!(!command.starts_with("LOCK") || said.starts_with("OK"));
                        assert!(!command.starts_with("CLAIM") || said.starts_with("a#"));
                    }
                }
                let fence = bench.fences[b"a".as_slice()].last().copied().unwrap();
                assert!(fence >= last, "{round} {command}: {fence} after {last}");
                last = fence;
            }
        }
        let fences = &bench.fences[b"a".as_slice()];
        assert_eq!(fences.len(), 20 * 9);
        assert!(fences.iter().zip(&fences[1..]).all(|(a, b)| a < b));
    }
}
