//! Options: in any order and case; those that contradict are syntax errors.

use std::collections::BTreeSet;

use crate::support::{Client, Server, cmd, permutations};

#[test]
fn options_work_in_any_order_and_case() {
    let server = Server::plain();
    let mut c = server.client();
    let at = "4000000000000";
    let options: Vec<Vec<&str>> = vec![
        vec!["PXAT", at],
        vec!["UPSERT"],
        vec!["GT"],
        vec!["FROM", "unpaid"],
        vec!["STATUS", "moved"],
        vec!["PAYLOAD", "PX"],
    ];
    let mut rounds = 0_u32;
    permutations(&options, &mut |order| {
        rounds += 1;
        let lower = rounds.is_multiple_of(2);
        cmd!(
            c,
            "ORDER.SCHEDULE",
            "q",
            "1",
            "PX",
            1000,
            "STATUS",
            "unpaid"
        )
        .order()
        .expect("OK");
        let mut words = vec!["ORDER.SCHEDULE".to_owned(), "q".into(), "1".into()];
        for option in order {
            let name = if lower {
                option[0].to_lowercase()
            } else {
                option[0].to_owned()
            };
            words.push(name);
            words.extend(option[1..].iter().map(|&w| w.to_owned()));
        }
        let reply = c.run(&words);
        let reply = reply.order();
        assert_eq!(
            (
                reply.outcome.as_str(),
                reply.deadline,
                reply.status_text().as_str()
            ),
            ("OK", 4_000_000_000_000, "moved"),
            "{words:?}"
        );
        assert_eq!(c.order("q", "1").text("payload"), "PX", "{words:?}");
        cmd!(c, "DEL", "q");
    });
    assert_eq!(rounds, 720);

    let each = |prefix: &[&str],
                options: &[&[&str]],
                prepare: &mut dyn FnMut(&mut Client) -> Option<u64>,
                c: &mut Client| {
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let options: Vec<Vec<&str>> = options.iter().map(|o| o.to_vec()).collect();
        permutations(&options, &mut |order| {
            cmd!(c, "DEL", "q");
            let fence = prepare(c);
            let mut words: Vec<String> = prefix.iter().map(|&w| w.to_owned()).collect();
            words.extend(order.iter().flatten().map(|&w| w.to_owned()));
            for word in &mut words {
                if word == "$fence" {
                    *word = fence.unwrap_or(0).to_string();
                }
            }
            let reply = c.run(&words);
            assert!(!reply.is_error(), "{words:?}: {reply:?}");
            let order = cmd!(c, "ORDER.GET", "q", "1").get().expect("there");
            seen.insert(
                ["state", "status", "result", "payload", "error", "owner"]
                    .map(|f| order.text(f))
                    .join("|"),
            );
        });
        assert_eq!(
            seen.len(),
            1,
            "the order of options makes a difference: {seen:?}"
        );
        seen.pop_first().unwrap()
    };
    let mut scheduled = |c: &mut Client| {
        cmd!(
            c,
            "ORDER.SCHEDULE",
            "q",
            "1",
            "PX",
            60_000,
            "STATUS",
            "unpaid"
        )
        .order()
        .expect("OK");
        None
    };
    let finish: &[&[&str]] = &[
        &["STRICT"],
        &["FROM", "unpaid"],
        &["STATUS", "s"],
        &["RESULT", "r"],
        &["KEEP", "90000"],
    ];
    assert_eq!(
        each(&["ORDER.FINISH", "q", "1"], finish, &mut scheduled, &mut c),
        "finished|s|r|-|-|-"
    );
    let status: &[&[&str]] = &[&["FROM", "x"], &["FROM", "unpaid"], &["PAYLOAD", "p"]];
    assert_eq!(
        each(
            &["ORDER.STATUS", "q", "1", "s"],
            status,
            &mut scheduled,
            &mut c
        ),
        "scheduled|s|-|p|-|-"
    );
    let mut claimed = |c: &mut Client| {
        cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0, "STATUS", "unpaid")
            .order()
            .expect("OK");
        Some(cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].fence)
    };
    let ack: &[&[&str]] = &[
        &["FROM", "unpaid"],
        &["STATUS", "s"],
        &["RESULT", "r"],
        &["KEEP", "90000"],
    ];
    assert!(
        each(
            &["ORDER.ACK", "q", "1", "$fence"],
            ack,
            &mut claimed,
            &mut c
        )
        .starts_with("finished|s|r|-|-|")
    );
    let mack: &[&[&str]] = &[&["FROM", "unpaid"], &["STATUS", "s"], &["KEEP", "90000"]];
    assert!(
        each(
            &["ORDER.MACK", "q", "1", "1", "$fence"],
            mack,
            &mut claimed,
            &mut c
        )
        .starts_with("finished|s|-|-|-|")
    );
    let nack: &[&[&str]] = &[&["DELAY", "90000"], &["ERROR", "DEAD"]];
    assert!(
        each(
            &["ORDER.NACK", "q", "1", "$fence"],
            nack,
            &mut claimed,
            &mut c
        )
        .starts_with("retrying|unpaid|-|-|DEAD|")
    );
    let nack: &[&[&str]] = &[&["DEAD"], &["ERROR", "DELAY"]];
    assert!(
        each(
            &["ORDER.NACK", "q", "1", "$fence"],
            nack,
            &mut claimed,
            &mut c
        )
        .starts_with("dead|unpaid|-|-|DELAY|")
    );
    let mut due = |c: &mut Client| {
        cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
            .order()
            .expect("OK");
        None
    };
    let claim: &[&[&str]] = &[&["PX", "5000"], &["COUNT", "10"], &["BLOCK", "100"]];
    assert_eq!(
        each(&["ORDER.CLAIM", "q", "COUNT"], claim, &mut due, &mut c),
        "leased||-|-|-|COUNT"
    );
    let claim: &[&[&str]] = &[&["EX", "5"], &["ID", "1"]];
    assert_eq!(
        each(&["ORDER.CLAIM", "q", "ID"], claim, &mut due, &mut c),
        "leased||-|-|-|ID"
    );
    let scan: &[&[&str]] = &[
        &["STATE", "expired"],
        &["STATUS", ""],
        &["MATCH", "1"],
        &["COUNT", "10"],
    ];
    assert_eq!(
        each(&["ORDER.SCAN", "q", "0"], scan, &mut due, &mut c),
        "expired||-|-|-|-"
    );
}

