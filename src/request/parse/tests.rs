//! Tests of the grammar: the number and binary matrices, every option order,
//! every conflict.

use super::*;
use crate::error::Excerpt;
use crate::request::parse::arguments::unknown;
use crate::request::{
    Ack, Again, Break, Claim, Configure, Direction, Finish, Guard, Lock, Mode, Nack, Pause, Pick,
    Purge, Release, Renew, Requeue, Scan, Schedule, SetStatus, When,
};
use crate::testing::mix;
use crate::words::state::State;
use crate::words::time::{WALL_MS_MAX, WallMs};

/// Limits as the defaults of the settings have them.
const LIMITS: Limits = Limits {
    lease_ms_max: 86_400_000,
    payload_bytes_max: 65_536,
};
/// A lease or relative time that is always in range.
const MS: &[u8] = b"500";

/// Parses arguments; name and key are put in front.
fn run<'a>(verb: Verb, args: &[&'a [u8]]) -> Result<Request<'a>, Error> {
    let mut all: Vec<&[u8]> = vec![verb.command().as_bytes(), b"queue"];
    all.extend(args);
    parse(verb, &all, &LIMITS)
}

/// Parses words parted by spaces.
fn words(verb: Verb, text: &str) -> Result<Request<'_>, Error> {
    run(
        verb,
        &text
            .split_ascii_whitespace()
            .map(str::as_bytes)
            .collect::<Vec<_>>(),
    )
}

/// The error line of words parted by spaces.
fn line(verb: Verb, text: &str) -> String {
    words(verb, text).unwrap_err().to_string()
}

/// Parses words as a SCHEDULE.
fn schedule_of(text: &str) -> Schedule<'_> {
    match words(Verb::Schedule, text) {
        Ok(Request::Schedule(schedule)) => schedule,
        other => panic!("{text}: {other:?}"),
    }
}

/// Calls `see` with every order of `items`.
fn permutations<T: Clone>(items: &[T], see: &mut dyn FnMut(&[T])) {
    fn go<T: Clone>(items: &mut Vec<T>, fixed: usize, see: &mut dyn FnMut(&[T])) {
        if fixed == items.len() {
            return see(items);
        }
        for other in fixed..items.len() {
            items.swap(fixed, other);
            go(items, fixed + 1, see);
            items.swap(fixed, other);
        }
    }
    go(&mut items.to_vec(), 0, see);
}

// ------------------------------------------------------------------ numbers

/// Where a number stands in a command: `N` in the words.
struct Place {
    verb: Verb,
    words: &'static [&'static str],
    name: &'static str,
    min: u64,
    max: u64,
    /// How a number out of range is answered.
    range: fn(&Place) -> Error,
}

/// The usual answer to a number out of range.
fn usual(place: &Place) -> Error {
    Error::OutOfRange {
        name: place.name,
        min: place.min,
        max: place.max,
    }
}

/// The answer to a lease out of range.
fn as_lease(place: &Place) -> Error {
    Error::LeaseOutOfRange {
        name: place.name,
        ms_max: LIMITS.lease_ms_max,
    }
}

/// Every number argument there is.
fn places() -> Vec<Place> {
    const YEAR_9999: u64 = 253_402_300_799_999;
    const SECONDS: u64 = 253_402_300_799;
    const NUMBER: u64 = 9_007_199_254_740_992;
    let place = |verb, words, name, min, max| Place {
        verb,
        words,
        name,
        min,
        max,
        range: usual,
    };
    let lease = |verb, words, name, max| Place {
        verb,
        words,
        name,
        min: 1,
        max,
        range: as_lease,
    };
    vec![
        place(Verb::Schedule, &["id", "EX", "N"], "EX", 0, SECONDS),
        place(Verb::Schedule, &["id", "PX", "N"], "PX", 0, YEAR_9999),
        place(Verb::Schedule, &["id", "EXAT", "N"], "EXAT", 0, SECONDS),
        place(
            Verb::Schedule,
            &["id", "PX", "5", "IFREV", "N"],
            "IFREV",
            0,
            NUMBER,
        ),
        place(
            Verb::Schedule,
            &["id", "PX", "5", "FENCE", "N"],
            "FENCE",
            0,
            NUMBER,
        ),
        place(Verb::Finish, &["id", "KEEP", "N"], "KEEP", 0, YEAR_9999),
        place(Verb::Finish, &["id", "IFREV", "N"], "IFREV", 0, NUMBER),
        place(Verb::Finish, &["id", "FENCE", "N"], "FENCE", 0, NUMBER),
        place(Verb::Status, &["id", "s", "IFREV", "N"], "IFREV", 0, NUMBER),
        place(Verb::Status, &["id", "s", "FENCE", "N"], "FENCE", 0, NUMBER),
        lease(Verb::Claim, &["me", "EX", "N"], "EX", 86_400),
        lease(Verb::Claim, &["me", "PX", "N"], "PX", 86_400_000),
        place(Verb::Claim, &["me", "COUNT", "N"], "COUNT", 1, 1000),
        place(
            Verb::Claim,
            &["me", "BLOCK", "N"],
            "BLOCK",
            0,
            31_536_000_000,
        ),
        place(Verb::Ack, &["id", "N"], "fence", 0, NUMBER),
        place(Verb::Ack, &["id", "7", "KEEP", "N"], "KEEP", 0, YEAR_9999),
        place(Verb::Mack, &["1", "id", "N"], "fence", 0, NUMBER),
        place(Verb::Mack, &["2", "id", "7", "id", "N"], "fence", 0, NUMBER),
        place(
            Verb::Mack,
            &["1", "id", "7", "KEEP", "N"],
            "KEEP",
            0,
            YEAR_9999,
        ),
        place(Verb::Nack, &["id", "N"], "fence", 0, NUMBER),
        place(
            Verb::Nack,
            &["id", "7", "DELAY", "N"],
            "DELAY",
            0,
            YEAR_9999,
        ),
        place(Verb::Renew, &["id", "N", "PX", "5"], "fence", 0, NUMBER),
        lease(Verb::Renew, &["id", "7", "EX", "N"], "EX", 86_400),
        lease(Verb::Renew, &["id", "7", "PX", "N"], "PX", 86_400_000),
        lease(Verb::Lock, &["id", "me", "EX", "N"], "EX", 86_400),
        lease(Verb::Lock, &["id", "me", "PX", "N"], "PX", 86_400_000),
        place(
            Verb::Lock,
            &["id", "me", "PX", "5", "MAX", "N"],
            "MAX",
            1,
            86_400_000,
        ),
        place(
            Verb::Lock,
            &["id", "me", "PX", "5", "BLOCK", "N"],
            "BLOCK",
            0,
            31_536_000_000,
        ),
        place(Verb::Unlock, &["id", "N"], "fence", 0, NUMBER),
        place(Verb::Break, &["id", "N"], "fence", 0, NUMBER),
        place(Verb::Pause, &["PX", "N"], "PX", 1, YEAR_9999),
        place(Verb::Requeue, &["COUNT", "N"], "COUNT", 1, 1000),
        place(Verb::Release, &["me", "COUNT", "N"], "COUNT", 1, 1000),
        place(
            Verb::Purge,
            &["STATE", "dead", "COUNT", "N"],
            "COUNT",
            1,
            1000,
        ),
        place(Verb::Next, &["COUNT", "N"], "COUNT", 1, 1000),
        place(Verb::Scan, &["N"], "cursor", 0, u64::MAX),
        place(Verb::Scan, &["0", "COUNT", "N"], "COUNT", 1, 1000),
        place(Verb::Apply, &["N", "blob"], "version", 0, u64::MAX),
    ]
}

