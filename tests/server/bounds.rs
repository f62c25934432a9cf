//! What one command or one pass may take, what may be lost in it (nothing), and
//! counts that only grow.

use std::time::Duration;

use crate::support::states::{expect_healthy, expect_no_fault};
use crate::support::{
    Client, Clock, Options, SOON, Server, Value, args, argv, cmd, wait_until, wall_us,
};

/// The longest result there is without another setting.
const RESULT_BYTES: usize = 65_536;

/// `count` clients that wait for the lock of an order which `holder` has; and the
/// fence of that lock.
#[track_caller]
fn in_line(server: &Server, queue: &str, count: usize) -> (u64, Vec<Client>) {
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", queue, "1", "PX", 600_000)
        .order()
        .expect("OK");
    let fence = cmd!(c, "ORDER.LOCK", queue, "1", "holder", "PX", 600_000)
        .lease()
        .expect("OK")
        .fence;
    let mut clients = Vec::with_capacity(count);
    for n in 0..count {
        let mut client = server.client();
        let owner = format!("w{n}");
        client.send(&["ORDER.LOCK", queue, "1", &owner, "PX", "5000", "BLOCK", "0"]);
        clients.push(client);
    }
    wait_until(SOON, "all to wait", || {
        c.stat(queue, "lock_waiters").int() == count as i64
    });
    (fence, clients)
}

/// A number out of the text of INFO.
#[track_caller]
fn number(info: &Value, field: &str) -> i64 {
    let text = info.text();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.expect("INFO has it").parse().expect("it is a number")
}

#[test]
fn those_who_wait_for_a_lock_share_what_they_are_told() {
    const WAITERS: usize = 100;
    let server = Server::plain();
    let mut c = server.client();
    let result = "r".repeat(RESULT_BYTES);
    for (queue, verb) in [("f", "ORDER.FINISH"), ("a", "ORDER.ACK")] {
        let (fence, mut waiters) = in_line(&server, queue, WAITERS);
        let fence = fence.to_string();
        let mut words = vec![verb, queue, "1"];
        if verb == "ORDER.FINISH" {
            words.push("FENCE");
        }
        words.extend([&fence, "STATUS", "paid", "RESULT", &result, "KEEP", "0"]);
        // What the command itself takes is seen before the pass wakes anybody.
        cmd!(c, "MULTI").ok();
        cmd!(c, "INFO", "memory");
        c.run(&words);
        cmd!(c, "INFO", "memory");
        let replies = cmd!(c, "EXEC");
        let [before, done, after] = replies.items() else {
            panic!("{replies:?}")
        };
        done.order().expect("OK");
        let more = number(after, "used_memory") - number(before, "used_memory");
        assert!(
            more < (WAITERS * RESULT_BYTES / 10) as i64,
            "{verb}: {more} bytes for {WAITERS} who wait"
        );
        for waiter in &mut waiters {
            let told = waiter.read();
            assert_eq!(told.lease().expect("FINISHED").state, "missing");
            assert!(format!("{told:?}").len() > RESULT_BYTES);
        }
    }
    expect_healthy(&server);
}

#[test]
fn telling_those_who_wait_keeps_to_the_budget() {
    const WAITERS: usize = 400;
    for keep in ["0", "60000"] {
        let server = Options::new().set("tick-budget-us", 100).start();
        let mut c = server.client();
        let (fence, mut waiters) = in_line(&server, "q", WAITERS);
        let result = "r".repeat(RESULT_BYTES);
        let before = c.info_number("orderwheel", "orderwheel_timer_runs_total");
        cmd!(
            c,
            "ORDER.FINISH",
            "q",
            "1",
            "FENCE",
            fence,
            "RESULT",
            &result,
            "KEEP",
            keep
        )
        .order()
        .expect("OK");
        for waiter in &mut waiters {
            waiter.read().lease().expect("FINISHED");
        }
        // Each takes some microseconds: in one go it would be one run, or two.
        let runs = c.info_number("orderwheel", "orderwheel_timer_runs_total") - before;
        assert!(runs >= 5, "KEEP {keep}: {WAITERS} clients in {runs} runs");
        expect_healthy(&server);
    }
}

