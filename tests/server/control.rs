//! Commands on a queue as a whole: its settings, allowed changes of status, its
//! pause, its dead orders, and the removal of many.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::states::{Snapshot, expect_healthy, fill_every_state};
use crate::support::{
    Claimed, Client, Message, Options, SOON, Server, Value, args, argv, cmd, wait_until, wire,
};

/// How long "nothing happens" is watched.
const QUIET: Duration = Duration::from_millis(60);
/// Ten minutes.
const LONG: u64 = 600_000;
/// A queue's settings, in the order they are listed.
const SETTINGS: [&str; 9] = [
    "lease-ms",
    "lock-ms-max",
    "max-attempts",
    "backoff-ms",
    "backoff-ms-max",
    "keep-ms",
    "max-leased",
    "dead-max",
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

/// One setting as text.
#[track_caller]
fn setting(c: &mut Client, queue: &str, name: &str) -> String {
    let pairs = cmd!(c, "ORDER.CONFIG", queue, "GET", name).pairs();
    assert_eq!(pairs.len(), 1);
    assert_eq!(pairs[0].0, name);
    pairs[0].1.text()
}

/// Schedules an order that is due at once.
#[track_caller]
fn due(c: &mut Client, queue: &str, id: &str) {
    cmd!(c, "ORDER.SCHEDULE", queue, id, "PX", 0)
        .order()
        .expect("OK");
}

/// Makes an order that is dead.
#[track_caller]
fn dead(c: &mut Client, queue: &str, id: &str, status: &str) {
    cmd!(c, "ORDER.SCHEDULE", queue, id, "PX", 0, "STATUS", status)
        .order()
        .expect("OK");
    let row = cmd!(c, "ORDER.CLAIM", queue, "me", "ID", id)
        .claims()
        .remove(0);
    cmd!(c, "ORDER.NACK", queue, id, row.fence, "DEAD")
        .order()
        .expect("OK");
}

/// A client that waits for an order of `queue`.
#[track_caller]
fn claimer(server: &Server, queue: &str) -> Client {
    let mut c = server.client();
    let before = c.blocked_clients();
    let mut client = server.client();
    client.send(&args!["ORDER.CLAIM", queue, "me", "PX", LONG, "BLOCK", 0]);
    wait_until(SOON, "it to wait", || c.blocked_clients() > before);
    client
}

/// The numbers of a REQUEUE or PURGE.
#[track_caller]
fn swept(reply: &Value) -> (i64, i64) {
    assert_eq!(reply.items().len(), 2, "{reply:?}");
    (reply.items()[0].int(), reply.items()[1].int())
}

// --- CONFIG ---------------------------------------------------------------------

#[test]
fn a_queue_goes_by_the_servers_settings_until_it_has_its_own() {
    let server = Server::plain();
    let mut c = server.client();
    let before = settings(&mut c, "q");
    for name in &SETTINGS[..8] {
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
        matches!(cmd!(third, "ORDER.CONFIG", "q", "get"), Value::Map(pairs) if pairs.len() == 9)
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

#[test]
fn transitions_let_through_what_they_list() {
    let server = Server::plain();
    let mut c = server.client();
    let any = |c: &mut Client, words: Vec<Vec<u8>>| c.run(&words).items()[0].text();
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "old",
        "PX",
        LONG,
        "STATUS",
        "strange"
    )
    .order()
    .expect("OK");
    cmd!(
        c,
        "ORDER.CONFIG",
        "q",
        "SET",
        "transitions",
        "unpaid>paid unpaid>closed paid>shipped"
    )
    .ok();
    assert_eq!(
        setting(&mut c, "q", "transitions"),
        "unpaid>paid unpaid>closed paid>shipped"
    );
    for id in ["1", "2"] {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", LONG, "STATUS", "unpaid")
            .order()
            .expect("OK");
    }
    let before = c.digest("q");
    for words in [
        argv!["ORDER.STATUS", "q", "1", "shipped"],
        argv!["ORDER.STATUS", "q", "1", ""],
        argv!["ORDER.FINISH", "q", "1", "STATUS", "shipped"],
        argv![
            "ORDER.SCHEDULE",
            "q",
            "1",
            "PX",
            LONG,
            "XX",
            "STATUS",
            "shipped"
        ],
        argv!["ORDER.STATUS", "q", "old", "paid"],
    ] {
        assert_eq!(any(&mut c, words.clone()), "STATE", "{words:?}");
    }
    assert_eq!(c.digest("q"), before);
    // The same status is no change; what is listed is let through, step by step.
    assert_eq!(any(&mut c, argv!["ORDER.STATUS", "q", "1", "unpaid"]), "OK");
    assert_eq!(any(&mut c, argv!["ORDER.STATUS", "q", "1", "paid"]), "OK");
    assert_eq!(
        any(&mut c, argv!["ORDER.STATUS", "q", "1", "closed"]),
        "STATE",
        "never closed after paid"
    );
    assert_eq!(
        any(&mut c, argv!["ORDER.FINISH", "q", "1", "STATUS", "shipped"]),
        "OK"
    );
    assert_eq!(
        any(&mut c, argv!["ORDER.STATUS", "q", "1", "unpaid"]),
        "STATE",
        "finished ones too"
    );
    // A closer's ACK and MACK as well.
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 0, "XX")
        .order()
        .expect("OK");
    let row = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
    assert_eq!(
        any(
            &mut c,
            argv!["ORDER.ACK", "q", "2", row.fence, "STATUS", "shipped"]
        ),
        "STATE"
    );
    assert_eq!(
        any(
            &mut c,
            argv!["ORDER.MACK", "q", 1, "2", row.fence, "STATUS", "shipped"]
        ),
        "STATE"
    );
    assert_eq!(c.state("q", "2"), "leased");
    assert_eq!(
        any(
            &mut c,
            argv!["ORDER.MACK", "q", 1, "2", row.fence, "STATUS", "closed"]
        ),
        "OK"
    );
    // A holder is bound by them too.
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "3",
        "PX",
        LONG,
        "STATUS",
        "unpaid"
    )
    .order()
    .expect("OK");
    let fence = cmd!(c, "ORDER.LOCK", "q", "3", "me", "PX", LONG)
        .lease()
        .expect("OK")
        .fence;
    assert_eq!(
        any(
            &mut c,
            argv![
                "ORDER.FINISH",
                "q",
                "3",
                "FENCE",
                fence,
                "STATUS",
                "shipped"
            ]
        ),
        "STATE"
    );
    assert_eq!(
        any(
            &mut c,
            argv!["ORDER.FINISH", "q", "3", "FENCE", fence, "STATUS", "paid"]
        ),
        "OK"
    );
    cmd!(c, "ORDER.CONFIG", "q", "RESET", "transitions").ok();
    assert_eq!(
        any(&mut c, argv!["ORDER.STATUS", "q", "3", "anything"]),
        "OK"
    );
}

