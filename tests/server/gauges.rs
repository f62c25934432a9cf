//! What INFO says of all queues together is what STATS says of each.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::support::states::expect_no_fault;
use crate::support::{Client, Options, Random, Server, args, argv, cmd, wait_until};

/// The gauges that are sums, and those that are the largest.
const SUMS: [&str; 10] = [
    "scheduled",
    "expired",
    "leased",
    "retrying",
    "dead",
    "finished",
    "reserved",
    "orders",
    "overdue",
    "live_claims",
];
const LARGEST: [&str; 2] = ["oldest_expired_ms", "oldest_overdue_ms"];

/// How long the sums may take to follow, a second beside what the machine does.
const SOON: Duration = Duration::from_secs(10);

/// The gauges of INFO.
fn info(c: &mut Client) -> BTreeMap<String, i64> {
    let text = cmd!(c, "INFO", "orderwheel").text();
    let fields = text.lines().filter_map(|line| {
        let (name, value) = line.strip_prefix("orderwheel_")?.split_once(':')?;
        let is_gauge = SUMS.contains(&name) || LARGEST.contains(&name);
        is_gauge.then(|| (name.to_owned(), value.trim().parse().unwrap()))
    });
    fields.collect()
}

/// The same from STATS of every queue in the first three databases.
fn of_each(c: &mut Client) -> BTreeMap<String, i64> {
    let names = SUMS.iter().chain(&LARGEST);
    let mut all: BTreeMap<String, i64> = names.map(|name| ((*name).to_owned(), 0)).collect();
    for db in 0..3 {
        cmd!(c, "SELECT", db);
        let keys: Vec<String> = cmd!(c, "KEYS", "*")
            .items()
            .iter()
            .map(|key| key.text())
            .collect();
        for some in keys.chunks(1000) {
            let asks: Vec<_> = some.iter().map(|key| argv!["ORDER.STATS", key]).collect();
            // Not all of them are queues.
            for reply in c.pipeline(&asks).iter().filter(|reply| !reply.is_error()) {
                for (name, value) in reply.pairs() {
                    let Some(sum) = all.get_mut(&name) else {
                        continue;
                    };
                    *sum = if LARGEST.contains(&&*name) {
                        (*sum).max(value.int())
                    } else {
                        *sum + value.int()
                    };
                }
            }
        }
    }
    cmd!(c, "SELECT", 0);
    all
}

/// Whether INFO says what STATS of all queues come to.
fn agree(c: &mut Client) -> Result<(), String> {
    // INFO first: STATS looks at the queue, and the sums follow at once.
    let told = info(c);
    let each = of_each(c);
    for name in SUMS {
        if told[name] != each[name] {
            return Err(format!(
                "{name}: {} in INFO, {} in STATS",
                told[name], each[name]
            ));
        }
    }
    for name in LARGEST {
        // Two seconds by which each may be off, and the time between the two.
        if (told[name] - each[name]).abs() > 4_000 {
            return Err(format!(
                "{name}: {} in INFO, {} in STATS",
                told[name], each[name]
            ));
        }
    }
    Ok(())
}

