//! The brake: so many orders a second over all claimers, and no more.
//!
//! When an order was handed out is read from its fence: with `fence-guard-ms` 0 that is
//! the server's clock at the decision, in microseconds. So what is held against the rate
//! does not depend on how late a reply was read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::states::expect_healthy;
use crate::support::{Claimed, Client, Options, SOON, Server, Value, args, argv, cmd, wait_until};

/// How long "nothing happens" is watched.
const QUIET: Duration = Duration::from_millis(40);
/// What two clocks, one read after the other on a busy machine, may be apart, microseconds.
const APART_US: u64 = 10_000;
/// A change at run time is felt within this time.
const FELT: Duration = Duration::from_millis(100);

/// A server whose fences are its clock.
fn server(per_s: u64) -> Server {
    Options::new()
        .set("fence-guard-ms", 0)
        .set("claims-per-s-max", per_s)
        .start()
}

/// Schedules so many orders that are due at once.
fn overdue(c: &mut Client, queue: &str, orders: usize) {
    let commands: Vec<_> = (0..orders)
        .map(|id| argv!["ORDER.SCHEDULE", queue, id, "PX", 0])
        .collect();
    for some in commands.chunks(1_000) {
        c.pipeline(some);
    }
}

/// What a claim gets that does not wait.
fn claim(c: &mut Client, queue: &str, count: u32) -> Vec<Claimed> {
    cmd!(c, "ORDER.CLAIM", queue, "me", "COUNT", count, "EX", 600).claims()
}

/// A client that waits in a CLAIM.
#[track_caller]
fn waiter(server: &Server, queue: &str, count: u32) -> Client {
    let mut c = server.client();
    let before = c.stat(queue, "claim_waiters").int();
    let mut client = server.client();
    client.send(&args![
        "ORDER.CLAIM",
        queue,
        "waiter",
        "COUNT",
        count,
        "EX",
        600,
        "BLOCK",
        0
    ]);
    wait_until(SOON, "the client to wait", || {
        c.stat(queue, "claim_waiters").int() > before
    });
    client
}

/// What came of claims that the brake has kept something back from.
fn held_back(c: &mut Client, queue: &str) -> (i64, i64) {
    (
        c.stat(queue, "claims_held_back_total").int(),
        c.info_number("orderwheel", "orderwheel_claims_held_back_total"),
    )
}

/// Until the next order may go, milliseconds.
fn wait_ms(c: &mut Client, queue: &str) -> i64 {
    c.stat(queue, "claim_limit_wait_ms").int()
}

/// One closer until it is told to stop: when each of its orders was handed out.
fn closer(mut c: Client, blocks: bool, stop: &AtomicBool) -> Vec<u64> {
    let mut times_us = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let rows = if blocks {
            cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 100, "BLOCK", 300).claims()
        } else {
            cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 100).claims()
        };
        times_us.extend(rows.iter().map(|row| row.fence));
        if rows.is_empty() {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        let mut mack = argv!["ORDER.MACK", "q", rows.len()];
        for row in &rows {
            mack.extend(argv![&row.id, row.fence]);
        }
        mack.extend(argv!["KEEP", 0]);
        let words = c.run(&mack);
        assert!(words.items().iter().all(|word| word.text() == "OK"));
    }
    times_us
}

/// Fails if within any time whatever more was handed out than it brings and what may go
/// at once.
#[track_caller]
fn expect_at_most(times_us: &[u64], per_s: u64) {
    let at_once = (per_s / 10).max(1);
    // In millionths of an order: how far each is ahead of the rate, against the one
    // before it that was furthest behind.
    let mut behind = i128::MAX;
    for (nth, at_us) in times_us.iter().enumerate() {
        let ahead = nth as i128 * 1_000_000 - i128::from(*at_us) * i128::from(per_s);
        behind = behind.min(ahead);
        let burst = (ahead - behind) / 1_000_000 + 1;
        let most = at_once + 1 + APART_US * per_s / 1_000_000;
        assert!(
            burst <= i128::from(most),
            "{burst} at once by order {nth} of {}, {most} may go",
            times_us.len()
        );
    }
}

