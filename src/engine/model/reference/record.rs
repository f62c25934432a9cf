//! A record of the reference, and its state at a moment.

use crate::engine::effect::LeaseKind;
use crate::words::state::State;
use crate::words::time::Now;

/// The last grant of a record of the model.
#[derive(Clone, Debug)]
pub(in crate::engine::model) struct Grant {
    /// Claim or lock.
    pub(in crate::engine::model) kind: LeaseKind,
    /// Who got it.
    pub(in crate::engine::model) owner: Vec<u8>,
    /// Its number.
    pub(in crate::engine::model) fence: u64,
    /// When it was made, the moment its cap counts from.
    pub(in crate::engine::model) made: u64,
    /// When it was made or renewed, the moment its end counts from.
    pub(in crate::engine::model) since: u64,
    /// When it ends, as stored.
    pub(in crate::engine::model) end: u64,
    /// When it ends by the monotonic clock of each server.
    pub(in crate::engine::model) over: [u64; 2],
    /// What renewals do not pass, as stored.
    pub(in crate::engine::model) cap: u64,
    /// The same by the monotonic clock of each server.
    pub(in crate::engine::model) cap_over: [u64; 2],
    /// How often it is held.
    pub(in crate::engine::model) holds: u32,
    /// Whether a failure is final.
    pub(in crate::engine::model) last_try: bool,
    /// Whether its lapse was announced.
    pub(in crate::engine::model) said: bool,
}

/// How a record of the model was finished.
#[derive(Clone, Debug)]
pub(in crate::engine::model) struct Ending {
    /// When.
    pub(in crate::engine::model) at: u64,
    /// The deadline it had.
    pub(in crate::engine::model) deadline: Option<u64>,
    /// Tries.
    pub(in crate::engine::model) attempt: u32,
    /// Whose lease finished it.
    pub(in crate::engine::model) owner: Option<Vec<u8>>,
}

/// A record of the model.
#[derive(Clone, Debug, Default)]
pub(in crate::engine::model) struct Record {
    /// Status.
    pub(in crate::engine::model) status: Vec<u8>,
    /// Number of the last write.
    pub(in crate::engine::model) rev: u64,
    /// Deadline.
    pub(in crate::engine::model) deadline: Option<u64>,
    /// Finish mark.
    pub(in crate::engine::model) keep_end: Option<u64>,
    /// Payload.
    pub(in crate::engine::model) payload: Option<Vec<u8>>,
    /// Result.
    pub(in crate::engine::model) result: Option<Vec<u8>>,
    /// Tries.
    pub(in crate::engine::model) attempt: u32,
    /// Retry wait: its end as stored, and by the monotonic clock of each server.
    pub(in crate::engine::model) retry: Option<(u64, [u64; 2])>,
    /// Since when it waits.
    pub(in crate::engine::model) retry_since: u64,
    /// How it was finished.
    pub(in crate::engine::model) ending: Option<Ending>,
    /// Dead mark.
    pub(in crate::engine::model) dead: bool,
    /// Why the last try failed.
    pub(in crate::engine::model) error: Option<Vec<u8>>,
    /// Last grant.
    pub(in crate::engine::model) grant: Option<Grant>,
    /// Fingerprint of the request it was locked for.
    pub(in crate::engine::model) fp: Option<Vec<u8>>,
    /// Since when it is claimable, where no lease or wait says so.
    pub(in crate::engine::model) since: u64,
    /// Whether it waits for its deadline and nothing else ever was.
    pub(in crate::engine::model) plain: bool,
    /// Number of the write that set the deadline, for ties.
    pub(in crate::engine::model) seq: u64,
    /// Whether its present entry into expired or dead was announced.
    pub(in crate::engine::model) announced: bool,
}

impl Record {
    /// The state on a server.
    pub(in crate::engine::model) fn state(&self, now: &Now, server: usize) -> State {
        let (wall, mono) = (now.wall_us / 1000, now.mono_us / 1000);
        if let Some(keep_end) = self.keep_end {
            return if keep_end <= wall {
                State::Missing
            } else {
                State::Finished
            };
        }
        let live = self
            .grant
            .as_ref()
            .is_some_and(|grant| grant.over[server] > mono);
        let Some(deadline) = self.deadline else {
            return if live {
                State::Reserved
            } else {
                State::Missing
            };
        };
        if live {
            return State::Leased;
        }
        if self.dead
            || self
                .grant
                .as_ref()
                .is_some_and(|grant| grant.kind == LeaseKind::Claim && grant.last_try)
        {
            return State::Dead;
        }
        if self.retry.is_some_and(|(_, over)| over[server] > mono) {
            return State::Retrying;
        }
        if deadline > wall {
            State::Scheduled
        } else {
            State::Expired
        }
    }

    /// Since when it is claimable, given that it is.
    pub(in crate::engine::model) fn since(&self) -> u64 {
        let deadline = self.deadline.unwrap();
        match (&self.grant, self.retry) {
            (Some(grant), _) => grant.end.max(deadline),
            (None, Some((at, _))) => at.max(deadline),
            (None, None) => self.since,
        }
    }

    /// Ends whatever the record was about but the grant; a new entry into expired
    /// is ahead.
    pub(in crate::engine::model) fn renewed(&mut self) {
        self.attempt = 0;
        self.retry = None;
        self.dead = false;
        self.error = None;
        self.ending = None;
        self.announced = false;
    }
}

/// Milliseconds left of a lease, as shown.
pub(in crate::engine::model) fn left(over: u64, now: &Now) -> u64 {
    if over <= now.mono_us / 1000 {
        0
    } else {
        over.saturating_sub(now.mono_us.div_ceil(1000)).max(1)
    }
}

/// Where a stored moment lies on a server's monotonic clock: no further ahead than
/// what ends there is long.
pub(in crate::engine::model) fn mono_of(end: u64, length: u64, now: &Now) -> u64 {
    let ceil = now.wall_us.div_ceil(1000);
    if end <= now.wall_us / 1000 || length == 0 {
        0
    } else {
        now.mono_us.div_ceil(1000) + end.saturating_sub(ceil).min(length)
    }
}
