//! Commands on the queue: CONFIG, and the states that SCAN and PURGE know.

use super::*;

#[test]
fn config_gets_sets_and_resets() {
    for (text, asked) in [
        ("GET", Configure::Get(None)),
        ("get lease-ms", Configure::Get(Some(b"lease-ms"))),
        ("Reset", Configure::Reset(None)),
        ("RESET keep-ms", Configure::Reset(Some(b"keep-ms"))),
        ("SET a 1", Configure::Set(vec![(b"a", b"1")])),
        // What names and values there are is not the grammar's to know.
        (
            "set a 1 b SET c GET",
            Configure::Set(vec![(b"a", b"1"), (b"b", b"SET"), (b"c", b"GET")]),
        ),
    ] {
        assert_eq!(words(Verb::Config, text), Ok(Request::Config(asked)));
    }
    let transitions: &[u8] = b"unpaid>paid paid>shipped";
    assert_eq!(
        run(
            Verb::Config,
            &[b"SET", b"transitions", transitions, b"", b""]
        ),
        Ok(Request::Config(Configure::Set(vec![
            (b"transitions", transitions),
            (b"", b"")
        ])))
    );
    for (text, error) in [
        ("GET a b", "unknown option near 'b'"),
        ("RESET a b", "unknown option near 'b'"),
        ("SET", "option SET needs a value"),
        ("SET a", "option SET name needs a value"),
        ("SET a 1 b", "option SET name needs a value"),
        ("SET a 1 a 2", "option SET name given twice"),
        ("REWRITE", "unknown option near 'REWRITE'"),
        ("PX 5", "unknown option near 'PX'"),
        ("lease-ms 5", "unknown option near 'lease-ms'"),
    ] {
        assert_eq!(
            line(Verb::Config, text),
            format!("ERR syntax error, {error}"),
            "{text}"
        );
    }
    assert_eq!(
        line(Verb::Config, ""),
        "ERR wrong number of arguments for 'order.config' command"
    );
}

#[test]
fn scan_filters_by_the_states_it_can_list() {
    for state in State::LISTED {
        for word in [state.word().to_owned(), state.word().to_uppercase()] {
            let Ok(Request::Scan(scan)) = run(Verb::Scan, &[b"0", b"STATE", word.as_bytes()])
            else {
                panic!("{word}")
            };
            assert_eq!(scan.state, Some(state));
            let Ok(Request::Purge(purge)) = run(Verb::Purge, &[b"STATE", word.as_bytes()]) else {
                panic!("{word}")
            };
            assert_eq!(purge.state, state);
        }
    }
    for word in [&b"missing"[..], b"", b"expire", b"expiredd", b"expired\0"] {
        let error = Error::UnknownState {
            near: Excerpt::of(word),
        };
        assert_eq!(run(Verb::Scan, &[b"0", b"STATE", word]), Err(error.clone()));
        assert_eq!(run(Verb::Purge, &[b"STATE", word]), Err(error));
    }
}
