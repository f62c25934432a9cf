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
//! The fast path allocates nothing: only FROM and MACK make a list, errors a
//! short text. Deliberately absent: the clock. A relative time is passed on as
//! such, and the engine checks the sum.

use super::{
    Ack, Again, Apply, Break, Claim, Configure, Direction, Finish, Guard, Lock, Mack, Mode, Nack,
    Pause, Pick, Purge, Renew, Request, Scan, Schedule, SetStatus, Unlock, Verb, When,
};
use crate::error::{Error, Excerpt};
use crate::words::decimal::{self, NotDecimal};
use crate::words::limits::{
    ERROR_BYTES_MAX, FP_BYTES_MAX, ID_BYTES_MAX, OWNER_BYTES_MAX, STATUS_BYTES_MAX,
};
use crate::words::state::State;
use crate::words::time::{WALL_MS_MAX, WallMs};

/// The largest COUNT, and the largest number of pairs of a MACK.
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
/// COUNT of REQUEUE and PURGE where it is not given.
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
    pub const ALL: [Self; 22] = [
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
        Verb::Finish | Verb::Claim | Verb::Scan | Verb::Break | Verb::Config => -3,
        // STATE is required: command queue STATE s.
        Verb::Status | Verb::Ack | Verb::Nack | Verb::Purge => -4,
        Verb::Schedule | Verb::Mack => -5,
        // The lease is required, and its length is: command queue id fence PX ms.
        Verb::Renew | Verb::Lock => -6,
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
        Verb::Requeue => {
            count(&mut rest, SWEEP_COUNT_DEFAULT).map(|count| Request::Requeue { count })
        }
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
    }
}

// ---------------------------------------------------------------- commands

/// `queue id <when> [NX|XX|UPSERT] [GT|LT] [<guard>] [STATUS s] [PAYLOAD b]`
fn schedule<'a>(rest: &mut Rest<'_, 'a>, limits: &Limits) -> Result<Schedule<'a>, Error> {
    let id = rest.id()?;
    let mut when = None;
    let mut mode = None;
    let mut only = None;
    let mut guard = Guard::default();
    let mut status = None;
    let mut payload = None;
    while let Some((word, option)) = rest.option() {
        match option {
            EX | PX | EXAT | PXAT => choose(&mut when, rest.when(option)?)?,
            NX => choose(&mut mode, ("NX", Mode::Create))?,
            XX => choose(&mut mode, ("XX", Mode::Move))?,
            UPSERT => choose(&mut mode, ("UPSERT", Mode::Upsert))?,
            GT => choose(&mut only, ("GT", Direction::Later))?,
            LT => choose(&mut only, ("LT", Direction::Earlier))?,
            FROM | IFREV | FENCE => rest.guard(option, &mut guard)?,
            STATUS => once(&mut status, "STATUS", rest.status("STATUS")?)?,
            PAYLOAD => once(&mut payload, "PAYLOAD", rest.blob("PAYLOAD", limits)?)?,
            _ => return Err(unknown(word)),
        }
    }
    let Some((_, when)) = when else {
        return Err(Error::Required {
            options: "EX, PX, EXAT, PXAT",
        });
    };
    // What is tested against an existing order asks for one.
    let condition = only.map(|(name, _)| name).or_else(|| guard_name(&guard));
    let mode = match (mode, condition) {
        (Some((name, Mode::Create)), Some(other)) => {
            return Err(Error::Exclusive { one: name, other });
        }
        (Some((_, mode)), _) => mode,
        (None, Some(_)) => Mode::Move,
        (None, None) => Mode::Create,
    };
    Ok(Schedule {
        id,
        when,
        mode,
        only: only.map(|(_, only)| only),
        guard,
        status,
        payload,
    })
}

