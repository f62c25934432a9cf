//! Tests of the encoding: golden bytes, round trips, damage of every kind.

use super::*;
use crate::engine::effect::{
    AfterTry, Base, Bytes, Ended, FinishedBy, Granted, LIST_MAX, LeaseKind, LeaseOf, Requeued,
    Whole, WholeEnding, WholeGrant, WholeHolder, WholeLife, WholePhase,
};
use crate::engine::number::NUMBER_END;
use crate::engine::settings::{Setting, TRANSITIONS};
use crate::testing::mix;
use crate::words::time::{MOMENT_MAX, WALL_MS_MAX, WallMs};

/// Version 2 as it was published; never changed, only added to with a version.
const GOLDEN: &str = include_str!("../../tests/fixtures/effects-v2.txt");
/// Version 1 as it was published: what files of release 0.1.0 are made of.
const GOLDEN_1: &str = include_str!("../../tests/fixtures/effects-v1.txt");
/// One past the last moment.
const MOMENT_END: u64 = MOMENT_MAX + 1;

/// One effect for each variant and each arm of what is in it, under the name it
/// has in the golden file.
fn samples() -> Vec<(&'static str, Effect<'static>)> {
    let id = || Bytes::of(b"1001");
    let some = |bytes: &'static [u8]| Some(Bytes::of(bytes));
    let rev = 1_795_958_000_123_456;
    let at = |ms: u64| WallMs(1_795_958_000_000 + ms);
    let finish = |status, result, keep_end, creates, by| Effect::Finish {
        id: id(),
        rev,
        status,
        result,
        keep_end,
        creates,
        by,
        at: at(3),
        by_holder: by == FinishedBy::Ack,
    };
    let grant = |kind, last_try| WholeGrant {
        kind,
        owner: Bytes::of(b"closer-1"),
        fence: rev,
        made: WallMs(at(2).0 - 86_400_000),
        since: WallMs(at(1).0 - 30_000),
        end: at(1),
        cap: at(2),
        holds: 1,
        last_try,
    };
    let whole = |fp, life| {
        Effect::Restore(Whole {
            id: id(),
            status: Bytes::of(b"unpaid"),
            rev,
            fp,
            life,
        })
    };
    vec![
        (
            "schedule-bare",
            Effect::Schedule {
                id: id(),
                deadline: at(0),
                rev,
                status: None,
                payload: None,
                base: Base::Fresh,
            },
        ),
        (
            "schedule-full",
            Effect::Schedule {
                id: Bytes::of(b"a\0b\r\n%s%n\xc4\x80{}"),
                deadline: WALL_MS_MAX,
                rev: NUMBER_END - 1,
                status: some(b"unpaid"),
                payload: some(b"{\"sku\":7}"),
                base: Base::RecordAndLock,
            },
        ),
        (
            "schedule-least",
            Effect::Schedule {
                id: Bytes::of(b"x"),
                deadline: WallMs(0),
                rev: 1,
                status: some(b""),
                payload: some(b""),
                base: Base::Record,
            },
        ),
        (
            "finish-bare",
            finish(None, None, None, false, FinishedBy::Finish),
        ),
        (
            "finish-full",
            finish(
                some(b"paid"),
                some(b"pay:9f3c"),
                Some(at(86_400_000)),
                true,
                FinishedBy::Finish,
            ),
        ),
        (
            "finish-by-ack",
            finish(
                some(b"closed"),
                None,
                Some(at(86_400_000)),
                false,
                FinishedBy::Ack,
            ),
        ),
        (
            "status-bare",
            Effect::Status {
                id: id(),
                rev,
                status: Bytes::of(b""),
                payload: None,
                ends_grant: false,
            },
        ),
        (
            "status-full",
            Effect::Status {
                id: id(),
                rev,
                status: Bytes::of(b"shipped"),
                payload: some(b"p"),
                ends_grant: true,
            },
        ),
        (
            "claim-one",
            Effect::Claim {
                owner: Bytes::of(b"closer-1"),
                since: at(0),
                end: at(30_000),
                cap: at(86_400_000),
                grants: vec![Granted {
                    id: id(),
                    fence: rev,
                    attempt: 1,
                    last_try: false,
                }],
            },
        ),
        (
            "claim-two",
            Effect::Claim {
                owner: Bytes::of(b"c"),
                since: at(0),
                end: at(1),
                cap: at(1),
                grants: vec![
                    Granted {
                        id: id(),
                        fence: 251,
                        attempt: 250,
                        last_try: false,
                    },
                    Granted {
                        id: Bytes::of(b"1002"),
                        fence: 65_536,
                        attempt: u32::MAX,
                        last_try: true,
                    },
                ],
            },
        ),
        (
            "nack-now",
            Effect::Nack {
                id: id(),
                rev,
                then: AfterTry::Now,
                error: None,
                untried: false,
            },
        ),
        (
            "nack-at",
            Effect::Nack {
                id: id(),
                rev,
                then: AfterTry::At {
                    since: at(0),
                    at: at(1000),
                },
                error: some(b"timeout"),
                untried: false,
            },
        ),
        (
            "nack-dead",
            Effect::Nack {
                id: id(),
                rev,
                then: AfterTry::Dead(at(0)),
                error: some(b""),
                untried: false,
            },
        ),
        (
            "renew",
            Effect::Renew {
                id: id(),
                rev,
                since: at(0),
                end: at(5),
            },
        ),
        (
            "lock-bare",
            Effect::Lock {
                id: id(),
                owner: Bytes::of(b"pay:9f3c"),
                fence: rev,
                since: at(0),
                end: at(1),
                cap: at(2),
                fp: None,
                creates: false,
            },
        ),
        (
            "lock-full",
            Effect::Lock {
                id: id(),
                owner: Bytes::of(b"w1"),
                fence: rev,
                since: at(0),
                end: at(1),
                cap: at(2),
                fp: some(b"f00d"),
                creates: true,
            },
        ),
        (
            "hold",
            Effect::Hold {
                id: id(),
                rev,
                holds: 2,
                since: at(0),
                end: at(9),
            },
        ),
        (
            "release-lock",
            Effect::Release {
                id: id(),
                rev,
                ended: Ended::Lock,
            },
        ),
        (
            "release-claim-now",
            Effect::Release {
                id: id(),
                rev,
                ended: Ended::Claim {
                    then: AfterTry::Now,
                    untried: false,
                },
            },
        ),
        (
            "release-claim-at",
            Effect::Release {
                id: id(),
                rev,
                ended: Ended::Claim {
                    then: AfterTry::At {
                        since: at(0),
                        at: at(3),
                    },
                    untried: false,
                },
            },
        ),
        (
            "release-claim-dead",
            Effect::Release {
                id: id(),
                rev,
                ended: Ended::Claim {
                    then: AfterTry::Dead(at(4)),
                    untried: false,
                },
            },
        ),
        (
            "forget",
            Effect::Forget {
                ids: vec![id(), Bytes::of(b"1002")],
            },
        ),
        (
            "requeue",
            Effect::Requeue {
                rev,
                orders: vec![Requeued {
                    id: id(),
                    attempt: 0,
                }],
            },
        ),
        (
            "configure-set",
            Effect::Configure {
                name: Bytes::of(b"lease-ms"),
                value: some(b"30000"),
            },
        ),
        (
            "configure-reset",
            Effect::Configure {
                name: Bytes::of(b"lease-ms"),
                value: None,
            },
        ),
        (
            "pause-open",
            Effect::Pause {
                on: true,
                until: None,
                reason: Bytes::of(b"deploy"),
            },
        ),
        (
            "pause-until",
            Effect::Pause {
                on: true,
                until: Some(at(60_000)),
                reason: Bytes::of(b""),
            },
        ),
        (
            "resume",
            Effect::Pause {
                on: false,
                until: None,
                reason: Bytes::of(b""),
            },
        ),
        ("floor", Effect::Floor(rev)),
        (
            "restore-open-bare",
            whole(
                None,
                WholeLife::Open {
                    deadline: Some(at(0)),
                    payload: None,
                    attempt: 0,
                    error: None,
                    phase: WholePhase::Plain,
                },
            ),
        ),
        (
            "restore-open-full",
            whole(
                some(b"f00d"),
                WholeLife::Open {
                    deadline: Some(at(0)),
                    payload: some(b"{\"sku\":7}"),
                    attempt: 16,
                    error: some(b"timeout"),
                    phase: WholePhase::Granted(grant(LeaseKind::Claim, true)),
                },
            ),
        ),
        (
            "restore-reserved",
            whole(
                None,
                WholeLife::Open {
                    deadline: None,
                    payload: None,
                    attempt: 0,
                    error: None,
                    phase: WholePhase::Granted(grant(LeaseKind::Lock, false)),
                },
            ),
        ),
        (
            "restore-finished-bare",
            whole(
                None,
                WholeLife::Finished {
                    keep_end: at(1),
                    result: None,
                    ending: None,
                },
            ),
        ),
        (
            "restore-finished-full",
            whole(
                some(b"f"),
                WholeLife::Finished {
                    keep_end: at(1),
                    result: some(b"r"),
                    ending: None,
                },
            ),
        ),
        (
            "nack-untried",
            Effect::Nack {
                id: id(),
                rev,
                then: AfterTry::Now,
                error: None,
                untried: true,
            },
        ),
        (
            "release-claim-untried",
            Effect::Release {
                id: id(),
                rev,
                ended: Ended::Claim {
                    then: AfterTry::Now,
                    untried: true,
                },
            },
        ),
        (
            "restore-retrying",
            whole(
                None,
                WholeLife::Open {
                    deadline: Some(at(0)),
                    payload: None,
                    attempt: 1,
                    error: None,
                    phase: WholePhase::Retrying {
                        since: at(1),
                        at: at(1_001),
                    },
                },
            ),
        ),
        (
            "restore-dead",
            whole(
                None,
                WholeLife::Open {
                    deadline: Some(at(0)),
                    payload: None,
                    attempt: 250,
                    error: None,
                    phase: WholePhase::Dead(at(2)),
                },
            ),
        ),
        (
            "restore-finished-by-a-closer",
            whole(
                None,
                WholeLife::Finished {
                    keep_end: at(86_400_000),
                    result: None,
                    ending: Some(WholeEnding {
                        at: at(3),
                        deadline: Some(at(0)),
                        attempt: 2,
                        holder: Some(WholeHolder {
                            kind: LeaseKind::Claim,
                            owner: Bytes::of(b"closer-1"),
                        }),
                    }),
                },
            ),
        ),
        (
            "restore-finished-by-nobodys-lease",
            whole(
                None,
                WholeLife::Finished {
                    keep_end: at(86_400_000),
                    result: None,
                    ending: Some(WholeEnding {
                        at: at(3),
                        deadline: None,
                        attempt: 0,
                        holder: None,
                    }),
                },
            ),
        ),
        (
            "lapse",
            Effect::Lapse {
                end: at(6),
                leases: vec![
                    LeaseOf {
                        id: id(),
                        fence: rev,
                    },
                    LeaseOf {
                        id: Bytes::of(b"1002"),
                        fence: 251,
                    },
                ],
            },
        ),
        (
            "requeue-kept",
            Effect::Requeue {
                rev,
                orders: vec![
                    Requeued {
                        id: id(),
                        attempt: 3,
                    },
                    Requeued {
                        id: Bytes::of(b"1002"),
                        attempt: 251,
                    },
                ],
            },
        ),
    ]
}

