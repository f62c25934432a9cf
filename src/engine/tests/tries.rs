//! Tests of the engine: tries.

use super::*;
use crate::engine::StatValue;

/// How long an order waits after each of its first nine tries. It is checked
/// that it waits as long as it says.
fn waits_of(id: &str, passes: bool) -> Vec<u64> {
    let mut bench = Bench::new(passes);
    let mut waits = Vec::new();
    bench.until(0.25);
    bench.run(&format!("SCHEDULE {id} PX 0"));
    for attempt in 1..=9 {
        assert_eq!(bench.run("CLAIM me"), format!("{id}#{attempt}"));
        assert_eq!(bench.run(&format!("NACK {id} ${id}")), "OK leased>retrying");
        let at = bench.view(id).unwrap().retry_at.unwrap().0;
        waits.push(at - bench.now().wall_ms_ceil().0);
        bench.until((at - START_MS) as f64 - 0.001);
        assert_eq!(bench.run("CLAIM me"), "-");
        assert_eq!(bench.state(id.as_bytes()), State::Retrying);
        bench.until((at - START_MS) as f64);
    }
    waits
}

#[test]
fn the_wait_doubles_with_each_try_up_to_its_most_give_or_take_a_tenth() {
    let ids = ["a", "b", "c", "d", "e"];
    let waits = ids.map(|id| waits_of(id, false));
    assert_eq!(waits, ids.map(|id| waits_of(id, true)));
    for attempt in 0..9 {
        let middle = (1_000 << attempt).min(60_000);
        let of_this = waits.each_ref().map(|waits| waits[attempt]);
        for wait in of_this {
            assert!(
                (middle * 9 / 10..=middle * 11 / 10).contains(&wait),
                "{attempt}: {wait}"
            );
        }
        let different: std::collections::BTreeSet<u64> = of_this.into_iter().collect();
        assert!(
            different.len() > 1,
            "orders that failed together come back apart"
        );
    }
}

#[test]
fn the_wait_never_overflows_however_many_tries() {
    let mut bench = Bench::new(true);
    bench.defaults.set(Setting::MaxAttempts, 0);
    bench.defaults.set(Setting::BackoffMs, 3);
    bench.run("SCHEDULE a PX 0");
    for attempt in 1..=200_u64 {
        assert_eq!(bench.run("CLAIM me"), format!("a#{attempt}"));
        bench.run("NACK a $a");
        let now = bench.now().wall_ms().0;
        let wait = bench.view("a").unwrap().retry_at.unwrap().0 - now;
        let middle = if attempt <= 15 {
            3 << (attempt - 1)
        } else {
            60_000
        }
        .min(60_000);
        assert!(
            (middle * 9 / 10..=middle * 11 / 10).contains(&wait),
            "{attempt}: {wait}"
        );
        bench.until((now + wait - START_MS) as f64);
    }
}

#[test]
fn the_last_allowed_try_that_fails_is_dead() {
    story(&[
        (0.0, "CONFIG SET max-attempts 2", "done"),
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CLAIM me", "a#1"),
        (0.0, "NACK a $a DELAY 10", "OK leased>retrying"),
        (9.999, "CLAIM me", "-"),
        (10.0, "CLAIM me PX 1000", "a#2"),
        (10.0, "NACK a $a ERROR boom", "OK leased>dead"),
        (10.0, "GET a", "dead +0 #2 error:boom"),
        (99_999.0, "CLAIM me", "-"),
        (99_999.0, "CLAIM me ID a", "-"),
        (99_999.0, "REQUEUE", "a left:0"),
        (99_999.0, "CLAIM me PX 1000", "a#1"),
        (100_999.0, "CLAIM me PX 1000", "a#2"),
        (
            101_998.999,
            "GET a",
            "leased +0 #2 owner:me lease:1 error:boom",
        ),
        (101_999.0, "GET a", "dead +0 #2 owner:me error:boom"),
        (101_999.0, "SCHEDULE a PX 0 XX", "OK dead>expired"),
        (
            101_999.0,
            "GET a",
            "expired +0".replace("+0", "+101999").as_str(),
        ),
        (101_999.0, "CLAIM me", "a#1"),
    ]);
}

#[test]
fn a_setting_changed_later_does_not_change_an_order_that_is_there() {
    story(&[
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CONFIG SET max-attempts 1", "done"),
        (0.0, "CLAIM me PX 1000", "a#1"),
        (0.0, "CONFIG SET max-attempts 9", "done"),
        (1000.0, "GET a", "dead +0 #1 owner:me"),
    ]);
}

#[test]
fn stats_tell_what_died_last_and_why() {
    let mut bench = Bench::new(false);
    let said = |bench: &mut Bench| {
        let stats = bench
            .queue
            .stats(&bench.now(), &Defaults::default(), (0, 0));
        let text = |name: &str| {
            let (_, value) = stats.iter().find(|(field, _)| *field == name).unwrap();
            let StatValue::Text(text) = value else {
                panic!("{name}: {value:?}")
            };
            String::from_utf8_lossy(text).into_owned()
        };
        (text("newest_dead"), text("newest_dead_error"))
    };
    assert_eq!(said(&mut bench), (String::new(), String::new()));
    for (id, error) in [("a", "card service"), ("b", "no stock")] {
        bench.run(&format!("SCHEDULE {id} PX 0"));
        bench.run(&format!("CLAIM w ID {id} PX 60000"));
        bench.run(&format!(
            "NACK {id} ${id} DEAD ERROR {}",
            error.replace(' ', "_")
        ));
        assert_eq!(said(&mut bench), (id.to_owned(), error.replace(' ', "_")));
    }
    bench.run("FINISH b");
    assert_eq!(said(&mut bench).0, "a", "the one before");
}
