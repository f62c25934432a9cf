//! A primary and a replica whose clocks differ.

use super::{HOUR, LONG_AGO, QUIET};
use crate::support::states::expect_no_fault;
use crate::support::{Claimed, Client, Clock, Options, SOON, cmd, wait_until};

#[test]
fn a_replica_with_another_clock_holds_the_same_and_takes_over_by_its_own() {
    for (ahead, name) in [(HOUR, "ahead"), (-5000, "behind")] {
        let clock = Clock::new();
        clock.set_ahead(ahead);
        let mut primary = Options::new()
            .aof()
            .tcp()
            .line("repl-diskless-sync-delay 0")
            .start();
        let replica = clock
            .rule(
                Options::new()
                    .aof()
                    .replica_of(primary.port())
                    .events("KEd")
                    .set("announce-after-start-ms", 0),
            )
            .start();
        replica.wait_in_sync(&primary);
        let (mut c, mut r) = (primary.client(), replica.client());
        let mut listener = replica.client();
        listener.subscribe(&["__keyevent@0__:order.expired"]);
        cmd!(c, "ORDER.SCHEDULE", "q", "half-an-hour", "PX", HOUR / 2)
            .order()
            .expect("OK");
        cmd!(c, "ORDER.SCHEDULE", "q", "held", "PX", 0)
            .order()
            .expect("OK");
        let held = cmd!(c, "ORDER.CLAIM", "q", "me", "PX", 8_000_000)
            .claims()
            .remove(0);
        cmd!(c, "ORDER.FINISH", "q", "kept", "CREATE", "KEEP", HOUR / 2)
            .order()
            .expect("OK");
        cmd!(c, "ORDER.SCHEDULE", "q", "brief", "PX", 0)
            .order()
            .expect("OK");
        cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "brief", "PX", 100);
        wait_until(SOON, "the lease to end", || {
            c.state("q", "brief") == "expired"
        });
        let brief = cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "brief", "PX", 8_000_000)
            .claims()
            .remove(0);
        replica.wait_in_sync(&primary);
        assert_eq!(r.digest("q"), c.digest("q"), "{name}");
        assert_eq!(
            listener.message(QUIET),
            None,
            "{name}: a replica announces nothing, whatever its clock says"
        );
        // It reads by its own clock, and forgets nothing by it.
        assert_eq!(
            r.state("q", "half-an-hour"),
            if ahead > 0 { "expired" } else { "scheduled" },
            "{name}"
        );
        primary.kill();
        cmd!(r, "REPLICAOF", "NO", "ONE").ok();
        if ahead > 0 {
            let message = listener
                .message(SOON)
                .expect("it is due by the new primary's clock");
            assert_eq!(message.payload, b"q:half-an-hour");
        }
        cmd!(r, "ORDER.SCHEDULE", "q", "new", "PX", 0)
            .order()
            .expect("OK");
        let row = cmd!(r, "ORDER.CLAIM", "q", "next", "ID", "new")
            .claims()
            .remove(0);
        assert!(
            row.fence > held.fence.max(brief.fence),
            "{name}: fences only grow, also under a slower clock"
        );
        cmd!(r, "ORDER.ACK", "q", "held", held.fence)
            .order()
            .expect("OK");
        expect_no_fault(&replica);
    }
}

#[test]
fn a_promoted_replica_whose_clock_is_right_ends_what_a_fast_clock_granted() {
    let clock = Clock::new();
    clock.set_ahead(2 * HOUR);
    let mut primary = clock
        .rule(Options::new().tcp().line("repl-diskless-sync-delay 0"))
        .start();
    let mut c = primary.client();
    let fill = |c: &mut Client, key: &str| {
        for id in ["claimed", "waiting"] {
            cmd!(c, "ORDER.SCHEDULE", key, id, "PXAT", LONG_AGO)
                .order()
                .expect("OK");
        }
        let rows = cmd!(c, "ORDER.CLAIM", key, "me", "COUNT", 2, "PX", 1000).claims();
        let waiting = rows.iter().find(|row| row.id == b"waiting").expect("both");
        cmd!(
            c,
            "ORDER.NACK",
            key,
            "waiting",
            waiting.fence,
            "DELAY",
            1000
        )
        .order()
        .expect("OK");
        cmd!(c, "ORDER.LOCK", key, "k", "one", "PX", 1000)
            .lease()
            .expect("OK");
    };
    // One queue comes with the full copy, one with what is written after it.
    fill(&mut c, "copied");
    let replica = Options::new()
        .replica_of(primary.port())
        .set("announce-after-start-ms", 0)
        .start();
    replica.wait_in_sync(&primary);
    fill(&mut c, "followed");
    replica.wait_in_sync(&primary);
    let mut r = replica.client();
    for key in ["copied", "followed"] {
        assert_eq!(r.digest(key), c.digest(key));
    }
    primary.kill();
    cmd!(r, "REPLICAOF", "NO", "ONE").ok();
    for key in ["copied", "followed"] {
        for id in ["claimed", "k"] {
            if let Some(order) = cmd!(r, "ORDER.GET", key, id).get() {
                assert!(order.int("lease_ms") <= 1000, "{key}: {order:?}");
            }
        }
        let mut got = Vec::new();
        wait_until(SOON, "both orders", || {
            let rows = cmd!(r, "ORDER.CLAIM", key, "next", "COUNT", 2, "PX", 60_000).claims();
            got.extend(rows.iter().map(Claimed::id_text));
            got.len() == 2
        });
        wait_until(SOON, "the lock to lapse", || {
            let reply = cmd!(r, "ORDER.LOCK", key, "k", "two", "PX", 60_000).lease();
            reply.outcome == "OK"
        });
    }
    expect_no_fault(&replica);
}
