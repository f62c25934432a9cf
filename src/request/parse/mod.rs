//! The grammar: arguments of a command in, a typed [`Request`] out.
//!
//! Everything that can be judged without looking at the key is judged here:
//! number of arguments, options, numbers, lengths, and which options exclude
//! each other. So a command that gets past `parse` is well formed, and one that
//! does not has touched nothing.
//!
//! ```text
//!   ORDER.SCHEDULE  queue   id  PX 500  STATUS unpaid
//!   args[0]         args[1] '-- positional --' '---- options, any order ----'
//! ```
//!
//! Rules that hold for all commands:
//! - Options are case-insensitive, come in any order after the positional
//!   arguments, and each at most once; FROM may be repeated.
//! - Judged from left to right; what options do to each other comes last.
//! - Numbers are plain decimal digits: no sign, space, point or exponent. Leading
//!   zeros are let through (`007` is 7), but not more than 20 digits in all, so
//!   that a number is read in bounded time.
//! - Byte strings are never copied and never read as text.
//!
//! The fast path allocates nothing: only FROM, batches and REQUEUE make a list, errors a
//! short text. Deliberately absent: the clock. A relative time is passed on as
//! such, and the engine checks the sum.

mod arguments;
mod batches;
mod claims;
mod locks;
mod options;
mod orders;
mod queue;

use super::{Apply, Request, Unlock, Verb};
use crate::error::Error;
use arguments::{Rest, number};
use batches::{mack, mfinish, mnack, mrenew, mschedule};
use claims::{ack, claim, nack, renew};
use locks::{break_lease, lock, release};
use orders::{finish, schedule, status};
use queue::{configure, count, pause, purge, requeue, scan};

/// The largest COUNT, and the most orders of one MSCHEDULE, MFINISH, MACK, MNACK, MRENEW
/// or REQUEUE ID.
pub const COUNT_MAX: u64 = 1000;

/// The longest BLOCK, in milliseconds: a year of 365 days. 0 is without limit.
pub const BLOCK_MS_MAX: u64 = 31_536_000_000;

/// The least PXAT, in milliseconds (March 1973): anything below was meant in
/// seconds, and taking it would make every order due at once.
const PXAT_MS_MIN: u64 = 100_000_000_000;

/// The largest fence or rev that is understood: above, a double (Lua, PHP,
/// JavaScript) has lost digits on the way. One that was never given out is no
/// error, it matches nothing.
const NUMBER_MAX: u64 = 1 << 53;

/// COUNT of CLAIM and NEXT where it is not given.
const COUNT_DEFAULT: u32 = 1;

/// COUNT of SCAN where it is not given.
const SCAN_COUNT_DEFAULT: u32 = 10;

/// COUNT of REQUEUE, PURGE and RELEASE where it is not given.
const SWEEP_COUNT_DEFAULT: u32 = 1000;

/// Limits that are settings of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest lease that may be asked for, milliseconds (`lease-ms-max`).
    pub lease_ms_max: u64,
    /// The longest PAYLOAD or RESULT, bytes (`payload-bytes-max`).
    pub payload_bytes_max: u64,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 27] = [
        Self::Schedule,
        Self::Finish,
        Self::Status,
        Self::Claim,
        Self::Ack,
        Self::Mack,
        Self::Nack,
        Self::Renew,
        Self::Lock,
        Self::Unlock,
        Self::Break,
        Self::Config,
        Self::Pause,
        Self::Resume,
        Self::Requeue,
        Self::Purge,
        Self::Get,
        Self::Pttl,
        Self::Next,
        Self::Scan,
        Self::Stats,
        Self::Apply,
        Self::Mschedule,
        Self::Mfinish,
        Self::Mnack,
        Self::Mrenew,
        Self::Release,
    ];

    /// The command's full name in lower case, as the server shows it.
    pub const fn command(self) -> &'static str {
        match self {
            Self::Schedule => "order.schedule",
            Self::Finish => "order.finish",
            Self::Status => "order.status",
            Self::Claim => "order.claim",
            Self::Ack => "order.ack",
            Self::Mack => "order.mack",
            Self::Nack => "order.nack",
            Self::Renew => "order.renew",
            Self::Lock => "order.lock",
            Self::Unlock => "order.unlock",
            Self::Break => "order.break",
            Self::Config => "order.config",
            Self::Pause => "order.pause",
            Self::Resume => "order.resume",
            Self::Requeue => "order.requeue",
            Self::Purge => "order.purge",
            Self::Get => "order.get",
            Self::Pttl => "order.pttl",
            Self::Next => "order.next",
            Self::Scan => "order.scan",
            Self::Stats => "order.stats",
            Self::Apply => "order.apply",
            Self::Mschedule => "order.mschedule",
            Self::Mfinish => "order.mfinish",
            Self::Mnack => "order.mnack",
            Self::Mrenew => "order.mrenew",
            Self::Release => "order.release",
        }
    }
}

