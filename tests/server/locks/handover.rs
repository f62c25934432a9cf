//! The hand-over of a lock: at its end or when it is broken, not before, and at once.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use super::{HANDED_OVER, LONG, ahead, lock, run, still_waits, told, waiter};
use crate::support::states::expect_healthy;
use crate::support::{Client, SOON, Server, args, argv, cmd, wait_until};

#[test]
fn a_lock_is_handed_over_on_lapse_without_other_traffic() {
    let server = Server::plain();
    let mut c = server.client();
    for made in [true, false] {
        let id = format!("{made}");
        if made {
            ahead(&mut c, "q", &id);
        }
        let granted = Instant::now();
        let fence = cmd!(c, "ORDER.LOCK", "q", &id, "a", "PX", 300)
            .lease()
            .expect("OK")
            .fence;
        let answered = Instant::now();
        let mut next = server.client();
        next.send(&args!["ORDER.LOCK", "q", &id, "b", "PX", 200, "BLOCK", 0]);
        let mut after = server.client();
        after.send(&args!["ORDER.LOCK", "q", &id, "c", "PX", 200, "BLOCK", 0]);
        let reply = next.read().lease().expect("OK");
        assert!(
            granted.elapsed() >= Duration::from_millis(299),
            "not before its end"
        );
        assert!(answered.elapsed() < Duration::from_millis(300) + HANDED_OVER);
        assert!(reply.fence > fence && reply.lease_ms > 100, "{reply:?}");
        let last = after.read().lease().expect("OK");
        assert!(last.fence > reply.fence);
        wait_until(SOON, "the last one to lapse", || {
            c.state("q", &id) != "leased" && c.state("q", &id) != "reserved"
        });
    }
    expect_healthy(&server);
}

#[test]
fn a_renewed_lock_is_not_handed_over_early() {
    let server = Server::plain();
    let mut c = server.client();
    let began = Instant::now();
    let fence = cmd!(c, "ORDER.LOCK", "q", "1", "a", "PX", 200)
        .lease()
        .expect("OK")
        .fence;
    let mut next = waiter(&server, "q", "1", "b", &[]);
    let mut ends = Duration::ZERO;
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(50));
        let asked = began.elapsed();
        if cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 400)
            .lease()
            .outcome
            == "OK"
        {
            ends = asked + Duration::from_millis(400);
        }
    }
    told(&mut next).expect("OK");
    assert!(
        began.elapsed() >= ends,
        "{:?} is before {ends:?}",
        began.elapsed()
    );
}

#[test]
fn a_shortened_lock_is_handed_over_then() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let fence = lock(&mut c, "q", "1", "a");
    let mut next = waiter(&server, "q", "1", "b", &[]);
    still_waits(&mut next);
    let began = Instant::now();
    cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 50, "LT")
        .lease()
        .expect("OK");
    told(&mut next).expect("OK");
    assert!(began.elapsed() >= Duration::from_millis(49));
    assert!(began.elapsed() < Duration::from_millis(50) + HANDED_OVER);
}

