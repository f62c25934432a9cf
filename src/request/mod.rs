//! What a caller asks for: the commands as typed values.
//!
//! `parse` turns the arguments of a command into one of these, checking
//! every number and length before a key is opened; the engine decides on them.
//! All byte strings borrow from the caller's arguments.

mod parse;

pub use parse::{BLOCK_MS_MAX, COUNT_MAX, Limits, key_and_arity, parse};

use crate::words::state::State;
use crate::words::time::WallMs;

/// A deadline as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// So many milliseconds from now; 0 is due at once.
    In(u64),
    /// At this moment; a moment that has passed is due at once and stored as given.
    At(WallMs),
}

/// Conditions on the order as it stands. All must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard<'a> {
    /// The status must be one of these; empty: no such condition. An empty
    /// string names the empty status.
    pub from: Vec<&'a [u8]>,
    /// The rev must be this.
    pub if_rev: Option<u64>,
    /// The last grant must have this fence.
    pub fence: Option<u64>,
}

/// Whether SCHEDULE may create, move, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Create only (NX, the default).
    Create,
    /// Move only (XX; implied by a guard, GT or LT without UPSERT).
    Move,
    /// Either (UPSERT).
    Upsert,
}

/// Which way a deadline may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Strictly later only (GT).
    Later,
    /// Strictly earlier only (LT).
    Earlier,
}

/// `ORDER.SCHEDULE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule<'a> {
    /// The order's id.
    pub id: &'a [u8],
    /// Its deadline.
    pub when: When,
    /// Create, move or either.
    pub mode: Mode,
    /// GT or LT.
    pub only: Option<Direction>,
    /// FROM, IFREV, FENCE.
    pub guard: Guard<'a>,
    /// The new status; `None` keeps the one there is.
    pub status: Option<&'a [u8]>,
    /// The new payload; `None` keeps the one there is.
    pub payload: Option<&'a [u8]>,
}

/// `ORDER.FINISH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish<'a> {
    /// The order's id.
    pub id: &'a [u8],
    /// Refuse once the deadline has passed.
    pub strict: bool,
    /// Record a finished order where there is none.
    pub create: bool,
    /// FROM, IFREV, FENCE.
    pub guard: Guard<'a>,
    /// The new status; `None` keeps the one there is.
    pub status: Option<&'a [u8]>,
    /// What came of it, kept with the finished order.
    pub result: Option<&'a [u8]>,
    /// How long to keep the finished order, milliseconds; 0: forget it now;
    /// `None`: as the queue's `keep-ms` says.
    pub keep_ms: Option<u64>,
}

/// `ORDER.STATUS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetStatus<'a> {
    /// The order's id.
    pub id: &'a [u8],
    /// The new status.
    pub status: &'a [u8],
    /// FROM, IFREV, FENCE.
    pub guard: Guard<'a>,
    /// The new payload; `None` keeps the one there is.
    pub payload: Option<&'a [u8]>,
}

/// Which orders a CLAIM takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick<'a> {
    /// The next ones, in the order in which they became claimable.
    Next {
        /// At most so many, 1 to 1000.
        count: u32,
        /// Wait for one up to so many milliseconds, 0 without limit; `None`: do
        /// not wait.
        block_ms: Option<u64>,
    },
    /// This one.
    Id(&'a [u8]),
}

/// `ORDER.CLAIM`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim<'a> {
    /// Who claims, 1 to 128 bytes.
    pub owner: &'a [u8],
    /// Length of the lease, milliseconds; `None`: as the queue's `lease-ms` says.
    pub lease_ms: Option<u64>,
    /// Which orders.
    pub pick: Pick<'a>,
    /// The leases end with the caller's connection, if that closes before they do.
    pub session: bool,
}

/// `ORDER.ACK`, and one order of `ORDER.MACK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The order's id.
    pub id: &'a [u8],
    /// The fence of the lease that is acknowledged.
    pub fence: u64,
    /// The status must be one of these; empty: no such condition.
    pub from: Vec<&'a [u8]>,
    /// The new status; `None` keeps the one there is.
    pub status: Option<&'a [u8]>,
    /// What came of it, kept with the finished order.
    pub result: Option<&'a [u8]>,
    /// As in [`Finish::keep_ms`].
    pub keep_ms: Option<u64>,
}