/// `queue id [STRICT] [CREATE] [<guard>] [STATUS s] [RESULT b] [KEEP ms]`
fn finish<'a>(rest: &mut Rest<'_, 'a>, limits: &Limits) -> Result<Finish<'a>, Error> {
    let id = rest.id()?;
    let mut strict = None;
    let mut create = None;
    let mut guard = Guard::default();
    let mut end = End::default();
    while let Some((word, option)) = rest.option() {
        match option {
            STRICT => once(&mut strict, "STRICT", ())?,
            CREATE => once(&mut create, "CREATE", ())?,
            FROM | IFREV | FENCE => rest.guard(option, &mut guard)?,
            STATUS | RESULT | KEEP => rest.end(option, &mut end, limits)?,
            _ => return Err(unknown(word)),
        }
    }
    if create.is_some() {
        // An order that is not there has neither.
        if guard.fence.is_some() {
            return Err(Error::Exclusive {
                one: "CREATE",
                other: "FENCE",
            });
        }
        if guard.if_rev.is_some() {
            return Err(Error::Exclusive {
                one: "CREATE",
                other: "IFREV",
            });
        }
    }
    Ok(Finish {
        id,
        strict: strict.is_some(),
        create: create.is_some(),
        guard,
        status: end.status,
        result: end.result,
        keep_ms: end.keep_ms,
    })
}

/// `queue id status [<guard>] [PAYLOAD b]`
fn status<'a>(rest: &mut Rest<'_, 'a>, limits: &Limits) -> Result<SetStatus<'a>, Error> {
    let id = rest.id()?;
    let status = bytes("status", rest.positional()?, 0, STATUS_BYTES_MAX as u64)?;
    let mut guard = Guard::default();
    let mut payload = None;
    while let Some((word, option)) = rest.option() {
        match option {
            FROM | IFREV | FENCE => rest.guard(option, &mut guard)?,
            PAYLOAD => once(&mut payload, "PAYLOAD", rest.blob("PAYLOAD", limits)?)?,
            _ => return Err(unknown(word)),
        }
    }
    Ok(SetStatus {
        id,
        status,
        guard,
        payload,
    })
}

/// `queue owner [<lease>] [COUNT n] [BLOCK ms]` or `queue owner ID id [<lease>]`
fn claim<'a>(rest: &mut Rest<'_, 'a>, limits: &Limits) -> Result<Claim<'a>, Error> {
    let owner = bytes("owner", rest.positional()?, 1, OWNER_BYTES_MAX as u64)?;
    let mut lease = None;
    let mut count = None;
    let mut block_ms = None;
    let mut id = None;
    while let Some((word, option)) = rest.option() {
        match option {
            EX | PX => choose(&mut lease, rest.lease(option, limits)?)?,
            COUNT => once(&mut count, "COUNT", rest.count()?)?,
            BLOCK => {
                once(
                    &mut block_ms,
                    "BLOCK",
                    rest.number("BLOCK", 0, BLOCK_MS_MAX)?,
                )?;
            }
            ID => {
                let value = rest.value("ID")?;
                once(&mut id, "ID", bytes("ID", value, 1, ID_BYTES_MAX as u64)?)?;
            }
            _ => return Err(unknown(word)),
        }
    }
    let pick = match (id, count, block_ms) {
        (Some(_), Some(_), _) => {
            return Err(Error::Exclusive {
                one: "ID",
                other: "COUNT",
            });
        }
        (Some(_), None, Some(_)) => {
            return Err(Error::Exclusive {
                one: "ID",
                other: "BLOCK",
            });
        }
        (Some(id), None, None) => Pick::Id(id),
        (None, count, block_ms) => Pick::Next {
            count: count.unwrap_or(COUNT_DEFAULT),
            block_ms,
        },
    };
    Ok(Claim {
        owner,
        lease_ms: lease.map(|(_, ms)| ms),
        pick,
    })
}

