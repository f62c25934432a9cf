//! Tests of the engine: every command, every state.

use super::*;

#[path = "../../../tests/support/states.rs"]
mod page;

/// How the order `x` comes into the state of a row, and the state word.
fn way_into(row: &str) -> (&'static [(f64, &'static str)], State) {
    match row {
        "missing" => (&[], State::Missing),
        "reserved, lock live" => (&[(0.0, "LOCK x me PX 10000")], State::Reserved),
        "scheduled, never leased" => (
            &[(0.0, "SCHEDULE x PX 60000 STATUS unpaid")],
            State::Scheduled,
        ),
        "expired, never leased" => (
            &[(0.0, "SCHEDULE x PX 1000 STATUS unpaid"), (2000.0, "GET x")],
            State::Expired,
        ),
        "leased by claim" => (
            &[
                (0.0, "SCHEDULE x PX 1000 STATUS unpaid"),
                (2000.0, "CLAIM me PX 10000"),
            ],
            State::Leased,
        ),
        "leased by lock, deadline ahead" => (
            &[
                (0.0, "SCHEDULE x PX 60000 STATUS unpaid"),
                (1.0, "LOCK x me PX 10000"),
            ],
            State::Leased,
        ),
        "leased by lock, deadline passed" => (
            &[
                (0.0, "SCHEDULE x PX 1000 STATUS unpaid"),
                (1.0, "LOCK x me PX 10000"),
                (2000.0, "GET x"),
            ],
            State::Leased,
        ),
        "lock lapsed, deadline ahead" => (
            &[
                (0.0, "SCHEDULE x PX 60000 STATUS unpaid"),
                (1.0, "LOCK x me PX 1000"),
                (2000.0, "GET x"),
            ],
            State::Scheduled,
        ),
        "claim lapsed, not regranted" => (
            &[
                (0.0, "SCHEDULE x PX 1000 STATUS unpaid"),
                (2000.0, "CLAIM me PX 1000"),
                (3500.0, "GET x"),
            ],
            State::Expired,
        ),
        "lock lapsed, deadline passed, not regranted" => (
            &[
                (0.0, "SCHEDULE x PX 1000 STATUS unpaid"),
                (1.0, "LOCK x me PX 2000"),
                (3500.0, "GET x"),
            ],
            State::Expired,
        ),
        "lapsed on its last attempt" => (
            &[
                (0.0, "CONFIG SET max-attempts 1"),
                (0.0, "SCHEDULE x PX 1000 STATUS unpaid"),
                (2000.0, "CLAIM me PX 1000"),
                (3500.0, "GET x"),
            ],
            State::Dead,
        ),
        "reserved, lock lapsed" => (
            &[(0.0, "LOCK x me PX 1000"), (2000.0, "GET x")],
            State::Missing,
        ),
        "retrying" => (
            &[
                (0.0, "SCHEDULE x PX 1000 STATUS unpaid"),
                (2000.0, "CLAIM me"),
                (2001.0, "NACK x $x DELAY 60000"),
                (3000.0, "GET x"),
            ],
            State::Retrying,
        ),
        "dead by NACK" => (
            &[
                (0.0, "SCHEDULE x PX 1000 STATUS unpaid"),
                (2000.0, "CLAIM me"),
                (2001.0, "NACK x $x DEAD"),
                (3000.0, "GET x"),
            ],
            State::Dead,
        ),
        "finished" => (
            &[
                (0.0, "SCHEDULE x PX 1000 STATUS unpaid"),
                (500.0, "FINISH x STATUS paid"),
                (2000.0, "GET x"),
            ],
            State::Finished,
        ),
        "finished, keep time over, not yet removed" => (
            &[
                (0.0, "SCHEDULE x PX 1000 STATUS unpaid"),
                (500.0, "FINISH x STATUS paid KEEP 100"),
                (2000.0, "GET x"),
            ],
            State::Missing,
        ),
        other => panic!("no such row: {other}"),
    }
}

