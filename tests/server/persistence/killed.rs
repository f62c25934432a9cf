//! A server that is killed under load has lost nothing it has acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::states::expect_healthy;
use crate::support::{Client, Options, Random, SOON, Server, Value, args, argv, cmd};

/// What a client knows of one order from the server's answers.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The last acknowledged reply's state, status, deadline, rev.
    state: String,
    status: String,
    deadline: i64,
    rev: u64,
    /// The fence of its claim, 0 for none.
    fence: u64,
}

/// Sends one command; `None` when the server died before the answer.
fn ask(c: &mut Client, command: &[Vec<u8>]) -> Option<Value> {
    match c.try_run(command, Duration::from_secs(20)) {
        Ok(reply) => Some(reply),
        Err(e) if e.kind() == std::io::ErrorKind::TimedOut => panic!("no answer to {command:?}"),
        Err(_) => None,
    }
}

/// Notes an acknowledged order reply.
fn note(known: &mut BTreeMap<String, Known>, id: &str, reply: &Value) {
    let reply = reply.order();
    assert_eq!(reply.outcome, "OK", "{id}: {reply:?}");
    let entry = known.entry(id.to_owned()).or_default();
    entry.status = reply.status_text();
    (entry.state, entry.deadline, entry.rev) = (reply.state, reply.deadline, reply.rev);
}

/// Writes orders of its own until the server dies. Gives back what it knows, and
/// the order whose last command was not answered.
fn writer(mut c: Client, name: usize, seed: u64) -> (BTreeMap<String, Known>, Option<String>) {
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    let mut x = seed | 1;
    for n in 0_u64.. {
        // xorshift: any mix will do.
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let id = format!("w{name}-{}", x % (n + 1));
        let finished = known.get(&id).is_some_and(|k| k.state == "finished");
        let command = match known.get(&id) {
            None => argv![
                "ORDER.SCHEDULE",
                "q",
                id,
                "PX",
                3_600_000 + x % 1000,
                "STATUS",
                "unpaid",
                "PAYLOAD",
                id
            ],
            Some(_) if finished => argv![
                "ORDER.SCHEDULE",
                "q",
                id,
                "PX",
                7_200_000,
                "FROM",
                "paid",
                "STATUS",
                "again"
            ],
            Some(_) if x.is_multiple_of(3) => {
                argv!["ORDER.FINISH", "q", id, "STATUS", "paid", "RESULT", id]
            }
            Some(_) if x % 3 == 1 => argv!["ORDER.STATUS", "q", id, format!("s{}", n % 100)],
            Some(_) => argv!["ORDER.SCHEDULE", "q", id, "PX", 5_000_000 + x % 1000, "XX"],
        };
        match ask(&mut c, &command) {
            Some(reply) => note(&mut known, &id, &reply),
            None => return (known, Some(id)),
        }
    }
    unreachable!("the loop ends with the server");
}

/// Schedules orders that are due at once or soon, until the server dies.
fn feeder(mut c: Client) -> (BTreeMap<String, Known>, Option<String>) {
    let mut known = BTreeMap::new();
    for n in 0_u64.. {
        let id = format!("d-{n}");
        match ask(
            &mut c,
            &args!["ORDER.SCHEDULE", "q", id, "PX", n % 40, "PAYLOAD", id],
        ) {
            Some(reply) => note(&mut known, &id, &reply),
            None => return (known, Some(id)),
        }
    }
    unreachable!("the loop ends with the server");
}

/// Claims, and acknowledges every other one, until the server dies. Gives back
/// the fences, the acknowledged, and the id whose ACK was not answered.
fn closer(mut c: Client) -> (BTreeMap<String, u64>, BTreeSet<String>, Option<String>) {
    let (mut fences, mut acked) = (BTreeMap::new(), BTreeSet::new());
    loop {
        let claim = argv![
            "ORDER.CLAIM",
            "q",
            "closer",
            "PX",
            3_600_000,
            "COUNT",
            5,
            "BLOCK",
            20_000
        ];
        let Some(reply) = ask(&mut c, &claim) else {
            return (fences, acked, None);
        };
        for (i, row) in reply.claims().into_iter().enumerate() {
            let id = row.id_text();
            assert!(
                fences.insert(id.clone(), row.fence).is_none(),
                "{id} was handed out twice"
            );
            if i % 2 == 0 {
                continue;
            }
            let ack = argv!["ORDER.ACK", "q", id, row.fence, "STATUS", "closed"];
            let Some(reply) = ask(&mut c, &ack) else {
                return (fences, acked, Some(id));
            };
            reply.order().expect("OK");
            acked.insert(id);
        }
    }
}

