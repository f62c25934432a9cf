//! The twins: one queue gets single commands, its twin the same as one batch, at one and
//! the same moment. What is answered, what is published and what is left is the same.
//!
//! Both are restored from one payload with an order in every state of docs/states.md, in
//! one MULTI, while the wall clock stands still ten seconds after the payload was made:
//! leases of two seconds have lapsed by then, deadlines have passed, a keep time is over,
//! and no pass has seen any of it. Where no order is made anew and none stands in the batch
//! twice, the numbers are the same too, and so are the digests.

use std::collections::BTreeSet;

use super::{outcomes, words};
use crate::support::{Client, Clock, Options, SOON, Server, Value, argv, cmd};

/// Ids with the states they are in when the batch comes.
const ORDERS: [(&str, &str); 17] = [
    ("missing", "missing"),
    ("reserved", "reserved"),
    ("scheduled", "scheduled"),
    ("paid-ahead", "scheduled"),
    ("expired", "expired"),
    ("claimed", "leased"),
    ("locked-ahead", "leased"),
    ("locked-past", "leased"),
    ("lock-lapsed-ahead", "scheduled"),
    ("claim-lapsed", "expired"),
    ("lock-lapsed-past", "expired"),
    ("lapsed-last", "dead"),
    ("reserved-lapsed", "missing"),
    ("retrying", "retrying"),
    ("dead-by-nack", "dead"),
    ("finished", "finished"),
    ("keep-over", "missing"),
];

/// Makes the queue that the twins come from.
fn make(c: &mut Client, queue: &str, transitions: &str) -> Vec<u8> {
    let run = |c: &mut Client, line: &str| {
        let reply = c.run(&words(&line.replace("$q", queue)));
        assert!(!reply.is_error(), "{line}: {reply:?}");
        reply
    };
    let claimed = |c: &mut Client, id: &str, ms: u64| {
        run(
            c,
            &format!("ORDER.SCHEDULE $q {id} PX 0 STATUS unpaid PAYLOAD p"),
        );
        run(c, &format!("ORDER.CLAIM $q closer ID {id} PX {ms}")).claims()[0].fence
    };
    for (id, status, ms) in [
        ("scheduled", "unpaid", 600_000),
        ("paid-ahead", "paid", 900_000),
        ("expired", "unpaid", 0),
        ("locked-ahead", "unpaid", 600_000),
        ("locked-past", "unpaid", 8_000),
        ("lock-lapsed-ahead", "unpaid", 600_000),
        ("lock-lapsed-past", "unpaid", 8_000),
        ("finished", "unpaid", 600_000),
        ("keep-over", "unpaid", 600_000),
    ] {
        let more = "PAYLOAD before";
        run(
            c,
            &format!("ORDER.SCHEDULE $q {id} PX {ms} STATUS {status} {more}"),
        );
    }
    for (id, ms) in [
        ("reserved", 500_000),
        ("locked-ahead", 500_000),
        ("locked-past", 500_000),
        ("lock-lapsed-ahead", 2_000),
        ("lock-lapsed-past", 2_000),
        ("reserved-lapsed", 2_000),
    ] {
        run(c, &format!("ORDER.LOCK $q {id} payer PX {ms} FP f"))
            .lease()
            .expect("OK");
    }
    run(
        c,
        "ORDER.FINISH $q finished RESULT r STATUS paid KEEP 900000",
    );
    run(c, "ORDER.FINISH $q keep-over KEEP 8000");
    claimed(c, "claimed", 600_000);
    claimed(c, "claim-lapsed", 2_000);
    let fence = claimed(c, "retrying", 600_000);
    run(
        c,
        &format!("ORDER.NACK $q retrying {fence} DELAY 600000 ERROR e"),
    );
    let fence = claimed(c, "dead-by-nack", 600_000);
    run(c, &format!("ORDER.NACK $q dead-by-nack {fence} DEAD"));
    run(c, "ORDER.CONFIG $q SET max-attempts 1");
    claimed(c, "lapsed-last", 2_000);
    run(c, "ORDER.CONFIG $q SET max-attempts 16");
    if !transitions.is_empty() {
        cmd!(c, "ORDER.CONFIG", queue, "SET", "transitions", transitions).ok();
    }
    cmd!(c, "DUMP", queue).bytes().to_vec()
}

/// One batch: how each of its orders is written, there and as a single command, and the
/// options of both. `$id` is the order, `$f` its last fence or another one.
struct Case {
    batch: String,
    in_batch: String,
    single: String,
    options: String,
}

