//! Tests of the engine: what is stored.

use super::*;

#[test]
fn more_statuses_than_there_are_codes_for_work_like_the_rest() {
    let mut bench = Bench::new(false);
    bench.compares = false;
    let count = 4_300;
    for n in 0..count {
        let status = format!("status-{n}");
        assert_eq!(
            bench.run(&format!("SCHEDULE {n} PX 0 STATUS {status}")),
            "OK missing>expired"
        );
    }
    let all = |bench: &Bench, shift: u32| {
        for n in 0..count {
            let (id, status) = (n.to_string(), format!("status-{}", n + shift));
            assert_eq!(bench.view(&id).unwrap().status, status.as_bytes(), "{n}");
        }
    };
    all(&bench, 0);
    bench.compares = true;
    bench.compare();
    bench.reload();
    all(&bench, 0);
    bench.compares = false;
    // Each order takes the status of its neighbour; the order of that matters to
    // the codes, not to what is read.
    for n in 0..count {
        assert_eq!(
            bench.run(&format!("STATUS {n} status-{}", n + 1)),
            "OK expired>expired"
        );
    }
    all(&bench, 1);
    // Leases, guards and finishing with a status of its own.
    let last = count - 1;
    assert_eq!(
        bench.run(&format!("CLAIM me ID {last}")),
        format!("{last}#1")
    );
    assert_eq!(
        bench.run(&format!("ACK {last} ${last} FROM status-{count}")),
        "OK leased>finished"
    );
    assert_eq!(
        bench.view(&last.to_string()).unwrap().status,
        format!("status-{count}").as_bytes()
    );
    for n in 0..count - 1 {
        assert_eq!(
            bench.run(&format!("FINISH {n} STATUS paid FROM status-{}", n + 1)),
            "OK expired>finished"
        );
    }
    assert_eq!(bench.view("17").unwrap().status, b"paid");
    bench.compares = true;
    bench.compare();
}

#[test]
fn a_payload_is_replaced_grows_shrinks_and_goes() {
    let mut bench = Bench::new(false);
    let sizes = [
        0, 1, 5, 127, 128, 129, 300, 16_383, 16_384, 70_000, 2_097_151, 2_097_152, 3_000_000,
        16_384, 127, 1, 0,
    ];
    bench.run("SCHEDULE a PX 100");
    assert_eq!(bench.view("a").unwrap().payload, None);
    for (n, size) in sizes.into_iter().enumerate() {
        let payload: Vec<u8> = (0..size).map(|at| (at * 31 + n) as u8).collect();
        let ask = crate::request::SetStatus {
            id: b"a",
            status: b"s",
            guard: crate::request::Guard::default(),
            payload: Some(&payload),
        };
        assert_eq!(bench.ask(&Request::Status(ask)), "OK scheduled>scheduled");
        assert_eq!(
            bench.view("a").unwrap().payload,
            Some(payload.as_slice()),
            "{size}"
        );
        bench.compare();
        bench.reload();
        assert_eq!(
            bench.view("a").unwrap().payload,
            Some(payload.as_slice()),
            "{size}"
        );
        // Kept by a move, by a claim, and by a status alone.
        bench.run("SCHEDULE a PX 0 XX");
        bench.run("CLAIM me");
        bench.run("NACK a $a DELAY 0");
        bench.run("STATUS a t");
        assert_eq!(
            bench.view("a").unwrap().payload,
            Some(payload.as_slice()),
            "{size}"
        );
        bench.run("SCHEDULE a PX 100 XX");
    }
    bench.run("STATUS a s PAYLOAD abc");
    bench.run("FINISH a RESULT ''");
    let view = bench.view("a").unwrap();
    assert_eq!(
        (view.payload, view.result),
        (None, Some(b"".as_slice())),
        "an empty result is one"
    );
    bench.run("SCHEDULE a PX 100 FROM s");
    let view = bench.view("a").unwrap();
    assert_eq!((view.payload, view.result), (None, None));
    assert_eq!(bench.run("FINISH a"), "OK scheduled>finished");
    assert_eq!(
        bench.run("STATUS a s PAYLOAD abc"),
        "STATE finished",
        "a finished order has none"
    );
}

