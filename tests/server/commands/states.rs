//! Every command on an order in every state, held against the page of states.

use super::scan_all;
use crate::support::{Client, SOON, Server, cmd, page, wait_until};

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
