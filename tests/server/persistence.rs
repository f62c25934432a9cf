//! What was acknowledged is there again: after a kill, a restart, a rewrite, a
//! copy; every field, every state, every deadline to the millisecond.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::states::{Snapshot, apply, expect_healthy, fill_every_state};
use crate::support::{
    Claimed, Client, Options, Random, SOON, Server, Value, args, argv, cmd, module_path, read_file,
    wait_until, wire,
};

/// How long "nothing happens" is watched.
const QUIET: Duration = Duration::from_millis(60);

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

/// Every way in which a queue leaves memory and comes back.
#[test]
fn every_state_and_field_survives_every_way_of_saving() {
    let mut server = Options::new().aof().start();
    let mut c = server.client();
    fill_every_state(&mut c, "q");
    apply(&mut c, "set", &wire::configure(b"max-attempts", b"3"));
    apply(
        &mut c,
        "set",
        &wire::configure(b"transitions", b"unpaid>paid"),
    );
    apply(&mut c, "set", &wire::pause(b"deploy"));
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "set",
        "1",
        "PX",
        3_600_000,
        "STATUS",
        "unpaid"
    )
    .order()
    .expect("OK");
    let before = Snapshot::of(&mut c, "q");
    let (digest, set_digest) = (c.digest("q"), c.digest("set"));
    for (state, count) in [
        ("scheduled", 8),
        ("expired", 7),
        ("leased", 4),
        ("retrying", 1),
        ("dead", 2),
        ("finished", 3),
        ("reserved", 1),
    ] {
        let found = before.in_state(state);
        assert_eq!(found.len(), count, "{state}: {found:?}");
    }
    let claimable: Vec<String> = {
        cmd!(c, "COPY", "q", "order").int();
        cmd!(c, "ORDER.CLAIM", "order", "x", "COUNT", 1000)
            .claims()
            .iter()
            .map(Claimed::id_text)
            .collect()
    };
    cmd!(c, "DEL", "order");
    let check = |c: &mut Client, queue: &str, what: &str| {
        before.expect_same(&Snapshot::of(c, queue), what);
        assert_eq!(c.digest(queue), digest, "{what}");
        if queue == "q" {
            assert_eq!(c.digest("set"), set_digest, "{what}");
            assert_eq!(c.stat("set", "pause_reason").text(), "deploy", "{what}");
            assert_eq!(c.stat("set", "max-attempts").int(), 3, "{what}");
            assert_eq!(
                cmd!(c, "ORDER.STATUS", "set", "1", "other").order().outcome,
                "STATE",
                "{what}"
            );
        }
        // The claimable ones come in the order of their deadlines, each once.
        assert_eq!(cmd!(c, "COPY", queue, "again").int(), 1);
        let rows = cmd!(c, "ORDER.CLAIM", "again", "x", "COUNT", 1000).claims();
        let mut ids: Vec<String> = rows.iter().map(Claimed::id_text).collect();
        let plain = |ids: &[String]| -> Vec<String> {
            ids.iter()
                .filter(|id| id.starts_with("expired"))
                .cloned()
                .collect()
        };
        assert_eq!(plain(&ids), plain(&claimable), "{what}");
        ids.sort();
        let mut all = claimable.clone();
        all.sort();
        assert_eq!(ids, all, "{what}");
        cmd!(c, "DEL", "again");
    };
    check(&mut c, "q", "nothing");

    cmd!(c, "DEBUG", "RELOAD").ok();
    check(&mut c, "q", "DEBUG RELOAD");
    cmd!(c, "DEBUG", "LOADAOF").ok();
    check(&mut c, "q", "DEBUG LOADAOF");

    let payload = cmd!(c, "DUMP", "q").bytes().to_vec();
    cmd!(c, "RESTORE", "copy", 0, payload).ok();
    check(&mut c, "copy", "RESTORE");
    cmd!(c, "RESTORE", "copy", 0, payload, "REPLACE").ok();
    check(&mut c, "copy", "RESTORE REPLACE");
    assert_eq!(cmd!(c, "COPY", "q", "copy", "REPLACE").int(), 1);
    check(&mut c, "copy", "COPY");
    assert_eq!(cmd!(c, "COPY", "q", "elsewhere", "DB", 3).int(), 1);
    cmd!(c, "SELECT", 3).ok();
    check(&mut c, "elsewhere", "COPY to another database");
    cmd!(c, "SELECT", 0).ok();
    check(&mut c, "q", "having been copied");
    cmd!(c, "DEL", "copy");

    server.kill_and_restart();
    let mut c = server.client();
    check(&mut c, "q", "kill -9 and the plain append-only file");
    server.restart();
    let mut c = server.client();
    check(&mut c, "q", "SHUTDOWN and the plain append-only file");

    for preamble in ["yes", "no"] {
        c.config("aof-use-rdb-preamble", preamble);
        let bases = wire::aof_files(
            &server,
            if preamble == "yes" {
                ".base.rdb"
            } else {
                ".base.aof"
            },
        );
        cmd!(c, "BGREWRITEAOF");
        wait_until(SOON, "the rewrite", || {
            c.info("persistence", "aof_rewrite_in_progress") == "0"
                && c.info("persistence", "aof_rewrite_scheduled") == "0"
                && wire::aof_files(
                    &server,
                    if preamble == "yes" {
                        ".base.rdb"
                    } else {
                        ".base.aof"
                    },
                ) != bases
        });
        assert_eq!(c.info("persistence", "aof_last_bgrewrite_status"), "ok");
        check(&mut c, "q", "BGREWRITEAOF under way");
        server.kill_and_restart();
        c = server.client();
        check(
            &mut c,
            "q",
            &format!("BGREWRITEAOF with aof-use-rdb-preamble {preamble}"),
        );
    }
    expect_healthy(&server);

    // RDB alone.
    c.config("appendonly", "no");
    *server.options_mut() = Options::new();
    for way in ["SAVE", "BGSAVE", "SHUTDOWN"] {
        match way {
            "SAVE" => cmd!(c, "SAVE").ok(),
            "BGSAVE" => {
                cmd!(c, "BGSAVE");
                wait_until(SOON, "the save", || {
                    c.info("persistence", "rdb_bgsave_in_progress") == "0"
                });
                assert_eq!(c.info("persistence", "rdb_last_bgsave_status"), "ok");
            }
            _ => {
                c.send(&["SHUTDOWN", "SAVE"]);
                server.wait_end();
            }
        }
        server.kill();
        server.start_again();
        c = server.client();
        check(&mut c, "q", way);
    }
    expect_healthy(&server);
}