/// What an effect comes to that went through version 1, which did not say all of it.
fn through_version_1(effect: Effect<'static>) -> Effect<'static> {
    let year_before = |end: WallMs| WallMs(end.0 - 31_536_000_000);
    let after = |then| match then {
        AfterTry::At { at, .. } => AfterTry::At {
            since: WallMs(0),
            at,
        },
        then => then,
    };
    let mut effect = effect;
    match &mut effect {
        Effect::Claim { since, end, .. }
        | Effect::Renew { since, end, .. }
        | Effect::Hold { since, end, .. }
        | Effect::Lock { since, end, .. } => *since = year_before(*end),
        Effect::Finish { at, .. } => *at = WallMs(0),
        Effect::Nack { then, .. }
        | Effect::Release {
            ended: Ended::Claim { then, .. },
            ..
        } => *then = after(*then),
        Effect::Restore(Whole {
            life:
                WholeLife::Open {
                    phase: WholePhase::Granted(grant),
                    ..
                },
            ..
        }) => {
            grant.made = year_before(grant.cap);
            grant.since = year_before(grant.end);
        }
        _ => {}
    }
    effect
}

/// The blob of one effect.
fn blob(effect: &Effect<'_>) -> Vec<u8> {
    let mut blob = Vec::new();
    encode(effect, &mut blob).unwrap();
    blob
}

/// The blob of one effect, whatever is in it.
fn unchecked(effect: &Effect<'_>) -> Vec<u8> {
    let mut blob = Vec::new();
    encode_into_writer(effect, Append(&mut blob), WRITTEN).unwrap();
    blob
}

/// Bytes from hexadecimal digits.
fn from_hex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "{text}");
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// Bytes as hexadecimal digits.
fn to_hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .concat()
}

