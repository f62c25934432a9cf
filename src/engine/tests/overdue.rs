//! What is overdue, and the counts that are read without a clock.

use super::*;
use crate::engine::times::{ByBounds, Timing};
use crate::engine::{Duty, Gauges, StatValue};
use crate::testing::Run;

/// The orders of a life.
const IDS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// The counts after taking stock.
fn gauges(bench: &mut Bench) -> Gauges {
    let now = bench.now();
    bench.queue.take_stock(&now);
    bench.queue.settle_gauges();
    bench.queue.gauges()
}

/// A time of STATS in milliseconds.
fn real(bench: &Bench, name: &str) -> f64 {
    let stats = bench.queue.stats(&bench.now(), &bench.defaults, (0, 0));
    match stats.iter().find(|(field, _)| *field == name) {
        Some((_, StatValue::Real(value))) => *value,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn overdue_is_whose_deadline_has_passed_in_whatever_state() {
    for passes in [false, true] {
        let mut bench = Bench::new(passes);
        let overdue = |bench: &mut Bench, ms: f64, lines: &[&str], expected: i64, oldest: i64| {
            bench.until(ms);
            for line in lines {
                bench.run(line);
            }
            bench.advance();
            let said = (bench.stat("overdue"), bench.stat("oldest_overdue_ms"));
            assert_eq!(said.0, expected, "at {ms}: {lines:?}");
            assert!(
                (oldest - 999..=oldest).contains(&said.1),
                "at {ms}: {said:?} of {oldest}"
            );
            let all = gauges(bench);
            assert_eq!(all.overdue as i64, expected, "at {ms}: {lines:?}");
            let since = all.oldest_overdue.map_or(0, |at| {
                (bench.now().wall_ms().0 as i64 - at.0 as i64).max(0)
            });
            assert!(
                (oldest - 999..=oldest).contains(&since),
                "at {ms}: {since} of {oldest}"
            );
        };
        overdue(
            &mut bench,
            0.0,
            &["SCHEDULE a PX 1500", "SCHEDULE b PX 1700"],
            0,
            0,
        );
        // A reservation is no order, and a lock before its deadline is in time.
        overdue(
            &mut bench,
            1.0,
            &["LOCK r shop PX 9000", "LOCK b shop PX 4000"],
            0,
            0,
        );
        overdue(&mut bench, 1499.999, &[], 0, 0);
        overdue(&mut bench, 1500.0, &[], 1, 0);
        // A live lock past its deadline.
        overdue(&mut bench, 1700.0, &[], 2, 200);
        overdue(&mut bench, 1800.0, &["pass", "CLAIM me PX 5000"], 2, 300);
        overdue(&mut bench, 1900.0, &["NACK a $a DELAY 60000"], 2, 400);
        overdue(
            &mut bench,
            2000.0,
            &["SCHEDULE c PX 0", "CLAIM me", "NACK c $c DEAD"],
            3,
            500,
        );
        overdue(&mut bench, 9000.0, &["FINISH a"], 2, 7300);
        overdue(&mut bench, 9000.0, &["SCHEDULE b PX 500 XX"], 1, 7000);
        overdue(&mut bench, 9100.0, &["PURGE STATE dead"], 0, 0);
        overdue(&mut bench, 9499.0, &["wall -1000"], 0, 0);
        overdue(&mut bench, 10500.0, &[], 1, 0);
        overdue(&mut bench, 10500.0, &["wall -400"], 0, 0);
        overdue(&mut bench, 10900.0, &["reload"], 1, 0);
    }
}

#[test]
fn only_what_comes_after_its_deadline_is_timed_from_there() {
    let mut bench = Bench::new(false);
    for id in ["a", "b", "c"] {
        bench.run(&format!("SCHEDULE {id} PX 1000"));
    }
    bench.until(999.0);
    bench.run("FINISH a");
    assert!(real(&bench, "overdue_close_ms_max").abs() < 1e-9);
    bench.until(1250.5);
    bench.run("CLAIM me");
    bench.run("ACK b $b");
    assert!((real(&bench, "overdue_close_ms_max") - 250.5).abs() < 1e-9);
    let p50 = real(&bench, "overdue_close_ms_p50");
    assert!(p50 > 250.0, "what came before is not counted: {p50}");
    bench.until(5000.0);
    bench.run("FINISH c");
    bench.run("FINISH c");
    assert!((real(&bench, "overdue_close_ms_max") - 4000.0).abs() < 1e-9);
    let p50 = real(&bench, "overdue_close_ms_p50");
    assert!((250.5..=314.0).contains(&p50), "{p50}");
    // What comes back from disk is not timed again.
    bench.run("reload");
    assert!(real(&bench, "overdue_close_ms_max").abs() < 1e-9);
}

#[test]
fn a_time_is_of_the_last_minute_for_a_minute_and_seventy_seconds_at_most() {
    let mut bench = Bench::new(false);
    bench.compares = false;
    for id in ["a", "b"] {
        bench.run(&format!("SCHEDULE {id} PX 0"));
    }
    let slice_ms = 10_000.0 - (START_MONO_MS % 10_000) as f64;
    // At the end of a slice.
    bench.until(slice_ms - 1.0);
    bench.run("CLAIM me PX 600000");
    bench.until(slice_ms);
    bench.run("ACK a $a");
    bench.until(slice_ms + 30_000.0);
    bench.run("CLAIM me ID b PX 600000");
    bench.run("ACK b $b");
    let both = |bench: &Bench, name: &str| (real(bench, name), real(bench, &format!("{name}_1m")));
    assert_eq!(both(&bench, "close_ms_max"), (1.0, 1.0));
    bench.until(slice_ms + 59_999.0);
    assert!(
        real(&bench, "claim_wait_ms_p50_1m") > 0.0,
        "a minute it counts"
    );
    bench.until(slice_ms + 60_000.0);
    let waits = both(&bench, "claim_wait_ms_p50");
    assert!(
        waits.0 < 10_000.0 && waits.1 > 30_000.0,
        "the first has gone: {waits:?}"
    );
    assert_eq!(both(&bench, "close_ms_max"), (1.0, 1.0));
    bench.until(slice_ms + 70_000.0);
    assert_eq!(both(&bench, "close_ms_max"), (1.0, 0.0));
    // Its memory is given back when nothing counts any more, and somebody asks for that.
    let now = bench.now();
    let wake = bench.queue.stock_wake(&now, Duty::All).unwrap();
    assert_eq!(Bench::at(wake), format!("+{}", slice_ms + 100_000.0));
    let before = bench.queue.bytes();
    bench.until(slice_ms + 100_000.0);
    gauges(&mut bench);
    assert!(bench.queue.bytes() < before);
    assert_eq!(bench.queue.stock_wake(&bench.now(), Duty::All), None);
}

#[test]
fn a_reset_takes_all_times_and_only_those_before_it() {
    let mut bench = Bench::new(false);
    let close = |bench: &mut Bench, id: &str| {
        bench.run(&format!("SCHEDULE {id} PX 0"));
        bench.run("CLAIM me");
        let until = bench.now().mono_us as f64 / 1000.0 - START_MONO_MS as f64;
        bench.until(until + 5.0);
        bench.run(&format!("ACK {id} ${id}"));
    };
    bench.queue.reset_times(7);
    close(&mut bench, "a");
    bench.queue.note_resets(7);
    bench.queue.reset_times(7);
    assert!(
        (real(&bench, "close_ms_max") - 5.0).abs() < 1e-9,
        "the first are none before"
    );
    bench.queue.reset_times(8);
    for name in [
        "close_ms_max",
        "close_ms_p50_1m",
        "overdue_close_ms_p99",
        "claim_wait_ms_max_1m",
    ] {
        assert!(real(&bench, name).abs() < 1e-9, "{name}");
    }
    assert_eq!(bench.stat("acked_total"), 1, "totals stay");
    close(&mut bench, "b");
    bench.queue.note_resets(8);
    bench.queue.reset_times(8);
    assert!((real(&bench, "close_ms_max_1m") - 5.0).abs() < 1e-9);
}

#[test]
fn times_are_given_out_once_and_none_of_what_comes_from_disk() {
    let mut bench = Bench::new(false);
    bench.run("SCHEDULE a PX 0");
    let now = bench.now();
    assert!(bench.queue.take_times().is_empty());
    bench.queue.note_lock_wait(&now, 5);
    bench.queue.note_late(&now, &[6, 7]);
    let taken: Vec<u64> = bench
        .queue
        .take_times()
        .iter()
        .map(|taken| taken.us)
        .collect();
    assert_eq!(taken, [5, 6, 7]);
    assert!(bench.queue.take_times().is_empty());
    bench.run("CLAIM me");
    bench.run("reload");
    assert!(bench.queue.take_times().is_empty());
}

#[test]
fn times_that_are_given_out_together_count_each_by_its_bound() {
    let mut bench = Bench::new(false);
    bench.run("SCHEDULE a PX 0");
    let now = bench.now();
    // 990 and 1010 us share a bucket of percentiles, but 1 ms lies between them.
    bench.queue.note_late(&now, &[990, 1010, 980, 1020, 1000]);
    bench.queue.note_lock_wait(&now, 7_000_000);
    let taken = bench.queue.take_times();
    assert_eq!(taken.len(), 3, "{taken:?}");
    let mut counts = ByBounds::NONE;
    for one in &taken {
        counts.record(one);
    }
    for (timing, buckets) in counts.each() {
        let not_above = |bound: &str| {
            let mut all = buckets.cumulative();
            all.find(|(name, _)| *name == bound).unwrap().1
        };
        let said = ["le_0.5", "le_1", "le_2.5", "le_5000", "le_10000", "le_inf"].map(not_above);
        let (expected, sum) = match timing {
            Timing::Lateness => ([0, 3, 5, 5, 5, 5], 5_000),
            Timing::LockWait => ([0, 0, 0, 0, 1, 1], 7_000_000),
            _ => ([0; 6], 0),
        };
        assert_eq!((said, buckets.sum_us()), (expected, sum), "{timing:?}");
    }
    counts.clear();
    assert!(counts.each().all(|(_, buckets)| buckets.sum_us() == 0));
}

#[test]
fn an_order_that_waits_costs_nothing_and_stock_is_taken_when_it_falls_due() {
    let mut bench = Bench::new(false);
    bench.run("SCHEDULE a PX 1000");
    let bytes = bench.queue.bytes();
    assert_eq!(gauges(&mut bench).states, [1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bench.queue.bytes(), bytes);
    // A pass comes for the deadline itself, but on a replica or during a pause.
    let now = bench.now();
    assert_eq!(bench.queue.stock_wake(&now, Duty::All), None);
    let wake = bench.queue.stock_wake(&now, Duty::Advance).unwrap();
    assert_eq!(Bench::at(wake), "+1500");
    bench.run("PAUSE");
    assert_eq!(bench.queue.stock_wake(&now, Duty::All), Some(wake));
    bench.run("RESUME");
    // A lock that goes past its deadline tells nobody either.
    bench.run("LOCK a shop PX 5000");
    assert_eq!(bench.queue.stock_wake(&now, Duty::All), Some(wake));
    assert!(bench.queue.take_hint() <= wake.0);
    bench.run("UNLOCK a $a");
    bench.until(1000.0);
    assert_eq!(
        bench.queue.gauges().states,
        [1, 0, 0, 0, 0, 0, 0],
        "time changes nothing"
    );
    let all = gauges(&mut bench);
    assert_eq!((all.states, all.overdue), ([0, 1, 0, 0, 0, 0, 0], 1));
    bench.run("FINISH a KEEP 100");
    bench.queue.settle_gauges();
    let all = bench.queue.gauges();
    assert_eq!((all.states, all.overdue), ([0, 0, 0, 0, 0, 1, 0], 0));
    assert_eq!((all.oldest_expired, all.oldest_overdue), (None, None));
    bench.until(1100.0);
    assert_eq!(gauges(&mut bench).states, [0; 7], "it reads as missing");
    bench.run("forget");
    assert_eq!(bench.queue.gauges().states, [0; 7]);
}

/// Random lives of six orders.
struct Lives {
    /// The queue.
    bench: Bench,
    /// The numbers.
    run: Run,
    /// The clock was set back in this life.
    stepped: bool,
}

impl Lives {
    /// One of these.
    fn pick<'p>(&mut self, of: &[&'p str]) -> &'p str {
        of[self.run.random.below(of.len() as u64) as usize]
    }

    /// One step, by any way in or out.
    fn step(&mut self) {
        let ms = (self.bench.mono_us / 1000 - START_MONO_MS + self.run.random.below(400)) as f64;
        self.bench.until(ms);
        let id = self.pick(&IDS);
        let view = self.bench.view(id);
        let fence = view.map_or(1, |view| view.fence.max(1));
        let px = ["0", "3", "400", "1500", "4000"][self.run.random.below(5) as usize];
        let ago = self.run.random.below(3_000);
        let at = self.bench.wall_us / 1000 - ago;
        let line = match self.run.random.below(24) {
            0..=3 => format!("SCHEDULE {id} PX {px} UPSERT"),
            4 => format!("SCHEDULE {id} PXAT {at} UPSERT"),
            5..=7 => format!("CLAIM me COUNT 3 PX {}", 1 + ago),
            8 => format!("CLAIM me ID {id} PX {}", 1 + ago),
            9 => format!("NACK {id} {fence} DELAY {px}"),
            10 => format!("NACK {id} {fence} DEAD"),
            11 => format!("ACK {id} {fence}"),
            12 => format!("FINISH {id} KEEP {px}"),
            13 | 14 => format!("LOCK {id} shop PX {}", 1 + ago),
            15 => format!("UNLOCK {id} {fence}"),
            16 => format!("RENEW {id} {fence} PX {}", 1 + ago),
            17 => format!(
                "PURGE STATE {}",
                self.pick(&["dead", "expired", "finished", "scheduled"])
            ),
            18 => "REQUEUE COUNT 2".into(),
            19 => "forget".into(),
            20 => format!("pass {}", self.run.random.below(3)),
            21 if ago < 600 => "reload".into(),
            22 if ago < 300 => format!("wall +{}", 7 * ago),
            22 if ago < 600 => {
                self.stepped = true;
                format!("wall -{ago}")
            }
            _ => {
                if ago < 1_000 {
                    self.bench.queue.compact_all(&mut || true);
                }
                return;
            }
        };
        let said = self.bench.run(&line);
        assert!(!said.starts_with("ERR"), "{line}: {said}");
    }

    /// What STATS says is what GET of each order comes to.
    fn agrees(&mut self) {
        self.bench.advance();
        let now = self.bench.now();
        let views = IDS.iter().filter_map(|id| self.bench.view(id));
        let mut deadlines: Vec<u64> = views
            .filter_map(|view| view.deadline)
            .map(|at| at.0)
            .collect();
        deadlines.sort_unstable();
        let wall = now.wall_ms().0;
        let until = |at: u64| deadlines.iter().filter(|deadline| **deadline <= at).count() as u64;
        // After a step back, what was over of this second is known as a whole.
        let (least, most) = if self.stepped {
            (
                until(wall / 1000 * 1000 - 1),
                until(wall / 1000 * 1000 + 999),
            )
        } else {
            (until(wall), until(wall))
        };
        let overdue = self.bench.stat("overdue") as u64;
        assert!(
            (least..=most).contains(&overdue),
            "{overdue}, not {least} to {most}"
        );
        let oldest = self.bench.stat("oldest_overdue_ms") as u64;
        let age = deadlines
            .first()
            .map_or(0, |first| wall.saturating_sub(*first));
        assert!(
            (age.saturating_sub(999)..=age).contains(&oldest),
            "{oldest} of {age}"
        );
        let all = gauges(&mut self.bench);
        assert_eq!(all.overdue, overdue);
        let states = State::LISTED.map(|state| self.bench.queue.count(&now, state));
        assert_eq!(all.states, states);
        self.bench.queue.check();
    }
}

#[test]
fn overdue_agrees_with_every_order_over_ten_thousands_of_lives() {
    let mut lives = Lives {
        bench: Bench::new(false),
        run: Run::new(),
        stepped: false,
    };
    for life in 0..20_000 {
        lives.bench = Bench::new(false);
        lives.bench.compares = false;
        lives.stepped = false;
        for _ in 0..12 {
            lives.run.step = life;
            lives.step();
        }
        lives.agrees();
        lives.bench.queue.check();
        lives.step();
        lives.agrees();
    }
}