/// What happens to an order that was handed back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Offered again after the queue's backoff for its attempt.
    Backoff,
    /// Offered again after so many milliseconds; 0: at once.
    Delay(u64),
    /// Never offered again: dead.
    Dead,
}

/// `ORDER.NACK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nack<'a> {
    /// The order's id.
    pub id: &'a [u8],
    /// The fence of the claim that failed.
    pub fence: u64,
    /// What happens next.
    pub again: Again,
    /// Why it failed, 0 to 256 bytes; `None` keeps the last one.
    pub error: Option<&'a [u8]>,
    /// The try does not count: it did not fail at this order.
    pub untried: bool,
}

/// `ORDER.RENEW`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renew<'a> {
    /// The order's id.
    pub id: &'a [u8],
    /// The fence of the lease.
    pub fence: u64,
    /// The lease is to last so many milliseconds from now.
    pub lease_ms: u64,
    /// LT: may shorten, and never lengthens. Without it: the other way round.
    pub shorten: bool,
    /// As in [`Claim::session`]; without it the lease stays bound to what it is.
    pub session: bool,
}

/// Many requests of one kind with the same options, 1 to 1000: each is decided as by
/// itself, one after the other, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<T, O> {
    /// What they have in common. Its place for what differs is filled in with one order
    /// after the other.
    pub each: T,
    /// What differs, in the order in which it is decided.
    pub orders: Vec<O>,
}

/// One order of `ORDER.MSCHEDULE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed<'a> {
    /// As in [`Schedule::id`].
    pub id: &'a [u8],
    /// As in [`Schedule::when`].
    pub when: When,
    /// As in [`Schedule::payload`].
    pub payload: Option<&'a [u8]>,
}

/// One order of `ORDER.MACK`, `ORDER.MNACK` and `ORDER.MRENEW`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fenced<'a> {
    /// The order's id.
    pub id: &'a [u8],
    /// The fence of its lease.
    pub fence: u64,
    /// The new status (MACK with STATUSES); `None`: that of all.
    pub status: Option<&'a [u8]>,
}

/// `ORDER.LOCK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock<'a> {
    /// The order's id; it need not have a deadline.
    pub id: &'a [u8],
    /// Who asks, 1 to 128 bytes. The same owner again is HELD.
    pub owner: &'a [u8],
    /// Length of the lease, milliseconds.
    pub lease_ms: u64,
    /// Count how often it is held; UNLOCK counts down.
    pub reentrant: bool,
    /// What no renewal passes, counted from the grant, milliseconds; `None`: as
    /// the queue's `lock-ms-max` says.
    pub max_ms: Option<u64>,
    /// Fingerprint of the request that the lock is for, 1 to 64 bytes.
    pub fp: Option<&'a [u8]>,
    /// Wait for it up to so many milliseconds, 0 without limit; `None`: do not wait.
    pub block_ms: Option<u64>,
    /// As in [`Claim::session`]; without it a lock that is held stays bound to what it is.
    pub session: bool,
    /// XX: only of an order that is there; a reservation is none.
    pub must_exist: bool,
}

/// `ORDER.UNLOCK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unlock<'a> {
    /// The order's id.
    pub id: &'a [u8],
    /// The fence of the lease.
    pub fence: u64,
}

/// `ORDER.BREAK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Break<'a> {
    /// The order's id.
    pub id: &'a [u8],
    /// The fence of the lease; `None`: whichever there is.
    pub fence: Option<u64>,
}

/// `ORDER.RELEASE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release<'a> {
    /// Whose leases, 1 to 128 bytes.
    pub owner: &'a [u8],
    /// At most so many, 1 to 1000.
    pub count: u32,
}