// ------------------------------------------------------------------- golden

/// The lines of a golden file: name and bytes.
fn golden(text: &'static str) -> Vec<(&'static str, Vec<u8>)> {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, hex)| (name, from_hex(hex)))
        .collect()
}

#[test]
fn version_2_is_what_it_was() {
    let golden = golden(GOLDEN);
    let written: Vec<String> = samples()
        .iter()
        .map(|(name, effect)| format!("{name} {}", to_hex(&blob(effect))))
        .collect();
    let known: Vec<String> = golden
        .iter()
        .map(|(name, bytes)| format!("{name} {}", to_hex(bytes)))
        .collect();
    assert_eq!(known, written, "{}", written.join("\n"));
    for ((name, effect), (_, bytes)) in samples().into_iter().zip(&golden) {
        assert_eq!(decode(2, bytes), Ok(vec![effect]), "{name}");
    }
    let together: Vec<u8> = golden.into_iter().flat_map(|(_, bytes)| bytes).collect();
    let effects: Vec<Effect<'_>> = samples().into_iter().map(|(_, effect)| effect).collect();
    assert_eq!(decode(2, &together), Ok(effects));
}

#[test]
fn version_1_is_read_for_ever() {
    let golden = golden(GOLDEN_1);
    assert_eq!(golden.len(), 34);
    for (name, bytes) in golden {
        let effect = samples().into_iter().find(|(known, _)| *known == name);
        let effect = through_version_1(effect.expect(name).1);
        assert_eq!(decode(1, &bytes), Ok(vec![effect]), "{name}");
    }
    // Its last moment is one past ours.
    let hold = [&[7, 1, b'x', 1, 1, 0xfd][..], &(MOMENT_END).to_le_bytes()].concat();
    let end = WallMs(MOMENT_MAX);
    let effect = Effect::Hold {
        id: Bytes::of(b"x"),
        rev: 1,
        holds: 1,
        since: WallMs(MOMENT_END - 31_536_000_000),
        end,
    };
    assert_eq!(decode(1, &hold), Ok(vec![effect]));
}

#[test]
fn byte_strings_are_borrowed() {
    for (name, effect) in samples() {
        let blob = blob(&effect);
        let span = blob.as_ptr_range();
        let inside = |bytes: &Bytes<'_>| span.contains(&bytes.as_ptr()) || bytes.is_empty();
        match decode(2, &blob).unwrap().remove(0) {
            Effect::Schedule {
                id,
                status,
                payload,
                ..
            } => {
                assert!(
                    [Some(id), status, payload].iter().flatten().all(inside),
                    "{name}"
                );
            }
            Effect::Claim { owner, grants, .. } => {
                assert!(
                    inside(&owner) && grants.iter().all(|grant| inside(&grant.id)),
                    "{name}"
                );
            }
            Effect::Forget { ids } => assert!(ids.iter().all(inside), "{name}"),
            _ => {}
        }
    }
}

// ------------------------------------------------------------------- damage

