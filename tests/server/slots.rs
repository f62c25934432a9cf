//! In a cluster: orders fire where their slot is, and nowhere else.

use std::thread;
use std::time::Duration;

use crate::support::states::{Snapshot, expect_healthy, expect_no_fault, fill_every_state};
use crate::support::{
    Claimed, Client, Options, SOON, Server, Value, args, cmd, wait_until, wall_us,
};

/// How long "nothing happens" is watched.
const QUIET: Duration = Duration::from_millis(100);
/// How long a cluster may take to agree on something.
const AGREED: Duration = Duration::from_secs(40);

/// A node that is not taken for dead on a slow machine.
fn node() -> Options {
    Options::new()
        .cluster()
        .aof()
        .line("appendfsync no")
        .line("cluster-node-timeout 15000")
        .events("KEd")
        .set("announce-after-start-ms", 0)
}

/// Makes one cluster of these nodes; each of the first `primaries` gets its share
/// of the slots.
#[track_caller]
fn join(nodes: &[&Server], primaries: u32) {
    for (i, server) in (0_u32..).zip(nodes) {
        let mut c = server.client();
        cmd!(c, "CLUSTER", "SET-CONFIG-EPOCH", i + 1).ok();
        if i < primaries {
            let (first, end) = (i * 16384 / primaries, (i + 1) * 16384 / primaries);
            cmd!(c, "CLUSTER", "ADDSLOTSRANGE", first, end - 1).ok();
        }
        if i > 0 {
            cmd!(c, "CLUSTER", "MEET", "127.0.0.1", nodes[0].port()).ok();
        }
    }
    wait_ok(nodes);
}

/// Waits until every node says that the cluster is in order and knows all others.
#[track_caller]
fn wait_ok(nodes: &[&Server]) {
    for server in nodes {
        let mut c = server.client();
        wait_until(AGREED, "the cluster to be in order", || {
            let info = cmd!(c, "CLUSTER", "INFO").text();
            info.contains("cluster_state:ok")
                && info.contains(&format!("cluster_known_nodes:{}", nodes.len()))
        });
    }
}

/// A node's name.
#[track_caller]
fn name(server: &Server) -> String {
    cmd!(server.client(), "CLUSTER", "MYID").text()
}

/// A key in the first half of the slots, or the second, and its slot.
#[track_caller]
fn key_in_half(c: &mut Client, second: bool) -> (String, i64) {
    (0..1000)
        .find_map(|i| {
            let key = format!("orders:{{{i}}}");
            let slot = cmd!(c, "CLUSTER", "KEYSLOT", key).int();
            ((slot >= 8192) == second).then_some((key, slot))
        })
        .expect("half of all keys are")
}

/// A client that waits for an order of `queue`.
#[track_caller]
fn waiter(server: &Server, queue: &str, asking: bool) -> Client {
    let mut c = server.client();
    let before = c.blocked_clients();
    let mut client = server.client();
    if asking {
        cmd!(client, "ASKING").ok();
    }
    client.send(&args![
        "ORDER.CLAIM",
        queue,
        "me",
        "PX",
        600_000,
        "BLOCK",
        0
    ]);
    wait_until(SOON, "the client to wait", || c.blocked_clients() > before);
    client
}

