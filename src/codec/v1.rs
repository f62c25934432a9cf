//! Version 1 of the encoded form, that of release 0.1.0: read, never written.
//!
//! What it does not say is filled in: leases count from as long before their end as any
//! may have been; since when retry waits count, and how an order was finished, is not
//! known (0, `None`).

use serde::Deserialize;

use crate::engine::effect::{
    self, Base, Bytes, FinishedBy, Granted, LeaseKind, Requeued, SnapshotPhase, list,
};
use crate::words::time::{MOMENT_MAX, WallMs};

/// What a failed try leads to.
#[derive(Deserialize)]
pub(super) enum AfterTry {
    /// Claimable at once.
    Now,
    /// Claimable from this moment on.
    At(WallMs),
    /// Dead since this moment.
    Dead(WallMs),
}

/// The last grant of a whole record.
#[derive(Deserialize)]
pub(super) struct SnapshotGrant<'a> {
    /// Claim or lock.
    kind: LeaseKind,
    /// Who got it, 1 to 128 bytes.
    #[serde(borrow)]
    owner: Bytes<'a>,
    /// Its fence.
    fence: u64,
    /// When it ends or ended.
    end: WallMs,
    /// What renewals can not pass.
    cap: WallMs,
    /// How often it is held (REENTRANT), 1 and up.
    holds: u32,
    /// Whether a failure of this try is final.
    last_try: bool,
}

/// Whether and how a record is finished.
#[derive(Deserialize)]
pub(super) enum SnapshotLife<'a> {
    /// Not finished: payload, if there is one.
    Open {
        /// Deadline, if there is one (a reserved id has none).
        deadline: Option<WallMs>,
        /// Payload, if there is one.
        #[serde(borrow)]
        payload: Option<Bytes<'a>>,
        /// End of the retry wait, if one was set.
        retry_at: Option<WallMs>,
        /// When it was marked dead, if it was.
        dead_at: Option<WallMs>,
        /// Tries so far.
        attempt: u32,
        /// Why the last try failed.
        #[serde(borrow)]
        error: Option<Bytes<'a>>,
        /// The last grant.
        #[serde(borrow)]
        grant: Option<SnapshotGrant<'a>>,
    },
    /// Finished and kept.
    Finished {
        /// When it is forgotten.
        keep_end: WallMs,
        /// What came of it.
        #[serde(borrow)]
        result: Option<Bytes<'a>>,
    },
}

/// A record with everything that is ground state.
#[derive(Deserialize)]
pub(super) struct Snapshot<'a> {
    /// The order's id, 1 to 255 bytes.
    #[serde(borrow)]
    id: Bytes<'a>,
    /// Status, 0 to 32 bytes.
    #[serde(borrow)]
    status: Bytes<'a>,
    /// Number of the last write.
    rev: u64,
    /// Fingerprint of the request (LOCK … FP), 1 to 64 bytes.
    #[serde(borrow)]
    fp: Option<Bytes<'a>>,
    /// The rest, by whether it is finished.
    #[serde(borrow)]
    life: SnapshotLife<'a>,
}

/// How a lease was ended early.
#[derive(Deserialize)]
pub(super) enum Ended {
    /// A lock was given back or broken: the deadline is on its own again.
    Lock,
    /// A claim was given back or broken: what the failed try leads to.
    Claim(AfterTry),
}

