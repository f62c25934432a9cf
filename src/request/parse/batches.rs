//! Batches: MSCHEDULE, MFINISH, MACK, MNACK, MRENEW.
//!
//! ```text
//!   ORDER.MSCHEDULE queue PX 2  1001 900000  1002 900000  STATUS unpaid
//!                            '- n, and so many orders -'  '- options -'
//! ```
//!
//! `n` says where the options begin. An error in an order names its place in the list.

use super::arguments::{Rest, bytes, number, once, unknown};
use super::claims::{Back, renewal};
use super::options::{CREATE, EX, EXAT, FROM, KEEP, PX, PXAT, STATUS, STRICT};
use super::orders::Moves;
use super::{COUNT_MAX, Limits};
use crate::error::Error;
use crate::request::{Ack, Batch, Fenced, Finish, Guard, Nack, Renew, Schedule, Timed};
use crate::words::limits::STATUS_BYTES_MAX;
use crate::words::time::WALL_MS_MAX;

/// All payloads of one MSCHEDULE, in bytes: 1 MiB, as one CLAIM hands out at most.
pub(super) const PAYLOADS_BYTES_MAX: u64 = 1 << 20;

/// Whether the next argument is this word; then it is read.
fn has_word(rest: &mut Rest<'_, '_>, word: &[u8]) -> bool {
    let has = rest
        .args
        .first()
        .is_some_and(|next| next.eq_ignore_ascii_case(word));
    if has {
        rest.take();
    }
    has
}

/// Reads `n`, then so many orders of `width` arguments each (`what` in the error), one
/// by one.
fn list<'a, O>(
    rest: &mut Rest<'_, 'a>,
    (width, what): (usize, &'static str),
    mut one: impl FnMut(&mut Rest<'_, 'a>) -> Result<O, Error>,
) -> Result<Vec<O>, Error> {
    let announced = number("n", rest.positional()?, 1, COUNT_MAX)?;
    let count = usize::try_from(announced).unwrap_or(usize::MAX);
    // Before room is made for them. At most 1000, so some times as many fits.
    if rest.args.len() < count.saturating_mul(width) {
        return Err(Error::MissingOrders {
            count: announced,
            what,
        });
    }
    let mut orders = Vec::with_capacity(count);
    for place in 1..=announced {
        let order = one(rest).map_err(|error| Error::InList {
            place,
            error: Box::new(error),
        })?;
        orders.push(order);
    }
    Ok(orders)
}

/// An id.
fn id<'a>(rest: &mut Rest<'_, 'a>) -> Result<&'a [u8], Error> {
    rest.id()
}

/// Pairs of id and fence.
fn fenced<'a>(rest: &mut Rest<'_, 'a>) -> Result<Vec<Fenced<'a>>, Error> {
    list(rest, (2, "pairs of id and fence"), |rest| {
        Ok(Fenced {
            id: rest.id()?,
            fence: rest.fence()?,
            status: None,
        })
    })
}

/// `queue EX|PX|EXAT|PXAT [PAYLOADS] n id time [payload] [id time [payload] …]
/// [NX|XX|UPSERT] [GT|LT] [FROM s]… [STATUS s]`
pub(super) fn mschedule<'a>(
    rest: &mut Rest<'_, 'a>,
    limits: &Limits,
) -> Result<Batch<Schedule<'a>, Timed<'a>>, Error> {
    let (word, unit) = match rest.option() {
        Some((_, unit @ (EX | PX | EXAT | PXAT))) => (&[][..], unit),
        Some((word, _)) => (word, 0),
        None => (&[][..], 0),
    };
    if unit == 0 {
        return Err(if word.is_empty() {
            Error::Required {
                options: "EX, PX, EXAT, PXAT",
            }
        } else {
            unknown(word)
        });
    }
    let payloads = has_word(rest, b"PAYLOADS");
    let shape = if payloads {
        (3, "triples of id, time and payload")
    } else {
        (2, "pairs of id and time")
    };
    let mut payload_bytes = 0_u64;
    let orders = list(rest, shape, |rest| {
        let id = rest.id()?;
        let (_, when) = rest.when(unit)?;
        let payload = payloads.then(|| rest.blob("payload", limits)).transpose()?;
        payload_bytes += payload.map_or(0, |payload| payload.len() as u64);
        if payload_bytes > PAYLOADS_BYTES_MAX {
            return Err(Error::LengthOutOfRange {
                name: "all payloads together",
                min: 0,
                max: PAYLOADS_BYTES_MAX,
            });
        }
        Ok(Timed { id, when, payload })
    })?;
    let mut moves = Moves::default();
    while let Some((word, option)) = rest.option() {
        if !moves.read(rest, option)? {
            return Err(unknown(word));
        }
    }
    let Some(first) = orders.first() else {
        return Err(Error::Internal);
    };
    Ok(Batch {
        each: moves.into_schedule(*first)?,
        orders,
    })
}

