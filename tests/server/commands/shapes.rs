//! The shape of replies in both protocols, too few arguments, keys of another type.

use crate::support::{GET_FIELDS, LEASE_REPLY, ORDER_REPLY, Server, Value, cmd};

#[test]
fn replies_have_their_shapes_in_both_protocols() {
    let server = Server::plain();
    let (mut two, mut three) = (server.client(), server.client3());
    for (c, q) in [(&mut two, "two"), (&mut three, "three")] {
        let maps = q == "three";
        let named = |reply: &Value, names: &[&str]| {
            if maps {
                let Value::Map(pairs) = reply else {
                    panic!("a map in RESP3: {reply:?}")
                };
                assert_eq!(
                    pairs.iter().map(|(k, _)| k.text()).collect::<Vec<_>>(),
                    names
                );
            } else {
                let Value::Array(items) = reply else {
                    panic!("an array in RESP2: {reply:?}")
                };
                assert_eq!(items.len(), names.len(), "{reply:?}");
            }
        };
        named(
            &cmd!(c, "ORDER.SCHEDULE", q, "1", "PX", 0, "STATUS", "unpaid"),
            &ORDER_REPLY,
        );
        named(&cmd!(c, "ORDER.FINISH", q, "nobody"), &ORDER_REPLY);
        let claims = cmd!(c, "ORDER.CLAIM", q, "me", "COUNT", 10);
        let Value::Array(rows) = &claims else {
            panic!("{claims:?}")
        };
        let Value::Array(row) = &rows[0] else {
            panic!("{claims:?}")
        };
        assert_eq!(row.len(), 7);
        assert!(matches!(row[6], Value::Nil), "no payload is null: {row:?}");
        assert_eq!(
            cmd!(c, "ORDER.CLAIM", q, "me"),
            Value::Array(vec![]),
            "no claim is an empty array, not null"
        );
        let fence = row[1].int();
        named(
            &cmd!(c, "ORDER.RENEW", q, "1", fence, "PX", 9000),
            &LEASE_REPLY,
        );
        named(
            &cmd!(c, "ORDER.RENEW", q, "nobody", fence, "PX", 9000),
            &LEASE_REPLY,
        );
        named(
            &cmd!(c, "ORDER.STATUS", q, "1", "x", "FENCE", fence),
            &ORDER_REPLY,
        );
        named(&cmd!(c, "ORDER.NACK", q, "1", 5), &ORDER_REPLY);
        named(
            &cmd!(c, "ORDER.ACK", q, "1", fence, "RESULT", "r"),
            &ORDER_REPLY,
        );
        let words = cmd!(c, "ORDER.MACK", q, 2, "1", fence, "2", fence);
        assert_eq!(
            words.items().iter().map(Value::text).collect::<Vec<_>>(),
            ["FINISHED", "MISSING"]
        );
        let get = cmd!(c, "ORDER.GET", q, "1");
        assert_eq!(matches!(get, Value::Map(_)), maps, "{get:?}");
        assert_eq!(get.get().unwrap().names(), GET_FIELDS);
        assert_eq!(cmd!(c, "ORDER.GET", q, "nobody"), Value::Nil);
        let stats = cmd!(c, "ORDER.STATS", q);
        assert_eq!(matches!(stats, Value::Map(_)), maps, "{stats:?}");
        let scan = cmd!(c, "ORDER.SCAN", q, 0);
        assert_eq!(scan.items().len(), 2, "{scan:?}");
        assert!(
            matches!(scan.items()[1].items()[0], Value::Array(_)),
            "{scan:?}"
        );
        assert_eq!(cmd!(c, "ORDER.NEXT", q), Value::Array(vec![]));
        assert!(matches!(cmd!(c, "ORDER.PTTL", q, "1"), Value::Int(-1)));
    }
    // The nulls themselves differ.
    two.send_raw(b"*3\r\n$9\r\nORDER.GET\r\n$3\r\ntwo\r\n$1\r\nx\r\nPING\r\n");
    assert_eq!(
        (two.read(), two.read()),
        (Value::Nil, Value::Simple("PONG".into()))
    );
}

#[test]
fn too_few_arguments_are_the_servers_own_error() {
    let server = Server::plain();
    let mut c = server.client();
    for (command, least) in [
        ("ORDER.SCHEDULE q id PX 5", 5),
        ("ORDER.FINISH q id", 3),
        ("ORDER.STATUS q id status", 4),
        ("ORDER.CLAIM q owner", 3),
        ("ORDER.ACK q id 5", 4),
        ("ORDER.MACK q 1 id 5", 5),
        ("ORDER.NACK q id 5", 4),
        ("ORDER.RENEW q id 5 PX 5", 6),
        ("ORDER.GET q id", 3),
        ("ORDER.PTTL q id", 3),
        ("ORDER.NEXT q", 2),
        ("ORDER.SCAN q 0", 3),
        ("ORDER.STATS q", 2),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        assert_eq!(words.len(), least, "{command}");
        for len in 1..least {
            let reply = c.run(&words[..len]);
            let text = format!(
                "err wrong number of arguments for '{}' command",
                words[0].to_lowercase()
            );
            assert_eq!(reply.error().to_lowercase(), text, "{:?}", &words[..len]);
        }
        assert!(!c.run(&words).is_error(), "{command}");
        // One more word, which is no option.
        let mut more = words.clone();
        more.push("NONSENSE");
        let reply = c.run(&more);
        let error = reply.error();
        assert!(
            error.starts_with("ERR syntax error") || error.contains("wrong number of arguments"),
            "{more:?}: {error}"
        );
        cmd!(c, "DEL", "q");
    }
}

#[test]
fn another_type_is_refused_by_each() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "SET", "s", "text").ok();
    for command in [
        "ORDER.SCHEDULE s id PX 5",
        "ORDER.FINISH s id CREATE",
        "ORDER.STATUS s id status",
        "ORDER.CLAIM s owner",
        "ORDER.CLAIM s owner BLOCK 100",
        "ORDER.ACK s id 5",
        "ORDER.MACK s 1 id 5",
        "ORDER.NACK s id 5",
        "ORDER.RENEW s id 5 PX 5",
        "ORDER.GET s id",
        "ORDER.PTTL s id",
        "ORDER.NEXT s",
        "ORDER.SCAN s 0",
        "ORDER.STATS s",
    ] {
        let reply = c.run(&command.split(' ').collect::<Vec<_>>());
        assert_eq!(
            reply.error(),
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "{command}"
        );
        // Syntax and range come first.
        let reply = c.run(&format!("{command} NONSENSE").split(' ').collect::<Vec<_>>());
        assert!(
            reply.error().starts_with("ERR "),
            "{command} NONSENSE: {reply:?}"
        );
    }
    assert_eq!(cmd!(c, "GET", "s").text(), "text");
}
