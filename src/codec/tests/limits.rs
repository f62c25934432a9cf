//! Limits: of every field of every effect, and of how many effects a blob holds.

use super::*;

#[test]
fn every_field_is_held_to_its_limits() {
    let long = |length: usize| Bytes::copied(&vec![b'x'; length]);
    let id = || Bytes::of(b"id");
    let (far, end) = (WallMs(MOMENT_END), WallMs(5));
    let late = WallMs(WALL_MS_MAX.0 + 1);
    let schedule = |id, deadline, rev, status, payload| Effect::Schedule {
        id,
        deadline,
        rev,
        status,
        payload,
        base: Base::Fresh,
    };
    let claim = |owner, end, cap, grants| Effect::Claim {
        owner,
        since: WallMs(0),
        end,
        cap,
        grants,
    };
    let granted = |id, fence, attempt| Granted {
        id,
        fence,
        attempt,
        last_try: false,
    };
    let one_lease = |id, fence| LeaseOf { id, fence };
    let again = |id| Requeued { id, attempt: 1 };
    let requeue = |rev, orders| Effect::Requeue { rev, orders };
    let lapse = |end, leases| Effect::Lapse { end, leases };
    let lock = |owner, fence, end, cap, fp| Effect::Lock {
        id: id(),
        owner,
        fence,
        since: WallMs(0),
        end,
        cap,
        fp,
        creates: false,
    };
    let finish = |rev, keep_end| Effect::Finish {
        id: id(),
        rev,
        status: None,
        result: None,
        keep_end,
        creates: false,
        by: FinishedBy::Ack,
        at: end,
        by_holder: true,
    };
    let whole = |rev, fp, life| {
        Effect::Restore(Snapshot {
            id: id(),
            status: id(),
            rev,
            fp,
            life,
        })
    };
    let open = |deadline, error, phase| SnapshotLife::Open {
        deadline,
        payload: None,
        attempt: 0,
        error,
        phase,
    };
    let grant = |owner, fence, end, cap, holds| {
        open(
            Some(end),
            None,
            SnapshotPhase::Granted(SnapshotGrant {
                kind: LeaseKind::Claim,
                owner,
                fence,
                made: WallMs(0),
                since: WallMs(0),
                end,
                cap,
                holds,
                last_try: false,
            }),
        )
    };
    let least = || open(None, None, SnapshotPhase::Plain);
    let ending = |at, deadline, owner| SnapshotLife::Finished {
        keep_end: end,
        result: None,
        ending: Some(SnapshotEnding {
            at,
            deadline,
            attempt: 0,
            holder: Some(SnapshotHolder {
                kind: LeaseKind::Lock,
                owner,
            }),
        }),
    };
    let setting = |name: &[u8], value: Option<&[u8]>| Effect::Configure {
        name: Bytes::copied(name),
        value: value.map(Bytes::copied),
    };
    let bad = vec![
        schedule(long(0), end, 1, None, None),
        schedule(long(256), end, 1, None, None),
        schedule(id(), late, 1, None, None),
        schedule(id(), end, 0, None, None),
        schedule(id(), end, NUMBER_END, None, None),
        schedule(id(), end, u64::MAX, None, None),
        schedule(id(), end, 1, Some(long(33)), None),
        finish(0, None),
        finish(1, Some(far)),
        Effect::Status {
            id: id(),
            rev: 1,
            status: long(33),
            payload: None,
            ends_grant: false,
        },
        claim(long(0), end, end, vec![granted(id(), 1, 1)]),
        claim(long(129), end, end, vec![granted(id(), 1, 1)]),
        claim(id(), far, end, vec![granted(id(), 1, 1)]),
        claim(id(), end, far, vec![granted(id(), 1, 1)]),
        claim(id(), end, end, vec![]),
        claim(id(), end, end, vec![granted(id(), 1, 0)]),
        claim(
            id(),
            end,
            end,
            vec![granted(id(), 1, 1), granted(id(), 0, 1)],
        ),
        claim(id(), end, end, vec![granted(long(256), 1, 1)]),
        claim(id(), end, end, vec![granted(id(), 1, 1); LIST_MAX + 1]),
        Effect::Nack {
            id: id(),
            rev: 1,
            then: AfterTry::At {
                since: end,
                at: far,
            },
            error: None,
            untried: false,
        },
        Effect::Nack {
            id: id(),
            rev: 1,
            then: AfterTry::Dead(far),
            error: None,
            untried: false,
        },
        Effect::Nack {
            id: id(),
            rev: 1,
            then: AfterTry::Now,
            error: Some(long(257)),
            untried: false,
        },
        Effect::Renew {
            id: id(),
            rev: 1,
            since: end,
            end: far,
        },
        Effect::Renew {
            id: id(),
            rev: 1,
            since: far,
            end,
        },
        lock(long(0), 1, end, end, None),
        lock(id(), 0, end, end, None),
        lock(id(), 1, far, end, None),
        lock(id(), 1, end, far, None),
        lock(id(), 1, end, end, Some(long(0))),
        lock(id(), 1, end, end, Some(long(65))),
        Effect::Hold {
            id: id(),
            rev: 1,
            holds: 0,
            since: end,
            end,
        },
        Effect::Hold {
            id: id(),
            rev: 1,
            holds: 1,
            since: end,
            end: far,
        },
        Effect::Release {
            id: id(),
            rev: 0,
            ended: Ended::Lock,
        },
        Effect::Release {
            id: id(),
            rev: 1,
            ended: Ended::Claim {
                then: AfterTry::At {
                    since: far,
                    at: end,
                },
                untried: false,
            },
        },
        Effect::Forget { ids: vec![] },
        Effect::Forget {
            ids: vec![id(), long(0)],
        },
        Effect::Forget {
            ids: vec![id(); LIST_MAX + 1],
        },
        requeue(0, vec![again(id())]),
        requeue(1, vec![]),
        requeue(1, vec![again(id()), again(long(256))]),
        requeue(1, vec![again(id()); LIST_MAX + 1]),
        setting(b"", None),
        setting(b"keep", None),
        setting(b"Keep-Ms", Some(b"1")),
        setting(TRANSITIONS, Some(b"no change")),
        Effect::Pause {
            on: true,
            until: Some(far),
            reason: id(),
        },
        Effect::Pause {
            on: true,
            until: None,
            reason: long(257),
        },
        Effect::Floor(0),
        Effect::Floor(NUMBER_END),
        lapse(far, vec![one_lease(id(), 1)]),
        lapse(end, vec![]),
        lapse(end, vec![one_lease(id(), 1), one_lease(long(0), 1)]),
        lapse(end, vec![one_lease(id(), 0)]),
        lapse(end, vec![one_lease(id(), 1); LIST_MAX + 1]),
        whole(0, None, least()),
        whole(1, Some(long(0)), least()),
        whole(1, None, open(Some(late), None, SnapshotPhase::Plain)),
        whole(1, None, open(Some(end), None, SnapshotPhase::Dead(far))),
        whole(1, None, open(None, None, SnapshotPhase::Dead(end))),
        whole(1, None, open(None, Some(long(257)), SnapshotPhase::Plain)),
        whole(
            1,
            None,
            open(
                Some(end),
                None,
                SnapshotPhase::Retrying {
                    since: end,
                    at: far,
                },
            ),
        ),
        whole(1, None, grant(long(129), 1, end, end, 1)),
        whole(1, None, grant(id(), 0, end, end, 1)),
        whole(1, None, grant(id(), 1, far, end, 1)),
        whole(1, None, grant(id(), 1, end, far, 1)),
        whole(1, None, grant(id(), 1, end, end, 0)),
        whole(
            1,
            None,
            SnapshotLife::Finished {
                keep_end: far,
                result: None,
                ending: None,
            },
        ),
        whole(1, None, ending(far, None, id())),
        whole(1, None, ending(end, Some(late), id())),
        whole(1, None, ending(end, None, long(0))),
        whole(1, None, ending(end, None, long(129))),
    ];
    // Every setting at and beyond its limits, and in no plain decimal.
    let mut bad = bad;
    let mut fine_settings = Vec::new();
    for one in Setting::ALL {
        let name = one.name().as_bytes();
        let (min, max) = one.range();
        for value in [min, max] {
            fine_settings.push(setting(name, Some(value.to_string().as_bytes())));
        }
        fine_settings.push(setting(name, None));
        for value in [u64::MAX, 1 << 63, max + 1] {
            bad.push(setting(name, Some(value.to_string().as_bytes())));
        }
        if let Some(below) = min.checked_sub(1) {
            bad.push(setting(name, Some(below.to_string().as_bytes())));
        }
        for text in [&b""[..], b"+5", b"-1", b" 5", b"5 ", b"0x5", b"5.0"] {
            bad.push(setting(name, Some(text)));
        }
    }
    let mut fine = vec![
        schedule(
            long(255),
            WALL_MS_MAX,
            NUMBER_END - 1,
            Some(long(32)),
            Some(long(1 << 20)),
        ),
        finish(1, Some(WallMs(MOMENT_END - 1))),
        claim(
            long(128),
            end,
            end,
            vec![granted(long(255), 1, 1); LIST_MAX],
        ),
        lock(long(128), 1, end, end, Some(long(64))),
        Effect::Forget {
            ids: vec![id(); LIST_MAX],
        },
        setting(TRANSITIONS, Some(b"unpaid>paid unpaid>closed")),
        Effect::Pause {
            on: true,
            until: None,
            reason: long(256),
        },
        whole(
            1,
            Some(long(64)),
            open(Some(WALL_MS_MAX), Some(long(256)), SnapshotPhase::Plain),
        ),
        whole(
            1,
            None,
            ending(WallMs(MOMENT_MAX), Some(WALL_MS_MAX), long(128)),
        ),
    ];
    fine.extend(fine_settings);
    for effect in bad {
        let mut nothing = Vec::new();
        assert!(
            matches!(encode(&effect, &mut nothing), Err(Error::Unstorable { .. }))
                && nothing.is_empty(),
            "{effect:?}"
        );
        let bytes = unchecked(&effect);
        assert!(
            matches!(decode(2, &bytes), Err(Error::ApplyMalformed { .. })),
            "{effect:?}"
        );
        // Nothing of a blob is given out when its end is malformed.
        let mut behind = blob(&Effect::Floor(7));
        behind.extend(bytes);
        assert!(decode(2, &behind).is_err(), "{effect:?}");
    }
    for effect in fine {
        let bytes = blob(&effect);
        assert_eq!(decode(2, &bytes), Ok(vec![effect]));
    }
}

#[test]
fn a_blob_holds_so_many_effects_and_no_more() {
    let one = blob(&Effect::Floor(7));
    let mut bytes = one.repeat(EFFECTS_MAX);
    assert_eq!(
        decode(2, &bytes).map(|effects| effects.len()),
        Ok(EFFECTS_MAX)
    );
    bytes.extend(&one);
    assert!(decode(2, &bytes).is_err());
}
