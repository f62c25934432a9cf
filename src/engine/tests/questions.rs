//! Tests of the engine: questions.

use super::*;

#[test]
fn next_lists_what_is_scheduled_in_order() {
    story(&[
        (0.0, "SCHEDULE a PX 30", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 10", "OK missing>scheduled"),
        (0.0, "SCHEDULE c PX 20", "OK missing>scheduled"),
        (0.0, "SCHEDULE d PX 10", "OK missing>scheduled"),
        (0.0, "LOCK c me PX 1000", "OK scheduled>leased"),
        (0.0, "NEXT", "b+10"),
        (0.0, "NEXT COUNT 9", "b+10 d+10 a+30"),
        (9.999, "NEXT COUNT 9", "b+10 d+10 a+30"),
        (10.0, "NEXT COUNT 9", "a+30"),
        (10.0, "pass", "expired:b expired:d"),
        (10.0, "NEXT COUNT 9", "a+30"),
        (10.0, "UNLOCK c $c", "OK leased>scheduled"),
        (10.0, "NEXT COUNT 9", "c+20 a+30"),
    ]);
}

#[test]
fn next_is_in_order_over_all_levels_of_the_wheel() {
    let mut bench = Bench::new(false);
    bench.compares = false;
    let mut expected = Vec::new();
    for n in 0..3000_u64 {
        let ms = 1 + (n * n * 7919) % (1 << (n % 40));
        bench.run(&format!("SCHEDULE {n} PX {ms}"));
        expected.push((ms, n));
    }
    expected.sort_unstable();
    let rows = bench.queue.next(&bench.now(), 5000);
    let rows: Vec<(u64, u64)> = rows
        .iter()
        .map(|(id, deadline)| {
            (
                deadline.0 - START_MS,
                std::str::from_utf8(id).unwrap().parse().unwrap(),
            )
        })
        .collect();
    assert_eq!(rows, expected);
    assert_eq!(bench.queue.next(&bench.now(), 7).len(), 7);
}

#[test]
fn scan_returns_whatever_is_there_from_the_first_call_to_the_last() {
    for count in [1, 3, 10, 1000] {
        for seed in 0..20_u64 {
            let mut bench = Bench::new(false);
            bench.compares = false;
            let mut dice = seed;
            let mut roll = |sides: u64| {
                dice = dice
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (dice >> 33) % sides
            };
            for n in 0..200 {
                bench.run(&format!("SCHEDULE stay{n} PX 0"));
                bench.run(&format!("SCHEDULE go{n} PX 0"));
            }
            let mut seen = std::collections::BTreeSet::new();
            let (mut cursor, mut calls) = (0, 0);
            loop {
                let ask = Scan {
                    cursor,
                    state: None,
                    status: None,
                    pattern: None,
                    count,
                    owner: None,
                };
                let (next, rows) = bench.queue.scan(&bench.now(), &ask, &|_| true);
                assert!(rows.len() <= count as usize);
                seen.extend(rows.into_iter().map(|row| row.id));
                calls += 1;
                if next == 0 {
                    break;
                }
                assert!(cursor == 0 || next < cursor, "it comes to an end");
                cursor = next;
                // Meanwhile others come and go.
                for _ in 0..roll(4) {
                    let n = roll(200);
                    bench.run(&format!("FINISH go{n} KEEP 0"));
                    bench.run(&format!("SCHEDULE new{calls}-{n} PX 0"));
                    bench.run(&format!("STATUS stay{n} s PAYLOAD xyz"));
                }
            }
            for n in 0..200 {
                assert!(
                    seen.contains(format!("stay{n}").as_bytes()),
                    "stay{n}, count {count}, seed {seed}"
                );
            }
        }
    }
}

#[test]
fn scan_filters_by_state_status_and_pattern() {
    story(&[
        (0.0, "SCHEDULE a1 PX 0 STATUS unpaid", "OK missing>expired"),
        (
            0.0,
            "SCHEDULE a2 PX 10 STATUS unpaid",
            "OK missing>scheduled",
        ),
        (0.0, "SCHEDULE b1 PX 10 STATUS paid", "OK missing>scheduled"),
        (0.0, "FINISH b2 CREATE STATUS paid", "OK missing>finished"),
        (
            0.0,
            "SCAN 0",
            "0 b2:finished b1:scheduled a2:scheduled a1:expired",
        ),
        (0.0, "SCAN 0 STATE scheduled", "0 b1:scheduled a2:scheduled"),
        (0.0, "SCAN 0 STATUS paid", "0 b2:finished b1:scheduled"),
        (0.0, "SCAN 0 MATCH a*", "0 a2:scheduled a1:expired"),
        (
            0.0,
            "SCAN 0 MATCH a* STATE scheduled STATUS unpaid",
            "0 a2:scheduled",
        ),
        (0.0, "SCAN 0 STATUS ''", "0"),
    ]);
}

#[test]
fn stats_count_every_state() {
    for passes in [false, true] {
        let mut bench = Bench::new(passes);
        for (ms, command) in [
            (0.0, "SCHEDULE s1 PX 1000"),
            (0.0, "SCHEDULE s2 PX 2000"),
            (0.0, "SCHEDULE s3 PX 3000"),
            (0.0, "SCHEDULE c1 PXAT T-20"),
            (0.0, "CLAIM me"),
            (0.0, "SCHEDULE r1 PXAT T-10"),
            (0.0, "CLAIM me"),
            (0.0, "NACK r1 $r1 DELAY 5000"),
            (0.0, "SCHEDULE d1 PX 0"),
            (0.0, "CLAIM me"),
            (0.0, "NACK d1 $d1 DEAD"),
            (0.0, "LOCK s3 me PX 5000"),
            (0.0, "LOCK x1 me PX 5000"),
            (0.0, "LOCK x2 me PX 500"),
            (0.0, "FINISH f1 CREATE"),
            (0.0, "FINISH f2 CREATE KEEP 10"),
            (100.0, "SCHEDULE e1 PXAT T-5"),
            (600.0, "pass 0"),
            (1000.0, "STATUS s1 s IFREV 3"),
        ] {
            bench.until(ms);
            bench.run(command);
        }
        for (name, value) in [
            ("scheduled", 1),
            ("expired", 2),
            ("leased", 2),
            ("retrying", 1),
            ("dead", 1),
            ("finished", 1),
            ("reserved", 1),
            ("orders", 9),
            ("next_deadline", START_MS as i64 + 2000),
            ("oldest_expired_ms", 900),
            ("behind_ms", 0),
            ("live_claims", 1),
            ("paused_ms", -2),
            ("scheduled_total", 7),
            ("claimed_total", 3),
            ("nacked_total", 2),
            ("dead_total", 1),
            ("stale_total", 1),
            ("lapsed_total", 1),
        ] {
            assert_eq!(bench.stat(name), value, "{name} (passes: {passes})");
        }
    }
}

#[test]
fn the_next_wake_is_the_first_thing_that_time_will_do() {
    story(&[
        (0.0, "wake", "never"),
        (0.0, "SCHEDULE a PX 5000", "OK missing>scheduled"),
        (0.0, "wake", "+5000"),
        (0.0, "SCHEDULE b PX 100", "OK missing>scheduled"),
        (0.0, "wake", "+100"),
        (100.0, "wake", "now"),
        (100.0, "pass", "expired:b"),
        (100.0, "wake", "+5000"),
        (100.0, "CLAIM me PX 300", "b#1"),
        (100.0, "wake", "+400"),
        (101.0, "NACK b $b DELAY 1000", "OK leased>retrying"),
        (101.0, "wake", "+1101"),
        (101.0, "LOCK c me PX 200", "OK missing>reserved"),
        (101.0, "wake", "+301"),
        (101.0, "UNLOCK c $c", "OK reserved>missing"),
        (101.0, "FINISH b", "OK retrying>finished"),
        (101.0, "FINISH a", "OK scheduled>finished"),
    ]);
}

/// A DUMP payload with a flipped bit held a record with a grant, a retry wait and a
/// dead mark at once: its place and its state disagreed, and CLAIM went round in
/// circles for ever.
#[test]
fn a_record_that_contradicts_itself_stops_no_claim() {
    let moment = |ms: i64| WallMs(START_MS.saturating_add_signed(ms));
    for kind in [LeaseKind::Claim, LeaseKind::Lock] {
        for end in [-10, 500] {
            for retry_at in [Some(600), Some(-5), None] {
                for granted in [true, false] {
                    let mut bench = Bench::new(false);
                    let grant = SnapshotGrant {
                        kind,
                        owner: Bytes::of(b"me"),
                        fence: 7,
                        made: WallMs(0),
                        since: WallMs(0),
                        end: moment(end),
                        cap: moment(end),
                        holds: 1,
                        last_try: false,
                    };
                    bench.carry(&Effect::Restore(Snapshot {
                        id: Bytes::of(b"odd"),
                        status: Bytes::of(b""),
                        rev: 9,
                        fp: None,
                        life: SnapshotLife::Open {
                            deadline: Some(moment(-20)),
                            payload: None,
                            attempt: 1,
                            error: None,
                            phase: match retry_at {
                                _ if granted => SnapshotPhase::Granted(grant),
                                Some(at) => SnapshotPhase::Retrying {
                                    since: WallMs(0),
                                    at: moment(at),
                                },
                                None => SnapshotPhase::Dead(moment(-5)),
                            },
                        },
                    }));
                    bench.compare();
                    for ms in [1.0, 501.0, 601.0] {
                        bench.until(ms);
                        // What is claimable says so, and the other way round.
                        let expired = bench.state(b"odd") == State::Expired;
                        bench.advance();
                        let now = bench.now();
                        assert_eq!(bench.queue.claimable(&now, &bench.defaults), expired);
                        bench.run("CLAIM me PX 1");
                        bench.compare();
                    }
                }
            }
        }
    }
}

/// An id that was forgotten and made again had its old rev a second time while the
/// server's numbers were ahead of the clock (after a start): IFREV passed on an
/// order that was another one.
#[test]
fn a_rev_never_comes_back_with_an_id_that_is_made_again() {
    let mut bench = Bench::new(false);
    bench.numbers.guard(bench.now().wall_us, 10_000_000);
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        for command in [
            "SCHEDULE a PX 900000",
            "STATUS a one",
            "LOCK a me PX 1000",
            "UNLOCK a $a",
            "FINISH a KEEP 0",
        ] {
            let said = bench.run(command);
            assert!(said.starts_with("OK"), "{command}: {said}");
            let view = bench.queue.view(&bench.now(), b"a");
            if let Some(view) = view {
                assert!(seen.insert(view.rev), "{command}: {}", view.rev);
            }
        }
        // With its last order the queue goes, and with it its floor.
        bench.queue = Queue::new();
        bench.replica = Queue::new();
    }
}

