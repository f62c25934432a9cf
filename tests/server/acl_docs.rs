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
    ("order.release", "ORDER.RELEASE q me", &["write"]),
    (
        "order.mschedule",
        "ORDER.MSCHEDULE q PX 1 1 60000",
        &["write", "denyoom"],
    ),
    ("order.mfinish", "ORDER.MFINISH q 1 1", &["write"]),
    ("order.mnack", "ORDER.MNACK q 1 1 5", &["write"]),
    ("order.mrenew", "ORDER.MRENEW q 1 1 5 PX 5", &["write"]),
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
    let mut listed: BTreeSet<String> = COMMANDS.iter().map(|c| c.0.to_owned()).collect();
    // The one without a key.
    listed.insert("order.help".to_owned());
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

/// Which categories the server lets a module have: any of the server's, and one of
/// its own.
fn categories_of(c: &mut Client) -> (bool, bool) {
    let version = |c: &mut Client, field: &str| -> Option<(u32, u32)> {
        let info = cmd!(c, "INFO", "server").text();
        let line = info.lines().find_map(|line| line.strip_prefix(field))?;
        let mut parts = line.split('.').map(|part| part.parse().unwrap());
        Some((parts.next()?, parts.next()?))
    };
    match version(c, "valkey_version:") {
        Some(valkey) => (true, valkey >= (8, 0)),
        None => version(c, "redis_version:")
            .map(|redis| (redis >= (7, 2), redis >= (7, 4)))
            .unwrap(),
    }
}

/// The ACL categories of a command.
#[track_caller]
fn categories(c: &mut Client, command: &str) -> BTreeSet<String> {
    let info = cmd!(c, "COMMAND", "INFO", command);
    info.items()[0].items()[6]
        .items()
        .iter()
        .map(Value::text)
        .collect()
}

#[test]
fn commands_are_in_the_categories_of_their_kind() {
    /// What a rule may ask for, whatever the data type.
    const OF_ALL: [&str; 7] = [
        "@read",
        "@write",
        "@fast",
        "@slow",
        "@blocking",
        "@admin",
        "@dangerous",
    ];
    /// An operator's commands of the server work on no key: of those only this.
    const OF_OPERATORS: [&str; 2] = ["@admin", "@dangerous"];
    let kin: [(&str, &str, &[&str]); 27] = [
        ("order.schedule", "zadd", &OF_ALL),
        ("order.finish", "zrem", &OF_ALL),
        ("order.status", "hset", &OF_ALL),
        ("order.claim", "xreadgroup", &OF_ALL),
        ("order.ack", "xack", &OF_ALL),
        ("order.mack", "zremrangebyscore", &OF_ALL),
        ("order.nack", "zadd", &OF_ALL),
        ("order.lock", "bzpopmin", &OF_ALL),
        ("order.renew", "pexpire", &OF_ALL),
        ("order.unlock", "hdel", &OF_ALL),
        ("order.get", "hget", &OF_ALL),
        ("order.pttl", "pttl", &OF_ALL),
        ("order.next", "zrange", &OF_ALL),
        ("order.scan", "hscan", &OF_ALL),
        ("order.stats", "xinfo|stream", &OF_ALL),
        ("order.requeue", "zremrangebyscore", &OF_ALL),
        ("order.purge", "flushdb", &OF_ALL),
        ("order.break", "client|kill", &OF_OPERATORS),
        ("order.release", "client|kill", &OF_OPERATORS),
        ("order.config", "config|set", &OF_OPERATORS),
        ("order.pause", "client|pause", &OF_OPERATORS),
        ("order.resume", "client|unpause", &OF_OPERATORS),
        ("order.apply", "replconf", &OF_OPERATORS),
        ("order.mschedule", "zremrangebyscore", &OF_ALL),
        ("order.mfinish", "zremrangebyscore", &OF_ALL),
        ("order.mnack", "zremrangebyscore", &OF_ALL),
        ("order.mrenew", "zremrangebyscore", &OF_ALL),
    ];
    let server = Server::plain();
    let mut c = server.client();
    let (any, own) = categories_of(&mut c);
    for (name, kin, of) in kin {
        let has = categories(&mut c, name);
        if !any {
            assert_eq!(has, BTreeSet::new(), "{name}");
            continue;
        }
        let kins = categories(&mut c, kin);
        for category in of {
            assert_eq!(
                has.contains(*category),
                kins.contains(*category),
                "{name} as {kin}: {category} in {has:?}"
            );
        }
        assert!(has.contains("@read") != has.contains("@write"), "{has:?}");
        assert!(has.contains("@fast") != has.contains("@slow"), "{has:?}");
        assert_eq!(has.contains("@orderwheel"), own, "{name}: {has:?}");
    }
    if own {
        // Valkey 8.0 leaves modules' commands out of this list, and out of no other.
        let all = cmd!(c, "ACL", "CAT", "orderwheel");
        let all: BTreeSet<String> = all.items().iter().map(Value::text).collect();
        let mut listed: BTreeSet<String> = COMMANDS.iter().map(|c| c.0.to_owned()).collect();
        listed.insert("order.help".to_owned());
        assert!(all == listed || all.is_empty(), "{all:?}");
    }
    assert!(!server.log().contains("refused the ACL categories"));
}

