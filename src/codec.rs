//! The encoded form of effects, version 1: what `ORDER.APPLY` carries, what an
//! RDB file holds and what a rewritten AOF is made of.
//!
//! A *blob* is a number of effects back to back, without a header: the version
//! travels beside it, a plain decimal argument or an RDB encoding number. Each
//! effect is its variant's number followed by its fields in order: numbers in
//! bincode's standard form (little endian, one byte up to 250), byte strings as
//! length and bytes, options as 0 or 1 and value. Nothing in it says what a
//! field means, so an unknown version can not be skipped or guessed at and is
//! refused, and a known one never changes: golden bytes in
//! `tests/fixtures/effects-v1.txt` hold it in place.
//!
//! ```text
//!   00       | 04 1001 | fd ........ | fd ........ | 01 06 unpaid | 00      | 00
//!   Schedule   id        deadline      rev           Some status    payload   base
//! ```
//!
//! A blob may come from a RESTORE payload or a broken file, so decoding trusts
//! nothing and is all or nothing:
//! - every length is checked against what is left before anything is done with
//!   it, byte strings are borrowed from the blob, never copied;
//! - a blob holds at most [`EFFECTS_MAX`] effects and a list in one at most
//!   `LIST_MAX` elements, so memory is bounded by a small constant and a small
//!   multiple of the blob;
//! - every field is held against the limits of what may be stored. What passes
//!   can be applied without further checks. Whether the records it names exist
//!   is the engine's business.
//!
//! This file alone knows bincode, which is unmaintained: to replace it, replace
//! this file and keep the golden bytes. Deliberately absent: compression, a
//! checksum (RDB and AOF have their own), skipping of unknown parts.

use bincode::config::{self, Configuration, Limit, LittleEndian, Varint};
use bincode::enc::write::Writer;
use bincode::error::{DecodeError, EncodeError};
use bincode::serde::{borrow_decode_from_slice, encode_into_writer};

use crate::engine::effect::{
    AfterTry, Bytes, Effect, Ended, Granted, Whole, WholeGrant, WholeLife,
};
use crate::engine::number::NUMBER_END;
use crate::engine::store::SECOND_BYTES_MAX;
use crate::engine::time::{WALL_MS_MAX, WallMs};
use crate::error::Error;
use crate::request::{ERROR_BYTES_MAX, ID_BYTES_MAX, OWNER_BYTES_MAX, STATUS_BYTES_MAX};

/// The version that is written, and the newest that is read.
pub const VERSION: u64 = 1;

/// The most effects a blob may hold. A command makes 1000 at most.
pub const EFFECTS_MAX: usize = 8192;

/// The size [`ChunkWriter`] keeps its blobs to.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// The longest payload or result that is read: what a record can hold, whatever
/// the limit for new ones is set to today.
const PAYLOAD_BYTES_MAX: usize = SECOND_BYTES_MAX;

/// The most bytes one effect may take: the largest payload and everything else.
const EFFECT_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + (1 << 20);

/// The longest fingerprint, in bytes.
const FP_BYTES_MAX: usize = 64;

/// The longest name of a setting, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The longest value of a setting, in bytes.
const VALUE_BYTES_MAX: usize = 64 * 1024;

/// Ends of leases, waits and keep times stay below this. Somewhat after the year
/// 9999, since they may start at its end; 48 bits, so that they fit a timing
/// wheel.
const MOMENT_END: u64 = 1 << 48;

/// How effects are written.
const WRITTEN: Configuration = config::standard();

/// How effects are read.
const READ: Configuration<LittleEndian, Varint, Limit<EFFECT_BYTES_MAX>> =
    config::standard().with_limit::<EFFECT_BYTES_MAX>();

/// Appends to a vector.
struct Append<'v>(&'v mut Vec<u8>);

impl Writer for Append<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// Appends one effect to a blob of the version [`VERSION`]. O(its bytes).
///
/// Can not fail: bincode's only errors are the writer's, which has none, and
/// those of types that are not used here. The effect must be one that [`decode`]
/// takes, which debug builds check: what was written must be readable.
pub fn encode(effect: &Effect<'_>, out: &mut Vec<u8>) {
    debug_assert_eq!(check(effect), Ok(()), "not readable: {effect:?}");
    let written = encode_into_writer(effect, Append(out), WRITTEN);
    debug_assert!(written.is_ok(), "{written:?}");
}

