//! CONFIG: a queue's own settings, what they do, and what is no setting.

use std::collections::BTreeMap;

use super::{dead, due, setting};
use crate::support::states::expect_healthy;
use crate::support::{Client, Options, SOON, Server, Value, argv, cmd, wait_until, wire};

/// A queue's settings, in the order they are listed.
const SETTINGS: [&str; 10] = [
    "lease-ms",
    "lock-ms-max",
    "max-attempts",
    "backoff-ms",
    "backoff-ms-max",
    "keep-ms",
    "max-leased",
    "dead-max",
    "claims-per-s-max",
    "transitions",
];

/// All settings of a queue as text.
#[track_caller]
fn settings(c: &mut Client, queue: &str) -> BTreeMap<String, String> {
    let pairs = cmd!(c, "ORDER.CONFIG", queue, "GET").pairs();
    let names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, SETTINGS);
    pairs
        .into_iter()
        .map(|(name, value)| (name, value.text()))
        .collect()
}

#[test]
fn a_queue_goes_by_the_servers_settings_until_it_has_its_own() {
    let server = Server::plain();
    let mut c = server.client();
    let before = settings(&mut c, "q");
    for name in &SETTINGS[..9] {
        assert_eq!(
            before[*name],
            c.config_get(&format!("orderwheel.{name}")),
            "{name}"
        );
    }
    assert_eq!(before["transitions"], "");
    assert_eq!(cmd!(c, "EXISTS", "q").int(), 0, "looking makes no key");

    cmd!(
        c,
        "ORDER.CONFIG",
        "q",
        "SET",
        "max-attempts",
        3,
        "lease-ms",
        1234
    )
    .ok();
    assert_eq!(
        (
            setting(&mut c, "q", "max-attempts"),
            setting(&mut c, "q", "lease-ms")
        ),
        ("3".into(), "1234".into())
    );
    assert_eq!(
        cmd!(c, "EXISTS", "q").int(),
        1,
        "a queue with a setting is there"
    );
    assert_eq!(c.stat("q", "max-attempts").int(), 3, "STATS shows it");
    c.config("orderwheel.max-attempts", "7");
    c.config("orderwheel.keep-ms", "5000");
    assert_eq!(
        (
            setting(&mut c, "q", "max-attempts"),
            setting(&mut c, "q", "keep-ms")
        ),
        ("3".into(), "5000".into())
    );
    // It stays without an order, and until RESET.
    due(&mut c, "q", "1");
    let row = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
    assert!((1000..=1235).contains(&row.lease_ms), "{row:?}");
    cmd!(c, "ORDER.ACK", "q", "1", row.fence, "KEEP", 0)
        .order()
        .expect("OK");
    assert_eq!(cmd!(c, "EXISTS", "q").int(), 1);
    cmd!(c, "ORDER.CONFIG", "q", "RESET", "lease-ms").ok();
    assert_eq!(setting(&mut c, "q", "lease-ms"), "30000");
    cmd!(c, "ORDER.CONFIG", "q", "RESET", "lease-ms").ok();
    cmd!(c, "ORDER.CONFIG", "q", "RESET").ok();
    assert_eq!(setting(&mut c, "q", "max-attempts"), "7");
    assert_eq!(
        cmd!(c, "EXISTS", "q").int(),
        0,
        "nothing of its own is left"
    );
    // Names and actions in any case of letters; RESP3 answers a map.
    let mut third = server.client3();
    assert!(
        matches!(cmd!(third, "ORDER.CONFIG", "q", "get"), Value::Map(pairs) if pairs.len() == 10)
    );
}