#[test]
fn looking_at_locks_that_go_on_keeps_to_the_budget() {
    const LOCKS: usize = 400;
    const RENEW: &str = "for i = 2, #ARGV do
        redis.call('ORDER.RENEW', KEYS[1], i, ARGV[i], 'PX', ARGV[1])
    end";
    let server = Options::new().set("tick-budget-us", 100).start();
    let mut c = server.client();
    let mut words = argv!["EVAL", RENEW, 1, "q", 600_000];
    let mut waiters = Vec::with_capacity(LOCKS);
    for n in 2..LOCKS + 2 {
        let held = cmd!(c, "ORDER.LOCK", "q", n, "holder", "PX", 500_000).lease();
        words.push(held.expect("OK").fence.to_string().into_bytes());
        let mut client = server.client();
        client.send(&args!["ORDER.LOCK", "q", n, "w", "PX", 5, "BLOCK", 0]);
        waiters.push(client);
    }
    wait_until(SOON, "all to wait", || {
        c.stat("q", "lock_waiters").int() == LOCKS as i64
    });
    let runs = |c: &mut Client| c.info_number("orderwheel", "orderwheel_timer_runs_total");
    // At rest: nothing is due.
    let mut before = 0;
    wait_until(SOON, "the passes to end", || {
        let last = std::mem::replace(&mut before, runs(&mut c));
        std::thread::sleep(Duration::from_millis(20));
        last == before
    });
    assert!(!c.run(&words).is_error());
    // All are changed at once, and none becomes free.
    wait_until(SOON, "several passes", || runs(&mut c) - before >= 4);
    drop(waiters);
    expect_no_fault(&server);
}

#[test]
fn totals_count_every_queue_and_only_grow() {
    const QUEUES: i64 = 1_500;
    let totals = [
        "orderwheel_lock_attempt_total",
        "orderwheel_lock_acquired_total",
        "orderwheel_lock_busy_total",
        "orderwheel_dead_dropped_total",
    ];
    let server = Options::new().set("dead-max", 1).start();
    let mut c = server.client();
    for id in ["1", "2", "3", "4"] {
        cmd!(c, "ORDER.SCHEDULE", "dead", id, "PX", 0)
            .order()
            .expect("OK");
    }
    for row in cmd!(c, "ORDER.CLAIM", "dead", "me", "COUNT", 4).claims() {
        cmd!(c, "ORDER.NACK", "dead", &row.id, row.fence, "DEAD")
            .order()
            .expect("OK");
    }
    let mut calls = Vec::new();
    for n in 0..QUEUES {
        for owner in ["a", "b"] {
            calls.push(argv![
                "ORDER.LOCK",
                format!("q{n}"),
                "x",
                owner,
                "PX",
                60_000
            ]);
        }
    }
    c.pipeline(&calls);
    let read = |c: &mut Client| totals.map(|name| c.info_number("orderwheel", name));
    let all = [2 * QUEUES, QUEUES, QUEUES, 3];
    wait_until(SOON, "all to be counted", || read(&mut c) == all);
    // Whatever becomes of the queues, and while they are being freed elsewhere.
    for n in 0..100 {
        cmd!(c, "DEL", format!("q{n}"));
    }
    assert_eq!(read(&mut c), all);
    cmd!(c, "FLUSHALL", "ASYNC").ok();
    for _ in 0..20 {
        assert_eq!(read(&mut c), all);
    }
    cmd!(c, "ORDER.LOCK", "q", "x", "a", "PX", 60_000)
        .lease()
        .expect("OK");
    assert_eq!(read(&mut c), [all[0] + 1, all[1] + 1, all[2], all[3]]);
    expect_no_fault(&server);
}

#[test]
fn a_queue_that_a_replica_takes_for_expired_is_looked_after_when_it_is_not() {
    let clock = Clock::new();
    // To the primary the key lives for 20 seconds more.
    clock.set_ahead(-20_000);
    let primary = clock
        .rule(Options::new().tcp().line("repl-diskless-sync-delay 0"))
        .start();
    let replica = Options::new().replica_of(primary.port()).start();
    replica.wait_in_sync(&primary);
    let (mut c, mut r) = (primary.client(), replica.client());
    let start_ms = wall_us() / 1000;
    cmd!(c, "ORDER.SCHEDULE", "q", "first", "PXAT", start_ms + 600)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "q", "last", "PXAT", start_ms + 3_000)
        .order()
        .expect("OK");
    assert_eq!(cmd!(c, "PEXPIREAT", "q", start_ms + 300).int(), 1);
    replica.wait_in_sync(&primary);
    // The replica has looked at the queue, for the first deadline, and found nothing.
    wait_until(SOON, "the first deadline to pass", || {
        wall_us() / 1000 > start_ms + 700
    });
    assert_eq!(cmd!(r, "EXISTS", "q").int(), 0, "over, to the replica");
    assert_eq!(cmd!(c, "PERSIST", "q").int(), 1, "alive, to the primary");
    replica.wait_in_sync(&primary);
    assert_eq!(cmd!(r, "EXISTS", "q").int(), 1);
    cmd!(r, "REPLICAOF", "NO", "ONE").ok();
    for id in ["first", "last"] {
        let rows = cmd!(r, "ORDER.CLAIM", "q", "me", "BLOCK", 8_000).claims();
        assert_eq!(rows.len(), 1, "{id} wakes the one who waits");
        assert_eq!(rows[0].id_text(), id);
    }
    expect_no_fault(&replica);
    expect_no_fault(&primary);
}
