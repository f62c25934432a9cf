//! Commands on claims: the pairs of MACK.

use super::*;
use crate::request::Fenced;

/// An order and its fence.
const fn fenced(id: &[u8], fence: u64) -> Fenced<'_> {
    Fenced {
        id,
        fence,
        status: None,
    }
}

#[test]
fn mack_has_one_to_a_thousand_pairs_and_exactly_as_many_as_it_says() {
    for n in ["0", "1001", "4294967297", "9223372036854775808"] {
        let error = Error::OutOfRange {
            name: "n",
            min: 1,
            max: 1000,
        };
        assert_eq!(
            run(Verb::Mack, &[n.as_bytes(), b"id", b"7"]),
            Err(error),
            "{n}"
        );
    }
    for n in ["", "-1", "+1", "1e0", " 1", "NaN"] {
        let error = Error::NotAnInteger { name: "n" };
        assert_eq!(
            run(Verb::Mack, &[n.as_bytes(), b"id", b"7"]),
            Err(error),
            "{n}"
        );
    }
    for count in [1, 2, 999, 1000] {
        let text = count.to_string();
        let mut args: Vec<&[u8]> = vec![text.as_bytes()];
        args.extend(std::iter::repeat_n([&b"id"[..], b"7"], count).flatten());
        let Ok(Request::Mack(mack)) = run(Verb::Mack, &args) else {
            panic!("{count}")
        };
        assert_eq!(mack.orders, vec![fenced(b"id", 7); count]);
        assert_eq!(
            (mack.each.from, mack.each.status, mack.each.keep_ms),
            (Vec::new(), None, None)
        );
        let Err(error) = run(Verb::Mack, &args[..args.len() - 1]) else {
            panic!("{count}")
        };
        // The command with no pair at all has too few arguments.
        if count > 1 {
            assert_eq!(
                error,
                Error::MissingOrders {
                    count: count as u64,
                    what: "pairs of id and fence",
                }
            );
        }
        args.extend([&b"id"[..], b"7"]);
        assert_eq!(run(Verb::Mack, &args), Err(unknown(b"id")));
    }
    assert_eq!(
        line(Verb::Mack, "2 a 1 b"),
        "ERR syntax error, 2 pairs of id and fence must follow n"
    );
    // An option where a pair belongs is read as a pair.
    assert_eq!(
        line(Verb::Mack, "2 a 1 STATUS s"),
        "ERR value of fence is not an integer, must be decimal digits only (order 2 of the list)"
    );
    let Ok(Request::Mack(mack)) = words(Verb::Mack, "2 a 1 a 2 from x FROM y KEEP 0 status s")
    else {
        panic!("options after the pairs")
    };
    assert_eq!(mack.orders, [fenced(b"a", 1), fenced(b"a", 2)]);
    assert_eq!(mack.each.from, [b"x", b"y"]);
    assert_eq!(
        (mack.each.status, mack.each.keep_ms),
        (Some(&b"s"[..]), Some(0))
    );
    assert_eq!(words(Verb::Mack, "1 a 1 RESULT r"), Err(unknown(b"RESULT")));
}
