//! SCHEDULE, FINISH and STATUS.

use super::super::world::World;
use crate::request::{Finish, Schedule, SetStatus};

impl World {
    /// SCHEDULE.
    pub(in crate::engine::model) fn compare_schedule(&mut self, n: u32, ask: &Schedule<'_>) {
        let decided = self.ask(|queue, env| queue.decide_schedule(env, ask));
        let (was, outcome) = (self.state(n), self.schedule_outcome(n, ask));
        if self.judge(n, decided, outcome, was) {
            self.scheduled(n, ask);
        }
    }

    /// FINISH.
    pub(in crate::engine::model) fn compare_finish(&mut self, n: u32, ask: &Finish<'_>) {
        let decided = self.ask(|queue, env| queue.decide_finish(env, ask));
        let (was, outcome) = (self.state(n), self.finish_outcome(n, ask));
        if self.judge(n, decided, outcome, was) {
            let by_holder = ask.guard.fence.is_some();
            self.finished(n, ask.status, ask.result, ask.keep_ms, by_holder);
        }
    }

    /// STATUS.
    pub(in crate::engine::model) fn compare_status(&mut self, n: u32, ask: &SetStatus<'_>) {
        let decided = self.ask(|queue, env| queue.decide_status(env, ask));
        let (was, outcome) = (self.state(n), self.status_outcome(n, ask));
        if self.judge(n, decided, outcome, was) {
            self.status_set(n, ask);
        }
    }
}
