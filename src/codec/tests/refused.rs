//! Bytes that are refused: cut, changed, too long, of a version that is not known, or
//! of no sense at all.

use super::*;

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
