//! Batches: the lists of MSCHEDULE, MFINISH, MACK, MNACK and MRENEW.

use super::*;
use crate::request::parse::batches::PAYLOADS_BYTES_MAX;
use crate::request::{Fenced, Timed};

/// How a batch is written: what comes before `n`, one order with its bad values, what
/// must come after the last one.
struct Shape {
    verb: Verb,
    before: &'static [&'static str],
    /// What an order consists of: a good value, and bad ones with what is said of them.
    order: &'static [Part],
    after: &'static [&'static str],
    what: &'static str,
}

/// One argument of an order.
struct Part {
    good: &'static str,
    bad: &'static [(&'static str, &'static str)],
}

/// Longer than an id or a status may be.
const LONG: &str = "long";

const ID: Part = Part {
    good: "id",
    bad: &[
        (
            "",
            "ERR length of id is out of range, must be between 1 and 255 bytes",
        ),
        (
            LONG,
            "ERR length of id is out of range, must be between 1 and 255 bytes",
        ),
    ],
};

const FENCE: Part = Part {
    good: "7",
    bad: &[
        (
            "",
            "ERR value of fence is not an integer, must be decimal digits only",
        ),
        (
            "STATUS",
            "ERR value of fence is not an integer, must be decimal digits only",
        ),
        (
            "9007199254740993",
            "ERR value of fence is out of range, must be between 0 and 9007199254740992",
        ),
    ],
};

const STATUS: Part = Part {
    good: "paid",
    bad: &[(
        LONG,
        "ERR length of status is out of range, must be between 0 and 32 bytes",
    )],
};

const PX: Part = Part {
    good: "5",
    bad: &[
        (
            "-1",
            "ERR value of PX is not an integer, must be decimal digits only",
        ),
        (
            "253402300800000",
            "ERR value of PX is out of range, must be between 0 and 253402300799999",
        ),
    ],
};

/// The ways a list can look like.
const SHAPES: &[Shape] = &[
    Shape {
        verb: Verb::Mschedule,
        before: &["PX"],
        order: &[ID, PX],
        after: &[],
        what: "pairs of id and time",
    },
    Shape {
        verb: Verb::Mschedule,
        before: &["PXAT"],
        order: &[
            ID,
            Part {
                good: "100000000000",
                bad: &[(
                    "1795958000",
                    "ERR PXAT takes milliseconds, must be between 100000000000 and 253402300799999",
                )],
            },
        ],
        after: &[],
        what: "pairs of id and time",
    },
    Shape {
        verb: Verb::Mschedule,
        before: &["PX", "payloads"],
        order: &[
            ID,
            PX,
            Part {
                good: "p",
                bad: &[(
                    LONG,
                    "ERR length of payload is out of range, must be between 0 and 65536 bytes",
                )],
            },
        ],
        after: &[],
        what: "triples of id, time and payload",
    },
    Shape {
        verb: Verb::Mfinish,
        before: &[],
        order: &[ID],
        after: &[],
        what: "ids",
    },
    Shape {
        verb: Verb::Mack,
        before: &[],
        order: &[ID, FENCE],
        after: &[],
        what: "pairs of id and fence",
    },
    Shape {
        verb: Verb::Mack,
        before: &["statuses"],
        order: &[ID, FENCE, STATUS],
        after: &[],
        what: "triples of id, fence and status",
    },
    Shape {
        verb: Verb::Mnack,
        before: &[],
        order: &[ID, FENCE],
        after: &[],
        what: "pairs of id and fence",
    },
    Shape {
        verb: Verb::Mrenew,
        before: &[],
        order: &[ID, FENCE],
        after: &["PX", "500"],
        what: "pairs of id and fence",
    },
];

impl Shape {
    /// Its arguments with `n` and so many good orders.
    fn with(&self, n: &str, orders: usize) -> Vec<Vec<u8>> {
        let one = self.order.iter().map(|part| part.good);
        let list = std::iter::repeat_n(one, orders).flatten();
        let words = self.before.iter().copied().chain([n]).chain(list);
        words.map(|word| word.as_bytes().to_vec()).collect()
    }

    /// Parses them, with what must come after.
    fn parse(&self, args: &[Vec<u8>]) -> Result<usize, Error> {
        let mut args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        args.extend(self.after.iter().map(|word| word.as_bytes()));
        run(self.verb, &args).map(|request| match request {
            Request::Mschedule(ask) => ask.orders.len(),
            Request::Mfinish(ask) => ask.orders.len(),
            Request::Mack(ask) => ask.orders.len(),
            Request::Mnack(ask) => ask.orders.len(),
            Request::Mrenew(ask) => ask.orders.len(),
            other => panic!("{other:?}"),
        })
    }
}

