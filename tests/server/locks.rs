//! Locks, and leases of both kinds: every answer in every state, who is next in
//! line, what ends a lease, and fences that only grow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::page;
use crate::support::states::{apply, expect_healthy};
use crate::support::{
    Client, Clock, LeaseReply, Message, Options, Random, SOON, Server, Value, args, argv, cmd,
    wait_until, wire,
};

/// How long "nothing happens" is watched.
const QUIET: Duration = Duration::from_millis(60);
/// How long a hand-over may take on a machine that is busy with other tests; on
/// an idle one it is a millisecond or two.
const HANDED_OVER: Duration = Duration::from_millis(1500);
/// Ten minutes, the longest lock.
const LONG: u64 = 600_000;

/// A client that waits for the lock of an order.
#[track_caller]
fn waiter(server: &Server, queue: &str, id: &str, owner: &str, more: &[&str]) -> Client {
    let mut c = server.client();
    let before = c.blocked_clients();
    let mut client = server.client();
    let mut words = vec!["ORDER.LOCK", queue, id, owner];
    if !more.contains(&"PX") {
        words.extend(["PX", "600000"]);
    }
    if !more.contains(&"BLOCK") {
        words.extend(["BLOCK", "0"]);
    }
    words.extend_from_slice(more);
    client.send(&words);
    wait_until(SOON, "the client to wait", || c.blocked_clients() > before);
    client
}

/// Takes a lock that is free, for ten minutes; gives its fence.
#[track_caller]
fn lock(c: &mut Client, queue: &str, id: &str, owner: &str) -> u64 {
    cmd!(c, "ORDER.LOCK", queue, id, owner, "PX", LONG)
        .lease()
        .expect("OK")
        .fence
}

/// Schedules an order whose deadline is ten minutes ahead.
#[track_caller]
fn ahead(c: &mut Client, queue: &str, id: &str) {
    cmd!(
        c,
        "ORDER.SCHEDULE",
        queue,
        id,
        "PX",
        LONG,
        "STATUS",
        "unpaid",
        "PAYLOAD",
        "p"
    )
    .order()
    .expect("OK");
}

/// The reply a waiter gets; the client stays usable.
#[track_caller]
fn told(client: &mut Client) -> LeaseReply {
    let reply = client.read().lease();
    assert_eq!(cmd!(client, "PING"), Value::Simple("PONG".into()));
    reply
}

/// Fails unless this waiter still waits.
#[track_caller]
fn still_waits(client: &mut Client) {
    assert_eq!(client.read_within(QUIET), None, "it should still wait");
}

// --- every command in every state -----------------------------------------------

/// The states an order can be met in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    Missing,
    Reserved,
    Scheduled,
    Expired,
    Claimed,
    LockedAhead,
    LockedPast,
    LockLapsedAhead,
    ClaimLapsed,
    LockLapsedPast,
    LapsedLast,
    ReservedLapsed,
    Retrying,
    DeadByNack,
    Finished,
    KeepOver,
}

use Met::{
    ClaimLapsed, Claimed, DeadByNack, Expired, Finished, KeepOver, LapsedLast, LockLapsedAhead,
    LockLapsedPast, LockedAhead, LockedPast, Missing, Reserved, ReservedLapsed, Retrying,
    Scheduled,
};

/// In the order of the table's rows.
const ROWS: [Met; 16] = [
    Missing,
    Reserved,
    Scheduled,
    Expired,
    Claimed,
    LockedAhead,
    LockedPast,
    LockLapsedAhead,
    ClaimLapsed,
    LockLapsedPast,
    LapsedLast,
    ReservedLapsed,
    Retrying,
    DeadByNack,
    Finished,
    KeepOver,
];

impl Met {
    /// The state word of this row.
    fn state(self) -> &'static str {
        match self {
            Missing | ReservedLapsed | KeepOver => "missing",
            Reserved => "reserved",
            Scheduled | LockLapsedAhead => "scheduled",
            Expired | ClaimLapsed | LockLapsedPast => "expired",
            Claimed | LockedAhead | LockedPast => "leased",
            LapsedLast | DeadByNack => "dead",
            Retrying => "retrying",
            Finished => "finished",
        }
    }

    /// The row of docs/states.md.
    fn row(self) -> &'static str {
        match self {
            Missing => "missing",
            Reserved => "reserved, lock live",
            Scheduled => "scheduled, never leased",
            Expired => "expired, never leased",
            Claimed => "leased by claim",
            LockedAhead => "leased by lock, deadline ahead",
            LockedPast => "leased by lock, deadline passed",
            LockLapsedAhead => "lock lapsed, deadline ahead",
            ClaimLapsed => "claim lapsed, not regranted",
            LockLapsedPast => "lock lapsed, deadline passed, not regranted",
            LapsedLast => "lapsed on its last attempt",
            ReservedLapsed => "reserved, lock lapsed",
            Retrying => "retrying",
            DeadByNack => "dead by NACK",
            Finished => "finished",
            KeepOver => "finished, keep time over, not yet removed",
        }
    }

    /// The answer of a column in this state.
    #[track_caller]
    fn answer(self, column: &str) -> &'static str {
        match page::word(page::cell(column, self.row())) {
            "–" => "-",
            word => word,
        }
    }

    /// The commands that bring order `o` into this state at once, or to where a
    /// millisecond's lease or keep time has still to end. The last grant's owner
    /// is `me`. `$f` stands for the fence of the last grant made so far.
    fn commands(self) -> Vec<&'static str> {
        let (far, due) = (
            "ORDER.SCHEDULE $q o PX 600000 STATUS unpaid PAYLOAD p",
            "ORDER.SCHEDULE $q o PX 0 STATUS unpaid PAYLOAD p",
        );
        let (claim, lock) = (
            "ORDER.CLAIM $q me PX 600000",
            "ORDER.LOCK $q o me PX 600000",
        );
        let (brief_claim, brief_lock) = ("ORDER.CLAIM $q me PX 1", "ORDER.LOCK $q o me PX 1");
        match self {
            Missing => vec![],
            Reserved => vec![lock],
            Scheduled => vec![far],
            Expired => vec![due],
            Claimed => vec![due, claim],
            LockedAhead => vec![far, lock],
            LockedPast => vec![far, lock, "ORDER.SCHEDULE $q o PX 0 XX FENCE $f"],
            LockLapsedAhead => vec![far, brief_lock],
            ClaimLapsed => vec![due, brief_claim],
            // Locked before its deadline, both over soon after: in one step, so
            // that the deadline can not come first.
            LockLapsedPast => vec![
                "MULTI",
                "ORDER.SCHEDULE $q o PX 250 STATUS unpaid PAYLOAD p",
                brief_lock,
                "EXEC",
            ],
            LapsedLast => vec![
                due,
                "ORDER.CONFIG $q SET max-attempts 1",
                brief_claim,
                "ORDER.CONFIG $q RESET",
            ],
            ReservedLapsed => vec![brief_lock],
            Retrying => vec![due, claim, "ORDER.NACK $q o $f DELAY 600000"],
            DeadByNack => vec![due, claim, "ORDER.NACK $q o $f DEAD"],
            Finished => vec![far, "ORDER.FINISH $q o RESULT r"],
            KeepOver => vec![far, "ORDER.FINISH $q o RESULT r KEEP 1"],
        }
    }

    /// Brings order `o` of `queue` into this state, or on the way to it; gives
    /// the fence of its last grant, or some number where it never had one.
    #[track_caller]
    fn make(self, c: &mut Client, queue: &str) -> u64 {
        let mut fence = 12345;
        for command in self.commands() {
            let reply = run(c, command, queue, fence);
            assert!(!reply.is_error(), "{self:?}: {command}: {reply:?}");
            if command.starts_with("ORDER.CLAIM") {
                fence = reply.claims()[0].fence;
            } else if command.starts_with("ORDER.LOCK") && reply != Value::Simple("QUEUED".into()) {
                fence = reply.lease().expect("OK").fence;
            } else if command == "EXEC" {
                fence = reply.items()[1].lease().expect("OK").fence;
            }
        }
        fence
    }
}

/// Runs a command of a table, with the queue and fences put in.
fn run(c: &mut Client, command: &str, queue: &str, fence: u64) -> Value {
    c.run(&words(command, queue, fence))
}

/// The words of a command of a table.
fn words(command: &str, queue: &str, fence: u64) -> Vec<String> {
    let word = |word: &str| match word {
        "$q" => queue.to_owned(),
        "$f" => fence.to_string(),
        "$other" => (fence + 7).to_string(),
        "''" => String::new(),
        word => word.to_owned(),
    };
    command.split(' ').map(word).collect()
}

/// What a reply says, in the table's words.
fn outcome(command: &str, reply: &Value) -> String {
    match command.split(' ').next().unwrap() {
        "ORDER.CLAIM" if reply.claims().is_empty() => "-".into(),
        "ORDER.CLAIM" => "granted".into(),
        _ => reply.items()[0].text(),
    }
}

/// A command, and the column of docs/states.md that has its answers.
const COLUMNS: &[(&str, &str)] = &[
    ("ORDER.SCHEDULE $q o PX 300000", "SCHEDULE"),
    ("ORDER.SCHEDULE $q o PX 300000 XX", "SCHEDULE XX"),
    ("ORDER.SCHEDULE $q o PX 300000 UPSERT", "SCHEDULE UPSERT"),
    (
        "ORDER.SCHEDULE $q o PX 300000 XX FROM unpaid FROM ''",
        "SCHEDULE XX FROM its status",
    ),
    (
        "ORDER.SCHEDULE $q o PX 300000 UPSERT FROM unpaid FROM ''",
        "SCHEDULE UPSERT FROM its status",
    ),
    (
        "ORDER.SCHEDULE $q o PX 300000 XX FENCE $f",
        "SCHEDULE XX FENCE last",
    ),
    (
        "ORDER.SCHEDULE $q o PX 300000 XX FENCE $other",
        "SCHEDULE XX FENCE other",
    ),
    ("ORDER.FINISH $q o", "FINISH"),
    ("ORDER.FINISH $q o STRICT", "FINISH STRICT"),
    ("ORDER.FINISH $q o CREATE", "FINISH CREATE"),
    ("ORDER.FINISH $q o FENCE $f", "FINISH FENCE last"),
    ("ORDER.FINISH $q o FENCE $other", "FINISH FENCE other"),
    ("ORDER.STATUS $q o seen", "STATUS"),
    ("ORDER.STATUS $q o seen FENCE $f", "STATUS FENCE last"),
    ("ORDER.CLAIM $q other", "CLAIM"),
    ("ORDER.CLAIM $q other ID o", "CLAIM"),
    ("ORDER.ACK $q o $f", "ACK last"),
    ("ORDER.ACK $q o $other", "ACK other"),
    ("ORDER.MACK $q 1 o $f", "ACK last"),
    ("ORDER.MACK $q 1 o $other", "ACK other"),
    ("ORDER.NACK $q o $f", "NACK last"),
    ("ORDER.NACK $q o $other", "NACK other"),
    ("ORDER.NACK $q o $f UNTRIED", "NACK UNTRIED last"),
    ("ORDER.LOCK $q o other PX 300000", "LOCK other owner"),
    ("ORDER.LOCK $q o me PX 300000", "LOCK same owner"),
    ("ORDER.RENEW $q o $f PX 700000", "RENEW last"),
    ("ORDER.RENEW $q o $other PX 700000", "RENEW other"),
    ("ORDER.UNLOCK $q o $f", "UNLOCK last"),
    ("ORDER.UNLOCK $q o $other", "UNLOCK other"),
    ("ORDER.BREAK $q o", "BREAK"),
    ("ORDER.BREAK $q o $f", "BREAK"),
    ("ORDER.BREAK $q o $other", "BREAK other"),
];

/// The state a command that was done leaves behind.
fn state_after(command: &str, met: Met) -> &'static str {
    let moved = |locked: bool| if locked { "leased" } else { "scheduled" };
    match command.split(' ').next().unwrap() {
        "ORDER.SCHEDULE" => moved(matches!(met, LockedAhead | LockedPast)),
        "ORDER.FINISH" | "ORDER.ACK" | "ORDER.MACK" => "finished",
        "ORDER.NACK" if met == LapsedLast && !command.ends_with("UNTRIED") => "dead",
        "ORDER.NACK" => "retrying",
        "ORDER.LOCK" if met.state() == "missing" => "reserved",
        "ORDER.LOCK" if met == Reserved => "reserved",
        "ORDER.LOCK" | "ORDER.CLAIM" => "leased",
        "ORDER.UNLOCK" | "ORDER.BREAK" => match met {
            Reserved => "missing",
            LockedAhead => "scheduled",
            _ => "expired",
        },
        _ => met.state(),
    }
}

