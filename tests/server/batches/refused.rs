//! What is wrong anywhere in a batch changes nothing; what a full memory refuses.

use super::{claim, outcomes, run, words};
use crate::support::{Options, Server, Value, argv, cmd};

#[test]
fn a_bad_argument_anywhere_changes_nothing_and_is_named_with_its_place() {
    let server = Options::new().events("KEgd").start();
    let mut c = server.client();
    run(
        &mut c,
        "ORDER.MSCHEDULE q PX 4 a 0 b 0 c 0 d 600000 STATUS unpaid",
    );
    let fences = [claim(&mut c, "q", "a"), claim(&mut c, "q", "b")];
    let far = 253_402_300_799_999_u64;
    let mut listener = server.listener();
    let before = c.digest("q");
    for (line, said) in [
        (
            "MSCHEDULE q PX 3 x 5 y 5 z -1",
            "PX is not an integer, must be decimal digits only (order 3 of the list)",
        ),
        (
            "MSCHEDULE q PX 3 x 5 '' 5 z 5",
            "length of id is out of range, must be between 1 and 255 bytes (order 2 of the list)",
        ),
        (
            "MSCHEDULE q PXAT 2 x 1795958000 y 5",
            "(order 1 of the list)",
        ),
        ("MSCHEDULE q PX 2 x 5 y $far", "(order 2 of the list)"),
        (
            "MSCHEDULE q PX PAYLOADS 2 x 5 p y 5",
            "2 triples of id, time and payload must follow n",
        ),
        (
            "MSCHEDULE q PX 2 x 5 y 5 NX GT",
            "NX and GT exclude each other",
        ),
        (
            "MSCHEDULE q PX 2 x 5 y 5 FENCE 5",
            "unknown option near 'FENCE'",
        ),
        ("MFINISH q 2 c '' STATUS paid", "(order 2 of the list)"),
        ("MFINISH q 2 c d KEEP x", "KEEP is not an integer"),
        ("MFINISH q 3 c d", "3 ids must follow n"),
        (
            "MFINISH q 1001 c d",
            "n is out of range, must be between 1 and 1000",
        ),
        (
            "MACK q 2 a $a b b",
            "fence is not an integer, must be decimal digits only (order 2 of the list)",
        ),
        (
            "MACK q STATUSES 2 a $a paid b $b paidpaidpaidpaidpaidpaidpaidpaidp",
            "length of status is out of range, must be between 0 and 32 bytes (order 2 of the list)",
        ),
        (
            "MACK q STATUSES 1 a $a paid STATUS s",
            "STATUSES and STATUS exclude each other",
        ),
        ("MNACK q 2 a $a b 9007199254740993", "(order 2 of the list)"),
        (
            "MNACK q 2 a $a b $b DEAD UNTRIED",
            "DEAD and UNTRIED exclude each other",
        ),
        ("MRENEW q 2 a $a b -1 PX 5", "(order 2 of the list)"),
        ("MRENEW q 2 a $a b $b", "one of EX, PX is required"),
        ("MRENEW q 2 a $a b $b PX 0", "a lease must last between 1"),
    ] {
        let line = line
            .replace("$a", &fences[0].to_string())
            .replace("$b", &fences[1].to_string())
            .replace("$far", &far.to_string());
        let reply = c.run(&words(&format!("ORDER.{line}")));
        let told = reply.error();
        if line == "MRENEW q 2 a $a b $b" {
            assert!(told.starts_with("ERR "), "{line}: {told}");
        }
        assert!(
            told.starts_with("ERR ") && told.contains(said),
            "{line}: {told}"
        );
        assert_eq!(c.digest("q"), before, "{line}");
    }
    assert_eq!(
        listener.messages(std::time::Duration::from_millis(50)),
        [],
        "and nothing was published"
    );
    cmd!(c, "SET", "text", "x").ok();
    for line in [
        "ORDER.MSCHEDULE text PX 1 a 5",
        "ORDER.MFINISH text 1 a",
        "ORDER.MNACK text 1 a 5",
        "ORDER.MRENEW text 1 a 5 PX 5",
    ] {
        let reply = c.run(&words(line));
        assert!(reply.error().starts_with("WRONGTYPE "), "{line}: {reply:?}");
    }
    assert_eq!(cmd!(c, "GET", "text").text(), "x");
}

