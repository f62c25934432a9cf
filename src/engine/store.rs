//! The records of a queue and the tables they live in: slab, arena, extras,
//! index by id, statuses. Knows what a record is made of, which state that is at a
//! moment ([`Rows::state`]), and which time each wheel files it under.

use std::hint::black_box;

use super::effect::LeaseKind;
use super::ending::{self, Ending, Written};
use super::lookup::{Lookup, hash_of_id};
use super::record::{Extra, Grant, Phase, Record};
use super::status::{OWN, Statuses};
use super::tables::NIL;
use super::tables::arena::Arena;
use super::tables::fifo::Linked;
use super::tables::index::Hashed;
use super::tables::lazy::{Blank, Lazy};
use super::tables::slab::Slab;
use super::tables::wheel::Filed;
use crate::words::limits::SECOND_BYTES_MAX;
use crate::words::state::State;
use crate::words::time::{Now, WallMs};

/// Above so many records a queue takes no new order: handles are 32 bits wide.
const RECORDS_MAX: usize = 1 << 31;

/// The tables that records and their parts live in.
#[derive(Debug)]
pub struct Rows {
    /// The records.
    pub(super) slab: Slab<Record>,
    /// Their ids and payloads.
    pub(super) arena: Arena,
    /// Their rare parts.
    pub(super) extras: Lazy<Extras>,
}

/// The rare parts of records.
#[derive(Debug, Default)]
pub(super) struct Extras {
    /// The parts.
    pub(super) slab: Slab<Extra>,
    /// Heap bytes of what they hold.
    boxed_bytes: usize,
    /// The closers that finished orders which are kept.
    owners: Statuses,
}

impl Blank for Extras {
    fn blank() -> &'static Self {
        static BLANK: Extras = Extras {
            slab: Slab::new(),
            boxed_bytes: 0,
            owners: Statuses::new(),
        };
        &BLANK
    }
}

/// All records of a queue.
#[derive(Debug)]
pub struct Store {
    /// The tables.
    pub rows: Rows,
    /// Records by id, where there are or were more than [`FEW`].
    pub(super) lookup: Option<Box<Lookup>>,
    /// The statuses the records have.
    statuses: Statuses,
}

/// Up to so many records are searched one by one, without an index.
const FEW: u32 = 16;

/// Splits a block into id and, where there is one, the second part.
pub(super) fn split_block(block: &[u8], has_second: bool) -> (&[u8], Option<&[u8]>) {
    let Some((&id_len, mut rest)) = block.split_first() else {
        return (&[], None);
    };
    let mut second_len = 0_usize;
    if has_second {
        let mut shift = 0;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            second_len |= usize::from(byte & 0x7F) << shift;
            shift += 7;
            if byte & 0x80 == 0 || shift > 28 {
                break;
            }
        }
    }
    let (id, rest) = rest
        .split_at_checked(usize::from(id_len))
        .unwrap_or((&[], &[]));
    (
        id,
        has_second.then(|| rest.get(..second_len).unwrap_or(&[])),
    )
}

/// The length of a second part as it stands in a block: seven bits a byte, the
/// lowest first. Returns the bytes and how many count.
fn length_bytes(len: usize) -> ([u8; 5], usize) {
    let (mut bytes, mut used, mut left) = ([0; 5], 0, len);
    for byte in &mut bytes {
        used += 1;
        *byte = (left & 0x7F) as u8;
        left >>= 7;
        if left == 0 {
            break;
        }
        *byte |= 0x80;
    }
    (bytes, used)
}

impl Rows {
    /// The record of a handle.
    #[inline]
    pub fn get(&self, i: u32) -> Option<&Record> {
        self.slab.get(i)
    }

    /// The record of a handle, to change.
    #[inline]
    pub fn get_mut(&mut self, i: u32) -> Option<&mut Record> {
        self.slab.get_mut(i)
    }

    /// The rare parts of a record.
    #[inline]
    pub fn extra(&self, i: u32) -> Option<&Extra> {
        let record = self.slab.get(i)?;
        if !record.has_extra() {
            return None;
        }
        self.extras.slab.get(record.body)
    }

    /// The last grant of a record.
    #[inline]
    pub fn grant(&self, i: u32) -> Option<&Grant> {
        self.extra(i)?.grant()
    }

