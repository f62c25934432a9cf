//! Tests of the engine: announcing.

use super::*;

#[test]
fn each_entry_into_expired_is_announced_once_and_in_order() {
    story(&[
        (0.0, "SCHEDULE a PX 30", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 10", "OK missing>scheduled"),
        (0.0, "SCHEDULE c PX 10", "OK missing>scheduled"),
        (9.999, "pass", "-"),
        (10.0, "pass 1", "expired:b"),
        (10.0, "pass 1", "expired:c"),
        (10.0, "pass", "-"),
        (20.0, "SCHEDULE late PXAT T-500", "OK missing>expired"),
        (40.0, "pass", "expired:late expired:a"),
        (40.0, "pass", "-"),
        (40.0, "CLAIM me PX 100", "b#1"),
        (40.0, "pass", "-"),
        (139.999, "pass", "-"),
        (140.0, "pass", "lapsed:b expired:b"),
        (140.0, "pass", "-"),
        (140.0, "SCHEDULE c PX 10 XX", "OK expired>scheduled"),
        (149.999, "pass", "-"),
        (150.0, "pass", "expired:c"),
        (150.0, "FINISH c", "OK expired>finished"),
        (150.0, "pass", "-"),
    ]);
}

#[test]
fn a_retry_a_requeue_and_the_dead_are_announced() {
    story(&[
        (0.0, "CONFIG SET max-attempts 2", "done"),
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "pass", "expired:a"),
        (0.0, "CLAIM me", "a#1"),
        (0.0, "NACK a $a DELAY 10", "OK leased>retrying"),
        (0.0, "pass", "-"),
        (10.0, "pass", "expired:a"),
        (10.0, "CLAIM me", "a#2"),
        (10.0, "NACK a $a", "OK leased>dead"),
        (10.0, "pass", "dead:a"),
        (10.0, "pass", "-"),
        (10.0, "REQUEUE", "a left:0"),
        (10.0, "pass", "expired:a"),
        (10.0, "SCHEDULE a PX 0 XX", "OK expired>expired"),
        (10.0, "CLAIM me PX 5", "a#1"),
        (20.0, "CLAIM me PX 5", "a#2"),
        (30.0, "pass", "lapsed:a dead:a"),
        (30.0, "pass", "-"),
    ]);
}

/// The late word of a holder whose last try had lapsed was announced, and
/// counted, as a second death.
#[test]
fn a_late_nack_of_a_dead_order_is_no_second_death() {
    for passes in [false, true] {
        let mut bench = Bench::new(passes);
        tell(
            &mut bench,
            &[
                (0.0, "CONFIG SET max-attempts 1", "done"),
                (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
                (0.0, "CLAIM me PX 5", "a#1"),
                (10.0, "pass", "lapsed:a dead:a"),
                (10.0, "NACK a $a ERROR late", "OK dead>dead"),
                (10.0, "pass", "-"),
            ],
        );
        assert_eq!((bench.stat("dead_total"), bench.stat("dead")), (1, 1));
    }
}

#[test]
fn a_lapsed_lock_is_announced_even_if_its_order_is_not_due() {
    story(&[
        (0.0, "SCHEDULE a PX 1000", "OK missing>scheduled"),
        (0.0, "LOCK a me PX 10", "OK scheduled>leased"),
        (0.0, "LOCK b me PX 10", "OK missing>reserved"),
        (9.999, "pass", "-"),
        (10.0, "pass", "lapsed:a"),
        (10.0, "pass", "-"),
        (1000.0, "pass", "expired:a"),
    ]);
}

#[test]
fn a_pause_holds_announcements_and_claims_until_it_ends() {
    story(&[
        (0.0, "SCHEDULE a PX 10", "OK missing>scheduled"),
        (0.0, "PAUSE PX 100 REASON why", "done"),
        (50.0, "pass", "-"),
        (50.0, "CLAIM me", "-"),
        (50.0, "CLAIM me ID a", "-"),
        (50.0, "claimable", "false"),
        (50.0, "forget", "-"),
        (50.0, "wake", "+100"),
        (100.0, "wake", "now"),
        (100.0, "claimable", "true"),
        (100.0, "forget", "resumed"),
        (100.0, "pass", "expired:a"),
        (100.0, "PAUSE", "done"),
        (100.0, "CLAIM me", "-"),
        (99_999.0, "CLAIM me", "-"),
        (99_999.0, "FINISH a", "OK expired>finished"),
        (99_999.0, "RESUME", "done"),
        (99_999.0, "SCHEDULE b PX 0", "OK missing>expired"),
        (99_999.0, "CLAIM me", "b#1"),
    ]);
}

#[test]
fn after_a_promotion_what_is_unclaimed_is_announced_again() {
    story(&[
        (0.0, "SCHEDULE a PX 10", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 10", "OK missing>scheduled"),
        (0.0, "SCHEDULE c PX 20", "OK missing>scheduled"),
        (0.0, "SCHEDULE d PX 5", "OK missing>scheduled"),
        (20.0, "pass 3", "expired:d expired:a expired:b"),
        (20.0, "CLAIM me", "d#1"),
        (20.0, "promote", "done"),
        (20.0, "pass", "expired:a expired:b expired:c"),
        (20.0, "promote", "done"),
        (20.0, "pass 1", "expired:a"),
        (20.0, "promote", "done"),
        (20.0, "CLAIM me", "a#1"),
        (20.0, "pass", "expired:b expired:c"),
        (20.0, "pass", "-"),
    ]);
}

#[test]
fn a_claim_says_what_was_not_announced_yet() {
    for passes in [false, true] {
        let mut bench = Bench::new(passes);
        tell(
            &mut bench,
            &[
                (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
                (0.0, "SCHEDULE b PX 0", "OK missing>expired"),
            ],
        );
        let claim = |bench: &mut Bench, count: u32| {
            let now = bench.now();
            let defaults = bench.defaults.clone();
            let mut numbers = bench.numbers;
            let pick = crate::request::Pick::Next {
                count,
                block_ms: None,
            };
            let ask = crate::request::Claim {
                owner: b"me",
                lease_ms: Some(10),
                pick,
                session: false,
            };
            let mut env = Env {
                now,
                numbers: &mut numbers,
                defaults: &defaults,
            };
            bench.queue.advance(&now, &mut || true);
            let claimed = bench.queue.decide_claim(&mut env, &ask).unwrap();
            bench.carry(&claimed.effect.unwrap());
            bench.numbers = numbers;
            Bench::announcements(&claimed.announcements)
        };
        tell(&mut bench, &[(0.0, "pass 1", "expired:a")]);
        assert_eq!(claim(&mut bench, 1), "-");
        assert_eq!(claim(&mut bench, 1), "expired:b");
        tell(&mut bench, &[(10.0, "pass 1", "lapsed:a expired:a")]);
        assert_eq!(claim(&mut bench, 9), "lapsed:b expired:b");
        tell(&mut bench, &[(10.0, "pass", "-")]);
        // Also that the lock which kept it from being claimed has lapsed.
        tell(
            &mut bench,
            &[
                (10.0, "SCHEDULE c PX 10", "OK missing>scheduled"),
                (10.0, "LOCK c me PX 5", "OK scheduled>leased"),
            ],
        );
        bench.until(30.0);
        assert_eq!(
            claim(&mut bench, 9),
            "lapsed:c expired:c lapsed:a expired:a lapsed:b expired:b"
        );
        tell(&mut bench, &[(30.0, "pass", "-")]);
    }
}
