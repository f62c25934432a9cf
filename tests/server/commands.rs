//! Every command: every outcome in every state, shapes, options, arity.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::support::{
    Claimed, Client, GET_FIELDS, LEASE_REPLY, ORDER_REPLY, Options, SOON, Server, Value, argv, cmd,
    page, permutations, wait_until,
};

// --- the table of answers ---------------------------------------------------

/// The states an order can be met in, without locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    Missing,
    Scheduled,
    Expired,
    Claimed,
    Lapsed,
    LapsedLast,
    Retrying,
    DeadByNack,
    Finished,
    KeepOver,
}

const ROWS: [Met; 10] = [
    Met::Missing,
    Met::Scheduled,
    Met::Expired,
    Met::Claimed,
    Met::Lapsed,
    Met::LapsedLast,
    Met::Retrying,
    Met::DeadByNack,
    Met::Finished,
    Met::KeepOver,
];

impl Met {
    /// The state word of this row.
    fn state(self) -> &'static str {
        match self {
            Self::Missing | Self::KeepOver => "missing",
            Self::Scheduled => "scheduled",
            Self::Expired | Self::Lapsed => "expired",
            Self::Claimed => "leased",
            Self::LapsedLast | Self::DeadByNack => "dead",
            Self::Retrying => "retrying",
            Self::Finished => "finished",
        }
    }

    /// The answer of a column of docs/states.md in this state.
    #[track_caller]
    fn answer(self, column: &str) -> &'static str {
        let row = match self {
            Self::Missing => "missing",
            Self::Scheduled => "scheduled, never leased",
            Self::Expired => "expired, never leased",
            Self::Claimed => "leased by claim",
            Self::Lapsed => "claim lapsed, not regranted",
            Self::LapsedLast => "lapsed on its last attempt",
            Self::Retrying => "retrying",
            Self::DeadByNack => "dead by NACK",
            Self::Finished => "finished",
            Self::KeepOver => "finished, keep time over, not yet removed",
        };
        match page::word(page::cell(column, row)) {
            "–" => "-",
            word => word,
        }
    }

    /// Brings order `o` of `queue` into this state (or on the way to it: a
    /// lease of a millisecond has still to end) and gives the fence of its last
    /// grant, or some number where it never had one.
    fn make(self, c: &mut Client, queue: &str) -> u64 {
        let schedule = |c: &mut Client, ms: u64| {
            cmd!(
                c,
                "ORDER.SCHEDULE",
                queue,
                "o",
                "PX",
                ms,
                "STATUS",
                "unpaid",
                "PAYLOAD",
                "p"
            )
            .order()
            .expect("OK");
        };
        let claim = |c: &mut Client, lease: u64| -> u64 {
            let rows = cmd!(c, "ORDER.CLAIM", queue, "closer", "PX", lease).claims();
            assert_eq!(rows.len(), 1, "{queue}: {rows:?}");
            rows[0].fence
        };
        match self {
            Self::Missing => 12345,
            Self::Scheduled => {
                schedule(c, 600_000);
                12345
            }
            Self::Expired => {
                schedule(c, 0);
                12345
            }
            Self::Claimed => {
                schedule(c, 0);
                claim(c, 600_000)
            }
            Self::Lapsed => {
                schedule(c, 0);
                claim(c, 1)
            }
            Self::LapsedLast => {
                schedule(c, 0);
                c.config("orderwheel.max-attempts", "1");
                let fence = claim(c, 1);
                c.config("orderwheel.max-attempts", "16");
                fence
            }
            Self::Retrying => {
                schedule(c, 0);
                let fence = claim(c, 600_000);
                cmd!(c, "ORDER.NACK", queue, "o", fence, "DELAY", 600_000)
                    .order()
                    .expect("OK");
                fence
            }
            Self::DeadByNack => {
                schedule(c, 0);
                let fence = claim(c, 600_000);
                cmd!(c, "ORDER.NACK", queue, "o", fence, "DEAD")
                    .order()
                    .expect("OK");
                fence
            }
            Self::Finished => {
                schedule(c, 600_000);
                cmd!(c, "ORDER.FINISH", queue, "o", "RESULT", "r")
                    .order()
                    .expect("OK");
                12345
            }
            Self::KeepOver => {
                schedule(c, 600_000);
                cmd!(c, "ORDER.FINISH", queue, "o", "RESULT", "r", "KEEP", 1)
                    .order()
                    .expect("OK");
                12345
            }
        }
    }
}

/// What a cell's command is followed by: how its reply reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// As an order reply.
    Order,
    /// As a lease reply.
    Lease,
    /// As one outcome word in an array.
    Words,
    /// As claims: `granted` or `-`.
    Claims,
}

/// A name, its command (`$last` and `$other` are put in), how the reply reads, and the
/// column of docs/states.md that has the answers.
type Column = (&'static str, &'static str, Reads, &'static str);

const COLUMNS: &[Column] = &[
    (
        "SCHEDULE",
        "ORDER.SCHEDULE $q o PX 300000",
        Reads::Order,
        "SCHEDULE",
    ),
    (
        "NX",
        "ORDER.SCHEDULE $q o NX PX 300000",
        Reads::Order,
        "SCHEDULE",
    ),
    (
        "XX",
        "ORDER.SCHEDULE $q o PX 300000 XX",
        Reads::Order,
        "SCHEDULE XX",
    ),
    (
        "UPSERT",
        "ORDER.SCHEDULE $q o PX 300000 UPSERT",
        Reads::Order,
        "SCHEDULE UPSERT",
    ),
    (
        "XX FROM",
        "ORDER.SCHEDULE $q o PX 300000 XX FROM unpaid",
        Reads::Order,
        "SCHEDULE XX FROM its status",
    ),
    (
        "UPSERT FROM",
        "ORDER.SCHEDULE $q o PX 300000 UPSERT FROM unpaid",
        Reads::Order,
        "SCHEDULE UPSERT FROM its status",
    ),
    (
        "XX FENCE",
        "ORDER.SCHEDULE $q o PX 300000 XX FENCE $last",
        Reads::Order,
        "SCHEDULE XX FENCE last",
    ),
    (
        "XX FENCE other",
        "ORDER.SCHEDULE $q o PX 300000 XX FENCE $other",
        Reads::Order,
        "SCHEDULE XX FENCE other",
    ),
    ("FINISH", "ORDER.FINISH $q o", Reads::Order, "FINISH"),
    (
        "FINISH STRICT",
        "ORDER.FINISH $q o STRICT",
        Reads::Order,
        "FINISH STRICT",
    ),
    (
        "FINISH CREATE",
        "ORDER.FINISH $q o CREATE",
        Reads::Order,
        "FINISH CREATE",
    ),
    (
        "FINISH FENCE",
        "ORDER.FINISH $q o FENCE $last",
        Reads::Order,
        "FINISH FENCE last",
    ),
    (
        "FINISH FENCE other",
        "ORDER.FINISH $q o FENCE $other",
        Reads::Order,
        "FINISH FENCE other",
    ),
    ("STATUS", "ORDER.STATUS $q o seen", Reads::Order, "STATUS"),
    ("CLAIM", "ORDER.CLAIM $q other", Reads::Claims, "CLAIM"),
    (
        "CLAIM ID",
        "ORDER.CLAIM $q other ID o",
        Reads::Claims,
        "CLAIM",
    ),
    ("ACK", "ORDER.ACK $q o $last", Reads::Order, "ACK last"),
    (
        "ACK other",
        "ORDER.ACK $q o $other",
        Reads::Order,
        "ACK other",
    ),
    ("MACK", "ORDER.MACK $q 1 o $last", Reads::Words, "ACK last"),
    (
        "MACK other",
        "ORDER.MACK $q 1 o $other",
        Reads::Words,
        "ACK other",
    ),
    ("NACK", "ORDER.NACK $q o $last", Reads::Order, "NACK last"),
    (
        "NACK other",
        "ORDER.NACK $q o $other",
        Reads::Order,
        "NACK other",
    ),
    (
        "RENEW",
        "ORDER.RENEW $q o $last PX 700000",
        Reads::Lease,
        "RENEW last",
    ),
    (
        "RENEW other",
        "ORDER.RENEW $q o $other PX 700000",
        Reads::Lease,
        "RENEW other",
    ),
];

/// The state a command that was done leaves behind.
fn state_after(column: &str, met: Met) -> &'static str {
    match column.split(' ').next() {
        Some("FINISH" | "ACK" | "MACK") => "finished",
        Some("STATUS") => met.state(),
        Some("RENEW") => "leased",
        Some("NACK") => {
            if met == Met::LapsedLast {
                "dead"
            } else {
                "retrying"
            }
        }
        _ => "scheduled",
    }
}