#[test]
fn max_leased_lets_the_next_one_in_when_a_claim_ends() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "ORDER.CONFIG", "q", "SET", "max-leased", 2).ok();
    for i in 0..8 {
        due(&mut c, "q", &format!("{i}"));
    }
    let claim = |c: &mut Client, lease: u64| {
        cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 10, "PX", lease).claims()
    };
    let rows = claim(&mut c, LONG);
    assert_eq!(rows.len(), 2, "no more than that at once");
    assert_eq!(claim(&mut c, LONG), []);
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "5").claims(),
        [],
        "by id neither"
    );
    // Locks are not claims.
    cmd!(c, "ORDER.LOCK", "q", "locked", "me", "PX", LONG)
        .lease()
        .expect("OK");
    let ends: [(&str, Vec<Vec<u8>>); 5] = [
        (
            "ACK",
            argv!["ORDER.ACK", "q", rows[0].id_text(), rows[0].fence],
        ),
        (
            "NACK",
            argv![
                "ORDER.NACK",
                "q",
                rows[1].id_text(),
                rows[1].fence,
                "DELAY",
                LONG
            ],
        ),
        ("UNLOCK", vec![]),
        ("BREAK", vec![]),
        ("FINISH", vec![]),
    ];
    let mut held: Vec<(String, u64)> = Vec::new();
    for (way, mut words) in ends {
        let mut waits = claimer(&server, "q");
        assert_eq!(waits.read_within(QUIET), None, "{way}: full");
        if words.is_empty() {
            let (id, fence) = held.remove(0);
            words = match way {
                "UNLOCK" => argv!["ORDER.UNLOCK", "q", id, fence],
                "BREAK" => argv!["ORDER.BREAK", "q", id],
                _ => argv!["ORDER.FINISH", "q", id, "FENCE", fence],
            };
        }
        assert_eq!(c.run(&words).items()[0].text(), "OK", "{way}");
        let row = waits.read().claims().remove(0);
        held.push((row.id_text(), row.fence));
        assert_eq!(c.stat("q", "live_claims").int(), 2, "{way}");
    }
    // By lapse, and when the limit is raised.
    let mut waits = claimer(&server, "q");
    let (id, fence) = held.remove(0);
    cmd!(c, "ORDER.RENEW", "q", id, fence, "PX", 100, "LT")
        .lease()
        .expect("OK");
    waits.read().claims().remove(0);
    let mut waits = claimer(&server, "q");
    assert_eq!(waits.read_within(QUIET), None);
    cmd!(c, "ORDER.CONFIG", "q", "SET", "max-leased", 3).ok();
    waits.read().claims().remove(0);
    let mut waits = claimer(&server, "q");
    assert_eq!(waits.read_within(QUIET), None);
    cmd!(c, "ORDER.CONFIG", "q", "RESET").ok();
    waits.read().claims().remove(0);
    expect_healthy(&server);
}