/// `ORDER.CONFIG`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Configure<'a> {
    /// One setting, or all.
    Get(Option<&'a [u8]>),
    /// Settings and their values as text.
    Set(Vec<(&'a [u8], &'a [u8])>),
    /// Back to the server's default: one setting, or all.
    Reset(Option<&'a [u8]>),
}

/// `ORDER.PAUSE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause<'a> {
    /// For so many milliseconds; `None`: until RESUME.
    pub ms: Option<u64>,
    /// Why, 0 to 256 bytes.
    pub reason: &'a [u8],
}

/// Which orders of a queue a command goes through, a part at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep<'a> {
    /// Only orders in this state.
    pub state: State,
    /// Only orders with this status.
    pub status: Option<&'a [u8]>,
    /// Only ids that match this glob.
    pub pattern: Option<&'a [u8]>,
    /// At most so many, 1 to 1000.
    pub count: u32,
}

impl Sweep<'_> {
    /// Whether it names a status or a pattern.
    pub const fn is_filtered(&self) -> bool {
        self.status.is_some() || self.pattern.is_some()
    }
}

/// `ORDER.PURGE`.
pub type Purge<'a> = Sweep<'a>;

/// `ORDER.REQUEUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requeue<'a> {
    /// Those of a state, `dead` or `retrying`.
    Next(Sweep<'a>),
    /// These, 1 to 1000.
    Ids(Vec<&'a [u8]>),
}

/// `ORDER.SCAN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan<'a> {
    /// Where to go on; 0 starts.
    pub cursor: u64,
    /// Only orders in this state.
    pub state: Option<State>,
    /// Only orders with this status.
    pub status: Option<&'a [u8]>,
    /// Only ids that match this glob (the server's own pattern rules).
    pub pattern: Option<&'a [u8]>,
    /// About how many to look at, 1 to 1000.
    pub count: u32,
    /// Only orders under a live lease of this owner, 1 to 128 bytes.
    pub owner: Option<&'a [u8]>,
}

/// `ORDER.APPLY`: effects from a primary, an AOF or a slot import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apply<'a> {
    /// Version of the encoding.
    pub version: u64,
    /// The encoded effects; empty: none, a probe.
    pub effects: &'a [u8],
}

/// One command, without its key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is the command of its name")]
pub enum Request<'a> {
    Schedule(Schedule<'a>),
    Finish(Finish<'a>),
    Status(SetStatus<'a>),
    Claim(Claim<'a>),
    Ack(Ack<'a>),
    Mack(Batch<Ack<'a>, Fenced<'a>>),
    Nack(Nack<'a>),
    Renew(Renew<'a>),
    Lock(Lock<'a>),
    Unlock(Unlock<'a>),
    Break(Break<'a>),
    Config(Configure<'a>),
    Pause(Pause<'a>),
    Resume,
    Requeue(Requeue<'a>),
    Purge(Purge<'a>),
    Get { id: &'a [u8] },
    Pttl { id: &'a [u8] },
    Next { count: u32 },
    Scan(Scan<'a>),
    Stats,
    Apply(Apply<'a>),
    Mschedule(Batch<Schedule<'a>, Timed<'a>>),
    Mfinish(Batch<Finish<'a>, &'a [u8]>),
    Mnack(Batch<Nack<'a>, Fenced<'a>>),
    Mrenew(Batch<Renew<'a>, Fenced<'a>>),
    Release(Release<'a>),
}

impl Request<'_> {
    /// Whether it binds leases to the caller's connection.
    pub const fn is_of_session(&self) -> bool {
        match self {
            Self::Claim(ask) => ask.session,
            Self::Lock(ask) => ask.session,
            Self::Renew(ask) => ask.session,
            Self::Mrenew(ask) => ask.each.session,
            _ => false,
        }
    }
}

/// The command names, without the `ORDER.` prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant is the command of its name")]
pub enum Verb {
    Schedule,
    Finish,
    Status,
    Claim,
    Ack,
    Mack,
    Nack,
    Renew,
    Lock,
    Unlock,
    Break,
    Config,
    Pause,
    Resume,
    Requeue,
    Purge,
    Get,
    Pttl,
    Next,
    Scan,
    Stats,
    Apply,
    Mschedule,
    Mfinish,
    Mnack,
    Mrenew,
    Release,
}
