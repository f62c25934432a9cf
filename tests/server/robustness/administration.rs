//! What an administrator uses: the server's own commands, settings, users.

use std::thread;

use super::QUIET;
use crate::support::states::{expect_healthy, expect_no_fault, fill_every_state};
use crate::support::{Options, SOON, Value, args, cmd, read_file, wait_until};

#[test]
fn the_servers_own_commands_work_on_a_queue() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    fill_every_state(&mut c, "q");
    assert_eq!(cmd!(c, "TYPE", "q").text(), "ordrwheel");
    assert!(cmd!(c, "MEMORY", "USAGE", "q").int() > 1000);
    assert!(cmd!(c, "MEMORY", "USAGE", "q", "SAMPLES", 0).int() > 1000);
    let idle = cmd!(c, "OBJECT", "IDLETIME", "q").int();
    assert!(idle < 60);
    for what in ["ENCODING", "REFCOUNT"] {
        assert!(!cmd!(c, "OBJECT", what, "q").is_error(), "{what}");
    }
    assert!(
        cmd!(c, "OBJECT", "FREQ", "q").is_error(),
        "no LFU policy here"
    );
    cmd!(c, "DEBUG", "OBJECT", "q");
    assert!(!cmd!(c, "DEBUG", "DIGEST").is_error());
    assert!(!cmd!(c, "MEMORY", "STATS").is_error());
    assert!(!cmd!(c, "MEMORY", "DOCTOR").is_error());
    cmd!(c, "MEMORY", "PURGE");
    assert!(!cmd!(c, "DEBUG", "HTSTATS", 0).is_error());
    assert!(!cmd!(c, "DEBUG", "HTSTATS-KEY", "q").is_error() || server.client().id() > 0);
    assert!(!cmd!(c, "SCAN", 0, "TYPE", "ordrwheel").is_error());
    assert_eq!(
        cmd!(c, "SCAN", 0, "TYPE", "ordrwheel").items()[1]
            .items()
            .len(),
        1
    );
    for command in [
        &["GET", "q"][..],
        &["LPUSH", "q", "x"],
        &["INCR", "q"],
        &["ZADD", "q", "1", "x"],
        &["HGETALL", "q"],
        &["APPEND", "q", "x"],
    ] {
        assert!(
            c.run(command).error().starts_with("WRONGTYPE"),
            "{command:?}"
        );
    }
    assert!(cmd!(c, "SORT", "q").is_error());
    for word in ["TOUCH", "EXISTS", "PERSIST", "TTL", "OBJECT"] {
        if word == "OBJECT" {
            assert!(!cmd!(c, "OBJECT", "HELP").is_error());
        } else {
            assert!(!cmd!(c, word, "q").is_error(), "{word}");
        }
    }
    // WATCH sees what writes and what ends by itself.
    let mut other = server.client();
    cmd!(c, "ORDER.SCHEDULE", "w", "1", "PX", 0)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.CLAIM", "w", "me", "PX", 100);
    cmd!(c, "WATCH", "w").ok();
    cmd!(other, "ORDER.GET", "w", "1");
    cmd!(other, "ORDER.SCHEDULE", "w", "1", "PX", 5)
        .order()
        .expect("EXISTS");
    cmd!(c, "MULTI").ok();
    cmd!(c, "PING");
    assert_eq!(
        cmd!(c, "EXEC").items().len(),
        1,
        "questions and no-ops do not change a key"
    );
    cmd!(c, "WATCH", "w").ok();
    wait_until(SOON, "the lease to end", || {
        other.state("w", "1") == "expired"
    });
    thread::sleep(QUIET);
    cmd!(c, "MULTI").ok();
    cmd!(c, "PING");
    assert_eq!(
        cmd!(c, "EXEC"),
        Value::Nil,
        "a lease that ended changed the key"
    );
    assert!(!cmd!(c, "MODULE", "LIST").is_error());
    assert!(cmd!(c, "MODULE", "UNLOAD", "orderwheel").is_error());
    expect_healthy(&server);
}