/// Decodes a blob, borrowing from it. An empty blob is no effects. O(its bytes).
///
/// # Errors
/// `ApplyVersion` for a version that is not known, whatever the blob;
/// `ApplyMalformed` for a blob that ends within an effect, does not start with
/// one, holds too many, or has one with a field outside its limits. Then nothing
/// of it is given out.
pub fn decode(version: u64, blob: &[u8]) -> Result<Vec<Effect<'_>>, Error> {
    if version != VERSION {
        return Err(Error::ApplyVersion {
            version,
            newest: VERSION,
        });
    }
    let mut effects = Vec::with_capacity(usize::from(!blob.is_empty()));
    let mut left = blob;
    while !left.is_empty() {
        if effects.len() == EFFECTS_MAX {
            return Err(malformed("there are too many in one blob"));
        }
        let (effect, taken) =
            borrow_decode_from_slice::<Effect<'_>, _>(left, READ).map_err(|error| told(&error))?;
        check(&effect).map_err(malformed)?;
        effects.push(effect);
        // An effect takes a byte at least, so this comes to an end.
        left = left.get(taken.max(1)..).unwrap_or_default();
    }
    Ok(effects)
}

/// As [`decode`], for a blob that [`ChunkWriter`] made: it holds an effect at
/// least, so that what claims to be a million chunks has to be that long.
///
/// # Errors
/// As [`decode`], and `ApplyMalformed` for an empty blob.
pub fn decode_chunk(version: u64, blob: &[u8]) -> Result<Vec<Effect<'_>>, Error> {
    let effects = decode(version, blob)?;
    if effects.is_empty() {
        return Err(malformed("a chunk is empty"));
    }
    Ok(effects)
}

/// The error for effects with this fault.
fn malformed(what: &'static str) -> Error {
    Error::ApplyMalformed { what }
}

/// The error for what bincode met.
#[cold]
fn told(error: &DecodeError) -> Error {
    malformed(match error {
        DecodeError::UnexpectedEnd { .. } => "they end too early",
        DecodeError::LimitExceeded => "one is too long",
        _ => "a byte does not fit",
    })
}

// ------------------------------------------------------------------- chunks

/// Cuts effects into blobs of at most [`CHUNK_BYTES`], for RDB files and AOF
/// rewrites. A blob holds at least one effect and never part of one; an effect
/// that is longer by itself gets a blob of its own.
///
/// ```text
///   push(a) None   push(b) None   push(c) Some(ab)   finish() Some(c)
/// ```
#[derive(Debug, Default)]
pub struct ChunkWriter {
    /// The blob that is being filled.
    open: Vec<u8>,
    /// The blob that was given out last.
    full: Vec<u8>,
    /// Effects in `open`.
    effects: usize,
}

impl ChunkWriter {
    /// A writer that has nothing yet. Allocates nothing.
    pub const fn new() -> Self {
        Self {
            open: Vec::new(),
            full: Vec::new(),
            effects: 0,
        }
    }

    /// Takes an effect in, and gives out the blob before it when it finds no more
    /// room there. O(its bytes).
    pub fn push(&mut self, effect: &Effect<'_>) -> Option<&[u8]> {
        let mark = self.open.len();
        encode(effect, &mut self.open);
        self.effects += 1;
        if mark == 0 || (self.open.len() <= CHUNK_BYTES && self.effects <= EFFECTS_MAX) {
            return None;
        }
        // Only the newest effect moves; both buffers keep their room.
        self.full.clear();
        self.full
            .extend_from_slice(self.open.get(mark..).unwrap_or_default());
        self.open.truncate(mark);
        std::mem::swap(&mut self.open, &mut self.full);
        self.effects = 1;
        Some(&self.full)
    }

    /// Gives out the last blob, `None` when there is none. The writer is as new
    /// then.
    pub fn finish(&mut self) -> Option<&[u8]> {
        std::mem::swap(&mut self.open, &mut self.full);
        self.open.clear();
        self.effects = 0;
        (!self.full.is_empty()).then_some(self.full.as_slice())
    }
}

