//! NEXT, SCAN and STATS.

use std::collections::BTreeSet;

use super::scan_all;
use crate::support::{Server, Value, argv, cmd};

#[test]
fn next_lists_the_earliest_in_order() {
    let server = Server::plain();
    let mut c = server.client();
    let base = c.time_ms() + 3_600_000;
    // Enough for slots that have been split, in an order that is none.
    let at = |i: u64| base + (i * 7919) % 5000 * 37;
    let commands: Vec<_> = (0..5000_u64)
        .map(|i| argv!["ORDER.SCHEDULE", "q", i, "PXAT", at(i)])
        .collect();
    assert!(
        c.pipeline(&commands)
            .iter()
            .all(|reply| reply.order().outcome == "OK")
    );
    let mut expected: Vec<(u64, String)> = (0..5000).map(|i| (at(i), i.to_string())).collect();
    expected.sort_by_key(|pair| pair.0);
    for count in [1, 2, 255, 256, 257, 1000] {
        let reply = cmd!(c, "ORDER.NEXT", "q", "COUNT", count);
        let rows: Vec<(u64, String)> = reply
            .items()
            .iter()
            .map(|r| (r.items()[1].int() as u64, r.items()[0].text()))
            .collect();
        assert_eq!(rows, expected[..count], "COUNT {count}");
    }
    assert_eq!(
        cmd!(c, "ORDER.NEXT", "q").items().len(),
        1,
        "COUNT is 1 unless given"
    );
    assert_eq!(c.stat("q", "next_deadline").int() as u64, expected[0].0);
}

#[test]
fn scan_meets_every_order_that_stays_and_filters() {
    let server = Server::plain();
    let mut c = server.client();
    let commands: Vec<_> = (0..3000_u64)
        .map(|i| {
            let status = ["unpaid", "paid", ""][usize::try_from(i % 3).unwrap()];
            argv![
                "ORDER.SCHEDULE",
                "q",
                format!("{}:{i}", i % 7),
                "PX",
                600_000,
                "STATUS",
                status
            ]
        })
        .collect();
    c.pipeline(&commands);
    let all = scan_all(&mut c, "q", &[]);
    assert_eq!(all.len(), 3000);
    assert_eq!(scan_all(&mut c, "q", &["COUNT", "1000"]).len(), 3000);
    assert_eq!(scan_all(&mut c, "q", &["STATUS", "paid"]).len(), 1000);
    assert_eq!(scan_all(&mut c, "q", &["STATUS", ""]).len(), 1000);
    assert_eq!(
        scan_all(&mut c, "q", &["STATE", "SCHEDULED", "STATUS", "nothing"]).len(),
        0
    );
    assert_eq!(scan_all(&mut c, "q", &["STATE", "expired"]).len(), 0);
    let threes = scan_all(&mut c, "q", &["MATCH", "3:*", "COUNT", "100"]);
    assert_eq!(threes.len(), (0..3000).filter(|i| i % 7 == 3).count());
    assert_eq!(
        scan_all(&mut c, "q", &["MATCH", "[12]:?"]).len(),
        4,
        "1:1 1:8 2:2 2:9"
    );

    // Orders that stay are met although others come and go meanwhile.
    let mut found = BTreeSet::new();
    let mut cursor = "0".to_owned();
    let mut round = 0;
    loop {
        let reply = cmd!(c, "ORDER.SCAN", "q", &cursor, "COUNT", 50);
        found.extend(
            reply.items()[1]
                .items()
                .iter()
                .map(|row| row.items()[0].text()),
        );
        cursor = match &reply.items()[0] {
            Value::Int(n) => n.to_string(),
            text => text.text(),
        };
        if cursor == "0" {
            break;
        }
        for i in 0..20 {
            let gone = 1500 + (round * 20 + i) % 1500;
            cmd!(
                c,
                "ORDER.FINISH",
                "q",
                format!("{}:{gone}", gone % 7),
                "KEEP",
                0
            );
            cmd!(
                c,
                "ORDER.SCHEDULE",
                "q",
                format!("new:{round}:{i}"),
                "PX",
                600_000
            );
        }
        round += 1;
    }
    for i in 0..1500_u64 {
        let id = format!("{}:{i}", i % 7);
        assert!(found.contains(&id), "{id} stayed and was never met");
    }
}