#[test]
fn orders_move_with_their_slot_and_fire_on_the_new_owner_only() {
    let (one, two) = (node().start(), node().start());
    join(&[&one, &two], 2);
    let (mut a, mut b) = (one.client(), two.client());
    let (queue, slot) = key_in_half(&mut a, false);
    let (other, _) = key_in_half(&mut b, true);
    let (one_name, two_name) = (name(&one), name(&two));

    // Each node serves its own and points to the other for the rest.
    assert!(
        cmd!(b, "ORDER.SCHEDULE", queue, "1", "PX", 0)
            .error()
            .starts_with("MOVED")
    );
    assert!(
        cmd!(b, "ORDER.CLAIM", queue, "me", "BLOCK", 0)
            .error()
            .starts_with("MOVED")
    );
    cmd!(b, "ORDER.SCHEDULE", other, "own", "PX", 20)
        .order()
        .expect("OK");
    assert_eq!(
        waiter(&two, &other, false).read().claims()[0].id_text(),
        "own"
    );

    fill_every_state(&mut a, &queue);
    // In the same slot: one that nobody waits for, one that a client waits for.
    let second = queue.replace("orders:", "second:");
    for key in [&queue, &second] {
        cmd!(a, "ORDER.SCHEDULE", key, "moving", "PX", 3_600_000)
            .order()
            .expect("OK");
    }
    let rows = cmd!(a, "ORDER.CLAIM", queue, "me", "COUNT", 100, "PX", 3_600_000).claims();
    assert!(rows.len() >= 7, "what was due before is out of the way");
    let mut on_one = one.listener();
    let mut on_two = two.listener();
    let mut waiting = waiter(&one, &queue, false);
    let (before, digest) = (Snapshot::of(&mut a, &queue), a.digest(&queue));

    cmd!(b, "CLUSTER", "SETSLOT", slot, "IMPORTING", one_name).ok();
    cmd!(a, "CLUSTER", "SETSLOT", slot, "MIGRATING", two_name).ok();
    let port = two.port();
    cmd!(
        a,
        "MIGRATE",
        "127.0.0.1",
        port,
        "",
        0,
        10_000,
        "KEYS",
        queue,
        second
    )
    .ok();
    let gone = cmd!(a, "ORDER.GET", queue, "moved");
    assert!(gone.error().starts_with("ASK "), "{gone:?}");
    assert_eq!(b.digest(&queue), digest);

    // The keys lie on the new node, which does not own the slot yet; there they
    // fall due.
    let mut asking = waiter(&two, &second, true);
    let mut due = 0;
    for key in [&queue, &second] {
        cmd!(b, "ASKING").ok();
        let reply = cmd!(b, "ORDER.SCHEDULE", key, "moving", "PX", 30, "XX")
            .order()
            .expect("OK");
        due = reply.deadline as u64;
    }
    wait_until(SOON, "the deadlines to pass", || {
        wall_us() > due * 1000 + 20_000
    });
    let heard = |listener: &mut Client| -> Vec<String> {
        let messages = listener.messages(QUIET);
        let of_event = messages
            .iter()
            .filter(|m| m.channel.contains("order.expired"));
        let mut ids: Vec<String> = of_event
            .map(|m| String::from_utf8_lossy(&m.payload).into_owned())
            .collect();
        ids.sort();
        ids
    };
    assert_eq!(
        heard(&mut on_two),
        Vec::<String>::new(),
        "an importing node announces nothing"
    );
    assert_eq!(
        heard(&mut on_one),
        Vec::<String>::new(),
        "nor does the old one"
    );
    assert_eq!(
        asking.read_within(QUIET),
        None,
        "and grants nothing by itself"
    );
    cmd!(b, "ASKING").ok();
    assert_eq!(
        cmd!(b, "ORDER.GET", queue, "moving")
            .get()
            .expect("it is there")
            .state(),
        "expired"
    );

    cmd!(b, "CLUSTER", "SETSLOT", slot, "NODE", two_name).ok();
    cmd!(a, "CLUSTER", "SETSLOT", slot, "NODE", two_name).ok();
    let reply = waiting.read();
    assert!(
        reply.error().starts_with(&format!("MOVED {slot} ")),
        "{reply:?}"
    );
    let rows = asking.read().claims();
    assert_eq!(
        rows.iter().map(Claimed::id_text).collect::<Vec<_>>(),
        ["moving"]
    );
    let both = [format!("{queue}:moving"), format!("{second}:moving")];
    assert_eq!(heard(&mut on_two), both, "each once, on the new owner");
    assert_eq!(heard(&mut on_one), Vec::<String>::new());

    // It is whole: the same but for the one that fell due.
    let after = Snapshot::of(&mut b, &queue);
    assert_eq!(after.len(), before.len());
    for state in ["leased", "dead", "finished", "retrying", "reserved"] {
        assert_eq!(after.in_state(state), before.in_state(state), "{state}");
    }
    assert_eq!(after.in_state("expired"), ["moving"]);
    for server in [&one, &two] {
        expect_healthy(server);
    }
}

