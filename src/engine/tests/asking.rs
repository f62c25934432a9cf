//! Tests of the engine: what an operator is shown and told. Rows of SCAN, why an order is
//! dead, and whether a queue is there.

use super::*;

/// The rows of SCAN in order of ids: owner, attempt, error.
fn rows(bench: &Bench, owner: Option<&[u8]>) -> Vec<String> {
    let ask = Scan {
        cursor: 0,
        state: None,
        status: None,
        pattern: None,
        count: 1000,
        owner,
    };
    let (cursor, rows) = bench.queue.scan(&bench.now(), &ask, &|_| true);
    assert_eq!(cursor, 0);
    let text =
        |text: Option<Vec<u8>>| text.map_or("-".into(), |text| String::from_utf8(text).unwrap());
    let mut said: Vec<String> = rows
        .into_iter()
        .map(|row| {
            let id = String::from_utf8(row.id).unwrap();
            let (state, attempt) = (row.state.word(), row.attempt);
            format!(
                "{id} {state} {} {attempt} {}",
                text(row.owner),
                text(row.error)
            )
        })
        .collect();
    said.sort();
    said
}

/// What `GET` shows as error.
fn error(bench: &Bench, id: &str) -> Option<String> {
    let reason = bench.view(id)?.reason()?;
    Some(reason.escape_ascii().to_string())
}

#[test]
fn rows_show_who_has_the_order_how_often_it_was_tried_and_why_it_failed() {
    for passes in [false, true] {
        let mut bench = Bench::new(passes);
        for line in [
            "SCHEDULE held PX 0",
            "SCHEDULE over PX 0",
            "SCHEDULE back PX 0",
            "CLAIM one COUNT 3 PX 5000",
            "NACK back $back DELAY 60000 ERROR away",
            "RENEW over $over PX 10 LT",
            "SCHEDULE locked PX 60000",
            "LOCK locked two PX 5000",
            "LOCK reserved one PX 5000",
            "SCHEDULE plain PX 60000",
            "SCHEDULE done PX 0",
            "CLAIM one",
            "ACK done $done",
        ] {
            bench.run(line);
        }
        bench.until(20.0);
        assert_eq!(
            rows(&bench, None),
            [
                "back retrying - 1 away",
                "done finished - 1 -",
                "held leased one 1 -",
                "locked leased two 0 -",
                "over expired - 1 -",
                "plain scheduled - 0 -",
                "reserved reserved one 0 -",
            ]
        );
        assert_eq!(
            rows(&bench, Some(b"one")),
            ["held leased one 1 -", "reserved reserved one 0 -"]
        );
        assert_eq!(rows(&bench, Some(b"two")), ["locked leased two 0 -"]);
        assert_eq!(rows(&bench, Some(b"on")), [""; 0]);
    }
    let mut bench = Bench::new(false);
    for line in [
        "SCAN 0 OWNER ''",
        &format!("SCAN 0 OWNER {}", "o".repeat(129)),
    ] {
        assert_eq!(
            bench.run(line),
            "ERR length of OWNER is out of range, must be between 1 and 128 bytes"
        );
    }
}

