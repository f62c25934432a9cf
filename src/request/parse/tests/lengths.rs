//! Lengths: of byte strings, and how many arguments a command has at least. What limits
//! the server sets.

use super::*;

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
        (
            Verb::Mack,
            &["STATUSES", "1", "id", "7", "V"],
            "status",
            0,
            32,
        ),
        (Verb::Mschedule, &["PX", "1", "V", "5"], "id", 1, 255),
        (
            Verb::Mschedule,
            &["PX", "PAYLOADS", "1", "id", "5", "V"],
            "payload",
            0,
            65_536,
        ),
        (
            Verb::Mschedule,
            &["PX", "1", "id", "5", "STATUS", "V"],
            "STATUS",
            0,
            32,
        ),
        (
            Verb::Mschedule,
            &["PX", "1", "id", "5", "FROM", "V"],
            "FROM",
            0,
            32,
        ),
        (Verb::Mfinish, &["2", "id", "V"], "id", 1, 255),
        (Verb::Mfinish, &["1", "id", "STATUS", "V"], "STATUS", 0, 32),
        (Verb::Mfinish, &["1", "id", "FROM", "V"], "FROM", 0, 32),
        (Verb::Mnack, &["1", "V", "7"], "id", 1, 255),
        (
            Verb::Mnack,
            &["1", "id", "7", "ERROR", "V"],
            "ERROR",
            0,
            256,
        ),
        (Verb::Mrenew, &["1", "V", "7", "PX", "5"], "id", 1, 255),
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
                Err(error) => Err(bare(error)),
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
