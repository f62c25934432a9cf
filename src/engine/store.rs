//! The records of a queue and the tables they live in: slab, arena, extras,
//! index by id, statuses. Knows what a record is made of, nothing of time.

use std::cell::Cell;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};
use std::sync::OnceLock;

use super::arena::Arena;
use super::effect::LeaseKind;
use super::fifo::Linked;
use super::index::{Chained, Index, tag_of};
use super::lazy::{Blank, Lazy};
use super::record::{Extra, Grant, Record};
use super::slab::{NIL, Slab, allocated};
use super::status::{OWN, Statuses};
use super::time::{Now, WallMs};
use super::wheel::Filed;
use crate::request::State;

/// The largest payload or result, whatever the server's settings say.
pub const SECOND_BYTES_MAX: usize = 8 << 20;

/// Above so many records a queue takes no new order: handles are 32 bits wide.
const RECORDS_MAX: usize = 1 << 31;

/// The tables that records and their parts live in.
#[derive(Debug)]
pub struct Rows {
    /// The records.
    slab: Slab<Record>,
    /// Their ids and payloads.
    arena: Arena,
    /// Their rare parts.
    extras: Lazy<Extras>,
}

/// The rare parts of records.
#[derive(Debug, Default)]
struct Extras {
    /// The parts.
    slab: Slab<Extra>,
    /// Heap bytes of what they hold.
    boxed_bytes: usize,
}

impl Blank for Extras {
    fn blank() -> &'static Self {
        static BLANK: Extras = Extras {
            slab: Slab::new(),
            boxed_bytes: 0,
        };
        &BLANK
    }
}

/// Keys of the hash of ids, the same for all queues of a process: a small queue
/// has no room for its own. Once an id was hashed they stay as they are.
static KEYS: OnceLock<Option<RandomState>> = OnceLock::new();

/// Has ids hashed with these keys, which must be secret: ids come from outside.
/// To be called once, before anything else; false if it is too late.
pub fn hash_with(keys: RandomState) -> bool {
    KEYS.set(Some(keys)).is_ok()
}

/// The hash of an id; with keys that everybody knows if none were given.
fn hash_of_id(id: &[u8]) -> u64 {
    match KEYS.get_or_init(|| None) {
        Some(keys) => keys.hash_one(id),
        None => BuildHasherDefault::<DefaultHasher>::default().hash_one(id),
    }
}

/// All records of a queue.
#[derive(Debug)]
pub struct Store {
    /// The tables.
    pub rows: Rows,
    /// Records by id, where there are or were more than [`FEW`].
    lookup: Option<Box<Lookup>>,
    /// The statuses the records have.
    statuses: Statuses,
}

/// Up to so many records are searched one by one, without an index.
const FEW: u32 = 16;

/// The way from id to record.
#[derive(Debug)]
struct Lookup {
    /// Records by id.
    index: Index,
    /// The last id that was looked for.
    recent: Cell<Recent>,
}

/// An id, its hash, and what was found under it. One command looks for its id up
/// to four times (decide, apply, reply); this makes it one hash and one lookup.
#[derive(Clone, Copy, Debug)]
struct Recent {
    /// The id; longer ones are not remembered.
    id: [u8; RECENT_BYTES],
    /// Length of the id; 0: nothing is remembered.
    len: u8,
    /// Its hash.
    hash: u64,
    /// The record, [`NIL`] if there is none.
    found: u32,
}

/// The longest id that is remembered.
const RECENT_BYTES: usize = 40;

impl Recent {
    /// Nothing.
    const NONE: Self = Self {
        id: [0; RECENT_BYTES],
        len: 0,
        hash: 0,
        found: NIL,
    };

    /// Whether this is about `id`.
    fn is(&self, id: &[u8]) -> bool {
        self.len != 0 && self.id.get(..usize::from(self.len)) == Some(id)
    }
}