#[test]
fn orders_overdue_at_a_start_are_offered_at_once_in_the_order_of_their_deadlines() {
    for (what, server) in [
        ("AOF", Options::new().aof()),
        ("RDB", Options::new().line("save 3600 1")),
    ] {
        let mut server = server
            .set("announce-after-start-ms", 300)
            .events("KEd")
            .start();
        let mut c = server.client();
        let base = c.time_ms() + 400;
        let mut random = Random::new();
        let commands: Vec<_> = (0..500)
            .map(|i| {
                argv![
                    "ORDER.SCHEDULE",
                    format!("q{}", i % 3),
                    i,
                    "PXAT",
                    base + random.below(200)
                ]
            })
            .collect();
        let replies = c.pipeline(&commands);
        let deadline = |i: usize| replies[i].order().deadline as u64;
        cmd!(c, "ORDER.SCHEDULE", "q0", "far", "PX", 3_600_000)
            .order()
            .expect("OK");
        if what == "AOF" {
            server.kill();
        } else {
            server.stop();
        }
        // Down over all deadlines.
        wait_until(SOON, "the deadlines to pass", || {
            crate::support::wall_us() > (base + 210) * 1000
        });
        server.start_again();
        let mut listener = server.client();
        listener.psubscribe(&["__keyevent@0__:*"]);
        let mut c = server.client();
        // Not a poll: the first CLAIM finds them.
        for queue in 0..2 {
            let rows = cmd!(c, "ORDER.CLAIM", format!("q{queue}"), "me", "COUNT", 1000).claims();
            let mut expected: Vec<usize> = (0..500).filter(|i| i % 3 == queue).collect();
            expected.sort_by_key(|i| deadline(*i));
            let got: Vec<usize> = rows
                .iter()
                .map(|row| row.id_text().parse().unwrap())
                .collect();
            assert_eq!(
                got, expected,
                "{what}: each once, by deadline, ties as scheduled"
            );
            assert!(
                rows.iter()
                    .all(|row| row.deadline == deadline(row.id_text().parse().unwrap()))
            );
        }
        // What nobody claims is announced, once, when subscribers are back.
        let mut heard = Vec::new();
        wait_until(SOON, "the announcements", || {
            heard.extend(
                listener
                    .messages(QUIET)
                    .into_iter()
                    .filter(|m| m.channel.ends_with("order.expired")),
            );
            heard
                .iter()
                .filter(|m| m.payload.starts_with(b"q2:"))
                .count()
                >= 166
        });
        heard.extend(
            listener
                .messages(QUIET)
                .into_iter()
                .filter(|m| m.channel.ends_with("order.expired")),
        );
        let unique: BTreeSet<_> = heard.iter().map(|m| m.payload.clone()).collect();
        assert_eq!(unique.len(), heard.len(), "{what}: none twice");
        let q2 = heard
            .iter()
            .filter(|m| m.payload.starts_with(b"q2:"))
            .count();
        assert_eq!(q2, 166, "{what}: all of what nobody claimed");
        assert_eq!(
            cmd!(c, "ORDER.CLAIM", "q2", "me", "COUNT", 1000)
                .claims()
                .len(),
            166
        );
        assert_eq!(c.state("q0", "far"), "scheduled");
        expect_healthy(&server);
    }
}

