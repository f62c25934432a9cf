//! ACK, MACK, NACK and RENEW: what comes after a claim.

use std::time::Duration;

use crate::support::{Client, SOON, Server, Value, argv, cmd, wait_until};

#[test]
fn ack_sets_status_and_result_and_checks_from() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0, "STATUS", "unpaid")
        .order()
        .expect("OK");
    let fence = cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].fence;
    let before = c.digest("q");
    cmd!(
        c,
        "ORDER.ACK",
        "q",
        "1",
        fence,
        "FROM",
        "paid",
        "STATUS",
        "closed"
    )
    .order()
    .expect("STATE");
    assert_eq!(c.digest("q"), before);
    let reply = cmd!(
        c,
        "ORDER.ACK",
        "q",
        "1",
        fence,
        "FROM",
        "paid",
        "FROM",
        "unpaid",
        "STATUS",
        "closed",
        "RESULT",
        "r"
    );
    let reply = reply.order().expect("OK");
    assert_eq!(
        (reply.was.as_str(), reply.status_text().as_str()),
        ("leased", "closed")
    );
    let again = cmd!(c, "ORDER.ACK", "q", "1", fence)
        .order()
        .expect("FINISHED");
    assert_eq!(
        again.result.as_deref(),
        Some(&b"r"[..]),
        "a redelivered ACK learns what happened"
    );
}

#[test]
fn mack_answers_for_each_pair() {
    let server = Server::plain();
    let mut c = server.client();
    for i in 0..4 {
        cmd!(
            c,
            "ORDER.SCHEDULE",
            "q",
            i,
            "PX",
            0,
            "STATUS",
            if i == 3 { "paid" } else { "unpaid" }
        )
        .order()
        .expect("OK");
    }
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 9).claims();
    let mut command = argv!["ORDER.MACK", "q", 6];
    for row in &rows {
        command.extend(argv![&row.id, row.fence]);
    }
    command.extend(argv![
        &rows[0].id,
        rows[0].fence,
        "nobody",
        5,
        "FROM",
        "unpaid",
        "STATUS",
        "closed"
    ]);
    let words: Vec<String> = c.run(&command).items().iter().map(Value::text).collect();
    assert_eq!(words, ["OK", "OK", "OK", "STATE", "FINISHED", "MISSING"]);
    assert_eq!(c.order("q", "1").text("status"), "closed");
    assert_eq!(c.state("q", "3"), "leased");
    // A thousand at once.
    let commands: Vec<_> = (0..1000)
        .map(|i| argv!["ORDER.SCHEDULE", "k", i, "PX", 0])
        .collect();
    c.pipeline(&commands);
    let rows = cmd!(c, "ORDER.CLAIM", "k", "me", "COUNT", 1000).claims();
    assert_eq!(rows.len(), 1000);
    let mut command = argv!["ORDER.MACK", "k", 1000];
    for row in &rows {
        command.extend(argv![&row.id, row.fence]);
    }
    command.extend(argv!["KEEP", 0]);
    assert!(
        c.run(&command)
            .items()
            .iter()
            .all(|word| word.text() == "OK")
    );
    assert_eq!(cmd!(c, "EXISTS", "k").int(), 0);
}

