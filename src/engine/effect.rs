//! Effects: what a decision does, as data.
//!
//! A primary decides and applies effects; replicas, AOF replay and slot import
//! apply the same effects and decide nothing. So an effect carries absolute
//! times and explicit numbers, and says all that a record needs to become equal
//! on every server. It carries only what changes: the payload of an order
//! travels once, when it is scheduled.
//!
//! This is also the replicated form (`ORDER.APPLY`) and the saved form (RDB,
//! [`Snapshot`]), version 2, through `codec`. Variants and fields are never
//! reordered, removed or retyped: a change is a new version next to this one,
//! with golden bytes of its own (`codec::v1` is the one before). Ids, status and
//! payload are plain bytes in it.
//!
//! Leases and waits carry, beside their end, the moment they count from (`since`):
//! with it goes their length, which nothing that a clock does can stretch.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use crate::words::time::WallMs;

/// A byte string that is written as one and read without copying. Where it is
/// owned it is shared, so a clone never copies: a claimed order's id is in the
/// grant, in the event and in the announcement.
#[derive(Clone)]
pub struct Bytes<'a>(Text<'a>);

/// The two forms of [`Bytes`].
#[derive(Clone)]
enum Text<'a> {
    /// Somebody else's.
    Borrowed(&'a [u8]),
    /// Owned.
    Shared(Arc<[u8]>),
}

impl<'a> Bytes<'a> {
    /// Borrows `bytes`.
    pub const fn of(bytes: &'a [u8]) -> Self {
        Self(Text::Borrowed(bytes))
    }

    /// A copy of `bytes`.
    pub fn copied(bytes: &[u8]) -> Bytes<'static> {
        Bytes(Text::Shared(bytes.into()))
    }

    /// The same bytes, owned.
    pub fn into_owned(self) -> Bytes<'static> {
        Bytes(Text::Shared(self.shared()))
    }

    /// The same bytes, to be kept: copied where they are borrowed.
    pub fn shared(&self) -> Arc<[u8]> {
        match &self.0 {
            Text::Borrowed(bytes) => (*bytes).into(),
            Text::Shared(bytes) => Arc::clone(bytes),
        }
    }
}

impl PartialEq for Bytes<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Bytes<'_> {}

impl std::ops::Deref for Bytes<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Text::Borrowed(bytes) => bytes,
            Text::Shared(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Bytes<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Takes borrowed bytes.
        struct Take;
        impl<'de> Visitor<'de> for Take {
            type Value = Bytes<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }
            fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Bytes<'de>, E> {
                Ok(Bytes::of(bytes))
            }
        }
        deserializer.deserialize_bytes(Take)
    }
}

/// The most elements a list in an effect may have. A list that announces more is
/// refused before room is made for it: nine bytes can announce 2^46 of them.
pub const LIST_MAX: usize = 8192;

/// Reads a list of at most [`LIST_MAX`] elements, making room as they come.
pub fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    /// Room that is made at once: enough for most lists, little enough for any liar.
    const AT_ONCE_MAX: usize = 128;
    /// Takes the elements.
    struct Take<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Take<T> {
        type Value = Vec<T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
            let announced = elements.size_hint().unwrap_or(0);
            if announced > LIST_MAX {
                return Err(A::Error::custom("a list is too long"));
            }
            let mut list = Vec::with_capacity(announced.min(AT_ONCE_MAX));
            while let Some(element) = elements.next_element()? {
                if list.len() == LIST_MAX {
                    return Err(A::Error::custom("a list is too long"));
                }
                list.push(element);
            }
            Ok(list)
        }
    }
    deserializer.deserialize_seq(Take(PhantomData))
}

/// Which verb finished an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FinishedBy {
    /// `ORDER.FINISH`.
    Finish,
    /// `ORDER.ACK` or `ORDER.MACK`.
    Ack,
}

/// Kind of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaseKind {
    /// An expired order handed to a closer.
    Claim,
    /// Asked for by id, before the deadline.
    Lock,
}

/// What a failed try leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AfterTry {
    /// Claimable at once.
    Now,
    /// Claimable after a wait.
    At {
        /// When the wait began; 0: not known.
        since: WallMs,
        /// When it ends.
        at: WallMs,
    },
    /// Dead since this moment.
    Dead(WallMs),
}

/// One order of a [`Effect::Claim`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted<'a> {
    /// The order.
    #[serde(borrow)]
    pub id: Bytes<'a>,
    /// Fence of the grant; also the order's new rev.
    pub fence: u64,
    /// Tries so far, this one included, 1 and up.
    pub attempt: u32,
    /// Whether a failure of this try is final.
    pub last_try: bool,
}

/// One order of an [`Effect::Requeue`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requeued<'a> {
    /// The order.
    #[serde(borrow)]
    pub id: Bytes<'a>,
    /// The tries that count on.
    pub attempt: u32,
}

/// One lease of an [`Effect::Lapse`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseOf<'a> {
    /// The order.
    #[serde(borrow)]
    pub id: Bytes<'a>,
    /// Fence of the grant.
    pub fence: u64,
}

/// The last grant of a whole record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotGrant<'a> {
    /// Claim or lock.
    pub kind: LeaseKind,
    /// Who got it, 1 to 128 bytes.
    #[serde(borrow)]
    pub owner: Bytes<'a>,
    /// Its fence.
    pub fence: u64,
    /// When it was made; 0: not known.
    pub made: WallMs,
    /// When it was made or last renewed; 0: not known.
    pub since: WallMs,
    /// When it ends or ended.
    pub end: WallMs,
    /// What renewals cannot pass.
    pub cap: WallMs,
    /// How often it is held (REENTRANT), 1 and up.
    pub holds: u32,
    /// Whether a failure of this try is final.
    pub last_try: bool,
}