#[test]
fn unknown_versions_are_refused_whatever_they_carry() {
    for version in [0, 3, 255, 1 << 32, u64::MAX] {
        let error = Error::ApplyVersion { version, newest: 2 };
        for bytes in [&b""[..], b"\xff", &blob(&Effect::Floor(7))] {
            assert_eq!(decode(version, bytes), Err(error.clone()));
        }
    }
    assert_eq!(decode(2, b""), Ok(Vec::new()));
    assert_eq!(decode_chunk(2, b""), Err(malformed("a chunk is empty")));
    // Effects that are good, each by itself and in an APPLY, in a chunk that no writer
    // makes.
    let payload = vec![b'p'; SECOND_BYTES_MAX];
    let one = blob(&Effect::Status {
        id: Bytes::of(b"1"),
        rev: 7,
        status: Bytes::of(b"s"),
        payload: Some(Bytes::of(&payload)),
        ends_grant: false,
    });
    assert!(decode_chunk(2, &one).is_ok());
    let long = one.repeat(2);
    assert!(decode(2, &long).is_ok());
    assert_eq!(
        decode_chunk(2, &long),
        Err(malformed("a chunk is too long"))
    );
    assert!(matches!(
        decode_chunk(3, &long),
        Err(Error::ApplyVersion { version: 3, .. })
    ));
}

#[test]
fn every_prefix_is_whole_effects_or_an_error() {
    for (name, effect) in samples() {
        let one = blob(&effect);
        let mut two = blob(&Effect::Floor(7));
        let start = two.len();
        two.extend(&one);
        for end in 1..one.len() {
            let found = decode(2, &one[..end]);
            assert!(
                matches!(found, Err(Error::ApplyMalformed { .. })),
                "{name} {end}: {found:?}"
            );
            assert!(decode(2, &two[..start + end]).is_err(), "{name} {end}");
        }
        assert_eq!(
            decode(2, &two).map(|effects| effects.len()),
            Ok(2),
            "{name}"
        );
    }
}

#[test]
fn trailing_bytes_are_refused() {
    for (name, effect) in samples() {
        let mut bytes = blob(&effect);
        for tail in [
            &b"\xff"[..],
            b"\x10",
            b"\x00",
            b"\xfb",
            b"\xfd\0\0\0\0\0\0\0",
        ] {
            let end = bytes.len();
            bytes.extend(tail);
            assert!(decode(2, &bytes).is_err(), "{name} {tail:?}");
            bytes.truncate(end);
        }
    }
}

#[test]
fn any_changed_byte_gives_an_error_or_something_within_the_limits() {
    for (name, effect) in samples() {
        let original = blob(&effect);
        for position in 0..original.len() {
            let mut bytes = original.clone();
            for value in 0..=255 {
                bytes[position] = value;
                if let Ok(effects) = decode(2, &bytes) {
                    assert!(
                        effects.iter().all(|effect| check(effect).is_ok()),
                        "{name} {position} {value}"
                    );
                    // Whatever it is, it is written the same way again.
                    let again: Vec<u8> = effects.iter().flat_map(blob).collect();
                    assert_eq!(decode(2, &again), Ok(effects), "{name} {position} {value}");
                }
            }
        }
    }
}

/// The marks of bincode's numbers of two, four, eight and sixteen bytes.
const WIDE: [(u8, usize); 4] = [(251, 2), (252, 4), (253, 8), (254, 16)];

#[test]
fn announced_lengths_are_not_believed() {
    // Variant and whatever comes before the length, then the length.
    let starts: &[(&str, &[u8])] = &[
        ("schedule id", &[0]),
        ("schedule payload", &[0, 1, b'x', 5, 5, 0, 1]),
        ("claim owner", &[3]),
        ("claim grants", &[3, 1, b'x', 5, 5]),
        ("forget", &[9]),
        ("requeue", &[10, 1]),
        ("configure name", &[11]),
        ("restore id", &[14]),
        ("lapse", &[15, 5]),
    ];
    for (name, start) in starts {
        for (mark, width) in WIDE {
            for length in [
                251u128,
                8193,
                65_535,
                1 << 20,
                1 << 31,
                1 << 32,
                1 << 46,
                1 << 63,
                u128::MAX,
            ] {
                let mut bytes = start.to_vec();
                bytes.push(mark);
                bytes.extend(&length.to_le_bytes()[..width]);
                assert!(decode(2, &bytes).is_err(), "{name} {length} {width}");
                bytes.extend([1; 40]);
                assert!(decode(2, &bytes).is_err(), "{name} {length} {width}");
            }
        }
    }
}

#[test]
fn no_bytes_whatever_do_harm() {
    let mut random = Random::new();
    for step in 0..random.steps / 4 {
        let length = random.below(40) as usize;
        let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        // Mostly something that begins like an effect.
        if let Some(first) = bytes.first_mut() {
            *first %= 19;
        }
        if let Ok(effects) = decode(2, &bytes) {
            assert!(
                effects.iter().all(|effect| check(effect).is_ok()),
                "seed {} step {step}",
                random.seed
            );
        }
    }
}

// ------------------------------------------------------------------- limits

