//! Random effects: every field within its limits, often at one of them.
//! `ORDER_TEST_SEED` gives other effects, `ORDER_TEST_STEPS` another number of them.

use super::*;

/// A generator with the seed from the environment.
pub(super) struct Random {
    pub(super) state: u64,
    pub(super) seed: u64,
    pub(super) steps: u64,
}

impl Random {
    pub(super) fn new() -> Self {
        let from = |name, or| {
            std::env::var(name)
                .ok()
                .and_then(|text| text.parse().ok())
                .unwrap_or(or)
        };
        let seed = from("ORDER_TEST_SEED", 0xC0DE_C001);
        Self {
            state: seed,
            seed,
            steps: from("ORDER_TEST_STEPS", 200_000),
        }
    }

    pub(super) fn next(&mut self) -> u64 {
        mix(&mut self.state)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    /// A number of any size below `end`, `min` at least.
    fn sized(&mut self, min: u64, end: u64) -> u64 {
        let shift = self.below(64);
        (self.next() >> shift).min(end - 1).max(min)
    }

    fn bytes(&mut self, min: u64, max: u64) -> Bytes<'static> {
        let length = match self.below(8) {
            0 => min,
            1 => max,
            _ => min + self.below((max - min + 1).min(24)),
        };
        let bytes: Vec<u8> = (0..length).map(|_| self.next() as u8).collect();
        Bytes::copied(&bytes)
    }

