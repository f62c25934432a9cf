//! SCHEDULE, FINISH and STATUS.

use super::super::world::World;
use super::record::{Ending, Record};
use crate::engine::effect::LeaseKind;
use crate::engine::outcome::Outcome;
use crate::engine::settings::Setting;
use crate::request::{Direction, Finish, Mode, Schedule, SetStatus, When};
use crate::words::state::State;

impl World {
    /// The deadline a SCHEDULE asks for.
    fn deadline_of(&self, when: When) -> u64 {
        match when {
            When::In(0) => self.wall(),
            When::In(ms) => self.now().wall_us.div_ceil(1000) + ms,
            When::At(at) => at.0,
        }
    }

    /// What SCHEDULE is to say.
    pub(in crate::engine::model) fn schedule_outcome(&self, n: u32, ask: &Schedule<'_>) -> Outcome {
        let was = self.state(n);
        if was == State::Missing {
            return if ask.mode == Mode::Move {
                Outcome::Missing
            } else {
                Outcome::Ok
            };
        }
        let record = &self.records[&n];
        if was == State::Finished
            && (ask.mode == Mode::Create || !ask.guard.from.contains(&record.status.as_slice()))
        {
            return Outcome::Finished;
        }
        if ask.mode == Mode::Create && record.deadline.is_some() {
            return Outcome::Exists;
        }
        if was == State::Reserved && ask.mode == Mode::Move && self.is_holder(n, ask.guard.fence) {
            return Outcome::Missing;
        }
        if let Some(outcome) = self.in_way(n, &ask.guard, ask.status) {
            return outcome;
        }
        let deadline = self.deadline_of(ask.when);
        match (ask.only, record.deadline) {
            (Some(Direction::Later), Some(old)) if deadline <= old => Outcome::Unchanged,
            (Some(Direction::Earlier), Some(old)) if deadline >= old => Outcome::Unchanged,
            _ => Outcome::Ok,
        }
    }

    /// Whether a fence is given, and is that of the last grant.
    fn is_holder(&self, n: u32, fence: Option<u64>) -> bool {
        let grant = self.records[&n].grant.as_ref();
        fence.is_some() && grant.map(|grant| grant.fence) == fence
    }

    /// What is left of an order that gets a deadline now.
    pub(in crate::engine::model) fn scheduled(&mut self, n: u32, ask: &Schedule<'_>) {
        let (was, wall, deadline) = (self.state(n), self.wall(), self.deadline_of(ask.when));
        let keeps_lock = matches!(was, State::Leased | State::Reserved)
            && self.is_holder(n, ask.guard.fence)
            && self.records[&n]
                .grant
                .as_ref()
                .is_some_and(|grant| grant.kind == LeaseKind::Lock);
        let mut record = match self.records.get(&n) {
            Some(record) if was != State::Missing => record.clone(),
            _ => Record::default(),
        };
        record.renewed();
        record.rev = self.next_rev(n);
        record.deadline = Some(deadline);
        record.keep_end = None;
        record.result = None;
        if !keeps_lock {
            record.grant = None;
            record.fp = None;
        }
        if let Some(status) = ask.status {
            record.status = status.to_vec();
        }
        if let Some(payload) = ask.payload {
            record.payload = Some(payload.to_vec());
        }
        record.since = deadline.max(wall);
        record.plain = deadline >= wall;
        self.seq += 1;
        record.seq = self.seq;
        self.records.insert(n, record);
        self.paid.remove(&n);
    }

    /// What FINISH is to say.
    pub(in crate::engine::model) fn finish_outcome(&self, n: u32, ask: &Finish<'_>) -> Outcome {
        let was = self.state(n);
        if was == State::Missing {
            if ask.create {
                Outcome::Ok
            } else {
                Outcome::Missing
            }
        } else if was == State::Finished {
            Outcome::Finished
        } else if let Some(outcome) = self.in_way(n, &ask.guard, ask.status) {
            outcome
        } else if ask.strict
            && self.records[&n]
                .deadline
                .is_some_and(|deadline| deadline <= self.wall())
        {
            Outcome::Expired
        } else {
            Outcome::Ok
        }
    }

    /// What is left of an order that is finished now.
    pub(in crate::engine::model) fn finished(
        &mut self,
        n: u32,
        status: Option<&[u8]>,
        result: Option<&[u8]>,
        keep_ms: Option<u64>,
        by_holder: bool,
    ) {
        let (rev, wall) = (self.next_rev(n), self.wall());
        let keep_ms = keep_ms.unwrap_or_else(|| self.setting(Setting::KeepMs));
        let missing = self.state(n) == State::Missing;
        let old = self
            .records
            .remove(&n)
            .filter(|_| !missing)
            .unwrap_or_default();
        if keep_ms > 0 {
            let keep_end = Some(self.now().wall_us.div_ceil(1000) + keep_ms);
            let status = status.map_or(old.status, <[u8]>::to_vec);
            let owner = old.grant.filter(|_| by_holder).map(|grant| grant.owner);
            self.records.insert(
                n,
                Record {
                    status,
                    rev,
                    keep_end,
                    result: result.map(<[u8]>::to_vec),
                    fp: old.fp,
                    ending: Some(Ending {
                        at: wall,
                        deadline: old.deadline,
                        attempt: old.attempt,
                        owner,
                    }),
                    ..Record::default()
                },
            );
        }
        self.paid.insert(n);
    }

    /// What STATUS is to say.
    pub(in crate::engine::model) fn status_outcome(&self, n: u32, ask: &SetStatus<'_>) -> Outcome {
        let was = self.state(n);
        if was == State::Missing {
            Outcome::Missing
        } else if let Some(outcome) = self.in_way(n, &ask.guard, Some(ask.status)) {
            outcome
        } else if was == State::Finished && ask.payload.is_some() {
            Outcome::State
        } else {
            Outcome::Ok
        }
    }

    /// What is left of an order that gets another status now.
    pub(in crate::engine::model) fn status_set(&mut self, n: u32, ask: &SetStatus<'_>) {
        let rev = self.next_rev(n);
        let record = self.records.get_mut(&n).unwrap();
        record.rev = rev;
        record.status = ask.status.to_vec();
        if ask.guard.fence.is_none() && record.deadline.is_some() && record.grant.is_some() {
            record.since = record.since();
            record.plain = false;
            let grant = record.grant.take().unwrap();
            record.fp = None;
            record.dead |= grant.kind == LeaseKind::Claim && grant.last_try;
        }
        if let Some(payload) = ask.payload {
            record.payload = Some(payload.to_vec());
        }
    }
}