#[test]
fn stats_count_what_is_there_and_what_was_done() {
    let server = Server::plain();
    let mut c = server.client();
    for i in 0..6 {
        cmd!(
            c,
            "ORDER.SCHEDULE",
            "q",
            i,
            "PX",
            if i < 4 { 0 } else { 600_000 }
        )
        .order()
        .expect("OK");
    }
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 3).claims();
    cmd!(c, "ORDER.ACK", "q", &rows[0].id, rows[0].fence)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.NACK", "q", &rows[1].id, rows[1].fence, "DEAD")
        .order()
        .expect("OK");
    cmd!(c, "ORDER.FINISH", "q", 5).order().expect("OK");
    cmd!(c, "ORDER.ACK", "q", &rows[2].id, 5)
        .order()
        .expect("STALE");
    for (field, value) in [
        ("scheduled", 1),
        ("expired", 1),
        ("leased", 1),
        ("retrying", 0),
        ("dead", 1),
        ("finished", 2),
        ("reserved", 0),
        ("orders", 6),
        ("live_claims", 1),
        ("claim_waiters", 0),
        ("scheduled_total", 6),
        // By FINISH; who was acknowledged is counted on its own.
        ("finished_total", 1),
        ("claimed_total", 3),
        ("acked_total", 1),
        ("nacked_total", 1),
        ("lapsed_total", 0),
        ("stale_total", 1),
        ("behind_ms", 0),
    ] {
        assert_eq!(c.stat("q", field).int(), value, "{field}");
    }
    assert!(c.stat("q", "bytes").int() > 0);
    assert_eq!(c.stat("nothing here", "orders").int(), 0);
    assert_eq!(c.stat("nothing here", "next_deadline").int(), -1);
    let names: Vec<String> = cmd!(c, "ORDER.STATS", "q")
        .pairs()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    for name in [
        "next_deadline",
        "oldest_expired_ms",
        "behind_ms",
        "lateness_ms_p50",
        "lateness_ms_p99",
        "lateness_ms_max",
        "claim_wait_ms_p50",
        "claim_wait_ms_p99",
        "claim_wait_ms_max",
        "close_ms_p50",
        "close_ms_p99",
        "close_ms_max",
        "bytes",
        "dump_bytes",
        "dead_total",
        "dead_dropped_total",
        "lease-ms",
        "max-attempts",
        "backoff-ms",
        "backoff-ms-max",
        "keep-ms",
        "max-leased",
        "dead-max",
        "claims-per-s-max",
        "claims_held_back_total",
        "claim_limit_wait_ms",
    ] {
        assert!(
            names.iter().any(|n| n == name),
            "STATS lacks {name}: {names:?}"
        );
    }
    assert_eq!(
        names.len(),
        names.iter().collect::<BTreeSet<_>>().len(),
        "each name once: {names:?}"
    );
    assert_eq!(c.info("orderwheel", "orderwheel_panics_total"), "0");
    assert_eq!(c.info_number("orderwheel", "orderwheel_scheduled_total"), 6);
    assert_eq!(c.info_number("orderwheel", "orderwheel_claimed_total"), 3);
    assert_eq!(c.info_number("orderwheel", "orderwheel_queues"), 1);
    // One of which nothing but a setting is known counts as well.
    cmd!(c, "ORDER.CONFIG", "set", "SET", "keep-ms", 5000);
    assert_eq!(c.info_number("orderwheel", "orderwheel_queues"), 2);
    cmd!(c, "ORDER.CONFIG", "set", "RESET");
    assert_eq!(c.info_number("orderwheel", "orderwheel_queues"), 1);
}
