//! Tests of the engine: a refused effect.

use super::*;

/// The effect of a decision that was refused (a server with too few replicas) is
/// decided again and again: what is to be said with it stays to be said, and it is
/// said once.
#[test]
fn what_is_said_with_an_effect_is_said_when_it_is_carried_out() {
    for (lines, effect_on) in [
        (
            &["SCHEDULE a PX 1000", "LOCK a me PX 10"][..],
            "LOCK a you PX 10",
        ),
        (&["LOCK a me PX 10"][..], "LOCK a you PX 10"),
    ] {
        let mut bench = Bench::new(true);
        for line in lines {
            bench.run(line);
        }
        bench.until(20.0);
        bench.advance();
        let now = bench.now();
        let ask = crate::request::Lock {
            id: b"a",
            owner: b"you",
            lease_ms: 10,
            reentrant: false,
            max_ms: None,
            fp: None,
            block_ms: None,
            session: false,
            must_exist: false,
        };
        for _ in 0..100 {
            let defaults = bench.defaults.clone();
            let mut numbers = bench.numbers;
            let mut env = Env {
                now,
                numbers: &mut numbers,
                defaults: &defaults,
            };
            let decision = bench.queue.decide_lock(&mut env, &ask, false).unwrap();
            let effect = decision.effect.unwrap();
            let said = bench.queue.lapses_before(&now, &effect);
            assert_eq!(Bench::announcements(&said), "lapsed:a", "{lines:?}");
        }
        assert_eq!(bench.run(effect_on).split(' ').next(), Some("OK"));
        assert_eq!(bench.run("pass"), "-", "{lines:?}: said once");
    }
    // Nothing is said, and nothing lost, in a pause.
    let mut bench = Bench::new(true);
    bench.run("SCHEDULE a PX 1000");
    bench.run("LOCK a me PX 10");
    bench.until(20.0);
    bench.run("PAUSE");
    assert_eq!(bench.run("LOCK a you PX 500"), "OK scheduled>leased");
    assert_eq!(bench.run("pass"), "-");
    bench.run("RESUME");
    assert_eq!(bench.run("pass"), "lapsed:a");
}

/// As many locks have lapsed as are noted, and nothing was announced: each that is
/// forgotten is said once, the others in their turn.
#[test]
fn a_batch_is_forgotten_among_many_lapses() {
    let mut bench = Bench::new(false);
    bench.compares = false;
    let ids: Vec<String> = (0..600).map(|n| format!("o{n}")).collect();
    for id in &ids {
        bench.run(&format!("SCHEDULE {id} PX 60000"));
        bench.run(&format!("LOCK {id} me PX 10"));
    }
    bench.run("LOCK reserved me PX 10");
    bench.until(20.0);
    bench.advance();
    let mut said = BTreeSet::new();
    let mut batch: Vec<Bytes<'_>> = ids
        .iter()
        .step_by(3)
        .map(|id| Bytes::of(id.as_bytes()))
        .collect();
    batch.push(Bytes::of(b"reserved"));
    let effect = Effect::Forget { ids: batch };
    for one in bench.queue.lapses_before(&bench.now(), &effect) {
        assert!(said.insert(one.id));
    }
    assert_eq!(said.len(), 201);
    bench.carry(&effect);
    assert!(bench.queue.lapses_before(&bench.now(), &effect).is_empty());
    let mut list = Vec::new();
    let now = bench.now();
    bench.queue.announce(&now, usize::MAX, &mut list);
    for one in list {
        assert!(said.insert(one.id), "said twice");
    }
    assert_eq!(said.len(), 601);
}
