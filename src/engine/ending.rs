//! How an order was finished, in a few bytes behind its result.
//!
//! An operator asks of a finished order: closed by whom, when, at which try, and
//! was that in time? Most orders of a busy queue are finished ones that are kept for
//! a day, so the answer has to be small:
//!
//! ```text
//!   | parts | at, 48 bits | deadline - at | attempt | owner: length and name, or code |
//!     1       6             1 to 7          1 to 5    1 and up, or 1 to 2
//! ```
//!
//! What is not there takes nothing but its bit in `parts`. The deadline is kept as
//! its distance from the finish, three bytes within a quarter of an hour. Closers are
//! few and finish many orders, so their names stand in a table of the queue
//! ([`Statuses`]) and a code stands here; the owner of a lock is often made up for one
//! payment, so its name stands here itself.
//!
//! Ground state, but for the codes, which are the queue's own.

use super::effect::LeaseKind;
use super::status::{OWN, Statuses};
use crate::words::time::WallMs;

/// How an order was finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending<'q> {
    /// When.
    pub at: WallMs,
    /// The deadline it had.
    pub deadline: Option<WallMs>,
    /// Tries so far, the one that finished it included; 0: it was never claimed.
    pub attempt: u32,
    /// Whose lease finished it, if one did: claim or lock, and the owner, of 1 to 128
    /// bytes.
    pub holder: Option<(LeaseKind, &'q [u8])>,
}

/// There is a deadline.
const DEADLINE: u8 = 1;
/// There is an attempt above 0.
const ATTEMPT: u8 = 1 << 1;
/// There is a holder, and its name stands here.
const NAME: u8 = 1 << 2;
/// There is a holder, and its name stands in the queue's table.
const CODE: u8 = 1 << 3;
/// The holder had a lock.
const LOCK: u8 = 1 << 4;

/// The most bytes one takes: the fixed ones and the longest name.
const BYTES_MAX: usize = 1 + 6 + 7 + 5 + 1 + 255;

/// An [`Ending`] as bytes.
pub struct Written {
    /// The bytes.
    bytes: [u8; BYTES_MAX],
    /// How many count.
    len: usize,
}

impl Written {
    /// The bytes of `ending`; `code` is that of its holder's name, [`OWN`] where the
    /// name is to stand in place. O(its bytes).
    pub fn of(ending: &Ending<'_>, code: u16) -> Self {
        let mut written = Self {
            bytes: [0; BYTES_MAX],
            len: 0,
        };
        let code = Some(code).filter(|code| *code != OWN && ending.holder.is_some());
        let mut parts = 0;
        for (part, is_there) in [
            (DEADLINE, ending.deadline.is_some()),
            (ATTEMPT, ending.attempt > 0),
            (NAME, ending.holder.is_some() && code.is_none()),
            (CODE, code.is_some()),
            (LOCK, matches!(ending.holder, Some((LeaseKind::Lock, _)))),
        ] {
            parts |= if is_there { part } else { 0 };
        }
        written.put(&[parts]);
        written.put(ending.at.0.to_le_bytes().get(..6).unwrap_or(&[]));
        if let Some(deadline) = ending.deadline {
            // Small in either direction: the sign is the lowest bit.
            let ahead = deadline.0.wrapping_sub(ending.at.0).cast_signed();
            written.number(((ahead << 1) ^ (ahead >> 63)).cast_unsigned());
        }
        if ending.attempt > 0 {
            written.number(u64::from(ending.attempt));
        }
        if let Some(code) = code {
            written.number(u64::from(code));
        } else if let Some((_, owner)) = ending.holder {
            written.put(&[owner.len() as u8]);
            written.put(owner);
        }
        written
    }

    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]) {
        let end = self.len.saturating_add(bytes.len());
        if let Some(place) = self.bytes.get_mut(self.len..end) {
            place.copy_from_slice(bytes);
            self.len = end;
        }
    }

    /// Appends a number, seven bits a byte, the lowest first.
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.put(&[number as u8 | 0x80]);
            number >>= 7;
        }
        self.put(&[number as u8]);
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