/// Parses a place with `number` in it.
fn filled<'a>(place: &'a Place, number: &'a [u8]) -> Result<Request<'a>, Error> {
    let args: Vec<&[u8]> = place
        .words
        .iter()
        .map(|word| {
            if *word == "N" {
                number
            } else {
                word.as_bytes()
            }
        })
        .collect();
    run(place.verb, &args)
}

#[test]
fn every_number_argument_has_exact_limits() {
    for place in places() {
        let mut numbers = vec![0, 1, 2, 1000, 1001, place.min, place.max, place.max - 1];
        numbers.extend(place.min.checked_sub(1));
        numbers.extend(place.max.checked_add(1));
        for bits in [31, 32, 53, 63] {
            let power = 1u64 << bits;
            numbers.extend([power - 1, power, power + 1]);
        }
        // Where seconds turned into milliseconds pass 2^63 and 2^64.
        numbers.extend([9_223_372_036_854_775, 9_223_372_036_854_776]);
        numbers.extend([18_446_744_073_709_551, 18_446_744_073_709_552, u64::MAX]);
        for number in numbers {
            let text = number.to_string();
            let found = filled(&place, text.as_bytes());
            if (place.min..=place.max).contains(&number) {
                assert!(found.is_ok(), "{:?} {number}: {found:?}", place.words);
            } else {
                assert_eq!(
                    found,
                    Err((place.range)(&place)),
                    "{:?} {number}",
                    place.words
                );
            }
        }
    }
}

#[test]
fn numbers_are_plain_decimal_digits() {
    let not_numbers: &[&[u8]] = &[
        b"",
        b"-1",
        b"+5",
        b"-0",
        b"1e3",
        b" 5",
        b"5 ",
        b"5\n",
        b"5\0",
        b"\x005",
        b"NaN",
        b"nan",
        b"inf",
        b"0x10",
        b"1.0",
        b"1_000",
        b"5ms",
        b"five",
        b"%s%n",
        b"{}",
        b"\xc4\x80",
        b"\xd9\xa3",
        b"-9223372036854775808",
    ];
    let too_large: &[&[u8]] = &[
        b"18446744073709551616",
        b"99999999999999999999",
        b"184467440737095516150",
        b"000000000000000000001",
        b"36893488147419103233",
    ];
    for place in places() {
        for text in not_numbers {
            assert_eq!(
                filled(&place, text),
                Err(Error::NotAnInteger { name: place.name }),
                "{:?} {}",
                place.words,
                text.escape_ascii()
            );
        }
        for text in too_large {
            assert_eq!(
                filled(&place, text),
                Err((place.range)(&place)),
                "{:?}",
                place.words
            );
        }
        assert!(filled(&place, b"001").is_ok(), "{:?}", place.words);
        assert!(
            filled(&place, b"00000000000000000001").is_ok(),
            "{:?}",
            place.words
        );
    }
}

#[test]
fn a_hundred_million_zeros_are_refused_after_twenty() {
    let zeros = vec![b'0'; 100_000_000];
    let started = std::time::Instant::now();
    assert!(run(Verb::Schedule, &[b"id", b"PX", &zeros]).is_err());
    assert!(started.elapsed().as_millis() < 50);
}

#[test]
fn pxat_takes_milliseconds() {
    let at = |text: &'static str| words(Verb::Schedule, text);
    let seconds = Err(Error::PxatInSeconds {
        min: 100_000_000_000,
        max: 253_402_300_799_999,
    });
    for text in [
        "id PXAT 0",
        "id PXAT 1",
        "id PXAT 1795958000",
        "id PXAT 99999999999",
    ] {
        assert_eq!(at(text), seconds, "{text}");
    }
    assert!(line(Verb::Schedule, "id PXAT 5").starts_with("ERR PXAT takes milliseconds"));
    assert_eq!(
        schedule_of("id PXAT 100000000000").when,
        When::At(WallMs(100_000_000_000))
    );
    assert_eq!(
        schedule_of("id PXAT 253402300799999").when,
        When::At(WALL_MS_MAX)
    );
    for text in ["id PXAT 253402300800000", "id PXAT 18446744073709551615"] {
        let error = Error::OutOfRange {
            name: "PXAT",
            min: 0,
            max: WALL_MS_MAX.0,
        };
        assert_eq!(at(text), Err(error), "{text}");
    }
    for text in ["", "-1", "+5", "1e12", " 100000000000", "NaN"] {
        assert_eq!(
            run(Verb::Schedule, &[b"id", b"PXAT", text.as_bytes()]),
            Err(Error::NotAnInteger { name: "PXAT" })
        );
    }
}

#[test]
fn mack_has_one_to_a_thousand_pairs_and_exactly_as_many_as_it_says() {
    for n in ["0", "1001", "4294967297", "9223372036854775808"] {
        let error = Error::OutOfRange {
            name: "n",
            min: 1,
            max: 1000,
        };
        assert_eq!(
            run(Verb::Mack, &[n.as_bytes(), b"id", b"7"]),
            Err(error),
            "{n}"
        );
    }
    for n in ["", "-1", "+1", "1e0", " 1", "NaN"] {
        let error = Error::NotAnInteger { name: "n" };
        assert_eq!(
            run(Verb::Mack, &[n.as_bytes(), b"id", b"7"]),
            Err(error),
            "{n}"
        );
    }
    for count in [1, 2, 999, 1000] {
        let text = count.to_string();
        let mut args: Vec<&[u8]> = vec![text.as_bytes()];
        args.extend(std::iter::repeat_n([&b"id"[..], b"7"], count).flatten());
        let Ok(Request::Mack(mack)) = run(Verb::Mack, &args) else {
            panic!("{count}")
        };
        assert_eq!(mack.pairs, vec![(&b"id"[..], 7); count]);
        assert_eq!(
            (mack.from, mack.status, mack.keep_ms),
            (Vec::new(), None, None)
        );
        let Err(error) = run(Verb::Mack, &args[..args.len() - 1]) else {
            panic!("{count}")
        };
        // The command with no pair at all has too few arguments.
        if count > 1 {
            assert_eq!(
                error,
                Error::MissingPairs {
                    pairs: count as u64
                }
            );
        }
        args.extend([&b"id"[..], b"7"]);
        assert_eq!(run(Verb::Mack, &args), Err(unknown(b"id")));
    }
    assert_eq!(
        line(Verb::Mack, "2 a 1 b"),
        "ERR syntax error, 2 pairs of id and fence must follow n"
    );
    // An option where a pair belongs is read as a pair.
    assert_eq!(
        words(Verb::Mack, "2 a 1 STATUS s"),
        Err(Error::NotAnInteger { name: "fence" })
    );
    let Ok(Request::Mack(mack)) = words(Verb::Mack, "2 a 1 a 2 from x FROM y KEEP 0 status s")
    else {
        panic!("options after the pairs")
    };
    assert_eq!(mack.pairs, [(&b"a"[..], 1), (b"a", 2)]);
    assert_eq!(mack.from, [b"x", b"y"]);
    assert_eq!((mack.status, mack.keep_ms), (Some(&b"s"[..]), Some(0)));
    assert_eq!(words(Verb::Mack, "1 a 1 RESULT r"), Err(unknown(b"RESULT")));
}

