//! Memory: what a full one refuses, and what MEMORY USAGE says of a key.

use std::time::Duration;

use crate::support::{Client, SOON, Server, argv, cmd, wait_until};

#[test]
fn when_memory_is_full_only_what_adds_is_refused() {
    let server = Server::plain();
    let mut c = server.client();
    for id in ["1", "2", "3", "4"] {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0)
            .order()
            .expect("OK");
    }
    cmd!(c, "ORDER.SCHEDULE", "q", "5", "PX", 600_000)
        .order()
        .expect("OK");
    c.config("maxmemory", "1");
    for command in ["ORDER.SCHEDULE q 9 PX 5", "ORDER.STATUS q 5 x"] {
        let reply = c.run(&command.split(' ').collect::<Vec<_>>());
        assert!(reply.error().starts_with("OOM "), "{command}: {reply:?}");
    }
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 3).claims();
    assert_eq!(rows.len(), 3);
    cmd!(
        c,
        "ORDER.RENEW",
        "q",
        &rows[0].id,
        rows[0].fence,
        "PX",
        90_000
    )
    .lease()
    .expect("OK");
    cmd!(c, "ORDER.ACK", "q", &rows[0].id, rows[0].fence)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.NACK", "q", &rows[1].id, rows[1].fence)
        .order()
        .expect("OK");
    assert_eq!(
        cmd!(c, "ORDER.MACK", "q", 1, &rows[2].id, rows[2].fence).items()[0].text(),
        "OK"
    );
    cmd!(c, "ORDER.FINISH", "q", "5", "STATUS", "paid")
        .order()
        .expect("OK");
    cmd!(c, "ORDER.FINISH", "q", "6", "CREATE")
        .order()
        .expect("OK");
    for command in [
        "ORDER.GET q 5",
        "ORDER.PTTL q 5",
        "ORDER.NEXT q",
        "ORDER.SCAN q 0",
        "ORDER.STATS q",
    ] {
        assert!(
            !c.run(&command.split(' ').collect::<Vec<_>>()).is_error(),
            "{command}"
        );
    }
}

/// A queue of one order cost 1.8 KB: counters, histograms, three wheels.
#[test]
fn a_key_of_one_order_is_small_and_memory_usage_knows_it() {
    let server = Server::plain();
    let mut c = server.client();
    let keys = |prefix: &str, n: usize| -> Vec<String> {
        (0..n).map(|at| format!("{prefix}:{at:06}")).collect()
    };
    let order = |queue: &String, id: usize| -> Vec<String> {
        let id = format!("order-{id:014}");
        [
            "ORDER.SCHEDULE",
            queue,
            &id,
            "PX",
            "900000",
            "STATUS",
            "unpaid",
        ]
        .map(str::to_owned)
        .to_vec()
    };
    let used = |c: &mut Client| c.info_number("memory", "used_memory");
    // So many keys that their table does not grow while it is measured.
    let fill = keys("fill", 5000);
    let sets: Vec<_> = fill
        .iter()
        .map(|key| ["SET", key, "x"].map(str::to_owned).to_vec())
        .collect();
    c.pipeline(&sets);
    // Row: orders in each of 1000 queues, and the most bytes of such a key.
    for (orders, most) in [(1, 420), (10, 1200)] {
        let queues = keys("queue", 1000);
        // The buffers of this connection have their size after a first round.
        let warm: Vec<_> = (0..orders)
            .map(|id| order(&"warm".to_owned(), id))
            .collect();
        c.pipeline(&warm);
        let before = used(&mut c);
        for some in queues.chunks(50) {
            let commands: Vec<_> = some
                .iter()
                .flat_map(|queue| (0..orders).map(|id| order(queue, id)))
                .collect();
            for reply in c.pipeline(&commands) {
                reply.order().expect("OK");
            }
        }
        let each = (used(&mut c) - before) / 1000;
        let said = cmd!(c, "MEMORY", "USAGE", &queues[500]).int();
        assert!(each <= most, "a key of {orders} costs {each} bytes");
        // What the key itself takes is reckoned by the server: Valkey 8 reckons a key
        // and its entry, which it keeps in one block, as two.
        assert!(
            (each * 8..=each * 12).contains(&(said * 10)),
            "MEMORY USAGE says {said} of {each} bytes"
        );
        c.run(&["FLUSHALL", "SYNC"]).ok();
        c.pipeline(&sets);
    }
}

/// Names of owners, and what the allocator rounds pages of leases up to, were left out:
/// a queue of locks took a sixth more than was said.
#[test]
fn memory_usage_knows_what_leases_take() {
    /// Makes the command for one order.
    type Make<'m> = &'m dyn Fn(usize) -> Vec<Vec<u8>>;
    const ORDERS: usize = 20_000;
    let server = Server::plain();
    let mut c = server.client();
    let used = |c: &mut Client| c.info_number("memory", "used_memory");
    let lock = |i: usize, owner: &str| argv!["ORDER.LOCK", "q", i, owner, "PX", 600_000];
    let schedule = |i: usize| argv!["ORDER.SCHEDULE", "q", i, "PX", 0];
    // Row: what is made, and whether it is claimed then, so many at a time.
    let rows: [(&str, Make<'_>, usize); 4] = [
        ("locks, short names", &|i| lock(i, "me"), 0),
        ("locks, long names", &|i| lock(i, &"m".repeat(100)), 0),
        ("claims of one", &schedule, 1),
        ("claims of a hundred", &schedule, 100),
    ];
    // Little more than this is what an empty server holds, with this connection's buffers.
    let empty = used(&mut c) + (1 << 20);
    for (what, make, claim) in rows {
        // The buffers of this connection have their size after a first round.
        let commands: Vec<_> = (0..ORDERS).map(make).collect();
        c.pipeline(&commands[..1000]);
        c.run(&["FLUSHALL", "SYNC"]).ok();
        // Freed elsewhere: when the memory is back.
        let mut before = used(&mut c);
        wait_until(SOON, "the memory to be back", || {
            std::thread::sleep(Duration::from_millis(20));
            let last = std::mem::replace(&mut before, used(&mut c));
            last <= before && before < empty
        });
        let before = used(&mut c);
        c.pipeline(&commands);
        let claims = vec![argv!["ORDER.CLAIM", "q", "me", "COUNT", claim]; ORDERS / claim.max(1)];
        if claim > 0 {
            c.pipeline(&claims);
            assert_eq!(c.stat("q", "leased").int(), ORDERS as i64);
        }
        let grown = used(&mut c) - before;
        let said = cmd!(c, "MEMORY", "USAGE", "q").int();
        assert!(
            (grown * 9..=grown * 11).contains(&(said * 10)),
            "{what}: MEMORY USAGE says {said} of {grown} bytes"
        );
    }
}
