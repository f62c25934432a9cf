//! Hostile and unlucky arguments: every number, every byte string, every limit.

use std::time::Duration;

use crate::support::{Client, Server, Value, args, argv, cmd};

/// The last millisecond of the year 9999.
const WALL_MS_MAX: u128 = 253_402_300_799_999;

/// What people and programs write where a number belongs.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2147483647",
    "2147483648",
    "2147483649",
    "4294967295",
    "4294967296",
    "4294967297",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    // Where the units overflow: seconds that no 64 bits of milliseconds hold.
    "9223372036854776",
    "18446744073709552",
    // Around the limits of single arguments.
    "86400",
    "86401",
    "86400000",
    "86400001",
    "1000",
    "1001",
    "31536000000",
    "31536000001",
    "99999999999",
    "100000000000",
    "253402300799",
    "253402300800",
    "253402300799999",
    "253402300800000",
    // No plain decimals.
    "-1",
    "-0",
    "+5",
    "1e3",
    " 5",
    "5 ",
    "",
    " ",
    "NaN",
    "nan",
    "inf",
    "0x10",
    "1.5",
    "1,000",
    "5\0",
    "5\r\n",
    "\u{0665}",
    "\u{ff15}",
    "%s%n",
];

/// Decimal digits and nothing else, as a number that fits 128 bits; `None`
/// for anything else.
fn plain(text: &str) -> Option<u128> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        None
    } else {
        text.parse().ok()
    }
}

/// One number argument: its command with `#` in its place, the word by which
/// an error must name it, and which values are good.
struct Number {
    command: &'static [&'static str],
    name: &'static str,
    good: fn(u128, u128) -> bool,
}

/// A relative time in milliseconds that is still before the end of time.
fn good_in_ms(value: u128, now_ms: u128) -> bool {
    value <= WALL_MS_MAX - now_ms - 1000
}

/// A length of time in milliseconds, as long as all time.
fn good_length(value: u128, _: u128) -> bool {
    value <= WALL_MS_MAX
}

/// Up to the largest number a double holds exactly.
fn good_number(value: u128, _: u128) -> bool {
    value <= 1 << 53
}

/// A lease in milliseconds.
fn good_lease_ms(value: u128, _: u128) -> bool {
    (1..=86_400_000).contains(&value)
}

/// A lease in seconds.
fn good_lease_s(value: u128, _: u128) -> bool {
    (1..=86_400).contains(&value)
}

/// A count.
fn good_count(value: u128, _: u128) -> bool {
    (1..=1000).contains(&value)
}

