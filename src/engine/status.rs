//! The statuses of a queue, each stored once.
//!
//! A queue has many orders and few statuses, so a record holds a 12-bit code.
//! Code 0 is the empty status and [`OWN`] says that the record holds the text
//! itself, because all other codes are taken. Counted references; a status that
//! no order has any more gives its code back.
//!
//! In most queues all orders have the same short status: one of up to eleven
//! bytes stands in place, and the table is made for the others.

use std::collections::BTreeMap;

use super::tables::memory::allocated;

/// The code of a status that the record holds itself.
pub const OWN: u16 = 0xFFF;

/// Above so many statuses a lookup goes through a tree instead of the list.
const LIST_MAX: usize = 16;

/// One status.
#[derive(Debug)]
struct Entry {
    /// Its text; empty where the entry is free.
    name: Box<[u8]>,
    /// How many records have it.
    records: u32,
}

/// The code of the status that stands in place.
const SHORT: u16 = 1;
/// The longest status that stands in place.
const SHORT_BYTES: usize = 11;

/// The statuses; see the head of the file.
#[derive(Debug, Default)]
pub struct Statuses {
    /// The status in place, with the code [`SHORT`].
    short: [u8; SHORT_BYTES],
    /// Its length.
    short_len: u8,
    /// How many records have it; of none, it is not in use.
    short_records: u32,
    /// The others; code `n` in it is code `n + 1` outside.
    more: Option<Box<Table>>,
}

impl Statuses {
    /// None yet. Allocates nothing.
    pub const fn new() -> Self {
        Self {
            short: [0; SHORT_BYTES],
            short_len: 0,
            short_records: 0,
            more: None,
        }
    }

    /// The status in place; empty where there is none.
    fn short(&self) -> &[u8] {
        if self.short_records == 0 {
            return &[];
        }
        self.short.get(..usize::from(self.short_len)).unwrap_or(&[])
    }

    /// The text of a code; empty for 0 and for codes that are not in use.
    #[inline]
    pub fn name(&self, code: u16) -> &[u8] {
        match (code, &self.more) {
            (SHORT, _) => self.short(),
            (0, _) | (_, None) => &[],
            (code, Some(more)) => more.name(code - 1),
        }
    }

    /// Takes a reference on `name` and returns its code, [`OWN`] when the table
    /// is full. O(log n) with n the number of statuses.
    pub fn acquire(&mut self, name: &[u8]) -> u16 {
        if name.is_empty() {
            return 0;
        }
        if self.short() == name {
            self.short_records = self.short_records.saturating_add(1);
            return SHORT;
        }
        let known = self
            .more
            .as_ref()
            .is_some_and(|more| more.find(name).is_some());
        if self.short_records == 0
            && !known
            && let Some(place) = self.short.get_mut(..name.len())
        {
            place.copy_from_slice(name);
            self.short_len = name.len() as u8;
            self.short_records = 1;
            return SHORT;
        }
        match self.more.get_or_insert_default().acquire(name) {
            OWN => OWN,
            code => code + 1,
        }
    }

    /// Gives a reference back.
    pub fn release(&mut self, code: u16) {
        match (code, &mut self.more) {
            (SHORT, _) => self.short_records = self.short_records.saturating_sub(1),
            (0, _) | (_, None) => {}
            (code, Some(more)) => more.release(code - 1),
        }
    }

    /// Heap bytes, O(n) in the number of statuses, at most 4094.
    pub fn bytes(&self) -> usize {
        self.more
            .as_ref()
            .map_or(0, |more| allocated(size_of::<Table>()) + more.bytes())
    }
}

/// The table of statuses. Entry `n` has the code `n + 1`.
#[derive(Debug, Default)]
struct Table {
    /// By code.
    entries: Vec<Entry>,
    /// By text, once there are many.
    by_name: Option<Box<Names>>,
}

/// Statuses by text, and the free codes.
#[derive(Debug, Default)]
struct Names {
    /// Code by text.
    codes: BTreeMap<Box<[u8]>, u16>,
    /// Codes that were given back.
    free: Vec<u16>,
}

impl Table {
    /// See [`Statuses::name`].
    fn name(&self, code: u16) -> &[u8] {
        self.entry(code).map_or(&[], |entry| &entry.name)
    }

    /// The entry of a code.
    fn entry(&self, code: u16) -> Option<&Entry> {
        self.entries.get(usize::from(code).checked_sub(1)?)
    }

    /// See [`Statuses::acquire`].
    fn acquire(&mut self, name: &[u8]) -> u16 {
        if let Some(code) = self.find(name) {
            if let Some(entry) = self.entries.get_mut(usize::from(code) - 1) {
                entry.records = entry.records.saturating_add(1);
            }
            return code;
        }
        let entry = Entry {
            name: name.into(),
            records: 1,
        };
        let code = self.free_code();
        let used = self.entries.len();
        match self.entries.get_mut(usize::from(code).wrapping_sub(1)) {
            Some(free) => *free = entry,
            None if used + 2 < usize::from(OWN) => {
                if used == self.entries.capacity() {
                    self.entries.reserve_exact(used.max(1));
                }
                self.entries.push(entry);
            }
            None => return OWN,
        }
        let code = if code == 0 {
            self.entries.len() as u16
        } else {
            code
        };
        if self.entries.len() > LIST_MAX {
            self.remember(name, code);
        }
        code
    }

