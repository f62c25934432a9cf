//! Decisions on a queue as a whole: its settings, its pause, many orders at once.
//! For operators; each looks at no more records than it is told to.

use std::collections::BTreeSet;

use super::decide::Env;
use super::effect::{Bytes, Effect, LeaseOf, Requeued};
use super::outcome::Outcome;
use super::queue::Queue;
use super::record::Record;
use super::settings::{Defaults, Setting, is_value, setting_name};
use super::tables::NIL;
use super::views::{by_deadline, by_keep, by_lease};
use crate::error::Error;
use crate::request::{Configure, Pause, Purge, Release, Requeue, Sweep};
use crate::words::glob;
use crate::words::state::State;
use crate::words::time::Now;

/// How many records a walk with a filter looks at for each one it may take.
const SWEEP_LOOKS: usize = 10;

/// What a command on many orders comes to.
#[derive(Debug, PartialEq)]
pub struct Swept {
    /// What to do; `None`: nothing.
    pub effect: Option<Effect<'static>>,
    /// How many orders it is done to.
    pub done: u64,
    /// How many of those that were asked for are left.
    pub left: u64,
    /// Where the next command with a filter is to go on, see [`Queue::sweep_on`].
    pub sweep_at: u32,
}

impl Queue {
    /// Decides `ORDER.CONFIG … SET` and `RESET`: the effects, in order. All or
    /// nothing: every name and value is checked first.
    pub fn decide_configure<'a>(&self, ask: &Configure<'a>) -> Result<Vec<Effect<'a>>, Error> {
        match ask {
            Configure::Get(_) => Ok(Vec::new()),
            Configure::Set(pairs) => pairs
                .iter()
                .map(|(name, value)| {
                    Ok(Effect::Configure {
                        name: Bytes::of(check_setting(name, value)?),
                        value: Some(Bytes::of(value)),
                    })
                })
                .collect(),
            Configure::Reset(Some(name)) => {
                let name = known_setting(name)?;
                let is_set = self
                    .busy
                    .own
                    .iter()
                    .flat_map(|own| own.each())
                    .any(|(own, _)| own == name);
                let effect = Effect::Configure {
                    name: Bytes::of(name),
                    value: None,
                };
                Ok(if is_set { vec![effect] } else { Vec::new() })
            }
            Configure::Reset(None) => {
                let names = self.busy.own.iter().flat_map(|own| own.each());
                Ok(names
                    .map(|(name, _)| Effect::Configure {
                        name: Bytes::of(name),
                        value: None,
                    })
                    .collect())
            }
        }
    }

    /// The settings as ORDER.CONFIG GET answers them: name, text, in order; one
    /// or all.
    pub fn settings(
        &self,
        defaults: &Defaults,
        only: Option<&[u8]>,
    ) -> Result<Vec<(&'static str, Vec<u8>)>, Error> {
        let only = only.map(known_setting).transpose()?;
        let numbers = Setting::ALL.map(|setting| {
            (
                setting.name(),
                self.setting(setting, defaults).to_string().into_bytes(),
            )
        });
        let transitions = self
            .busy
            .own
            .as_ref()
            .and_then(|own| own.transitions())
            .unwrap_or(&[])
            .to_vec();
        let all = numbers.into_iter().chain([("transitions", transitions)]);
        Ok(all
            .filter(|(name, _)| only.is_none_or(|only| only == name.as_bytes()))
            .collect())
    }

    /// Whether there is such a queue, as far as [`Queue::advance`] has got: an order that
    /// does not read as missing, a setting of its own, or a pause. O(256).
    pub fn is_there(&self, now: &Now) -> bool {
        self.busy.own.is_some()
            || self.is_paused(now)
            || State::LISTED
                .iter()
                .any(|state| self.count(now, *state) > 0)
    }

    /// Decides `ORDER.PAUSE`: `MISSING`, or `OK` and what to do. A second one replaces
    /// the first. O(256).
    pub fn decide_pause<'a>(
        &self,
        env: &Env<'_>,
        ask: &Pause<'a>,
    ) -> (Outcome, Option<Effect<'a>>) {
        if !self.is_there(&env.now) {
            return (Outcome::Missing, None);
        }
        let until = ask.ms.map(|ms| env.now.wall_ms_ceil().plus(ms));
        let effect = Effect::Pause {
            on: true,
            until,
            reason: Bytes::of(ask.reason),
        };
        (Outcome::Ok, Some(effect))
    }

    /// Decides `ORDER.RESUME`: `MISSING`, or `OK` and what to do, which is nothing where
    /// there is no pause. O(256).
    pub fn decide_resume(&self, now: &Now) -> (Outcome, Option<Effect<'static>>) {
        if !self.is_there(now) {
            return (Outcome::Missing, None);
        }
        let effect = self.busy.pause.as_ref().map(|_| Effect::Pause {
            on: false,
            until: None,
            reason: Bytes::of(b""),
        });
        (Outcome::Ok, effect)
    }

    /// Decides `ORDER.REQUEUE`. Without a filter: the longest dead orders first, or those
    /// whose retry wait ends first, and calls repeated until `left` is 0 take all; O(count),
    /// of retrying ones also O(leases that end before). With a filter as
    /// [`Queue::decide_purge`]. By ids: O(ids), and `left` counts those that were not moved.
    ///
    /// # Errors
    /// [`Error::NumbersUsedUp`] where there is no rev left.
    pub fn decide_requeue(
        &self,
        env: &mut Env<'_>,
        ask: &Requeue<'_>,
        matches: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Swept, Error> {
        let (now, rows) = (env.now, &self.store.rows);
        let mut sweep_at = self.busy.sweep_at;
        let is_moved = |i: &u32| matches!(rows.state(*i, &now), State::Dead | State::Retrying);
        let (handles, all) = match ask {
            Requeue::Ids(ids) => {
                let mut seen = BTreeSet::new();
                let found = ids.iter().filter_map(|id| self.store.find(id));
                let found: Vec<_> = found.filter(|i| is_moved(i) && seen.insert(*i)).collect();
                (found, ids.len() as u64)
            }
            Requeue::Next(ask) => {
                let found = match ask.state {
                    State::Dead if !ask.is_filtered() => {
                        let dead = self.busy.dead.iter(rows).filter(is_moved);
                        dead.take(ask.count as usize).collect()
                    }
                    State::Retrying if !ask.is_filtered() => self.retrying(&now, ask.count),
                    State::Dead | State::Retrying => self.walk(&now, ask, matches, &mut sweep_at),
                    _ => Vec::new(),
                };
                (found, self.count(&now, ask.state))
            }
        };
        let orders: Vec<_> = handles
            .iter()
            .map(|i| Requeued {
                id: Bytes::copied(rows.id(*i)),
                attempt: match rows.state(*i, &now) {
                    State::Retrying => rows.extra(*i).map_or(0, |extra| extra.attempt),
                    _ => 0,
                },
            })
            .collect();
        let done = orders.len() as u64;
        let effect = if done == 0 {
            None
        } else {
            let rev = env.numbers.write(env.now.wall_us, self.floor);
            let rev = rev.ok_or(Error::NumbersUsedUp)?;
            Some(Effect::Requeue { rev, orders })
        };
        Ok(Swept {
            effect,
            done,
            left: all.saturating_sub(done),
            sweep_at,
        })
    }

    /// The first `count` retrying orders by the end of their wait. O(count, and leases
    /// that end before).
    fn retrying(&self, now: &Now, count: u32) -> Vec<u32> {
        let rows = &self.store.rows;
        let wanted = self.busy.tally.retrying.min(count) as usize;
        let mut found = Vec::new();
        if wanted > 0 {
            let leases = by_lease(rows);
            self.busy.leases.for_each_in_order(&leases, &mut |i| {
                if rows.state(i, now) == State::Retrying {
                    found.push(i);
                }
                found.len() < wanted
            });
        }
        found
    }

    /// Decides `ORDER.RELEASE`: the leases that end first come first. `left` is how many
    /// live ones of this owner there are still. O(N), N live leases and retry waits of the
    /// queue.
    pub fn decide_release(&self, now: &Now, ask: &Release<'_>) -> Swept {
        let rows = &self.store.rows;
        let (mut leases, mut live) = (Vec::new(), 0_u64);
        let all = by_lease(rows);
        self.busy.leases.for_each_in_order(&all, &mut |i| {
            let grant = rows.grant(i).filter(|grant| !grant.end_mono.is_over(now));
            if let Some(grant) = grant.filter(|grant| *grant.owner == *ask.owner) {
                live += 1;
                if leases.len() < ask.count as usize {
                    leases.push(LeaseOf {
                        id: Bytes::copied(rows.id(i)),
                        fence: grant.fence,
                    });
                }
            }
            true
        });
        let (done, end) = (leases.len() as u64, now.wall_ms());
        Swept {
            effect: (done > 0).then_some(Effect::Lapse { end, leases }),
            done,
            left: live.saturating_sub(done),
            sweep_at: self.busy.sweep_at,
        }
    }

    /// Decides `ORDER.PURGE`. O(10 × count). Without a filter, calls repeated until
    /// `left` is 0 take every order of the state. With one, each call goes on where
    /// [`Queue::sweep_on`] was told that the last one stopped, round and round, and `left` counts the whole state:
    /// after as many calls as ten times COUNT fits into the queue, all were met.
    pub fn decide_purge(
        &self,
        now: &Now,
        ask: &Purge<'_>,
        matches: &dyn Fn(&[u8]) -> bool,
    ) -> Swept {
        let count = ask.count as usize;
        let rows = &self.store.rows;
        let mut handles = Vec::new();
        let mut sweep_at = self.busy.sweep_at;
        match ask.state {
            // Nobody's lease is taken away.
            State::Missing | State::Leased | State::Reserved => {}
            State::Dead if !ask.is_filtered() => {
                handles.extend(self.busy.dead.iter(rows).take(count));
            }
            State::Scheduled if !ask.is_filtered() => {
                self.deadlines
                    .first_n(&by_deadline(rows), now.wall_ms().0, count, &mut handles);
            }
            State::Finished if !ask.is_filtered() => {
                self.busy
                    .keeps
                    .first_n(&by_keep(rows), now.wall_ms().0, count, &mut handles);
            }
            _ => handles = self.walk(now, ask, matches, &mut sweep_at),
        }
        handles.retain(|i| {
            *i != NIL && rows.get(*i).map(Record::rev).is_some() && rows.state(*i, now) == ask.state
        });
        let ids: Vec<_> = handles.iter().map(|i| Bytes::copied(rows.id(*i))).collect();
        let done = ids.len() as u64;
        let left = self.count(now, ask.state).saturating_sub(done);
        Swept {
            effect: (done > 0).then_some(Effect::Forget { ids }),
            done,
            left,
            sweep_at,
        }
    }

    /// Goes through the records from `at` on, once round at most, and takes those that
    /// are asked for. Moves `at` on. O(10 × count).
    fn walk(
        &self,
        now: &Now,
        ask: &Sweep<'_>,
        matches: &dyn Fn(&[u8]) -> bool,
        sweep_at: &mut u32,
    ) -> Vec<u32> {
        let rows = &self.store.rows;
        let count = ask.count as usize;
        let mut found = Vec::new();
        let end = rows.end();
        let mut at = if *sweep_at == 0 || *sweep_at > end {
            end
        } else {
            *sweep_at
        };
        let mut looks = count.saturating_mul(SWEEP_LOOKS);
        for _ in 0..end {
            if looks == 0 || found.len() >= count {
                break;
            }
            looks -= 1;
            at = at.checked_sub(1).unwrap_or_else(|| end.saturating_sub(1));
            let wanted = rows.state(at, now) == ask.state
                && ask
                    .status
                    .is_none_or(|status| status == self.store.status(at));
            if !wanted {
                continue;
            }
            let id = rows.id(at);
            if let Some(pattern) = ask.pattern {
                looks = looks.saturating_sub(glob::cost(pattern, id) - 1);
                if !matches(id) {
                    continue;
                }
            }
            found.push(at);
        }
        *sweep_at = at;
        found
    }

    /// Notes how far a PURGE or REQUEUE with a filter has looked, also one that found
    /// nothing.
    pub fn sweep_on(&mut self, swept: &Swept) {
        if self.busy.sweep_at != swept.sweep_at {
            self.busy.sweep_at = swept.sweep_at;
        }
    }
}

/// The name of a setting as it is kept, whatever case it was given in.
fn known_setting(name: &[u8]) -> Result<&'static [u8], Error> {
    setting_name(name).ok_or_else(|| Error::UnknownSetting {
        near: crate::error::Excerpt::of(name),
    })
}

/// The name of a setting as it is kept, where `value` is one it can have.
fn check_setting(name: &[u8], value: &[u8]) -> Result<&'static [u8], Error> {
    let name = known_setting(name)?;
    if is_value(name, value) {
        return Ok(name);
    }
    let Some(setting) = Setting::from_name(name) else {
        return Err(Error::BadTransitions);
    };
    let (min, max) = setting.range();
    Err(Error::SettingOutOfRange {
        name: setting.name(),
        min,
        max,
    })
}
