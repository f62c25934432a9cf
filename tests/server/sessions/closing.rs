//! What a close ends, what follows from it, and what is no close.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{QUIET, becomes, bound, claim, due, holder, lock, lock_waiter, released, waiter};
use crate::support::states::expect_healthy;
use crate::support::{Client, Options, SOON, Server, Value, args, cmd, wait_until};

/// The events of queue `q` that this listener hears until it is quiet: `lapsed:1`.
fn heard(listener: &mut Client) -> Vec<String> {
    let messages = listener.messages(QUIET);
    let event = |channel: &str| Some(channel.strip_prefix("__keyevent@0__:order.")?.to_owned());
    messages
        .iter()
        .filter_map(|message| {
            let key = String::from_utf8_lossy(&message.payload).into_owned();
            Some(format!(
                "{}{}",
                event(&message.channel)?,
                key.strip_prefix('q')?
            ))
        })
        .collect()
}

#[test]
fn the_order_of_a_closed_connection_is_with_the_next_closer_at_once() {
    for protocol in [2, 3] {
        let server = Options::new().events("KEd").start();
        let mut c = server.client();
        due(&mut c, "q", &["1"]);
        let mut first = server.client();
        first.hello(protocol);
        let row = claim(&mut first, "q", "1");
        assert_eq!((row.attempt, row.lease_ms), (1, 600_000));
        assert_eq!(c.order("q", "1").int("session"), first.id());
        assert_eq!((bound(&mut c), released(&mut c)), (1, 0));
        assert_eq!(c.stat("q", "session_leases").int(), 1);
        let mut listener = server.listener();
        let mut second = waiter(&server, "q");
        first.cut();
        let rows = second.read().claims();
        assert_eq!((rows[0].id_text(), rows[0].attempt), ("1".into(), 2));
        assert!(rows[0].fence > row.fence);
        assert_eq!(
            heard(&mut listener),
            ["lapsed:1", "expired:1", "claim:1"],
            "each once"
        );
        assert_eq!(c.order("q", "1").int("session"), second.id());
        assert_eq!((bound(&mut c), released(&mut c)), (1, 1));
        assert_eq!(c.info_number("orderwheel", "orderwheel_lapsed_total"), 1);
        assert_eq!(
            cmd!(c, "ORDER.ACK", "q", "1", row.fence).order().outcome,
            "STALE"
        );
        second.cut();
        becomes(&mut c, "q", "1", "expired");
        wait_until(SOON, "nothing to be bound", || bound(&mut c) == 0);
        assert_eq!(c.stat("q", "session_leases").int(), 0);
        expect_healthy(&server);
    }
}

#[test]
fn locks_end_with_their_connection_all_holds_at_once() {
    let server = Options::new().events("KEd").start();
    let mut c = server.client();
    for (id, ms) in [("ahead", 600_000), ("passed", 1_000)] {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", ms)
            .order()
            .expect("OK");
    }
    let mut client = server.client();
    for id in ["ahead", "passed", "reserved", "handed"] {
        lock(&mut client, "q", id);
        lock(&mut client, "q", id);
        assert_eq!(c.order("q", id).int("holds"), 2);
    }
    let mut next = lock_waiter(&server, "q", "handed");
    wait_until(SOON, "its deadline to pass", || {
        cmd!(c, "ORDER.PTTL", "q", "passed").int() == 0
    });
    let mut listener = server.listener();
    client.cut();
    let told = next.read().lease().expect("OK");
    assert_eq!((told.holds, told.state.as_str()), (1, "reserved"));
    let mut events = heard(&mut listener);
    events.sort();
    assert_eq!(
        events,
        [
            "expired:passed",
            "lapsed:ahead",
            "lapsed:handed",
            "lapsed:passed",
            "lapsed:reserved",
            "lock:handed"
        ]
    );
    assert_eq!(c.state("q", "ahead"), "scheduled");
    assert_eq!(c.state("q", "passed"), "expired");
    assert_eq!(c.state("q", "reserved"), "missing");
    assert_eq!(c.order("q", "handed").int("session"), next.id());
    // What a lock alone made goes with it, the key too.
    let mut other = server.client();
    lock(&mut other, "alone", "1");
    other.cut();
    wait_until(SOON, "the key to go", || {
        cmd!(c, "EXISTS", "alone").int() == 0
    });
    assert_eq!((bound(&mut c), released(&mut c)), (1, 5));
    expect_healthy(&server);
}

