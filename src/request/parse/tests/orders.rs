//! Commands on orders: the deadline of SCHEDULE, and what its options ask for.

use super::*;

#[test]
fn pxat_takes_milliseconds() {
    let at = |text: &'static str| words(Verb::Schedule, text);
    let seconds = Err(Error::PxatInSeconds {
        min: 100_000_000_000,
        max: 253_402_300_799_999,
    });
    for text in [
        "id PXAT 0",
        "id PXAT 1",
        "id PXAT 1795958000",
        "id PXAT 99999999999",
    ] {
        assert_eq!(at(text), seconds, "{text}");
    }
    assert!(line(Verb::Schedule, "id PXAT 5").starts_with("ERR PXAT takes milliseconds"));
    assert_eq!(
        schedule_of("id PXAT 100000000000").when,
        When::At(WallMs(100_000_000_000))
    );
    assert_eq!(
        schedule_of("id PXAT 253402300799999").when,
        When::At(WALL_MS_MAX)
    );
    for text in ["id PXAT 253402300800000", "id PXAT 18446744073709551615"] {
        let error = Error::OutOfRange {
            name: "PXAT",
            min: 0,
            max: WALL_MS_MAX.0,
        };
        assert_eq!(at(text), Err(error), "{text}");
    }
    for text in ["", "-1", "+5", "1e12", " 100000000000", "NaN"] {
        assert_eq!(
            run(Verb::Schedule, &[b"id", b"PXAT", text.as_bytes()]),
            Err(Error::NotAnInteger { name: "PXAT" })
        );
    }
}

#[test]
fn a_guard_or_a_direction_alone_asks_for_an_order_that_is_there() {
    let rows = [
        ("", Mode::Create),
        ("NX", Mode::Create),
        ("XX", Mode::Move),
        ("UPSERT", Mode::Upsert),
        ("GT", Mode::Move),
        ("LT", Mode::Move),
        ("FROM a", Mode::Move),
        ("IFREV 1", Mode::Move),
        ("FENCE 1", Mode::Move),
        ("XX GT", Mode::Move),
        ("XX FENCE 1", Mode::Move),
        ("UPSERT GT", Mode::Upsert),
        ("UPSERT FROM a IFREV 1 FENCE 1 LT", Mode::Upsert),
        ("STATUS s PAYLOAD p", Mode::Create),
    ];
    for (options, mode) in rows {
        assert_eq!(
            schedule_of(&format!("id PX 5 {options}")).mode,
            mode,
            "{options}"
        );
    }
    let request = run(Verb::Schedule, &[b"id", b"PX", MS, b"FROM", b""]);
    let Ok(Request::Schedule(schedule)) = request else {
        panic!("{request:?}")
    };
    assert_eq!(
        (schedule.mode, schedule.guard.from),
        (Mode::Move, vec![&b""[..]])
    );
}