#[test]
fn settings_survive_everything_an_order_does() {
    let mut server = Options::new().aof().start();
    let mut c = server.client();
    let mut pairs = argv!["ORDER.CONFIG", "q", "SET"];
    let own = [
        ("lease-ms", "11"),
        ("lock-ms-max", "12"),
        ("max-attempts", "0"),
        ("backoff-ms", "14"),
        ("backoff-ms-max", "15"),
        ("keep-ms", "16"),
        ("max-leased", "17"),
        ("dead-max", "0"),
        ("claims-per-s-max", "18"),
        ("transitions", "unpaid>paid unpaid>closed >unpaid"),
    ];
    for (name, value) in own {
        pairs.extend(argv![name, value]);
    }
    c.run(&pairs).ok();
    let expected: BTreeMap<String, String> = own
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect();
    assert_eq!(settings(&mut c, "q"), expected);
    let digest = c.digest("q");
    cmd!(c, "DEBUG", "RELOAD").ok();
    assert_eq!(settings(&mut c, "q"), expected, "RDB");
    cmd!(c, "COPY", "q", "copy");
    assert_eq!(settings(&mut c, "copy"), expected, "COPY");
    let dump = cmd!(c, "DUMP", "q").bytes().to_vec();
    cmd!(c, "RESTORE", "restored", 0, dump).ok();
    assert_eq!(settings(&mut c, "restored"), expected, "RESTORE");
    server.restart();
    let mut c = server.client();
    assert_eq!(settings(&mut c, "q"), expected, "AOF");
    assert_eq!(c.digest("q"), digest);
    cmd!(c, "BGREWRITEAOF");
    wait_until(SOON, "the rewrite", || {
        c.info_number("persistence", "aof_rewrite_in_progress") == 0
            && c.info_number("persistence", "aof_rewrite_scheduled") == 0
    });
    server.restart();
    let mut c = server.client();
    assert_eq!(
        (settings(&mut c, "q"), c.digest("q")),
        (expected, digest),
        "rewritten AOF"
    );
}

