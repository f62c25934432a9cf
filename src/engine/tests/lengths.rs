//! A lease has a length, whatever the clocks do.

use super::*;
use crate::engine::effect::Base;
use crate::request::Renew;
use crate::words::time::MOMENT_MAX;

/// What is left of order `a`'s lease after `line` was granted, the wall clock was set
/// by `step_ms`, and the queue was saved and loaded again.
fn left_after(line: &str, step_ms: i64, after_ms: f64) -> Option<u64> {
    let mut bench = Bench::new(false);
    // What is granted before has nothing to do with it.
    bench.run("SCHEDULE a PX 1000 STATUS unpaid");
    if line.starts_with("CLAIM") {
        bench.run("SCHEDULE a PX 0 XX");
    }
    bench.run(line);
    bench.until(after_ms);
    bench.run(&format!("wall {step_ms:+}"));
    bench.run("reload");
    bench.view("a").and_then(|view| view.lease_ms)
}

#[test]
fn no_more_is_left_of_a_lease_than_it_was_granted_for() {
    const HOUR: i64 = 3_600_000;
    let rows: &[(&str, i64, f64, Option<u64>)] = &[
        // A clock that stands still: what is left.
        ("CLAIM me PX 1000", 0, 0.0, Some(1000)),
        ("CLAIM me PX 1000", 0, 400.0, Some(600)),
        ("LOCK a me PX 500", 0, 400.0, Some(100)),
        // Put right after it stood ahead: never more than the whole.
        ("CLAIM me PX 1000", -2 * HOUR, 0.0, Some(1000)),
        ("CLAIM me PX 1000", -2 * HOUR, 400.0, Some(1000)),
        ("CLAIM me PX 1000", -300, 400.0, Some(900)),
        ("LOCK a me PX 500 MAX 900", -2 * HOUR, 0.0, Some(500)),
        ("CLAIM me PX 1", -400 * 24 * HOUR, 0.0, Some(1)),
        // One that was over comes back, for its length at most.
        ("CLAIM me PX 50", -HOUR, 100.0, Some(50)),
        // Put ahead: over early.
        ("CLAIM me PX 1000", 400, 0.0, Some(600)),
        ("CLAIM me PX 1000", 2 * HOUR, 0.0, None),
    ];
    for (line, step_ms, after_ms, wanted) in rows {
        let left = left_after(line, *step_ms, *after_ms);
        assert_eq!(left, *wanted, "{line}, {step_ms:+} ms, after {after_ms} ms");
    }
}

#[test]
fn a_renewed_lease_counts_from_its_renewal_and_its_cap_from_its_grant() {
    let mut bench = Bench::new(false);
    tell(
        &mut bench,
        &[
            (0.0, "SCHEDULE a PX 50", "OK missing>scheduled"),
            (0.0, "LOCK a me PX 10 MAX 100", "OK scheduled>leased"),
            (5.0, "RENEW a $a PX 60", "OK 60"),
            (5.0, "wall -3600000", "done"),
            (5.0, "reload", "done"),
            (5.0, "GET a", "leased +50 owner:me lease:60"),
            // The cap of 100 ms counts anew from the load at worst.
            (5.0, "RENEW a $a PX 5000", "OK 100"),
            (5.0, "GET a", "leased +50 owner:me lease:100"),
            (5.0, "RENEW a $a PX 5000", "OK 100"),
            (5.0, "GET a", "leased +50 owner:me lease:100"),
        ],
    );
}

