//! Which connection a lease is bound to, and who has no connection of its own.

use super::{LONG, becomes, bound, claim, due, holder, lock, released, stays_leased};
use crate::support::states::expect_healthy;
use crate::support::{Client, Options, Server, Value, args, cmd, library};

#[test]
fn a_renewal_binds_the_lease_to_the_caller_from_then_on() {
    let server = Server::plain();
    let mut c = server.client();
    for (id, more) in [("1", &[][..]), ("2", &["LT"]), ("3", &["MRENEW"])] {
        due(&mut c, "q", &[id]);
        let mut first = server.client();
        let row = claim(&mut first, "q", id);
        let mut second = server.client();
        if more == ["MRENEW"] {
            let reply = cmd!(
                second,
                "ORDER.MRENEW",
                "q",
                2,
                id,
                row.fence,
                "nobody",
                1,
                "PX",
                LONG,
                "SESSION"
            );
            assert_eq!(reply.items()[0].text(), "OK");
            assert_eq!(reply.items()[1].text(), "MISSING");
        } else {
            let fence = row.fence.to_string();
            let mut words = vec!["ORDER.RENEW", "q", id, &fence, "PX", "600000"];
            words.extend(more);
            words.push("SESSION");
            second.run(&words).lease().expect("OK");
        }
        let id_of_second = second.id();
        first.cut();
        stays_leased(&mut c, "q", id, id_of_second);
        assert_eq!(bound(&mut c), 1);
        second.cut();
        becomes(&mut c, "q", id, "expired");
        // An answer that is no grant binds nothing.
        let mut third = server.client();
        assert_ne!(
            cmd!(
                third,
                "ORDER.RENEW",
                "q",
                id,
                row.fence,
                "PX",
                LONG,
                "SESSION"
            )
            .lease()
            .outcome,
            "OK"
        );
        assert_eq!(bound(&mut c), 0);
    }
    assert_eq!(released(&mut c), 3);
    expect_healthy(&server);
}

#[test]
fn a_lock_that_is_held_is_bound_by_who_asks_with_it_and_left_by_who_does_not() {
    let server = Server::plain();
    let mut c = server.client();
    let mut first = server.client();
    let fence = cmd!(first, "ORDER.LOCK", "q", "1", "holder", "PX", LONG)
        .lease()
        .expect("OK")
        .fence;
    assert_eq!(c.order("q", "1").int("session"), 0);
    let mut second = server.client();
    let id_of_second = second.id();
    // Of another owner: BUSY, and bound to nobody.
    cmd!(
        second,
        "ORDER.LOCK",
        "q",
        "1",
        "other",
        "PX",
        LONG,
        "SESSION"
    )
    .lease()
    .expect("BUSY");
    assert_eq!(bound(&mut c), 0);
    cmd!(
        second,
        "ORDER.LOCK",
        "q",
        "1",
        "holder",
        "PX",
        LONG,
        "SESSION"
    )
    .lease()
    .expect("HELD");
    assert_eq!(c.order("q", "1").int("session"), id_of_second);
    // Without it the binding stays.
    cmd!(first, "ORDER.LOCK", "q", "1", "holder", "PX", LONG)
        .lease()
        .expect("HELD");
    cmd!(first, "ORDER.RENEW", "q", "1", fence, "PX", LONG)
        .lease()
        .expect("OK");
    first.cut();
    stays_leased(&mut c, "q", "1", id_of_second);
    second.cut();
    becomes(&mut c, "q", "1", "missing");
    expect_healthy(&server);
}

#[test]
fn who_claims_what_is_claimed_already_binds_nothing() {
    let server = Server::plain();
    let mut c = server.client();
    due(&mut c, "q", &["1"]);
    let mut first = server.client();
    claim(&mut first, "q", "1");
    let id_of_first = first.id();
    let mut second = server.client();
    let rows = cmd!(
        second,
        "ORDER.CLAIM",
        "q",
        "holder",
        "ID",
        "1",
        "PX",
        LONG,
        "SESSION"
    );
    assert_eq!(rows.claims(), []);
    second.cut();
    stays_leased(&mut c, "q", "1", id_of_first);
    drop(first);
    becomes(&mut c, "q", "1", "expired");
    assert_eq!(released(&mut c), 1);
}

