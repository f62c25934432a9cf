//! A primary and a replica that are told absurd things, and how they are compared.

use super::IDS;
use crate::codec;
use crate::engine::decide::Env;
use crate::engine::effect::Effect;
use crate::engine::number::Numbers;
use crate::engine::outcome::{Decision, Outcome};
use crate::engine::queue::{Duty, Queue};
use crate::engine::settings::Defaults;
use crate::engine::testing::{Dice, digest, loaded};
use crate::error::Error;
use crate::request::{Configure, Limits, Request, Verb, parse};
use crate::words::state::State;
use crate::words::time::Now;

/// A primary and its replica.
pub(super) struct World {
    pub(super) primary: Queue,
    pub(super) replica: Queue,
    pub(super) numbers: Numbers,
    pub(super) defaults: Defaults,
    /// The clocks of the primary.
    pub(super) now: Now,
    /// Milliseconds that the replica's wall clock is ahead.
    pub(super) ahead_ms: i64,
    /// Effects that were decided, for the last look at whether the run meant anything.
    pub(super) decided: u64,
}

impl World {
    /// The clocks of the replica.
    pub(super) fn replicas_now(&self) -> Now {
        Now {
            wall_us: self
                .now
                .wall_us
                .saturating_add_signed(self.ahead_ms * 1000 + 333),
            mono_us: self.now.mono_us + 777_777,
        }
    }

    /// Carries out what the codec took, here and on the replica.
    pub(super) fn carry(&mut self, effect: &Effect<'_>, is_decided: bool) {
        let mut blob = Vec::new();
        if let Err(error) = codec::encode(effect, &mut blob) {
            assert!(!is_decided, "decided and not storable: {error}: {effect:?}");
            return;
        }
        self.decided += u64::from(is_decided);
        let decoded = codec::decode(codec::VERSION, &blob).unwrap();
        assert_eq!(decoded.as_slice(), std::slice::from_ref(effect));
        let mut events = Vec::new();
        let known = self.primary.apply(&self.now, effect, &mut events);
        assert!(known || !is_decided, "decided for nobody: {effect:?}");
        let now = self.replicas_now();
        self.replica.apply(&now, &decoded[0], &mut Vec::new());
    }

    /// One decision, if it is one.
    fn decision(&mut self, decision: Result<Decision<'_>, Error>) {
        match decision {
            Ok(decision) => {
                let done = matches!(decision.outcome, Outcome::Ok | Outcome::Held);
                assert_eq!(done, decision.effect.is_some(), "{decision:?}");
                if let Some(effect) = &decision.effect {
                    self.carry(effect, true);
                }
            }
            Err(Error::NumbersUsedUp | Error::DeadlineTooFar | Error::QueueFull) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Does one command of a client.
    pub(super) fn ask(&mut self, verb: Verb, args: &[Vec<u8>]) {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let limits = Limits {
            lease_ms_max: self.defaults.lease_ms_max,
            payload_bytes_max: 4 << 20,
        };
        let Ok(request) = parse(verb, &args, &limits) else {
            return;
        };
        let mut numbers = self.numbers;
        let defaults = self.defaults.clone();
        let mut env = Env {
            now: self.now,
            numbers: &mut numbers,
            defaults: &defaults,
        };
        let queue = &mut self.primary;
        let mut effects = Vec::new();
        let decided = match &request {
            Request::Schedule(ask) => queue.decide_schedule(&mut env, ask),
            Request::Finish(ask) => queue.decide_finish(&mut env, ask),
            Request::Status(ask) => queue.decide_status(&mut env, ask),
            Request::Ack(ask) => queue.decide_ack(&mut env, ask),
            Request::Nack(ask) => queue.decide_nack(&mut env, ask),
            Request::Renew(ask) => queue.decide_renew(&mut env, ask),
            Request::Lock(ask) => queue.decide_lock(&mut env, ask, false),
            Request::Unlock(ask) => queue.decide_unlock(&mut env, ask),
            Request::Break(ask) => queue.decide_break(&mut env, ask),
            other => {
                match other {
                    Request::Claim(ask) => {
                        queue.advance(&self.now, &mut || true);
                        if let Ok(claimed) = queue.decide_claim(&mut env, ask) {
                            for i in &claimed.picks {
                                let view = queue.view_at(&self.now, *i).unwrap();
                                assert_eq!(view.state, State::Expired);
                            }
                            effects.extend(claimed.effect);
                        }
                    }
                    Request::Config(ask @ Configure::Reset(None)) => {
                        effects.extend(queue.decide_configure(ask).unwrap());
                    }
                    Request::Pause(ask) => effects.extend(queue.decide_pause(&env, ask).1),
                    Request::Resume => effects.extend(queue.decide_resume(&self.now).1),
                    Request::Release(ask) => {
                        effects.extend(queue.decide_release(&self.now, ask).effect);
                    }
                    Request::Requeue(ask) => {
                        queue.advance(&self.now, &mut || true);
                        if let Ok(swept) = queue.decide_requeue(&mut env, ask, &|_| true) {
                            effects.extend(swept.effect);
                        }
                    }
                    Request::Purge(ask) => {
                        queue.advance(&self.now, &mut || true);
                        let swept = queue.decide_purge(&self.now, ask, &|_| true);
                        effects.extend(swept.effect);
                    }
                    _ => {}
                }
                self.numbers = numbers;
                for effect in &effects {
                    self.carry(effect, true);
                }
                return;
            }
        };
        self.numbers = numbers;
        self.decision(decided);
    }

    /// What time brings.
    pub(super) fn pass(&mut self, dice: &mut Dice<'_>) {
        let now = self.now;
        match dice.below(5) {
            0 => {
                let mut budget = dice.below(5);
                self.primary.advance(&now, &mut || {
                    budget = budget.saturating_sub(1);
                    budget > 0
                });
            }
            1 => {
                let max = dice.below(5) as usize;
                self.primary.announce(&now, max, &mut Vec::new());
            }
            2 => {
                if let Some(effect) = self.primary.due_forget(&now, &self.defaults, 2) {
                    self.carry(&effect, true);
                }
            }
            3 => {
                self.primary.next_wake(&now, Duty::All);
                self.primary.next(&now, 5);
                self.primary.stats(&now, &self.defaults, (0, 0));
                self.replica.advance(&self.replicas_now(), &mut || true);
            }
            _ => self.primary.announce_again(),
        }
    }

    /// Holds everything against everything.
    pub(super) fn compare(&self) {
        self.primary.check();
        self.replica.check();
        let ground = digest(&self.primary);
        assert_eq!(ground, digest(&self.replica), "the replica");
        let again = loaded(&self.primary, &self.replicas_now(), &self.defaults);
        again.check();
        assert_eq!(ground, digest(&again), "what is saved");
        let again = loaded(&again, &self.now, &self.defaults);
        assert_eq!(ground, digest(&again), "what is saved of that");
        for id in IDS {
            let Some(lease_ms) = again.view(&self.now, id).and_then(|view| view.lease_ms) else {
                continue;
            };
            assert!(lease_ms <= self.defaults.lease_ms_max, "{lease_ms}");
        }
    }
}
