//! Keyspace events: each where it belongs, none where nothing was done.

use std::time::Duration;

use crate::support::{
    Client, Message, Options, SOON, Server, args, argv, cmd, wait_for, wait_until,
};

/// How long "no event comes" is watched.
const QUIET: Duration = Duration::from_millis(50);

/// Events that have come, as `event key`, by their event channel; each must
/// have come on the key channel as well.
#[track_caller]
fn heard(listener: &mut Client) -> Vec<String> {
    let messages = listener.messages(QUIET);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let by_event: Vec<String> = messages
        .iter()
        .filter_map(|m| {
            Some(format!(
                "{} {}",
                m.channel.strip_prefix("__keyevent@0__:")?,
                text(&m.payload)
            ))
        })
        .collect();
    let by_key: Vec<String> = messages
        .iter()
        .filter_map(|m| {
            Some(format!(
                "{} {}",
                text(&m.payload),
                m.channel.strip_prefix("__keyspace@0__:")?
            ))
        })
        .collect();
    assert_eq!(by_event, by_key, "every event comes both ways");
    by_event
}

/// A server that publishes all classes but the core's own for strings and the like.
fn eventful() -> Server {
    Options::new().events("KEgd").start()
}

#[test]
fn every_write_raises_its_event_once() {
    let server = eventful();
    let mut c = server.client();
    let mut listener = server.listener();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 600_000)
        .order()
        .expect("OK");
    assert_eq!(heard(&mut listener), ["order.schedule q:1"]);
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 700_000, "XX")
        .order()
        .expect("OK");
    assert_eq!(heard(&mut listener), ["order.schedule q:1"]);
    cmd!(c, "ORDER.STATUS", "q", "1", "x").order().expect("OK");
    assert_eq!(heard(&mut listener), ["order.status q:1"]);
    cmd!(c, "ORDER.FINISH", "q", "1").order().expect("OK");
    assert_eq!(heard(&mut listener), ["order.finish q:1"]);
    cmd!(c, "ORDER.FINISH", "q", "2", "CREATE")
        .order()
        .expect("OK");
    assert_eq!(heard(&mut listener), ["order.finish q:2"]);

    cmd!(c, "ORDER.SCHEDULE", "q", "3", "PX", 0)
        .order()
        .expect("OK");
    assert_eq!(
        heard(&mut listener),
        ["order.schedule q:3", "order.expired q:3"]
    );
    let fence = cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].fence;
    assert_eq!(heard(&mut listener), ["order.claim q:3"]);
    cmd!(c, "ORDER.RENEW", "q", "3", fence, "PX", 600_000)
        .lease()
        .expect("OK");
    assert_eq!(
        heard(&mut listener),
        Vec::<String>::new(),
        "RENEW raises none of its own"
    );
    cmd!(c, "ORDER.NACK", "q", "3", fence, "DELAY", 0)
        .order()
        .expect("OK");
    assert_eq!(
        heard(&mut listener),
        ["order.nack q:3", "order.expired q:3"]
    );
    let fence = cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].fence;
    cmd!(c, "ORDER.ACK", "q", "3", fence).order().expect("OK");
    assert_eq!(heard(&mut listener), ["order.claim q:3", "order.ack q:3"]);

    for id in ["4", "5"] {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0)
            .order()
            .expect("OK");
    }
    heard(&mut listener);
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 2).claims();
    assert_eq!(heard(&mut listener), ["order.claim q:4", "order.claim q:5"]);
    cmd!(
        c,
        "ORDER.MACK",
        "q",
        2,
        "4",
        rows[0].fence,
        "5",
        rows[1].fence
    );
    assert_eq!(heard(&mut listener), ["order.ack q:4", "order.ack q:5"]);
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 600_000, "FROM", "x")
        .order()
        .expect("OK");
    assert_eq!(heard(&mut listener), ["order.schedule q:1"]);
}