/// One change of a queue, version 1.
#[derive(Deserialize)]
pub(super) enum Effect<'a> {
    /// Creates or moves an order. A move sets attempt 0, ends a claim and
    /// clears retry, dead and finish marks and, but for a kept lock, the last
    /// grant.
    Schedule {
        /// The order.
        #[serde(borrow)]
        id: Bytes<'a>,
        /// Its new deadline.
        deadline: WallMs,
        /// Its new rev.
        rev: u64,
        /// Its new status; `None` keeps the one there is.
        #[serde(borrow)]
        status: Option<Bytes<'a>>,
        /// Its new payload; `None` keeps the one there is.
        #[serde(borrow)]
        payload: Option<Bytes<'a>>,
        /// What it starts from.
        base: Base,
    },
    /// Finishes an order; with `creates` it is created finished.
    Finish {
        /// The order.
        #[serde(borrow)]
        id: Bytes<'a>,
        /// Its new rev.
        rev: u64,
        /// Its new status; `None` keeps the one there is.
        #[serde(borrow)]
        status: Option<Bytes<'a>>,
        /// What came of it.
        #[serde(borrow)]
        result: Option<Bytes<'a>>,
        /// Until when it is kept; `None`: it is forgotten now.
        keep_end: Option<WallMs>,
        /// Start from an empty record, whatever is there.
        creates: bool,
        /// The verb, for the event.
        by: FinishedBy,
    },
    /// Sets status, and payload where given.
    Status {
        /// The order.
        #[serde(borrow)]
        id: Bytes<'a>,
        /// Its new rev.
        rev: u64,
        /// Its new status.
        #[serde(borrow)]
        status: Bytes<'a>,
        /// Its new payload; `None` keeps the one there is.
        #[serde(borrow)]
        payload: Option<Bytes<'a>>,
        /// Somebody else than the last holder, whose lease is over, has written:
        /// the last grant is forgotten.
        ends_grant: bool,
    },
    /// Grants claims to one owner.
    Claim {
        /// Who got them.
        #[serde(borrow)]
        owner: Bytes<'a>,
        /// When they end.
        end: WallMs,
        /// What renewals can not pass.
        cap: WallMs,
        /// The orders.
        #[serde(borrow, deserialize_with = "list")]
        grants: Vec<Granted<'a>>,
    },
    /// A claim failed.
    Nack {
        /// The order.
        #[serde(borrow)]
        id: Bytes<'a>,
        /// Its new rev.
        rev: u64,
        /// What follows.
        then: AfterTry,
        /// Why; `None` keeps the last one.
        #[serde(borrow)]
        error: Option<Bytes<'a>>,
    },
    /// A lease gets another end.
    Renew {
        /// The order.
        #[serde(borrow)]
        id: Bytes<'a>,
        /// Its new rev.
        rev: u64,
        /// The lease's new end.
        end: WallMs,
    },
    /// A lock is granted; on an unknown id it makes a reserved record.
    Lock {
        /// The order.
        #[serde(borrow)]
        id: Bytes<'a>,
        /// Who got it.
        #[serde(borrow)]
        owner: Bytes<'a>,
        /// Its fence; also the order's new rev.
        fence: u64,
        /// When it ends.
        end: WallMs,
        /// What renewals can not pass.
        cap: WallMs,
        /// Fingerprint of the request that the lock is for.
        #[serde(borrow)]
        fp: Option<Bytes<'a>>,
        /// Start from an empty record, whatever is there.
        creates: bool,
    },
    /// A held lock is taken again or given back once.
    Hold {
        /// The order.
        #[serde(borrow)]
        id: Bytes<'a>,
        /// Its new rev.
        rev: u64,
        /// How often it is held now, 1 and up.
        holds: u32,
        /// The lease's end.
        end: WallMs,
    },
    /// A lease ends early (UNLOCK, BREAK); the last grant is cleared. A reserved
    /// record goes with it.
    Release {
        /// The order.
        #[serde(borrow)]
        id: Bytes<'a>,
        /// Its new rev.
        rev: u64,
        /// What follows.
        ended: Ended,
    },
    /// Removes records.
    Forget {
        /// The orders.
        #[serde(borrow, deserialize_with = "list")]
        ids: Vec<Bytes<'a>>,
    },
    /// Dead orders become claimable again with attempt 0.
    Requeue {
        /// Their new rev.
        rev: u64,
        /// The orders.
        #[serde(borrow, deserialize_with = "list")]
        ids: Vec<Bytes<'a>>,
    },
    /// Sets one of the queue's own settings; `None` resets it.
    Configure {
        /// Its name.
        #[serde(borrow)]
        name: Bytes<'a>,
        /// Its value as text.
        #[serde(borrow)]
        value: Option<Bytes<'a>>,
    },
    /// Pauses the queue until a moment (`None`: until RESUME), or resumes it.
    Pause {
        /// Whether it is paused.
        on: bool,
        /// When the pause ends.
        until: Option<WallMs>,
        /// Why, 0 to 256 bytes.
        #[serde(borrow)]
        reason: Bytes<'a>,
    },
    /// Raises the queue's floor: no later number is at or below it.
    Floor(u64),
    /// A whole record, as a rewritten AOF carries it. Replaces what is there.
    Restore(#[serde(borrow)] Snapshot<'a>),
}

/// Not known.
const UNKNOWN: WallMs = WallMs(0);

/// What no `lease-ms-max` of version 1 passed: a year, in milliseconds.
const LEASE_MS_MAX: u64 = 31_536_000_000;

/// Since when a lease counts that ends at `end`, or can be renewed until then.
const fn since(end: WallMs) -> WallMs {
    WallMs(end.0.saturating_sub(LEASE_MS_MAX))
}

/// A moment of version 1, which let through one more at the end than can be kept.
fn moment(at: WallMs) -> WallMs {
    if at.0 == MOMENT_MAX + 1 {
        WallMs(MOMENT_MAX)
    } else {
        at
    }
}

impl From<AfterTry> for effect::AfterTry {
    fn from(then: AfterTry) -> Self {
        match then {
            AfterTry::Now => Self::Now,
            AfterTry::At(at) => Self::At {
                since: UNKNOWN,
                at: moment(at),
            },
            AfterTry::Dead(at) => Self::Dead(moment(at)),
        }
    }
}

