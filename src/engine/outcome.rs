//! What a decision says, and what the world is told of a change.

use std::ffi::CStr;
use std::sync::Arc;

use super::effect::{Bytes, Effect};
use crate::words::state::State;

/// The first word of a reply. [`Outcome::Ok`] if and only if it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Done.
    Ok,
    /// There is such an order already.
    Exists,
    /// There is no such order.
    Missing,
    /// The deadline is already as late, or as early, as asked for.
    Unchanged,
    /// Somebody else's live lease is in the way.
    Leased,
    /// The order is finished.
    Finished,
    /// The status is not one of those named, or may not change like this.
    State,
    /// The fence or rev is not the order's last one.
    Stale,
    /// The deadline has passed.
    Expired,
    /// The lease is over, or there was none.
    Gone,
    /// The lock is the caller's already, or still.
    Held,
    /// Somebody else has the lock.
    Busy,
    /// The same key was used for another request.
    Mismatch,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 13] = [
        Self::Ok,
        Self::Exists,
        Self::Missing,
        Self::Unchanged,
        Self::Leased,
        Self::Finished,
        Self::State,
        Self::Stale,
        Self::Expired,
        Self::Gone,
        Self::Held,
        Self::Busy,
        Self::Mismatch,
    ];

    /// The word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Exists => "EXISTS",
            Self::Missing => "MISSING",
            Self::Unchanged => "UNCHANGED",
            Self::Leased => "LEASED",
            Self::Finished => "FINISHED",
            Self::State => "STATE",
            Self::Stale => "STALE",
            Self::Expired => "EXPIRED",
            Self::Gone => "GONE",
            Self::Held => "HELD",
            Self::Busy => "BUSY",
            Self::Mismatch => "MISMATCH",
        }
    }
}

/// What was decided on one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<'a> {
    /// What the caller is told.
    pub outcome: Outcome,
    /// The state that was met.
    pub was: State,
    /// What to do; `Some` only with [`Outcome::Ok`].
    pub effect: Option<Effect<'a>>,
}

/// What was decided on a CLAIM.
#[derive(Debug, Default)]
pub struct Claimed {
    /// The grants; `None`: nothing to claim.
    pub effect: Option<Effect<'static>>,
    /// The orders, as handles for `view_at`, in the order of the grants.
    pub picks: Vec<u32>,
    /// What the world has not been told yet of these orders.
    pub announcements: Vec<Announcement>,
    /// How late those are that nobody was told of, microseconds; to be counted once
    /// they are claimed ([`Queue::note_late`](super::queue::Queue::note_late)).
    pub late_us: Vec<u64>,
    /// The brake has kept orders back that it would have got.
    pub held_back: bool,
}

/// Kind of a keyspace event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Created or moved.
    Schedule,
    /// Finished by FINISH.
    Finish,
    /// Status or payload set.
    Status,
    /// Claim granted.
    Claim,
    /// Finished by ACK or MACK.
    Ack,
    /// Handed back.
    Nack,
    /// Lock granted.
    Lock,
    /// Lease ended by UNLOCK or BREAK.
    Unlock,
    /// Became claimable.
    Expired,
    /// A lease ended without a word from its holder.
    Lapsed,
    /// Became dead.
    Dead,
}

impl EventKind {
    /// The event's name on the keyspace channels.
    pub const fn name(self) -> &'static CStr {
        match self {
            Self::Schedule => c"order.schedule",
            Self::Finish => c"order.finish",
            Self::Status => c"order.status",
            Self::Claim => c"order.claim",
            Self::Ack => c"order.ack",
            Self::Nack => c"order.nack",
            Self::Lock => c"order.lock",
            Self::Unlock => c"order.unlock",
            Self::Expired => c"order.expired",
            Self::Lapsed => c"order.lapsed",
            Self::Dead => c"order.dead",
        }
    }
}

/// An event that a write raises, on replicas too.
#[derive(Clone, Debug, PartialEq)]
pub struct Event<'e> {
    /// What happened.
    pub kind: EventKind,
    /// The order.
    pub id: Bytes<'e>,
}

/// An event that time raises, on the primary alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// What happened.
    pub kind: EventKind,
    /// The order.
    pub id: Arc<[u8]>,
}
