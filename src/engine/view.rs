//! Questions: what a queue answers without changing anything. Every answer is a
//! function of records and clocks; which pass has run does not show, but for the
//! counts of STATS, which say by `behind_ms` how far they may be off.

use std::borrow::Cow;

use super::effect::LeaseKind;
use super::queue::Queue;
use super::record::{Extra, Record};
use super::settings::{Defaults, Setting};
use super::tables::NIL;
use super::times::Timing;
use super::views::{by_deadline, by_keep, by_lease};
use crate::request::Scan;
use crate::words::glob;
use crate::words::state::State;
use crate::words::time::{Now, WallMs};

/// How many records SCAN looks at for each one asked for.
const SCAN_LOOKS: usize = 10;

/// An order as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderView<'q> {
    /// Its id.
    pub id: &'q [u8],
    /// Its state, never `Missing`.
    pub state: State,
    /// Its status.
    pub status: &'q [u8],
    /// Its deadline; a finished order has none.
    pub deadline: Option<WallMs>,
    /// Number of its last write.
    pub rev: u64,
    /// Tries since the deadline was last set; of a finished order, until it was
    /// finished.
    pub attempt: u32,
    /// Owner of the last grant; of a finished order, the one whose lease finished it.
    pub owner: Option<&'q [u8]>,
    /// Fence of the last grant, 0 if there is none.
    pub fence: u64,
    /// What is left of a live lease, milliseconds, 1 and up.
    pub lease_ms: Option<u64>,
    /// Kind of the last grant.
    pub kind: Option<LeaseKind>,
    /// How often a live lock is held; 0 without a live lease.
    pub holds: u32,
    /// End of the retry wait, while it is ahead.
    pub retry_at: Option<WallMs>,
    /// When a finished order is forgotten.
    pub keep_end: Option<WallMs>,
    /// Its payload.
    pub payload: Option<&'q [u8]>,
    /// What came of it, when finished.
    pub result: Option<&'q [u8]>,
    /// What was said last of a try that failed; see [`OrderView::reason`].
    pub error: Option<&'q [u8]>,
    /// When it was finished, where that is known.
    pub finished_at: Option<WallMs>,
    /// The deadline it had when it was finished.
    pub finished_deadline: Option<WallMs>,
    /// The client that a live lease is bound to, 0 for none.
    pub session: u64,
}

/// A row of SCAN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRow {
    /// The order's id.
    pub id: Vec<u8>,
    /// Its state.
    pub state: State,
    /// Its status.
    pub status: Vec<u8>,
    /// Its deadline.
    pub deadline: Option<WallMs>,
    /// Owner of its live lease.
    pub owner: Option<Vec<u8>>,
    /// As [`OrderView::attempt`].
    pub attempt: u32,
    /// As [`OrderView::reason`].
    pub error: Option<Vec<u8>>,
}

impl<'q> OrderView<'q> {
    /// Why the last try failed, as it is shown. An order that died because the lease of
    /// its last try ended without a word says that, with the whole owner: what was said
    /// before belongs to an earlier try. It is a function of the record, and not stored.
    pub fn reason(&self) -> Option<Cow<'q, [u8]>> {
        // A dead order has a last grant only if that was its last try, and lapsed.
        let silent = self.owner.filter(|_| self.state == State::Dead);
        match silent {
            Some(owner) => Some(Cow::Owned(
                [b"lease of ", owner, b" ended without a word"].concat(),
            )),
            None => self.error.map(Cow::Borrowed),
        }
    }
}

/// Takes one element of the ground state: its texts and its numbers.
pub type Element<'f> = dyn FnMut(&[&[u8]], &[u64]) + 'f;

/// A value of STATS.
#[derive(Clone, Debug, PartialEq)]
pub enum StatValue {
    /// A count or a time in whole milliseconds.
    Int(i64),
    /// A time in milliseconds with decimals.
    Real(f64),
    /// A text.
    Text(Vec<u8>),
}