#[test]
fn a_thousand_a_second_go_to_eight_closers_and_no_more() {
    const ORDERS: usize = 100_000;
    const SECONDS: u64 = 3;
    for blocking in [0, 4, 8] {
        let server = server(1_000);
        let mut c = server.client();
        overdue(&mut c, "q", ORDERS);
        let stop = AtomicBool::new(false);
        let mut times_us: Vec<u64> = thread::scope(|scope| {
            let closers: Vec<_> = (0..8)
                .map(|n| {
                    let (client, stop) = (server.client(), &stop);
                    scope.spawn(move || closer(client, n < blocking, stop))
                })
                .collect();
            thread::sleep(Duration::from_millis(SECONDS * 1_000 + 1_100));
            stop.store(true, Ordering::Relaxed);
            closers
                .into_iter()
                .flat_map(|closer| closer.join().unwrap())
                .collect()
        });
        times_us.sort_unstable();
        expect_at_most(&times_us, 1_000);
        let begun = times_us[0];
        let within = |second: u64| {
            let (from, to) = (begun + second * 1_000_000, begun + (second + 1) * 1_000_000);
            times_us
                .iter()
                .filter(|at| (from..to).contains(*at))
                .count()
        };
        let counts: Vec<usize> = (0..=SECONDS).map(within).collect();
        eprintln!("{blocking} of 8 block: {counts:?} in each second");
        for count in &counts {
            // Busy machines stop now and then; the bench row `brake` says how exact it is.
            assert!((500..=1_102).contains(count), "{blocking}: {counts:?}");
        }
        let (queue, all) = held_back(&mut c, "q");
        assert!(queue > 100 && queue == all, "{queue} {all}");
        expect_healthy(&server);
    }
}

#[test]
fn who_waits_is_served_in_turn_with_what_there_is() {
    let server = server(20);
    let mut c = server.client();
    overdue(&mut c, "q", 60);
    assert_eq!(wait_ms(&mut c, "q"), 0);
    let first = claim(&mut c, "q", 100);
    assert_eq!(
        first.len(),
        2,
        "a tenth of a second, of a hundred asked for"
    );
    let mut waiting: Vec<Client> = (0..3).map(|_| waiter(&server, "q", 100)).collect();
    // Nobody gets past those who wait, however they ask.
    let mut plain = 0;
    for words in [
        argv!["ORDER.CLAIM", "q", "me"],
        argv!["ORDER.CLAIM", "q", "me", "COUNT", 100],
        argv!["ORDER.CLAIM", "q", "me", "ID", "59"],
        argv!["ORDER.CLAIM", "q", "me", "ID", "not there"],
        argv![
            "EVAL",
            "return redis.call('ORDER.CLAIM', KEYS[1], 'me', 'BLOCK', '50')",
            1,
            "q"
        ],
    ] {
        if c.stat("q", "claim_waiters").int() > 0 {
            assert_eq!(c.run(&words).claims(), [], "{words:?}");
            plain += 1;
        }
    }
    let mut last = 0;
    for (client, after_us) in waiting.iter_mut().zip([50_000, 100_000, 150_000]) {
        let rows = client.read().claims();
        assert_eq!(rows.len(), 1, "one, as soon as there is one");
        let since_us = rows[0].fence - first[0].fence;
        assert!(since_us + APART_US >= after_us, "after {since_us} us");
        assert!(since_us < 5_000_000, "after {since_us} us");
        assert!(rows[0].fence > last, "in turn");
        last = rows[0].fence;
        assert!(
            rows[0].lease_ms > 590_000,
            "it begins when it is handed out"
        );
    }
    if plain == 5 {
        // The claim that got two, three that had to wait, and four that got none: but not
        // the one that asked for what is not there.
        assert_eq!(held_back(&mut c, "q"), (8, 8));
    }
    // Once nobody waits, who asks gets one.
    wait_until(SOON, "the next one", || !claim(&mut c, "q", 1).is_empty());
    expect_healthy(&server);
}

