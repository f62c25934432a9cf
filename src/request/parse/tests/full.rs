//! What a command comes to: with all its options in any order, and with none.

use super::*;
use crate::request::{Batch, Fenced, Timed};

/// Calls `see` with every order of `items`.
fn permutations<T: Clone>(items: &[T], see: &mut dyn FnMut(&[T])) {
    fn go<T: Clone>(items: &mut Vec<T>, fixed: usize, see: &mut dyn FnMut(&[T])) {
        if fixed == items.len() {
            return see(items);
        }
        for other in fixed..items.len() {
            items.swap(fixed, other);
            go(items, fixed + 1, see);
            items.swap(fixed, other);
        }
    }
    go(&mut items.to_vec(), 0, see);
}

#[test]
fn options_come_in_any_order_and_any_case() {
    let bare = |id| Schedule {
        id,
        when: When::In(5000),
        mode: Mode::Create,
        only: None,
        guard: Guard::default(),
        status: None,
        payload: None,
    };
    assert_eq!(schedule_of("id EX 5"), bare(b"id"));
    let full = Request::Schedule(Schedule {
        mode: Mode::Upsert,
        only: Some(Direction::Later),
        guard: Guard {
            from: vec![b"unpaid", b"new"],
            if_rev: Some(3),
            fence: Some(4),
        },
        status: Some(b"paid"),
        payload: Some(b"px"),
        ..bare(b"id")
    });
    let options = [
        "eX 5",
        "uPsErT",
        "gt",
        "from unpaid FROM new",
        "IFREV 3",
        "Fence 4",
        "STATUS paid",
        "payload px",
    ];
    permutations(&options, &mut |order| {
        assert_eq!(
            words(Verb::Schedule, &format!("id {}", order.join(" "))).as_ref(),
            Ok(&full)
        );
    });

    let full = Request::Finish(Finish {
        id: b"id",
        strict: true,
        create: true,
        guard: Guard {
            from: vec![b"a", b"b"],
            if_rev: None,
            fence: None,
        },
        status: Some(b"s"),
        result: Some(b"r"),
        keep_ms: Some(9),
    });
    let options = [
        "STRICT",
        "create",
        "FROM a FROM b",
        "Status s",
        "RESULT r",
        "KEEP 9",
    ];
    permutations(&options, &mut |order| {
        assert_eq!(
            words(Verb::Finish, &format!("id {}", order.join(" "))).as_ref(),
            Ok(&full)
        );
    });

    let full = Request::Status(SetStatus {
        id: b"id",
        status: b"s",
        guard: Guard {
            from: vec![b"a"],
            if_rev: Some(1),
            fence: Some(2),
        },
        payload: Some(b"p"),
    });
    permutations(
        &["FROM a", "ifrev 1", "FENCE 2", "PAYLOAD p"],
        &mut |order| {
            assert_eq!(
                words(Verb::Status, &format!("id s {}", order.join(" "))).as_ref(),
                Ok(&full)
            );
        },
    );

    let full = Request::Claim(Claim {
        owner: b"me",
        lease_ms: Some(7),
        pick: Pick::Next {
            count: 8,
            block_ms: Some(9),
        },
        session: true,
    });
    permutations(&["PX 7", "count 8", "BLOCK 9", "session"], &mut |order| {
        assert_eq!(
            words(Verb::Claim, &format!("me {}", order.join(" "))).as_ref(),
            Ok(&full)
        );
    });
    let full = Request::Claim(Claim {
        owner: b"me",
        lease_ms: Some(7000),
        pick: Pick::Id(b"x"),
        session: true,
    });
    permutations(&["EX 7", "id x", "SESSION"], &mut |order| {
        assert_eq!(
            words(Verb::Claim, &format!("me {}", order.join(" "))).as_ref(),
            Ok(&full)
        );
    });

    let full = Request::Ack(Ack {
        id: b"id",
        fence: 7,
        from: vec![b"a", b"b"],
        status: Some(b"s"),
        result: Some(b"r"),
        keep_ms: Some(0),
    });
    permutations(
        &["FROM a FROM b", "STATUS s", "RESULT r", "KEEP 0"],
        &mut |order| {
            assert_eq!(
                words(Verb::Ack, &format!("id 7 {}", order.join(" "))).as_ref(),
                Ok(&full)
            );
        },
    );

    let full = Request::Nack(Nack {
        id: b"id",
        fence: 7,
        again: Again::Delay(0),
        error: Some(b"e"),
        untried: true,
    });
    permutations(&["DELAY 0", "ERROR e", "UNTRIED"], &mut |order| {
        assert_eq!(
            words(Verb::Nack, &format!("id 7 {}", order.join(" "))).as_ref(),
            Ok(&full)
        );
    });

    let full = Request::Renew(Renew {
        id: b"id",
        fence: 7,
        lease_ms: 5,
        shorten: true,
        session: true,
    });
    permutations(&["PX 5", "LT", "SESSION"], &mut |order| {
        assert_eq!(
            words(Verb::Renew, &format!("id 7 {}", order.join(" "))).as_ref(),
            Ok(&full)
        );
    });

    let full = Request::Lock(Lock {
        id: b"id",
        owner: b"me",
        lease_ms: 7000,
        reentrant: true,
        max_ms: Some(8),
        fp: Some(b"f"),
        block_ms: Some(9),
        must_exist: true,
        session: true,
    });
    permutations(
        &[
            "Ex 7",
            "reEntrant",
            "max 8",
            "FP f",
            "BLOCK 9",
            "SESSION",
            "Xx",
        ],
        &mut |order| {
            assert_eq!(
                words(Verb::Lock, &format!("id me {}", order.join(" "))).as_ref(),
                Ok(&full)
            );
        },
    );

    let full = Request::Pause(Pause {
        ms: Some(5),
        reason: b"lunch",
    });
    permutations(&["px 5", "ReaSon lunch"], &mut |order| {
        assert_eq!(words(Verb::Pause, &order.join(" ")).as_ref(), Ok(&full));
    });

    let full = Request::Purge(Purge {
        state: State::Dead,
        status: Some(b"s"),
        pattern: Some(b"1*"),
        count: 20,
    });
    permutations(
        &["STATE DeAd", "STATUS s", "match 1*", "COUNT 20"],
        &mut |order| {
            assert_eq!(words(Verb::Purge, &order.join(" ")).as_ref(), Ok(&full));
        },
    );

    let full = Request::Scan(Scan {
        cursor: 5,
        state: Some(State::Dead),
        status: Some(b"s"),
        pattern: Some(b"1*"),
        count: 20,
        owner: Some(b"me"),
    });
    permutations(
        &["STATE DeAd", "STATUS s", "match 1*", "COUNT 20", "owner me"],
        &mut |order| {
            assert_eq!(
                words(Verb::Scan, &format!("5 {}", order.join(" "))).as_ref(),
                Ok(&full)
            );
        },
    );
    assert_eq!(words(Verb::Next, "cOuNt 3"), Ok(Request::Next { count: 3 }));
    let full = Request::Requeue(Requeue::Next(Purge {
        state: State::Retrying,
        status: Some(b"s"),
        pattern: Some(b"1*"),
        count: 20,
    }));
    permutations(
        &["STATE reTrying", "STATUS s", "match 1*", "COUNT 20"],
        &mut |order| {
            assert_eq!(words(Verb::Requeue, &order.join(" ")).as_ref(), Ok(&full));
        },
    );
    assert_eq!(
        words(Verb::Requeue, "iD a COUNT 3"),
        Ok(Request::Requeue(Requeue::Ids(vec![
            &b"a"[..],
            b"COUNT",
            b"3"
        ])))
    );
    let release = Release {
        owner: b"me",
        count: 3,
    };
    assert_eq!(
        words(Verb::Release, "me cOuNt 3"),
        Ok(Request::Release(release))
    );
}

