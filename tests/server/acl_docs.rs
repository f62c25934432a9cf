//! What the server tells others about the commands, and what it lets whom do.

use std::collections::BTreeSet;

use crate::support::{Client, Server, Value, cmd};

/// Every command, a good call of it, and its flags.
const COMMANDS: &[(&str, &str, &[&str])] = &[
    (
        "order.schedule",
        "ORDER.SCHEDULE q 1 PX 60000",
        &["write", "denyoom"],
    ),
    ("order.finish", "ORDER.FINISH q 1", &["write"]),
    ("order.status", "ORDER.STATUS q 1 s", &["write", "denyoom"]),
    ("order.claim", "ORDER.CLAIM q me", &["write"]),
    ("order.ack", "ORDER.ACK q 1 5", &["write"]),
    ("order.mack", "ORDER.MACK q 1 1 5", &["write"]),
    ("order.nack", "ORDER.NACK q 1 5", &["write"]),
    (
        "order.lock",
        "ORDER.LOCK q 1 me PX 5",
        &["write", "denyoom"],
    ),
    ("order.renew", "ORDER.RENEW q 1 5 PX 5", &["write"]),
    ("order.unlock", "ORDER.UNLOCK q 1 5", &["write"]),
    ("order.break", "ORDER.BREAK q 1", &["write"]),
    ("order.get", "ORDER.GET q 1", &["readonly"]),
    ("order.pttl", "ORDER.PTTL q 1", &["readonly"]),
    ("order.next", "ORDER.NEXT q", &["readonly"]),
    ("order.scan", "ORDER.SCAN q 0", &["readonly"]),
    ("order.stats", "ORDER.STATS q", &["readonly"]),
    ("order.config", "ORDER.CONFIG q GET", &["write"]),
    ("order.pause", "ORDER.PAUSE q", &["write"]),
    ("order.resume", "ORDER.RESUME q", &["write"]),
    ("order.requeue", "ORDER.REQUEUE q", &["write"]),
    ("order.purge", "ORDER.PURGE q STATE dead", &["write"]),
    ("order.apply", "ORDER.APPLY q 1 x", &["write"]),
];

/// The field of a flat or real map.
#[track_caller]
fn field(value: &Value, name: &str) -> Value {
    match value.pairs().into_iter().find(|(field, _)| field == name) {
        Some((_, value)) => value,
        None => panic!("no {name} in {value:?}"),
    }
}

/// Splits a call into its words.
fn words(call: &str) -> Vec<&str> {
    call.split(' ').collect()
}

#[test]
fn every_command_is_documented() {
    let server = Server::plain();
    let mut c = server.client();
    for (name, _, _) in COMMANDS {
        let docs = cmd!(c, "COMMAND", "DOCS", name);
        let docs = field(&docs, name);
        for (what, least) in [("summary", 15), ("since", 5), ("complexity", 4)] {
            let text = field(&docs, what).text();
            assert!(text.len() >= least, "{name} {what}: {text:?}");
        }
        assert!(
            field(&docs, "complexity").text().starts_with("O("),
            "{name}: {docs:?}"
        );
        let arguments = field(&docs, "arguments");
        let first = &arguments.items()[0];
        assert_eq!(
            field(first, "type").text(),
            "key",
            "{name}: the key comes first: {first:?}"
        );
    }
    // The words of the grammar are in the arguments.
    let text = format!("{:?}", cmd!(c, "COMMAND", "DOCS", "order.schedule")).to_uppercase();
    for word in [
        "PX", "EX", "PXAT", "EXAT", "NX", "XX", "UPSERT", "GT", "LT", "FROM", "IFREV", "FENCE",
        "STATUS", "PAYLOAD",
    ] {
        assert!(
            text.contains(&format!("\"{word}\"")),
            "{word} is missing in {text}"
        );
    }
    let text = format!("{:?}", cmd!(c, "COMMAND", "DOCS", "order.claim")).to_uppercase();
    for word in ["PX", "EX", "COUNT", "BLOCK", "ID"] {
        assert!(
            text.contains(&format!("\"{word}\"")),
            "{word} is missing in {text}"
        );
    }
    // And there is no command of ours that is not in the list above.
    let all = cmd!(c, "COMMAND", "LIST", "FILTERBY", "MODULE", "orderwheel");
    let all: BTreeSet<String> = all.items().iter().map(Value::text).collect();
    let listed: BTreeSet<String> = COMMANDS.iter().map(|c| c.0.to_owned()).collect();
    assert_eq!(all, listed);
}

#[test]
fn flags_arity_and_keys_are_right() {
    let server = Server::plain();
    let mut c = server.client();
    for (name, call, flags) in COMMANDS {
        let info = cmd!(c, "COMMAND", "INFO", name);
        let info = info.items()[0].items();
        assert_eq!(info[0].text(), *name);
        let arity = info[1].int();
        let words = words(call);
        assert!(arity != -1, "{name} has an arity");
        if arity > 0 {
            assert_eq!(arity, words.len() as i64, "{name}");
        } else {
            assert!(-arity <= words.len() as i64, "{name}: {arity}");
        }
        let has: BTreeSet<String> = info[2].items().iter().map(Value::text).collect();
        for flag in ["write", "readonly", "denyoom"] {
            assert_eq!(
                has.contains(flag),
                flags.contains(&flag),
                "{name} {flag}: {has:?}"
            );
        }
        assert_eq!(
            (info[3].int(), info[4].int(), info[5].int()),
            (1, 1, 1),
            "{name}: one key, the first argument"
        );
        let mut exact = vec!["COMMAND", "GETKEYS"];
        exact.extend_from_slice(&words);
        assert_eq!(
            c.run(&exact),
            Value::Array(vec![Value::Bulk(b"q".to_vec())]),
            "{name}"
        );
        let mut with_flags = vec!["COMMAND", "GETKEYSANDFLAGS"];
        with_flags.extend_from_slice(&words);
        let keys = c.run(&with_flags);
        let key_flags: BTreeSet<String> = keys.items()[0].items()[1]
            .items()
            .iter()
            .map(Value::text)
            .collect();
        assert_eq!(
            key_flags.contains("RO"),
            flags.contains(&"readonly"),
            "{name}: {key_flags:?}"
        );
        assert_eq!(
            key_flags.contains("RW"),
            flags.contains(&"write"),
            "{name}: {key_flags:?}"
        );
    }
}