#[rustfmt::skip]
const ARGUMENTS: &[Number] = &[
    Number { command: &["ORDER.SCHEDULE", "q", "o", "PX", "#"], name: "PX", good: good_in_ms },
    Number { command: &["ORDER.SCHEDULE", "q", "o", "EX", "#"], name: "EX", good: |v, now| v.checked_mul(1000).is_some_and(|ms| good_in_ms(ms, now)) },
    Number { command: &["ORDER.SCHEDULE", "q", "o", "PXAT", "#"], name: "PXAT", good: |v, _| (100_000_000_000..=WALL_MS_MAX).contains(&v) },
    Number { command: &["ORDER.SCHEDULE", "q", "o", "EXAT", "#"], name: "EXAT", good: |v, _| v <= WALL_MS_MAX / 1000 },
    Number { command: &["ORDER.SCHEDULE", "q", "o", "PX", "60000", "UPSERT", "IFREV", "#"], name: "IFREV", good: good_number },
    Number { command: &["ORDER.SCHEDULE", "q", "o", "PX", "60000", "XX", "FENCE", "#"], name: "FENCE", good: good_number },
    Number { command: &["ORDER.FINISH", "q", "o", "CREATE", "KEEP", "#"], name: "KEEP", good: good_length },
    Number { command: &["ORDER.FINISH", "q", "o", "IFREV", "#"], name: "IFREV", good: good_number },
    Number { command: &["ORDER.FINISH", "q", "o", "FENCE", "#"], name: "FENCE", good: good_number },
    Number { command: &["ORDER.STATUS", "q", "o", "s", "IFREV", "#"], name: "IFREV", good: good_number },
    Number { command: &["ORDER.STATUS", "q", "o", "s", "FENCE", "#"], name: "FENCE", good: good_number },
    Number { command: &["ORDER.CLAIM", "q", "me", "PX", "#"], name: "PX", good: good_lease_ms },
    Number { command: &["ORDER.CLAIM", "q", "me", "EX", "#"], name: "EX", good: good_lease_s },
    Number { command: &["ORDER.CLAIM", "q", "me", "COUNT", "#"], name: "COUNT", good: good_count },
    Number { command: &["ORDER.ACK", "q", "o", "#"], name: "fence", good: good_number },
    Number { command: &["ORDER.ACK", "q", "o", "5", "KEEP", "#"], name: "KEEP", good: good_length },
    Number { command: &["ORDER.MACK", "q", "1", "o", "#"], name: "fence", good: good_number },
    Number { command: &["ORDER.MACK", "q", "1", "o", "5", "KEEP", "#"], name: "KEEP", good: good_length },
    Number { command: &["ORDER.NACK", "q", "o", "#"], name: "fence", good: good_number },
    Number { command: &["ORDER.NACK", "q", "o", "5", "DELAY", "#"], name: "DELAY", good: good_length },
    Number { command: &["ORDER.RENEW", "q", "o", "#", "PX", "5"], name: "fence", good: good_number },
    Number { command: &["ORDER.RENEW", "q", "o", "5", "PX", "#"], name: "PX", good: good_lease_ms },
    Number { command: &["ORDER.RENEW", "q", "o", "5", "EX", "#"], name: "EX", good: good_lease_s },
    Number { command: &["ORDER.NEXT", "q", "COUNT", "#"], name: "COUNT", good: good_count },
    Number { command: &["ORDER.SCAN", "q", "#"], name: "cursor", good: |v, _| v <= u128::from(u64::MAX) },
    Number { command: &["ORDER.SCAN", "q", "0", "COUNT", "#"], name: "COUNT", good: good_count },
];

/// Fails unless this is one line of plain text that begins with a code word.
#[track_caller]
fn assert_clear(error: &str, cell: &str) {
    let (code, rest) = error.split_once(' ').unwrap_or((error, ""));
    assert!(
        !code.is_empty() && code.bytes().all(|b| b.is_ascii_uppercase()),
        "{cell}: {error:?}"
    );
    assert!(
        !rest.is_empty() && error.bytes().all(|b| (0x20..0x7f).contains(&b)),
        "{cell}: {error:?}"
    );
    assert!(!error.ends_with('.'), "{cell}: {error:?}");
}

#[test]
fn every_number_argument_takes_exactly_what_it_can_hold() {
    let server = Server::plain();
    let mut c = server.client();
    for argument in ARGUMENTS {
        for value in NUMBERS {
            let cell = format!("{} with {value:?}", argument.command.join(" "));
            let words: Vec<&str> = argument
                .command
                .iter()
                .map(|&word| if word == "#" { value } else { word })
                .collect();
            let before = c.time_us();
            let reply = c.run(&words);
            let after = c.time_us();
            let good = plain(value).is_some_and(|v| (argument.good)(v, u128::from(before / 1000)));
            if !good {
                let error = reply.error();
                assert_clear(error, &cell);
                assert!(error.starts_with("ERR "), "{cell}: {error}");
                // A number that is good by itself can still lead past the end of time.
                let past_the_end =
                    plain(value).is_some_and(|v| v <= WALL_MS_MAX) && error.contains("year 9999");
                let names_it =
                    past_the_end || error.to_lowercase().contains(&argument.name.to_lowercase());
                assert!(
                    names_it,
                    "{cell}: the error names {}: {error}",
                    argument.name
                );
                assert_eq!(
                    cmd!(c, "EXISTS", "q").int(),
                    0,
                    "{cell}: something was stored"
                );
                continue;
            }
            assert!(!reply.is_error(), "{cell}: {reply:?}");
            if argument.command[0] == "ORDER.SCHEDULE" && reply.order().outcome == "OK" {
                check_deadline(
                    &mut c,
                    argument.name,
                    plain(value).unwrap(),
                    before,
                    after,
                    &cell,
                );
            }
            if argument.name == "KEEP" && argument.command[0] == "ORDER.FINISH" {
                let keep = plain(value).unwrap() as u64;
                if keep > 60_000 {
                    let end = c.order("q", "o").int("keep_end") as u64;
                    let range = before / 1000 + keep..=after.div_ceil(1000) + keep;
                    assert!(range.contains(&end), "{cell}: keep_end {end}");
                }
            }
            cmd!(c, "DEL", "q");
        }
    }
}