#[test]
fn what_comes_from_disk_is_cut_to_the_limits_of_today() {
    let moment = |ms: u64| WallMs(START_MS + ms);
    let year = 31_536_000_000;
    for (kind, wanted) in [(LeaseKind::Claim, 86_400_000), (LeaseKind::Lock, 600_000)] {
        for since in [WallMs(0), WallMs(1), moment(0)] {
            let mut bench = Bench::new(false);
            bench.compares = false;
            let whole = Effect::Restore(Snapshot {
                id: Bytes::of(b"a"),
                status: Bytes::of(b""),
                rev: 9,
                fp: None,
                life: SnapshotLife::Open {
                    deadline: Some(moment(0)),
                    payload: None,
                    attempt: 1,
                    error: None,
                    phase: SnapshotPhase::Granted(SnapshotGrant {
                        kind,
                        owner: Bytes::of(b"me"),
                        fence: 7,
                        made: since,
                        since,
                        end: moment(year),
                        cap: moment(2 * year),
                        holds: 1,
                        last_try: false,
                    }),
                },
            });
            let (now, defaults) = (bench.now(), bench.defaults.clone());
            assert!(bench.queue.replay(&now, &whole, &defaults));
            assert!(bench.replica.replay(&now, &whole, &defaults));
            assert_eq!(bench.view("a").unwrap().lease_ms, Some(wanted), "{since:?}");
            bench.run("RENEW a 7 PX 86400000");
            assert_eq!(bench.view("a").unwrap().lease_ms, Some(wanted), "{since:?}");
            // A queue's own limit counts for it.
            bench.run("CONFIG SET lock-ms-max 50");
            bench.reload();
            let own = if kind == LeaseKind::Lock { 50 } else { wanted };
            assert_eq!(bench.view("a").unwrap().lease_ms, Some(own), "{since:?}");
        }
    }
}

#[test]
fn a_retry_wait_is_no_longer_than_its_delay() {
    let mut bench = Bench::new(false);
    tell(
        &mut bench,
        &[
            (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
            (0.0, "CLAIM me", "a#1"),
            (0.0, "NACK a $a DELAY 1000", "OK leased>retrying"),
            (0.0, "wall -7200000", "done"),
            (0.0, "reload", "done"),
            (999.0, "wall +7200000", "done"),
            (999.0, "GET a", "retrying +0 #1 retry:+1000"),
            (1000.0, "GET a", "expired +0 #1"),
        ],
    );
}

/// A replica whose clock stands elsewhere, and becomes the primary.
#[test]
fn a_promoted_replica_gives_no_lease_more_than_its_length() {
    for (ahead_ms, wanted) in [(-7_200_000, 1000), (-10, 1000), (0, 1000), (300, 700)] {
        let mut bench = Bench::new(false);
        bench.run("SCHEDULE a PX 0");
        let mut replica = Queue::new();
        let now = bench.now();
        let there = Now {
            wall_us: now.wall_us.checked_add_signed(ahead_ms * 1000).unwrap(),
            mono_us: 5_000_000,
        };
        let carry = |replica: &mut Queue, effect: &Effect<'_>| {
            assert!(replica.apply(&there, effect, &mut Vec::new()));
        };
        bench.queue.for_each_saved(&mut |effect| {
            carry(&mut replica, effect);
            true
        });
        let since = now.wall_ms_ceil();
        carry(
            &mut replica,
            &Effect::Claim {
                owner: Bytes::of(b"me"),
                since,
                end: since.plus(1000),
                cap: since.plus(86_400_000),
                grants: vec![Granted {
                    id: Bytes::of(b"a"),
                    fence: 77,
                    attempt: 1,
                    last_try: false,
                }],
            },
        );
        let left = replica.view(&there, b"a").unwrap().lease_ms;
        assert_eq!(left, Some(wanted), "{ahead_ms:+} ms");
    }
}