#[test]
fn options_of_batches_come_in_any_order_and_any_case() {
    let fenced = |id, fence, status| Fenced { id, fence, status };
    let guard = Guard {
        from: vec![b"a", b"b"],
        ..Guard::default()
    };
    let (one, two) = (
        Timed {
            id: &b"x"[..],
            when: When::In(5),
            payload: Some(&b"p"[..]),
        },
        Timed {
            id: &b"y"[..],
            when: When::In(6),
            payload: Some(&b"q"[..]),
        },
    );
    let full = Request::Mschedule(Batch {
        each: Schedule {
            id: one.id,
            when: one.when,
            mode: Mode::Upsert,
            only: Some(Direction::Earlier),
            guard: guard.clone(),
            status: Some(b"s"),
            payload: one.payload,
        },
        orders: vec![one, two],
    });
    permutations(
        &["uPsErT", "lt", "from a FROM b", "Status s"],
        &mut |order| {
            let text = format!("pX payloads 2 x 5 p y 6 q {}", order.join(" "));
            assert_eq!(words(Verb::Mschedule, &text).as_ref(), Ok(&full));
        },
    );
    let full = Request::Mfinish(Batch {
        each: Finish {
            id: b"",
            strict: true,
            create: true,
            guard,
            status: Some(b"s"),
            result: None,
            keep_ms: Some(9),
        },
        orders: vec![b"x", b"y"],
    });
    let options = ["STRICT", "create", "FROM a from b", "STATUS s", "keep 9"];
    permutations(&options, &mut |order| {
        let text = format!("2 x y {}", order.join(" "));
        assert_eq!(words(Verb::Mfinish, &text).as_ref(), Ok(&full));
    });
    let full = Request::Mack(Batch {
        each: Ack {
            id: b"",
            fence: 0,
            from: vec![b"a", b"b"],
            status: Some(b"s"),
            result: None,
            keep_ms: Some(0),
        },
        orders: vec![fenced(b"x", 7, None), fenced(b"y", 8, None)],
    });
    permutations(&["FROM a FROM b", "STATUS s", "KEEP 0"], &mut |order| {
        let text = format!("2 x 7 y 8 {}", order.join(" "));
        assert_eq!(words(Verb::Mack, &text).as_ref(), Ok(&full));
    });
    let full = Request::Mnack(Batch {
        each: Nack {
            id: b"",
            fence: 0,
            again: Again::Delay(0),
            error: Some(b"e"),
            untried: true,
        },
        orders: vec![fenced(b"x", 7, None), fenced(b"y", 8, None)],
    });
    permutations(&["DELAY 0", "ERROR e", "UNTRIED"], &mut |order| {
        let text = format!("2 x 7 y 8 {}", order.join(" "));
        assert_eq!(words(Verb::Mnack, &text).as_ref(), Ok(&full));
    });
    let full = Request::Mrenew(Batch {
        each: Renew {
            id: b"",
            fence: 0,
            lease_ms: 5000,
            shorten: true,
            session: true,
        },
        orders: vec![fenced(b"x", 7, None), fenced(b"y", 8, None)],
    });
    permutations(&["EX 5", "LT", "SESSION"], &mut |order| {
        let text = format!("2 x 7 y 8 {}", order.join(" "));
        assert_eq!(words(Verb::Mrenew, &text).as_ref(), Ok(&full));
    });
}

