//! Orders: SCHEDULE, FINISH, STATUS.

use super::Limits;
use super::arguments::{End, Rest, bytes, choose, guard_name, once, unknown};
use super::options::{
    CREATE, EX, EXAT, FENCE, FROM, GT, IFREV, KEEP, LT, NX, PAYLOAD, PX, PXAT, RESULT, STATUS,
    STRICT, UPSERT, XX,
};
use crate::error::Error;
use crate::request::{Direction, Finish, Guard, Mode, Schedule, SetStatus, Timed};
use crate::words::limits::STATUS_BYTES_MAX;

/// What SCHEDULE and MSCHEDULE have in common.
#[derive(Default)]
pub(super) struct Moves<'a> {
    /// NX, XX or UPSERT.
    mode: Option<(&'static str, Mode)>,
    /// GT or LT.
    only: Option<(&'static str, Direction)>,
    /// FROM, and what the single command adds.
    pub(super) guard: Guard<'a>,
    /// STATUS.
    status: Option<&'a [u8]>,
}

impl<'a> Moves<'a> {
    /// Reads one of their options; false for any other.
    pub(super) fn read(&mut self, rest: &mut Rest<'_, 'a>, option: u64) -> Result<bool, Error> {
        match option {
            NX => choose(&mut self.mode, ("NX", Mode::Create))?,
            XX => choose(&mut self.mode, ("XX", Mode::Move))?,
            UPSERT => choose(&mut self.mode, ("UPSERT", Mode::Upsert))?,
            GT => choose(&mut self.only, ("GT", Direction::Later))?,
            LT => choose(&mut self.only, ("LT", Direction::Earlier))?,
            FROM => rest.guard(option, &mut self.guard)?,
            STATUS => once(&mut self.status, "STATUS", rest.status("STATUS")?)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The request for one order.
    pub(super) fn into_schedule(self, order: Timed<'a>) -> Result<Schedule<'a>, Error> {
        // What is tested against an existing order asks for one.
        let condition = self.only.map(|(name, _)| name);
        let condition = condition.or_else(|| guard_name(&self.guard));
        let mode = match (self.mode, condition) {
            (Some((name, Mode::Create)), Some(other)) => {
                return Err(Error::Exclusive { one: name, other });
            }
            (Some((_, mode)), _) => mode,
            (None, Some(_)) => Mode::Move,
            (None, None) => Mode::Create,
        };
        Ok(Schedule {
            id: order.id,
            when: order.when,
            mode,
            only: self.only.map(|(_, only)| only),
            guard: self.guard,
            status: self.status,
            payload: order.payload,
        })
    }
}

/// `queue id <when> [NX|XX|UPSERT] [GT|LT] [<guard>] [STATUS s] [PAYLOAD b]`
pub(super) fn schedule<'a>(
    rest: &mut Rest<'_, 'a>,
    limits: &Limits,
) -> Result<Schedule<'a>, Error> {
    let id = rest.id()?;
    let mut when = None;
    let mut payload = None;
    let mut moves = Moves::default();
    while let Some((word, option)) = rest.option() {
        match option {
            EX | PX | EXAT | PXAT => choose(&mut when, rest.when(option)?)?,
            IFREV | FENCE => rest.guard(option, &mut moves.guard)?,
            PAYLOAD => once(&mut payload, "PAYLOAD", rest.blob("PAYLOAD", limits)?)?,
            _ if moves.read(rest, option)? => {}
            _ => return Err(unknown(word)),
        }
    }
    let Some((_, when)) = when else {
        return Err(Error::Required {
            options: "EX, PX, EXAT, PXAT",
        });
    };
    moves.into_schedule(Timed { id, when, payload })
}

/// `queue id [STRICT] [CREATE] [<guard>] [STATUS s] [RESULT b] [KEEP ms]`
pub(super) fn finish<'a>(rest: &mut Rest<'_, 'a>, limits: &Limits) -> Result<Finish<'a>, Error> {
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
pub(super) fn status<'a>(rest: &mut Rest<'_, 'a>, limits: &Limits) -> Result<SetStatus<'a>, Error> {
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
