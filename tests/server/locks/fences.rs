//! Fences only grow: whatever happens to the queue, over restarts and promotions.

use std::time::{Duration, Instant};

use super::{LONG, ahead, lock, run};
use crate::support::states::{apply, expect_healthy};
use crate::support::{Client, Options, SOON, Server, argv, cmd, wait_until, wire};

/// Takes and gives back the lock, and fails unless its fence is larger than all
/// before.
#[track_caller]
fn grows(c: &mut Client, last: &mut u64, what: &str) {
    let reply = cmd!(c, "ORDER.LOCK", "q", "1", "grows", "PX", LONG)
        .lease()
        .expect("OK");
    assert!(reply.fence > *last, "{what}: {} after {last}", reply.fence);
    assert!(reply.fence < 1 << 52);
    *last = reply.fence;
    cmd!(c, "ORDER.UNLOCK", "q", "1", reply.fence)
        .lease()
        .expect("OK");
}

#[test]
fn fences_only_grow_whatever_happens_to_the_queue() {
    let server = Server::plain();
    let mut c = server.client();
    let mut last = 0;
    ahead(&mut c, "q", "keeps-the-key");
    let dump = cmd!(c, "DUMP", "q").bytes().to_vec();
    for _ in 0..300 {
        grows(&mut c, &mut last, "UNLOCK");
    }
    last = cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", 5)
        .lease()
        .expect("OK")
        .fence;
    wait_until(SOON, "the lapse", || c.state("q", "1") == "missing");
    grows(&mut c, &mut last, "lapse");
    last = lock(&mut c, "q", "1", "me");
    cmd!(c, "ORDER.BREAK", "q", "1").lease().expect("OK");
    grows(&mut c, &mut last, "BREAK");
    for command in [
        "DEL q",
        "FLUSHALL",
        "DEBUG RELOAD",
        "FLUSHALL ASYNC",
        "SWAPDB 0 1",
        "RENAME q r",
    ] {
        cmd!(c, "ORDER.LOCK", "q", "stays", "x", "PX", LONG);
        grows(&mut c, &mut last, "before");
        assert!(!run(&mut c, command, "q", 0).is_error());
        grows(&mut c, &mut last, command);
    }
    for i in 0..300 {
        last = last.max(lock(&mut c, "q", &format!("o{i}"), "x"));
    }
    cmd!(c, "RESTORE", "q", 0, &dump, "REPLACE").ok();
    grows(&mut c, &mut last, "RESTORE of an old dump");
    // Also in one go, faster than the clock's microseconds.
    let mut commands = Vec::new();
    for i in 0..2000 {
        commands.push(argv![
            "ORDER.LOCK",
            "q",
            format!("burst-{i}"),
            "x",
            "PX",
            1000
        ]);
    }
    for reply in c.pipeline(&commands) {
        let fence = reply.lease().expect("OK").fence;
        assert!(fence > last);
        last = fence;
    }
    expect_healthy(&server);
}

#[test]
fn fences_grow_over_a_restart_that_lost_the_last_second() {
    let mut server = Options::new()
        .line("appendonly yes")
        .line("appendfsync everysec")
        .line("aof-load-truncated yes")
        .start();
    let mut last = 0;
    for _ in 0..2 {
        let mut c = server.client();
        grows(&mut c, &mut last, "at first");
        ahead(&mut c, "q", &format!("made-{last}"));
        wait_until(SOON, "it to be on disk", || {
            c.info_number("persistence", "aof_pending_bio_fsync") == 0
        });
        let file = wire::aof_files(&server, ".incr.aof").pop().unwrap();
        let kept = std::fs::metadata(&file).unwrap().len();
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until {
            for i in 0..100 {
                last = last.max(lock(&mut c, "q", &format!("{last}-{i}"), "x"));
            }
        }
        server.kill();
        assert!(std::fs::metadata(&file).unwrap().len() > kept);
        std::fs::OpenOptions::new()
            .write(true)
            .open(&file)
            .unwrap()
            .set_len(kept)
            .unwrap();
        server.start_again();
        let mut c = server.client();
        grows(&mut c, &mut last, "after the restart");
    }
}

