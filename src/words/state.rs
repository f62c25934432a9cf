//! The words for the state of an order.

/// The state words, as SCAN filters and replies name them. `Missing` is no
/// record at all and is never listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No record, or one that reads as none.
    Missing,
    /// Deadline ahead.
    Scheduled,
    /// Deadline passed, claimable.
    Expired,
    /// Under a live claim or lock.
    Leased,
    /// Handed back, waiting for its next try.
    Retrying,
    /// Given up: only an operator brings it back.
    Dead,
    /// Finished and kept for a while.
    Finished,
    /// A live lock on an id that has no deadline.
    Reserved,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Missing,
        Self::Scheduled,
        Self::Expired,
        Self::Leased,
        Self::Retrying,
        Self::Dead,
        Self::Finished,
        Self::Reserved,
    ];

    /// Every state but `Missing`, in the order STATS lists them.
    pub const LISTED: [Self; 7] = [
        Self::Scheduled,
        Self::Expired,
        Self::Leased,
        Self::Retrying,
        Self::Dead,
        Self::Finished,
        Self::Reserved,
    ];

    /// The word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Scheduled => "scheduled",
            Self::Expired => "expired",
            Self::Leased => "leased",
            Self::Retrying => "retrying",
            Self::Dead => "dead",
            Self::Finished => "finished",
            Self::Reserved => "reserved",
        }
    }
}