#[test]
fn a_list_has_one_to_a_thousand_orders_and_exactly_as_many_as_it_says() {
    for shape in SHAPES {
        let verb = shape.verb;
        for n in ["0", "1001", "4294967297", "18446744073709551616"] {
            let error = Error::OutOfRange {
                name: "n",
                min: 1,
                max: 1000,
            };
            assert_eq!(shape.parse(&shape.with(n, 1)), Err(error), "{verb:?} {n}");
        }
        for n in ["", "-1", "+1", "1e0", " 1", "NaN", "id"] {
            let error = Error::NotAnInteger { name: "n" };
            assert_eq!(shape.parse(&shape.with(n, 1)), Err(error), "{verb:?} {n}");
        }
        for count in [1, 2, 63, 64, 65, 999, 1000] {
            let n = count.to_string();
            assert_eq!(shape.parse(&shape.with(&n, count)), Ok(count), "{verb:?}");
            // What must come after the list would be taken for orders.
            if shape.after.is_empty() && count > 1 {
                let error = Error::MissingOrders {
                    count: count as u64,
                    what: shape.what,
                };
                for missing in 1..=shape.order.len() {
                    let mut short = shape.with(&n, count);
                    short.truncate(short.len() - missing);
                    assert_eq!(shape.parse(&short), Err(error.clone()), "{verb:?} {count}");
                }
            }
            // One more is read as an option.
            let more = shape.with(&n, count + 1);
            assert_eq!(shape.parse(&more), Err(unknown(b"id")), "{verb:?} {count}");
        }
    }
    assert_eq!(
        line(Verb::Mschedule, "PX PAYLOADS 2 a 5 p b 5"),
        "ERR syntax error, 2 triples of id, time and payload must follow n"
    );
    assert_eq!(
        line(Verb::Mfinish, "3 a b"),
        "ERR syntax error, 3 ids must follow n"
    );
    // An option where an order belongs is read as one.
    assert_eq!(
        line(Verb::Mnack, "2 a 1 DELAY x"),
        "ERR value of fence is not an integer, must be decimal digits only (order 2 of the list)"
    );
    let Ok(Request::Mfinish(ask)) = words(Verb::Mfinish, "2 a STRICT KEEP 5") else {
        panic!("an order of any name")
    };
    assert_eq!(ask.orders, [&b"a"[..], b"STRICT"]);
    assert_eq!((ask.each.strict, ask.each.keep_ms), (false, Some(5)));
}

