//! REQUEUE and PURGE; CONFIG, PAUSE and RESUME.

use super::super::reference::TRANSITIONS;
use super::super::world::World;
use crate::engine::number::NUMBER_END;
use crate::engine::settings::Setting;
use crate::request::{Configure, Pause, Purge, Requeue};
use crate::words::state::State;

/// Names of the settings the run changes, with some values.
pub(in crate::engine::model) const SETTINGS: [(Setting, [u64; 3]); 7] = [
    (Setting::LockMsMax, [5, 100, 5_000]),
    (Setting::MaxAttempts, [1, 3, 0]),
    (Setting::MaxLeased, [2, 10, 0]),
    (Setting::KeepMs, [0, 20, 60_000]),
    (Setting::BackoffMs, [0, 7, 1_000]),
    (Setting::DeadMax, [0, 3, 1_000]),
    (Setting::LeaseMs, [1, 50, 20_000]),
];

impl World {
    /// REQUEUE.
    pub(in crate::engine::model) fn requeue(&mut self) {
        let count = self.dice.pick(&[1, 1, 3, 1000]);
        if self.dice.chance(200) {
            let asked: Vec<u32> = (0..count.min(20)).map(|_| self.any_id()).collect();
            let ids: Vec<Vec<u8>> = asked
                .iter()
                .map(|n| self.ids[*n as usize].clone())
                .collect();
            let ids = ids.iter().map(Vec::as_slice).collect();
            self.compare_requeue(&Requeue::Ids(ids));
            return;
        }
        let choice = [State::Dead, State::Dead, State::Retrying, State::Finished];
        let state = self.dice.pick(&choice);
        let status = self.dice.chance(200).then(|| self.status());
        let pattern: Option<&[u8]> = self.dice.chance(100).then_some(b"*1*");
        self.compare_requeue(&Requeue::Next(Purge {
            state,
            status: status.as_deref(),
            pattern,
            count,
        }));
    }

    /// PURGE.
    pub(in crate::engine::model) fn purge(&mut self) {
        let state = self.dice.pick(&State::LISTED);
        let status = self.dice.chance(400).then(|| self.status());
        let pattern: Option<&[u8]> = self.dice.chance(300).then_some(b"*1*");
        let count = self.dice.pick(&[1, 1, 2, 2, 5, 1000]);
        let ask = Purge {
            state,
            status: status.as_deref(),
            pattern,
            count,
        };
        self.compare_purge(&ask);
    }

    /// CONFIG, PAUSE and RESUME; and the floor, which a restored queue may raise.
    pub(in crate::engine::model) fn configure(&mut self) {
        if self.dice.chance(300) && !self.kind.is_exact() {
            if self.dice.chance(500) {
                let ms = self.dice.chance(700).then(|| 1 + self.dice.below(200));
                self.compare_pause(&Pause {
                    ms,
                    reason: b"lunch",
                });
            } else {
                self.compare_resume();
            }
            return;
        }
        if self.dice.chance(100) {
            let far = [4_070_908_810_022_341, NUMBER_END - (1 << 40) - 40];
            let floor = if self.kind.far && self.dice.chance(50) {
                self.dice.pick(&far).max(self.floor)
            } else {
                self.floor.max(1) + self.dice.below(3_000)
            };
            self.raise_floor(floor);
            return;
        }
        let (setting, values) = self.dice.pick(&SETTINGS);
        let value = self.dice.pick(&values);
        let text = value.to_string().into_bytes();
        let name = setting.name().as_bytes();
        let lists = self.dice.chance(20);
        let ask = match self.dice.below(20) {
            0..=10 if lists => Configure::Set(vec![
                (name, text.as_slice()),
                (&b"transitions"[..], TRANSITIONS),
            ]),
            0..=8 => Configure::Set(vec![(name, text.as_slice())]),
            9 | 10 => Configure::Set(vec![(name, text.as_slice()), (&b"lease-ms"[..], b"0")]),
            11 => Configure::Set(vec![(name, text.as_slice()), (&b"no-such"[..], b"1")]),
            12..=14 => Configure::Reset(None),
            15 | 16 => Configure::Reset(Some(b"transitions")),
            _ => Configure::Reset(Some(name)),
        };
        self.compare_configure(setting, value, &ask);
    }
}