#[test]
fn ids_of_every_length_and_byte_are_told_apart() {
    let mut bench = Bench::new(false);
    bench.compares = false;
    let mut ids: Vec<Vec<u8>> = (1..=255).map(|len| vec![b'i'; len]).collect();
    ids.extend((0..=255).map(|byte| vec![byte, 0]));
    let when = crate::request::When::In(5);
    let schedule = |id| {
        let (mode, guard) = (
            crate::request::Mode::Create,
            crate::request::Guard::default(),
        );
        Request::Schedule(crate::request::Schedule {
            id,
            when,
            mode,
            only: None,
            guard,
            status: None,
            payload: None,
        })
    };
    for id in &ids {
        assert_eq!(bench.ask(&schedule(id)), "OK missing>scheduled");
        assert_eq!(bench.ask(&schedule(id)), "EXISTS scheduled");
    }
    assert_eq!(bench.queue.len(), ids.len());
    bench.compares = true;
    bench.compare();
}

#[test]
fn an_empty_queue_is_one_that_nobody_would_miss() {
    let mut bench = Bench::new(false);
    assert!(bench.queue.is_empty());
    for (command, empty) in [
        ("SCHEDULE a PX 0", false),
        ("FINISH a KEEP 0", true),
        ("CONFIG SET keep-ms 5", false),
        ("CONFIG RESET keep-ms", true),
        ("SCHEDULE a PX 0", false),
        ("PAUSE", false),
        ("FINISH a KEEP 0", false),
        ("RESUME", true),
        ("FINISH b CREATE KEEP 10", false),
        ("STATUS c s", false),
    ] {
        bench.run(command);
        assert_eq!(bench.queue.is_empty(), empty, "{command}");
    }
    bench.until(10.0);
    assert!(
        !bench.queue.is_empty(),
        "what reads as missing is still there"
    );
    assert_eq!(bench.run("forget"), "b");
    assert!(bench.queue.is_empty());
    let before = bench.queue.bytes();
    assert!(before < 4096, "{before}");
}

#[test]
fn an_effect_for_a_record_that_is_not_there_says_so_and_changes_nothing() {
    let mut bench = Bench::new(false);
    bench.run("SCHEDULE a PX 0");
    bench.run("CLAIM me");
    let before = digest(&bench.queue);
    let now = bench.now();
    let id = || Bytes::of(b"nobody");
    let rev = bench.queue.floor();
    let (end, owner) = (WallMs(START_MS + 9), Bytes::of(b"me"));
    let base = crate::engine::effect::Base::Record;
    let by = crate::engine::effect::FinishedBy::Ack;
    let grant = crate::engine::effect::Granted {
        id: id(),
        fence: rev,
        attempt: 1,
        last_try: false,
    };
    let (status, payload, result, error, fp) = (None, None, None, None, None);
    let mut events = Vec::new();
    for effect in [
        Effect::Schedule {
            id: id(),
            deadline: end,
            rev,
            status,
            payload,
            base,
        },
        Effect::Finish {
            id: id(),
            rev,
            status: None,
            result,
            keep_end: Some(end),
            creates: false,
            by,
            at: end,
            by_holder: true,
        },
        Effect::Status {
            id: id(),
            rev,
            status: Bytes::of(b"s"),
            payload: None,
            ends_grant: true,
        },
        Effect::Claim {
            owner: owner.clone(),
            since: end,
            end,
            cap: end,
            grants: vec![grant],
        },
        Effect::Nack {
            id: id(),
            rev,
            then: AfterTry::Now,
            error,
            untried: false,
        },
        Effect::Renew {
            id: id(),
            rev,
            since: end,
            end,
        },
        Effect::Hold {
            id: id(),
            rev,
            holds: 2,
            since: end,
            end,
        },
        Effect::Lock {
            id: id(),
            owner,
            fence: rev,
            since: end,
            end,
            cap: end,
            fp,
            creates: false,
        },
        Effect::Release {
            id: id(),
            rev,
            ended: Ended::Lock,
        },
        Effect::Forget { ids: vec![id()] },
        Effect::Requeue {
            rev,
            orders: vec![Requeued {
                id: id(),
                attempt: 0,
            }],
        },
        Effect::Configure {
            name: Bytes::of(b"no-such-setting"),
            value: None,
        },
    ] {
        assert!(!bench.queue.apply(&now, &effect, &mut events), "{effect:?}");
        assert_eq!(digest(&bench.queue), before, "{effect:?}");
        assert_eq!(events, [], "{effect:?}");
    }
}