// ------------------------------------------------------------------- limits

/// What is wrong with an effect, in the words of the error.
type Fault = &'static str;

/// Holds every field of an effect against its limits.
fn check(effect: &Effect<'_>) -> Result<(), Fault> {
    match effect {
        Effect::Schedule {
            id,
            deadline,
            rev,
            status,
            payload,
            base: _,
        } => {
            check_id(id)?;
            check_deadline(*deadline)?;
            check_number(*rev)?;
            check_status(status.as_ref())?;
            check_payload(payload.as_ref())
        }
        Effect::Finish {
            id,
            rev,
            status,
            result,
            keep_end,
            creates: _,
            by: _,
        } => {
            check_id(id)?;
            check_number(*rev)?;
            check_status(status.as_ref())?;
            check_payload(result.as_ref())?;
            check_moments([*keep_end])
        }
        Effect::Status {
            id,
            rev,
            status,
            payload,
            ends_grant: _,
        } => {
            check_id(id)?;
            check_number(*rev)?;
            check_status(Some(status))?;
            check_payload(payload.as_ref())
        }
        Effect::Claim {
            owner,
            end,
            cap,
            grants,
        } => {
            check_owner(owner)?;
            check_moments([Some(*end), Some(*cap)])?;
            check_list(grants)?;
            grants.iter().try_for_each(
                |Granted {
                     id,
                     fence,
                     attempt,
                     last_try: _,
                 }| {
                    check_id(id)?;
                    check_number(*fence)?;
                    if *attempt == 0 {
                        Err("an attempt is 0")
                    } else {
                        Ok(())
                    }
                },
            )
        }
        Effect::Nack {
            id,
            rev,
            then,
            error,
        } => {
            check_id(id)?;
            check_number(*rev)?;
            check_after(*then)?;
            check_error(error.as_ref())
        }
        Effect::Renew { id, rev, end } => {
            check_id(id)?;
            check_number(*rev)?;
            check_moments([Some(*end)])
        }
        Effect::Lock {
            id,
            owner,
            fence,
            end,
            cap,
            fp,
            creates: _,
        } => {
            check_id(id)?;
            check_owner(owner)?;
            check_number(*fence)?;
            check_moments([Some(*end), Some(*cap)])?;
            check_fp(fp.as_ref())
        }
        Effect::Hold {
            id,
            rev,
            holds,
            end,
        } => {
            check_id(id)?;
            check_number(*rev)?;
            check_holds(*holds)?;
            check_moments([Some(*end)])
        }
        Effect::Release { id, rev, ended } => {
            check_id(id)?;
            check_number(*rev)?;
            match ended {
                Ended::Lock => Ok(()),
                Ended::Claim(then) => check_after(*then),
            }
        }
        Effect::Forget { ids } => {
            check_list(ids)?;
            ids.iter().try_for_each(check_id)
        }
        Effect::Requeue { rev, ids } => {
            check_number(*rev)?;
            check_list(ids)?;
            ids.iter().try_for_each(check_id)
        }
        Effect::Configure { name, value } => {
            check_length(
                name,
                1,
                NAME_BYTES_MAX,
                "the length of a setting's name is wrong",
            )?;
            check_most(
                value.as_ref(),
                VALUE_BYTES_MAX,
                "a setting's value is too long",
            )
        }
        Effect::Pause {
            on: _,
            until,
            reason,
        } => {
            check_moments([*until])?;
            check_most(Some(reason), ERROR_BYTES_MAX, "a reason is too long")
        }
        Effect::Floor(number) => check_number(*number),
        Effect::Restore(whole) => check_whole(whole),
    }
}

