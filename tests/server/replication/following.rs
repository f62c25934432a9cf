//! Replicas that follow: through synchronizations, in chains, through mixed writes.

use super::{QUIET, primary, replica_of};
use crate::support::states::{Snapshot, expect_healthy, expect_no_fault, fill_every_state};
use crate::support::{Options, Random, SOON, Value, args, argv, cmd, wait_for, wait_until};

#[test]
fn a_replica_follows_through_full_and_partial_synchronization() {
    for load in ["disabled", "on-empty-db", "swapdb"] {
        let primary = primary().start();
        let mut c = primary.client();
        fill_every_state(&mut c, "q");
        let replica = Options::new()
            .aof()
            .replica_of(primary.port())
            .line(format!("repl-diskless-load {load}"))
            .line("propagation-error-behavior panic")
            .start();
        // What it has of its own goes.
        let mut r = replica.client();
        replica.wait_in_sync(&primary);
        Snapshot::of(&mut c, "q").expect_same(&Snapshot::of(&mut r, "q"), "full");
        assert_eq!(r.digest("q"), c.digest("q"), "{load}");

        // The link breaks and comes back: only what was missed travels.
        let full = c.info_number("stats", "sync_full");
        cmd!(r, "CLIENT", "KILL", "TYPE", "master");
        for i in 0..50 {
            cmd!(c, "ORDER.SCHEDULE", "q", format!("while-away-{i}"), "PX", 0)
                .order()
                .expect("OK");
            cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 2, "PX", 600_000);
        }
        replica.wait_in_sync(&primary);
        assert_eq!(
            c.info_number("stats", "sync_full"),
            full,
            "{load}: a partial synchronization"
        );
        assert!(c.info_number("stats", "sync_partial_ok") > 0);
        assert_eq!(r.digest("q"), c.digest("q"), "{load}: after a partial one");

        // And again from the start, over what it has.
        cmd!(c, "DEBUG", "CHANGE-REPL-ID");
        cmd!(r, "CLIENT", "KILL", "TYPE", "master");
        cmd!(c, "ORDER.SCHEDULE", "q", "later", "PX", 0)
            .order()
            .expect("OK");
        wait_until(SOON, "a full synchronization", || {
            c.info_number("stats", "sync_full") > full
        });
        replica.wait_in_sync(&primary);
        Snapshot::of(&mut c, "q").expect_same(&Snapshot::of(&mut r, "q"), "full again");
        assert_eq!(r.digest("q"), c.digest("q"), "{load}: full again");
        assert_eq!(r.info_number("orderwheel", "orderwheel_queues"), 1);

        // Promoted, it hands out what it got that way.
        cmd!(r, "REPLICAOF", "NO", "ONE").ok();
        assert!(
            !cmd!(r, "ORDER.CLAIM", "q", "me", "COUNT", 1000)
                .claims()
                .is_empty()
        );
        expect_healthy(&replica);
        expect_healthy(&primary);
    }
}

