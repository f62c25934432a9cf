//! Locks: taken, held again, up to their cap, on an order or on a reserved id.

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
