//! Tests of the engine: finished orders.

use super::*;

#[test]
fn a_finished_order_is_kept_to_the_millisecond_and_then_reads_as_missing() {
    story(&[
        (
            0.0,
            "SCHEDULE a PX 100 STATUS unpaid PAYLOAD p",
            "OK missing>scheduled",
        ),
        (
            0.5,
            "FINISH a STATUS paid RESULT r1 KEEP 1000",
            "OK scheduled>finished",
        ),
        (
            0.5,
            "GET a",
            "finished status:paid keep:+1001 at:+0 of:+100 result:r1",
        ),
        (
            1000.999,
            "FINISH a STATUS paid RESULT r2",
            "FINISHED finished",
        ),
        (1000.999, "forget", "-"),
        (1001.0, "GET a", "null"),
        (1001.0, "FINISH a", "MISSING missing"),
        (1001.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (1001.0, "GET a", "scheduled +1101"),
        (1001.0, "forget", "-"),
    ]);
    story(&[
        (0.0, "SCHEDULE a PX 100", "OK missing>scheduled"),
        (0.0, "FINISH a KEEP 0", "OK scheduled>missing"),
        (0.0, "forget", "-"),
        (
            0.0,
            "FINISH b CREATE STATUS paid KEEP 0",
            "OK missing>missing",
        ),
        (
            0.0,
            "FINISH c CREATE STATUS paid KEEP 10",
            "OK missing>finished",
        ),
        (0.0, "SCHEDULE c PX 100 STATUS unpaid", "FINISHED finished"),
        (10.0, "forget", "c"),
        (10.0, "forget", "-"),
    ]);
}

#[test]
fn a_finished_order_reopens_only_when_from_names_its_status() {
    story(&[
        (
            0.0,
            "FINISH a CREATE STATUS paid RESULT r",
            "OK missing>finished",
        ),
        (0.0, "SCHEDULE a PX 100 UPSERT", "FINISHED finished"),
        (0.0, "SCHEDULE a PX 100 FROM unpaid", "FINISHED finished"),
        (0.0, "SCHEDULE a PX 100 FROM ''", "FINISHED finished"),
        (0.0, "SCHEDULE a PX 100 FROM paid IFREV 7", "STALE finished"),
        (0.0, "SCHEDULE a PX 100 FROM paid FENCE 7", "STALE finished"),
        (
            0.0,
            "SCHEDULE a PX 100 FROM unpaid FROM paid IFREV @a",
            "OK finished>scheduled",
        ),
        (0.0, "GET a", "scheduled +100 status:paid"),
        (0.0, "FINISH b CREATE", "OK missing>finished"),
        (
            0.0,
            "SCHEDULE b PX 0 FROM '' UPSERT PAYLOAD p",
            "OK finished>expired",
        ),
        (0.0, "GET b", "expired +0 payload:p"),
    ]);
}

#[test]
fn kept_orders_are_forgotten_in_batches_the_oldest_first() {
    story(&[
        (0.0, "FINISH a CREATE KEEP 30", "OK missing>finished"),
        (0.0, "FINISH b CREATE KEEP 10", "OK missing>finished"),
        (0.0, "FINISH c CREATE KEEP 20", "OK missing>finished"),
        (0.0, "FINISH d CREATE KEEP 40", "OK missing>finished"),
        (0.0, "LOCK e me PX 15", "OK missing>reserved"),
        (30.0, "forget 2", "e b"),
        (30.0, "forget 3", "c a"),
        (30.0, "forget 2", "-"),
        (40.0, "forget", "d"),
        (40.0, "SCAN 0", "0"),
    ]);
}

#[test]
fn dead_orders_above_dead_max_are_dropped_the_oldest_first() {
    let mut rows: Vec<Row<'_>> = vec![(0.0, "CONFIG SET dead-max 2", "done")];
    for (schedule, claim, nack) in [
        ("SCHEDULE a PX 0", "CLAIM me ID a", "NACK a $a DEAD"),
        ("SCHEDULE b PX 0", "CLAIM me ID b", "NACK b $b DEAD"),
        ("SCHEDULE c PX 0", "CLAIM me ID c", "NACK c $c DEAD"),
        ("SCHEDULE d PX 0", "CLAIM me ID d", "NACK d $d DEAD"),
    ] {
        let id = &schedule[9..10];
        rows.push((0.0, schedule, "OK missing>expired"));
        rows.push((
            0.0,
            claim,
            match id {
                "a" => "a#1",
                "b" => "b#1",
                "c" => "c#1",
                _ => "d#1",
            },
        ));
        rows.push((0.0, nack, "OK leased>dead"));
    }
    rows.extend([
        (1.0, "forget 1", "a"),
        (1.0, "forget 9", "b"),
        (1.0, "forget 9", "-"),
        (1.0, "GET d", "dead +0 #1"),
    ]);
    story(&rows);
}
