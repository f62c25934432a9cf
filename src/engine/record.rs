//! The record of one order, in 28 bytes, and what most orders do not need.
//!
//! ```text
//! head      | deadline or keep end, 48 bits | flags 5 | place 3 | flag 1 | free 7 |
//! mark      | rev, 52 bits | status code, 12 bits                        |
//! prev next | the list or wheel slot the record stands in                |
//! body      | handle of its bytes, or of its `Extra`                     |
//! ```
//!
//! Id and payload lie together in one block of the arena:
//! `[id length u8] ([payload length, 1 to 4 bytes]) [id] [payload]`, the length
//! of the payload only where there is one. Of a finished order the payload is
//! gone and its place is taken by the result; behind it stands how the order was
//! finished ([`ending`](super::ending)).
//!
//! A record that was ever leased, handed back, given up or fingerprinted has an
//! [`Extra`]; its `body` is then the handle of the extra, which has the handle of
//! the bytes. Finished orders give it back, so those that are kept for a day
//! cost no more than waiting ones.
//!
//! Which fields are ground state (saved, replicated, digested) and which are
//! derived: place, links, `announced`, `lapsed` and every [`MonoMs`] are
//! derived; the rest is ground.

use std::sync::Arc;

use super::effect::LeaseKind;
use super::tables::NIL;
use super::tables::memory::allocated;
use super::tables::slab::Vacant;
use crate::words::time::{MOMENT_MAX, MonoMs, Now, WallMs};

/// The 48-bit value for "no time".
const TIME_NONE: u64 = MOMENT_MAX + 1;

/// Finish mark: the time is a keep end.
const FINISHED: u64 = 1 << 11;
/// `body` is the handle of an [`Extra`].
const EXTRA: u64 = 1 << 12;
/// The bytes have a second part: payload, or result of a finished order.
const SECOND: u64 = 1 << 13;
/// The record's present entry into its list has been announced.
const ANNOUNCED: u64 = 1 << 14;
/// It came into its list by the lapse of a claim.
const LAPSED: u64 = 1 << 15;
/// Its bytes end with an [`Ending`](super::ending::Ending): it is finished.
const ENDING: u64 = 1 << 7;

/// Lowest bit of the place.
const PLACE_SHIFT: u32 = 8;
/// Lowest bit of the time.
const TIME_SHIFT: u32 = 16;
/// Lowest bit of the rev; the status code lies below.
const REV_SHIFT: u32 = 12;
/// Mask of the status code.
const STATUS_MASK: u64 = (1 << REV_SHIFT) - 1;

/// Where a record stands. In exactly one place at a time, so one pair of links
/// is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In none (only while a change is being made).
    Nowhere = 0,
    /// In the wheel of deadlines: scheduled, or expired and not drawn yet.
    Deadlines = 1,
    /// In the wheel of leases and retry waits, on the monotonic clock.
    Leases = 2,
    /// In the wheel of what is forgotten in time.
    Keeps = 3,
    /// In the list of expired orders that were drawn from the wheel.
    Drawn = 4,
    /// In the list of orders that became claimable by other ways.
    Returned = 5,
    /// In the list of dead orders.
    Dead = 6,
    /// The slot holds no record.
    Vacant = 7,
}

/// One order. See the module's documentation.
// Packed to four bytes: eight would round it up to 32. All access is by value.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
pub struct Record {
    /// Time, flags, place.
    head: u64,
    /// Rev and status code.
    mark: u64,
    /// Link towards the front of its list.
    pub prev: u32,
    /// Link towards the back of its list.
    pub next: u32,
    /// Handle of the bytes, or of the extra.
    pub body: u32,
}

impl Record {
    /// A record without deadline, status 0, rev 0.
    pub const fn new(body: u32) -> Self {
        Self {
            head: TIME_NONE << TIME_SHIFT,
            mark: 0,
            prev: NIL,
            next: NIL,
            body,
        }
    }