#[test]
fn max_leased_of_the_server_wakes_too() {
    let server = Options::new().set("max-leased", 1).start();
    let mut c = server.client();
    for i in 0..3 {
        due(&mut c, "q", &format!("{i}"));
    }
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 10, "PX", LONG)
            .claims()
            .len(),
        1
    );
    let mut waits = claimer(&server, "q");
    assert_eq!(waits.read_within(QUIET), None);
    c.config("orderwheel.max-leased", "2");
    assert_eq!(waits.read().claims().len(), 1);
}

// --- PAUSE and RESUME ---------------------------------------------------------------

/// What was heard of the orders of queue `q`: event and id.
fn heard(listener: &mut Client) -> Vec<String> {
    let line = |m: Message| {
        let id = String::from_utf8_lossy(&m.payload).into_owned();
        format!(
            "{} {}",
            m.channel.trim_start_matches("__keyevent@0__:order."),
            id.trim_start_matches("q:")
        )
    };
    listener.messages(QUIET).into_iter().map(line).collect()
}

#[test]
fn a_paused_queue_hands_out_and_announces_nothing_and_all_else_goes_on() {
    let server = Options::new().events("KEd").start();
    let mut c = server.client();
    let mut listener = server.client();
    listener.subscribe(&[
        "__keyevent@0__:order.expired",
        "__keyevent@0__:order.lapsed",
        "__keyevent@0__:order.dead",
    ]);
    due(&mut c, "q", "before");
    assert_eq!(heard(&mut listener), ["expired before"]);
    cmd!(c, "ORDER.PAUSE", "q", "REASON", "the shop's database moves").ok();
    assert_eq!(
        c.stat("q", "pause_reason").text(),
        "the shop's database moves"
    );
    assert_eq!(c.state("q", "before"), "expired");
    let mut waits = claimer(&server, "q");
    // Deadlines that pass in the pause, in another order than they were made.
    let at = c.time_ms() + 40;
    for (i, ms) in [(3_u64, 30), (1, 10), (2, 20), (0, 0)] {
        cmd!(c, "ORDER.SCHEDULE", "q", format!("o{i}"), "PXAT", at + ms)
            .order()
            .expect("OK");
    }
    let fence = cmd!(c, "ORDER.LOCK", "q", "locked", "me", "PX", 40)
        .lease()
        .expect("OK")
        .fence;
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "locked",
        "PX",
        LONG,
        "UPSERT",
        "FENCE",
        fence
    )
    .order();
    wait_until(SOON, "all to be due", || c.state("q", "o3") == "expired");
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 10).claims(), []);
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "o1").claims(), []);
    assert_eq!(heard(&mut listener), Vec::<String>::new());
    assert_eq!(waits.read_within(QUIET), None);
    // All else.
    cmd!(c, "ORDER.FINISH", "q", "o1", "STATUS", "paid")
        .order()
        .expect("OK");
    cmd!(c, "ORDER.LOCK", "q", "new", "me", "PX", LONG)
        .lease()
        .expect("OK");
    cmd!(c, "ORDER.STATUS", "q", "o2", "seen")
        .order()
        .expect("OK");
    let mut lock_waits = server.client();
    lock_waits.send(&args![
        "ORDER.LOCK",
        "q",
        "new",
        "other",
        "PX",
        1000,
        "BLOCK",
        0
    ]);
    wait_until(SOON, "it to wait", || {
        c.stat("q", "lock_waiters").int() == 1
    });
    cmd!(c, "ORDER.BREAK", "q", "new").lease().expect("OK");
    lock_waits.read().lease().expect("OK");
    // A second pause replaces the first.
    cmd!(c, "ORDER.PAUSE", "q").ok();
    assert_eq!(c.stat("q", "pause_reason").text(), "");
    assert_eq!(waits.read_within(QUIET), None);

    cmd!(c, "ORDER.RESUME", "q").ok();
    assert_eq!(
        waits.read().claims()[0].id_text(),
        "before",
        "first come first served"
    );
    let lines = heard(&mut listener);
    let expired: Vec<&String> = lines
        .iter()
        .filter(|line| line.starts_with("expired"))
        .collect();
    assert_eq!(
        expired,
        ["expired o0", "expired o2", "expired o3"],
        "in order, and without what is paid: {lines:?}"
    );
    assert_eq!(c.stat("q", "paused_ms").int(), -2);
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 10).claims();
    let ids: Vec<String> = rows.iter().map(Claimed::id_text).collect();
    assert_eq!(ids, ["o0", "o2", "o3"]);
    cmd!(c, "ORDER.RESUME", "q").ok();
    expect_healthy(&server);
}

