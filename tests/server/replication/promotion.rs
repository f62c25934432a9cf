//! Promotion: a replica does nothing by itself until it takes over, and then once.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{QUIET, primary, replica_of};
use crate::support::states::expect_healthy;
use crate::support::{
    Claimed, Client, Message, Options, SOON, Value, args, cmd, wait_until, wall_us,
};

/// The ids in messages of this event for queue `q`, in the order they came.
fn ids_of(messages: &[Message], event: &str) -> Vec<String> {
    let channel = format!("__keyevent@0__:{event}");
    messages
        .iter()
        .filter(|m| m.channel == channel)
        .map(|m| {
            String::from_utf8_lossy(&m.payload)
                .strip_prefix("q:")
                .expect("of queue q")
                .to_owned()
        })
        .collect()
}

#[test]
fn a_replica_announces_and_grants_nothing_and_a_promoted_one_does_once() {
    for quick in [true, false] {
        let primary = primary().start();
        let replica = Options::new()
            .aof()
            .replica_of(primary.port())
            .events("KEgd")
            .set("announce-after-start-ms", if quick { 0 } else { 400 })
            .start();
        replica.wait_in_sync(&primary);
        let (mut c, mut r) = (primary.client(), replica.client());
        let mut listener = replica.client();
        listener.psubscribe(&["__keyevent@0__:*"]);
        for i in 0..20 {
            cmd!(c, "ORDER.SCHEDULE", "q", format!("due-{i}"), "PX", 10 + i)
                .order()
                .expect("OK");
        }
        cmd!(c, "ORDER.SCHEDULE", "q", "dead", "PX", 0)
            .order()
            .expect("OK");
        let row = cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "dead")
            .claims()
            .remove(0);
        cmd!(c, "ORDER.NACK", "q", "dead", row.fence, "DEAD")
            .order()
            .expect("OK");
        cmd!(c, "ORDER.SCHEDULE", "q", "lapses", "PX", 0)
            .order()
            .expect("OK");
        cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "lapses", "PX", 30);
        cmd!(c, "ORDER.SCHEDULE", "q", "kept", "PX", 0)
            .order()
            .expect("OK");
        let kept = cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "kept", "PX", 600_000)
            .claims()
            .remove(0);
        cmd!(c, "ORDER.FINISH", "q", "brief", "CREATE", "KEEP", 600_000)
            .order()
            .expect("OK");
        wait_until(SOON, "all deadlines to pass", || {
            cmd!(c, "ORDER.STATS", "q")
                .pairs()
                .iter()
                .any(|(name, value)| name == "expired" && value.int() == 21)
        });
        replica.wait_in_sync(&primary);
        let heard = listener.messages(QUIET * 3);
        for event in ["order.expired", "order.lapsed", "order.dead"] {
            assert_eq!(
                ids_of(&heard, event),
                Vec::<String>::new(),
                "{event} on a replica"
            );
        }
        let schedules = ids_of(&heard, "order.schedule");
        assert_eq!(
            schedules.len(),
            23,
            "writes are told, each once: {schedules:?}"
        );
        assert_eq!(ids_of(&heard, "order.claim"), ["dead", "lapses", "kept"]);
        assert_eq!(ids_of(&heard, "order.nack"), ["dead"]);
        assert_eq!(ids_of(&heard, "order.finish"), ["brief"]);
        // It answers questions by its clock, and refuses to hand out.
        assert_eq!(
            (
                r.state("q", "due-3"),
                r.state("q", "lapses"),
                r.state("q", "dead")
            ),
            ("expired".into(), "expired".into(), "dead".into())
        );
        assert!(
            cmd!(r, "ORDER.CLAIM", "q", "me")
                .error()
                .starts_with("READONLY")
        );
        assert_eq!(r.digest("q"), c.digest("q"), "time has changed nothing");
        let highest = [row.fence, kept.fence].into_iter().max().unwrap();

        // The primary dies.
        let mut primary = primary;
        primary.kill();
        let promoted_at = Instant::now();
        cmd!(r, "REPLICAOF", "NO", "ONE").ok();
        let mut heard = Vec::new();
        wait_until(SOON, "the announcements", || {
            heard.extend(listener.messages(Duration::from_millis(30)));
            ids_of(&heard, "order.expired").len() >= 21
        });
        if !quick {
            assert!(
                promoted_at.elapsed() >= Duration::from_millis(390),
                "not before subscribers are back"
            );
        }
        heard.extend(listener.messages(QUIET));
        let expired = ids_of(&heard, "order.expired");
        let unique: BTreeSet<_> = expired.iter().cloned().collect();
        assert_eq!(
            (unique.len(), expired.len()),
            (21, 21),
            "each once: {expired:?}"
        );
        assert!(unique.contains("lapses") && !unique.contains("kept") && !unique.contains("dead"));
        let rows = cmd!(r, "ORDER.CLAIM", "q", "next", "COUNT", 1000, "PX", 600_000).claims();
        let ids: BTreeSet<String> = rows.iter().map(Claimed::id_text).collect();
        assert_eq!((ids, rows.len()), (unique, 21), "each offered once");
        // Seven seconds is what a guard of ten leaves after some test machine's delays.
        assert!(
            rows.iter().all(|row| row.fence > highest + 7_000_000),
            "fences jump over what may have been lost"
        );
        cmd!(r, "ORDER.ACK", "q", "kept", kept.fence)
            .order()
            .expect("OK");
        expect_healthy(&replica);

        // The old primary comes back and follows.
        primary.start_again();
        cmd!(primary.client(), "REPLICAOF", "NO", "ONE").ok();
    }
}

