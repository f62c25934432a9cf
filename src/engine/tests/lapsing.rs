//! Tests of the engine: leases that are made to lapse before their time.

use super::*;
use crate::engine::effect::{LIST_MAX, LeaseOf};

impl Bench {
    /// Lets the last leases of these orders lapse: the ids of those that were live.
    fn lapse(&mut self, ids: &[&'static str]) -> String {
        let leases: Vec<(&[u8], u64)> = ids
            .iter()
            .map(|id| (id.as_bytes(), self.fences[id.as_bytes()].last().copied()))
            .map(|(id, fence)| (id, fence.unwrap()))
            .collect();
        let revs = |bench: &Self| -> Vec<Option<u64>> {
            let rev = |id: &&str| bench.view(id).map(|view| view.rev);
            ids.iter().map(rev).collect()
        };
        let before = revs(self);
        let Some(effect) = self.queue.decide_lapse(&self.now(), leases) else {
            return "-".into();
        };
        self.carry(&effect);
        self.compare();
        for (before, after) in before.iter().zip(revs(self)) {
            assert!(
                after.is_none_or(|after| *before == Some(after)),
                "rev stays"
            );
        }
        let Effect::Lapse { leases, .. } = &effect else {
            panic!("{effect:?}")
        };
        let ids: Vec<String> = leases
            .iter()
            .map(|lease| lease.id.escape_ascii().to_string())
            .collect();
        ids.join(" ")
    }
}

/// A bench on which `a` and `b` are claimed, `c` on its last try, `d` locked twice with
/// its deadline ahead, `e` locked and overdue, and `r` reserved.
fn bench(passes: bool) -> Bench {
    let mut bench = Bench::new(passes);
    tell(
        &mut bench,
        &[
            (0.0, "SCHEDULE e PX 50", "OK missing>scheduled"),
            (0.0, "LOCK e me PX 5000", "OK scheduled>leased"),
            (100.0, "SCHEDULE a PX 0 STATUS unpaid", "OK missing>expired"),
            (101.0, "SCHEDULE b PX 0", "OK missing>expired"),
            (102.0, "CLAIM me PX 5000 COUNT 2", "a#1 b#1"),
            (103.0, "SCHEDULE c PX 0", "OK missing>expired"),
            (103.0, "CONFIG SET max-attempts 1", "done"),
            (103.0, "CLAIM me PX 5000", "c#1"),
            (103.0, "CONFIG RESET max-attempts", "done"),
            (104.0, "SCHEDULE d PX 60000", "OK missing>scheduled"),
            (104.0, "LOCK d me PX 5000", "OK scheduled>leased"),
            (104.0, "LOCK d me PX 5000 REENTRANT", "HELD 5000 x2"),
            (105.0, "LOCK r me PX 5000", "OK missing>reserved"),
        ],
    );
    bench
}

#[test]
fn what_follows_is_a_lapse() {
    for passes in [false, true] {
        let mut bench = bench(passes);
        bench.until(200.5);
        let all = ["a", "b", "c", "d", "e", "r"];
        assert_eq!(bench.lapse(&all), "a b c d e r");
        assert_eq!(bench.lapse(&all), "-", "none is live any more");
        tell(
            &mut bench,
            &[
                (201.0, "GET a", "expired +100 status:unpaid #1 owner:me"),
                (201.0, "GET c", "dead +103 #1 owner:me"),
                (201.0, "GET d", "scheduled +60104 owner:me"),
                (201.0, "GET e", "expired +50 owner:me"),
                (201.0, "GET r", "null"),
                (201.0, "RENEW a $a PX 5000", "GONE expired"),
                (201.0, "UNLOCK d $d", "GONE scheduled"),
                (201.0, "lapsed", "true"),
                (201.0, "lapsed", "false"),
                // Nobody else has written: the late word of the holder counts.
                (202.0, "ACK b $b STATUS closed", "OK expired>finished"),
                (203.0, "CLAIM you COUNT 9", "a#2 e#1"),
                (203.0, "ACK a $a.1", "STALE leased"),
                (203.0, "LOCK d you PX 100", "OK scheduled>leased"),
                (204.0, "NACK c $c UNTRIED DELAY 0", "OK dead>expired"),
            ],
        );
        assert_eq!(bench.stat("lapsed_total"), 6);
    }
}

#[test]
fn the_primary_announces_it_as_any_lapse_and_once() {
    let mut bench = bench(true);
    bench.until(300.0);
    assert_eq!(bench.lapse(&["a", "c", "d", "e"]), "a c d e");
    tell(
        &mut bench,
        &[
            (
                301.0,
                "pass",
                "lapsed:d lapsed:c dead:c lapsed:a expired:a lapsed:e expired:e",
            ),
            (9000.0, "pass", "lapsed:b expired:b"),
            (9000.0, "forget", "r"),
        ],
    );
}

#[test]
fn the_order_is_claimable_since_the_lapse_and_no_lease_gets_longer() {
    let mut bench = bench(false);
    bench.until(400.0);
    assert_eq!(bench.lapse(&["b"]), "b");
    bench.until(500.0);
    bench.run("SCHEDULE later PX 0");
    bench.until(600.0);
    assert_eq!(bench.lapse(&["a"]), "a");
    assert_eq!(bench.run("CLAIM you COUNT 9"), "b#2 later#1 a#2");
    // An end that comes later than the lease's own: the lease's own stays.
    let fence = *bench.fences["d".as_bytes()].last().unwrap();
    let effect = |end| Effect::Lapse {
        end: WallMs(START_MS + end),
        leases: vec![LeaseOf {
            id: Bytes::of(b"d"),
            fence,
        }],
    };
    bench.until(5104.0);
    bench.carry(&effect(9000));
    bench.compare();
    assert_eq!(bench.run("GET d"), "scheduled +60104 owner:me");
    bench.run("reload");
    bench.until(5105.0);
    assert_eq!(
        bench.run("GET d"),
        "scheduled +60104 owner:me",
        "stays over"
    );
}

#[test]
fn servers_with_other_clocks_end_with_the_same_ground_state() {
    // By the replica's clocks the leases are over long since, or not begun.
    for (wall_ms, mono_ms, advances) in [
        (60_000_i64, 60_000, true),
        (60_000, 60_000, false),
        (-60_000, 3, false),
        (60_000, 5, true),
    ] {
        let mut bench = bench(false);
        let all = ["a", "b", "c", "d", "e", "r"];
        let now = Now {
            wall_us: (bench.wall_us.cast_signed() + wall_ms * 1000).cast_unsigned(),
            mono_us: bench.mono_us + mono_ms * 1000,
        };
        if advances {
            bench.replica.advance(&now, &mut || true);
        }
        let leases: Vec<_> = all
            .iter()
            .map(|id| (id.as_bytes(), bench.fences[id.as_bytes()][0]))
            .collect();
        let effect = bench.queue.decide_lapse(&bench.now(), leases).unwrap();
        let here = bench.now();
        assert!(bench.queue.apply(&here, &effect, &mut Vec::new()));
        assert!(bench.replica.apply(&now, &effect, &mut Vec::new()));
        bench.compare();
        for id in all {
            let view = bench.replica.view(&now, id.as_bytes());
            assert!(view.is_none_or(|view| view.lease_ms.is_none()), "{id}");
        }
        bench.replica.advance(&now, &mut || true);
        bench.advance();
        bench.compare();
        // What is loaded from it says the same.
        bench.run("reload");
        assert_eq!(bench.run("GET c"), "dead +103 #1 owner:me");
        assert_eq!(bench.run("GET a"), "expired +100 status:unpaid #1 owner:me");
    }
}

#[test]
fn another_grant_is_left_alone() {
    let mut bench = bench(false);
    let old = bench.fences["a".as_bytes()][0];
    bench.until(6000.0);
    assert_eq!(bench.run("CLAIM you PX 1000"), "e#1");
    assert_eq!(bench.run("CLAIM you PX 1000"), "a#2");
    let now = bench.now();
    let stale = [(&b"a"[..], old), (b"nobody", 7), (b"r", 1)];
    assert_eq!(bench.queue.decide_lapse(&now, stale), None);
    let before = digest(&bench.queue);
    let effect = Effect::Lapse {
        end: now.wall_ms(),
        leases: stale
            .iter()
            .map(|(id, fence)| LeaseOf {
                id: Bytes::of(id),
                fence: *fence,
            })
            .collect(),
    };
    let mut events = Vec::new();
    assert!(!bench.queue.apply(&now, &effect, &mut events));
    assert_eq!((digest(&bench.queue), events.len()), (before, 0));
    assert_eq!(bench.state(b"a"), State::Leased);
    bench.queue.check();
}

#[test]
fn one_effect_takes_no_more_than_is_read() {
    let mut bench = Bench::new(false);
    bench.compares = false;
    let ids: Vec<String> = (0..LIST_MAX + 5).map(|n| format!("o{n}")).collect();
    for id in &ids {
        bench.run(&format!("LOCK {id} me PX 1000"));
    }
    let leases: Vec<_> = ids
        .iter()
        .map(|id| (id.as_bytes(), bench.fences[id.as_bytes()][0]))
        .collect();
    let effect = bench.queue.decide_lapse(&bench.now(), leases).unwrap();
    assert_eq!(codec::check(&effect), Ok(()));
    bench.carry(&effect);
    let left = ids
        .iter()
        .filter(|id| bench.state(id.as_bytes()) == State::Reserved);
    assert_eq!(left.count(), 5);
}