#[test]
fn a_pause_with_an_end_ends_by_itself() {
    let server = Options::new().events("KEd").start();
    let mut c = server.client();
    let mut listener = server.client();
    listener.subscribe(&["__keyevent@0__:order.expired"]);
    cmd!(c, "ORDER.SCHEDULE", "q", "ahead", "PX", LONG)
        .order()
        .expect("OK");
    let began = Instant::now();
    cmd!(c, "ORDER.PAUSE", "q", "PX", 400, "REASON", "brief").ok();
    let left = c.stat("q", "paused_ms").int();
    assert!((1..=401).contains(&left), "{left}");
    due(&mut c, "q", "1");
    due(&mut c, "q", "2");
    let mut waits = claimer(&server, "q");
    let row = waits.read().claims().remove(0);
    assert!(
        began.elapsed() >= Duration::from_millis(399),
        "after {:?}",
        began.elapsed()
    );
    assert_eq!(row.id_text(), "1");
    let lines = heard(&mut listener);
    assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), 2, "{lines:?}");
    assert!(cmd!(c, "ORDER.CLAIM", "q", "me").claims().len() == 1);
    // A queue that had nothing but its pause goes with it.
    let paused = |c: &mut Client, pause: &[&str]| {
        cmd!(c, "ORDER.SCHEDULE", "empty", "1", "PX", LONG)
            .order()
            .expect("OK");
        c.run(pause).ok();
        cmd!(c, "ORDER.FINISH", "empty", "1", "KEEP", 0)
            .order()
            .expect("OK");
    };
    paused(&mut c, &["ORDER.PAUSE", "empty", "PX", "30"]);
    wait_until(SOON, "it to go", || cmd!(c, "EXISTS", "empty").int() == 0);
    paused(&mut c, &["ORDER.PAUSE", "empty"]);
    assert_eq!(cmd!(c, "EXISTS", "empty").int(), 1);
    cmd!(c, "ORDER.RESUME", "empty").ok();
    assert_eq!(cmd!(c, "EXISTS", "empty").int(), 0);
    expect_healthy(&server);
}