    /// Id and second part (payload, or result when finished).
    pub fn parts(&self, i: u32) -> (&[u8], Option<&[u8]>) {
        let Some(record) = self.slab.get(i) else {
            return (&[], None);
        };
        split_block(self.arena.get(self.bytes_of(record)), record.has_second())
    }

    /// The id.
    #[inline]
    pub fn id(&self, i: u32) -> &[u8] {
        self.parts(i).0
    }

    /// What stands behind id and second part: how a finished order was finished.
    fn ending(&self, i: u32) -> Option<&[u8]> {
        let record = self.slab.get(i).filter(|record| record.has_ending())?;
        let block = self.arena.get(self.bytes_of(record));
        let (id, second) = split_block(block, record.has_second());
        let second_len = second.map_or(0, |second| length_bytes(second.len()).1 + second.len());
        block.get(1 + id.len() + second_len..)
    }

    /// Whether there is such a record and it has this id.
    pub fn is(&self, i: u32, id: &[u8]) -> bool {
        self.slab.get(i).is_some_and(|record| {
            split_block(self.arena.get(self.bytes_of(record)), record.has_second()).0 == id
        })
    }

    /// Begins to read what a command on this record will need: its bytes, and the
    /// records beside it in its list. They lie apart from each other, and a
    /// processor waits for several lines of memory in the time of one, if it is
    /// told of all of them before the first is needed.
    #[inline]
    pub fn touch(&self, i: u32) {
        if let Some(record) = self.slab.get(i) {
            let beside = |i| self.slab.get(i).map(|record| record.body);
            black_box((
                self.arena.get(self.bytes_of(record)).first().copied(),
                beside(record.prev),
                beside(record.next),
            ));
        }
    }

    /// Handle of a record's bytes.
    pub(super) fn bytes_of(&self, record: &Record) -> u32 {
        if !record.has_extra() {
            return record.body;
        }
        self.extras
            .slab
            .get(record.body)
            .map_or(NIL, |extra| extra.bytes)
    }

    /// The state at a moment: a function of record and clocks alone. Finish mark, live
    /// lease, death, retry wait, deadline: the first that there is says it.
    pub fn state(&self, i: u32, now: &Now) -> State {
        let Some(record) = self.slab.get(i) else {
            return State::Missing;
        };
        if let Some(keep_end) = record.keep_end() {
            return if keep_end.is_due(now) {
                State::Missing
            } else {
                State::Finished
            };
        }
        let deadline = record.deadline();
        if record.has_extra()
            && let Some(extra) = self.extras.slab.get(record.body)
        {
            match &extra.phase {
                Phase::Granted(grant) if !grant.end_mono.is_over(now) => {
                    return if deadline.is_some() {
                        State::Leased
                    } else {
                        State::Reserved
                    };
                }
                _ if deadline.is_none() => {}
                Phase::Granted(grant) if grant.is_last_try() => return State::Dead,
                Phase::Dead(_) => return State::Dead,
                Phase::Retrying(retry) if !retry.mono.is_over(now) => return State::Retrying,
                Phase::Granted(_) | Phase::Retrying(_) | Phase::Plain => {}
            }
        }
        match deadline {
            None => State::Missing,
            Some(deadline) if deadline.is_due(now) => State::Expired,
            Some(_) => State::Scheduled,
        }
    }

    /// One past the highest handle.
    pub fn end(&self) -> u32 {
        self.slab.end()
    }

    /// See [`Slab::skip_empty`].
    pub fn skip_empty(&self, bound: u32) -> u32 {
        self.slab.skip_empty(bound)
    }

    /// How many records.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }
}

impl Linked for Rows {
    #[inline]
    fn prev(&self, i: u32) -> u32 {
        self.slab.get(i).map_or(NIL, |record| record.prev)
    }
    #[inline]
    fn next(&self, i: u32) -> u32 {
        self.slab.get(i).map_or(NIL, |record| record.next)
    }
    #[inline]
    fn set_prev(&mut self, i: u32, prev: u32) {
        if let Some(record) = self.slab.get_mut(i) {
            record.prev = prev;
        }
    }
    #[inline]
    fn set_next(&mut self, i: u32, next: u32) {
        if let Some(record) = self.slab.get_mut(i) {
            record.next = next;
        }
    }
}

impl Hashed for Rows {
    fn hash_of(&self, i: u32) -> u64 {
        hash_of_id(self.id(i))
    }
}

