//! Connections that close while nothing may be written: their leases end afterwards.

use std::thread;
use std::time::{Duration, Instant};

use super::{LONG, QUIET, becomes, bound, due, holder, lock, released, waiter};
use crate::support::states::expect_healthy;
use crate::support::{Client, Options, SOON, Server, Value, args, cmd, wait_until};

/// A primary that listens, and a replica in step with it.
fn pair() -> (Server, Server) {
    let primary = Options::new()
        .aof()
        .tcp()
        .events("KEd")
        .line("repl-diskless-sync-delay 0")
        .start();
    let replica = Options::new().aof().replica_of(primary.port()).start();
    replica.wait_in_sync(&primary);
    (primary, replica)
}

/// The replica, and this server after a restart, have the same queue `q`.
#[track_caller]
fn all_agree(primary: &mut Server, replica: &Server) {
    replica.wait_in_sync(primary);
    let digest = primary.client().digest("q");
    assert_eq!(replica.client().digest("q"), digest);
    primary.kill_and_restart();
    assert_eq!(primary.client().digest("q"), digest);
}

#[test]
fn replicas_and_the_file_end_the_same_leases() {
    let (mut primary, replica) = pair();
    let (mut c, mut r) = (primary.client(), replica.client());
    due(&mut c, "q", &["1", "2", "3"]);
    let mut listener = replica.client();
    listener.psubscribe(&["__keyevent@0__:order.*"]);
    let mut client = holder(&primary, "q", "1");
    super::claim(&mut client, "q", "2");
    lock(&mut client, "q", "new");
    lock(&mut client, "q", "new");
    let other = holder(&primary, "q", "3");
    replica.wait_in_sync(&primary);
    client.cut();
    becomes(&mut c, "q", "1", "expired");
    becomes(&mut c, "q", "new", "missing");
    replica.wait_in_sync(&primary);
    for id in ["1", "2", "3", "new"] {
        assert_eq!(r.state("q", id), c.state("q", id), "{id}");
    }
    assert_eq!(released(&mut r), 0, "announced and counted by the primary");
    let heard = listener.messages(QUIET);
    assert!(
        !heard.iter().any(|m| m.channel.ends_with("lapsed")),
        "{heard:?}"
    );
    all_agree(&mut primary, &replica);
    let mut c = primary.client();
    assert_eq!(c.state("q", "1"), "expired");
    assert_eq!(
        c.state("q", "3"),
        "leased",
        "its connection did not close before"
    );
    drop(other);
    expect_healthy(&primary);
}

#[test]
fn a_close_in_a_pause_ends_its_leases_after_it() {
    for kind in ["WRITE", "ALL"] {
        let (mut primary, replica) = pair();
        let mut c = primary.client();
        due(&mut c, "q", &["1", "2"]);
        let mut client = holder(&primary, "q", "1");
        let fence = c.order("q", "1").fence();
        super::claim(&mut client, "q", "2");
        let mut next = waiter(&primary, "q");
        let paused = Instant::now();
        cmd!(c, "CLIENT", "PAUSE", 500, kind).ok();
        client.cut();
        if kind == "WRITE" {
            thread::sleep(Duration::from_millis(200));
            let (state, session) = (c.state("q", "2"), c.order("q", "2").int("session"));
            if paused.elapsed() < Duration::from_millis(400) {
                assert_eq!((state.as_str(), session), ("leased", 0));
            }
        }
        let rows = next.read().claims();
        assert!(
            paused.elapsed() >= Duration::from_millis(490),
            "{kind}: released in the pause"
        );
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].id_text(), rows[0].attempt), ("1".into(), 2));
        becomes(&mut c, "q", "2", "expired");
        assert_eq!(released(&mut c), 2, "each once");
        cmd!(c, "ORDER.ACK", "q", "1", fence)
            .order()
            .expect("STALE");
        all_agree(&mut primary, &replica);
        expect_healthy(&primary);
    }
}