    /// The code of `name`.
    fn find(&self, name: &[u8]) -> Option<u16> {
        if let Some(names) = &self.by_name {
            return names.codes.get(name).copied();
        }
        let at = self.entries.iter().position(|entry| &*entry.name == name)?;
        Some(at as u16 + 1)
    }

    /// A code that was given back, 0 if there is none.
    fn free_code(&mut self) -> u16 {
        match &mut self.by_name {
            Some(names) => names.free.pop().unwrap_or(0),
            None => self
                .entries
                .iter()
                .position(|entry| entry.records == 0)
                .map_or(0, |at| at as u16 + 1),
        }
    }

    /// Enters a code into the tree, building it at the first call.
    fn remember(&mut self, name: &[u8], code: u16) {
        if let Some(names) = &mut self.by_name {
            names.codes.insert(name.into(), code);
            return;
        }
        let mut names = Names::default();
        for (at, entry) in self.entries.iter().enumerate() {
            if entry.records == 0 {
                names.free.push(at as u16 + 1);
            } else {
                names.codes.insert(entry.name.clone(), at as u16 + 1);
            }
        }
        self.by_name = Some(Box::new(names));
    }

    /// See [`Statuses::release`].
    fn release(&mut self, code: u16) {
        let Some(entry) = usize::from(code)
            .checked_sub(1)
            .and_then(|at| self.entries.get_mut(at))
        else {
            return;
        };
        entry.records = entry.records.saturating_sub(1);
        if entry.records == 0 {
            let name = std::mem::take(&mut entry.name);
            if let Some(names) = &mut self.by_name {
                names.codes.remove(&name);
                names.free.push(code);
            }
        }
    }

    /// Heap bytes.
    fn bytes(&self) -> usize {
        let texts: usize = self
            .entries
            .iter()
            .map(|entry| allocated(entry.name.len()))
            .sum();
        let tree = self.by_name.as_ref().map_or(0, |names| {
            texts + names.codes.len() * 32 + names.free.capacity() * 2
        });
        allocated(self.entries.capacity() * size_of::<Entry>()) + texts + tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_shared_given_back_and_run_out() {
        let mut statuses = Statuses::default();
        assert_eq!(statuses.acquire(b""), 0);
        let unpaid = statuses.acquire(b"unpaid");
        assert_eq!(statuses.acquire(b"unpaid"), unpaid);
        assert_eq!(statuses.name(unpaid), b"unpaid");
        statuses.release(unpaid);
        assert_eq!(statuses.name(unpaid), b"unpaid");
        statuses.release(unpaid);
        assert_eq!(statuses.name(unpaid), b"");
        assert_eq!(
            statuses.acquire(b"paid"),
            unpaid,
            "a free code is used again"
        );
        let mut codes = std::collections::HashSet::from([unpaid]);
        for n in 0..4093_u32 {
            let code = statuses.acquire(n.to_string().as_bytes());
            assert!(code != OWN && codes.insert(code), "{n}");
        }
        assert_eq!(statuses.acquire(b"one too many"), OWN);
        for n in 0..4093_u32 {
            let name = n.to_string();
            let code = statuses.acquire(name.as_bytes());
            assert_eq!(statuses.name(code), name.as_bytes());
            statuses.release(code);
            statuses.release(code);
        }
        assert_ne!(statuses.acquire(b"one too many"), OWN);
        assert_eq!(statuses.name(unpaid), b"paid");
        assert_eq!(statuses.name(OWN), b"");
    }

    #[test]
    fn a_short_status_stands_in_place_and_long_ones_in_the_table() {
        let mut statuses = Statuses::default();
        assert_eq!(size_of::<Statuses>(), 24);
        let long = statuses.acquire(b"awaiting transfer");
        assert_eq!(statuses.name(long), b"awaiting transfer");
        let table = statuses.bytes();
        let short = statuses.acquire(b"elevenbytes");
        assert_eq!((statuses.bytes(), short), (table, SHORT));
        let other = statuses.acquire(b"paid");
        assert!(other != short && other != long);
        statuses.release(short);
        assert_eq!(
            (statuses.name(short), statuses.name(other)),
            (&b""[..], &b"paid"[..])
        );
        assert_eq!(statuses.acquire(b"paid"), other, "not twice");
        assert_eq!(
            statuses.acquire(b"unpaid"),
            SHORT,
            "a free code is used again"
        );
        assert_eq!(statuses.name(SHORT), b"unpaid");
    }
}
