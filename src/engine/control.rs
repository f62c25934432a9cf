//! Decisions on a queue as a whole: its settings, its pause, its dead orders.
//! For operators; each looks at no more records than it is told to.

use super::decide::Env;
use super::effect::{Bytes, Effect};
use super::queue::Queue;
use super::record::Record;
use super::settings::{Defaults, Setting, is_value, setting_name};
use super::tables::NIL;
use super::views::{by_deadline, by_keep};
use crate::error::Error;
use crate::request::{Configure, Pause, Purge};
use crate::words::glob;
use crate::words::state::State;
use crate::words::time::Now;

/// How many records PURGE looks at for each one it may remove.
const PURGE_LOOKS: usize = 10;

/// What a command on many orders comes to.
#[derive(Debug, PartialEq)]
pub struct Swept {
    /// What to do; `None`: nothing.
    pub effect: Option<Effect<'static>>,
    /// How many orders it is done to.
    pub done: u64,
    /// How many of that state are left.
    pub left: u64,
    /// Where the next PURGE with a filter is to go on, see [`Queue::purge_on`].
    pub purge_at: u32,
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

    /// Decides `ORDER.PAUSE`. A second one replaces the first.
    pub fn decide_pause<'a>(&self, env: &Env<'_>, ask: &Pause<'a>) -> Effect<'a> {
        let until = ask.ms.map(|ms| env.now.wall_ms_ceil().plus(ms));
        Effect::Pause {
            on: true,
            until,
            reason: Bytes::of(ask.reason),
        }
    }

    /// Decides `ORDER.RESUME`: nothing where there is no pause.
    pub fn decide_resume(&self) -> Option<Effect<'static>> {
        self.busy.pause.as_ref().map(|_| Effect::Pause {
            on: false,
            until: None,
            reason: Bytes::of(b""),
        })
    }

    /// Decides `ORDER.REQUEUE`: the longest dead orders first. O(count).
    pub fn decide_requeue(&self, env: &mut Env<'_>, count: usize) -> Result<Swept, Error> {
        let rows = &self.store.rows;
        let dead = self
            .busy
            .dead
            .iter(rows)
            .filter(|i| rows.state(*i, &env.now) == State::Dead);
        let ids: Vec<_> = dead
            .take(count)
            .map(|i| Bytes::copied(rows.id(i)))
            .collect();
        let done = ids.len() as u64;
        let left = (self.busy.dead.len() as u64).saturating_sub(done);
        let effect = if done == 0 {
            None
        } else {
            let rev = env.numbers.write(env.now.wall_us, self.floor);
            let rev = rev.ok_or(Error::NumbersUsedUp)?;
            Some(Effect::Requeue { rev, ids })
        };
        Ok(Swept {
            effect,
            done,
            left,
            purge_at: self.busy.purge_at,
        })
    }

    /// Decides `ORDER.PURGE`. O(10 × count). Without a filter, calls repeated until
    /// `left` is 0 take every order of the state. With one, each call goes on where
    /// [`Queue::purge_on`] was told that the last one stopped, round and round, and `left` counts the whole state:
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
        let mut purge_at = self.busy.purge_at;
        let filtered = ask.status.is_some() || ask.pattern.is_some();
        match ask.state {
            // Nobody's lease is taken away.
            State::Missing | State::Leased | State::Reserved => {}
            State::Dead if !filtered => handles.extend(self.busy.dead.iter(rows).take(count)),
            State::Scheduled if !filtered => {
                self.deadlines
                    .first_n(&by_deadline(rows), now.wall_ms().0, count, &mut handles);
            }
            State::Finished if !filtered => {
                self.busy
                    .keeps
                    .first_n(&by_keep(rows), now.wall_ms().0, count, &mut handles);
            }
            _ => {
                let end = rows.end();
                let mut at = if purge_at == 0 || purge_at > end {
                    end
                } else {
                    purge_at
                };
                let mut looks = count.saturating_mul(PURGE_LOOKS);
                // Once round at most.
                for _ in 0..end {
                    if looks == 0 || handles.len() >= count {
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
                    handles.push(at);
                }
                purge_at = at;
            }
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
            purge_at,
        }
    }

    /// Notes how far a PURGE with a filter has looked, also one that found nothing.
    pub fn purge_on(&mut self, swept: &Swept) {
        if self.busy.purge_at != swept.purge_at {
            self.busy.purge_at = swept.purge_at;
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
