//! An order as it is shown: by the core and by the reference.

use super::super::reference::record::{Record, left};
use super::super::world::World;
use crate::engine::effect::LeaseKind;
use crate::engine::view::OrderView;
use crate::words::state::State;
use crate::words::time::Now;

/// An order as it is shown.
#[derive(Debug, PartialEq)]
struct Shown {
    /// State.
    state: State,
    /// Status.
    status: Vec<u8>,
    /// Deadline.
    deadline: Option<u64>,
    /// Rev.
    rev: u64,
    /// Attempt.
    attempt: u32,
    /// Owner of the last grant, or whose lease finished it.
    owner: Option<Vec<u8>>,
    /// Kind and fence of the last grant.
    grant: Option<(LeaseKind, u64)>,
    /// What is left of the lease, and how often it is held.
    lease: Option<(u64, u32)>,
    /// End of the retry wait.
    retry_at: Option<u64>,
    /// Keep end.
    keep_end: Option<u64>,
    /// Payload.
    payload: Option<Vec<u8>>,
    /// Result.
    result: Option<Vec<u8>>,
    /// Error.
    error: Option<Vec<u8>>,
    /// When it was finished, and the deadline it had then.
    finished: (Option<u64>, Option<u64>),
}

impl Shown {
    /// As the core shows it.
    fn of(view: &OrderView<'_>) -> Self {
        let owned = |text: Option<&[u8]>| text.map(<[u8]>::to_vec);
        assert_eq!(view.lease_ms.is_some(), view.holds > 0);
        Self {
            state: view.state,
            status: view.status.to_vec(),
            deadline: view.deadline.map(|at| at.0),
            rev: view.rev,
            attempt: view.attempt,
            owner: owned(view.owner),
            grant: view.kind.map(|kind| (kind, view.fence)),
            lease: view.lease_ms.map(|ms| (ms, view.holds)),
            retry_at: view.retry_at.map(|at| at.0),
            keep_end: view.keep_end.map(|at| at.0),
            payload: owned(view.payload),
            result: owned(view.result),
            error: owned(view.error),
            finished: (
                view.finished_at.map(|at| at.0),
                view.finished_deadline.map(|at| at.0),
            ),
        }
    }

    /// As the model shows it.
    fn model(record: &Record, now: &Now, server: usize) -> Option<Self> {
        let state = record.state(now, server);
        let live = record
            .grant
            .as_ref()
            .filter(|_| matches!(state, State::Leased | State::Reserved));
        (state != State::Missing).then(|| Self {
            state,
            status: record.status.clone(),
            deadline: record.deadline,
            rev: record.rev,
            attempt: match &record.ending {
                Some(ending) => ending.attempt,
                None => record.attempt,
            },
            owner: match &record.ending {
                Some(ending) => ending.owner.clone(),
                None => record.grant.as_ref().map(|grant| grant.owner.clone()),
            },
            grant: record.grant.as_ref().map(|grant| (grant.kind, grant.fence)),
            lease: live.map(|grant| {
                let length = grant.end - grant.since;
                (left(grant.over[server], now).min(length), grant.holds)
            }),
            retry_at: record
                .retry
                .filter(|_| state == State::Retrying)
                .map(|(at, _)| at),
            keep_end: record.keep_end,
            payload: record.payload.clone(),
            result: record.result.clone(),
            error: record.error.clone(),
            finished: match &record.ending {
                Some(ending) => (Some(ending.at), ending.deadline),
                None => (None, None),
            },
        })
    }
}

impl World {
    /// One order, on both servers.
    pub(in crate::engine::model) fn compare_order(&self, n: u32) {
        for (at, server) in self.servers.iter().enumerate() {
            let now = server.now();
            let core = server
                .queue
                .view(&now, &self.ids[n as usize])
                .map(|view| Shown::of(&view));
            let model = self
                .records
                .get(&n)
                .and_then(|record| Shown::model(record, &now, at));
            assert_eq!(core, model, "order {n} on server {at}");
        }
    }
}
