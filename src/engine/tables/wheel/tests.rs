//! Tests of `wheel`.

use std::collections::BTreeMap;

use super::*;
use crate::engine::tables::wheel::node::{LEVELS, base_of};
use crate::testing::Run;

/// Links and time of each record.
#[derive(Default)]
struct Records(Vec<(u32, u32, u64)>);

impl Links for Records {
    fn prev(&self, i: u32) -> u32 {
        self.0[i as usize].0
    }
    fn next(&self, i: u32) -> u32 {
        self.0[i as usize].1
    }
}
impl Linked for Records {
    fn set_prev(&mut self, i: u32, prev: u32) {
        self.0[i as usize].0 = prev;
    }
    fn set_next(&mut self, i: u32, next: u32) {
        self.0[i as usize].1 = next;
    }
}

impl Filed for Records {
    fn filed(&self, i: u32) -> u64 {
        self.0[i as usize].2
    }
}

impl Records {
    /// Adds a record of this time and files it.
    fn add(&mut self, wheel: &mut Wheel, time: u64) -> u32 {
        self.0.push((NIL, NIL, time));
        let i = self.0.len() as u32 - 1;
        wheel.insert(self, i);
        i
    }

    /// Everything in the wheel, in order.
    fn in_order(&self, wheel: &Wheel) -> Vec<u32> {
        let mut all = Vec::new();
        wheel.for_each_in_order(self, &mut |i| {
            all.push(i);
            true
        });
        all
    }

    /// What is due, taken out in steps of at most `max`.
    fn take_all(&mut self, wheel: &mut Wheel, until: u64, max: usize) -> Vec<u32> {
        let mut taken = Vec::new();
        loop {
            let before = taken.len();
            wheel.take_due(self, until, max, &mut taken);
            assert!(taken.len() - before <= max);
            if taken.len() == before {
                return taken;
            }
            wheel.check(self);
        }
    }
}

/// A time today.
const TODAY: u64 = 1_795_958_000_123;

#[test]
fn level_and_slot_of_each_time_around_each_power_of_two() {
    for bit in 0..48_u32 {
        let power = 1_u64 << bit;
        assert_eq!(level_of(power), bit / 6);
        for time in power.saturating_sub(70)..=(power + 70).min(TIME_MAX) {
            // The digits are the number in base 64.
            let mut rest = time;
            for level in 0..LEVELS {
                assert_eq!(
                    u64::from(digit(time, level)),
                    rest % 64,
                    "{time} level {level}"
                );
                rest /= 64;
                let width = 64_u64.pow(level + 1);
                assert_eq!(base_of(time, level), time / width * width);
            }
            assert_eq!(rest, 0);
            // The level that tells it from its neighbours is the highest digit that differs.
            for other in [
                time ^ 1,
                time ^ power,
                time.wrapping_sub(1) & TIME_MAX,
                (time + 1) & TIME_MAX,
            ] {
                let highest = (0..LEVELS)
                    .rev()
                    .find(|level| digit(time, *level) != digit(other, *level));
                assert_eq!(
                    level_of(time ^ other),
                    highest.unwrap_or(0),
                    "{time} {other}"
                );
            }
        }
    }
    assert_eq!(
        (level_of(0), level_of(TIME_MAX), base_of(TIME_MAX, 7)),
        (0, 7, 0)
    );
}

#[test]
fn two_hundred_and_fifty_six_records_are_one_list() {
    let mut wheel = Wheel::new();
    let mut records = Records::default();
    for number in 0..256 {
        records.add(&mut wheel, TODAY + number * 1_000_003 % 3_600_000);
    }
    assert_eq!(
        (wheel.bytes(), wheel.len(), wheel.node_count()),
        (0, 256, 0)
    );
    records.add(&mut wheel, TODAY);
    assert_eq!(wheel.node_count(), 1);
    wheel.check(&records);
    assert_eq!(size_of::<Node>(), 792);
    // Fewer than 64 are one list again.
    for i in 0..194 {
        assert_eq!(wheel.node_count(), 1);
        assert!(wheel.remove(&mut records, i));
        wheel.check(&records);
    }
    assert_eq!((wheel.bytes(), wheel.len()), (0, 63));
}

#[test]
fn deadlines_within_an_hour_are_few_levels_deep() {
    let mut wheel = Wheel::new();
    let mut records = Records::default();
    for number in 0..100_000_u64 {
        records.add(&mut wheel, TODAY + number * 7_919_117 % 3_600_000);
    }
    wheel.check(&records);
    let depth_max = (0..100_000)
        .map(|i| wheel.path_to(records.filed(i)).unwrap().len)
        .max();
    assert!(depth_max <= Some(4), "{depth_max:?}");
    assert!(wheel.bytes() < 100_000 * 12, "{} bytes", wheel.bytes());
}