#[test]
fn every_command_in_every_state_answers_as_the_table_says() {
    let server = Server::plain();
    let mut c = server.client();
    for (column, command, reads, of_page) in COLUMNS {
        let queue = |met: Met| format!("{column}/{met:?}");
        let fences: Vec<u64> = ROWS
            .iter()
            .map(|met| met.make(&mut c, &queue(*met)))
            .collect();
        for met in ROWS {
            // Only the clock brings these on: a lease or keep time of a millisecond.
            wait_until(SOON, met.state(), || {
                c.state(&queue(met), "o") == met.state()
            });
        }
        for (met, fence) in ROWS.into_iter().zip(fences) {
            let answer = met.answer(of_page);
            let queue = queue(met);
            let cell = format!("{column} on {met:?}");
            let before = (c.digest(&queue), cmd!(c, "ORDER.GET", &queue, "o").get());
            let words: Vec<String> = command
                .split(' ')
                .map(|word| match word {
                    "$q" => queue.clone(),
                    "$last" => fence.to_string(),
                    "$other" => (fence + 7).to_string(),
                    word => word.to_owned(),
                })
                .collect();
            let reply = c.run(&words);
            assert!(!reply.is_error(), "{cell}: {reply:?}");
            let outcome = match reads {
                Reads::Order => {
                    let reply = reply.order();
                    assert_eq!(reply.was, met.state(), "{cell}: was, of {reply:?}");
                    let after = if reply.outcome == "OK" {
                        state_after(column, met)
                    } else {
                        met.state()
                    };
                    assert_eq!(reply.state, after, "{cell}: state, of {reply:?}");
                    assert_eq!(
                        c.state(&queue, "o"),
                        after,
                        "{cell}: what GET shows after {reply:?}"
                    );
                    if after == "missing" {
                        let nothing = (
                            reply.status,
                            reply.deadline,
                            reply.rev,
                            reply.lease_ms,
                            reply.result,
                        );
                        assert_eq!(
                            nothing,
                            (None, -1, 0, -2, None),
                            "{cell}: the fields of no order"
                        );
                    }
                    reply.outcome
                }
                Reads::Lease => {
                    let reply = reply.lease();
                    assert_eq!(reply.state, met.state(), "{cell}: state, of {reply:?}");
                    if reply.outcome != "OK" && met != Met::Claimed {
                        assert_eq!(
                            (reply.lease_ms, reply.holds),
                            (-2, 0),
                            "{cell}: no lease, in {reply:?}"
                        );
                    }
                    reply.outcome
                }
                Reads::Words => {
                    let items = reply.items();
                    assert_eq!(items.len(), 1, "{cell}");
                    items[0].text()
                }
                Reads::Claims => match reply.claims().as_slice() {
                    [] => "-".to_owned(),
                    [row] => {
                        assert!(
                            row.fence > fence,
                            "{cell}: a larger fence than {fence}: {row:?}"
                        );
                        assert_eq!(
                            row.attempt,
                            if met == Met::Expired { 1 } else { 2 },
                            "{cell}: {row:?}"
                        );
                        "granted".to_owned()
                    }
                    rows => panic!("{cell}: {rows:?}"),
                },
            };
            assert_eq!(outcome, answer, "{cell}");
            // Nothing was done: nothing has changed. (What is past its keep
            // time may have been removed meanwhile; that is no answer's work.)
            if !matches!(outcome.as_str(), "OK" | "granted") && met != Met::KeepOver {
                let after = (c.digest(&queue), cmd!(c, "ORDER.GET", &queue, "o").get());
                assert_eq!(before.0, after.0, "{cell}: the digest");
                assert_eq!(
                    before.1.map(|o| o.ground()),
                    after.1.map(|o| o.ground()),
                    "{cell}: the record"
                );
            }
        }
    }
}

#[test]
fn every_reader_in_every_state() {
    let server = Server::plain();
    let mut c = server.client();
    for met in ROWS {
        let queue = format!("{met:?}");
        met.make(&mut c, &queue);
        wait_until(SOON, met.state(), || c.state(&queue, "o") == met.state());
        let pttl = cmd!(c, "ORDER.PTTL", &queue, "o").int();
        let expected = match met {
            Met::Missing | Met::KeepOver => -2..=-2,
            Met::Scheduled => 500_000..=600_000,
            Met::Finished => -1..=-1,
            _ => 0..=0,
        };
        assert!(expected.contains(&pttl), "PTTL on {met:?} is {pttl}");
        let next = cmd!(c, "ORDER.NEXT", &queue, "COUNT", 10).items().len();
        assert_eq!(next, usize::from(met == Met::Scheduled), "NEXT on {met:?}");
        let found = scan_all(&mut c, &queue, &[]);
        if met.state() == "missing" {
            assert!(found.is_empty(), "SCAN on {met:?}: {found:?}");
        } else {
            assert_eq!(
                found.get(&b"o"[..]).map(String::as_str),
                Some(met.state()),
                "SCAN on {met:?}"
            );
        }
        for state in [
            "scheduled",
            "expired",
            "leased",
            "retrying",
            "dead",
            "finished",
            "reserved",
        ] {
            let found = scan_all(&mut c, &queue, &["STATE", state]);
            assert_eq!(
                found.len(),
                usize::from(state == met.state()),
                "SCAN STATE {state} on {met:?}"
            );
        }
    }
}

/// A whole SCAN: id to state.
fn scan_all(c: &mut Client, queue: &str, filters: &[&str]) -> BTreeMap<Vec<u8>, String> {
    let mut found = BTreeMap::new();
    let mut cursor = "0".to_owned();
    for _ in 0..100_000 {
        let mut command = vec!["ORDER.SCAN", queue, &cursor];
        command.extend_from_slice(filters);
        let reply = c.run(&command);
        for row in reply.items()[1].items() {
            assert_eq!(row.items().len(), 7, "as the page says: {row:?}");
            found.insert(row.items()[0].bytes().to_vec(), row.items()[1].text());
        }
        cursor = match &reply.items()[0] {
            Value::Int(n) => n.to_string(),
            text => text.text(),
        };
        if cursor == "0" {
            return found;
        }
    }
    panic!("a SCAN of {queue} does not end");
}

// --- SCHEDULE ---------------------------------------------------------------

#[test]
fn schedule_takes_each_kind_of_time() {
    let server = Server::plain();
    let mut c = server.client();
    for (unit, value, ms) in [("PX", 90_000_u64, 90_000_u64), ("EX", 90, 90_000)] {
        let before = c.time_us();
        let reply = cmd!(c, "ORDER.SCHEDULE", "q", unit, unit, value)
            .order()
            .expect("OK");
        let after = c.time_us();
        let deadline = reply.deadline as u64;
        assert!(
            deadline >= before.div_ceil(1000) + ms,
            "{unit}: {deadline} is before {before} us + {ms} ms"
        );
        assert!(
            deadline <= after.div_ceil(1000) + ms,
            "{unit}: {deadline} is after {after} us + {ms} ms"
        );
        assert_eq!(
            (reply.state.as_str(), reply.was.as_str()),
            ("scheduled", "missing")
        );
    }
    let reply = cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "pxat",
        "PXAT",
        4_000_000_000_123_u64
    )
    .order()
    .expect("OK");
    assert_eq!(reply.deadline, 4_000_000_000_123);
    let reply = cmd!(c, "ORDER.SCHEDULE", "q", "exat", "EXAT", 4_000_000_000_u64)
        .order()
        .expect("OK");
    assert_eq!(reply.deadline, 4_000_000_000_000);

    // Now, in both units, and the past, stored as given.
    for unit in ["PX", "EX"] {
        let id = format!("{unit}0");
        let before = c.time_ms();
        let reply = cmd!(c, "ORDER.SCHEDULE", "q", &id, unit, 0)
            .order()
            .expect("OK");
        assert!(
            (before..=c.time_ms()).contains(&(reply.deadline as u64)),
            "{reply:?}"
        );
        assert_eq!(reply.state, "expired", "{unit} 0 is due at once");
    }
    let reply = cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "past",
        "PXAT",
        100_000_000_000_u64
    )
    .order()
    .expect("OK");
    assert_eq!(
        (reply.deadline, reply.state.as_str()),
        (100_000_000_000, "expired")
    );
    let reply = cmd!(c, "ORDER.SCHEDULE", "q", "1970", "EXAT", 0)
        .order()
        .expect("OK");
    assert_eq!((reply.deadline, reply.state.as_str()), (0, "expired"));
    let due = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 10).claims();
    assert_eq!(due.len(), 4, "{due:?}");
    assert_eq!(c.state("q", "PX"), "scheduled");
}

#[test]
fn schedule_is_safe_to_repeat() {
    let server = Server::plain();
    let mut c = server.client();
    let first = cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        60_000,
        "STATUS",
        "unpaid"
    )
    .order()
    .expect("OK");
    let again = cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        5,
        "STATUS",
        "other",
        "PAYLOAD",
        "x"
    )
    .order()
    .expect("EXISTS");
    assert_eq!(
        (again.deadline, again.rev, again.status),
        (first.deadline, first.rev, first.status)
    );
    assert_eq!(c.order("q", "1").text("payload"), "-");
}

#[test]
fn a_move_keeps_what_is_not_given_and_starts_over() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        0,
        "STATUS",
        "unpaid",
        "PAYLOAD",
        "basket"
    )
    .order()
    .expect("OK");
    let claim = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
    cmd!(
        c,
        "ORDER.NACK",
        "q",
        "1",
        claim.fence,
        "DEAD",
        "ERROR",
        "no"
    )
    .order()
    .expect("OK");
    let moved = cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 60_000, "XX")
        .order()
        .expect("OK");
    assert_eq!(
        (moved.was.as_str(), moved.state.as_str()),
        ("dead", "scheduled")
    );
    assert!(moved.rev > claim.fence, "{moved:?}");
    let order = c.order("q", "1");
    assert_eq!(
        (order.text("status"), order.text("payload")),
        ("unpaid".into(), "basket".into())
    );
    assert_eq!(order.int("attempt"), 0);
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        70_000,
        "XX",
        "STATUS",
        "late",
        "PAYLOAD",
        ""
    )
    .order()
    .expect("OK");
    let order = c.order("q", "1");
    assert_eq!(
        (order.text("status"), order.text("payload")),
        ("late".into(), String::new())
    );
    // The holder's move ends its claim.
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0, "XX")
        .order()
        .expect("OK");
    let claim = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
    let moved = cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        50,
        "FENCE",
        claim.fence
    )
    .order()
    .expect("OK");
    assert_eq!((moved.lease_ms, moved.was.as_str()), (-2, "leased"));
    cmd!(c, "ORDER.ACK", "q", "1", claim.fence)
        .order()
        .expect("STALE");
}

#[test]
fn gt_and_lt_move_strictly() {
    let server = Server::plain();
    let mut c = server.client();
    let at = 4_000_000_000_000_u64;
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PXAT", at)
        .order()
        .expect("OK");
    for (flag, to, outcome) in [
        ("GT", at, "UNCHANGED"),
        ("GT", at - 1, "UNCHANGED"),
        ("LT", at, "UNCHANGED"),
        ("LT", at + 1, "UNCHANGED"),
        ("GT", at + 1, "OK"),
        ("LT", at, "OK"),
    ] {
        let before = c.order("q", "1").ground();
        let reply = cmd!(c, "ORDER.SCHEDULE", "q", "1", "PXAT", to, flag)
            .order()
            .expect(outcome);
        if outcome == "UNCHANGED" {
            assert_eq!(c.order("q", "1").ground(), before, "{flag} {to}");
        } else {
            assert_eq!(reply.deadline as u64, to);
        }
    }
    // They imply XX, and with UPSERT only test what is there.
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PXAT", at, "GT")
        .order()
        .expect("MISSING");
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PXAT", at, "GT", "UPSERT")
        .order()
        .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PXAT", at, "GT", "UPSERT")
        .order()
        .expect("UNCHANGED");
    // A plain move to the same deadline is a write.
    let before = c.order("q", "2").int("rev");
    let reply = cmd!(c, "ORDER.SCHEDULE", "q", "2", "PXAT", at, "XX")
        .order()
        .expect("OK");
    assert!(reply.rev as i64 > before, "{reply:?}");
    // A reopened order has no deadline to compare with.
    cmd!(c, "ORDER.FINISH", "q", "2", "STATUS", "paid")
        .order()
        .expect("OK");
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "2",
        "PXAT",
        at,
        "LT",
        "UPSERT",
        "FROM",
        "paid"
    )
    .order()
    .expect("OK");
}