    /// Where it stands.
    pub const fn place(&self) -> Place {
        match (self.head >> PLACE_SHIFT) & 7 {
            1 => Place::Deadlines,
            2 => Place::Leases,
            3 => Place::Keeps,
            4 => Place::Drawn,
            5 => Place::Returned,
            6 => Place::Dead,
            7 => Place::Vacant,
            _ => Place::Nowhere,
        }
    }

    /// Says where it stands.
    pub const fn set_place(&mut self, place: Place) {
        self.head = (self.head & !(7 << PLACE_SHIFT)) | ((place as u64) << PLACE_SHIFT);
    }

    /// Whether `flag` is set.
    const fn has(&self, flag: u64) -> bool {
        self.head & flag != 0
    }

    /// Sets or clears `flag`.
    const fn put(&mut self, flag: u64, on: bool) {
        if on {
            self.head |= flag;
        } else {
            self.head &= !flag;
        }
    }

    /// Whether it has the finish mark.
    pub const fn is_finished(&self) -> bool {
        self.has(FINISHED)
    }

    /// Whether `body` is the handle of an extra.
    pub const fn has_extra(&self) -> bool {
        self.has(EXTRA)
    }

    /// Whether there is a payload (or result, when finished).
    pub const fn has_second(&self) -> bool {
        self.has(SECOND)
    }

    /// Whether its present entry into its list has been announced.
    pub const fn is_announced(&self) -> bool {
        self.has(ANNOUNCED)
    }

    /// Whether it came into its list by the lapse of a claim.
    pub const fn is_lapsed(&self) -> bool {
        self.has(LAPSED)
    }

    /// Whether its bytes end with how it was finished.
    pub const fn has_ending(&self) -> bool {
        self.has(ENDING)
    }

    /// Sets [`Record::has_ending`].
    pub const fn set_ending(&mut self, on: bool) {
        self.put(ENDING, on);
    }

    /// Sets [`Record::has_extra`].
    pub const fn set_extra(&mut self, on: bool) {
        self.put(EXTRA, on);
    }

    /// Sets [`Record::has_second`].
    pub const fn set_second(&mut self, on: bool) {
        self.put(SECOND, on);
    }

    /// Sets [`Record::is_announced`].
    pub const fn set_announced(&mut self, on: bool) {
        self.put(ANNOUNCED, on);
    }

    /// Sets [`Record::is_lapsed`].
    pub const fn set_lapsed(&mut self, on: bool) {
        self.put(LAPSED, on);
    }

    /// The 48 bits of time, whatever they mean.
    const fn time(&self) -> Option<WallMs> {
        let time = self.head >> TIME_SHIFT;
        if time == TIME_NONE {
            None
        } else {
            Some(WallMs(time))
        }
    }

    /// Replaces the 48 bits of time.
    const fn set_time(&mut self, time: Option<WallMs>) {
        let time = match time {
            Some(WallMs(ms)) if ms < MOMENT_MAX => ms,
            Some(_) => MOMENT_MAX,
            None => TIME_NONE,
        };
        self.head = (self.head & ((1 << TIME_SHIFT) - 1)) | (time << TIME_SHIFT);
    }

    /// The deadline; a finished order has none.
    pub const fn deadline(&self) -> Option<WallMs> {
        if self.is_finished() {
            None
        } else {
            self.time()
        }
    }

    /// Sets or clears the deadline and takes the finish mark off.
    pub const fn set_deadline(&mut self, deadline: Option<WallMs>) {
        self.put(FINISHED, false);
        self.set_time(deadline);
    }

    /// When a finished order is forgotten.
    pub const fn keep_end(&self) -> Option<WallMs> {
        if self.is_finished() {
            self.time()
        } else {
            None
        }
    }

    /// Puts the finish mark on; the deadline is gone.
    pub const fn set_finished(&mut self, keep_end: WallMs) {
        self.put(FINISHED, true);
        self.set_time(Some(keep_end));
    }