#[test]
fn categories_let_in_and_keep_out() {
    let server = Server::plain();
    let mut c = server.client();
    let (any, own) = categories_of(&mut c);
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 600_000)
        .order()
        .expect("OK");
    let is_dangerous = |name: &str| {
        [
            "apply", "config", "pause", "resume", "break", "release", "purge",
        ]
        .iter()
        .any(|word| name.strip_prefix("order.") == Some(word))
    };
    let mut reader = user(&server, &mut c, "reader", &["~q*", "+@read"]);
    let mut writer = user(
        &server,
        &mut c,
        "writer",
        &["~q*", "+@write", "-@dangerous"],
    );
    let mut careful = user(&server, &mut c, "careful", &["~q*", "+@all", "-@dangerous"]);
    let mut ours = own.then(|| {
        let rules = ["~q*", "+@orderwheel", "-@dangerous"];
        let mut ours = user(&server, &mut c, "ours", &rules);
        assert!(cmd!(ours, "GET", "q").error().starts_with("NOPERM"));
        ours
    });
    for (name, call, flags) in COMMANDS {
        let (reads, dangerous) = (flags.contains(&"readonly"), is_dangerous(name));
        let may = |client: &mut Client, may: bool, who: &str| {
            let reply = client.run(&words(call));
            let refused = reply.is_error() && reply.error().starts_with("NOPERM");
            assert_eq!(!refused, may, "{name} by {who}: {reply:?}");
        };
        may(&mut reader, any && reads, "reader");
        may(&mut writer, any && !reads && !dangerous, "writer");
        // Without categories nothing of ours is dangerous to the server.
        may(&mut careful, !any || !dangerous, "careful");
        if let Some(ours) = &mut ours {
            may(ours, !dangerous, "ours");
        }
    }
}