#[test]
fn every_command_in_every_state_answers_as_the_table_says() {
    let server = Server::plain();
    let mut c = server.client();
    for (command, column) in COLUMNS {
        let queue = |met: Met| format!("{command}/{met:?}");
        let fences: Vec<u64> = ROWS
            .iter()
            .map(|met| met.make(&mut c, &queue(*met)))
            .collect();
        for met in ROWS {
            wait_until(SOON, met.state(), || {
                c.state(&queue(met), "o") == met.state()
            });
        }
        for (met, fence) in ROWS.into_iter().zip(fences) {
            let answer = met.answer(column);
            let queue = queue(met);
            let cell = format!("{command} on {met:?}");
            let before = (c.digest(&queue), cmd!(c, "ORDER.GET", &queue, "o").get());
            let reply = run(&mut c, command, &queue, fence);
            assert!(!reply.is_error(), "{cell}: {reply:?}");
            let outcome = outcome(command, &reply);
            assert_eq!(outcome, answer, "{cell}: {reply:?}");
            let done = matches!(answer, "OK" | "HELD" | "granted");
            let after = cmd!(c, "ORDER.GET", &queue, "o").get();
            let state = after
                .as_ref()
                .map_or("missing".into(), |order| order.state());
            assert_eq!(
                state,
                if done {
                    state_after(command, met)
                } else {
                    met.state()
                },
                "{cell}: {after:?}"
            );
            if command.starts_with("ORDER.LOCK") || command.starts_with("ORDER.RENEW") {
                let lease = reply.lease();
                assert_eq!(lease.state, state, "{cell}: {lease:?}");
                let live = after
                    .as_ref()
                    .map_or((0, -2), |order| (order.fence(), order.int("lease_ms")));
                assert_eq!(lease.fence, live.0, "{cell}: {lease:?}");
                assert!(
                    (lease.lease_ms - live.1).abs() < 5000
                        && (lease.lease_ms == -2) == (live.1 == -2),
                    "{cell}: {lease:?}"
                );
                match answer {
                    "OK" if command.starts_with("ORDER.LOCK") => {
                        assert!(lease.fence > fence && lease.holds == 1, "{cell}: {lease:?}");
                    }
                    "HELD" => {
                        assert_eq!((lease.fence, lease.holds), (fence, 1), "{cell}: {lease:?}");
                    }
                    _ => {}
                }
            }
            // Not done: nothing has changed, beside what time removes.
            if !done && !matches!(met, KeepOver | ReservedLapsed) {
                assert_eq!(before.0, c.digest(&queue), "{cell}: the digest");
                assert_eq!(
                    before.1.map(|o| o.ground()),
                    after.map(|o| o.ground()),
                    "{cell}: the record"
                );
            }
        }
    }
}

#[test]
fn what_time_has_ended_reads_as_missing_before_it_is_removed() {
    let server = Server::plain();
    let mut c = server.client();
    let columns = COLUMNS
        .iter()
        .filter(|(command, _)| !command.starts_with("ORDER.CLAIM"));
    for (command, column) in columns {
        for met in [ReservedLapsed, KeepOver] {
            // No timer runs within a transaction.
            let queue = format!("{command}/{met:?}");
            cmd!(c, "MULTI").ok();
            for made in met.commands() {
                run(&mut c, made, &queue, 12345);
            }
            cmd!(c, "DEBUG", "SLEEP", "0.004");
            run(&mut c, "ORDER.GET $q o", &queue, 0);
            run(&mut c, command, &queue, 12345);
            let replies = cmd!(c, "EXEC");
            let replies = replies.items();
            let cell = format!("{command} on {met:?}");
            assert_eq!(replies[replies.len() - 2], Value::Nil, "{cell}: GET");
            assert_eq!(
                outcome(command, &replies[replies.len() - 1]),
                met.answer(column),
                "{cell}"
            );
        }
    }
}

#[test]
fn every_reader_and_sweeper_in_every_state() {
    let server = Server::plain();
    let mut c = server.client();
    let columns = [
        ("requeue", "ORDER.REQUEUE $q"),
        ("scheduled", "ORDER.PURGE $q STATE scheduled"),
        ("expired", "ORDER.PURGE $q STATE expired"),
        ("leased", "ORDER.PURGE $q STATE leased"),
        ("retrying", "ORDER.PURGE $q STATE retrying"),
        ("dead", "ORDER.PURGE $q STATE dead"),
        ("finished", "ORDER.PURGE $q STATE finished"),
        ("reserved", "ORDER.PURGE $q STATE reserved"),
    ];
    for (name, command) in columns {
        for met in ROWS {
            let queue = format!("{name}/{met:?}");
            let cell = format!("{command} on {met:?}");
            met.make(&mut c, &queue);
            wait_until(SOON, met.state(), || c.state(&queue, "o") == met.state());
            let pttl = cmd!(c, "ORDER.PTTL", &queue, "o").int();
            let expected = match met.answer("PTTL") {
                "ms" => 500_000..=600_001,
                fixed => fixed.parse().map(|fixed| fixed..=fixed).unwrap(),
            };
            assert!(expected.contains(&pttl), "PTTL on {met:?} is {pttl}");
            let next = cmd!(c, "ORDER.NEXT", &queue).items().len();
            assert_eq!(
                next,
                usize::from(met.answer("NEXT") == "yes"),
                "NEXT on {met:?}"
            );
            let scan = cmd!(c, "ORDER.SCAN", &queue, 0, "COUNT", 100);
            let states: Vec<String> = scan.items()[1]
                .items()
                .iter()
                .map(|row| row.items()[1].text())
                .collect();
            let listed = match met.answer("SCAN state") {
                "-" | "absent" => "",
                state => state,
            };
            assert_eq!(states.join(" "), listed, "SCAN on {met:?}");
            assert_eq!(c.state(&queue, "o"), met.state(), "GET on {met:?}");

            let reply = run(&mut c, command, &queue, 0);
            let counts = (reply.items()[0].int(), reply.items()[1].int());
            let (column, after) = if name == "requeue" {
                ("REQUEUE", "expired")
            } else {
                ("PURGE", "missing")
            };
            let concerned = name == "requeue" || name == met.state();
            let (expected, after) = match met.answer(column) {
                "yes" if concerned => ((1, 0), after),
                "no" if concerned => ((0, 1), met.state()),
                _ => ((0, 0), met.state()),
            };
            assert_eq!(counts, expected, "{cell}");
            assert_eq!(c.state(&queue, "o"), after, "{cell}");
            if name == "requeue" && expected.0 == 1 {
                assert_eq!(c.order(&queue, "o").int("attempt"), 0, "{cell}");
                assert_eq!(
                    cmd!(c, "ORDER.CLAIM", &queue, "next").claims()[0].attempt,
                    1,
                    "{cell}"
                );
            }
        }
    }
}

#[test]
fn a_lock_first_and_then_the_creation() {
    let server = Server::plain();
    let mut c = server.client();
    let fence = lock(&mut c, "q", "1", "pay");
    let reply = cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        LONG,
        "UPSERT",
        "FENCE",
        fence,
        "STATUS",
        "unpaid"
    )
    .order()
    .expect("OK");
    assert_eq!(
        (reply.state.as_str(), reply.was.as_str()),
        ("leased", "reserved")
    );
    assert_eq!(c.order("q", "1").fence(), fence);
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    assert_eq!(c.state("q", "1"), "scheduled");
}

// --- one lock -------------------------------------------------------------------

#[test]
fn a_lock_repeated_after_a_lost_reply_is_held_once() {
    let server = Server::plain();
    let mut c = server.client();
    for made in [false, true] {
        let id = format!("{made}");
        if made {
            ahead(&mut c, "q", &id);
        }
        let fence = lock(&mut c, "q", &id, "pay:9f3c");
        for _ in 0..3 {
            let reply = cmd!(c, "ORDER.LOCK", "q", &id, "pay:9f3c", "PX", LONG)
                .lease()
                .expect("HELD");
            assert_eq!((reply.fence, reply.holds), (fence, 1));
        }
        let mut waiting = waiter(&server, "q", &id, "next", &[]);
        let reply = cmd!(
            c,
            "ORDER.LOCK",
            "q",
            &id,
            "pay:9f3c",
            "PX",
            LONG,
            "BLOCK",
            5000
        )
        .lease()
        .expect("HELD");
        assert_eq!(
            (reply.fence, reply.holds),
            (fence, 1),
            "the holder does not wait for itself"
        );
        cmd!(c, "ORDER.UNLOCK", "q", &id, fence)
            .lease()
            .expect("OK");
        assert!(
            told(&mut waiting).expect("OK").fence > fence,
            "one UNLOCK frees it"
        );
        let again = cmd!(c, "ORDER.UNLOCK", "q", &id, fence).lease();
        again.expect("STALE");
    }
}

#[test]
fn a_reentrant_lock_counts_up_and_down_under_one_fence() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let fence = cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", LONG, "REENTRANT")
        .lease()
        .expect("OK")
        .fence;
    for holds in 2..=4 {
        let reply = cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", 1000, "REENTRANT")
            .lease()
            .expect("HELD");
        assert_eq!((reply.fence, reply.holds), (fence, holds));
    }
    let reply = cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", 1000)
        .lease()
        .expect("HELD");
    assert_eq!(reply.holds, 4, "only REENTRANT counts");
    assert_eq!(c.order("q", "1").int("holds"), 4);
    for holds in [3, 2, 1] {
        let reply = cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
            .lease()
            .expect("HELD");
        assert_eq!(
            (reply.fence, reply.holds, reply.state.as_str()),
            (fence, holds, "leased")
        );
        assert!(
            reply.lease_ms > 500_000,
            "its lease is as it was: {reply:?}"
        );
        cmd!(c, "ORDER.LOCK", "q", "1", "other", "PX", 1000)
            .lease()
            .expect("BUSY");
    }
    let reply = cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    assert_eq!(
        (reply.holds, reply.state.as_str(), reply.lease_ms),
        (0, "scheduled", -2)
    );
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("GONE");
    // BREAK ends all holds at once.
    for _ in 0..3 {
        cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", LONG, "REENTRANT");
    }
    cmd!(c, "ORDER.BREAK", "q", "1").lease().expect("OK");
    lock(&mut c, "q", "1", "other");
}

#[test]
fn a_lease_is_never_shortened_but_by_lt() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let fence = lock(&mut c, "q", "1", "me");
    let reply = cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", 10)
        .lease()
        .expect("HELD");
    assert!(reply.lease_ms > 500_000, "{reply:?}");
    let reply = cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 10)
        .lease()
        .expect("OK");
    assert!(reply.lease_ms > 500_000, "{reply:?}");
    let reply = cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 50_000, "LT")
        .lease()
        .expect("OK");
    assert!((1..=50_001).contains(&reply.lease_ms), "{reply:?}");
    let reply = cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 200_000, "LT")
        .lease()
        .expect("OK");
    assert!(
        (1..=50_001).contains(&reply.lease_ms),
        "LT only shortens: {reply:?}"
    );
    let reply = cmd!(c, "ORDER.LOCK", "q", "1", "me", "EX", 100)
        .lease()
        .expect("HELD");
    assert!((60_000..=100_001).contains(&reply.lease_ms), "{reply:?}");
    let reply = cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 1, "LT")
        .lease()
        .expect("OK");
    assert!(reply.lease_ms <= 2, "{reply:?}");
    wait_until(SOON, "its end", || c.state("q", "1") == "scheduled");
}

#[test]
fn renew_never_resurrects() {
    let server = Server::plain();
    let mut c = server.client();
    let renew = |c: &mut Client, id: &str, fence: u64| {
        cmd!(c, "ORDER.RENEW", "q", id, fence, "PX", LONG).lease()
    };
    ahead(&mut c, "q", "1");
    let fence = cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", 20)
        .lease()
        .expect("OK")
        .fence;
    wait_until(SOON, "the lapse", || c.state("q", "1") == "scheduled");
    let reply = renew(&mut c, "1", fence).expect("GONE");
    assert_eq!(
        (reply.lease_ms, reply.holds, reply.state.as_str()),
        (-2, 0, "scheduled")
    );
    let second = lock(&mut c, "q", "1", "me");
    assert!(second > fence, "a new grant");
    renew(&mut c, "1", fence).expect("STALE");
    cmd!(c, "ORDER.UNLOCK", "q", "1", second)
        .lease()
        .expect("OK");
    renew(&mut c, "1", second).expect("GONE");
    let third = lock(&mut c, "q", "1", "me");
    cmd!(c, "ORDER.BREAK", "q", "1", third).lease().expect("OK");
    let reply = renew(&mut c, "1", third);
    assert!(
        matches!(reply.outcome.as_str(), "GONE" | "STALE"),
        "{reply:?}"
    );
    cmd!(c, "ORDER.LOCK", "q", "unknown", "me", "PX", 5)
        .lease()
        .expect("OK");
    wait_until(SOON, "the lapse", || c.state("q", "unknown") == "missing");
    renew(&mut c, "unknown", fence).expect("MISSING");
    let fence = lock(&mut c, "q", "1", "me");
    cmd!(c, "ORDER.FINISH", "q", "1", "FENCE", fence)
        .order()
        .expect("OK");
    renew(&mut c, "1", fence).expect("GONE");
}

#[test]
fn max_is_kept_whatever_the_renewals() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let began = Instant::now();
    let fence = cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", 100, "MAX", 600)
        .lease()
        .expect("OK")
        .fence;
    let granted = Instant::now();
    let mut renewals = 0;
    let mut held = 0;
    loop {
        let asked = began.elapsed();
        let reply = cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 60_000).lease();
        if reply.outcome == "GONE" {
            break;
        }
        reply.clone().expect("OK");
        let left = Duration::from_millis(reply.lease_ms as u64);
        assert!(
            asked + left <= Duration::from_millis(620) + (granted - began),
            "{reply:?} after {asked:?}"
        );
        let again = cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", 60_000, "MAX", 60_000).lease();
        if again.outcome == "HELD" {
            assert!(again.lease_ms <= reply.lease_ms, "{again:?}");
            held += 1;
        } else {
            // Its cap has come between the two.
            assert!(again.expect("OK").fence > fence);
            break;
        }
        renewals += 1;
        thread::sleep(Duration::from_millis(10));
        assert!(began.elapsed() < Duration::from_secs(30), "MAX is over");
    }
    assert!(
        began.elapsed() >= Duration::from_millis(598),
        "not before its cap"
    );
    assert!(renewals > 1 && held > 0);
    assert_ne!(c.order("q", "1").fence(), 0);

    // The queue's and the server's limits clamp, and the reply shows it.
    cmd!(c, "ORDER.CONFIG", "q", "SET", "lock-ms-max", 5000).ok();
    let reply = cmd!(c, "ORDER.LOCK", "q", "2", "me", "PX", 60_000)
        .lease()
        .expect("OK");
    assert!((3000..=5001).contains(&reply.lease_ms), "{reply:?}");
    let reply = cmd!(c, "ORDER.LOCK", "q", "3", "me", "PX", 60_000, "MAX", 60_000)
        .lease()
        .expect("OK");
    assert!((3000..=5001).contains(&reply.lease_ms), "{reply:?}");
    let reply = cmd!(c, "ORDER.RENEW", "q", "2", reply.fence, "PX", 60_000).lease();
    reply.expect("STALE");
    c.config("orderwheel.lease-ms-max", "2000");
    let reply = cmd!(c, "ORDER.LOCK", "q2", "1", "me", "PX", 2000)
        .lease()
        .expect("OK");
    assert!((1..=2001).contains(&reply.lease_ms), "{reply:?}");
}