    /// Number of the last write.
    pub const fn rev(&self) -> u64 {
        self.mark >> REV_SHIFT
    }

    /// Sets the number of the last write, below 2^52.
    pub const fn set_rev(&mut self, rev: u64) {
        self.mark = (self.mark & STATUS_MASK) | (rev << REV_SHIFT);
    }

    /// Code of the status.
    pub const fn status(&self) -> u16 {
        (self.mark & STATUS_MASK) as u16
    }

    /// Sets the code of the status, below 2^12.
    pub const fn set_status(&mut self, code: u16) {
        self.mark = (self.mark & !STATUS_MASK) | (code as u64 & STATUS_MASK);
    }
}

impl Vacant for Record {
    fn vacant(next: u32) -> Self {
        let mut record = Self::new(NIL);
        record.set_place(Place::Vacant);
        record.next = next;
        record
    }

    fn next_vacant(&self) -> Option<u32> {
        (self.place() == Place::Vacant).then_some(self.next)
    }
}

/// The last grant of an order. It stays after its end, until the next grant or
/// until somebody else writes: "nobody else can have acted".
#[derive(Clone, Debug)]
pub struct Grant {
    /// Who got it. Shared by the orders of one CLAIM.
    pub owner: Arc<[u8]>,
    /// Its number.
    pub fence: u64,
    /// When it was made, the moment its cap counts from; 0: not known.
    pub made: WallMs,
    /// When it was made or last renewed, the moment its end counts from; 0: not
    /// known.
    pub since: WallMs,
    /// When it ends, as stored and replicated.
    pub end: WallMs,
    /// What renewals cannot pass.
    pub cap: WallMs,
    /// When it ends, as this process judges it.
    pub end_mono: MonoMs,
    /// What renewals cannot pass, as this process judges it.
    pub cap_mono: MonoMs,
    /// When it was made, monotonic microseconds; for the meters. After a load:
    /// the time of the load.
    pub made_us: u64,
    /// How often it is held, 1 and up.
    pub holds: u32,
    /// Claim or lock.
    pub kind: LeaseKind,
    /// Whether a failure of this try is final.
    pub last_try: bool,
    /// Whether its bytes are those of the owner's name too: of the claims that share
    /// one, the first.
    pub has_name: bool,
}

impl Grant {
    /// What is left of the lease, milliseconds, as its holder is told: never more
    /// than it was granted or renewed for. 0 once it is over, at least 1 before.
    pub fn left(&self, now: &Now) -> u64 {
        self.end_mono
            .left(now)
            .min(self.end.length_since(self.since))
    }

    /// Whether a lapse of it is final: it was the last try of a claim.
    pub const fn is_last_try(&self) -> bool {
        self.last_try && matches!(self.kind, LeaseKind::Claim)
    }
}

/// A retry wait, its end on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// When it began; 0: not known.
    pub since: WallMs,
    /// When it ends, as stored and shown.
    pub at: WallMs,
    /// When it ends, as this process judges it.
    pub mono: MonoMs,
}

/// What the last grant of an order has come to. One at a time: a grant is gone
/// when its holder hands the order back, and a retry wait or death is gone with the
/// next grant.
#[derive(Clone, Debug, Default)]
pub enum Phase {
    /// Never leased, or all of it is over and forgotten.
    #[default]
    Plain,
    /// The last grant, live or over.
    Granted(Grant),
    /// Handed back, and offered again after a wait.
    Retrying(Retry),
    /// Given up, since when.
    Dead(WallMs),
}

/// What most orders do not have.
#[derive(Clone, Debug)]
pub struct Extra {
    /// Handle of the order's bytes; `NIL` marks a vacant slot.
    pub bytes: u32,
    /// Tries since the deadline was last set. In a vacant slot: the next one.
    pub attempt: u32,
    /// What the last grant has come to.
    pub phase: Phase,
    /// Since when an order of the list `Returned` has been claimable. Derived.
    pub ready_at: WallMs,
    /// Why the last try failed.
    pub error: Option<Box<[u8]>>,
    /// Fingerprint of the request that the last grant was for; of a finished
    /// order, of the one that finished it.
    pub fp: Option<Box<[u8]>>,
    /// The status, where the queue's table of statuses is full.
    pub status: Option<Box<[u8]>>,
}