/// `queue id fence [FROM s]… [STATUS s] [RESULT b] [KEEP ms]`
fn ack<'a>(rest: &mut Rest<'_, 'a>, limits: &Limits) -> Result<Ack<'a>, Error> {
    let id = rest.id()?;
    let fence = rest.fence()?;
    let mut from = Vec::new();
    let mut end = End::default();
    while let Some((word, option)) = rest.option() {
        match option {
            FROM => from.push(rest.status("FROM")?),
            STATUS | RESULT | KEEP => rest.end(option, &mut end, limits)?,
            _ => return Err(unknown(word)),
        }
    }
    let End {
        status,
        result,
        keep_ms,
    } = end;
    Ok(Ack {
        id,
        fence,
        from,
        status,
        result,
        keep_ms,
    })
}

/// `queue n id fence [id fence …] [FROM s]… [STATUS s] [KEEP ms]`
fn mack<'a>(rest: &mut Rest<'_, 'a>) -> Result<Mack<'a>, Error> {
    let announced = number("n", rest.positional()?, 1, COUNT_MAX)?;
    let count = usize::try_from(announced).unwrap_or(usize::MAX);
    // Before room is made for them. At most 1000, so twice as many fits.
    if rest.args.len() < count.saturating_mul(2) {
        return Err(Error::MissingPairs { pairs: announced });
    }
    let mut pairs = Vec::with_capacity(count);
    for _ in 0..count {
        pairs.push((rest.id()?, rest.fence()?));
    }
    let mut from = Vec::new();
    let mut status = None;
    let mut keep_ms = None;
    while let Some((word, option)) = rest.option() {
        match option {
            FROM => from.push(rest.status("FROM")?),
            STATUS => once(&mut status, "STATUS", rest.status("STATUS")?)?,
            KEEP => once(&mut keep_ms, "KEEP", rest.number("KEEP", 0, WALL_MS_MAX.0)?)?,
            _ => return Err(unknown(word)),
        }
    }
    Ok(Mack {
        pairs,
        from,
        status,
        keep_ms,
    })
}

/// `queue id fence [DELAY ms | DEAD] [UNTRIED] [ERROR text]`
fn nack<'a>(rest: &mut Rest<'_, 'a>) -> Result<Nack<'a>, Error> {
    let id = rest.id()?;
    let fence = rest.fence()?;
    let mut again = None;
    let mut error = None;
    let mut untried = None;
    while let Some((word, option)) = rest.option() {
        match option {
            DELAY => {
                let delay_ms = rest.number("DELAY", 0, WALL_MS_MAX.0)?;
                choose(&mut again, ("DELAY", Again::Delay(delay_ms)))?;
            }
            DEAD => choose(&mut again, ("DEAD", Again::Dead))?,
            UNTRIED => once(&mut untried, "UNTRIED", ())?,
            ERROR => {
                let value = rest.value("ERROR")?;
                once(
                    &mut error,
                    "ERROR",
                    bytes("ERROR", value, 0, ERROR_BYTES_MAX as u64)?,
                )?;
            }
            _ => return Err(unknown(word)),
        }
    }
    if untried.is_some() && matches!(again, Some((_, Again::Dead))) {
        return Err(Error::Exclusive {
            one: "DEAD",
            other: "UNTRIED",
        });
    }
    let again = again.map_or(Again::Backoff, |(_, again)| again);
    Ok(Nack {
        id,
        fence,
        again,
        error,
        untried: untried.is_some(),
    })
}

/// `queue id fence <lease> [LT]`
fn renew<'a>(rest: &mut Rest<'_, 'a>, limits: &Limits) -> Result<Renew<'a>, Error> {
    let id = rest.id()?;
    let fence = rest.fence()?;
    let mut lease = None;
    let mut shorten = None;
    while let Some((word, option)) = rest.option() {
        match option {
            EX | PX => choose(&mut lease, rest.lease(option, limits)?)?,
            LT => once(&mut shorten, "LT", ())?,
            _ => return Err(unknown(word)),
        }
    }
    let Some((_, lease_ms)) = lease else {
        return Err(Error::Required { options: "EX, PX" });
    };
    Ok(Renew {
        id,
        fence,
        lease_ms,
        shorten: shorten.is_some(),
    })
}