#[test]
fn a_lock_on_an_unknown_id_lives_and_dies_with_the_lock() {
    let server = Options::new().events("KEgd").start();
    let mut c = server.client();
    let mut listener = server.client();
    listener.psubscribe(&["__keyevent@0__:*"]);
    let fence = lock(&mut c, "q", "1", "me");
    assert_eq!(
        (
            c.state("q", "1").as_str(),
            c.stat("q", "reserved").int(),
            c.stat("q", "orders").int()
        ),
        ("reserved", 1, 1)
    );
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "x", "COUNT", 10).claims(), []);
    let reply = cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    assert_eq!(
        (
            reply.fence,
            reply.lease_ms,
            reply.state.as_str(),
            reply.status
        ),
        (0, -2, "missing", None)
    );
    assert_eq!(
        cmd!(c, "EXISTS", "q").int(),
        0,
        "the last order takes the key with it"
    );
    cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", 20)
        .lease()
        .expect("OK");
    wait_until(SOON, "the key to go by itself", || {
        cmd!(c, "DBSIZE").int() == 0
    });
    let heard: Vec<String> = listener
        .messages(QUIET)
        .into_iter()
        .map(|m| {
            format!(
                "{} {}",
                m.channel.trim_start_matches("__keyevent@0__:"),
                String::from_utf8_lossy(&m.payload)
            )
        })
        .collect();
    let expected = [
        "order.lock q:1",
        "order.unlock q:1",
        "del q",
        "order.lock q:1",
        "order.lapsed q:1",
        "del q",
    ];
    let heard: Vec<&String> = heard
        .iter()
        .filter(|line| !line.starts_with("new "))
        .collect();
    assert_eq!(heard, expected.iter().collect::<Vec<_>>());
}

// --- the line -------------------------------------------------------------------

#[test]
fn the_line_is_served_in_turn_and_skips_those_who_left() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let a = lock(&mut c, "q", "1", "a");
    let mut b = waiter(&server, "q", "1", "b", &[]);
    let gone = waiter(&server, "q", "1", "c", &[]);
    let mut d = waiter(&server, "q", "1", "d", &["PX", "400000"]);
    assert_eq!(c.stat("q", "lock_waiters").int(), 3);
    gone.cut();
    wait_until(SOON, "the dead client to be noticed", || {
        c.blocked_clients() == 2
    });
    let before = Instant::now();
    cmd!(c, "ORDER.UNLOCK", "q", "1", a).lease().expect("OK");
    let first = told(&mut b).expect("OK");
    assert!(
        before.elapsed() < HANDED_OVER,
        "handed over after {:?}",
        before.elapsed()
    );
    assert!(first.fence > a && first.holds == 1);
    // While D waits, nobody passes by.
    cmd!(c, "ORDER.LOCK", "q", "1", "e", "PX", 1000)
        .lease()
        .expect("BUSY");
    let replies = c.pipeline(&[
        argv!["MULTI"],
        argv!["ORDER.UNLOCK", "q", "1", first.fence],
        argv!["ORDER.LOCK", "q", "1", "e", "PX", 1000],
        argv!["ORDER.LOCK", "q", "1", "b", "PX", 1000],
        argv!["EXEC"],
    ]);
    let inner = replies[4].items();
    inner[0].lease().expect("OK");
    for reply in &inner[1..] {
        let reply = reply.lease().expect("BUSY");
        assert_eq!(
            (reply.lease_ms, reply.holds),
            (-2, 0),
            "free, but not for those behind the line"
        );
    }
    let second = told(&mut d).expect("OK");
    assert!(second.fence > first.fence);
    assert!(
        (300_000..=400_001).contains(&second.lease_ms),
        "the lease starts at the grant: {second:?}"
    );
    let order = c.order("q", "1");
    assert_eq!(
        (order.text("owner").as_str(), order.fence()),
        ("d", second.fence)
    );
    cmd!(c, "ORDER.UNLOCK", "q", "1", second.fence)
        .lease()
        .expect("OK");
    lock(&mut c, "q", "1", "e");
    assert_eq!(c.stat("q", "lock_waiters").int(), 0);
    expect_healthy(&server);
}

#[test]
fn a_client_that_dies_in_the_very_turn_gets_nothing() {
    let server = Server::plain();
    let mut c = server.client();
    for round in 0..20 {
        let id = format!("{round}");
        let fence = lock(&mut c, "q", &id, "a");
        let dies = waiter(&server, "q", &id, "b", &[]);
        let mut next = waiter(&server, "q", &id, "c", &[]);
        // Its end and the release reach the server together.
        dies.cut();
        cmd!(c, "ORDER.UNLOCK", "q", &id, fence)
            .lease()
            .expect("OK");
        let mut owner = String::new();
        if let Some(reply) = next.read_within(HANDED_OVER) {
            reply.lease().expect("OK");
            owner = c.order("q", &id).text("owner");
        } else {
            // The server had not read the end yet: the lock was granted to it.
            assert_eq!(c.order("q", &id).text("owner"), "b");
            cmd!(c, "ORDER.BREAK", "q", &id).lease().expect("OK");
            told(&mut next).expect("OK");
        }
        assert!(owner.is_empty() || owner == "c");
    }
    expect_healthy(&server);
}

#[test]
fn a_killed_client_gets_nothing_for_sure() {
    let server = Server::plain();
    let mut c = server.client();
    let fence = lock(&mut c, "q", "1", "a");
    let mut dies = server.client();
    let id = dies.id();
    dies.send(&args!["ORDER.LOCK", "q", "1", "b", "PX", LONG, "BLOCK", 0]);
    wait_until(SOON, "it to wait", || c.blocked_clients() == 1);
    let mut next = waiter(&server, "q", "1", "c", &[]);
    let replies = c.pipeline(&[
        argv!["CLIENT", "KILL", "ID", id],
        argv!["ORDER.UNLOCK", "q", "1", fence],
    ]);
    assert_eq!(replies[0].int(), 1);
    told(&mut next).expect("OK");
    assert_eq!(c.order("q", "1").text("owner"), "c");
}

#[test]
fn a_lock_is_handed_over_on_lapse_without_other_traffic() {
    let server = Server::plain();
    let mut c = server.client();
    for made in [true, false] {
        let id = format!("{made}");
        if made {
            ahead(&mut c, "q", &id);
        }
        let granted = Instant::now();
        let fence = cmd!(c, "ORDER.LOCK", "q", &id, "a", "PX", 300)
            .lease()
            .expect("OK")
            .fence;
        let answered = Instant::now();
        let mut next = server.client();
        next.send(&args!["ORDER.LOCK", "q", &id, "b", "PX", 200, "BLOCK", 0]);
        let mut after = server.client();
        after.send(&args!["ORDER.LOCK", "q", &id, "c", "PX", 200, "BLOCK", 0]);
        let reply = next.read().lease().expect("OK");
        assert!(
            granted.elapsed() >= Duration::from_millis(299),
            "not before its end"
        );
        assert!(answered.elapsed() < Duration::from_millis(300) + HANDED_OVER);
        assert!(reply.fence > fence && reply.lease_ms > 100, "{reply:?}");
        let last = after.read().lease().expect("OK");
        assert!(last.fence > reply.fence);
        wait_until(SOON, "the last one to lapse", || {
            c.state("q", &id) != "leased" && c.state("q", &id) != "reserved"
        });
    }
    expect_healthy(&server);
}

#[test]
fn a_renewed_lock_is_not_handed_over_early() {
    let server = Server::plain();
    let mut c = server.client();
    let began = Instant::now();
    let fence = cmd!(c, "ORDER.LOCK", "q", "1", "a", "PX", 200)
        .lease()
        .expect("OK")
        .fence;
    let mut next = waiter(&server, "q", "1", "b", &[]);
    let mut ends = Duration::ZERO;
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(50));
        let asked = began.elapsed();
        if cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 400)
            .lease()
            .outcome
            == "OK"
        {
            ends = asked + Duration::from_millis(400);
        }
    }
    told(&mut next).expect("OK");
    assert!(
        began.elapsed() >= ends,
        "{:?} is before {ends:?}",
        began.elapsed()
    );
}

#[test]
fn a_shortened_lock_is_handed_over_then() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let fence = lock(&mut c, "q", "1", "a");
    let mut next = waiter(&server, "q", "1", "b", &[]);
    still_waits(&mut next);
    let began = Instant::now();
    cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 50, "LT")
        .lease()
        .expect("OK");
    told(&mut next).expect("OK");
    assert!(began.elapsed() >= Duration::from_millis(49));
    assert!(began.elapsed() < Duration::from_millis(50) + HANDED_OVER);
}

#[test]
fn many_locks_that_end_together_are_all_handed_over() {
    const LOCKS: usize = 150;
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "SELECT", 9).ok();
    let take = |i: usize, owner: &str| {
        argv![
            "ORDER.LOCK",
            "q",
            format!("{i}"),
            owner,
            "PX",
            LONG,
            "BLOCK",
            0
        ]
    };
    let fences: Vec<u64> = (0..LOCKS)
        .map(|i| c.run(&take(i, "a")).lease().expect("OK").fence)
        .collect();
    let mut waiting: Vec<Client> = (0..LOCKS)
        .map(|i| {
            let mut client = server.client();
            cmd!(client, "SELECT", 9).ok();
            client.send(&take(i, "b"));
            client
        })
        .collect();
    wait_until(SOON, "all to wait", || {
        c.stat("q", "lock_waiters").int() == LOCKS as i64
    });
    assert_eq!(
        c.info_number("orderwheel", "orderwheel_lock_waiters"),
        LOCKS as i64
    );
    // Half by release and half by lapse, each within one turn.
    let mut ends = vec![argv!["MULTI"]];
    for (i, fence) in fences.iter().enumerate() {
        ends.push(if i % 2 == 0 {
            argv!["ORDER.UNLOCK", "q", format!("{i}"), fence]
        } else {
            argv!["ORDER.RENEW", "q", format!("{i}"), fence, "PX", 30, "LT"]
        });
    }
    ends.push(argv!["EXEC"]);
    c.pipeline(&ends);
    let began = Instant::now();
    let mut seen = BTreeSet::new();
    for (client, fence) in waiting.iter_mut().zip(&fences) {
        let reply = client.read().lease().expect("OK");
        assert!(
            reply.fence > *fence && seen.insert(reply.fence),
            "each its own grant"
        );
    }
    assert!(began.elapsed() < HANDED_OVER * 2, "{:?}", began.elapsed());
    // And all of one line at once.
    for (i, client) in waiting.iter_mut().enumerate() {
        client.send(&args![
            "ORDER.LOCK",
            "q",
            "one",
            format!("w{i}"),
            "PX",
            LONG,
            "BLOCK",
            0
        ]);
    }
    wait_until(SOON, "all to wait", || {
        c.stat("q", "lock_waiters").int() == LOCKS as i64 - 1
    });
    let fence = c.order("q", "one").fence();
    cmd!(c, "ORDER.ACK", "q", "one", fence, "RESULT", "r")
        .order()
        .expect("OK");
    let outcomes: Vec<String> = waiting
        .iter_mut()
        .map(|client| client.read().lease().outcome)
        .collect();
    assert_eq!(outcomes.iter().filter(|word| *word == "OK").count(), 1);
    assert_eq!(
        outcomes.iter().filter(|word| *word == "FINISHED").count(),
        LOCKS - 1
    );
    expect_healthy(&server);
}

#[test]
fn the_waiting_are_told_when_their_server_becomes_a_replica() {
    let one = Options::new()
        .tcp()
        .line("repl-diskless-sync-delay 0")
        .start();
    let two = Options::new()
        .tcp()
        .line("repl-diskless-sync-delay 0")
        .start();
    let mut c = one.client();
    ahead(&mut c, "q", "1");
    lock(&mut c, "q", "1", "a");
    let mut waits = waiter(&one, "q", "1", "b", &[]);
    cmd!(c, "REPLICAOF", "127.0.0.1", two.port()).ok();
    assert!(waits.read().error().starts_with("UNBLOCKED"));
    one.wait_in_sync(&two);
    cmd!(c, "REPLICAOF", "NO", "ONE").ok();
    lock(&mut c, "q", "1", "c");
    assert_eq!(c.stat("q", "lock_waiters").int(), 0);
    expect_healthy(&one);
}

#[test]
fn a_break_hands_over_and_makes_the_holder_stale() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let fence = lock(&mut c, "q", "1", "a");
    let mut next = waiter(&server, "q", "1", "b", &[]);
    cmd!(c, "ORDER.BREAK", "q", "1", fence + 1)
        .lease()
        .expect("STALE");
    still_waits(&mut next);
    cmd!(c, "ORDER.BREAK", "q", "1", fence).lease().expect("OK");
    assert!(told(&mut next).expect("OK").fence > fence);
    for command in [
        "ORDER.UNLOCK $q 1 $f",
        "ORDER.RENEW $q 1 $f PX 10",
        "ORDER.ACK $q 1 $f",
        "ORDER.NACK $q 1 $f",
        "ORDER.FINISH $q 1 FENCE $f",
    ] {
        assert_eq!(
            run(&mut c, command, "q", fence).items()[0].text(),
            "STALE",
            "{command}"
        );
    }
}