#[test]
fn bad_settings_name_themselves_and_change_nothing() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    let long = "a>b ".repeat(1100);
    let rows: Vec<(Vec<Vec<u8>>, &str)> = vec![
        (argv!["ORDER.CONFIG", "q"], "wrong number"),
        (argv!["ORDER.CONFIG", "q", "LIST"], "LIST"),
        (argv!["ORDER.CONFIG", "q", "SET"], "SET"),
        (
            argv!["ORDER.CONFIG", "q", "SET", "lease-ms"],
            "needs a value",
        ),
        (
            argv!["ORDER.CONFIG", "q", "SET", "lease-ms", 5, "keep-ms"],
            "needs a value",
        ),
        (argv!["ORDER.CONFIG", "q", "SET", "lease", 5], "'lease'"),
        (
            argv!["ORDER.CONFIG", "q", "SET", "lease-ms", 5, "nonsense", 5],
            "'nonsense'",
        ),
        (
            argv!["ORDER.CONFIG", "q", "SET", "lease-ms", 5, "lease-ms", 6],
            "twice",
        ),
        (argv!["ORDER.CONFIG", "q", "SET", "lease-ms", 0], "lease-ms"),
        (
            argv!["ORDER.CONFIG", "q", "SET", "lease-ms", -1],
            "lease-ms",
        ),
        (
            argv![
                "ORDER.CONFIG",
                "q",
                "SET",
                "keep-ms",
                5,
                "lock-ms-max",
                "5s"
            ],
            "lock-ms-max",
        ),
        (
            argv!["ORDER.CONFIG", "q", "SET", "max-attempts", u64::MAX],
            "max-attempts",
        ),
        (
            argv!["ORDER.CONFIG", "q", "SET", "backoff-ms", ""],
            "backoff-ms",
        ),
        (
            argv!["ORDER.CONFIG", "q", "SET", "transitions", "unpaid"],
            "transitions",
        ),
        (
            argv!["ORDER.CONFIG", "q", "SET", "transitions", "a>b  c>d"],
            "transitions",
        ),
        (
            argv!["ORDER.CONFIG", "q", "SET", "transitions", "a>b>c"],
            "transitions",
        ),
        (
            argv![
                "ORDER.CONFIG",
                "q",
                "SET",
                "transitions",
                format!("a>{}", "x".repeat(33))
            ],
            "transitions",
        ),
        (
            argv!["ORDER.CONFIG", "q", "SET", "transitions", long],
            "transitions",
        ),
        (argv!["ORDER.CONFIG", "q", "GET", "nonsense"], "'nonsense'"),
        (
            argv!["ORDER.CONFIG", "q", "GET", "lease-ms", "keep-ms"],
            "keep-ms",
        ),
        (
            argv!["ORDER.CONFIG", "q", "RESET", "nonsense"],
            "'nonsense'",
        ),
        (
            argv!["ORDER.CONFIG", "q", "RESET", "lease-ms", "keep-ms"],
            "keep-ms",
        ),
        (argv!["ORDER.PAUSE", "q", "PX", 0], "PX"),
        (argv!["ORDER.PAUSE", "q", "PX", -5], "PX"),
        (argv!["ORDER.PAUSE", "q", "PX", 5, "PX", 5], "PX"),
        (argv!["ORDER.PAUSE", "q", "EX", 5], "EX"),
        (argv!["ORDER.PAUSE", "q", "REASON"], "REASON"),
        (
            argv!["ORDER.PAUSE", "q", "REASON", "x".repeat(257)],
            "REASON",
        ),
        (argv!["ORDER.RESUME", "q", "NOW"], "wrong number"),
        (argv!["ORDER.REQUEUE", "q", "COUNT", 0], "COUNT"),
        (argv!["ORDER.REQUEUE", "q", "COUNT", 1001], "COUNT"),
        (argv!["ORDER.REQUEUE", "q", "ALL"], "ALL"),
        (argv!["ORDER.PURGE", "q"], ""),
        (argv!["ORDER.PURGE", "q", "COUNT", 5], "STATE"),
        (argv!["ORDER.PURGE", "q", "STATE", "missing"], "'missing'"),
        (
            argv!["ORDER.PURGE", "q", "STATE", "dead", "STATE", "dead"],
            "STATE",
        ),
        (
            argv![
                "ORDER.PURGE",
                "q",
                "STATE",
                "dead",
                "STATUS",
                "x".repeat(33)
            ],
            "STATUS",
        ),
        (
            argv!["ORDER.PURGE", "q", "STATE", "dead", "COUNT", 1001],
            "COUNT",
        ),
    ];
    for (words, named) in rows {
        let shown: Vec<String> = words
            .iter()
            .map(|word| String::from_utf8_lossy(&word[..word.len().min(30)]).into_owned())
            .collect();
        let reply = c.run(&words);
        let Value::Error(text) = &reply else {
            panic!("{shown:?}: {reply:?}")
        };
        assert!(
            text.starts_with("ERR ") && text.contains(named),
            "{shown:?}: {text}"
        );
        assert_eq!(
            cmd!(c, "DBSIZE").int(),
            0,
            "{shown:?}: nothing is done in part"
        );
    }
    assert_eq!(wire::logged(&server).len(), 0);
    cmd!(c, "SET", "text", "x").ok();
    for words in [
        argv!["ORDER.CONFIG", "text", "GET"],
        argv!["ORDER.CONFIG", "text", "SET", "lease-ms", 5],
        argv!["ORDER.CONFIG", "text", "RESET"],
        argv!["ORDER.PAUSE", "text"],
        argv!["ORDER.RESUME", "text"],
        argv!["ORDER.REQUEUE", "text"],
        argv!["ORDER.PURGE", "text", "STATE", "dead"],
    ] {
        assert!(c.run(&words).error().starts_with("WRONGTYPE"), "{words:?}");
    }
}