/// The answer of STATS: names and values in a fixed order, new ones at the end.
pub type Stats = Vec<(&'static str, StatValue)>;

/// A number for the wire.
fn int(value: u64) -> StatValue {
    StatValue::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

impl Queue {
    /// The order with this id, `None` if it is missing. O(1).
    pub fn view(&self, now: &Now, id: &[u8]) -> Option<OrderView<'_>> {
        self.view_at(now, self.store.find(id)?)
    }

    /// The order of a handle that this queue gave out and nothing has changed
    /// since, `None` if it is missing. O(1).
    pub fn view_at(&self, now: &Now, i: u32) -> Option<OrderView<'_>> {
        let rows = &self.store.rows;
        let state = rows.state(i, now);
        if state == State::Missing {
            return None;
        }
        let record = rows.get(i)?;
        let extra = rows.extra(i);
        let grant = extra.and_then(Extra::grant);
        let live = grant.filter(|grant| !grant.end_mono.is_over(now));
        let (id, second) = rows.parts(i);
        let finished = record.is_finished();
        let ending = self.store.ending(i);
        Some(OrderView {
            id,
            state,
            status: self.store.status(i),
            deadline: record.deadline(),
            rev: record.rev(),
            attempt: match &ending {
                Some(ending) => ending.attempt,
                None => extra.map_or(0, |extra| extra.attempt),
            },
            owner: match &ending {
                Some(ending) => ending.holder.map(|(_, owner)| owner),
                None => grant.map(|grant| &*grant.owner),
            },
            fence: grant.map_or(0, |grant| grant.fence),
            lease_ms: live.map(|grant| grant.left(now)),
            kind: grant.map(|grant| grant.kind),
            holds: live.map_or(0, |grant| grant.holds),
            retry_at: extra
                .and_then(Extra::retry)
                .filter(|_| state == State::Retrying)
                .map(|retry| retry.at),
            keep_end: record.keep_end(),
            payload: if finished { None } else { second },
            result: if finished { second } else { None },
            error: extra.and_then(|extra| extra.error.as_deref()),
            finished_at: ending.map(|ending| ending.at),
            finished_deadline: ending.and_then(|ending| ending.deadline),
            session: live.map_or(0, |grant| self.session(id, grant.fence)),
        })
    }

    /// The `count` earliest scheduled orders with their deadlines, in order.
    /// O(count + 256). An order whose lock has lapsed is listed once
    /// [`Queue::advance`] has come to it, so that is to be called first.
    pub fn next(&self, now: &Now, count: usize) -> Vec<(Vec<u8>, WallMs)> {
        let rows = &self.store.rows;
        let mut handles = Vec::new();
        self.deadlines
            .first_n(&by_deadline(rows), now.wall_ms().0, count, &mut handles);
        handles
            .into_iter()
            .filter_map(|i| Some((rows.id(i).to_vec(), rows.get(i)?.deadline()?)))
            .collect()
    }

    /// Looks at about `count` records from `cursor` on. Goes from high handles to
    /// low: an order that is there from the first to the last call is returned
    /// at least once. The cursor is 0 at the end.
    pub fn scan(
        &self,
        now: &Now,
        ask: &Scan<'_>,
        matches: &dyn Fn(&[u8]) -> bool,
    ) -> (u64, Vec<ScanRow>) {
        let rows = &self.store.rows;
        let end = u64::from(rows.end());
        let mut at = if ask.cursor == 0 {
            end
        } else {
            ask.cursor.min(end)
        };
        let mut found = Vec::new();
        let mut looks = SCAN_LOOKS.saturating_mul(ask.count as usize);
        while at > 0 && looks > 0 && found.len() < ask.count as usize {
            at -= 1;
            looks -= 1;
            let i = u32::try_from(at).unwrap_or(NIL);
            let state = rows.state(i, now);
            if state == State::Missing || ask.state.is_some_and(|wanted| wanted != state) {
                continue;
            }
            let (id, status) = (rows.id(i), self.store.status(i));
            if let Some(pattern) = ask.pattern {
                looks = looks.saturating_sub(glob::cost(pattern, id) - 1);
            }
            if ask.status.is_some_and(|wanted| wanted != status)
                || (ask.pattern.is_some() && !matches(id))
            {
                continue;
            }
            let Some(view) = self.view_at(now, i) else {
                continue;
            };
            let owner = view.owner.filter(|_| view.lease_ms.is_some());
            if ask.owner.is_some() && ask.owner != owner {
                continue;
            }
            found.push(ScanRow {
                id: id.to_vec(),
                state,
                status: status.to_vec(),
                deadline: view.deadline,
                owner: owner.map(<[u8]>::to_vec),
                attempt: view.attempt,
                error: view.reason().map(Cow::into_owned),
            });
        }
        (at, found)
    }

    /// How many orders are in a state, as far as [`Queue::advance`] has got. O(256).
    pub fn count(&self, now: &Now, state: State) -> u64 {
        let rows = &self.store.rows;
        let due = || {
            self.deadlines
                .count_until(&by_deadline(rows), now.wall_ms().0)
        };
        let forgotten = || self.busy.keeps.count_until(&by_keep(rows), now.wall_ms().0);
        match state {
            State::Missing => 0,
            State::Scheduled => self.deadlines.len().saturating_sub(due()) as u64,
            State::Expired => (due() + self.busy.drawn.len() + self.busy.returned.len()) as u64,
            State::Leased => u64::from(self.busy.tally.claims) + u64::from(self.busy.tally.locks),
            State::Retrying => u64::from(self.busy.tally.retrying),
            State::Dead => self.busy.dead.len() as u64,
            State::Finished => self.busy.keeps.len().saturating_sub(forgotten()) as u64,
            State::Reserved => u64::from(self.busy.tally.reserved),
        }
    }

    /// The answer of STATS. `waiters` are the clients waiting in CLAIM and in
    /// LOCK. O(256).
    pub fn stats(&self, now: &Now, defaults: &Defaults, waiters: (u64, u64)) -> Stats {
        let rows = &self.store.rows;
        let wall = now.wall_ms();
        let counts = State::LISTED.map(|state| (state.word(), self.count(now, state)));
        let orders: u64 = counts.iter().map(|(_, count)| count).sum();
        let mut next = Vec::new();
        self.deadlines
            .first_n(&by_deadline(rows), wall.0, 1, &mut next);
        let next_deadline = next
            .first()
            .and_then(|i| rows.get(*i))
            .and_then(Record::deadline);
        let first_due = self
            .deadlines
            .first_time(&by_deadline(rows))
            .filter(|first| *first <= wall.0)
            .map(WallMs);
        let fronts = [self.busy.drawn.front(), self.busy.returned.front()];
        let oldest = fronts
            .into_iter()
            .flatten()
            .map(|i| self.claimable_since(i))
            .chain(first_due)
            .min();
        let behind = self
            .busy
            .leases
            .first_time(&by_lease(rows))
            .map_or(0, |first| now.mono_ms().0.saturating_sub(first));
        let pause = self.busy.pause.as_ref().filter(|_| self.is_paused(now));
        let paused_ms = match pause {
            None => StatValue::Int(-2),
            Some(pause) => match pause.until {
                None => StatValue::Int(-1),
                Some(until) => int(until.0.saturating_sub(wall.0)),
            },
        };
        let reason = pause.map_or_else(Vec::new, |pause| pause.reason.to_vec());
        let mut stats = counts.map(|(name, count)| (name, int(count))).to_vec();
        stats.extend([
            ("orders", int(orders)),
            (
                "next_deadline",
                next_deadline.map_or(StatValue::Int(-1), |deadline| int(deadline.0)),
            ),
            (
                "oldest_expired_ms",
                int(oldest.map_or(0, |since| wall.0.saturating_sub(since.0))),
            ),
            ("behind_ms", int(behind)),
            ("live_claims", int(u64::from(self.busy.tally.claims))),
            ("claim_waiters", int(waiters.0)),
            ("lock_waiters", int(waiters.1)),
            ("paused_ms", paused_ms),
            ("pause_reason", StatValue::Text(reason)),
        ]);
        stats.extend(self.totals().map(|(name, total)| (name, int(total))));
        // The timings that STATS has had from its beginning, and those that came later.
        let (first, later) = Timing::ALL.split_at(5);
        let times = &self.busy.meters.times;
        let real = |(name, ms)| (name, StatValue::Real(ms));
        stats.extend(times.since_start(first).into_iter().map(real));
        stats.push(("bytes", int(self.bytes() as u64)));
        stats.push(("dump_bytes", int(self.store.dump_bytes() as u64)));
        stats.extend(
            Setting::ALL.map(|setting| (setting.name(), int(self.setting(setting, defaults)))),
        );
        let transitions = self
            .busy
            .own
            .as_ref()
            .and_then(|own| own.transitions())
            .unwrap_or(&[]);
        stats.push(("transitions", StatValue::Text(transitions.to_vec())));
        let limit_wait_us = self.claim_limit_wait_us(now, defaults);
        stats.push(("claims_held_back_total", int(self.busy.meters.held_back)));
        stats.push(("claim_limit_wait_ms", int(limit_wait_us.div_ceil(1000))));
        stats.push(("session_leases", int(self.session_leases())));
        stats.push(("overdue", int(self.overdue(now))));
        stats.push(("oldest_overdue_ms", int(self.oldest_overdue_ms(now))));
        stats.extend(times.since_start(later).into_iter().map(real));
        stats.extend(times.of_minute(now).into_iter().map(real));
        // Behind the end of an empty list no record stands.
        let newest_dead = self.view_at(now, self.busy.dead.back());
        let id = newest_dead.as_ref().map_or(&[][..], |view| view.id);
        let reason = newest_dead.as_ref().and_then(OrderView::reason);
        stats.push(("newest_dead", StatValue::Text(id.to_vec())));
        stats.push((
            "newest_dead_error",
            StatValue::Text(reason.map_or_else(Vec::new, Cow::into_owned)),
        ));
        stats
    }

    /// Gives every element of the ground state to `element`, as texts and
    /// numbers; the order means nothing. O(n).
    pub fn digest(&self, element: &mut Element<'_>) {
        let rows = &self.store.rows;
        for i in (0..rows.end()).rev() {
            let Some(record) = rows.get(i) else { continue };
            let (id, second) = rows.parts(i);
            let blank = Extra::new(NIL);
            let extra = rows.extra(i).unwrap_or(&blank);
            let optional = |text: &Option<Box<[u8]>>| u64::from(text.is_some());
            let time = |at: Option<WallMs>| at.map_or(u64::MAX, |at| at.0);
            let text = |text: &'_ Option<Box<[u8]>>| -> Vec<u8> {
                text.as_deref().unwrap_or(&[]).to_vec()
            };
            let (error, fp) = (text(&extra.error), text(&extra.fp));
            let mut texts: Vec<&[u8]> = vec![
                b"order",
                id,
                self.store.status(i),
                second.unwrap_or(&[]),
                &error,
                &fp,
            ];
            let mut numbers = vec![
                record.rev(),
                time(record.deadline()),
                time(record.keep_end()),
                time(extra.retry().map(|retry| retry.at)),
                time(extra.retry().map(|retry| retry.since)),
                time(extra.dead_at()),
                u64::from(extra.attempt),
                u64::from(second.is_some()),
                optional(&extra.error),
                optional(&extra.fp),
            ];
            if let Some(ending) = self.store.ending(i) {
                let (kind, owner) = ending.holder.unwrap_or((LeaseKind::Claim, &[]));
                texts.push(owner);
                numbers.extend([
                    ending.at.0,
                    time(ending.deadline),
                    u64::from(ending.attempt),
                    kind as u64,
                ]);
            }
            if let Some(grant) = extra.grant() {
                texts.push(&grant.owner);
                numbers.extend([
                    grant.kind as u64,
                    grant.fence,
                    grant.made.0,
                    grant.since.0,
                    grant.end.0,
                    grant.cap.0,
                    u64::from(grant.holds),
                    u64::from(grant.last_try),
                ]);
            }
            element(&texts, &numbers);
        }
        element(&[b"floor"], &[self.floor]);
        if let Some(pause) = &self.busy.pause {
            element(
                &[b"pause", &pause.reason],
                &[pause.until.map_or(u64::MAX, |until| until.0)],
            );
        }
        for (name, value) in self.busy.own.iter().flat_map(|own| own.each()) {
            element(&[b"setting", name, &value], &[]);
        }
    }
}
