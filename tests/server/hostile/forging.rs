//! Forged queues: each number, moment and setting replaced by each wrong one.

use std::collections::BTreeMap;

use super::effects::effects;
use super::{Forged, HOUR};
use crate::support::wire::{self, Saved};
use crate::support::{Client, cmd};

/// The latest deadline that is accepted.
const DEADLINE_MAX: u64 = 253_402_300_799_999;

/// The settings that are numbers, and their limits.
const SETTINGS: [(&str, u64, u64); 9] = [
    ("lease-ms", 1, 31_536_000_000),
    ("lock-ms-max", 1, 31_536_000_000),
    ("max-attempts", 0, 1_000_000_000),
    ("backoff-ms", 0, 31_536_000_000),
    ("backoff-ms-max", 0, 31_536_000_000),
    ("keep-ms", 0, 315_360_000_000),
    ("max-leased", 0, 1_000_000_000),
    ("dead-max", 0, 100_000_000),
    ("claims-per-s-max", 0, 1_000_000),
];

/// What numbers are replaced by: the limits of any of them, and what is beside them.
const NUMBERS: [u64; 19] = [
    0,
    1,
    251,
    (1 << 32) - 1,
    1 << 32,
    DEADLINE_MAX,
    DEADLINE_MAX + 1,
    (1 << 48) - 2,
    (1 << 48) - 1,
    1 << 48,
    (1 << 48) + 1,
    (1 << 52) - 1,
    1 << 52,
    1 << 53,
    (1 << 53) + 1,
    1 << 63,
    (1 << 63) + 1,
    u64::MAX - 1,
    u64::MAX,
];

/// Each number of each effect replaced by each wrong one.
fn forged_numbers(now: u64, all: &mut Vec<Forged>) {
    for version in [1, 2] {
        for (name, forms) in effects(version, now) {
            let (last, before) = forms.split_last().expect("an effect");
            let base: Vec<u8> = before.iter().flat_map(|form| form.encode(&[])).collect();
            let mut add = |what: String, forged: &[(usize, u64)]| {
                let blob = [base.clone(), last.encode(forged)].concat();
                all.push(Forged {
                    what,
                    version,
                    blob,
                });
            };
            add(format!("version {version}: {name}"), &[]);
            for place in 0..last.numbers() {
                for value in NUMBERS.into_iter().chain([now - HOUR, now * 1000]) {
                    add(
                        format!("version {version}: {name}, number {place} is {value}"),
                        &[(place, value)],
                    );
                }
            }
        }
    }
}

/// Each setting with each wrong value.
fn forged_settings(now: u64, all: &mut Vec<Forged>) {
    for version in [1, 2] {
        let base: Vec<u8> = effects(version, now)[0].1[..2]
            .iter()
            .flat_map(|form| form.encode(&[]))
            .collect();
        let mut add = |name: &str, text: &str| {
            let blob = [
                base.clone(),
                wire::configure(name.as_bytes(), text.as_bytes()),
            ]
            .concat();
            all.push(Forged {
                what: format!("version {version}: {name} is {text}"),
                version,
                blob,
            });
        };
        for (name, min, max) in SETTINGS {
            for value in NUMBERS
                .into_iter()
                .chain([min, max, max + 1, u64::MAX / 1000])
            {
                add(name, &value.to_string());
            }
            for text in ["", "-1", "1.5", " 1", "18446744073709551616"] {
                add(name, text);
            }
        }
        for text in ["a>b", "a", ">", "a>b  c>d"] {
            add("transitions", text);
        }
        add("no-such-setting", "1");
    }
}

