//! A queue with an order in every state and with every field, and all of it read
//! back: for whatever must leave a queue as it is.

use std::collections::BTreeMap;

use super::client::{Client, Value, argv, cmd};
use super::wire;

/// What GET says of every order that SCAN lists, by id, without what time alone
/// changes; and for live leases the wall milliseconds between which they end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Snapshot {
    /// All fields but `lease_ms`, with the state.
    orders: BTreeMap<Vec<u8>, Vec<(String, Value)>>,
    /// Ends of live leases.
    ends: BTreeMap<Vec<u8>, (u64, u64)>,
}

impl Snapshot {
    /// Reads a queue.
    #[track_caller]
    pub(crate) fn of(c: &mut Client, queue: &str) -> Self {
        let mut ids = Vec::new();
        let mut cursor = String::from("0");
        loop {
            let reply = cmd!(c, "ORDER.SCAN", queue, cursor, "COUNT", 1000);
            cursor = match &reply.items()[0] {
                Value::Int(n) => n.to_string(),
                other => other.text(),
            };
            ids.extend(
                reply.items()[1]
                    .items()
                    .iter()
                    .map(|row| row.items()[0].bytes().to_vec()),
            );
            if cursor == "0" {
                break;
            }
        }
        ids.sort();
        ids.dedup();
        let (mut orders, mut ends) = (BTreeMap::new(), BTreeMap::new());
        for id in ids {
            let before = c.time_ms();
            let reply = cmd!(c, "ORDER.GET", queue, id).get();
            let after = c.time_ms();
            let Some(order) = reply else { continue };
            if let Ok(left) = u64::try_from(order.int("lease_ms")) {
                ends.insert(id.clone(), (before + left, after + left));
            }
            let mut fields = order.ground();
            fields.push(("state".into(), order.field("state").clone()));
            orders.insert(id, fields);
        }
        Self { orders, ends }
    }

    /// How many orders there are.
    pub(crate) fn len(&self) -> usize {
        self.orders.len()
    }

    /// The ids of all orders in this state.
    pub(crate) fn in_state(&self, state: &str) -> Vec<String> {
        self.orders
            .iter()
            .filter(|(_, fields)| {
                fields
                    .iter()
                    .any(|(name, value)| name == "state" && value.text() == state)
            })
            .map(|(id, _)| String::from_utf8_lossy(id).into_owned())
            .collect()
    }

    /// Fails unless `later` is the same queue: every field of every order, and
    /// leases that end at the same millisecond as far as that can be seen.
    #[track_caller]
    pub(crate) fn expect_same(&self, later: &Self, what: &str) {
        for (id, fields) in &self.orders {
            let other = later
                .orders
                .get(id)
                .unwrap_or_else(|| panic!("{what}: {} is gone", id.escape_ascii()));
            assert_eq!(fields, other, "{what}: {}", id.escape_ascii());
        }
        assert_eq!(self.len(), later.len(), "{what}: nothing was added");
        for (id, (from, to)) in &self.ends {
            let (other_from, other_to) = later.ends[id];
            // A lease's end is a wall moment here and a monotonic one inside:
            // turned over at a load, it may be rounded by a millisecond.
            assert!(
                *from <= other_to + 2 && other_from <= to + 2,
                "{what}: the lease of {} ended at {from}..{to}, now at {other_from}..{other_to}",
                id.escape_ascii()
            );
        }
    }
}

