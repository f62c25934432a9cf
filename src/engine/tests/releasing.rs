//! Tests of the engine: RELEASE, for the leases of a worker that is gone.

use super::*;

/// A bench on which `w1` holds three claims, the lock of `l` twice and a reservation, and
/// `w2` two claims.
fn bench(passes: bool) -> Bench {
    let mut bench = Bench::new(passes);
    tell(
        &mut bench,
        &[
            (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
            (0.0, "SCHEDULE b PX 0", "OK missing>expired"),
            (0.0, "SCHEDULE c PX 0", "OK missing>expired"),
            (0.0, "CLAIM w1 COUNT 3 PX 3000", "a#1 b#1 c#1"),
            (1.0, "SCHEDULE d PX 0", "OK missing>expired"),
            (1.0, "SCHEDULE e PX 0", "OK missing>expired"),
            (1.0, "CLAIM w2 COUNT 2 PX 2000", "d#1 e#1"),
            (2.0, "SCHEDULE l PX 60000", "OK missing>scheduled"),
            (2.0, "LOCK l w1 PX 5000", "OK scheduled>leased"),
            (2.0, "LOCK l w1 PX 5000 REENTRANT", "HELD 5000 x2"),
            (2.0, "LOCK r w1 PX 9000", "OK missing>reserved"),
            // One that is over, and one that waits: none of them is a live lease.
            (3.0, "SCHEDULE f PX 0", "OK missing>expired"),
            (3.0, "CLAIM w1 PX 1", "f#1"),
            (5.0, "SCHEDULE g PX 60000", "OK missing>scheduled"),
            (5.0, "LOCK g w1 PX 1", "OK scheduled>leased"),
            (9.0, "CLAIM w3", "f#2"),
            (9.0, "NACK f $f DELAY 50000", "OK leased>retrying"),
        ],
    );
    bench
}

#[test]
fn all_live_leases_of_the_owner_end_as_lapses() {
    for passes in [false, true] {
        tell(
            &mut bench(passes),
            &[
                (10.0, "RELEASE nobody", "- left:0"),
                (10.0, "RELEASE w", "- left:0"),
                (10.0, "RELEASE w1", "a b c l r left:0"),
                (10.0, "RELEASE w1", "- left:0"),
                (10.0, "GET a", "expired +0 #1 owner:w1"),
                (10.0, "GET l", "scheduled +60002 owner:w1"),
                (10.0, "GET r", "null"),
                (10.0, "GET d", "leased +1 #1 owner:w2 lease:1991"),
                (10.0, "GET f", "retrying +3 #2 retry:+50009"),
                // The worker comes back: as long as nobody else has written.
                (11.0, "ACK a $a", "OK expired>finished"),
                (11.0, "CLAIM w3 ID b", "b#2"),
                (11.0, "ACK b $b.1", "STALE leased"),
                (11.0, "NACK c $c", "OK expired>retrying"),
                (11.0, "UNLOCK l $l", "GONE scheduled"),
            ],
        );
    }
}

#[test]
fn count_takes_those_that_end_first_and_left_is_exact() {
    for passes in [false, true] {
        tell(
            &mut bench(passes),
            &[
                (10.0, "RELEASE w1 COUNT 2", "a b left:3"),
                (10.0, "RELEASE w1 COUNT 2", "c l left:1"),
                (10.0, "RELEASE w2 COUNT 1", "d left:1"),
                (10.0, "RELEASE w1 COUNT 2", "r left:0"),
                (10.0, "RELEASE w1 COUNT 2", "- left:0"),
                (10.0, "RELEASE w2", "e left:0"),
            ],
        );
    }
}

#[test]
fn the_last_try_is_dead_and_announced_once() {
    let mut bench = Bench::new(true);
    tell(
        &mut bench,
        &[
            (0.0, "CONFIG SET max-attempts 1", "done"),
            (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
            (0.0, "SCHEDULE b PX 10", "OK missing>scheduled"),
            (0.0, "LOCK b me PX 5000", "OK scheduled>leased"),
            (1.0, "CLAIM me PX 5000", "a#1"),
            (20.0, "pass", "-"),
            (20.0, "RELEASE me", "b a left:0"),
            (20.0, "GET a", "dead +0 #1 owner:me"),
            (20.0, "pass", "lapsed:a dead:a lapsed:b expired:b"),
            (20.0, "CLAIM you COUNT 9", "b#1"),
            (9000.0, "pass", "-"),
        ],
    );
    assert_eq!(
        (bench.stat("lapsed_total"), bench.stat("dead_total")),
        (2, 1)
    );
}

#[test]
fn the_owner_is_bytes_and_the_whole_name() {
    let mut bench = Bench::new(false);
    let owner = b"w\0\xff\r\n";
    let release =
        |owner: &'static [u8]| Request::Release(crate::request::Release { owner, count: 1000 });
    let now = bench.now();
    for (id, owner) in [
        (&b"a"[..], &owner[..]),
        (b"b", b"w"),
        (b"c", b"w\0\xff\r\nx"),
    ] {
        let effect = Effect::Lock {
            id: Bytes::of(id),
            owner: Bytes::of(owner),
            fence: 1_800_000_000_000_000 + u64::from(id[0]),
            since: now.wall_ms(),
            end: now.wall_ms().plus(1000),
            cap: now.wall_ms().plus(1000),
            fp: None,
            creates: true,
        };
        bench.carry(&effect);
    }
    assert_eq!(bench.ask(&release(owner)), "a left:0");
    assert_eq!(bench.ask(&release(b"w")), "b left:0");
    assert_eq!(bench.state(b"c"), State::Reserved);
}

#[test]
fn arguments_are_held_to_their_limits() {
    let mut bench = Bench::new(false);
    let long = "w".repeat(129);
    for (line, error) in [
        (
            "RELEASE".to_owned(),
            "ERR wrong number of arguments for 'order.release' command",
        ),
        (
            "RELEASE ''".into(),
            "ERR length of owner is out of range, must be between 1 and 128 bytes",
        ),
        (
            format!("RELEASE {long}"),
            "ERR length of owner is out of range, must be between 1 and 128 bytes",
        ),
        (
            "RELEASE w COUNT 0".into(),
            "ERR value of COUNT is out of range, must be between 1 and 1000",
        ),
        (
            "RELEASE w COUNT 1001".into(),
            "ERR value of COUNT is out of range, must be between 1 and 1000",
        ),
        (
            "RELEASE w 5".into(),
            "ERR syntax error, unknown option near '5'",
        ),
    ] {
        assert_eq!(bench.run(&line), error, "{line}");
    }
    assert_eq!(
        bench.run(&format!("RELEASE {}", "w".repeat(128))),
        "- left:0"
    );
}