/// `queue id owner <lease> [REENTRANT] [MAX ms] [FP text] [BLOCK ms]`
fn lock<'a>(rest: &mut Rest<'_, 'a>, limits: &Limits) -> Result<Lock<'a>, Error> {
    let id = rest.id()?;
    let owner = bytes("owner", rest.positional()?, 1, OWNER_BYTES_MAX as u64)?;
    let mut lease = None;
    let mut reentrant = None;
    let mut max_ms = None;
    let mut fp = None;
    let mut block_ms = None;
    while let Some((word, option)) = rest.option() {
        match option {
            EX | PX => choose(&mut lease, rest.lease(option, limits)?)?,
            MAX => once(
                &mut max_ms,
                "MAX",
                rest.number("MAX", 1, limits.lease_ms_max)?,
            )?,
            FP => {
                let value = rest.value("FP")?;
                once(&mut fp, "FP", bytes("FP", value, 1, FP_BYTES_MAX as u64)?)?;
            }
            BLOCK => once(
                &mut block_ms,
                "BLOCK",
                rest.number("BLOCK", 0, BLOCK_MS_MAX)?,
            )?,
            _ if word.eq_ignore_ascii_case(b"REENTRANT") => once(&mut reentrant, "REENTRANT", ())?,
            _ => return Err(unknown(word)),
        }
    }
    let Some((_, lease_ms)) = lease else {
        return Err(Error::Required { options: "EX, PX" });
    };
    Ok(Lock {
        id,
        owner,
        lease_ms,
        reentrant: reentrant.is_some(),
        max_ms,
        fp,
        block_ms,
    })
}

/// `queue id [fence]`
fn break_lease<'a>(rest: &mut Rest<'_, 'a>) -> Result<Break<'a>, Error> {
    let id = rest.id()?;
    let fence = if rest.args.is_empty() {
        None
    } else {
        Some(rest.fence()?)
    };
    match rest.take() {
        Some(word) => Err(unknown(word)),
        None => Ok(Break { id, fence }),
    }
}

/// `queue GET [name]`, `queue SET name value [name value …]` or `queue RESET [name]`
fn configure<'a>(rest: &mut Rest<'_, 'a>) -> Result<Configure<'a>, Error> {
    let Some((word, action)) = rest.option() else {
        return Err(Error::WrongArity {
            command: rest.verb.command(),
        });
    };
    let asked = match action {
        GET => Configure::Get(rest.take()),
        RESET => Configure::Reset(rest.take()),
        SET => {
            let mut pairs = Vec::new();
            while let Some(name) = rest.take() {
                let value = rest
                    .take()
                    .ok_or(Error::MissingValue { option: "SET name" })?;
                if pairs.iter().any(|(other, _)| *other == name) {
                    return Err(Error::GivenTwice { option: "SET name" });
                }
                pairs.push((name, value));
            }
            if pairs.is_empty() {
                return Err(Error::MissingValue { option: "SET" });
            }
            Configure::Set(pairs)
        }
        _ => return Err(unknown(word)),
    };
    match rest.take() {
        Some(word) => Err(unknown(word)),
        None => Ok(asked),
    }
}

/// `queue [PX ms] [REASON text]`
fn pause<'a>(rest: &mut Rest<'_, 'a>) -> Result<Pause<'a>, Error> {
    let mut ms = None;
    let mut reason = None;
    while let Some((word, option)) = rest.option() {
        match option {
            PX => once(&mut ms, "PX", rest.number("PX", 1, WALL_MS_MAX.0)?)?,
            REASON => {
                let value = rest.value("REASON")?;
                once(
                    &mut reason,
                    "REASON",
                    bytes("REASON", value, 0, ERROR_BYTES_MAX as u64)?,
                )?;
            }
            _ => return Err(unknown(word)),
        }
    }
    Ok(Pause {
        ms,
        reason: reason.unwrap_or_default(),
    })
}