#[test]
fn a_slot_that_moves_back_and_forth_loses_nothing_and_doubles_nothing() {
    let (one, two) = (node().start(), node().start());
    join(&[&one, &two], 2);
    let servers = [&one, &two];
    let names = [name(&one), name(&two)];
    let (queue, slot) = key_in_half(&mut one.client(), false);
    let mut got = std::collections::BTreeSet::new();
    let mut sent = 0;
    for round in 0..4 {
        let (from, to) = (round % 2, 1 - round % 2);
        let (mut a, mut b) = (servers[from].client(), servers[to].client());
        for i in 0..30 {
            cmd!(a, "ORDER.SCHEDULE", queue, sent, "PX", 250 + i * 8)
                .order()
                .expect("OK");
            sent += 1;
        }
        let mut waiting = servers[from].client();
        waiting.send(&args![
            "ORDER.CLAIM",
            queue,
            "me",
            "PX",
            600_000,
            "BLOCK",
            0
        ]);
        cmd!(b, "CLUSTER", "SETSLOT", slot, "IMPORTING", names[from]).ok();
        cmd!(a, "CLUSTER", "SETSLOT", slot, "MIGRATING", names[to]).ok();
        if round > 1 {
            // Some fall due on either side of the move.
            thread::sleep(Duration::from_millis(350));
        }
        cmd!(
            a,
            "MIGRATE",
            "127.0.0.1",
            servers[to].port(),
            "",
            0,
            10_000,
            "KEYS",
            queue
        )
        .ok();
        cmd!(b, "CLUSTER", "SETSLOT", slot, "NODE", names[to]).ok();
        cmd!(a, "CLUSTER", "SETSLOT", slot, "NODE", names[to]).ok();
        match waiting.read() {
            // ASK where it came only after the move.
            Value::Error(text) => {
                assert!(
                    text.starts_with("MOVED") || text.starts_with("ASK"),
                    "{text}"
                );
            }
            reply => {
                for row in reply.claims() {
                    assert!(got.insert(row.id_text()), "{} twice", row.id_text());
                }
            }
        }
        while got.len() < sent {
            let rows = cmd!(
                b,
                "ORDER.CLAIM",
                queue,
                "me",
                "COUNT",
                50,
                "PX",
                600_000,
                "BLOCK",
                20_000
            )
            .claims();
            assert!(!rows.is_empty(), "{} of {sent} came", got.len());
            for row in rows {
                assert!(wall_us() >= row.deadline * 1000);
                assert!(got.insert(row.id_text()), "{} twice", row.id_text());
            }
        }
        assert_eq!(cmd!(a, "DBSIZE").int(), 0);
        assert_eq!(a.info_number("orderwheel", "orderwheel_queues"), 0);
    }
    for server in servers {
        expect_healthy(server);
    }
}

#[test]
fn a_node_cut_off_from_the_majority_grants_and_announces_nothing() {
    let (one, mut two) = (
        node().line("cluster-node-timeout 2000").start(),
        node().line("cluster-node-timeout 2000").start(),
    );
    join(&[&one, &two], 2);
    let mut a = one.client();
    let (queue, _) = key_in_half(&mut a, false);
    let mut listener = one.client();
    listener.subscribe(&["__keyevent@0__:order.expired"]);
    cmd!(a, "ORDER.SCHEDULE", queue, "held", "PX", 0)
        .order()
        .expect("OK");
    let held = cmd!(a, "ORDER.CLAIM", queue, "me", "PX", 600_000)
        .claims()
        .remove(0);
    listener.messages(QUIET);
    let mut waiting = waiter(&one, &queue, false);
    two.kill();
    cmd!(a, "ORDER.SCHEDULE", queue, "1", "PX", 600_000)
        .order()
        .expect("OK");
    wait_until(AGREED, "the node to see that it is alone", || {
        cmd!(a, "CLUSTER", "INFO")
            .text()
            .contains("cluster_state:fail")
    });
    let reply = waiting.read();
    assert!(reply.error().starts_with("CLUSTERDOWN"), "{reply:?}");
    assert!(
        cmd!(a, "ORDER.SCHEDULE", queue, "2", "PX", 0)
            .error()
            .starts_with("CLUSTERDOWN")
    );
    assert!(
        cmd!(a, "ORDER.ACK", queue, "held", held.fence)
            .error()
            .starts_with("CLUSTERDOWN")
    );
    assert!(
        cmd!(a, "ORDER.CLAIM", queue, "me", "BLOCK", 0)
            .error()
            .starts_with("CLUSTERDOWN")
    );
    assert_eq!(listener.message(QUIET), None);
    two.start_again();
    wait_ok(&[&one, &two]);
    cmd!(a, "ORDER.SCHEDULE", queue, "1", "PX", 0, "XX")
        .order()
        .expect("OK");
    let message = listener
        .message(SOON)
        .expect("the pass goes on when the cluster does");
    assert_eq!(message.payload, format!("{queue}:1").as_bytes());
    assert_eq!(
        cmd!(a, "ORDER.CLAIM", queue, "me", "BLOCK", 0).claims()[0].id_text(),
        "1"
    );
    cmd!(a, "ORDER.ACK", queue, "held", held.fence)
        .order()
        .expect("OK");
    expect_healthy(&one);
}

