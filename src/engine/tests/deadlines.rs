//! Tests of the engine: deadlines.

use super::*;

#[test]
fn nothing_is_handed_out_before_its_deadline_and_everything_at_it() {
    story(&[
        (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (99.999, "CLAIM me", "-"),
        (99.999, "CLAIM me ID a", "-"),
        (99.999, "claimable", "false"),
        (99.999, "pass", "-"),
        (99.999, "PTTL a", "1"),
        (100.0, "claimable", "true"),
        (100.0, "PTTL a", "0"),
        (100.0, "FINISH a STRICT", "EXPIRED expired"),
        (100.0, "CLAIM me", "a#1"),
    ]);
    story(&[
        (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (
            99.999,
            "FINISH a STRICT STATUS paid",
            "OK scheduled>finished",
        ),
        (100.0, "CLAIM me", "-"),
        (100.0, "pass", "-"),
    ]);
}

#[test]
fn a_relative_deadline_counts_from_the_next_full_millisecond() {
    story(&[
        (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (0.0, "GET a", "scheduled +100"),
        (0.001, "SCHEDULE b PX 100", "OK missing>scheduled"),
        (0.001, "GET b", "scheduled +101"),
        (0.999, "SCHEDULE c EX 1", "OK missing>scheduled"),
        (0.999, "GET c", "scheduled +1001"),
        (100.999, "CLAIM me COUNT 9", "a#1"),
        (101.0, "CLAIM me COUNT 9", "b#1"),
        (1000.999, "CLAIM me ID c", "-"),
        (1001.0, "CLAIM me ID c", "c#1"),
    ]);
}

#[test]
fn px_0_is_due_at_once_and_a_past_deadline_is_stored_as_given() {
    story(&[
        (0.7, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.7, "GET a", "expired +0"),
        (0.7, "CLAIM me", "a#1"),
        (0.7, "SCHEDULE b PXAT T-5000", "OK missing>expired"),
        (0.7, "GET b", "expired -5000"),
        (0.7, "SCHEDULE c EXAT 0", "OK missing>expired"),
        (0.7, "CLAIM me COUNT 9", "b#1 c#1"),
        (0.7, "NEXT COUNT 9", "-"),
    ]);
}

#[test]
fn deadlines_reach_to_the_end_of_the_year_9999_and_no_further() {
    let mut bench = Bench::new(false);
    let left = WALL_MS_MAX.0 - START_MS;
    assert_eq!(
        bench.run(&format!("SCHEDULE a PX {left}")),
        "OK missing>scheduled"
    );
    assert_eq!(bench.view("a").unwrap().deadline, Some(WALL_MS_MAX));
    let said = bench.run(&format!("SCHEDULE b PX {}", left + 1));
    assert_eq!(said, Error::DeadlineTooFar.to_string());
    assert_eq!(bench.run("GET b"), "null");
    bench.until(0.5);
    let said = bench.run(&format!("SCHEDULE b PX {left}"));
    assert_eq!(
        said,
        Error::DeadlineTooFar.to_string(),
        "the start is rounded up, and the sum counts"
    );
    assert_eq!(
        bench.run(&format!("SCHEDULE b PXAT {}", WALL_MS_MAX.0)),
        "OK missing>scheduled"
    );
}

#[test]
fn gt_and_lt_are_strict_and_only_where_there_is_a_deadline() {
    story(&[
        (0.0, "SCHEDULE a PX 100 UPSERT GT", "OK missing>scheduled"),
        (0.0, "SCHEDULE a PX 100 GT", "UNCHANGED scheduled"),
        (0.0, "SCHEDULE a PX 99 GT", "UNCHANGED scheduled"),
        (0.0, "SCHEDULE a PX 101 GT", "OK scheduled>scheduled"),
        (0.0, "SCHEDULE a PX 101 LT", "UNCHANGED scheduled"),
        (0.0, "SCHEDULE a PX 102 LT UPSERT", "UNCHANGED scheduled"),
        (0.0, "SCHEDULE a PX 50 LT", "OK scheduled>scheduled"),
        (0.0, "GET a", "scheduled +50"),
        (0.0, "SCHEDULE b PX 50 LT", "MISSING missing"),
        (0.0, "FINISH a STATUS paid", "OK scheduled>finished"),
        (0.0, "SCHEDULE a PX 10 LT", "FINISHED finished"),
        (
            0.0,
            "SCHEDULE a PX 10 LT FROM paid",
            "OK finished>scheduled",
        ),
    ]);
}
