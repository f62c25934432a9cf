//! Keys that are renamed, moved, copied, loaded and deleted while leases of them are bound.

use super::{LONG, QUIET, becomes, bound, claim, due, holder, lock, released, stays_leased};
use crate::support::states::expect_healthy;
use crate::support::{Client, Options, SOON, Server, Value, args, argv, cmd, wait_until};

/// Ways in which a queue comes to another name: the commands, and its database and name
/// then.
const WAYS: [(&[&[&str]], i64, &str); 5] = [
    (&[&["RENAME", "q", "new"]], 0, "new"),
    (&[&["SET", "new", "x"], &["RENAME", "q", "new"]], 0, "new"),
    (&[&["MOVE", "q", "2"]], 2, "q"),
    (&[&["SWAPDB", "0", "3"]], 3, "q"),
    (
        &[
            &["RENAME", "q", "a"],
            &["MOVE", "a", "2"],
            &["SWAPDB", "2", "5"],
        ],
        5,
        "a",
    ),
];

#[test]
fn a_lease_that_moves_with_its_queue_stays_bound() {
    for (way, db, name) in WAYS {
        let server = Options::new().aof().start();
        let (mut c, mut there) = (server.client(), server.client());
        cmd!(there, "SELECT", db).ok();
        due(&mut c, "q", &["1"]);
        let mut client = holder(&server, "q", "1");
        let id = client.id();
        lock(&mut client, "q", "2");
        for command in way {
            assert!(!c.run(command).is_error(), "{command:?}");
        }
        assert_eq!(there.order(name, "1").int("session"), id, "{way:?}");
        assert_eq!(bound(&mut c), 2, "{way:?}");
        client.cut();
        becomes(&mut there, name, "1", "expired");
        becomes(&mut there, name, "2", "missing");
        assert_eq!((bound(&mut c), released(&mut c)), (0, 2), "{way:?}");
        expect_healthy(&server);
    }
}

#[test]
fn a_close_is_not_lost_where_the_queue_moves_before_the_pass() {
    for (way, db, name) in WAYS {
        let server = Server::plain();
        let (mut c, mut there) = (server.client(), server.client());
        cmd!(there, "SELECT", db).ok();
        due(&mut c, "q", &["1"]);
        let mut client = holder(&server, "q", "1");
        let mut commands = vec![argv!["MULTI"], argv!["CLIENT", "KILL", "ID", client.id()]];
        commands.extend(way.iter().map(|command| {
            command
                .iter()
                .map(|word| word.as_bytes().to_vec())
                .collect()
        }));
        commands.push(argv!["EXEC"]);
        let replies = c.pipeline(&commands);
        assert_eq!(replies.last().unwrap().items()[0], Value::Int(1));
        becomes(&mut there, name, "1", "expired");
        assert_eq!((bound(&mut c), released(&mut c)), (0, 1), "{way:?}");
        expect_healthy(&server);
    }
}

#[test]
fn what_is_copied_restored_or_loaded_is_not_bound() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    due(&mut c, "q", &["1"]);
    let mut client = holder(&server, "q", "1");
    let id = client.id();
    cmd!(c, "COPY", "q", "copy");
    let dump = cmd!(c, "DUMP", "q").bytes().to_vec();
    cmd!(c, "RESTORE", "restored", 0, dump).ok();
    assert_eq!(c.order("q", "1").int("session"), id);
    assert_eq!(bound(&mut c), 1);
    client.cut();
    becomes(&mut c, "q", "1", "expired");
    for copy in ["copy", "restored"] {
        stays_leased(&mut c, copy, "1", 0);
    }
    // A load: what was bound ends by its own time then.
    let client = holder(&server, "q", "1");
    let fence = c.order("q", "1").fence();
    cmd!(c, "DEBUG", "RELOAD").ok();
    assert_eq!(bound(&mut c), 0);
    client.cut();
    stays_leased(&mut c, "q", "1", 0);
    // Who is still there binds it anew.
    let mut again = server.client();
    cmd!(again, "ORDER.RENEW", "q", "1", fence, "PX", LONG, "SESSION")
        .lease()
        .expect("OK");
    assert_eq!(c.order("q", "1").int("session"), again.id());
    // Restored over the lease that it is bound by.
    let dump = cmd!(c, "DUMP", "q").bytes().to_vec();
    cmd!(c, "RESTORE", "q", 0, dump, "REPLACE").ok();
    again.cut();
    stays_leased(&mut c, "q", "1", 0);
    assert_eq!(released(&mut c), 1);
    expect_healthy(&server);
}

#[test]
fn a_restart_keeps_the_lease_for_its_own_time() {
    let mut server = Options::new().aof().start();
    let mut c = server.client();
    due(&mut c, "q", &["1", "2"]);
    let client = holder(&server, "q", "1");
    let mut short = server.client();
    let row = cmd!(short, "ORDER.CLAIM", "q", "me", "PX", 400, "SESSION")
        .claims()
        .remove(0);
    assert_eq!(row.id_text(), "2");
    server.kill_and_restart();
    let mut c = server.client();
    client.cut();
    stays_leased(&mut c, "q", "1", 0);
    becomes(&mut c, "q", "2", "expired");
    assert_eq!((bound(&mut c), released(&mut c)), (0, 0));
    expect_healthy(&server);
}