#[test]
fn unlock_and_break_of_a_claim() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "ORDER.CONFIG", "q", "SET", "max-attempts", 2).ok();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
        .order()
        .expect("OK");
    let first = cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].fence;
    cmd!(c, "ORDER.UNLOCK", "q", "1", first)
        .lease()
        .expect("OK");
    let second = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
    assert_eq!(second.attempt, 1, "offered again at once, untried");
    cmd!(c, "ORDER.BREAK", "q", "1").lease().expect("OK");
    let second = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
    assert_eq!(second.attempt, 2, "BREAK counts as a failed try");
    let reply = cmd!(c, "ORDER.BREAK", "q", "1").lease().expect("OK");
    assert_eq!(reply.state, "dead", "the last try has failed");
    cmd!(c, "ORDER.ACK", "q", "1", second.fence)
        .order()
        .expect("STALE");
    assert_eq!(cmd!(c, "ORDER.REQUEUE", "q").items()[0].int(), 1);
    let row = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
    assert_eq!(row.attempt, 1);
    cmd!(c, "ORDER.BREAK", "q", "1").lease().expect("OK");
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].attempt,
        2,
        "BREAK counts as a failed try"
    );
}

#[test]
fn two_waiters_of_one_owner_share_the_lock() {
    let server = Server::plain();
    let mut c = server.client();
    let fence = lock(&mut c, "q", "1", "a");
    let mut one = waiter(&server, "q", "1", "same", &[]);
    let mut two = waiter(&server, "q", "1", "same", &[]);
    let mut three = waiter(&server, "q", "1", "other", &[]);
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    let granted = told(&mut one).expect("OK");
    let held = told(&mut two).expect("HELD");
    assert_eq!(
        (held.fence, held.holds),
        (granted.fence, 1),
        "a repeat, as without waiting"
    );
    still_waits(&mut three);
    cmd!(c, "ORDER.UNLOCK", "q", "1", granted.fence)
        .lease()
        .expect("OK");
    told(&mut three).expect("OK");
}

#[test]
fn a_wait_that_is_over_answers_busy_with_the_holder() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let fence = lock(&mut c, "q", "1", "a");
    let before = Instant::now();
    let reply = cmd!(c, "ORDER.LOCK", "q", "1", "b", "PX", 1000, "BLOCK", 60)
        .lease()
        .expect("BUSY");
    assert!(before.elapsed() >= Duration::from_millis(60));
    assert_eq!(
        (reply.fence, reply.state.as_str(), reply.holds),
        (fence, "leased", 1)
    );
    assert!(reply.lease_ms > 0);
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    thread::sleep(QUIET);
    assert_eq!(
        c.state("q", "1"),
        "scheduled",
        "who gave up is granted nothing"
    );
    expect_healthy(&server);
}

#[test]
fn block_within_a_transaction_or_script_answers_at_once() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    lock(&mut c, "q", "1", "a");
    let ask = argv!["ORDER.LOCK", "q", "1", "b", "PX", 1000, "BLOCK", 0];
    let replies = c.pipeline(&[argv!["MULTI"], ask, argv!["EXEC"]]);
    replies[2].items()[0].lease().expect("BUSY");
    let script = "return redis.call('ORDER.LOCK', KEYS[1], '1', 'b', 'PX', '1000', 'BLOCK', '0')";
    cmd!(c, "EVAL", script, 1, "q").lease().expect("BUSY");
    let library = "#!lua name=lib\nredis.register_function('take', function(keys, args) return redis.call('ORDER.LOCK', keys[1], '1', 'b', 'PX', '1000', 'BLOCK', '0') end)";
    cmd!(c, "FUNCTION", "LOAD", library);
    cmd!(c, "FCALL", "take", 1, "q").lease().expect("BUSY");
    assert_eq!(
        (c.blocked_clients(), c.stat("q", "lock_waiters").int()),
        (0, 0)
    );
    // Where it is free they are granted as everywhere.
    cmd!(c, "ORDER.BREAK", "q", "1").lease().expect("OK");
    cmd!(c, "FCALL", "take", 1, "q").lease().expect("OK");
}

#[test]
fn all_waiters_are_told_when_the_holder_finishes() {
    let server = Server::plain();
    let mut c = server.client();
    for verb in ["FINISH", "ACK"] {
        for made in [true, false] {
            let id = format!("{verb}-{made}");
            if made {
                ahead(&mut c, "q", &id);
            }
            let fence = lock(&mut c, "q", &id, "a");
            let mut waiting: Vec<Client> = (0..4)
                .map(|i| waiter(&server, "q", &id, &format!("w{i}"), &[]))
                .collect();
            if verb == "FINISH" {
                cmd!(
                    c,
                    "ORDER.FINISH",
                    "q",
                    &id,
                    "FENCE",
                    fence,
                    "STATUS",
                    "paid",
                    "RESULT",
                    "pay:9f3c"
                )
                .order()
                .expect("OK");
            } else {
                cmd!(
                    c,
                    "ORDER.ACK",
                    "q",
                    &id,
                    fence,
                    "STATUS",
                    "paid",
                    "RESULT",
                    "pay:9f3c"
                )
                .order()
                .expect("OK");
            }
            for client in &mut waiting {
                let reply = told(client).expect("FINISHED");
                assert_eq!(reply.result.as_deref(), Some(&b"pay:9f3c"[..]));
                assert_eq!(
                    (
                        reply.state.as_str(),
                        reply.status.as_deref(),
                        reply.lease_ms
                    ),
                    ("finished", Some(&b"paid"[..]), -2)
                );
            }
        }
    }
    // RESP3 too, as a map.
    let fence = lock(&mut c, "q", "map", "a");
    let mut third = server.client3();
    third.send(&args![
        "ORDER.LOCK",
        "q",
        "map",
        "b",
        "PX",
        1000,
        "BLOCK",
        0
    ]);
    wait_until(SOON, "it to wait", || c.blocked_clients() == 1);
    cmd!(c, "ORDER.ACK", "q", "map", fence, "RESULT", "r")
        .order()
        .expect("OK");
    let reply = third.read();
    assert!(matches!(reply, Value::Map(_)), "{reply:?}");
    reply.lease().expect("FINISHED");
}

#[test]
fn waiters_are_told_expired_when_the_deadline_passes() {
    let server = Server::plain();
    let mut c = server.client();
    let deadline = cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 700)
        .order()
        .expect("OK")
        .deadline;
    cmd!(c, "ORDER.LOCK", "q", "1", "a", "PX", 5000)
        .lease()
        .expect("OK");
    let mut waiting: Vec<Client> = (0..3)
        .map(|i| waiter(&server, "q", "1", &format!("w{i}"), &[]))
        .collect();
    for client in &mut waiting {
        let reply = client.read().lease().expect("EXPIRED");
        assert!(c.time_ms() as i64 >= deadline);
        assert_eq!(
            reply.state, "leased",
            "its holder may still finish: {reply:?}"
        );
    }
    // And at once for those who come now; without BLOCK it is still held.
    cmd!(c, "ORDER.LOCK", "q", "1", "late", "PX", 1000, "BLOCK", 0)
        .lease()
        .expect("EXPIRED");
    cmd!(c, "ORDER.LOCK", "q", "1", "late", "PX", 1000)
        .lease()
        .expect("BUSY");

    // A deadline that the holder moves under them tells them too.
    ahead(&mut c, "q", "2");
    let fence = lock(&mut c, "q", "2", "a");
    let mut waits = waiter(&server, "q", "2", "b", &[]);
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 0, "XX", "FENCE", fence)
        .order()
        .expect("OK");
    told(&mut waits).expect("EXPIRED");
    expect_healthy(&server);
}

#[test]
fn a_live_lock_defers_the_close_up_to_its_cap() {
    let server = Server::plain();
    let mut c = server.client();
    // Without renewal: to its end.
    let granted = Instant::now();
    cmd!(c, "MULTI").ok();
    cmd!(c, "ORDER.SCHEDULE", "short", "1", "PX", 50);
    cmd!(c, "ORDER.LOCK", "short", "1", "a", "PX", 400);
    cmd!(c, "EXEC");
    let mut closer = server.client();
    closer.send(&args![
        "ORDER.CLAIM",
        "short",
        "closer",
        "PX",
        1000,
        "BLOCK",
        0
    ]);
    let row = closer.read().claims().remove(0);
    assert!(
        granted.elapsed() >= Duration::from_millis(399),
        "the close waits for the lock's end"
    );
    assert_eq!(row.attempt, 1);
    // With all renewals: to its cap.
    let began = Instant::now();
    cmd!(c, "MULTI").ok();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 100);
    cmd!(c, "ORDER.LOCK", "q", "1", "a", "PX", 300, "MAX", 900);
    let fence = cmd!(c, "EXEC").items()[1].lease().expect("OK").fence;
    closer.send(&args![
        "ORDER.CLAIM",
        "q",
        "closer",
        "PX",
        60_000,
        "BLOCK",
        0
    ]);
    let mut answer = None;
    let mut last_ok = Duration::ZERO;
    while answer.is_none() {
        if cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 10_000)
            .lease()
            .outcome
            == "OK"
        {
            last_ok = began.elapsed();
        }
        answer = closer.read_within(Duration::from_millis(5));
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "no close is deferred for ever"
        );
    }
    assert!(
        began.elapsed() >= Duration::from_millis(899),
        "not before the cap: {:?}",
        began.elapsed()
    );
    assert!(
        last_ok > Duration::from_millis(100),
        "it was renewed past the deadline"
    );
    let row = answer.unwrap().claims().remove(0);
    assert!(row.fence > fence);
    cmd!(c, "ORDER.FINISH", "q", "1", "FENCE", fence)
        .order()
        .expect("STALE");
    // The holder that releases after the deadline lets the closer in at once.
    cmd!(c, "MULTI").ok();
    cmd!(c, "ORDER.SCHEDULE", "r", "1", "PX", 30);
    cmd!(c, "ORDER.LOCK", "r", "1", "a", "PX", LONG);
    let fence = cmd!(c, "EXEC").items()[1].lease().expect("OK").fence;
    closer.send(&args!["ORDER.CLAIM", "r", "closer", "BLOCK", 0]);
    wait_until(SOON, "the deadline", || {
        cmd!(c, "ORDER.PTTL", "r", "1").int() == 0
    });
    still_waits(&mut closer);
    cmd!(c, "ORDER.UNLOCK", "r", "1", fence)
        .lease()
        .expect("OK");
    assert_eq!(closer.read().claims().len(), 1);
    expect_healthy(&server);
}

// --- what the server does to those who wait ----------------------------------------

#[test]
fn a_waiter_is_killed_unblocked_and_paused() {
    let server = Server::plain();
    let mut c = server.client();
    let fence = lock(&mut c, "q", "1", "a");
    let start = |c: &mut Client, owner: &str| {
        let mut client = server.client();
        let id = client.id();
        let before = c.blocked_clients();
        client.send(&args![
            "ORDER.LOCK",
            "q",
            "1",
            owner,
            "PX",
            LONG,
            "BLOCK",
            0
        ]);
        wait_until(SOON, "it to wait", || c.blocked_clients() > before);
        (client, id)
    };
    let (mut timed, timed_id) = start(&mut c, "timed");
    let (mut failed, failed_id) = start(&mut c, "failed");
    let (killed, killed_id) = start(&mut c, "killed");
    let (mut last, _) = start(&mut c, "last");
    assert_eq!(cmd!(c, "CLIENT", "UNBLOCK", timed_id).int(), 1);
    assert_eq!(told(&mut timed).expect("BUSY").fence, fence);
    assert_eq!(cmd!(c, "CLIENT", "UNBLOCK", failed_id, "ERROR").int(), 1);
    assert!(failed.read().error().starts_with("UNBLOCKED"));
    assert_eq!(cmd!(failed, "PING"), Value::Simple("PONG".into()));
    assert_eq!(cmd!(c, "CLIENT", "KILL", "ID", killed_id).int(), 1);
    drop(killed);
    wait_until(SOON, "one to be left", || {
        c.stat("q", "lock_waiters").int() == 1
    });
    still_waits(&mut last);
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    let fence = told(&mut last).expect("OK").fence;
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    assert_eq!(cmd!(c, "EXISTS", "q").int(), 0);
    expect_healthy(&server);
}

#[test]
fn nothing_is_granted_while_writing_is_paused() {
    // With an append-only file, so that a write in the pause would be fatal.
    let server = Options::new().aof().start();
    let mut c = server.client();
    for mode in ["WRITE", "ALL"] {
        cmd!(c, "ORDER.LOCK", "q", mode, "a", "PX", 150)
            .lease()
            .expect("OK");
        let mut next = waiter(&server, "q", mode, "b", &[]);
        let began = Instant::now();
        cmd!(c, "CLIENT", "PAUSE", 500, mode).ok();
        let reply = next.read().lease().expect("OK");
        assert!(
            began.elapsed() >= Duration::from_millis(495),
            "{mode}: granted in the pause"
        );
        assert!(reply.lease_ms > 500_000, "the lease starts at the grant");
        // Timed out within a pause.
        let before = c.blocked_clients();
        let mut gives_up = server.client();
        gives_up.send(&args![
            "ORDER.LOCK",
            "q",
            mode,
            "c",
            "PX",
            100,
            "BLOCK",
            200
        ]);
        wait_until(SOON, "it to wait", || c.blocked_clients() > before);
        cmd!(c, "CLIENT", "PAUSE", 400, mode).ok();
        gives_up.read().lease().expect("BUSY");
        cmd!(c, "CLIENT", "UNPAUSE").ok();
    }
    expect_healthy(&server);
}

