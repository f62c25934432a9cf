//! Forged queues: what is accepted can be used, saved, loaded and replicated.
//!
//! A RESTORE and an `ORDER.APPLY` bring bytes that no decision of ours has made. Each
//! setting and each number of each effect, of both versions, is put in as many wrong
//! ways as there are limits nearby; what is not refused is then carried through every
//! command, every way of saving and a replica. Thousands of queues share two servers.
//!
//! ```text
//!   forged ─┬─ refused: an error, nothing is changed
//!           └─ taken ─► commands ─► replica ─► SAVE, DEBUG RELOAD ─► commands
//!                         └► AOF ─► rewritten as RDB, as commands ─► commands
//!              after each: digests equal, no lease longer than there may be
//! ```

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::support::states::expect_no_fault;
use crate::support::wire::{self, Form, Saved};
use crate::support::{Client, Options, SOON, Server, Value, args, argv, cmd, wait_until};

/// The latest deadline that is accepted.
const DEADLINE_MAX: u64 = 253_402_300_799_999;
/// An hour in milliseconds.
const HOUR: u64 = 3_600_000;
/// What no lease passes, milliseconds.
const LEASE_MS_MAX: i64 = 86_400_000;
/// What no lock passes where the queue has no setting of its own, milliseconds.
const LOCK_MS_MAX: i64 = 600_000;
/// How many commands are sent at once.
const AT_ONCE: usize = 2000;