#[test]
fn every_field_is_held_to_its_limits() {
    let long = |length: usize| Bytes::copied(&vec![b'x'; length]);
    let id = || Bytes::of(b"id");
    let (far, end) = (WallMs(MOMENT_END), WallMs(5));
    let late = WallMs(WALL_MS_MAX.0 + 1);
    let schedule = |id, deadline, rev, status, payload| Effect::Schedule {
        id,
        deadline,
        rev,
        status,
        payload,
        base: Base::Fresh,
    };
    let claim = |owner, end, cap, grants| Effect::Claim {
        owner,
        since: WallMs(0),
        end,
        cap,
        grants,
    };
    let granted = |id, fence, attempt| Granted {
        id,
        fence,
        attempt,
        last_try: false,
    };
    let over = |id, fence| LeaseOf { id, fence };
    let again = |id| Requeued { id, attempt: 1 };
    let requeue = |rev, orders| Effect::Requeue { rev, orders };
    let lapse = |end, leases| Effect::Lapse { end, leases };
    let lock = |owner, fence, end, cap, fp| Effect::Lock {
        id: id(),
        owner,
        fence,
        since: WallMs(0),
        end,
        cap,
        fp,
        creates: false,
    };
    let finish = |rev, keep_end| Effect::Finish {
        id: id(),
        rev,
        status: None,
        result: None,
        keep_end,
        creates: false,
        by: FinishedBy::Ack,
        at: end,
        by_holder: true,
    };
    let whole = |rev, fp, life| {
        Effect::Restore(Whole {
            id: id(),
            status: id(),
            rev,
            fp,
            life,
        })
    };
    let open = |deadline, error, phase| WholeLife::Open {
        deadline,
        payload: None,
        attempt: 0,
        error,
        phase,
    };
    let grant = |owner, fence, end, cap, holds| {
        open(
            Some(end),
            None,
            WholePhase::Granted(WholeGrant {
                kind: LeaseKind::Claim,
                owner,
                fence,
                made: WallMs(0),
                since: WallMs(0),
                end,
                cap,
                holds,
                last_try: false,
            }),
        )
    };
    let least = || open(None, None, WholePhase::Plain);
    let ending = |at, deadline, owner| WholeLife::Finished {
        keep_end: end,
        result: None,
        ending: Some(WholeEnding {
            at,
            deadline,
            attempt: 0,
            holder: Some(WholeHolder {
                kind: LeaseKind::Lock,
                owner,
            }),
        }),
    };
    let setting = |name: &[u8], value: Option<&[u8]>| Effect::Configure {
        name: Bytes::copied(name),
        value: value.map(Bytes::copied),
    };
    let bad = vec![
        schedule(long(0), end, 1, None, None),
        schedule(long(256), end, 1, None, None),
        schedule(id(), late, 1, None, None),
        schedule(id(), end, 0, None, None),
        schedule(id(), end, NUMBER_END, None, None),
        schedule(id(), end, u64::MAX, None, None),
        schedule(id(), end, 1, Some(long(33)), None),
        finish(0, None),
        finish(1, Some(far)),
        Effect::Status {
            id: id(),
            rev: 1,
            status: long(33),
            payload: None,
            ends_grant: false,
        },
        claim(long(0), end, end, vec![granted(id(), 1, 1)]),
        claim(long(129), end, end, vec![granted(id(), 1, 1)]),
        claim(id(), far, end, vec![granted(id(), 1, 1)]),
        claim(id(), end, far, vec![granted(id(), 1, 1)]),
        claim(id(), end, end, vec![]),
        claim(id(), end, end, vec![granted(id(), 1, 0)]),
        claim(
            id(),
            end,
            end,
            vec![granted(id(), 1, 1), granted(id(), 0, 1)],
        ),
        claim(id(), end, end, vec![granted(long(256), 1, 1)]),
        claim(id(), end, end, vec![granted(id(), 1, 1); LIST_MAX + 1]),
        Effect::Nack {
            id: id(),
            rev: 1,
            then: AfterTry::At {
                since: end,
                at: far,
            },
            error: None,
            untried: false,
        },
        Effect::Nack {
            id: id(),
            rev: 1,
            then: AfterTry::Dead(far),
            error: None,
            untried: false,
        },
        Effect::Nack {
            id: id(),
            rev: 1,
            then: AfterTry::Now,
            error: Some(long(257)),
            untried: false,
        },
        Effect::Renew {
            id: id(),
            rev: 1,
            since: end,
            end: far,
        },
        Effect::Renew {
            id: id(),
            rev: 1,
            since: far,
            end,
        },
        lock(long(0), 1, end, end, None),
        lock(id(), 0, end, end, None),
        lock(id(), 1, far, end, None),
        lock(id(), 1, end, far, None),
        lock(id(), 1, end, end, Some(long(0))),
        lock(id(), 1, end, end, Some(long(65))),
        Effect::Hold {
            id: id(),
            rev: 1,
            holds: 0,
            since: end,
            end,
        },
        Effect::Hold {
            id: id(),
            rev: 1,
            holds: 1,
            since: end,
            end: far,
        },
        Effect::Release {
            id: id(),
            rev: 0,
            ended: Ended::Lock,
        },
        Effect::Release {
            id: id(),
            rev: 1,
            ended: Ended::Claim {
                then: AfterTry::At {
                    since: far,
                    at: end,
                },
                untried: false,
            },
        },
        Effect::Forget { ids: vec![] },
        Effect::Forget {
            ids: vec![id(), long(0)],
        },
        Effect::Forget {
            ids: vec![id(); LIST_MAX + 1],
        },
        requeue(0, vec![again(id())]),
        requeue(1, vec![]),
        requeue(1, vec![again(id()), again(long(256))]),
        requeue(1, vec![again(id()); LIST_MAX + 1]),
        setting(b"", None),
        setting(b"keep", None),
        setting(b"Keep-Ms", Some(b"1")),
        setting(TRANSITIONS, Some(b"no change")),
        Effect::Pause {
            on: true,
            until: Some(far),
            reason: id(),
        },
        Effect::Pause {
            on: true,
            until: None,
            reason: long(257),
        },
        Effect::Floor(0),
        Effect::Floor(NUMBER_END),
        lapse(far, vec![over(id(), 1)]),
        lapse(end, vec![]),
        lapse(end, vec![over(id(), 1), over(long(0), 1)]),
        lapse(end, vec![over(id(), 0)]),
        lapse(end, vec![over(id(), 1); LIST_MAX + 1]),
        whole(0, None, least()),
        whole(1, Some(long(0)), least()),
        whole(1, None, open(Some(late), None, WholePhase::Plain)),
        whole(1, None, open(Some(end), None, WholePhase::Dead(far))),
        whole(1, None, open(None, None, WholePhase::Dead(end))),
        whole(1, None, open(None, Some(long(257)), WholePhase::Plain)),
        whole(
            1,
            None,
            open(
                Some(end),
                None,
                WholePhase::Retrying {
                    since: end,
                    at: far,
                },
            ),
        ),
        whole(1, None, grant(long(129), 1, end, end, 1)),
        whole(1, None, grant(id(), 0, end, end, 1)),
        whole(1, None, grant(id(), 1, far, end, 1)),
        whole(1, None, grant(id(), 1, end, far, 1)),
        whole(1, None, grant(id(), 1, end, end, 0)),
        whole(
            1,
            None,
            WholeLife::Finished {
                keep_end: far,
                result: None,
                ending: None,
            },
        ),
        whole(1, None, ending(far, None, id())),
        whole(1, None, ending(end, Some(late), id())),
        whole(1, None, ending(end, None, long(0))),
        whole(1, None, ending(end, None, long(129))),
    ];
    // Every setting at and beyond its limits, and in no plain decimal.
    let mut bad = bad;
    let mut fine_settings = Vec::new();
    for one in Setting::ALL {
        let name = one.name().as_bytes();
        let (min, max) = one.range();
        for value in [min, max] {
            fine_settings.push(setting(name, Some(value.to_string().as_bytes())));
        }
        fine_settings.push(setting(name, None));
        for value in [u64::MAX, 1 << 63, max + 1] {
            bad.push(setting(name, Some(value.to_string().as_bytes())));
        }
        if let Some(below) = min.checked_sub(1) {
            bad.push(setting(name, Some(below.to_string().as_bytes())));
        }
        for text in [&b""[..], b"+5", b"-1", b" 5", b"5 ", b"0x5", b"5.0"] {
            bad.push(setting(name, Some(text)));
        }
    }
    let mut fine = vec![
        schedule(
            long(255),
            WALL_MS_MAX,
            NUMBER_END - 1,
            Some(long(32)),
            Some(long(1 << 20)),
        ),
        finish(1, Some(WallMs(MOMENT_END - 1))),
        claim(
            long(128),
            end,
            end,
            vec![granted(long(255), 1, 1); LIST_MAX],
        ),
        lock(long(128), 1, end, end, Some(long(64))),
        Effect::Forget {
            ids: vec![id(); LIST_MAX],
        },
        setting(TRANSITIONS, Some(b"unpaid>paid unpaid>closed")),
        Effect::Pause {
            on: true,
            until: None,
            reason: long(256),
        },
        whole(
            1,
            Some(long(64)),
            open(Some(WALL_MS_MAX), Some(long(256)), WholePhase::Plain),
        ),
        whole(
            1,
            None,
            ending(WallMs(MOMENT_MAX), Some(WALL_MS_MAX), long(128)),
        ),
    ];
    fine.extend(fine_settings);
    for effect in bad {
        let mut nothing = Vec::new();
        assert!(
            matches!(encode(&effect, &mut nothing), Err(Error::Unstorable { .. }))
                && nothing.is_empty(),
            "{effect:?}"
        );
        let bytes = unchecked(&effect);
        assert!(
            matches!(decode(2, &bytes), Err(Error::ApplyMalformed { .. })),
            "{effect:?}"
        );
        // Nothing of a blob is given out when its end is malformed.
        let mut behind = blob(&Effect::Floor(7));
        behind.extend(bytes);
        assert!(decode(2, &behind).is_err(), "{effect:?}");
    }
    for effect in fine {
        let bytes = blob(&effect);
        assert_eq!(decode(2, &bytes), Ok(vec![effect]));
    }
}