#[test]
fn what_was_not_done_raises_nothing() {
    let server = eventful();
    let mut c = server.client();
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "far",
        "PX",
        600_000,
        "STATUS",
        "unpaid"
    )
    .order()
    .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "q", "due", "PX", 0)
        .order()
        .expect("OK");
    let fence = cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].fence;
    cmd!(c, "ORDER.FINISH", "q", "done", "CREATE")
        .order()
        .expect("OK");
    wait_until(SOON, "everything to settle", || {
        c.stat("q", "behind_ms").int() == 0
    });
    let mut listener = server.listener();
    for command in [
        "ORDER.SCHEDULE q far PX 5",
        "ORDER.SCHEDULE q none PX 5 XX",
        "ORDER.SCHEDULE q far PX 5 GT",
        "ORDER.SCHEDULE q far PX 5 FROM paid",
        "ORDER.SCHEDULE q far PX 5 IFREV 1",
        "ORDER.SCHEDULE q due PX 5 XX",
        "ORDER.SCHEDULE q done PX 5 UPSERT",
        "ORDER.FINISH q none",
        "ORDER.FINISH q due",
        "ORDER.FINISH q done",
        "ORDER.FINISH q far FROM paid",
        "ORDER.STATUS q none x",
        "ORDER.STATUS q due x",
        "ORDER.CLAIM q me",
        "ORDER.CLAIM q me ID far",
        "ORDER.CLAIM q me BLOCK 20",
        "ORDER.CLAIM none me",
        "ORDER.ACK q due 5",
        "ORDER.ACK q done 5",
        "ORDER.MACK q 1 due 5",
        "ORDER.NACK q due 5",
        "ORDER.NACK q far 5",
        "ORDER.RENEW q due 5 PX 5",
        "ORDER.GET q far",
        "ORDER.PTTL q far",
        "ORDER.NEXT q",
        "ORDER.SCAN q 0",
        "ORDER.STATS q",
        "ORDER.SCHEDULE q far PX nonsense",
    ] {
        c.run(&command.split(' ').collect::<Vec<_>>());
        let messages: Vec<Message> = listener.messages(Duration::from_millis(5));
        assert_eq!(messages, [], "{command}");
    }
    assert_eq!(heard(&mut listener), Vec::<String>::new());
    cmd!(c, "ORDER.ACK", "q", "due", fence).order().expect("OK");
    assert_eq!(
        heard(&mut listener),
        ["order.ack q:due"],
        "the listener does hear"
    );
}

#[test]
fn the_clock_raises_its_own_events() {
    let server = eventful();
    let mut c = server.client();
    let mut listener = server.listener();
    // The deadline.
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 60)
        .order()
        .expect("OK");
    wait_until(SOON, "the deadline", || c.state("q", "1") == "expired");
    assert_eq!(
        heard(&mut listener),
        ["order.schedule q:1", "order.expired q:1"]
    );
    // A lease that lapses: and it can be claimed again.
    cmd!(c, "ORDER.CLAIM", "q", "me", "PX", 30)
        .claims()
        .remove(0);
    wait_until(SOON, "the lapse", || c.state("q", "1") == "expired");
    assert_eq!(
        heard(&mut listener),
        ["order.claim q:1", "order.lapsed q:1", "order.expired q:1"]
    );
    // A retry wait that ends.
    let fence = cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].fence;
    cmd!(c, "ORDER.NACK", "q", "1", fence, "DELAY", 60)
        .order()
        .expect("OK");
    wait_until(SOON, "the end of the wait", || {
        c.state("q", "1") == "expired"
    });
    assert_eq!(
        heard(&mut listener),
        ["order.claim q:1", "order.nack q:1", "order.expired q:1"]
    );
    // Dead, by hand and by the last lapse.
    let fence = cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].fence;
    cmd!(c, "ORDER.NACK", "q", "1", fence, "DEAD")
        .order()
        .expect("OK");
    assert_eq!(
        heard(&mut listener),
        ["order.claim q:1", "order.nack q:1", "order.dead q:1"]
    );
    c.config("orderwheel.max-attempts", "1");
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0, "XX")
        .order()
        .expect("OK");
    heard(&mut listener);
    cmd!(c, "ORDER.CLAIM", "q", "me", "PX", 30)
        .claims()
        .remove(0);
    wait_until(SOON, "the last lapse", || c.state("q", "1") == "dead");
    assert_eq!(
        heard(&mut listener),
        ["order.claim q:1", "order.lapsed q:1", "order.dead q:1"]
    );
}