/// The settings that are numbers, and their limits.
const SETTINGS: [(&str, u64, u64); 8] = [
    ("lease-ms", 1, 31_536_000_000),
    ("lock-ms-max", 1, 31_536_000_000),
    ("max-attempts", 0, 1_000_000_000),
    ("backoff-ms", 0, 31_536_000_000),
    ("backoff-ms-max", 0, 31_536_000_000),
    ("keep-ms", 0, 315_360_000_000),
    ("max-leased", 0, 1_000_000_000),
    ("dead-max", 0, 100_000_000),
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

/// A queue that no decision has made.
struct Forged {
    /// What was done to it.
    what: String,
    /// Version of its effects.
    version: u64,
    /// Its effects.
    blob: Vec<u8>,
}

// ---------------------------------------------------------------- what is forged

/// Effects of a version, each with what must have happened before it to the order `x`.
fn effects(version: u64, now: u64) -> Vec<(&'static str, Vec<Form>)> {
    let fence = now * 1000 - 60_000_000;
    let (past, end) = (now - 50_000, now + 500_000);
    let created = |id: &[u8]| {
        Form::of(0)
            .bytes(id)
            .number(past)
            .number(fence)
            .raw(&[0, 0, 0])
    };
    let claimed = || {
        let form = Form::of(3).bytes(b"closer").since(version, now);
        // How many there are is a number too.
        let form = form.number(end).number(end + 1000).number(2);
        let form = form.bytes(b"x").number(fence + 1).number(1).raw(&[0]);
        form.bytes(b"y").number(fence + 2).number(1).raw(&[0])
    };
    let locked = |creates: u8| {
        let form = Form::of(6).bytes(b"x").bytes(b"w1").number(fence + 1);
        let form = form.since(version, now).number(end).number(end + 1000);
        form.raw(&[0, creates])
    };
    let on = |variant: u8, rev: u64| Form::of(variant).bytes(b"x").number(rev);
    let finished = |keep: bool, creates: u8, by: u8| {
        let form = on(1, fence + 5).raw(&[0]).raw(&[1]).bytes(b"r");
        let form = if keep {
            form.raw(&[1]).number(now + HOUR)
        } else {
            form.raw(&[0])
        };
        let form = form.raw(&[creates, by]);
        if version == 1 {
            form
        } else {
            form.number(now).raw(&[by])
        }
    };
    // Nothing of version 2 but whether the try counts.
    let untried = |form: Form, yes: u8| if version == 1 { form } else { form.raw(&[yes]) };
    let at = |form: Form| form.raw(&[1]).since(version, now).number(end);
    let dead = |form: Form| form.raw(&[2]).number(now);
    let both = || vec![created(b"x"), created(b"y")];
    let after = |more: Vec<Form>| {
        let mut all = both();
        all.extend(more);
        all
    };

    let mut table = vec![
        ("a schedule", after(vec![created(b"x")])),
        ("a finish that keeps", after(vec![finished(true, 0, 0)])),
        ("a finish that forgets", after(vec![finished(false, 0, 0)])),
        ("a finish that creates", after(vec![finished(true, 1, 0)])),
        ("an ack", after(vec![claimed(), finished(true, 0, 1)])),
        (
            "a status",
            after(vec![on(2, fence + 3).bytes(b"paid").raw(&[0, 0])]),
        ),
        ("a claim", after(vec![claimed()])),
        (
            "a nack",
            after(vec![
                claimed(),
                untried(on(4, fence + 3).raw(&[0]).raw(&[0]), 0),
            ]),
        ),
        (
            "a nack that waits",
            after(vec![claimed(), untried(at(on(4, fence + 3)).raw(&[0]), 1)]),
        ),
        (
            "a nack that gives up",
            after(vec![
                claimed(),
                untried(dead(on(4, fence + 3)).raw(&[1]).bytes(b"why"), 0),
            ]),
        ),
        (
            "a renewal",
            after(vec![
                claimed(),
                on(5, fence + 3).since(version, now).number(end + 100),
            ]),
        ),
        ("a lock", after(vec![locked(0)])),
        ("a lock on nothing", vec![locked(1)]),
        (
            "a lock held again",
            after(vec![
                locked(0),
                on(7, fence + 3)
                    .number(2)
                    .since(version, now)
                    .number(end + 100),
            ]),
        ),
        (
            "a lock given back",
            after(vec![locked(0), on(8, fence + 3).raw(&[0])]),
        ),
        (
            "a claim broken",
            after(vec![claimed(), untried(at(on(8, fence + 3).raw(&[1])), 0)]),
        ),
        (
            "a claim broken for good",
            after(vec![
                claimed(),
                untried(dead(on(8, fence + 3).raw(&[1])), 0),
            ]),
        ),
        (
            "a requeue",
            after(vec![
                claimed(),
                untried(dead(on(4, fence + 3)).raw(&[0]), 0),
                // Version 2 says which tries count on.
                untried(Form::of(10).number(fence + 4).number(1).bytes(b"x"), 0),
            ]),
        ),
        (
            "a pause",
            after(vec![
                Form::of(12).raw(&[1, 1]).number(now + HOUR).bytes(b"why"),
            ]),
        ),
        (
            "two forgotten",
            after(vec![Form::of(9).number(2).bytes(b"x").bytes(b"y")]),
        ),
        ("a floor", after(vec![Form::of(13).number(fence + 9)])),
    ];
    for (name, whole) in wholes(version, now) {
        table.push((name, vec![created(b"y"), whole]));
    }
    table
}

/// Whole records of a version, of an order `x` in each of its states.
fn wholes(version: u64, now: u64) -> Vec<(&'static str, Form)> {
    let fence = now * 1000 - 60_000_000;
    let (past, end) = (now - 50_000, now + 500_000);
    let begun = || Form::of(14).bytes(b"x").bytes(b"unpaid").number(fence);
    // No fingerprint, open, a deadline, no payload.
    let open = || begun().raw(&[0, 0, 1]).number(past).raw(&[0]);
    let grant = |form: Form, kind: u8| {
        let form = form.raw(&[kind]).bytes(b"w1").number(fence);
        let form = form.since(version, now).since(version, now);
        form.number(end).number(end + 1000).number(1).raw(&[0])
    };
    let finished = || {
        let form = begun().raw(&[1]).bytes(b"fp").raw(&[1]);
        form.number(now + HOUR).raw(&[1]).bytes(b"result")
    };
    // Version 1: retry wait, death, tries, error, grant, each of them or none.
    if version == 1 {
        return vec![
            ("a record", open().raw(&[0, 0]).number(3).raw(&[0, 0])),
            (
                "a record that waits",
                open()
                    .raw(&[1])
                    .number(end)
                    .raw(&[0])
                    .number(3)
                    .raw(&[0, 0]),
            ),
            (
                "a dead record",
                open().raw(&[0, 1]).number(now).number(3).raw(&[0, 0]),
            ),
            (
                "a claimed record",
                grant(open().raw(&[0, 0]).number(3).raw(&[0, 1]), 0),
            ),
            (
                "a locked record",
                grant(open().raw(&[0, 0]).number(0).raw(&[0, 1]), 1),
            ),
            (
                "a record that is all of it",
                grant(
                    open()
                        .raw(&[1])
                        .number(end)
                        .raw(&[1])
                        .number(now)
                        .number(3)
                        .raw(&[0, 1]),
                    0,
                ),
            ),
            ("a finished record", finished()),
        ];
    }
    // Version 2: tries, error, and what the last grant has come to.
    let open = || open().number(3).raw(&[0]);
    vec![
        ("a record", open().raw(&[0])),
        ("a claimed record", grant(open().raw(&[1]), 0)),
        ("a locked record", grant(open().raw(&[1]), 1)),
        (
            "a record that waits",
            open().raw(&[2]).number(now).number(end),
        ),
        ("a dead record", open().raw(&[3]).number(now)),
        ("a finished record", finished().raw(&[0])),
        (
            "a finished record that says how",
            finished()
                .raw(&[1])
                .number(now)
                .raw(&[1])
                .number(past)
                .number(3)
                .raw(&[1, 0])
                .bytes(b"w1"),
        ),
    ]
}

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
fn real(c: &mut Client) -> Saved {
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
fn everything(now: u64, saved: &Saved) -> Vec<Forged> {
    let mut all = Vec::new();
    forged_numbers(now, &mut all);
    forged_settings(now, &mut all);
    forged_reals(saved, &mut all);
    all
}

// ------------------------------------------------------------ what is done to them

/// The queues that were taken, by key, with what was done to each.
type Taken = BTreeMap<String, String>;

/// The replies to many commands.
#[track_caller]
fn all_of(c: &mut Client, commands: &[Vec<Vec<u8>>]) -> Vec<Value> {
    let mut replies = Vec::with_capacity(commands.len());
    for some in commands.chunks(AT_ONCE) {
        replies.extend(c.pipeline(some));
    }
    replies
}

/// Fails on an error that no queue gives a reason for.
#[track_caller]
fn expect_no_error(reply: &Value, command: &[Vec<u8>], what: &str) {
    if let Value::Error(text) = reply {
        // The only end that a queue can be led to.
        assert!(
            text.contains("fences are used up"),
            "{what}: {text}: {}",
            command.join(&b' ').escape_ascii()
        );
    }
}

/// What no lock of the queue passes, milliseconds.
fn lock_ms_max(what: &str) -> i64 {
    if let Some((_, value)) = what.split_once("lock-ms-max is ") {
        let value = value.parse().expect("the setting was taken");
        LEASE_MS_MAX.min(value)
    } else if what.contains("a real queue") {
        31_536_000
    } else {
        LOCK_MS_MAX
    }
}

/// Sends each of the queues the commands of `make`, and gives each reply to `look`.
#[track_caller]
fn each(
    c: &mut Client,
    taken: &Taken,
    mut make: impl FnMut(usize, &str) -> Vec<Vec<Vec<u8>>>,
    mut look: impl FnMut(&str, &[Vec<u8>], Value),
) {
    let mut commands = Vec::new();
    let mut of = Vec::new();
    for (i, key) in taken.keys().enumerate() {
        for command in make(i, key) {
            commands.push(command);
            of.push(key);
        }
    }
    let replies = all_of(c, &commands);
    for ((reply, command), key) in replies.into_iter().zip(&commands).zip(of) {
        let what = &taken[key];
        expect_no_error(&reply, command, what);
        if !reply.is_error() {
            look(key, command, reply);
        }
    }
}

/// Every command on every queue; `name` makes the ids differ from round to round.
#[track_caller]
fn use_them(c: &mut Client, taken: &Taken, name: &str) {
    let lock = format!("{name}-lock");
    let id = |i: usize| format!("{name}{i}");
    let mut claims: BTreeMap<String, Vec<(Vec<u8>, u64)>> = BTreeMap::new();
    let mut locks: BTreeMap<String, u64> = BTreeMap::new();
    each(
        c,
        taken,
        |_, key| {
            let mut commands: Vec<_> = (0..8)
                .map(|i| argv!["ORDER.SCHEDULE", key, id(i), "PX", 0])
                .collect();
            commands.extend([
                argv!["ORDER.RESUME", key],
                argv!["ORDER.LOCK", key, lock, "w1", "PX", 5000, "REENTRANT"],
                argv!["ORDER.LOCK", key, lock, "w1", "PX", 9_000_000, "REENTRANT"],
                argv!["ORDER.LOCK", key, lock, "w2", "PX", 1000],
                argv!["ORDER.LOCK", key, "x", "w3", "PX", 4_000_000],
                argv!["ORDER.CLAIM", key, "me", "COUNT", 100, "PX", 80_000_000],
            ]);
            commands
        },
        |key, command, reply| match &command[0][..] {
            b"ORDER.LOCK" => {
                let lease = reply.lease();
                let max = lock_ms_max(&taken[key]);
                // `x` may be claimed.
                let max = if command[2] == b"x" {
                    LEASE_MS_MAX
                } else {
                    max
                };
                assert!(lease.lease_ms <= max, "{}: {lease:?}", taken[key]);
                if command[2] == lock.as_bytes() {
                    locks.insert(key.to_owned(), lease.fence);
                }
            }
            b"ORDER.CLAIM" => {
                let rows = reply.claims();
                assert!(
                    rows.iter().all(|row| row.lease_ms <= LEASE_MS_MAX),
                    "{}: {rows:?}",
                    taken[key]
                );
                let mut fences: Vec<u64> = rows.iter().map(|row| row.fence).collect();
                fences.sort_unstable();
                fences.dedup();
                assert_eq!(fences.len(), rows.len(), "{}: {rows:?}", taken[key]);
                claims.insert(
                    key.to_owned(),
                    rows.into_iter().map(|row| (row.id, row.fence)).collect(),
                );
            }
            _ => {}
        },
    );
    assert!(
        claims.values().filter(|rows| rows.len() >= 7).count() > taken.len() * 3 / 4,
        "most queues hand out what is due"
    );
    each(
        c,
        taken,
        |i, key| {
            let mut commands = Vec::new();
            for (turn, (id, fence)) in claims.get(key).into_iter().flatten().enumerate() {
                commands.push(match turn % 8 {
                    0 => argv!["ORDER.NACK", key, id, fence],
                    1 => argv!["ORDER.NACK", key, id, fence, "UNTRIED"],
                    2 => argv!["ORDER.NACK", key, id, fence, "DELAY", 100_000, "ERROR", "e"],
                    3 => argv!["ORDER.ACK", key, id, fence, "RESULT", "r"],
                    4 => argv!["ORDER.RENEW", key, id, fence, "PX", 86_000_000],
                    5 => argv!["ORDER.RENEW", key, id, fence, "PX", 200_000, "LT"],
                    6 => argv!["ORDER.NACK", key, id, fence, "DEAD"],
                    _ => argv!["ORDER.ACK", key, id, fence, "KEEP", 2_000_000],
                });
            }
            if let Some(fence) = locks.get(key) {
                commands.push(argv!["ORDER.RENEW", key, lock, fence, "PX", 80_000_000]);
                commands.push(argv!["ORDER.UNLOCK", key, lock, fence]);
                if i % 2 == 0 {
                    commands.push(argv!["ORDER.UNLOCK", key, lock, fence]);
                }
            }
            commands.push(argv!["ORDER.FINISH", key, format!("{name}5")]);
            commands.push(match i % 6 {
                0 => argv!["ORDER.FINISH", key, "x", "KEEP", 1_000_000],
                1 => argv!["ORDER.SCHEDULE", key, "x", "PX", 100_000, "UPSERT"],
                2 => argv!["ORDER.BREAK", key, "x"],
                3 => argv!["ORDER.REQUEUE", key, "COUNT", 1],
                4 => argv!["ORDER.STATUS", key, "x", "seen"],
                _ => argv!["ORDER.SCHEDULE", key, "x", "PX", 0, "UPSERT"],
            });
            commands
        },
        |key, command, reply| {
            if matches!(&command[0][..], b"ORDER.RENEW") {
                let lease = reply.lease();
                let is_lock = command[2] == lock.as_bytes();
                let max = if is_lock {
                    lock_ms_max(&taken[key])
                } else {
                    LEASE_MS_MAX
                };
                assert!(lease.lease_ms <= max, "{}: {lease:?}", taken[key]);
            }
        },
    );
}

/// No lease is longer than there may be, on this server, and no number larger.
#[track_caller]
fn expect_bounded(c: &mut Client, taken: &Taken, when: &str) {
    each(
        c,
        taken,
        |_, key| {
            ["x", "y", "claimed", "locked", "reserved"]
                .into_iter()
                .map(|id| argv!["ORDER.GET", key, id])
                .collect()
        },
        |key, _, reply| {
            if let Some(order) = reply.get() {
                let max = match &order.text("kind")[..] {
                    "lock" => lock_ms_max(&taken[key]),
                    _ => LEASE_MS_MAX,
                };
                let left = order.int("lease_ms");
                assert!(left <= max, "{when}: {}: {order:?}", taken[key]);
                let is_number = |name| (0..1 << 52).contains(&order.int(name));
                assert!(
                    is_number("rev") && is_number("fence"),
                    "{when}: {}: {order:?}",
                    taken[key]
                );
            }
        },
    );
}

/// The digests of the queues, in the order of their keys: a few at a time, as all of
/// them take a busy server a second in which it comes to nothing else.
#[track_caller]
fn digests(c: &mut Client, taken: &Taken) -> Vec<String> {
    let keys: Vec<_> = taken.keys().map(|key| key.clone().into_bytes()).collect();
    let mut all = Vec::with_capacity(keys.len());
    for some in keys.chunks(32) {
        let mut command = argv!["DEBUG", "DIGEST-VALUE"];
        command.extend_from_slice(some);
        all.extend(c.run(&command).items().iter().map(Value::text));
    }
    all
}

/// The digests once they stand still: what is kept for a moment is forgotten then.
#[track_caller]
fn steady(c: &mut Client, taken: &Taken) -> Vec<String> {
    let mut last = digests(c, taken);
    let mut since = Instant::now();
    wait_until(SOON, "forgetting to come to an end", || {
        // From a reply to the next question: the server's own time lies between them,
        // however long this thread stood still.
        let quiet = since.elapsed();
        let now = digests(c, taken);
        if now != last {
            since = Instant::now();
            last = now;
            return false;
        }
        // Keep times of up to 251 ms are among them, and a batch is forgotten each 256 ms.
        quiet > Duration::from_millis(800)
    });
    last
}

/// Fails with the queues that differ.
#[track_caller]
fn expect_equal(taken: &Taken, before: &[String], after: &[String], when: &str) {
    let differ: Vec<_> = taken
        .values()
        .zip(before.iter().zip(after))
        .filter(|(_, (one, other))| one != other)
        .map(|(what, _)| what)
        .collect();
    assert!(
        differ.is_empty(),
        "{when}: {} differ: {:#?}",
        differ.len(),
        &differ[..differ.len().min(8)]
    );
}

/// Waits until the replica holds what the primary holds, and compares. Returns the
/// digests. Leases are looked at there too where it has `loaded` them.
#[track_caller]
fn expect_replicated(
    primary: &Server,
    replica: &Server,
    taken: &Taken,
    loaded: bool,
    when: &str,
) -> Vec<String> {
    let (mut c, mut r) = (primary.client(), replica.client());
    replica.wait_in_sync(primary);
    let before = steady(&mut c, taken);
    // What was forgotten last is on its way.
    replica.wait_in_sync(primary);
    let there = digests(&mut r, taken);
    expect_equal(taken, &before, &there, &format!("{when}, on the replica"));
    for field in ["apply_refused_total", "apply_mismatch_total"] {
        let field = format!("orderwheel_{field}");
        assert_eq!(r.info_number("orderwheel", &field), 0, "{when}: {field}");
    }
    expect_bounded(&mut c, taken, when);
    if loaded {
        expect_bounded(&mut r, taken, &format!("{when}, on the replica"));
    }
    before
}

/// Waits for a rewrite of the append-only file.
#[track_caller]
fn rewrite(c: &mut Client) {
    let rewrites = c.info_number("stats", "total_forks");
    cmd!(c, "BGREWRITEAOF");
    wait_until(SOON, "the rewrite", || {
        c.info_number("stats", "total_forks") > rewrites
            && c.info("persistence", "aof_rewrite_in_progress") == "0"
    });
    assert_eq!(c.info("persistence", "aof_last_bgrewrite_status"), "ok");
}

/// A primary with an append-only file, and its replica.
fn two() -> (Server, Server) {
    let primary = Options::new()
        .aof()
        .line("appendfsync no")
        .line("auto-aof-rewrite-percentage 0")
        .line("repl-diskless-sync-delay 0")
        .line("repl-diskless-load disabled")
        .tcp()
        .start();
    let replica = Options::new()
        .replica_of(primary.port())
        .line("client-output-buffer-limit replica 0 0 0")
        .start();
    replica.wait_in_sync(&primary);
    (primary, replica)
}

/// All that follows for what was taken. A replica `follows` what a client applied by
/// hand until it loads: it takes its primary for one that has decided.
#[track_caller]
fn carry_through(primary: &mut Server, replica: &Server, taken: &Taken, follows: bool) {
    let mut c = primary.client();
    expect_replicated(primary, replica, taken, !follows, "as they came");
    use_them(&mut c, taken, "a");
    let before = expect_replicated(primary, replica, taken, !follows, "after use");

    cmd!(c, "SAVE").ok();
    cmd!(c, "DEBUG", "RELOAD").ok();
    expect_equal(taken, &before, &digests(&mut c, taken), "DEBUG RELOAD");
    expect_bounded(&mut c, taken, "DEBUG RELOAD");
    primary.kill_and_restart();
    let mut c = primary.client();
    expect_equal(
        taken,
        &before,
        &digests(&mut c, taken),
        "the file as written",
    );
    use_them(&mut c, taken, "b");
    let before = expect_replicated(primary, replica, taken, true, "after the first start");

    for preamble in ["yes", "no"] {
        let mut c = primary.client();
        c.config("aof-use-rdb-preamble", preamble);
        rewrite(&mut c);
        primary.kill_and_restart();
        let mut c = primary.client();
        let when = format!("rewritten, preamble {preamble}");
        expect_equal(taken, &before, &digests(&mut c, taken), &when);
        expect_bounded(&mut c, taken, &when);
    }
    let mut c = primary.client();
    use_them(&mut c, taken, "c");
    expect_replicated(primary, replica, taken, true, "after the last start");
    for server in [primary as &Server, replica] {
        expect_no_fault(server);
    }
}

// ------------------------------------------------------------------------ the tests

#[test]
fn a_forged_dump_is_refused_or_carried_through_everything() {
    let (mut primary, replica) = two();
    let mut c = primary.client();
    let saved = real(&mut c);
    let now = c.time_ms();
    let forged = everything(now, &saved);
    assert!(forged.len() > 2000, "{}", forged.len());

    // What is refused is tried again over a queue that is there.
    cmd!(c, "ORDER.SCHEDULE", "there", "1", "PX", HOUR)
        .order()
        .expect("OK");
    let there = c.digest("there");
    let mut taken = Taken::new();
    let mut commands = Vec::new();
    for (i, queue) in forged.iter().enumerate() {
        let payload = saved.close(queue.version, &queue.blob);
        commands.push(argv!["RESTORE", format!("q{i:05}"), 0, payload]);
    }
    let mut again = Vec::new();
    for (i, reply) in all_of(&mut c, &commands).iter().enumerate() {
        if reply.is_error() {
            assert!(reply.error().contains("Bad data format"), "{reply:?}");
            let mut command = commands[i].clone();
            command[1] = b"there".to_vec();
            command.push(b"REPLACE".to_vec());
            again.push(command);
        } else {
            taken.insert(format!("q{i:05}"), forged[i].what.clone());
        }
    }
    assert!(taken.len() > 500 && again.len() > 1000, "{}", taken.len());
    for reply in all_of(&mut c, &again) {
        assert!(reply.error().contains("Bad data format"), "{reply:?}");
    }
    assert_eq!(
        c.digest("there"),
        there,
        "a refused RESTORE changes nothing"
    );
    let keys = cmd!(c, "KEYS", "q*");
    for key in keys.items() {
        assert!(taken.contains_key(&key.text()), "{key:?} was refused");
    }
    for queue in &forged {
        let plain = !queue.what.contains("number") && queue.what.starts_with("version");
        if plain && !queue.what.contains(" is ") {
            let is_taken = taken.values().any(|what| *what == queue.what);
            assert!(is_taken, "{} is as it should be", queue.what);
        }
    }
    carry_through(&mut primary, &replica, &taken, false);
}

#[test]
fn a_forged_effect_is_refused_or_carried_through_everything() {
    let (mut primary, replica) = two();
    let mut c = primary.client();
    let saved = real(&mut c);
    let now = c.time_ms();
    let forged = everything(now, &saved);
    c.config("orderwheel.apply-from-clients", "yes");
    let commands: Vec<_> = forged
        .iter()
        .enumerate()
        .map(|(i, queue)| argv!["ORDER.APPLY", format!("q{i:05}"), queue.version, queue.blob])
        .collect();
    let mut taken = Taken::new();
    for (i, reply) in all_of(&mut c, &commands).iter().enumerate() {
        if !reply.is_error() {
            taken.insert(format!("q{i:05}"), forged[i].what.clone());
        }
    }
    assert!(taken.len() > 500, "{}", taken.len());
    let refused = forged.len() - taken.len();
    assert!(refused > 1000, "{refused}");
    assert_eq!(
        c.info_number("orderwheel", "orderwheel_apply_refused_total"),
        refused as i64
    );
    c.config("orderwheel.apply-from-clients", "no");
    let keys = cmd!(c, "KEYS", "*");
    for key in keys.items() {
        assert!(taken.contains_key(&key.text()), "{key:?} was refused");
    }
    carry_through(&mut primary, &replica, &taken, true);
}

/// A queue with these settings, and the payload in which their texts are others.
#[track_caller]
fn with_settings(c: &mut Client, key: &str, settings: &[(&str, u64, u64)]) -> Vec<u8> {
    c.config("rdbcompression", "no");
    cmd!(c, "ORDER.SCHEDULE", key, "1", "PX", 0)
        .order()
        .expect("OK");
    for (name, value, _) in settings {
        cmd!(c, "ORDER.CONFIG", key, "SET", name, value);
    }
    let saved = Saved::open(cmd!(c, "DUMP", key).bytes());
    let mut blob = saved.chunks.concat();
    for (name, value, other) in settings {
        let kept = wire::configure(name.as_bytes(), value.to_string().as_bytes());
        let other = wire::configure(name.as_bytes(), other.to_string().as_bytes());
        let at = blob
            .windows(kept.len())
            .position(|window| window == kept)
            .expect("the setting is saved");
        blob.splice(at..at + kept.len(), other);
    }
    saved.close(saved.version, &blob)
}

#[test]
fn settings_that_nobody_could_set_are_refused_in_a_dump() {
    let server = Server::plain();
    let mut c = server.client();
    for (i, settings) in [
        &[
            ("backoff-ms", 1000, u64::MAX),
            ("backoff-ms-max", 2000, u64::MAX),
        ][..],
        &[("keep-ms", 86_400_000, 281_474_976_710_654)],
    ]
    .into_iter()
    .enumerate()
    {
        let payload = with_settings(&mut c, &format!("good{i}"), settings);
        let reply = cmd!(c, "RESTORE", "forged", 0, payload);
        if !reply.is_error() {
            // What the server died of, to tell what is wrong.
            let row = cmd!(c, "ORDER.CLAIM", "forged", "me").claims().remove(0);
            cmd!(c, "ORDER.NACK", "forged", "1", row.fence);
            cmd!(c, "DEBUG", "RELOAD").ok();
        }
        assert!(reply.error().contains("Bad data format"), "{reply:?}");
        assert_eq!(cmd!(c, "EXISTS", "forged").int(), 0);
    }
    cmd!(c, "DEBUG", "RELOAD").ok();
    expect_no_fault(&server);
}

#[test]
fn a_grant_that_ends_at_the_last_moment_can_be_saved_and_loaded() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    c.config("rdbcompression", "no");
    cmd!(c, "ORDER.SCHEDULE", "real", "1", "PX", 0)
        .order()
        .expect("OK");
    let saved = Saved::open(cmd!(c, "DUMP", "real").bytes());
    let now = c.time_ms();
    let last = (1 << 48) - 2;
    for (version, end, is_taken) in [(1, last + 1, true), (2, last, true), (2, last + 1, false)] {
        let form = wholes(version, now)
            .into_iter()
            .find(|(name, _)| *name == "a claimed record")
            .map(|(_, form)| form)
            .expect("there is one");
        // Of its numbers the end, the cap and `holds` are the last ones. A nearer cap
        // would have the first renewal bring the end near.
        let place = form.numbers() - 3;
        let blob = form.encode(&[(place, end), (place + 1, end)]);
        let key = format!("{version}-{end}");
        let reply = cmd!(c, "RESTORE", key, 0, saved.close(version, &blob));
        assert_eq!(!reply.is_error(), is_taken, "{key}: {reply:?}");
        if !is_taken {
            continue;
        }
        // One of the two clocks ticks between a load and a renewal, in some rounds.
        for _ in 0..150 {
            cmd!(
                c,
                "ORDER.RENEW",
                key,
                "x",
                now * 1000 - 60_000_000,
                "PX",
                86_400_000
            )
            .lease()
            .expect("OK");
            let before = c.digest(&key);
            cmd!(c, "DEBUG", "RELOAD").ok();
            assert_eq!(c.digest(&key), before, "{key}");
            let left = c.order(&key, "x").int("lease_ms");
            assert!((1..=LEASE_MS_MAX).contains(&left), "{key}: {left}");
        }
    }
    expect_no_fault(&server);
}

/// The dump of a claim of one second, from a server of version 0.1.0 whose clock stood
/// in 2099.
const OF_2099: &str = "B4Git2vCF56UAAIBBcNASUBVFA39ws2IUXh2DgAOAm8xBnVucGFpZOAAEwkAAAH9AGjlz4sBIAogDCABBgZjbG9zZXLgACIN/f+vEtWzAwAA/RcIOdpACAEBAAUAAAoAFqjdjsN3H1Q=";

#[test]
fn a_claim_from_a_clock_that_was_wrong_is_no_longer_than_a_claim() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    cmd!(c, "RESTORE", "q", 0, wire::base64(OF_2099)).ok();
    let first = c.order("q", "o1");
    assert_eq!(
        (first.state(), first.text("owner")),
        ("leased".into(), "closer".into())
    );
    let left = first.int("lease_ms");
    assert!((1..=LEASE_MS_MAX).contains(&left), "{left}");

    // Its numbers are more than an hour ahead: each claim has one of its own.
    let old = first.fence();
    let mut fences = vec![old];
    cmd!(c, "COPY", "q", "copy");
    for (round, (queue, count)) in [("q", 3), ("copy", 3), ("q", 2), ("copy", 1)]
        .into_iter()
        .enumerate()
    {
        for id in 0..count {
            cmd!(c, "ORDER.SCHEDULE", queue, format!("{round}.{id}"), "PX", 0)
                .order()
                .expect("OK");
        }
        let rows = cmd!(c, "ORDER.CLAIM", queue, "me", "COUNT", 3).claims();
        assert_eq!(rows.len(), count, "{rows:?}");
        assert!(rows.iter().all(|row| row.fence > old), "{rows:?}");
        fences.extend(rows.iter().map(|row| row.fence));
    }
    let given = fences.len();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(
        fences.len(),
        given,
        "no fence is handed out twice: {fences:?}"
    );
    let before = [c.digest("q"), c.digest("copy")];
    cmd!(c, "DEBUG", "RELOAD").ok();
    assert_eq!([c.digest("q"), c.digest("copy")], before);
    expect_no_fault(&server);
}