/// Splits a block into id and, where there is one, the second part.
fn split_block(block: &[u8], has_second: bool) -> (&[u8], Option<&[u8]>) {
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
        self.extra(i)?.grant.as_ref()
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

    /// Whether there is such a record and it has this id.
    fn is(&self, i: u32, id: &[u8]) -> bool {
        self.slab.get(i).is_some_and(|record| {
            split_block(self.arena.get(self.bytes_of(record)), record.has_second()).0 == id
        })
    }

    /// Handle of a record's bytes.
    fn bytes_of(&self, record: &Record) -> u32 {
        if !record.has_extra() {
            return record.body;
        }
        self.extras
            .slab
            .get(record.body)
            .map_or(NIL, |extra| extra.bytes)
    }

    /// The state at a moment: a function of record and clocks alone. The first
    /// line that fits; see DESIGN in the README.
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
            let ended_last_try = match &extra.grant {
                Some(grant) if !grant.end_mono.is_over(now) => {
                    return if deadline.is_some() {
                        State::Leased
                    } else {
                        State::Reserved
                    };
                }
                Some(grant) => grant.kind == LeaseKind::Claim && grant.last_try,
                None => false,
            };
            if deadline.is_some() {
                if ended_last_try || extra.dead_at.is_some() {
                    return State::Dead;
                }
                if extra.retry.is_some_and(|retry| !retry.mono.is_over(now)) {
                    return State::Retrying;
                }
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

impl Chained for Rows {
    #[inline]
    fn hash_next(&self, i: u32) -> u32 {
        self.slab.get(i).map_or(NIL, |record| record.hash_next)
    }
    #[inline]
    fn set_hash_next(&mut self, i: u32, next: u32) {
        if let Some(record) = self.slab.get_mut(i) {
            record.hash_next = next;
        }
    }
    fn hash_of(&self, i: u32) -> u64 {
        hash_of_id(self.id(i))
    }
    #[inline]
    fn tag(&self, i: u32) -> u8 {
        self.slab.get(i).map_or(0, Record::tag)
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
                .grant
                .as_ref()
                .map(|grant| grant.end_mono)
                .or(extra.retry.map(|retry| retry.mono))
        })
        .map_or(0, |mono| mono.0)
}

/// What a record is filed under in the wheel of keep ends: its keep end, or the
/// end of the lock that a reserved record was made for.
fn filed_keep(rows: &Rows, i: u32) -> u64 {
    let keep_end = rows.get(i).and_then(Record::keep_end);
    // 1 at least: a walk that starts after 0 finds all.
    keep_end
        .or_else(|| rows.grant(i).map(|grant| grant.end))
        .map_or(1, |end| end.0.max(1))
}

impl Lookup {
    /// An index of all records.
    fn of(rows: &mut Rows) -> Self {
        let mut index = Index::default();
        for i in 0..rows.end() {
            if rows.get(i).is_some() {
                let hash = hash_of_id(rows.id(i));
                index.insert(rows, hash, i);
            }
        }
        Self {
            index,
            recent: Cell::new(Recent::NONE),
        }
    }

    /// Hash and record of an id.
    fn look_up(&self, rows: &Rows, id: &[u8]) -> Recent {
        let recent = self.recent.get();
        if recent.is(id) {
            return recent;
        }
        let hash = hash_of_id(id);
        let found = self
            .index
            .find(rows, hash, |i| rows.id(i) == id)
            .unwrap_or(NIL);
        let mut recent = Recent {
            hash,
            found,
            ..Recent::NONE
        };
        if let (Some(to), Ok(len)) = (recent.id.get_mut(..id.len()), u8::try_from(id.len())) {
            to.copy_from_slice(id);
            recent.len = len;
            self.recent.set(recent);
        }
        recent
    }
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
            return (0..self.rows.end()).find(|i| self.rows.is(*i, id));
        };
        let recent = lookup.look_up(&self.rows, id);
        (recent.found != NIL).then_some(recent.found)
    }

    /// Whether another record, or a new payload, fits.
    pub fn has_room(&self) -> bool {
        self.rows.len() < RECORDS_MAX && !self.rows.arena.is_nearly_full()
    }

    /// Makes a record with this id, which must not have one. O(1). `None` when
    /// the store is full.
    pub fn create(&mut self, id: &[u8]) -> Option<u32> {
        let id_len = u8::try_from(id.len()).ok()?;
        let recent = self
            .lookup
            .as_ref()
            .map(|lookup| lookup.look_up(&self.rows, id));
        let hash = recent.map_or_else(|| hash_of_id(id), |recent| recent.hash);
        let bytes = self.rows.arena.insert(&[&[id_len], id])?;
        let Some(i) = self.rows.slab.insert(Record::new(tag_of(hash), bytes)) else {
            self.rows.arena.remove(bytes);
            return None;
        };
        match (&mut self.lookup, recent) {
            (Some(lookup), Some(recent)) => {
                lookup.index.insert(&mut self.rows, hash, i);
                lookup.recent.set(Recent { found: i, ..recent });
            }
            _ if i >= FEW => self.lookup = Some(Box::new(Lookup::of(&mut self.rows))),
            _ => {}
        }
        Some(i)
    }

    /// Removes a record, which must stand in no list. O(1).
    pub fn remove(&mut self, i: u32) {
        self.clear_extra(i);
        self.set_status(i, b"");
        if let Some(lookup) = &mut self.lookup {
            let recent = lookup.recent.replace(Recent::NONE);
            let hash = if recent.found == i && recent.len != 0 {
                recent.hash
            } else {
                self.rows.hash_of(i)
            };
            lookup.index.remove(&mut self.rows, hash, i);
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

    /// Replaces the second part of a record's bytes. The id stays. On failure
    /// (store full) the second part is gone and the id stays.
    pub fn set_second(&mut self, i: u32, second: Option<&[u8]>) {
        let Some(record) = self.rows.slab.get(i) else {
            return;
        };
        if !record.has_second() && second.is_none() {
            return;
        }
        let old = self.rows.bytes_of(record);
        let id = self.rows.id(i);
        // Ids are at most 255 bytes: a copy on the stack frees the arena.
        let mut copy = [0_u8; 255];
        let len = id.len().min(copy.len());
        if let (Some(to), Some(from)) = (copy.get_mut(..len), id.get(..len)) {
            to.copy_from_slice(from);
        }
        let id = copy.get(..len).unwrap_or(&[]);
        self.rows.arena.remove(old);
        let head = [len as u8];
        let made = second
            .filter(|second| second.len() <= SECOND_BYTES_MAX)
            .and_then(|second| {
                let (bytes, used) = length_bytes(second.len());
                self.rows
                    .arena
                    .insert(&[&head, bytes.get(..used)?, id, second])
            });
        let has_second = made.is_some();
        let handle = made
            .or_else(|| self.rows.arena.insert(&[&head, id]))
            .unwrap_or(NIL);
        let Some(record) = self.rows.slab.get_mut(i) else {
            return;
        };
        record.set_second(has_second);
        if record.has_extra() {
            let at = record.body;
            if let Some(extra) = self.rows.extras.slab.get_mut(at) {
                extra.bytes = handle;
            }
        } else {
            record.body = handle;
        }
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
            + self.lookup.as_ref().map_or(0, |lookup| {
                allocated(size_of::<Lookup>()) + lookup.index.bytes()
            })
            + self.statuses.bytes()
    }
}

/// Whether a status is one of `allowed`; no list allows all.
pub fn is_one_of(status: &[u8], allowed: &[&[u8]]) -> bool {
    allowed.is_empty() || allowed.contains(&status)
}
