//! A queue that has shrunk gives its memory back by itself, on every server.

use std::time::Duration;

use crate::support::states::expect_no_fault;
use crate::support::{Client, Options, argv, cmd, wait_until};

/// How long a compaction may take here: it begins a second after the last order has
/// gone, and works for a tenth of the time.
const LONG: Duration = Duration::from_secs(60);

/// Sends commands for many orders.
fn send(c: &mut Client, orders: impl Iterator<Item = u32>, command: impl Fn(u32) -> Vec<Vec<u8>>) {
    for some in orders.collect::<Vec<_>>().chunks(1000) {
        let commands: Vec<_> = some.iter().map(|n| command(*n)).collect();
        let replies = c.pipeline(&commands);
        assert!(replies.iter().all(|reply| !reply.is_error()));
    }
}

/// Bytes of a queue, and of one made new from the same orders.
fn usage(c: &mut Client) -> (i64, i64) {
    cmd!(c, "COPY", "q", "fresh", "REPLACE");
    let usage = |c: &mut Client, key: &str| cmd!(c, "MEMORY", "USAGE", key).int();
    (usage(c, "q"), usage(c, "fresh"))
}

#[test]
fn a_queue_of_which_nine_in_ten_are_finished_gives_its_memory_back_on_both_servers() {
    const ORDERS: u32 = 200_000;
    let primary = Options::new()
        .tcp()
        .line("repl-diskless-sync-delay 0")
        .line("repl-backlog-size 16kb")
        .start();
    let replica = Options::new()
        .replica_of(primary.port())
        // Of its own: Valkey's default is 10 MB, which fills as orders come.
        .line("repl-backlog-size 16kb")
        .line("replica-read-only no")
        .start();
    replica.wait_in_sync(&primary);
    let (mut c, mut r) = (primary.client(), replica.client());
    let used = |c: &mut Client| c.info_number("memory", "used_memory");
    let base = [used(&mut c), used(&mut r)];
    let (queue, payload) = ("q", "unpaid, two items");
    send(&mut c, 0..ORDERS, |n| {
        let at = 3_600_000 + n % 1000 * 977;
        argv!["ORDER.SCHEDULE", queue, n, "PX", at, "PAYLOAD", payload]
    });
    replica.wait_in_sync(&primary);
    let full = [used(&mut c) - base[0], used(&mut r) - base[1]];
    // Every tenth stays, whichever page it is in.
    let stays = |n: &u32| n.wrapping_mul(2_654_435_761) >> 16 & 0xff < 26;
    send(&mut c, (0..ORDERS).filter(|n| !stays(n)), |n| {
        argv!["ORDER.FINISH", queue, n, "KEEP", 0]
    });
    let left = (0..ORDERS).filter(stays).count() as i64;
    assert!((left - i64::from(ORDERS / 10)).abs() < 2000, "{left}");
    replica.wait_in_sync(&primary);
    let next = |c: &mut Client| cmd!(c, "ORDER.NEXT", "q", 1000);
    let first = next(&mut c);
    for (c, base, full) in [(&mut c, base[0], full[0]), (&mut r, base[1], full[1])] {
        wait_until(LONG, "the memory to come back", || {
            let (bytes, fresh) = usage(c);
            cmd!(c, "DEL", "fresh");
            bytes <= 2 * fresh && used(c) - base < full / 4
        });
        assert_eq!(c.stat("q", "orders").int(), left);
        assert_eq!(next(c), first);
    }
    assert_eq!(c.digest("q"), r.digest("q"));
    // A queue that is idle again rests: its deadlines are an hour away.
    wait_until(LONG, "the timer to rest", || {
        let runs = |c: &mut Client| c.info_number("orderwheel", "orderwheel_timer_runs_total");
        let before = runs(&mut c);
        std::thread::sleep(Duration::from_millis(300));
        runs(&mut c) - before < 3
    });
    for n in (0..ORDERS).filter(stays).step_by(977) {
        cmd!(c, "ORDER.FINISH", "q", n, "KEEP", 0)
            .order()
            .expect("OK");
    }
    expect_no_fault(&primary);
    expect_no_fault(&replica);
}