/// Every pair of one of each.
fn product(parts: &[&[&str]]) -> Vec<String> {
    parts.iter().fold(vec![String::new()], |all, some| {
        let with = |before: &String| -> Vec<String> {
            some.iter().map(|part| format!("{before} {part}")).collect()
        };
        all.iter().flat_map(with).collect()
    })
}

/// Every option of every batch.
fn cases(now_ms: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |batch: String, in_batch: &str, single: String, options: &[String]| {
        cases.extend(options.iter().map(|options| Case {
            batch: batch.clone(),
            in_batch: in_batch.to_owned(),
            single: single.clone(),
            options: options.clone(),
        }));
    };
    let modes: Vec<String> = [
        "",
        "NX",
        "XX",
        "UPSERT",
        "GT",
        "LT",
        "UPSERT GT",
        "UPSERT LT",
        "XX GT",
        "FROM unpaid",
        "UPSERT FROM paid",
        "FROM paid FROM ''",
        "FROM nothing",
    ]
    .iter()
    .flat_map(|mode| [(*mode).to_owned(), format!("{mode} STATUS paid")])
    .collect();
    let (past, ahead) = (now_ms - 5_000, now_ms + 700_000);
    for (unit, time) in [
        ("PX", "0".to_owned()),
        ("PX", "700000".to_owned()),
        ("EX", "30".to_owned()),
        ("PXAT", past.to_string()),
        ("EXAT", (ahead / 1000).to_string()),
    ] {
        add(
            format!("ORDER.MSCHEDULE $q {unit} $n"),
            &format!("$id {time}"),
            format!("ORDER.SCHEDULE $q $id {unit} {time}"),
            &modes,
        );
    }
    for payload in ["''", "after", &"long".repeat(300)] {
        add(
            "ORDER.MSCHEDULE $q PX PAYLOADS $n".into(),
            &format!("$id 700000 {payload}"),
            format!("ORDER.SCHEDULE $q $id PX 700000 PAYLOAD {payload}"),
            &modes,
        );
    }
    let guards: &[&str] = &["", "FROM unpaid", "FROM paid FROM ''"];
    let ends: &[&str] = &["", "STATUS paid", "STATUS shipped"];
    let keeps: &[&str] = &["", "KEEP 0", "KEEP 60000"];
    add(
        "ORDER.MFINISH $q $n".into(),
        "$id",
        "ORDER.FINISH $q $id".into(),
        &product(&[&["", "STRICT"], &["", "CREATE"], guards, ends, keeps]),
    );
    add(
        "ORDER.MACK $q $n".into(),
        "$id $f",
        "ORDER.ACK $q $id $f".into(),
        &product(&[guards, ends, keeps]),
    );
    add(
        "ORDER.MACK $q STATUSES $n".into(),
        "$id $f of-$id",
        "ORDER.ACK $q $id $f STATUS of-$id".into(),
        &product(&[guards, keeps]),
    );
    add(
        "ORDER.MACK $q STATUSES $n".into(),
        "$id $f paid",
        "ORDER.ACK $q $id $f STATUS paid".into(),
        &product(&[guards, keeps]),
    );
    let errors: &[&str] = &["", "ERROR away", "ERROR ''"];
    let mut backs = product(&[&["", "DELAY 0", "DELAY 70000"], &["", "UNTRIED"], errors]);
    backs.extend(product(&[&["DEAD"], errors]));
    add(
        "ORDER.MNACK $q $n".into(),
        "$id $f",
        "ORDER.NACK $q $id $f".into(),
        &backs,
    );
    add(
        "ORDER.MRENEW $q $n".into(),
        "$id $f",
        "ORDER.RENEW $q $id $f".into(),
        &product(&[&["PX 700000", "PX 5000", "EX 1", "PX 1"], &["", "LT"]]),
    );
    cases
}

/// What came on the keyspace channels between one mark and the next, without the queue's
/// name.
fn published(listener: &mut Client, queue: &str) -> Vec<(String, String)> {
    let mut heard = Vec::new();
    loop {
        let message = listener.message(SOON).expect("a mark comes");
        let payload = String::from_utf8_lossy(&message.payload).into_owned();
        if message.channel == "__keymark" {
            return heard;
        }
        if !message.channel.ends_with(":restore") && payload != "restore" {
            let anonymous = |text: &str| text.replace(queue, "$q");
            heard.push((anonymous(&message.channel), anonymous(&payload)));
        }
    }
}

/// What is left of an order: its fields, its state, and its rev, counted from the first
/// that was given out at this moment.
type Left = Option<(Vec<(String, Value)>, String, u64)>;