#[test]
fn guards_hold_a_write_back() {
    let server = Server::plain();
    let mut c = server.client();
    let rev = cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        60_000,
        "STATUS",
        "unpaid"
    )
    .order()
    .expect("OK")
    .rev;
    let before = c.digest("q");
    for command in [
        &["ORDER.SCHEDULE", "q", "1", "PX", "5"][..],
        &["ORDER.FINISH", "q", "1"],
        &["ORDER.STATUS", "q", "1", "other"],
    ] {
        let with = |more: &[&str]| -> Vec<String> {
            command.iter().chain(more).map(|&w| w.to_owned()).collect()
        };
        c.run(&with(&["FROM", "paid"])).order().expect("STATE");
        c.run(&with(&["FROM", "paid", "FROM", "closed", "FROM", ""]))
            .order()
            .expect("STATE");
        c.run(&with(&["IFREV", &(rev + 1).to_string()]))
            .order()
            .expect("STALE");
        c.run(&with(&["IFREV", "0"])).order().expect("STALE");
        c.run(&with(&["FENCE", "1"])).order().expect("STALE");
        // A stale rev wins over a wrong status.
        c.run(&with(&["FROM", "paid", "IFREV", "1"]))
            .order()
            .expect("STALE");
        assert_eq!(c.digest("q"), before, "{command:?}");
    }
    // A guard alone implies XX.
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 5, "FROM", "")
        .order()
        .expect("MISSING");
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "2",
        "PX",
        50_000,
        "IFREV",
        5,
        "UPSERT"
    )
    .order()
    .expect("OK");
    // The empty status has a name; and the guards let through what they name.
    cmd!(c, "ORDER.STATUS", "q", "2", "new", "FROM", "")
        .order()
        .expect("OK");
    let moved = cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        50_000,
        "FROM",
        "paid",
        "FROM",
        "unpaid",
        "IFREV",
        rev
    );
    let rev = moved.order().expect("OK").rev;
    let named = cmd!(
        c,
        "ORDER.STATUS",
        "q",
        "1",
        "late",
        "IFREV",
        rev,
        "FROM",
        "unpaid"
    )
    .order()
    .expect("OK");
    cmd!(c, "ORDER.FINISH", "q", "1", "IFREV", rev)
        .order()
        .expect("STALE");
    cmd!(
        c,
        "ORDER.FINISH",
        "q",
        "1",
        "IFREV",
        named.rev,
        "FROM",
        "late"
    )
    .order()
    .expect("OK");
}

#[test]
fn a_finished_order_reopens_only_for_who_names_its_status() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(
        c,
        "ORDER.FINISH",
        "q",
        "1",
        "CREATE",
        "STATUS",
        "paid",
        "RESULT",
        "pay:1"
    )
    .order()
    .expect("OK");
    for command in [
        &["NX"][..],
        &["XX"],
        &["UPSERT"],
        &["GT"],
        &["XX", "FROM", "unpaid"],
        &["UPSERT", "FROM", "unpaid"],
        &[],
    ] {
        let mut words = vec!["ORDER.SCHEDULE", "q", "1", "PX", "0"];
        words.extend_from_slice(command);
        let reply = c.run(&words).order().expect("FINISHED");
        assert_eq!(reply.result.as_deref(), Some(&b"pay:1"[..]), "{command:?}");
    }
    let reply = cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 60_000, "FROM", "paid")
        .order()
        .expect("OK");
    assert_eq!(
        (reply.was.as_str(), reply.state.as_str(), reply.result),
        ("finished", "scheduled", None)
    );
    let order = c.order("q", "1");
    assert_eq!(
        (order.int("keep_end"), order.text("result").as_str()),
        (-1, "-"),
        "both are gone"
    );
}

// --- FINISH and STATUS ------------------------------------------------------

#[test]
fn finish_frees_the_payload_and_keeps_the_rest() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        60_000,
        "STATUS",
        "unpaid",
        "PAYLOAD",
        "basket"
    )
    .order()
    .expect("OK");
    let before = c.time_us();
    let reply = cmd!(
        c,
        "ORDER.FINISH",
        "q",
        "1",
        "STATUS",
        "paid",
        "RESULT",
        "pay:1",
        "KEEP",
        5000
    )
    .order()
    .expect("OK");
    let after = c.time_us();
    assert_eq!(
        (reply.was.as_str(), reply.state.as_str()),
        ("scheduled", "finished")
    );
    assert_eq!(
        (reply.status_text().as_str(), reply.deadline, reply.lease_ms),
        ("paid", -1, -2)
    );
    assert_eq!(reply.result.as_deref(), Some(&b"pay:1"[..]));
    let order = c.order("q", "1");
    assert_eq!(
        (
            order.text("payload").as_str(),
            order.text("result").as_str()
        ),
        ("-", "pay:1")
    );
    let keep_end = order.int("keep_end") as u64;
    assert!(
        (before / 1000 + 5000..=after.div_ceil(1000) + 5000).contains(&keep_end),
        "{keep_end} after {before}"
    );
    // A duplicate and a second payment tell apart.
    let second = cmd!(
        c,
        "ORDER.FINISH",
        "q",
        "1",
        "STATUS",
        "paid",
        "RESULT",
        "pay:2"
    )
    .order()
    .expect("FINISHED");
    assert_eq!(second.result.as_deref(), Some(&b"pay:1"[..]));
    // The default keep time.
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 60_000)
        .order()
        .expect("OK");
    let now = c.time_ms();
    cmd!(c, "ORDER.FINISH", "q", "2").order().expect("OK");
    let keep_end = c.order("q", "2").int("keep_end") as u64;
    assert!(
        (now + 86_400_000..=now + 86_400_000 + 20_000).contains(&keep_end),
        "{keep_end}"
    );
    c.config("orderwheel.keep-ms", "7000");
    cmd!(c, "ORDER.SCHEDULE", "q", "3", "PX", 60_000)
        .order()
        .expect("OK");
    let now = c.time_ms();
    cmd!(c, "ORDER.FINISH", "q", "3").order().expect("OK");
    let keep_end = c.order("q", "3").int("keep_end") as u64;
    assert!(
        (now + 7000..=now + 7000 + 20_000).contains(&keep_end),
        "{keep_end}"
    );
}

#[test]
fn keep_0_forgets_at_once_and_an_empty_queue_is_no_key() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 60_000)
        .order()
        .expect("OK");
    assert_eq!(cmd!(c, "TYPE", "q").text(), "ordrwheel");
    let reply = cmd!(
        c,
        "ORDER.FINISH",
        "q",
        "1",
        "STATUS",
        "paid",
        "RESULT",
        "r",
        "KEEP",
        0
    )
    .order()
    .expect("OK");
    assert_eq!(reply.was, "scheduled");
    assert_eq!(c.state("q", "1"), "missing");
    assert_eq!(cmd!(c, "EXISTS", "q").int(), 0);
    // The same through ACK and MACK; and by the clock.
    for (id, keep) in [("2", "0"), ("3", "0"), ("4", "30")] {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0)
            .order()
            .expect("OK");
        let claim = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
        if id == "3" {
            let words = cmd!(c, "ORDER.MACK", "q", 1, id, claim.fence, "KEEP", keep);
            assert_eq!(words.items()[0].text(), "OK");
        } else {
            cmd!(c, "ORDER.ACK", "q", id, claim.fence, "KEEP", keep)
                .order()
                .expect("OK");
        }
        wait_until(SOON, "the key to go", || cmd!(c, "EXISTS", "q").int() == 0);
    }
    // A CREATE with KEEP 0 leaves nothing either.
    cmd!(c, "ORDER.FINISH", "q", "5", "CREATE", "KEEP", 0)
        .order()
        .expect("OK");
    assert_eq!(cmd!(c, "EXISTS", "q").int(), 0);
}

#[test]
fn no_refused_command_makes_a_key() {
    let server = Server::plain();
    let mut c = server.client();
    for command in [
        &["ORDER.SCHEDULE", "q", "1", "PX", "5", "XX"][..],
        &["ORDER.FINISH", "q", "1"],
        &["ORDER.STATUS", "q", "1", "s"],
        &["ORDER.CLAIM", "q", "me"],
        &["ORDER.CLAIM", "q", "me", "ID", "1"],
        &["ORDER.ACK", "q", "1", "5"],
        &["ORDER.MACK", "q", "1", "1", "5"],
        &["ORDER.NACK", "q", "1", "5"],
        &["ORDER.RENEW", "q", "1", "5", "PX", "5"],
        &["ORDER.GET", "q", "1"],
        &["ORDER.PTTL", "q", "1"],
        &["ORDER.NEXT", "q"],
        &["ORDER.SCAN", "q", "0"],
        &["ORDER.STATS", "q"],
    ] {
        let reply = c.run(command);
        assert!(!reply.is_error(), "{command:?}: {reply:?}");
        assert_eq!(cmd!(c, "EXISTS", "q").int(), 0, "{command:?}");
    }
}