    fn id(&mut self) -> Bytes<'static> {
        self.bytes(1, 255)
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.flag() { Some(make(self)) } else { None }
    }

    fn number(&mut self) -> u64 {
        self.sized(1, NUMBER_END)
    }

    fn deadline(&mut self) -> WallMs {
        WallMs(self.sized(0, WALL_MS_MAX.0 + 1))
    }

    fn moment(&mut self) -> WallMs {
        WallMs(self.sized(0, MOMENT_END))
    }

    fn status(&mut self) -> Bytes<'static> {
        self.bytes(0, 32)
    }

    fn payload(&mut self) -> Bytes<'static> {
        self.bytes(0, 70_000)
    }

    fn error(&mut self) -> Bytes<'static> {
        self.bytes(0, 256)
    }

    fn after(&mut self) -> AfterTry {
        match self.below(3) {
            0 => AfterTry::Now,
            1 => AfterTry::At {
                since: self.moment(),
                at: self.moment(),
            },
            _ => AfterTry::Dead(self.moment()),
        }
    }

    fn ids(&mut self) -> Vec<Bytes<'static>> {
        (0..self.sized(1, 301)).map(|_| self.id()).collect()
    }

    fn grant(&mut self) -> SnapshotGrant<'static> {
        SnapshotGrant {
            kind: if self.flag() {
                LeaseKind::Claim
            } else {
                LeaseKind::Lock
            },
            owner: self.bytes(1, 128),
            fence: self.number(),
            made: self.moment(),
            since: self.moment(),
            end: self.moment(),
            cap: self.moment(),
            holds: self.sized(1, 1 << 32) as u32,
            last_try: self.flag(),
        }
    }

    fn ending(&mut self) -> SnapshotEnding<'static> {
        SnapshotEnding {
            at: self.moment(),
            deadline: self.maybe(Self::deadline),
            attempt: self.sized(0, 1 << 32) as u32,
            holder: self.maybe(|random| SnapshotHolder {
                kind: LeaseKind::Lock,
                owner: random.bytes(1, 128),
            }),
        }
    }

    fn life(&mut self) -> SnapshotLife<'static> {
        if self.flag() {
            return SnapshotLife::Finished {
                keep_end: self.moment(),
                result: self.maybe(Self::payload),
                ending: self.maybe(Self::ending),
            };
        }
        SnapshotLife::Open {
            deadline: Some(self.deadline()),
            payload: self.maybe(Self::payload),
            attempt: self.sized(0, 1 << 32) as u32,
            error: self.maybe(Self::error),
            phase: match self.below(4) {
                0 => SnapshotPhase::Plain,
                1 => SnapshotPhase::Dead(self.moment()),
                2 => SnapshotPhase::Retrying {
                    since: self.moment(),
                    at: self.moment(),
                },
                _ => SnapshotPhase::Granted(self.grant()),
            },
        }
    }

    pub(super) fn effect(&mut self) -> Effect<'static> {
        match self.below(16) {
            0 => Effect::Schedule {
                id: self.id(),
                deadline: self.deadline(),
                rev: self.number(),
                status: self.maybe(Self::status),
                payload: self.maybe(Self::payload),
                base: [Base::Fresh, Base::Record, Base::RecordAndLock][self.below(3) as usize],
            },
            1 => Effect::Finish {
                id: self.id(),
                rev: self.number(),
                status: self.maybe(Self::status),
                result: self.maybe(Self::payload),
                keep_end: self.maybe(Self::moment),
                creates: self.flag(),
                by: if self.flag() {
                    FinishedBy::Finish
                } else {
                    FinishedBy::Ack
                },
                at: self.moment(),
                by_holder: self.flag(),
            },
            2 => Effect::Status {
                id: self.id(),
                rev: self.number(),
                status: self.status(),
                payload: self.maybe(Self::payload),
                ends_grant: self.number().is_multiple_of(2),
            },
            3 => Effect::Claim {
                owner: self.bytes(1, 128),
                since: self.moment(),
                end: self.moment(),
                cap: self.moment(),
                grants: (0..self.sized(1, 301))
                    .map(|_| Granted {
                        id: self.id(),
                        fence: self.number(),
                        attempt: self.sized(1, 1 << 32) as u32,
                        last_try: self.flag(),
                    })
                    .collect(),
            },
            4 => Effect::Nack {
                id: self.id(),
                rev: self.number(),
                then: self.after(),
                error: self.maybe(Self::error),
                untried: self.flag(),
            },
            5 => Effect::Renew {
                id: self.id(),
                rev: self.number(),
                since: self.moment(),
                end: self.moment(),
            },
            6 => Effect::Lock {
                id: self.id(),
                owner: self.bytes(1, 128),
                fence: self.number(),
                since: self.moment(),
                end: self.moment(),
                cap: self.moment(),
                fp: self.maybe(|random| random.bytes(1, 64)),
                creates: self.flag(),
            },
            7 => Effect::Hold {
                id: self.id(),
                rev: self.number(),
                holds: self.sized(1, 1 << 32) as u32,
                since: self.moment(),
                end: self.moment(),
            },
            8 => Effect::Release {
                id: self.id(),
                rev: self.number(),
                ended: if self.flag() {
                    Ended::Lock
                } else {
                    Ended::Claim {
                        then: self.after(),
                        untried: self.flag(),
                    }
                },
            },
            9 => Effect::Forget { ids: self.ids() },
            10 => Effect::Requeue {
                rev: self.number(),
                orders: (0..self.sized(1, 301))
                    .map(|_| Requeued {
                        id: self.id(),
                        attempt: self.sized(0, 1 << 32) as u32,
                    })
                    .collect(),
            },
            11 => {
                let setting = Setting::ALL[self.below(Setting::ALL.len() as u64) as usize];
                let (min, max) = setting.range();
                Effect::Configure {
                    name: Bytes::of(setting.name().as_bytes()),
                    value: self.maybe(|random| {
                        Bytes::copied(random.sized(min, max + 1).to_string().as_bytes())
                    }),
                }
            }
            12 => Effect::Pause {
                on: self.flag(),
                until: self.maybe(Self::moment),
                reason: self.error(),
            },
            13 => Effect::Floor(self.number()),
            14 => Effect::Lapse {
                end: self.moment(),
                leases: (0..self.sized(1, 301))
                    .map(|_| LeaseOf {
                        id: self.id(),
                        fence: self.number(),
                    })
                    .collect(),
            },
            _ => Effect::Restore(Snapshot {
                id: self.id(),
                status: self.status(),
                rev: self.number(),
                fp: self.maybe(|random| random.bytes(1, 64)),
                life: self.life(),
            }),
        }
    }
}
