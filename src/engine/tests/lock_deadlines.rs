//! Locks and deadlines: how long a lock puts a close off, and from when on it is too
//! late for one.

use super::*;

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