#[test]
fn a_blob_holds_so_many_effects_and_no_more() {
    let one = blob(&Effect::Floor(7));
    let mut bytes = one.repeat(EFFECTS_MAX);
    assert_eq!(
        decode(2, &bytes).map(|effects| effects.len()),
        Ok(EFFECTS_MAX)
    );
    bytes.extend(&one);
    assert!(decode(2, &bytes).is_err());
}

// --------------------------------------------------------------- round trip

/// A generator with the seed from the environment.
struct Random {
    state: u64,
    seed: u64,
    steps: u64,
}

impl Random {
    fn new() -> Self {
        let from = |name, or| {
            std::env::var(name)
                .ok()
                .and_then(|text| text.parse().ok())
                .unwrap_or(or)
        };
        let seed = from("ORDER_TEST_SEED", 0xC0DE_C001);
        Self {
            state: seed,
            seed,
            steps: from("ORDER_TEST_STEPS", 200_000),
        }
    }

    fn next(&mut self) -> u64 {
        mix(&mut self.state)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    /// A number of any size below `end`, `min` at least.
    fn sized(&mut self, min: u64, end: u64) -> u64 {
        let shift = self.below(64);
        (self.next() >> shift).min(end - 1).max(min)
    }

    fn bytes(&mut self, min: u64, max: u64) -> Bytes<'static> {
        let length = match self.below(8) {
            0 => min,
            1 => max,
            _ => min + self.below((max - min + 1).min(24)),
        };
        let bytes: Vec<u8> = (0..length).map(|_| self.next() as u8).collect();
        Bytes::copied(&bytes)
    }

