//! Tests of the engine: a full queue.

use super::*;

/// A queue whose arena takes nothing new: what brings bytes is refused with an error
/// before anything is done, everything else goes through. A replica that has less room
/// than its primary had does what it can: the order is finished, and found.
#[test]
fn a_full_queue_refuses_results_and_finishes_orders() {
    use crate::engine::tables::arena::testing::set_pages_max;
    const FULL: &str = "ERR queue is full, spread the orders over several queues";
    let mut bench = Bench::new(false);
    for id in ["a", "b", "c", "d", "e"] {
        bench.run(&format!("SCHEDULE {id} PX 0 PAYLOAD {}", "p".repeat(40)));
    }
    bench.run("SCHEDULE f PX 60000");
    assert_eq!(bench.run("CLAIM me COUNT 2"), "a#1 b#1");
    set_pages_max(2);
    let before = digest(&bench.queue);
    for line in [
        "FINISH c RESULT r",
        "ACK a $a RESULT r",
        "FINISH a FENCE $a RESULT r",
        "FINISH new CREATE RESULT r",
        "STATUS c s PAYLOAD p",
        "SCHEDULE c PX 5 XX PAYLOAD p",
        "SCHEDULE new PX 5",
        "LOCK new me PX 5",
    ] {
        assert_eq!(bench.run(line), FULL, "{line}");
    }
    assert_eq!(digest(&bench.queue), before);
    // What is refused for another reason is told that one.
    assert_eq!(bench.run("FINISH a RESULT r"), "LEASED leased");
    assert_eq!(bench.run("FINISH none RESULT r"), "MISSING missing");
    for (line, said) in [
        ("FINISH c", "OK expired>finished"),
        ("ACK a $a", "OK leased>finished"),
        ("NACK b $b DELAY 0", "OK leased>expired"),
        ("STATUS d s", "OK expired>expired"),
        ("SCHEDULE d PX 500 XX", "OK expired>scheduled"),
        ("CLAIM me", "e#1"),
    ] {
        assert_eq!(bench.run(line), said, "{line}");
    }
    // An effect comes with more than there is room for.
    let finish = |result| Effect::Finish {
        id: Bytes::of(b"e"),
        rev: START_MS * 1000 + 99,
        status: None,
        result: Some(Bytes::of(result)),
        keep_end: Some(WallMs(START_MS + 500)),
        creates: false,
        by: crate::engine::effect::FinishedBy::Ack,
        at: WallMs(START_MS),
        by_holder: false,
    };
    let now = bench.now();
    let long = vec![b'r'; 30_000];
    assert!(!bench.replica.apply(&now, &finish(&long), &mut Vec::new()));
    let view = bench.replica.view(&now, b"e").unwrap();
    assert_eq!((view.state, view.result), (State::Finished, None));
    bench.replica.check();
    // One that takes the payload's place has room.
    assert!(bench.queue.apply(&now, &finish(b"short"), &mut Vec::new()));
    let view = bench.queue.view(&now, b"e").unwrap();
    assert_eq!(
        (view.state, view.result),
        (State::Finished, Some(&b"short"[..]))
    );
    bench.queue.check();
}