#[test]
fn each_setting_does_what_it_says() {
    let server = Server::plain();
    let mut c = server.client();
    let nack = |c: &mut Client, queue: &str| -> i64 {
        let row = cmd!(c, "ORDER.CLAIM", queue, "me", "ID", "1")
            .claims()
            .remove(0);
        let now = c.time_ms() as i64;
        cmd!(c, "ORDER.NACK", queue, "1", row.fence)
            .order()
            .expect("OK");
        c.order(queue, "1").field("retry_at").int() - now
    };
    // backoff-ms doubles to backoff-ms-max, a tenth more or less.
    cmd!(
        c,
        "ORDER.CONFIG",
        "backoff",
        "SET",
        "backoff-ms",
        100_000,
        "backoff-ms-max",
        150_000
    )
    .ok();
    due(&mut c, "backoff", "1");
    let first = nack(&mut c, "backoff");
    assert!((90_000..=115_000).contains(&first), "{first}");
    cmd!(
        c,
        "ORDER.CONFIG",
        "backoff",
        "SET",
        "backoff-ms",
        1,
        "backoff-ms-max",
        1
    )
    .ok();
    cmd!(c, "ORDER.SCHEDULE", "backoff", "1", "PX", 0, "XX")
        .order()
        .expect("OK");
    assert!(nack(&mut c, "backoff") < 5000);
    wait_until(SOON, "the retry", || c.state("backoff", "1") == "expired");
    cmd!(
        c,
        "ORDER.CONFIG",
        "backoff",
        "SET",
        "backoff-ms",
        100_000,
        "backoff-ms-max",
        150_000
    )
    .ok();
    let second = nack(&mut c, "backoff");
    assert!((135_000..=170_000).contains(&second), "{second}");
    // max-attempts.
    cmd!(
        c,
        "ORDER.CONFIG",
        "attempts",
        "SET",
        "max-attempts",
        1,
        "backoff-ms",
        0
    )
    .ok();
    due(&mut c, "attempts", "1");
    let row = cmd!(c, "ORDER.CLAIM", "attempts", "me").claims().remove(0);
    cmd!(c, "ORDER.NACK", "attempts", "1", row.fence, "DELAY", 0)
        .order()
        .expect("OK");
    assert_eq!(c.state("attempts", "1"), "dead");
    // keep-ms.
    cmd!(c, "ORDER.CONFIG", "keep", "SET", "keep-ms", 0).ok();
    cmd!(c, "ORDER.FINISH", "keep", "1", "CREATE")
        .order()
        .expect("OK");
    assert_eq!(c.state("keep", "1"), "missing");
    // lock-ms-max, of locks to come only.
    let lock = |c: &mut Client, id: &str| {
        cmd!(c, "ORDER.LOCK", "lock", id, "me", "PX", 60_000)
            .lease()
            .expect("OK")
    };
    let before = lock(&mut c, "before");
    cmd!(c, "ORDER.CONFIG", "lock", "SET", "lock-ms-max", 2000).ok();
    assert!(lock(&mut c, "after").lease_ms <= 2001);
    let reply = cmd!(
        c,
        "ORDER.RENEW",
        "lock",
        "before",
        before.fence,
        "PX",
        500_000
    )
    .lease()
    .expect("OK");
    assert!(
        reply.lease_ms > 100_000,
        "the cap is decided at the grant: {reply:?}"
    );
    // dead-max: the oldest are dropped.
    cmd!(c, "ORDER.CONFIG", "dead", "SET", "dead-max", 2).ok();
    for i in 0..5 {
        dead(&mut c, "dead", &format!("{i}"), "");
    }
    wait_until(SOON, "the oldest to be dropped", || {
        c.stat("dead", "orders").int() == 2
    });
    assert_eq!(
        (
            c.state("dead", "2"),
            c.state("dead", "3"),
            c.state("dead", "4")
        ),
        ("missing".into(), "dead".into(), "dead".into())
    );
    assert_eq!(c.stat("dead", "dead_dropped_total").int(), 3);
    assert!(
        server.log().contains("the oldest were dropped unclosed"),
        "whoever loses an unpaid order is told"
    );
    expect_healthy(&server);
}
