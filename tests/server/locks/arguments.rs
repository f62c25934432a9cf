//! Bad arguments of the commands of locks: each is named, and nothing is done.

use super::{LONG, ahead, lock, run};
use crate::support::{Options, SOON, Server, Value, argv, cmd, wait_until, wire};

#[test]
fn bad_arguments_name_themselves_and_make_no_key() {
    let server = Server::plain();
    let mut c = server.client();
    let long = |n: usize| "x".repeat(n);
    let rows: Vec<(Vec<Vec<u8>>, &str)> = vec![
        (argv!["ORDER.LOCK", "q", "1", "a"], "wrong number"),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "REENTRANT", "REENTRANT"],
            "REENTRANT",
        ),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "REENTRANT", "MAX", 5],
            "EX, PX",
        ),
        (argv!["ORDER.LOCK", "q", "1", "a", "PX", 0], "PX"),
        (argv!["ORDER.LOCK", "q", "1", "a", "EX", 0], "EX"),
        (argv!["ORDER.LOCK", "q", "1", "a", "PX", -1], "PX"),
        (argv!["ORDER.LOCK", "q", "1", "a", "PX", "+1"], "PX"),
        (argv!["ORDER.LOCK", "q", "1", "a", "PX", "1.5"], "PX"),
        (argv!["ORDER.LOCK", "q", "1", "a", "PX", ""], "PX"),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 86_400_001_u64],
            "PX",
        ),
        (argv!["ORDER.LOCK", "q", "1", "a", "EX", 86_401], "EX"),
        (argv!["ORDER.LOCK", "q", "1", "a", "PX", u64::MAX], "PX"),
        (argv!["ORDER.LOCK", "q", "1", "a", "EX", u64::MAX], "EX"),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", "18446744073709551616"],
            "PX",
        ),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "EX", 10],
            "PX and EX",
        ),
        (argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "PX", 10], "PX"),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "NONSENSE"],
            "NONSENSE",
        ),
        (argv!["ORDER.LOCK", "q", "1", "a", "PXAT", 10], "PXAT"),
        (argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "MAX"], "MAX"),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "MAX", 0],
            "MAX",
        ),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "MAX", 86_400_001_u64],
            "MAX",
        ),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "MAX", 5, "MAX", 5],
            "MAX",
        ),
        (argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "FP", ""], "FP"),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "FP", long(65)],
            "FP",
        ),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "FP", "a", "FP", "a"],
            "FP",
        ),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "BLOCK", -1],
            "BLOCK",
        ),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "BLOCK", u64::MAX],
            "BLOCK",
        ),
        (
            argv![
                "ORDER.LOCK",
                "q",
                "1",
                "a",
                "PX",
                10,
                "BLOCK",
                1,
                "BLOCK",
                1
            ],
            "BLOCK",
        ),
        (argv!["ORDER.LOCK", "q", "1", "", "PX", 10], "owner"),
        (argv!["ORDER.LOCK", "q", "1", long(129), "PX", 10], "owner"),
        (argv!["ORDER.LOCK", "q", "", "a", "PX", 10], "id"),
        (argv!["ORDER.LOCK", "q", long(256), "a", "PX", 10], "id"),
        (argv!["ORDER.RENEW", "q", "1", "x", "PX", 10], "fence"),
        (argv!["ORDER.RENEW", "q", "1", -1, "PX", 10], "fence"),
        (argv!["ORDER.RENEW", "q", "1", 5, "PX", 0], "PX"),
        (
            argv!["ORDER.RENEW", "q", "1", 5, "PX", 10, "EX", 10],
            "PX and EX",
        ),
        (
            argv!["ORDER.RENEW", "q", "1", 5, "PX", 10, "LT", "LT"],
            "LT",
        ),
        (argv!["ORDER.RENEW", "q", "1", 5, "PX", 10, "GT"], "GT"),
        (
            argv!["ORDER.RENEW", "q", "1", 5, "PX", 86_400_001_u64],
            "PX",
        ),
        (argv!["ORDER.UNLOCK", "q", "1", "x"], "fence"),
        (argv!["ORDER.UNLOCK", "q", "1"], "wrong number"),
        (argv!["ORDER.UNLOCK", "q", "1", 5, "NOW"], "wrong number"),
        (argv!["ORDER.BREAK", "q", "1", "x"], "fence"),
        (argv!["ORDER.BREAK", "q", "1", 5, "NOW"], "NOW"),
        (argv!["ORDER.BREAK", "q", ""], "id"),
        (
            argv!["ORDER.SCHEDULE", "q", "1", "PX", 10, "STATUS", long(33)],
            "STATUS",
        ),
        (
            argv!["ORDER.FINISH", "q", "1", "CREATE", "STATUS", long(33)],
            "STATUS",
        ),
        (argv!["ORDER.STATUS", "q", "1", long(33)], "status"),
        (
            argv!["ORDER.ACK", "q", "1", 5, "STATUS", long(33)],
            "STATUS",
        ),
        (argv!["ORDER.CLAIM", "q", long(129)], "owner"),
        (argv!["ORDER.CLAIM", "q", "a", "PX", 0], "PX"),
        (argv!["ORDER.CLAIM", "q", "a", "PX", 86_400_001_u64], "PX"),
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
        assert_eq!(cmd!(c, "DBSIZE").int(), 0, "{shown:?}");
    }
    // Limits that are still fine.
    for words in [
        argv![
            "ORDER.LOCK",
            "q",
            long(255),
            long(128),
            "px",
            86_400_000_u64,
            "fp",
            long(64),
            "max",
            86_400_000_u64,
            "reentrant",
            "block",
            0
        ],
        argv!["ORDER.LOCK", "q", "1", "a", "ex", 1],
        argv![
            "ORDER.LOCK",
            "q",
            b"\0\xff\r\n",
            b"\0\xff",
            "BLOCK",
            5,
            "FP",
            b"\0",
            "PX",
            1
        ],
    ] {
        c.run(&words).lease().expect("OK");
    }
    // Another type, found before and after the arguments are.
    cmd!(c, "SET", "text", "x").ok();
    for command in [
        "ORDER.LOCK $q 1 a PX 10 BLOCK 0",
        "ORDER.RENEW $q 1 5 PX 10",
        "ORDER.UNLOCK $q 1 5",
        "ORDER.BREAK $q 1",
    ] {
        assert!(
            run(&mut c, command, "text", 0)
                .error()
                .starts_with("WRONGTYPE"),
            "{command}"
        );
    }
    assert_eq!(c.blocked_clients(), 0);
}