#[test]
fn those_who_wait_are_served_when_the_queue_goes() {
    let server = Server::plain();
    let mut c = server.client();
    let ways: [(&str, &[&str]); 9] = [
        ("DEL", &["DEL q"]),
        ("UNLINK", &["UNLINK q"]),
        ("FLUSHALL", &["FLUSHALL"]),
        ("FLUSHDB ASYNC", &["FLUSHDB ASYNC"]),
        ("RENAME away", &["RENAME q elsewhere"]),
        ("MOVE", &["MOVE q 5"]),
        ("SWAPDB", &["SWAPDB 0 7"]),
        ("PEXPIRE", &["PEXPIRE q 40"]),
        ("SET, DEL", &["SET q text", "DEL q"]),
    ];
    for made in [true, false] {
        for (way, commands) in ways {
            cmd!(c, "FLUSHALL").ok();
            if made {
                ahead(&mut c, "q", "1");
            }
            let fence = lock(&mut c, "q", "1", "a");
            let mut one = waiter(&server, "q", "1", "b", &[]);
            let mut two = waiter(&server, "q", "1", "c", &[]);
            for command in commands {
                assert!(!run(&mut c, command, "q", 0).is_error(), "{command}");
                if *command == "SET q text" {
                    still_waits(&mut one);
                    assert_eq!(
                        cmd!(c, "GET", "q").text(),
                        "text",
                        "another type is left alone"
                    );
                }
            }
            let reply = told(&mut one).expect("OK");
            assert!(reply.fence > fence, "{way}: {reply:?}");
            assert_eq!(reply.state, "reserved", "{way}: {reply:?}");
            still_waits(&mut two);
            cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
                .lease()
                .expect("STALE");
            cmd!(c, "ORDER.UNLOCK", "q", "1", reply.fence)
                .lease()
                .expect("OK");
            let last = told(&mut two).expect("OK");
            cmd!(c, "ORDER.UNLOCK", "q", "1", last.fence)
                .lease()
                .expect("OK");
        }
    }
    expect_healthy(&server);
}

#[test]
fn those_who_wait_get_what_comes_to_the_name() {
    let server = Server::plain();
    let mut c = server.client();
    for (way, expected) in [
        ("free", "OK"),
        ("finished", "FINISHED"),
        ("expired", "EXPIRED"),
        ("locked", ""),
    ] {
        cmd!(c, "FLUSHALL").ok();
        lock(&mut c, "q", "1", "a");
        ahead(&mut c, "other", "1");
        let mut fence = 0;
        match way {
            "finished" => {
                cmd!(c, "ORDER.FINISH", "other", "1", "RESULT", "r")
                    .order()
                    .expect("OK")
                    .rev
            }
            "expired" => {
                cmd!(c, "ORDER.SCHEDULE", "other", "1", "PX", 0, "XX")
                    .order()
                    .expect("OK")
                    .rev
            }
            "locked" => {
                fence = lock(&mut c, "other", "1", "x");
                fence
            }
            _ => 0,
        };
        let mut waits = waiter(&server, "q", "1", "b", &[]);
        cmd!(c, "RENAME", "other", "q").ok();
        if expected.is_empty() {
            still_waits(&mut waits);
            cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
                .lease()
                .expect("OK");
            told(&mut waits).expect("OK");
        } else {
            told(&mut waits).expect(expected);
        }
    }
    // And by RESTORE.
    cmd!(c, "FLUSHALL").ok();
    ahead(&mut c, "q", "1");
    let dump = cmd!(c, "DUMP", "q").bytes().to_vec();
    lock(&mut c, "q", "1", "a");
    let mut waits = waiter(&server, "q", "1", "b", &[]);
    cmd!(c, "RESTORE", "q", 0, dump, "REPLACE").ok();
    told(&mut waits).expect("OK");
    expect_healthy(&server);
}

#[test]
fn a_wait_for_one_lock_is_not_disturbed_by_others() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "mine");
    lock(&mut c, "q", "mine", "a");
    let mut waits = waiter(&server, "q", "mine", "b", &[]);
    for i in 0..200 {
        let id = format!("o{i}");
        let fence = lock(&mut c, "q", &id, "x");
        cmd!(c, "ORDER.UNLOCK", "q", &id, fence)
            .lease()
            .expect("OK");
        cmd!(c, "ORDER.SCHEDULE", "q", &id, "PX", 0)
            .order()
            .expect("OK");
    }
    cmd!(c, "ORDER.CLAIM", "q", "x", "COUNT", 1000);
    still_waits(&mut waits);
    cmd!(c, "ORDER.BREAK", "q", "mine").lease().expect("OK");
    told(&mut waits).expect("OK");
}

// --- stories ----------------------------------------------------------------------

#[test]
fn pay_against_deadline() {
    const ORDERS: u64 = 10_000;
    const PAYERS: u64 = 6;
    const CLOSERS: u64 = 3;
    let server = Server::plain();
    let mut c = server.client();
    let start = c.time_us() / 1000 + 2500;
    // One deadline a millisecond.
    let deadline = |i: u64| start + i;
    let schedule: Vec<_> = (0..ORDERS)
        .map(|i| {
            argv![
                "ORDER.SCHEDULE",
                "q",
                i,
                "PXAT",
                deadline(i),
                "STATUS",
                "unpaid"
            ]
        })
        .collect();
    for reply in c.pipeline(&schedule) {
        reply.order().expect("OK");
    }
    let seed = Random::new().next();
    let paid = Mutex::new(BTreeSet::new());
    let closed = Mutex::new(BTreeSet::new());
    let told = Mutex::new(BTreeMap::<String, u64>::new());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (paid, closed, told, over, server) = (&paid, &closed, &told, &over, &server);
        for payer in 0..PAYERS {
            scope.spawn(move || {
                let mut c = server.client();
                let mut random = Random::seeded(seed ^ payer);
                for i in (payer..ORDERS).step_by(PAYERS as usize) {
                    let at_us = (deadline(i) * 1000)
                        .saturating_add_signed(random.below(10_000) as i64 - 5000);
                    thread::sleep(Duration::from_micros(
                        at_us.saturating_sub(crate::support::wall_us()),
                    ));
                    // Some leases are so short that they lapse under the work.
                    let lease = if random.below(3) == 0 { 3 } else { 10_000 };
                    let locked =
                        cmd!(c, "ORDER.LOCK", "q", i, format!("pay:{i}"), "PX", lease).lease();
                    let how = if locked.outcome == "OK" {
                        thread::sleep(Duration::from_micros(random.below(5000)));
                        let reply = cmd!(
                            c,
                            "ORDER.FINISH",
                            "q",
                            i,
                            "FENCE",
                            locked.fence,
                            "FROM",
                            "unpaid",
                            "STATUS",
                            "paid",
                            "RESULT",
                            format!("pay:{i}")
                        )
                        .order();
                        if reply.outcome == "OK" {
                            assert!(paid.lock().unwrap().insert(i), "{i} is paid twice");
                        } else {
                            assert!(lease == 3, "a lock that lives is not lost: {reply:?}");
                            assert!(
                                matches!(reply.outcome.as_str(), "STALE" | "FINISHED"),
                                "{reply:?}"
                            );
                        }
                        format!("FINISH FENCE {}", reply.outcome)
                    } else if random.below(2) == 0 {
                        // Late, and tries it without a lock.
                        let reply = cmd!(
                            c,
                            "ORDER.FINISH",
                            "q",
                            i,
                            "FROM",
                            "unpaid",
                            "STATUS",
                            "paid"
                        )
                        .order();
                        if reply.outcome == "OK" {
                            assert!(paid.lock().unwrap().insert(i), "{i} is paid twice");
                        } else {
                            assert!(
                                matches!(reply.outcome.as_str(), "LEASED" | "FINISHED"),
                                "{reply:?}"
                            );
                        }
                        format!("LOCK {}, FINISH {}", locked.outcome, reply.outcome)
                    } else {
                        assert!(
                            matches!(locked.outcome.as_str(), "EXPIRED" | "BUSY" | "FINISHED"),
                            "{locked:?}"
                        );
                        format!("LOCK {}", locked.outcome)
                    };
                    *told.lock().unwrap().entry(how).or_default() += 1;
                }
            });
        }
        for closer in 0..CLOSERS {
            scope.spawn(move || {
                let mut c = server.client();
                let mut random = Random::seeded(seed ^ (100 + closer));
                while !over.load(Ordering::Relaxed) {
                    // One of them is so slow that others take its orders, or payers do.
                    let lease = if closer == 0 { 2 } else { 10_000 };
                    let rows = cmd!(
                        c,
                        "ORDER.CLAIM",
                        "q",
                        format!("closer-{closer}"),
                        "PX",
                        lease,
                        "COUNT",
                        1 + random.below(20),
                        "BLOCK",
                        50
                    )
                    .claims();
                    for row in rows {
                        let id: u64 = row.id_text().parse().unwrap();
                        assert!(
                            crate::support::wall_us() >= row.deadline * 1000,
                            "{id} is early"
                        );
                        if random.below(8) == 0 {
                            thread::sleep(Duration::from_micros(random.below(5000)));
                        }
                        let reply = cmd!(
                            c,
                            "ORDER.ACK",
                            "q",
                            id,
                            row.fence,
                            "FROM",
                            "unpaid",
                            "STATUS",
                            "closed"
                        )
                        .order();
                        if reply.outcome == "OK" {
                            assert!(closed.lock().unwrap().insert(id), "{id} is closed twice");
                        } else {
                            assert!(lease == 2, "a claim that lives is not lost: {reply:?}");
                            assert!(
                                matches!(reply.outcome.as_str(), "STALE" | "FINISHED"),
                                "{reply:?}"
                            );
                        }
                        *told
                            .lock()
                            .unwrap()
                            .entry(format!("ACK {}", reply.outcome))
                            .or_default() += 1;
                    }
                }
            });
        }
        // However this ends, the closers stop.
        let until = Instant::now() + Duration::from_mins(2);
        while c.stat("q", "finished").int() < ORDERS as i64 && Instant::now() < until {
            thread::sleep(Duration::from_millis(50));
        }
        over.store(true, Ordering::Relaxed);
    });
    let (paid, closed, told) = (
        paid.into_inner().unwrap(),
        closed.into_inner().unwrap(),
        told.into_inner().unwrap(),
    );
    eprintln!("{} paid, {} closed, {told:?}", paid.len(), closed.len());
    assert_eq!(paid.intersection(&closed).count(), 0, "none is both");
    assert_eq!(
        paid.len() + closed.len(),
        ORDERS as usize,
        "none is neither"
    );
    assert!(!paid.is_empty() && !closed.is_empty());
    let gets: Vec<_> = (0..ORDERS).map(|i| argv!["ORDER.GET", "q", i]).collect();
    for (i, reply) in c.pipeline(&gets).iter().enumerate() {
        let order = reply.get().unwrap();
        let expected = if paid.contains(&(i as u64)) {
            "paid"
        } else {
            "closed"
        };
        assert_eq!(
            (order.text("status").as_str(), order.state().as_str()),
            (expected, "finished"),
            "{i}"
        );
    }
    expect_healthy(&server);
}

#[test]
fn payments_and_creations_in_any_order() {
    let server = Server::plain();
    let mut c = server.client();
    // Created, paid, created again by a message that was delivered twice.
    let create = |c: &mut Client, id: &str| {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", LONG, "STATUS", "unpaid").order()
    };
    create(&mut c, "1").expect("OK");
    create(&mut c, "1").expect("EXISTS");
    let fence = lock(&mut c, "q", "1", "pay:1");
    create(&mut c, "1").expect("EXISTS");
    cmd!(
        c,
        "ORDER.FINISH",
        "q",
        "1",
        "FENCE",
        fence,
        "FROM",
        "unpaid",
        "STATUS",
        "paid",
        "RESULT",
        "pay:1"
    )
    .order()
    .expect("OK");
    let reply = create(&mut c, "1").expect("FINISHED");
    assert_eq!(
        (reply.result.as_deref(), reply.status_text().as_str()),
        (Some(&b"pay:1"[..]), "paid")
    );
    // Paid before it was created.
    let reply = cmd!(
        c,
        "ORDER.FINISH",
        "q",
        "2",
        "CREATE",
        "STATUS",
        "paid",
        "RESULT",
        "pay:2"
    )
    .order()
    .expect("OK");
    assert_eq!(reply.was, "missing");
    let reply = create(&mut c, "2").expect("FINISHED");
    assert_eq!(reply.result.as_deref(), Some(&b"pay:2"[..]));
    // The same callback twice, and another payment: the result tells which.
    for (payment, same) in [("pay:1", true), ("card:7", false)] {
        let reply = cmd!(
            c,
            "ORDER.FINISH",
            "q",
            "1",
            "CREATE",
            "STATUS",
            "paid",
            "RESULT",
            payment
        )
        .order()
        .expect("FINISHED");
        assert_eq!(
            reply.result.as_deref() == Some(payment.as_bytes()),
            same,
            "{reply:?}"
        );
        let reply = cmd!(c, "ORDER.LOCK", "q", "1", payment, "PX", 1000)
            .lease()
            .expect("FINISHED");
        assert_eq!(
            reply.result.as_deref() == Some(payment.as_bytes()),
            same,
            "{reply:?}"
        );
    }
    // A webhook without the fence repeats the LOCK with the payment as owner.
    create(&mut c, "3").expect("OK");
    let fence = lock(&mut c, "q", "3", "pay:3");
    assert_eq!(
        cmd!(c, "ORDER.LOCK", "q", "3", "pay:3", "PX", 1000)
            .lease()
            .expect("HELD")
            .fence,
        fence
    );
    cmd!(c, "ORDER.LOCK", "q", "3", "card:8", "PX", 1000)
        .lease()
        .expect("BUSY");
}