/// `queue n id [id …] [STRICT] [CREATE] [FROM s]… [STATUS s] [KEEP ms]`
pub(super) fn mfinish<'a>(rest: &mut Rest<'_, 'a>) -> Result<Batch<Finish<'a>, &'a [u8]>, Error> {
    let orders = list(rest, (1, "ids"), id)?;
    let mut strict = None;
    let mut create = None;
    let mut all = Ends::default();
    while let Some((word, option)) = rest.option() {
        match option {
            STRICT => once(&mut strict, "STRICT", ())?,
            CREATE => once(&mut create, "CREATE", ())?,
            _ if all.read(rest, option)? => {}
            _ => return Err(unknown(word)),
        }
    }
    let guard = Guard {
        from: all.from,
        ..Guard::default()
    };
    Ok(Batch {
        each: Finish {
            id: b"",
            strict: strict.is_some(),
            create: create.is_some(),
            guard,
            status: all.status,
            result: None,
            keep_ms: all.keep_ms,
        },
        orders,
    })
}

/// What MFINISH and MACK have in common.
#[derive(Default)]
struct Ends<'a> {
    /// FROM.
    from: Vec<&'a [u8]>,
    /// STATUS.
    status: Option<&'a [u8]>,
    /// KEEP.
    keep_ms: Option<u64>,
}

impl<'a> Ends<'a> {
    /// Reads one of their options; false for any other.
    fn read(&mut self, rest: &mut Rest<'_, 'a>, option: u64) -> Result<bool, Error> {
        match option {
            FROM => self.from.push(rest.status("FROM")?),
            STATUS => once(&mut self.status, "STATUS", rest.status("STATUS")?)?,
            KEEP => {
                let keep_ms = rest.number("KEEP", 0, WALL_MS_MAX.0)?;
                once(&mut self.keep_ms, "KEEP", keep_ms)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// `queue [STATUSES] n id fence [status] [id fence [status] …] [FROM s]… [STATUS s]
/// [KEEP ms]`
pub(super) fn mack<'a>(rest: &mut Rest<'_, 'a>) -> Result<Batch<Ack<'a>, Fenced<'a>>, Error> {
    let statuses = has_word(rest, b"STATUSES");
    let orders = if statuses {
        let shape = (3, "triples of id, fence and status");
        list(rest, shape, |rest| {
            let (id, fence) = (rest.id()?, rest.fence()?);
            let status = bytes("status", rest.positional()?, 0, STATUS_BYTES_MAX as u64)?;
            Ok(Fenced {
                id,
                fence,
                status: Some(status),
            })
        })?
    } else {
        fenced(rest)?
    };
    let mut all = Ends::default();
    while let Some((word, option)) = rest.option() {
        if !all.read(rest, option)? {
            return Err(unknown(word));
        }
    }
    if statuses && all.status.is_some() {
        return Err(Error::Exclusive {
            one: "STATUSES",
            other: "STATUS",
        });
    }
    Ok(Batch {
        each: Ack {
            id: b"",
            fence: 0,
            from: all.from,
            status: all.status,
            result: None,
            keep_ms: all.keep_ms,
        },
        orders,
    })
}

/// `queue n id fence [id fence …] [DELAY ms | DEAD] [UNTRIED] [ERROR text]`
pub(super) fn mnack<'a>(rest: &mut Rest<'_, 'a>) -> Result<Batch<Nack<'a>, Fenced<'a>>, Error> {
    let orders = fenced(rest)?;
    Ok(Batch {
        each: Back::read(rest)?.into_nack(b"", 0),
        orders,
    })
}

/// `queue n id fence [id fence …] <lease> [LT] [SESSION]`
pub(super) fn mrenew<'a>(
    rest: &mut Rest<'_, 'a>,
    limits: &Limits,
) -> Result<Batch<Renew<'a>, Fenced<'a>>, Error> {
    let orders = fenced(rest)?;
    Ok(Batch {
        each: renewal(rest, limits, b"", 0)?,
        orders,
    })
}
