//! Every argument that is a number takes exactly what it can hold.

use std::time::Duration;

use super::assert_clear;
use crate::support::{Client, Server, Value, argv, cmd};

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