/// The records as the wheel of deadlines sees them.
pub struct ByDeadline<'r>(pub &'r mut Rows);
/// The records as the wheel of leases and retry waits sees them.
pub struct ByLease<'r>(pub &'r mut Rows);
/// The records as the wheel of keep ends sees them.
pub struct ByKeep<'r>(pub &'r mut Rows);

/// Passes the links of a view on to the records.
macro_rules! linked_view {
    ($($view:ident),*) => {$(
        impl Linked for $view<'_> {
            #[inline]
            fn prev(&self, i: u32) -> u32 {
                self.0.prev(i)
            }
            #[inline]
            fn next(&self, i: u32) -> u32 {
                self.0.next(i)
            }
            #[inline]
            fn set_prev(&mut self, i: u32, prev: u32) {
                self.0.set_prev(i, prev);
            }
            #[inline]
            fn set_next(&mut self, i: u32, next: u32) {
                self.0.set_next(i, next);
            }
        }
    )*};
}
linked_view!(ByDeadline, ByLease, ByKeep);

impl Filed for ByDeadline<'_> {
    #[inline]
    fn filed(&self, i: u32) -> u64 {
        filed_deadline(self.0, i)
    }
}
impl Filed for ByLease<'_> {
    #[inline]
    fn filed(&self, i: u32) -> u64 {
        filed_lease(self.0, i)
    }
}
impl Filed for ByKeep<'_> {
    #[inline]
    fn filed(&self, i: u32) -> u64 {
        filed_keep(self.0, i)
    }
}

/// Read-only views, for queries.
pub struct SeeDeadline<'r>(pub &'r Rows);
/// See [`SeeDeadline`].
pub struct SeeLease<'r>(pub &'r Rows);
/// See [`SeeDeadline`].
pub struct SeeKeep<'r>(pub &'r Rows);

/// Passes the links of a read-only view on; it is never asked to write.
macro_rules! linked_see {
    ($($view:ident => $filed:path),*) => {$(
        impl Linked for $view<'_> {
            fn prev(&self, i: u32) -> u32 {
                self.0.prev(i)
            }
            fn next(&self, i: u32) -> u32 {
                self.0.next(i)
            }
            fn set_prev(&mut self, _: u32, _: u32) {}
            fn set_next(&mut self, _: u32, _: u32) {}
        }
        impl Filed for $view<'_> {
            fn filed(&self, i: u32) -> u64 {
                $filed(self.0, i)
            }
        }
    )*};
}
linked_see!(SeeDeadline => filed_deadline, SeeLease => filed_lease, SeeKeep => filed_keep);

/// What a record is filed under in the wheel of deadlines: its deadline.
fn filed_deadline(rows: &Rows, i: u32) -> u64 {
    rows.get(i)
        .and_then(Record::deadline)
        .map_or(0, |deadline| deadline.0)
}

/// What a record is filed under in the wheel of leases: the end of its lease,
/// else of its retry wait.
fn filed_lease(rows: &Rows, i: u32) -> u64 {
    rows.extra(i)
        .and_then(|extra| {
            extra
                .grant()
                .map(|grant| grant.end_mono)
                .or(extra.retry().map(|retry| retry.mono))
        })
        .map_or(0, |mono| mono.0)
}

