//! Thousands of leases that end together, and closers that are processes and are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::{LONG, bound, released};
use crate::support::states::expect_healthy;
use crate::support::{Client, Options, Random, SOON, Server, args, argv, cmd, library, wait_until};

/// How long it may take on a busy machine until all are claimable again.
const ALL_FREE: Duration = Duration::from_secs(20);

#[test]
fn ten_thousand_leases_of_two_hundred_connections_are_free_soon_and_so_is_their_memory() {
    let server = Options::new().line("maxclients 1000").start();
    let mut c = server.client();
    let (clients, each) = (200, 50);
    for n in (0..clients * each).step_by(500) {
        let commands: Vec<_> = (n..n + 500)
            .map(|n| argv!["ORDER.SCHEDULE", "q", format!("order-{n}"), "PX", 0])
            .collect();
        c.pipeline(&commands);
    }
    let used = |c: &mut Client| {
        // Clients that went are freed by and by.
        wait_until(SOON, "the connections to be gone", || {
            c.info_number("clients", "connected_clients") <= 2
        });
        c.info_number("memory", "used_memory")
    };
    let mut memory = Vec::new();
    for round in 1..=3 {
        let mut all: Vec<Client> = (0..clients).map(|_| server.client()).collect();
        let mut fences = BTreeSet::new();
        for client in &mut all {
            let rows = cmd!(
                client,
                "ORDER.CLAIM",
                "q",
                "me",
                "COUNT",
                each,
                "PX",
                LONG,
                "SESSION"
            )
            .claims();
            assert_eq!(rows.len(), each);
            for row in rows {
                assert_eq!(row.attempt, round);
                fences.insert(row.fence);
            }
        }
        assert_eq!(fences.len(), clients * each);
        assert_eq!(bound(&mut c), (clients * each) as i64);
        assert_eq!(c.stat("q", "expired").int(), 0);
        let begun = Instant::now();
        drop(all);
        wait_until(ALL_FREE, "all to be claimable", || {
            c.stat("q", "expired").int() == (clients * each) as i64
        });
        eprintln!("round {round}: all claimable after {:?}", begun.elapsed());
        assert_eq!(bound(&mut c), 0);
        assert_eq!(released(&mut c), round * (clients * each) as i64);
        memory.push(used(&mut c));
    }
    // 10,000 bindings take a megabyte and a half.
    assert!(memory[2] < memory[0] + 300_000, "{memory:?}");
    expect_healthy(&server);
}

/// A closer that is a process: it waits for an order, says which it has, and holds it.
struct Closer {
    /// The process.
    process: Child,
    /// What it has said: order, fence and attempt.
    said: Receiver<(String, u64, i64)>,
    /// The last it said.
    has: Option<(String, u64, i64)>,
}

impl Closer {
    /// Starts one.
    fn start(server: &Server) -> Self {
        let mut process = Command::new(library("ORDERWHEEL_CLOSER", "closer"))
            .arg(server.socket())
            .args(["hold", "closer", "600000", "1", "SESSION"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the closer can be started: cargo build --examples");
        let out = process.stdout.take().expect("it was piped");
        let (say, said) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let mut words = line.split(' ').skip(1);
                let mut word = || words.next().unwrap_or_default().to_owned();
                let (id, fence, attempt) = (word(), word(), word());
                let told = (id, fence.parse().unwrap(), attempt.parse().unwrap());
                if say.send(told).is_err() {
                    return;
                }
            }
        });
        Self {
            process,
            said,
            has: None,
        }
    }

    /// What it holds, as far as it has said.
    fn has(&mut self) -> Option<&(String, u64, i64)> {
        self.has = self.said.try_iter().last().or(self.has.take());
        self.has.as_ref()
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        // Fails only for a process that has ended, which is the aim: SIGKILL.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn fifty_closers_that_are_killed_lose_nothing_and_share_nothing() {
    let server = Options::new().events("KEd").start();
    let mut c = server.client();
    let mut random = Random::new();
    let (orders, closers, rounds) = (25, 40, 5);
    let mut listener = server.client();
    listener.subscribe(&["__keyevent@0__:order.claim", "__keyevent@0__:order.lapsed"]);
    for n in 0..orders {
        cmd!(c, "ORDER.SCHEDULE", "orders", n, "PX", 0)
            .order()
            .expect("OK");
    }
    let mut all: Vec<Closer> = (0..closers).map(|_| Closer::start(&server)).collect();
    for round in 0..=rounds {
        // Every order is with one that lives, and each of these with one order.
        wait_until(SOON, "every order to be held by one that lives", || {
            let held: Vec<_> = all
                .iter_mut()
                .filter_map(|one| one.has().cloned())
                .collect();
            let ids: BTreeSet<&String> = held.iter().map(|(id, ..)| id).collect();
            assert_eq!(ids.len(), held.len(), "an order is with two at once");
            ids.len() == orders
        });
        for one in &mut all {
            if let Some((id, fence, attempt)) = one.has() {
                let order = c.order("orders", id);
                assert_eq!(order.fence(), *fence, "{order:?}");
                assert_eq!(order.int("attempt"), *attempt, "{order:?}");
            }
        }
        assert_eq!(bound(&mut c), orders as i64);
        if round == rounds {
            break;
        }
        // Ten of them, of those that hold and of those that wait, and ten new ones.
        for _ in 0..10 {
            let one = random.below(all.len() as u64) as usize;
            drop(all.swap_remove(one));
        }
        all.extend((0..10).map(|_| Closer::start(&server)));
    }
    let mut claims: BTreeMap<String, i64> = BTreeMap::new();
    let mut lapses: BTreeMap<String, i64> = BTreeMap::new();
    for message in listener.messages(super::QUIET) {
        let id = String::from_utf8_lossy(&message.payload).into_owned();
        let counts = if message.channel.ends_with("claim") {
            &mut claims
        } else {
            &mut lapses
        };
        *counts.entry(id).or_default() += 1;
    }
    let mut sum = 0;
    for n in 0..orders {
        let key = format!("orders:{n}");
        let attempt = c.order("orders", &n.to_string()).int("attempt");
        assert_eq!(claims.get(&key), Some(&attempt), "one higher each time");
        assert_eq!(lapses.get(&key).copied().unwrap_or(0), attempt - 1);
        sum += attempt - 1;
    }
    assert_eq!(released(&mut c), sum);
    assert!(sum > 0, "some of the killed held an order");
    drop(all);
    wait_until(SOON, "all to be free", || {
        c.stat("orders", "expired").int() == orders as i64
    });
    expect_healthy(&server);
}