#[test]
fn contradictions_are_syntax_errors_and_change_nothing() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0, "STATUS", "unpaid")
        .order()
        .expect("OK");
    let before = c.digest("q");
    for command in [
        "ORDER.SCHEDULE q 1 STATUS x PAYLOAD y",
        "ORDER.SCHEDULE q 1 PX 5 EX 5",
        "ORDER.SCHEDULE q 1 PX 5 PX 5",
        "ORDER.SCHEDULE q 1 PXAT 1795958000000 EXAT 1795958000",
        "ORDER.SCHEDULE q 1 PX 5 NX XX",
        "ORDER.SCHEDULE q 1 PX 5 NX UPSERT",
        "ORDER.SCHEDULE q 1 PX 5 XX UPSERT",
        "ORDER.SCHEDULE q 1 PX 5 XX XX",
        "ORDER.SCHEDULE q 1 PX 5 GT LT",
        "ORDER.SCHEDULE q 1 PX 5 NX GT",
        "ORDER.SCHEDULE q 1 PX 5 NX LT",
        "ORDER.SCHEDULE q 1 PX 5 NX FROM unpaid",
        "ORDER.SCHEDULE q 1 PX 5 NX IFREV 5",
        "ORDER.SCHEDULE q 1 PX 5 FENCE 5 NX",
        "ORDER.SCHEDULE q 1 PX 5 XX IFREV 5 IFREV 5",
        "ORDER.SCHEDULE q 1 PX 5 XX FENCE 5 FENCE 5",
        "ORDER.SCHEDULE q 1 PX 5 STATUS a STATUS b",
        "ORDER.SCHEDULE q 1 PX 5 PAYLOAD a PAYLOAD b",
        "ORDER.SCHEDULE q 1 XX PX",
        "ORDER.SCHEDULE q 1 PX 5 STATUS",
        "ORDER.SCHEDULE q 1 PX 5 FROM",
        "ORDER.SCHEDULE q 1 PX 5 KEEP 5",
        "ORDER.FINISH q 1 CREATE FENCE 5",
        "ORDER.FINISH q 1 IFREV 5 CREATE",
        "ORDER.FINISH q 1 STRICT STRICT",
        "ORDER.FINISH q 1 CREATE CREATE",
        "ORDER.FINISH q 1 KEEP 5 KEEP 5",
        "ORDER.FINISH q 1 RESULT a RESULT b",
        "ORDER.FINISH q 1 RESULT",
        "ORDER.FINISH q 1 PX 5",
        "ORDER.STATUS q 1 s PAYLOAD a PAYLOAD b",
        "ORDER.STATUS q 1 s KEEP 5",
        "ORDER.CLAIM q me PX 5 EX 5",
        "ORDER.CLAIM q me PX 5 PX 5",
        "ORDER.CLAIM q me COUNT 5 COUNT 5",
        "ORDER.CLAIM q me BLOCK 5 BLOCK 5",
        "ORDER.CLAIM q me ID 1 COUNT 5",
        "ORDER.CLAIM q me BLOCK 5 ID 1",
        "ORDER.CLAIM q me ID 1 ID 2",
        "ORDER.CLAIM q me ID",
        "ORDER.CLAIM q me PXAT 1795958000000",
        "ORDER.ACK q 1 5 STATUS a STATUS b",
        "ORDER.ACK q 1 5 KEEP 5 KEEP 5",
        "ORDER.ACK q 1 5 IFREV 5",
        "ORDER.ACK q 1 5 RESULT",
        "ORDER.MACK q 2 1 5",
        "ORDER.MACK q 1 1 5 2 5",
        "ORDER.MACK q 1 1 5 RESULT r",
        "ORDER.NACK q 1 5 DEAD DELAY 5",
        "ORDER.NACK q 1 5 DELAY 5 DEAD",
        "ORDER.NACK q 1 5 DEAD DEAD",
        "ORDER.NACK q 1 5 DELAY 5 DELAY 5",
        "ORDER.NACK q 1 5 ERROR a ERROR b",
        "ORDER.RENEW q 1 5 LT LT",
        "ORDER.RENEW q 1 5 PX 5 EX 5",
        "ORDER.RENEW q 1 5 PX 5 LT LT",
        "ORDER.NEXT q COUNT",
        "ORDER.NEXT q COUNT 5 COUNT 5",
        "ORDER.SCAN q 0 STATE nowhere",
        "ORDER.SCAN q 0 STATE dead STATE dead",
        "ORDER.SCAN q 0 MATCH a MATCH b",
        "ORDER.SCAN q 0 COUNT",
        "ORDER.GET q 1 2",
        "ORDER.PTTL q 1 2",
        "ORDER.STATS q q",
    ] {
        let reply = c.run(&command.split(' ').collect::<Vec<_>>());
        let error = reply.error();
        assert!(
            error.starts_with("ERR syntax error")
                || error.starts_with("ERR wrong number of arguments"),
            "{command}: {error}"
        );
        assert_eq!(c.digest("q"), before, "{command}");
    }
}
