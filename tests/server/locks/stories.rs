//! Stories of a shop: a payment against the deadline, payments and creations in any
//! order, a request that is sent twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{LONG, lock, told, waiter};
use crate::support::states::expect_healthy;
use crate::support::{Client, Random, Server, argv, cmd};

#[test]
fn pay_against_deadline() {
    const ORDERS: u64 = 10_000;
    const PAYERS: u64 = 6;
    const CLOSERS: u64 = 3;
    let server = Server::plain();
    let mut c = server.client();
    let start = c.time_us() / 1000 + 2500;
    // One deadline a millisecond.
    let deadline = |i: u64| start + i;
    let schedule: Vec<_> = (0..ORDERS)
        .map(|i| {
            argv![
                "ORDER.SCHEDULE",
                "q",
                i,
                "PXAT",
                deadline(i),
                "STATUS",
                "unpaid"
            ]
        })
        .collect();
    for reply in c.pipeline(&schedule) {
        reply.order().expect("OK");
    }
    let seed = Random::new().next();
    let paid = Mutex::new(BTreeSet::new());
    let closed = Mutex::new(BTreeSet::new());
    let told = Mutex::new(BTreeMap::<String, u64>::new());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (paid, closed, told, over, server) = (&paid, &closed, &told, &over, &server);
        for payer in 0..PAYERS {
            scope.spawn(move || {
                let mut c = server.client();
                let mut random = Random::seeded(seed ^ payer);
                for i in (payer..ORDERS).step_by(PAYERS as usize) {
                    let at_us = (deadline(i) * 1000)
                        .saturating_add_signed(random.below(10_000) as i64 - 5000);
                    thread::sleep(Duration::from_micros(
                        at_us.saturating_sub(crate::support::wall_us()),
                    ));
                    // Some leases are so short that they lapse under the work.
                    let lease = if random.below(3) == 0 { 3 } else { 10_000 };
                    let locked =
                        cmd!(c, "ORDER.LOCK", "q", i, format!("pay:{i}"), "PX", lease).lease();
                    let how = if locked.outcome == "OK" {
                        thread::sleep(Duration::from_micros(random.below(5000)));
                        let reply = cmd!(
                            c,
                            "ORDER.FINISH",
                            "q",
                            i,
                            "FENCE",
                            locked.fence,
                            "FROM",
                            "unpaid",
                            "STATUS",
                            "paid",
                            "RESULT",
                            format!("pay:{i}")
                        )
                        .order();
                        if reply.outcome == "OK" {
                            assert!(paid.lock().unwrap().insert(i), "{i} is paid twice");
                        } else {
                            assert!(lease == 3, "a lock that lives is not lost: {reply:?}");
                            assert!(
                                matches!(reply.outcome.as_str(), "STALE" | "FINISHED"),
                                "{reply:?}"
                            );
                        }
                        format!("FINISH FENCE {}", reply.outcome)
                    } else if random.below(2) == 0 {
                        // Late, and tries it without a lock.
                        let reply = cmd!(
                            c,
                            "ORDER.FINISH",
                            "q",
                            i,
                            "FROM",
                            "unpaid",
                            "STATUS",
                            "paid"
                        )
                        .order();
                        if reply.outcome == "OK" {
                            assert!(paid.lock().unwrap().insert(i), "{i} is paid twice");
                        } else {
                            assert!(
                                matches!(reply.outcome.as_str(), "LEASED" | "FINISHED"),
                                "{reply:?}"
                            );
                        }
                        format!("LOCK {}, FINISH {}", locked.outcome, reply.outcome)
                    } else {
                        assert!(
                            matches!(locked.outcome.as_str(), "EXPIRED" | "BUSY" | "FINISHED"),
                            "{locked:?}"
                        );
                        format!("LOCK {}", locked.outcome)
                    };
                    *told.lock().unwrap().entry(how).or_default() += 1;
                }
            });
        }
        for closer in 0..CLOSERS {
            scope.spawn(move || {
                let mut c = server.client();
                let mut random = Random::seeded(seed ^ (100 + closer));
                while !over.load(Ordering::Relaxed) {
                    // One of them is so slow that others take its orders, or payers do.
                    let lease = if closer == 0 { 2 } else { 10_000 };
                    let rows = cmd!(
                        c,
                        "ORDER.CLAIM",
                        "q",
                        format!("closer-{closer}"),
                        "PX",
                        lease,
                        "COUNT",
                        1 + random.below(20),
                        "BLOCK",
                        50
                    )
                    .claims();
                    for row in rows {
                        let id: u64 = row.id_text().parse().unwrap();
                        assert!(
                            crate::support::wall_us() >= row.deadline * 1000,
                            "{id} is early"
                        );
                        if random.below(8) == 0 {
                            thread::sleep(Duration::from_micros(random.below(5000)));
                        }
                        let reply = cmd!(
                            c,
                            "ORDER.ACK",
                            "q",
                            id,
                            row.fence,
                            "FROM",
                            "unpaid",
                            "STATUS",
                            "closed"
                        )
                        .order();
                        if reply.outcome == "OK" {
                            assert!(closed.lock().unwrap().insert(id), "{id} is closed twice");
                        } else {
                            assert!(lease == 2, "a claim that lives is not lost: {reply:?}");
                            assert!(
                                matches!(reply.outcome.as_str(), "STALE" | "FINISHED"),
                                "{reply:?}"
                            );
                        }
                        *told
                            .lock()
                            .unwrap()
                            .entry(format!("ACK {}", reply.outcome))
                            .or_default() += 1;
                    }
                }
            });
        }
        // However this ends, the closers stop.
        let until = Instant::now() + Duration::from_mins(2);
        while c.stat("q", "finished").int() < ORDERS as i64 && Instant::now() < until {
            thread::sleep(Duration::from_millis(50));
        }
        over.store(true, Ordering::Relaxed);
    });
    let (paid, closed, told) = (
        paid.into_inner().unwrap(),
        closed.into_inner().unwrap(),
        told.into_inner().unwrap(),
    );
    eprintln!("{} paid, {} closed, {told:?}", paid.len(), closed.len());
    assert_eq!(paid.intersection(&closed).count(), 0, "none is both");
    assert_eq!(
        paid.len() + closed.len(),
        ORDERS as usize,
        "none is neither"
    );
    assert!(!paid.is_empty() && !closed.is_empty());
    let gets: Vec<_> = (0..ORDERS).map(|i| argv!["ORDER.GET", "q", i]).collect();
    for (i, reply) in c.pipeline(&gets).iter().enumerate() {
        let order = reply.get().unwrap();
        let expected = if paid.contains(&(i as u64)) {
            "paid"
        } else {
            "closed"
        };
        assert_eq!(
            (order.text("status").as_str(), order.state().as_str()),
            (expected, "finished"),
            "{i}"
        );
    }
    expect_healthy(&server);
}

