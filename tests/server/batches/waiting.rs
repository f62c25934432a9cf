//! Who waits for an order, or for the lock of one, is told when a batch brings it on.

use super::{outcomes, run};
use crate::support::states::expect_healthy;
use crate::support::{Client, SOON, Server, cmd, wait_until};

/// A client that waits in this command.
#[track_caller]
fn waiter(server: &Server, line: &str) -> Client {
    let (mut c, mut client) = (server.client(), server.client());
    let before = c.blocked_clients();
    client.send(&super::words(line));
    wait_until(SOON, "the client to wait", || c.blocked_clients() > before);
    client
}

#[test]
fn orders_that_are_due_at_once_go_to_claimers_that_wait() {
    let server = Server::plain();
    let mut c = server.client();
    let mut waiting: Vec<Client> = (0..3)
        .map(|n| {
            waiter(
                &server,
                &format!("ORDER.CLAIM q w{n} BLOCK 60000 PX 600000"),
            )
        })
        .collect();
    assert_eq!(
        run(&mut c, "ORDER.MSCHEDULE q PX 3 a 600000 b 0 c 0"),
        ["OK"; 3]
    );
    let mut fences = Vec::new();
    for (client, id) in waiting.iter_mut().zip(["b", "c"]) {
        let rows = client.read().claims();
        assert_eq!((rows.len(), rows[0].id_text().as_str()), (1, id));
        fences.push(rows[0].fence);
    }
    // Handed back at once, one of them goes to the one that still waits.
    let reply = cmd!(
        c,
        "ORDER.MNACK",
        "q",
        2,
        "b",
        fences[0],
        "c",
        fences[1],
        "DELAY",
        0
    );
    assert_eq!(outcomes(&reply), ["OK"; 2]);
    let rows = waiting[2].read().claims();
    assert_eq!((rows.len(), rows[0].attempt), (1, 2));
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 9).claims().len(),
        1
    );
    expect_healthy(&server);
}

#[test]
fn who_waits_for_a_lock_is_told_what_a_batch_did_to_its_order() {
    let server = Server::plain();
    let mut c = server.client();
    let ids = ["gone", "kept", "short", "other"];
    run(
        &mut c,
        "ORDER.MSCHEDULE q PX 4 gone 600000 kept 600000 short 600000 other 600000 STATUS unpaid",
    );
    let fences = ids.map(|id| {
        let reply = cmd!(c, "ORDER.LOCK", "q", id, "payer", "PX", 500_000).lease();
        reply.expect("OK").fence
    });
    let mut waiting = ids.map(|id| {
        waiter(
            &server,
            &format!("ORDER.LOCK q {id} second PX 600000 BLOCK 0"),
        )
    });
    // Forgotten at once, and kept: both are told that it is finished, and how.
    let reply = cmd!(
        c,
        "ORDER.MACK",
        "q",
        "STATUSES",
        2,
        "gone",
        fences[0],
        "closed",
        "other",
        7,
        "paid",
        "KEEP",
        0
    );
    assert_eq!(outcomes(&reply), ["OK", "STALE"]);
    let told = waiting[0].read().lease().expect("FINISHED");
    assert_eq!(told.status.as_deref(), Some(&b"closed"[..]));
    let reply = cmd!(c, "ORDER.MACK", "q", 1, "kept", fences[1], "STATUS", "paid");
    assert_eq!(outcomes(&reply), ["OK"]);
    let told = waiting[1].read().lease().expect("FINISHED");
    assert_eq!(told.status.as_deref(), Some(&b"paid"[..]));
    // Made shorter, a lock ends sooner, and the next one has it.
    let reply = cmd!(
        c,
        "ORDER.MRENEW",
        "q",
        2,
        "none",
        7,
        "short",
        fences[2],
        "PX",
        5,
        "LT"
    );
    assert_eq!(outcomes(&reply), ["MISSING", "OK"]);
    let told = waiting[2].read().lease().expect("OK");
    assert!(told.fence > fences[2]);
    // And who waits for what no batch has touched still waits.
    let quiet = std::time::Duration::from_millis(60);
    assert_eq!(waiting[3].read_within(quiet), None);
    cmd!(c, "ORDER.UNLOCK", "q", "other", fences[3])
        .lease()
        .expect("OK");
    waiting[3].read().lease().expect("OK");
    expect_healthy(&server);
}

#[test]
fn a_live_lock_keeps_a_batch_away_until_its_holder_ends_it() {
    let server = Server::plain();
    let mut c = server.client();
    run(&mut c, "ORDER.MSCHEDULE q PX 2 a 600000 b 600000");
    for id in ["a", "b"] {
        cmd!(c, "ORDER.LOCK", "q", id, "payer", "PX", 500_000)
            .lease()
            .expect("OK");
    }
    let mut first = waiter(&server, "ORDER.LOCK q a second PX 1000 BLOCK 0");
    let mut second = waiter(&server, "ORDER.LOCK q b second PX 1000 BLOCK 0");
    // Under a lock nothing happens to them.
    assert_eq!(run(&mut c, "ORDER.MFINISH q 2 a b"), ["LEASED"; 2]);
    assert_eq!(
        run(&mut c, "ORDER.MSCHEDULE q PX 2 a 5 b 5 XX"),
        ["LEASED"; 2]
    );
    let fences = ["a", "b"].map(|id| c.order("q", id).fence());
    let reply = cmd!(
        c,
        "ORDER.MACK",
        "q",
        2,
        "a",
        fences[0],
        "b",
        fences[1],
        "KEEP",
        0
    );
    assert_eq!(outcomes(&reply), ["OK"; 2]);
    first.read().lease().expect("FINISHED");
    second.read().lease().expect("FINISHED");
    expect_healthy(&server);
}