#[test]
fn nothing_overdue_is_announced_early_in_any_of_many_queues() {
    const QUEUES: usize = 20_000;
    let mut server = Options::new()
        .aof()
        .line("appendfsync no")
        .events("KEd")
        .set("announce-after-start-ms", 4000)
        .start();
    let mut c = server.client();
    let commands: Vec<_> = (0..QUEUES)
        .map(|i| argv!["ORDER.SCHEDULE", format!("q{i}"), 1, "PX", 60_000])
        .collect();
    c.pipeline(&commands);
    // Overdue from now on, so that nothing was announced before.
    let commands: Vec<_> = (0..QUEUES)
        .map(|i| argv!["ORDER.SCHEDULE", format!("q{i}"), 1, "PX", 300, "XX"])
        .collect();
    c.pipeline(&commands);
    server.kill();
    thread::sleep(Duration::from_millis(350));
    server.start_again();
    let mut c = server.client();
    let announced = |c: &mut Client| c.info_number("orderwheel", "orderwheel_announced_total");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        assert_eq!(announced(&mut c), 0, "after {:?}", began.elapsed());
        thread::sleep(Duration::from_millis(20));
    }
    wait_until(SOON, "all to be announced", || {
        announced(&mut c) == QUEUES as i64
    });
}

#[test]
fn a_waiting_claimer_gets_what_is_overdue_after_a_start() {
    let mut server = Options::new().aof().start();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 30)
        .order()
        .expect("OK");
    server.kill();
    thread::sleep(Duration::from_millis(50));
    server.start_again();
    let mut waiter = server.client();
    let rows = cmd!(waiter, "ORDER.CLAIM", "q", "me", "BLOCK", 20_000).claims();
    assert_eq!(rows[0].id_text(), "1");
    // And a deadline that is still ahead wakes it to the millisecond.
    let mut c = server.client();
    let deadline = cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 700)
        .order()
        .expect("OK")
        .deadline as u64;
    server.kill_and_restart();
    let mut waiter = server.client();
    let rows = cmd!(waiter, "ORDER.CLAIM", "q", "me", "BLOCK", 20_000).claims();
    assert!(crate::support::wall_us() >= deadline * 1000);
    assert_eq!(
        (rows[0].id_text().as_str(), rows[0].deadline),
        ("2", deadline)
    );
}

#[test]
fn leases_and_fences_outlive_a_restart() {
    let mut server = Options::new().aof().start();
    let mut c = server.client();
    for id in ["held", "lapsing", "retrying"] {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0)
            .order()
            .expect("OK");
    }
    let ends = c.time_ms() + 1500;
    let mut fence =
        |id: &str, ms: u64| cmd!(c, "ORDER.CLAIM", "q", "me", "ID", id, "PX", ms).claims()[0].fence;
    let (held, lapsing, retrying) = (
        fence("held", 600_000),
        fence("lapsing", 1500),
        fence("retrying", 600_000),
    );
    cmd!(c, "ORDER.NACK", "q", "retrying", retrying, "DELAY", 1500)
        .order()
        .expect("OK");
    server.kill_and_restart();
    let mut c = server.client();
    if c.time_ms() + 300 < ends {
        assert_eq!(
            (c.state("q", "lapsing"), c.state("q", "retrying")),
            ("leased".into(), "retrying".into())
        );
    }
    let mut got = Vec::new();
    while got.len() < 2 {
        let row = cmd!(c, "ORDER.CLAIM", "q", "next", "BLOCK", 20_000)
            .claims()
            .remove(0);
        assert!(
            c.time_ms() + 3 >= ends,
            "not before the lease or the wait has ended"
        );
        assert!(
            row.fence > retrying.max(lapsing).max(held) && row.attempt == 2,
            "{row:?}"
        );
        got.push(row.id_text());
    }
    got.sort();
    assert_eq!(got, ["lapsing", "retrying"]);
    cmd!(c, "ORDER.ACK", "q", "lapsing", lapsing)
        .order()
        .expect("STALE");
    cmd!(c, "ORDER.ACK", "q", "held", held).order().expect("OK");
}

