//! SCHEDULE, FINISH and STATUS. Each returns the order it touched.

use super::super::world::World;
use super::Asked;
use crate::request::{Direction, Finish, Mode, Schedule, SetStatus, When};
use crate::words::time::WallMs;

impl World {
    /// SCHEDULE.
    pub(in crate::engine::model) fn schedule(&mut self) -> u32 {
        let n = self.any_id();
        let wall = self.wall();
        let when = match self.dice.below(20) {
            0 => When::In(0),
            1..=4 => When::In(self.dice.below(5)),
            5..=10 => When::In(self.dice.below(100)),
            11 => When::In(self.dice.below(100_000)),
            12 => When::In(self.dice.below(1 << 40)),
            13..=15 => When::At(WallMs((wall + self.dice.below(60)).next_multiple_of(16))),
            16 => When::At(WallMs(wall)),
            17 => When::At(WallMs(self.dice.below(wall))),
            _ => When::At(WallMs((wall + 50).saturating_sub(self.dice.below(100)))),
        };
        let mode = self.dice.pick(&[
            Mode::Create,
            Mode::Create,
            Mode::Create,
            Mode::Move,
            Mode::Upsert,
            Mode::Upsert,
        ]);
        let (mut only, mut asked) = (None, Asked::default());
        if mode != Mode::Create {
            asked = self.guard(n);
            only = self.dice.pick(&[
                None,
                None,
                None,
                Some(Direction::Later),
                Some(Direction::Earlier),
            ]);
        }
        let (status, payload) = (self.maybe_status(), self.maybe_text());
        let ask = Schedule {
            id: &self.ids[n as usize].clone(),
            when,
            mode,
            only,
            guard: asked.guard(),
            status: status.as_deref(),
            payload: payload.as_deref(),
        };
        self.compare_schedule(n, &ask);
        n
    }

    /// FINISH.
    pub(in crate::engine::model) fn finish(&mut self) -> u32 {
        let n = if self.dice.chance(300) {
            self.granted_id()
        } else {
            self.any_id()
        };
        let (strict, create) = (self.dice.chance(200), self.dice.chance(200));
        let mut asked = self.guard(n);
        if create {
            (asked.fence, asked.if_rev) = (None, None);
        }
        let (status, result) = (self.maybe_status(), self.maybe_text());
        let keep_ms = self
            .dice
            .pick(&[None, None, Some(0), Some(5), Some(300), Some(86_400_000)]);
        let ask = Finish {
            id: &self.ids[n as usize].clone(),
            strict,
            create,
            guard: asked.guard(),
            status: status.as_deref(),
            result: result.as_deref(),
            keep_ms,
        };
        self.compare_finish(n, &ask);
        n
    }

    /// STATUS.
    pub(in crate::engine::model) fn set_status(&mut self) -> u32 {
        let n = self.any_id();
        let asked = self.guard(n);
        let (status, payload) = (self.status(), self.maybe_text());
        let ask = SetStatus {
            id: &self.ids[n as usize].clone(),
            status: &status,
            guard: asked.guard(),
            payload: payload.as_deref(),
        };
        self.compare_status(n, &ask);
        n
    }
}
