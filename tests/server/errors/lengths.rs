//! Every length has its limit.

use super::assert_clear;
use crate::support::{Server, argv, cmd};

/// A byte string's name in the error, the least and the most bytes that are
/// good, and a command with it.
type Limited = (&'static str, usize, usize, fn(&[u8]) -> Vec<Vec<u8>>);

#[test]
fn every_length_has_its_limit() {
    let server = Server::plain();
    let mut c = server.client();
    let long = |n: usize| vec![b'x'; n];
    cmd!(c, "ORDER.SCHEDULE", "q", "o", "PX", 600_000)
        .order()
        .expect("OK");
    let payload_max = 65_536;
    let build: &[Limited] = &[
        ("id", 1, 255, |x| {
            argv!["ORDER.SCHEDULE", "q", x, "PX", 60_000, "UPSERT"]
        }),
        ("id", 1, 255, |x| {
            argv!["ORDER.FINISH", "q", x, "FROM", "no such"]
        }),
        ("id", 1, 255, |x| {
            argv!["ORDER.STATUS", "q", x, "s", "FROM", "no such"]
        }),
        ("id", 1, 255, |x| argv!["ORDER.ACK", "q", x, 5]),
        ("id", 1, 255, |x| argv!["ORDER.NACK", "q", x, 5]),
        ("id", 1, 255, |x| argv!["ORDER.MACK", "q", 1, x, 5]),
        ("id", 1, 255, |x| argv!["ORDER.RENEW", "q", x, 5, "PX", 5]),
        ("id", 1, 255, |x| argv!["ORDER.GET", "q", x]),
        ("id", 1, 255, |x| argv!["ORDER.PTTL", "q", x]),
        ("id", 1, 255, |x| argv!["ORDER.CLAIM", "q", "me", "ID", x]),
        ("owner", 1, 128, |x| argv!["ORDER.CLAIM", "q", x]),
        ("status", 0, 32, |x| {
            argv![
                "ORDER.SCHEDULE",
                "q",
                "o",
                "PX",
                600_000,
                "UPSERT",
                "STATUS",
                x
            ]
        }),
        ("status", 0, 32, |x| argv!["ORDER.STATUS", "q", "o", x]),
        ("status", 0, 32, |x| {
            argv!["ORDER.FINISH", "q", "none", "STATUS", x]
        }),
        ("status", 0, 32, |x| {
            argv!["ORDER.ACK", "q", "none", 5, "STATUS", x]
        }),
        ("status", 0, 32, |x| {
            argv!["ORDER.MACK", "q", 1, "none", 5, "STATUS", x]
        }),
        ("status", 0, 32, |x| {
            argv!["ORDER.SCAN", "q", 0, "STATUS", x]
        }),
        ("error", 0, 256, |x| {
            argv!["ORDER.NACK", "q", "o", 5, "ERROR", x]
        }),
        ("payload", 0, 65_536, |x| {
            argv![
                "ORDER.SCHEDULE",
                "q",
                "o",
                "PX",
                600_000,
                "UPSERT",
                "PAYLOAD",
                x
            ]
        }),
        ("payload", 0, 65_536, |x| {
            argv!["ORDER.STATUS", "q", "o", "s", "PAYLOAD", x]
        }),
        ("result", 0, 65_536, |x| {
            argv!["ORDER.FINISH", "q", "none", "RESULT", x]
        }),
        ("result", 0, 65_536, |x| {
            argv!["ORDER.ACK", "q", "none", 5, "RESULT", x]
        }),
    ];
    for (name, least, most, command) in build {
        for len in [
            0,
            1,
            2,
            31,
            32,
            33,
            127,
            128,
            129,
            254,
            255,
            256,
            257,
            payload_max,
            payload_max + 1,
            1 << 20,
        ] {
            let words = command(&long(len));
            let cell = format!("{} {name} of {len} bytes", words[0].escape_ascii());
            let before = c.digest("q");
            let reply = c.run(&words);
            if (*least..=*most).contains(&len) {
                assert!(!reply.is_error(), "{cell}: {reply:?}");
            } else {
                assert_clear(reply.error(), &cell);
                assert!(
                    reply.error().to_lowercase().contains(name),
                    "{cell}: {reply:?}"
                );
                assert_eq!(c.digest("q"), before, "{cell}");
            }
        }
    }
    // The payload's limit is a setting.
    c.config("orderwheel.payload-bytes-max", "100000");
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "big",
        "PX",
        600_000,
        "PAYLOAD",
        long(100_000)
    )
    .order()
    .expect("OK");
    assert!(
        cmd!(
            c,
            "ORDER.SCHEDULE",
            "q",
            "big2",
            "PX",
            600_000,
            "PAYLOAD",
            long(100_001)
        )
        .is_error()
    );
    assert_eq!(c.order("q", "big").field("payload").bytes().len(), 100_000);
}
