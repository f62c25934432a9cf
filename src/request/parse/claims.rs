//! Claims: CLAIM, ACK, NACK, RENEW.

use super::arguments::{End, Rest, bytes, choose, once, unknown};
use super::options::{
    BLOCK, COUNT, DEAD, DELAY, ERROR, EX, FROM, ID, KEEP, LT, PX, RESULT, SESSION, STATUS, UNTRIED,
};
use super::{BLOCK_MS_MAX, COUNT_DEFAULT, Limits};
use crate::error::Error;
use crate::request::{Ack, Again, Claim, Nack, Pick, Renew};
use crate::words::limits::{ERROR_BYTES_MAX, ID_BYTES_MAX, OWNER_BYTES_MAX};
use crate::words::time::WALL_MS_MAX;

/// `queue owner [<lease>] [COUNT n] [BLOCK ms] [SESSION]` or
/// `queue owner ID id [<lease>] [SESSION]`
pub(super) fn claim<'a>(rest: &mut Rest<'_, 'a>, limits: &Limits) -> Result<Claim<'a>, Error> {
    let owner = bytes("owner", rest.positional()?, 1, OWNER_BYTES_MAX as u64)?;
    let mut lease = None;
    let mut count = None;
    let mut block_ms = None;
    let mut id = None;
    let mut session = None;
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
            SESSION => once(&mut session, "SESSION", ())?,
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
        session: session.is_some(),
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

/// What NACK and MNACK have in common.
#[derive(Default)]
pub(super) struct Back<'a> {
    /// DELAY or DEAD.
    again: Option<(&'static str, Again)>,
    /// ERROR.
    error: Option<&'a [u8]>,
    /// UNTRIED.
    untried: Option<()>,
}

impl<'a> Back<'a> {
    /// Reads their options up to the end.
    pub(super) fn read(rest: &mut Rest<'_, 'a>) -> Result<Self, Error> {
        let mut back = Self::default();
        while let Some((word, option)) = rest.option() {
            match option {
                DELAY => {
                    let delay_ms = rest.number("DELAY", 0, WALL_MS_MAX.0)?;
                    choose(&mut back.again, ("DELAY", Again::Delay(delay_ms)))?;
                }
                DEAD => choose(&mut back.again, ("DEAD", Again::Dead))?,
                UNTRIED => once(&mut back.untried, "UNTRIED", ())?,
                ERROR => {
                    let value = rest.value("ERROR")?;
                    let text = bytes("ERROR", value, 0, ERROR_BYTES_MAX as u64)?;
                    once(&mut back.error, "ERROR", text)?;
                }
                _ => return Err(unknown(word)),
            }
        }
        if back.untried.is_some() && matches!(back.again, Some((_, Again::Dead))) {
            return Err(Error::Exclusive {
                one: "DEAD",
                other: "UNTRIED",
            });
        }
        Ok(back)
    }

    /// The request for one order.
    pub(super) fn into_nack(self, id: &'a [u8], fence: u64) -> Nack<'a> {
        Nack {
            id,
            fence,
            again: self.again.map_or(Again::Backoff, |(_, again)| again),
            error: self.error,
            untried: self.untried.is_some(),
        }
    }
}

/// `queue id fence [DELAY ms | DEAD] [UNTRIED] [ERROR text]`
pub(super) fn nack<'a>(rest: &mut Rest<'_, 'a>) -> Result<Nack<'a>, Error> {
    let id = rest.id()?;
    let fence = rest.fence()?;
    Ok(Back::read(rest)?.into_nack(id, fence))
}

/// `queue id fence <lease> [LT] [SESSION]`
pub(super) fn renew<'a>(rest: &mut Rest<'_, 'a>, limits: &Limits) -> Result<Renew<'a>, Error> {
    let id = rest.id()?;
    let fence = rest.fence()?;
    renewal(rest, limits, id, fence)
}

/// `<lease> [LT] [SESSION]`: what RENEW and MRENEW have in common, up to the end.
pub(super) fn renewal<'a>(
    rest: &mut Rest<'_, 'a>,
    limits: &Limits,
    id: &'a [u8],
    fence: u64,
) -> Result<Renew<'a>, Error> {
    let mut lease = None;
    let mut shorten = None;
    let mut session = None;
    while let Some((word, option)) = rest.option() {
        match option {
            EX | PX => choose(&mut lease, rest.lease(option, limits)?)?,
            LT => once(&mut shorten, "LT", ())?,
            SESSION => once(&mut session, "SESSION", ())?,
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
        session: session.is_some(),
    })
}