// ------------------------------------------------------------------ lengths

#[test]
fn byte_strings_are_kept_as_they_are_within_their_lengths() {
    // `V` stands for the value.
    let rows: &[(Verb, &[&str], &str, u64, u64)] = &[
        (Verb::Schedule, &["V", "PX", "5"], "id", 1, 255),
        (
            Verb::Schedule,
            &["id", "PX", "5", "STATUS", "V"],
            "STATUS",
            0,
            32,
        ),
        (
            Verb::Schedule,
            &["id", "PX", "5", "FROM", "V"],
            "FROM",
            0,
            32,
        ),
        (
            Verb::Schedule,
            &["id", "PX", "5", "PAYLOAD", "V"],
            "PAYLOAD",
            0,
            65_536,
        ),
        (Verb::Finish, &["V"], "id", 1, 255),
        (Verb::Finish, &["id", "STATUS", "V"], "STATUS", 0, 32),
        (Verb::Finish, &["id", "FROM", "V"], "FROM", 0, 32),
        (Verb::Finish, &["id", "RESULT", "V"], "RESULT", 0, 65_536),
        (Verb::Status, &["V", "s"], "id", 1, 255),
        (Verb::Status, &["id", "V"], "status", 0, 32),
        (Verb::Status, &["id", "s", "FROM", "V"], "FROM", 0, 32),
        (
            Verb::Status,
            &["id", "s", "PAYLOAD", "V"],
            "PAYLOAD",
            0,
            65_536,
        ),
        (Verb::Claim, &["V"], "owner", 1, 128),
        (Verb::Claim, &["me", "ID", "V"], "ID", 1, 255),
        (Verb::Ack, &["V", "7"], "id", 1, 255),
        (Verb::Ack, &["id", "7", "STATUS", "V"], "STATUS", 0, 32),
        (Verb::Ack, &["id", "7", "FROM", "V"], "FROM", 0, 32),
        (Verb::Ack, &["id", "7", "RESULT", "V"], "RESULT", 0, 65_536),
        (Verb::Mack, &["1", "V", "7"], "id", 1, 255),
        (
            Verb::Mack,
            &["1", "id", "7", "STATUS", "V"],
            "STATUS",
            0,
            32,
        ),
        (Verb::Mack, &["1", "id", "7", "FROM", "V"], "FROM", 0, 32),
        (Verb::Nack, &["V", "7"], "id", 1, 255),
        (Verb::Nack, &["id", "7", "ERROR", "V"], "ERROR", 0, 256),
        (Verb::Renew, &["V", "7", "PX", "5"], "id", 1, 255),
        (Verb::Lock, &["V", "me", "PX", "5"], "id", 1, 255),
        (Verb::Lock, &["id", "V", "PX", "5"], "owner", 1, 128),
        (Verb::Lock, &["id", "me", "PX", "5", "FP", "V"], "FP", 1, 64),
        (Verb::Unlock, &["V", "7"], "id", 1, 255),
        (Verb::Break, &["V"], "id", 1, 255),
        (Verb::Pause, &["REASON", "V"], "REASON", 0, 256),
        (
            Verb::Purge,
            &["STATE", "dead", "STATUS", "V"],
            "STATUS",
            0,
            32,
        ),
        (Verb::Get, &["V"], "id", 1, 255),
        (Verb::Pttl, &["V"], "id", 1, 255),
        (Verb::Scan, &["0", "STATUS", "V"], "STATUS", 0, 32),
    ];
    let samples: &[&[u8]] = &[
        b"a\0b",
        b"\0",
        b"\r\n",
        b"a\r\nb",
        b"%s%n",
        b"\xc4\x80",
        b"{}",
        b"{0}",
        b"\xff\xfe",
        b" ",
        b"PX",
        b"FROM",
        b"-1",
    ];
    for (verb, words, name, min, max) in rows {
        let with = |value: &[u8]| {
            let args: Vec<&[u8]> = words
                .iter()
                .map(|word| if *word == "V" { value } else { word.as_bytes() })
                .collect();
            match run(*verb, &args) {
                Ok(request) => {
                    let told = format!("{request:?}");
                    assert!(told.contains(&format!("{value:?}")), "{words:?}: {told}");
                    Ok(())
                }
                Err(error) => Err(error),
            }
        };
        for sample in samples {
            assert_eq!(with(sample), Ok(()), "{words:?} {}", sample.escape_ascii());
        }
        let error = Error::LengthOutOfRange {
            name,
            min: *min,
            max: *max,
        };
        let max = *max as usize;
        for length in [
            0,
            1,
            31,
            32,
            33,
            63,
            64,
            65,
            127,
            128,
            129,
            254,
            255,
            256,
            257,
            max,
            max + 1,
        ] {
            let wanted = if (*min as usize..=max).contains(&length) {
                Ok(())
            } else {
                Err(error.clone())
            };
            assert_eq!(with(&vec![b'\xc4'; length]), wanted, "{words:?} {length}");
        }
    }
    // A pattern is no longer than what it is matched with; effects have no limit.
    let long = vec![b'*'; 100_000];
    for (length, fits) in [(0, true), (255, true), (256, false), (100_000, false)] {
        let pattern = &long[..length];
        assert_eq!(run(Verb::Scan, &[b"0", b"MATCH", pattern]).is_ok(), fits);
        let purge = run(Verb::Purge, &[b"STATE", b"dead", b"MATCH", pattern]);
        assert_eq!(purge.is_ok(), fits, "{length}");
    }
    assert!(run(Verb::Apply, &[b"1", &long]).is_ok());
    assert_eq!(
        run(Verb::Apply, &[b"1", b""]),
        Ok(Request::Apply(Apply {
            version: 1,
            effects: b""
        }))
    );
}

