//! A record as it was saved, made again.

use super::leases::GrantTimes;
use super::{Source, boxed};
use crate::engine::effect::{Snapshot, SnapshotGrant, SnapshotLife, SnapshotPhase};
use crate::engine::ending::Ending;
use crate::engine::queue::{Entry, Queue};
use crate::engine::record::{Grant, Phase, Retry};
use crate::words::time::Now;

impl Queue {
    /// Makes a record from all of its ground state.
    pub(super) fn restore(&mut self, now: &Now, whole: &Snapshot<'_>, source: Source<'_>) -> bool {
        let Some(i) = self.fresh(&whole.id) else {
            return false;
        };
        let fits = match &whole.life {
            SnapshotLife::Finished {
                keep_end,
                result,
                ending,
            } => {
                let ending = ending.as_ref().map(|ending| Ending {
                    at: ending.at,
                    deadline: ending.deadline,
                    attempt: ending.attempt,
                    holder: ending
                        .holder
                        .as_ref()
                        .map(|holder| (holder.kind, &*holder.owner)),
                });
                let fits = self.store.set_result(i, result.as_deref(), ending.as_ref());
                if let Some(record) = self.store.rows.get_mut(i) {
                    record.set_finished(*keep_end);
                }
                fits
            }
            SnapshotLife::Open {
                deadline,
                payload,
                attempt,
                error,
                phase,
            } => {
                let fits = self.store.set_second(i, payload.as_deref());
                if let Some(record) = self.store.rows.get_mut(i) {
                    record.set_deadline(*deadline);
                }
                let phase = self.restored_phase(now, phase, source);
                if *attempt > 0 || error.is_some() || !matches!(phase, Phase::Plain) {
                    self.store.with_extra(i, |extra| {
                        extra.attempt = *attempt;
                        extra.error = error.as_ref().map(boxed);
                        extra.phase = phase;
                    });
                }
                fits
            }
        };
        if !fits {
            self.store.remove(i);
            return false;
        }
        if let Some(fp) = &whole.fp {
            self.store.with_extra(i, |extra| extra.fp = Some(boxed(fp)));
        }
        self.label(i, whole.rev, Some(&whole.status));
        self.file(i, now, Entry::Loaded);
        true
    }

    /// What the last grant of a whole record has come to, as this process judges it.
    fn restored_phase(
        &mut self,
        now: &Now,
        phase: &SnapshotPhase<'_>,
        source: Source<'_>,
    ) -> Phase {
        match phase {
            SnapshotPhase::Plain => Phase::Plain,
            SnapshotPhase::Dead(at) => Phase::Dead(*at),
            SnapshotPhase::Retrying { since, at } => Phase::Retrying(Retry {
                since: *since,
                at: *at,
                mono: now.to_mono(*at, at.length_since(*since)),
            }),
            SnapshotPhase::Granted(SnapshotGrant {
                kind,
                owner,
                fence,
                made,
                since,
                end,
                cap,
                holds,
                last_try,
            }) => {
                self.floor = self.floor.max(*fence);
                let times = GrantTimes {
                    made: *made,
                    since: *since,
                    end: *end,
                    cap: *cap,
                };
                Phase::Granted(Grant {
                    holds: *holds,
                    last_try: *last_try,
                    ..self.grant(now, source, *kind, owner.shared(), *fence, times)
                })
            }
        }
    }
}