/// Holds a whole record against its limits.
fn check_whole(whole: &Whole<'_>) -> Result<(), Fault> {
    let Whole {
        id,
        status,
        rev,
        fp,
        life,
    } = whole;
    check_id(id)?;
    check_status(Some(status))?;
    check_number(*rev)?;
    check_fp(fp.as_ref())?;
    match life {
        WholeLife::Open {
            deadline,
            payload,
            retry_at,
            dead_at,
            attempt: _,
            error,
            grant,
        } => {
            deadline.map_or(Ok(()), check_deadline)?;
            check_payload(payload.as_ref())?;
            check_moments([*retry_at, *dead_at])?;
            check_error(error.as_ref())?;
            let Some(grant) = grant else { return Ok(()) };
            let WholeGrant {
                kind: _,
                owner,
                fence,
                end,
                cap,
                holds,
                last_try: _,
            } = grant;
            check_owner(owner)?;
            check_number(*fence)?;
            check_moments([Some(*end), Some(*cap)])?;
            check_holds(*holds)
        }
        WholeLife::Finished { keep_end, result } => {
            check_moments([Some(*keep_end)])?;
            check_payload(result.as_ref())
        }
    }
}

/// A byte string of `min` to `max` bytes.
fn check_length(bytes: &Bytes<'_>, min: usize, max: usize, fault: Fault) -> Result<(), Fault> {
    if (min..=max).contains(&bytes.len()) {
        Ok(())
    } else {
        Err(fault)
    }
}

/// A byte string of at most `max` bytes, if there is one.
fn check_most(bytes: Option<&Bytes<'_>>, max: usize, fault: Fault) -> Result<(), Fault> {
    bytes.map_or(Ok(()), |bytes| check_length(bytes, 0, max, fault))
}

/// An order's id.
fn check_id(id: &Bytes<'_>) -> Result<(), Fault> {
    check_length(id, 1, ID_BYTES_MAX, "the length of an id is wrong")
}

/// The owner of a lease.
fn check_owner(owner: &Bytes<'_>) -> Result<(), Fault> {
    check_length(owner, 1, OWNER_BYTES_MAX, "the length of an owner is wrong")
}

/// A status.
fn check_status(status: Option<&Bytes<'_>>) -> Result<(), Fault> {
    check_most(status, STATUS_BYTES_MAX, "a status is too long")
}

/// A payload or result.
fn check_payload(payload: Option<&Bytes<'_>>) -> Result<(), Fault> {
    check_most(payload, PAYLOAD_BYTES_MAX, "a payload is too long")
}

/// Why a try failed.
fn check_error(error: Option<&Bytes<'_>>) -> Result<(), Fault> {
    check_most(error, ERROR_BYTES_MAX, "an error text is too long")
}

/// A fingerprint.
fn check_fp(fp: Option<&Bytes<'_>>) -> Result<(), Fault> {
    let fault = "the length of a fingerprint is wrong";
    fp.map_or(Ok(()), |fp| check_length(fp, 1, FP_BYTES_MAX, fault))
}

/// A fence, rev or floor.
fn check_number(number: u64) -> Result<(), Fault> {
    if (1..NUMBER_END).contains(&number) {
        Ok(())
    } else {
        Err("a fence or rev is out of range")
    }
}

/// How often a lease is held.
fn check_holds(holds: u32) -> Result<(), Fault> {
    if holds == 0 {
        Err("a lease is held 0 times")
    } else {
        Ok(())
    }
}

/// A deadline.
fn check_deadline(deadline: WallMs) -> Result<(), Fault> {
    if deadline <= WALL_MS_MAX {
        Ok(())
    } else {
        Err("a deadline is out of range")
    }
}

/// Ends of leases, waits, keep times and pauses, as far as there are any.
fn check_moments<const N: usize>(moments: [Option<WallMs>; N]) -> Result<(), Fault> {
    if moments
        .into_iter()
        .flatten()
        .all(|moment| moment.0 < MOMENT_END)
    {
        Ok(())
    } else {
        Err("a moment is out of range")
    }
}

/// What a failed try leads to.
fn check_after(then: AfterTry) -> Result<(), Fault> {
    match then {
        AfterTry::Now => Ok(()),
        AfterTry::At(moment) | AfterTry::Dead(moment) => check_moments([Some(moment)]),
    }
}

/// A list of orders: an effect on none is nothing that is ever written.
fn check_list<T>(list: &[T]) -> Result<(), Fault> {
    if list.is_empty() {
        Err("a list is empty")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