#[test]
fn nack_waits_its_delay_or_the_backoff() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
        .order()
        .expect("OK");
    let fence = cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].fence;
    let before = c.time_us();
    let reply = cmd!(
        c,
        "ORDER.NACK",
        "q",
        "1",
        fence,
        "DELAY",
        60,
        "ERROR",
        "gateway \r\n down"
    )
    .order()
    .expect("OK");
    assert_eq!(
        (reply.was.as_str(), reply.state.as_str(), reply.lease_ms),
        ("leased", "retrying", -2)
    );
    let order = c.order("q", "1");
    assert_eq!(order.field("error").bytes(), b"gateway \r\n down");
    let retry_at = order.int("retry_at") as u64;
    assert!(retry_at >= before / 1000 + 60, "{retry_at} after {before}");
    // Not handed out before, and then with the next attempt.
    let row = loop {
        let rows = cmd!(c, "ORDER.CLAIM", "q", "me").claims();
        if let [row] = rows.as_slice() {
            assert!(
                c.time_us() >= before + 60_000,
                "handed out before its delay was over"
            );
            break row.clone();
        }
        assert!(c.time_us() < before + 20_000_000, "never handed out again");
    };
    assert_eq!(row.attempt, 2);
    assert!(row.fence > fence);

    // The backoff, 10 % either way: 1000 ms doubling with each attempt.
    let expect_wait = |c: &mut Client, id: &str, fence: u64, wait: u64| {
        let before = c.time_ms();
        cmd!(c, "ORDER.NACK", "q", id, fence).order().expect("OK");
        let after = c.time_ms();
        let retry_at = c.order("q", id).int("retry_at") as u64;
        let (least, most) = (before + wait * 9 / 10, after + 1 + wait * 11 / 10);
        assert!(
            (least..=most).contains(&retry_at),
            "{} ms for {wait}",
            retry_at - before
        );
    };
    expect_wait(&mut c, "1", row.fence, 2000);
    // Up to its limit; with small settings, for time can not be hurried.
    c.config("orderwheel.backoff-ms", "20");
    c.config("orderwheel.backoff-ms-max", "50");
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 0)
        .order()
        .expect("OK");
    for (attempt, wait) in [(1, 20), (2, 40), (3, 50), (4, 50)] {
        let mut rows = Vec::new();
        wait_until(SOON, "the next attempt", || {
            rows = cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "2").claims();
            !rows.is_empty()
        });
        assert_eq!(rows[0].attempt, attempt);
        expect_wait(&mut c, "2", rows[0].fence, wait);
    }
}

#[test]
fn renew_lengthens_and_lt_shortens() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0, "STATUS", "unpaid")
        .order()
        .expect("OK");
    let fence = cmd!(c, "ORDER.CLAIM", "q", "me", "PX", 20_000).claims()[0].fence;
    let reply = cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 40_000)
        .lease()
        .expect("OK");
    assert!((39_000..=40_000).contains(&reply.lease_ms), "{reply:?}");
    assert_eq!(
        (reply.fence, reply.state.as_str(), reply.holds),
        (fence, "leased", 1)
    );
    assert_eq!(reply.status.as_deref(), Some(&b"unpaid"[..]));
    // Without LT never shorter, with LT never longer.
    let reply = cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 10_000)
        .lease()
        .expect("OK");
    assert!((35_000..=40_000).contains(&reply.lease_ms), "{reply:?}");
    let reply = cmd!(c, "ORDER.RENEW", "q", "1", fence, "EX", 60, "LT")
        .lease()
        .expect("OK");
    assert!((30_000..=40_000).contains(&reply.lease_ms), "{reply:?}");
    let reply = cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 5000, "LT")
        .lease()
        .expect("OK");
    assert!((1..=5000).contains(&reply.lease_ms), "{reply:?}");
    // Shortened to nothing it lapses and is offered again.
    cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 1, "LT")
        .lease()
        .expect("OK");
    wait_until(SOON, "the lapse", || c.state("q", "1") == "expired");
    cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 1000)
        .lease()
        .expect("GONE");
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].attempt, 2);
    // A cap counted from the grant.
    c.config("orderwheel.lease-ms-max", "50000");
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 0)
        .order()
        .expect("OK");
    let fence = cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "2", "PX", 40_000).claims()[0].fence;
    let granted = c.time_ms();
    std::thread::sleep(Duration::from_millis(20));
    let reply = cmd!(c, "ORDER.RENEW", "q", "2", fence, "PX", 50_000)
        .lease()
        .expect("OK");
    assert!(
        reply.lease_ms < 50_000,
        "past its cap: {reply:?} {} ms after the grant",
        c.time_ms() - granted
    );
    assert!(reply.lease_ms > 30_000, "{reply:?}");
}
