//! Numbers: the limits of every one there is, and how one is written.

use super::*;

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
        place(Verb::Mschedule, &["EX", "1", "id", "N"], "EX", 0, SECONDS),
        place(
            Verb::Mschedule,
            &["PX", "2", "id", "5", "id", "N"],
            "PX",
            0,
            YEAR_9999,
        ),
        place(
            Verb::Mschedule,
            &["EXAT", "PAYLOADS", "1", "id", "N", "p"],
            "EXAT",
            0,
            SECONDS,
        ),
        place(
            Verb::Mfinish,
            &["1", "id", "KEEP", "N"],
            "KEEP",
            0,
            YEAR_9999,
        ),
        place(
            Verb::Mack,
            &["STATUSES", "1", "id", "N", "s"],
            "fence",
            0,
            NUMBER,
        ),
        place(Verb::Mnack, &["1", "id", "N"], "fence", 0, NUMBER),
        place(
            Verb::Mnack,
            &["1", "id", "7", "DELAY", "N"],
            "DELAY",
            0,
            YEAR_9999,
        ),
        place(
            Verb::Mrenew,
            &["2", "id", "7", "id", "N", "PX", "5"],
            "fence",
            0,
            NUMBER,
        ),
        lease(Verb::Mrenew, &["1", "id", "7", "EX", "N"], "EX", 86_400),
        lease(Verb::Mrenew, &["1", "id", "7", "PX", "N"], "PX", 86_400_000),
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
    run(place.verb, &args).map_err(bare)
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