#[test]
fn fences_grow_over_a_promotion_that_missed_the_last_writes() {
    let mut primary = Options::new()
        .aof()
        .tcp()
        .line("repl-diskless-sync-delay 0")
        .start();
    let replica = Options::new().aof().replica_of(primary.port()).start();
    replica.wait_in_sync(&primary);
    let (mut c, mut r) = (primary.client(), replica.client());
    ahead(&mut c, "q", "1");
    let mut last = lock(&mut c, "q", "1", "a");
    cmd!(c, "ORDER.UNLOCK", "q", "1", last).lease().expect("OK");
    replica.wait_in_sync(&primary);
    // Cut off: it looks for a primary where there is none.
    cmd!(r, "REPLICAOF", "127.0.0.1", 1).ok();
    for _ in 0..1000 {
        let fence = lock(&mut c, "q", "1", "a");
        assert!(fence > last);
        last = fence;
        cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
            .lease()
            .expect("OK");
    }
    primary.kill();
    cmd!(r, "REPLICAOF", "NO", "ONE").ok();
    let fence = lock(&mut r, "q", "1", "b");
    assert!(fence > last, "{fence} after {last}");
    // And a write by the fence of a lost grant is refused.
    cmd!(r, "ORDER.FINISH", "q", "1", "FENCE", last)
        .order()
        .expect("STALE");
    expect_healthy(&replica);
}

#[test]
fn a_number_from_far_ahead_stays_its_queues_own() {
    const DAY_US: u64 = 86_400_000_000;
    let origin = Server::plain();
    let mut o = origin.client();
    let far = o.time_us() + 2 * DAY_US;
    let end = o.time_ms() + LONG;
    apply(
        &mut o,
        "future",
        &wire::lock(b"locked", b"x", far, end, None, true),
    );
    let dump = cmd!(o, "DUMP", "future").bytes().to_vec();

    let mut server = Options::new().aof().start();
    let mut c = server.client();
    let fence = lock(&mut c, "here", "1", "a");
    assert_eq!(
        c.info_number("orderwheel", "orderwheel_fence_ahead_total"),
        0
    );
    for restored in ["future", "future2"] {
        cmd!(c, "RESTORE", restored, 0, &dump).ok();
    }
    assert_eq!(
        server.log().matches("more than an hour ahead").count(),
        1,
        "said once"
    );
    let mut high = far;
    for start in ["first", "second"] {
        assert!(
            c.info_number("orderwheel", "orderwheel_fence_ahead_total") >= 1,
            "{start}: counted"
        );
        assert_eq!(c.order("future", "locked").fence(), far);
        for i in 0..3 {
            let next = lock(&mut c, "future", &format!("{start}-{i}"), "a");
            assert!(
                next > high && next < far + DAY_US / 24,
                "{start}: {next} after {high}"
            );
            high = next;
        }
        let here = lock(&mut c, "here", &format!("other-{start}"), "a");
        let now = c.time_us();
        assert!(
            here > fence && here < now + DAY_US / 24,
            "{start}: {here} at {now}: other queues go by the clock"
        );
        let rev = cmd!(
            c,
            "ORDER.SCHEDULE",
            "here",
            format!("plain-{start}"),
            "PX",
            LONG
        )
        .order()
        .expect("OK")
        .rev;
        assert!(rev < now + DAY_US / 24, "{start}: {rev} at {now}");
        server.restart();
        c = server.client();
    }
    // Its own order can still be worked on.
    cmd!(c, "ORDER.RENEW", "future", "locked", far, "PX", 1000)
        .lease()
        .expect("OK");
    cmd!(c, "ORDER.UNLOCK", "future", "locked", far)
        .lease()
        .expect("OK");
    let again = lock(&mut c, "future", "locked", "b");
    assert!(again > high, "{again} after {high}");
}

#[test]
fn numbers_are_exact_through_lua() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let script = "
        local lease = redis.call('ORDER.LOCK', KEYS[1], '1', 'lua', 'PX', '600000')
        local exact = string.format('%.0f', lease[2])
        local again = redis.call('ORDER.RENEW', KEYS[1], '1', exact, 'PX', '600000')
        local stale = redis.call('ORDER.RENEW', KEYS[1], '1', string.format('%.0f', tonumber(tostring(lease[2]))), 'PX', '600000')
        return {exact, tostring(lease[2]), again[1], stale[1], lease[2]}";
    let reply = cmd!(c, "EVAL", script, 1, "q");
    let items = reply.items();
    let fence = c.order("q", "1").fence();
    assert_eq!(items[0].text(), fence.to_string());
    assert_eq!(items[4].int() as u64, fence);
    assert_eq!(items[2].text(), "OK");
    // The trap: tostring prints fourteen digits of sixteen.
    assert!(items[1].text().contains("e+15"), "{:?}", items[1]);
    assert_eq!(
        items[3].text(),
        if fence.is_multiple_of(100) {
            "OK"
        } else {
            "STALE"
        }
    );
}
