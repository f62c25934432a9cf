//! Saving: every state and field, by every way there is; files with and without
//! queues; the example configuration.

use std::collections::BTreeSet;
use std::fs;

use crate::support::states::{Snapshot, apply, expect_healthy, fill_every_state};
use crate::support::{
    Claimed, Client, Options, SOON, Server, cmd, module_path, read_file, wait_until, wire,
};

/// Every way in which a queue leaves memory and comes back.
#[test]
fn every_state_and_field_survives_every_way_of_saving() {
    let mut server = Options::new().aof().start();
    let mut c = server.client();
    fill_every_state(&mut c, "q");
    apply(&mut c, "set", &wire::configure(b"max-attempts", b"3"));
    apply(
        &mut c,
        "set",
        &wire::configure(b"transitions", b"unpaid>paid"),
    );
    apply(&mut c, "set", &wire::pause(b"deploy"));
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "set",
        "1",
        "PX",
        3_600_000,
        "STATUS",
        "unpaid"
    )
    .order()
    .expect("OK");
    let before = Snapshot::of(&mut c, "q");
    let (digest, set_digest) = (c.digest("q"), c.digest("set"));
    for (state, count) in [
        ("scheduled", 8),
        ("expired", 7),
        ("leased", 4),
        ("retrying", 1),
        ("dead", 2),
        ("finished", 3),
        ("reserved", 1),
    ] {
        let found = before.in_state(state);
        assert_eq!(found.len(), count, "{state}: {found:?}");
    }
    let claimable: Vec<String> = {
        cmd!(c, "COPY", "q", "order").int();
        cmd!(c, "ORDER.CLAIM", "order", "x", "COUNT", 1000)
            .claims()
            .iter()
            .map(Claimed::id_text)
            .collect()
    };
    cmd!(c, "DEL", "order");
    let check = |c: &mut Client, queue: &str, what: &str| {
        before.expect_same(&Snapshot::of(c, queue), what);
        assert_eq!(c.digest(queue), digest, "{what}");
        if queue == "q" {
            assert_eq!(c.digest("set"), set_digest, "{what}");
            assert_eq!(c.stat("set", "pause_reason").text(), "deploy", "{what}");
            assert_eq!(c.stat("set", "max-attempts").int(), 3, "{what}");
            assert_eq!(
                cmd!(c, "ORDER.STATUS", "set", "1", "other").order().outcome,
                "STATE",
                "{what}"
            );
        }
        // The claimable ones come in the order of their deadlines, each once.
        assert_eq!(cmd!(c, "COPY", queue, "again").int(), 1);
        let rows = cmd!(c, "ORDER.CLAIM", "again", "x", "COUNT", 1000).claims();
        let mut ids: Vec<String> = rows.iter().map(Claimed::id_text).collect();
        let plain = |ids: &[String]| -> Vec<String> {
            ids.iter()
                .filter(|id| id.starts_with("expired"))
                .cloned()
                .collect()
        };
        assert_eq!(plain(&ids), plain(&claimable), "{what}");
        ids.sort();
        let mut all = claimable.clone();
        all.sort();
        assert_eq!(ids, all, "{what}");
        cmd!(c, "DEL", "again");
    };
    check(&mut c, "q", "nothing");

    cmd!(c, "DEBUG", "RELOAD").ok();
    check(&mut c, "q", "DEBUG RELOAD");
    cmd!(c, "DEBUG", "LOADAOF").ok();
    check(&mut c, "q", "DEBUG LOADAOF");

    let payload = cmd!(c, "DUMP", "q").bytes().to_vec();
    cmd!(c, "RESTORE", "copy", 0, payload).ok();
    check(&mut c, "copy", "RESTORE");
    cmd!(c, "RESTORE", "copy", 0, payload, "REPLACE").ok();
    check(&mut c, "copy", "RESTORE REPLACE");
    assert_eq!(cmd!(c, "COPY", "q", "copy", "REPLACE").int(), 1);
    check(&mut c, "copy", "COPY");
    assert_eq!(cmd!(c, "COPY", "q", "elsewhere", "DB", 3).int(), 1);
    cmd!(c, "SELECT", 3).ok();
    check(&mut c, "elsewhere", "COPY to another database");
    cmd!(c, "SELECT", 0).ok();
    check(&mut c, "q", "having been copied");
    cmd!(c, "DEL", "copy");

    server.kill_and_restart();
    let mut c = server.client();
    check(&mut c, "q", "kill -9 and the plain append-only file");
    server.restart();
    let mut c = server.client();
    check(&mut c, "q", "SHUTDOWN and the plain append-only file");

    for preamble in ["yes", "no"] {
        c.config("aof-use-rdb-preamble", preamble);
        let bases = wire::aof_files(
            &server,
            if preamble == "yes" {
                ".base.rdb"
            } else {
                ".base.aof"
            },
        );
        cmd!(c, "BGREWRITEAOF");
        wait_until(SOON, "the rewrite", || {
            c.info("persistence", "aof_rewrite_in_progress") == "0"
                && c.info("persistence", "aof_rewrite_scheduled") == "0"
                && wire::aof_files(
                    &server,
                    if preamble == "yes" {
                        ".base.rdb"
                    } else {
                        ".base.aof"
                    },
                ) != bases
        });
        assert_eq!(c.info("persistence", "aof_last_bgrewrite_status"), "ok");
        check(&mut c, "q", "BGREWRITEAOF under way");
        server.kill_and_restart();
        c = server.client();
        check(
            &mut c,
            "q",
            &format!("BGREWRITEAOF with aof-use-rdb-preamble {preamble}"),
        );
    }
    expect_healthy(&server);

    // RDB alone.
    c.config("appendonly", "no");
    *server.options_mut() = Options::new();
    for way in ["SAVE", "BGSAVE", "SHUTDOWN"] {
        match way {
            "SAVE" => cmd!(c, "SAVE").ok(),
            "BGSAVE" => {
                cmd!(c, "BGSAVE");
                wait_until(SOON, "the save", || {
                    c.info("persistence", "rdb_bgsave_in_progress") == "0"
                });
                assert_eq!(c.info("persistence", "rdb_last_bgsave_status"), "ok");
            }
            _ => {
                c.send(&["SHUTDOWN", "SAVE"]);
                server.wait_end();
            }
        }
        server.kill();
        server.start_again();
        c = server.client();
        check(&mut c, "q", way);
    }
    expect_healthy(&server);
}