#[test]
fn the_waiting_are_told_when_their_server_becomes_a_replica() {
    let one = primary().start();
    let two = replica_of(&one);
    let mut c = one.client();
    let mut waiting: Vec<Client> = (0..3)
        .map(|_| {
            let mut client = one.client();
            client.send(&args!["ORDER.CLAIM", "q", "me", "BLOCK", 0]);
            client
        })
        .collect();
    wait_until(SOON, "them to wait", || c.blocked_clients() == 3);
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 4000)
        .order()
        .expect("OK");
    two.wait_in_sync(&one);
    let mut t = two.client();
    cmd!(t, "REPLICAOF", "NO", "ONE").ok();
    cmd!(c, "REPLICAOF", "127.0.0.1", two.port()).ok();
    for client in &mut waiting {
        // The error, or the end of the connection when that was quicker.
        match client.try_read(SOON) {
            Ok(Some(reply)) => assert!(reply.error().starts_with("UNBLOCKED"), "{reply:?}"),
            Ok(None) => panic!("it still waits on a replica"),
            Err(_) => {}
        }
    }
    wait_until(SOON, "nobody to be blocked", || c.blocked_clients() == 0);
    // It falls due on the new primary alone, which sees it through.
    let row = cmd!(t, "ORDER.CLAIM", "q", "me", "BLOCK", 20_000)
        .claims()
        .remove(0);
    assert!(wall_us() >= row.deadline * 1000);
    cmd!(t, "ORDER.ACK", "q", "1", row.fence)
        .order()
        .expect("OK");
    one.wait_in_sync(&two);
    assert_eq!(c.state("q", "1"), "finished");
    assert_eq!(one.client().digest("q"), t.digest("q"));
    expect_healthy(&one);
    expect_healthy(&two);
}

#[test]
fn orders_fall_due_through_failovers_back_and_forth() {
    let mut servers = [primary().start(), Options::new().start()];
    servers[1] = Options::new()
        .aof()
        .replica_of(servers[0].port())
        .events("KEgd")
        .start();
    servers[1].wait_in_sync(&servers[0]);
    let mut here = 0;
    let (mut sent, mut got) = (BTreeSet::new(), BTreeSet::new());
    let mut highest = 0;
    for round in 0..4 {
        let (old, new) = (here, 1 - here);
        let mut c = servers[old].client();
        let mut claimer = servers[old].client();
        claimer.send(&args!["ORDER.CLAIM", "q", "me", "BLOCK", 0]);
        wait_until(SOON, "it to wait", || c.blocked_clients() == 1);
        for i in 0..60 {
            let id = format!("{round}-{i}");
            cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", i * 5)
                .order()
                .expect("OK");
            sent.insert(id);
        }
        cmd!(c, "FAILOVER").ok();
        wait_until(SOON, "the failover", || {
            servers[new].client().info("replication", "role") == "master"
                && c.info("replication", "role") == "slave"
        });
        // What it was given before is its own; it may have been told of the change.
        while let Ok(Some(reply)) = claimer.try_read(QUIET) {
            if let Value::Array(_) = reply {
                for row in reply.claims() {
                    highest = highest.max(row.fence);
                    assert!(got.insert(row.id_text()), "{} twice", row.id_text());
                }
            }
        }
        let mut c = servers[new].client();
        let until = Instant::now() + SOON;
        while got.len() < sent.len() {
            assert!(
                Instant::now() < until,
                "{:?} never came",
                sent.difference(&got).collect::<Vec<_>>()
            );
            let rows = cmd!(
                c,
                "ORDER.CLAIM",
                "q",
                "me",
                "COUNT",
                100,
                "PX",
                600_000,
                "BLOCK",
                5000
            )
            .claims();
            for row in rows {
                assert!(row.fence > highest, "{row:?} is not above {highest}");
                assert!(got.insert(row.id_text()), "{} twice", row.id_text());
            }
        }
        highest = highest.max(c.order("q", sent.last().unwrap()).fence());
        servers[old].wait_in_sync(&servers[new]);
        assert_eq!(servers[old].client().digest("q"), c.digest("q"));
        here = new;
    }
    for server in &servers {
        expect_healthy(server);
    }
}