/// Fills a queue with orders in every state. Needs `apply-from-clients yes` for
/// the states of locks, which it sets and takes back.
///
/// Every order stays in its state for an hour at least.
#[track_caller]
pub(crate) fn fill_every_state(c: &mut Client, queue: &str) {
    const HOUR: u64 = 3_600_000;
    let now = c.time_ms();
    let past = now - 50_000;
    let claim = |c: &mut Client, id: &str, ms: u64| {
        let rows = cmd!(c, "ORDER.CLAIM", queue, "closer-1", "ID", id, "PX", ms).claims();
        assert_eq!(rows.len(), 1, "{id} can be claimed");
        rows[0].fence
    };
    let schedule = |c: &mut Client, id: &str, more: &[&[u8]]| {
        let mut command = argv!["ORDER.SCHEDULE", queue, id];
        command.extend(more.iter().map(|word| word.to_vec()));
        c.run(&command).order().expect("OK");
    };
    let at = |ms: u64| ms.to_string().into_bytes();

    schedule(c, "scheduled", &[b"PX", &at(HOUR)]);
    schedule(
        c,
        "scheduled-full",
        &[
            b"PX",
            &at(2 * HOUR),
            b"STATUS",
            b"unpaid",
            b"PAYLOAD",
            b"a\0b\r\n%s%n\xff{}",
        ],
    );
    schedule(
        c,
        "scheduled-empty",
        &[b"PX", &at(2 * HOUR), b"STATUS", b"", b"PAYLOAD", b""],
    );
    schedule(c, "moved", &[b"PX", &at(HOUR), b"PAYLOAD", &[b'x'; 3000]]);
    schedule(
        c,
        "moved",
        &[b"PX", &at(3 * HOUR), b"GT", b"STATUS", b"later"],
    );
    cmd!(
        c,
        "ORDER.SCHEDULE",
        queue,
        b"id \0\r\n%s\xc4\x80{}",
        "PX",
        4 * HOUR
    )
    .order()
    .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", queue, [b'i'; 255], "PX", 4 * HOUR)
        .order()
        .expect("OK");
    for i in 0..5 {
        schedule(
            c,
            &format!("expired-{i}"),
            &[
                b"PXAT",
                &at(past + i % 2),
                b"STATUS",
                b"unpaid",
                b"PAYLOAD",
                b"{}",
            ],
        );
    }
    schedule(
        c,
        "leased",
        &[b"PXAT", &at(past), b"STATUS", b"unpaid", b"PAYLOAD", b"p"],
    );
    let fence = claim(c, "leased", HOUR / 2);
    cmd!(c, "ORDER.RENEW", queue, "leased", fence, "PX", HOUR)
        .lease()
        .expect("OK");
    schedule(c, "lapsed", &[b"PXAT", &at(past), b"PAYLOAD", b"p"]);
    claim(c, "lapsed", 1);
    schedule(c, "lapsed-dead", &[b"PXAT", &at(past)]);
    c.config("orderwheel.max-attempts", "1");
    claim(c, "lapsed-dead", 1);
    c.config("orderwheel.max-attempts", "16");
    schedule(c, "given-back", &[b"PXAT", &at(past)]);
    for _ in 0..3 {
        let fence = claim(c, "given-back", HOUR);
        cmd!(
            c,
            "ORDER.NACK",
            queue,
            "given-back",
            fence,
            "DELAY",
            0,
            "ERROR",
            "first \0 try"
        )
        .order()
        .expect("OK");
    }
    schedule(
        c,
        "retrying",
        &[
            b"PXAT",
            &at(past),
            b"STATUS",
            b"unpaid",
            b"PAYLOAD",
            b"again",
        ],
    );
    let fence = claim(c, "retrying", HOUR);
    cmd!(
        c,
        "ORDER.NACK",
        queue,
        "retrying",
        fence,
        "DELAY",
        HOUR,
        "ERROR",
        "timeout"
    )
    .order()
    .expect("OK");
    schedule(c, "dead", &[b"PXAT", &at(past), b"PAYLOAD", b"keep"]);
    let fence = claim(c, "dead", HOUR);
    cmd!(
        c,
        "ORDER.NACK",
        queue,
        "dead",
        fence,
        "DEAD",
        "ERROR",
        "refused by the shop"
    )
    .order()
    .expect("OK");
    schedule(
        c,
        "paid",
        &[b"PX", &at(HOUR), b"STATUS", b"unpaid", b"PAYLOAD", b"gone"],
    );
    cmd!(
        c,
        "ORDER.FINISH",
        queue,
        "paid",
        "FROM",
        "unpaid",
        "STATUS",
        "paid",
        "RESULT",
        b"pay:\0 9f3c",
        "KEEP",
        2 * HOUR
    )
    .order()
    .expect("OK");
    cmd!(
        c,
        "ORDER.FINISH",
        queue,
        "paid-first",
        "CREATE",
        "STATUS",
        "paid"
    )
    .order()
    .expect("OK");
    schedule(c, "closed", &[b"PXAT", &at(past)]);
    let fence = claim(c, "closed", HOUR);
    cmd!(
        c,
        "ORDER.ACK",
        queue,
        "closed",
        fence,
        "STATUS",
        "closed",
        "RESULT",
        b"done"
    )
    .order()
    .expect("OK");
    schedule(c, "reopened", &[b"PX", &at(HOUR), b"STATUS", b"a"]);
    cmd!(
        c,
        "ORDER.FINISH",
        queue,
        "reopened",
        "STATUS",
        "b",
        "RESULT",
        b"r"
    )
    .order()
    .expect("OK");
    schedule(
        c,
        "reopened",
        &[b"PX", &at(HOUR), b"FROM", b"b", b"STATUS", b"c"],
    );
    cmd!(
        c,
        "ORDER.STATUS",
        queue,
        "scheduled",
        "seen",
        "PAYLOAD",
        b"added"
    )
    .order()
    .expect("OK");

    // By effects of version 1: a deadline that passes under a lock, a lock that has
    // lapsed, without waiting for either.
    schedule(c, "locked", &[b"PX", &at(HOUR), b"PAYLOAD", b"locked"]);
    schedule(c, "locked-twice", &[b"PX", &at(HOUR)]);
    schedule(c, "locked-past", &[b"PXAT", &at(past)]);
    schedule(c, "lock-lapsed", &[b"PX", &at(HOUR)]);
    let fence = c.time_us() + 60_000_000;
    // Within lock-ms-max: a load cuts leases to it.
    let end = now + 590_000;
    let blob = [
        wire::lock(b"locked", b"pay:9f3c", fence, end, Some(b"f00d"), false),
        wire::lock(b"locked-twice", b"w1", fence + 1, end, None, false),
        wire::hold(b"locked-twice", fence + 2, 2, end),
        wire::lock(b"locked-past", b"w2", fence + 3, end, None, false),
        wire::lock(b"lock-lapsed", b"w3", fence + 4, now - 1, None, false),
        wire::lock(b"reserved", b"w4", fence + 5, end, Some(b"fp"), true),
    ]
    .concat();
    apply(c, queue, &blob);
    super::wait_until(super::SOON, "the short leases to lapse", || {
        c.state(queue, "lapsed") == "expired" && c.state(queue, "lapsed-dead") == "dead"
    });
}