#[test]
fn a_split_goes_to_the_level_that_tells_the_records_apart() {
    // Row: 256 times from a pattern, one more, the level of the first node, nodes.
    let same: fn(u64) -> u64 = |_| TODAY;
    let minute: fn(u64) -> u64 = |number| 64 * 1024 + number * 200;
    for (time, more, level, nodes) in [
        (same, TODAY, 0, 1),
        (same, TODAY ^ 1, 0, 1),
        (same, TODAY ^ 64, 1, 1),
        (same, 0, 6, 1),
        (same, TIME_MAX, 7, 1),
        (minute, 64 * 1024, 2, 1),
        (minute, TIME_MAX, 7, 1),
    ] {
        let mut wheel = Wheel::new();
        let mut records = Records::default();
        for number in 0..256 {
            records.add(&mut wheel, time(number));
        }
        records.add(&mut wheel, more);
        wheel.check(&records);
        let root = wheel.node(wheel.root.node().unwrap()).unwrap();
        assert_eq!((root.level(), wheel.node_count()), (level, nodes), "{more}");
    }
}

#[test]
fn a_time_outside_of_a_node_gets_a_node_above() {
    let mut wheel = Wheel::new();
    let mut records = Records::default();
    for number in 0..300 {
        records.add(&mut wheel, TODAY + number % 40);
    }
    let inner = wheel.root.node().unwrap();
    // Further and further away, on both sides.
    for far in [
        TODAY + 100,
        TODAY + 100_000,
        TODAY - 100_000_000,
        5,
        TIME_MAX,
        u64::MAX,
    ] {
        records.add(&mut wheel, far);
        wheel.check(&records);
    }
    assert_ne!(wheel.root.node(), Some(inner));
    let order = records.in_order(&wheel);
    assert_eq!(
        (order[0], order[1], order[304], order[305]),
        (303, 302, 304, 305)
    );
    assert_eq!(wheel.first_time(&records), Some(5));
    assert_eq!(wheel.count_until(&records, u64::MAX), 306);
    assert_eq!(wheel.count_until(&records, TIME_MAX - 1), 304);
}

#[test]
fn equal_times_keep_their_order_through_splits_and_merges() {
    let mut wheel = Wheel::new();
    let mut records = Records::default();
    // Three times, interleaved, far more than a list holds, then one far away.
    for number in 0..1500 {
        records.add(&mut wheel, TODAY + (number + 2) % 3 * 5000);
    }
    records.add(&mut wheel, 7);
    wheel.check(&records);
    for i in (0..1500).filter(|i| i % 50 > 1) {
        assert!(wheel.remove(&mut records, i));
    }
    wheel.check(&records);
    let mut expected: Vec<u32> = (0..1500).filter(|i| i % 50 <= 1).collect();
    expected.sort_by_key(|i| records.filed(*i));
    expected.insert(0, 1500);
    assert_eq!(records.in_order(&wheel), expected);
    assert_eq!(records.take_all(&mut wheel, u64::MAX, 7), expected);
    assert_eq!((wheel.len(), wheel.node_count()), (0, 0));
}

#[test]
fn many_of_one_millisecond_are_taken_in_order_in_small_steps() {
    let mut wheel = Wheel::new();
    let mut records = Records::default();
    for _ in 0..100_000 {
        records.add(&mut wheel, TODAY);
    }
    assert_eq!(wheel.node_count(), 1);
    let mut out = Vec::new();
    wheel.take_due(&mut records, TODAY - 1, 1000, &mut out);
    wheel.take_due(&mut records, TODAY, 0, &mut out);
    assert!(out.is_empty());
    while !wheel.is_empty() {
        let before = out.len();
        wheel.take_due(&mut records, TODAY, 1000, &mut out);
        assert!((1..=1000).contains(&(out.len() - before)));
    }
    assert!(out.into_iter().eq(0..100_000));
}

#[test]
fn nothing_is_taken_before_its_time() {
    for count in [1, 200, 300, 5000] {
        let mut wheel = Wheel::new();
        let mut records = Records::default();
        for number in 0..count {
            records.add(&mut wheel, TODAY + number * 31 % 500);
        }
        for until in TODAY - 2..TODAY + 502 {
            let first = wheel.first_time(&records);
            let taken = records.take_all(&mut wheel, until, 3);
            assert!(taken.iter().all(|i| records.filed(*i) == until));
            assert_eq!(first == Some(until), !taken.is_empty(), "{count} {until}");
        }
        assert!(wheel.is_empty());
    }
}

#[test]
fn a_record_that_is_not_there_is_refused() {
    let mut wheel = Wheel::new();
    let mut records = Records::default();
    records.0.push((NIL, NIL, TODAY));
    assert!(!wheel.remove(&mut records, 0));
    for number in 0..300 {
        records.add(&mut wheel, TODAY + number);
    }
    assert!(!wheel.remove(&mut records, 0));
    records.0[0].2 = 3;
    assert!(!wheel.remove(&mut records, 0), "outside of every node");
    wheel.check(&records);
    wheel = Wheel::new();
    assert_eq!(
        (wheel.len(), wheel.bytes(), wheel.first_time(&records)),
        (0, 0, None)
    );
    let mut out = Vec::new();
    wheel.take_due(&mut records, u64::MAX, 10, &mut out);
    wheel.first_n(&records, 0, 10, &mut out);
    assert!(out.is_empty());
    assert_eq!(wheel.count_until(&records, u64::MAX), 0);
}