/// How a whole record was finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotEnding<'a> {
    /// When.
    pub at: WallMs,
    /// The deadline it had.
    pub deadline: Option<WallMs>,
    /// Tries so far.
    pub attempt: u32,
    /// Whose lease finished it, if one did.
    #[serde(borrow)]
    pub holder: Option<SnapshotHolder<'a>>,
}

/// The holder of the lease that finished an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotHolder<'a> {
    /// Claim or lock.
    pub kind: LeaseKind,
    /// Who, 1 to 128 bytes.
    #[serde(borrow)]
    pub owner: Bytes<'a>,
}

/// What the last grant of a whole record has come to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SnapshotPhase<'a> {
    /// Never leased, or all of it is over and forgotten.
    Plain,
    /// The last grant.
    Granted(#[serde(borrow)] SnapshotGrant<'a>),
    /// A retry wait.
    Retrying {
        /// When it began; 0: not known.
        since: WallMs,
        /// When it ends.
        at: WallMs,
    },
    /// Dead, since when.
    Dead(WallMs),
}

/// Whether and how a record is finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SnapshotLife<'a> {
    /// Not finished: payload, if there is one.
    Open {
        /// Deadline, if there is one (a reserved id has none).
        deadline: Option<WallMs>,
        /// Payload, if there is one.
        #[serde(borrow)]
        payload: Option<Bytes<'a>>,
        /// Tries so far.
        attempt: u32,
        /// Why the last try failed.
        #[serde(borrow)]
        error: Option<Bytes<'a>>,
        /// What the last grant has come to.
        #[serde(borrow)]
        phase: SnapshotPhase<'a>,
    },
    /// Finished and kept.
    Finished {
        /// When it is forgotten.
        keep_end: WallMs,
        /// What came of it.
        #[serde(borrow)]
        result: Option<Bytes<'a>>,
        /// How it was finished; `None`: not known.
        #[serde(borrow)]
        ending: Option<SnapshotEnding<'a>>,
    },
}

/// A record with everything that is ground state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot<'a> {
    /// The order's id, 1 to 255 bytes.
    #[serde(borrow)]
    pub id: Bytes<'a>,
    /// Status, 0 to 32 bytes.
    #[serde(borrow)]
    pub status: Bytes<'a>,
    /// Number of the last write.
    pub rev: u64,
    /// Fingerprint of the request (LOCK … FP), 1 to 64 bytes.
    #[serde(borrow)]
    pub fp: Option<Bytes<'a>>,
    /// The rest, by whether it is finished.
    #[serde(borrow)]
    pub life: SnapshotLife<'a>,
}

/// What a [`Effect::Schedule`] starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Base {
    /// An empty record, whatever is there: the order is created. (What is there
    /// can be a record that already reads as missing on the primary's clock.)
    Fresh,
    /// The record there is; its last grant is cleared, a live lease ends.
    Record,
    /// The record there is, and the mover's live lock stays.
    RecordAndLock,
}

/// How a lease was ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// A lock was given back or broken: the deadline is on its own again.
    Lock,
    /// A claim was given back or broken.
    Claim {
        /// What follows.
        then: AfterTry,
        /// The try does not count.
        untried: bool,
    },
}

/// One change of a queue, version 2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect<'a> {
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
        /// When; 0: not known.
        at: WallMs,
        /// By the holder of the last grant, who showed its fence.
        by_holder: bool,
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
        /// When they were made; 0: not known.
        since: WallMs,
        /// When they end.
        end: WallMs,
        /// What renewals cannot pass.
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
        /// The try does not count: the attempt is one lower again.
        untried: bool,
    },
    /// A lease gets another end.
    Renew {
        /// The order.
        #[serde(borrow)]
        id: Bytes<'a>,
        /// Its new rev.
        rev: u64,
        /// When it was renewed; 0: not known.
        since: WallMs,
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
        /// When it was made; 0: not known.
        since: WallMs,
        /// When it ends.
        end: WallMs,
        /// What renewals cannot pass.
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
        /// When it was renewed; 0: not known.
        since: WallMs,
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
    /// Dead or retrying orders become claimable again.
    Requeue {
        /// Their new rev.
        rev: u64,
        /// The orders.
        #[serde(borrow, deserialize_with = "list")]
        orders: Vec<Requeued<'a>>,
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
    /// Leases end as if their time had come: the grants stay the last ones, all holds
    /// of a lock end together, the revs stay.
    Lapse {
        /// When; no lease is made longer by it.
        end: WallMs,
        /// The leases. One whose grant is not the last any more is left alone.
        #[serde(borrow, deserialize_with = "list")]
        leases: Vec<LeaseOf<'a>>,
    },
}

impl Effect<'_> {
    /// Calls `each` with the id of every order the effect names.
    pub fn each_id<'s>(&'s self, each: &mut dyn FnMut(&'s [u8])) {
        match self {
            Self::Schedule { id, .. }
            | Self::Finish { id, .. }
            | Self::Status { id, .. }
            | Self::Nack { id, .. }
            | Self::Renew { id, .. }
            | Self::Lock { id, .. }
            | Self::Hold { id, .. }
            | Self::Release { id, .. } => each(id),
            Self::Claim { grants, .. } => grants.iter().for_each(|granted| each(&granted.id)),
            Self::Forget { ids } => ids.iter().for_each(|id| each(id)),
            Self::Requeue { orders, .. } => orders.iter().for_each(|order| each(&order.id)),
            Self::Restore(whole) => each(&whole.id),
            Self::Lapse { leases, .. } => leases.iter().for_each(|lease| each(&lease.id)),
            Self::Configure { .. } | Self::Pause { .. } | Self::Floor(_) => {}
        }
    }
}
