//! Tests of the engine: guards.

use super::*;

#[test]
fn guards_are_tried_in_order_fence_lease_rev_status_deadline() {
    story(&[
        (
            0.0,
            "SCHEDULE a PX 100 STATUS unpaid",
            "OK missing>scheduled",
        ),
        (0.0, "FINISH a FENCE 9 IFREV 9 FROM no", "STALE scheduled"),
        (0.0, "FINISH a IFREV 9 FROM no", "STALE scheduled"),
        (0.0, "FINISH a IFREV @a FROM no", "STATE scheduled"),
        (0.0, "FINISH a FROM ''", "STATE scheduled"),
        (200.0, "FINISH a STRICT FROM no", "STATE expired"),
        (200.0, "FINISH a STRICT FROM unpaid", "EXPIRED expired"),
        (200.0, "SCHEDULE a PXAT T+50 GT FROM no", "STATE expired"),
        (
            200.0,
            "SCHEDULE a PXAT T+50 GT FROM unpaid IFREV @a",
            "UNCHANGED expired",
        ),
        (200.0, "CLAIM me", "a#1"),
        (200.0, "FINISH a IFREV 9 FROM no", "LEASED leased"),
        (200.0, "FINISH a FENCE 9 IFREV 9", "STALE leased"),
        (200.0, "STATUS a s FENCE $a IFREV 9", "STALE leased"),
        (
            200.0,
            "STATUS a s FENCE $a IFREV @a FROM no",
            "STATE leased",
        ),
        (200.0, "FINISH a FENCE $a STRICT", "EXPIRED leased"),
        (200.0, "ACK a $a FROM no FROM other", "STATE leased"),
        (200.0, "ACK a 9 FROM no", "STALE leased"),
        (
            200.0,
            "STATUS a s FENCE $a IFREV @a FROM unpaid FROM no",
            "OK leased>leased",
        ),
        (200.0, "ACK a $a FROM no FROM s", "OK leased>finished"),
        (200.0, "ACK a $a FROM no", "FINISHED finished"),
    ]);
}

#[test]
fn transitions_refuse_every_other_change_of_status() {
    let mut bench = Bench::new(false);
    let value = Some(Bytes::of(b"unpaid>paid unpaid>closed paid>shipped"));
    bench.carry(&Effect::Configure {
        name: Bytes::of(b"transitions"),
        value,
    });
    tell(
        &mut bench,
        &[
            (
                0.0,
                "SCHEDULE a PX 100 STATUS unpaid",
                "OK missing>scheduled",
            ),
            (0.0, "STATUS a shipped", "STATE scheduled"),
            (0.0, "STATUS a unpaid", "OK scheduled>scheduled"),
            (0.0, "STATUS a ''", "STATE scheduled"),
            (
                0.0,
                "SCHEDULE a PX 100 XX STATUS refunded",
                "STATE scheduled",
            ),
            (0.0, "SCHEDULE a PX 200 XX", "OK scheduled>scheduled"),
            (0.0, "FINISH a STATUS paid", "OK scheduled>finished"),
            (0.0, "STATUS a closed", "STATE finished"),
            (0.0, "STATUS a shipped", "OK finished>finished"),
            (0.0, "STATUS a paid FENCE 1", "STALE finished"),
        ],
    );
}

#[test]
fn upsert_tests_guards_and_directions_only_against_an_order_that_is_there() {
    story(&[
        (
            0.0,
            "SCHEDULE a PX 100 UPSERT FROM unpaid IFREV 5 FENCE 6 GT",
            "OK missing>scheduled",
        ),
        (
            0.0,
            "SCHEDULE a PX 200 UPSERT FROM unpaid GT",
            "STATE scheduled",
        ),
        (
            0.0,
            "SCHEDULE a PX 200 UPSERT IFREV 5 GT",
            "STALE scheduled",
        ),
        (0.0, "SCHEDULE a PX 200 UPSERT FENCE 6", "STALE scheduled"),
        (
            0.0,
            "SCHEDULE a PX 50 UPSERT FROM '' GT",
            "UNCHANGED scheduled",
        ),
        (
            0.0,
            "SCHEDULE a PX 200 UPSERT FROM '' GT",
            "OK scheduled>scheduled",
        ),
        (0.0, "FINISH b CREATE FROM unpaid", "OK missing>finished"),
    ]);
}