#[test]
fn nobody_waits_while_orders_may_go() {
    let server = server(1_000);
    let mut c = server.client();
    let mut waiting = waiter(&server, "q", 100);
    // They fall due while it waits: all that are there go at once.
    cmd!(c, "MULTI").ok();
    for id in 0..40 {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0);
    }
    cmd!(c, "EXEC");
    assert_eq!(waiting.read().claims().len(), 40);
    // Who comes while they may go does not wait either.
    for id in 40..50 {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0);
    }
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 5, "BLOCK", 0).claims();
    assert_eq!(rows.len(), 5);
    assert_eq!(held_back(&mut c, "q"), (0, 0));
    // Two in line: what the first leaves is the second's, in the same pass.
    cmd!(c, "DEL", "q");
    let mut two = [waiter(&server, "q", 3), waiter(&server, "q", 9)];
    cmd!(c, "MULTI").ok();
    for id in 0..9 {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0);
    }
    cmd!(c, "EXEC");
    let rows = two.each_mut().map(|client| client.read().claims());
    assert_eq!([rows[0].len(), rows[1].len()], [3, 6]);
    assert!(rows[1][0].fence - rows[0][0].fence < 50_000, "at once");
}

#[test]
fn a_change_at_run_time_is_felt_within_a_tenth_of_a_second() {
    const WAITERS: usize = 8;
    let ways: [(&str, Vec<Vec<u8>>); 5] = [
        (
            "own",
            argv!["ORDER.CONFIG", "q", "SET", "claims-per-s-max", 1_000],
        ),
        (
            "own 0",
            argv!["ORDER.CONFIG", "q", "SET", "claims-per-s-max", 0],
        ),
        (
            "server's",
            argv!["CONFIG", "SET", "orderwheel.claims-per-s-max", 1_000],
        ),
        (
            "server's 0",
            argv!["CONFIG", "SET", "orderwheel.claims-per-s-max", 0],
        ),
        (
            "reset",
            argv!["ORDER.CONFIG", "q", "RESET", "claims-per-s-max"],
        ),
    ];
    for (name, words) in ways {
        let mut took = Vec::new();
        // A busy machine may be late; a missed wake would be late each time, for at one a
        // second the last one waits for eight.
        for _ in 0..5 {
            let server = server(u64::from(name != "reset"));
            let mut c = server.client();
            overdue(&mut c, "q", 30);
            if name == "reset" {
                cmd!(c, "ORDER.CONFIG", "q", "SET", "claims-per-s-max", 1).ok();
            }
            assert_eq!(claim(&mut c, "q", 9).len(), 1);
            let mut waiting: Vec<Client> = (0..WAITERS).map(|_| waiter(&server, "q", 1)).collect();
            let start = Instant::now();
            assert!(!c.run(&words).is_error(), "{name}");
            for client in &mut waiting {
                assert_eq!(client.read().claims().len(), 1, "{name}");
            }
            took.push(start.elapsed());
            if start.elapsed() <= FELT {
                break;
            }
        }
        eprintln!("{name}: {took:?}");
        assert!(took.iter().any(|took| *took <= FELT), "{name}: {took:?}");
    }
    // And the other way: a limit that comes while all was handed out.
    let server = server(0);
    let mut c = server.client();
    overdue(&mut c, "q", 99);
    assert_eq!(claim(&mut c, "q", 50).len(), 50);
    assert_eq!(held_back(&mut c, "q"), (0, 0));
    c.config("orderwheel.claims-per-s-max", "1");
    assert_eq!(claim(&mut c, "q", 50).len(), 1);
    assert_eq!(claim(&mut c, "q", 50), []);
    assert_eq!(held_back(&mut c, "q"), (2, 2));
    assert!((1..=1_000).contains(&wait_ms(&mut c, "q")));
}