    fn id(&mut self) -> Bytes<'static> {
        self.bytes(1, 255)
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.flag() { Some(make(self)) } else { None }
    }

    fn number(&mut self) -> u64 {
        self.sized(1, NUMBER_END)
    }

    fn deadline(&mut self) -> WallMs {
        WallMs(self.sized(0, WALL_MS_MAX.0 + 1))
    }

    fn moment(&mut self) -> WallMs {
        WallMs(self.sized(0, MOMENT_END))
    }

    fn status(&mut self) -> Bytes<'static> {
        self.bytes(0, 32)
    }

    fn payload(&mut self) -> Bytes<'static> {
        self.bytes(0, 70_000)
    }

    fn error(&mut self) -> Bytes<'static> {
        self.bytes(0, 256)
    }

    fn after(&mut self) -> AfterTry {
        match self.below(3) {
            0 => AfterTry::Now,
            1 => AfterTry::At {
                since: self.moment(),
                at: self.moment(),
            },
            _ => AfterTry::Dead(self.moment()),
        }
    }

    fn ids(&mut self) -> Vec<Bytes<'static>> {
        (0..self.sized(1, 301)).map(|_| self.id()).collect()
    }

    fn grant(&mut self) -> WholeGrant<'static> {
        WholeGrant {
            kind: if self.flag() {
                LeaseKind::Claim
            } else {
                LeaseKind::Lock
            },
            owner: self.bytes(1, 128),
            fence: self.number(),
            made: self.moment(),
            since: self.moment(),
            end: self.moment(),
            cap: self.moment(),
            holds: self.sized(1, 1 << 32) as u32,
            last_try: self.flag(),
        }
    }

    fn ending(&mut self) -> WholeEnding<'static> {
        WholeEnding {
            at: self.moment(),
            deadline: self.maybe(Self::deadline),
            attempt: self.sized(0, 1 << 32) as u32,
            holder: self.maybe(|random| WholeHolder {
                kind: LeaseKind::Lock,
                owner: random.bytes(1, 128),
            }),
        }
    }

    fn life(&mut self) -> WholeLife<'static> {
        if self.flag() {
            return WholeLife::Finished {
                keep_end: self.moment(),
                result: self.maybe(Self::payload),
                ending: self.maybe(Self::ending),
            };
        }
        WholeLife::Open {
            deadline: Some(self.deadline()),
            payload: self.maybe(Self::payload),
            attempt: self.sized(0, 1 << 32) as u32,
            error: self.maybe(Self::error),
            phase: match self.below(4) {
                0 => WholePhase::Plain,
                1 => WholePhase::Dead(self.moment()),
                2 => WholePhase::Retrying {
                    since: self.moment(),
                    at: self.moment(),
                },
                _ => WholePhase::Granted(self.grant()),
            },
        }
    }

    fn effect(&mut self) -> Effect<'static> {
        match self.below(16) {
            0 => Effect::Schedule {
                id: self.id(),
                deadline: self.deadline(),
                rev: self.number(),
                status: self.maybe(Self::status),
                payload: self.maybe(Self::payload),
                base: [Base::Fresh, Base::Record, Base::RecordAndLock][self.below(3) as usize],
            },
            1 => Effect::Finish {
                id: self.id(),
                rev: self.number(),
                status: self.maybe(Self::status),
                result: self.maybe(Self::payload),
                keep_end: self.maybe(Self::moment),
                creates: self.flag(),
                by: if self.flag() {
                    FinishedBy::Finish
                } else {
                    FinishedBy::Ack
                },
                at: self.moment(),
                by_holder: self.flag(),
            },
            2 => Effect::Status {
                id: self.id(),
                rev: self.number(),
                status: self.status(),
                payload: self.maybe(Self::payload),
                ends_grant: self.number().is_multiple_of(2),
            },
            3 => Effect::Claim {
                owner: self.bytes(1, 128),
                since: self.moment(),
                end: self.moment(),
                cap: self.moment(),
                grants: (0..self.sized(1, 301))
                    .map(|_| Granted {
                        id: self.id(),
                        fence: self.number(),
                        attempt: self.sized(1, 1 << 32) as u32,
                        last_try: self.flag(),
                    })
                    .collect(),
            },
            4 => Effect::Nack {
                id: self.id(),
                rev: self.number(),
                then: self.after(),
                error: self.maybe(Self::error),
                untried: self.flag(),
            },
            5 => Effect::Renew {
                id: self.id(),
                rev: self.number(),
                since: self.moment(),
                end: self.moment(),
            },
            6 => Effect::Lock {
                id: self.id(),
                owner: self.bytes(1, 128),
                fence: self.number(),
                since: self.moment(),
                end: self.moment(),
                cap: self.moment(),
                fp: self.maybe(|random| random.bytes(1, 64)),
                creates: self.flag(),
            },
            7 => Effect::Hold {
                id: self.id(),
                rev: self.number(),
                holds: self.sized(1, 1 << 32) as u32,
                since: self.moment(),
                end: self.moment(),
            },
            8 => Effect::Release {
                id: self.id(),
                rev: self.number(),
                ended: if self.flag() {
                    Ended::Lock
                } else {
                    Ended::Claim {
                        then: self.after(),
                        untried: self.flag(),
                    }
                },
            },
            9 => Effect::Forget { ids: self.ids() },
            10 => Effect::Requeue {
                rev: self.number(),
                orders: (0..self.sized(1, 301))
                    .map(|_| Requeued {
                        id: self.id(),
                        attempt: self.sized(0, 1 << 32) as u32,
                    })
                    .collect(),
            },
            11 => {
                let setting = Setting::ALL[self.below(Setting::ALL.len() as u64) as usize];
                let (min, max) = setting.range();
                Effect::Configure {
                    name: Bytes::of(setting.name().as_bytes()),
                    value: self.maybe(|random| {
                        Bytes::copied(random.sized(min, max + 1).to_string().as_bytes())
                    }),
                }
            }
            12 => Effect::Pause {
                on: self.flag(),
                until: self.maybe(Self::moment),
                reason: self.error(),
            },
            13 => Effect::Floor(self.number()),
            14 => Effect::Lapse {
                end: self.moment(),
                leases: (0..self.sized(1, 301))
                    .map(|_| LeaseOf {
                        id: self.id(),
                        fence: self.number(),
                    })
                    .collect(),
            },
            _ => Effect::Restore(Whole {
                id: self.id(),
                status: self.status(),
                rev: self.number(),
                fp: self.maybe(|random| random.bytes(1, 64)),
                life: self.life(),
            }),
        }
    }
}