/// Fails unless order `o` has exactly the deadline that was asked for, and is
/// due only if that has passed.
fn check_deadline(
    c: &mut Client,
    unit: &str,
    value: u128,
    before_us: u64,
    after_us: u64,
    cell: &str,
) {
    let deadline = c.order("q", "o").int("deadline") as u128;
    let (before, after) = (u128::from(before_us), u128::from(after_us));
    let ms = match unit {
        "PX" | "PXAT" => value,
        "EX" | "EXAT" => value * 1000,
        // A guard was what the cell is about: the deadline is a minute away.
        _ => 60_000,
    };
    let absolute = unit.ends_with("AT");
    let range = match (absolute, ms) {
        (true, ms) => ms..=ms,
        (false, 0) => before / 1000..=after / 1000,
        (false, ms) => before.div_ceil(1000) + ms..=after.div_ceil(1000) + ms,
    };
    assert!(
        range.contains(&deadline),
        "{cell}: deadline {deadline}, not in {range:?}"
    );
    let due = !cmd!(c, "ORDER.CLAIM", "q", "me").claims().is_empty();
    let left = cmd!(c, "ORDER.PTTL", "q", "o").int();
    // The clock is read last: what was answered before it was answered in time.
    let now = u128::from(c.time_ms());
    if deadline > now {
        assert!(!due, "{cell}: handed out before its deadline");
        assert!(left > 0, "{cell}: {left} ms left before its deadline");
    } else if deadline < before / 1000 {
        assert!(due, "{cell}: due and not handed out");
    }
}

#[test]
fn block_takes_what_it_can_wait() {
    let server = Server::plain();
    let mut c = server.client();
    for value in NUMBERS {
        let good = plain(value).is_some_and(|v| v <= 31_536_000_000);
        let waits = good && *value != "1";
        if waits {
            // It waits; an order that is due ends that.
            let mut waiter = server.client();
            waiter.send(&["ORDER.CLAIM", "q", "me", "BLOCK", value]);
            assert_eq!(
                waiter.read_within(Duration::from_millis(30)),
                None,
                "BLOCK {value} waits"
            );
            cmd!(c, "ORDER.SCHEDULE", "q", "o", "PX", 0)
                .order()
                .expect("OK");
            assert_eq!(waiter.read().claims().len(), 1, "BLOCK {value}");
            cmd!(c, "DEL", "q");
        } else if good {
            assert_eq!(
                cmd!(c, "ORDER.CLAIM", "q", "me", "BLOCK", value).claims(),
                []
            );
        } else {
            let reply = cmd!(c, "ORDER.CLAIM", "q", "me", "BLOCK", value);
            assert_clear(reply.error(), value);
            assert!(
                reply.error().contains("BLOCK"),
                "BLOCK {value:?}: {reply:?}"
            );
        }
    }
    assert_eq!(c.blocked_clients(), 0);
}