#[test]
fn one_request_is_run_once() {
    let server = Server::plain();
    let mut c = server.client();
    let ask = |c: &mut Client, owner: &str, hash: &str| {
        cmd!(
            c,
            "ORDER.LOCK",
            "idem",
            "1001:3:pay",
            owner,
            "PX",
            30_000,
            "FP",
            hash
        )
        .lease()
    };
    let fence = ask(&mut c, "w1", "aaaa").expect("OK").fence;
    ask(&mut c, "w2", "aaaa").expect("BUSY");
    ask(&mut c, "w2", "bbbb").expect("MISMATCH");
    assert_eq!(ask(&mut c, "w1", "aaaa").expect("HELD").fence, fence);
    ask(&mut c, "w1", "bbbb").expect("MISMATCH");
    let mut waits = waiter(&server, "idem", "1001:3:pay", "w3", &["FP", "aaaa"]);
    let done = cmd!(
        c,
        "ORDER.ACK",
        "idem",
        "1001:3:pay",
        fence,
        "STATUS",
        "done",
        "RESULT",
        "receipt",
        "KEEP",
        86_400_000
    )
    .order();
    assert_eq!(
        (
            done.clone().expect("OK").state.as_str(),
            done.status_text().as_str()
        ),
        ("finished", "done")
    );
    let reply = told(&mut waits).expect("FINISHED");
    assert_eq!(reply.result.as_deref(), Some(&b"receipt"[..]));
    for _ in 0..2 {
        let reply = ask(&mut c, "w2", "aaaa").expect("FINISHED");
        assert_eq!(
            (reply.result.as_deref(), reply.status.as_deref()),
            (Some(&b"receipt"[..]), Some(&b"done"[..]))
        );
        ask(&mut c, "w2", "bbbb").expect("MISMATCH");
        cmd!(c, "DEBUG", "RELOAD").ok();
    }
    // Given up: the next one runs it.
    let fence = cmd!(
        c,
        "ORDER.LOCK",
        "idem",
        "other",
        "w1",
        "PX",
        30_000,
        "FP",
        "aaaa"
    )
    .lease()
    .expect("OK")
    .fence;
    cmd!(c, "ORDER.UNLOCK", "idem", "other", fence)
        .lease()
        .expect("OK");
    cmd!(
        c,
        "ORDER.LOCK",
        "idem",
        "other",
        "w2",
        "PX",
        30_000,
        "FP",
        "bbbb"
    )
    .lease()
    .expect("OK");
    // Who waits with another request is told so when it comes to it.
    let fence = lock(&mut c, "idem", "third", "w1");
    let mut waits = waiter(&server, "idem", "third", "w2", &["FP", "aaaa"]);
    let mut mine = waiter(&server, "idem", "third", "w3", &["FP", "bbbb"]);
    cmd!(c, "ORDER.UNLOCK", "idem", "third", fence)
        .lease()
        .expect("OK");
    told(&mut waits).expect("OK");
    told(&mut mine).expect("MISMATCH");
}

// --- numbers ----------------------------------------------------------------------

/// Takes and gives back the lock, and fails unless its fence is larger than all
/// before.
#[track_caller]
fn grows(c: &mut Client, last: &mut u64, what: &str) {
    let reply = cmd!(c, "ORDER.LOCK", "q", "1", "grows", "PX", LONG)
        .lease()
        .expect("OK");
    assert!(reply.fence > *last, "{what}: {} after {last}", reply.fence);
    assert!(reply.fence < 1 << 52);
    *last = reply.fence;
    cmd!(c, "ORDER.UNLOCK", "q", "1", reply.fence)
        .lease()
        .expect("OK");
}

#[test]
fn fences_only_grow_whatever_happens_to_the_queue() {
    let server = Server::plain();
    let mut c = server.client();
    let mut last = 0;
    ahead(&mut c, "q", "keeps-the-key");
    let dump = cmd!(c, "DUMP", "q").bytes().to_vec();
    for _ in 0..300 {
        grows(&mut c, &mut last, "UNLOCK");
    }
    last = cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", 5)
        .lease()
        .expect("OK")
        .fence;
    wait_until(SOON, "the lapse", || c.state("q", "1") == "missing");
    grows(&mut c, &mut last, "lapse");
    last = lock(&mut c, "q", "1", "me");
    cmd!(c, "ORDER.BREAK", "q", "1").lease().expect("OK");
    grows(&mut c, &mut last, "BREAK");
    for command in [
        "DEL q",
        "FLUSHALL",
        "DEBUG RELOAD",
        "FLUSHALL ASYNC",
        "SWAPDB 0 1",
        "RENAME q r",
    ] {
        cmd!(c, "ORDER.LOCK", "q", "stays", "x", "PX", LONG);
        grows(&mut c, &mut last, "before");
        assert!(!run(&mut c, command, "q", 0).is_error());
        grows(&mut c, &mut last, command);
    }
    for i in 0..300 {
        last = last.max(lock(&mut c, "q", &format!("o{i}"), "x"));
    }
    cmd!(c, "RESTORE", "q", 0, &dump, "REPLACE").ok();
    grows(&mut c, &mut last, "RESTORE of an old dump");
    // Also in one go, faster than the clock's microseconds.
    let mut commands = Vec::new();
    for i in 0..2000 {
        commands.push(argv![
            "ORDER.LOCK",
            "q",
            format!("burst-{i}"),
            "x",
            "PX",
            1000
        ]);
    }
    for reply in c.pipeline(&commands) {
        let fence = reply.lease().expect("OK").fence;
        assert!(fence > last);
        last = fence;
    }
    expect_healthy(&server);
}

#[test]
fn fences_grow_over_a_restart_that_lost_the_last_second() {
    let mut server = Options::new()
        .line("appendonly yes")
        .line("appendfsync everysec")
        .line("aof-load-truncated yes")
        .start();
    let mut last = 0;
    for _ in 0..2 {
        let mut c = server.client();
        grows(&mut c, &mut last, "at first");
        ahead(&mut c, "q", &format!("made-{last}"));
        wait_until(SOON, "it to be on disk", || {
            c.info_number("persistence", "aof_pending_bio_fsync") == 0
        });
        let file = wire::aof_files(&server, ".incr.aof").pop().unwrap();
        let kept = std::fs::metadata(&file).unwrap().len();
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until {
            for i in 0..100 {
                last = last.max(lock(&mut c, "q", &format!("{last}-{i}"), "x"));
            }
        }
        server.kill();
        assert!(std::fs::metadata(&file).unwrap().len() > kept);
        std::fs::OpenOptions::new()
            .write(true)
            .open(&file)
            .unwrap()
            .set_len(kept)
            .unwrap();
        server.start_again();
        let mut c = server.client();
        grows(&mut c, &mut last, "after the restart");
    }
}

#[test]
fn fences_grow_over_a_promotion_that_missed_the_last_writes() {
    let mut primary = Options::new()
        .aof()
        .tcp()
        .line("repl-diskless-sync-delay 0")
        .start();
    let replica = Options::new().aof().replica_of(primary.port()).start();
    replica.wait_in_sync(&primary);
    let (mut c, mut r) = (primary.client(), replica.client());
    ahead(&mut c, "q", "1");
    let mut last = lock(&mut c, "q", "1", "a");
    cmd!(c, "ORDER.UNLOCK", "q", "1", last).lease().expect("OK");
    replica.wait_in_sync(&primary);
    // Cut off: it looks for a primary where there is none.
    cmd!(r, "REPLICAOF", "127.0.0.1", 1).ok();
    for _ in 0..1000 {
        let fence = lock(&mut c, "q", "1", "a");
        assert!(fence > last);
        last = fence;
        cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
            .lease()
            .expect("OK");
    }
    primary.kill();
    cmd!(r, "REPLICAOF", "NO", "ONE").ok();
    let fence = lock(&mut r, "q", "1", "b");
    assert!(fence > last, "{fence} after {last}");
    // And a write by the fence of a lost grant is refused.
    cmd!(r, "ORDER.FINISH", "q", "1", "FENCE", last)
        .order()
        .expect("STALE");
    expect_healthy(&replica);
}

#[test]
fn a_number_from_far_ahead_stays_its_queues_own() {
    const DAY_US: u64 = 86_400_000_000;
    let origin = Server::plain();
    let mut o = origin.client();
    let far = o.time_us() + 2 * DAY_US;
    let end = o.time_ms() + LONG;
    apply(
        &mut o,
        "future",
        &wire::lock(b"locked", b"x", far, end, None, true),
    );
    let dump = cmd!(o, "DUMP", "future").bytes().to_vec();

    let mut server = Options::new().aof().start();
    let mut c = server.client();
    let fence = lock(&mut c, "here", "1", "a");
    assert_eq!(
        c.info_number("orderwheel", "orderwheel_fence_ahead_total"),
        0
    );
    for restored in ["future", "future2"] {
        cmd!(c, "RESTORE", restored, 0, &dump).ok();
    }
    assert_eq!(
        server.log().matches("more than an hour ahead").count(),
        1,
        "said once"
    );
    let mut high = far;
    for start in ["first", "second"] {
        assert!(
            c.info_number("orderwheel", "orderwheel_fence_ahead_total") >= 1,
            "{start}: counted"
        );
        assert_eq!(c.order("future", "locked").fence(), far);
        for i in 0..3 {
            let next = lock(&mut c, "future", &format!("{start}-{i}"), "a");
            assert!(
                next > high && next < far + DAY_US / 24,
                "{start}: {next} after {high}"
            );
            high = next;
        }
        let here = lock(&mut c, "here", &format!("other-{start}"), "a");
        let now = c.time_us();
        assert!(
            here > fence && here < now + DAY_US / 24,
            "{start}: {here} at {now}: other queues go by the clock"
        );
        let rev = cmd!(
            c,
            "ORDER.SCHEDULE",
            "here",
            format!("plain-{start}"),
            "PX",
            LONG
        )
        .order()
        .expect("OK")
        .rev;
        assert!(rev < now + DAY_US / 24, "{start}: {rev} at {now}");
        server.restart();
        c = server.client();
    }
    // Its own order can still be worked on.
    cmd!(c, "ORDER.RENEW", "future", "locked", far, "PX", 1000)
        .lease()
        .expect("OK");
    cmd!(c, "ORDER.UNLOCK", "future", "locked", far)
        .lease()
        .expect("OK");
    let again = lock(&mut c, "future", "locked", "b");
    assert!(again > high, "{again} after {high}");
}

#[test]
fn numbers_are_exact_through_lua() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let script = "
        local lease = redis.call('ORDER.LOCK', KEYS[1], '1', 'lua', 'PX', '600000')
        local exact = string.format('%.0f', lease[2])
        local again = redis.call('ORDER.RENEW', KEYS[1], '1', exact, 'PX', '600000')
        local stale = redis.call('ORDER.RENEW', KEYS[1], '1', string.format('%.0f', tonumber(tostring(lease[2]))), 'PX', '600000')
        return {exact, tostring(lease[2]), again[1], stale[1], lease[2]}";
    let reply = cmd!(c, "EVAL", script, 1, "q");
    let items = reply.items();
    let fence = c.order("q", "1").fence();
    assert_eq!(items[0].text(), fence.to_string());
    assert_eq!(items[4].int() as u64, fence);
    assert_eq!(items[2].text(), "OK");
    // The trap: tostring prints fourteen digits of sixteen.
    assert!(items[1].text().contains("e+15"), "{:?}", items[1]);
    assert_eq!(
        items[3].text(),
        if fence.is_multiple_of(100) {
            "OK"
        } else {
            "STALE"
        }
    );
}

// --- memory -----------------------------------------------------------------------

#[test]
fn locks_leave_no_memory_behind() {
    let server = Server::plain();
    let mut c = server.client();
    let round = |c: &mut Client| {
        for apart in [false, true] {
            let queue = |i: u64| {
                if apart {
                    format!("q{i}")
                } else {
                    "q".to_owned()
                }
            };
            let locks: Vec<_> = (0..1000)
                .map(|i| {
                    argv![
                        "ORDER.LOCK",
                        queue(i),
                        format!("id-{i}"),
                        "owner",
                        "PX",
                        LONG,
                        "FP",
                        "fingerprint"
                    ]
                })
                .collect();
            let fences: Vec<u64> = c
                .pipeline(&locks)
                .iter()
                .map(|reply| reply.lease().expect("OK").fence)
                .collect();
            let unlocks: Vec<_> = fences
                .iter()
                .zip(0..)
                .map(|(fence, i)| argv!["ORDER.UNLOCK", queue(i), format!("id-{i}"), fence])
                .collect();
            for reply in c.pipeline(&unlocks) {
                reply.lease().expect("OK");
            }
        }
        // Freed by another thread, so not at once.
        thread::sleep(Duration::from_millis(200));
        assert_eq!(cmd!(c, "DBSIZE").int(), 0);
    };
    round(&mut c);
    let least = |c: &mut Client| {
        (0..20)
            .map(|_| {
                thread::sleep(Duration::from_millis(20));
                c.info_number("memory", "used_memory")
            })
            .min()
            .unwrap()
    };
    let before = least(&mut c);
    for _ in 0..5 {
        round(&mut c);
    }
    let after = least(&mut c);
    assert!(
        (after - before).abs() < 64 * 1024,
        "{before} bytes before, {after} after"
    );
}