#[test]
fn limits_are_those_of_the_server() {
    let limits = Limits {
        lease_ms_max: 999,
        payload_bytes_max: 3,
    };
    let claim = |lease: &[&'static [u8]]| {
        let mut args: Vec<&[u8]> = vec![b"order.claim", b"queue", b"me"];
        args.extend(lease);
        parse(Verb::Claim, &args, &limits)
    };
    assert!(claim(&[b"PX", b"999"]).is_ok());
    assert_eq!(
        claim(&[b"PX", b"1000"]).unwrap_err().to_string(),
        "ERR value of PX is out of range, a lease must last between 1 and 999 ms"
    );
    assert!(claim(&[b"EX", b"1"]).is_err());
    let args: &[&[u8]] = &[b"order.finish", b"queue", b"id", b"RESULT", b"four"];
    assert!(parse(Verb::Finish, args, &limits).is_err());
    assert!(
        parse(
            Verb::Finish,
            args,
            &Limits {
                payload_bytes_max: 4,
                ..limits
            }
        )
        .is_ok()
    );
}

// -------------------------------------------------------------------- arity

#[test]
fn arity_is_checked_before_anything_else() {
    for verb in Verb::ALL {
        let arity = key_and_arity(verb);
        let least = arity.unsigned_abs() as usize;
        // Of nonsense, so that any other check would answer something else.
        let args: Vec<&[u8]> = vec![b""; least + 1];
        for count in 0..least {
            assert_eq!(
                parse(verb, &args[..count], &LIMITS),
                Err(Error::WrongArity {
                    command: verb.command()
                }),
                "{verb:?} {count}"
            );
        }
        let more = parse(verb, &args, &LIMITS);
        assert_eq!(
            more == Err(Error::WrongArity {
                command: verb.command()
            }),
            arity > 0,
            "{verb:?}"
        );
    }
    assert_eq!(
        parse(Verb::Schedule, &[], &LIMITS).unwrap_err().to_string(),
        "ERR wrong number of arguments for 'order.schedule' command"
    );
    assert_eq!(words(Verb::Stats, ""), Ok(Request::Stats));
    assert_eq!(words(Verb::Resume, ""), Ok(Request::Resume));
    let unlock = Unlock { id: b"x", fence: 7 };
    assert_eq!(words(Verb::Unlock, "x 7"), Ok(Request::Unlock(unlock)));
    assert_eq!(words(Verb::Get, "x"), Ok(Request::Get { id: b"x" }));
    assert_eq!(words(Verb::Pttl, "x"), Ok(Request::Pttl { id: b"x" }));
}

// ------------------------------------------------------------------ options

#[test]
fn options_come_in_any_order_and_any_case() {
    let bare = |id| Schedule {
        id,
        when: When::In(5000),
        mode: Mode::Create,
        only: None,
        guard: Guard::default(),
        status: None,
        payload: None,
    };
    assert_eq!(schedule_of("id EX 5"), bare(b"id"));
    let full = Request::Schedule(Schedule {
        mode: Mode::Upsert,
        only: Some(Direction::Later),
        guard: Guard {
            from: vec![b"unpaid", b"new"],
            if_rev: Some(3),
            fence: Some(4),
        },
        status: Some(b"paid"),
        payload: Some(b"px"),
        ..bare(b"id")
    });
    let options = [
        "eX 5",
        "uPsErT",
        "gt",
        "from unpaid FROM new",
        "IFREV 3",
        "Fence 4",
        "STATUS paid",
        "payload px",
    ];
    permutations(&options, &mut |order| {
        assert_eq!(
            words(Verb::Schedule, &format!("id {}", order.join(" "))).as_ref(),
            Ok(&full)
        );
    });

    let full = Request::Finish(Finish {
        id: b"id",
        strict: true,
        create: true,
        guard: Guard {
            from: vec![b"a", b"b"],
            if_rev: None,
            fence: None,
        },
        status: Some(b"s"),
        result: Some(b"r"),
        keep_ms: Some(9),
    });
    let options = [
        "STRICT",
        "create",
        "FROM a FROM b",
        "Status s",
        "RESULT r",
        "KEEP 9",
    ];
    permutations(&options, &mut |order| {
        assert_eq!(
            words(Verb::Finish, &format!("id {}", order.join(" "))).as_ref(),
            Ok(&full)
        );
    });

    let full = Request::Status(SetStatus {
        id: b"id",
        status: b"s",
        guard: Guard {
            from: vec![b"a"],
            if_rev: Some(1),
            fence: Some(2),
        },
        payload: Some(b"p"),
    });
    permutations(
        &["FROM a", "ifrev 1", "FENCE 2", "PAYLOAD p"],
        &mut |order| {
            assert_eq!(
                words(Verb::Status, &format!("id s {}", order.join(" "))).as_ref(),
                Ok(&full)
            );
        },
    );

    let full = Request::Claim(Claim {
        owner: b"me",
        lease_ms: Some(7),
        pick: Pick::Next {
            count: 8,
            block_ms: Some(9),
        },
    });
    permutations(&["PX 7", "count 8", "BLOCK 9"], &mut |order| {
        assert_eq!(
            words(Verb::Claim, &format!("me {}", order.join(" "))).as_ref(),
            Ok(&full)
        );
    });
    let full = Request::Claim(Claim {
        owner: b"me",
        lease_ms: Some(7000),
        pick: Pick::Id(b"x"),
    });
    permutations(&["EX 7", "id x"], &mut |order| {
        assert_eq!(
            words(Verb::Claim, &format!("me {}", order.join(" "))).as_ref(),
            Ok(&full)
        );
    });

    let full = Request::Ack(Ack {
        id: b"id",
        fence: 7,
        from: vec![b"a", b"b"],
        status: Some(b"s"),
        result: Some(b"r"),
        keep_ms: Some(0),
    });
    permutations(
        &["FROM a FROM b", "STATUS s", "RESULT r", "KEEP 0"],
        &mut |order| {
            assert_eq!(
                words(Verb::Ack, &format!("id 7 {}", order.join(" "))).as_ref(),
                Ok(&full)
            );
        },
    );

    let full = Request::Nack(Nack {
        id: b"id",
        fence: 7,
        again: Again::Delay(0),
        error: Some(b"e"),
        untried: true,
    });
    permutations(&["DELAY 0", "ERROR e", "UNTRIED"], &mut |order| {
        assert_eq!(
            words(Verb::Nack, &format!("id 7 {}", order.join(" "))).as_ref(),
            Ok(&full)
        );
    });

    let full = Request::Renew(Renew {
        id: b"id",
        fence: 7,
        lease_ms: 5,
        shorten: true,
    });
    permutations(&["PX 5", "LT"], &mut |order| {
        assert_eq!(
            words(Verb::Renew, &format!("id 7 {}", order.join(" "))).as_ref(),
            Ok(&full)
        );
    });

    let full = Request::Lock(Lock {
        id: b"id",
        owner: b"me",
        lease_ms: 7000,
        reentrant: true,
        max_ms: Some(8),
        fp: Some(b"f"),
        block_ms: Some(9),
        must_exist: true,
    });
    permutations(
        &["Ex 7", "reEntrant", "max 8", "FP f", "BLOCK 9", "Xx"],
        &mut |order| {
            assert_eq!(
                words(Verb::Lock, &format!("id me {}", order.join(" "))).as_ref(),
                Ok(&full)
            );
        },
    );

    let full = Request::Pause(Pause {
        ms: Some(5),
        reason: b"lunch",
    });
    permutations(&["px 5", "ReaSon lunch"], &mut |order| {
        assert_eq!(words(Verb::Pause, &order.join(" ")).as_ref(), Ok(&full));
    });

    let full = Request::Purge(Purge {
        state: State::Dead,
        status: Some(b"s"),
        pattern: Some(b"1*"),
        count: 20,
    });
    permutations(
        &["STATE DeAd", "STATUS s", "match 1*", "COUNT 20"],
        &mut |order| {
            assert_eq!(words(Verb::Purge, &order.join(" ")).as_ref(), Ok(&full));
        },
    );

    let full = Request::Scan(Scan {
        cursor: 5,
        state: Some(State::Dead),
        status: Some(b"s"),
        pattern: Some(b"1*"),
        count: 20,
        owner: Some(b"me"),
    });
    permutations(
        &["STATE DeAd", "STATUS s", "match 1*", "COUNT 20", "owner me"],
        &mut |order| {
            assert_eq!(
                words(Verb::Scan, &format!("5 {}", order.join(" "))).as_ref(),
                Ok(&full)
            );
        },
    );
    assert_eq!(words(Verb::Next, "cOuNt 3"), Ok(Request::Next { count: 3 }));
    let full = Request::Requeue(Requeue::Next(Purge {
        state: State::Retrying,
        status: Some(b"s"),
        pattern: Some(b"1*"),
        count: 20,
    }));
    permutations(
        &["STATE reTrying", "STATUS s", "match 1*", "COUNT 20"],
        &mut |order| {
            assert_eq!(words(Verb::Requeue, &order.join(" ")).as_ref(), Ok(&full));
        },
    );
    assert_eq!(
        words(Verb::Requeue, "iD a COUNT 3"),
        Ok(Request::Requeue(Requeue::Ids(vec![
            &b"a"[..],
            b"COUNT",
            b"3"
        ])))
    );
    let release = Release {
        owner: b"me",
        count: 3,
    };
    assert_eq!(
        words(Verb::Release, "me cOuNt 3"),
        Ok(Request::Release(release))
    );
}

