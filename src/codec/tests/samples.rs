//! One effect of each kind, under the name it has in the golden file.

use super::*;

/// One effect for each variant and each arm of what is in it, under the name it
/// has in the golden file.
pub(super) fn samples() -> Vec<(&'static str, Effect<'static>)> {
    let id = || Bytes::of(b"1001");
    let some = |bytes: &'static [u8]| Some(Bytes::of(bytes));
    let rev = 1_795_958_000_123_456;
    let at = |ms: u64| WallMs(1_795_958_000_000 + ms);
    let finish = |status, result, keep_end, creates, by| Effect::Finish {
        id: id(),
        rev,
        status,
        result,
        keep_end,
        creates,
        by,
        at: at(3),
        by_holder: by == FinishedBy::Ack,
    };
    let grant = |kind, last_try| SnapshotGrant {
        kind,
        owner: Bytes::of(b"closer-1"),
        fence: rev,
        made: WallMs(at(2).0 - 86_400_000),
        since: WallMs(at(1).0 - 30_000),
        end: at(1),
        cap: at(2),
        holds: 1,
        last_try,
    };
    let whole = |fp, life| {
        Effect::Restore(Snapshot {
            id: id(),
            status: Bytes::of(b"unpaid"),
            rev,
            fp,
            life,
        })
    };
    vec![
        (
            "schedule-bare",
            Effect::Schedule {
                id: id(),
                deadline: at(0),
                rev,
                status: None,
                payload: None,
                base: Base::Fresh,
            },
        ),
        (
            "schedule-full",
            Effect::Schedule {
                id: Bytes::of(b"a\0b\r\n%s%n\xc4\x80{}"),
                deadline: WALL_MS_MAX,
                rev: NUMBER_END - 1,
                status: some(b"unpaid"),
                payload: some(b"{\"sku\":7}"),
                base: Base::RecordAndLock,
            },
        ),
        (
            "schedule-least",
            Effect::Schedule {
                id: Bytes::of(b"x"),
                deadline: WallMs(0),
                rev: 1,
                status: some(b""),
                payload: some(b""),
                base: Base::Record,
            },
        ),
        (
            "finish-bare",
            finish(None, None, None, false, FinishedBy::Finish),
        ),
        (
            "finish-full",
            finish(
                some(b"paid"),
                some(b"pay:9f3c"),
                Some(at(86_400_000)),
                true,
                FinishedBy::Finish,
            ),
        ),
        (
            "finish-by-ack",
            finish(
                some(b"closed"),
                None,
                Some(at(86_400_000)),
                false,
                FinishedBy::Ack,
            ),
        ),
        (
            "status-bare",
            Effect::Status {
                id: id(),
                rev,
                status: Bytes::of(b""),
                payload: None,
                ends_grant: false,
            },
        ),
        (
            "status-full",
            Effect::Status {
                id: id(),
                rev,
                status: Bytes::of(b"shipped"),
                payload: some(b"p"),
                ends_grant: true,
            },
        ),
        (
            "claim-one",
            Effect::Claim {
                owner: Bytes::of(b"closer-1"),
                since: at(0),
                end: at(30_000),
                cap: at(86_400_000),
                grants: vec![Granted {
                    id: id(),
                    fence: rev,
                    attempt: 1,
                    last_try: false,
                }],
            },
        ),
        (
            "claim-two",
            Effect::Claim {
                owner: Bytes::of(b"c"),
                since: at(0),
                end: at(1),
                cap: at(1),
                grants: vec![
                    Granted {
                        id: id(),
                        fence: 251,
                        attempt: 250,
                        last_try: false,
                    },
                    Granted {
                        id: Bytes::of(b"1002"),
                        fence: 65_536,
                        attempt: u32::MAX,
                        last_try: true,
                    },
                ],
            },
        ),
        (
            "nack-now",
            Effect::Nack {
                id: id(),
                rev,
                then: AfterTry::Now,
                error: None,
                untried: false,
            },
        ),
        (
            "nack-at",
            Effect::Nack {
                id: id(),
                rev,
                then: AfterTry::At {
                    since: at(0),
                    at: at(1000),
                },
                error: some(b"timeout"),
                untried: false,
            },
        ),
        (
            "nack-dead",
            Effect::Nack {
                id: id(),
                rev,
                then: AfterTry::Dead(at(0)),
                error: some(b""),
                untried: false,
            },
        ),
        (
            "renew",
            Effect::Renew {
                id: id(),
                rev,
                since: at(0),
                end: at(5),
            },
        ),
        (
            "lock-bare",
            Effect::Lock {
                id: id(),
                owner: Bytes::of(b"pay:9f3c"),
                fence: rev,
                since: at(0),
                end: at(1),
                cap: at(2),
                fp: None,
                creates: false,
            },
        ),
        (
            "lock-full",
            Effect::Lock {
                id: id(),
                owner: Bytes::of(b"w1"),
                fence: rev,
                since: at(0),
                end: at(1),
                cap: at(2),
                fp: some(b"f00d"),
                creates: true,
            },
        ),
        (
            "hold",
            Effect::Hold {
                id: id(),
                rev,
                holds: 2,
                since: at(0),
                end: at(9),
            },
        ),
        (
            "release-lock",
            Effect::Release {
                id: id(),
                rev,
                ended: Ended::Lock,
            },
        ),
        (
            "release-claim-now",
            Effect::Release {
                id: id(),
                rev,
                ended: Ended::Claim {
                    then: AfterTry::Now,
                    untried: false,
                },
            },
        ),
        (
            "release-claim-at",
            Effect::Release {
                id: id(),
                rev,
                ended: Ended::Claim {
                    then: AfterTry::At {
                        since: at(0),
                        at: at(3),
                    },
                    untried: false,
                },
            },
        ),
        (
            "release-claim-dead",
            Effect::Release {
                id: id(),
                rev,
                ended: Ended::Claim {
                    then: AfterTry::Dead(at(4)),
                    untried: false,
                },
            },
        ),
        (
            "forget",
            Effect::Forget {
                ids: vec![id(), Bytes::of(b"1002")],
            },
        ),
        (
            "requeue",
            Effect::Requeue {
                rev,
                orders: vec![Requeued {
                    id: id(),
                    attempt: 0,
                }],
            },
        ),
        (
            "configure-set",
            Effect::Configure {
                name: Bytes::of(b"lease-ms"),
                value: some(b"30000"),
            },
        ),
        (
            "configure-reset",
            Effect::Configure {
                name: Bytes::of(b"lease-ms"),
                value: None,
            },
        ),
        (
            "pause-open",
            Effect::Pause {
                on: true,
                until: None,
                reason: Bytes::of(b"deploy"),
            },
        ),
        (
            "pause-until",
            Effect::Pause {
                on: true,
                until: Some(at(60_000)),
                reason: Bytes::of(b""),
            },
        ),
        (
            "resume",
            Effect::Pause {
                on: false,
                until: None,
                reason: Bytes::of(b""),
            },
        ),
        ("floor", Effect::Floor(rev)),
        (
            "restore-open-bare",
            whole(
                None,
                SnapshotLife::Open {
                    deadline: Some(at(0)),
                    payload: None,
                    attempt: 0,
                    error: None,
                    phase: SnapshotPhase::Plain,
                },
            ),
        ),
        (
            "restore-open-full",
            whole(
                some(b"f00d"),
                SnapshotLife::Open {
                    deadline: Some(at(0)),
                    payload: some(b"{\"sku\":7}"),
                    attempt: 16,
                    error: some(b"timeout"),
                    phase: SnapshotPhase::Granted(grant(LeaseKind::Claim, true)),
                },
            ),
        ),
        (
            "restore-reserved",
            whole(
                None,
                SnapshotLife::Open {
                    deadline: None,
                    payload: None,
                    attempt: 0,
                    error: None,
                    phase: SnapshotPhase::Granted(grant(LeaseKind::Lock, false)),
                },
            ),
        ),
        (
            "restore-finished-bare",
            whole(
                None,
                SnapshotLife::Finished {
                    keep_end: at(1),
                    result: None,
                    ending: None,
                },
            ),
        ),
        (
            "restore-finished-full",
            whole(
                some(b"f"),
                SnapshotLife::Finished {
                    keep_end: at(1),
                    result: some(b"r"),
                    ending: None,
                },
            ),
        ),
        (
            "nack-untried",
            Effect::Nack {
                id: id(),
                rev,
                then: AfterTry::Now,
                error: None,
                untried: true,
            },
        ),
        (
            "release-claim-untried",
            Effect::Release {
                id: id(),
                rev,
                ended: Ended::Claim {
                    then: AfterTry::Now,
                    untried: true,
                },
            },
        ),
        (
            "restore-retrying",
            whole(
                None,
                SnapshotLife::Open {
                    deadline: Some(at(0)),
                    payload: None,
                    attempt: 1,
                    error: None,
                    phase: SnapshotPhase::Retrying {
                        since: at(1),
                        at: at(1_001),
                    },
                },
            ),
        ),
        (
            "restore-dead",
            whole(
                None,
                SnapshotLife::Open {
                    deadline: Some(at(0)),
                    payload: None,
                    attempt: 250,
                    error: None,
                    phase: SnapshotPhase::Dead(at(2)),
                },
            ),
        ),
        (
            "restore-finished-by-a-closer",
            whole(
                None,
                SnapshotLife::Finished {
                    keep_end: at(86_400_000),
                    result: None,
                    ending: Some(SnapshotEnding {
                        at: at(3),
                        deadline: Some(at(0)),
                        attempt: 2,
                        holder: Some(SnapshotHolder {
                            kind: LeaseKind::Claim,
                            owner: Bytes::of(b"closer-1"),
                        }),
                    }),
                },
            ),
        ),
        (
            "restore-finished-by-nobodys-lease",
            whole(
                None,
                SnapshotLife::Finished {
                    keep_end: at(86_400_000),
                    result: None,
                    ending: Some(SnapshotEnding {
                        at: at(3),
                        deadline: None,
                        attempt: 0,
                        holder: None,
                    }),
                },
            ),
        ),
        (
            "lapse",
            Effect::Lapse {
                end: at(6),
                leases: vec![
                    LeaseOf {
                        id: id(),
                        fence: rev,
                    },
                    LeaseOf {
                        id: Bytes::of(b"1002"),
                        fence: 251,
                    },
                ],
            },
        ),
        (
            "requeue-kept",
            Effect::Requeue {
                rev,
                orders: vec![
                    Requeued {
                        id: id(),
                        attempt: 3,
                    },
                    Requeued {
                        id: Bytes::of(b"1002"),
                        attempt: 251,
                    },
                ],
            },
        ),
    ]
}