#[test]
fn a_full_memory_refuses_new_locks_and_nothing_that_ends_one() {
    let server = Server::plain();
    let mut c = server.client();
    for id in ["finish", "unlock", "break", "held"] {
        ahead(&mut c, "q", id);
    }
    cmd!(c, "ORDER.SCHEDULE", "due", "ack", "PX", 0)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "due", "nack", "PX", 0)
        .order()
        .expect("OK");
    let finish = lock(&mut c, "q", "finish", "a");
    let unlock = lock(&mut c, "q", "unlock", "a");
    lock(&mut c, "q", "break", "a");
    let rows = cmd!(c, "ORDER.CLAIM", "due", "a", "COUNT", 2).claims();
    let mut waits = waiter(&server, "q", "unlock", "b", &[]);
    c.config("maxmemory", "1");
    for words in [
        argv!["ORDER.LOCK", "q", "new", "a", "PX", 1000],
        argv!["ORDER.LOCK", "q", "held", "a", "PX", 1000, "BLOCK", 0],
        argv!["ORDER.SCHEDULE", "q", "new", "PX", 1000],
        argv!["ORDER.STATUS", "q", "held", "seen"],
    ] {
        let reply = c.run(&words);
        assert!(reply.error().starts_with("OOM "), "{reply:?}");
    }
    assert_eq!(c.state("q", "new"), "missing");
    cmd!(c, "ORDER.RENEW", "q", "finish", finish, "PX", 1000)
        .lease()
        .expect("OK");
    cmd!(
        c,
        "ORDER.FINISH",
        "q",
        "finish",
        "FENCE",
        finish,
        "RESULT",
        "r"
    )
    .order()
    .expect("OK");
    cmd!(c, "ORDER.UNLOCK", "q", "unlock", unlock)
        .lease()
        .expect("OK");
    assert!(
        told(&mut waits).expect("OK").fence > unlock,
        "who waits already is served"
    );
    cmd!(c, "ORDER.BREAK", "q", "break").lease().expect("OK");
    cmd!(c, "ORDER.ACK", "due", "ack", rows[0].fence)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.NACK", "due", "nack", rows[1].fence, "DELAY", 0)
        .order()
        .expect("OK");
    assert_eq!(cmd!(c, "ORDER.CLAIM", "due", "b").claims().len(), 1);
    expect_healthy(&server);
}

// --- losing a lock is noticed -------------------------------------------------------

#[test]
fn the_end_of_a_lease_aborts_who_watches() {
    let server = Server::plain();
    let mut c = server.client();
    let exec = |w: &mut Client| {
        cmd!(w, "MULTI").ok();
        cmd!(w, "PING");
        cmd!(w, "EXEC")
    };
    for (name, lease) in [
        ("lapse", 80),
        ("UNLOCK", LONG),
        ("BREAK", LONG),
        ("FINISH", LONG),
        ("none", LONG),
    ] {
        for made in [true, false] {
            let queue = format!("{name}-{made}");
            ahead(&mut c, &queue, "other");
            if made {
                ahead(&mut c, &queue, "1");
            }
            let fence = cmd!(c, "ORDER.LOCK", &queue, "1", "a", "PX", lease)
                .lease()
                .expect("OK")
                .fence;
            let mut watcher = server.client();
            cmd!(watcher, "WATCH", &queue).ok();
            match name {
                "UNLOCK" => drop(
                    cmd!(c, "ORDER.UNLOCK", &queue, "1", fence)
                        .lease()
                        .expect("OK"),
                ),
                "BREAK" => drop(cmd!(c, "ORDER.BREAK", &queue, "1").lease().expect("OK")),
                "FINISH" => drop(
                    cmd!(c, "ORDER.FINISH", &queue, "1", "FENCE", fence)
                        .order()
                        .expect("OK"),
                ),
                // Nothing but time: nobody else says a word.
                "lapse" => thread::sleep(Duration::from_millis(400)),
                _ => drop(
                    cmd!(c, "ORDER.UNLOCK", &queue, "1", fence + 1)
                        .lease()
                        .expect("STALE"),
                ),
            }
            let reply = exec(&mut watcher);
            assert_eq!(reply == Value::Nil, name != "none", "{queue}: {reply:?}");
        }
    }
    // A claim's end too.
    cmd!(c, "ORDER.SCHEDULE", "claims", "1", "PX", 0)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.CLAIM", "claims", "me", "PX", 80);
    let mut watcher = server.client();
    cmd!(watcher, "WATCH", "claims").ok();
    thread::sleep(Duration::from_millis(400));
    assert_eq!(exec(&mut watcher), Value::Nil);
}

#[test]
fn the_end_of_a_lease_invalidates_what_clients_have_cached() {
    let server = Server::plain();
    let mut c = server.client();
    let mut cache = server.client3();
    cmd!(cache, "CLIENT", "TRACKING", "ON").ok();
    let invalidated = |cache: &mut Client, queue: &str| match cache.push(SOON) {
        Some(Value::Push(items)) => {
            assert_eq!(items[0].text(), "invalidate");
            assert_eq!(items[1].items()[0].text(), queue);
        }
        other => panic!("an invalidation was expected, not {other:?}"),
    };
    for name in ["lapse", "UNLOCK", "BREAK"] {
        ahead(&mut c, name, "1");
        let lease = if name == "lapse" { 150 } else { LONG };
        let fence = cmd!(c, "ORDER.LOCK", name, "1", "a", "PX", lease)
            .lease()
            .expect("OK")
            .fence;
        assert_eq!(cache.order(name, "1").state(), "leased");
        match name {
            "UNLOCK" => drop(
                cmd!(c, "ORDER.UNLOCK", name, "1", fence)
                    .lease()
                    .expect("OK"),
            ),
            "BREAK" => drop(cmd!(c, "ORDER.BREAK", name, "1").lease().expect("OK")),
            _ => {}
        }
        invalidated(&mut cache, name);
        assert_eq!(
            cache.order(name, "1").state(),
            "scheduled",
            "{name}: told when it is true"
        );
        assert_eq!(cache.push(QUIET), None, "{name}: once");
    }
}

#[test]
fn events_of_locks() {
    let server = Options::new().events("KEd").start();
    let mut c = server.client();
    let mut listener = server.client();
    listener.psubscribe(&["__keyevent@0__:order.*"]);
    let heard = |listener: &mut Client| -> Vec<String> {
        let line = |m: Message| {
            format!(
                "{} {}",
                m.channel.trim_start_matches("__keyevent@0__:order."),
                String::from_utf8_lossy(&m.payload)
            )
        };
        listener.messages(QUIET).into_iter().map(line).collect()
    };
    ahead(&mut c, "q", "1");
    assert_eq!(heard(&mut listener), ["schedule q:1"]);
    let fence = lock(&mut c, "q", "1", "a");
    assert_eq!(heard(&mut listener), ["lock q:1"]);
    cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", LONG)
        .lease()
        .expect("OK");
    cmd!(c, "ORDER.LOCK", "q", "1", "other", "PX", LONG)
        .lease()
        .expect("BUSY");
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence + 1)
        .lease()
        .expect("STALE");
    assert_eq!(heard(&mut listener), Vec::<String>::new());
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    assert_eq!(heard(&mut listener), ["unlock q:1"]);
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("GONE");
    assert_eq!(heard(&mut listener), Vec::<String>::new());
    lock(&mut c, "q", "1", "a");
    let mut waits = waiter(&server, "q", "1", "b", &["PX", "150"]);
    assert_eq!(heard(&mut listener), ["lock q:1"]);
    cmd!(c, "ORDER.BREAK", "q", "1").lease().expect("OK");
    told(&mut waits).expect("OK");
    wait_until(SOON, "the lapse", || c.state("q", "1") == "scheduled");
    assert_eq!(
        heard(&mut listener),
        ["unlock q:1", "lock q:1", "lapsed q:1"]
    );
    // A hand-over on lapse: first the end, then the grant.
    for id in ["1", "unknown"] {
        cmd!(c, "ORDER.LOCK", "q", id, "a", "PX", 200)
            .lease()
            .expect("OK");
        let mut waits = waiter(&server, "q", id, "b", &[]);
        let fence = told(&mut waits).expect("OK").fence;
        cmd!(c, "ORDER.UNLOCK", "q", id, fence).lease().expect("OK");
        let expected = ["lock", "lapsed", "lock", "unlock"].map(|event| format!("{event} q:{id}"));
        assert_eq!(heard(&mut listener), expected);
    }
    // A lapse after the deadline: it is offered, and said so.
    cmd!(c, "MULTI").ok();
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 40);
    cmd!(c, "ORDER.LOCK", "q", "2", "a", "PX", 150);
    cmd!(c, "EXEC");
    wait_until(SOON, "the lapse", || c.state("q", "2") == "expired");
    let lines = heard(&mut listener);
    assert_eq!(lines[..2], ["schedule q:2", "lock q:2"]);
    let rest: BTreeSet<&str> = lines[2..].iter().map(String::as_str).collect();
    assert_eq!(
        rest,
        BTreeSet::from(["lapsed q:2", "expired q:2"]),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 4, "{lines:?}");
    let row = cmd!(c, "ORDER.CLAIM", "q", "x").claims().remove(0);
    cmd!(c, "ORDER.UNLOCK", "q", "2", row.fence)
        .lease()
        .expect("OK");
    let lines = heard(&mut listener);
    assert_eq!(lines[..2], ["claim q:2", "unlock q:2"], "{lines:?}");
}

#[test]
fn counts_of_locks() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let fence = lock(&mut c, "q", "1", "a");
    cmd!(c, "ORDER.LOCK", "q", "1", "b", "PX", 10)
        .lease()
        .expect("BUSY");
    cmd!(c, "ORDER.LOCK", "q", "1", "a", "PX", 10)
        .lease()
        .expect("HELD");
    let mut waits = waiter(&server, "q", "1", "c", &[]);
    assert_eq!(c.stat("q", "lock_waiters").int(), 1);
    thread::sleep(Duration::from_millis(30));
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    told(&mut waits).expect("OK");
    assert_eq!(c.stat("q", "lock_waiters").int(), 0);
    assert_eq!(
        c.stat("q", "lock_attempt_total").int(),
        4,
        "each LOCK that was asked"
    );
    assert_eq!(c.stat("q", "lock_acquired_total").int(), 2);
    assert_eq!(c.stat("q", "lock_busy_total").int(), 2);
    let number = |c: &mut Client, field: &str| match c.stat("q", field) {
        Value::Double(x) => x,
        other => other.text().parse().unwrap(),
    };
    assert!(number(&mut c, "lock_wait_ms_max") >= 25.0);
    assert!(number(&mut c, "lock_hold_ms_max") >= 25.0);
    cmd!(c, "ORDER.LOCK", "q", "2", "a", "PX", 10)
        .lease()
        .expect("OK");
    wait_until(SOON, "the lapse to be counted", || {
        c.stat("q", "lapsed_total").int() == 1
    });
    assert_eq!(
        c.info_number("orderwheel", "orderwheel_lock_acquired_total"),
        3
    );
}

// --- clocks -------------------------------------------------------------------------

#[test]
fn a_three_second_lock_lasts_three_seconds_whatever_the_clock_says() {
    const HOUR_MS: i64 = 3_600_000;
    for step in [-HOUR_MS, HOUR_MS] {
        let clock = Clock::new();
        let server = clock.rule(Options::new().aof()).start();
        let mut c = server.client();
        cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 10 * HOUR_MS)
            .order()
            .expect("OK");
        let granted = Instant::now();
        let fence = cmd!(c, "ORDER.LOCK", "q", "1", "a", "PX", 3000)
            .lease()
            .expect("OK")
            .fence;
        cmd!(c, "ORDER.LOCK", "q", "unknown", "a", "PX", 3000)
            .lease()
            .expect("OK");
        let answered = Instant::now();
        let mut next = waiter(&server, "q", "1", "b", &["PX", "3000"]);
        let mut other = waiter(&server, "q", "unknown", "b", &["PX", "3000"]);
        clock.set_ahead(step);
        let left = cmd!(c, "ORDER.LOCK", "q", "1", "a", "PX", 1)
            .lease()
            .expect("HELD")
            .lease_ms;
        assert!(left <= 3001, "{step}: {left}");
        for client in [&mut next, &mut other] {
            let reply = client.read().lease().expect("OK");
            let (took, since) = (granted.elapsed(), answered.elapsed());
            assert!(
                took >= Duration::from_millis(2998),
                "{step}: after {took:?}"
            );
            assert!(
                since < Duration::from_secs(3) + HANDED_OVER * 3,
                "{step}: after {since:?}"
            );
            assert!(reply.fence > fence, "{step}: fences only grow");
        }
        // And the new holder's, taken under the new clock.
        let granted = Instant::now();
        wait_until(SOON, "its end", || c.state("q", "1") == "scheduled");
        assert!(granted.elapsed() < Duration::from_secs(3) + HANDED_OVER * 3);
        assert_eq!(
            c.info_number("orderwheel", "orderwheel_clock_steps_total"),
            1
        );
        expect_healthy(&server);
    }
}

// --- bad input ------------------------------------------------------------------------