/// Carries effects out as a client.
#[track_caller]
pub(crate) fn apply(c: &mut Client, queue: &str, blob: &[u8]) {
    c.config("orderwheel.apply-from-clients", "yes");
    let reply = cmd!(c, "ORDER.APPLY", queue, 1, blob);
    c.config("orderwheel.apply-from-clients", "no");
    reply.ok();
}

/// A server that answers, in which nobody waits and nothing went wrong.
#[track_caller]
pub(crate) fn expect_healthy(server: &super::Server) {
    let mut c = server.client();
    assert_eq!(cmd!(c, "PING"), Value::Simple("PONG".into()));
    super::wait_until(super::SOON, "no client to be blocked", || {
        c.blocked_clients() == 0
    });
    assert_eq!(
        c.info_number("orderwheel", "orderwheel_claim_waiters"),
        0,
        "nobody stands in a line"
    );
    expect_no_fault(server);
}

/// A server that answers and in which nothing went wrong, whoever waits.
#[track_caller]
pub(crate) fn expect_no_fault(server: &super::Server) {
    let mut c = server.client();
    assert_eq!(cmd!(c, "PING"), Value::Simple("PONG".into()));
    assert_eq!(
        c.info_number("orderwheel", "orderwheel_panics_total"),
        0,
        "no panic"
    );
    assert_eq!(
        c.info_number("orderwheel", "orderwheel_reentries_total"),
        0,
        "no use of shared state within its own use"
    );
    let log = server.log();
    let bad = log.lines().find(|line| {
        ["ASSERTION FAILED", "BUG REPORT", "panicked"]
            .iter()
            .any(|word| line.contains(word))
    });
    assert_eq!(bad, None);
}
