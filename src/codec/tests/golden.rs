//! Bytes as they were published: version 2 is written and read as ever, version 1 is
//! read.

use super::*;

/// Version 2 as it was published; never changed, only added to with a version.
const GOLDEN: &str = include_str!("../../../tests/fixtures/effects-v2.txt");

/// Version 1 as it was published: what files of release 0.1.0 are made of.
const GOLDEN_1: &str = include_str!("../../../tests/fixtures/effects-v1.txt");

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
        Effect::Restore(Snapshot {
            life:
                SnapshotLife::Open {
                    phase: SnapshotPhase::Granted(grant),
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
