//! Claimers that wait: served in turn, timed out, killed, unblocked, and left
//! alone by everything that is none of their business.

use std::time::{Duration, Instant};

use crate::support::{Claimed, Client, Options, SOON, Server, Value, args, argv, cmd, wait_until};

/// How long "nothing happens" is watched.
const QUIET: Duration = Duration::from_millis(40);

/// A client that waits in a CLAIM of `queue`.
#[track_caller]
fn waiter(server: &Server, queue: &str, owner: &str, more: &[&str]) -> Client {
    let mut c = server.client();
    let before = c.blocked_clients();
    let mut client = server.client();
    let mut words = vec!["ORDER.CLAIM", queue, owner];
    words.extend_from_slice(if more.contains(&"BLOCK") {
        &[]
    } else {
        &["BLOCK", "60000"]
    });
    words.extend_from_slice(more);
    client.send(&words);
    wait_until(SOON, "the client to wait", || c.blocked_clients() > before);
    client
}

/// Schedules an order that is due at once.
#[track_caller]
fn due(c: &mut Client, queue: &str, id: &str) {
    cmd!(c, "ORDER.SCHEDULE", queue, id, "PX", 0)
        .order()
        .expect("OK");
}

/// Fails unless this waiter is served this order; the client stays usable.
#[track_caller]
fn served(client: &mut Client, id: &str) -> u64 {
    let rows = client.read().claims();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0].id_text(), id);
    assert_eq!(cmd!(client, "PING"), Value::Simple("PONG".into()));
    rows[0].fence
}

/// Fails unless this waiter still waits.
#[track_caller]
fn still_waits(client: &mut Client) {
    assert_eq!(client.read_within(QUIET), None, "it should still wait");
}

#[test]
fn waiters_are_served_first_come_first_served() {
    let server = Server::plain();
    let mut c = server.client();
    let mut waiting: Vec<Client> = (0..5)
        .map(|i| waiter(&server, "q", &format!("w{i}"), &[]))
        .collect();
    assert_eq!(
        c.stat("q", "claim_waiters").int(),
        5,
        "waiters are counted where there is no key yet too"
    );
    for (i, client) in waiting.iter_mut().enumerate() {
        let id = format!("o{i}");
        due(&mut c, "q", &id);
        served(client, &id);
        assert_eq!(c.order("q", &id).text("owner"), format!("w{i}"));
    }
    assert_eq!(c.blocked_clients(), 0);
    // And again with the same clients, in another order.
    for i in [3, 1, 4, 0, 2] {
        let before = c.blocked_clients();
        waiting[i].send(&args!["ORDER.CLAIM", "q", format!("w{i}"), "BLOCK", 0]);
        wait_until(SOON, "the client to wait", || c.blocked_clients() > before);
    }
    let at = c.time_ms() + 30;
    for i in 0..5 {
        cmd!(c, "ORDER.SCHEDULE", "q", format!("p{i}"), "PXAT", at)
            .order()
            .expect("OK");
    }
    for (turn, i) in [3, 1, 4, 0, 2].into_iter().enumerate() {
        served(&mut waiting[i], &format!("p{turn}"));
    }
}

#[test]
fn a_waiter_gets_its_count_before_the_next_one() {
    let server = Server::plain();
    let mut c = server.client();
    let mut first = waiter(&server, "q", "first", &["COUNT", "3"]);
    let mut second = waiter(&server, "q", "second", &["COUNT", "3"]);
    cmd!(c, "MULTI").ok();
    for i in 0..5 {
        cmd!(c, "ORDER.SCHEDULE", "q", i, "PX", 0);
    }
    cmd!(c, "EXEC");
    let ids = |client: &mut Client| -> Vec<String> {
        client
            .read()
            .claims()
            .iter()
            .map(Claimed::id_text)
            .collect()
    };
    assert_eq!(ids(&mut first), ["0", "1", "2"]);
    assert_eq!(ids(&mut second), ["3", "4"]);
}

