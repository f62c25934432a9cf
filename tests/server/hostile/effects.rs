//! The effects that are forged, as they should be.

use super::HOUR;
use crate::support::wire::Form;

/// Effects of a version, each with what must have happened before it to the order `x`.
pub(super) fn effects(version: u64, now: u64) -> Vec<(&'static str, Vec<Form>)> {
    let fence = now * 1000 - 60_000_000;
    let (past, end) = (now - 50_000, now + 500_000);
    let created = |id: &[u8]| {
        Form::of(0)
            .bytes(id)
            .number(past)
            .number(fence)
            .raw(&[0, 0, 0])
    };
    let claimed = || {
        let form = Form::of(3).bytes(b"closer").since(version, now);
        // How many there are is a number too.
        let form = form.number(end).number(end + 1000).number(2);
        let form = form.bytes(b"x").number(fence + 1).number(1).raw(&[0]);
        form.bytes(b"y").number(fence + 2).number(1).raw(&[0])
    };
    let locked = |creates: u8| {
        let form = Form::of(6).bytes(b"x").bytes(b"w1").number(fence + 1);
        let form = form.since(version, now).number(end).number(end + 1000);
        form.raw(&[0, creates])
    };
    let on = |variant: u8, rev: u64| Form::of(variant).bytes(b"x").number(rev);
    let finished = |keep: bool, creates: u8, by: u8| {
        let form = on(1, fence + 5).raw(&[0]).raw(&[1]).bytes(b"r");
        let form = if keep {
            form.raw(&[1]).number(now + HOUR)
        } else {
            form.raw(&[0])
        };
        let form = form.raw(&[creates, by]);
        if version == 1 {
            form
        } else {
            form.number(now).raw(&[by])
        }
    };
    // Nothing of version 2 but whether the try counts.
    let untried = |form: Form, yes: u8| if version == 1 { form } else { form.raw(&[yes]) };
    let at = |form: Form| form.raw(&[1]).since(version, now).number(end);
    let dead = |form: Form| form.raw(&[2]).number(now);
    let both = || vec![created(b"x"), created(b"y")];
    let after = |more: Vec<Form>| {
        let mut all = both();
        all.extend(more);
        all
    };

    let mut table = vec![
        ("a schedule", after(vec![created(b"x")])),
        ("a finish that keeps", after(vec![finished(true, 0, 0)])),
        ("a finish that forgets", after(vec![finished(false, 0, 0)])),
        ("a finish that creates", after(vec![finished(true, 1, 0)])),
        ("an ack", after(vec![claimed(), finished(true, 0, 1)])),
        (
            "a status",
            after(vec![on(2, fence + 3).bytes(b"paid").raw(&[0, 0])]),
        ),
        ("a claim", after(vec![claimed()])),
        (
            "a nack",
            after(vec![
                claimed(),
                untried(on(4, fence + 3).raw(&[0]).raw(&[0]), 0),
            ]),
        ),
        (
            "a nack that waits",
            after(vec![claimed(), untried(at(on(4, fence + 3)).raw(&[0]), 1)]),
        ),
        (
            "a nack that gives up",
            after(vec![
                claimed(),
                untried(dead(on(4, fence + 3)).raw(&[1]).bytes(b"why"), 0),
            ]),
        ),
        (
            "a renewal",
            after(vec![
                claimed(),
                on(5, fence + 3).since(version, now).number(end + 100),
            ]),
        ),
        ("a lock", after(vec![locked(0)])),
        ("a lock on nothing", vec![locked(1)]),
        (
            "a lock held again",
            after(vec![
                locked(0),
                on(7, fence + 3)
                    .number(2)
                    .since(version, now)
                    .number(end + 100),
            ]),
        ),
        (
            "a lock given back",
            after(vec![locked(0), on(8, fence + 3).raw(&[0])]),
        ),
        (
            "a claim broken",
            after(vec![claimed(), untried(at(on(8, fence + 3).raw(&[1])), 0)]),
        ),
        (
            "a claim broken for good",
            after(vec![
                claimed(),
                untried(dead(on(8, fence + 3).raw(&[1])), 0),
            ]),
        ),
        (
            "a requeue",
            after(vec![
                claimed(),
                untried(dead(on(4, fence + 3)).raw(&[0]), 0),
                // Version 2 says which tries count on.
                untried(Form::of(10).number(fence + 4).number(1).bytes(b"x"), 0),
            ]),
        ),
        (
            "a pause",
            after(vec![
                Form::of(12).raw(&[1, 1]).number(now + HOUR).bytes(b"why"),
            ]),
        ),
        (
            "two forgotten",
            after(vec![Form::of(9).number(2).bytes(b"x").bytes(b"y")]),
        ),
        ("a floor", after(vec![Form::of(13).number(fence + 9)])),
    ];
    for (name, whole) in wholes(version, now) {
        table.push((name, vec![created(b"y"), whole]));
    }
    table
}

/// Whole records of a version, of an order `x` in each of its states.
pub(super) fn wholes(version: u64, now: u64) -> Vec<(&'static str, Form)> {
    let fence = now * 1000 - 60_000_000;
    let (past, end) = (now - 50_000, now + 500_000);
    let begun = || Form::of(14).bytes(b"x").bytes(b"unpaid").number(fence);
    // No fingerprint, open, a deadline, no payload.
    let open = || begun().raw(&[0, 0, 1]).number(past).raw(&[0]);
    let grant = |form: Form, kind: u8| {
        let form = form.raw(&[kind]).bytes(b"w1").number(fence);
        let form = form.since(version, now).since(version, now);
        form.number(end).number(end + 1000).number(1).raw(&[0])
    };
    let finished = || {
        let form = begun().raw(&[1]).bytes(b"fp").raw(&[1]);
        form.number(now + HOUR).raw(&[1]).bytes(b"result")
    };
    // Version 1: retry wait, death, tries, error, grant, each of them or none.
    if version == 1 {
        return vec![
            ("a record", open().raw(&[0, 0]).number(3).raw(&[0, 0])),
            (
                "a record that waits",
                open()
                    .raw(&[1])
                    .number(end)
                    .raw(&[0])
                    .number(3)
                    .raw(&[0, 0]),
            ),
            (
                "a dead record",
                open().raw(&[0, 1]).number(now).number(3).raw(&[0, 0]),
            ),
            (
                "a claimed record",
                grant(open().raw(&[0, 0]).number(3).raw(&[0, 1]), 0),
            ),
            (
                "a locked record",
                grant(open().raw(&[0, 0]).number(0).raw(&[0, 1]), 1),
            ),
            (
                "a record that is all of it",
                grant(
                    open()
                        .raw(&[1])
                        .number(end)
                        .raw(&[1])
                        .number(now)
                        .number(3)
                        .raw(&[0, 1]),
                    0,
                ),
            ),
            ("a finished record", finished()),
        ];
    }
    // Version 2: tries, error, and what the last grant has come to.
    let open = || open().number(3).raw(&[0]);
    vec![
        ("a record", open().raw(&[0])),
        ("a claimed record", grant(open().raw(&[1]), 0)),
        ("a locked record", grant(open().raw(&[1]), 1)),
        (
            "a record that waits",
            open().raw(&[2]).number(now).number(end),
        ),
        ("a dead record", open().raw(&[3]).number(now)),
        ("a finished record", finished().raw(&[0])),
        (
            "a finished record that says how",
            finished()
                .raw(&[1])
                .number(now)
                .raw(&[1])
                .number(past)
                .number(3)
                .raw(&[1, 0])
                .bytes(b"w1"),
        ),
    ]
}