#[test]
fn bad_arguments_name_themselves_and_make_no_key() {
    let server = Server::plain();
    let mut c = server.client();
    let long = |n: usize| "x".repeat(n);
    let rows: Vec<(Vec<Vec<u8>>, &str)> = vec![
        (argv!["ORDER.LOCK", "q", "1", "a"], "wrong number"),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "REENTRANT", "REENTRANT"],
            "REENTRANT",
        ),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "REENTRANT", "MAX", 5],
            "EX, PX",
        ),
        (argv!["ORDER.LOCK", "q", "1", "a", "PX", 0], "PX"),
        (argv!["ORDER.LOCK", "q", "1", "a", "EX", 0], "EX"),
        (argv!["ORDER.LOCK", "q", "1", "a", "PX", -1], "PX"),
        (argv!["ORDER.LOCK", "q", "1", "a", "PX", "+1"], "PX"),
        (argv!["ORDER.LOCK", "q", "1", "a", "PX", "1.5"], "PX"),
        (argv!["ORDER.LOCK", "q", "1", "a", "PX", ""], "PX"),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 86_400_001_u64],
            "PX",
        ),
        (argv!["ORDER.LOCK", "q", "1", "a", "EX", 86_401], "EX"),
        (argv!["ORDER.LOCK", "q", "1", "a", "PX", u64::MAX], "PX"),
        (argv!["ORDER.LOCK", "q", "1", "a", "EX", u64::MAX], "EX"),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", "18446744073709551616"],
            "PX",
        ),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "EX", 10],
            "PX and EX",
        ),
        (argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "PX", 10], "PX"),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "NONSENSE"],
            "NONSENSE",
        ),
        (argv!["ORDER.LOCK", "q", "1", "a", "PXAT", 10], "PXAT"),
        (argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "MAX"], "MAX"),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "MAX", 0],
            "MAX",
        ),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "MAX", 86_400_001_u64],
            "MAX",
        ),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "MAX", 5, "MAX", 5],
            "MAX",
        ),
        (argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "FP", ""], "FP"),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "FP", long(65)],
            "FP",
        ),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "FP", "a", "FP", "a"],
            "FP",
        ),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "BLOCK", -1],
            "BLOCK",
        ),
        (
            argv!["ORDER.LOCK", "q", "1", "a", "PX", 10, "BLOCK", u64::MAX],
            "BLOCK",
        ),
        (
            argv![
                "ORDER.LOCK",
                "q",
                "1",
                "a",
                "PX",
                10,
                "BLOCK",
                1,
                "BLOCK",
                1
            ],
            "BLOCK",
        ),
        (argv!["ORDER.LOCK", "q", "1", "", "PX", 10], "owner"),
        (argv!["ORDER.LOCK", "q", "1", long(129), "PX", 10], "owner"),
        (argv!["ORDER.LOCK", "q", "", "a", "PX", 10], "id"),
        (argv!["ORDER.LOCK", "q", long(256), "a", "PX", 10], "id"),
        (argv!["ORDER.RENEW", "q", "1", "x", "PX", 10], "fence"),
        (argv!["ORDER.RENEW", "q", "1", -1, "PX", 10], "fence"),
        (argv!["ORDER.RENEW", "q", "1", 5, "PX", 0], "PX"),
        (
            argv!["ORDER.RENEW", "q", "1", 5, "PX", 10, "EX", 10],
            "PX and EX",
        ),
        (
            argv!["ORDER.RENEW", "q", "1", 5, "PX", 10, "LT", "LT"],
            "LT",
        ),
        (argv!["ORDER.RENEW", "q", "1", 5, "PX", 10, "GT"], "GT"),
        (
            argv!["ORDER.RENEW", "q", "1", 5, "PX", 86_400_001_u64],
            "PX",
        ),
        (argv!["ORDER.UNLOCK", "q", "1", "x"], "fence"),
        (argv!["ORDER.UNLOCK", "q", "1"], "wrong number"),
        (argv!["ORDER.UNLOCK", "q", "1", 5, "NOW"], "wrong number"),
        (argv!["ORDER.BREAK", "q", "1", "x"], "fence"),
        (argv!["ORDER.BREAK", "q", "1", 5, "NOW"], "NOW"),
        (argv!["ORDER.BREAK", "q", ""], "id"),
        (
            argv!["ORDER.SCHEDULE", "q", "1", "PX", 10, "STATUS", long(33)],
            "STATUS",
        ),
        (
            argv!["ORDER.FINISH", "q", "1", "CREATE", "STATUS", long(33)],
            "STATUS",
        ),
        (argv!["ORDER.STATUS", "q", "1", long(33)], "status"),
        (
            argv!["ORDER.ACK", "q", "1", 5, "STATUS", long(33)],
            "STATUS",
        ),
        (argv!["ORDER.CLAIM", "q", long(129)], "owner"),
        (argv!["ORDER.CLAIM", "q", "a", "PX", 0], "PX"),
        (argv!["ORDER.CLAIM", "q", "a", "PX", 86_400_001_u64], "PX"),
    ];
    for (words, named) in rows {
        let shown: Vec<String> = words
            .iter()
            .map(|word| String::from_utf8_lossy(&word[..word.len().min(30)]).into_owned())
            .collect();
        let reply = c.run(&words);
        let Value::Error(text) = &reply else {
            panic!("{shown:?}: {reply:?}")
        };
        assert!(
            text.starts_with("ERR ") && text.contains(named),
            "{shown:?}: {text}"
        );
        assert_eq!(cmd!(c, "DBSIZE").int(), 0, "{shown:?}");
    }
    // Limits that are still fine.
    for words in [
        argv![
            "ORDER.LOCK",
            "q",
            long(255),
            long(128),
            "px",
            86_400_000_u64,
            "fp",
            long(64),
            "max",
            86_400_000_u64,
            "reentrant",
            "block",
            0
        ],
        argv!["ORDER.LOCK", "q", "1", "a", "ex", 1],
        argv![
            "ORDER.LOCK",
            "q",
            b"\0\xff\r\n",
            b"\0\xff",
            "BLOCK",
            5,
            "FP",
            b"\0",
            "PX",
            1
        ],
    ] {
        c.run(&words).lease().expect("OK");
    }
    // Another type, found before and after the arguments are.
    cmd!(c, "SET", "text", "x").ok();
    for command in [
        "ORDER.LOCK $q 1 a PX 10 BLOCK 0",
        "ORDER.RENEW $q 1 5 PX 10",
        "ORDER.UNLOCK $q 1 5",
        "ORDER.BREAK $q 1",
    ] {
        assert!(
            run(&mut c, command, "text", 0)
                .error()
                .starts_with("WRONGTYPE"),
            "{command}"
        );
    }
    assert_eq!(c.blocked_clients(), 0);
}

#[test]
fn nothing_is_replicated_for_what_was_not_done() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let fence = lock(&mut c, "q", "1", "a");
    let before = wire::logged(&server).len();
    for command in [
        "ORDER.LOCK $q 1 b PX 10",
        "ORDER.UNLOCK $q 1 5",
        "ORDER.BREAK $q 1 5",
        "ORDER.RENEW $q 1 5 PX 10",
        "ORDER.UNLOCK $q nobody 5",
        "ORDER.LOCK $q 1 b PX 10 BLOCK 20",
    ] {
        run(&mut c, command, "q", 0);
    }
    assert_eq!(wire::logged(&server).len(), before);
    // What was done is an effect, and replays the same.
    cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", LONG)
        .lease()
        .expect("OK");
    cmd!(c, "ORDER.LOCK", "q", "1", "a", "PX", LONG, "REENTRANT")
        .lease()
        .expect("HELD");
    cmd!(c, "ORDER.LOCK", "q", "brief", "a", "PX", 5)
        .lease()
        .expect("OK");
    // It reads as missing before it is forgotten, which is a write of its own.
    wait_until(SOON, "the lapse to be logged", || {
        wire::logged(&server).len() == before + 4
    });
    assert_eq!(c.stat("q", "orders").int(), 1);
    let digest = c.digest("q");
    for command in wire::logged(&server) {
        assert_eq!(command[0], b"ORDER.APPLY", "{command:?}");
    }
    cmd!(c, "DEBUG", "LOADAOF").ok();
    assert_eq!(c.digest("q"), digest);
    assert_eq!(c.order("q", "1").int("holds"), 2);
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("HELD");
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
}

// --- what once went wrong -------------------------------------------------------

/// The queue was made again for the last client in its line, and dropped out of the
/// scheduler: nobody who waited for its orders was ever served, nothing forgotten.
#[test]
fn a_queue_made_for_its_last_waiter_is_looked_after() {
    let server = Server::plain();
    let mut c = server.client();
    for (i, end) in ["UNLOCK", "BREAK", "FINISH", "DEL", "RENAME", "FLUSHALL"]
        .into_iter()
        .enumerate()
    {
        let queue = format!("q{i}");
        let fence = lock(&mut c, &queue, "a", "first").to_string();
        let mut waiting = waiter(&server, &queue, "a", "second", &["PX", "300"]);
        match end {
            "UNLOCK" => drop(cmd!(c, "ORDER.UNLOCK", &queue, "a", &fence)),
            "BREAK" => drop(cmd!(c, "ORDER.BREAK", &queue, "a")),
            "FINISH" => drop(cmd!(
                c,
                "ORDER.FINISH",
                &queue,
                "a",
                "FENCE",
                &fence,
                "KEEP",
                0
            )),
            "DEL" => drop(cmd!(c, "DEL", &queue)),
            "RENAME" => drop(cmd!(c, "RENAME", &queue, "elsewhere")),
            _ => drop(cmd!(c, "FLUSHALL")),
        }
        told(&mut waiting);
        cmd!(c, "ORDER.SCHEDULE", &queue, "due", "PX", 200)
            .order()
            .expect("OK");
        let rows = cmd!(c, "ORDER.CLAIM", &queue, "me", "BLOCK", 20_000).claims();
        assert_eq!(rows.len(), 1, "{end}: a claimer that waits is served");
        cmd!(c, "ORDER.ACK", &queue, "due", rows[0].fence, "KEEP", 50)
            .order()
            .expect("OK");
        wait_until(SOON, "everything to be forgotten", || {
            cmd!(c, "EXISTS", &queue) == Value::Int(0)
        });
    }
    expect_healthy(&server);
}

/// With KEEP 0 nothing is left that could tell those who wait: they were granted the
/// lock, and would have done the work a second time.
#[test]
fn who_waits_is_told_of_a_finish_that_keeps_nothing() {
    let server = Server::plain();
    let mut c = server.client();
    for made in [true, false] {
        for verb in ["FINISH", "ACK"] {
            let id = format!("{verb}-{made}");
            if made {
                ahead(&mut c, "q", &id);
            }
            let fence = lock(&mut c, "q", &id, "first").to_string();
            let mut waiting: Vec<Client> = (0..3)
                .map(|i| waiter(&server, "q", &id, &format!("w{i}"), &[]))
                .collect();
            let mut words = vec![format!("ORDER.{verb}"), "q".into(), id.clone()];
            if verb == "FINISH" {
                words.push("FENCE".into());
            }
            words.extend([fence, "STATUS".into(), "paid".into()]);
            words.extend(["RESULT", "pay:1", "KEEP", "0"].map(String::from));
            c.send(&words);
            c.read().order().expect("OK");
            for client in &mut waiting {
                let reply = told(client);
                assert_eq!(reply.outcome, "FINISHED", "{id}");
                assert_eq!(reply.status.as_deref(), Some(&b"paid"[..]), "{id}");
                assert_eq!(reply.result.as_deref(), Some(&b"pay:1"[..]), "{id}");
            }
        }
    }
    expect_healthy(&server);
}

#[test]
fn a_lock_that_was_waited_for_is_no_longer_than_was_asked_for() {
    const ROUNDS: usize = 400;
    let server = Server::plain();
    let mut clients = [server.client(), server.client()];
    let ask = |i: usize| {
        args![
            "ORDER.LOCK",
            "q",
            "1",
            ["a", "b"][i],
            "PX",
            5000,
            "BLOCK",
            0
        ]
    };
    let mut fence = clients[0].run(&ask(0)).lease().expect("OK").fence;
    // To and fro: whoever has it sees the other one in line, and gives it back.
    for round in 0..ROUNDS {
        let (holds, waits) = (round % 2, 1 - round % 2);
        clients[waits].send(&ask(waits));
        let holder = &mut clients[holds];
        wait_until(SOON, "the other one to wait", || {
            holder.info_number("orderwheel", "orderwheel_lock_waiters") == 1
        });
        cmd!(holder, "ORDER.UNLOCK", "q", "1", fence)
            .lease()
            .expect("OK");
        let lease = clients[waits].read().lease().expect("OK");
        let told = Instant::now();
        assert!(
            (4000..=5000).contains(&lease.lease_ms),
            "round {round}: {lease:?}"
        );
        // Nor more than is left by the client's clock, at any part of a millisecond.
        let part = Duration::from_micros(37 * (round as u64 % 54));
        while told.elapsed() < part {
            std::hint::spin_loop();
        }
        let passed = told.elapsed().as_millis() as i64;
        let left = clients[waits].order("q", "1").int("lease_ms");
        assert!(
            left <= 5000 - passed,
            "round {round}, {passed} ms after the grant: {left}"
        );
        assert!(lease.fence > fence);
        fence = lease.fence;
    }
    expect_healthy(&server);
}

#[test]
fn renewals_do_not_pass_the_cap_of_a_lock() {
    const ROUNDS: i64 = 100;
    const MAX_MS: i64 = 15;
    let server = Server::plain();
    let mut c = server.client();
    for round in 0..ROUNDS {
        let id = format!("{round}");
        let fence = cmd!(c, "ORDER.LOCK", "q", id, "me", "PX", 10, "MAX", MAX_MS)
            .lease()
            .expect("OK")
            .fence;
        let granted = Instant::now();
        // A lease counts from the next whole millisecond of the server's clock.
        let left_us = || (MAX_MS + 1) * 1000 - granted.elapsed().as_micros() as i64;
        let expect_within = |lease_ms: i64, left_us: i64| {
            assert!(
                left_us > 0 && lease_ms <= (left_us / 1000).max(1),
                "round {round}: {lease_ms} ms where {left_us} us may be left"
            );
        };
        // The last renewal comes at any part of the last millisecond, where one is said
        // to be left; a second one after the cap would end it.
        let last = MAX_MS * 1000 + 17 * round % 900;
        while (granted.elapsed().as_micros() as i64) < last {
            let left_us = left_us();
            let lease = cmd!(c, "ORDER.RENEW", "q", id, fence, "PX", 60_000).lease();
            if lease.outcome == "OK" {
                expect_within(lease.lease_ms, left_us);
            }
        }
        loop {
            let left_us = left_us();
            // An id that nobody had scheduled goes with its lock.
            let Some(order) = cmd!(c, "ORDER.GET", "q", id).get() else {
                break;
            };
            expect_within(order.int("lease_ms"), left_us);
        }
        assert!(granted.elapsed() >= Duration::from_millis(MAX_MS as u64 - 1));
    }
    expect_healthy(&server);
}
