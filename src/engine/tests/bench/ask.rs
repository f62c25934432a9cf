//! One command of a client: through the grammar, decided, carried out, and told.

use std::fmt::Write as _;

use super::Bench;
use crate::engine::control::Swept;
use crate::engine::decide::Env;
use crate::engine::effect::Effect;
use crate::engine::outcome::{Decision, Outcome};
use crate::engine::testing::digest;
use crate::engine::view::OrderView;
use crate::error::Error;
use crate::request::{
    Ack, Configure, Fenced, Finish, Limits, Nack, Renew, Request, Requeue, Schedule, Verb, parse,
};
use crate::words::glob;
use crate::words::state::State;

impl Bench {
    /// Does one command of a client.
    pub(super) fn command(&mut self, name: &[u8], rest: &[Vec<u8>]) -> String {
        let full = [b"order.".as_slice(), &name.to_ascii_lowercase()].concat();
        let verb = Verb::ALL
            .into_iter()
            .find(|verb| verb.command().as_bytes() == full)
            .expect("a command");
        let mut args: Vec<&[u8]> = vec![&full, b"queue"];
        args.extend(rest.iter().map(Vec::as_slice));
        let limits = Limits {
            lease_ms_max: self.defaults.lease_ms_max,
            payload_bytes_max: 4 << 20,
        };
        let request = match parse(verb, &args, &limits) {
            Ok(request) => request,
            Err(error) => return error.to_string(),
        };
        self.ask(&request)
    }