/// The two clocks tick at different times: what a lease is said to have left is never
/// more than it was granted for, whenever it is looked at.
#[test]
fn a_lease_is_never_said_to_be_longer_than_it_was_granted_for() {
    for wall in (0..1000).step_by(100) {
        for mono in (0..1000).step_by(100) {
            for later in (0..2000).step_by(250) {
                let decided = Now {
                    wall_us: START_MS * 1000 + wall,
                    mono_us: 9_000_000 + mono,
                };
                let applied = Now {
                    wall_us: decided.wall_us + later,
                    mono_us: decided.mono_us + later,
                };
                let since = decided.wall_ms_ceil();
                let mut queue = Queue::new();
                let lock = Effect::Lock {
                    id: Bytes::of(b"a"),
                    owner: Bytes::of(b"me"),
                    fence: 7,
                    since,
                    end: since.plus(5000),
                    cap: since.plus(6000),
                    fp: None,
                    creates: true,
                };
                assert!(queue.apply(&applied, &lock, &mut Vec::new()));
                for now in [decided, applied] {
                    let left = queue.view(&now, b"a").unwrap().lease_ms.unwrap();
                    assert!(left <= 5000, "{left}: {decided:?} {applied:?}");
                }
                // Nor does a renewal pass the cap, by however little.
                let mut numbers = Numbers::new();
                let mut env = Env {
                    now: applied,
                    numbers: &mut numbers,
                    defaults: &Defaults::default(),
                };
                let ask = Renew {
                    id: b"a",
                    fence: 7,
                    lease_ms: 60_000,
                    shorten: false,
                    session: false,
                };
                let decision = queue.decide_renew(&mut env, &ask).unwrap();
                assert!(queue.apply(&applied, &decision.effect.unwrap(), &mut Vec::new()));
                let grant = queue.store.rows.grant(0).unwrap();
                assert!(grant.end_mono <= grant.cap_mono);
            }
        }
    }
}

#[test]
fn a_lease_that_a_client_tells_of_is_within_the_limits() {
    let now = Now {
        wall_us: 1_700_000_000_000_500,
        mono_us: 5_000_900,
    };
    let defaults = Defaults::default();
    let number = now.wall_us;
    let end = WallMs(MOMENT_MAX);
    let since = WallMs(0);
    let schedule = |id| Effect::Schedule {
        id: Bytes::of(id),
        deadline: WallMs(1_600_000_000_000),
        rev: number,
        status: None,
        payload: None,
        base: Base::Fresh,
    };
    let told = [
        schedule(b"claim"),
        schedule(b"lock"),
        Effect::Claim {
            owner: Bytes::of(b"me"),
            since,
            end,
            cap: end,
            grants: vec![Granted {
                id: Bytes::of(b"claim"),
                fence: number + 1,
                attempt: 1,
                last_try: false,
            }],
        },
        Effect::Lock {
            id: Bytes::of(b"lock"),
            owner: Bytes::of(b"me"),
            fence: number + 2,
            since,
            end,
            cap: end,
            fp: None,
            creates: false,
        },
        Effect::Renew {
            id: Bytes::of(b"claim"),
            rev: number + 3,
            since,
            end,
        },
        Effect::Hold {
            id: Bytes::of(b"lock"),
            rev: number + 4,
            holds: 2,
            since,
            end,
        },
    ];
    let mut queue = Queue::new();
    for effect in &told {
        assert!(queue.apply_told(&now, effect, &defaults, &mut Vec::new()));
        let lock_ms_max = defaults.get(Setting::LockMsMax);
        for (id, ms_max) in [
            (&b"claim"[..], defaults.lease_ms_max),
            (b"lock", lock_ms_max),
        ] {
            let left = queue.view(&now, id).and_then(|view| view.lease_ms);
            assert!(
                left.is_none_or(|left| left <= ms_max),
                "{left:?}: {effect:?}"
            );
        }
    }
}

#[test]
fn an_order_has_not_been_claimable_since_a_moment_to_come() {
    // A lease that was granted while the clock stood ahead ends by its length. Its end as
    // it is stored lies hours ahead of the clock then: an order that becomes claimable
    // later would be handed out before it.
    let rows: &[&[&str]] = &[
        &["CLAIM me PX 100"],
        &["CLAIM me PX 5000", "NACK first $first DELAY 100"],
    ];
    for lines in rows {
        for loads in [false, true] {
            let mut bench = Bench::new(false);
            bench.run("SCHEDULE first PX 0");
            bench.run("wall +7200000");
            for line in *lines {
                bench.run(line);
            }
            bench.run("wall -7200000");
            if loads {
                bench.run("reload");
            }
            bench.until(150.0);
            bench.advance();
            bench.until(300.0);
            bench.run("SCHEDULE second PX 0");
            bench.until(400.0);
            assert_eq!(
                bench.run("CLAIM me PX 100 COUNT 2"),
                "first#2 second#1",
                "{lines:?}, loads: {loads}"
            );
        }
    }
}