/// What a record is filed under in the wheel of keep ends: its keep end. One that was
/// reserved is over by the monotonic clock, whatever the wall clock says of its lock's
/// end: it stands before all others.
fn filed_keep(rows: &Rows, i: u32) -> u64 {
    let keep_end = rows.get(i).and_then(Record::keep_end);
    // 1 at least: a walk that starts after 0 finds all.
    keep_end.map_or(1, |end| end.0.max(1))
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

impl Store {
    /// An empty store; allocates nothing.
    pub fn new() -> Self {
        let rows = Rows {
            slab: Slab::new(),
            arena: Arena::new(),
            extras: Lazy::new(),
        };
        Self {
            rows,
            lookup: None,
            statuses: Statuses::default(),
        }
    }

    /// The record with this id. O(1).
    pub fn find(&self, id: &[u8]) -> Option<u32> {
        let Some(lookup) = &self.lookup else {
            return self.seek(id);
        };
        let found = lookup.look_up(&self.rows, id).found;
        (found != NIL).then_some(found)
    }

    /// As [`Store::find`], and nothing is remembered of it. O(1).
    pub(super) fn seek(&self, id: &[u8]) -> Option<u32> {
        match &self.lookup {
            Some(lookup) => lookup.seek(&self.rows, id),
            None => (0..self.rows.end()).find(|i| self.rows.is(*i, id)),
        }
    }

    /// Prepares for the lookups of these ids, which are to come next and in this
    /// order; see [`Lookup::look_ahead`].
    pub fn look_ahead<'i>(&mut self, ids: impl Iterator<Item = &'i [u8]>) {
        // One id has nothing to wait together with: most commands on a replica.
        let is_one = ids.size_hint().1.is_some_and(|most| most < 2);
        if let Some(lookup) = &mut self.lookup
            && !is_one
        {
            lookup.look_ahead(&self.rows, ids);
        }
    }

    /// As [`Store::look_ahead`], of records that are known already.
    pub fn expect_records(&mut self, records: &[u32]) {
        if let Some(lookup) = &mut self.lookup {
            lookup.expect(&self.rows, records);
        }
    }

    /// Gives back what looking ahead has left.
    pub fn end_look_ahead(&mut self) {
        if let Some(lookup) = &mut self.lookup {
            lookup.end_look_ahead();
        }
    }

    /// Whether another record fits.
    pub fn has_room(&self) -> bool {
        self.rows.len() < RECORDS_MAX && self.has_room_for_bytes()
    }

    /// Whether a new payload or result fits.
    pub fn has_room_for_bytes(&self) -> bool {
        !self.rows.arena.is_nearly_full()
    }

    /// Makes a record with this id, which must not have one. O(1). `None` when
    /// the store is full.
    pub fn create(&mut self, id: &[u8]) -> Option<u32> {
        let id_len = u8::try_from(id.len()).ok()?;
        let seen = self
            .lookup
            .as_ref()
            .map(|lookup| lookup.look_up(&self.rows, id));
        let bytes = self.rows.arena.insert(&[&[id_len], id])?;
        let Some(i) = self.rows.slab.insert(Record::new(bytes)) else {
            self.rows.arena.remove(bytes);
            return None;
        };
        match (&mut self.lookup, seen) {
            (Some(lookup), Some(seen)) => lookup.insert(&self.rows, id, seen, i),
            _ if i >= FEW => self.lookup = Some(Box::new(Lookup::of(&self.rows))),
            _ => {}
        }
        Some(i)
    }

    /// Removes a record, which must stand in no list. O(1).
    pub fn remove(&mut self, i: u32) {
        self.release_owner(self.ending_code(i));
        self.clear_extra(i);
        self.set_status(i, b"");
        if let Some(lookup) = &mut self.lookup {
            lookup.remove(&self.rows, i);
        }
        if let Some(record) = self.rows.slab.remove(i) {
            self.rows.arena.remove(record.body);
        }
        if self.rows.end() == 0 {
            self.lookup = None;
        }
    }

    /// The status of a record.
    pub fn status(&self, i: u32) -> &[u8] {
        match self.rows.get(i).map_or(0, Record::status) {
            OWN => self
                .rows
                .extra(i)
                .and_then(|extra| extra.status.as_deref())
                .unwrap_or(&[]),
            code => self.statuses.name(code),
        }
    }

    /// Sets the status of a record.
    pub fn set_status(&mut self, i: u32, status: &[u8]) {
        let Some(record) = self.rows.slab.get_mut(i) else {
            return;
        };
        let old = record.status();
        if old != OWN && self.statuses.name(old) == status {
            return;
        }
        let code = self.statuses.acquire(status);
        record.set_status(code);
        if old == OWN {
            self.with_extra(i, |extra| extra.status = None);
        } else {
            self.statuses.release(old);
        }
        if code == OWN {
            self.with_extra(i, |extra| extra.status = Some(status.into()));
        }
    }

    /// Replaces the second part of a record's bytes. The id stays; how the order was
    /// finished goes. False if there is no room for it: then nothing has changed. There
    /// always is for none, or for one that is no longer than the one before.
    pub fn set_second(&mut self, i: u32, second: Option<&[u8]>) -> bool {
        let is_bare = |record: &Record| !record.has_second() && !record.has_ending();
        if second.is_none() && self.rows.slab.get(i).is_none_or(is_bare) {
            return true;
        }
        self.replace_bytes(i, second, None)
    }

    /// Sets what came of a finished order, and how it was finished where that is
    /// known. False if there is no room for it: then nothing has changed.
    pub fn set_result(
        &mut self,
        i: u32,
        result: Option<&[u8]>,
        ending: Option<&Ending<'_>>,
    ) -> bool {
        self.replace_bytes(i, result, ending)
    }

    /// How a finished order was finished, where that is known.
    pub fn ending(&self, i: u32) -> Option<Ending<'_>> {
        Some(ending::read(self.rows.ending(i)?, &self.rows.extras.owners))
    }

    /// The code of the closer in the ending of a record.
    fn ending_code(&self, i: u32) -> Option<u16> {
        self.rows.ending(i).and_then(ending::code)
    }

    /// Gives a code of [`Store::ending_code`] back.
    fn release_owner(&mut self, code: Option<u16>) {
        if let Some(code) = code {
            self.rows.extras.owners.release(code);
        }
    }

    /// Replaces what stands behind the id of a record. False if there is no room for it:
    /// then nothing has changed.
    fn replace_bytes(
        &mut self,
        i: u32,
        second: Option<&[u8]>,
        ending: Option<&Ending<'_>>,
    ) -> bool {
        let Some(record) = self.rows.slab.get(i) else {
            return false;
        };
        if second.is_some_and(|second| second.len() > SECOND_BYTES_MAX) {
            return false;
        }
        let (old, old_code) = (self.rows.bytes_of(record), self.ending_code(i));
        // Ids are at most 255 bytes: a copy on the stack frees the arena.
        let mut copy = [0_u8; 255];
        let id = self.rows.id(i);
        let len = id.len().min(copy.len());
        if let (Some(to), Some(from)) = (copy.get_mut(..len), id.get(..len)) {
            to.copy_from_slice(from);
        }
        let id = copy.get(..len).unwrap_or(&[]);
        let head = [len as u8];
        let written = ending.map(|ending| {
            let code = match ending.holder {
                Some((LeaseKind::Claim, owner)) => self.rows.extras.owners.acquire(owner),
                _ => OWN,
            };
            Written::of(ending, code)
        });
        let tail = written.as_ref().map_or(&[][..], Written::bytes);
        let (length, used) = length_bytes(second.map_or(0, <[u8]>::len));
        let length = second.and(length.get(..used)).unwrap_or(&[]);
        let parts = [&head[..], length, id, second.unwrap_or(&[]), tail];
        let Some(handle) = self.replace_block(old, &parts) else {
            self.release_owner(ending::code(tail));
            return false;
        };
        self.release_owner(old_code);
        if let Some(record) = self.rows.slab.get_mut(i) {
            record.set_second(second.is_some());
            record.set_ending(ending.is_some());
        }
        self.set_bytes(i, handle);
        true
    }

    /// Says where the bytes of a record are.
    pub(super) fn set_bytes(&mut self, i: u32, handle: u32) {
        let Some(record) = self.rows.slab.get_mut(i) else {
            return;
        };
        if !record.has_extra() {
            record.body = handle;
        } else if let Some(extra) = self.rows.extras.slab.get_mut(record.body) {
            extra.bytes = handle;
        }
    }

    /// Puts `parts` in the place of the block `old`, which they do not borrow: into
    /// a block of their own, where there is none into the old one, as far as they fit.
    /// Returns their handle; `None` if there is no room, and the old block stays.
    fn replace_block(&mut self, old: u32, parts: &[&[u8]]) -> Option<u32> {
        let arena = &mut self.rows.arena;
        if self.rows.slab.len() == 1 {
            // In an empty arena there is room, and it needs no second page.
            arena.remove(old);
            return arena.insert(parts);
        }
        if let Some(handle) = arena.insert(parts) {
            arena.remove(old);
            return Some(handle);
        }
        let mut place = arena.get_mut(old);
        if parts.iter().map(|part| part.len()).sum::<usize>() > place.len() {
            return None;
        }
        for part in parts {
            let (to, rest) = place.split_at_mut_checked(part.len())?;
            to.copy_from_slice(part);
            place = rest;
        }
        Some(old)
    }

    /// Changes the rare parts of a record, making them where there are none and
    /// dropping them when nothing is left in them.
    pub fn with_extra(&mut self, i: u32, change: impl FnOnce(&mut Extra)) {
        let Some(record) = self.rows.slab.get_mut(i) else {
            return;
        };
        if !record.has_extra() {
            let Some(at) = self.rows.extras.slab.insert(Extra::new(record.body)) else {
                return;
            };
            record.body = at;
            record.set_extra(true);
        }
        let extras = &mut *self.rows.extras;
        let Some(extra) = extras.slab.get_mut(record.body) else {
            return;
        };
        let before = extra.boxed_bytes();
        change(extra);
        extras.boxed_bytes = extras
            .boxed_bytes
            .saturating_sub(before)
            .saturating_add(extra.boxed_bytes());
        if extra.is_idle() && extra.ready_at == WallMs(0) {
            self.drop_extra(i);
        }
    }

    /// Drops all rare parts of a record but a status of its own.
    pub fn clear_extra(&mut self, i: u32) {
        if self.rows.extra(i).is_some() {
            self.with_extra(i, |extra| {
                let status = extra.status.take();
                *extra = Extra {
                    status,
                    ..Extra::new(extra.bytes)
                };
            });
        }
    }

    /// Gives an extra back.
    fn drop_extra(&mut self, i: u32) {
        let Some(record) = self.rows.slab.get_mut(i) else {
            return;
        };
        if let Some(extra) = self.rows.extras.slab.remove(record.body) {
            record.body = extra.bytes;
            record.set_extra(false);
        }
    }

    /// How many records.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// About how many bytes a dump takes: what the arena holds, and 24 bytes a
    /// record for its numbers. Within some 20 % for records without rare parts.
    pub fn dump_bytes(&self) -> usize {
        self.rows.arena.bytes() + self.rows.len() * 24 + self.rows.extras.boxed_bytes
    }

    /// Heap bytes.
    pub fn bytes(&self) -> usize {
        self.rows.slab.bytes()
            + self.rows.arena.bytes()
            + self.rows.extras.bytes()
            + self.rows.extras.slab.bytes()
            + self.rows.extras.boxed_bytes
            + self.lookup.as_ref().map_or(0, |lookup| lookup.bytes())
            + self.statuses.bytes()
            + self.rows.extras.owners.bytes()
    }
}