#[test]
fn nothing_is_replicated_for_what_was_not_done() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let fence = lock(&mut c, "q", "1", "a");
    let before = wire::logged(&server).len();
    for command in [
        "ORDER.LOCK $q 1 b PX 10",
        "ORDER.UNLOCK $q 1 5",
        "ORDER.BREAK $q 1 5",
        "ORDER.RENEW $q 1 5 PX 10",
        "ORDER.UNLOCK $q nobody 5",
        "ORDER.LOCK $q 1 b PX 10 BLOCK 20",
    ] {
        run(&mut c, command, "q", 0);
    }
    assert_eq!(wire::logged(&server).len(), before);
    // What was done is an effect, and replays the same.
    cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", LONG)
        .lease()
        .expect("OK");
    cmd!(c, "ORDER.LOCK", "q", "1", "a", "PX", LONG, "REENTRANT")
        .lease()
        .expect("HELD");
    cmd!(c, "ORDER.LOCK", "q", "brief", "a", "PX", 5)
        .lease()
        .expect("OK");
    // It reads as missing before it is forgotten, which is a write of its own.
    wait_until(SOON, "the lapse to be logged", || {
        wire::logged(&server).len() == before + 4
    });
    assert_eq!(c.stat("q", "orders").int(), 1);
    let digest = c.digest("q");
    for command in wire::logged(&server) {
        assert_eq!(command[0], b"ORDER.APPLY", "{command:?}");
    }
    cmd!(c, "DEBUG", "LOADAOF").ok();
    assert_eq!(c.digest("q"), digest);
    assert_eq!(c.order("q", "1").int("holds"), 2);
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("HELD");
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
}