#[test]
fn a_pause_survives_restarts_and_moves_with_the_queue() {
    let mut server = Options::new()
        .aof()
        .events("KEd")
        .set("announce-after-start-ms", 0)
        .start();
    let mut c = server.client();
    due(&mut c, "q", "1");
    cmd!(c, "ORDER.PAUSE", "q", "REASON", "why").ok();
    server.restart();
    let mut c = server.client();
    let mut listener = server.client();
    listener.subscribe(&["__keyevent@0__:order.expired"]);
    assert_eq!(c.stat("q", "pause_reason").text(), "why");
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me").claims(), []);
    cmd!(c, "DEBUG", "RELOAD").ok();
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me").claims(), []);
    cmd!(c, "RENAME", "q", "r").ok();
    assert_eq!(cmd!(c, "ORDER.CLAIM", "r", "me").claims(), []);
    assert_eq!(listener.message(QUIET), None);
    let mut waits = claimer(&server, "r");
    cmd!(c, "ORDER.RESUME", "r").ok();
    assert_eq!(waits.read().claims().len(), 1);
    assert_eq!(
        listener.message(SOON).expect("its announcement").payload,
        b"r:1"
    );
}

// --- REQUEUE and PURGE --------------------------------------------------------------

#[test]
fn requeue_gives_the_longest_dead_another_life() {
    let server = Options::new().events("KEd").start();
    let mut c = server.client();
    for i in 0..5 {
        dead(&mut c, "q", &format!("d{i}"), "unpaid");
    }
    cmd!(c, "ORDER.SCHEDULE", "q", "other", "PX", LONG)
        .order()
        .expect("OK");
    let mut listener = server.client();
    listener.psubscribe(&["__keyevent@0__:order.*"]);
    let mut waits = claimer(&server, "q");
    assert_eq!(swept(&cmd!(c, "ORDER.REQUEUE", "q", "COUNT", 2)), (2, 3));
    let row = waits.read().claims().remove(0);
    assert_eq!(
        (row.id_text().as_str(), row.attempt),
        ("d0", 1),
        "the longest dead first"
    );
    assert_eq!(c.order("q", "d1").int("attempt"), 0);
    let lines = heard(&mut listener);
    assert!(
        lines.contains(&"expired d1".to_owned()),
        "an entry into expired is announced: {lines:?}"
    );
    assert!(
        lines.iter().all(|line| !line.contains("requeue")),
        "{lines:?}"
    );
    assert_eq!(swept(&cmd!(c, "ORDER.REQUEUE", "q")), (3, 0));
    assert_eq!(swept(&cmd!(c, "ORDER.REQUEUE", "q")), (0, 0));
    assert_eq!(swept(&cmd!(c, "ORDER.REQUEUE", "nobody")), (0, 0));
    assert_eq!(cmd!(c, "EXISTS", "nobody").int(), 0);
    let ids: Vec<String> = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 10)
        .claims()
        .iter()
        .map(Claimed::id_text)
        .collect();
    assert_eq!(ids, ["d1", "d2", "d3", "d4"]);
    assert_eq!(c.state("q", "other"), "scheduled");
    // A holder of before is stale.
    cmd!(c, "ORDER.ACK", "q", "d0", row.fence - 1)
        .order()
        .expect("STALE");
    expect_healthy(&server);
}

