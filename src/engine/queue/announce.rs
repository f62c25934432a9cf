//! What is said of orders that have become due, and of locks that have lapsed.

use super::Queue;
use crate::engine::effect::{Bytes, Effect};
use crate::engine::outcome::{Announcement, EventKind};
use crate::engine::record::Place;
use crate::engine::tables::NIL;
use crate::engine::tables::lazy::Lazy;
use crate::engine::times::Timing;
use crate::engine::views::by_deadline;
use crate::words::state::State;
use crate::words::time::{Now, WallMs};
use std::sync::Arc;

impl Queue {
    /// Whether an announcement is due.
    pub(super) fn has_unannounced(&self) -> bool {
        self.busy.drawn.unannounced() > 0
            || self.busy.returned.unannounced() > 0
            || self.busy.dead.unannounced() > 0
            || !self.busy.notices.is_empty()
    }

    /// How many orders are to be announced and were not yet.
    pub fn announce_backlog(&self, now: &Now) -> u64 {
        let due = self
            .deadlines
            .count_until(&by_deadline(&self.store.rows), now.wall_ms().0);
        let lists = self.busy.drawn.unannounced()
            + self.busy.returned.unannounced()
            + self.busy.dead.unannounced();
        (due + lists + self.busy.notices.len()) as u64
    }

    /// Gives out the next announcements in order, for at most `max` orders, and
    /// counts them as made. Nothing while paused.
    pub fn announce(&mut self, now: &Now, max: usize, out: &mut Vec<Announcement>) {
        if self.is_paused(now) {
            return;
        }
        for _ in 0..max {
            if !self.busy.notices.is_empty()
                && let Some(id) = self.busy.notices.pop()
            {
                out.push(Announcement {
                    kind: EventKind::Lapsed,
                    id,
                });
                continue;
            }
            if let Some(i) = self.busy.dead.next_unannounced() {
                self.busy.dead.mark_announced(&self.store.rows);
                self.announced(i, now, out);
                continue;
            }
            if self.busy.drawn.next_unannounced().is_none() {
                self.draw(now, max);
            }
            let drawn = self.busy.drawn.next_unannounced().unwrap_or(NIL);
            let i = self.earlier(drawn, self.busy.returned.next_unannounced().unwrap_or(NIL));
            if i == NIL {
                return;
            }
            if self.store.rows.state(i, now) != State::Expired {
                self.refile(i, now);
                continue;
            }
            if i == drawn {
                self.busy.drawn.mark_announced(&self.store.rows);
            } else {
                self.busy.returned.mark_announced(&self.store.rows);
            }
            self.announced(i, now, out);
        }
    }

    /// Says what there is to say of one record and marks it announced.
    pub(in crate::engine) fn announced(&mut self, i: u32, now: &Now, out: &mut Vec<Announcement>) {
        let Some(record) = self.store.rows.get_mut(i) else {
            return;
        };
        record.set_announced(true);
        let (lapsed, place) = (record.is_lapsed(), record.place());
        let id: Arc<[u8]> = self.store.rows.id(i).into();
        if lapsed {
            out.push(Announcement {
                kind: EventKind::Lapsed,
                id: id.clone(),
            });
        }
        if place == Place::Drawn {
            let since = self.claimable_since(i);
            let late_us = now.wall_us.saturating_sub(since.0.saturating_mul(1000));
            self.time(now, Timing::Lateness, late_us);
        }
        let kind = if place == Place::Dead {
            EventKind::Dead
        } else {
            EventKind::Expired
        };
        out.push(Announcement { kind, id });
    }

    /// What is to be said before this effect is carried out: that the lock which stood
    /// where another one is granted, or where the record goes, has lapsed. Nothing
    /// while paused. (For a claim, [`Queue::decide_claim`] says it.) O(log n) for each
    /// order named.
    pub fn lapses_before(&self, now: &Now, effect: &Effect<'_>) -> Vec<Announcement> {
        let ids: &[Bytes<'_>] = match effect {
            Effect::Lock { id, .. } => std::slice::from_ref(id),
            Effect::Forget { ids } => ids,
            _ => return Vec::new(),
        };
        if self.is_paused(now) {
            return Vec::new();
        }
        let lapsed = ids
            .iter()
            .filter(|id| self.busy.notices.has(&***id) || self.is_lapsed_reservation(now, id));
        lapsed
            .map(|id| Announcement {
                kind: EventKind::Lapsed,
                id: id.shared(),
            })
            .collect()
    }

    /// Whether an id was reserved by a lock that has lapsed, and is there yet.
    fn is_lapsed_reservation(&self, now: &Now, id: &[u8]) -> bool {
        let lapsed = || {
            let i = self.store.find(id)?;
            let (grant, record) = (self.store.rows.grant(i)?, self.store.rows.get(i)?);
            let is_reservation = record.deadline().is_none() && record.keep_end().is_none();
            Some(is_reservation && grant.end_mono.is_over(now))
        };
        lapsed().unwrap_or(false)
    }

    /// A grant is made, or a record goes, before which [`Queue::lapses_before`] was said.
    pub(in crate::engine) fn lapse_said(&mut self, now: &Now, id: &[u8]) {
        if !self.busy.notices.is_empty() && !self.is_paused(now) {
            self.busy.notices.take(id);
        }
    }

    /// Counts everything unclaimed as not announced, after a promotion. O(n) in
    /// what this server itself had announced and nobody claimed since: nothing
    /// on a replica that was never primary.
    pub fn announce_again(&mut self) {
        if self.busy.is_made() {
            let busy = &mut *self.busy;
            for list in [&mut busy.drawn, &mut busy.returned, &mut busy.dead] {
                let mut at = list.front().unwrap_or(NIL);
                while let Some(record) = self.store.rows.get_mut(at)
                    && record.is_announced()
                {
                    record.set_announced(false);
                    at = record.next;
                }
                list.announce_again();
            }
            // What lapsed while another server was primary was its to say.
            busy.notices = Lazy::new();
        }
        self.hint_at(WallMs(0));
    }
}