#[test]
fn a_queue_that_is_not_there_is_not_made_by_a_batch_that_does_nothing() {
    let server = Server::plain();
    let mut c = server.client();
    for line in [
        "ORDER.MSCHEDULE q PX 2 a 5 b 5 XX",
        "ORDER.MFINISH q 2 a b",
        "ORDER.MACK q 2 a 5 b 5",
        "ORDER.MNACK q 2 a 5 b 5",
        "ORDER.MRENEW q 2 a 5 b 5 PX 5",
    ] {
        assert_eq!(run(&mut c, line), ["MISSING", "MISSING"], "{line}");
        assert_eq!(cmd!(c, "EXISTS", "q").int(), 0, "{line}");
    }
    // Made and forgotten in one batch: nothing is left of it either.
    assert_eq!(
        run(&mut c, "ORDER.MFINISH q 2 a b CREATE KEEP 0"),
        ["OK"; 2]
    );
    assert_eq!(cmd!(c, "EXISTS", "q").int(), 0);
}

#[test]
fn a_full_memory_refuses_mschedule_and_lets_closers_finish() {
    let server = Server::plain();
    let mut c = server.client();
    run(
        &mut c,
        "ORDER.MSCHEDULE q PX 5 a 0 b 0 c 0 d 600000 e 600000",
    );
    let fences: Vec<u64> = ["a", "b", "c"].map(|id| claim(&mut c, "q", id)).to_vec();
    let before = c.digest("q");
    c.config("maxmemory", "1");
    for line in [
        "ORDER.MSCHEDULE q PX 2 x 5 y 5",
        "ORDER.MSCHEDULE q PX 1 d 5 XX",
    ] {
        let reply = c.run(&words(line));
        assert!(reply.error().starts_with("OOM "), "{line}: {reply:?}");
    }
    assert_eq!(c.digest("q"), before);
    assert_eq!(run(&mut c, "ORDER.MFINISH q 2 d new CREATE"), ["OK"; 2]);
    let reply = cmd!(
        c,
        "ORDER.MRENEW",
        "q",
        2,
        "a",
        fences[0],
        "b",
        fences[1],
        "PX",
        900_000
    );
    assert_eq!(outcomes(&reply), ["OK"; 2]);
    let reply = cmd!(c, "ORDER.MNACK", "q", 1, "b", fences[1], "ERROR", "away");
    assert_eq!(outcomes(&reply), ["OK"]);
    let reply = cmd!(
        c,
        "ORDER.MACK",
        "q",
        "STATUSES",
        2,
        "a",
        fences[0],
        "closed",
        "c",
        fences[2],
        "paid"
    );
    assert_eq!(outcomes(&reply), ["OK"; 2]);
    c.config("maxmemory", "0");
    assert_eq!(c.order("q", "c").text("status"), "paid");
}

#[test]
fn all_payloads_of_a_batch_take_a_mebibyte_at_most() {
    let server = Server::plain();
    let mut c = server.client();
    let payload = vec![b'p'; 65_536];
    let batch = |last: &[u8]| {
        let mut command = argv!["ORDER.MSCHEDULE", "q", "PX", "PAYLOADS", 17];
        for id in 0..16 {
            command.extend(argv![id, 600_000, &payload]);
        }
        command.extend(argv!["last", 600_000, last]);
        command
    };
    let reply = c.run(&batch(b"p"));
    assert!(reply.error().contains("all payloads together"), "{reply:?}");
    assert!(
        reply.error().ends_with("(order 17 of the list)"),
        "{reply:?}"
    );
    assert_eq!(cmd!(c, "EXISTS", "q").int(), 0);
    assert_eq!(outcomes(&c.run(&batch(b""))), ["OK"; 17]);
    assert_eq!(
        c.order("q", "last").field("payload"),
        &Value::Bulk(Vec::new())
    );
    assert_eq!(c.order("q", "15").field("payload").bytes(), payload);
}