#[test]
fn what_falls_due_while_the_cluster_is_down_comes_when_it_is_up() {
    // Not all slots are served: down, with nobody dead.
    let one = node().start();
    let mut a = one.client();
    let (queue, slot) = key_in_half(&mut a, true);
    cmd!(a, "CLUSTER", "ADDSLOTSRANGE", 0, 16383).ok();
    wait_ok(&[&one]);
    let mut listener = one.client();
    listener.subscribe(&["__keyevent@0__:order.expired"]);
    let due = cmd!(a, "ORDER.SCHEDULE", queue, "1", "PX", 400)
        .order()
        .expect("OK")
        .deadline as u64;
    let away = if slot > 8192 { slot - 1 } else { slot + 1 };
    cmd!(a, "CLUSTER", "DELSLOTS", away).ok();
    wait_until(AGREED, "the cluster to be down", || {
        cmd!(a, "CLUSTER", "INFO")
            .text()
            .contains("cluster_state:fail")
    });
    if wall_us() > due * 1000 - 50_000 {
        // Too slow a machine to see anything here.
        return;
    }
    wait_until(SOON, "the deadline to pass", || {
        wall_us() > due * 1000 + 20_000
    });
    assert_eq!(
        listener.message(QUIET),
        None,
        "a node of a cluster that is down announces nothing"
    );
    let runs = a.info_number("orderwheel", "orderwheel_timer_runs_total");
    thread::sleep(Duration::from_millis(200));
    let runs = a.info_number("orderwheel", "orderwheel_timer_runs_total") - runs;
    assert!(runs < 100, "{runs} passes in 200 ms");
    cmd!(a, "CLUSTER", "ADDSLOTS", away).ok();
    wait_ok(&[&one]);
    let message = listener
        .message(SOON)
        .expect("it comes when the cluster is up");
    assert_eq!(message.payload, format!("{queue}:1").as_bytes());
    assert_eq!(cmd!(a, "ORDER.CLAIM", queue, "me").claims().len(), 1);
    expect_healthy(&one);
}

#[test]
fn a_manual_failover_hands_over_while_orders_fall_due() {
    let (one, two, spare) = (node().start(), node().start(), node().start());
    join(&[&one, &two, &spare], 2);
    let (mut a, mut s) = (one.client(), spare.client());
    let one_name = name(&one);
    wait_until(AGREED, "it to follow", || {
        cmd!(s, "CLUSTER", "REPLICATE", one_name) == Value::Simple("OK".into())
    });
    wait_until(AGREED, "it to be in step", || {
        s.info("replication", "master_link_status") == "up"
    });
    let (queue, _) = key_in_half(&mut a, false);
    let mut waiting = waiter(&one, &queue, false);
    for i in 0..100 {
        cmd!(a, "ORDER.SCHEDULE", queue, i, "PX", i * 10)
            .order()
            .expect("OK");
    }
    wait_until(AGREED, "the failover to be taken", || {
        cmd!(s, "CLUSTER", "FAILOVER") == Value::Simple("OK".into())
    });
    wait_until(AGREED, "the failover", || {
        s.info("replication", "role") == "master" && a.info("replication", "role") == "slave"
    });
    let mut got = std::collections::BTreeSet::new();
    while let Ok(Some(reply)) = waiting.try_read(QUIET) {
        if let Value::Array(_) = reply {
            got.extend(reply.claims().iter().map(Claimed::id_text));
        }
    }
    while got.len() < 100 {
        let reply = cmd!(
            s,
            "ORDER.CLAIM",
            queue,
            "me",
            "COUNT",
            20,
            "PX",
            600_000,
            "BLOCK",
            20_000
        );
        let rows = reply.claims();
        assert!(!rows.is_empty(), "{} of 100 came", got.len());
        for row in rows {
            assert!(got.insert(row.id_text()), "{} twice", row.id_text());
        }
    }
    one.wait_in_sync(&spare);
    for server in [&one, &two, &spare] {
        expect_no_fault(server);
    }
}