#[test]
fn it_is_a_lapse_the_grant_stays_and_the_last_try_is_dead() {
    let server = Options::new().events("KEd").start();
    let mut c = server.client();
    due(&mut c, "q", &["1", "last"]);
    let mut client = holder(&server, "q", "1");
    cmd!(c, "ORDER.CONFIG", "q", "SET", "max-attempts", 1).ok();
    claim(&mut client, "q", "last");
    let ground = |c: &mut Client, id| {
        let mut ground = c.order("q", id).ground();
        ground.retain(|(name, _)| !["session", "holds", "error"].contains(&name.as_str()));
        ground
    };
    let before = (ground(&mut c, "1"), ground(&mut c, "last"));
    let mut listener = server.listener();
    client.cut();
    becomes(&mut c, "q", "1", "expired");
    becomes(&mut c, "q", "last", "dead");
    let mut events = heard(&mut listener);
    events.sort();
    assert_eq!(
        events,
        ["dead:last", "expired:1", "lapsed:1", "lapsed:last"]
    );
    assert_eq!(
        (ground(&mut c, "1"), ground(&mut c, "last")),
        before,
        "rev, attempt, owner and fence stay"
    );
    let error = c.order("q", "last").text("error");
    assert_eq!(error, "lease of holder ended without a word");
    for id in ["1", "last"] {
        assert_eq!(c.order("q", id).int("session"), 0);
        assert_eq!(c.order("q", id).int("lease_ms"), -2);
    }
    expect_healthy(&server);
}

#[test]
fn the_late_word_of_the_closer_counts_until_another_has_the_order() {
    let server = Server::plain();
    let mut c = server.client();
    due(&mut c, "q", &["1", "2", "3"]);
    let mut client = server.client();
    let fences: Vec<u64> = ["1", "2", "3"]
        .iter()
        .map(|id| claim(&mut client, "q", id).fence)
        .collect();
    client.cut();
    for id in ["1", "2", "3"] {
        becomes(&mut c, "q", id, "expired");
    }
    // It comes back on a new connection.
    let mut again = server.client();
    assert_eq!(
        cmd!(
            again,
            "ORDER.RENEW",
            "q",
            "1",
            fences[0],
            "PX",
            LONG_TEXT,
            "SESSION"
        )
        .lease()
        .outcome,
        "GONE"
    );
    cmd!(again, "ORDER.ACK", "q", "1", fences[0], "STATUS", "closed")
        .order()
        .expect("OK");
    let other = cmd!(c, "ORDER.CLAIM", "q", "other", "ID", "2").claims();
    assert_eq!(other[0].attempt, 2);
    cmd!(again, "ORDER.ACK", "q", "2", fences[1])
        .order()
        .expect("STALE");
    cmd!(again, "ORDER.NACK", "q", "3", fences[2], "DELAY", 0)
        .order()
        .expect("OK");
    assert_eq!(c.order("q", "3").int("attempt"), 1);
    expect_healthy(&server);
}

/// A lease that is asked for in vain may have any length.
const LONG_TEXT: &str = "600000";

#[test]
fn who_watches_an_order_is_told() {
    let server = Server::plain();
    let mut c = server.client();
    due(&mut c, "q", &["1"]);
    let client = holder(&server, "q", "1");
    let mut watcher = server.client();
    cmd!(watcher, "WATCH", "q").ok();
    let mut tracker = server.client3();
    cmd!(tracker, "CLIENT", "TRACKING", "ON").ok();
    assert_eq!(tracker.order("q", "1").state(), "leased");
    // A connection that holds nothing changes nothing.
    let mut stranger = server.client();
    cmd!(stranger, "PING");
    stranger.cut();
    assert_eq!(tracker.push(QUIET), None);
    client.cut();
    let push = tracker.push(SOON).expect("an invalidation");
    assert_eq!(push.items()[0].text(), "invalidate");
    cmd!(watcher, "MULTI").ok();
    cmd!(watcher, "PING");
    assert_eq!(cmd!(watcher, "EXEC"), Value::Nil);
    assert_eq!(tracker.order("q", "1").state(), "expired");
    expect_healthy(&server);
}