/// The commands of a column. `last` is the fence of the last grant.
fn commands_of(column: &str, last: u64) -> Vec<String> {
    let others = [last + 1, last - 1, 0];
    let with_others = |command: &str| {
        others
            .map(|other| command.replace("OTHER", &other.to_string()))
            .to_vec()
    };
    let one = |command: &str| vec![command.replace("LAST", &last.to_string())];
    match column {
        "SCHEDULE" => vec![
            "SCHEDULE x PX 5000".into(),
            "SCHEDULE x PX 0 NX STATUS s".into(),
        ],
        "SCHEDULE XX" => vec![
            "SCHEDULE x PX 5000 XX".into(),
            "SCHEDULE x PX 0 XX STATUS s PAYLOAD p".into(),
        ],
        "SCHEDULE UPSERT" => vec![
            "SCHEDULE x PX 5000 UPSERT".into(),
            "SCHEDULE x PX 0 UPSERT".into(),
        ],
        "SCHEDULE XX FROM its status" => vec![
            "SCHEDULE x PX 5000 XX FROM unpaid FROM paid FROM ''".into(),
            "SCHEDULE x PX 5000 FROM unpaid FROM paid FROM ''".into(),
        ],
        "SCHEDULE XX FENCE last" => [
            "SCHEDULE x PX 5000 XX FENCE LAST",
            "SCHEDULE x PX 0 FENCE LAST",
        ]
        .iter()
        .flat_map(|c| one(c))
        .collect(),
        "SCHEDULE UPSERT FROM its status" => {
            vec!["SCHEDULE x PX 5000 UPSERT FROM unpaid FROM paid FROM ''".into()]
        }
        "SCHEDULE XX FENCE other" => with_others("SCHEDULE x PX 5000 XX FENCE OTHER"),
        "FINISH" => vec![
            "FINISH x".into(),
            "FINISH x STATUS paid RESULT r KEEP 5000".into(),
        ],
        "FINISH STRICT" => vec!["FINISH x STRICT".into()],
        "FINISH CREATE" => vec!["FINISH x CREATE STATUS paid".into()],
        "FINISH FENCE last" => one("FINISH x FENCE LAST STATUS paid"),
        "FINISH FENCE other" => with_others("FINISH x FENCE OTHER"),
        "CLAIM" => vec![
            "CLAIM you COUNT 10".into(),
            "CLAIM you ID x".into(),
            "CLAIM you PX 500".into(),
        ],
        "ACK last" => one("ACK x LAST STATUS closed RESULT r"),
        "ACK other" => with_others("ACK x OTHER"),
        "NACK last" => [
            "NACK x LAST",
            "NACK x LAST DELAY 0 ERROR e",
            "NACK x LAST DELAY 500",
            "NACK x LAST DEAD",
        ]
        .iter()
        .flat_map(|c| one(c))
        .collect(),
        "NACK UNTRIED last" => [
            "NACK x LAST UNTRIED",
            "NACK x LAST UNTRIED DELAY 0 ERROR e",
            "NACK x LAST DELAY 500 UNTRIED",
        ]
        .iter()
        .flat_map(|c| one(c))
        .collect(),
        "NACK other" => with_others("NACK x OTHER DELAY 0"),
        "RENEW last" => ["RENEW x LAST PX 20000", "RENEW x LAST PX 500 LT"]
            .iter()
            .flat_map(|c| one(c))
            .collect(),
        "RENEW other" => with_others("RENEW x OTHER PX 20000"),
        "LOCK other owner" => vec![
            "LOCK x you PX 5000".into(),
            "LOCK x you EX 5 REENTRANT MAX 9000 FP f BLOCK 5".into(),
        ],
        "LOCK same owner" => vec![
            "LOCK x me PX 5000".into(),
            "LOCK x me PX 5000 REENTRANT MAX 9000 FP f BLOCK 5".into(),
        ],
        "UNLOCK last" => one("UNLOCK x LAST"),
        "UNLOCK other" => with_others("UNLOCK x OTHER"),
        "BREAK" => ["BREAK x", "BREAK x LAST"]
            .iter()
            .flat_map(|c| one(c))
            .collect(),
        "REQUEUE" => vec!["REQUEUE".into(), "REQUEUE STATE dead COUNT 1".into()],
        "REQUEUE STATE retrying" => vec![
            "REQUEUE STATE retrying".into(),
            "REQUEUE STATE retrying MATCH x COUNT 1".into(),
        ],
        "REQUEUE ID" => vec!["REQUEUE ID x".into()],
        "RELEASE" => vec!["RELEASE me".into(), "RELEASE me COUNT 1".into()],
        "LOCK XX" => vec![
            "LOCK x you PX 5000 XX".into(),
            "LOCK x you EX 5 REENTRANT XX MAX 9000 FP f BLOCK 5".into(),
        ],
        "PURGE" => State::LISTED
            .map(|state| format!("PURGE STATE {}", state.word()))
            .to_vec(),
        "STATUS" => vec!["STATUS x s".into()],
        "STATUS FENCE last" => one("STATUS x s FENCE LAST"),
        "BREAK other" => with_others("BREAK x OTHER"),
        "GET" => vec!["GET x".into()],
        "PTTL" => vec!["PTTL x".into()],
        "NEXT" => vec!["NEXT COUNT 10".into()],
        "SCAN state" => vec!["SCAN 0 COUNT 1000".into()],
        other => panic!("no such column: {other}"),
    }
}