#[test]
fn payments_and_creations_in_any_order() {
    let server = Server::plain();
    let mut c = server.client();
    // Created, paid, created again by a message that was delivered twice.
    let create = |c: &mut Client, id: &str| {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", LONG, "STATUS", "unpaid").order()
    };
    create(&mut c, "1").expect("OK");
    create(&mut c, "1").expect("EXISTS");
    let fence = lock(&mut c, "q", "1", "pay:1");
    create(&mut c, "1").expect("EXISTS");
    cmd!(
        c,
        "ORDER.FINISH",
        "q",
        "1",
        "FENCE",
        fence,
        "FROM",
        "unpaid",
        "STATUS",
        "paid",
        "RESULT",
        "pay:1"
    )
    .order()
    .expect("OK");
    let reply = create(&mut c, "1").expect("FINISHED");
    assert_eq!(
        (reply.result.as_deref(), reply.status_text().as_str()),
        (Some(&b"pay:1"[..]), "paid")
    );
    // Paid before it was created.
    let reply = cmd!(
        c,
        "ORDER.FINISH",
        "q",
        "2",
        "CREATE",
        "STATUS",
        "paid",
        "RESULT",
        "pay:2"
    )
    .order()
    .expect("OK");
    assert_eq!(reply.was, "missing");
    let reply = create(&mut c, "2").expect("FINISHED");
    assert_eq!(reply.result.as_deref(), Some(&b"pay:2"[..]));
    // The same callback twice, and another payment: the result tells which.
    for (payment, same) in [("pay:1", true), ("card:7", false)] {
        let reply = cmd!(
            c,
            "ORDER.FINISH",
            "q",
            "1",
            "CREATE",
            "STATUS",
            "paid",
            "RESULT",
            payment
        )
        .order()
        .expect("FINISHED");
        assert_eq!(
            reply.result.as_deref() == Some(payment.as_bytes()),
            same,
            "{reply:?}"
        );
        let reply = cmd!(c, "ORDER.LOCK", "q", "1", payment, "PX", 1000)
            .lease()
            .expect("FINISHED");
        assert_eq!(
            reply.result.as_deref() == Some(payment.as_bytes()),
            same,
            "{reply:?}"
        );
    }
    // A webhook without the fence repeats the LOCK with the payment as owner.
    create(&mut c, "3").expect("OK");
    let fence = lock(&mut c, "q", "3", "pay:3");
    assert_eq!(
        cmd!(c, "ORDER.LOCK", "q", "3", "pay:3", "PX", 1000)
            .lease()
            .expect("HELD")
            .fence,
        fence
    );
    cmd!(c, "ORDER.LOCK", "q", "3", "card:8", "PX", 1000)
        .lease()
        .expect("BUSY");
}

