//! Tests of the engine: so many orders a second, and no more.

use super::*;
use crate::request::{Limits, Verb, parse};

/// A queue with so many overdue orders, of which `per_s` a second may go.
fn braked(per_s: u64, orders: u64) -> Bench {
    let mut bench = Bench::new(false);
    bench.compares = false;
    bench.run(&format!(
        "CONFIG SET claims-per-s-max {per_s} lease-ms 9999999"
    ));
    for n in 0..orders {
        bench.run(&format!("SCHEDULE {n} PX 0"));
    }
    bench
}

/// How many orders one claim of `count` gets.
fn claim(bench: &mut Bench, count: u64) -> u64 {
    let said = bench.run(&format!("CLAIM me COUNT {count}"));
    said.split_whitespace().filter(|id| *id != "-").count() as u64
}

/// Lets some microseconds pass.
fn pass_us(bench: &mut Bench, us: u64) {
    bench.wall_us += us;
    bench.mono_us += us;
}

/// How many orders may be handed out now.
fn left(bench: &Bench) -> u64 {
    bench.queue.claims_left(&bench.now(), &bench.defaults)
}

/// In how many microseconds the next one may go.
fn wait_us(bench: &Bench) -> u64 {
    let now = bench.now();
    bench.queue.claim_limit_wait_us(&now, &bench.defaults)
}

/// Asks by the decision itself, and does nothing of it: how many it would get, and
/// whether the brake keeps more from it.
fn would_get(bench: &Bench, line: &str) -> (usize, bool) {
    let words = bench.words(line);
    let mut args: Vec<&[u8]> = vec![b"order.claim", b"queue"];
    args.extend(words.iter().map(Vec::as_slice));
    let limits = Limits {
        lease_ms_max: bench.defaults.lease_ms_max,
        payload_bytes_max: 0,
    };
    let Ok(Request::Claim(ask)) = parse(Verb::Claim, &args, &limits) else {
        panic!("{line}")
    };
    let mut env = Env {
        now: bench.now(),
        numbers: &mut bench.numbers.clone(),
        defaults: &bench.defaults,
    };
    let held = bench.queue.is_held_back(&env, &ask);
    let claimed = bench.queue.decide_claim(&mut env, &ask).unwrap();
    assert!(held || !claimed.held_back, "nothing at all is less: {line}");
    (claimed.picks.len(), claimed.held_back)
}

#[test]
fn each_second_of_hungry_claimers_gets_exactly_the_rate() {
    for per_s in [11_u64, 60, 100, 999, 1_000, 4_096] {
        for count in [1, 3, 100, 1_000] {
            for step_us in [1_000, 3_333, 8_999] {
                let at_once = per_s / 10;
                let mut bench = braked(per_s, 3 * per_s + 2 * at_once + 2);
                let mut got = 0;
                for second in 0..=2_u64 {
                    let end_us = (START_MONO_MS + second * 1_000) * 1_000;
                    while bench.mono_us < end_us {
                        let us = step_us.min(end_us - bench.mono_us);
                        pass_us(&mut bench, us);
                        while let more @ 1.. = claim(&mut bench, count) {
                            got += more;
                        }
                    }
                    if second == 0 {
                        while let more @ 1.. = claim(&mut bench, count) {
                            got += more;
                        }
                    }
                    // The tenth of a second that was there, and what has come since.
                    let brought = (per_s * 100_000 + second * per_s * 1_000_000) / 1_000_000;
                    assert_eq!(
                        got, brought,
                        "{per_s} a second by {count}, every {step_us} us: second {second}"
                    );
                }
            }
        }
    }
}

#[test]
fn slow_rates_hand_out_one_at_a_time_and_evenly() {
    for per_s in [1_u64, 2, 3, 7, 10] {
        let mut bench = braked(per_s, 4 * per_s + 2);
        let mut times_us = Vec::new();
        while bench.mono_us < (START_MONO_MS + 4_000) * 1_000 {
            let ahead_us = wait_us(&bench);
            if ahead_us > 0 {
                // Not a microsecond earlier.
                pass_us(&mut bench, ahead_us - 1);
                assert_eq!(claim(&mut bench, 100), 0, "{per_s}");
                pass_us(&mut bench, 1);
            }
            times_us.push(bench.mono_us);
            assert_eq!(claim(&mut bench, 100), 1, "{per_s}: one, of a hundred");
        }
        assert!(times_us.len() as u64 >= 4 * per_s, "{per_s}");
        for pair in times_us.windows(2) {
            assert_eq!(pair[1] - pair[0], 1_000_000_u64.div_ceil(per_s), "{per_s}");
        }
    }
}

#[test]
fn a_tenth_of_a_second_may_go_at_once_and_never_more() {
    for (per_s, at_once) in [(1, 1), (19, 1), (20, 2), (1_000, 100), (6_999, 699)] {
        let mut bench = braked(per_s, 2_100);
        // However long nobody has asked.
        for idle_ms in [0, 100, 3_600_000] {
            pass_us(&mut bench, idle_ms * 1_000);
            assert_eq!(left(&bench), at_once, "{per_s} after {idle_ms} ms");
            assert_eq!(claim(&mut bench, 1_000), at_once, "{per_s}");
            assert_eq!(claim(&mut bench, 1_000), 0, "{per_s}");
            pass_us(&mut bench, 1_000_000);
        }
    }
}

