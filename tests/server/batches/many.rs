//! A thousand orders in a batch, and batches of many clients at once.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use super::outcomes;
use crate::support::{Client, Options, Random, Server, argv, cmd};

/// A server that keeps an append-only file, with a replica.
fn pair() -> (Server, Server) {
    let options = Options::new()
        .aof()
        .tcp()
        .line("repl-diskless-sync-delay 0");
    let primary = options.start();
    let replica = Options::new()
        .replica_of(primary.port())
        .line("propagation-error-behavior panic")
        .start();
    replica.wait_in_sync(&primary);
    (primary, replica)
}

/// Fails unless the queue is the same on the replica, and after a start from the
/// append-only file.
#[track_caller]
fn expect_same_everywhere(server: &mut Server, replica: &Server) {
    let digest = server.client().digest("q");
    replica.wait_in_sync(server);
    assert_eq!(digest, replica.client().digest("q"), "the replica");
    server.kill_and_restart();
    assert_eq!(digest, server.client().digest("q"), "the append-only file");
}

#[test]
fn a_thousand_orders_go_through_all_batches() {
    let (mut server, replica) = pair();
    let mut c = server.client();
    let mut command = argv!["ORDER.MSCHEDULE", "q", "PX", "PAYLOADS", 1000];
    for i in 0..1000 {
        command.extend(argv![format!("order-{i}"), 0, format!("payload of {i}")]);
    }
    command.extend(argv!["STATUS", "unpaid"]);
    assert_eq!(outcomes(&c.run(&command)), vec!["OK"; 1000]);
    assert_eq!(outcomes(&c.run(&command)), vec!["EXISTS"; 1000]);
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 1000, "PX", 600_000).claims();
    let ids: Vec<String> = rows.iter().map(crate::support::Claimed::id_text).collect();
    let wanted: Vec<String> = (0..1000).map(|i| format!("order-{i}")).collect();
    assert_eq!(ids, wanted, "claimed in the order of the batch");
    let fenced = |name: &str| {
        let mut command = argv![name, "q", 1000];
        for row in &rows {
            command.extend(argv![&row.id, row.fence]);
        }
        command
    };
    let mut renew = fenced("ORDER.MRENEW");
    renew.extend(argv!["PX", 900_000]);
    assert_eq!(outcomes(&c.run(&renew)), vec!["OK"; 1000]);
    let mut back = fenced("ORDER.MNACK");
    back.extend(argv!["DELAY", 0, "UNTRIED", "ERROR", "database away"]);
    assert_eq!(outcomes(&c.run(&back)), vec!["OK"; 1000]);
    assert_eq!(outcomes(&c.run(&back)), vec!["STALE"; 1000]);
    let again = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 1000, "PX", 600_000).claims();
    assert!(again.iter().all(|row| row.attempt == 1), "untried");
    let mut ack = argv!["ORDER.MACK", "q", "STATUSES", 1000];
    for (i, row) in again.iter().enumerate() {
        let status = if i % 2 == 0 { "paid" } else { "closed" };
        ack.extend(argv![&row.id, row.fence, status]);
    }
    assert_eq!(outcomes(&c.run(&ack)), vec!["OK"; 1000]);
    assert_eq!(c.order("q", "order-998").text("status"), "paid");
    assert_eq!(c.order("q", "order-999").text("status"), "closed");
    let mut finish = argv!["ORDER.MFINISH", "q", 1000];
    finish.extend((0..1000).map(|i| format!("order-{}", i + 500).into_bytes()));
    finish.extend(argv!["CREATE", "STATUS", "paid"]);
    let said = outcomes(&c.run(&finish));
    assert_eq!(said[..500], vec!["FINISHED"; 500]);
    assert_eq!(said[500..], vec!["OK"; 500]);
    assert_eq!(c.stat("q", "finished").int(), 1500);
    expect_same_everywhere(&mut server, &replica);
}

/// One client: batches in a pipeline of eight; how often each outcome came.
fn work(mut c: Client, seed: u64) -> BTreeMap<String, usize> {
    let mut random = Random::seeded(seed);
    let mut said: BTreeMap<String, usize> = BTreeMap::new();
    let mut count = |verb: &str, outcome: String| {
        *said.entry(format!("{verb} {outcome}")).or_default() += 1;
    };
    for _ in 0..10 {
        let commands: Vec<Vec<Vec<u8>>> = (0..8)
            .map(|_| {
                let ids: Vec<u64> = (0..100).map(|_| random.below(5_000)).collect();
                if random.below(3) == 0 {
                    let mut command = argv!["ORDER.MFINISH", "q", ids.len()];
                    command.extend(ids.iter().map(|id| id.to_string().into_bytes()));
                    command
                } else {
                    let mut command = argv!["ORDER.MSCHEDULE", "q", "PX", ids.len()];
                    for id in ids {
                        command.extend(argv![id, 3_600_000]);
                    }
                    command
                }
            })
            .collect();
        for (command, reply) in commands.iter().zip(c.pipeline(&commands)) {
            let verb = String::from_utf8_lossy(&command[0]).into_owned();
            for outcome in outcomes(&reply) {
                count(&verb, outcome);
            }
        }
    }
    said
}

/// Whatever comes in between, every order of every batch has an answer, and the answers
/// add up to what is there.
#[test]
fn batches_of_many_clients_in_pipelines_lose_no_order() {
    let (mut server, replica) = pair();
    let seed = Random::new().next();
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let client = server.client();
            thread::spawn(move || work(client, seed.wrapping_add(n)))
        })
        .collect();
    let mut all: BTreeMap<String, usize> = BTreeMap::new();
    for thread in threads {
        for (outcome, count) in thread.join().expect("a client works to its end") {
            *all.entry(outcome).or_default() += count;
        }
    }
    let kinds: BTreeSet<&str> = all.keys().map(String::as_str).collect();
    let wanted = [
        "ORDER.MFINISH FINISHED",
        "ORDER.MFINISH MISSING",
        "ORDER.MFINISH OK",
        "ORDER.MSCHEDULE EXISTS",
        "ORDER.MSCHEDULE FINISHED",
        "ORDER.MSCHEDULE OK",
    ];
    assert_eq!(kinds, BTreeSet::from(wanted));
    assert_eq!(all.values().sum::<usize>(), 4 * 10 * 8 * 100);
    let mut c = server.client();
    let (made, ended) = (all["ORDER.MSCHEDULE OK"], all["ORDER.MFINISH OK"]);
    assert_eq!(
        c.stat("q", "orders").int(),
        made as i64,
        "each was made once"
    );
    assert_eq!(c.stat("q", "finished").int(), ended as i64);
    expect_same_everywhere(&mut server, &replica);
}
