//! Orders that are handed back untried, and defaults that lose none.

use super::*;

#[test]
fn a_try_that_is_handed_back_untried_does_not_count() {
    story(&[
        (0.0, "CONFIG SET max-attempts 2 backoff-ms 100", "done"),
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CLAIM me", "a#1"),
        (0.0, "NACK a $a UNTRIED DELAY 0", "OK leased>expired"),
        (0.0, "GET a", "expired +0"),
        (0.0, "CLAIM me", "a#1"),
        (0.0, "NACK a $a DELAY 0", "OK leased>expired"),
        (0.0, "GET a", "expired +0 #1"),
        // The last try, as often as it is handed back.
        (0.0, "CLAIM me", "a#2"),
        (0.0, "NACK a $a UNTRIED DELAY 0", "OK leased>expired"),
        (0.0, "CLAIM me", "a#2"),
        (
            0.0,
            "NACK a $a UNTRIED DELAY 0 ERROR away",
            "OK leased>expired",
        ),
        (0.0, "GET a", "expired +0 #1 error:away"),
        (0.0, "CLAIM me", "a#2"),
        (0.0, "NACK a $a DELAY 0", "OK leased>dead"),
        (0.0, "GET a", "dead +0 #2 error:away"),
        (0.0, "NACK a $a UNTRIED", "STALE dead"),
    ]);
}

#[test]
fn the_wait_after_it_does_not_grow() {
    let mut bench = Bench::new(false);
    bench.run("CONFIG SET backoff-ms 100 backoff-ms-max 100000");
    bench.run("SCHEDULE a PX 0");
    let mut ms = 0.0;
    for line in ["NACK a $a UNTRIED", "NACK a $a", "NACK a $a UNTRIED"] {
        for _ in 0..5 {
            let attempt = bench.view("a").unwrap().attempt;
            assert_eq!(bench.run("CLAIM me"), format!("a#{}", attempt + 1));
            bench.run(line);
            let view = bench.view("a").unwrap();
            let counts = u32::from(!line.contains("UNTRIED"));
            assert_eq!(view.attempt, attempt + counts);
            let wait = view.retry_at.unwrap().0 - bench.now().wall_ms().0;
            let doubled = 100 << view.attempt.saturating_sub(1);
            assert!(
                wait.abs_diff(doubled) <= doubled / 10,
                "{wait} ms after {attempt} tries"
            );
            ms += wait as f64;
            bench.until(ms);
        }
    }
}

#[test]
fn after_a_lapse_it_is_accepted_as_a_nack_is_also_of_the_last_try() {
    for (max, lapsed) in [(9, "expired"), (1, "dead")] {
        for (line, after, attempt) in [
            ("NACK a $a UNTRIED DELAY 0", "expired", 0),
            ("NACK a $a UNTRIED DELAY 50", "retrying", 0),
            ("NACK a $a DELAY 0", lapsed, 1),
        ] {
            for pass in [false, true] {
                let mut bench = Bench::new(false);
                bench.run(&format!("CONFIG SET max-attempts {max}"));
                bench.run("SCHEDULE a PX 0");
                bench.run("CLAIM me PX 10");
                bench.until(20.0);
                if pass {
                    bench.run("pass");
                }
                assert_eq!(bench.run(line), format!("OK {lapsed}>{after}"), "{line}");
                assert_eq!(bench.view("a").unwrap().attempt, attempt);
                bench.until(80.0);
                let claimed = if after == "dead" { "-" } else { "a" };
                assert!(bench.run("CLAIM you").starts_with(claimed), "{line}");
            }
        }
    }
}

/// Closers whose database is away for two hours: they hand every order back with a
/// NACK at once, or hang until the lease ends. No order is dead after it.
#[test]
fn two_hours_without_the_closers_database_leave_no_order_dead() {
    const TWO_HOURS: f64 = 7_200_000.0;
    for hangs in [false, true] {
        let mut bench = Bench::new(false);
        bench.compares = false;
        bench.run("SCHEDULE a PX 0");
        let mut ms = 0.0;
        let mut tries = 0;
        while ms < TWO_HOURS {
            bench.advance();
            assert_ne!(
                bench.state(b"a"),
                State::Dead,
                "after {ms} ms, {tries} tries"
            );
            if bench.run("CLAIM me") == "-" {
                let view = bench.view("a").unwrap();
                let wait = view.lease_ms.unwrap_or(0);
                let until = view.retry_at.map_or(0, |at| at.0 - bench.now().wall_ms().0);
                ms += wait.max(until) as f64;
            } else {
                tries += 1;
                if !hangs {
                    bench.run("NACK a $a");
                }
            }
            bench.until(ms);
        }
        assert!(tries > 100, "it was tried all the time: {tries}");
        bench.advance();
        assert_ne!(bench.state(b"a"), State::Dead);
    }
}

#[test]
fn no_dead_order_is_dropped_unless_somebody_asks_for_it() {
    let mut bench = Bench::new(false);
    bench.compares = false;
    for n in 0..20_000 {
        bench.run(&format!("SCHEDULE {n} PX 0"));
    }
    for _ in 0..20 {
        let claimed = bench.run("CLAIM me COUNT 1000");
        for order in claimed.split(' ') {
            let (id, _) = order.split_once('#').unwrap();
            bench.run(&format!("NACK {id} ${id} DEAD"));
        }
    }
    assert_eq!(bench.run("forget 1000"), "-");
    bench.run("CONFIG SET dead-max 19998");
    assert_eq!(bench.run("forget 1000").split(' ').count(), 2);
    assert_eq!(bench.run("forget 1000"), "-");
}
