//! Carrying effects out.
//!
//! It never fails, because the stream that an effect came in must go on. An effect for
//! a record that is not there changes nothing and says so. One whose bytes find no room
//! is carried out without them, and says so too. A primary applies what it decided,
//! replicas and loaders what they are told; all end with equal ground state.

mod leases;
mod orders;
mod restore;

use super::effect::{Bytes, Effect};
use super::meters::Meters;
use super::outcome::{Event, EventKind};
use super::queue::{Entry, Pause, Queue};
use super::settings::{Defaults, Setting};
use crate::words::time::Now;

/// Where effects come from.
#[derive(Clone, Copy, Debug)]
enum Source<'d> {
    /// They happen now, here or on the primary.
    Live,
    /// A client has them happen now, by hand: nothing that is left of a lease passes the
    /// limits of today.
    Told(&'d Defaults),
    /// They happened before, and come back from disk or in a dump: what has fallen due
    /// since goes by its deadline, and nothing that is left of a lease passes the limits
    /// of today.
    Disk(&'d Defaults),
}

impl Source<'_> {
    /// How a record comes to its place: as `live` says, or from disk.
    const fn entry(self, live: Entry) -> Entry {
        match self {
            Self::Live | Self::Told(_) => live,
            Self::Disk(_) => Entry::Loaded,
        }
    }
}

/// Copies bytes into a box of their own.
fn boxed(bytes: &Bytes<'_>) -> Box<[u8]> {
    (**bytes).into()
}

impl Queue {
    /// Carries an effect out and notes the events that it raises. Returns false if it
    /// named a record that is not there, or there was no room for its bytes. O(1) for
    /// each record named.
    pub fn apply<'e>(
        &mut self,
        now: &Now,
        effect: &Effect<'e>,
        events: &mut Vec<Event<'e>>,
    ) -> bool {
        self.carry_out(now, effect, events, Source::Live)
    }

    /// As [`Queue::apply`], for effects that no decision of a primary stands behind: of a
    /// lease no more is left than `lease-ms-max` and, of a lock, `lock-ms-max`.
    pub fn apply_told<'e>(
        &mut self,
        now: &Now,
        effect: &Effect<'e>,
        defaults: &Defaults,
        events: &mut Vec<Event<'e>>,
    ) -> bool {
        self.carry_out(now, effect, events, Source::Told(defaults))
    }

    /// As [`Queue::apply`], for effects that were carried out before and come
    /// back from disk: what has fallen due since goes by its deadline, nothing
    /// is counted or timed again, and of a lease no more is left than its length,
    /// `lease-ms-max` and, of a lock, `lock-ms-max`.
    pub fn replay(&mut self, now: &Now, effect: &Effect<'_>, defaults: &Defaults) -> bool {
        self.replaying = true;
        let known = self.carry_out(now, effect, &mut Vec::new(), Source::Disk(defaults));
        self.replaying = false;
        known
    }

    /// Counts something, unless it was counted when it happened.
    fn meter(&mut self, count: impl FnOnce(&mut Meters)) {
        if !self.replaying {
            count(&mut self.busy.meters);
        }
    }

    /// See [`Queue::apply`] and [`Queue::replay`].
    fn carry_out<'e>(
        &mut self,
        now: &Now,
        effect: &Effect<'e>,
        events: &mut Vec<Event<'e>>,
        source: Source<'_>,
    ) -> bool {
        let known = match effect {
            Effect::Schedule { .. } => self.apply_schedule(now, effect, events, source),
            Effect::Finish { .. } => self.apply_finish(now, effect, events, source),
            Effect::Status { .. } => self.apply_status(now, effect, events),
            Effect::Claim { .. } => self.apply_claim(now, effect, events, source),
            Effect::Nack { .. } => self.apply_nack(now, effect, events, source),
            Effect::Renew {
                id,
                rev,
                since,
                end,
            } => self.regrant(now, source, id, *rev, (*since, *end), None),
            Effect::Hold {
                id,
                rev,
                holds,
                since,
                end,
            } => self.regrant(now, source, id, *rev, (*since, *end), Some(*holds)),
            Effect::Lock { .. } => self.apply_lock(now, effect, events, source),
            Effect::Release { .. } => self.apply_release(now, effect, events, source),
            Effect::Forget { .. } => self.apply_forget(now, effect),
            Effect::Requeue { .. } => self.apply_requeue(now, effect, source),
            Effect::Configure { .. } => self.apply_configure(effect),
            Effect::Pause { .. } => self.apply_pause(effect),
            Effect::Floor(number) => {
                self.floor = self.floor.max(*number);
                true
            }
            Effect::Restore(whole) => self.restore(now, whole, source),
            Effect::Lapse { end, leases } => self.apply_lapse(now, *end, leases),
        };
        self.unbind_named(now, effect);
        known
    }

    /// Sets a setting of the queue, or takes it back.
    fn apply_configure(&mut self, effect: &Effect<'_>) -> bool {
        let Effect::Configure { name, value } = effect else {
            return false;
        };
        let mut own = self.busy.own.take().unwrap_or_default();
        let before = own.get(Setting::ClaimsPerSMax);
        let known = own.configure(name, value.as_deref());
        if own.get(Setting::ClaimsPerSMax) != before {
            self.refill_brake();
        }
        self.busy.own = (!own.is_empty()).then_some(own);
        self.wake_now();
        known
    }

    /// Pauses the queue, or resumes it.
    fn apply_pause(&mut self, effect: &Effect<'_>) -> bool {
        let Effect::Pause { on, until, reason } = effect else {
            return false;
        };
        self.busy.pause = on.then(|| {
            Box::new(Pause {
                until: *until,
                reason: boxed(reason),
            })
        });
        self.wake_now();
        true
    }

    /// An empty record under `id`, whatever was there, in no place.
    fn fresh(&mut self, id: &[u8]) -> Option<u32> {
        if let Some(i) = self.store.find(id) {
            self.lift(i);
            self.store.remove(i);
        }
        self.store.create(id)
    }

    /// The record under `id`, lifted out of its place.
    fn taken(&mut self, id: &[u8]) -> Option<u32> {
        let i = self.store.find(id)?;
        self.lift(i);
        Some(i)
    }

    /// The record under `id` if it has a deadline: only such an order can be
    /// claimed, handed back or requeued. What was decided on one that was replaced
    /// since (a stream that is replayed, or made up) would make a finished order
    /// with a lease, which no file can hold.
    fn waiting(&self, id: &[u8]) -> Option<u32> {
        let i = self.store.find(id)?;
        self.store.rows.get(i)?.deadline().map(|_| i)
    }

    /// The record under `id`, lifted out of its place, if it is not finished: it can
    /// be locked, and its lease released.
    fn taken_open(&mut self, id: &[u8]) -> Option<u32> {
        let i = self.store.find(id)?;
        if self.store.rows.get(i)?.is_finished() {
            return None;
        }
        self.lift(i);
        Some(i)
    }

    /// Sets rev and, where given, status; the floor follows the rev.
    fn label(&mut self, i: u32, rev: u64, status: Option<&Bytes<'_>>) {
        self.floor = self.floor.max(rev);
        if let Some(record) = self.store.rows.get_mut(i) {
            record.set_rev(rev);
        }
        if let Some(status) = status {
            self.store.set_status(i, status);
        }
    }
}

/// Notes an event.
fn raise<'e>(events: &mut Vec<Event<'e>>, kind: EventKind, id: &Bytes<'e>) {
    events.push(Event {
        kind,
        id: id.clone(),
    });
}