#[test]
fn status_labels_and_moves_nothing() {
    let server = Server::plain();
    let mut c = server.client();
    let made = cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        60_000,
        "STATUS",
        "unpaid",
        "PAYLOAD",
        "a"
    )
    .order()
    .expect("OK");
    let reply = cmd!(c, "ORDER.STATUS", "q", "1", "asked")
        .order()
        .expect("OK");
    assert_eq!(
        (reply.status_text().as_str(), reply.deadline),
        ("asked", made.deadline)
    );
    assert!(reply.rev > made.rev);
    assert_eq!(c.order("q", "1").text("payload"), "a");
    cmd!(
        c,
        "ORDER.STATUS",
        "q",
        "1",
        "",
        "PAYLOAD",
        "b",
        "FROM",
        "asked"
    )
    .order()
    .expect("OK");
    let order = c.order("q", "1");
    assert_eq!(
        (
            order.text("status").as_str(),
            order.text("payload").as_str()
        ),
        ("", "b")
    );
    // The holder passes its fence; its lease stays.
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 0)
        .order()
        .expect("OK");
    let claim = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
    cmd!(c, "ORDER.STATUS", "q", "2", "x")
        .order()
        .expect("LEASED");
    let reply = cmd!(c, "ORDER.STATUS", "q", "2", "x", "FENCE", claim.fence)
        .order()
        .expect("OK");
    assert_eq!(reply.state, "leased");
    cmd!(c, "ORDER.ACK", "q", "2", claim.fence, "FROM", "x")
        .order()
        .expect("OK");
}

// --- CLAIM and what follows -------------------------------------------------

#[test]
fn claim_hands_out_in_the_order_of_becoming_claimable() {
    let server = Server::plain();
    let mut c = server.client();
    let now = c.time_ms();
    // Due at different moments of the past, then one handed back.
    for (id, ago) in [("b", 2000), ("a", 3000), ("c", 1000)] {
        cmd!(
            c,
            "ORDER.SCHEDULE",
            "q",
            id,
            "PXAT",
            now - ago,
            "STATUS",
            "unpaid",
            "PAYLOAD",
            id
        )
        .order()
        .expect("OK");
    }
    for i in 0..5 {
        cmd!(c, "ORDER.SCHEDULE", "tie", i, "PXAT", now + 30)
            .order()
            .expect("OK");
    }
    wait_until(SOON, "all to fall due", || c.state("tie", "4") == "expired");
    let ties: Vec<String> = cmd!(c, "ORDER.CLAIM", "tie", "me", "COUNT", 10)
        .claims()
        .iter()
        .map(Claimed::id_text)
        .collect();
    assert_eq!(ties, ["0", "1", "2", "3", "4"], "ties go in schedule order");

    let first = cmd!(c, "ORDER.CLAIM", "q", "closer-1", "PX", 9000).claims();
    assert_eq!(first.len(), 1, "COUNT is 1 unless given");
    let row = &first[0];
    assert_eq!(
        (row.attempt, row.lease_ms, row.status.as_slice()),
        (1, 9000, &b"unpaid"[..])
    );
    assert_eq!(row.payload.as_deref(), Some(row.id.as_slice()));
    let order = c.order("q", &row.id_text());
    assert_eq!(
        (order.text("owner").as_str(), order.text("kind").as_str()),
        ("closer-1", "claim")
    );
    assert_eq!(
        (order.fence(), order.int("rev") as u64, order.int("attempt")),
        (row.fence, row.fence, 1)
    );
    assert!((8000..=9000).contains(&order.int("lease_ms")), "{order:?}");
    let reply = cmd!(c, "ORDER.NACK", "q", &row.id, row.fence, "DELAY", 0)
        .order()
        .expect("OK");
    assert_eq!(reply.state, "expired");
    let rest: Vec<_> = cmd!(c, "ORDER.CLAIM", "q", "closer-2", "EX", 9, "COUNT", 10).claims();
    assert_eq!(rest.len(), 3);
    assert_eq!(rest[2].id, row.id, "what was handed back goes to the end");
    assert_eq!((rest[2].attempt, rest[2].lease_ms), (2, 9000));
    let fences: Vec<u64> = rest.iter().map(|r| r.fence).collect();
    assert!(
        fences.is_sorted() && fences[0] > row.fence,
        "{fences:?} after {}",
        row.fence
    );
    assert_eq!(
        fences.iter().collect::<BTreeSet<_>>().len(),
        3,
        "each grant has a fence of its own"
    );
}

#[test]
fn claims_are_bounded_by_count_payload_and_max_leased() {
    let server = Server::plain();
    let mut c = server.client();
    let big = vec![b'x'; 65_536];
    let commands: Vec<_> = (0..40)
        .map(|i| {
            argv![
                "ORDER.SCHEDULE",
                "big",
                format!("{i:02}"),
                "PX",
                0,
                "PAYLOAD",
                &big
            ]
        })
        .collect();
    assert!(
        c.pipeline(&commands)
            .iter()
            .all(|reply| reply.order().outcome == "OK")
    );
    let mut seen = BTreeSet::new();
    while seen.len() < 40 {
        let rows = cmd!(c, "ORDER.CLAIM", "big", "me", "COUNT", 1000).claims();
        assert!(
            !rows.is_empty(),
            "never nothing while one is due; {} so far",
            seen.len()
        );
        let payload: usize = rows
            .iter()
            .map(|row| row.payload.as_ref().map_or(0, Vec::len))
            .sum();
        assert!(
            payload <= 1 << 20,
            "{payload} bytes of payload in one CLAIM"
        );
        seen.extend(rows.into_iter().map(|row| row.id));
    }
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "big", "me", "COUNT", 1000).claims(),
        []
    );

    for i in 0..5 {
        cmd!(c, "ORDER.SCHEDULE", "q", i, "PX", 0)
            .order()
            .expect("OK");
    }
    c.config("orderwheel.max-leased", "2");
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 5).claims();
    assert_eq!(rows.len(), 2);
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 5).claims(), []);
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "q", "me", "ID", 4).claims(),
        [],
        "by id neither"
    );
    cmd!(c, "ORDER.ACK", "q", &rows[0].id, rows[0].fence)
        .order()
        .expect("OK");
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 5).claims().len(),
        1
    );
    c.config("orderwheel.max-leased", "0");
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 5).claims().len(),
        2
    );
}

#[test]
fn claim_by_id_takes_that_one() {
    let server = Server::plain();
    let mut c = server.client();
    for id in ["1", "2", "3"] {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0)
            .order()
            .expect("OK");
    }
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "2", "PX", 5000).claims();
    assert_eq!(
        (rows.len(), rows[0].id_text().as_str(), rows[0].lease_ms),
        (1, "2", 5000)
    );
    let rest: Vec<String> = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 9)
        .claims()
        .iter()
        .map(Claimed::id_text)
        .collect();
    assert_eq!(rest, ["1", "3"]);
}

#[test]
fn the_default_lease_is_the_setting() {
    let server = Server::plain();
    let mut c = server.client();
    for (id, lease) in [("1", 30_000), ("2", 1234)] {
        if lease != 30_000 {
            c.config("orderwheel.lease-ms", &lease.to_string());
        }
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0)
            .order()
            .expect("OK");
        assert_eq!(
            cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].lease_ms,
            lease
        );
    }
}

#[test]
fn ack_sets_status_and_result_and_checks_from() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0, "STATUS", "unpaid")
        .order()
        .expect("OK");
    let fence = cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].fence;
    let before = c.digest("q");
    cmd!(
        c,
        "ORDER.ACK",
        "q",
        "1",
        fence,
        "FROM",
        "paid",
        "STATUS",
        "closed"
    )
    .order()
    .expect("STATE");
    assert_eq!(c.digest("q"), before);
    let reply = cmd!(
        c,
        "ORDER.ACK",
        "q",
        "1",
        fence,
        "FROM",
        "paid",
        "FROM",
        "unpaid",
        "STATUS",
        "closed",
        "RESULT",
        "r"
    );
    let reply = reply.order().expect("OK");
    assert_eq!(
        (reply.was.as_str(), reply.status_text().as_str()),
        ("leased", "closed")
    );
    let again = cmd!(c, "ORDER.ACK", "q", "1", fence)
        .order()
        .expect("FINISHED");
    assert_eq!(
        again.result.as_deref(),
        Some(&b"r"[..]),
        "a redelivered ACK learns what happened"
    );
}

#[test]
fn mack_answers_for_each_pair() {
    let server = Server::plain();
    let mut c = server.client();
    for i in 0..4 {
        cmd!(
            c,
            "ORDER.SCHEDULE",
            "q",
            i,
            "PX",
            0,
            "STATUS",
            if i == 3 { "paid" } else { "unpaid" }
        )
        .order()
        .expect("OK");
    }
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 9).claims();
    let mut command = argv!["ORDER.MACK", "q", 6];
    for row in &rows {
        command.extend(argv![&row.id, row.fence]);
    }
    command.extend(argv![
        &rows[0].id,
        rows[0].fence,
        "nobody",
        5,
        "FROM",
        "unpaid",
        "STATUS",
        "closed"
    ]);
    let words: Vec<String> = c.run(&command).items().iter().map(Value::text).collect();
    assert_eq!(words, ["OK", "OK", "OK", "STATE", "FINISHED", "MISSING"]);
    assert_eq!(c.order("q", "1").text("status"), "closed");
    assert_eq!(c.state("q", "3"), "leased");
    // A thousand at once.
    let commands: Vec<_> = (0..1000)
        .map(|i| argv!["ORDER.SCHEDULE", "k", i, "PX", 0])
        .collect();
    c.pipeline(&commands);
    let rows = cmd!(c, "ORDER.CLAIM", "k", "me", "COUNT", 1000).claims();
    assert_eq!(rows.len(), 1000);
    let mut command = argv!["ORDER.MACK", "k", 1000];
    for row in &rows {
        command.extend(argv![&row.id, row.fence]);
    }
    command.extend(argv!["KEEP", 0]);
    assert!(
        c.run(&command)
            .items()
            .iter()
            .all(|word| word.text() == "OK")
    );
    assert_eq!(cmd!(c, "EXISTS", "k").int(), 0);
}

