//! Options: which a command takes, which it must have, which exclude each other, and
//! which word is none.

use super::*;

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
        (Verb::Mschedule, "PX 1 id 5", "NX", "XX"),
        (Verb::Mschedule, "PX 1 id 5", "NX", "UPSERT"),
        (Verb::Mschedule, "PX 1 id 5", "XX", "UPSERT"),
        (Verb::Mschedule, "PX 1 id 5", "GT", "LT"),
        (Verb::Mschedule, "PX 1 id 5", "NX", "GT"),
        (Verb::Mschedule, "PX 1 id 5", "NX", "LT"),
        (Verb::Mschedule, "PX 1 id 5", "NX", "FROM a"),
        (Verb::Mnack, "1 id 7", "DELAY 1", "DEAD"),
        (Verb::Mnack, "1 id 7", "UNTRIED", "DEAD"),
        (Verb::Mrenew, "1 id 7", "EX 1", "PX 1"),
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
        (Verb::Mack, "STATUSES 1 id 7 s", &["KEEP 1"]),
        (
            Verb::Mschedule,
            "PX 1 id 5",
            &["NX", "XX", "UPSERT", "GT", "LT", "STATUS s"],
        ),
        (
            Verb::Mfinish,
            "1 id",
            &["STRICT", "CREATE", "STATUS s", "KEEP 1"],
        ),
        (
            Verb::Mnack,
            "1 id 7",
            &["DELAY 1", "DEAD", "ERROR e", "UNTRIED"],
        ),
        (Verb::Mrenew, "1 id 7 LT", &["EX 1", "PX 1"]),
        (Verb::Mrenew, "1 id 7 PX 5", &["LT", "SESSION"]),
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
        (Verb::Mschedule, "PX 1 id 5 FROM a FROM a"),
        (Verb::Mfinish, "1 id FROM a FROM a"),
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
        line(Verb::Mrenew, "1 id 7 LT SESSION"),
        "ERR syntax error, one of EX, PX is required"
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
        (
            Verb::Mschedule,
            "PX 1 id 5",
            &["NX", "XX", "UPSERT", "GT", "LT", "FROM", "STATUS"],
        ),
        (
            Verb::Mfinish,
            "1 id",
            &["STRICT", "CREATE", "FROM", "STATUS", "KEEP"],
        ),
        (
            Verb::Mnack,
            "1 id 7",
            &["DELAY", "DEAD", "UNTRIED", "ERROR"],
        ),
        (Verb::Mrenew, "1 id 7", &["EX", "PX", "LT"]),
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