    /// Does a batch: what is checked before, then each order as by itself.
    fn ask_each<'a>(
        &mut self,
        checked: Result<(), Error>,
        requests: impl Iterator<Item = Request<'a>>,
    ) -> String {
        if let Err(error) = checked {
            return error.to_string();
        }
        let said: Vec<String> = requests.map(|request| self.ask(&request)).collect();
        said.join(", ")
    }

    /// What is checked before a batch on leases.
    fn check_fenced(&self, orders: &[Fenced<'_>]) -> Result<(), Error> {
        let ids = orders.iter().map(|order| order.id);
        self.queue.check_numbers(ids, false)
    }

    /// Does one request.
    pub(in crate::engine::tests) fn ask(&mut self, request: &Request<'_>) -> String {
        let now = self.now();
        let mut numbers = self.numbers;
        let defaults = self.defaults.clone();
        let mut env = Env {
            now,
            numbers: &mut numbers,
            defaults: &defaults,
        };
        let before = if self.compares {
            digest(&self.queue)
        } else {
            Vec::new()
        };
        let (id, decision) = match request {
            Request::Mschedule(ask) => {
                let checked = self.queue.check_mschedule(&now, ask);
                let orders = ask.orders.iter().map(|order| {
                    Request::Schedule(Schedule {
                        id: order.id,
                        when: order.when,
                        payload: order.payload,
                        ..ask.each.clone()
                    })
                });
                return self.ask_each(checked, orders);
            }
            Request::Mfinish(ask) => {
                let checked = self.queue.check_mfinish(ask);
                let orders = ask.orders.iter().map(|id| {
                    Request::Finish(Finish {
                        id,
                        ..ask.each.clone()
                    })
                });
                return self.ask_each(checked, orders);
            }
            Request::Schedule(ask) => (ask.id, self.queue.decide_schedule(&mut env, ask)),
            Request::Finish(ask) => (ask.id, self.queue.decide_finish(&mut env, ask)),
            Request::Status(ask) => (ask.id, self.queue.decide_status(&mut env, ask)),
            Request::Ack(ask) => (ask.id, self.queue.decide_ack(&mut env, ask)),
            Request::Nack(ask) => (ask.id, self.queue.decide_nack(&mut env, ask)),
            Request::Renew(ask) => (ask.id, self.queue.decide_renew(&mut env, ask)),
            Request::Lock(ask) => (ask.id, self.queue.decide_lock(&mut env, ask, self.queued)),
            Request::Unlock(ask) => (ask.id, self.queue.decide_unlock(&mut env, ask)),
            Request::Break(ask) => (ask.id, self.queue.decide_break(&mut env, ask)),
            Request::Claim(ask) => {
                self.queue.advance(&now, &mut || true);
                let claimed = match self.queue.decide_claim(&mut env, ask) {
                    Ok(claimed) => claimed,
                    Err(error) => return error.to_string(),
                };
                assert_eq!(claimed.effect.is_some(), !claimed.picks.is_empty());
                if self.compares {
                    assert_eq!(before, digest(&self.queue), "deciding is no write");
                }
                self.numbers = numbers;
                let Some(effect) = claimed.effect else {
                    return "-".into();
                };
                let Effect::Claim { grants, .. } = &effect else {
                    panic!("{effect:?}")
                };
                assert_eq!(grants.len(), claimed.picks.len());
                let mut said = String::new();
                for (granted, i) in grants.iter().zip(&claimed.picks) {
                    let view = self.queue.view_at(&now, *i).unwrap();
                    assert_eq!((view.id, view.state), (&*granted.id, State::Expired));
                    let _ = write!(said, "{}#{} ", granted.id.escape_ascii(), granted.attempt);
                    self.fences
                        .entry(granted.id.to_vec())
                        .or_default()
                        .push(granted.fence);
                }
                self.carry(&effect);
                let count = claimed.picks.len() as u64;
                self.queue.spend_claims(&now, &defaults, count);
                return said.trim_end().to_owned();
            }
            Request::Get { id } => return self.get(id),
            Request::Pttl { id } => {
                return match self.queue.view(&now, id) {
                    None => "-2".into(),
                    Some(OrderView { deadline: None, .. }) => "-1".into(),
                    Some(OrderView {
                        deadline: Some(deadline),
                        ..
                    }) => deadline.0.saturating_sub(now.wall_ms().0).to_string(),
                };
            }
            Request::Next { count } => {
                let rows = self.queue.next(&now, *count as usize);
                let rows: Vec<String> = rows
                    .iter()
                    .map(|(id, deadline)| format!("{}{}", id.escape_ascii(), Self::at(*deadline)))
                    .collect();
                return if rows.is_empty() {
                    "-".into()
                } else {
                    rows.join(" ")
                };
            }
            Request::Scan(ask) => {
                let pattern = ask.pattern.unwrap_or(b"*");
                let (cursor, rows) = self.queue.scan(&now, ask, &|id| glob::matches(pattern, id));
                let mut said = cursor.to_string();
                for row in rows {
                    let _ = write!(said, " {}:{}", row.id.escape_ascii(), row.state.word());
                }
                return said;
            }
            Request::Config(Configure::Get(only)) => {
                let settings = match self.queue.settings(&defaults, *only) {
                    Ok(settings) => settings,
                    Err(error) => return error.to_string(),
                };
                let each: Vec<String> = settings
                    .iter()
                    .map(|(name, value)| format!("{name}={}", value.escape_ascii()))
                    .collect();
                return each.join(" ");
            }
            Request::Config(ask) => {
                let effects = match self.queue.decide_configure(ask) {
                    Ok(effects) => effects,
                    Err(error) => return error.to_string(),
                };
                return self.carry_all(&effects);
            }
            Request::Pause(ask) => {
                let (outcome, effect) = self.queue.decide_pause(&env, ask);
                return self.hold(outcome, effect);
            }
            Request::Resume => {
                let (outcome, effect) = self.queue.decide_resume(&now);
                return self.hold(outcome, effect);
            }
            Request::Requeue(ask) => {
                self.queue.advance(&now, &mut || true);
                let pattern = match ask {
                    Requeue::Next(ask) => ask.pattern.unwrap_or(b"*"),
                    Requeue::Ids(_) => b"*",
                };
                let matches = |id: &[u8]| glob::matches(pattern, id);
                return match self.queue.decide_requeue(&mut env, ask, &matches) {
                    Ok(swept) => {
                        self.queue.sweep_on(&swept);
                        self.sweep(&swept)
                    }
                    Err(error) => error.to_string(),
                };
            }
            Request::Release(ask) => {
                let swept = self.queue.decide_release(&now, ask);
                return self.sweep(&swept);
            }
            Request::Purge(ask) => {
                self.queue.advance(&now, &mut || true);
                let pattern = ask.pattern.unwrap_or(b"*");
                let swept = self
                    .queue
                    .decide_purge(&now, ask, &|id| glob::matches(pattern, id));
                self.queue.sweep_on(&swept);
                return self.sweep(&swept);
            }
            Request::Mack(ask) => {
                let orders = ask.orders.iter().map(|order| {
                    Request::Ack(Ack {
                        id: order.id,
                        fence: order.fence,
                        status: order.status.or(ask.each.status),
                        ..ask.each.clone()
                    })
                });
                return self.ask_each(self.check_fenced(&ask.orders), orders);
            }
            Request::Mnack(ask) => {
                let orders = ask.orders.iter().map(|order| {
                    Request::Nack(Nack {
                        id: order.id,
                        fence: order.fence,
                        ..ask.each.clone()
                    })
                });
                return self.ask_each(self.check_fenced(&ask.orders), orders);
            }
            Request::Mrenew(ask) => {
                let orders = ask.orders.iter().map(|order| {
                    Request::Renew(Renew {
                        id: order.id,
                        fence: order.fence,
                        ..ask.each
                    })
                });
                return self.ask_each(self.check_fenced(&ask.orders), orders);
            }
            Request::Stats | Request::Apply(_) => {
                panic!("not for stories: {request:?}")
            }
        };
        let said = self.finish(id, decision);
        self.numbers = numbers;
        let lease = self
            .queue
            .view(&now, id)
            .map(|view| (view.fence, view.lease_ms, view.holds));
        if said.starts_with("HELD") {
            let (_, left, holds) = lease.unwrap();
            return format!("HELD {} x{holds}", left.unwrap());
        }
        if said.starts_with("OK") {
            match request {
                Request::Renew(_) => {
                    let left = lease.and_then(|(_, left, _)| left);
                    return format!("OK {}", left.map_or(-2, |left| left as i64));
                }
                Request::Lock(_) => {
                    let (fence, _, holds) = lease.unwrap();
                    assert_eq!(holds, 1);
                    self.fences.entry(id.to_vec()).or_default().push(fence);
                }
                _ => {}
            }
        } else if self.compares {
            assert_eq!(before, digest(&self.queue), "a refusal is no write");
        }
        said
    }

    /// Carries a decision out and says what came of it:
    /// `outcome state-met>state-after`, or `outcome state` where nothing changed.
    pub(super) fn finish(&mut self, id: &[u8], decision: Result<Decision<'_>, Error>) -> String {
        let decision = match decision {
            Ok(decision) => decision,
            Err(error) => return error.to_string(),
        };
        // P12: OK if and only if something is done; HELD aside.
        assert_eq!(
            matches!(decision.outcome, Outcome::Ok | Outcome::Held),
            decision.effect.is_some(),
            "{decision:?}"
        );
        assert_eq!(
            decision.was,
            self.state(id),
            "the state met is the one GET shows"
        );
        self.queue.note(decision.outcome);
        let Some(effect) = decision.effect else {
            return format!("{} {}", decision.outcome.word(), decision.was.word());
        };
        self.carry(&effect);
        format!(
            "{} {}>{}",
            decision.outcome.word(),
            decision.was.word(),
            self.state(id).word()
        )
    }

    /// Carries out what was decided on many orders: their ids, or `-`, and how
    /// many are left.
    pub(super) fn sweep(&mut self, swept: &Swept) -> String {
        let mut said = String::new();
        if let Some(effect) = &swept.effect {
            self.carry(effect);
            let mut ids = Vec::new();
            effect.each_id(&mut |id| ids.push(id));
            assert_eq!(ids.len() as u64, swept.done);
            for id in ids {
                let _ = write!(said, "{} ", id.escape_ascii());
            }
        } else {
            assert_eq!(swept.done, 0, "P12");
            said.push_str("- ");
        }
        let _ = write!(said, "left:{}", swept.left);
        said
    }
}