#[test]
fn nack_waits_its_delay_or_the_backoff() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
        .order()
        .expect("OK");
    let fence = cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].fence;
    let before = c.time_us();
    let reply = cmd!(
        c,
        "ORDER.NACK",
        "q",
        "1",
        fence,
        "DELAY",
        60,
        "ERROR",
        "gateway \r\n down"
    )
    .order()
    .expect("OK");
    assert_eq!(
        (reply.was.as_str(), reply.state.as_str(), reply.lease_ms),
        ("leased", "retrying", -2)
    );
    let order = c.order("q", "1");
    assert_eq!(order.field("error").bytes(), b"gateway \r\n down");
    let retry_at = order.int("retry_at") as u64;
    assert!(retry_at >= before / 1000 + 60, "{retry_at} after {before}");
    // Not handed out before, and then with the next attempt.
    let row = loop {
        let rows = cmd!(c, "ORDER.CLAIM", "q", "me").claims();
        if let [row] = rows.as_slice() {
            assert!(
                c.time_us() >= before + 60_000,
                "handed out before its delay was over"
            );
            break row.clone();
        }
        assert!(c.time_us() < before + 20_000_000, "never handed out again");
    };
    assert_eq!(row.attempt, 2);
    assert!(row.fence > fence);

    // The backoff, 10 % either way: 1000 ms doubling with each attempt.
    let expect_wait = |c: &mut Client, id: &str, fence: u64, wait: u64| {
        let before = c.time_ms();
        cmd!(c, "ORDER.NACK", "q", id, fence).order().expect("OK");
        let after = c.time_ms();
        let retry_at = c.order("q", id).int("retry_at") as u64;
        let (least, most) = (before + wait * 9 / 10, after + 1 + wait * 11 / 10);
        assert!(
            (least..=most).contains(&retry_at),
            "{} ms for {wait}",
            retry_at - before
        );
    };
    expect_wait(&mut c, "1", row.fence, 2000);
    // Up to its limit; with small settings, for time can not be hurried.
    c.config("orderwheel.backoff-ms", "20");
    c.config("orderwheel.backoff-ms-max", "50");
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 0)
        .order()
        .expect("OK");
    for (attempt, wait) in [(1, 20), (2, 40), (3, 50), (4, 50)] {
        let mut rows = Vec::new();
        wait_until(SOON, "the next attempt", || {
            rows = cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "2").claims();
            !rows.is_empty()
        });
        assert_eq!(rows[0].attempt, attempt);
        expect_wait(&mut c, "2", rows[0].fence, wait);
    }
}

#[test]
fn renew_lengthens_and_lt_shortens() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0, "STATUS", "unpaid")
        .order()
        .expect("OK");
    let fence = cmd!(c, "ORDER.CLAIM", "q", "me", "PX", 20_000).claims()[0].fence;
    let reply = cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 40_000)
        .lease()
        .expect("OK");
    assert!((39_000..=40_000).contains(&reply.lease_ms), "{reply:?}");
    assert_eq!(
        (reply.fence, reply.state.as_str(), reply.holds),
        (fence, "leased", 1)
    );
    assert_eq!(reply.status.as_deref(), Some(&b"unpaid"[..]));
    // Without LT never shorter, with LT never longer.
    let reply = cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 10_000)
        .lease()
        .expect("OK");
    assert!((35_000..=40_000).contains(&reply.lease_ms), "{reply:?}");
    let reply = cmd!(c, "ORDER.RENEW", "q", "1", fence, "EX", 60, "LT")
        .lease()
        .expect("OK");
    assert!((30_000..=40_000).contains(&reply.lease_ms), "{reply:?}");
    let reply = cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 5000, "LT")
        .lease()
        .expect("OK");
    assert!((1..=5000).contains(&reply.lease_ms), "{reply:?}");
    // Shortened to nothing it lapses and is offered again.
    cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 1, "LT")
        .lease()
        .expect("OK");
    wait_until(SOON, "the lapse", || c.state("q", "1") == "expired");
    cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 1000)
        .lease()
        .expect("GONE");
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].attempt, 2);
    // A cap counted from the grant.
    c.config("orderwheel.lease-ms-max", "50000");
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 0)
        .order()
        .expect("OK");
    let fence = cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "2", "PX", 40_000).claims()[0].fence;
    let granted = c.time_ms();
    std::thread::sleep(Duration::from_millis(20));
    let reply = cmd!(c, "ORDER.RENEW", "q", "2", fence, "PX", 50_000)
        .lease()
        .expect("OK");
    assert!(
        reply.lease_ms < 50_000,
        "past its cap: {reply:?} {} ms after the grant",
        c.time_ms() - granted
    );
    assert!(reply.lease_ms > 30_000, "{reply:?}");
}

// --- readers ----------------------------------------------------------------

#[test]
fn next_lists_the_earliest_in_order() {
    let server = Server::plain();
    let mut c = server.client();
    let base = c.time_ms() + 3_600_000;
    // Enough for slots that have been split, in an order that is none.
    let at = |i: u64| base + (i * 7919) % 5000 * 37;
    let commands: Vec<_> = (0..5000_u64)
        .map(|i| argv!["ORDER.SCHEDULE", "q", i, "PXAT", at(i)])
        .collect();
    assert!(
        c.pipeline(&commands)
            .iter()
            .all(|reply| reply.order().outcome == "OK")
    );
    let mut expected: Vec<(u64, String)> = (0..5000).map(|i| (at(i), i.to_string())).collect();
    expected.sort_by_key(|pair| pair.0);
    for count in [1, 2, 255, 256, 257, 1000] {
        let reply = cmd!(c, "ORDER.NEXT", "q", "COUNT", count);
        let rows: Vec<(u64, String)> = reply
            .items()
            .iter()
            .map(|r| (r.items()[1].int() as u64, r.items()[0].text()))
            .collect();
        assert_eq!(rows, expected[..count], "COUNT {count}");
    }
    assert_eq!(
        cmd!(c, "ORDER.NEXT", "q").items().len(),
        1,
        "COUNT is 1 unless given"
    );
    assert_eq!(c.stat("q", "next_deadline").int() as u64, expected[0].0);
}

#[test]
fn scan_meets_every_order_that_stays_and_filters() {
    let server = Server::plain();
    let mut c = server.client();
    let commands: Vec<_> = (0..3000_u64)
        .map(|i| {
            let status = ["unpaid", "paid", ""][usize::try_from(i % 3).unwrap()];
            argv![
                "ORDER.SCHEDULE",
                "q",
                format!("{}:{i}", i % 7),
                "PX",
                600_000,
                "STATUS",
                status
            ]
        })
        .collect();
    c.pipeline(&commands);
    let all = scan_all(&mut c, "q", &[]);
    assert_eq!(all.len(), 3000);
    assert_eq!(scan_all(&mut c, "q", &["COUNT", "1000"]).len(), 3000);
    assert_eq!(scan_all(&mut c, "q", &["STATUS", "paid"]).len(), 1000);
    assert_eq!(scan_all(&mut c, "q", &["STATUS", ""]).len(), 1000);
    assert_eq!(
        scan_all(&mut c, "q", &["STATE", "SCHEDULED", "STATUS", "nothing"]).len(),
        0
    );
    assert_eq!(scan_all(&mut c, "q", &["STATE", "expired"]).len(), 0);
    let threes = scan_all(&mut c, "q", &["MATCH", "3:*", "COUNT", "100"]);
    assert_eq!(threes.len(), (0..3000).filter(|i| i % 7 == 3).count());
    assert_eq!(
        scan_all(&mut c, "q", &["MATCH", "[12]:?"]).len(),
        4,
        "1:1 1:8 2:2 2:9"
    );

    // Orders that stay are met although others come and go meanwhile.
    let mut found = BTreeSet::new();
    let mut cursor = "0".to_owned();
    let mut round = 0;
    loop {
        let reply = cmd!(c, "ORDER.SCAN", "q", &cursor, "COUNT", 50);
        found.extend(
            reply.items()[1]
                .items()
                .iter()
                .map(|row| row.items()[0].text()),
        );
        cursor = match &reply.items()[0] {
            Value::Int(n) => n.to_string(),
            text => text.text(),
        };
        if cursor == "0" {
            break;
        }
        for i in 0..20 {
            let gone = 1500 + (round * 20 + i) % 1500;
            cmd!(
                c,
                "ORDER.FINISH",
                "q",
                format!("{}:{gone}", gone % 7),
                "KEEP",
                0
            );
            cmd!(
                c,
                "ORDER.SCHEDULE",
                "q",
                format!("new:{round}:{i}"),
                "PX",
                600_000
            );
        }
        round += 1;
    }
    for i in 0..1500_u64 {
        let id = format!("{}:{i}", i % 7);
        assert!(found.contains(&id), "{id} stayed and was never met");
    }
}

#[test]
fn stats_count_what_is_there_and_what_was_done() {
    let server = Server::plain();
    let mut c = server.client();
    for i in 0..6 {
        cmd!(
            c,
            "ORDER.SCHEDULE",
            "q",
            i,
            "PX",
            if i < 4 { 0 } else { 600_000 }
        )
        .order()
        .expect("OK");
    }
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 3).claims();
    cmd!(c, "ORDER.ACK", "q", &rows[0].id, rows[0].fence)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.NACK", "q", &rows[1].id, rows[1].fence, "DEAD")
        .order()
        .expect("OK");
    cmd!(c, "ORDER.FINISH", "q", 5).order().expect("OK");
    cmd!(c, "ORDER.ACK", "q", &rows[2].id, 5)
        .order()
        .expect("STALE");
    for (field, value) in [
        ("scheduled", 1),
        ("expired", 1),
        ("leased", 1),
        ("retrying", 0),
        ("dead", 1),
        ("finished", 2),
        ("reserved", 0),
        ("orders", 6),
        ("live_claims", 1),
        ("claim_waiters", 0),
        ("scheduled_total", 6),
        // By FINISH; who was acknowledged is counted on its own.
        ("finished_total", 1),
        ("claimed_total", 3),
        ("acked_total", 1),
        ("nacked_total", 1),
        ("lapsed_total", 0),
        ("stale_total", 1),
        ("behind_ms", 0),
    ] {
        assert_eq!(c.stat("q", field).int(), value, "{field}");
    }
    assert!(c.stat("q", "bytes").int() > 0);
    assert_eq!(c.stat("nothing here", "orders").int(), 0);
    assert_eq!(c.stat("nothing here", "next_deadline").int(), -1);
    let names: Vec<String> = cmd!(c, "ORDER.STATS", "q")
        .pairs()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    for name in [
        "next_deadline",
        "oldest_expired_ms",
        "behind_ms",
        "lateness_ms_p50",
        "lateness_ms_p99",
        "lateness_ms_max",
        "claim_wait_ms_p50",
        "claim_wait_ms_p99",
        "claim_wait_ms_max",
        "close_ms_p50",
        "close_ms_p99",
        "close_ms_max",
        "bytes",
        "dump_bytes",
        "dead_total",
        "dead_dropped_total",
        "lease-ms",
        "max-attempts",
        "backoff-ms",
        "backoff-ms-max",
        "keep-ms",
        "max-leased",
        "dead-max",
    ] {
        assert!(
            names.iter().any(|n| n == name),
            "STATS lacks {name}: {names:?}"
        );
    }
    assert_eq!(
        names.len(),
        names.iter().collect::<BTreeSet<_>>().len(),
        "each name once: {names:?}"
    );
    assert_eq!(c.info("orderwheel", "orderwheel_panics_total"), "0");
    assert_eq!(c.info_number("orderwheel", "orderwheel_scheduled_total"), 6);
    assert_eq!(c.info_number("orderwheel", "orderwheel_claimed_total"), 3);
    assert_eq!(c.info_number("orderwheel", "orderwheel_queues"), 1);
    // One of which nothing but a setting is known counts as well.
    cmd!(c, "ORDER.CONFIG", "set", "SET", "keep-ms", 5000);
    assert_eq!(c.info_number("orderwheel", "orderwheel_queues"), 2);
    cmd!(c, "ORDER.CONFIG", "set", "RESET");
    assert_eq!(c.info_number("orderwheel", "orderwheel_queues"), 1);
}