#[test]
fn a_newcomer_does_not_jump_the_queue() {
    let server = Server::plain();
    let mut c = server.client();
    let mut first = waiter(&server, "q", "first", &[]);
    // In one transaction nobody else can be served in between: the newcomer
    // comes second, whichever way it asks.
    let mut newcomer = server.client();
    let replies = newcomer.pipeline(&[
        argv!["MULTI"],
        argv!["ORDER.SCHEDULE", "q", "1", "PX", 0],
        argv!["ORDER.SCHEDULE", "q", "2", "PX", 0],
        argv!["EXEC"],
        argv!["ORDER.CLAIM", "q", "newcomer", "BLOCK", 20_000],
    ]);
    served(&mut first, "1");
    assert_eq!(replies[4].claims()[0].id_text(), "2");
    assert_eq!(c.blocked_clients(), 0);
}

#[test]
fn the_lease_starts_at_the_grant() {
    let server = Server::plain();
    let mut c = server.client();
    let mut client = waiter(&server, "q", "me", &["PX", "30000"]);
    std::thread::sleep(Duration::from_millis(100));
    due(&mut c, "q", "1");
    let rows = client.read().claims();
    // What is left when the answer is written.
    assert!((29_900..=30_000).contains(&rows[0].lease_ms), "{rows:?}");
    assert!(c.order("q", "1").int("lease_ms") > 29_000);
}

#[test]
fn time_out_answers_an_empty_array() {
    let server = Server::plain();
    for mut c in [server.client(), server.client3()] {
        for ms in [1_u64, 30, 120] {
            let start = Instant::now();
            let reply = cmd!(c, "ORDER.CLAIM", "q", "me", "BLOCK", ms);
            assert_eq!(reply, Value::Array(vec![]), "BLOCK {ms}");
            assert!(
                start.elapsed() >= Duration::from_millis(ms),
                "BLOCK {ms} took {:?}",
                start.elapsed()
            );
            assert_eq!(cmd!(c, "PING"), Value::Simple("PONG".into()));
        }
        assert_eq!(cmd!(c, "EXISTS", "q").int(), 0, "waiting makes no key");
        // The next one in line is not lost by it.
        due(&mut c, "q", "1");
        assert_eq!(
            cmd!(c, "ORDER.CLAIM", "q", "me", "BLOCK", 1).claims().len(),
            1
        );
        cmd!(c, "DEL", "q");
    }
}

#[test]
fn client_unblock_works_both_ways() {
    let server = Server::plain();
    let mut c = server.client();
    for (how, error) in [
        (None, false),
        (Some("TIMEOUT"), false),
        (Some("ERROR"), true),
    ] {
        let mut client = server.client();
        let id = client.id();
        client.send(&args!["ORDER.CLAIM", "q", "me", "BLOCK", 0]);
        wait_until(SOON, "the client to wait", || c.blocked_clients() == 1);
        let done = match how {
            None => cmd!(c, "CLIENT", "UNBLOCK", id),
            Some(how) => cmd!(c, "CLIENT", "UNBLOCK", id, how),
        };
        assert_eq!(done.int(), 1);
        let reply = client.read();
        if error {
            assert!(reply.error().starts_with("UNBLOCKED"), "{reply:?}");
        } else {
            assert_eq!(reply, Value::Array(vec![]), "{how:?}");
        }
        // It takes nothing with it, and can wait again.
        due(&mut c, "q", "1");
        assert_eq!(
            cmd!(client, "ORDER.CLAIM", "q", "me", "BLOCK", 20_000)
                .claims()
                .len(),
            1
        );
        cmd!(c, "DEL", "q");
    }
    assert_eq!(c.blocked_clients(), 0);
}