#[test]
fn without_a_limit_nothing_is_kept() {
    let mut bench = braked(0, 1_000);
    let empty = bench.queue.bytes();
    assert_eq!(would_get(&bench, "me COUNT 1000"), (1_000, false));
    assert_eq!(claim(&mut bench, 1_000), 1_000);
    assert_eq!((left(&bench), wait_us(&bench)), (u64::MAX, 0));
    assert!(bench.queue.bytes() >= empty);
    // A limit that is not reached is none either, and counts nothing.
    let mut bench = braked(1_000_000, 50);
    assert_eq!(would_get(&bench, "me COUNT 1000"), (50, false));
    assert_eq!(claim(&mut bench, 1_000), 50);
    assert_eq!(would_get(&bench, "me COUNT 1000"), (0, false), "empty");
}

#[test]
fn what_is_refused_or_only_asked_uses_nothing_up() {
    let mut bench = braked(20, 9);
    // Asked, and never carried out.
    for _ in 0..5 {
        assert_eq!(would_get(&bench, "me COUNT 9"), (2, true));
        assert_eq!(would_get(&bench, "me COUNT 2"), (2, false), "all it asked");
        assert_eq!(would_get(&bench, "me ID 5"), (1, false));
    }
    assert_eq!(left(&bench), 2);
    // PAUSE: nothing goes, and that is not the brake's doing.
    bench.run("PAUSE");
    assert_eq!(would_get(&bench, "me COUNT 9"), (0, false));
    assert_eq!(bench.run("CLAIM me COUNT 9"), "-");
    assert_eq!(bench.run("claimable"), "false");
    bench.run("RESUME");
    assert_eq!(left(&bench), 2);
    // max-leased: neither.
    bench.run("CONFIG SET max-leased 1");
    assert_eq!(would_get(&bench, "me COUNT 9"), (1, false));
    assert_eq!(bench.run("CLAIM me COUNT 9"), "0#1");
    assert_eq!(left(&bench), 1);
    assert_eq!(would_get(&bench, "me COUNT 9"), (0, false));
    assert_eq!(bench.run("CLAIM me COUNT 9"), "-");
    assert_eq!(bench.run("CLAIM me ID 5"), "-");
    assert_eq!(left(&bench), 1);
    bench.run("CONFIG RESET max-leased");
    // Ids that are not to be had.
    assert_eq!(bench.run("CLAIM me ID nothing"), "-");
    assert_eq!(bench.run("CLAIM me ID 0"), "-", "leased");
    assert_eq!(left(&bench), 1);
    // Locks, and what is done with them.
    bench.run("LOCK other me PX 1000");
    bench.run("UNLOCK other $other");
    assert_eq!(left(&bench), 1);
    // An id is an order too; so is a second try.
    assert_eq!(bench.run("CLAIM me ID 5"), "5#1");
    assert_eq!((left(&bench), wait_us(&bench)), (0, 50_000));
    bench.run("NACK 5 $5 DELAY 0");
    assert_eq!(bench.run("CLAIM me ID 5"), "-");
    assert_eq!(would_get(&bench, "me ID 5"), (0, true));
    assert_eq!(bench.run("claimable"), "false");
    pass_us(&mut bench, 50_000);
    assert_eq!(bench.run("claimable"), "true");
    assert_eq!(bench.run("CLAIM me ID 5"), "5#2");
    assert_eq!(left(&bench), 0);
    // Emptiness: nothing is due, nothing is held back.
    let mut bench = braked(20, 0);
    bench.run("SCHEDULE far PX 100000");
    assert_eq!(would_get(&bench, "me COUNT 9"), (0, false));
    assert_eq!(bench.run("CLAIM me COUNT 9"), "-");
    assert_eq!(left(&bench), 2);
}

#[test]
fn payload_that_ends_a_claim_is_not_the_brakes_doing() {
    let mut bench = braked(1_000, 0);
    bench.compares = false;
    let payload = "x".repeat(700 << 10);
    for id in ["a", "b", "c"] {
        bench.run(&format!("SCHEDULE {id} PX 0 PAYLOAD {payload}"));
    }
    assert_eq!(would_get(&bench, "me COUNT 9"), (1, false));
    assert_eq!(bench.run("CLAIM me COUNT 9"), "a#1");
    assert_eq!(left(&bench), 99);
}