// --- shapes -----------------------------------------------------------------

#[test]
fn replies_have_their_shapes_in_both_protocols() {
    let server = Server::plain();
    let (mut two, mut three) = (server.client(), server.client3());
    for (c, q) in [(&mut two, "two"), (&mut three, "three")] {
        let maps = q == "three";
        let named = |reply: &Value, names: &[&str]| {
            if maps {
                let Value::Map(pairs) = reply else {
                    panic!("a map in RESP3: {reply:?}")
                };
                assert_eq!(
                    pairs.iter().map(|(k, _)| k.text()).collect::<Vec<_>>(),
                    names
                );
            } else {
                let Value::Array(items) = reply else {
                    panic!("an array in RESP2: {reply:?}")
                };
                assert_eq!(items.len(), names.len(), "{reply:?}");
            }
        };
        named(
            &cmd!(c, "ORDER.SCHEDULE", q, "1", "PX", 0, "STATUS", "unpaid"),
            &ORDER_REPLY,
        );
        named(&cmd!(c, "ORDER.FINISH", q, "nobody"), &ORDER_REPLY);
        let claims = cmd!(c, "ORDER.CLAIM", q, "me", "COUNT", 10);
        let Value::Array(rows) = &claims else {
            panic!("{claims:?}")
        };
        let Value::Array(row) = &rows[0] else {
            panic!("{claims:?}")
        };
        assert_eq!(row.len(), 7);
        assert!(matches!(row[6], Value::Nil), "no payload is null: {row:?}");
        assert_eq!(
            cmd!(c, "ORDER.CLAIM", q, "me"),
            Value::Array(vec![]),
            "no claim is an empty array, not null"
        );
        let fence = row[1].int();
        named(
            &cmd!(c, "ORDER.RENEW", q, "1", fence, "PX", 9000),
            &LEASE_REPLY,
        );
        named(
            &cmd!(c, "ORDER.RENEW", q, "nobody", fence, "PX", 9000),
            &LEASE_REPLY,
        );
        named(
            &cmd!(c, "ORDER.STATUS", q, "1", "x", "FENCE", fence),
            &ORDER_REPLY,
        );
        named(&cmd!(c, "ORDER.NACK", q, "1", 5), &ORDER_REPLY);
        named(
            &cmd!(c, "ORDER.ACK", q, "1", fence, "RESULT", "r"),
            &ORDER_REPLY,
        );
        let words = cmd!(c, "ORDER.MACK", q, 2, "1", fence, "2", fence);
        assert_eq!(
            words.items().iter().map(Value::text).collect::<Vec<_>>(),
            ["FINISHED", "MISSING"]
        );
        let get = cmd!(c, "ORDER.GET", q, "1");
        assert_eq!(matches!(get, Value::Map(_)), maps, "{get:?}");
        assert_eq!(get.get().unwrap().names(), GET_FIELDS);
        assert_eq!(cmd!(c, "ORDER.GET", q, "nobody"), Value::Nil);
        let stats = cmd!(c, "ORDER.STATS", q);
        assert_eq!(matches!(stats, Value::Map(_)), maps, "{stats:?}");
        let scan = cmd!(c, "ORDER.SCAN", q, 0);
        assert_eq!(scan.items().len(), 2, "{scan:?}");
        assert!(
            matches!(scan.items()[1].items()[0], Value::Array(_)),
            "{scan:?}"
        );
        assert_eq!(cmd!(c, "ORDER.NEXT", q), Value::Array(vec![]));
        assert!(matches!(cmd!(c, "ORDER.PTTL", q, "1"), Value::Int(-1)));
    }
    // The nulls themselves differ.
    two.send_raw(b"*3\r\n$9\r\nORDER.GET\r\n$3\r\ntwo\r\n$1\r\nx\r\nPING\r\n");
    assert_eq!(
        (two.read(), two.read()),
        (Value::Nil, Value::Simple("PONG".into()))
    );
}

#[test]
fn too_few_arguments_are_the_servers_own_error() {
    let server = Server::plain();
    let mut c = server.client();
    for (command, least) in [
        ("ORDER.SCHEDULE q id PX 5", 5),
        ("ORDER.FINISH q id", 3),
        ("ORDER.STATUS q id status", 4),
        ("ORDER.CLAIM q owner", 3),
        ("ORDER.ACK q id 5", 4),
        ("ORDER.MACK q 1 id 5", 5),
        ("ORDER.NACK q id 5", 4),
        ("ORDER.RENEW q id 5 PX 5", 6),
        ("ORDER.GET q id", 3),
        ("ORDER.PTTL q id", 3),
        ("ORDER.NEXT q", 2),
        ("ORDER.SCAN q 0", 3),
        ("ORDER.STATS q", 2),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        assert_eq!(words.len(), least, "{command}");
        for len in 1..least {
            let reply = c.run(&words[..len]);
            let text = format!(
                "err wrong number of arguments for '{}' command",
                words[0].to_lowercase()
            );
            assert_eq!(reply.error().to_lowercase(), text, "{:?}", &words[..len]);
        }
        assert!(!c.run(&words).is_error(), "{command}");
        // One more word, which is no option.
        let mut more = words.clone();
        more.push("NONSENSE");
        let reply = c.run(&more);
        let error = reply.error();
        assert!(
            error.starts_with("ERR syntax error") || error.contains("wrong number of arguments"),
            "{more:?}: {error}"
        );
        cmd!(c, "DEL", "q");
    }
}

#[test]
fn another_type_is_refused_by_each() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "SET", "s", "text").ok();
    for command in [
        "ORDER.SCHEDULE s id PX 5",
        "ORDER.FINISH s id CREATE",
        "ORDER.STATUS s id status",
        "ORDER.CLAIM s owner",
        "ORDER.CLAIM s owner BLOCK 100",
        "ORDER.ACK s id 5",
        "ORDER.MACK s 1 id 5",
        "ORDER.NACK s id 5",
        "ORDER.RENEW s id 5 PX 5",
        "ORDER.GET s id",
        "ORDER.PTTL s id",
        "ORDER.NEXT s",
        "ORDER.SCAN s 0",
        "ORDER.STATS s",
    ] {
        let reply = c.run(&command.split(' ').collect::<Vec<_>>());
        assert_eq!(
            reply.error(),
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "{command}"
        );
        // Syntax and range come first.
        let reply = c.run(&format!("{command} NONSENSE").split(' ').collect::<Vec<_>>());
        assert!(
            reply.error().starts_with("ERR "),
            "{command} NONSENSE: {reply:?}"
        );
    }
    assert_eq!(cmd!(c, "GET", "s").text(), "text");
}

#[test]
fn when_memory_is_full_only_what_adds_is_refused() {
    let server = Server::plain();
    let mut c = server.client();
    for id in ["1", "2", "3", "4"] {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0)
            .order()
            .expect("OK");
    }
    cmd!(c, "ORDER.SCHEDULE", "q", "5", "PX", 600_000)
        .order()
        .expect("OK");
    c.config("maxmemory", "1");
    for command in ["ORDER.SCHEDULE q 9 PX 5", "ORDER.STATUS q 5 x"] {
        let reply = c.run(&command.split(' ').collect::<Vec<_>>());
        assert!(reply.error().starts_with("OOM "), "{command}: {reply:?}");
    }
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 3).claims();
    assert_eq!(rows.len(), 3);
    cmd!(
        c,
        "ORDER.RENEW",
        "q",
        &rows[0].id,
        rows[0].fence,
        "PX",
        90_000
    )
    .lease()
    .expect("OK");
    cmd!(c, "ORDER.ACK", "q", &rows[0].id, rows[0].fence)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.NACK", "q", &rows[1].id, rows[1].fence)
        .order()
        .expect("OK");
    assert_eq!(
        cmd!(c, "ORDER.MACK", "q", 1, &rows[2].id, rows[2].fence).items()[0].text(),
        "OK"
    );
    cmd!(c, "ORDER.FINISH", "q", "5", "STATUS", "paid")
        .order()
        .expect("OK");
    cmd!(c, "ORDER.FINISH", "q", "6", "CREATE")
        .order()
        .expect("OK");
    for command in [
        "ORDER.GET q 5",
        "ORDER.PTTL q 5",
        "ORDER.NEXT q",
        "ORDER.SCAN q 0",
        "ORDER.STATS q",
    ] {
        assert!(
            !c.run(&command.split(' ').collect::<Vec<_>>()).is_error(),
            "{command}"
        );
    }
}