/// A long pattern cost a second and more, because looks were bounded and what a
/// look costs was not.
#[test]
fn a_pattern_makes_looks_dearer_and_a_scan_comes_to_its_end_all_the_same() {
    let mut bench = Bench::new(false);
    for n in 0..500 {
        bench.run(&format!("SCHEDULE {}{n:05} PX 9000", "a".repeat(250)));
    }
    let pattern = format!("*{}b", "a".repeat(240));
    let (mut cursor, mut calls) = (0, 0);
    loop {
        let said = bench.run(&format!("SCAN {cursor} MATCH {pattern} COUNT 1000"));
        cursor = said.parse().expect("a cursor and nothing else");
        calls += 1;
        if cursor == 0 {
            break;
        }
    }
    assert!((10..=50).contains(&calls), "{calls}");
}

/// In the millisecond of their deadlines, requeued orders stood before those that
/// had been dead for longer.
#[test]
fn requeued_orders_come_in_the_order_they_died_whatever_their_deadlines() {
    story(&[
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CLAIM me", "a#1"),
        (0.0, "NACK a $a DEAD", "OK leased>dead"),
        (1.0, "SCHEDULE b PX 0", "OK missing>expired"),
        (1.0, "CLAIM me", "b#1"),
        (1.0, "NACK b $b DEAD", "OK leased>dead"),
        (1.0, "REQUEUE", "a b left:0"),
        (1.0, "CLAIM me COUNT 2", "a#1 b#1"),
    ]);
}