#[test]
fn many_locks_that_end_together_are_all_handed_over() {
    const LOCKS: usize = 150;
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "SELECT", 9).ok();
    let take = |i: usize, owner: &str| {
        argv![
            "ORDER.LOCK",
            "q",
            format!("{i}"),
            owner,
            "PX",
            LONG,
            "BLOCK",
            0
        ]
    };
    let fences: Vec<u64> = (0..LOCKS)
        .map(|i| c.run(&take(i, "a")).lease().expect("OK").fence)
        .collect();
    let mut waiting: Vec<Client> = (0..LOCKS)
        .map(|i| {
            let mut client = server.client();
            cmd!(client, "SELECT", 9).ok();
            client.send(&take(i, "b"));
            client
        })
        .collect();
    wait_until(SOON, "all to wait", || {
        c.stat("q", "lock_waiters").int() == LOCKS as i64
    });
    assert_eq!(
        c.info_number("orderwheel", "orderwheel_lock_waiters"),
        LOCKS as i64
    );
    // Half by release and half by lapse, each within one turn.
    let mut ends = vec![argv!["MULTI"]];
    for (i, fence) in fences.iter().enumerate() {
        ends.push(if i % 2 == 0 {
            argv!["ORDER.UNLOCK", "q", format!("{i}"), fence]
        } else {
            argv!["ORDER.RENEW", "q", format!("{i}"), fence, "PX", 30, "LT"]
        });
    }
    ends.push(argv!["EXEC"]);
    c.pipeline(&ends);
    let began = Instant::now();
    let mut seen = BTreeSet::new();
    for (client, fence) in waiting.iter_mut().zip(&fences) {
        let reply = client.read().lease().expect("OK");
        assert!(
            reply.fence > *fence && seen.insert(reply.fence),
            "each its own grant"
        );
    }
    assert!(began.elapsed() < HANDED_OVER * 2, "{:?}", began.elapsed());
    // And all of one line at once.
    for (i, client) in waiting.iter_mut().enumerate() {
        client.send(&args![
            "ORDER.LOCK",
            "q",
            "one",
            format!("w{i}"),
            "PX",
            LONG,
            "BLOCK",
            0
        ]);
    }
    wait_until(SOON, "all to wait", || {
        c.stat("q", "lock_waiters").int() == LOCKS as i64 - 1
    });
    let fence = c.order("q", "one").fence();
    cmd!(c, "ORDER.ACK", "q", "one", fence, "RESULT", "r")
        .order()
        .expect("OK");
    let outcomes: Vec<String> = waiting
        .iter_mut()
        .map(|client| client.read().lease().outcome)
        .collect();
    assert_eq!(outcomes.iter().filter(|word| *word == "OK").count(), 1);
    assert_eq!(
        outcomes.iter().filter(|word| *word == "FINISHED").count(),
        LOCKS - 1
    );
    expect_healthy(&server);
}

#[test]
fn a_break_hands_over_and_makes_the_holder_stale() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let fence = lock(&mut c, "q", "1", "a");
    let mut next = waiter(&server, "q", "1", "b", &[]);
    cmd!(c, "ORDER.BREAK", "q", "1", fence + 1)
        .lease()
        .expect("STALE");
    still_waits(&mut next);
    cmd!(c, "ORDER.BREAK", "q", "1", fence).lease().expect("OK");
    assert!(told(&mut next).expect("OK").fence > fence);
    for command in [
        "ORDER.UNLOCK $q 1 $f",
        "ORDER.RENEW $q 1 $f PX 10",
        "ORDER.ACK $q 1 $f",
        "ORDER.NACK $q 1 $f",
        "ORDER.FINISH $q 1 FENCE $f",
    ] {
        assert_eq!(
            run(&mut c, command, "q", fence).items()[0].text(),
            "STALE",
            "{command}"
        );
    }
}

#[test]
fn unlock_and_break_of_a_claim() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "ORDER.CONFIG", "q", "SET", "max-attempts", 2).ok();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
        .order()
        .expect("OK");
    let first = cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].fence;
    cmd!(c, "ORDER.UNLOCK", "q", "1", first)
        .lease()
        .expect("OK");
    let second = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
    assert_eq!(second.attempt, 1, "offered again at once, untried");
    cmd!(c, "ORDER.BREAK", "q", "1").lease().expect("OK");
    let second = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
    assert_eq!(second.attempt, 2, "BREAK counts as a failed try");
    let reply = cmd!(c, "ORDER.BREAK", "q", "1").lease().expect("OK");
    assert_eq!(reply.state, "dead", "the last try has failed");
    cmd!(c, "ORDER.ACK", "q", "1", second.fence)
        .order()
        .expect("STALE");
    assert_eq!(cmd!(c, "ORDER.REQUEUE", "q").items()[0].int(), 1);
    let row = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
    assert_eq!(row.attempt, 1);
    cmd!(c, "ORDER.BREAK", "q", "1").lease().expect("OK");
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].attempt,
        2,
        "BREAK counts as a failed try"
    );
}
