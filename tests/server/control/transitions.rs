//! The setting `transitions`: which changes of status a queue lets through.

use super::{LONG, setting};
use crate::support::{Client, Server, argv, cmd};

#[test]
fn transitions_let_through_what_they_list() {
    let server = Server::plain();
    let mut c = server.client();
    let any = |c: &mut Client, words: Vec<Vec<u8>>| c.run(&words).items()[0].text();
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "old",
        "PX",
        LONG,
        "STATUS",
        "strange"
    )
    .order()
    .expect("OK");
    cmd!(
        c,
        "ORDER.CONFIG",
        "q",
        "SET",
        "transitions",
        "unpaid>paid unpaid>closed paid>shipped"
    )
    .ok();
    assert_eq!(
        setting(&mut c, "q", "transitions"),
        "unpaid>paid unpaid>closed paid>shipped"
    );
    for id in ["1", "2"] {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", LONG, "STATUS", "unpaid")
            .order()
            .expect("OK");
    }
    let before = c.digest("q");
    for words in [
        argv!["ORDER.STATUS", "q", "1", "shipped"],
        argv!["ORDER.STATUS", "q", "1", ""],
        argv!["ORDER.FINISH", "q", "1", "STATUS", "shipped"],
        argv![
            "ORDER.SCHEDULE",
            "q",
            "1",
            "PX",
            LONG,
            "XX",
            "STATUS",
            "shipped"
        ],
        argv!["ORDER.STATUS", "q", "old", "paid"],
    ] {
        assert_eq!(any(&mut c, words.clone()), "STATE", "{words:?}");
    }
    assert_eq!(c.digest("q"), before);
    // The same status is no change; what is listed is let through, step by step.
    assert_eq!(any(&mut c, argv!["ORDER.STATUS", "q", "1", "unpaid"]), "OK");
    assert_eq!(any(&mut c, argv!["ORDER.STATUS", "q", "1", "paid"]), "OK");
    assert_eq!(
        any(&mut c, argv!["ORDER.STATUS", "q", "1", "closed"]),
        "STATE",
        "never closed after paid"
    );
    assert_eq!(
        any(&mut c, argv!["ORDER.FINISH", "q", "1", "STATUS", "shipped"]),
        "OK"
    );
    assert_eq!(
        any(&mut c, argv!["ORDER.STATUS", "q", "1", "unpaid"]),
        "STATE",
        "finished ones too"
    );
    // A closer's ACK and MACK as well.
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 0, "XX")
        .order()
        .expect("OK");
    let row = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
    assert_eq!(
        any(
            &mut c,
            argv!["ORDER.ACK", "q", "2", row.fence, "STATUS", "shipped"]
        ),
        "STATE"
    );
    assert_eq!(
        any(
            &mut c,
            argv!["ORDER.MACK", "q", 1, "2", row.fence, "STATUS", "shipped"]
        ),
        "STATE"
    );
    assert_eq!(c.state("q", "2"), "leased");
    assert_eq!(
        any(
            &mut c,
            argv!["ORDER.MACK", "q", 1, "2", row.fence, "STATUS", "closed"]
        ),
        "OK"
    );
    // A holder is bound by them too.
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "3",
        "PX",
        LONG,
        "STATUS",
        "unpaid"
    )
    .order()
    .expect("OK");
    let fence = cmd!(c, "ORDER.LOCK", "q", "3", "me", "PX", LONG)
        .lease()
        .expect("OK")
        .fence;
    assert_eq!(
        any(
            &mut c,
            argv![
                "ORDER.FINISH",
                "q",
                "3",
                "FENCE",
                fence,
                "STATUS",
                "shipped"
            ]
        ),
        "STATE"
    );
    assert_eq!(
        any(
            &mut c,
            argv!["ORDER.FINISH", "q", "3", "FENCE", fence, "STATUS", "paid"]
        ),
        "OK"
    );
    cmd!(c, "ORDER.CONFIG", "q", "RESET", "transitions").ok();
    assert_eq!(
        any(&mut c, argv!["ORDER.STATUS", "q", "3", "anything"]),
        "OK"
    );
}
