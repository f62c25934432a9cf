//! Fences: they grow, and UNLOCK and BREAK go by them.

use super::*;

#[test]
fn a_claim_that_is_unlocked_is_offered_again_at_once() {
    story(&[
        (0.0, "CONFIG SET max-attempts 3", "done"),
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CLAIM me", "a#1"),
        (1.0, "UNLOCK a 5", "STALE leased"),
        (1.0, "UNLOCK a $a", "OK leased>expired"),
        (1.0, "GET a", "expired +0"),
        (1.0, "ACK a $a", "STALE expired"),
        (1.0, "pass", "expired:a"),
        (1.0, "CLAIM you", "a#1"),
        (2.0, "BREAK a $a.1", "STALE leased"),
        (2.0, "BREAK a", "OK leased>expired"),
        (2.0, "ACK a $a", "STALE expired"),
        (2.0, "BREAK a", "GONE expired"),
        (2.0, "BREAK a $a", "GONE expired"),
        (2.0, "CLAIM you", "a#2"),
    ]);
    // Handed back on its last try it has it still; broken, it has failed.
    story(&[
        (0.0, "CONFIG SET max-attempts 1", "done"),
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CLAIM me", "a#1"),
        (1.0, "UNLOCK a $a", "OK leased>expired"),
        (1.0, "CLAIM me", "a#1"),
    ]);
    for end in ["BREAK a", "BREAK a $a"] {
        story(&[
            (0.0, "CONFIG SET max-attempts 1", "done"),
            (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
            (0.0, "CLAIM me", "a#1"),
            (1.0, end, "OK leased>dead"),
            (1.0, "pass", "dead:a"),
            (9999.0, "CLAIM you", "-"),
            (9999.0, "REQUEUE", "a left:0"),
            (9999.0, "CLAIM you", "a#1"),
        ]);
    }
}

#[test]
fn break_goes_by_the_fence_where_one_is_given() {
    story(&[
        (0.0, "BREAK a", "MISSING missing"),
        (0.0, "SCHEDULE a PX 5000", "OK missing>scheduled"),
        (0.0, "BREAK a", "GONE scheduled"),
        (0.0, "BREAK a 7", "GONE scheduled"),
        (0.0, "LOCK a me PX 10", "OK scheduled>leased"),
        (0.0, "BREAK a 7", "STALE leased"),
        (10.0, "BREAK a 7", "STALE scheduled"),
        (10.0, "BREAK a $a", "GONE scheduled"),
        (10.0, "LOCK a me PX 10", "OK scheduled>leased"),
        (10.0, "BREAK a $a", "OK leased>scheduled"),
        (10.0, "FINISH a FENCE $a", "STALE scheduled"),
    ]);
}

#[test]
fn the_fences_of_an_order_grow_for_ever() {
    for passes in [false, true] {
        let mut bench = Bench::new(passes);
        let mut last = 0;
        for round in 0..20 {
            for command in [
                "LOCK a me PX 1000",
                "UNLOCK a $a",
                "LOCK a me PX 10",
                "lapse",
                "LOCK a me PX 1000",
                "BREAK a",
                "wall -60000",
                "LOCK a you PX 1000",
                "SCHEDULE a PX 0 UPSERT FENCE $a",
                "UNLOCK a $a",
                "CLAIM me PX 10",
                "lapse",
                "CLAIM me PX 1000",
                "NACK a $a DELAY 0",
                "reload",
                "CLAIM you PX 1000",
                "restart",
                "ACK a $a KEEP 0",
                "LOCK a me PX 1000",
                "FINISH a FENCE $a KEEP 10",
                "lapse",
                "LOCK a me PX 10",
                "lapse",
                "forget",
                "delete",
            ] {
                let ms = (bench.mono_us / 1000 - START_MONO_MS) as f64;
                match command {
                    "lapse" => bench.until(ms + 10.0),
                    // The server is another one, which knows what it has loaded.
                    "restart" => {
                        bench.run("reload");
                        let (floor, now_us) = (bench.queue.floor(), bench.wall_us);
                        bench.numbers = Numbers::new();
                        assert!(bench.numbers.learn(floor, now_us));
                        bench.numbers.guard(now_us, 1_000);
                    }
                    // The key is gone; the server is the same.
                    "delete" => {
                        bench.queue = Queue::new();
                        bench.replica = Queue::new();
                    }
                    _ => {
                        let said = bench.run(command);
                        let done = ["OK", "a#", "done", "a", "-"];
                        assert!(
                            done.iter().any(|word| said.starts_with(word)),
                            "{command}: {said}"
                        );
                        assert!(!command.starts_with("LOCK") || said.starts_with("OK"));
                        assert!(!command.starts_with("CLAIM") || said.starts_with("a#"));
                    }
                }
                let fence = bench.fences[b"a".as_slice()].last().copied().unwrap();
                assert!(fence >= last, "{round} {command}: {fence} after {last}");
                last = fence;
            }
        }
        let fences = &bench.fences[b"a".as_slice()];
        assert_eq!(fences.len(), 20 * 9);
        assert!(fences.iter().zip(&fences[1..]).all(|(a, b)| a < b));
    }
}