#[test]
fn a_replica_that_panics_on_any_error_lives_through_mixed_writes() {
    let primary = primary().line("appendfsync no").start();
    let replica = Options::new()
        .replica_of(primary.port())
        .line("propagation-error-behavior panic")
        .line("replica-ignore-disk-write-errors yes")
        .start();
    replica.wait_in_sync(&primary);
    let mut random = Random::new();
    let mut c = primary.client();
    let mut last: Vec<(String, u64)> = vec![("none".into(), 1)];
    for _ in 0..1500 {
        let id = format!("o{}", random.below(60));
        let (held, fence) = last[random.below(last.len() as u64) as usize].clone();
        let reply = match random.below(9) {
            0 | 1 => cmd!(
                c,
                "ORDER.SCHEDULE",
                "q",
                id,
                "PX",
                random.below(20),
                "UPSERT"
            ),
            2 => cmd!(
                c,
                "ORDER.FINISH",
                "q",
                id,
                "CREATE",
                "KEEP",
                random.below(50)
            ),
            3 => cmd!(c, "ORDER.STATUS", "q", id, "s"),
            4 | 5 => cmd!(
                c,
                "ORDER.CLAIM",
                "q",
                "me",
                "PX",
                1 + random.below(20),
                "COUNT",
                3
            ),
            6 => cmd!(c, "ORDER.ACK", "q", held, fence, "KEEP", 0),
            7 => cmd!(c, "ORDER.NACK", "q", held, fence, "DELAY", random.below(10)),
            _ => cmd!(c, "DEL", if random.below(40) == 0 { "q" } else { "no" }),
        };
        assert!(!reply.is_error(), "{reply:?}");
        if let Value::Array(rows) = &reply
            && rows.iter().all(|row| matches!(row, Value::Array(_)))
        {
            last.extend(
                reply
                    .claims()
                    .into_iter()
                    .map(|row| (row.id_text(), row.fence)),
            );
        }
    }
    // Whatever chance has deleted last: something is there.
    cmd!(c, "ORDER.SCHEDULE", "q", "last", "PX", 600_000);
    let digest = wait_for(SOON, "both to agree", || {
        replica.wait_in_sync(&primary);
        let digest = c.digest("q");
        (replica.client().digest("q") == digest).then_some(digest)
    });
    assert_ne!(digest, "0".repeat(40));
    let mut r = replica.client();
    assert_eq!(
        r.info_number("orderwheel", "orderwheel_apply_mismatch_total"),
        0
    );
    expect_healthy(&replica);
}

#[test]
fn a_chained_replica_and_the_file_of_a_replica_hold_the_same() {
    let primary = primary().start();
    let middle = replica_of(&primary);
    let mut last = Options::new().aof().replica_of(middle.port()).start();
    last.wait_in_sync(&middle);
    let mut c = primary.client();
    fill_every_state(&mut c, "q");
    let mut waiter = primary.client();
    waiter.send(&args![
        "ORDER.CLAIM",
        "w",
        "me",
        "BLOCK",
        20_000,
        "PX",
        600_000
    ]);
    cmd!(c, "ORDER.SCHEDULE", "w", "1", "PX", 20)
        .order()
        .expect("OK");
    waiter.read().claims();
    middle.wait_in_sync(&primary);
    last.wait_in_sync(&middle);
    let before = Snapshot::of(&mut c, "q");
    let digests = [c.digest("q"), c.digest("w")];
    for server in [&middle, &last] {
        let mut r = server.client();
        before.expect_same(&Snapshot::of(&mut r, "q"), "a replica");
        assert_eq!([r.digest("q"), r.digest("w")], digests);
    }
    // A replica begins its file anew after it has synchronized, by a child.
    wait_until(SOON, "its file to be whole", || {
        let mut r = last.client();
        ["aof_rewrite_in_progress", "aof_rewrite_scheduled"]
            .iter()
            .all(|field| r.info("persistence", field) == "0")
    });
    *last.options_mut() = Options::new().aof();
    last.kill_and_restart();
    let mut r = last.client();
    before.expect_same(&Snapshot::of(&mut r, "q"), "the file of a chained replica");
    assert_eq!([r.digest("q"), r.digest("w")], digests);
    expect_healthy(&last);
    expect_no_fault(&middle);
}

#[test]
fn a_writable_replica_does_not_act_on_its_primarys_orders() {
    let primary = primary().start();
    let replica = replica_of(&primary);
    let mut r = replica.client();
    r.config("replica-read-only", "no");
    let mut listener = replica.client();
    listener.subscribe(&["__keyevent@0__:order.expired"]);
    let mut waiter = replica.client();
    waiter.send(&args!["ORDER.CLAIM", "q", "me", "BLOCK", 300]);
    let mut c = primary.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 30)
        .order()
        .expect("OK");
    assert_eq!(
        waiter.read().claims(),
        [],
        "the pass of a replica grants nothing"
    );
    assert_eq!(listener.message(QUIET), None);
    replica.wait_in_sync(&primary);
    assert_eq!(r.digest("q"), c.digest("q"));
    expect_healthy(&replica);
    let commands: Vec<_> = (0..10).map(|_| argv!["ORDER.GET", "q", "1"]).collect();
    assert!(
        r.pipeline(&commands)
            .iter()
            .all(|reply| reply.get().is_some())
    );
}