/// Whether a status is one of `allowed`; no list allows all.
pub fn is_one_of(status: &[u8], allowed: &[&[u8]]) -> bool {
    allowed.is_empty() || allowed.contains(&status)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::tables::arena::testing::set_pages_max;
    use super::*;
    use crate::testing::Run;

    /// Payloads of every size come and go in an arena that is full most of the time.
    /// A new one is there or was refused; the id, and what is not replaced, stay.
    #[test]
    fn a_full_arena_refuses_bytes_and_loses_none() {
        let mut run = Run::new();
        set_pages_max(12);
        let (mut store, mut model) = (Store::new(), HashMap::<u64, Option<Vec<u8>>>::new());
        let mut refused = 0;
        while run.step < run.steps / 4 {
            run.step += 1;
            let number = run.random.below(40);
            let id = format!("order {number}");
            let len = match run.random.below(4) {
                0 => run.random.below(60),
                1 => run.random.below(3_000),
                2 => run.random.below(60_000),
                _ => 0,
            };
            let second = vec![run.random.below(256) as u8; len as usize];
            let second = (len > 0).then_some(second);
            let Some(i) = store.find(id.as_bytes()) else {
                assert!(!model.contains_key(&number));
                if store.create(id.as_bytes()).is_some() {
                    model.insert(number, None);
                }
                continue;
            };
            if run.random.below(30) == 0 {
                store.remove(i);
                model.remove(&number);
                continue;
            }
            if run.random.below(10) == 0 {
                let attempt = run.random.below(2) as u32;
                store.with_extra(i, |extra| extra.attempt = attempt);
            }
            let old = model.get_mut(&number).expect("known");
            let fits = store.set_second(i, second.as_deref());
            let shrinks = second.as_ref().map(Vec::len) <= old.as_ref().map(Vec::len);
            assert!(fits || !shrinks, "what gets shorter always has room");
            if fits {
                *old = second;
            }
            refused += u32::from(!fits);
            for (number, second) in &model {
                let id = format!("order {number}");
                let i = store.find(id.as_bytes()).expect("every id stays");
                let is_there = store.rows.parts(i) == (id.as_bytes(), second.as_deref());
                assert!(is_there, "{id} at step {}", run.step);
            }
        }
        assert!(refused > 1_000, "{refused} refused");
    }
}
