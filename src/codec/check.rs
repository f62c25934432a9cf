//! What an effect may hold: every field held against the limits of what may be
//! stored. What passes can be applied, saved, loaded and replicated without further
//! checks. Whether the records it names exist is the engine's business.
//!
//! Asked twice: of what comes in ([`decode`](super::decode)) and of what a decision is
//! about to do ([`encode`](super::encode)), so nothing is stored that could not be read.

use crate::engine::effect::{
    AfterTry, Bytes, Effect, Ended, Granted, LIST_MAX, LeaseKind, LeaseOf, Requeued, Snapshot,
    SnapshotEnding, SnapshotGrant, SnapshotHolder, SnapshotLife, SnapshotPhase,
};
use crate::engine::number::NUMBER_END;
use crate::engine::settings::{is_value, setting_name};
use crate::words::limits::SECOND_BYTES_MAX;
use crate::words::limits::{
    ERROR_BYTES_MAX, FP_BYTES_MAX, ID_BYTES_MAX, OWNER_BYTES_MAX, STATUS_BYTES_MAX,
};
use crate::words::time::{MOMENT_MAX, WALL_MS_MAX, WallMs};

/// The longest payload or result that is read: what a record can hold, whatever
/// the limit for new ones is set to today.
const PAYLOAD_BYTES_MAX: usize = SECOND_BYTES_MAX;

/// What is wrong with an effect, in the words of the error.
pub(super) type Fault = &'static str;

/// Holds every field of an effect against its limits.
pub(super) fn check(effect: &Effect<'_>) -> Result<(), Fault> {
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
            at,
            by_holder: _,
        } => {
            check_id(id)?;
            check_number(*rev)?;
            check_status(status.as_ref())?;
            check_payload(result.as_ref())?;
            check_moments([*keep_end, Some(*at)])
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
            since,
            end,
            cap,
            grants,
        } => {
            check_owner(owner)?;
            check_moments([Some(*since), Some(*end), Some(*cap)])?;
            check_list(grants)?;
            grants.iter().try_for_each(check_granted)
        }
        Effect::Nack {
            id,
            rev,
            then,
            error,
            untried: _,
        } => {
            check_id(id)?;
            check_number(*rev)?;
            check_after(*then)?;
            check_error(error.as_ref())
        }
        Effect::Renew {
            id,
            rev,
            since,
            end,
        } => {
            check_id(id)?;
            check_number(*rev)?;
            check_moments([Some(*since), Some(*end)])
        }
        Effect::Lock {
            id,
            owner,
            fence,
            since,
            end,
            cap,
            fp,
            creates: _,
        } => {
            check_id(id)?;
            check_owner(owner)?;
            check_number(*fence)?;
            check_moments([Some(*since), Some(*end), Some(*cap)])?;
            check_fp(fp.as_ref())
        }
        Effect::Hold {
            id,
            rev,
            holds,
            since,
            end,
        } => {
            check_id(id)?;
            check_number(*rev)?;
            check_holds(*holds)?;
            check_moments([Some(*since), Some(*end)])
        }
        Effect::Release { id, rev, ended } => {
            check_id(id)?;
            check_number(*rev)?;
            match ended {
                Ended::Lock => Ok(()),
                Ended::Claim { then, untried: _ } => check_after(*then),
            }
        }
        Effect::Forget { ids } => {
            check_list(ids)?;
            ids.iter().try_for_each(check_id)
        }
        Effect::Requeue { rev, orders } => {
            check_number(*rev)?;
            check_list(orders)?;
            orders
                .iter()
                .try_for_each(|Requeued { id, attempt: _ }| check_id(id))
        }
        Effect::Configure { name, value } => check_setting(name, value.as_ref()),
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
        Effect::Lapse { end, leases } => {
            check_moments([Some(*end)])?;
            check_list(leases)?;
            leases.iter().try_for_each(|LeaseOf { id, fence }| {
                check_id(id)?;
                check_number(*fence)
            })
        }
    }
}

/// Holds a whole record against its limits.
fn check_whole(whole: &Snapshot<'_>) -> Result<(), Fault> {
    let Snapshot {
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
        SnapshotLife::Open {
            deadline,
            payload,
            attempt: _,
            error,
            phase,
        } => {
            deadline.map_or(Ok(()), check_deadline)?;
            check_payload(payload.as_ref())?;
            check_error(error.as_ref())?;
            match phase {
                // A reserved id has a lock and nothing else.
                SnapshotPhase::Granted(grant) if grant.kind == LeaseKind::Lock => {}
                SnapshotPhase::Plain => {}
                _ if deadline.is_none() => return Err("an order without deadline was claimed"),
                _ => {}
            }
            check_phase(phase)
        }
        SnapshotLife::Finished {
            keep_end,
            result,
            ending,
        } => {
            check_moments([Some(*keep_end)])?;
            check_payload(result.as_ref())?;
            let Some(ending) = ending else { return Ok(()) };
            let SnapshotEnding {
                at,
                deadline,
                attempt: _,
                holder,
            } = ending;
            check_moments([Some(*at)])?;
            deadline.map_or(Ok(()), check_deadline)?;
            match holder {
                Some(SnapshotHolder { kind: _, owner }) => check_owner(owner),
                None => Ok(()),
            }
        }
    }
}

/// What the last grant of a whole record has come to.
fn check_phase(phase: &SnapshotPhase<'_>) -> Result<(), Fault> {
    match phase {
        SnapshotPhase::Plain => Ok(()),
        SnapshotPhase::Retrying { since, at } => check_moments([Some(*since), Some(*at)]),
        SnapshotPhase::Dead(at) => check_moments([Some(*at)]),
        SnapshotPhase::Granted(grant) => {
            let SnapshotGrant {
                kind: _,
                owner,
                fence,
                made,
                since,
                end,
                cap,
                holds,
                last_try: _,
            } = grant;
            check_owner(owner)?;
            check_number(*fence)?;
            check_moments([Some(*made), Some(*since), Some(*end), Some(*cap)])?;
            check_holds(*holds)
        }
    }
}

/// One order of a claim.
fn check_granted(granted: &Granted<'_>) -> Result<(), Fault> {
    let Granted {
        id,
        fence,
        attempt,
        last_try: _,
    } = granted;
    check_id(id)?;
    check_number(*fence)?;
    if *attempt == 0 {
        Err("an attempt is 0")
    } else {
        Ok(())
    }
}

/// A setting: one that there is, under its name as it is kept, with a value that
/// ORDER.CONFIG takes. What decisions make of it then stays within the limits too.
fn check_setting(name: &Bytes<'_>, value: Option<&Bytes<'_>>) -> Result<(), Fault> {
    let fault = match setting_name(name) {
        Some(kept) if kept == &**name => "a setting has a value that it cannot have",
        _ => return Err("there is no such setting"),
    };
    match value {
        Some(value) if !is_value(name, value) => Err(fault),
        _ => Ok(()),
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
        .all(|moment| moment.0 <= MOMENT_MAX)
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
        AfterTry::At { since, at } => check_moments([Some(since), Some(at)]),
        AfterTry::Dead(moment) => check_moments([Some(moment)]),
    }
}

/// A list of orders: an effect on none is nothing that is ever written.
fn check_list<T>(list: &[T]) -> Result<(), Fault> {
    match list.len() {
        0 => Err("a list is empty"),
        len if len > LIST_MAX => Err("a list is too long"),
        _ => Ok(()),
    }
}
