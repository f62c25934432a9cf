//! The queue as a whole: CONFIG, PAUSE, REQUEUE, PURGE, NEXT, SCAN.

use super::arguments::{Rest, bytes, number, once, unknown};
use super::options::{COUNT, GET, ID, MATCH, OWNER, PX, REASON, RESET, SET, STATE, STATUS};
use super::{COUNT_MAX, SCAN_COUNT_DEFAULT, SWEEP_COUNT_DEFAULT};
use crate::error::{Error, Excerpt};
use crate::request::{Configure, Pause, Purge, Requeue, Scan, Sweep};
use crate::words::limits::{ERROR_BYTES_MAX, ID_BYTES_MAX, OWNER_BYTES_MAX};
use crate::words::state::State;
use crate::words::time::WALL_MS_MAX;

/// `queue GET [name]`, `queue SET name value [name value …]` or `queue RESET [name]`
pub(super) fn configure<'a>(rest: &mut Rest<'_, 'a>) -> Result<Configure<'a>, Error> {
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
pub(super) fn pause<'a>(rest: &mut Rest<'_, 'a>) -> Result<Pause<'a>, Error> {
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
pub(super) fn purge<'a>(rest: &mut Rest<'_, 'a>) -> Result<Purge<'a>, Error> {
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

/// `queue [STATE dead|retrying] [STATUS s] [MATCH glob] [COUNT n]` or
/// `queue ID id [id …]`
pub(super) fn requeue<'a>(rest: &mut Rest<'_, 'a>) -> Result<Requeue<'a>, Error> {
    let mut state = None;
    let mut status = None;
    let mut pattern = None;
    let mut count = None;
    while let Some((word, option)) = rest.option() {
        match option {
            STATE => once(&mut state, "STATE", requeued_state(rest.value("STATE")?)?)?,
            STATUS => once(&mut status, "STATUS", rest.status("STATUS")?)?,
            MATCH => once(&mut pattern, "MATCH", rest.pattern()?)?,
            COUNT => once(&mut count, "COUNT", rest.count()?)?,
            ID => {
                let ids = ids(rest)?;
                let given = [
                    ("STATE", state.is_some()),
                    ("STATUS", status.is_some()),
                    ("MATCH", pattern.is_some()),
                    ("COUNT", count.is_some()),
                ];
                return match given.into_iter().find(|(_, given)| *given) {
                    Some((one, _)) => Err(Error::Exclusive { one, other: "ID" }),
                    None => Ok(Requeue::Ids(ids)),
                };
            }
            _ => return Err(unknown(word)),
        }
    }
    Ok(Requeue::Next(Sweep {
        state: state.unwrap_or(State::Dead),
        status,
        pattern,
        count: count.unwrap_or(SWEEP_COUNT_DEFAULT),
    }))
}

/// Ids up to the end, one at least and [`COUNT_MAX`] at most.
fn ids<'a>(rest: &mut Rest<'_, 'a>) -> Result<Vec<&'a [u8]>, Error> {
    if rest.args.is_empty() {
        return Err(Error::MissingValue { option: "ID" });
    }
    // Before room is made for them.
    if rest.args.len() as u64 > COUNT_MAX {
        return Err(Error::TooMany {
            option: "ID",
            max: COUNT_MAX,
        });
    }
    let mut ids = Vec::with_capacity(rest.args.len());
    while let Some(id) = rest.take() {
        ids.push(bytes("ID", id, 1, ID_BYTES_MAX as u64)?);
    }
    Ok(ids)
}

/// `queue [COUNT n]`: the count.
pub(super) fn count(rest: &mut Rest<'_, '_>, default: u32) -> Result<u32, Error> {
    let mut count = None;
    while let Some((word, option)) = rest.option() {
        match option {
            COUNT => once(&mut count, "COUNT", rest.count()?)?,
            _ => return Err(unknown(word)),
        }
    }
    Ok(count.unwrap_or(default))
}

/// `queue cursor [STATE s] [STATUS s] [MATCH glob] [COUNT n] [OWNER owner]`
pub(super) fn scan<'a>(rest: &mut Rest<'_, 'a>) -> Result<Scan<'a>, Error> {
    let cursor = number("cursor", rest.positional()?, 0, u64::MAX)?;
    let mut state = None;
    let mut status = None;
    let mut pattern = None;
    let mut count = None;
    let mut owner = None;
    while let Some((word, option)) = rest.option() {
        match option {
            STATE => once(&mut state, "STATE", listed_state(rest.value("STATE")?)?)?,
            STATUS => once(&mut status, "STATUS", rest.status("STATUS")?)?,
            MATCH => once(&mut pattern, "MATCH", rest.pattern()?)?,
            COUNT => once(&mut count, "COUNT", rest.count()?)?,
            OWNER => {
                let value = rest.value("OWNER")?;
                let value = bytes("OWNER", value, 1, OWNER_BYTES_MAX as u64)?;
                once(&mut owner, "OWNER", value)?;
            }
            _ => return Err(unknown(word)),
        }
    }
    Ok(Scan {
        cursor,
        state,
        status,
        pattern,
        count: count.unwrap_or(SCAN_COUNT_DEFAULT),
        owner,
    })
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

/// A state that REQUEUE brings orders back from, by its word.
fn requeued_state(word: &[u8]) -> Result<State, Error> {
    [State::Dead, State::Retrying]
        .into_iter()
        .find(|state| word.eq_ignore_ascii_case(state.word().as_bytes()))
        .ok_or_else(|| Error::NotRequeued {
            near: Excerpt::of(word),
        })
}
