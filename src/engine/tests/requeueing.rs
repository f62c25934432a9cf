//! Tests of the engine: REQUEUE of dead and retrying orders, by state and by id.

use super::*;

/// A bench on which `d1`, `d2` and `d3` are dead (the last by a lapse), `r1`, `r2` and
/// `r3` retry, each with a try, and others are in other states.
fn bench(passes: bool) -> Bench {
    let mut bench = Bench::new(passes);
    for id in ["d1", "d2", "r3", "r2", "r1", "d3"] {
        let status = if id.ends_with('2') { "two" } else { "one" };
        bench.run(&format!("SCHEDULE {id} PX 0 STATUS {status}"));
    }
    tell(
        &mut bench,
        &[
            (1.0, "CLAIM me COUNT 5 PX 90000", "d1#1 d2#1 r3#1 r2#1 r1#1"),
            (2.0, "NACK d1 $d1 DEAD ERROR first", "OK leased>dead"),
            (3.0, "NACK d2 $d2 DEAD", "OK leased>dead"),
            (3.0, "CONFIG SET max-attempts 1", "done"),
            (3.0, "CLAIM me PX 10", "d3#1"),
            (3.0, "CONFIG RESET max-attempts", "done"),
            (
                4.0,
                "NACK r3 $r3 DELAY 30000 ERROR away",
                "OK leased>retrying",
            ),
            (
                4.0,
                "NACK r2 $r2 DELAY 20000 ERROR away",
                "OK leased>retrying",
            ),
            (
                4.0,
                "NACK r1 $r1 DELAY 10000 ERROR away",
                "OK leased>retrying",
            ),
            (5.0, "SCHEDULE l PX 0", "OK missing>expired"),
            (5.0, "CLAIM me PX 90000", "l#1"),
            (6.0, "SCHEDULE s PX 60000", "OK missing>scheduled"),
            (6.0, "FINISH f CREATE", "OK missing>finished"),
            (20.0, "GET d3", "dead +0 status:one #1 owner:me"),
        ],
    );
    bench
}

#[test]
fn without_a_state_the_dead_come_back_as_never_tried() {
    for passes in [false, true] {
        tell(
            &mut bench(passes),
            &[
                (30.0, "REQUEUE COUNT 1", "d1 left:2"),
                (31.0, "REQUEUE STATE dead", "d2 d3 left:0"),
                (32.0, "REQUEUE", "- left:0"),
                (32.0, "GET d1", "expired +0 status:one error:first"),
                (32.0, "GET d3", "expired +0 status:one"),
                (
                    32.0,
                    "GET r1",
                    "retrying +0 status:one #1 retry:+10004 error:away",
                ),
                (33.0, "CLAIM you COUNT 9", "d1#1 d2#1 d3#1"),
            ],
        );
    }
}

#[test]
fn retrying_ones_come_back_before_their_wait_is_over_and_keep_their_tries() {
    for passes in [false, true] {
        tell(
            &mut bench(passes),
            &[
                (30.0, "REQUEUE STATE retrying COUNT 2", "r1 r2 left:1"),
                (31.0, "REQUEUE STATE retrying", "r3 left:0"),
                (31.0, "REQUEUE STATE retrying", "- left:0"),
                (31.0, "GET r1", "expired +0 status:one #1 error:away"),
                // The old end of the wait means nothing any more.
                (31.0, "CLAIM you COUNT 9 PX 50000", "r1#2 r2#2 r3#2"),
                (
                    40_000.0,
                    "GET r1",
                    "leased +0 status:one #2 owner:you lease:10031 error:away",
                ),
                (40_000.0, "NACK r1 $r1.1", "STALE leased"),
            ],
        );
    }
}

