//! Memory: locks give back what they took, and a full memory refuses only new ones.

use std::thread;
use std::time::Duration;

use super::{LONG, ahead, lock, told, waiter};
use crate::support::states::expect_healthy;
use crate::support::{Client, Server, argv, cmd};

#[test]
fn locks_leave_no_memory_behind() {
    let server = Server::plain();
    let mut c = server.client();
    let round = |c: &mut Client| {
        for apart in [false, true] {
            let queue = |i: u64| {
                if apart {
                    format!("q{i}")
                } else {
                    "q".to_owned()
                }
            };
            let locks: Vec<_> = (0..1000)
                .map(|i| {
                    argv![
                        "ORDER.LOCK",
                        queue(i),
                        format!("id-{i}"),
                        "owner",
                        "PX",
                        LONG,
                        "FP",
                        "fingerprint"
                    ]
                })
                .collect();
            let fences: Vec<u64> = c
                .pipeline(&locks)
                .iter()
                .map(|reply| reply.lease().expect("OK").fence)
                .collect();
            let unlocks: Vec<_> = fences
                .iter()
                .zip(0..)
                .map(|(fence, i)| argv!["ORDER.UNLOCK", queue(i), format!("id-{i}"), fence])
                .collect();
            for reply in c.pipeline(&unlocks) {
                reply.lease().expect("OK");
            }
        }
        // Freed by another thread, so not at once.
        thread::sleep(Duration::from_millis(200));
        assert_eq!(cmd!(c, "DBSIZE").int(), 0);
    };
    round(&mut c);
    let least = |c: &mut Client| {
        (0..20)
            .map(|_| {
                thread::sleep(Duration::from_millis(20));
                c.info_number("memory", "used_memory")
            })
            .min()
            .unwrap()
    };
    let before = least(&mut c);
    for _ in 0..5 {
        round(&mut c);
    }
    let after = least(&mut c);
    assert!(
        (after - before).abs() < 64 * 1024,
        "{before} bytes before, {after} after"
    );
}

#[test]
fn a_full_memory_refuses_new_locks_and_nothing_that_ends_one() {
    let server = Server::plain();
    let mut c = server.client();
    for id in ["finish", "unlock", "break", "held"] {
        ahead(&mut c, "q", id);
    }
    cmd!(c, "ORDER.SCHEDULE", "due", "ack", "PX", 0)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "due", "nack", "PX", 0)
        .order()
        .expect("OK");
    let finish = lock(&mut c, "q", "finish", "a");
    let unlock = lock(&mut c, "q", "unlock", "a");
    lock(&mut c, "q", "break", "a");
    let rows = cmd!(c, "ORDER.CLAIM", "due", "a", "COUNT", 2).claims();
    let mut waits = waiter(&server, "q", "unlock", "b", &[]);
    c.config("maxmemory", "1");
    for words in [
        argv!["ORDER.LOCK", "q", "new", "a", "PX", 1000],
        argv!["ORDER.LOCK", "q", "held", "a", "PX", 1000, "BLOCK", 0],
        argv!["ORDER.SCHEDULE", "q", "new", "PX", 1000],
        argv!["ORDER.STATUS", "q", "held", "seen"],
    ] {
        let reply = c.run(&words);
        assert!(reply.error().starts_with("OOM "), "{reply:?}");
    }
    assert_eq!(c.state("q", "new"), "missing");
    cmd!(c, "ORDER.RENEW", "q", "finish", finish, "PX", 1000)
        .lease()
        .expect("OK");
    cmd!(
        c,
        "ORDER.FINISH",
        "q",
        "finish",
        "FENCE",
        finish,
        "RESULT",
        "r"
    )
    .order()
    .expect("OK");
    cmd!(c, "ORDER.UNLOCK", "q", "unlock", unlock)
        .lease()
        .expect("OK");
    assert!(
        told(&mut waits).expect("OK").fence > unlock,
        "who waits already is served"
    );
    cmd!(c, "ORDER.BREAK", "q", "break").lease().expect("OK");
    cmd!(c, "ORDER.ACK", "due", "ack", rows[0].fence)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.NACK", "due", "nack", rows[1].fence, "DELAY", 0)
        .order()
        .expect("OK");
    assert_eq!(cmd!(c, "ORDER.CLAIM", "due", "b").claims().len(), 1);
    expect_healthy(&server);
}