/// Holds one answer against one cell.
fn check_cell(
    bench: &mut Bench,
    what: &str,
    command: &str,
    cell: &str,
    was: State,
    last: u64,
) -> Digest {
    let before = digest(&bench.queue);
    let said = bench.run(command);
    let after = digest(&bench.queue);
    let word = page::word(cell);
    let is = |expected: &str| assert_eq!(said, expected, "{what}");
    match word {
        _ if ["REQUEUE", "PURGE", "RELEASE"]
            .iter()
            .any(|sweep| command.starts_with(sweep)) =>
        {
            // PURGE of each state: only that of the order counts.
            let asked = command.strip_prefix("PURGE STATE ");
            let concerned = asked.is_none_or(|state| state == was.word());
            is(match word {
                "yes" if concerned => "x left:0",
                "no" if concerned => "- left:1",
                _ => "- left:0",
            });
        }
        "–" if command.starts_with("SCAN") => is("0"),
        "–" | "no" => is("-"),
        "null" | "0" | "-1" | "-2" => is(word),
        "absent" => is("0"),
        "map" => assert!(said.starts_with(was.word()), "{what}: {said}"),
        "ms" => {
            let left = bench.view("x").unwrap().deadline.unwrap().0 - bench.now().wall_ms().0;
            is(&left.to_string());
        }
        "yes" => assert!(said.starts_with("x+"), "{what}: {said}"),
        "granted" => {
            assert!(said.starts_with("x#"), "{what}: {said}");
            assert_eq!(bench.state(b"x"), State::Leased, "{what}");
        }
        "OK" if command.starts_with("RENEW") => assert!(said.starts_with("OK "), "{what}: {said}"),
        // Held more than once: see the stories of locks.
        "HELD" => assert!(said.starts_with("HELD "), "{what}: {said}"),
        "OK" => assert!(
            said.starts_with(&format!("OK {}>", was.word())),
            "{what}: {said}"
        ),
        _ if command.starts_with("SCAN") => is(&format!("0 x:{word}")),
        _ => is(&format!("{word} {}", was.word())),
    }
    let changes = matches!(word, "OK" | "granted") || (word == "yes" && said == "x left:0");
    if word != "HELD" {
        assert_eq!(before != after, changes, "{what}: P12");
    }
    let state = bench.state(b"x");
    let fence = bench.view("x").map_or(0, |view| view.fence);
    let attempt = bench.view("x").map_or(0, |view| view.attempt);
    if word == "HELD" {
        assert_eq!((state, fence), (was, last), "{what}");
    }
    if command.starts_with("LOCK") && word == "OK" {
        assert!(fence > 0 && fence != last, "{what}: {fence}");
    }
    if command.starts_with("PURGE") && changes {
        assert_eq!(state, State::Missing, "{what}");
    }
    if cell.contains("attempt stays") {
        assert_eq!((state, fence, attempt), (State::Expired, 0, 1), "{what}");
    }
    if cell.contains("lapses") {
        let over = match was {
            State::Reserved => state == State::Missing,
            _ => matches!(state, State::Scheduled | State::Expired) && fence == last,
        };
        assert!(over, "{what}: {state:?} {fence}");
    }
    if cell.contains("then EXPIRED") {
        assert_eq!(bench.run("waiter x"), "EXPIRED", "{what}");
    }
    if cell.contains("new fence") && was != State::Missing {
        assert!(fence > last, "{what}: {fence}");
    }
    if cell.contains("a failed try") {
        assert_eq!((state, fence, attempt), (State::Expired, 0, 1), "{what}");
    }
    if cell.contains("untried") {
        let back = matches!(state, State::Expired | State::Retrying);
        assert_eq!((back, fence, attempt), (true, 0, 0), "{what}");
    }
    if cell.contains("attempt 0") {
        assert_eq!((state, fence, attempt), (State::Expired, 0, 0), "{what}");
    }
    if cell.contains("reopened") {
        assert_eq!(state, State::Scheduled, "{what}");
    }
    if cell.contains("claim ends") {
        assert!(
            matches!(state, State::Scheduled | State::Expired) && fence == 0,
            "{what}: {state:?} {fence}"
        );
    }
    if cell.contains("lock stays") {
        assert_eq!((state, fence), (State::Leased, last), "{what}");
    }
    if cell.contains("ends it") {
        assert_eq!((state, fence), (State::Finished, 0), "{what}");
    }
    if cell.contains("stays dead") {
        assert_eq!((state, fence), (State::Dead, 0), "{what}");
    }
    after
}