/// A queue of one order cost 1.8 KB: counters, histograms, three wheels.
#[test]
fn a_key_of_one_order_is_small_and_memory_usage_knows_it() {
    let server = Server::plain();
    let mut c = server.client();
    let keys = |prefix: &str, n: usize| -> Vec<String> {
        (0..n).map(|at| format!("{prefix}:{at:06}")).collect()
    };
    let order = |queue: &String, id: usize| -> Vec<String> {
        let id = format!("order-{id:014}");
        [
            "ORDER.SCHEDULE",
            queue,
            &id,
            "PX",
            "900000",
            "STATUS",
            "unpaid",
        ]
        .map(str::to_owned)
        .to_vec()
    };
    let used = |c: &mut Client| c.info_number("memory", "used_memory");
    // So many keys that their table does not grow while it is measured.
    let fill = keys("fill", 5000);
    let sets: Vec<_> = fill
        .iter()
        .map(|key| ["SET", key, "x"].map(str::to_owned).to_vec())
        .collect();
    c.pipeline(&sets);
    // Row: orders in each of 1000 queues, and the most bytes of such a key.
    for (orders, most) in [(1, 420), (10, 1200)] {
        let queues = keys("queue", 1000);
        // The buffers of this connection have their size after a first round.
        let warm: Vec<_> = (0..orders)
            .map(|id| order(&"warm".to_owned(), id))
            .collect();
        c.pipeline(&warm);
        let before = used(&mut c);
        for some in queues.chunks(50) {
            let commands: Vec<_> = some
                .iter()
                .flat_map(|queue| (0..orders).map(|id| order(queue, id)))
                .collect();
            for reply in c.pipeline(&commands) {
                reply.order().expect("OK");
            }
        }
        let each = (used(&mut c) - before) / 1000;
        let said = cmd!(c, "MEMORY", "USAGE", &queues[500]).int();
        assert!(each <= most, "a key of {orders} costs {each} bytes");
        // What the key itself takes is reckoned by the server: Valkey 8 reckons a key
        // and its entry, which it keeps in one block, as two.
        assert!(
            (each * 8..=each * 12).contains(&(said * 10)),
            "MEMORY USAGE says {said} of {each} bytes"
        );
        c.run(&["FLUSHALL", "SYNC"]).ok();
        c.pipeline(&sets);
    }
}

/// Names of owners, and what the allocator rounds pages of leases up to, were left out:
/// a queue of locks took a sixth more than was said.
#[test]
fn memory_usage_knows_what_leases_take() {
    /// Makes the command for one order.
    type Make<'m> = &'m dyn Fn(usize) -> Vec<Vec<u8>>;
    const ORDERS: usize = 20_000;
    let server = Server::plain();
    let mut c = server.client();
    let used = |c: &mut Client| c.info_number("memory", "used_memory");
    let lock = |i: usize, owner: &str| argv!["ORDER.LOCK", "q", i, owner, "PX", 600_000];
    let schedule = |i: usize| argv!["ORDER.SCHEDULE", "q", i, "PX", 0];
    // Row: what is made, and whether it is claimed then, so many at a time.
    let rows: [(&str, Make<'_>, usize); 4] = [
        ("locks, short names", &|i| lock(i, "me"), 0),
        ("locks, long names", &|i| lock(i, &"m".repeat(100)), 0),
        ("claims of one", &schedule, 1),
        ("claims of a hundred", &schedule, 100),
    ];
    // Little more than this is what an empty server holds, with this connection's buffers.
    let empty = used(&mut c) + (1 << 20);
    for (what, make, claim) in rows {
        // The buffers of this connection have their size after a first round.
        let commands: Vec<_> = (0..ORDERS).map(make).collect();
        c.pipeline(&commands[..1000]);
        c.run(&["FLUSHALL", "SYNC"]).ok();
        // Freed elsewhere: when the memory is back.
        let mut before = used(&mut c);
        wait_until(SOON, "the memory to be back", || {
            std::thread::sleep(Duration::from_millis(20));
            let last = std::mem::replace(&mut before, used(&mut c));
            last <= before && before < empty
        });
        let before = used(&mut c);
        c.pipeline(&commands);
        let claims = vec![argv!["ORDER.CLAIM", "q", "me", "COUNT", claim]; ORDERS / claim.max(1)];
        if claim > 0 {
            c.pipeline(&claims);
            assert_eq!(c.stat("q", "leased").int(), ORDERS as i64);
        }
        let grown = used(&mut c) - before;
        let said = cmd!(c, "MEMORY", "USAGE", "q").int();
        assert!(
            (grown * 9..=grown * 11).contains(&(said * 10)),
            "{what}: MEMORY USAGE says {said} of {grown} bytes"
        );
    }
}

// --- options ----------------------------------------------------------------

#[test]
fn options_work_in_any_order_and_case() {
    let server = Server::plain();
    let mut c = server.client();
    let at = "4000000000000";
    let options: Vec<Vec<&str>> = vec![
        vec!["PXAT", at],
        vec!["UPSERT"],
        vec!["GT"],
        vec!["FROM", "unpaid"],
        vec!["STATUS", "moved"],
        vec!["PAYLOAD", "PX"],
    ];
    let mut rounds = 0_u32;
    permutations(&options, &mut |order| {
        rounds += 1;
        let lower = rounds.is_multiple_of(2);
        cmd!(
            c,
            "ORDER.SCHEDULE",
            "q",
            "1",
            "PX",
            1000,
            "STATUS",
            "unpaid"
        )
        .order()
        .expect("OK");
        let mut words = vec!["ORDER.SCHEDULE".to_owned(), "q".into(), "1".into()];
        for option in order {
            let name = if lower {
                option[0].to_lowercase()
            } else {
                option[0].to_owned()
            };
            words.push(name);
            words.extend(option[1..].iter().map(|&w| w.to_owned()));
        }
        let reply = c.run(&words);
        let reply = reply.order();
        assert_eq!(
            (
                reply.outcome.as_str(),
                reply.deadline,
                reply.status_text().as_str()
            ),
            ("OK", 4_000_000_000_000, "moved"),
            "{words:?}"
        );
        assert_eq!(c.order("q", "1").text("payload"), "PX", "{words:?}");
        cmd!(c, "DEL", "q");
    });
    assert_eq!(rounds, 720);

    let each = |prefix: &[&str],
                options: &[&[&str]],
                prepare: &mut dyn FnMut(&mut Client) -> Option<u64>,
                c: &mut Client| {
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let options: Vec<Vec<&str>> = options.iter().map(|o| o.to_vec()).collect();
        permutations(&options, &mut |order| {
            cmd!(c, "DEL", "q");
            let fence = prepare(c);
            let mut words: Vec<String> = prefix.iter().map(|&w| w.to_owned()).collect();
            words.extend(order.iter().flatten().map(|&w| w.to_owned()));
            for word in &mut words {
                if word == "$fence" {
                    *word = fence.unwrap_or(0).to_string();
                }
            }
            let reply = c.run(&words);
            assert!(!reply.is_error(), "{words:?}: {reply:?}");
            let order = cmd!(c, "ORDER.GET", "q", "1").get().expect("there");
            seen.insert(
                ["state", "status", "result", "payload", "error", "owner"]
                    .map(|f| order.text(f))
                    .join("|"),
            );
        });
        assert_eq!(
            seen.len(),
            1,
            "the order of options makes a difference: {seen:?}"
        );
        seen.pop_first().unwrap()
    };
    let mut scheduled = |c: &mut Client| {
        cmd!(
            c,
            "ORDER.SCHEDULE",
            "q",
            "1",
            "PX",
            60_000,
            "STATUS",
            "unpaid"
        )
        .order()
        .expect("OK");
        None
    };
    let finish: &[&[&str]] = &[
        &["STRICT"],
        &["FROM", "unpaid"],
        &["STATUS", "s"],
        &["RESULT", "r"],
        &["KEEP", "90000"],
    ];
    assert_eq!(
        each(&["ORDER.FINISH", "q", "1"], finish, &mut scheduled, &mut c),
        "finished|s|r|-|-|-"
    );
    let status: &[&[&str]] = &[&["FROM", "x"], &["FROM", "unpaid"], &["PAYLOAD", "p"]];
    assert_eq!(
        each(
            &["ORDER.STATUS", "q", "1", "s"],
            status,
            &mut scheduled,
            &mut c
        ),
        "scheduled|s|-|p|-|-"
    );
    let mut claimed = |c: &mut Client| {
        cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0, "STATUS", "unpaid")
            .order()
            .expect("OK");
        Some(cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].fence)
    };
    let ack: &[&[&str]] = &[
        &["FROM", "unpaid"],
        &["STATUS", "s"],
        &["RESULT", "r"],
        &["KEEP", "90000"],
    ];
    assert!(
        each(
            &["ORDER.ACK", "q", "1", "$fence"],
            ack,
            &mut claimed,
            &mut c
        )
        .starts_with("finished|s|r|-|-|")
    );
    let mack: &[&[&str]] = &[&["FROM", "unpaid"], &["STATUS", "s"], &["KEEP", "90000"]];
    assert!(
        each(
            &["ORDER.MACK", "q", "1", "1", "$fence"],
            mack,
            &mut claimed,
            &mut c
        )
        .starts_with("finished|s|-|-|-|")
    );
    let nack: &[&[&str]] = &[&["DELAY", "90000"], &["ERROR", "DEAD"]];
    assert!(
        each(
            &["ORDER.NACK", "q", "1", "$fence"],
            nack,
            &mut claimed,
            &mut c
        )
        .starts_with("retrying|unpaid|-|-|DEAD|")
    );
    let nack: &[&[&str]] = &[&["DEAD"], &["ERROR", "DELAY"]];
    assert!(
        each(
            &["ORDER.NACK", "q", "1", "$fence"],
            nack,
            &mut claimed,
            &mut c
        )
        .starts_with("dead|unpaid|-|-|DELAY|")
    );
    let mut due = |c: &mut Client| {
        cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
            .order()
            .expect("OK");
        None
    };
    let claim: &[&[&str]] = &[&["PX", "5000"], &["COUNT", "10"], &["BLOCK", "100"]];
    assert_eq!(
        each(&["ORDER.CLAIM", "q", "COUNT"], claim, &mut due, &mut c),
        "leased||-|-|-|COUNT"
    );
    let claim: &[&[&str]] = &[&["EX", "5"], &["ID", "1"]];
    assert_eq!(
        each(&["ORDER.CLAIM", "q", "ID"], claim, &mut due, &mut c),
        "leased||-|-|-|ID"
    );
    let scan: &[&[&str]] = &[
        &["STATE", "expired"],
        &["STATUS", ""],
        &["MATCH", "1"],
        &["COUNT", "10"],
    ];
    assert_eq!(
        each(&["ORDER.SCAN", "q", "0"], scan, &mut due, &mut c),
        "expired||-|-|-|-"
    );
}

