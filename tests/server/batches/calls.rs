//! Batches within MULTI, scripts and functions, in both protocols, and for whom.

use super::{outcomes, run, words};
use crate::support::{Server, Value, argv, cmd};

#[test]
fn batches_work_in_transactions_scripts_and_functions() {
    let server = Server::plain();
    let mut c = server.client();
    let line = |line: &str| words(line).into_iter().map(String::into_bytes).collect();
    let replies = c.pipeline(&[
        argv!["MULTI"],
        line("ORDER.MSCHEDULE q PX 2 a 0 b 600000 STATUS unpaid"),
        line("ORDER.CLAIM q me ID a"),
        line("ORDER.MFINISH q 2 b a STATUS paid FROM unpaid"),
        line("ORDER.MNACK q 1 a 5"),
        argv!["EXEC"],
    ]);
    let replies = replies[5].items();
    assert_eq!(outcomes(&replies[0]), ["OK", "OK"]);
    assert_eq!(outcomes(&replies[2]), ["OK", "LEASED"]);
    assert_eq!(outcomes(&replies[3]), ["STALE"]);

    let script = "
        local made = redis.call('ORDER.MSCHEDULE', KEYS[1], 'PX', 'PAYLOADS', 2, 'x', 0, 'p', 'y', 0, '')
        local rows = redis.call('ORDER.CLAIM', KEYS[1], 'lua', 'COUNT', 2)
        local fences = {}
        for i, row in ipairs(rows) do fences[i] = string.format('%.0f', row[2]) end
        local kept = redis.call('ORDER.MRENEW', KEYS[1], 2, rows[1][1], fences[1], rows[2][1], fences[2], 'PX', 900000)
        local back = redis.call('ORDER.MNACK', KEYS[1], 1, rows[1][1], fences[1], 'UNTRIED', 'DELAY', 900000)
        local done = redis.call('ORDER.MACK', KEYS[1], 'STATUSES', 1, rows[2][1], fences[2], 'closed')
        local bad = redis.pcall('ORDER.MFINISH', KEYS[1], 2, 'x')
        return {made[1], made[2], kept[1], kept[2], back[1], done[1], bad.err}";
    let reply = cmd!(c, "EVAL", script, 1, "lua");
    let said: Vec<String> = reply.items().iter().map(Value::text).collect();
    assert_eq!(said[..6], ["OK"; 6], "{reply:?}");
    assert!(said[6].contains("2 ids must follow n"), "{reply:?}");
    let session = "return redis.call('ORDER.MRENEW', KEYS[1], 1, 'x', 5, 'PX', 5, 'SESSION')";
    let reply = cmd!(c, "EVAL", session, 1, "lua");
    assert!(
        reply
            .error()
            .contains("SESSION needs a client's own connection"),
        "{reply:?}"
    );

    let library = "#!lua name=lib\nredis.register_function('import', function(keys, args) return redis.call('ORDER.MSCHEDULE', keys[1], 'PX', '2', args[1], '5000', args[2], '5000') end)";
    cmd!(c, "FUNCTION", "LOAD", library);
    let reply = cmd!(c, "FCALL", "import", 1, "f", "1", "2");
    assert_eq!(outcomes(&reply), ["OK", "OK"]);
    assert_eq!(
        outcomes(&cmd!(c, "FCALL", "import", 1, "f", "1", "3")),
        ["EXISTS", "OK"]
    );
}

/// Words alone in both protocols.
#[test]
fn outcomes_are_strings_in_an_array_in_both_protocols() {
    let server = Server::plain();
    let (mut two, mut three) = (server.client(), server.client3());
    for c in [&mut two, &mut three] {
        cmd!(c, "DEL", "q");
        run(c, "ORDER.MSCHEDULE q PX 1 a 0");
        for (line, said) in [
            ("ORDER.MSCHEDULE q PX 2 a 0 b 600000", ["EXISTS", "OK"]),
            ("ORDER.MRENEW q 2 a 7 none 7 PX 5", ["GONE", "MISSING"]),
            ("ORDER.MNACK q 2 a 7 none 7", ["STALE", "MISSING"]),
            ("ORDER.MACK q 2 a 7 none 7", ["STALE", "MISSING"]),
            ("ORDER.MFINISH q 2 b none", ["OK", "MISSING"]),
        ] {
            let reply = c.run(&words(line));
            let said = said.map(|word| Value::Bulk(word.into())).to_vec();
            assert_eq!(reply, Value::Array(said), "{line}");
        }
    }
}

#[test]
fn who_may_use_one_batch_may_not_use_another_nor_other_queues() {
    let server = Server::plain();
    let mut c = server.client();
    let calls = [
        ("order.mschedule", "ORDER.MSCHEDULE $q PX 1 1 60000"),
        ("order.mfinish", "ORDER.MFINISH $q 1 1"),
        ("order.mack", "ORDER.MACK $q 1 1 5"),
        ("order.mnack", "ORDER.MNACK $q 1 1 5"),
        ("order.mrenew", "ORDER.MRENEW $q 1 1 5 PX 5"),
    ];
    for (name, _) in calls {
        let allowed = format!("+{name}");
        let rules = [
            "ACL",
            "SETUSER",
            name,
            "on",
            ">secret",
            "resetkeys",
            "~orders*",
        ];
        let mut rules = rules.to_vec();
        rules.extend(["nocommands", &allowed]);
        c.run(&rules).ok();
        let mut user = server.client();
        cmd!(user, "AUTH", name, "secret").ok();
        for (other, call) in calls {
            let reply = user.run(&words(&call.replace("$q", "orders")));
            assert_eq!(reply.is_error(), other != name, "{name}: {call}: {reply:?}");
            let reply = user.run(&words(&call.replace("$q", "others")));
            assert!(
                reply.error().starts_with("NOPERM"),
                "{name}: {call}: {reply:?}"
            );
        }
    }
}

#[test]
fn the_words_of_the_grammar_are_in_command_docs() {
    let server = Server::plain();
    let mut c = server.client();
    for (name, tokens) in [
        (
            "order.mschedule",
            &[
                "EX", "PX", "EXAT", "PXAT", "PAYLOADS", "NX", "XX", "UPSERT", "GT", "LT", "FROM",
                "STATUS",
            ][..],
        ),
        (
            "order.mfinish",
            &["STRICT", "CREATE", "FROM", "STATUS", "KEEP"],
        ),
        ("order.mack", &["STATUSES", "FROM", "STATUS", "KEEP"]),
        ("order.mnack", &["DELAY", "DEAD", "UNTRIED", "ERROR"]),
        ("order.mrenew", &["EX", "PX", "LT", "SESSION"]),
    ] {
        let text = format!("{:?}", cmd!(c, "COMMAND", "DOCS", name));
        for token in tokens {
            assert!(
                text.contains(&format!("\"{token}\"")),
                "{name} {token}: {text}"
            );
        }
        assert!(text.contains("O(N)"), "{text}");
    }
    let keys = cmd!(
        c,
        "COMMAND",
        "GETKEYS",
        "ORDER.MSCHEDULE",
        "q",
        "PX",
        2,
        "a",
        5,
        "b",
        5
    );
    assert_eq!(keys, Value::Array(vec![Value::Bulk(b"q".to_vec())]));
}