#[test]
fn one_connection_ends_alone_what_is_bound_to_it() {
    let server = Server::plain();
    let mut c = server.client();
    due(&mut c, "q", &["1", "2", "3"]);
    let mut first = holder(&server, "q", "1");
    lock(&mut first, "other", "1");
    let second = holder(&server, "q", "2");
    cmd!(first, "SELECT", 3).ok();
    lock(&mut first, "q", "1");
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "PX", LONG).claims();
    assert_eq!(rows[0].id_text(), "3");
    assert_eq!(bound(&mut c), 4);
    first.cut();
    becomes(&mut c, "q", "1", "expired");
    becomes(&mut c, "other", "1", "missing");
    let mut third = server.client();
    cmd!(third, "SELECT", 3).ok();
    becomes(&mut third, "q", "1", "missing");
    // That of another connection, and that of none, go on.
    assert_eq!(c.state("q", "2"), "leased");
    assert_eq!(c.state("q", "3"), "leased");
    assert_eq!((bound(&mut c), released(&mut c)), (1, 3));
    second.cut();
    becomes(&mut c, "q", "2", "expired");
    stays_leased(&mut c, "q", "3", 0);
    expect_healthy(&server);
}

/// What is refused where there is no connection.
const REFUSED: &str = "ERR SESSION needs a client's own connection";

/// The four commands that take SESSION, for a queue.
fn commands(queue: &str) -> [Vec<String>; 4] {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect();
    [
        words(&format!("ORDER.CLAIM {queue} me PX 100 SESSION")),
        words(&format!("ORDER.LOCK {queue} 2 me PX 100 SESSION")),
        words(&format!("ORDER.RENEW {queue} 3 7 PX 100 SESSION")),
        words(&format!("ORDER.MRENEW {queue} 1 3 7 PX 100 SESSION")),
    ]
}

/// Calls a command by a script, a function and another module.
fn by_others(c: &mut Client, command: &[String]) -> [Value; 3] {
    let mut script = args!["EVAL", "return redis.call(unpack(ARGV))", 0].to_vec();
    let mut function = args!["FCALL", "call", 0].to_vec();
    let mut module = args!["MEDDLER.CALL", "!E"].to_vec();
    for call in [&mut script, &mut function, &mut module] {
        call.extend(command.iter().map(|word| word.as_bytes().to_vec()));
    }
    [c.run(&script), c.run(&function), c.run(&module)]
}

#[test]
fn scripts_functions_and_modules_have_no_connection_of_their_own() {
    let server = Options::new()
        .module(library("ORDERWHEEL_MEDDLER", "libmeddler.so"))
        .start();
    let mut c = server.client();
    let code = "#!lua name=lib\nredis.register_function('call', function(_, args) return redis.call(unpack(args)) end)";
    cmd!(c, "FUNCTION", "LOAD", code);
    due(&mut c, "q", &["1"]);
    cmd!(c, "SET", "text", "x").ok();
    let digest = c.digest("q");
    for queue in ["q", "text", "none"] {
        for command in commands(queue) {
            for reply in by_others(&mut c, &command) {
                // Before the key is looked at: also where it is no queue.
                assert!(reply.error().starts_with(REFUSED), "{command:?}: {reply:?}");
            }
        }
    }
    // The syntax comes before.
    for command in commands("q") {
        let mut wrong = command.clone();
        wrong.push("SESSION".into());
        for reply in by_others(&mut c, &wrong) {
            let text = reply.error();
            assert!(!text.starts_with(REFUSED), "{wrong:?}: {text}");
        }
    }
    assert_eq!(c.digest("q"), digest, "nothing was done");
    assert_eq!(cmd!(c, "EXISTS", "none").int(), 0);
    assert_eq!(bound(&mut c), 0);
    // Without SESSION they may.
    let [reply, ..] = by_others(&mut c, &["ORDER.CLAIM".into(), "q".into(), "me".into()]);
    assert_eq!(reply.claims().len(), 1);
    expect_healthy(&server);
}
