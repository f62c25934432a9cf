//! Locks: LOCK, UNLOCK, BREAK, RELEASE.

use super::arguments::{Rest, bytes, choose, once, unknown};
use super::options::{BLOCK, COUNT, EX, FP, MAX, PX, SESSION, XX};
use super::{BLOCK_MS_MAX, Limits, SWEEP_COUNT_DEFAULT};
use crate::error::Error;
use crate::request::{Break, Lock, Release};
use crate::words::limits::{FP_BYTES_MAX, OWNER_BYTES_MAX};

/// `queue id owner <lease> [REENTRANT] [MAX ms] [FP text] [BLOCK ms] [XX] [SESSION]`
pub(super) fn lock<'a>(rest: &mut Rest<'_, 'a>, limits: &Limits) -> Result<Lock<'a>, Error> {
    let id = rest.id()?;
    let owner = bytes("owner", rest.positional()?, 1, OWNER_BYTES_MAX as u64)?;
    let mut lease = None;
    let mut reentrant = None;
    let mut max_ms = None;
    let mut fp = None;
    let mut block_ms = None;
    let mut session = None;
    let mut must_exist = None;
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
            SESSION => once(&mut session, "SESSION", ())?,
            XX => once(&mut must_exist, "XX", ())?,
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
        session: session.is_some(),
        must_exist: must_exist.is_some(),
    })
}

/// `queue id [fence]`
pub(super) fn break_lease<'a>(rest: &mut Rest<'_, 'a>) -> Result<Break<'a>, Error> {
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

/// `queue owner [COUNT n]`
pub(super) fn release<'a>(rest: &mut Rest<'_, 'a>) -> Result<Release<'a>, Error> {
    let owner = bytes("owner", rest.positional()?, 1, OWNER_BYTES_MAX as u64)?;
    let mut count = None;
    while let Some((word, option)) = rest.option() {
        match option {
            COUNT => once(&mut count, "COUNT", rest.count()?)?,
            _ => return Err(unknown(word)),
        }
    }
    Ok(Release {
        owner,
        count: count.unwrap_or(SWEEP_COUNT_DEFAULT),
    })
}