#[test]
fn what_something_else_holds_back_uses_nothing_up() {
    let server = server(1);
    let mut c = server.client();
    overdue(&mut c, "q", 9);
    cmd!(c, "ORDER.PAUSE", "q").ok();
    assert_eq!(claim(&mut c, "q", 9), []);
    cmd!(c, "ORDER.RESUME", "q").ok();
    assert_eq!(claim(&mut c, "empty", 9), []);
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "none").claims(), []);
    for id in ["none", "other"] {
        cmd!(c, "ORDER.LOCK", "q", id, "me", "PX", 60_000)
            .lease()
            .expect("OK");
    }
    assert_eq!(held_back(&mut c, "q"), (0, 0));
    assert_eq!(wait_ms(&mut c, "q"), 0, "nothing is used up");
    let row = claim(&mut c, "q", 9).remove(0);
    assert!(wait_ms(&mut c, "q") > 0);
    // A second try is an order like any other.
    cmd!(c, "ORDER.NACK", "q", &row.id, row.fence, "DELAY", 0)
        .order()
        .expect("OK");
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "q", "me", "ID", &row.id).claims(),
        []
    );
    assert_eq!(held_back(&mut c, "q"), (2, 2));
    // max-leased: full, and the tokens stay.
    cmd!(
        c,
        "ORDER.CONFIG",
        "q",
        "SET",
        "claims-per-s-max",
        20,
        "max-leased",
        1
    )
    .ok();
    assert_eq!(claim(&mut c, "q", 9).len(), 1);
    assert_eq!(claim(&mut c, "q", 9), []);
    assert_eq!(wait_ms(&mut c, "q"), 0);
    assert_eq!(held_back(&mut c, "q"), (2, 2));
}

/// A grant that the server refuses was not made.
#[test]
fn a_refused_grant_uses_nothing_up() {
    let server = server(1);
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 150);
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 150);
    let mut waiting = waiter(&server, "q", 1);
    c.config("min-replicas-to-write", "1");
    wait_until(SOON, "them to be due", || c.stat("q", "expired").int() == 2);
    assert_eq!(waiting.read_within(QUIET), None);
    assert_eq!(wait_ms(&mut c, "q"), 0);
    c.config("min-replicas-to-write", "0");
    assert_eq!(waiting.read().claims()[0].id_text(), "1");
    assert!(wait_ms(&mut c, "q") > 0);
    expect_healthy(&server);
}

#[test]
fn it_goes_with_the_queue_and_is_full_after_a_load() {
    let mut server = Options::new().aof().set("claims-per-s-max", 1).start();
    let mut c = server.client();
    overdue(&mut c, "q", 30);
    // At one a second: a slow machine may have the next one already.
    let mut renamed = Vec::new();
    wait_until(SOON, "a name that is changed at once", || {
        let start = Instant::now();
        wait_until(SOON, "one", || !claim(&mut c, "q", 9).is_empty());
        cmd!(c, "RENAME", "q", "other").ok();
        renamed = claim(&mut c, "other", 9);
        cmd!(c, "COPY", "other", "copy", "REPLACE");
        let copied = claim(&mut c, "copy", 9);
        cmd!(c, "RENAME", "other", "q").ok();
        assert_eq!(copied.len(), 1, "a copy is a queue of its own");
        start.elapsed() < Duration::from_millis(900) || !renamed.is_empty()
    });
    assert_eq!(renamed, [], "used up, under whatever name");
    cmd!(c, "DEL", "copy");
    let digest = c.digest("q");
    cmd!(c, "DEBUG", "RELOAD").ok();
    assert_eq!((wait_ms(&mut c, "q"), c.digest("q")), (0, digest.clone()));
    server.restart();
    let mut c = server.client();
    assert_eq!((wait_ms(&mut c, "q"), c.digest("q")), (0, digest));
    assert_eq!(claim(&mut c, "q", 9).len(), 1);
    assert!(wait_ms(&mut c, "q") > 0);
    // Who waits under a name is served by the queue that comes to it.
    cmd!(c, "DEL", "q");
    let mut waiting = waiter(&server, "q", 1);
    overdue(&mut c, "elsewhere", 3);
    assert_eq!(claim(&mut c, "elsewhere", 1).len(), 1);
    let start = Instant::now();
    cmd!(c, "RENAME", "elsewhere", "q").ok();
    assert_eq!(waiting.read().claims().len(), 1, "when its next one may go");
    assert!(start.elapsed() < Duration::from_secs(8));
    expect_healthy(&server);
}