/// Ground state, replica and file know nothing of it.
#[test]
fn the_bucket_is_volatile_and_full_after_a_load() {
    story(&[
        (0.0, "CONFIG SET claims-per-s-max 10", "done"),
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE b PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE c PX 0", "OK missing>expired"),
        (0.0, "CLAIM me COUNT 9", "a#1"),
        (0.0, "CLAIM me COUNT 9", "-"),
        (99.999, "CLAIM me COUNT 9", "-"),
        (100.0, "CLAIM me COUNT 9", "b#1"),
        (101.0, "CLAIM me COUNT 9", "-"),
        (101.0, "reload", "done"),
        (101.0, "CLAIM me COUNT 9", "c#1"),
    ]);
    // What a replica was told it has not decided: promoted, it has all of it.
    let mut bench = braked(20, 9);
    bench.compares = true;
    assert_eq!(claim(&mut bench, 9), 2);
    let now = bench.now();
    assert_eq!(bench.replica.claims_left(&now, &bench.defaults), 2);
    assert_eq!(left(&bench), 0);
    bench.queue.refill_brake();
    assert_eq!(left(&bench), 2);
}

#[test]
fn a_change_of_the_setting_fills_it_and_the_same_again_does_not() {
    let mut bench = braked(20, 99);
    assert_eq!(claim(&mut bench, 9), 2);
    bench.run("CONFIG SET claims-per-s-max 20 keep-ms 5");
    assert_eq!(left(&bench), 0, "it has not changed");
    bench.run("CONFIG SET claims-per-s-max 30");
    assert_eq!(left(&bench), 3);
    assert_eq!(claim(&mut bench, 9), 3);
    bench.run("CONFIG SET claims-per-s-max 10");
    assert_eq!(left(&bench), 1);
    assert_eq!(claim(&mut bench, 9), 1);
    bench.run("CONFIG RESET claims-per-s-max");
    assert_eq!(left(&bench), u64::MAX);
    // Of the server: for a queue without one of its own.
    bench.defaults.set(Setting::ClaimsPerSMax, 40);
    assert_eq!(left(&bench), 4);
    assert_eq!(claim(&mut bench, 9), 4);
    assert_eq!((left(&bench), wait_us(&bench)), (0, 25_000));
    bench.defaults.set(Setting::ClaimsPerSMax, 50);
    assert_eq!((left(&bench), wait_us(&bench)), (5, 0));
    bench.run("CONFIG SET claims-per-s-max 0");
    assert_eq!(left(&bench), u64::MAX, "its own, which is none");
    assert_eq!(claim(&mut bench, 9), 9);
}

#[test]
fn the_next_order_is_told_to_the_millisecond_it_may_go_in() {
    let mut bench = braked(7, 9);
    bench.run("SCHEDULE far PX 100000");
    let wake = |bench: &Bench| {
        let wake = bench.queue.claim_wake(&bench.now(), &bench.defaults);
        wake.map(|wake| wake.0.saturating_sub(START_MS))
    };
    assert_eq!(wake(&bench), Some(0), "now");
    pass_us(&mut bench, 250);
    assert_eq!(claim(&mut bench, 9), 1);
    // 142.857 ms later, at 143.107 ms.
    assert_eq!(wait_us(&bench), 142_858);
    assert_eq!(wake(&bench), Some(144));
    assert_eq!(bench.stat("claim_limit_wait_ms"), 143);
    pass_us(&mut bench, 142_750 - 250);
    assert_eq!((wake(&bench), left(&bench)), (Some(144), 0));
    assert_eq!(bench.stat("claim_limit_wait_ms"), 1);
    pass_us(&mut bench, 1_250);
    assert_eq!((wake(&bench), left(&bench)), (Some(0), 1));
    assert_eq!(bench.stat("claim_limit_wait_ms"), 0);
    // Nothing to hand out: nothing to wake for, whatever is in the bucket.
    bench.run("CONFIG SET max-leased 1");
    assert_eq!(wake(&bench), None);
    bench.run("CONFIG SET max-leased 2");
    assert_eq!(wake(&bench), Some(0));
    bench.run("PAUSE");
    assert_eq!(wake(&bench), None);
    // It goes by the monotonic clock: the wall clock may be set.
    let mut bench = braked(10, 9);
    assert_eq!(claim(&mut bench, 9), 1);
    bench.wall_us += 50_000_000;
    assert_eq!(wait_us(&bench), 100_000);
    bench.mono_us += 100_000;
    assert_eq!(claim(&mut bench, 9), 1);
}

#[test]
fn what_is_held_back_is_counted_and_the_bucket_has_a_size() {
    let mut bench = braked(10, 9);
    let before = bench.queue.bytes();
    assert_eq!(bench.stat("claims_held_back_total"), 0);
    bench.queue.note_held_back();
    bench.queue.note_held_back();
    assert_eq!(bench.stat("claims_held_back_total"), 2);
    bench.run("LOCK 5 me PX 5");
    let metered = bench.queue.bytes();
    bench.queue.spend_claims(&bench.now(), &bench.defaults, 1);
    let with = bench.queue.bytes();
    assert!(with > metered, "{before} {metered} {with}");
    bench.queue.refill_brake();
    assert_eq!(bench.queue.bytes(), metered);
    // Where there is no limit there is no bucket.
    let mut bench = braked(0, 1);
    let bytes = bench.queue.bytes();
    bench.queue.spend_claims(&bench.now(), &bench.defaults, 1);
    assert_eq!(bench.queue.bytes(), bytes);
}