#[test]
fn fences_grow_over_every_load_also_above_those_of_orders_long_forgotten() {
    let mut server = Options::new().aof().set("fence-guard-ms", 600_000).start();
    let mut c = server.client();
    // Ahead of the clock by the guard, so that no clock can hide a mistake.
    for id in ["first", "last"] {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0)
            .order()
            .expect("OK");
    }
    let claim = |c: &mut Client, queue: &str| {
        let mut rows = cmd!(c, "ORDER.CLAIM", queue, "me", "PX", 1).claims();
        (rows.len() == 1)
            .then(|| rows.remove(0))
            .expect("one is on offer")
    };
    let mut highest = 0;
    for way in ["", "AOF", "RDB preamble", "rewritten AOF", "RDB"] {
        match way {
            "RDB preamble" | "rewritten AOF" => {
                let preamble = if way == "rewritten AOF" { "no" } else { "yes" };
                c.config("aof-use-rdb-preamble", preamble);
                cmd!(c, "BGREWRITEAOF");
                wait_until(SOON, "the rewrite", || {
                    c.info("persistence", "aof_rewrite_in_progress") == "0"
                        && c.info("persistence", "aof_rewrite_scheduled") == "0"
                });
            }
            "RDB" => {
                cmd!(c, "SAVE").ok();
                *server.options_mut() = Options::new();
            }
            _ => {}
        }
        if !way.is_empty() {
            let options = if way == "RDB" {
                Options::new()
            } else {
                Options::new().aof()
            };
            *server.options_mut() = options.set("fence-guard-ms", 0).set("max-attempts", 0);
            server.kill_and_restart();
            c = server.client();
        }
        // The order with the highest number goes, its number stays.
        cmd!(
            c,
            "ORDER.SCHEDULE",
            "q",
            "brief",
            "PXAT",
            100_000_000_000_u64
        )
        .order()
        .expect("OK");
        let row = cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "brief")
            .claims()
            .remove(0);
        assert!(
            row.fence > highest,
            "{way}: {} is not above {highest}",
            row.fence
        );
        highest = row.fence;
        cmd!(c, "ORDER.ACK", "q", "brief", row.fence, "KEEP", 0)
            .order()
            .expect("OK");
    }
    // A copy on a server that has given out nothing yet.
    let fresh = Options::new().set("fence-guard-ms", 0).start();
    let mut f = fresh.client();
    let payload = cmd!(c, "DUMP", "q").bytes().to_vec();
    cmd!(f, "RESTORE", "q", 0, payload).ok();
    let row = claim(&mut f, "q");
    assert!(
        row.fence > highest,
        "RESTORE: {} is not above {highest}",
        row.fence
    );
}

/// One of many writes, by turns.
fn mixed(random: &mut Random, queue: &str, known: &mut Vec<(String, u64)>) -> Vec<Vec<u8>> {
    let id = format!("o{}", random.below(700));
    let held = |random: &mut Random, known: &Vec<(String, u64)>| {
        known
            .get(random.below(known.len().max(1) as u64) as usize)
            .cloned()
            .unwrap_or_else(|| ("o1".into(), 1))
    };
    match random.below(20) {
        0..=4 => argv![
            "ORDER.SCHEDULE",
            queue,
            id,
            "PX",
            random.below(400),
            "UPSERT",
            "STATUS",
            "unpaid",
            "PAYLOAD",
            id
        ],
        5 => argv!["ORDER.SCHEDULE", queue, id, "PX", 3_600_000, "GT"],
        6 => argv![
            "ORDER.SCHEDULE",
            queue,
            id,
            "PX",
            500,
            "FROM",
            "paid",
            "STATUS",
            "again"
        ],
        7 => argv![
            "ORDER.FINISH",
            queue,
            id,
            "STATUS",
            "paid",
            "RESULT",
            id,
            "KEEP",
            20 + 600_000 * random.below(2)
        ],
        8 => argv![
            "ORDER.FINISH",
            queue,
            id,
            "CREATE",
            "KEEP",
            random.below(2) * 600_000
        ],
        9 => argv!["ORDER.STATUS", queue, id, format!("s{}", random.below(40))],
        10..=13 => argv![
            "ORDER.CLAIM",
            queue,
            "me",
            "COUNT",
            1 + random.below(6),
            "PX",
            1 + random.below(300)
        ],
        14..=15 => {
            let (id, fence) = held(random, known);
            argv![
                "ORDER.ACK",
                queue,
                id,
                fence,
                "STATUS",
                "closed",
                "KEEP",
                random.below(3) * 30
            ]
        }
        16 => {
            let ((a, f), (b, g)) = (held(random, known), held(random, known));
            argv!["ORDER.MACK", queue, 2, a, f, b, g, "STATUS", "closed"]
        }
        17 => {
            let (id, fence) = held(random, known);
            argv![
                "ORDER.NACK",
                queue,
                id,
                fence,
                "DELAY",
                random.below(200),
                "ERROR",
                "later"
            ]
        }
        18 => {
            let (id, fence) = held(random, known);
            argv!["ORDER.NACK", queue, id, fence, "DEAD", "ERROR", "no"]
        }
        _ => {
            let (id, fence) = held(random, known);
            argv!["ORDER.RENEW", queue, id, fence, "PX", 1 + random.below(300)]
        }
    }
}