#[test]
fn random_operations_against_a_sorted_map() {
    let mut run = Run::new();
    let mut wheel = Wheel::new();
    let mut records = Records::default();
    // Time and arrival to record.
    let mut model: BTreeMap<(u64, u64), u32> = BTreeMap::new();
    // Record to its key in the model.
    let mut keys: Vec<Option<(u64, u64)>> = Vec::new();
    let mut free: Vec<u32> = Vec::new();
    let mut present: Vec<u32> = Vec::new();
    let (mut target, mut spread, mut center) = (0, 1, TODAY);
    let (mut deepest, mut taken_at_bottom) = (0, 0);
    while run.step < run.steps {
        run.step += 1;
        if run.step % 3000 == 1 {
            target = [0, 100, 300, 1500, 6000][run.random.below(5) as usize];
            spread = [1, 3, 50, 5000, 900_000, 86_400_000, 1 << 40, u64::MAX]
                [run.random.below(8) as usize];
            center = [
                TODAY,
                TODAY,
                0,
                TIME_MAX - 40,
                (1 << 42) - 40,
                run.random.below(TIME_MAX),
            ][run.random.below(6) as usize];
        }
        let some_time = center.saturating_add(run.random.below(spread));
        let roll = run.random.below(100);
        if roll < if present.len() < target { 70 } else { 20 } {
            let i = free.pop().unwrap_or_else(|| {
                records.0.push((NIL, NIL, 0));
                keys.push(None);
                records.0.len() as u32 - 1
            });
            records.0[i as usize] = (77, 77, some_time);
            wheel.insert(&mut records, i);
            let key = (some_time.min(TIME_MAX), run.step);
            keys[i as usize] = Some(key);
            model.insert(key, i);
            present.push(i);
        } else if roll < 85 && !present.is_empty() {
            let at = run.random.below(present.len() as u64) as usize;
            let i = present.swap_remove(at);
            assert!(wheel.remove(&mut records, i));
            model.remove(&keys[i as usize].take().unwrap());
            free.push(i);
        } else if roll < 90 {
            // The next few that are due at a moment near the first.
            let until = wheel.first_time(&records).map_or(some_time, |first| {
                [
                    first.saturating_sub(1),
                    first,
                    first + run.random.below(spread.min(100_000)),
                    some_time,
                ][run.random.below(4) as usize]
            });
            // Mostly few, else small spreads never fill up.
            let max = [0, 1, 1, 2, 2, 5, 5, 20, 400][run.random.below(9) as usize];
            let mut out = Vec::new();
            let at_bottom = wheel.path_to_first().at_bottom;
            wheel.take_due(&mut records, until, max, &mut out);
            taken_at_bottom += u64::from(at_bottom && !out.is_empty());
            let due = model.range(..(until.saturating_add(1), 0));
            let expected: Vec<u32> = due.map(|(_, i)| *i).take(out.len()).collect();
            assert_eq!(out, expected);
            assert!(out.len() <= max);
            if out.is_empty() && max > 0 {
                assert!(
                    model.range(..(until.saturating_add(1), 0)).next().is_none(),
                    "something is due"
                );
            }
            for i in out {
                model.remove(&keys[i as usize].take().unwrap());
                free.push(i);
            }
            present.retain(|i| keys[*i as usize].is_some());
        }
        assert_eq!(wheel.len(), model.len());
        if run.step.is_multiple_of(7) {
            assert_eq!(
                wheel.first_time(&records),
                model.keys().next().map(|key| key.0)
            );
            let near = run.random.below(present.len().max(1) as u64) as usize;
            let near = present.get(near).map_or(0, |i| records.filed(*i));
            let far = 1 << run.random.below(48);
            let moment = [
                near,
                near,
                near.saturating_add(far),
                near.saturating_sub(far),
                some_time,
            ][run.random.below(5) as usize]
                .saturating_sub(run.random.below(3));
            deepest = deepest.max(wheel.path_to_first().len);
            if run.step.is_multiple_of(21) {
                let until = model.range(..(moment.saturating_add(1), 0)).count();
                assert_eq!(wheel.count_until(&records, moment), until);
            }
            let count = run.random.below(300) as usize;
            let mut out = vec![NIL];
            wheel.first_n(&records, moment, count, &mut out);
            let expected = model
                .range((moment.saturating_add(1), 0)..)
                .map(|(_, i)| *i)
                .take(count);
            assert!(
                out.into_iter().eq(std::iter::once(NIL).chain(expected)),
                "after {moment}"
            );
        }
        if run.step.is_multiple_of(499) {
            wheel.check(&records);
            assert!(
                records
                    .in_order(&wheel)
                    .into_iter()
                    .eq(model.values().copied())
            );
            let mut seen = 0;
            wheel.for_each_in_order(&records, &mut |_| {
                seen += 1;
                seen < 10
            });
            assert_eq!(seen, model.len().min(10));
        }
    }
    // The run has been to the places that matter.
    if run.steps >= 200_000 {
        assert!(
            deepest > 2 && taken_at_bottom > 100,
            "{deepest} {taken_at_bottom}"
        );
    }
}
