//! Tests of the engine: LOCK … XX, the lock of an order that is there.

use super::*;

#[test]
fn nothing_is_made_where_there_is_no_order() {
    story(&[
        (0.0, "LOCK a me PX 1000 XX", "MISSING missing"),
        (0.0, "GET a", "null"),
        (0.0, "SCHEDULE a PX 60000", "OK missing>scheduled"),
        (0.0, "LOCK a me PX 1000 xx", "OK scheduled>leased"),
        (0.0, "LOCK a me PX 1000 XX", "HELD 1000 x1"),
        (0.0, "LOCK a me PX 1000 XX REENTRANT", "HELD 1000 x2"),
        (0.0, "LOCK a you PX 1000 XX", "BUSY leased"),
        (0.0, "FINISH a FENCE $a KEEP 100", "OK leased>finished"),
        (0.0, "LOCK a you PX 1000 XX", "FINISHED finished"),
        (200.0, "LOCK a you PX 1000 XX", "MISSING missing"),
    ]);
}

#[test]
fn a_reservation_is_no_order() {
    story(&[
        (0.0, "LOCK a me PX 1000 FP one", "OK missing>reserved"),
        (0.0, "LOCK a me PX 1000 XX", "MISSING reserved"),
        (0.0, "LOCK a you PX 1000 XX", "MISSING reserved"),
        // Before anything else is looked at.
        (0.0, "LOCK a you PX 1000 XX FP two", "MISSING reserved"),
        (0.0, "waiting", "done"),
        (0.0, "LOCK a you PX 1000 XX", "MISSING reserved"),
        (0.0, "LOCK b you PX 1000 XX", "MISSING missing"),
        (0.0, "nobody", "done"),
        (0.0, "GET a", "reserved owner:me lease:1000"),
        // A deadline makes it one.
        (
            1.0,
            "SCHEDULE a PX 5000 UPSERT FENCE $a",
            "OK reserved>leased",
        ),
        (1.0, "LOCK a me PX 1000 XX", "HELD 1000 x1"),
        (1.0, "LOCK a you PX 1000 XX FP two", "MISMATCH leased"),
    ]);
}

#[test]
fn who_waits_is_told_when_the_order_goes() {
    story(&[
        (0.0, "waiter-xx a", "MISSING"),
        (0.0, "waiter a", "waits"),
        (0.0, "SCHEDULE a PX 60000", "OK missing>scheduled"),
        (0.0, "waiter-xx a", "waits"),
        (0.0, "LOCK a me PX 1000", "OK scheduled>leased"),
        (0.0, "waiter-xx a", "waits"),
        (0.0, "FINISH a FENCE $a KEEP 100", "OK leased>finished"),
        (0.0, "waiter-xx a", "FINISHED"),
        (200.0, "waiter-xx a", "MISSING"),
        (200.0, "LOCK a me PX 1000", "OK missing>reserved"),
        (200.0, "waiter-xx a", "MISSING"),
        (200.0, "waiter a", "waits"),
    ]);
}