#[test]
fn an_order_that_goes_straight_to_a_waiter_is_announced_too() {
    let server = eventful();
    let mut c = server.client();
    let mut listener = server.listener();
    let mut waiter = server.client();
    waiter.send(&args!["ORDER.CLAIM", "q", "me", "BLOCK", 20_000]);
    wait_until(SOON, "the claimer to wait", || c.blocked_clients() == 1);
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 30)
        .order()
        .expect("OK");
    assert_eq!(waiter.read().claims().len(), 1);
    let mut events = heard(&mut listener);
    assert_eq!(events.remove(0), "order.schedule q:1");
    events.sort_unstable();
    assert_eq!(events, ["order.claim q:1", "order.expired q:1"]);
    // So is one that is claimed before the server's timer has come to it.
    let mut c2 = server.client();
    c2.pipeline(&[
        argv!["ORDER.SCHEDULE", "q", "2", "PX", 0],
        argv!["ORDER.CLAIM", "q", "me"],
    ]);
    let mut events = heard(&mut listener);
    events.sort_unstable();
    assert_eq!(
        events,
        ["order.claim q:2", "order.expired q:2", "order.schedule q:2"]
    );
}

#[test]
fn an_order_that_is_no_longer_due_is_not_announced() {
    let server = eventful();
    let mut c = server.client();
    let mut listener = server.listener();
    cmd!(c, "ORDER.SCHEDULE", "q", "paid", "PX", 80)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "q", "moved", "PX", 80)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "gone", "deleted", "PX", 80)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "q", "stays", "PX", 90)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.FINISH", "q", "paid").order().expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "q", "moved", "PX", 600_000, "GT")
        .order()
        .expect("OK");
    cmd!(c, "DEL", "gone");
    wait_until(SOON, "the deadline", || c.state("q", "stays") == "expired");
    let expired: Vec<String> = heard(&mut listener)
        .into_iter()
        .filter(|e| e.starts_with("order.expired"))
        .collect();
    assert_eq!(expired, ["order.expired q:stays"]);
}

#[test]
fn the_last_order_takes_the_key_with_it_and_says_del() {
    let server = eventful();
    let mut c = server.client();
    let mut listener = server.listener();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 600_000)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.FINISH", "q", "1", "KEEP", 0)
        .order()
        .expect("OK");
    assert_eq!(
        heard(&mut listener),
        ["order.schedule q:1", "order.finish q:1", "del q"]
    );
    // By the clock, once.
    cmd!(c, "ORDER.FINISH", "q", "2", "CREATE", "KEEP", 60)
        .order()
        .expect("OK");
    wait_until(SOON, "the key to go", || cmd!(c, "EXISTS", "q").int() == 0);
    assert_eq!(heard(&mut listener), ["order.finish q:2", "del q"]);
    assert_eq!(c.info_number("orderwheel", "orderwheel_queues"), 0);
}

#[test]
fn events_carry_the_database_and_the_name_of_the_day() {
    let server = eventful();
    let mut c = server.client();
    let mut listener = server.client();
    listener.psubscribe(&["__keyevent@*__:order.expired"]);
    cmd!(c, "SELECT", 5).ok();
    cmd!(c, "ORDER.SCHEDULE", "old", "1", "PX", 60)
        .order()
        .expect("OK");
    cmd!(c, "RENAME", "old", "new").ok();
    let message = listener.message(SOON).expect("an event");
    assert_eq!(
        (message.channel.as_str(), &message.payload[..]),
        ("__keyevent@5__:order.expired", &b"new:1"[..])
    );
    cmd!(c, "ORDER.SCHEDULE", "new", "2", "PX", 60)
        .order()
        .expect("OK");
    assert_eq!(cmd!(c, "MOVE", "new", 6).int(), 1);
    let message = wait_for(SOON, "the event of 2", || {
        listener.message(SOON).filter(|m| m.payload == b"new:2")
    });
    assert_eq!(message.channel, "__keyevent@6__:order.expired");
}