#[test]
fn replicas_know_nothing_of_it_and_a_promoted_one_has_all_of_it() {
    let primary = Options::new().tcp().set("claims-per-s-max", 1).start();
    let mut replica = Options::new()
        .replica_of(primary.port())
        .set("claims-per-s-max", 1)
        .start();
    replica.wait_in_sync(&primary);
    let (mut c, mut r) = (primary.client(), replica.client());
    overdue(&mut c, "q", 30);
    assert_eq!(claim(&mut c, "q", 9).len(), 1);
    // By the pass, too.
    let mut waiting = waiter(&primary, "q", 1);
    assert_eq!(waiting.read().claims().len(), 1);
    assert!(wait_ms(&mut c, "q") > 0);
    replica.wait_in_sync(&primary);
    assert_eq!(
        wait_ms(&mut r, "q"),
        0,
        "it was told, and has decided nothing"
    );
    assert_eq!(r.digest("q"), c.digest("q"));
    cmd!(r, "REPLICAOF", "NO", "ONE").ok();
    assert_eq!(claim(&mut r, "q", 9).len(), 1);
    // Demoted and promoted again: full, though less than a second has passed.
    let mut soonest = Duration::MAX;
    for _ in 0..5 {
        wait_until(SOON, "one", || !claim(&mut r, "q", 1).is_empty());
        let start = Instant::now();
        cmd!(r, "REPLICAOF", "127.0.0.1", 1).ok();
        cmd!(r, "REPLICAOF", "NO", "ONE").ok();
        wait_until(SOON, "the walk", || wait_ms(&mut r, "q") == 0);
        soonest = soonest.min(start.elapsed());
    }
    assert!(soonest < Duration::from_millis(800), "{soonest:?}");
    expect_healthy(&primary);
    expect_healthy(&replica);
    replica.stop();
}

/// The timer sleeps until the next order may go.
#[test]
fn waiting_for_the_next_order_polls_for_nothing() {
    let server = server(1);
    let mut c = server.client();
    overdue(&mut c, "q", 30);
    assert_eq!(claim(&mut c, "q", 1).len(), 1);
    let mut waiting: Vec<Client> = (0..2).map(|_| waiter(&server, "q", 9)).collect();
    let runs = |c: &mut Client| c.info_number("orderwheel", "orderwheel_timer_runs_total");
    let before = runs(&mut c);
    let rows: Vec<Claimed> = waiting
        .iter_mut()
        .flat_map(|client| client.read().claims())
        .collect();
    assert_eq!(rows.len(), 2);
    let gap_us = rows[1].fence - rows[0].fence;
    assert!(gap_us + APART_US >= 1_000_000, "after {gap_us} us");
    let runs = runs(&mut c) - before;
    assert!((2..40).contains(&runs), "{runs} runs in two seconds");
}

#[test]
fn memory_usage_knows_the_bucket() {
    let server = Server::plain();
    let mut c = server.client();
    let usage = |c: &mut Client| cmd!(c, "MEMORY", "USAGE", "q").int();
    overdue(&mut c, "q", 5);
    cmd!(c, "ORDER.CONFIG", "q", "SET", "claims-per-s-max", 7).ok();
    assert_eq!(claim(&mut c, "q", 1).len(), 1);
    // The bucket goes with a change of the setting, and nothing else does.
    let braked = usage(&mut c);
    cmd!(c, "ORDER.CONFIG", "q", "SET", "claims-per-s-max", 8).ok();
    assert_eq!(braked - usage(&mut c), 32);
    let reply = cmd!(c, "ORDER.CONFIG", "q", "SET", "claims-per-s-max", 1_000_001);
    assert_eq!(
        reply.error(),
        "ERR value of claims-per-s-max is out of range, must be an integer between 0 and 1000000"
    );
    assert_eq!(cmd!(c, "PING"), Value::Simple("PONG".into()));
}
