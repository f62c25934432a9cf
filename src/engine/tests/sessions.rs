//! Tests of the engine: leases that end with a connection.

use std::collections::BTreeMap;

use super::*;
use crate::engine::session::Sessions;
use crate::engine::testing::{Dice, from_environment, saved};

impl Bench {
    /// Binds the lease of an order to a client.
    fn bind(&mut self, id: &str, client: u64) {
        let now = self.now();
        self.queue.bind(&now, id.as_bytes(), None, client);
        self.queue.check_sessions();
    }

    /// What is bound, as GET shows it: `a:7 b:8`.
    fn bound(&self) -> String {
        let mut all = Vec::new();
        for client in self.queue.session_clients() {
            for (id, _) in self.queue.busy.sessions.of(client) {
                let id = String::from_utf8_lossy(id).into_owned();
                let shown = self.view(&id).map_or(0, |view| view.session);
                all.push(format!("{id}:{shown}"));
            }
        }
        all.sort();
        all.join(" ")
    }

    /// The connection of a client closes: its leases end, at most `max` in one effect.
    /// The ids in the order in which they were released.
    fn close(&mut self, client: u64, max: usize) -> String {
        let mut released = Vec::new();
        loop {
            let now = self.now();
            let leases = self.queue.closed(&now, client, max);
            assert!(leases.len() <= max);
            let ended = leases.iter().map(|(id, fence)| (&**id, *fence));
            let effect = self.queue.decide_lapse(&now, ended);
            assert_eq!(effect.is_some(), !leases.is_empty(), "all are live");
            if let Some(effect) = effect {
                self.carry(&effect);
                self.compare();
                released.extend(
                    leases
                        .iter()
                        .map(|(id, _)| String::from_utf8_lossy(id).into_owned()),
                );
            } else if !self.queue.is_bound_to(client) {
                break;
            }
            self.queue.check_sessions();
        }
        if released.is_empty() {
            "-".into()
        } else {
            released.join(" ")
        }
    }
}