#[test]
fn what_is_not_given_has_its_default() {
    let claim = Claim {
        owner: b"me",
        lease_ms: None,
        pick: Pick::Next {
            count: 1,
            block_ms: None,
        },
    };
    assert_eq!(words(Verb::Claim, "me"), Ok(Request::Claim(claim)));
    assert_eq!(words(Verb::Next, ""), Ok(Request::Next { count: 1 }));
    let scan = Scan {
        cursor: 0,
        state: None,
        status: None,
        pattern: None,
        count: 10,
        owner: None,
    };
    assert_eq!(words(Verb::Scan, "0"), Ok(Request::Scan(scan)));
    let nack = Nack {
        id: b"id",
        fence: 7,
        again: Again::Backoff,
        error: None,
        untried: false,
    };
    assert_eq!(words(Verb::Nack, "id 7"), Ok(Request::Nack(nack)));
    let nack = Nack {
        id: b"id",
        fence: 7,
        again: Again::Dead,
        error: None,
        untried: false,
    };
    assert_eq!(words(Verb::Nack, "id 7 dead"), Ok(Request::Nack(nack)));
    let renew = Renew {
        id: b"id",
        fence: 7,
        lease_ms: 1000,
        shorten: false,
    };
    assert_eq!(words(Verb::Renew, "id 7 EX 1"), Ok(Request::Renew(renew)));
    let lock = Lock {
        id: b"id",
        owner: b"me",
        lease_ms: 5,
        reentrant: false,
        max_ms: None,
        fp: None,
        block_ms: None,
        must_exist: false,
    };
    assert_eq!(words(Verb::Lock, "id me PX 5"), Ok(Request::Lock(lock)));
    let whichever = Break {
        id: b"id",
        fence: None,
    };
    assert_eq!(words(Verb::Break, "id"), Ok(Request::Break(whichever)));
    let this = Break {
        fence: Some(7),
        ..whichever
    };
    assert_eq!(words(Verb::Break, "id 7"), Ok(Request::Break(this)));
    let pause = Pause {
        ms: None,
        reason: b"",
    };
    assert_eq!(words(Verb::Pause, ""), Ok(Request::Pause(pause)));
    let requeue = Requeue::Next(Purge {
        state: State::Dead,
        status: None,
        pattern: None,
        count: 1000,
    });
    assert_eq!(words(Verb::Requeue, ""), Ok(Request::Requeue(requeue)));
    let release = Release {
        owner: b"me",
        count: 1000,
    };
    assert_eq!(words(Verb::Release, "me"), Ok(Request::Release(release)));
    let purge = Purge {
        state: State::Finished,
        status: None,
        pattern: None,
        count: 1000,
    };
    assert_eq!(
        words(Verb::Purge, "STATE finished"),
        Ok(Request::Purge(purge))
    );
    let Ok(Request::Finish(finish)) = words(Verb::Finish, "id") else {
        panic!("FINISH")
    };
    assert!(!finish.strict && !finish.create && finish.guard == Guard::default());
    assert_eq!(
        (finish.status, finish.result, finish.keep_ms),
        (None, None, None)
    );
}

#[test]
fn a_guard_or_a_direction_alone_asks_for_an_order_that_is_there() {
    let rows = [
        ("", Mode::Create),
        ("NX", Mode::Create),
        ("XX", Mode::Move),
        ("UPSERT", Mode::Upsert),
        ("GT", Mode::Move),
        ("LT", Mode::Move),
        ("FROM a", Mode::Move),
        ("IFREV 1", Mode::Move),
        ("FENCE 1", Mode::Move),
        ("XX GT", Mode::Move),
        ("XX FENCE 1", Mode::Move),
        ("UPSERT GT", Mode::Upsert),
        ("UPSERT FROM a IFREV 1 FENCE 1 LT", Mode::Upsert),
        ("STATUS s PAYLOAD p", Mode::Create),
    ];
    for (options, mode) in rows {
        assert_eq!(
            schedule_of(&format!("id PX 5 {options}")).mode,
            mode,
            "{options}"
        );
    }
    let request = run(Verb::Schedule, &[b"id", b"PX", MS, b"FROM", b""]);
    let Ok(Request::Schedule(schedule)) = request else {
        panic!("{request:?}")
    };
    assert_eq!(
        (schedule.mode, schedule.guard.from),
        (Mode::Move, vec![&b""[..]])
    );
}

