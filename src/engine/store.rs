//! The records of a queue: made, found, changed and removed, with their ids, statuses,
//! payloads, results and rare parts.

use super::effect::LeaseKind;
use super::ending::{self, Ending, Written};
use super::lookup::Lookup;
use super::record::{Extra, Record};
use super::rows::{Rows, length_bytes};
use super::status::{OWN, Statuses};
use super::tables::NIL;
use crate::words::limits::SECOND_BYTES_MAX;
use crate::words::time::WallMs;

/// Above so many records a queue takes no new order: handles are 32 bits wide.
const RECORDS_MAX: usize = 1 << 31;

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

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

impl Store {
    /// An empty store; allocates nothing.
    pub fn new() -> Self {
        Self {
            rows: Rows::new(),
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

    /// Whether so many more records fit: [`Store::has_room`] is true until the last one
    /// is there.
    pub fn has_room_for(&self, records: usize) -> bool {
        let end = self.rows.len().saturating_add(records);
        // For an order that is there a new payload takes a second block for a while.
        end <= RECORDS_MAX && !self.rows.arena.is_nearly_full_after(records)
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