/// Waits until they do.
#[track_caller]
fn expect_agreement(c: &mut Client, after: &str) {
    let until = Instant::now() + SOON;
    loop {
        match agree(c) {
            Ok(()) => return,
            Err(why) => assert!(Instant::now() < until, "after {after}: {why}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// One random command on one of 40 queues in three databases.
fn random(dice: &mut Random) -> Vec<Vec<u8>> {
    let queue = format!("q{}", dice.below(40));
    let other = format!("q{}", dice.below(40));
    let id = dice.below(30);
    let ms = [0, 1, 30, 400, 3_000, 90_000][dice.below(6) as usize];
    match dice.below(40) {
        0..=11 => argv!["ORDER.SCHEDULE", queue, id, "PX", ms, "UPSERT"],
        12..=16 => argv!["ORDER.CLAIM", queue, "me", "COUNT", 5, "PX", ms + 1],
        17 => argv!["ORDER.CLAIM", queue, "me", "ID", id, "PX", ms + 1],
        18..=20 => argv!["ORDER.LOCK", queue, id, "shop", "PX", ms + 1],
        21..=24 => argv!["ORDER.FINISH", queue, id, "KEEP", ms],
        25 => argv!["ORDER.BREAK", queue, id],
        26 => argv!["ORDER.PURGE", queue, "STATE", "finished"],
        27 => argv!["ORDER.REQUEUE", queue],
        28 => argv!["ORDER.PAUSE", queue, "PX", 300],
        29 => argv!["RENAME", queue, other],
        30 => argv!["COPY", queue, other, "REPLACE"],
        31 => argv!["COPY", queue, other, "DB", 1, "REPLACE"],
        32 => argv!["MOVE", queue, 2],
        33 => argv!["SWAPDB", 0, 1 + dice.below(2)],
        34 => argv!["DEL", queue],
        35 => argv!["UNLINK", queue],
        36 => argv!["SET", queue, "another", "XX"],
        37 => argv!["PEXPIRE", queue, 200],
        _ => argv!["ORDER.CONFIG", queue, "SET", "max-attempts", 1 + id % 3],
    }
}

#[test]
fn info_is_the_sum_of_all_queues_after_every_way_in_and_out() {
    let primary = Options::new()
        .tcp()
        .line("repl-diskless-sync-delay 0")
        .start();
    let mut c = primary.client();
    let mut dice = Random::new();
    let mut write = |c: &mut Client, count: u32| {
        for _ in 0..count {
            let commands: Vec<_> = (0..100).map(|_| random(&mut dice)).collect();
            let replies = c.pipeline(&commands);
            // Claims that went by are given back or acknowledged.
            let claims = commands
                .iter()
                .zip(&replies)
                .filter(|(command, _)| command[0] == b"ORDER.CLAIM");
            let mut ends = Vec::new();
            for (command, reply) in claims.filter(|(_, reply)| !reply.is_error()) {
                for (n, row) in reply.clone().claims().into_iter().enumerate() {
                    let queue = String::from_utf8(command[1].clone()).unwrap();
                    ends.push(match n % 4 {
                        0 => argv!["ORDER.ACK", queue, row.id, row.fence],
                        1 => argv!["ORDER.NACK", queue, row.id, row.fence, "DELAY", 700],
                        2 => argv!["ORDER.NACK", queue, row.id, row.fence, "DEAD"],
                        _ => continue,
                    });
                }
            }
            c.pipeline(&ends);
        }
    };
    write(&mut c, 60);
    expect_agreement(&mut c, "random commands");
    let replica = Options::new().replica_of(primary.port()).start();
    replica.wait_in_sync(&primary);
    let mut r = replica.client();
    expect_agreement(&mut r, "a full synchronization");
    write(&mut c, 60);
    replica.wait_in_sync(&primary);
    expect_agreement(&mut c, "more commands");
    expect_agreement(&mut r, "more commands, replicated");
    let reload = cmd!(c, "DEBUG", "RELOAD");
    assert!(!reload.is_error(), "{reload:?}");
    expect_agreement(&mut c, "DEBUG RELOAD");
    write(&mut c, 20);
    cmd!(c, "SELECT", 0);
    cmd!(c, "ORDER.SCHEDULE", "dumped", "1", "PX", 0);
    let dump = cmd!(c, "DUMP", "dumped").maybe_bytes().unwrap();
    for _ in 0..2 {
        cmd!(c, "RESTORE", "again", 0, dump, "REPLACE");
    }
    assert_eq!(c.stat("again", "orders").int(), 1);
    expect_agreement(&mut c, "RESTORE");
    replica.wait_in_sync(&primary);
    expect_agreement(&mut r, "RESTORE, replicated");
    cmd!(c, "FLUSHDB", "ASYNC");
    expect_agreement(&mut c, "FLUSHDB ASYNC");
    write(&mut c, 20);
    expect_agreement(&mut c, "a new beginning");
    for mode in ["ASYNC", "SYNC"] {
        cmd!(c, "FLUSHALL", mode);
        wait_until(SOON, "all to be gone", || {
            info(&mut c).values().all(|value| *value == 0)
        });
        write(&mut c, 5);
        expect_agreement(&mut c, mode);
    }
    expect_no_fault(&primary);
    expect_no_fault(&replica);
}

/// Waits until a gauge has a value, for about a second.
#[track_caller]
fn expect_soon(c: &mut Client, name: &str, value: i64) {
    wait_until(Duration::from_millis(2_500), name, || {
        info(c)[name] == value
    });
}

#[test]
fn what_falls_due_by_time_alone_is_noticed_within_a_second() {
    let primary = Options::new()
        .tcp()
        .line("repl-diskless-sync-delay 0")
        .line("orderwheel.announce-after-start-ms 60000")
        .start();
    let replica = Options::new().replica_of(primary.port()).start();
    replica.wait_in_sync(&primary);
    let (mut c, mut r) = (primary.client(), replica.client());
    // Paused, and one that is locked past its deadline; announcements are held.
    cmd!(c, "ORDER.SCHEDULE", "paused", "1", "PX", 300)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.PAUSE", "paused");
    cmd!(c, "ORDER.SCHEDULE", "locked", "1", "PX", 300)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.LOCK", "locked", "1", "shop", "PX", 60_000);
    for n in 0..3 {
        cmd!(c, "ORDER.SCHEDULE", "held", n, "PX", 100 + 300 * n)
            .order()
            .expect("OK");
    }
    for c in [&mut c, &mut r] {
        expect_soon(c, "overdue", 5);
        expect_soon(c, "expired", 4);
        expect_soon(c, "leased", 1);
        let all = info(c);
        assert_eq!((all["scheduled"], all["orders"]), (0, 5), "{all:?}");
    }
    std::thread::sleep(Duration::from_millis(2_500));
    let all = info(&mut c);
    assert!(
        (1_000..30_000).contains(&all["oldest_overdue_ms"]),
        "{all:?}"
    );
    assert!(
        (1_000..30_000).contains(&all["oldest_expired_ms"]),
        "{all:?}"
    );
    cmd!(c, "ORDER.BREAK", "locked", "1");
    cmd!(c, "ORDER.FINISH", "locked", "1", "KEEP", 400)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.PURGE", "held", "STATE", "expired");
    cmd!(c, "DEL", "paused");
    for c in [&mut c, &mut r] {
        expect_soon(c, "overdue", 0);
        expect_soon(c, "finished", 0);
        expect_soon(c, "oldest_overdue_ms", 0);
    }
}

#[test]
fn info_takes_no_longer_where_there_are_ten_thousand_queues() {
    let server = Server::plain();
    let mut c = server.client();
    let ask = |c: &mut Client| {
        let mut took: Vec<Duration> = (0..50)
            .map(|_| {
                let start = Instant::now();
                cmd!(c, "INFO", "orderwheel");
                start.elapsed()
            })
            .collect();
        took.sort();
        took[took.len() / 2]
    };
    let before = ask(&mut c);
    for first in (0..10_000).step_by(1_000) {
        let commands: Vec<_> = (first..first + 1_000)
            .map(|n| {
                argv![
                    "ORDER.SCHEDULE",
                    format!("q{n}"),
                    "1",
                    "PX",
                    n % 2 * 600_000
                ]
            })
            .collect();
        c.pipeline(&commands);
        let claims: Vec<_> = (first..first + 1_000)
            .step_by(4)
            .map(|n| argv!["ORDER.CLAIM", format!("q{n}"), "me", "PX", 600_000])
            .collect();
        c.pipeline(&claims);
    }
    // What falls due is counted by the next pass over its queue.
    wait_until(SOON, "all to be counted", || {
        let all = info(&mut c);
        (all["orders"], all["leased"], all["overdue"]) == (10_000, 2_500, 5_000)
    });
    let after = ask(&mut c);
    eprintln!("INFO orderwheel: {before:?} without queues, {after:?} with 10,000");
    assert!(after < Duration::from_millis(5), "{after:?}");
    expect_agreement(&mut c, "ten thousand queues");
}

#[test]
fn config_resetstat_resets_all_times_and_no_totals() {
    let server = Server::plain();
    let mut c = server.client();
    let times = |c: &mut Client| {
        let of_queue = c.stat("q", "close_ms_max").text().parse::<f64>().unwrap();
        let minute = c
            .stat("q", "close_ms_max_1m")
            .text()
            .parse::<f64>()
            .unwrap();
        let of_all = c
            .info("orderwheel", "orderwheel_close_ms_max_1m")
            .trim()
            .parse::<f64>()
            .unwrap();
        let overdue = c
            .info("orderwheel", "orderwheel_overdue_close_ms_p99")
            .trim()
            .parse::<f64>()
            .unwrap();
        [of_queue, minute, of_all, overdue]
    };
    let close = |c: &mut Client| {
        cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0, "UPSERT")
            .order()
            .expect("OK");
        let row = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
        std::thread::sleep(Duration::from_millis(5));
        cmd!(c, "ORDER.ACK", "q", row.id, row.fence, "KEEP", 0)
            .order()
            .expect("OK");
    };
    // The queue's figures live as long as its key.
    cmd!(c, "ORDER.SCHEDULE", "q", "stays", "PX", 600_000);
    close(&mut c);
    assert!(times(&mut c).iter().all(|ms| *ms >= 5.0));
    // The server's counters must be larger than what they are after the reset.
    for _ in 0..20 {
        cmd!(c, "PING");
    }
    assert!(times(&mut c).iter().all(|ms| *ms >= 5.0));
    cmd!(c, "CONFIG", "RESETSTAT");
    assert!(times(&mut c).iter().all(|ms| *ms < 0.001));
    close(&mut c);
    assert!(times(&mut c).iter().all(|ms| *ms >= 5.0));
    assert_eq!(c.stat("q", "acked_total").int(), 2);
    assert_eq!(c.info_number("orderwheel", "orderwheel_acked_total"), 2);
    // The cron notices without being asked.
    std::thread::sleep(Duration::from_millis(1_200));
    cmd!(c, "CONFIG", "RESETSTAT");
    std::thread::sleep(Duration::from_millis(1_500));
    for _ in 0..200 {
        cmd!(c, "ORDER.GET", "q", "1");
    }
    // One that is reset and soon busy again.
    assert!(times(&mut c).iter().all(|ms| *ms < 0.001));
}

/// The histogram of a timing: counts by bound, and the sum in milliseconds.
fn histogram(c: &mut Client, name: &str) -> (Vec<(String, u64)>, f64) {
    let line = c.info("orderwheel_histograms", &format!("orderwheel_{name}_ms"));
    let mut fields: Vec<(&str, &str)> = line
        .trim()
        .split(',')
        .map(|field| field.split_once('=').unwrap())
        .collect();
    let sum = fields.pop().unwrap();
    assert_eq!(sum.0, "sum", "{line}");
    let counts = fields
        .into_iter()
        .map(|(bound, count)| (bound.to_owned(), count.parse().unwrap()));
    (counts.collect(), sum.1.parse().unwrap())
}

/// How many times were not above a bound.
fn not_above(c: &mut Client, name: &str, bound: &str) -> u64 {
    let (counts, _) = histogram(c, name);
    let at = counts.iter().find(|(name, _)| name == bound);
    at.unwrap_or_else(|| panic!("{counts:?}")).1
}

#[test]
fn histograms_count_every_time_of_all_queues_once_by_its_bound() {
    let server = Server::plain();
    let mut c = server.client();
    let timings = [
        "lateness",
        "claim_wait",
        "close",
        "lock_wait",
        "lock_hold",
        "overdue_close",
    ];
    for name in timings {
        let (counts, sum) = histogram(&mut c, name);
        assert!(counts.iter().all(|(_, count)| *count == 0), "{counts:?}");
        assert!(sum.abs() < 1e-9);
        assert_eq!(counts.last().unwrap().0, "le_inf");
    }
    // Three in two queues that are closed after 30 ms, in one command or each in its own.
    for queue in ["q", "r"] {
        for id in 0..3 {
            cmd!(c, "ORDER.SCHEDULE", queue, id, "PX", 0)
                .order()
                .expect("OK");
        }
        let rows = cmd!(c, "ORDER.CLAIM", queue, "me", "COUNT", 10).claims();
        assert_eq!(rows.len(), 3);
        std::thread::sleep(Duration::from_millis(30));
        if queue == "q" {
            let mut mack = argv!["ORDER.MACK", queue, rows.len()];
            for row in rows {
                mack.extend(argv![row.id, row.fence]);
            }
            c.pipeline(&[mack]);
        } else {
            for row in rows {
                cmd!(c, "ORDER.ACK", queue, row.id, row.fence)
                    .order()
                    .expect("OK");
            }
        }
        cmd!(c, "DEL", queue);
    }
    for name in ["close", "overdue_close"] {
        assert_eq!(not_above(&mut c, name, "le_25"), 0, "{name}");
        assert_eq!(not_above(&mut c, name, "le_86400000"), 6, "{name}");
        let (counts, sum) = histogram(&mut c, name);
        assert!(counts.is_sorted_by_key(|(_, count)| *count), "{counts:?}");
        assert_eq!(counts.last().unwrap(), &("le_inf".to_owned(), 6));
        // The sum is exact: it fits the largest, which is exact too.
        let max = c.info("orderwheel", &format!("orderwheel_{name}_ms_max"));
        let max: f64 = max.trim().parse().unwrap();
        assert!((180.0..=6.0 * max).contains(&sum), "{name}: {sum}, {max}");
    }
    for name in ["lateness", "claim_wait"] {
        assert_eq!(not_above(&mut c, name, "le_inf"), 6, "{name}");
    }
    assert_eq!(not_above(&mut c, "lock_hold", "le_inf"), 0);
    cmd!(c, "ORDER.LOCK", "q", "x", "shop", "PX", 60_000);
    let mut waiter = server.client();
    waiter.send(&args![
        "ORDER.LOCK",
        "q",
        "x",
        "other",
        "PX",
        60_000,
        "BLOCK",
        20_000
    ]);
    wait_until(SOON, "a waiter", || {
        c.info_number("orderwheel", "orderwheel_lock_waiters") == 1
    });
    std::thread::sleep(Duration::from_millis(12));
    cmd!(c, "ORDER.BREAK", "q", "x");
    waiter.read().lease().expect("OK");
    for name in ["lock_wait", "lock_hold"] {
        assert_eq!(not_above(&mut c, name, "le_10"), 0, "{name}");
        assert_eq!(not_above(&mut c, name, "le_inf"), 1, "{name}");
    }
    // As a counter that begins anew: what comes after it counts.
    for _ in 0..20 {
        cmd!(c, "PING");
    }
    cmd!(c, "INFO", "orderwheel");
    cmd!(c, "CONFIG", "RESETSTAT");
    for name in timings {
        let (counts, sum) = histogram(&mut c, name);
        assert_eq!((counts.last().unwrap().1, sum), (0, 0.0), "{name}");
    }
    cmd!(c, "ORDER.BREAK", "q", "x");
    assert_eq!(not_above(&mut c, "lock_hold", "le_inf"), 1);
    expect_no_fault(&server);
}

#[test]
fn histograms_have_a_section_of_their_own_that_comes_alone_or_with_the_other() {
    let server = Server::plain();
    let mut c = server.client();
    let fields = |c: &mut Client, section: &str| {
        let text = cmd!(c, "INFO", section).text();
        let has = |name: &str| text.lines().any(|line| line.starts_with(name));
        (has("orderwheel_queues:"), has("orderwheel_close_ms:"))
    };
    assert_eq!(fields(&mut c, "orderwheel"), (true, true));
    assert_eq!(fields(&mut c, "orderwheel_histograms"), (false, true));
    assert_eq!(fields(&mut c, "everything"), (true, true));
    assert_eq!(fields(&mut c, "server"), (false, false));
    assert_eq!(fields(&mut c, "all"), (false, false));
    // As much as a scrape costs the server.
    let mut took: Vec<Duration> = (0..50)
        .map(|_| {
            let start = Instant::now();
            cmd!(c, "INFO", "everything");
            start.elapsed()
        })
        .collect();
    took.sort();
    eprintln!("INFO everything: {:?}", took[took.len() / 2]);
    assert!(took[took.len() / 2] < Duration::from_millis(5), "{took:?}");
}