/// `queue STATE s [STATUS s] [MATCH glob] [COUNT n]`
fn purge<'a>(rest: &mut Rest<'_, 'a>) -> Result<Purge<'a>, Error> {
    let mut state = None;
    let mut status = None;
    let mut pattern = None;
    let mut count = None;
    while let Some((word, option)) = rest.option() {
        match option {
            STATE => once(&mut state, "STATE", listed_state(rest.value("STATE")?)?)?,
            STATUS => once(&mut status, "STATUS", rest.status("STATUS")?)?,
            MATCH => once(&mut pattern, "MATCH", rest.pattern()?)?,
            COUNT => once(&mut count, "COUNT", rest.count()?)?,
            _ => return Err(unknown(word)),
        }
    }
    let Some(state) = state else {
        return Err(Error::Required { options: "STATE" });
    };
    Ok(Purge {
        state,
        status,
        pattern,
        count: count.unwrap_or(SWEEP_COUNT_DEFAULT),
    })
}

/// `queue [COUNT n]`: the count.
fn count(rest: &mut Rest<'_, '_>, default: u32) -> Result<u32, Error> {
    let mut count = None;
    while let Some((word, option)) = rest.option() {
        match option {
            COUNT => once(&mut count, "COUNT", rest.count()?)?,
            _ => return Err(unknown(word)),
        }
    }
    Ok(count.unwrap_or(default))
}

/// `queue cursor [STATE s] [STATUS s] [MATCH glob] [COUNT n]`
fn scan<'a>(rest: &mut Rest<'_, 'a>) -> Result<Scan<'a>, Error> {
    let cursor = number("cursor", rest.positional()?, 0, u64::MAX)?;
    let mut state = None;
    let mut status = None;
    let mut pattern = None;
    let mut count = None;
    while let Some((word, option)) = rest.option() {
        match option {
            STATE => once(&mut state, "STATE", listed_state(rest.value("STATE")?)?)?,
            STATUS => once(&mut status, "STATUS", rest.status("STATUS")?)?,
            MATCH => once(&mut pattern, "MATCH", rest.pattern()?)?,
            COUNT => once(&mut count, "COUNT", rest.count()?)?,
            _ => return Err(unknown(word)),
        }
    }
    Ok(Scan {
        cursor,
        state,
        status,
        pattern,
        count: count.unwrap_or(SCAN_COUNT_DEFAULT),
    })
}

// ------------------------------------------------------------ option words

/// The longest option word, in bytes; [`code`] has room for no more.
const WORD_BYTES_MAX: usize = 7;

/// An option word as a number, so that matching one is a comparison of
/// integers: its letters in upper case, eight bits each, behind a 1 that keeps
/// words with leading NUL bytes apart from shorter ones.
const fn code(word: &[u8]) -> u64 {
    debug_assert!(word.len() <= WORD_BYTES_MAX, "the caller checks the length");
    let mut code = 1;
    let mut left = word;
    while let [first, rest @ ..] = left {
        code = (code << 8) | first.to_ascii_uppercase() as u64;
        left = rest;
    }
    code
}

/// Names each option's number like its word.
macro_rules! words {
    ($($word:ident),*) => {
        $(
            #[doc = concat!("The option `", stringify!($word), "`.")]
            const $word: u64 = code(stringify!($word).as_bytes());
        )*
    };
}

words!(
    EX, PX, EXAT, PXAT, NX, XX, UPSERT, GT, LT, FROM, IFREV, FENCE, STATUS, PAYLOAD, STRICT,
    CREATE, RESULT, KEEP, COUNT, BLOCK, ID, DELAY, DEAD, ERROR, STATE, MATCH, MAX, FP, GET, SET,
    RESET, REASON, UNTRIED
);

/// What a word that is too long for any option stands for: nothing, since every
/// code of a word is 1 or more.
const NONE: u64 = 0;

// -------------------------------------------------------------- arguments

/// What FINISH and ACK have in common.
#[derive(Default)]
struct End<'a> {
    /// STATUS.
    status: Option<&'a [u8]>,
    /// RESULT.
    result: Option<&'a [u8]>,
    /// KEEP.
    keep_ms: Option<u64>,
}