#[test]
fn mack_takes_one_to_a_thousand_pairs() {
    let server = Server::plain();
    let mut c = server.client();
    for value in NUMBERS {
        for pairs in [1, 2] {
            let mut words = vec!["ORDER.MACK", "q", value];
            words.extend(["o", "5"].repeat(pairs));
            let reply = c.run(&words);
            if plain(value) == Some(pairs as u128) {
                assert_eq!(reply.items().len(), pairs, "n {value}");
            } else {
                assert_clear(reply.error(), value);
            }
        }
    }
    let mut words = argv!["ORDER.MACK", "q", 1001];
    for i in 0..1001 {
        words.extend(argv![i, 5]);
    }
    assert_clear(c.run(&words).error(), "1001 pairs");
    assert_eq!(cmd!(c, "EXISTS", "q").int(), 0);
}

#[test]
fn apply_versions_are_numbers() {
    let server = Server::plain();
    let mut c = server.client();
    c.config("orderwheel.apply-from-clients", "yes");
    for value in NUMBERS {
        let reply = cmd!(c, "ORDER.APPLY", "q", value, "x");
        assert_clear(reply.error(), value);
        assert_eq!(cmd!(c, "EXISTS", "q").int(), 0, "{value:?}");
    }
}

/// Byte strings that have each broken something somewhere.
fn awkward() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = [
        &b"\0"[..],
        b"a\0b",
        b"\r\n",
        b"a\r\n+OK\r\n",
        b"%s%n%d%x",
        "\u{100}\u{0}".as_bytes(),
        "\u{100}".as_bytes(),
        "Lieferung \u{1f69a}".as_bytes(),
        b"{}",
        b"{a}b",
        b"\xff\xfe\xfd",
        b"\xc3\x28",
        b" ",
        b"-1",
        b"PX",
        b"*",
        b"[",
        b"\\",
        b"\"'\n\t",
        b"missing",
        b"o:p:q",
    ]
    .iter()
    .map(|bytes| bytes.to_vec())
    .collect();
    all.push((0..=255).collect::<Vec<u8>>()[1..].to_vec());
    all.push(vec![b'x'; 255]);
    all.push(vec![0; 255]);
    all
}

#[test]
fn ids_statuses_and_payloads_are_plain_bytes() {
    let server = Server::plain();
    let mut c = server.client3();
    for (i, id) in awkward().iter().enumerate() {
        let status = &id[..id.len().min(32)];
        let owner = &id[..id.len().min(128)];
        let q = format!("q{i}");
        let made = cmd!(
            c,
            "ORDER.SCHEDULE",
            &q,
            id,
            "PX",
            0,
            "STATUS",
            status,
            "PAYLOAD",
            id
        )
        .order()
        .expect("OK");
        assert_eq!(made.status.as_deref(), Some(status));
        cmd!(c, "ORDER.SCHEDULE", &q, id, "PX", 0)
            .order()
            .expect("EXISTS");
        let order = cmd!(c, "ORDER.GET", &q, id).get().expect("there");
        assert_eq!(order.field("id").bytes(), &id[..]);
        assert_eq!(
            (
                order.field("status").bytes(),
                order.field("payload").bytes()
            ),
            (status, &id[..])
        );
        let scan = cmd!(c, "ORDER.SCAN", &q, 0, "STATUS", status);
        assert_eq!(scan.items()[1].items()[0].items()[0].bytes(), &id[..]);
        let rows = cmd!(c, "ORDER.CLAIM", &q, owner).claims();
        let row = &rows[0];
        assert_eq!(
            (&row.id, row.status.as_slice(), row.payload.as_ref()),
            (id, status, Some(id))
        );
        assert_eq!(
            cmd!(c, "ORDER.GET", &q, id)
                .get()
                .unwrap()
                .field("owner")
                .bytes(),
            owner
        );
        cmd!(c, "ORDER.NACK", &q, id, row.fence, "DELAY", 0, "ERROR", id)
            .order()
            .expect("OK");
        assert_eq!(
            cmd!(c, "ORDER.GET", &q, id)
                .get()
                .unwrap()
                .field("error")
                .bytes(),
            &id[..]
        );
        let fence = cmd!(c, "ORDER.CLAIM", &q, owner, "ID", id).claims()[0].fence;
        let done = cmd!(c, "ORDER.ACK", &q, id, fence, "FROM", status, "RESULT", id)
            .order()
            .expect("OK");
        assert_eq!(done.result.as_ref(), Some(id));
        // The key may be such a string as well.
        cmd!(c, "ORDER.SCHEDULE", id, id, "PX", 60_000)
            .order()
            .expect("OK");
        assert_eq!(
            cmd!(c, "ORDER.NEXT", id).items()[0].items()[0].bytes(),
            &id[..]
        );
        assert_eq!(cmd!(c, "DEL", id).int(), 1);
    }
    // Different bytes are different orders.
    let all = awkward();
    for id in &all {
        cmd!(c, "ORDER.SCHEDULE", "all", id, "PX", 60_000, "PAYLOAD", id)
            .order()
            .expect("OK");
    }
    for id in &all {
        assert_eq!(
            cmd!(c, "ORDER.GET", "all", id)
                .get()
                .unwrap()
                .field("payload")
                .bytes(),
            &id[..]
        );
    }
    assert_eq!(c.stat("all", "orders").int() as usize, all.len());
}

