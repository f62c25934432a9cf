//! Leases that no queue has granted: to the last moment there is, and under a clock
//! that was wrong.

use super::carrying::LEASE_MS_MAX;
use super::effects::wholes;
use crate::support::states::expect_no_fault;
use crate::support::wire::{self, Saved};
use crate::support::{Options, cmd};

#[test]
fn a_grant_that_ends_at_the_last_moment_can_be_saved_and_loaded() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    c.config("rdbcompression", "no");
    cmd!(c, "ORDER.SCHEDULE", "real", "1", "PX", 0)
        .order()
        .expect("OK");
    let saved = Saved::open(cmd!(c, "DUMP", "real").bytes());
    let now = c.time_ms();
    let last = (1 << 48) - 2;
    for (version, end, is_taken) in [(1, last + 1, true), (2, last, true), (2, last + 1, false)] {
        let form = wholes(version, now)
            .into_iter()
            .find(|(name, _)| *name == "a claimed record")
            .map(|(_, form)| form)
            .expect("there is one");
        // Of its numbers the end, the cap and `holds` are the last ones. A nearer cap
        // would have the first renewal bring the end near.
        let place = form.numbers() - 3;
        let blob = form.encode(&[(place, end), (place + 1, end)]);
        let key = format!("{version}-{end}");
        let reply = cmd!(c, "RESTORE", key, 0, saved.close(version, &blob));
        assert_eq!(!reply.is_error(), is_taken, "{key}: {reply:?}");
        if !is_taken {
            continue;
        }
        // One of the two clocks ticks between a load and a renewal, in some rounds.
        for _ in 0..150 {
            cmd!(
                c,
                "ORDER.RENEW",
                key,
                "x",
                now * 1000 - 60_000_000,
                "PX",
                86_400_000
            )
            .lease()
            .expect("OK");
            let before = c.digest(&key);
            cmd!(c, "DEBUG", "RELOAD").ok();
            assert_eq!(c.digest(&key), before, "{key}");
            let left = c.order(&key, "x").int("lease_ms");
            assert!((1..=LEASE_MS_MAX).contains(&left), "{key}: {left}");
        }
    }
    expect_no_fault(&server);
}

/// The dump of a claim of one second, from a server of version 0.1.0 whose clock stood
/// in 2099.
const OF_2099: &str = "B4Git2vCF56UAAIBBcNASUBVFA39ws2IUXh2DgAOAm8xBnVucGFpZOAAEwkAAAH9AGjlz4sBIAogDCABBgZjbG9zZXLgACIN/f+vEtWzAwAA/RcIOdpACAEBAAUAAAoAFqjdjsN3H1Q=";

#[test]
fn a_claim_from_a_clock_that_was_wrong_is_no_longer_than_a_claim() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    cmd!(c, "RESTORE", "q", 0, wire::base64(OF_2099)).ok();
    let first = c.order("q", "o1");
    assert_eq!(
        (first.state(), first.text("owner")),
        ("leased".into(), "closer".into())
    );
    let left = first.int("lease_ms");
    assert!((1..=LEASE_MS_MAX).contains(&left), "{left}");

    // Its numbers are more than an hour ahead: each claim has one of its own.
    let old = first.fence();
    let mut fences = vec![old];
    cmd!(c, "COPY", "q", "copy");
    for (round, (queue, count)) in [("q", 3), ("copy", 3), ("q", 2), ("copy", 1)]
        .into_iter()
        .enumerate()
    {
        for id in 0..count {
            cmd!(c, "ORDER.SCHEDULE", queue, format!("{round}.{id}"), "PX", 0)
                .order()
                .expect("OK");
        }
        let rows = cmd!(c, "ORDER.CLAIM", queue, "me", "COUNT", 3).claims();
        assert_eq!(rows.len(), count, "{rows:?}");
        assert!(rows.iter().all(|row| row.fence > old), "{rows:?}");
        fences.extend(rows.iter().map(|row| row.fence));
    }
    let given = fences.len();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(
        fences.len(),
        given,
        "no fence is handed out twice: {fences:?}"
    );
    let before = [c.digest("q"), c.digest("copy")];
    cmd!(c, "DEBUG", "RELOAD").ok();
    assert_eq!([c.digest("q"), c.digest("copy")], before);
    expect_no_fault(&server);
}
