//! Digests: equal on the primary, on its replica and after every load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::states::Snapshot;
use crate::support::{Client, Options, Random, SOON, Value, argv, cmd, wait_until, wire};

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