/// Notes the fences of a claim's answer.
fn note_fences(reply: &Value, known: &mut Vec<(String, u64)>) {
    if let Value::Array(rows) = reply
        && rows
            .iter()
            .all(|row| matches!(row, Value::Array(fields) if fields.len() == 7))
    {
        known.extend(
            reply
                .claims()
                .into_iter()
                .map(|row| (row.id_text(), row.fence)),
        );
        let surplus = known.len().saturating_sub(40);
        known.drain(..surplus);
    }
}

/// The digest of a queue on every server, once all of them agree.
#[track_caller]
fn agreed(servers: &mut [(&str, &mut Client)], queue: &str) -> String {
    let mut digests = Vec::new();
    let until = Instant::now() + SOON;
    loop {
        // Forgetting goes on by itself: a difference may only be a moment's.
        digests.clear();
        for (name, c) in servers.iter_mut() {
            digests.push((*name, c.digest(queue)));
        }
        if digests.windows(2).all(|two| two[0].1 == two[1].1) {
            return digests.remove(0).1;
        }
        assert!(Instant::now() < until, "{queue}: {digests:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn digests_are_equal_on_primary_replica_and_after_every_load() {
    const STEPS: usize = 10_000;
    let mut random = Random::new();
    let mut primary = Options::new()
        .aof()
        .line("appendfsync no")
        .tcp()
        .set("dead-max", 20)
        .set("backoff-ms", 5)
        .start();
    let replica = Options::new()
        .aof()
        .line("appendfsync no")
        .replica_of(primary.port())
        .set("announce-after-start-ms", 0)
        .start();
    replica.wait_in_sync(&primary);
    let mut c = primary.client();
    // A claimer that waits, so that grants of the pass are in it too.
    let done = Arc::new(AtomicBool::new(false));
    let waiting = thread::spawn({
        let (mut client, done) = (primary.client(), Arc::clone(&done));
        move || {
            while !done.load(Ordering::Relaxed) {
                cmd!(client, "ORDER.CLAIM", "q0", "waiter", "PX", 30, "BLOCK", 50);
            }
        }
    });
    let script = "for i = 1, 3 do redis.call('ORDER.SCHEDULE', KEYS[1], ARGV[1] .. i, 'PX', i * 50, 'UPSERT') end \
                  redis.call('ORDER.FINISH', KEYS[1], ARGV[1] .. 1, 'KEEP', 0) \
                  return redis.call('ORDER.CLAIM', KEYS[1], 'lua', 'COUNT', 2, 'PX', 100)";
    let mut known = Vec::new();
    let mut step = 0;
    while step < STEPS {
        let queue = format!("q{}", random.below(3));
        match random.below(60) {
            0 => {
                let mut commands = vec![argv!["MULTI"]];
                commands.extend((0..6).map(|_| mixed(&mut random, &queue, &mut known)));
                commands.push(argv!["EXEC"]);
                let replies = c.pipeline(&commands);
                for reply in replies.last().expect("EXEC answers").items() {
                    assert!(!reply.is_error(), "{reply:?}");
                    note_fences(reply, &mut known);
                }
                step += 6;
            }
            1 => {
                let reply = cmd!(
                    c,
                    "EVAL",
                    script,
                    1,
                    queue,
                    format!("o{}", random.below(60))
                );
                note_fences(&reply, &mut known);
                step += 5;
            }
            // Not near the end, where enough must be left to be compared.
            2 if random.below(10) == 0 && step < STEPS / 4 * 3 => {
                cmd!(c, "DEL", queue);
                step += 1;
            }
            _ => {
                let commands: Vec<_> = (0..20)
                    .map(|_| mixed(&mut random, &queue, &mut known))
                    .collect();
                for (reply, command) in c.pipeline(&commands).iter().zip(&commands) {
                    assert!(!reply.is_error(), "{reply:?}: {command:?}");
                    note_fences(reply, &mut known);
                }
                step += 20;
            }
        }
    }
    done.store(true, Ordering::Relaxed);
    waiting.join().unwrap();
    replica.wait_in_sync(&primary);
    let mut r = replica.client();
    for queue in ["q0", "q1", "q2"] {
        assert!(
            c.stat(queue, "orders").int() > 20,
            "{queue} is worth comparing"
        );
        agreed(&mut [("primary", &mut c), ("replica", &mut r)], queue);
    }
    assert_eq!(
        r.info_number("orderwheel", "orderwheel_apply_mismatch_total"),
        0
    );
    assert_eq!(
        r.info_number("orderwheel", "orderwheel_apply_refused_total"),
        0
    );

    // All leases end within the next moments and nothing is dropped any more, so that
    // what follows can be compared over time. (While announcements are held back after
    // a promotion, forgetting waits with them: hence the setting above.)
    cmd!(r, "REPLICAOF", "NO", "ONE").ok();
    for c in [&mut c, &mut r] {
        c.config("orderwheel.dead-max", "100000");
    }
    let read = |c: &mut Client| -> Vec<String> {
        ["q0", "q1", "q2"]
            .iter()
            .map(|queue| c.digest(queue))
            .collect()
    };
    let steady = |c: &mut Client| {
        let mut before = read(c);
        wait_until(
            Duration::from_secs(40),
            "forgetting to come to an end",
            || {
                thread::sleep(Duration::from_millis(600));
                let now = read(c);
                let same = now == before;
                before = now;
                same
            },
        );
        before
    };
    let before = steady(&mut c);
    cmd!(c, "DEBUG", "RELOAD").ok();
    assert_eq!(read(&mut c), before, "DEBUG RELOAD");
    cmd!(c, "DEBUG", "LOADAOF").ok();
    assert_eq!(read(&mut c), before, "DEBUG LOADAOF");
    primary.kill_and_restart();
    let mut c = primary.client();
    assert_eq!(read(&mut c), before, "restart on the append-only file");
    c.config("aof-use-rdb-preamble", "no");
    cmd!(c, "BGREWRITEAOF");
    wait_until(SOON, "the rewrite", || {
        c.info("persistence", "aof_rewrite_in_progress") == "0"
            && !wire::aof_files(&primary, ".base.aof").is_empty()
    });
    primary.kill_and_restart();
    let mut c = primary.client();
    assert_eq!(
        read(&mut c),
        before,
        "restart on the rewritten append-only file"
    );
    // The replica's own file, written as it followed.
    let before = steady(&mut r);
    let snapshots: Vec<Snapshot> = ["q0", "q1", "q2"]
        .iter()
        .map(|queue| Snapshot::of(&mut r, queue))
        .collect();
    let mut replica = replica;
    *replica.options_mut() = Options::new().aof().set("dead-max", 100_000);
    replica.kill_and_restart();
    let mut r = replica.client();
    for (queue, snapshot) in ["q0", "q1", "q2"].iter().zip(&snapshots) {
        snapshot.expect_same(
            &Snapshot::of(&mut r, queue),
            "the replica's own append-only file",
        );
    }
    assert_eq!(read(&mut r), before, "the replica's own append-only file");
}

/// Clients that wait for an order of `queue` in database `db`.
#[track_caller]
fn waiter(server: &Server, db: u32, queue: &str) -> Client {
    let mut c = server.client();
    let before = c.blocked_clients();
    let mut client = server.client();
    cmd!(client, "SELECT", db).ok();
    client.send(&args!["ORDER.CLAIM", queue, "me", "BLOCK", 30_000]);
    wait_until(SOON, "the client to wait", || c.blocked_clients() > before);
    client
}

/// Fails unless this waiter gets this order and nothing else.
#[track_caller]
fn expect_served(client: &mut Client, id: &str) {
    let rows = client.read().claims();
    assert_eq!(rows.iter().map(Claimed::id_text).collect::<Vec<_>>(), [id]);
    assert!(crate::support::wall_us() >= rows[0].deadline * 1000);
}

#[test]
fn orders_go_with_a_renamed_moved_or_swapped_key_and_waiters_stay_with_the_name() {
    for how in ["RENAME", "RENAMENX", "MOVE", "SWAPDB", "COPY", "RESTORE"] {
        // Due while it moves, due long before, due after.
        for ms in [0, 300] {
            let server = Options::new().aof().events("KEd").start();
            let mut c = server.client();
            let mut listener = server.client();
            listener.psubscribe(&["__keyevent@*__:order.expired"]);
            let (db, name) = match how {
                "MOVE" | "SWAPDB" => (1, "from"),
                _ => (0, "to"),
            };
            let mut there = waiter(&server, db, name);
            c.config("orderwheel.max-leased", "0");
            cmd!(c, "ORDER.SCHEDULE", "from", "1", "PX", ms)
                .order()
                .expect("OK");
            cmd!(c, "ORDER.SCHEDULE", "from", "2", "PX", 3_600_000)
                .order()
                .expect("OK");
            match how {
                "RENAME" => cmd!(c, "RENAME", "from", "to").ok(),
                "RENAMENX" => assert_eq!(cmd!(c, "RENAMENX", "from", "to").int(), 1),
                "MOVE" => assert_eq!(cmd!(c, "MOVE", "from", 1).int(), 1),
                "SWAPDB" => cmd!(c, "SWAPDB", 0, 1).ok(),
                "COPY" => assert_eq!(cmd!(c, "COPY", "from", "to").int(), 1),
                _ => {
                    let payload = cmd!(c, "DUMP", "from").bytes().to_vec();
                    cmd!(c, "RESTORE", "to", 0, payload).ok();
                    cmd!(c, "DEL", "from");
                }
            }
            // One stays behind for whoever comes to the old name.
            let mut here = if how == "COPY" {
                None
            } else {
                Some(waiter(&server, 0, "from"))
            };
            expect_served(&mut there, "1");
            if let Some(here) = &mut here {
                assert_eq!(
                    here.read_within(QUIET),
                    None,
                    "{how}: the old name has nothing"
                );
            }
            let heard = listener.messages(QUIET);
            let key = format!("{name}:1");
            let new = heard
                .iter()
                .filter(|m| m.payload == key.as_bytes() && m.channel.contains(&format!("@{db}__")))
                .count();
            // An order that was announced under its old name is not again; a copy is
            // an order of its own.
            let old = heard.iter().filter(|m| m.payload == b"from:1").count();
            let old = if how == "SWAPDB" || how == "MOVE" {
                old - new
            } else {
                old
            };
            match how {
                "COPY" | "RESTORE" => assert_eq!(new, 1, "{how} {ms}: {heard:?}"),
                _ if ms > 0 => assert_eq!((new, old), (1, 0), "{how}: {heard:?}"),
                _ => assert_eq!(new + old, 1, "{how}: {heard:?}"),
            }
            cmd!(c, "SELECT", db).ok();
            assert_eq!(
                (c.state(name, "1"), c.state(name, "2")),
                ("leased".into(), "scheduled".into()),
                "{how}"
            );
            cmd!(c, "SELECT", 0).ok();
            if let Some(mut here) = here {
                cmd!(c, "ORDER.SCHEDULE", "from", "3", "PX", 0)
                    .order()
                    .expect("OK");
                expect_served(&mut here, "3");
            }
            expect_healthy(&server);
        }
    }
}

#[test]
fn what_is_flushed_never_fires_and_its_waiters_wait_on() {
    let ways: [&[&str]; 8] = [
        &["FLUSHDB"],
        &["FLUSHDB", "ASYNC"],
        &["FLUSHALL", "SYNC"],
        &["FLUSHALL", "ASYNC"],
        &["DEL", "q"],
        &["UNLINK", "q"],
        &["SET", "q", "a string"],
        &["PEXPIRE", "q", "1"],
    ];
    for way in ways {
        let server = Options::new().aof().events("KEd").start();
        let mut c = server.client();
        let mut listener = server.client();
        let schedule: Vec<_> = (0..300)
            .map(|i| argv!["ORDER.SCHEDULE", "q", i, "PX", 150 + i % 20])
            .collect();
        let mut waiting = waiter(&server, 0, "q");
        for reply in c.pipeline(&schedule) {
            reply.order().expect("OK");
        }
        assert!(!c.run(way).is_error());
        // Not before: all that the schedules raised is out by now.
        listener.psubscribe(&["__keyevent@*__:order.expired"]);
        let heard = listener.messages(Duration::from_millis(250));
        assert_eq!(heard, [], "{way:?}");
        assert_eq!(waiting.read_within(QUIET), None, "{way:?}");
        if way[0] == "SET" {
            assert_eq!(cmd!(c, "DEL", "q").int(), 1);
        }
        assert_eq!(cmd!(c, "EXISTS", "q").int(), 0, "{way:?}");
        assert_eq!(
            c.info_number("orderwheel", "orderwheel_queues"),
            0,
            "{way:?}"
        );
        cmd!(c, "ORDER.SCHEDULE", "q", "new", "PX", 10)
            .order()
            .expect("OK");
        expect_served(&mut waiting, "new");
        expect_healthy(&server);
    }
}

#[test]
fn a_file_without_queues_loads_without_the_module_and_one_with_them_does_not() {
    let mut server = Options::new().line("save 3600 1").start();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
        .order()
        .expect("OK");
    let fence = cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].fence;
    cmd!(c, "SET", "other", "value").ok();
    cmd!(c, "ORDER.ACK", "q", "1", fence, "KEEP", 0)
        .order()
        .expect("OK");
    assert_eq!(cmd!(c, "EXISTS", "q").int(), 0);
    *server.options_mut() = Options::new().without_module().line("save 3600 1");
    server.restart();
    assert_eq!(cmd!(server.client(), "GET", "other").text(), "value");
    *server.options_mut() = Options::new().line("save 3600 1");
    server.restart();
    cmd!(server.client(), "ORDER.SCHEDULE", "q", "1", "PX", 60_000)
        .order()
        .expect("OK");
    server.stop();
    // The other half, so that the first can fail: it says which module is lacking.
    let file = server.dir().join("dump.rdb");
    let program = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
    let socket = server.dir().join("without").display().to_string();
    let mut words = vec![
        "--port".to_owned(),
        "0".into(),
        "--unixsocket".into(),
        socket,
        "--dir".into(),
    ];
    words.push(server.dir().display().to_string());
    let output = std::process::Command::new(program)
        .args(&words)
        .output()
        .expect("a server can be started");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("ordrwheel"),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let magic = read_file(&file);
    assert!(magic.starts_with(b"REDIS") || magic.starts_with(b"VALKEY"));
    server.start_again();
    assert_eq!(server.client().state("q", "1"), "scheduled");
}

#[test]
fn the_example_configuration_starts_a_server_and_says_what_is_true() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/redis.conf.example");
    let text = fs::read_to_string(example).expect("the example is there");
    let path = std::env::temp_dir().join(format!("orderwheel-example-{}.conf", std::process::id()));
    let mut lines = Vec::new();
    let mut loads = 0;
    for line in text.lines() {
        if line.starts_with("loadmodule ") {
            loads += 1;
            lines.push(format!("loadmodule {}", module_path().display()));
        } else if line.starts_with("port ") {
            lines.push("port 0".into());
        } else {
            lines.push(line.to_owned());
        }
    }
    assert_eq!(loads, 1);
    fs::write(&path, lines.join("\n") + "\n").expect("a file can be written");
    let server = Options::new()
        .without_module()
        .line(format!("include {}", path.display()))
        .start();
    let mut c = server.client();
    fs::remove_file(&path).expect("our own file");
    let mut named = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with("orderwheel.")) {
        let (name, value) = line.split_once(' ').expect("a name and a value");
        assert_eq!(c.config_get(name), value, "{name}");
        named.insert(name.to_owned());
    }
    // Every setting is in it, with its default.
    let fresh = Server::plain();
    let mut f = fresh.client();
    for (name, default) in cmd!(f, "CONFIG", "GET", "orderwheel.*").pairs() {
        assert!(named.remove(&name), "{name} is not in the example");
        assert_eq!(
            c.config_get(&name),
            default.text(),
            "{name} is shown with another value than its default"
        );
    }
    assert!(named.is_empty(), "{named:?}");
    assert_eq!(c.config_get("appendonly"), "yes");
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
        .order()
        .expect("OK");
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me").claims().len(), 1);
}