/// A real queue, with an order in each state and every setting set: its payload, as
/// the server saves it.
#[track_caller]
pub(super) fn real(c: &mut Client) -> Saved {
    c.config("rdbcompression", "no");
    for (name, min, max) in SETTINGS {
        let value = (max / 1000).max(min);
        cmd!(c, "ORDER.CONFIG", "real", "SET", name, value);
    }
    for id in ["claimed", "waiting", "dead", "acked", "due"] {
        cmd!(c, "ORDER.SCHEDULE", "real", id, "PX", 0)
            .order()
            .expect("OK");
    }
    for id in ["ahead", "locked", "paid"] {
        cmd!(c, "ORDER.SCHEDULE", "real", id, "PX", HOUR, "PAYLOAD", "p")
            .order()
            .expect("OK");
    }
    let fences: BTreeMap<&str, u64> = ["claimed", "waiting", "dead", "acked"]
        .into_iter()
        .map(|id| {
            let rows = cmd!(c, "ORDER.CLAIM", "real", "me", "ID", id, "PX", HOUR).claims();
            (id, rows[0].fence)
        })
        .collect();
    cmd!(
        c,
        "ORDER.NACK",
        "real",
        "waiting",
        fences["waiting"],
        "DELAY",
        HOUR
    )
    .order()
    .expect("OK");
    cmd!(c, "ORDER.NACK", "real", "dead", fences["dead"], "DEAD")
        .order()
        .expect("OK");
    cmd!(
        c,
        "ORDER.ACK",
        "real",
        "acked",
        fences["acked"],
        "KEEP",
        HOUR
    )
    .order()
    .expect("OK");
    cmd!(
        c,
        "ORDER.FINISH",
        "real",
        "paid",
        "RESULT",
        "r",
        "KEEP",
        HOUR
    )
    .order()
    .expect("OK");
    cmd!(c, "ORDER.LOCK", "real", "locked", "w1", "PX", 30_000_000)
        .lease()
        .expect("OK");
    cmd!(c, "ORDER.LOCK", "real", "reserved", "w2", "PX", 30_000_000)
        .lease()
        .expect("OK");
    cmd!(c, "ORDER.PAUSE", "real", "PX", HOUR).ok();
    let saved = Saved::open(cmd!(c, "DUMP", "real").bytes());
    cmd!(c, "DEL", "real");
    saved
}

/// The payload of the real queue with each of its moments, numbers and settings
/// replaced by each wrong one.
fn forged_reals(saved: &Saved, all: &mut Vec<Forged>) {
    let blob = saved.chunks.concat();
    let mut add = |what: String, at: usize, long: usize, other: &[u8]| {
        let blob = [&blob[..at], other, &blob[at + long..]].concat();
        let version = saved.version;
        all.push(Forged {
            what,
            version,
            blob,
        });
    };
    // A number of 8 bytes is a moment (10^12 and up) or a fence (10^15 and up).
    for at in 0..blob.len().saturating_sub(9) {
        let number = u64::from_le_bytes(blob[at + 1..at + 9].try_into().expect("8 bytes"));
        if blob[at] == 253 && (1 << 40..1 << 52).contains(&number) {
            for value in NUMBERS {
                let mut other = Vec::new();
                wire::number(value, &mut other);
                add(
                    format!("a real queue: {number} at {at} is {value}"),
                    at,
                    9,
                    &other,
                );
            }
        }
    }
    for (name, min, max) in SETTINGS {
        let value = (max / 1000).max(min).to_string();
        let kept = wire::configure(name.as_bytes(), value.as_bytes());
        let at = blob
            .windows(kept.len())
            .position(|window| window == kept)
            .expect("each setting is saved");
        for value in NUMBERS.into_iter().chain([max, max + 1]) {
            let other = wire::configure(name.as_bytes(), value.to_string().as_bytes());
            add(
                format!("a real queue: {name} is {value}"),
                at,
                kept.len(),
                &other,
            );
        }
    }
}

/// All that is forged.
pub(super) fn everything(now: u64, saved: &Saved) -> Vec<Forged> {
    let mut all = Vec::new();
    forged_numbers(now, &mut all);
    forged_settings(now, &mut all);
    forged_reals(saved, &mut all);
    all
}