/// Fails unless the leases are as long, as far as the clock lets it be seen that passes.
#[track_caller]
fn expect_leases(one: &[Value], all: &[Value], what: &str) {
    let lease = |reply: &Value| reply.get().map_or(-2, |order| order.int("lease_ms"));
    for (one, all) in one.iter().zip(all) {
        let (first, second) = (lease(one), lease(all));
        let alike = (first < 0) == (second < 0) && first.abs_diff(second) < 2_000;
        assert!(alike, "{what}: leases of {one:?} and {all:?}");
    }
}

/// What is left of all orders.
fn left(replies: &[Value], now: u64) -> Vec<Left> {
    let rev = |reply: &Value| reply.get().map_or(0, |order| order.int("rev") as u64);
    let first = replies.iter().map(rev).filter(|rev| *rev >= now).min();
    let of = |reply: &Value| {
        reply.get().map(|order| {
            let mut fields = order.ground();
            fields.retain(|(name, _)| name != "rev");
            let rev = order.int("rev") as u64;
            let rev = if rev < now { rev } else { rev - first.unwrap() };
            (fields, order.state(), rev)
        })
    };
    replies.iter().map(of).collect()
}

/// The twins of one server.
struct Twins<'s> {
    server: &'s Server,
    clock: &'s Clock,
    c: Client,
    listener: Client,
    /// The queue they come from, as a payload.
    payload: Vec<u8>,
    /// The last fence of each order, or some number.
    fences: Vec<u64>,
    /// How often even the digests were equal.
    equal: usize,
}

impl<'s> Twins<'s> {
    fn new(server: &'s Server, clock: &'s Clock, transitions: &str) -> Self {
        let (mut c, mut listener) = (server.client(), server.client());
        let payload = make(&mut c, "base", transitions);
        let fences = ORDERS
            .iter()
            .map(|(id, _)| {
                let order = cmd!(c, "ORDER.GET", "base", id).get();
                order.map_or(0, |order| order.fence()).max(12_345)
            })
            .collect();
        cmd!(c, "DEL", "base");
        listener.psubscribe(&["__key*"]);
        Self {
            server,
            clock,
            c,
            listener,
            payload,
            fences,
            equal: 0,
        }
    }

    /// Puts in what differs from order to order.
    fn fill(&self, text: &str, at: usize, other: bool) -> String {
        let fence = self.fences[at] + u64::from(other) * 7;
        text.replace("$id", ORDERS[at].0)
            .replace("$f", &fence.to_string())
    }

    /// Does one case to both; `list` says which orders, in their order. Gives the
    /// outcomes.
    #[track_caller]
    fn compare(&mut self, case: &Case, list: &[usize], other: bool, name: &str) -> Vec<String> {
        let what = format!("{} {} ({name})", case.batch, case.options);
        let singles = list.iter().map(|at| {
            let text = format!("{} {}", self.fill(&case.single, *at, other), case.options);
            words(&text.replace("$q", "one")).into_iter()
        });
        let orders: Vec<String> = list
            .iter()
            .map(|at| self.fill(&case.in_batch, *at, other))
            .collect();
        let batch = case.batch.replace("$n", &list.len().to_string());
        let batch = format!("{batch} {} {}", orders.join(" "), case.options);
        let bytes = |words: Vec<String>| -> Vec<Vec<u8>> {
            words.into_iter().map(String::into_bytes).collect()
        };
        let mark = || argv!["PUBLISH", "__keymark", ""];
        let mut commands = vec![
            argv!["MULTI"],
            argv!["RESTORE", "one", 0, &self.payload, "REPLACE"],
            argv!["RESTORE", "all", 0, &self.payload, "REPLACE"],
            mark(),
        ];
        commands.extend(singles.map(|words| bytes(words.collect())));
        commands.extend([mark(), bytes(words(&batch.replace("$q", "all"))), mark()]);
        for queue in ["one", "all"] {
            commands.push(argv!["DEBUG", "DIGEST-VALUE", queue]);
            commands.extend(ORDERS.map(|(id, _)| argv!["ORDER.GET", queue, id]));
        }
        commands.push(argv!["EXEC"]);
        // Ten seconds ahead, and later than what was written before.
        let now = crate::support::wall_us() + 10_000_000;
        self.clock.stand_still(now);
        let replies = self.c.pipeline(&commands);
        self.clock.go_on();
        let replies = replies.last().unwrap().items();
        assert_eq!(replies.len(), commands.len() - 2, "{what}: {replies:?}");

        let word = |reply: &Value| match reply {
            Value::Array(fields) => fields[0].text(),
            error => format!("{error:?}"),
        };
        let one: Vec<String> = replies[3..3 + list.len()].iter().map(word).collect();
        let batch = &replies[4 + list.len()];
        assert!(!batch.is_error(), "{what}: {batch:?}");
        assert_eq!(one, outcomes(batch), "{what}: outcomes");

        published(&mut self.listener, "none");
        let events = published(&mut self.listener, "one");
        assert_eq!(
            events,
            published(&mut self.listener, "all"),
            "{what}: events"
        );
        let (one_left, all_left) = replies[6 + list.len()..].split_at(1 + ORDERS.len());
        let digests = [&one_left[0], &all_left[0]];
        expect_leases(&one_left[1..], &all_left[1..], &what);
        let [one_left, all_left] = [one_left, all_left].map(|replies| left(&replies[1..], now));
        if list.len() == ORDERS.len() {
            assert_eq!(one_left, all_left, "{what}: records");
            // Where no order was made, which takes a number of its own, every number is
            // the same too. How long a renewal is goes by the clock that passes.
            let made =
                |(outcome, at): (&String, &usize)| outcome == "OK" && ORDERS[*at].1 == "missing";
            if !one.iter().zip(list).any(made) && !case.batch.contains("MRENEW") {
                assert_eq!(digests[0], digests[1], "{what}: digest");
                self.equal += 1;
            }
        } else {
            // An order that is written twice at one moment takes a number more.
            let without = |records: Vec<Left>| -> Vec<_> {
                let of = |record: Left| record.map(|(fields, state, _)| (fields, state));
                records.into_iter().map(of).collect()
            };
            assert_eq!(without(one_left), without(all_left), "{what}: records");
        }
        one
    }
}