#[test]
fn every_setting_holds_at_its_limits_and_refuses_what_is_beyond() {
    let mut server = Options::new().aof().start();
    let mut c = server.client();
    let year = 31_536_000_000_u64;
    let mut names: Vec<String> = cmd!(c, "CONFIG", "GET", "orderwheel.*")
        .pairs()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    names.sort();
    let mut tried = Vec::new();
    for (name, min, max) in [
        ("tick-budget-us", 100, 1_000_000),
        ("announce-per-s-max", 0, 1_000_000_000),
        ("announce-after-start-ms", 0, 3_600_000),
        ("payload-bytes-max", 0, 8_388_608),
        ("fence-guard-ms", 0, 600_000),
        ("lease-ms-max", 1, year),
        ("lease-ms", 1, year),
        ("lock-ms-max", 1, year),
        ("max-attempts", 0, 1_000_000_000),
        ("backoff-ms", 0, year),
        ("backoff-ms-max", 0, year),
        ("keep-ms", 0, 10 * year),
        ("max-leased", 0, 1_000_000_000),
        ("dead-max", 0, 100_000_000),
        ("claims-per-s-max", 0, 1_000_000),
    ] {
        let name = format!("orderwheel.{name}");
        let default = c.config_get(&name);
        let mut beyond = vec![
            (max + 1).to_string(),
            "-1".into(),
            "9223372036854775807".into(),
            "9223372036854775808".into(),
        ];
        beyond.extend(["x", "1.5", "0x10", "yes", "18446744073709551616"].map(str::to_owned));
        if min > 0 {
            beyond.push((min - 1).to_string());
        }
        for value in [min, max] {
            let reply = c.run(&["CONFIG", "SET", &name, &value.to_string()]);
            assert_eq!(reply, Value::Simple("OK".into()), "{name} {value}");
            assert_eq!(c.config_get(&name), value.to_string());
            for bad in &beyond {
                let reply = c.run(&["CONFIG", "SET", &name, bad]);
                assert!(reply.is_error(), "{name} {bad}: {reply:?}");
                assert_eq!(c.config_get(&name), value.to_string(), "after {bad}");
            }
            // Everything goes on at a limit.
            for i in 0..4 {
                cmd!(c, "ORDER.SCHEDULE", "q", i, "PX", 0, "UPSERT");
            }
            let claims = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 4).claims();
            for (i, row) in claims.iter().enumerate() {
                let reply = match i % 3 {
                    0 => cmd!(c, "ORDER.NACK", "q", row.id, row.fence),
                    1 => cmd!(c, "ORDER.NACK", "q", row.id, row.fence, "DEAD"),
                    _ => cmd!(c, "ORDER.ACK", "q", row.id, row.fence),
                };
                assert!(!reply.is_error(), "{name} {value}: {reply:?}");
            }
            assert!(!cmd!(c, "ORDER.FINISH", "q", "0", "CREATE").is_error());
            assert!(!cmd!(c, "ORDER.STATS", "q").is_error());
            cmd!(c, "DEL", "q");
            expect_no_fault(&server);
        }
        c.config(&name, &default);
        tried.push(name);
    }
    let apply = "orderwheel.apply-from-clients";
    for (value, good) in [
        ("yes", true),
        ("no", true),
        ("1", false),
        ("", false),
        ("maybe", false),
    ] {
        assert_eq!(
            !c.run(&["CONFIG", "SET", apply, value]).is_error(),
            good,
            "{value}"
        );
    }
    tried.push(apply.into());
    tried.sort();
    assert_eq!(names, tried, "every setting was tried");

    // CONFIG REWRITE writes what was set, and a start reads it back.
    c.config("orderwheel.keep-ms", "123456");
    c.config("orderwheel.apply-from-clients", "yes");
    c.config("orderwheel.payload-bytes-max", "128kb");
    cmd!(c, "CONFIG", "REWRITE").ok();
    let text = String::from_utf8(read_file(&server.dir().join("redis.conf"))).expect("text");
    for line in [
        "orderwheel.keep-ms 123456",
        "orderwheel.apply-from-clients yes",
        "loadmodule ",
    ] {
        assert!(text.contains(line), "{line} in:\n{text}");
    }
    *server.options_mut() = Options::new()
        .aof()
        .set("keep-ms", 123_456)
        .set("payload-bytes-max", "128kb");
    server.restart();
    let mut c = server.client();
    assert_eq!(c.config_get("orderwheel.keep-ms"), "123456");
    assert_eq!(c.config_get("orderwheel.payload-bytes-max"), "131072");
    cmd!(c, "CONFIG", "RESETSTAT").ok();
    expect_healthy(&server);
}

#[test]
fn users_with_few_rights_are_refused_and_nothing_else() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    cmd!(
        c,
        "ACL",
        "SETUSER",
        "reader",
        "on",
        "nopass",
        "%R~q*",
        "+order.get",
        "+order.scan",
        "+order.stats",
        "+order.schedule"
    )
    .ok();
    cmd!(
        c,
        "ACL",
        "SETUSER",
        "closer",
        "on",
        "nopass",
        "~q*",
        "+order.claim",
        "+order.ack",
        "+ping"
    )
    .ok();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
        .order()
        .expect("OK");
    let mut reader = server.client();
    cmd!(reader, "AUTH", "reader", "x").ok();
    assert!(cmd!(reader, "ORDER.GET", "q", "1").get().is_some());
    for command in [
        &["ORDER.GET", "other", "1"][..],
        &["ORDER.SCHEDULE", "q", "2", "PX", "1"],
        &["ORDER.CLAIM", "q", "me"],
        &["ORDER.APPLY", "q", "1", ""],
    ] {
        assert!(
            reader.run(command).error().starts_with("NOPERM"),
            "{command:?}"
        );
    }
    let mut closer = server.client();
    cmd!(closer, "AUTH", "closer", "x").ok();
    assert!(cmd!(closer, "ORDER.CLAIM", "z", "me", "BLOCK", 5).is_error());
    assert_eq!(cmd!(closer, "ORDER.CLAIM", "q", "me").claims().len(), 1);
    // The user goes while its client waits: the client goes too.
    closer.send(&args!["ORDER.CLAIM", "q", "me", "BLOCK", 0]);
    wait_until(SOON, "it to wait", || c.blocked_clients() == 1);
    assert_eq!(cmd!(c, "ACL", "DELUSER", "closer").int(), 1);
    wait_until(SOON, "it to be gone", || c.blocked_clients() == 0);
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 0)
        .order()
        .expect("OK");
    thread::sleep(QUIET);
    assert_eq!(
        c.state("q", "2"),
        "expired",
        "nothing was granted to the dead"
    );
    expect_healthy(&server);
}
