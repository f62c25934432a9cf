//! Tests of the engine: claim order.

use super::*;

#[test]
fn claims_come_by_deadline_and_in_schedule_order_within_a_millisecond() {
    story(&[
        (0.0, "SCHEDULE a PX 30", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 10", "OK missing>scheduled"),
        (0.0, "SCHEDULE c PX 20", "OK missing>scheduled"),
        (0.0, "SCHEDULE d PX 10", "OK missing>scheduled"),
        (5.0, "SCHEDULE e PXAT T+10", "OK missing>scheduled"),
        (5.0, "SCHEDULE b PXAT T+10 XX", "OK scheduled>scheduled"),
        (40.0, "CLAIM me COUNT 2", "d#1 e#1"),
        (40.0, "CLAIM me COUNT 9", "b#1 c#1 a#1"),
    ]);
}

#[test]
fn back_dated_and_returned_orders_go_by_when_they_became_claimable() {
    story(&[
        (0.0, "SCHEDULE a PX 10", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 30", "OK missing>scheduled"),
        (0.0, "SCHEDULE c PX 50", "OK missing>scheduled"),
        (20.0, "SCHEDULE late PXAT T-9999", "OK missing>expired"),
        (60.0, "CLAIM me COUNT 9", "a#1 late#1 b#1 c#1"),
    ]);
    story(&[
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE b PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE c PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE y PX 120", "OK missing>scheduled"),
        (0.0, "SCHEDULE z PX 160", "OK missing>scheduled"),
        (0.0, "CLAIM me PX 150 COUNT 1", "a#1"),
        (0.0, "CLAIM me PX 130 COUNT 1", "b#1"),
        (0.0, "CLAIM me COUNT 1", "c#1"),
        (1.0, "NACK c $c DELAY 139", "OK leased>retrying"),
        (500.0, "CLAIM me COUNT 9", "y#1 b#2 c#2 a#2 z#1"),
    ]);
}

/// A lock that lapsed while the deadline was still ahead, but was settled only
/// after both had passed, counted as claimable since the lock's end.
#[test]
fn a_lock_that_lapsed_before_the_deadline_leaves_the_order_to_its_deadline() {
    story(&[
        (0.0, "SCHEDULE a PX 20", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 15", "OK missing>scheduled"),
        (0.0, "LOCK a me PX 10", "OK scheduled>leased"),
        (30.0, "pass", "lapsed:a expired:b expired:a"),
        (30.0, "CLAIM me COUNT 2", "b#1 a#1"),
    ]);
    story(&[
        (0.0, "SCHEDULE a PX 20", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 22", "OK missing>scheduled"),
        (0.0, "LOCK a me PX 25", "OK scheduled>leased"),
        (30.0, "CLAIM me COUNT 2", "b#1 a#1"),
    ]);
}

#[test]
fn after_a_load_orders_go_by_deadline_or_lease_end() {
    story(&[
        (0.0, "SCHEDULE a PX 30", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 30", "OK missing>scheduled"),
        (0.0, "SCHEDULE c PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE d PX 0", "OK missing>expired"),
        (0.0, "CLAIM me PX 60", "c#1"),
        (0.0, "CLAIM me PX 50", "d#1"),
        (20.0, "SCHEDULE late PXAT T-9999", "OK missing>expired"),
        (40.0, "pass", "expired:late expired:a expired:b"),
        (55.0, "reload", "done"),
        (55.0, "GET c", "leased +0 #1 owner:me lease:5"),
        (59.999, "CLAIM me COUNT 9", "late#1 a#1 b#1 d#2"),
        (60.0, "CLAIM me COUNT 9", "c#2"),
    ]);
    // Long down: all of it at once, in the same order.
    story(&[
        (0.0, "SCHEDULE a PX 30", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 30", "OK missing>scheduled"),
        (0.0, "SCHEDULE c PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE d PX 0", "OK missing>expired"),
        (0.0, "CLAIM me PX 60", "c#1"),
        (0.0, "CLAIM me PX 50", "d#1"),
        (99_999.0, "reload", "done"),
        (
            99_999.0,
            "pass",
            "expired:a expired:b lapsed:d expired:d lapsed:c expired:c",
        ),
        (99_999.0, "CLAIM me COUNT 9", "a#1 b#1 d#2 c#2"),
    ]);
}