#[test]
fn contradictions_are_syntax_errors_and_change_nothing() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0, "STATUS", "unpaid")
        .order()
        .expect("OK");
    let before = c.digest("q");
    for command in [
        "ORDER.SCHEDULE q 1 STATUS x PAYLOAD y",
        "ORDER.SCHEDULE q 1 PX 5 EX 5",
        "ORDER.SCHEDULE q 1 PX 5 PX 5",
        "ORDER.SCHEDULE q 1 PXAT 1795958000000 EXAT 1795958000",
        "ORDER.SCHEDULE q 1 PX 5 NX XX",
        "ORDER.SCHEDULE q 1 PX 5 NX UPSERT",
        "ORDER.SCHEDULE q 1 PX 5 XX UPSERT",
        "ORDER.SCHEDULE q 1 PX 5 XX XX",
        "ORDER.SCHEDULE q 1 PX 5 GT LT",
        "ORDER.SCHEDULE q 1 PX 5 NX GT",
        "ORDER.SCHEDULE q 1 PX 5 NX LT",
        "ORDER.SCHEDULE q 1 PX 5 NX FROM unpaid",
        "ORDER.SCHEDULE q 1 PX 5 NX IFREV 5",
        "ORDER.SCHEDULE q 1 PX 5 FENCE 5 NX",
        "ORDER.SCHEDULE q 1 PX 5 XX IFREV 5 IFREV 5",
        "ORDER.SCHEDULE q 1 PX 5 XX FENCE 5 FENCE 5",
        "ORDER.SCHEDULE q 1 PX 5 STATUS a STATUS b",
        "ORDER.SCHEDULE q 1 PX 5 PAYLOAD a PAYLOAD b",
        "ORDER.SCHEDULE q 1 XX PX",
        "ORDER.SCHEDULE q 1 PX 5 STATUS",
        "ORDER.SCHEDULE q 1 PX 5 FROM",
        "ORDER.SCHEDULE q 1 PX 5 KEEP 5",
        "ORDER.FINISH q 1 CREATE FENCE 5",
        "ORDER.FINISH q 1 IFREV 5 CREATE",
        "ORDER.FINISH q 1 STRICT STRICT",
        "ORDER.FINISH q 1 CREATE CREATE",
        "ORDER.FINISH q 1 KEEP 5 KEEP 5",
        "ORDER.FINISH q 1 RESULT a RESULT b",
        "ORDER.FINISH q 1 RESULT",
        "ORDER.FINISH q 1 PX 5",
        "ORDER.STATUS q 1 s PAYLOAD a PAYLOAD b",
        "ORDER.STATUS q 1 s KEEP 5",
        "ORDER.CLAIM q me PX 5 EX 5",
        "ORDER.CLAIM q me PX 5 PX 5",
        "ORDER.CLAIM q me COUNT 5 COUNT 5",
        "ORDER.CLAIM q me BLOCK 5 BLOCK 5",
        "ORDER.CLAIM q me ID 1 COUNT 5",
        "ORDER.CLAIM q me BLOCK 5 ID 1",
        "ORDER.CLAIM q me ID 1 ID 2",
        "ORDER.CLAIM q me ID",
        "ORDER.CLAIM q me PXAT 1795958000000",
        "ORDER.ACK q 1 5 STATUS a STATUS b",
        "ORDER.ACK q 1 5 KEEP 5 KEEP 5",
        "ORDER.ACK q 1 5 IFREV 5",
        "ORDER.ACK q 1 5 RESULT",
        "ORDER.MACK q 2 1 5",
        "ORDER.MACK q 1 1 5 2 5",
        "ORDER.MACK q 1 1 5 RESULT r",
        "ORDER.NACK q 1 5 DEAD DELAY 5",
        "ORDER.NACK q 1 5 DELAY 5 DEAD",
        "ORDER.NACK q 1 5 DEAD DEAD",
        "ORDER.NACK q 1 5 DELAY 5 DELAY 5",
        "ORDER.NACK q 1 5 ERROR a ERROR b",
        "ORDER.RENEW q 1 5 LT LT",
        "ORDER.RENEW q 1 5 PX 5 EX 5",
        "ORDER.RENEW q 1 5 PX 5 LT LT",
        "ORDER.NEXT q COUNT",
        "ORDER.NEXT q COUNT 5 COUNT 5",
        "ORDER.SCAN q 0 STATE nowhere",
        "ORDER.SCAN q 0 STATE dead STATE dead",
        "ORDER.SCAN q 0 MATCH a MATCH b",
        "ORDER.SCAN q 0 COUNT",
        "ORDER.GET q 1 2",
        "ORDER.PTTL q 1 2",
        "ORDER.STATS q q",
    ] {
        let reply = c.run(&command.split(' ').collect::<Vec<_>>());
        let error = reply.error();
        assert!(
            error.starts_with("ERR syntax error")
                || error.starts_with("ERR wrong number of arguments"),
            "{command}: {error}"
        );
        assert_eq!(c.digest("q"), before, "{command}");
    }
}

// --- transactions and scripts -----------------------------------------------

#[test]
fn everything_works_in_transactions_and_scripts() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    cmd!(c, "MULTI").ok();
    for command in [
        "ORDER.SCHEDULE q 1 PX 0 STATUS unpaid",
        "ORDER.SCHEDULE q 2 PX 60000",
        "ORDER.CLAIM q me BLOCK 100000",
        "ORDER.CLAIM q me BLOCK 100000",
        "ORDER.FINISH q 2 STATUS paid",
        "ORDER.GET q 2",
        "ORDER.PTTL q 2",
        "ORDER.STATS q",
    ] {
        assert_eq!(
            c.run(&command.split(' ').collect::<Vec<_>>()).text(),
            "QUEUED"
        );
    }
    let replies = cmd!(c, "EXEC");
    let replies = replies.items();
    assert_eq!(replies[2].claims().len(), 1);
    assert_eq!(replies[3].claims().len(), 0, "BLOCK is ignored");
    replies[4].order().expect("OK");
    assert_eq!(replies[5].get().unwrap().text("status"), "paid");

    let script = "
        local made = redis.call('ORDER.SCHEDULE', KEYS[1], 'a', 'PX', 0)
        local rows = redis.call('ORDER.CLAIM', KEYS[1], 'lua', 'BLOCK', 0)
        local none = redis.call('ORDER.CLAIM', KEYS[1], 'lua', 'BLOCK', 0)
        local fence = string.format('%.0f', rows[1][2])
        local done = redis.call('ORDER.MACK', KEYS[1], 1, 'a', fence)
        local bad = redis.pcall('ORDER.SCHEDULE', KEYS[1], 'b', 'PX', '-1')
        return {made[1], #rows, #none, done[1], bad.err}";
    let reply = cmd!(c, "EVAL", script, 1, "lua");
    let items = reply.items();
    assert_eq!(
        (items[0].text().as_str(), items[1].int(), items[2].int()),
        ("OK", 1, 0),
        "{reply:?}"
    );
    assert_eq!(items[3].text(), "OK");
    assert!(items[4].text().contains("PX"), "{reply:?}");
}

#[test]
fn watch_sees_a_write_and_not_a_refusal() {
    let server = Server::plain();
    let (mut a, mut b) = (server.client(), server.client());
    cmd!(a, "ORDER.SCHEDULE", "q", "1", "PX", 60_000)
        .order()
        .expect("OK");
    for (command, aborts) in [
        ("ORDER.SCHEDULE q 1 PX 5", false),
        ("ORDER.FINISH q 2", false),
        ("ORDER.CLAIM q me", false),
        ("ORDER.GET q 1", false),
        ("ORDER.STATS q", false),
        ("ORDER.STATUS q 1 x", true),
        ("ORDER.SCHEDULE q 3 PX 60000", true),
    ] {
        cmd!(a, "WATCH", "q").ok();
        assert!(!b.run(&command.split(' ').collect::<Vec<_>>()).is_error());
        cmd!(a, "MULTI").ok();
        cmd!(a, "PING");
        let aborted = cmd!(a, "EXEC") == Value::Nil;
        assert_eq!(aborted, aborts, "{command}");
    }
    // A lease that ends by itself counts as a change too.
    cmd!(a, "ORDER.SCHEDULE", "q", "4", "PX", 0)
        .order()
        .expect("OK");
    assert_eq!(
        cmd!(a, "ORDER.CLAIM", "q", "me", "PX", 60).claims().len(),
        1
    );
    cmd!(a, "WATCH", "q").ok();
    wait_until(SOON, "the lapse to be noticed", || {
        b.stat("q", "lapsed_total").int() == 1
    });
    wait_until(SOON, "the watch to be broken", || {
        cmd!(a, "MULTI").ok();
        cmd!(a, "PING");
        let aborted = cmd!(a, "EXEC") == Value::Nil;
        cmd!(a, "WATCH", "q").ok();
        aborted
    });
}

#[test]
fn apply_is_not_for_clients() {
    let server = Server::plain();
    let mut c = server.client();
    let reply = cmd!(c, "ORDER.APPLY", "q", 1, "");
    assert!(reply.error().starts_with("ERR "), "{reply:?}");
    let reply = cmd!(
        c,
        "EVAL",
        "return redis.pcall('ORDER.APPLY', KEYS[1], 1, '').err or 'done'",
        1,
        "q"
    );
    assert_ne!(reply.text(), "done", "nor for a client's script");
    c.config("orderwheel.apply-from-clients", "yes");
    assert!(
        !cmd!(c, "ORDER.APPLY", "q", 1, "").is_error(),
        "an empty one is a probe"
    );
    assert_eq!(cmd!(c, "EXISTS", "q").int(), 0);
    for blob in [
        &b"\xff"[..],
        b"\0",
        b"nonsense, nothing but nonsense",
        &[0x03; 200],
        &[0xfb; 9],
        &[0xfd; 20],
    ] {
        let reply = cmd!(c, "ORDER.APPLY", "q", 1, blob);
        assert!(reply.error().starts_with("ERR "), "{blob:?}: {reply:?}");
    }
    for version in [0_u64, 2, 3, 1 << 40] {
        assert!(
            cmd!(c, "ORDER.APPLY", "q", version, "x").is_error(),
            "version {version}"
        );
    }
    assert!(c.info_number("orderwheel", "orderwheel_apply_refused_total") > 0);
}
