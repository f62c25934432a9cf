//! What there is no command for: passes, clocks, what the shell asks.

use super::Bench;
use crate::engine::effect::{Bytes, Effect};
use crate::engine::outcome::Outcome;
use crate::engine::queue::Duty;
use crate::words::time::WallMs;

impl Bench {
    /// What there is no command for: passes, clocks, what the shell asks.
    pub(super) fn direct(&mut self, name: &str, rest: &[&str]) -> String {
        let now = self.now();
        let number = |n: usize| rest.get(n).map_or(0, |text| text.parse::<u64>().unwrap());
        let text = |n: usize| Bytes::of(rest.get(n).copied().unwrap_or("").as_bytes());
        match name {
            // waiting, nobody: whether others stand in line for every lock.
            "waiting" | "nobody" => {
                self.queued = name == "waiting";
                "done".into()
            }
            // waiter ID, waiter ID FP: what one who waits for a lock is told; waiter-xx: of
            // an order that is there.
            "waiter" | "waiter-xx" => {
                let fp = rest.get(1).map(|fp| fp.as_bytes());
                let told = self
                    .queue
                    .lock_waiter_outcome(&now, &text(0), fp, name == "waiter-xx");
                told.map_or("waits", Outcome::word).into()
            }
            // lock-wake ID: when one who waits for a lock is looked at again.
            "lock-wake" => match self.queue.lock_wake(&now, &text(0)) {
                u64::MAX => "never".into(),
                at => Self::at(WallMs(at)),
            },
            // lapsed: whether a lease has lapsed since the last time it was asked.
            "lapsed" => {
                self.advance();
                self.queue.take_lapsed().to_string()
            }
            // wall +MS, wall -MS: somebody sets the clock.
            "wall" => {
                let ms: i64 = rest[0].parse().unwrap();
                self.wall_us = self.wall_us.checked_add_signed(ms * 1000).unwrap();
                "done".into()
            }
            // pass, pass N: what the scheduler does, with at most N announcements.
            "pass" => {
                self.advance();
                let mut list = Vec::new();
                let max = if rest.is_empty() {
                    usize::MAX
                } else {
                    number(0) as usize
                };
                self.queue.announce(&now, max, &mut list);
                Self::announcements(&list)
            }
            "promote" => {
                self.queue.announce_again();
                "done".into()
            }
            "forget" => {
                self.advance();
                let max = if rest.is_empty() {
                    100
                } else {
                    number(0) as usize
                };
                match self.queue.due_forget(&now, &self.defaults.clone(), max) {
                    None => "-".into(),
                    Some(effect) => {
                        self.carry(&effect);
                        match &effect {
                            Effect::Forget { ids } => {
                                let ids: Vec<String> =
                                    ids.iter().map(|id| id.escape_ascii().to_string()).collect();
                                ids.join(" ")
                            }
                            Effect::Pause { on: false, .. } => "resumed".into(),
                            other => panic!("{other:?}"),
                        }
                    }
                }
            }
            "reload" => {
                self.reload();
                "done".into()
            }
            "claimable" => {
                self.advance();
                self.queue.claimable(&now, &self.defaults).to_string()
            }
            "wake" => {
                let wake = self.queue.next_wake(&now, Duty::All);
                wake.map_or("never".into(), |wake| {
                    if wake <= now.wall_ms() {
                        "now".into()
                    } else {
                        Self::at(wake)
                    }
                })
            }
            other => panic!("{other}?"),
        }
    }
}