/// What is announced later after a start once hid what falls due meanwhile: a
/// claimer that waits is served at the deadline, whatever is held back.
#[test]
fn a_claimer_that_waits_after_a_start_is_not_held_back_by_announcements() {
    let mut server = Options::new()
        .aof()
        .line("appendfsync always")
        .set("announce-after-start-ms", 60_000)
        .start();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "over", "PX", 0)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "q", "leased", "PX", 0)
        .order()
        .expect("OK");
    let leased = cmd!(c, "ORDER.CLAIM", "q", "dies", "ID", "leased", "PX", 2500).claims();
    assert_eq!(leased.len(), 1);
    let due = cmd!(c, "ORDER.SCHEDULE", "q", "due", "PX", 2500)
        .order()
        .expect("OK")
        .deadline;
    server.kill();
    server.start_again();
    let mut c = server.client();
    let over = cmd!(c, "ORDER.CLAIM", "q", "me").claims();
    assert_eq!(over[0].id_text(), "over");
    let mut ids = Vec::new();
    while ids.len() < 2 {
        let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "BLOCK", 20_000).claims();
        assert!(!rows.is_empty(), "served before the announcements: {ids:?}");
        for row in rows {
            if row.id_text() == "due" {
                assert!(c.time_ms() as i64 >= due, "not before its deadline");
            }
            ids.push(row.id_text());
        }
    }
    ids.sort();
    assert_eq!(ids, ["due", "leased"]);
    expect_healthy(&server);
}

/// A replay is no traffic: what was counted and timed when it happened is not
/// counted and timed again at a start.
#[test]
fn a_replay_counts_nothing() {
    let mut server = Options::new().aof().line("appendfsync always").start();
    let mut c = server.client();
    for i in 0..20 {
        cmd!(c, "ORDER.SCHEDULE", "q", i, "PX", 0)
            .order()
            .expect("OK");
    }
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 10).claims();
    for row in rows {
        cmd!(c, "ORDER.ACK", "q", row.id_text(), row.fence)
            .order()
            .expect("OK");
    }
    assert_eq!(c.stat("q", "scheduled_total").int(), 20);
    assert_eq!(c.stat("q", "acked_total").int(), 10);
    server.kill();
    server.start_again();
    let mut c = server.client();
    for total in ["scheduled_total", "claimed_total", "acked_total"] {
        assert_eq!(c.stat("q", total).int(), 0, "{total}");
    }
    assert_eq!(c.stat("q", "orders").int(), 20);
    assert_eq!(c.stat("q", "claim_wait_ms_max").bytes(), b"0.000");
    expect_healthy(&server);
}