/// Fails unless every order is in the state that it is there for.
#[track_caller]
fn expect_states(twins: &mut Twins<'_>) {
    let mut commands = vec![
        argv!["MULTI"],
        argv!["RESTORE", "one", 0, &twins.payload, "REPLACE"],
    ];
    commands.extend(ORDERS.map(|(id, _)| argv!["ORDER.GET", "one", id]));
    commands.push(argv!["EXEC"]);
    twins
        .clock
        .stand_still(crate::support::wall_us() + 10_000_000);
    let replies = twins.c.pipeline(&commands);
    twins.clock.go_on();
    let replies = replies.last().unwrap().items();
    for ((id, state), reply) in ORDERS.iter().zip(&replies[1..]) {
        let met = reply.get().map_or("missing".into(), |order| order.state());
        assert_eq!(met, *state, "{id}");
    }
}

fn twins_do_the_same(transitions: &str) {
    let clock = Clock::new();
    let options = Options::new()
        .tcp()
        .events("KEgd")
        .line("repl-diskless-sync-delay 0");
    let server = clock.rule(options).start();
    let replica = clock
        .rule(Options::new().replica_of(server.port()))
        .line("propagation-error-behavior panic")
        .start();
    replica.wait_in_sync(&server);
    let mut twins = Twins::new(&server, &clock, transitions);
    expect_states(&mut twins);
    let (mut at_replica, mut done) = (replica.client(), 0);
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let each: Vec<usize> = (0..ORDERS.len()).collect();
    let twice: Vec<usize> = each.iter().chain(each.iter().rev()).copied().collect();
    for case in cases(twins.c.time_ms()) {
        let fences: &[bool] = if case.in_batch.contains("$f") {
            &[false, true]
        } else {
            &[false]
        };
        for other in fences {
            seen.extend(twins.compare(&case, &each, *other, "once"));
            twins.compare(&case, &twice, *other, "twice");
            done += 1;
            // On the replica too, now and then: it takes a round trip.
            if done % 10 == 0 {
                replica.wait_in_sync(&server);
                for queue in ["one", "all"] {
                    let digest = twins.c.digest(queue);
                    let what = format!("{} {}", case.batch, case.options);
                    assert_eq!(digest, at_replica.digest(queue), "{what}: the replica");
                }
            }
        }
    }
    assert!(done > 300, "{done} cases");
    assert!(twins.equal > done / 2, "{} equal digests", twins.equal);
    // Whatever a single command on an order can say was said.
    let lacking: Vec<&str> = [
        "OK",
        "EXISTS",
        "MISSING",
        "UNCHANGED",
        "LEASED",
        "FINISHED",
        "STATE",
        "STALE",
        "EXPIRED",
        "GONE",
    ]
    .into_iter()
    .filter(|word| !seen.contains(*word))
    .collect();
    assert_eq!(lacking, [""; 0], "never said");
    crate::support::states::expect_no_fault(twins.server);
}

#[test]
fn a_batch_does_what_single_commands_do_in_every_state_with_every_option() {
    twins_do_the_same("");
}

#[test]
fn a_batch_keeps_to_the_transitions_of_its_queue_as_single_commands_do() {
    twins_do_the_same("unpaid>paid paid>shipped >paid");
}