#[test]
fn the_last_bind_counts_and_only_of_a_live_lease() {
    for passes in [false, true] {
        let mut bench = Bench::new(passes);
        tell(
            &mut bench,
            &[
                (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
                (0.0, "SCHEDULE b PX 0", "OK missing>expired"),
                (0.0, "SCHEDULE later PX 60000", "OK missing>scheduled"),
                (0.0, "FINISH done CREATE", "OK missing>finished"),
                (0.0, "LOCK r me PX 5000", "OK missing>reserved"),
                (1.0, "CLAIM me PX 100 ID a", "a#1"),
                (1.0, "CLAIM me PX 5000 ID b", "b#1"),
            ],
        );
        for id in ["a", "b", "r", "later", "done", "nobody"] {
            bench.bind(id, 7);
        }
        assert_eq!(bench.bound(), "a:7 b:7 r:7");
        assert_eq!(bench.queue.session_clients(), [7]);
        bench.bind("b", 8);
        assert_eq!(bench.bound(), "a:7 b:8 r:7");
        assert_eq!(bench.queue.session_clients(), [7, 8]);
        // Whoever asks without it leaves it alone.
        bench.run("RENEW b $b PX 6000");
        bench.run("LOCK r me PX 6000");
        assert_eq!(bench.bound(), "a:7 b:8 r:7");
        // To the millisecond of its end.
        bench.until(100.9);
        assert_eq!(bench.view("a").unwrap().session, 7);
        bench.until(101.0);
        assert!(bench.view("a").is_some_and(|view| view.session == 0));
        bench.bind("a", 9);
        assert!(!bench.queue.is_bound_to(9), "it is over");
        assert_eq!(bench.close(7, 100), "r");
        assert_eq!(bench.close(8, 100), "b");
        assert_eq!(bench.close(8, 100), "-");
        assert_eq!(bench.queue.session_leases(), 0);
    }
}

/// Ways in which the lease of `a` (a claim for five seconds) or `l` (a lock for as long,
/// its deadline ahead) ends, and when; each is bound.
const ENDS: [(f64, &[&str]); 18] = [
    (2.0, &["ACK a $a"]),
    (2.0, &["ACK a $a KEEP 0"]),
    (2.0, &["NACK a $a"]),
    (2.0, &["NACK a $a DELAY 0"]),
    (2.0, &["NACK a $a DEAD"]),
    (2.0, &["NACK a $a UNTRIED DELAY 5"]),
    (2.0, &["UNLOCK a $a"]),
    (2.0, &["BREAK a"]),
    (2.0, &["FINISH a FENCE $a"]),
    (2.0, &["SCHEDULE a PX 9 XX FENCE $a"]),
    (2.0, &["UNLOCK l $l"]),
    (2.0, &["ACK l $l"]),
    (2.0, &["BREAK l"]),
    (2.0, &["FINISH l FENCE $l KEEP 0"]),
    // By time, noticed by a pass or by who has it next.
    (5001.0, &["pass"]),
    (5001.0, &["CLAIM you PX 100", "LOCK l you PX 9"]),
    (5001.0, &["CLAIM you PX 100 ID a", "FINISH l"]),
    (5001.0, &["PURGE STATE expired", "LOCK l you PX 9"]),
];

#[test]
fn however_a_lease_ends_it_is_bound_no_more() {
    for passes in [false, true] {
        for (at, lines) in ENDS {
            let mut bench = Bench::new(passes);
            tell(
                &mut bench,
                &[
                    (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
                    (0.0, "SCHEDULE l PX 60000", "OK missing>scheduled"),
                    (1.0, "CLAIM me PX 5000", "a#1"),
                    (1.0, "LOCK l me PX 5000", "OK scheduled>leased"),
                ],
            );
            bench.bind("a", 7);
            bench.bind("l", 7);
            bench.until(at);
            for line in lines {
                bench.run(line);
            }
            bench.queue.check_sessions();
            let way = lines[0];
            let is_of_lock = way.contains(" l");
            if at < 5000.0 {
                let left = if is_of_lock { "a:7" } else { "l:7" };
                assert_eq!(bench.bound(), left, "{way}");
            } else {
                assert_eq!(bench.queue.session_leases(), 0, "{way}: noticed");
            }
            // What was granted since is nobody's who closes.
            let released = bench.close(7, 100);
            if at < 5000.0 {
                assert_eq!(released, if is_of_lock { "a" } else { "l" }, "{way}");
            } else {
                assert_eq!(released, "-", "{way}");
            }
            assert_eq!(bench.queue.session_leases(), 0, "{way}");
        }
    }
}

#[test]
fn what_does_not_end_a_lease_leaves_it_bound() {
    let mut bench = Bench::new(true);
    tell(
        &mut bench,
        &[
            (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
            (0.0, "SCHEDULE l PX 60000", "OK missing>scheduled"),
            (1.0, "CLAIM me PX 5000", "a#1"),
            (1.0, "LOCK l me PX 5000 REENTRANT", "OK scheduled>leased"),
            (1.0, "LOCK l me PX 5000 REENTRANT", "HELD 5000 x2"),
        ],
    );
    bench.bind("a", 7);
    bench.bind("l", 7);
    for (line, said) in [
        ("RENEW a $a PX 100 LT", "OK 100"),
        ("RENEW a $a PX 4000", "OK 4000"),
        ("STATUS a slow FENCE $a", "OK leased>leased"),
        ("SCHEDULE a PX 9 XX", "LEASED leased"),
        ("SCHEDULE l PX 70000 XX FENCE $l", "OK leased>leased"),
        ("LOCK l me PX 5000 REENTRANT", "HELD 5000 x3"),
        ("UNLOCK l $l", "HELD 5000 x2"),
        ("LOCK l you PX 5000", "BUSY leased"),
        ("PAUSE", "done"),
        ("CONFIG SET lease-ms 100", "done"),
        ("RESUME", "done"),
        ("PURGE STATE dead", "- left:0"),
        ("forget", "-"),
    ] {
        assert_eq!(bench.run(line), said, "{line}");
        assert_eq!(bench.bound(), "a:7 l:7", "{line}");
    }
    // All holds of a lock end together, and the deadline that was moved stays.
    assert_eq!(bench.close(7, 100), "a l");
    assert_eq!(bench.run("GET l"), "scheduled +70001 owner:me");
    assert_eq!(bench.run("LOCK l you PX 9"), "OK scheduled>leased");
}

#[test]
fn what_is_put_in_its_place_from_elsewhere_is_not_bound() {
    let mut bench = Bench::new(false);
    tell(
        &mut bench,
        &[
            (0.0, "LOCK a me PX 5000", "OK missing>reserved"),
            (0.0, "LOCK b me PX 5000", "OK missing>reserved"),
        ],
    );
    bench.bind("a", 7);
    bench.bind("b", 7);
    let own = bench.fences["b".as_bytes()][0];
    let moment = |ms: u64| WallMs(START_MS + ms);
    for (id, fence) in [("a", own + 5), ("b", own + 6)] {
        bench.carry(&Effect::Restore(Snapshot {
            id: Bytes::of(id.as_bytes()),
            status: Bytes::of(b""),
            rev: own + 9,
            fp: None,
            life: SnapshotLife::Open {
                deadline: Some(moment(0)),
                payload: None,
                attempt: 1,
                error: None,
                phase: SnapshotPhase::Granted(SnapshotGrant {
                    kind: LeaseKind::Claim,
                    owner: Bytes::of(b"me"),
                    fence,
                    made: moment(0),
                    since: moment(0),
                    end: moment(9000),
                    cap: moment(9000),
                    holds: 1,
                    last_try: false,
                }),
            },
        }));
    }
    bench.compare();
    assert_eq!(bench.bound(), "");
    assert_eq!(bench.close(7, 100), "-");
    assert_eq!(bench.state(b"a"), State::Leased);
}

#[test]
fn bindings_are_no_part_of_what_is_saved_or_digested() {
    let mut bench = Bench::new(false);
    bench.run("SCHEDULE a PX 0");
    bench.run("CLAIM me PX 5000");
    bench.run("LOCK r me PX 5000");
    let before = (digest(&bench.queue), saved(&bench.queue));
    bench.bind("a", 7);
    bench.bind("r", 7);
    assert_eq!((digest(&bench.queue), saved(&bench.queue)), before);
    bench.compare();
    bench.run("reload");
    assert_eq!(bench.bound(), "");
    assert_eq!(bench.close(7, 100), "-");
    assert_eq!(bench.run("GET a"), "leased +0 #1 owner:me lease:5000");
    // A server that is no primary any more.
    bench.bind("a", 8);
    bench.queue.unbind_all();
    assert_eq!(bench.bound(), "");
    assert_eq!(bench.close(8, 100), "-");
    bench.queue.check_sessions();
}

#[test]
fn memory_of_bindings_is_counted_and_comes_back() {
    let mut bench = Bench::new(false);
    bench.compares = false;
    for n in 0..1000 {
        bench.run(&format!("LOCK {n:040} me PX 5000"));
    }
    let before = bench.queue.bytes();
    for n in 0..1000 {
        bench.bind(&format!("{n:040}"), n % 10);
    }
    let bound = bench.queue.bytes() - before;
    // The id with its two counts is 64 bytes, entries of 32 and 24 bytes name it.
    assert!((120_000..200_000).contains(&bound), "{bound}");
    for n in 0..1000 {
        bench.bind(&format!("{n:040}"), 77);
    }
    assert_eq!(bench.queue.bytes() - before, bound);
    assert_eq!(bench.queue.session_leases(), 1000);
    let mut released = BTreeSet::new();
    released.extend(bench.close(77, 64).split(' ').map(str::to_owned));
    assert_eq!(released.len(), 1000);
    let sessions = bench.queue.busy.sessions.made();
    assert_eq!(sessions.map(Sessions::bytes), Some(0));
}

#[test]
fn a_close_is_carried_out_in_parts() {
    for passes in [false, true] {
        let mut bench = Bench::new(passes);
        for n in 0..10 {
            bench.run(&format!("SCHEDULE {n} PX 0"));
        }
        // The first six are for a short time only.
        bench.run("CLAIM me COUNT 6 PX 50");
        bench.run("CLAIM me COUNT 4 PX 5000");
        for n in 0..10 {
            bench.bind(&n.to_string(), 7);
        }
        let now = bench.now();
        assert_eq!(bench.queue.closed(&now, 7, 4).len(), 4);
        assert_eq!(
            bench.queue.closed(&now, 7, 4).len(),
            4,
            "asking ends nothing"
        );
        assert_eq!(bench.queue.closed(&now, 7, 100).len(), 10);
        assert_eq!(bench.queue.closed(&now, 6, 100).len(), 0);
        bench.until(50.0);
        // No pass has run since those ended: they are unbound on the way, and what
        // comes behind them is not forgotten.
        let now = bench.now();
        assert_eq!(bench.queue.closed(&now, 7, 4).len(), 0);
        assert!(bench.queue.is_bound_to(7));
        assert_eq!(bench.queue.closed(&now, 7, 4).len(), 2);
        assert_eq!(bench.close(7, 3), "6 7 8 9");
        assert!(!bench.queue.is_bound_to(7));
        assert_eq!(bench.run("CLAIM you COUNT 100").split(' ').count(), 10);
    }
}

#[test]
fn records_that_a_compaction_moves_stay_bound() {
    let mut bench = Bench::new(false);
    bench.compares = false;
    for n in 0..3000 {
        bench.run(&format!("SCHEDULE {n} PX 0"));
    }
    while bench.run("CLAIM me COUNT 1000 PX 3600000") != "-" {}
    for n in 0..3000 {
        if n % 30 == 7 {
            bench.bind(&n.to_string(), n % 4);
        } else {
            bench.run(&format!("ACK {n} ${n} KEEP 0"));
        }
    }
    let (bound, state) = (bench.bound(), digest(&bench.queue));
    assert_eq!(bound.split(' ').count(), 100);
    let places = |bench: &Bench| -> Vec<u32> {
        let all = (0..3000).filter(|n| n % 30 == 7);
        all.map(|n: u32| bench.queue.store.find(n.to_string().as_bytes()).unwrap())
            .collect()
    };
    let before = places(&bench);
    assert!(bench.queue.is_sparse());
    while !bench.queue.compact(&mut || false) {
        assert_eq!(bench.bound(), bound);
    }
    assert_ne!(places(&bench), before, "records have moved");
    assert_eq!((bench.bound(), digest(&bench.queue)), (bound, state));
    bench.queue.check();
    let mut released = 0;
    for client in 0..4 {
        released += bench.close(client, 7).split(' ').count();
    }
    // Of 4 clients two have odd numbers.
    assert_eq!((released, bench.queue.session_leases()), (102, 0));
}

/// What a lease is in the naive reference: whose connection it ends with, and its fence.
type Reference = BTreeMap<&'static str, (u64, u64)>;

/// The orders of the random test.
const IDS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

/// A random command on an order, its lease bound or not.
fn some_command(dice: &mut Dice<'_>, id: &str, known: bool) -> String {
    let ms = dice.pick(&[0, 0, 1, 5, 40, 3000]);
    let lease_ms = dice.pick(&[1, 7, 60, 2000, 9000]);
    let owner = dice.pick(&["me", "you"]);
    let fence = if known {
        format!("${id}")
    } else {
        "4711".into()
    };
    match dice.below(24) {
        0..4 => format!("SCHEDULE {id} PX {ms}"),
        4 => format!("SCHEDULE {id} PX {ms} XX"),
        5 => format!("SCHEDULE {id} PX {ms} XX FENCE {fence}"),
        6..10 => format!("CLAIM {owner} ID {id} PX {lease_ms}"),
        10 => format!("CLAIM {owner} COUNT 3 PX {lease_ms}"),
        11..14 => format!("LOCK {id} {owner} PX {lease_ms} REENTRANT"),
        14 => format!("RENEW {id} {fence} PX {lease_ms}"),
        15 => format!("RENEW {id} {fence} PX {lease_ms} LT"),
        16 => format!("UNLOCK {id} {fence}"),
        17 => format!("ACK {id} {fence} KEEP {ms}"),
        18 => format!("NACK {id} {fence} DELAY {ms}"),
        19 => format!("NACK {id} {fence} UNTRIED DELAY {ms}"),
        20 => format!("BREAK {id}"),
        21 => format!("FINISH {id} KEEP {ms}"),
        22 => "forget".into(),
        _ => "PURGE STATE dead COUNT 3".into(),
    }
}

/// Forgets in the reference what is over, or another lease now.
fn forget_ended(bench: &Bench, reference: &mut Reference) {
    reference.retain(|id, (_, fence)| {
        let live = bench.view(id).filter(|view| view.lease_ms.is_some());
        live.is_some_and(|view| view.fence == *fence)
    });
}

/// A connection closes: what has to end does, and as it has to.
fn close_and_compare(bench: &mut Bench, reference: &mut Reference, client: u64, max: usize) {
    let kind = |view: &crate::engine::view::OrderView<'_>| (view.kind, view.deadline, view.attempt);
    let before: BTreeMap<&str, _> = reference
        .iter()
        .filter(|(_, (of, _))| *of == client)
        .map(|(id, (_, fence))| (*id, (*fence, kind(&bench.view(id).unwrap()))))
        .collect();
    let tries: BTreeMap<&str, bool> = before
        .keys()
        .map(|id| {
            let i = bench.queue.store.find(id.as_bytes()).unwrap();
            (*id, bench.queue.store.rows.grant(i).unwrap().is_last_try())
        })
        .collect();
    bench.advance();
    let lapsed = bench.stat("lapsed_total");
    let released = bench.close(client, max);
    let released: Vec<&str> = released.split(' ').filter(|id| *id != "-").collect();
    let unique: BTreeSet<&str> = released.iter().copied().collect();
    assert_eq!(unique.len(), released.len(), "none twice");
    assert_eq!(
        unique,
        before.keys().copied().collect(),
        "none forgotten, none else"
    );
    bench.advance();
    let lapsed = bench.stat("lapsed_total") - lapsed;
    assert_eq!(lapsed, unique.len() as i64, "each is one lapse");
    let now = bench.now();
    for (id, (fence, (kind, deadline, attempt))) in before {
        let wanted = match (kind, deadline) {
            (_, None) => State::Missing,
            (Some(LeaseKind::Claim), _) if tries[id] => State::Dead,
            (_, Some(deadline)) if deadline.is_due(&now) => State::Expired,
            _ => State::Scheduled,
        };
        assert_eq!(bench.state(id.as_bytes()), wanted, "{id}");
        if let Some(view) = bench.view(id) {
            assert_eq!((view.fence, view.attempt, view.holds), (fence, attempt, 0));
            assert_eq!((view.lease_ms, view.session), (None, 0));
        }
        reference.remove(id);
        // Whoever has it next has the next attempt.
        if wanted == State::Expired {
            let said = bench.run(&format!("CLAIM next ID {id} PX 3"));
            assert_eq!(said, format!("{id}#{}", attempt + 1));
        }
    }
}

#[test]
fn random_lives_end_with_their_connections_as_a_naive_reference_says() {
    let seed = from_environment("ORDER_TEST_SEED").unwrap_or(20_261_201);
    let steps = from_environment("ORDER_TEST_STEPS").unwrap_or(12_000);
    let mut dice = Dice::Seeded(seed);
    let mut bench = Bench::new(false);
    bench.run("CONFIG SET max-attempts 3");
    let mut reference = Reference::new();
    let (mut at, mut closes) = (0.0, 0);
    for step in 0..steps {
        at += dice.pick(&[0.0, 0.0, 0.3, 1.0, 4.0, 70.0]);
        bench.until(at);
        bench.passes = dice.chance(300);
        let told = format!("seed {seed}, step {step}");
        forget_ended(&bench, &mut reference);
        if dice.chance(60) {
            let (client, max) = (1 + dice.below(4), dice.pick(&[1, 2, 100]));
            closes += reference.values().filter(|(of, _)| *of == client).count();
            close_and_compare(&mut bench, &mut reference, client, max);
        } else {
            let id = dice.pick(&IDS);
            let known = bench.fences.contains_key(id.as_bytes());
            let line = some_command(&mut dice, id, known);
            let said = bench.run(&line);
            let granted: Vec<&'static str> = match line.split(' ').next() {
                Some("CLAIM") => IDS
                    .into_iter()
                    .filter(|id| {
                        said.split(' ')
                            .any(|row| row.starts_with(&format!("{id}#")))
                    })
                    .collect(),
                Some("LOCK" | "RENEW") if said.starts_with("OK") || said.starts_with("HELD") => {
                    vec![id]
                }
                _ => Vec::new(),
            };
            let client = dice.below(5);
            for id in granted.into_iter().filter(|_| client > 0) {
                bench.bind(id, client);
                if let Some(view) = bench.view(id).filter(|view| view.lease_ms.is_some()) {
                    reference.insert(id, (client, view.fence));
                }
            }
        }
        bench.queue.check_sessions();
        forget_ended(&bench, &mut reference);
        for id in IDS {
            let shown = bench.view(id).map_or(0, |view| view.session);
            let wanted = reference.get(id).map_or(0, |(client, _)| *client);
            assert_eq!(shown, wanted, "{id}, {told}");
        }
    }
    assert!(closes as u64 > steps / 100, "{closes} leases were released");
}