#[test]
fn however_a_connection_ends_it_is_a_close() {
    let server = Server::plain();
    let mut c = server.client();
    let ways = [
        "killed",
        "kills itself",
        "quits",
        "talks nonsense",
        "idles",
        "closes",
    ];
    for way in ways {
        due(&mut c, "q", &[way]);
        let mut client = holder(&server, "q", way);
        let id = client.id();
        match way {
            "killed" => {
                assert_eq!(cmd!(c, "CLIENT", "KILL", "ID", id).int(), 1);
            }
            "kills itself" => {
                client.send(&args!["CLIENT", "KILL", "ID", id, "SKIPME", "no"]);
            }
            "quits" => client.send(&args!["QUIT"]),
            "talks nonsense" => client.send_raw(b"*1\r\nnonsense\r\n"),
            "idles" => c.config("timeout", "1"),
            _ => drop(client),
        }
        // The one that asks is not idle.
        becomes(&mut c, "q", way, "expired");
        c.config("timeout", "0");
        assert_eq!(c.order("q", way).int("attempt"), 1);
    }
    assert_eq!(released(&mut c), ways.len() as i64);
    assert_eq!(bound(&mut c), 0);
    expect_healthy(&server);
}

#[test]
fn what_a_client_says_is_no_close() {
    let server = Server::plain();
    let mut c = server.client();
    due(&mut c, "q", &["1"]);
    let mut client = server.client();
    let id = client.id();
    claim(&mut client, "q", "1");
    let said: [&[&str]; 12] = [
        &["SELECT", "1"],
        &["CLIENT", "SETNAME", "me"],
        &["CLIENT", "NO-EVICT", "ON"],
        &["CLIENT", "TRACKING", "ON"],
        &["HELLO", "3"],
        &["HELLO", "2"],
        &["MULTI"],
        &["DISCARD"],
        &["ORDER.NOTHING"],
        &["AUTH", "default", "wrong"],
        &["SUBSCRIBE", "channel"],
        &["RESET"],
    ];
    for command in said {
        drop(client.run(command));
    }
    client.send(&args!["CLIENT", "REPLY", "SKIP"]);
    client.send(&args!["PING"]);
    client.send(&args!["CLIENT", "REPLY", "OFF"]);
    super::stays_leased(&mut c, "q", "1", id);
    assert_eq!(released(&mut c), 0);
    // It is still this client whose close counts.
    client.cut();
    becomes(&mut c, "q", "1", "expired");
    expect_healthy(&server);
}

#[test]
fn a_client_that_dies_in_a_transaction_a_subscription_or_a_monitor_is_gone() {
    let server = Server::plain();
    let mut c = server.client();
    due(
        &mut c,
        "q",
        &["queued", "executed", "open", "subscribed", "monitor"],
    );
    // Before EXEC nothing was done, and nothing is.
    let mut client = server.client();
    cmd!(client, "MULTI").ok();
    cmd!(client, "ORDER.CLAIM", "q", "me", "ID", "queued", "SESSION");
    client.cut();
    // Granted inside EXEC.
    let mut client = server.client();
    cmd!(client, "MULTI").ok();
    cmd!(
        client,
        "ORDER.CLAIM",
        "q",
        "me",
        "ID",
        "executed",
        "SESSION"
    );
    cmd!(
        client,
        "ORDER.LOCK",
        "q",
        "new",
        "me",
        "PX",
        LONG_TEXT,
        "BLOCK",
        0,
        "SESSION"
    );
    let replies = cmd!(client, "EXEC");
    assert_eq!(replies.items()[0].claims().len(), 1);
    replies.items()[1].lease().expect("OK");
    let id = client.id();
    for order in ["executed", "new"] {
        assert_eq!(c.order("q", order).int("session"), id, "{order}");
    }
    client.cut();
    becomes(&mut c, "q", "executed", "expired");
    becomes(&mut c, "q", "new", "missing");
    let modes: [(&str, &[&str]); 3] = [
        ("open", &["MULTI"]),
        ("subscribed", &["SUBSCRIBE", "channel"]),
        ("monitor", &["MONITOR"]),
    ];
    for (order, mode) in modes {
        let mut client = holder(&server, "q", order);
        let reply = client.run(mode);
        assert!(!reply.is_error(), "{reply:?}");
        client.cut();
        becomes(&mut c, "q", order, "expired");
    }
    let queued = c.order("q", "queued");
    assert_eq!(
        (queued.state(), queued.int("attempt")),
        ("expired".into(), 0)
    );
    assert_eq!((bound(&mut c), released(&mut c)), (0, 5));
    expect_healthy(&server);
}