/// Arity of a command as the server counts it, name and key included: `n` is
/// exactly `n` arguments, `-n` is `n` or more. The parser and the registration
/// of the commands both go by it.
pub const fn key_and_arity(verb: Verb) -> i32 {
    match verb {
        Verb::Stats | Verb::Resume => 2,
        Verb::Get | Verb::Pttl => 3,
        Verb::Apply | Verb::Unlock => 4,
        Verb::Next | Verb::Pause | Verb::Requeue => -2,
        Verb::Finish | Verb::Claim | Verb::Scan | Verb::Break | Verb::Config | Verb::Release => -3,
        // STATE is required: command queue STATE s.
        Verb::Status | Verb::Ack | Verb::Nack | Verb::Purge | Verb::Mfinish => -4,
        Verb::Schedule | Verb::Mack | Verb::Mnack => -5,
        // The lease is required, and its length is: command queue id fence PX ms.
        Verb::Renew | Verb::Lock | Verb::Mschedule => -6,
        Verb::Mrenew => -7,
    }
}

/// Reads the arguments of a command: `args[0]` is its name, `args[1]` its key,
/// neither of which is looked at. O(number of arguments), and O(1) in their
/// lengths.
///
/// # Errors
/// Wrong arity before anything else; then the first argument from the left that
/// is not understood or outside its limits; then options that exclude each other
/// or are missing. See [`Error`] for the texts.
pub fn parse<'a>(verb: Verb, args: &[&'a [u8]], limits: &Limits) -> Result<Request<'a>, Error> {
    let arity = key_and_arity(verb);
    let least = usize::try_from(arity.unsigned_abs()).unwrap_or(usize::MAX);
    if args.len() < least || (arity > 0 && args.len() != least) {
        return Err(Error::WrongArity {
            command: verb.command(),
        });
    }
    let mut rest = Rest {
        args: args.get(2..).unwrap_or_default(),
        verb,
    };
    match verb {
        Verb::Schedule => schedule(&mut rest, limits).map(Request::Schedule),
        Verb::Finish => finish(&mut rest, limits).map(Request::Finish),
        Verb::Status => status(&mut rest, limits).map(Request::Status),
        Verb::Claim => claim(&mut rest, limits).map(Request::Claim),
        Verb::Ack => ack(&mut rest, limits).map(Request::Ack),
        Verb::Mack => mack(&mut rest).map(Request::Mack),
        Verb::Mschedule => mschedule(&mut rest, limits).map(Request::Mschedule),
        Verb::Mfinish => mfinish(&mut rest).map(Request::Mfinish),
        Verb::Mnack => mnack(&mut rest).map(Request::Mnack),
        Verb::Mrenew => mrenew(&mut rest, limits).map(Request::Mrenew),
        Verb::Nack => nack(&mut rest).map(Request::Nack),
        Verb::Renew => renew(&mut rest, limits).map(Request::Renew),
        Verb::Lock => lock(&mut rest, limits).map(Request::Lock),
        Verb::Unlock => {
            let id = rest.id()?;
            let fence = rest.fence()?;
            Ok(Request::Unlock(Unlock { id, fence }))
        }
        Verb::Break => break_lease(&mut rest).map(Request::Break),
        Verb::Config => configure(&mut rest).map(Request::Config),
        Verb::Pause => pause(&mut rest).map(Request::Pause),
        Verb::Resume => Ok(Request::Resume),
        Verb::Requeue => requeue(&mut rest).map(Request::Requeue),
        Verb::Purge => purge(&mut rest).map(Request::Purge),
        Verb::Get => Ok(Request::Get { id: rest.id()? }),
        Verb::Pttl => Ok(Request::Pttl { id: rest.id()? }),
        Verb::Next => count(&mut rest, COUNT_DEFAULT).map(|count| Request::Next { count }),
        Verb::Scan => scan(&mut rest).map(Request::Scan),
        Verb::Stats => Ok(Request::Stats),
        Verb::Apply => {
            let version = number("version", rest.positional()?, 0, u64::MAX)?;
            Ok(Request::Apply(Apply {
                version,
                effects: rest.positional()?,
            }))
        }
        Verb::Release => release(&mut rest).map(Request::Release),
    }
}

#[cfg(test)]
mod tests;