#[test]
fn purge_meets_every_order_by_repeated_calls_and_no_lease() {
    let server = Server::plain();
    let mut c = server.client();
    let mut made = Vec::new();
    for i in 0..600 {
        let status = if i % 3 == 0 { "a" } else { "b" };
        made.push(argv![
            "ORDER.SCHEDULE",
            "q",
            format!("s{i}"),
            "PX",
            LONG + i,
            "STATUS",
            status
        ]);
        made.push(argv![
            "ORDER.SCHEDULE",
            "q",
            format!("e{i}"),
            "PX",
            0,
            "STATUS",
            status
        ]);
        made.push(argv![
            "ORDER.FINISH",
            "q",
            format!("f{i}"),
            "CREATE",
            "STATUS",
            status
        ]);
    }
    c.pipeline(&made);
    for i in 0..30 {
        cmd!(
            c,
            "ORDER.CLAIM",
            "q",
            "me",
            "ID",
            format!("e{i}"),
            "PX",
            LONG
        );
        cmd!(c, "ORDER.LOCK", "q", format!("s{i}"), "me", "PX", LONG)
            .lease()
            .expect("OK");
    }
    let purge = |c: &mut Client, state: &str, filter: &[&str]| -> i64 {
        let mut total = 0;
        for round in 0.. {
            let mut words = vec!["ORDER.PURGE", "q", "STATE", state, "COUNT", "50"];
            words.extend_from_slice(filter);
            let (done, left) = swept(&c.run(&words));
            assert!(done <= 50);
            total += done;
            if left == 0 || (!filter.is_empty() && round > 60) || (filter.is_empty() && done == 0) {
                break;
            }
        }
        total
    };
    assert_eq!(purge(&mut c, "scheduled", &["STATUS", "a"]), 190);
    assert_eq!(
        purge(&mut c, "scheduled", &["MATCH", "s[1-4]?"]),
        13,
        "of forty, those that have no lock and are no a"
    );
    assert_eq!(
        purge(&mut c, "finished", &["STATUS", "b", "MATCH", "f*9"]),
        40
    );
    assert_eq!(purge(&mut c, "finished", &[]), 560);
    assert_eq!(purge(&mut c, "expired", &[]), 570);
    assert_eq!(purge(&mut c, "scheduled", &[]), 570 - 190 - 13);
    assert_eq!(purge(&mut c, "leased", &[]), 0);
    assert_eq!(c.stat("q", "orders").int(), 60);
    assert_eq!(c.stat("q", "leased").int(), 60);
    assert_eq!(
        swept(&cmd!(c, "ORDER.PURGE", "q", "STATE", "leased")),
        (0, 60)
    );
    for i in 0..30 {
        cmd!(c, "ORDER.BREAK", "q", format!("e{i}"))
            .lease()
            .expect("OK");
        cmd!(c, "ORDER.BREAK", "q", format!("s{i}"))
            .lease()
            .expect("OK");
    }
    purge(&mut c, "expired", &[]);
    purge(&mut c, "scheduled", &[]);
    assert_eq!(
        cmd!(c, "EXISTS", "q").int(),
        0,
        "with the last order the key goes"
    );
    assert_eq!(swept(&cmd!(c, "ORDER.PURGE", "q", "STATE", "dead")), (0, 0));
    expect_healthy(&server);
}