#[test]
fn a_file_without_queues_loads_without_the_module_and_one_with_them_does_not() {
    let mut server = Options::new().line("save 3600 1").start();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
        .order()
        .expect("OK");
    let fence = cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].fence;
    cmd!(c, "SET", "other", "value").ok();
    cmd!(c, "ORDER.ACK", "q", "1", fence, "KEEP", 0)
        .order()
        .expect("OK");
    assert_eq!(cmd!(c, "EXISTS", "q").int(), 0);
    *server.options_mut() = Options::new().without_module().line("save 3600 1");
    server.restart();
    assert_eq!(cmd!(server.client(), "GET", "other").text(), "value");
    *server.options_mut() = Options::new().line("save 3600 1");
    server.restart();
    cmd!(server.client(), "ORDER.SCHEDULE", "q", "1", "PX", 60_000)
        .order()
        .expect("OK");
    server.stop();
    // The other half, so that the first can fail: it says which module is lacking.
    let file = server.dir().join("dump.rdb");
    let program = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
    let socket = server.dir().join("without").display().to_string();
    let mut words = vec![
        "--port".to_owned(),
        "0".into(),
        "--unixsocket".into(),
        socket,
        "--dir".into(),
    ];
    words.push(server.dir().display().to_string());
    let output = std::process::Command::new(program)
        .args(&words)
        .output()
        .expect("a server can be started");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("ordrwheel"),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let magic = read_file(&file);
    assert!(magic.starts_with(b"REDIS") || magic.starts_with(b"VALKEY"));
    server.start_again();
    assert_eq!(server.client().state("q", "1"), "scheduled");
}

#[test]
fn the_example_configuration_starts_a_server_and_says_what_is_true() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/redis.conf.example");
    let text = fs::read_to_string(example).expect("the example is there");
    let path = std::env::temp_dir().join(format!("orderwheel-example-{}.conf", std::process::id()));
    let mut lines = Vec::new();
    let mut loads = 0;
    for line in text.lines() {
        if line.starts_with("loadmodule ") {
            loads += 1;
            lines.push(format!("loadmodule {}", module_path().display()));
        } else if line.starts_with("port ") {
            lines.push("port 0".into());
        } else {
            lines.push(line.to_owned());
        }
    }
    assert_eq!(loads, 1);
    fs::write(&path, lines.join("\n") + "\n").expect("a file can be written");
    let server = Options::new()
        .without_module()
        .line(format!("include {}", path.display()))
        .start();
    let mut c = server.client();
    fs::remove_file(&path).expect("our own file");
    let mut named = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with("orderwheel.")) {
        let (name, value) = line.split_once(' ').expect("a name and a value");
        assert_eq!(c.config_get(name), value, "{name}");
        named.insert(name.to_owned());
    }
    // Every setting is in it, with its default.
    let fresh = Server::plain();
    let mut f = fresh.client();
    for (name, default) in cmd!(f, "CONFIG", "GET", "orderwheel.*").pairs() {
        assert!(named.remove(&name), "{name} is not in the example");
        assert_eq!(
            c.config_get(&name),
            default.text(),
            "{name} is shown with another value than its default"
        );
    }
    assert!(named.is_empty(), "{named:?}");
    assert_eq!(c.config_get("appendonly"), "yes");
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
        .order()
        .expect("OK");
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me").claims().len(), 1);
}

/// A replay is no traffic: what was counted and timed when it happened is not
/// counted and timed again at a start.
#[test]
fn a_replay_counts_nothing() {
    let mut server = Options::new().aof().line("appendfsync always").start();
    let mut c = server.client();
    for i in 0..20 {
        cmd!(c, "ORDER.SCHEDULE", "q", i, "PX", 0)
            .order()
            .expect("OK");
    }
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 10).claims();
    for row in rows {
        cmd!(c, "ORDER.ACK", "q", row.id_text(), row.fence)
            .order()
            .expect("OK");
    }
    assert_eq!(c.stat("q", "scheduled_total").int(), 20);
    assert_eq!(c.stat("q", "acked_total").int(), 10);
    server.kill();
    server.start_again();
    let mut c = server.client();
    for total in ["scheduled_total", "claimed_total", "acked_total"] {
        assert_eq!(c.stat("q", total).int(), 0, "{total}");
    }
    assert_eq!(c.stat("q", "orders").int(), 20);
    assert_eq!(c.stat("q", "claim_wait_ms_max").bytes(), b"0.000");
    expect_healthy(&server);
}
