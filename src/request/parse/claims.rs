//! Claims: CLAIM, ACK, MACK, NACK, RENEW.

use super::arguments::{End, Rest, bytes, choose, number, once, unknown};
use super::options::{
    BLOCK, COUNT, DEAD, DELAY, ERROR, EX, FROM, ID, KEEP, LT, PX, RESULT, STATUS, UNTRIED,
};
use super::{BLOCK_MS_MAX, COUNT_DEFAULT, COUNT_MAX, Limits};
use crate::error::Error;
use crate::request::{Ack, Again, Claim, Mack, Nack, Pick, Renew};
use crate::words::limits::{ERROR_BYTES_MAX, ID_BYTES_MAX, OWNER_BYTES_MAX};
use crate::words::time::WALL_MS_MAX;

/// `queue owner [<lease>] [COUNT n] [BLOCK ms]` or `queue owner ID id [<lease>]`
pub(super) fn claim<'a>(rest: &mut Rest<'_, 'a>, limits: &Limits) -> Result<Claim<'a>, Error> {
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
pub(super) fn ack<'a>(rest: &mut Rest<'_, 'a>, limits: &Limits) -> Result<Ack<'a>, Error> {
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
pub(super) fn mack<'a>(rest: &mut Rest<'_, 'a>) -> Result<Mack<'a>, Error> {
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
pub(super) fn nack<'a>(rest: &mut Rest<'_, 'a>) -> Result<Nack<'a>, Error> {
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
pub(super) fn renew<'a>(rest: &mut Rest<'_, 'a>, limits: &Limits) -> Result<Renew<'a>, Error> {
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