#[test]
fn bare_batches_have_the_defaults_of_single_commands() {
    let Ok(Request::Mschedule(ask)) = words(Verb::Mschedule, "PX 1 id 5") else {
        panic!("MSCHEDULE")
    };
    assert_eq!(ask.each, schedule_of("id PX 5"));
    let Ok(Request::Mfinish(ask)) = words(Verb::Mfinish, "1 id") else {
        panic!("MFINISH")
    };
    let single = Finish {
        id: b"id",
        ..ask.each
    };
    assert_eq!(words(Verb::Finish, "id"), Ok(Request::Finish(single)));
    let Ok(Request::Mnack(ask)) = words(Verb::Mnack, "1 id 7") else {
        panic!("MNACK")
    };
    let single = Nack {
        id: b"id",
        fence: 7,
        ..ask.each
    };
    assert_eq!(words(Verb::Nack, "id 7"), Ok(Request::Nack(single)));
    let Ok(Request::Mrenew(ask)) = words(Verb::Mrenew, "1 id 7 EX 1") else {
        panic!("MRENEW")
    };
    let single = Renew {
        id: b"id",
        fence: 7,
        ..ask.each
    };
    assert_eq!(words(Verb::Renew, "id 7 EX 1"), Ok(Request::Renew(single)));
}