#[test]
fn a_client_that_is_killed_in_its_own_transaction_keeps_nothing() {
    let server = Server::plain();
    let mut c = server.client();
    due(&mut c, "q", &["1"]);
    let mut client = server.client();
    let id = client.id();
    cmd!(client, "MULTI").ok();
    cmd!(client, "CLIENT", "KILL", "ID", id, "SKIPME", "no");
    cmd!(client, "ORDER.CLAIM", "q", "me", "PX", LONG_TEXT, "SESSION");
    client.send(&args!["EXEC"]);
    wait_until(SOON, "it to be released", || released(&mut c) == 1);
    let order = c.order("q", "1");
    assert_eq!((order.state(), order.int("attempt")), ("expired".into(), 1));
    expect_healthy(&server);
}

#[test]
fn leases_that_were_over_are_not_in_the_way_of_others() {
    let server = Server::plain();
    let mut c = server.client();
    let ids: Vec<String> = (0..600).map(|n| format!("a{n}")).collect();
    due(
        &mut c,
        "q",
        &ids.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    due(&mut c, "q", &["z"]);
    let mut client = server.client();
    let id = client.id();
    let rows = cmd!(
        client,
        "ORDER.CLAIM",
        "q",
        "me",
        "COUNT",
        600,
        "PX",
        150,
        "SESSION"
    )
    .claims();
    assert_eq!(rows.len(), 600);
    claim(&mut client, "q", "z");
    // In one turn of the event loop: no pass comes between.
    cmd!(c, "MULTI").ok();
    cmd!(c, "DEBUG", "SLEEP", "0.2");
    cmd!(c, "CLIENT", "KILL", "ID", id);
    assert_eq!(cmd!(c, "EXEC").items()[1], Value::Int(1));
    becomes(&mut c, "q", "z", "expired");
    assert_eq!(released(&mut c), 1, "the others had ended by themselves");
    assert_eq!(bound(&mut c), 0);
    expect_healthy(&server);
}

/// Runs openssl; false where there is none.
fn openssl(dir: &Path, arguments: &[&str]) -> bool {
    let run = Command::new("openssl")
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    run.is_ok_and(|status| status.success())
}

#[test]
fn a_connection_with_tls_is_one_as_any_other() {
    let plain = Server::plain();
    let dir = plain.dir();
    let words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test -keyout key -out cert";
    let words: Vec<&str> = words.split(' ').collect();
    if !openssl(dir, &words) || !plain.speaks_tls() {
        eprintln!("skipped: this server was built without TLS, or there is no openssl");
        return;
    }
    // The harness has found it free; its own port is switched off.
    let port = Options::new().tcp().start().port();
    let path = |name: &str| dir.join(name).display().to_string();
    let server = Options::new()
        .line(format!("tls-port {port}"))
        .line(format!("tls-cert-file {}", path("cert")))
        .line(format!("tls-key-file {}", path("key")))
        .line(format!("tls-ca-cert-file {}", path("cert")))
        .line("tls-auth-clients no")
        .start();
    let mut c = server.client();
    due(&mut c, "q", &["1"]);
    let mut client = Command::new("openssl")
        .args([
            "s_client",
            "-quiet",
            "-connect",
            &format!("127.0.0.1:{port}"),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is there");
    let mut input = client.stdin.take().expect("it was piped");
    input
        .write_all(b"ORDER.CLAIM q tls PX 600000 SESSION\r\n")
        .expect("it reads");
    becomes(&mut c, "q", "1", "leased");
    assert_ne!(c.order("q", "1").int("session"), 0);
    client.kill().expect("it runs");
    becomes(&mut c, "q", "1", "expired");
    client.wait().expect("it was killed");
    assert_eq!(released(&mut c), 1);
    expect_healthy(&server);
}