#[test]
fn dead_waiters_are_skipped_and_take_nothing() {
    let server = Server::plain();
    let mut c = server.client();
    let mut killed = server.client();
    let id = killed.id();
    killed.send(&args!["ORDER.CLAIM", "q", "killed", "BLOCK", 0]);
    wait_until(SOON, "the client to wait", || c.blocked_clients() == 1);
    let cut = waiter(&server, "q", "cut", &[]);
    let dropped = waiter(&server, "q", "dropped", &[]);
    let mut alive = waiter(&server, "q", "alive", &[]);
    cmd!(c, "CLIENT", "KILL", "ID", id);
    cut.cut();
    drop(dropped);
    wait_until(SOON, "the server to notice", || c.blocked_clients() == 1);
    due(&mut c, "q", "1");
    served(&mut alive, "1");
    assert_eq!(
        c.order("q", "1").int("attempt"),
        1,
        "nobody dead has had it"
    );
    assert_eq!(c.blocked_clients(), 0);
    assert_eq!(c.stat("q", "claim_waiters").int(), 0);

    // The same in one turn of the server's loop: killed and due at once.
    for _ in 0..20 {
        let mut client = server.client();
        let id = client.id();
        client.send(&args!["ORDER.CLAIM", "q2", "doomed", "BLOCK", 0]);
        wait_until(SOON, "the client to wait", || c.blocked_clients() == 1);
        let mut alive = waiter(&server, "q2", "alive", &[]);
        c.pipeline(&[
            argv!["MULTI"],
            argv!["CLIENT", "KILL", "ID", id],
            argv!["ORDER.SCHEDULE", "q2", "1", "PX", 0],
            argv!["EXEC"],
        ]);
        served(&mut alive, "1");
        cmd!(c, "DEL", "q2");
    }
}

#[test]
fn transactions_and_scripts_do_not_wait() {
    let server = Server::plain();
    let mut c = server.client();
    let start = Instant::now();
    let replies = c.pipeline(&[
        argv!["MULTI"],
        argv!["ORDER.CLAIM", "q", "me", "BLOCK", 0],
        argv!["EXEC"],
    ]);
    assert_eq!(replies[2], Value::Array(vec![Value::Array(vec![])]));
    let reply = cmd!(
        c,
        "EVAL",
        "return redis.call('ORDER.CLAIM', KEYS[1], 'me', 'BLOCK', 0)",
        1,
        "q"
    );
    assert_eq!(reply, Value::Array(vec![]));
    assert!(start.elapsed() < SOON);
    // Scheduling and finishing in one transaction hands nothing out.
    let mut client = waiter(&server, "q", "me", &[]);
    c.pipeline(&[
        argv!["MULTI"],
        argv!["ORDER.SCHEDULE", "q", "1", "PX", 0],
        argv!["ORDER.FINISH", "q", "1"],
        argv!["EXEC"],
    ]);
    still_waits(&mut client);
    // Served after a script too, once the script is over.
    let script = "redis.call('ORDER.SCHEDULE', KEYS[1], '2', 'PX', 0) return redis.call('ORDER.STATS', KEYS[1])";
    assert!(!cmd!(c, "EVAL", script, 1, "q").is_error());
    served(&mut client, "2");
}

#[test]
fn waiters_wait_on_while_the_key_comes_and_goes() {
    let server = Server::plain();
    let mut c = server.client();
    let mut client = waiter(&server, "q", "me", &[]);
    cmd!(c, "ORDER.SCHEDULE", "q", "far", "PX", 600_000)
        .order()
        .expect("OK");
    still_waits(&mut client);
    let goings: &[&[&str]] = &[
        &["DEL", "q"],
        &["UNLINK", "q"],
        &["RENAME", "q", "away"],
        &["FLUSHDB"],
        &["FLUSHALL"],
        &["PEXPIRE", "q", "1"],
    ];
    for going in goings {
        cmd!(c, "ORDER.SCHEDULE", "q", "far", "PX", 600_000, "UPSERT")
            .order()
            .expect("OK");
        assert!(!c.run(going).is_error(), "{going:?}");
        wait_until(SOON, "the key to go", || cmd!(c, "EXISTS", "q").int() == 0);
        still_waits(&mut client);
    }
    cmd!(c, "SET", "q", "a string").ok();
    still_waits(&mut client);
    cmd!(c, "DEL", "q");
    due(&mut c, "q", "1");
    served(&mut client, "1");
}

