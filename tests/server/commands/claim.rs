//! CLAIM: the order of handing out, its bounds, one by id, the default lease.

use std::collections::BTreeSet;

use crate::support::{Claimed, SOON, Server, argv, cmd, wait_until};

#[test]
fn claim_hands_out_in_the_order_of_becoming_claimable() {
    let server = Server::plain();
    let mut c = server.client();
    let now = c.time_ms();
    // Due at different moments of the past, then one handed back.
    for (id, ago) in [("b", 2000), ("a", 3000), ("c", 1000)] {
        cmd!(
            c,
            "ORDER.SCHEDULE",
            "q",
            id,
            "PXAT",
            now - ago,
            "STATUS",
            "unpaid",
            "PAYLOAD",
            id
        )
        .order()
        .expect("OK");
    }
    for i in 0..5 {
        cmd!(c, "ORDER.SCHEDULE", "tie", i, "PXAT", now + 30)
            .order()
            .expect("OK");
    }
    wait_until(SOON, "all to fall due", || c.state("tie", "4") == "expired");
    let ties: Vec<String> = cmd!(c, "ORDER.CLAIM", "tie", "me", "COUNT", 10)
        .claims()
        .iter()
        .map(Claimed::id_text)
        .collect();
    assert_eq!(ties, ["0", "1", "2", "3", "4"], "ties go in schedule order");

    let first = cmd!(c, "ORDER.CLAIM", "q", "closer-1", "PX", 9000).claims();
    assert_eq!(first.len(), 1, "COUNT is 1 unless given");
    let row = &first[0];
    assert_eq!(
        (row.attempt, row.lease_ms, row.status.as_slice()),
        (1, 9000, &b"unpaid"[..])
    );
    assert_eq!(row.payload.as_deref(), Some(row.id.as_slice()));
    let order = c.order("q", &row.id_text());
    assert_eq!(
        (order.text("owner").as_str(), order.text("kind").as_str()),
        ("closer-1", "claim")
    );
    assert_eq!(
        (order.fence(), order.int("rev") as u64, order.int("attempt")),
        (row.fence, row.fence, 1)
    );
    assert!((8000..=9000).contains(&order.int("lease_ms")), "{order:?}");
    let reply = cmd!(c, "ORDER.NACK", "q", &row.id, row.fence, "DELAY", 0)
        .order()
        .expect("OK");
    assert_eq!(reply.state, "expired");
    let rest: Vec<_> = cmd!(c, "ORDER.CLAIM", "q", "closer-2", "EX", 9, "COUNT", 10).claims();
    assert_eq!(rest.len(), 3);
    assert_eq!(rest[2].id, row.id, "what was handed back goes to the end");
    assert_eq!((rest[2].attempt, rest[2].lease_ms), (2, 9000));
    let fences: Vec<u64> = rest.iter().map(|r| r.fence).collect();
    assert!(
        fences.is_sorted() && fences[0] > row.fence,
        "{fences:?} after {}",
        row.fence
    );
    assert_eq!(
        fences.iter().collect::<BTreeSet<_>>().len(),
        3,
        "each grant has a fence of its own"
    );
}

#[test]
fn claims_are_bounded_by_count_payload_and_max_leased() {
    let server = Server::plain();
    let mut c = server.client();
    let big = vec![b'x'; 65_536];
    let commands: Vec<_> = (0..40)
        .map(|i| {
            argv![
                "ORDER.SCHEDULE",
                "big",
                format!("{i:02}"),
                "PX",
                0,
                "PAYLOAD",
                &big
            ]
        })
        .collect();
    assert!(
        c.pipeline(&commands)
            .iter()
            .all(|reply| reply.order().outcome == "OK")
    );
    let mut seen = BTreeSet::new();
    while seen.len() < 40 {
        let rows = cmd!(c, "ORDER.CLAIM", "big", "me", "COUNT", 1000).claims();
        assert!(
            !rows.is_empty(),
            "never nothing while one is due; {} so far",
            seen.len()
        );
        let payload: usize = rows
            .iter()
            .map(|row| row.payload.as_ref().map_or(0, Vec::len))
            .sum();
        assert!(
            payload <= 1 << 20,
            "{payload} bytes of payload in one CLAIM"
        );
        seen.extend(rows.into_iter().map(|row| row.id));
    }
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "big", "me", "COUNT", 1000).claims(),
        []
    );

    for i in 0..5 {
        cmd!(c, "ORDER.SCHEDULE", "q", i, "PX", 0)
            .order()
            .expect("OK");
    }
    c.config("orderwheel.max-leased", "2");
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 5).claims();
    assert_eq!(rows.len(), 2);
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 5).claims(), []);
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "q", "me", "ID", 4).claims(),
        [],
        "by id neither"
    );
    cmd!(c, "ORDER.ACK", "q", &rows[0].id, rows[0].fence)
        .order()
        .expect("OK");
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 5).claims().len(),
        1
    );
    c.config("orderwheel.max-leased", "0");
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 5).claims().len(),
        2
    );
}

#[test]
fn claim_by_id_takes_that_one() {
    let server = Server::plain();
    let mut c = server.client();
    for id in ["1", "2", "3"] {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0)
            .order()
            .expect("OK");
    }
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "2", "PX", 5000).claims();
    assert_eq!(
        (rows.len(), rows[0].id_text().as_str(), rows[0].lease_ms),
        (1, "2", 5000)
    );
    let rest: Vec<String> = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 9)
        .claims()
        .iter()
        .map(Claimed::id_text)
        .collect();
    assert_eq!(rest, ["1", "3"]);
}

#[test]
fn the_default_lease_is_the_setting() {
    let server = Server::plain();
    let mut c = server.client();
    for (id, lease) in [("1", 30_000), ("2", 1234)] {
        if lease != 30_000 {
            c.config("orderwheel.lease-ms", &lease.to_string());
        }
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0)
            .order()
            .expect("OK");
        assert_eq!(
            cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].lease_ms,
            lease
        );
    }
}
