//! Commands on locks: LOCK, UNLOCK and BREAK.

use super::*;

#[test]
fn a_bad_lock_is_told_which_argument_is_bad() {
    let long = "x".repeat(129);
    for (text, error) in [
        (
            "id me PX 0".to_owned(),
            "value of PX is out of range, a lease must last between 1 and 86400000 ms",
        ),
        (
            "id me PX -1".to_owned(),
            "value of PX is not an integer, must be decimal digits only",
        ),
        (
            "id me EX 86401".to_owned(),
            "value of EX is out of range, a lease must last between 1 and 86400000 ms",
        ),
        (
            "id me PX 86400001".to_owned(),
            "value of PX is out of range, a lease must last between 1 and 86400000 ms",
        ),
        (
            "id me PX 5 MAX 0".to_owned(),
            "value of MAX is out of range, must be between 1 and 86400000",
        ),
        (
            format!("id {long} PX 5"),
            "length of owner is out of range, must be between 1 and 128 bytes",
        ),
        (
            format!("id me PX 5 FP {}", &long[..65]),
            "length of FP is out of range, must be between 1 and 64 bytes",
        ),
        (
            "id me PX 5 NX".to_owned(),
            "syntax error, unknown option near 'NX'",
        ),
        (
            "id me PX 5 EX 5".to_owned(),
            "syntax error, PX and EX exclude each other",
        ),
        (
            "id me PX 5 REENTRANT REENTRANT".to_owned(),
            "syntax error, option REENTRANT given twice",
        ),
    ] {
        assert_eq!(line(Verb::Lock, &text), format!("ERR {error}"), "{text}");
    }
}

#[test]
fn break_takes_one_fence_at_most_and_no_option() {
    let not = Err(Error::NotAnInteger { name: "fence" });
    assert_eq!(words(Verb::Break, "id FENCE 7"), not);
    assert_eq!(words(Verb::Break, "id 7 8"), Err(unknown(b"8")));
    assert_eq!(words(Verb::Unlock, "id FENCE"), not);
    let error = Error::WrongArity {
        command: "order.unlock",
    };
    assert_eq!(words(Verb::Unlock, "id 7 8"), Err(error));
}