/// What the page has an operator type: the block of the planned failover, line by line,
/// and what is named elsewhere without its arguments.
fn runbook(page: &str) -> Vec<String> {
    let (_, failover) = page.split_once("A planned failover:").unwrap();
    let block = failover.split("```").nth(1).unwrap();
    let typed = block.lines().filter_map(|line| line.split("  ").next());
    let named = [
        ("`INFO replication`", "INFO replication"),
        ("`SCAN 0 TYPE ordrwheel`", "SCAN 0 TYPE ordrwheel"),
        ("`MEMORY USAGE orders`", "MEMORY USAGE orders"),
        ("`BGREWRITEAOF`", "BGREWRITEAOF"),
        ("`CLIENT KILL ID`", "CLIENT KILL ID 5"),
        ("`CLIENT LIST ID`", "CLIENT LIST ID 5"),
        ("`CONFIG RESETSTAT`", "CONFIG RESETSTAT"),
        ("`INFO orderwheel`", "INFO orderwheel"),
        ("`ORDER.RELEASE orders", "ORDER.RELEASE orders closer-7"),
        ("`ORDER.REQUEUE", "ORDER.REQUEUE orders STATE retrying"),
        (
            "`ORDER.CONFIG orders SET",
            "ORDER.CONFIG orders SET max-leased 20",
        ),
        (
            "`ORDER.SCHEDULE orders X",
            "ORDER.SCHEDULE orders X PX 0 XX",
        ),
        ("`ORDER.SCAN orders 0", "ORDER.SCAN orders 0 STATE dead"),
    ];
    let named = named.iter().map(|(text, call)| {
        assert!(page.contains(text), "{text} is not on the page");
        *call
    });
    typed
        .filter(|line| line.starts_with(char::is_uppercase))
        .chain(named)
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_roles_of_the_page_are_taken_and_are_right() {
    let page = include_str!("../../docs/operations.md");
    let server = Server::plain();
    let mut c = server.client();
    let (_, own) = categories_of(&mut c);
    let lines = page
        .lines()
        .filter(|line| line.starts_with("ACL SETUSER"))
        .filter(|line| own || !line.contains("@orderwheel"));
    let mut roles = Vec::new();
    for line in lines {
        let line = line.replace(">…", ">secret");
        let line = words(&line);
        let line: Vec<&str> = line.into_iter().filter(|word| !word.is_empty()).collect();
        let role = line[2];
        roles.push(role.to_owned());
        c.run(&line).ok();
        let may = |c: &mut Client, call: &str| {
            let mut dry = vec!["ACL", "DRYRUN", role];
            let call = call.replacen(" q", " orders", 1);
            dry.extend(words(&call));
            c.run(&dry) == Value::Simple("OK".into())
        };
        for (name, call, flags) in COMMANDS {
            let word = name.strip_prefix("order.").unwrap();
            let operators =
                ["config", "pause", "resume", "break", "release", "purge"].contains(&word);
            let expected = match (role, word) {
                (_, "apply")
                | ("shop", "claim" | "nack" | "mack")
                | ("closer", "schedule" | "finish") => false,
                ("reader", _) => flags.contains(&"readonly"),
                ("app" | "shop" | "closer", _) if operators => false,
                ("operator", _) if operators => true,
                ("app", _) | ("shop" | "closer", "get" | "ack") | ("operator", "get") => true,
                _ => continue,
            };
            assert_eq!(may(&mut c, call), expected, "{role}: {call}");
        }
        assert!(!may(&mut c, "FLUSHALL") && !may(&mut c, "GET q"), "{role}");
        // What a client library sends by itself, and nothing that ends others.
        let mut sent = vec![
            "PING",
            "ECHO x",
            "SELECT 0",
            "CLIENT SETNAME x",
            "CLIENT ID",
        ];
        if line.iter().any(|word| word.contains("@orderwheel")) {
            sent.push("CLIENT SETINFO LIB-NAME x");
        }
        for call in sent {
            assert!(may(&mut c, call), "{role}: {call}");
        }
        assert_eq!(may(&mut c, "CLIENT KILL ID 5"), role == "operator");
        for call in [
            "CLIENT PAUSE 5",
            "CLIENT NO-EVICT on",
            "CONFIG SET maxmemory 1",
            "SHUTDOWN NOSAVE",
            "ACL LIST",
        ] {
            assert!(!may(&mut c, call), "{role}: {call}");
        }
        // Who may call neither of these is answered as ever.
        let mut client = server.client();
        cmd!(client, "AUTH", role, "secret").ok();
        cmd!(client, "HELLO", 3);
        assert!(!cmd!(client, "RESET").is_error());
        if role == "operator" {
            let calls = runbook(page);
            assert!(calls.len() > 12, "{calls:?}");
            for call in calls {
                assert!(may(&mut c, &call), "{role}: {call}");
            }
        }
    }
    let least: &[&str] = if own {
        &["app", "reader", "operator", "shop", "closer"]
    } else {
        &["shop", "closer", "reader", "operator"]
    };
    for role in least {
        assert!(roles.iter().any(|has| has == role), "{role}: {roles:?}");
    }
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
        ("claims-per-s-max", "0", "5", "-1"),
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
