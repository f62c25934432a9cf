//! Many clients at the same orders: each is handed out once, and decided once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::{Random, SOON, Server, argv, cmd, wait_until, wall_us};

#[test]
fn many_waiting_claimers_share_a_burst_without_a_duplicate() {
    const CLAIMERS: usize = 64;
    const ORDERS: usize = 1000;
    let server = Server::plain();
    let mut c = server.client();
    let delivered = Arc::new(Mutex::new(Vec::<(String, u64)>::new()));
    let done = Arc::new(AtomicBool::new(false));
    let empty = Arc::new(AtomicUsize::new(0));
    let mut ids = Vec::new();
    let mut threads = Vec::new();
    for i in 0..CLAIMERS {
        let mut client = server.client();
        ids.push(client.id());
        let (delivered, done, empty) = (delivered.clone(), done.clone(), empty.clone());
        threads.push(thread::spawn(move || {
            loop {
                let rows = cmd!(
                    client,
                    "ORDER.CLAIM",
                    "q",
                    format!("c{i}"),
                    "COUNT",
                    3,
                    "BLOCK",
                    0
                )
                .claims();
                let now = wall_us();
                if rows.is_empty() {
                    if done.load(Ordering::SeqCst) {
                        return;
                    }
                    empty.fetch_add(1, Ordering::SeqCst);
                }
                let mut delivered = delivered.lock().unwrap();
                for row in rows {
                    assert!(now >= row.deadline * 1000, "early");
                    delivered.push((row.id_text(), row.fence));
                }
            }
        }));
    }
    wait_until(SOON, "all claimers to wait", || {
        c.blocked_clients() == CLAIMERS as i64
    });
    let at = c.time_ms() + 400;
    let commands: Vec<_> = (0..ORDERS)
        .map(|i| argv!["ORDER.SCHEDULE", "q", i, "PXAT", at])
        .collect();
    assert!(
        c.pipeline(&commands)
            .iter()
            .all(|reply| reply.order().outcome == "OK")
    );
    wait_until(SOON, "all orders to be delivered", || {
        delivered.lock().unwrap().len() >= ORDERS
    });
    wait_until(SOON, "all claimers to wait again", || {
        c.blocked_clients() == CLAIMERS as i64
    });
    done.store(true, Ordering::SeqCst);
    for id in ids {
        assert_eq!(cmd!(c, "CLIENT", "UNBLOCK", id).int(), 1);
    }
    for thread in threads {
        thread.join().unwrap();
    }
    let delivered = delivered.lock().unwrap();
    assert_eq!(delivered.len(), ORDERS, "as many deliveries as orders");
    assert_eq!(
        delivered
            .iter()
            .map(|d| &d.0)
            .collect::<BTreeSet<_>>()
            .len(),
        ORDERS,
        "no order twice"
    );
    assert_eq!(
        delivered.iter().map(|d| d.1).collect::<BTreeSet<_>>().len(),
        ORDERS,
        "no fence twice"
    );
    assert_eq!(
        empty.load(Ordering::SeqCst),
        0,
        "nobody was woken with nothing"
    );
    assert_eq!(c.stat("q", "claim_waiters").int(), 0);
    assert_eq!(c.stat("q", "leased").int(), ORDERS as i64);
}

