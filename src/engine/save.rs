//! Saving: a queue as the effects that rebuild it.
//!
//! RDB, DUMP, COPY and a rewritten AOF all carry the same effects in the same
//! order: settings, pause, floor, then the records. Claimable and scheduled
//! orders come by deadline, orders of one millisecond in the order they were
//! scheduled, so that ties survive. Nothing is left out, also not what already
//! reads as missing: loading must give equal ground state on every server.

use super::effect::{
    Bytes, Effect, Snapshot, SnapshotEnding, SnapshotGrant, SnapshotHolder, SnapshotLife,
    SnapshotPhase,
};
use super::lookup::AHEAD_MAX;
use super::queue::Queue;
use super::record::Phase;
use super::tables::NIL;
use super::tables::list::Links;
use super::views::{by_deadline, by_keep, by_lease};

impl Queue {
    /// Gives each effect that rebuilds this queue to `sink`, until that returns
    /// false. Lossless; O(n).
    pub fn for_each_saved(&self, sink: &mut dyn FnMut(&Effect<'_>) -> bool) {
        for (name, value) in self.busy.own.iter().flat_map(|own| own.each()) {
            let value = Some(Bytes::of(&value));
            if !sink(&Effect::Configure {
                name: Bytes::of(name),
                value,
            }) {
                return;
            }
        }
        if let Some(pause) = &self.busy.pause
            && !sink(&Effect::Pause {
                on: true,
                until: pause.until,
                reason: Bytes::of(&pause.reason),
            })
        {
            return;
        }
        if self.floor > 0 && !sink(&Effect::Floor(self.floor)) {
            return;
        }
        let rows = &self.store.rows;
        let mut go_on = true;
        // By order of time records lie anywhere in memory: they are saved in
        // batches that are read all at once.
        let mut batch: Vec<u32> = Vec::with_capacity(AHEAD_MAX);
        let mut save_batch = |batch: &mut Vec<u32>| {
            for i in batch.iter() {
                rows.touch(*i);
            }
            for i in batch.drain(..) {
                if go_on && let Some(whole) = self.whole(i) {
                    go_on = sink(&Effect::Restore(whole));
                }
            }
            go_on
        };
        let mut save = |i: u32| {
            batch.push(i);
            batch.len() < AHEAD_MAX || save_batch(&mut batch)
        };
        for list in [&self.busy.drawn, &self.busy.returned, &self.busy.dead] {
            let mut at = list.front().unwrap_or(NIL);
            while at != NIL && save(at) {
                at = rows.next(at);
            }
        }
        self.deadlines
            .for_each_in_order(&by_deadline(rows), &mut save);
        self.busy
            .leases
            .for_each_in_order(&by_lease(rows), &mut save);
        self.busy.keeps.for_each_in_order(&by_keep(rows), &mut save);
        save_batch(&mut batch);
    }

    /// A record with all of its ground state.
    fn whole(&self, i: u32) -> Option<Snapshot<'_>> {
        let rows = &self.store.rows;
        let record = rows.get(i)?;
        let (id, second) = rows.parts(i);
        let extra = rows.extra(i);
        let second = second.map(Bytes::of);
        let life = match record.keep_end() {
            Some(keep_end) => SnapshotLife::Finished {
                keep_end,
                result: second,
                ending: self.store.ending(i).map(|ending| SnapshotEnding {
                    at: ending.at,
                    deadline: ending.deadline,
                    attempt: ending.attempt,
                    holder: ending.holder.map(|(kind, owner)| SnapshotHolder {
                        kind,
                        owner: Bytes::of(owner),
                    }),
                }),
            },
            None => SnapshotLife::Open {
                deadline: record.deadline(),
                payload: second,
                attempt: extra.map_or(0, |extra| extra.attempt),
                error: extra
                    .and_then(|extra| extra.error.as_deref())
                    .map(Bytes::of),
                phase: extra.map_or(SnapshotPhase::Plain, |extra| whole_phase(&extra.phase)),
            },
        };
        Some(Snapshot {
            id: Bytes::of(id),
            status: Bytes::of(self.store.status(i)),
            rev: record.rev(),
            fp: extra.and_then(|extra| extra.fp.as_deref()).map(Bytes::of),
            life,
        })
    }
}

/// What the last grant has come to, as it is saved.
fn whole_phase(phase: &Phase) -> SnapshotPhase<'_> {
    match phase {
        Phase::Plain => SnapshotPhase::Plain,
        Phase::Retrying(retry) => SnapshotPhase::Retrying {
            since: retry.since,
            at: retry.at,
        },
        Phase::Dead(at) => SnapshotPhase::Dead(*at),
        Phase::Granted(grant) => SnapshotPhase::Granted(SnapshotGrant {
            kind: grant.kind,
            owner: Bytes::of(&grant.owner),
            fence: grant.fence,
            made: grant.made,
            since: grant.since,
            end: grant.end,
            cap: grant.cap,
            holds: grant.holds,
            last_try: grant.last_try,
        }),
    }
}