#[test]
fn a_server_that_becomes_a_replica_forgets_whose_leases_are() {
    let other = Options::new()
        .tcp()
        .line("repl-diskless-sync-delay 0")
        .start();
    let server = Options::new()
        .tcp()
        .line("repl-diskless-sync-delay 0")
        .start();
    let mut c = server.client();
    due(&mut c, "q", &["1"]);
    let mut client = holder(&server, "q", "1");
    let mut o = other.client();
    cmd!(o, "REPLICAOF", "127.0.0.1", server.port()).ok();
    other.wait_in_sync(&server);
    // On a replica nothing is bound, and nothing shows as such.
    assert_eq!(o.order("q", "1").int("session"), 0);
    assert_eq!(o.stat("q", "session_leases").int(), 0);
    assert_eq!(c.order("q", "1").int("session"), client.id());
    cmd!(o, "REPLICAOF", "NO", "ONE").ok();
    cmd!(c, "REPLICAOF", "127.0.0.1", other.port()).ok();
    assert_eq!(bound(&mut c), 0);
    client.cut();
    server.wait_in_sync(&other);
    stays_leased(&mut c, "q", "1", 0);
    stays_leased(&mut o, "q", "1", 0);
    // Nor when it takes over again.
    cmd!(c, "REPLICAOF", "NO", "ONE").ok();
    stays_leased(&mut c, "q", "1", 0);
    assert_eq!(released(&mut c) + released(&mut o), 0);
    for server in [&server, &other] {
        expect_healthy(server);
    }
}

/// Ways in which a queue goes.
const GOES: [&[&str]; 7] = [
    &["DEL", "q"],
    &["UNLINK", "q"],
    &["FLUSHDB"],
    &["FLUSHALL", "ASYNC"],
    &["SET", "q", "x"],
    &["PEXPIRE", "q", "0"],
    &["COPY", "elsewhere", "q", "REPLACE"],
];

#[test]
fn a_queue_that_goes_leaves_nothing_behind() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    for way in GOES {
        cmd!(c, "FLUSHALL").ok();
        due(&mut c, "elsewhere", &["other"]);
        due(&mut c, "q", &["1", "2"]);
        let mut client = holder(&server, "q", "1");
        lock(&mut client, "q", "3");
        assert_eq!(bound(&mut c), 2, "{way:?}");
        assert!(!c.run(way).is_error(), "{way:?}");
        assert_eq!(bound(&mut c), 0, "{way:?}");
        // Another queue of the same name, and the same order leased by one who stays.
        cmd!(c, "DEL", "q");
        due(&mut c, "q", &["1"]);
        cmd!(c, "ORDER.CLAIM", "q", "me", "PX", LONG);
        client.cut();
        stays_leased(&mut c, "q", "1", 0);
    }
    assert_eq!(released(&mut c), 0);
    expect_healthy(&server);
}

#[test]
fn a_client_that_lives_on_keeps_no_memory_of_queues_that_went() {
    let server = Server::plain();
    let (mut c, mut client) = (server.client(), server.client());
    let mut round = |way: &str| {
        for n in 0..3000 {
            let queue = format!("a-queue-with-a-rather-long-name-{way}-{n}");
            lock(&mut client, &queue, "1");
            match way {
                "DEL" => assert_eq!(cmd!(c, "DEL", queue).int(), 1),
                "FLUSHALL" if n % 100 == 99 => cmd!(c, "FLUSHALL").ok(),
                "RENAME" => {
                    cmd!(c, "RENAME", queue, "elsewhere").ok();
                }
                _ => {}
            }
        }
        // Valkey frees what it flushes on a thread of its own.
        let left = i64::from(way == "RENAME");
        wait_until(SOON, way, || bound(&mut c) == left);
        cmd!(c, "FLUSHALL").ok();
        wait_until(SOON, "all to be freed", || bound(&mut c) == 0);
        c.info_number("memory", "used_memory")
    };
    let first = round("DEL");
    for way in ["DEL", "FLUSHALL", "RENAME"] {
        let memory = round(way);
        // What is known of a queue takes some 200 bytes.
        assert!(memory < first + 200_000, "{way}: {memory}, {first}");
    }
    client.cut();
    wait_until(SOON, "it to be gone", || {
        c.info_number("clients", "connected_clients") <= 2
    });
    assert_eq!(released(&mut c), 0);
    expect_healthy(&server);
}

#[test]
fn a_queue_that_goes_before_the_pass_takes_its_leases_with_it() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    for way in GOES.into_iter().chain([&["DEBUG", "RELOAD"][..]]) {
        cmd!(c, "FLUSHALL").ok();
        due(&mut c, "elsewhere", &["other"]);
        due(&mut c, "q", &["1"]);
        let mut client = holder(&server, "q", "1");
        let id = client.id();
        let words: Vec<Vec<u8>> = way.iter().map(|word| word.as_bytes().to_vec()).collect();
        let is_load = way[0] == "DEBUG";
        let mut commands = vec![argv!["CLIENT", "KILL", "ID", id], words];
        if !is_load {
            commands.insert(0, argv!["MULTI"]);
            commands.push(argv!["EXEC"]);
        }
        c.pipeline(&commands);
        assert!(client.try_read(SOON).is_err(), "{way:?}: it is closed");
        wait_until(SOON, "nothing to be bound", || bound(&mut c) == 0);
        if is_load {
            // Whether a pass came between is chance; none is lost.
            let state = c.state("q", "1");
            assert!(["leased", "expired"].contains(&state.as_str()), "{state}");
        } else {
            cmd!(c, "DEL", "q");
            due(&mut c, "q", &["1"]);
            let row = claim(&mut c, "q", "1");
            assert_eq!(row.attempt, 1, "{way:?}");
            let own = c.id();
            stays_leased(&mut c, "q", "1", own);
        }
    }
    std::thread::sleep(QUIET);
    expect_healthy(&server);
}