#[test]
fn sweeps_replicate_what_they_did() {
    let primary = Options::new()
        .aof()
        .tcp()
        .line("repl-diskless-sync-delay 0")
        .start();
    let replica = Options::new()
        .aof()
        .replica_of(primary.port())
        .line("propagation-error-behavior panic")
        .start();
    replica.wait_in_sync(&primary);
    let (mut c, mut r) = (primary.client(), replica.client());
    fill_every_state(&mut c, "q");
    cmd!(
        c,
        "ORDER.CONFIG",
        "q",
        "SET",
        "max-leased",
        100,
        "transitions",
        "a>b"
    )
    .ok();
    cmd!(c, "ORDER.PAUSE", "q", "PX", LONG, "REASON", "r").ok();
    assert!(swept(&cmd!(c, "ORDER.REQUEUE", "q")).0 > 0);
    assert!(
        swept(&cmd!(
            c,
            "ORDER.PURGE",
            "q",
            "STATE",
            "finished",
            "COUNT",
            1
        ))
        .0 > 0
    );
    assert!(swept(&cmd!(c, "ORDER.PURGE", "q", "STATE", "retrying")).0 > 0);
    cmd!(c, "ORDER.UNLOCK", "q", "nobody", 1)
        .lease()
        .expect("MISSING");
    let locked = c.order("q", "locked-twice").fence();
    cmd!(c, "ORDER.UNLOCK", "q", "locked-twice", locked)
        .lease()
        .expect("HELD");
    let leased = c.order("q", "leased").fence();
    cmd!(c, "ORDER.UNLOCK", "q", "leased", leased)
        .lease()
        .expect("OK");
    cmd!(c, "ORDER.BREAK", "q", "locked").lease().expect("OK");
    cmd!(c, "ORDER.BREAK", "q", "reserved").lease().expect("OK");
    replica.wait_in_sync(&primary);
    assert_eq!(r.digest("q"), c.digest("q"));
    Snapshot::of(&mut c, "q").expect_same(&Snapshot::of(&mut r, "q"), "on the replica");
    assert_eq!(r.stat("q", "pause_reason").text(), "r");
    assert_eq!(r.stat("q", "max-leased"), c.stat("q", "max-leased"));
    cmd!(c, "ORDER.RESUME", "q").ok();
    cmd!(c, "ORDER.CONFIG", "q", "RESET", "transitions").ok();
    replica.wait_in_sync(&primary);
    assert_eq!(r.digest("q"), c.digest("q"));
    for words in [
        argv!["ORDER.CONFIG", "q", "SET", "lease-ms", 5],
        argv!["ORDER.PAUSE", "q"],
        argv!["ORDER.RESUME", "q"],
        argv!["ORDER.REQUEUE", "q"],
        argv!["ORDER.PURGE", "q", "STATE", "dead"],
        argv!["ORDER.LOCK", "q", "x", "me", "PX", 5],
        argv!["ORDER.UNLOCK", "q", "x", 5],
        argv!["ORDER.BREAK", "q", "x"],
    ] {
        assert!(r.run(&words).error().starts_with("READONLY"), "{words:?}");
    }
    // And from the log alone.
    let digest = c.digest("q");
    cmd!(c, "DEBUG", "LOADAOF").ok();
    assert_eq!(c.digest("q"), digest);
    thread::sleep(QUIET);
    expect_healthy(&primary);
    expect_healthy(&replica);
}

#[test]
fn control_within_transactions_and_scripts() {
    let server = Server::plain();
    let mut c = server.client();
    due(&mut c, "q", "1");
    let replies = c.pipeline(&[
        argv!["MULTI"],
        argv!["ORDER.PAUSE", "q"],
        argv!["ORDER.CLAIM", "q", "me"],
        argv!["ORDER.RESUME", "q"],
        argv!["ORDER.CONFIG", "q", "SET", "max-leased", 1],
        argv!["ORDER.CLAIM", "q", "me", "COUNT", 10],
        argv!["ORDER.CLAIM", "q", "me", "COUNT", 10],
        argv!["ORDER.CONFIG", "q", "RESET"],
        argv!["ORDER.PURGE", "q", "STATE", "leased"],
        argv!["EXEC"],
    ]);
    let inner = replies.last().unwrap().items();
    inner[0].ok();
    assert_eq!(inner[1].claims(), []);
    assert_eq!(inner[4].claims().len(), 1);
    assert_eq!(inner[5].claims(), []);
    assert_eq!(swept(&inner[7]), (0, 1));
    let script = "redis.call('ORDER.CONFIG', KEYS[1], 'SET', 'keep-ms', '7')
        return redis.call('ORDER.CONFIG', KEYS[1], 'GET', 'keep-ms')[2]";
    assert_eq!(cmd!(c, "EVAL", script, 1, "q").text(), "7");
    expect_healthy(&server);
}