/// Takes a number off the front.
fn number(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0_u64, 0_u32);
    while let Some((&byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= u64::from(byte & 0x7F).checked_shl(shift).unwrap_or(0);
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

/// Takes so many bytes off the front; fewer where there are not so many.
fn take<'b>(bytes: &mut &'b [u8], len: usize) -> &'b [u8] {
    let (taken, rest) = bytes.split_at(len.min(bytes.len()));
    *bytes = rest;
    taken
}

/// Reads everything but the holder: what is left of the bytes is the holder.
fn read_times<'b>(bytes: &mut &'b [u8]) -> (u8, Ending<'b>) {
    let parts = take(bytes, 1).first().copied().unwrap_or(0);
    let mut at = [0; 8];
    for (to, from) in at.iter_mut().zip(take(bytes, 6)) {
        *to = *from;
    }
    let at = u64::from_le_bytes(at);
    let deadline = (parts & DEADLINE != 0).then(|| {
        let folded = number(bytes);
        let ahead = (folded >> 1) ^ (folded & 1).wrapping_neg();
        WallMs(at.wrapping_add(ahead))
    });
    let attempt = if parts & ATTEMPT != 0 {
        number(bytes) as u32
    } else {
        0
    };
    let ending = Ending {
        at: WallMs(at),
        deadline,
        attempt,
        holder: None,
    };
    (parts, ending)
}

/// Reads what [`Written::of`] wrote; `bytes` may go on behind it. O(its bytes).
pub fn read<'q>(mut bytes: &'q [u8], owners: &'q Statuses) -> Ending<'q> {
    let (parts, ending) = read_times(&mut bytes);
    let owner = if parts & CODE != 0 {
        owners.name(number(&mut bytes) as u16)
    } else if parts & NAME != 0 {
        let len = take(&mut bytes, 1).first().copied().unwrap_or(0);
        take(&mut bytes, usize::from(len))
    } else {
        return ending;
    };
    let kind = if parts & LOCK != 0 {
        LeaseKind::Lock
    } else {
        LeaseKind::Claim
    };
    Ending {
        holder: Some((kind, owner)),
        ..ending
    }
}

/// The code of the holder's name, if there is one.
pub fn code(mut bytes: &[u8]) -> Option<u16> {
    let (parts, _) = read_times(&mut bytes);
    (parts & CODE != 0).then(|| number(&mut bytes) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::time::MOMENT_MAX;

    #[test]
    fn every_ending_comes_back() {
        let long = [b'x'; 128];
        let moments = [0, 1, 1_800_000_000_000, MOMENT_MAX - 1, MOMENT_MAX];
        for at in moments {
            for deadline in moments.map(Some).into_iter().chain([None]) {
                for attempt in [0, 1, 127, 128, u32::MAX] {
                    for holder in [
                        None,
                        Some((LeaseKind::Claim, &b"closer-1"[..])),
                        Some((LeaseKind::Lock, &long[..])),
                        Some((LeaseKind::Claim, &long[..])),
                    ] {
                        let ending = Ending {
                            at: WallMs(at),
                            deadline: deadline.map(WallMs),
                            attempt,
                            holder,
                        };
                        let mut owners = Statuses::default();
                        let name = holder.map_or(&b""[..], |(_, name)| name);
                        for in_table in [false, true] {
                            let code = if in_table && holder.is_some() {
                                owners.acquire(name)
                            } else {
                                OWN
                            };
                            let written = Written::of(&ending, code);
                            let mut block = written.bytes().to_vec();
                            block.extend([0xFF; 7]);
                            assert_eq!(read(&block, &owners), ending);
                            assert_eq!(super::code(&block).unwrap_or(OWN), code);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_quarter_of_an_hour_a_try_and_a_closer_take_twelve_bytes() {
        let mut owners = Statuses::default();
        for owner in [&b"closer-1"[..], &[b'y'; 128]] {
            let ending = Ending {
                at: WallMs(1_800_000_000_000),
                deadline: Some(WallMs(1_800_000_900_000)),
                attempt: 3,
                holder: Some((LeaseKind::Claim, owner)),
            };
            let code = owners.acquire(owner);
            assert_eq!(Written::of(&ending, code).bytes().len(), 12);
        }
    }
}