#[test]
fn who_died_without_a_word_says_whose_lease_it_was() {
    let silent = "lease of closer-7 ended without a word";
    for passes in [false, true] {
        let mut bench = Bench::new(passes);
        for line in [
            "CONFIG SET max-attempts 2",
            "SCHEDULE a PX 0",
            "CLAIM closer-6",
            "NACK a $a DELAY 0 ERROR timeout",
        ] {
            bench.run(line);
        }
        assert_eq!(error(&bench, "a").as_deref(), Some("timeout"));
        bench.run("CLAIM closer-7 PX 100");
        assert_eq!(
            error(&bench, "a").as_deref(),
            Some("timeout"),
            "it is trying"
        );
        bench.until(100.0);
        let before = digest(&bench.queue);
        // What was said before was said of another try.
        assert_eq!(error(&bench, "a").as_deref(), Some(silent));
        bench.run("reload");
        assert_eq!(digest(&bench.queue), before, "it is not stored");
        assert_eq!(error(&bench, "a").as_deref(), Some(silent));
        assert_eq!(rows(&bench, None), [format!("a dead - 2 {silent}")]);
        // The late word of the holder is a word.
        let (late, mut other) = ("NACK a $a ERROR deadlock", Bench::new(passes));
        for line in [
            "CONFIG SET max-attempts 1",
            "SCHEDULE a PX 0",
            "CLAIM closer-7 PX 1",
        ] {
            other.run(line);
        }
        other.until(50.0);
        assert_eq!(error(&other, "a").as_deref(), Some(silent));
        assert_eq!(other.run(late), "OK dead>dead");
        assert_eq!(error(&other, "a").as_deref(), Some("deadlock"));
        // Brought back, the last word that there was is shown again.
        assert_eq!(bench.run("REQUEUE"), "a left:0");
        assert_eq!(error(&bench, "a").as_deref(), Some("timeout"));
    }
}

#[test]
fn no_lease_but_a_last_try_that_lapsed_says_so() {
    let mut bench = Bench::new(true);
    for line in [
        "SCHEDULE claimed PX 0",
        "CLAIM me PX 10",
        "SCHEDULE locked PX 5",
        "LOCK locked me PX 10",
        "CONFIG SET max-attempts 1",
        "SCHEDULE given-up PX 0",
        "CLAIM me",
        "NACK given-up $given-up DEAD",
        "SCHEDULE broken PX 0",
        "CLAIM me",
        "BREAK broken",
    ] {
        bench.run(line);
    }
    bench.until(50.0);
    assert_eq!(bench.state(b"broken"), State::Dead);
    assert_eq!(bench.state(b"given-up"), State::Dead);
    for id in ["claimed", "locked", "given-up", "broken"] {
        assert_eq!(error(&bench, id), None, "{id}");
    }
    // The owner is shown whole, whatever is in it.
    let owner = "o".repeat(128);
    bench.run("SCHEDULE x PX 0 STATUS s");
    bench.run(&format!("CLAIM {owner} ID x PX 10"));
    bench.until(100.0);
    let whole = format!("lease of {owner} ended without a word");
    assert_eq!(error(&bench, "x"), Some(whole));
    // Who writes makes the last grant forgotten, and its owner with it.
    bench.run("STATUS x held");
    assert_eq!((bench.state(b"x"), error(&bench, "x")), (State::Dead, None));
}

#[test]
fn a_pause_is_for_a_queue_that_is_there() {
    story(&[
        (0.0, "PAUSE", "MISSING"),
        (0.0, "RESUME", "MISSING"),
        (0.0, "SCHEDULE a PX 60000", "OK missing>scheduled"),
        (0.0, "RESUME", "-"),
        (0.0, "PAUSE PX 1000", "done"),
        (0.0, "FINISH a KEEP 0", "OK scheduled>missing"),
        // The pause alone keeps it, until its end.
        (1.0, "PAUSE PX 500", "done"),
        (501.0, "PAUSE", "MISSING"),
        (501.0, "RESUME", "MISSING"),
        (501.0, "forget", "resumed"),
        (501.0, "PAUSE", "MISSING"),
        (502.0, "CONFIG SET max-leased 5", "done"),
        (502.0, "PAUSE", "done"),
        (502.0, "CONFIG RESET", "done"),
        (502.0, "RESUME", "done"),
        (502.0, "RESUME", "MISSING"),
        // What reads as missing is not there, removed or not.
        (503.0, "FINISH b CREATE KEEP 100", "OK missing>finished"),
        (503.0, "PAUSE PX 1", "done"),
        (603.0, "PAUSE", "MISSING"),
        (604.0, "LOCK r me PX 10", "OK missing>reserved"),
        (604.0, "PAUSE PX 1", "done"),
    ]);
    let mut bench = Bench::new(true);
    tell(
        &mut bench,
        &[
            (0.0, "LOCK r me PX 10", "OK missing>reserved"),
            (10.0, "RESUME", "MISSING"),
        ],
    );
}