/// Holds every cell of a table against the core.
fn check_table(table: &[Vec<&str>]) -> usize {
    let (head, rows) = table.split_first().unwrap();
    let mut cells = 0;
    for line in rows {
        let row = line[0];
        assert_eq!(line.len(), head.len(), "{row}: as many cells as columns");
        for (column, cell) in head.iter().zip(line).skip(1) {
            let (way, was) = way_into(row);
            let last = |bench: &Bench| {
                bench
                    .fences
                    .get(b"x".as_slice())
                    .and_then(|f| f.last())
                    .copied()
            };
            for command in commands_of(column, 1_234_567_890) {
                let mut digests = Vec::new();
                for passes in [false, true] {
                    let mut bench = Bench::new(passes);
                    for (ms, command) in way {
                        bench.until(*ms);
                        bench.run(command);
                    }
                    assert_eq!(bench.state(b"x"), was, "{row}");
                    let fence = last(&bench).unwrap_or(1_234_567_890);
                    // NEXT lists what stands in the wheel, so a pass comes first.
                    if *column == "NEXT" {
                        bench.advance();
                    }
                    let command = command
                        .replace("1234567890", &fence.to_string())
                        .replace("1234567891", &(fence + 1).to_string())
                        .replace("1234567889", &(fence - 1).to_string());
                    let what = format!("{row} | {column} | {command} | passes: {passes}");
                    digests.push(check_cell(&mut bench, &what, &command, cell, was, fence));
                    cells += 1;
                }
                assert_eq!(
                    digests.first(),
                    digests.last(),
                    "{row} | {column}: a pass is no write"
                );
            }
        }
    }
    cells
}

#[test]
fn every_command_answers_as_the_table_says_in_every_state() {
    let tables = page::tables();
    let rows: Vec<usize> = tables.iter().map(|table| table.len() - 1).collect();
    assert_eq!(
        rows, [16; 5],
        "docs/states.md has five tables of all states"
    );
    let columns: usize = tables.iter().map(|table| table[0].len() - 1).sum();
    let answers: usize = tables.iter().map(|table| check_table(table)).sum();
    assert!(answers > columns * 16 * 2, "{answers} answers");
}

#[test]
fn a_failed_last_try_is_dead_whatever_nack_asks_for() {
    for nack in [
        "NACK x $x",
        "NACK x $x DELAY 0",
        "NACK x $x DELAY 5000",
        "NACK x $x DEAD",
    ] {
        story(&[
            (0.0, "CONFIG SET max-attempts 1", "done"),
            (0.0, "SCHEDULE x PX 0", "OK missing>expired"),
            (0.0, "CLAIM me", "x#1"),
            (1.0, nack, "OK leased>dead"),
            (100_000.0, "CLAIM me", "-"),
        ]);
    }
}