impl<'a> From<SnapshotGrant<'a>> for effect::SnapshotGrant<'a> {
    fn from(grant: SnapshotGrant<'a>) -> Self {
        Self {
            kind: grant.kind,
            owner: grant.owner,
            fence: grant.fence,
            made: since(grant.cap),
            since: since(grant.end),
            end: moment(grant.end),
            cap: moment(grant.cap),
            holds: grant.holds,
            last_try: grant.last_try,
        }
    }
}

impl<'a> From<SnapshotLife<'a>> for effect::SnapshotLife<'a> {
    fn from(life: SnapshotLife<'a>) -> Self {
        match life {
            SnapshotLife::Open {
                deadline,
                payload,
                retry_at,
                dead_at,
                attempt,
                error,
                grant,
            } => Self::Open {
                deadline,
                payload,
                attempt,
                error,
                // No decision left a grant beside a retry wait or death, or both of
                // these. Bytes from elsewhere may say so: then the grant counts, else
                // death.
                phase: match (grant, dead_at, retry_at) {
                    (Some(grant), _, _) => SnapshotPhase::Granted(grant.into()),
                    (None, Some(at), _) => SnapshotPhase::Dead(moment(at)),
                    (None, None, Some(at)) => SnapshotPhase::Retrying {
                        since: UNKNOWN,
                        at: moment(at),
                    },
                    (None, None, None) => SnapshotPhase::Plain,
                },
            },
            SnapshotLife::Finished { keep_end, result } => Self::Finished {
                keep_end: moment(keep_end),
                result,
                ending: None,
            },
        }
    }
}

impl From<Ended> for effect::Ended {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Lock => Self::Lock,
            Ended::Claim(then) => Self::Claim {
                then: then.into(),
                untried: false,
            },
        }
    }
}

impl<'a> From<Snapshot<'a>> for effect::Snapshot<'a> {
    fn from(whole: Snapshot<'a>) -> Self {
        Self {
            id: whole.id,
            status: whole.status,
            rev: whole.rev,
            fp: whole.fp,
            life: whole.life.into(),
        }
    }
}

impl<'a> From<Effect<'a>> for effect::Effect<'a> {
    #[allow(
        clippy::too_many_lines,
        reason = "a table: each form of version 1 beside that of today"
    )]
    fn from(effect: Effect<'a>) -> Self {
        match effect {
            Effect::Schedule {
                id,
                deadline,
                rev,
                status,
                payload,
                base,
            } => Self::Schedule {
                id,
                deadline,
                rev,
                status,
                payload,
                base,
            },
            Effect::Finish {
                id,
                rev,
                status,
                result,
                keep_end,
                creates,
                by,
            } => Self::Finish {
                id,
                rev,
                status,
                result,
                keep_end: keep_end.map(moment),
                creates,
                by,
                at: UNKNOWN,
                by_holder: by == FinishedBy::Ack,
            },
            Effect::Status {
                id,
                rev,
                status,
                payload,
                ends_grant,
            } => Self::Status {
                id,
                rev,
                status,
                payload,
                ends_grant,
            },
            Effect::Claim {
                owner,
                end,
                cap,
                grants,
            } => Self::Claim {
                owner,
                since: since(end),
                end: moment(end),
                cap: moment(cap),
                grants,
            },
            Effect::Nack {
                id,
                rev,
                then,
                error,
            } => Self::Nack {
                id,
                rev,
                then: then.into(),
                error,
                untried: false,
            },
            Effect::Renew { id, rev, end } => Self::Renew {
                id,
                rev,
                since: since(end),
                end: moment(end),
            },
            Effect::Lock {
                id,
                owner,
                fence,
                end,
                cap,
                fp,
                creates,
            } => Self::Lock {
                id,
                owner,
                fence,
                since: since(end),
                end: moment(end),
                cap: moment(cap),
                fp,
                creates,
            },
            Effect::Hold {
                id,
                rev,
                holds,
                end,
            } => Self::Hold {
                id,
                rev,
                holds,
                since: since(end),
                end: moment(end),
            },
            Effect::Release { id, rev, ended } => Self::Release {
                id,
                rev,
                ended: ended.into(),
            },
            Effect::Forget { ids } => Self::Forget { ids },
            Effect::Requeue { rev, ids } => Self::Requeue {
                rev,
                orders: ids
                    .into_iter()
                    .map(|id| Requeued { id, attempt: 0 })
                    .collect(),
            },
            Effect::Configure { name, value } => Self::Configure { name, value },
            Effect::Pause { on, until, reason } => Self::Pause {
                on,
                until: until.map(moment),
                reason,
            },
            Effect::Floor(number) => Self::Floor(number),
            Effect::Restore(whole) => Self::Restore(whole.into()),
        }
    }
}