#[test]
fn one_request_is_run_once() {
    let server = Server::plain();
    let mut c = server.client();
    let ask = |c: &mut Client, owner: &str, hash: &str| {
        cmd!(
            c,
            "ORDER.LOCK",
            "idem",
            "1001:3:pay",
            owner,
            "PX",
            30_000,
            "FP",
            hash
        )
        .lease()
    };
    let fence = ask(&mut c, "w1", "aaaa").expect("OK").fence;
    ask(&mut c, "w2", "aaaa").expect("BUSY");
    ask(&mut c, "w2", "bbbb").expect("MISMATCH");
    assert_eq!(ask(&mut c, "w1", "aaaa").expect("HELD").fence, fence);
    ask(&mut c, "w1", "bbbb").expect("MISMATCH");
    let mut waits = waiter(&server, "idem", "1001:3:pay", "w3", &["FP", "aaaa"]);
    let done = cmd!(
        c,
        "ORDER.ACK",
        "idem",
        "1001:3:pay",
        fence,
        "STATUS",
        "done",
        "RESULT",
        "receipt",
        "KEEP",
        86_400_000
    )
    .order();
    assert_eq!(
        (
            done.clone().expect("OK").state.as_str(),
            done.status_text().as_str()
        ),
        ("finished", "done")
    );
    let reply = told(&mut waits).expect("FINISHED");
    assert_eq!(reply.result.as_deref(), Some(&b"receipt"[..]));
    for _ in 0..2 {
        let reply = ask(&mut c, "w2", "aaaa").expect("FINISHED");
        assert_eq!(
            (reply.result.as_deref(), reply.status.as_deref()),
            (Some(&b"receipt"[..]), Some(&b"done"[..]))
        );
        ask(&mut c, "w2", "bbbb").expect("MISMATCH");
        cmd!(c, "DEBUG", "RELOAD").ok();
    }
    // Given up: the next one runs it.
    let fence = cmd!(
        c,
        "ORDER.LOCK",
        "idem",
        "other",
        "w1",
        "PX",
        30_000,
        "FP",
        "aaaa"
    )
    .lease()
    .expect("OK")
    .fence;
    cmd!(c, "ORDER.UNLOCK", "idem", "other", fence)
        .lease()
        .expect("OK");
    cmd!(
        c,
        "ORDER.LOCK",
        "idem",
        "other",
        "w2",
        "PX",
        30_000,
        "FP",
        "bbbb"
    )
    .lease()
    .expect("OK");
    // Who waits with another request is told so when it comes to it.
    let fence = lock(&mut c, "idem", "third", "w1");
    let mut waits = waiter(&server, "idem", "third", "w2", &["FP", "aaaa"]);
    let mut mine = waiter(&server, "idem", "third", "w3", &["FP", "bbbb"]);
    cmd!(c, "ORDER.UNLOCK", "idem", "third", fence)
        .lease()
        .expect("OK");
    told(&mut waits).expect("OK");
    told(&mut mine).expect("MISMATCH");
}
