//! What is done to the queues that were taken: commands, a replica, saves and loads.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Taken;
use crate::support::states::expect_no_fault;
use crate::support::{Client, Options, SOON, Server, Value, argv, cmd, wait_until};

/// What no lease passes, milliseconds.
pub(super) const LEASE_MS_MAX: i64 = 86_400_000;
/// What no lock passes where the queue has no setting of its own, milliseconds.
const LOCK_MS_MAX: i64 = 600_000;
/// How many commands are sent at once.
const AT_ONCE: usize = 2000;

/// The replies to many commands.
#[track_caller]
pub(super) fn all_of(c: &mut Client, commands: &[Vec<Vec<u8>>]) -> Vec<Value> {
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
pub(super) fn two() -> (Server, Server) {
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
pub(super) fn carry_through(primary: &mut Server, replica: &Server, taken: &Taken, follows: bool) {
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
