//! A finished order says how it ended.

use super::*;

#[test]
fn a_finished_order_shows_who_closed_it_when_and_at_which_try() {
    // Row: what was done, and what GET says at 30 ms.
    let rows: &[(&[&str], &str)] = &[
        (
            &["FINISH a STATUS paid"],
            "finished status:paid keep:+86400010 at:+10 of:+5",
        ),
        (
            &["CLAIM me", "ACK a $a STATUS closed RESULT r"],
            "finished status:closed #1 owner:me keep:+86400010 at:+10 of:+5 result:r",
        ),
        (
            &["CLAIM me", "NACK a $a DELAY 0", "CLAIM you", "ACK a $a"],
            "finished #2 owner:you keep:+86400010 at:+10 of:+5",
        ),
        // Not by the lease: the tries so far, and nobody.
        (
            &["CLAIM me", "NACK a $a DELAY 0", "FINISH a"],
            "finished #1 keep:+86400010 at:+10 of:+5",
        ),
        (
            &["CLAIM me", "NACK a $a DEAD", "FINISH a"],
            "finished #1 keep:+86400010 at:+10 of:+5",
        ),
        (
            &["CLAIM me", "NACK a $a UNTRIED DELAY 0", "FINISH a"],
            "finished keep:+86400010 at:+10 of:+5",
        ),
        // Moved ones count anew.
        (
            &["CLAIM me", "SCHEDULE a PX 0 XX FENCE $a", "FINISH a"],
            "finished keep:+86400010 at:+10 of:+10",
        ),
        // Reopened: nothing is left of how it ended.
        (
            &[
                "CLAIM me",
                "ACK a $a STATUS closed RESULT r",
                "SCHEDULE a PX 0 FROM closed",
            ],
            "expired +10 status:closed",
        ),
        (
            &[
                "CLAIM me",
                "ACK a $a STATUS closed",
                "SCHEDULE a PX 0 FROM closed",
                "FINISH a STATUS paid",
            ],
            "finished status:paid keep:+86400010 at:+10 of:+10",
        ),
        // A label that is set later changes nothing of it.
        (
            &["CLAIM me", "ACK a $a STATUS closed", "STATUS a refunded"],
            "finished status:refunded #1 owner:me keep:+86400010 at:+10 of:+5",
        ),
    ];
    for (lines, wanted) in rows {
        for reload in [false, true] {
            let mut bench = Bench::new(false);
            bench.run("SCHEDULE a PX 5");
            bench.until(10.0);
            for line in *lines {
                let said = bench.run(line);
                assert!(!said.contains("STALE"), "{line}: {said}");
            }
            bench.until(30.0);
            if reload {
                bench.run("reload");
            }
            assert_eq!(bench.run("GET a"), *wanted, "{lines:?}");
        }
    }
    story(&[
        (0.0, "FINISH a CREATE STATUS paid", "OK missing>finished"),
        (0.0, "GET a", "finished status:paid keep:+86400000 at:+0"),
        (0.0, "SCHEDULE b PX 100", "OK missing>scheduled"),
        (0.0, "LOCK b pay:1 PX 10", "OK scheduled>leased"),
        (1.0, "FINISH b FENCE $b STATUS paid", "OK leased>finished"),
        (
            1.0,
            "GET b",
            "finished status:paid owner:pay:1 keep:+86400001 at:+1 of:+100",
        ),
    ]);
}

/// Bytes of 20,000 finished orders, by how they were finished.
fn bytes_of_finished(how: &dyn Fn(&mut Bench, usize)) -> f64 {
    let mut bench = Bench::new(false);
    bench.compares = false;
    for n in 0..20_000 {
        bench.run(&format!("SCHEDULE order-number-{n:07} PX 0 STATUS unpaid"));
    }
    for n in 0..20_000 {
        how(&mut bench, n);
    }
    bench.queue.bytes() as f64 / 20_000.0
}

#[test]
fn it_costs_24_bytes_at_most() {
    let mut waiting = Bench::new(false);
    waiting.compares = false;
    for n in 0..20_000 {
        waiting.run(&format!("SCHEDULE order-number-{n:07} PX 0 STATUS unpaid"));
    }
    let waiting = waiting.queue.bytes() as f64 / 20_000.0;
    let finished = bytes_of_finished(&|bench, n| {
        bench.run(&format!("FINISH order-number-{n:07} STATUS paid"));
    });
    assert!(finished - waiting <= 24.0, "{waiting} and {finished}");
    // However long the closers' names are. (The pages that leases lay in stay for the
    // next ones: they are counted by what is in them after a load.)
    let owner = "x".repeat(128);
    let mut bench = Bench::new(false);
    bench.compares = false;
    for n in 0..20_000 {
        let id = format!("order-number-{n:07}");
        bench.run(&format!("SCHEDULE {id} PX 0 STATUS unpaid"));
        bench.run(&format!("CLAIM {owner}"));
        bench.run(&format!("ACK {id} ${id} STATUS closed"));
    }
    bench.reload();
    let closed = bench.queue.bytes() as f64 / 20_000.0;
    assert!(closed - waiting <= 24.0, "{waiting} and {closed}");
}
