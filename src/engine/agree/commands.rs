//! Random commands: on one order, CLAIM, and on the queue.

use super::life::Life;
use super::{IDS, LENGTHS};
use crate::engine::decide::Env;
use crate::engine::effect::Effect;
use crate::request::{
    Ack, Again, Break, Claim, Configure, Direction, Finish, Guard, Lock, Mode, Nack, Pause, Pick,
    Purge, Renew, Requeue, Schedule, SetStatus, Unlock, When,
};
use crate::words::state::State;
use crate::words::time::{Now, WallMs};

impl Life {
    /// The fence of the last grant of an order, 1 where there is none.
    pub(super) fn fence(&self, id: &[u8]) -> u64 {
        let view = self.queue.view(&self.now(), id);
        view.map_or(1, |view| view.fence.max(1))
    }

    /// A deadline.
    fn when(&mut self) -> When {
        let wall = self.wall_us / 1000;
        match self.dice.below(4) {
            0 => When::In(0),
            1 => When::In(self.dice.pick(&LENGTHS)),
            2 => When::At(WallMs(wall - self.dice.below(5_000))),
            _ => When::At(WallMs(wall + self.dice.below(5_000))),
        }
    }

    /// A guard, mostly none.
    fn guard(&mut self, id: &[u8]) -> Guard<'static> {
        let fence = self.dice.chance(300).then(|| self.fence(id));
        Guard {
            from: if self.dice.chance(100) {
                vec![b"s"]
            } else {
                Vec::new()
            },
            if_rev: None,
            fence,
        }
    }

    /// One command on one order.
    pub(super) fn command(&mut self) {
        let id = self.dice.pick(&IDS);
        let fence = self.fence(id);
        let lease_ms = self.dice.pick(&LENGTHS);
        match self.dice.below(12) {
            0..=3 => {
                let mode = self.dice.pick(&[Mode::Create, Mode::Move, Mode::Upsert]);
                let is_move = mode != Mode::Create;
                let ask = Schedule {
                    id,
                    when: self.when(),
                    mode,
                    only: (is_move && self.dice.chance(200)).then_some(Direction::Later),
                    guard: if is_move {
                        self.guard(id)
                    } else {
                        Guard::default()
                    },
                    status: self.dice.chance(300).then_some(b"s"),
                    payload: self.dice.chance(300).then_some(b"payload"),
                };
                self.ask(|queue, env| queue.decide_schedule(env, &ask));
            }
            4 => {
                let ask = Finish {
                    id,
                    strict: self.dice.chance(200),
                    create: false,
                    guard: self.guard(id),
                    status: None,
                    result: self.dice.chance(300).then_some(b"result"),
                    keep_ms: self.dice.pick(&[None, Some(0), Some(50)]),
                };
                self.ask(|queue, env| queue.decide_finish(env, &ask));
            }
            5 => {
                let ask = SetStatus {
                    id,
                    status: b"s",
                    guard: self.guard(id),
                    payload: None,
                };
                self.ask(|queue, env| queue.decide_status(env, &ask));
            }
            6 => {
                let ask = Ack {
                    id,
                    fence,
                    from: Vec::new(),
                    status: None,
                    result: None,
                    keep_ms: None,
                };
                self.ask(|queue, env| queue.decide_ack(env, &ask));
            }
            7 => {
                let ms = self.dice.pick(&LENGTHS);
                let again = self.dice.pick(&[
                    Again::Backoff,
                    Again::Delay(0),
                    Again::Delay(0),
                    Again::Delay(ms),
                    Again::Dead,
                ]);
                let ask = Nack {
                    id,
                    fence,
                    again,
                    error: None,
                    untried: again != Again::Dead && self.dice.chance(300),
                };
                self.ask(|queue, env| queue.decide_nack(env, &ask));
            }
            8 => {
                let shorten = self.dice.chance(500);
                let ask = Renew {
                    id,
                    fence,
                    lease_ms,
                    shorten,
                    session: false,
                };
                self.ask(|queue, env| queue.decide_renew(env, &ask));
            }
            9 | 10 => {
                let ask = Lock {
                    id,
                    owner: self.dice.pick(&[b"one", b"two"]),
                    lease_ms,
                    reentrant: self.dice.chance(300),
                    max_ms: None,
                    fp: None,
                    block_ms: None,
                    must_exist: self.dice.chance(100),
                    session: false,
                };
                self.ask(|queue, env| queue.decide_lock(env, &ask, false));
            }
            _ if self.dice.chance(500) => {
                let ask = Unlock { id, fence };
                self.ask(|queue, env| queue.decide_unlock(env, &ask));
            }
            _ => {
                let ask = Break { id, fence: None };
                self.ask(|queue, env| queue.decide_break(env, &ask));
            }
        }
    }

    /// CLAIM, of the next ones or of one. Returns the orders.
    pub(super) fn claim(&mut self, count: u32, id: Option<&[u8]>) -> Vec<Vec<u8>> {
        let ask = Claim {
            owner: b"closer",
            lease_ms: Some(self.dice.pick(&LENGTHS)),
            pick: match id {
                Some(id) => Pick::Id(id),
                None => Pick::Next {
                    count,
                    block_ms: None,
                },
            },
            session: false,
        };
        let mut env = Env {
            now: Now {
                wall_us: self.wall_us,
                mono_us: self.mono_us,
            },
            numbers: &mut self.numbers,
            defaults: &self.defaults,
        };
        self.queue.advance(&env.now, &mut || true);
        let claimed = self.queue.decide_claim(&mut env, &ask).unwrap();
        let Some(effect) = claimed.effect else {
            return Vec::new();
        };
        self.carry(&effect);
        let Effect::Claim { grants, .. } = effect else {
            panic!("a claim claims")
        };
        grants.iter().map(|granted| granted.id.to_vec()).collect()
    }

    /// A command on the queue, or a part of a pass.
    pub(super) fn command_on_queue(&mut self) {
        let now = self.now();
        match self.dice.below(9) {
            0 | 1 => {
                let mut budget = self.dice.below(3);
                self.queue.advance(&now, &mut || {
                    budget = budget.saturating_sub(1);
                    budget > 0
                });
            }
            2 | 3 => {
                let max = self.dice.pick(&[1, 2, 100]);
                self.queue.announce(&now, max, &mut Vec::new());
            }
            4 => {
                if let Some(effect) = self.queue.due_forget(&now, &self.defaults, 3) {
                    self.carry(&effect);
                }
            }
            5 => {
                let mut env = Env {
                    now,
                    numbers: &mut self.numbers,
                    defaults: &self.defaults,
                };
                let ask = Requeue::Next(Purge {
                    state: self.dice.pick(&[State::Dead, State::Retrying]),
                    status: None,
                    pattern: None,
                    count: 2,
                });
                let swept = self
                    .queue
                    .decide_requeue(&mut env, &ask, &|_| true)
                    .unwrap();
                if let Some(effect) = swept.effect {
                    self.carry(&effect);
                }
            }
            6 => {
                let ask = Purge {
                    state: self.dice.pick(&State::LISTED),
                    status: self.dice.chance(500).then_some(b"s"),
                    pattern: None,
                    count: 2,
                };
                let swept = self.queue.decide_purge(&now, &ask, &|_| true);
                self.queue.sweep_on(&swept);
                if let Some(effect) = swept.effect {
                    self.carry(&effect);
                }
            }
            7 => {
                let value = self.dice.pick(&[&b"1"[..], b"0"]);
                let name = self.dice.pick(&[&b"max-leased"[..], b"max-attempts"]);
                let ask = Configure::Set(vec![(name, value)]);
                for effect in self.queue.decide_configure(&ask).unwrap() {
                    self.carry(&effect);
                }
            }
            _ if self.dice.chance(300) => {
                let env = Env {
                    now,
                    numbers: &mut self.numbers,
                    defaults: &self.defaults,
                };
                let ask = Pause {
                    ms: Some(self.dice.pick(&LENGTHS)),
                    reason: b"",
                };
                if let Some(effect) = self.queue.decide_pause(&env, &ask).1 {
                    self.carry(&effect);
                }
            }
            _ => {
                if let Some(effect) = self.queue.decide_resume(&self.now()).1 {
                    self.carry(&effect);
                }
            }
        }
    }
}
