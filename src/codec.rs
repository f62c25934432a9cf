//! The encoded form of effects, version 2: what `ORDER.APPLY` carries, what an
//! RDB file holds and what a rewritten AOF is made of.
//!
//! A *blob* is a number of effects back to back, without a header: the version
//! travels beside it, a plain decimal argument or an RDB encoding number. Each
//! effect is its variant's number followed by its fields in order: numbers in
//! bincode's standard form (little endian, one byte up to 250), byte strings as
//! length and bytes, options as 0 or 1 and value. Nothing in it says what a
//! field means, so an unknown version can not be skipped or guessed at and is
//! refused, and a known one never changes: golden bytes in
//! `tests/fixtures/effects-v2.txt` hold it in place. Version 1, of the first release,
//! is read for ever (`v1`).
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
//! - every field is held against the limits of what may be stored (`check`).
//!
//! This file alone knows bincode, which is unmaintained: to replace it, replace
//! this file and keep the golden bytes. Deliberately absent: compression, a
//! checksum (RDB and AOF have their own), skipping of unknown parts.

use bincode::config::{self, Configuration, Limit, LittleEndian, Varint};
use bincode::enc::write::Writer;
use bincode::error::{DecodeError, EncodeError};
use bincode::serde::{borrow_decode_from_slice, encode_into_writer};

use serde::Deserialize;

use crate::engine::effect::Effect;
use crate::error::Error;
use crate::words::limits::SECOND_BYTES_MAX;

mod check;
mod v1;

/// The version that is written, and the newest that is read.
pub const VERSION: u64 = 2;

/// The most effects a blob may hold. A command makes 1000 at most.
pub const EFFECTS_MAX: usize = 8192;

/// The size [`ChunkWriter`] keeps its blobs to.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// The most bytes one effect may take: the largest payload and everything else.
const EFFECT_BYTES_MAX: usize = SECOND_BYTES_MAX + (1 << 20);

/// The longest chunk that is read, in bytes: what is decoded of one takes several times
/// its bytes, and no [`ChunkWriter`] makes one that is longer.
const CHUNK_BYTES_END: usize = CHUNK_BYTES + EFFECT_BYTES_MAX;

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
/// To be asked before the effect is applied: what cannot be read back must not be
/// stored, for a file or a replica would refuse it later.
///
/// # Errors
/// `Unstorable` for an effect with a field outside its limits. Nothing is appended.
pub fn encode(effect: &Effect<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    check(effect)?;
    // bincode's only errors are the writer's, which has none, and those of types that
    // are not used here.
    let written = encode_into_writer(effect, Append(out), WRITTEN);
    debug_assert!(written.is_ok(), "{written:?}");
    Ok(())
}

/// Whether an effect is one that [`decode`] takes. O(its ids).
///
/// # Errors
/// `Unstorable` for an effect with a field outside its limits.
pub fn check(effect: &Effect<'_>) -> Result<(), Error> {
    check::check(effect).map_err(|what| Error::Unstorable { what })
}

/// Decodes a blob, borrowing from it. An empty blob is no effects. O(its bytes).
///
/// # Errors
/// `ApplyVersion` for a version that is not known, whatever the blob;
/// `ApplyMalformed` for a blob that ends within an effect, does not start with
/// one, holds too many, or has one with a field outside its limits. Then nothing
/// of it is given out.
pub fn decode(version: u64, blob: &[u8]) -> Result<Vec<Effect<'_>>, Error> {
    match version {
        VERSION => decode_as::<Effect<'_>>(blob),
        1 => decode_as::<v1::Effect<'_>>(blob),
        _ => Err(Error::ApplyVersion {
            version,
            newest: VERSION,
        }),
    }
}

/// Decodes a blob of effects in the form `E`.
fn decode_as<'b, E: Deserialize<'b> + Into<Effect<'b>>>(
    blob: &'b [u8],
) -> Result<Vec<Effect<'b>>, Error> {
    let mut effects = Vec::with_capacity(usize::from(!blob.is_empty()));
    let mut left = blob;
    while !left.is_empty() {
        if effects.len() == EFFECTS_MAX {
            return Err(malformed("there are too many in one blob"));
        }
        let (effect, taken) =
            borrow_decode_from_slice::<E, _>(left, READ).map_err(|error| told(&error))?;
        let effect = effect.into();
        check::check(&effect).map_err(malformed)?;
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
/// As [`decode`], and `ApplyMalformed` for an empty blob and for one of more than
/// [`CHUNK_BYTES`] and the longest effect together.
pub fn decode_chunk(version: u64, blob: &[u8]) -> Result<Vec<Effect<'_>>, Error> {
    if version == VERSION && blob.len() > CHUNK_BYTES_END {
        return Err(malformed("a chunk is too long"));
    }
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
        let encoded = encode(effect, &mut self.open);
        // All that is in a queue has passed the same check on its way in.
        debug_assert_eq!(encoded, Ok(()), "not readable: {effect:?}");
        if encoded.is_err() {
            return None;
        }
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

#[cfg(test)]
mod tests;