#[test]
fn nothing_is_published_unless_asked_for() {
    let server = Server::plain();
    let mut c = server.client();
    let mut listener = server.listener();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
    assert_eq!(listener.message(QUIET), None);
    // Only the class of modules.
    c.config("notify-keyspace-events", "Eg$lshzxe");
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 600_000)
        .order()
        .expect("OK");
    assert_eq!(listener.message(QUIET), None);
    c.config("notify-keyspace-events", "Ed");
    cmd!(c, "ORDER.SCHEDULE", "q", "3", "PX", 600_000)
        .order()
        .expect("OK");
    let message = listener.message(SOON).expect("an event");
    assert_eq!(message.channel, "__keyevent@0__:order.schedule");
    assert_eq!(listener.message(QUIET), None, "not on the key's channel");
}

#[test]
fn one_order_can_be_followed_by_its_own_channel() {
    let server = eventful();
    let mut c = server.client();
    let mut listener = server.client();
    listener.subscribe(&["__keyspace@0__:orders:1001"]);
    for id in ["1001", "1002"] {
        cmd!(c, "ORDER.SCHEDULE", "orders", id, "PX", 600_000)
            .order()
            .expect("OK");
        cmd!(c, "ORDER.FINISH", "orders", id).order().expect("OK");
    }
    let events: Vec<Vec<u8>> = listener
        .messages(QUIET)
        .into_iter()
        .map(|m| m.payload)
        .collect();
    assert_eq!(
        events,
        [b"order.schedule".to_vec(), b"order.finish".to_vec()]
    );
}

#[test]
fn announcements_can_be_paced() {
    let server = Options::new()
        .events("KEd")
        .set("announce-per-s-max", 100)
        .start();
    let mut c = server.client();
    let mut listener = server.client();
    listener.subscribe(&["__keyevent@0__:order.expired"]);
    let at = c.time_ms() + 100;
    let commands: Vec<_> = (0..150)
        .map(|i| argv!["ORDER.SCHEDULE", "q", i, "PXAT", at])
        .collect();
    c.pipeline(&commands);
    // Claimable at once nevertheless.
    wait_until(SOON, "the deadline", || c.time_ms() > at);
    assert_eq!(cmd!(c, "ORDER.CLAIM", "other", "me").claims(), []);
    wait_until(SOON, "all to be claimable", || {
        c.stat("q", "expired").int() == 150
    });
    let start = std::time::Instant::now();
    let mut count = 0;
    while count < 150 {
        assert!(
            listener.message(SOON).is_some(),
            "{count} announcements, then none"
        );
        count += 1;
    }
    // 150 at 100 a second, with a bucket of at most a second's worth.
    assert!(
        start.elapsed() > Duration::from_millis(300),
        "150 announcements in {:?}",
        start.elapsed()
    );
}

/// It went round every millisecond, for as long as something was held back.
#[test]
fn while_announcements_wait_for_their_pace_the_timer_sleeps() {
    let server = Options::new()
        .events("KEd")
        .set("announce-per-s-max", 1)
        .start();
    let mut c = server.client();
    let commands: Vec<_> = (0..50)
        .map(|i| argv!["ORDER.SCHEDULE", "q", i, "PX", 1])
        .collect();
    c.pipeline(&commands);
    let number = |c: &mut Client, name: &str| c.info_number("orderwheel", name);
    wait_until(SOON, "the first announcement", || {
        number(&mut c, "orderwheel_announced_total") > 0
    });
    let before = number(&mut c, "orderwheel_timer_runs_total");
    std::thread::sleep(Duration::from_millis(500));
    let runs = number(&mut c, "orderwheel_timer_runs_total") - before;
    assert!(runs < 50, "{runs} runs in half a second, at one a second");
    assert!(number(&mut c, "orderwheel_announce_backlog") > 40);
}
