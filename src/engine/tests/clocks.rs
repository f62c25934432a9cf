//! Tests of the engine: clock steps.

use super::*;

#[test]
fn deadlines_follow_the_wall_clock() {
    story(&[
        (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (50.0, "wall -1000", "done"),
        (100.0, "CLAIM me", "-"),
        (1099.999, "CLAIM me", "-"),
        (1099.999, "pass", "-"),
        (1100.0, "pass", "expired:a"),
        (1100.0, "CLAIM me", "a#1"),
    ]);
    story(&[
        (0.0, "SCHEDULE a PX 100000", "OK missing>scheduled"),
        (50.0, "wall +99949", "done"),
        (50.999, "CLAIM me", "-"),
        (51.0, "CLAIM me", "a#1"),
    ]);
}

#[test]
fn leases_and_retry_waits_do_not() {
    for step in ["wall -3600000", "wall +3600000"] {
        story(&[
            (0.0, "SCHEDULE a PXAT T-9000000", "OK missing>expired"),
            (0.0, "SCHEDULE b PXAT T-9000000", "OK missing>expired"),
            (0.0, "CLAIM me PX 1000 COUNT 2", "a#1 b#1"),
            (1.0, "NACK b $b DELAY 1000", "OK leased>retrying"),
            (500.0, step, "done"),
            (999.999, "CLAIM you COUNT 2", "-"),
            (1000.0, "CLAIM you COUNT 2", "a#2"),
            (1000.999, "CLAIM you COUNT 2", "-"),
            (1001.0, "CLAIM you COUNT 2", "b#2"),
        ]);
    }
}

#[test]
fn an_order_drawn_before_the_clock_was_set_back_waits_again() {
    story(&[
        (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 50", "OK missing>scheduled"),
        (100.0, "pass", "expired:b expired:a"),
        (100.0, "wall -40", "done"),
        (100.0, "CLAIM me COUNT 9", "b#1"),
        (100.0, "CLAIM me ID a", "-"),
        (100.0, "NEXT", "a+100"),
        (139.999, "CLAIM me COUNT 9", "-"),
        (140.0, "CLAIM me COUNT 9", "a#1"),
    ]);
    // The same for one that came back by a lapse.
    story(&[
        (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (100.0, "CLAIM me PX 10", "a#1"),
        (110.0, "pass", "lapsed:a expired:a"),
        (110.0, "wall -60", "done"),
        (110.0, "GET a", "scheduled +100 #1 owner:me"),
        (110.0, "CLAIM me", "-"),
        (159.999, "CLAIM me", "-"),
        (160.0, "CLAIM me", "a#2"),
    ]);
}