#[test]
fn a_queue_that_appears_under_the_name_wakes() {
    let server = Server::plain();
    let mut c = server.client();
    let ways: &[&[&[&str]]] = &[
        &[&["RENAME", "from", "q"]],
        &[&["COPY", "from", "q"]],
        &[
            &["SELECT", "1"],
            &["COPY", "from1", "q", "DB", "0"],
            &["SELECT", "0"],
        ],
        &[
            &["SELECT", "1"],
            &["RENAME", "from1", "q"],
            &["MOVE", "q", "0"],
            &["SELECT", "0"],
        ],
        &[
            &["SELECT", "1"],
            &["RENAME", "from1", "q"],
            &["SWAPDB", "0", "1"],
            &["SELECT", "0"],
        ],
    ];
    for way in ways {
        cmd!(c, "FLUSHALL").ok();
        due(&mut c, "from", "1");
        cmd!(c, "COPY", "from", "from1", "DB", 1);
        cmd!(c, "SELECT", 1).ok();
        assert_eq!(cmd!(c, "EXISTS", "from1").int(), 1);
        cmd!(c, "SELECT", 0).ok();
        let mut client = waiter(&server, "q", "me", &[]);
        for command in *way {
            let reply = c.run(command);
            assert!(
                !reply.is_error() && reply != Value::Int(0),
                "{command:?}: {reply:?}"
            );
        }
        served(&mut client, "1");
    }
    // RESTORE.
    cmd!(c, "FLUSHALL").ok();
    due(&mut c, "from", "1");
    let dump = cmd!(c, "DUMP", "from");
    let mut client = waiter(&server, "q", "me", &[]);
    cmd!(c, "RESTORE", "q", 0, dump.bytes()).ok();
    served(&mut client, "1");
    // And one whose order falls due a little later, under its new name.
    cmd!(c, "FLUSHALL").ok();
    cmd!(c, "ORDER.SCHEDULE", "from", "2", "PX", 80)
        .order()
        .expect("OK");
    let mut client = waiter(&server, "q", "me", &[]);
    cmd!(c, "RENAME", "from", "q").ok();
    served(&mut client, "2");
}

#[test]
fn whatever_makes_an_order_claimable_wakes() {
    let server = Server::plain();
    let mut c = server.client();
    // A retry wait that ends.
    due(&mut c, "q", "retry");
    let fence = cmd!(c, "ORDER.CLAIM", "q", "x").claims()[0].fence;
    let mut client = waiter(&server, "q", "me", &[]);
    cmd!(c, "ORDER.NACK", "q", "retry", fence, "DELAY", 30)
        .order()
        .expect("OK");
    let fence = served(&mut client, "retry");
    // A lease that ends, however it does.
    let mut client = waiter(&server, "q", "me", &[]);
    cmd!(c, "ORDER.NACK", "q", "retry", fence, "DELAY", 0)
        .order()
        .expect("OK");
    let fence = served(&mut client, "retry");
    let mut client = waiter(&server, "q", "me", &["PX", "60000"]);
    cmd!(c, "ORDER.RENEW", "q", "retry", fence, "PX", 20, "LT")
        .lease()
        .expect("OK");
    served(&mut client, "retry");
    // A move to now, and one revived from the dead.
    cmd!(c, "ORDER.SCHEDULE", "q", "far", "PX", 600_000)
        .order()
        .expect("OK");
    let mut client = waiter(&server, "q", "me", &[]);
    cmd!(c, "ORDER.SCHEDULE", "q", "far", "PX", 0, "XX")
        .order()
        .expect("OK");
    let fence = served(&mut client, "far");
    cmd!(c, "ORDER.NACK", "q", "far", fence, "DEAD")
        .order()
        .expect("OK");
    let mut client = waiter(&server, "q", "me", &[]);
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "far",
        "PXAT",
        1_000_000_000_000_u64,
        "XX"
    )
    .order()
    .expect("OK");
    let fence = served(&mut client, "far");
    // A finished one that is reopened.
    cmd!(c, "ORDER.ACK", "q", "far", fence, "STATUS", "closed")
        .order()
        .expect("OK");
    let mut client = waiter(&server, "q", "me", &[]);
    cmd!(c, "ORDER.SCHEDULE", "q", "far", "PX", 10, "FROM", "closed")
        .order()
        .expect("OK");
    served(&mut client, "far");
}