impl Extra {
    /// An extra with nothing in it.
    pub const fn new(bytes: u32) -> Self {
        Self {
            bytes,
            attempt: 0,
            phase: Phase::Plain,
            ready_at: WallMs(0),
            error: None,
            fp: None,
            status: None,
        }
    }

    /// The last grant, live or over.
    pub const fn grant(&self) -> Option<&Grant> {
        match &self.phase {
            Phase::Granted(grant) => Some(grant),
            _ => None,
        }
    }

    /// The last grant, to change.
    pub const fn grant_mut(&mut self) -> Option<&mut Grant> {
        match &mut self.phase {
            Phase::Granted(grant) => Some(grant),
            _ => None,
        }
    }

    /// The retry wait, ahead or over.
    pub const fn retry(&self) -> Option<&Retry> {
        match &self.phase {
            Phase::Retrying(retry) => Some(retry),
            _ => None,
        }
    }

    /// Since when it has been given up.
    pub const fn dead_at(&self) -> Option<WallMs> {
        match self.phase {
            Phase::Dead(at) => Some(at),
            _ => None,
        }
    }

    /// Whether nothing is in it that could not be said without it.
    pub const fn is_idle(&self) -> bool {
        self.attempt == 0
            && matches!(self.phase, Phase::Plain)
            && self.error.is_none()
            && self.fp.is_none()
            && self.status.is_none()
    }

    /// Heap bytes of its own allocations, as an allocator rounds them up.
    pub fn boxed_bytes(&self) -> usize {
        /// What is before the bytes of a shared text.
        const COUNTS: usize = 2 * size_of::<usize>();
        let text = |text: &Option<Box<[u8]>>| text.as_ref().map_or(0, |text| allocated(text.len()));
        let named = self.grant().filter(|grant| grant.has_name);
        text(&self.error)
            + text(&self.fp)
            + text(&self.status)
            + named.map_or(0, |grant| allocated(COUNTS + grant.owner.len()))
    }
}

impl Vacant for Extra {
    fn vacant(next: u32) -> Self {
        let mut extra = Self::new(NIL);
        extra.attempt = next;
        extra
    }

    fn next_vacant(&self) -> Option<u32> {
        (self.bytes == NIL).then_some(self.attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_leased_order_has_beside_its_record_is_160_bytes() {
        assert!(size_of::<Extra>() <= 160, "{}", size_of::<Extra>());
    }

    #[test]
    fn a_record_is_28_bytes_and_keeps_its_fields_apart() {
        assert_eq!(size_of::<Record>(), 28);
        let mut record = Record::new(7);
        record.set_deadline(Some(WallMs(253_402_300_799_999)));
        record.set_rev((1 << 52) - 1);
        record.set_status(4095);
        record.set_place(Place::Returned);
        record.set_extra(true);
        record.set_announced(true);
        assert_eq!(record.deadline(), Some(WallMs(253_402_300_799_999)));
        assert_eq!(record.rev(), (1 << 52) - 1);
        assert_eq!(record.status(), 4095);
        assert_eq!(record.place(), Place::Returned);
        assert!(
            record.has_extra()
                && record.is_announced()
                && !record.has_second()
                && !record.is_lapsed()
        );
        record.set_finished(WallMs(u64::MAX));
        assert_eq!(
            (record.deadline(), record.keep_end()),
            (None, Some(WallMs(MOMENT_MAX)))
        );
        record.set_deadline(None);
        assert_eq!((record.deadline(), record.keep_end()), (None, None));
        assert_eq!(record.next_vacant(), None);
        assert_eq!(Record::vacant(9).next_vacant(), Some(9));
    }
}