/// Has writes refused by `refuse` while a connection closes and allowed by `allow`.
#[track_caller]
fn refused_meanwhile(
    server: &Server,
    word: &str,
    refuse: &mut dyn FnMut(&mut Client),
    allow: &mut dyn FnMut(&mut Client),
) {
    let mut c = server.client();
    due(&mut c, "q", &["1", "2"]);
    let mut client = holder(server, "q", "1");
    super::claim(&mut client, "q", "2");
    let mut next = waiter(server, "q");
    refuse(&mut c);
    let refused = cmd!(c, "ORDER.SCHEDULE", "q", "3", "PX", 0);
    assert!(refused.error().starts_with(word), "{refused:?}");
    client.cut();
    wait_until(SOON, "the connection to be gone", || {
        c.order("q", "1").int("session") == 0
    });
    let runs = |c: &mut Client| c.info_number("orderwheel", "orderwheel_timer_runs_total");
    let before = runs(&mut c);
    assert_eq!(next.read_within(Duration::from_millis(200)), None);
    let passes = runs(&mut c) - before;
    assert!(
        passes < 100,
        "{passes} passes in 200 ms: tried again, not all the time"
    );
    for id in ["1", "2"] {
        assert_eq!(c.state("q", id), "leased", "until it comes the lease lives");
    }
    assert_eq!(bound(&mut c), 2);
    allow(&mut c);
    let row = next.read().claims().remove(0);
    assert_eq!(row.attempt, 2);
    let other = if row.id_text() == "1" { "2" } else { "1" };
    becomes(&mut c, "q", other, "expired");
    assert_eq!((released(&mut c), bound(&mut c)), (2, 1));
    expect_healthy(server);
}

#[test]
fn a_close_while_replicas_are_too_few_ends_its_leases_when_they_are_enough() {
    let server = Options::new().aof().start();
    refused_meanwhile(
        &server,
        "NOREPLICAS",
        &mut |c| c.config("min-replicas-to-write", "1"),
        &mut |c| c.config("min-replicas-to-write", "0"),
    );
}

#[test]
fn a_close_while_the_disk_is_full_ends_its_leases_when_it_is_not() {
    let server = Options::new()
        .line("save 3600 1000000")
        .line("enable-protected-configs yes")
        .start();
    // A file can not take the place of a folder: saving fails.
    std::fs::create_dir_all(server.dir().join("blocked/by-this")).unwrap();
    refused_meanwhile(
        &server,
        "MISCONF",
        &mut |c| {
            c.config("dbfilename", "blocked");
            assert!(!cmd!(c, "BGSAVE").is_error());
            wait_until(SOON, "saving to fail", || {
                c.info("persistence", "rdb_last_bgsave_status") == "err"
            });
        },
        &mut |c| c.config("stop-writes-on-bgsave-error", "no"),
    );
}

#[test]
fn until_it_is_released_the_closer_may_say_that_it_is_done() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    due(&mut c, "q", &["1", "2"]);
    let mut client = holder(&server, "q", "1");
    let fence = c.order("q", "1").fence();
    super::claim(&mut client, "q", "2");
    // In the turn in which it closes.
    cmd!(c, "MULTI").ok();
    cmd!(c, "CLIENT", "KILL", "ID", client.id());
    cmd!(c, "ORDER.GET", "q", "1");
    cmd!(c, "ORDER.ACK", "q", "1", fence, "STATUS", "closed");
    cmd!(c, "ORDER.CLAIM", "q", "other", "ID", "2");
    let replies = cmd!(c, "EXEC");
    let met = replies.items()[1].get().expect("an order");
    assert_eq!((met.state(), met.int("session")), ("leased".into(), 0));
    replies.items()[2].order().expect("OK");
    assert_eq!(replies.items()[3].claims(), [], "it is not free yet");
    becomes(&mut c, "q", "2", "expired");
    assert_eq!(c.state("q", "1"), "finished");
    assert_eq!(released(&mut c), 1);
    expect_healthy(&server);
}

#[test]
fn a_close_while_a_failover_waits_ends_its_leases_when_it_is_given_up() {
    let (mut primary, replica) = pair();
    let mut c = primary.client();
    due(&mut c, "q", &["1"]);
    let client = holder(&primary, "q", "1");
    let mut next = waiter(&primary, "q");
    // The replica lags: the failover pauses writes and waits, and gives up.
    replica.signal("STOP");
    cmd!(c, "ORDER.SCHEDULE", "q", "unseen", "PX", LONG)
        .order()
        .expect("OK");
    let began = Instant::now();
    let reply = cmd!(
        c,
        "FAILOVER",
        "TO",
        "127.0.0.1",
        replica.port(),
        "TIMEOUT",
        400
    );
    assert!(!reply.is_error(), "{reply:?}");
    client.cut();
    let rows = next.read().claims();
    assert!(
        began.elapsed() >= Duration::from_millis(390),
        "released while writes were paused"
    );
    assert_eq!(rows[0].attempt, 2);
    replica.signal("CONT");
    wait_until(SOON, "the failover to be given up", || {
        c.info("replication", "master_failover_state") == "no-failover"
    });
    drop(next);
    wait_until(SOON, "that one to be released too", || {
        released(&mut c) == 2
    });
    all_agree(&mut primary, &replica);
    expect_healthy(&primary);
}