#[test]
fn the_backoff_goes_on_where_it_was() {
    tell(
        &mut Bench::new(false),
        &[
            (0.0, "CONFIG SET max-attempts 3", "done"),
            (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
            (0.0, "CLAIM me", "a#1"),
            (0.0, "NACK a $a DELAY 5000", "OK leased>retrying"),
            (1.0, "REQUEUE STATE retrying", "a left:0"),
            (1.0, "CLAIM me", "a#2"),
            (1.0, "NACK a $a DELAY 5000", "OK leased>retrying"),
            (2.0, "REQUEUE ID a", "a left:0"),
            (2.0, "CLAIM me", "a#3"),
            (2.0, "NACK a $a DELAY 5000", "OK leased>dead"),
            (3.0, "REQUEUE ID a", "a left:0"),
            (3.0, "CLAIM me", "a#1"),
        ],
    );
}

#[test]
fn ids_are_moved_from_either_state_and_nothing_else_is() {
    for passes in [false, true] {
        tell(
            &mut bench(passes),
            &[
                (
                    30.0,
                    "REQUEUE ID d3 r1 l s f nobody d3 r1 d1",
                    "d3 r1 d1 left:6",
                ),
                (31.0, "GET d3", "expired +0 status:one"),
                (31.0, "GET r1", "expired +0 status:one #1 error:away"),
                (31.0, "GET l", "leased +5 #1 owner:me lease:89974"),
                (31.0, "REQUEUE ID d3 r1", "- left:2"),
                (31.0, "CLAIM you COUNT 9", "d3#1 r1#2 d1#1"),
            ],
        );
    }
}

#[test]
fn a_filter_goes_round_as_that_of_purge_does() {
    for passes in [false, true] {
        let mut bench = bench(passes);
        tell(
            &mut bench,
            &[
                (30.0, "REQUEUE STATUS two", "d2 left:2"),
                (30.0, "REQUEUE STATE retrying MATCH *3", "r3 left:2"),
                (
                    30.0,
                    "REQUEUE STATE retrying STATUS one MATCH r* COUNT 1",
                    "r1 left:1",
                ),
                (30.0, "REQUEUE STATE dead MATCH nothing", "- left:2"),
                (30.0, "REQUEUE STATUS ''", "- left:2"),
            ],
        );
        // Bounded: ten looks for each one asked for, and on from there.
        let mut bench = Bench::new(passes);
        bench.compares = false;
        for n in 0..100 {
            bench.run(&format!("SCHEDULE o{n} PX 0"));
        }
        bench.run("CLAIM me COUNT 100");
        for n in 0..100 {
            let status = if n == 3 { "rare" } else { "usual" };
            bench.run(&format!("NACK o{n} $o{n} DELAY 90000"));
            bench.run(&format!("STATUS o{n} {status}"));
        }
        let said: Vec<String> = (0..10)
            .map(|_| bench.run("REQUEUE STATE retrying STATUS rare COUNT 1"))
            .collect();
        let found = said.iter().position(|said| *said == "o3 left:99");
        assert_eq!(found, Some(9), "the last ten of a hundred: {said:?}");
    }
}

#[test]
fn the_deadline_stays_also_one_that_is_ahead_again() {
    tell(
        &mut Bench::new(true),
        &[
            (0.0, "SCHEDULE a PX 5000", "OK missing>scheduled"),
            (6000.0, "CLAIM me", "a#1"),
            (6000.0, "NACK a $a DELAY 90000", "OK leased>retrying"),
            (6001.0, "wall -2000", "done"),
            (6001.0, "REQUEUE ID a", "a left:0"),
            (6001.0, "GET a", "scheduled +5000 #1"),
            (6001.0, "NEXT", "a+5000"),
            (7000.0, "GET a", "expired +5000 #1"),
            (7000.0, "CLAIM me", "a#2"),
        ],
    );
}

#[test]
fn it_is_announced_as_claimable_again() {
    let mut bench = bench(true);
    bench.until(30.0);
    bench.run("pass");
    assert_eq!(bench.run("REQUEUE ID r2 d2"), "r2 d2 left:0");
    assert_eq!(bench.run("pass"), "expired:r2 expired:d2");
    assert_eq!(bench.run("pass"), "-");
    assert_eq!(bench.stat("retrying"), 2);
    assert_eq!(bench.stat("dead"), 2);
}

#[test]
fn arguments_are_held_to_their_limits() {
    let mut bench = Bench::new(false);
    let many = |n: usize| format!("REQUEUE ID{}", " x".repeat(n));
    let long = "x".repeat(256);
    for (line, error) in [
        (
            "REQUEUE ID".to_owned(),
            "ERR syntax error, option ID needs a value",
        ),
        (
            many(1001),
            "ERR syntax error, option ID takes at most 1000 values",
        ),
        (
            "REQUEUE ID ''".into(),
            "ERR length of ID is out of range, must be between 1 and 255 bytes",
        ),
        (
            format!("REQUEUE ID a {long}"),
            "ERR length of ID is out of range, must be between 1 and 255 bytes",
        ),
        (
            "REQUEUE STATE dead ID a".into(),
            "ERR syntax error, STATE and ID exclude each other",
        ),
        (
            "REQUEUE COUNT 5 ID a".into(),
            "ERR syntax error, COUNT and ID exclude each other",
        ),
        (
            "REQUEUE MATCH a ID a".into(),
            "ERR syntax error, MATCH and ID exclude each other",
        ),
        (
            "REQUEUE STATUS a ID a".into(),
            "ERR syntax error, STATUS and ID exclude each other",
        ),
        (
            "REQUEUE STATE expired".into(),
            "ERR syntax error, STATE must be dead or retrying, not 'expired'",
        ),
        (
            "REQUEUE STATE ''".into(),
            "ERR syntax error, STATE must be dead or retrying, not ''",
        ),
        (
            "REQUEUE STATE".into(),
            "ERR syntax error, option STATE needs a value",
        ),
        (
            "REQUEUE COUNT 0".into(),
            "ERR value of COUNT is out of range, must be between 1 and 1000",
        ),
        (
            "REQUEUE x".into(),
            "ERR syntax error, unknown option near 'x'",
        ),
    ] {
        assert_eq!(bench.run(&line), error, "{line}");
    }
    assert_eq!(bench.run(&many(1000)), "- left:1000");
    // What follows ID is ids, whatever it looks like.
    bench.run("SCHEDULE COUNT PX 0");
    bench.run("CLAIM me");
    bench.run("NACK COUNT $COUNT DEAD");
    assert_eq!(bench.run("REQUEUE id COUNT 5"), "COUNT left:1");
}