#[test]
fn a_queue_of_one_order_is_small_and_bytes_say_so() {
    assert!(size_of::<Queue>() <= 160, "{}", size_of::<Queue>());
    let mut bench = Bench::new(false);
    assert_eq!(bench.queue.bytes(), 160, "an empty queue owns nothing");
    // Row: orders, and the most bytes of the queue that holds them.
    let mut made = 0;
    for (orders, most) in [(1, 224), (2, 272), (10, 900), (16, 1200), (300, 28_500)] {
        while made < orders {
            let px = 900_000 + made;
            bench.run(&format!("SCHEDULE order-{made:014} PX {px} STATUS unpaid"));
            made += 1;
        }
        let bytes = bench.queue.bytes();
        assert!(bytes <= most, "{bytes} bytes for {orders} orders");
        assert!(
            bytes >= orders as usize * (28 + 24),
            "{bytes} bytes for {orders} orders"
        );
    }
}

/// Effects of a stream that is replayed or made up, on an order that was finished
/// meanwhile: it stays as it is, or no file could hold it.
#[test]
fn a_finished_order_is_neither_claimed_nor_locked_by_an_effect() {
    let moment = |ms: i64| WallMs(START_MS.saturating_add_signed(ms));
    let ids = || vec![Bytes::of(b"a")];
    let now = moment(1);
    let effects = [
        Effect::Claim {
            owner: Bytes::of(b"o"),
            since: now,
            end: moment(500),
            cap: moment(900),
            grants: vec![Granted {
                id: Bytes::of(b"a"),
                fence: 77,
                attempt: 1,
                last_try: false,
            }],
        },
        Effect::Nack {
            id: Bytes::of(b"a"),
            rev: 77,
            then: AfterTry::Dead(now),
            error: Some(Bytes::of(b"late")),
            untried: false,
        },
        Effect::Lock {
            id: Bytes::of(b"a"),
            owner: Bytes::of(b"o"),
            fence: 77,
            since: now,
            end: moment(500),
            cap: moment(900),
            fp: None,
            creates: false,
        },
        Effect::Renew {
            id: Bytes::of(b"a"),
            rev: 77,
            since: now,
            end: moment(500),
        },
        Effect::Release {
            id: Bytes::of(b"a"),
            rev: 77,
            ended: Ended::Claim {
                then: AfterTry::At {
                    since: now,
                    at: moment(50),
                },
                untried: true,
            },
        },
        Effect::Release {
            id: Bytes::of(b"a"),
            rev: 77,
            ended: Ended::Lock,
        },
        Effect::Requeue {
            rev: 77,
            orders: ids()
                .into_iter()
                .map(|id| Requeued { id, attempt: 0 })
                .collect(),
        },
    ];
    for effect in &effects {
        let mut bench = Bench::new(false);
        bench.run("SCHEDULE a PX 0 STATUS unpaid");
        bench.run("CLAIM me");
        bench.run("FINISH a STATUS paid FENCE $a KEEP 100000");
        let (now, before) = (bench.now(), digest(&bench.queue));
        assert_eq!(bench.state(b"a"), State::Finished);
        let mut events = Vec::new();
        assert!(!bench.queue.apply(&now, effect, &mut events), "{effect:?}");
        assert_eq!(
            (events.len(), digest(&bench.queue)),
            (0, before),
            "{effect:?}"
        );
        bench.queue.check();
    }
}
