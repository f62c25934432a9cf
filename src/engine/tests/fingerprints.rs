//! Fingerprints: a lock is for one request, which is done once.

use super::*;

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