#[test]
fn options_that_exclude_each_other_do_so_in_either_order() {
    let rows = [
        (Verb::Schedule, "id PX 5", "NX", "XX"),
        (Verb::Schedule, "id PX 5", "NX", "UPSERT"),
        (Verb::Schedule, "id PX 5", "XX", "UPSERT"),
        (Verb::Schedule, "id PX 5", "GT", "LT"),
        (Verb::Schedule, "id PX 5", "NX", "GT"),
        (Verb::Schedule, "id PX 5", "NX", "LT"),
        (Verb::Schedule, "id PX 5", "NX", "FROM a"),
        (Verb::Schedule, "id PX 5", "NX", "IFREV 1"),
        (Verb::Schedule, "id PX 5", "NX", "FENCE 1"),
        (Verb::Schedule, "id", "EX 5", "PX 5"),
        (Verb::Schedule, "id", "EX 5", "EXAT 5"),
        (Verb::Schedule, "id", "EX 5", "PXAT 100000000000"),
        (Verb::Schedule, "id", "PX 5", "EXAT 5"),
        (Verb::Schedule, "id", "PX 5", "PXAT 100000000000"),
        (Verb::Schedule, "id", "EXAT 5", "PXAT 100000000000"),
        (Verb::Finish, "id", "CREATE", "FENCE 1"),
        (Verb::Finish, "id", "CREATE", "IFREV 1"),
        (Verb::Claim, "me", "ID x", "COUNT 1"),
        (Verb::Claim, "me", "ID x", "BLOCK 1"),
        (Verb::Claim, "me", "EX 1", "PX 1"),
        (Verb::Nack, "id 7", "DELAY 1", "DEAD"),
        (Verb::Nack, "id 7", "UNTRIED", "DEAD"),
        (Verb::Renew, "id 7", "EX 1", "PX 1"),
        (Verb::Lock, "id me", "EX 1", "PX 1"),
    ];
    for (verb, start, one, other) in rows {
        let word = |option: &str| option.split(' ').next().unwrap().to_owned();
        for (first, second) in [(one, other), (other, one)] {
            let text = format!("{start} {first} {second}");
            let line = line(verb, &text);
            let names = [(word(one), word(other)), (word(other), word(one))];
            let wanted =
                names.map(|(a, b)| format!("ERR syntax error, {a} and {b} exclude each other"));
            assert!(wanted.contains(&line), "{text}: {line}");
        }
    }
}

#[test]
fn every_option_but_from_is_given_once_and_has_its_value() {
    let rows: &[(Verb, &str, &[&str])] = &[
        (Verb::Schedule, "id EX 5", &["NX", "STATUS s", "PAYLOAD p"]),
        (
            Verb::Schedule,
            "id EX 5",
            &["XX", "UPSERT", "GT", "LT", "IFREV 1", "FENCE 1"],
        ),
        (
            Verb::Schedule,
            "id",
            &["EX 5", "PX 5", "EXAT 5", "PXAT 100000000000"],
        ),
        (
            Verb::Finish,
            "id",
            &[
                "STRICT", "CREATE", "IFREV 1", "FENCE 1", "STATUS s", "RESULT r", "KEEP 1",
            ],
        ),
        (Verb::Status, "id s", &["IFREV 1", "FENCE 1", "PAYLOAD p"]),
        (
            Verb::Claim,
            "me",
            &["EX 1", "PX 1", "COUNT 1", "BLOCK 1", "ID x"],
        ),
        (Verb::Ack, "id 7", &["STATUS s", "RESULT r", "KEEP 1"]),
        (Verb::Mack, "1 id 7", &["STATUS s", "KEEP 1"]),
        (
            Verb::Nack,
            "id 7",
            &["DELAY 1", "DEAD", "ERROR e", "UNTRIED"],
        ),
        (Verb::Renew, "id 7", &["EX 1", "PX 1"]),
        (Verb::Renew, "id 7 PX 5", &["LT"]),
        (Verb::Lock, "id me", &["EX 1", "PX 1"]),
        (
            Verb::Lock,
            "id me PX 5",
            &["REENTRANT", "MAX 5", "FP f", "BLOCK 1", "XX"],
        ),
        (Verb::Pause, "", &["PX 1", "REASON r"]),
        (
            Verb::Requeue,
            "",
            &["STATE dead", "STATUS s", "MATCH m", "COUNT 1"],
        ),
        (Verb::Release, "me", &["COUNT 1"]),
        (
            Verb::Purge,
            "STATE dead",
            &["STATE dead", "STATUS s", "MATCH m", "COUNT 1"],
        ),
        (Verb::Next, "", &["COUNT 1"]),
        (
            Verb::Scan,
            "0",
            &["STATE dead", "STATUS s", "MATCH m", "COUNT 1", "OWNER o"],
        ),
    ];
    for (verb, start, options) in rows {
        for option in *options {
            let word = option.split(' ').next().unwrap();
            // A command of that few words has too few arguments.
            let too_short = *verb == Verb::Renew
                || start == &"id" && *verb == Verb::Schedule
                || start == &"id me" && *verb == Verb::Lock;
            let twice = line(*verb, &format!("{start} {option} {option}"));
            assert_eq!(
                twice,
                format!("ERR syntax error, option {word} given twice"),
                "{verb:?}"
            );
            if *option != word && !too_short {
                let bare = line(*verb, &format!("{start} {word}"));
                assert_eq!(
                    bare,
                    format!("ERR syntax error, option {word} needs a value"),
                    "{verb:?}"
                );
            }
        }
    }
    assert_eq!(
        line(Verb::Schedule, "id NX PX 5 FROM"),
        "ERR syntax error, option FROM needs a value"
    );
    assert_eq!(
        line(Verb::Schedule, "id NX GT PX"),
        "ERR syntax error, option PX needs a value"
    );
    assert_eq!(
        line(Verb::Renew, "id 7 LT PX"),
        "ERR syntax error, option PX needs a value"
    );
    for (verb, text) in [
        (Verb::Schedule, "id PX 5 FROM a FROM a"),
        (Verb::Finish, "id FROM a FROM a"),
        (Verb::Status, "id s FROM a FROM a"),
        (Verb::Ack, "id 7 FROM a FROM a"),
        (Verb::Mack, "1 id 7 FROM a FROM a"),
    ] {
        assert!(words(verb, text).is_ok(), "{text}");
    }
}

