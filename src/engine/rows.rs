//! The tables that records live in: slab, arena, rare parts. Knows what a record is
//! made of, and which state that is at a moment ([`Rows::state`]).

use std::hint::black_box;

use super::hash::hash_of_id;
use super::record::{Extra, Grant, Phase, Record};
use super::status::Statuses;
use super::tables::NIL;
use super::tables::arena::Arena;
use super::tables::index::Hashed;
use super::tables::lazy::{Blank, Lazy};
use super::tables::list::{Linked, Links};
use super::tables::slab::Slab;
use crate::words::state::State;
use crate::words::time::Now;

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
    pub(super) boxed_bytes: usize,
    /// The closers that finished orders which are kept.
    pub(super) owners: Statuses,
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
pub(super) fn length_bytes(len: usize) -> ([u8; 5], usize) {
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

impl Default for Rows {
    fn default() -> Self {
        Self::new()
    }
}

impl Rows {
    /// No records; allocates nothing.
    pub const fn new() -> Self {
        Self {
            slab: Slab::new(),
            arena: Arena::new(),
            extras: Lazy::new(),
        }
    }

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
    pub(super) fn ending(&self, i: u32) -> Option<&[u8]> {
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

impl Links for Rows {
    #[inline]
    fn prev(&self, i: u32) -> u32 {
        self.slab.get(i).map_or(NIL, |record| record.prev)
    }
    #[inline]
    fn next(&self, i: u32) -> u32 {
        self.slab.get(i).map_or(NIL, |record| record.next)
    }
}

impl Linked for Rows {
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