#[test]
fn what_is_not_given_has_its_default() {
    let claim = Claim {
        owner: b"me",
        lease_ms: None,
        pick: Pick::Next {
            count: 1,
            block_ms: None,
        },
        session: false,
    };
    assert_eq!(words(Verb::Claim, "me"), Ok(Request::Claim(claim)));
    assert_eq!(words(Verb::Next, ""), Ok(Request::Next { count: 1 }));
    let scan = Scan {
        cursor: 0,
        state: None,
        status: None,
        pattern: None,
        count: 10,
        owner: None,
    };
    assert_eq!(words(Verb::Scan, "0"), Ok(Request::Scan(scan)));
    let nack = Nack {
        id: b"id",
        fence: 7,
        again: Again::Backoff,
        error: None,
        untried: false,
    };
    assert_eq!(words(Verb::Nack, "id 7"), Ok(Request::Nack(nack)));
    let nack = Nack {
        id: b"id",
        fence: 7,
        again: Again::Dead,
        error: None,
        untried: false,
    };
    assert_eq!(words(Verb::Nack, "id 7 dead"), Ok(Request::Nack(nack)));
    let renew = Renew {
        id: b"id",
        fence: 7,
        lease_ms: 1000,
        shorten: false,
        session: false,
    };
    assert_eq!(words(Verb::Renew, "id 7 EX 1"), Ok(Request::Renew(renew)));
    let lock = Lock {
        id: b"id",
        owner: b"me",
        lease_ms: 5,
        reentrant: false,
        max_ms: None,
        fp: None,
        block_ms: None,
        must_exist: false,
        session: false,
    };
    assert_eq!(words(Verb::Lock, "id me PX 5"), Ok(Request::Lock(lock)));
    let whichever = Break {
        id: b"id",
        fence: None,
    };
    assert_eq!(words(Verb::Break, "id"), Ok(Request::Break(whichever)));
    let this = Break {
        fence: Some(7),
        ..whichever
    };
    assert_eq!(words(Verb::Break, "id 7"), Ok(Request::Break(this)));
    let pause = Pause {
        ms: None,
        reason: b"",
    };
    assert_eq!(words(Verb::Pause, ""), Ok(Request::Pause(pause)));
    let requeue = Requeue::Next(Purge {
        state: State::Dead,
        status: None,
        pattern: None,
        count: 1000,
    });
    assert_eq!(words(Verb::Requeue, ""), Ok(Request::Requeue(requeue)));
    let release = Release {
        owner: b"me",
        count: 1000,
    };
    assert_eq!(words(Verb::Release, "me"), Ok(Request::Release(release)));
    let purge = Purge {
        state: State::Finished,
        status: None,
        pattern: None,
        count: 1000,
    };
    assert_eq!(
        words(Verb::Purge, "STATE finished"),
        Ok(Request::Purge(purge))
    );
    let Ok(Request::Finish(finish)) = words(Verb::Finish, "id") else {
        panic!("FINISH")
    };
    assert!(!finish.strict && !finish.create && finish.guard == Guard::default());
    assert_eq!(
        (finish.status, finish.result, finish.keep_ms),
        (None, None, None)
    );
}