#[test]
fn awkward_bytes_survive_events_errors_and_waiting() {
    let server = Server::plain();
    let mut c = server.client();
    c.config("notify-keyspace-events", "KEA");
    let mut listener = server.listener();
    for id in awkward() {
        let mut waiter = server.client();
        waiter.send(&args!["ORDER.CLAIM", &id, "me", "BLOCK", 20_000]);
        // Misuse with these bytes wherever they fit, while it waits.
        for words in [
            argv!["ORDER.SCHEDULE", &id, &id, &id, &id],
            argv!["ORDER.SCHEDULE", &id, &id, "PX", 5, &id],
            argv!["ORDER.SCHEDULE", &id, &id, "PX", &id],
            argv!["ORDER.SCAN", &id, 0, "STATE", &id],
            argv!["ORDER.CLAIM", &id, "me", "COUNT", &id],
            argv!["ORDER.MACK", &id, 1, &id, &id],
        ] {
            let reply = c.run(&words);
            // "-1" and the like may be no error as a value elsewhere; here all are.
            assert_clear(reply.error(), &format!("{}", id.escape_ascii()));
        }
        cmd!(c, "ORDER.SCHEDULE", &id, &id, "PX", 0)
            .order()
            .expect("OK");
        assert_eq!(waiter.read().claims()[0].id, id);
        let mut key = id.clone();
        key.push(b':');
        key.extend_from_slice(&id);
        let mut seen = false;
        while let Some(message) = listener.message(Duration::from_secs(20)) {
            if message.channel == "__keyevent@0__:order.claim" {
                assert_eq!(message.payload, key, "the event names queue and order");
                seen = true;
                break;
            }
        }
        assert!(seen, "no order.claim for {}", id.escape_ascii());
        cmd!(c, "DEL", &id);
    }
}

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

#[test]
fn a_line_of_errors_is_counted_and_nothing_falls_due() {
    let server = Server::plain();
    let mut c = server.client();
    // Every bad number once more, each against a queue with one order far ahead.
    cmd!(c, "ORDER.SCHEDULE", "q", "far", "PX", 600_000)
        .order()
        .expect("OK");
    let before = c.digest("q");
    for unit in ["EX", "PX", "EXAT", "PXAT"] {
        for value in NUMBERS.iter().filter(|v| plain(v).is_none()) {
            let reply = cmd!(c, "ORDER.SCHEDULE", "q", "far", unit, value, "XX");
            assert!(reply.is_error(), "{unit} {value:?}: {reply:?}");
        }
    }
    assert_eq!(c.digest("q"), before);
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 1000),
        Value::Array(vec![])
    );
    let errors = c.info("errorstats", "errorstat_ERR");
    assert!(errors.starts_with("count="), "{errors}");
}