#[test]
fn a_deadline_and_a_renewal_have_to_be_given() {
    assert_eq!(
        line(Verb::Schedule, "id NX STATUS s"),
        "ERR syntax error, one of EX, PX, EXAT, PXAT is required"
    );
    assert_eq!(
        line(Verb::Renew, "id 7 LT LT"),
        "ERR syntax error, option LT given twice"
    );
    assert_eq!(
        line(Verb::Lock, "id me REENTRANT MAX 5"),
        "ERR syntax error, one of EX, PX is required"
    );
    assert_eq!(
        line(Verb::Lock, "id me MAX 5 PX"),
        "ERR syntax error, option PX needs a value"
    );
    assert_eq!(
        line(Verb::Purge, "COUNT 5 STATUS s"),
        "ERR syntax error, STATE is required"
    );
    let lone: Vec<&[u8]> = vec![b"order.renew", b"q", b"id", b"7", b"LT"];
    assert!(matches!(
        parse(Verb::Renew, &lone, &LIMITS),
        Err(Error::WrongArity { .. })
    ));
}

#[test]
fn each_command_takes_its_own_options_only() {
    let all = [
        "EX",
        "PX",
        "EXAT",
        "PXAT",
        "NX",
        "XX",
        "UPSERT",
        "GT",
        "LT",
        "FROM",
        "IFREV",
        "FENCE",
        "STATUS",
        "PAYLOAD",
        "STRICT",
        "CREATE",
        "RESULT",
        "KEEP",
        "COUNT",
        "BLOCK",
        "ID",
        "DELAY",
        "DEAD",
        "ERROR",
        "STATE",
        "MATCH",
        "REENTRANT",
        "MAX",
        "FP",
        "GET",
        "SET",
        "RESET",
        "REASON",
    ];
    let rows: &[(Verb, &str, &[&str])] = &[
        (
            Verb::Schedule,
            "id",
            &[
                "EX", "PX", "EXAT", "PXAT", "NX", "XX", "UPSERT", "GT", "LT", "FROM", "IFREV",
                "FENCE", "STATUS", "PAYLOAD",
            ],
        ),
        (
            Verb::Finish,
            "id",
            &[
                "STRICT", "CREATE", "FROM", "IFREV", "FENCE", "STATUS", "RESULT", "KEEP",
            ],
        ),
        (Verb::Status, "id s", &["FROM", "IFREV", "FENCE", "PAYLOAD"]),
        (Verb::Claim, "me", &["EX", "PX", "COUNT", "BLOCK", "ID"]),
        (Verb::Ack, "id 7", &["FROM", "STATUS", "RESULT", "KEEP"]),
        (Verb::Mack, "1 id 7", &["FROM", "STATUS", "KEEP"]),
        (Verb::Nack, "id 7", &["DELAY", "DEAD", "UNTRIED", "ERROR"]),
        (Verb::Renew, "id 7", &["EX", "PX", "LT"]),
        (
            Verb::Lock,
            "id me",
            &["EX", "PX", "REENTRANT", "MAX", "FP", "BLOCK", "XX"],
        ),
        (Verb::Pause, "", &["PX", "REASON"]),
        (
            Verb::Requeue,
            "COUNT 5",
            &["STATE", "STATUS", "MATCH", "COUNT", "ID"],
        ),
        (Verb::Release, "me", &["COUNT"]),
        (
            Verb::Purge,
            "STATE dead",
            &["STATE", "STATUS", "MATCH", "COUNT"],
        ),
        (Verb::Next, "", &["COUNT"]),
        (
            Verb::Scan,
            "0",
            &["STATE", "STATUS", "MATCH", "COUNT", "OWNER"],
        ),
    ];
    for (verb, start, own) in rows {
        for word in all {
            // Enough arguments to get past the arity.
            let found = words(*verb, &format!("{start} {word} 5 5")).unwrap_err();
            assert_eq!(
                found == unknown(word.as_bytes()),
                !own.contains(&word),
                "{verb:?} {word}"
            );
        }
    }
}

#[test]
fn break_takes_one_fence_at_most_and_no_option() {
    let not = Err(Error::NotAnInteger { name: "fence" });
    assert_eq!(words(Verb::Break, "id FENCE 7"), not);
    assert_eq!(words(Verb::Break, "id 7 8"), Err(unknown(b"8")));
    assert_eq!(words(Verb::Unlock, "id FENCE"), not);
    let error = Error::WrongArity {
        command: "order.unlock",
    };
    assert_eq!(words(Verb::Unlock, "id 7 8"), Err(error));
}

#[test]
fn config_gets_sets_and_resets() {
    for (text, asked) in [
        ("GET", Configure::Get(None)),
        ("get lease-ms", Configure::Get(Some(b"lease-ms"))),
        ("Reset", Configure::Reset(None)),
        ("RESET keep-ms", Configure::Reset(Some(b"keep-ms"))),
        ("SET a 1", Configure::Set(vec![(b"a", b"1")])),
        // What names and values there are is not the grammar's to know.
        (
            "set a 1 b SET c GET",
            Configure::Set(vec![(b"a", b"1"), (b"b", b"SET"), (b"c", b"GET")]),
        ),
    ] {
        assert_eq!(words(Verb::Config, text), Ok(Request::Config(asked)));
    }
    let transitions: &[u8] = b"unpaid>paid paid>shipped";
    assert_eq!(
        run(
            Verb::Config,
            &[b"SET", b"transitions", transitions, b"", b""]
        ),
        Ok(Request::Config(Configure::Set(vec![
            (b"transitions", transitions),
            (b"", b"")
        ])))
    );
    for (text, error) in [
        ("GET a b", "unknown option near 'b'"),
        ("RESET a b", "unknown option near 'b'"),
        ("SET", "option SET needs a value"),
        ("SET a", "option SET name needs a value"),
        ("SET a 1 b", "option SET name needs a value"),
        ("SET a 1 a 2", "option SET name given twice"),
        ("REWRITE", "unknown option near 'REWRITE'"),
        ("PX 5", "unknown option near 'PX'"),
        ("lease-ms 5", "unknown option near 'lease-ms'"),
    ] {
        assert_eq!(
            line(Verb::Config, text),
            format!("ERR syntax error, {error}"),
            "{text}"
        );
    }
    assert_eq!(
        line(Verb::Config, ""),
        "ERR wrong number of arguments for 'order.config' command"
    );
}