#[test]
fn a_failover_leaves_a_lease_to_its_own_time() {
    let (primary, replica) = pair();
    let (mut c, mut r) = (primary.client(), replica.client());
    due(&mut c, "q", &["1", "2"]);
    let client = holder(&primary, "q", "1");
    let row = cmd!(c, "ORDER.CLAIM", "q", "me", "PX", 3_000, "SESSION").claims();
    assert_eq!(row[0].id_text(), "2");
    replica.wait_in_sync(&primary);
    wait_until(SOON, "the failover to begin", || {
        cmd!(c, "FAILOVER", "TO", "127.0.0.1", replica.port()) == Value::Simple("OK".into())
    });
    wait_until(SOON, "the failover", || {
        r.info("replication", "role") == "master" && c.info("replication", "role") == "slave"
    });
    client.cut();
    super::stays_leased(&mut r, "q", "1", 0);
    assert_eq!((bound(&mut r), bound(&mut c)), (0, 0));
    becomes(&mut r, "q", "2", "expired");
    assert_eq!(released(&mut r) + released(&mut c), 0);
    primary.wait_in_sync(&replica);
    assert_eq!(primary.client().digest("q"), r.digest("q"));
    expect_healthy(&replica);
}

#[test]
fn a_close_while_the_cluster_is_down_and_while_a_slot_moves() {
    let node = || {
        Options::new()
            .cluster()
            .line("cluster-node-timeout 15000")
            .start()
    };
    let (one, two) = (node(), node());
    let (mut a, mut b) = (one.client(), two.client());
    cmd!(a, "CLUSTER", "ADDSLOTSRANGE", 0, 16383).ok();
    let is_up = |c: &mut Client, nodes: usize| {
        let info = cmd!(c, "CLUSTER", "INFO").text();
        info.contains("cluster_state:ok") && info.contains(&format!("cluster_known_nodes:{nodes}"))
    };
    let agreed = Duration::from_secs(40);
    wait_until(agreed, "the cluster to be up", || is_up(&mut a, 1));
    due(&mut a, "q", &["1", "2", "3"]);
    let slot = cmd!(a, "CLUSTER", "KEYSLOT", "q").int();
    // A slot that nobody serves: the cluster is down, and nothing is written.
    let client = holder(&one, "q", "1");
    let mut stays = holder(&one, "q", "2");
    let away = (slot + 1) % 16384;
    cmd!(a, "CLUSTER", "DELSLOTS", away).ok();
    wait_until(agreed, "the cluster to be down", || !is_up(&mut a, 1));
    client.cut();
    thread::sleep(QUIET);
    assert_eq!((released(&mut a), bound(&mut a)), (0, 2));
    cmd!(a, "CLUSTER", "ADDSLOTS", away).ok();
    wait_until(agreed, "the cluster to be up", || is_up(&mut a, 1));
    wait_until(SOON, "it to be released", || released(&mut a) == 1);
    assert_eq!(a.state("q", "1"), "expired");

    // The slot moves; the lease goes with it and is bound no more.
    cmd!(b, "CLUSTER", "MEET", "127.0.0.1", one.port()).ok();
    for c in [&mut a, &mut b] {
        wait_until(agreed, "them to know each other", || is_up(c, 2));
    }
    let (one_name, two_name) = (
        cmd!(a, "CLUSTER", "MYID").text(),
        cmd!(b, "CLUSTER", "MYID").text(),
    );
    cmd!(b, "CLUSTER", "SETSLOT", slot, "IMPORTING", one_name).ok();
    cmd!(a, "CLUSTER", "SETSLOT", slot, "MIGRATING", two_name).ok();
    // Before the key has moved a close is one as ever.
    let early = holder(&one, "q", "3");
    early.cut();
    becomes(&mut a, "q", "3", "expired");
    cmd!(a, "MIGRATE", "127.0.0.1", two.port(), "q", 0, 10_000).ok();
    assert_eq!(bound(&mut a), 0, "nothing is left behind");
    stays.send(&args!["QUIT"]);
    stays.cut();
    thread::sleep(QUIET);
    cmd!(b, "CLUSTER", "SETSLOT", slot, "NODE", two_name).ok();
    cmd!(a, "CLUSTER", "SETSLOT", slot, "NODE", two_name).ok();
    super::stays_leased(&mut b, "q", "2", 0);
    assert_eq!(b.order("q", "3").int("attempt"), 1);
    assert_eq!((released(&mut a), released(&mut b)), (2, 0));
    for server in [&one, &two] {
        expect_healthy(server);
    }
}