/// Kills a server under load and holds what comes back against what its clients
/// were told. Returns the largest fence known.
fn kill_once(server: &mut Server, random: &mut Random, floor: u64) -> u64 {
    let writers: Vec<_> = (0..2)
        .map(|name| {
            let (client, seed) = (server.client(), random.next());
            thread::spawn(move || writer(client, name, seed))
        })
        .collect();
    let feeding = thread::spawn({
        let client = server.client();
        move || feeder(client)
    });
    let closing = thread::spawn({
        let client = server.client();
        move || closer(client)
    });
    thread::sleep(Duration::from_micros(5_000 + random.below(120_000)));
    server.kill();
    let written: Vec<_> = writers.into_iter().map(|w| w.join().unwrap()).collect();
    let (fed, fed_open) = feeding.join().unwrap();
    let (fences, acked, ack_open) = closing.join().unwrap();
    server.start_again();

    let mut c = server.client();
    for (known, open) in &written {
        for (id, k) in known {
            let order = c.order("q", id);
            let rev = order.int("rev") as u64;
            if Some(id) == open.as_ref() && rev != k.rev {
                assert!(rev > k.rev, "{id}: {order:?} after {k:?}");
                continue;
            }
            let found = (
                order.state(),
                order.text("status"),
                order.int("deadline"),
                rev,
            );
            assert_eq!(
                found,
                (k.state.clone(), k.status.clone(), k.deadline, k.rev),
                "{id}"
            );
            let field = if k.state == "finished" {
                "result"
            } else {
                "payload"
            };
            if k.status != "again" && !k.status.starts_with('s') {
                assert_eq!(order.text(field), *id);
            }
        }
    }
    // Of what was due: acknowledged, held under its fence, or on offer.
    let mut free = BTreeSet::new();
    for (id, k) in &fed {
        let order = c.order("q", id);
        match fences.get(id) {
            Some(_) if acked.contains(id) => assert_eq!(
                (order.state(), order.text("status")),
                ("finished".into(), "closed".into())
            ),
            Some(_) if Some(id) == ack_open.as_ref() && order.state() == "finished" => {}
            Some(fence) => {
                assert_eq!(
                    (order.state(), order.fence(), order.int("attempt")),
                    ("leased".into(), *fence, 1),
                    "{id}"
                );
                assert_eq!(order.int("deadline"), k.deadline);
            }
            // A claim whose answer was not read may have been made.
            None if order.state() == "leased" => {}
            None => {
                assert!(
                    ["expired", "scheduled"].contains(&order.state().as_str()),
                    "{id}: {order:?}"
                );
                assert_eq!(
                    (order.int("deadline"), order.int("rev") as u64),
                    (k.deadline, k.rev),
                    "{id}"
                );
                assert_eq!(order.text("payload"), *id);
                free.insert(id.clone());
            }
        }
    }
    free.extend(
        fed_open.filter(|id| ["expired", "scheduled"].contains(&c.state("q", id).as_str())),
    );
    // Offered at once, exactly once, under larger fences.
    let highest = fences.values().copied().max().unwrap_or(0).max(floor);
    let mut highest_new = highest;
    let until = Instant::now() + SOON;
    let mut first = true;
    while !free.is_empty() {
        let rows = cmd!(
            c,
            "ORDER.CLAIM",
            "q",
            "after",
            "COUNT",
            1000,
            "PX",
            3_600_000
        )
        .claims();
        if first {
            let now = c.time_ms() as i64;
            let due = free
                .iter()
                .filter(|id| fed.get(*id).is_some_and(|k| k.deadline < now - 1000))
                .count();
            assert!(
                rows.len() >= due.min(1000),
                "what is overdue is on offer at once"
            );
            first = false;
        }
        for row in rows {
            assert!(
                free.remove(&row.id_text()),
                "{} was not on offer",
                row.id_text()
            );
            assert!(row.fence > highest, "{} is not above {highest}", row.fence);
            highest_new = highest_new.max(row.fence);
        }
        assert!(Instant::now() < until, "{free:?} are never offered");
    }
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "after").claims(), []);
    cmd!(c, "DEL", "q");
    highest_new
}

#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    const ROUNDS: usize = 30;
    let mut random = Random::new();
    let mut server = Options::new().aof().set("fence-guard-ms", 10_000).start();
    let mut highest = 0;
    let until = Instant::now() + Duration::from_secs(50);
    for round in 0..ROUNDS {
        highest = kill_once(&mut server, &mut random, highest);
        assert!(Instant::now() < until, "only {round} rounds in time");
    }
    expect_healthy(&server);
}

#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed_in_a_rewrite() {
    let mut random = Random::new();
    let mut server = Options::new().aof().line("aof-use-rdb-preamble no").start();
    let mut c = server.client();
    let ballast: Vec<_> = (0..20_000)
        .map(|i| argv!["ORDER.SCHEDULE", "ballast", i, "PX", 7_200_000])
        .collect();
    c.pipeline(&ballast);
    let digest = c.digest("ballast");
    let mut highest = 0;
    for _ in 0..4 {
        server.client().send(&["BGREWRITEAOF"]);
        highest = kill_once(&mut server, &mut random, highest);
        assert_eq!(server.client().digest("ballast"), digest);
    }
    expect_healthy(&server);
}