#[test]
fn a_bad_lock_is_told_which_argument_is_bad() {
    let long = "x".repeat(129);
    for (text, error) in [
        (
            "id me PX 0".to_owned(),
            "value of PX is out of range, a lease must last between 1 and 86400000 ms",
        ),
        (
            "id me PX -1".to_owned(),
            "value of PX is not an integer, must be decimal digits only",
        ),
        (
            "id me EX 86401".to_owned(),
            "value of EX is out of range, a lease must last between 1 and 86400000 ms",
        ),
        (
            "id me PX 86400001".to_owned(),
            "value of PX is out of range, a lease must last between 1 and 86400000 ms",
        ),
        (
            "id me PX 5 MAX 0".to_owned(),
            "value of MAX is out of range, must be between 1 and 86400000",
        ),
        (
            format!("id {long} PX 5"),
            "length of owner is out of range, must be between 1 and 128 bytes",
        ),
        (
            format!("id me PX 5 FP {}", &long[..65]),
            "length of FP is out of range, must be between 1 and 64 bytes",
        ),
        (
            "id me PX 5 NX".to_owned(),
            "syntax error, unknown option near 'NX'",
        ),
        (
            "id me PX 5 EX 5".to_owned(),
            "syntax error, PX and EX exclude each other",
        ),
        (
            "id me PX 5 REENTRANT REENTRANT".to_owned(),
            "syntax error, option REENTRANT given twice",
        ),
    ] {
        assert_eq!(line(Verb::Lock, &text), format!("ERR {error}"), "{text}");
    }
}

#[test]
fn a_word_that_is_nearly_an_option_is_none() {
    let near: &[&[u8]] = &[
        b"",
        b"\0",
        b"\0PX",
        b"PX\0",
        b"P",
        b"PXX",
        b"PXATT",
        b" PX",
        b"PX ",
        b"P\xd8",
        b"PAYLOADS",
        b"UPSERTT",
        b"px=5",
        b"\x10\x18",
        b"%s%n",
        b"\r\n",
        b"STATUSSTATUSSTATUS",
    ];
    for word in near {
        let found = run(Verb::Schedule, &[b"id", word, MS]);
        assert_eq!(found, Err(unknown(word)), "{}", word.escape_ascii());
    }
    assert_eq!(
        line(Verb::Schedule, "id FOO 5"),
        "ERR syntax error, unknown option near 'FOO'"
    );
    let long = vec![b'\n'; 100_000];
    let told = run(Verb::Schedule, &[b"id", &long, MS])
        .unwrap_err()
        .to_string();
    assert!(
        told.len() < 120 && told.bytes().all(|byte| (0x20..0x7f).contains(&byte)),
        "{told}"
    );
    // Every pair of bytes is the option it spells, or none.
    for a in 0..=255u8 {
        for b in 0..=255u8 {
            let word = [a, b];
            let found = run(Verb::Schedule, &[b"id", &word, MS]);
            let option = ["EX", "PX", "NX", "XX", "GT", "LT"]
                .iter()
                .any(|option| option.as_bytes().eq_ignore_ascii_case(&word));
            assert_eq!(
                found != Err(unknown(&word)),
                option,
                "{}",
                word.escape_ascii()
            );
        }
    }
}

#[test]
fn scan_filters_by_the_states_it_can_list() {
    for state in State::LISTED {
        for word in [state.word().to_owned(), state.word().to_uppercase()] {
            let Ok(Request::Scan(scan)) = run(Verb::Scan, &[b"0", b"STATE", word.as_bytes()])
            else {
                panic!("{word}")
            };
            assert_eq!(scan.state, Some(state));
            let Ok(Request::Purge(purge)) = run(Verb::Purge, &[b"STATE", word.as_bytes()]) else {
                panic!("{word}")
            };
            assert_eq!(purge.state, state);
        }
    }
    for word in [&b"missing"[..], b"", b"expire", b"expiredd", b"expired\0"] {
        let error = Error::UnknownState {
            near: Excerpt::of(word),
        };
        assert_eq!(run(Verb::Scan, &[b"0", b"STATE", word]), Err(error.clone()));
        assert_eq!(run(Verb::Purge, &[b"STATE", word]), Err(error));
    }
}

#[test]
fn arguments_are_judged_from_left_to_right() {
    let id = Error::LengthOutOfRange {
        name: "id",
        min: 1,
        max: 255,
    };
    assert_eq!(run(Verb::Schedule, &[b"", b"FOO", b"-1"]), Err(id));
    assert_eq!(
        run(Verb::Schedule, &[b"id", b"PX", b"-1", b"FOO"]),
        Err(Error::NotAnInteger { name: "PX" })
    );
    assert_eq!(words(Verb::Schedule, "id FOO PX -1"), Err(unknown(b"FOO")));
    assert_eq!(
        words(Verb::Claim, "me ID x COUNT 1 FOO"),
        Err(unknown(b"FOO"))
    );
}

// ------------------------------------------------------------------- random

#[test]
fn no_arguments_whatever_do_harm() {
    let mut state: u64 = std::env::var("ORDER_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(0x5EED_0001);
    let steps: u64 = std::env::var("ORDER_TEST_STEPS")
        .ok()
        .and_then(|steps| steps.parse().ok())
        .unwrap_or(200_000);
    let seed = state;
    let mut random = |below: usize| (mix(&mut state) % below as u64) as usize;
    let long = vec![b'9'; 70_000];
    let pool: Vec<&[u8]> = vec![
        b"EX",
        b"PX",
        b"EXAT",
        b"PXAT",
        b"NX",
        b"XX",
        b"UPSERT",
        b"GT",
        b"LT",
        b"FROM",
        b"IFREV",
        b"FENCE",
        b"STATUS",
        b"PAYLOAD",
        b"STRICT",
        b"CREATE",
        b"RESULT",
        b"KEEP",
        b"COUNT",
        b"BLOCK",
        b"ID",
        b"DELAY",
        b"DEAD",
        b"ERROR",
        b"STATE",
        b"MATCH",
        b"REENTRANT",
        b"MAX",
        b"FP",
        b"GET",
        b"SET",
        b"RESET",
        b"REASON",
        b"0",
        b"1",
        b"2",
        b"5",
        b"1000",
        b"100000000000",
        b"18446744073709551615",
        b"-1",
        b"",
        b"\0",
        b"dead",
        b"id",
        &long,
    ];
    let mut accepted = 0;
    for step in 0..steps {
        let verb = Verb::ALL[random(Verb::ALL.len())];
        let count = random(10);
        let args: Vec<&[u8]> = (0..count).map(|_| pool[random(pool.len())]).collect();
        match parse(verb, &args, &LIMITS) {
            Ok(_) => accepted += 1,
            Err(error) => {
                let told = error.to_string();
                let clean = told.starts_with("ERR ")
                    && told.bytes().all(|byte| (0x20..0x7f).contains(&byte));
                assert!(clean, "seed {seed} step {step}: {told}");
            }
        }
    }
    assert!(accepted > 0, "seed {seed}");
}