#[test]
fn room_under_max_leased_wakes() {
    let server = Options::new().set("max-leased", 1).start();
    let mut c = server.client();
    for way in [
        "ORDER.ACK q 1 $fence",
        "ORDER.NACK q 1 $fence DEAD",
        "ORDER.NACK q 1 $fence DELAY 600000",
        "ORDER.FINISH q 1 FENCE $fence",
        "ORDER.SCHEDULE q 1 PX 600000 FENCE $fence",
        "ORDER.MACK q 1 1 $fence",
        "DEL q",
        "CONFIG SET orderwheel.max-leased 2",
    ] {
        cmd!(c, "FLUSHALL").ok();
        due(&mut c, "q", "1");
        due(&mut c, "q", "2");
        let row = cmd!(c, "ORDER.CLAIM", "q", "x", "COUNT", 5, "EX", 3600)
            .claims()
            .remove(0);
        assert_eq!(row.id_text(), "1");
        let mut client = waiter(&server, "q", "me", &[]);
        still_waits(&mut client);
        let command = way.replace("$fence", &row.fence.to_string());
        let reply = c.run(&command.split(' ').collect::<Vec<_>>());
        assert!(!reply.is_error(), "{way}: {reply:?}");
        if way == "DEL q" {
            // Its leases go with the queue.
            due(&mut c, "q", "2");
        }
        let Some(reply) = client.read_within(SOON) else {
            panic!("{way} made room and woke nobody");
        };
        assert_eq!(reply.claims()[0].id_text(), "2", "{way}");
    }
    // A lapse makes room as well; the lapsed one itself comes after the other.
    c.config("orderwheel.max-leased", "1");
    cmd!(c, "FLUSHALL").ok();
    due(&mut c, "q", "1");
    due(&mut c, "q", "2");
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "x", "PX", 40).claims().len(), 1);
    let mut client = waiter(&server, "q", "me", &[]);
    served(&mut client, "2");
}

#[test]
fn waiters_of_one_queue_do_not_hear_of_another() {
    let server = Server::plain();
    let mut c = server.client();
    let mut a = waiter(&server, "a", "me", &[]);
    let mut b = waiter(&server, "b", "me", &[]);
    cmd!(c, "SELECT", 3).ok();
    due(&mut c, "a", "elsewhere");
    cmd!(c, "SELECT", 0).ok();
    due(&mut c, "c", "1");
    still_waits(&mut a);
    due(&mut c, "b", "2");
    served(&mut b, "2");
    still_waits(&mut a);
    due(&mut c, "a", "3");
    served(&mut a, "3");
}

#[test]
fn a_paused_server_hands_out_nothing_and_goes_on_after() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 60)
        .order()
        .expect("OK");
    let mut client = waiter(&server, "q", "me", &[]);
    cmd!(c, "CLIENT", "PAUSE", 300, "WRITE").ok();
    let start = Instant::now();
    let fence = served(&mut client, "1");
    assert!(
        start.elapsed() >= Duration::from_millis(250),
        "handed out in the pause, after {:?}",
        start.elapsed()
    );
    cmd!(c, "ORDER.ACK", "q", "1", fence).order().expect("OK");
}

#[test]
fn a_thousand_waiters_come_and_go() {
    let server = Options::new().line("maxclients 2000").start();
    let mut c = server.client();
    for round in 0..2 {
        let mut clients: Vec<Client> = (0..500).map(|_| server.client()).collect();
        for (i, client) in clients.iter_mut().enumerate() {
            client.send(&args!["ORDER.CLAIM", "q", format!("w{i}"), "BLOCK", 0]);
        }
        wait_until(SOON, "all to wait", || c.blocked_clients() == 500);
        if round == 0 {
            drop(clients);
        } else {
            let commands: Vec<_> = (0..500)
                .map(|i| argv!["ORDER.SCHEDULE", "q", i, "PX", 0])
                .collect();
            c.pipeline(&commands);
            for client in &mut clients {
                assert_eq!(client.read().claims().len(), 1);
            }
        }
        wait_until(SOON, "nobody to wait", || c.blocked_clients() == 0);
        assert_eq!(c.stat("q", "claim_waiters").int(), 0);
    }
}

#[test]
fn a_server_that_stops_lets_its_waiters_go() {
    let mut server = Options::new().aof().start();
    let mut client = waiter(&server, "q", "me", &["BLOCK", "0"]);
    server.stop();
    assert!(client.try_read(SOON).is_err(), "the connection ends");
    server.start_again();
    let mut c = server.client();
    due(&mut c, "q", "1");
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me").claims().len(), 1);
}