/// A connection of a user with these rules.
#[track_caller]
fn user(server: &Server, c: &mut Client, name: &str, rules: &[&str]) -> Client {
    let mut command = vec![
        "ACL",
        "SETUSER",
        name,
        "on",
        ">secret",
        "resetkeys",
        "resetchannels",
        "nocommands",
    ];
    command.extend_from_slice(rules);
    c.run(&command).ok();
    let mut client = server.client();
    cmd!(client, "AUTH", name, "secret").ok();
    client
}

#[test]
fn a_reader_may_read_and_not_write() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 600_000)
        .order()
        .expect("OK");
    let mut reader = user(&server, &mut c, "reader", &["%R~q*", "+@all"]);
    for (name, call, flags) in COMMANDS {
        let reply = reader.run(&words(call));
        if flags.contains(&"readonly") {
            assert!(!reply.is_error(), "{name}: {reply:?}");
        } else {
            assert!(reply.error().starts_with("NOPERM"), "{name}: {reply:?}");
        }
        // No other key, whatever the command.
        let other = call.replacen(" q", " other", 1);
        let reply = reader.run(&words(&other));
        assert!(reply.error().starts_with("NOPERM"), "{other}: {reply:?}");
    }
    let mut writer = user(&server, &mut c, "writer", &["~q*", "+@all", "-order.apply"]);
    for (name, call, _) in COMMANDS {
        let reply = writer.run(&words(call));
        if *name == "order.apply" {
            assert!(reply.error().starts_with("NOPERM"), "{reply:?}");
        } else {
            assert!(!reply.is_error(), "{name}: {reply:?}");
        }
    }
}

#[test]
fn roles_are_lists_of_commands() {
    let server = Server::plain();
    let mut c = server.client();
    let mut shop = user(
        &server,
        &mut c,
        "shop",
        &[
            "~orders*",
            "+order.schedule",
            "+order.finish",
            "+order.status",
            "+order.get",
        ],
    );
    cmd!(shop, "ORDER.SCHEDULE", "orders", "1", "PX", 0)
        .order()
        .expect("OK");
    assert!(
        cmd!(shop, "ORDER.CLAIM", "orders", "me")
            .error()
            .starts_with("NOPERM")
    );
    let closer_rules = [
        "~orders*",
        "+order.claim",
        "+order.ack",
        "+order.mack",
        "+order.nack",
        "+order.renew",
    ];
    let mut closer = user(&server, &mut c, "closer", &closer_rules);
    let rows = cmd!(closer, "ORDER.CLAIM", "orders", "me", "BLOCK", 20_000).claims();
    cmd!(closer, "ORDER.ACK", "orders", "1", rows[0].fence)
        .order()
        .expect("OK");
    assert!(
        cmd!(closer, "ORDER.SCHEDULE", "orders", "2", "PX", 0)
            .error()
            .starts_with("NOPERM")
    );
    let dry = cmd!(c, "ACL", "DRYRUN", "closer", "ORDER.FINISH", "orders", "1");
    assert_ne!(dry, Value::Simple("OK".into()));
    let dry = cmd!(c, "ACL", "DRYRUN", "shop", "ORDER.FINISH", "orders", "1");
    assert_eq!(dry, Value::Simple("OK".into()));
}

#[test]
fn settings_are_the_servers_own() {
    let server = Server::plain();
    let mut c = server.client();
    for (name, default, good, bad) in [
        ("tick-budget-us", "1000", "2000", "-1"),
        ("announce-after-start-ms", "3000", "0", "-1"),
        ("payload-bytes-max", "65536", "100", "-1"),
        ("fence-guard-ms", "10000", "0", "-1"),
        ("lease-ms-max", "86400000", "1000", "0"),
        ("lease-ms", "30000", "1000", "0"),
        ("max-attempts", "250", "0", "-1"),
        ("backoff-ms", "1000", "5", "-1"),
        ("backoff-ms-max", "60000", "10", "-1"),
        ("keep-ms", "86400000", "0", "-1"),
        ("max-leased", "0", "5", "-1"),
        ("dead-max", "0", "5", "-1"),
        ("apply-from-clients", "no", "yes", "perhaps"),
    ] {
        let name = format!("orderwheel.{name}");
        assert_eq!(c.config_get(&name), default, "{name}");
        for wrong in [bad, "x", "1e3", "99999999999999999999999"] {
            let reply = cmd!(c, "CONFIG", "SET", &name, wrong);
            assert!(reply.is_error(), "{name} {wrong}: {reply:?}");
            assert_eq!(c.config_get(&name), default, "{name} {wrong}");
        }
        c.config(&name, good);
        assert_eq!(c.config_get(&name), good);
    }
    assert!(
        c.config_get("orderwheel.announce-per-s-max")
            .parse::<u64>()
            .unwrap()
            > 0
    );
}