/// The arguments that are still to be read.
struct Rest<'s, 'a> {
    /// Those arguments.
    args: &'s [&'a [u8]],
    /// Whose they are.
    verb: Verb,
}

impl<'a> Rest<'_, 'a> {
    /// The next argument.
    fn take(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.args.split_first()?;
        self.args = rest;
        Some(first)
    }

    /// The next argument, where the arity says that there is one.
    fn positional(&mut self) -> Result<&'a [u8], Error> {
        self.take().ok_or(Error::WrongArity {
            command: self.verb.command(),
        })
    }

    /// The next option word, as given and as a number.
    fn option(&mut self) -> Option<(&'a [u8], u64)> {
        let word = self.take()?;
        Some((
            word,
            if word.len() <= WORD_BYTES_MAX {
                code(word)
            } else {
                NONE
            },
        ))
    }

    /// The value of an option.
    fn value(&mut self, option: &'static str) -> Result<&'a [u8], Error> {
        self.take().ok_or(Error::MissingValue { option })
    }

    /// A positional id.
    fn id(&mut self) -> Result<&'a [u8], Error> {
        bytes("id", self.positional()?, 1, ID_BYTES_MAX as u64)
    }

    /// A positional fence.
    fn fence(&mut self) -> Result<u64, Error> {
        number("fence", self.positional()?, 0, NUMBER_MAX)
    }

    /// The value of an option that is a number.
    fn number(&mut self, option: &'static str, min: u64, max: u64) -> Result<u64, Error> {
        number(option, self.value(option)?, min, max)
    }

    /// The value of COUNT.
    fn count(&mut self) -> Result<u32, Error> {
        // At most 1000, so it fits.
        Ok(self.number("COUNT", 1, COUNT_MAX)? as u32)
    }

    /// The value of an option that is a status.
    fn status(&mut self, option: &'static str) -> Result<&'a [u8], Error> {
        bytes(option, self.value(option)?, 0, STATUS_BYTES_MAX as u64)
    }

    /// The value of MATCH: no longer than what it is matched with.
    fn pattern(&mut self) -> Result<&'a [u8], Error> {
        bytes("MATCH", self.value("MATCH")?, 0, ID_BYTES_MAX as u64)
    }

    /// The value of an option that is kept and given back as it is.
    fn blob(&mut self, option: &'static str, limits: &Limits) -> Result<&'a [u8], Error> {
        bytes(option, self.value(option)?, 0, limits.payload_bytes_max)
    }

    /// The value of a `<when>` option, and the option's name.
    fn when(&mut self, option: u64) -> Result<(&'static str, When), Error> {
        let ms_max = WALL_MS_MAX.0;
        let seconds_max = ms_max / 1000;
        // Seconds are checked before they are multiplied, so nothing overflows.
        Ok(match option {
            EX => (
                "EX",
                When::In(self.number("EX", 0, seconds_max)?.saturating_mul(1000)),
            ),
            PX => ("PX", When::In(self.number("PX", 0, ms_max)?)),
            EXAT => {
                let seconds = self.number("EXAT", 0, seconds_max)?;
                ("EXAT", When::At(WallMs(seconds.saturating_mul(1000))))
            }
            _ => {
                let ms = self.number("PXAT", 0, ms_max)?;
                if ms < PXAT_MS_MIN {
                    return Err(Error::PxatInSeconds {
                        min: PXAT_MS_MIN,
                        max: ms_max,
                    });
                }
                ("PXAT", When::At(WallMs(ms)))
            }
        })
    }

    /// The value of a `<lease>` option in milliseconds, and the option's name.
    fn lease(&mut self, option: u64, limits: &Limits) -> Result<(&'static str, u64), Error> {
        let (name, unit_ms) = if option == EX {
            ("EX", 1000)
        } else {
            ("PX", 1)
        };
        let ms_max = limits.lease_ms_max;
        let value = digits(name, self.value(name)?)?;
        match value.and_then(|value| value.checked_mul(unit_ms)) {
            Some(ms) if (1..=ms_max).contains(&ms) => Ok((name, ms)),
            _ => Err(Error::LeaseOutOfRange { name, ms_max }),
        }
    }

    /// The value of one option of a guard.
    fn guard(&mut self, option: u64, guard: &mut Guard<'a>) -> Result<(), Error> {
        match option {
            FROM => {
                guard.from.push(self.status("FROM")?);
                Ok(())
            }
            IFREV => once(
                &mut guard.if_rev,
                "IFREV",
                self.number("IFREV", 0, NUMBER_MAX)?,
            ),
            _ => once(
                &mut guard.fence,
                "FENCE",
                self.number("FENCE", 0, NUMBER_MAX)?,
            ),
        }
    }

    /// The value of STATUS, RESULT or KEEP.
    fn end(&mut self, option: u64, end: &mut End<'a>, limits: &Limits) -> Result<(), Error> {
        match option {
            STATUS => once(&mut end.status, "STATUS", self.status("STATUS")?),
            RESULT => once(&mut end.result, "RESULT", self.blob("RESULT", limits)?),
            _ => once(
                &mut end.keep_ms,
                "KEEP",
                self.number("KEEP", 0, WALL_MS_MAX.0)?,
            ),
        }
    }
}