#[test]
fn a_bad_argument_anywhere_in_a_list_is_named_with_its_place() {
    let long = vec![b'x'; 65_537];
    for shape in SHAPES {
        for (count, places) in [
            (1, vec![1]),
            (3, vec![1, 2, 3]),
            (1000, vec![1, 64, 65, 1000]),
        ] {
            for place in places {
                for (at, part) in shape.order.iter().enumerate() {
                    for (bad, said) in part.bad {
                        let mut args = shape.with(&count.to_string(), count);
                        let first = shape.before.len() + 1 + (place - 1) * shape.order.len();
                        args[first + at] = if *bad == LONG {
                            long.clone()
                        } else {
                            bad.as_bytes().to_vec()
                        };
                        let error = shape.parse(&args).unwrap_err();
                        assert_eq!(
                            error.to_string(),
                            format!("{said} (order {place} of the list)"),
                            "{:?}",
                            shape.verb
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn the_first_bad_argument_from_the_left_is_the_one_that_is_named() {
    for (verb, text, said) in [
        (Verb::Mschedule, "PX 2 a x b y FOO", "PX is not an integer"),
        (Verb::Mschedule, "PX 2 a x b y FOO", "(order 1 of the list)"),
        (Verb::Mschedule, "PX 2 a 5 b y FOO", "(order 2 of the list)"),
        (Verb::Mschedule, "PX 2 a 5 b 5 FOO NX XX", "near 'FOO'"),
        (Verb::Mschedule, "FOO 0 a x", "near 'FOO'"),
        (
            Verb::Mack,
            "STATUSES 1 a x s STATUS s",
            "(order 1 of the list)",
        ),
        (Verb::Mack, "0 a x STATUS", "value of n"),
        (Verb::Mnack, "1 a x DEAD UNTRIED", "(order 1 of the list)"),
        (Verb::Mrenew, "1 a x PX 0", "(order 1 of the list)"),
        (Verb::Mrenew, "1 a 7 PX 0", "a lease must last between 1"),
    ] {
        let told = line(verb, text);
        assert!(told.contains(said), "{text}: {told}");
    }
    // What follows the list has no place in it.
    let told = line(Verb::Mrenew, "1 a 7 PX 0");
    assert!(!told.contains("of the list"), "{told}");
}

#[test]
fn mschedule_has_its_unit_first_and_one_for_all() {
    for (text, unit) in [
        ("ex 2 a 5 b 0", When::In(5000)),
        ("PX 2 a 5 b 0", When::In(5)),
    ] {
        let Ok(Request::Mschedule(ask)) = words(Verb::Mschedule, text) else {
            panic!("{text}")
        };
        let timed = |id, when| Timed {
            id,
            when,
            payload: None,
        };
        assert_eq!(
            ask.orders,
            [timed(&b"a"[..], unit), timed(b"b", When::In(0))]
        );
    }
    let Ok(Request::Mschedule(ask)) = words(Verb::Mschedule, "EXAT 1 a 100000000") else {
        panic!("EXAT")
    };
    assert_eq!(ask.orders[0].when, When::At(WallMs(100_000_000_000)));
    for (text, error) in [
        ("2 a 5 b 5", unknown(b"2")),
        ("NX 1 a 5 PX", unknown(b"NX")),
        ("PAYLOADS PX 1 a 5 p", unknown(b"PAYLOADS")),
        ("PX EX 1 a 5", Error::NotAnInteger { name: "n" }),
        // A second unit is none: all times are of one.
        ("PX 1 a 5 EX 5", unknown(b"EX")),
        ("PX 1 a 5 PAYLOADS", unknown(b"PAYLOADS")),
    ] {
        assert_eq!(words(Verb::Mschedule, text), Err(error), "{text}");
    }
}

/// What is tested against an order that is there asks for one, as in a SCHEDULE.
#[test]
fn a_guard_or_a_direction_of_a_batch_asks_for_orders_that_are_there() {
    for (options, mode) in [
        ("", Mode::Create),
        ("NX", Mode::Create),
        ("XX", Mode::Move),
        ("UPSERT", Mode::Upsert),
        ("GT", Mode::Move),
        ("LT", Mode::Move),
        ("FROM a", Mode::Move),
        ("FROM a FROM b GT", Mode::Move),
        ("UPSERT GT", Mode::Upsert),
        ("UPSERT FROM a LT", Mode::Upsert),
        ("STATUS s", Mode::Create),
    ] {
        let text = format!("PX 1 a 5 {options}");
        let Ok(Request::Mschedule(ask)) = words(Verb::Mschedule, &text) else {
            panic!("{text}")
        };
        assert_eq!(ask.each.mode, mode, "{options}");
        let single = schedule_of_owned(&format!("a PX 5 {options}"));
        assert_eq!(single, format!("{:?}", ask.each), "{options}");
    }
}

/// A SCHEDULE as text.
fn schedule_of_owned(text: &str) -> String {
    format!("{:?}", schedule_of(text))
}

#[test]
fn what_needs_a_single_command_is_no_option_of_a_batch() {
    for (verb, start, options) in [
        (
            Verb::Mschedule,
            "PX 1 a 5",
            &["FENCE", "IFREV", "PAYLOAD"][..],
        ),
        (Verb::Mfinish, "1 a", &["FENCE", "IFREV", "RESULT"]),
        (Verb::Mack, "1 a 7", &["RESULT", "FENCE", "IFREV"]),
        (Verb::Mnack, "1 a 7", &["FROM", "STATUS"]),
        (Verb::Mrenew, "1 a 7 PX 5", &["GT", "BLOCK"]),
    ] {
        for option in options {
            let text = format!("{start} {option} 5");
            assert_eq!(
                words(verb, &text),
                Err(unknown(option.as_bytes())),
                "{text}"
            );
        }
    }
}

#[test]
fn statuses_come_with_the_orders_or_from_status_and_not_from_both() {
    assert_eq!(
        line(Verb::Mack, "STATUSES 1 a 7 paid STATUS s"),
        "ERR syntax error, STATUSES and STATUS exclude each other"
    );
    let request = run(
        Verb::Mack,
        &[b"Statuses", b"2", b"a", b"7", b"paid", b"b", b"8", b""],
    );
    let Ok(Request::Mack(ask)) = request else {
        panic!("{request:?}")
    };
    let fenced = |id, fence, status| Fenced {
        id,
        fence,
        status: Some(status),
    };
    assert_eq!(
        ask.orders,
        [fenced(&b"a"[..], 7, &b"paid"[..]), fenced(b"b", 8, b"")]
    );
    assert_eq!(ask.each.status, None);
}

#[test]
fn dead_and_untried_exclude_each_other() {
    for text in ["1 a 7 DEAD UNTRIED", "1 a 7 UNTRIED ERROR e DEAD"] {
        assert_eq!(
            line(Verb::Mnack, text),
            "ERR syntax error, DEAD and UNTRIED exclude each other",
            "{text}"
        );
    }
}

#[test]
fn all_payloads_of_a_batch_take_a_mebibyte_at_most() {
    // Sixteen of the longest make up one.
    let most = LIMITS.payload_bytes_max as usize;
    let payload = vec![b'p'; most];
    assert_eq!(PAYLOADS_BYTES_MAX, 16 * LIMITS.payload_bytes_max);
    let batch = |last: &[u8]| {
        let mut args: Vec<&[u8]> = vec![b"PX", b"PAYLOADS", b"18"];
        for _ in 0..16 {
            args.extend([&b"id"[..], b"5", &payload]);
        }
        args.extend([&b"id"[..], b"5", b"", b"id", b"5", last]);
        match run(Verb::Mschedule, &args) {
            Ok(Request::Mschedule(ask)) => Ok(ask
                .orders
                .iter()
                .map(|order| order.payload.map_or(7, <[u8]>::len))
                .sum::<usize>()),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    };
    assert_eq!(batch(b""), Ok(16 * most), "empty ones are payloads too");
    assert_eq!(
        batch(b"p"),
        Err(
            "ERR length of all payloads together is out of range, must be between 0 and \
             1048576 bytes (order 18 of the list)"
                .into()
        )
    );
}