#[test]
fn of_paid_and_claimed_exactly_one_happens() {
    const ORDERS: usize = 20_000;
    let server = Server::plain();
    let mut random = Random::new();
    let mut c = server.client();
    // Ten orders fall due every millisecond; a payment comes for each within
    // two milliseconds before or after.
    let base = c.time_ms() + 1500;
    let deadline = |i: usize| base + (i / 10) as u64;
    let commands: Vec<_> = (0..ORDERS)
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
    assert!(
        c.pipeline(&commands)
            .iter()
            .all(|reply| reply.order().outcome == "OK")
    );
    let mut payments: Vec<(u64, usize)> = (0..ORDERS)
        .map(|i| (deadline(i) * 1000 + random.below(4001) - 2000, i))
        .collect();
    payments.sort_unstable();

    let all_paid = Arc::new(AtomicBool::new(false));
    let no_more = all_paid.clone();
    let mut closer = server.client();
    let claiming = thread::spawn(move || {
        let mut claimed: BTreeMap<usize, u64> = BTreeMap::new();
        loop {
            // Taken before the claim: when it was set, nothing is left after an empty answer.
            let last = no_more.load(Ordering::SeqCst);
            let rows = cmd!(
                closer,
                "ORDER.CLAIM",
                "q",
                "closer",
                "PX",
                600_000,
                "COUNT",
                100,
                "BLOCK",
                5
            )
            .claims();
            let now = wall_us();
            if rows.is_empty() && last {
                return claimed;
            }
            for row in rows {
                assert!(now >= row.deadline * 1000);
                assert!(
                    claimed
                        .insert(row.id_text().parse().unwrap(), row.fence)
                        .is_none(),
                    "{row:?} twice"
                );
            }
        }
    });

    let mut shop = server.client();
    let mut paid = BTreeSet::new();
    let mut refused = BTreeSet::new();
    let mut next = 0;
    while next < ORDERS {
        let now = wall_us();
        let due = payments[next..]
            .iter()
            .take_while(|(at, _)| *at <= now)
            .count()
            .min(100);
        if due == 0 {
            thread::sleep(Duration::from_micros(100));
            continue;
        }
        let batch = &payments[next..next + due];
        let commands: Vec<_> = batch
            .iter()
            .map(|(_, i)| {
                argv![
                    "ORDER.FINISH",
                    "q",
                    i,
                    "FROM",
                    "unpaid",
                    "STATUS",
                    "paid",
                    "RESULT",
                    i
                ]
            })
            .collect();
        for ((_, i), reply) in batch.iter().zip(shop.pipeline(&commands)) {
            let reply = reply.order();
            match reply.outcome.as_str() {
                "OK" => {
                    assert!(
                        matches!(reply.was.as_str(), "scheduled" | "expired"),
                        "{reply:?}"
                    );
                    assert_eq!(reply.state, "finished");
                    paid.insert(*i);
                }
                "LEASED" => {
                    assert_eq!(
                        (reply.was.as_str(), reply.status_text().as_str()),
                        ("leased", "unpaid"),
                        "{reply:?}"
                    );
                    refused.insert(*i);
                }
                _ => panic!("paying {i}: {reply:?}"),
            }
        }
        next += due;
    }
    // The last deadline may lie a moment after the last payment.
    wait_until(SOON, "the last deadline", || c.time_ms() > deadline(ORDERS));
    all_paid.store(true, Ordering::SeqCst);
    let claimed = claiming.join().unwrap();

    let claimed_ids: BTreeSet<usize> = claimed.keys().copied().collect();
    assert_eq!(
        paid.len() + claimed.len(),
        ORDERS,
        "paid or claimed, every one"
    );
    assert!(
        paid.is_disjoint(&claimed_ids),
        "both: {:?}",
        paid.intersection(&claimed_ids).next()
    );
    assert_eq!(
        refused, claimed_ids,
        "who was claimed could not be paid, and was told so"
    );
    eprintln!("{} paid, {} claimed", paid.len(), claimed.len());
    assert!(
        paid.len() >= 20 && claimed.len() >= 20,
        "there was a race: {} against {}",
        paid.len(),
        claimed.len()
    );
    // The closer closes what it won; the payments that won stay as they are.
    for (i, fence) in &claimed {
        let reply = cmd!(
            c,
            "ORDER.ACK",
            "q",
            i,
            fence,
            "FROM",
            "unpaid",
            "STATUS",
            "closed"
        )
        .order();
        assert_eq!(reply.outcome, "OK", "{i}: {reply:?}");
    }
    for i in paid.iter().take(500) {
        let order = c.order("q", &i.to_string());
        assert_eq!(
            (order.text("status"), order.text("result")),
            ("paid".into(), i.to_string())
        );
    }
    assert_eq!(c.stat("q", "finished").int(), ORDERS as i64);
}

#[test]
fn who_comes_late_but_first_is_still_heard() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
        .order()
        .expect("OK");
    let fence = cmd!(c, "ORDER.CLAIM", "q", "me", "PX", 5).claims()[0].fence;
    wait_until(SOON, "the lapse", || c.state("q", "1") == "expired");
    // Nobody else has claimed or written: nobody can have acted.
    let order = c.order("q", "1");
    assert_eq!(
        (order.fence(), order.int("lease_ms"), order.text("owner")),
        (fence, -2, "me".into())
    );
    let reply = cmd!(c, "ORDER.ACK", "q", "1", fence).order().expect("OK");
    assert_eq!(reply.was, "expired");
    // But not after somebody else wrote.
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 0)
        .order()
        .expect("OK");
    let fence = cmd!(c, "ORDER.CLAIM", "q", "me", "PX", 5).claims()[0].fence;
    wait_until(SOON, "the lapse", || c.state("q", "2") == "expired");
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 0, "XX")
        .order()
        .expect("OK");
    cmd!(c, "ORDER.ACK", "q", "2", fence)
        .order()
        .expect("STALE");
}