/// Fills the place of an option that may be given once.
fn once<T>(place: &mut Option<T>, option: &'static str, value: T) -> Result<(), Error> {
    if place.is_some() {
        return Err(Error::GivenTwice { option });
    }
    *place = Some(value);
    Ok(())
}

/// Fills the place of options that exclude each other, with the name of the one
/// that was given.
fn choose<T>(
    place: &mut Option<(&'static str, T)>,
    chosen: (&'static str, T),
) -> Result<(), Error> {
    match place {
        Some((option, _)) if *option == chosen.0 => Err(Error::GivenTwice { option }),
        Some((one, _)) => Err(Error::Exclusive {
            one,
            other: chosen.0,
        }),
        None => {
            *place = Some(chosen);
            Ok(())
        }
    }
}

/// The name of a condition that the guard has, if any.
fn guard_name(guard: &Guard<'_>) -> Option<&'static str> {
    if !guard.from.is_empty() {
        Some("FROM")
    } else if guard.if_rev.is_some() {
        Some("IFREV")
    } else if guard.fence.is_some() {
        Some("FENCE")
    } else {
        None
    }
}

/// The error for an argument that is no option of the command.
#[cold]
fn unknown(word: &[u8]) -> Error {
    Error::UnknownOption {
        near: Excerpt::of(word),
    }
}

/// A byte string of `min` to `max` bytes.
fn bytes<'a>(name: &'static str, value: &'a [u8], min: u64, max: u64) -> Result<&'a [u8], Error> {
    if (min..=max).contains(&(value.len() as u64)) {
        Ok(value)
    } else {
        Err(Error::LengthOutOfRange { name, min, max })
    }
}

/// A number from `min` to `max`.
fn number(name: &'static str, value: &[u8], min: u64, max: u64) -> Result<u64, Error> {
    match digits(name, value)? {
        Some(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(Error::OutOfRange { name, min, max }),
    }
}

/// Reads decimal digits. `None`: more than a `u64` holds, which is out of every
/// range. O(1).
fn digits(name: &'static str, value: &[u8]) -> Result<Option<u64>, Error> {
    decimal::read(value).map_err(|NotDecimal| Error::NotAnInteger { name })
}

/// A state that SCAN can list, by its word.
fn listed_state(word: &[u8]) -> Result<State, Error> {
    State::LISTED
        .into_iter()
        .find(|state| word.eq_ignore_ascii_case(state.word().as_bytes()))
        .ok_or_else(|| Error::UnknownState {
            near: Excerpt::of(word),
        })
}

#[cfg(test)]
mod tests;
