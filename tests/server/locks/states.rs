//! Locks: every command on an order in every state, held against the page of states.

use super::run;
use crate::support::{Client, SOON, Server, Value, cmd, page, wait_until};

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