#[test]
fn generated_effects_come_back_as_they_were() {
    let mut random = Random::new();
    let seed = random.seed;
    let mut blob = Vec::new();
    for step in 0..random.steps / 100 {
        let effects: Vec<_> = (0..random.below(6)).map(|_| random.effect()).collect();
        blob.clear();
        for effect in &effects {
            encode(effect, &mut blob).unwrap();
        }
        assert_eq!(
            decode(2, &blob).as_ref(),
            Ok(&effects),
            "seed {seed} step {step}"
        );
    }
}

#[test]
fn chunks_are_short_whole_and_in_order() {
    let mut random = Random::new();
    let seed = random.seed;
    let mut writer = ChunkWriter::new();
    for round in 0..random.steps / 10_000 {
        let effects: Vec<_> = (0..random.below(300)).map(|_| random.effect()).collect();
        let mut chunks: Vec<Vec<u8>> = Vec::new();
        for effect in &effects {
            chunks.extend(writer.push(effect).map(<[u8]>::to_vec));
        }
        chunks.extend(writer.finish().map(<[u8]>::to_vec));
        assert_eq!(writer.finish(), None, "seed {seed} round {round}");
        let mut back = Vec::new();
        for (at, chunk) in chunks.iter().enumerate() {
            let found = decode_chunk(2, chunk).unwrap();
            assert!(
                chunk.len() <= CHUNK_BYTES || found.len() == 1,
                "seed {seed} round {round}"
            );
            if let Some(next) = chunks.get(at + 1) {
                // It was cut because the next effect found no room.
                let first = decode(2, next).unwrap().remove(0);
                assert!(chunk.len() + super::tests::blob(&first).len() > CHUNK_BYTES);
            }
            back.extend(found);
        }
        assert_eq!(back, effects, "seed {seed} round {round}");
    }
}

#[test]
fn a_chunk_holds_no_more_effects_than_are_read() {
    let mut writer = ChunkWriter::new();
    let mut counts = Vec::new();
    for _ in 0..=2 * EFFECTS_MAX {
        let chunk = writer.push(&Effect::Floor(7));
        counts.extend(chunk.map(|chunk| decode_chunk(2, chunk).unwrap().len()));
    }
    counts.extend(
        writer
            .finish()
            .map(|chunk| decode_chunk(2, chunk).unwrap().len()),
    );
    assert_eq!(counts, [EFFECTS_MAX, EFFECTS_MAX, 1]);
}

#[test]
fn a_chunk_is_filled_to_its_last_byte() {
    // One effect of exactly so many bytes.
    let sized = |bytes: usize| {
        let status = |payload: usize| Effect::Status {
            id: Bytes::of(b"x"),
            rev: 1,
            status: Bytes::of(b""),
            payload: Some(Bytes::copied(&vec![b'p'; payload])),
            ends_grant: false,
        };
        let effect = status(bytes - (blob(&status(1000)).len() - 1000));
        assert_eq!(blob(&effect).len(), bytes);
        effect
    };
    for (first, second, together) in [
        (1000, CHUNK_BYTES - 1000, true),
        (1000, CHUNK_BYTES - 999, false),
        (1000, CHUNK_BYTES, false),
        (CHUNK_BYTES, 1000, false),
    ] {
        let mut writer = ChunkWriter::new();
        assert_eq!(writer.push(&sized(first)), None);
        let cut = writer.push(&sized(second)).map(<[u8]>::len);
        assert_eq!(cut, (!together).then_some(first), "{first} {second}");
        let last = if together { first + second } else { second };
        assert_eq!(writer.finish().map(<[u8]>::len), Some(last));
    }
}
