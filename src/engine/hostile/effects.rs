//! Random effects, with numbers and moments at their limits and beyond.

use super::IDS;
use crate::engine::effect::{
    AfterTry, Base, Bytes, Effect, Ended, FinishedBy, Granted, LeaseKind, LeaseOf, Requeued,
    Snapshot, SnapshotEnding, SnapshotGrant, SnapshotHolder, SnapshotLife, SnapshotPhase,
};
use crate::engine::number::NUMBER_END;
use crate::engine::settings::{Setting, TRANSITIONS};
use crate::engine::testing::Dice;
use crate::words::time::{MOMENT_MAX, WALL_MS_MAX, WallMs};

/// Numbers at the limits of everything, and at those of the types.
const EDGES: [u64; 18] = [
    0,
    1,
    2,
    1_000,
    (1 << 32) - 1,
    1 << 32,
    WALL_MS_MAX.0,
    WALL_MS_MAX.0 + 1,
    MOMENT_MAX - 1,
    MOMENT_MAX,
    MOMENT_MAX + 1,
    MOMENT_MAX + 2,
    NUMBER_END - 1,
    NUMBER_END,
    1 << 53,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX,
];

/// Makes effects and requests.
pub(super) struct Maker<'m, 'd> {
    /// Where its choices come from.
    pub(super) dice: &'m mut Dice<'d>,
    /// The wall clock, milliseconds.
    pub(super) wall: u64,
}

impl Maker<'_, '_> {
    /// An edge now and then, else something near `usual`.
    fn edge(&mut self, usual: u64) -> u64 {
        if self.dice.chance(150) {
            self.dice.pick(&EDGES)
        } else {
            (usual + self.dice.below(200)).saturating_sub(100)
        }
    }

    fn moment(&mut self) -> WallMs {
        WallMs(self.edge(self.wall))
    }

    fn maybe_moment(&mut self) -> Option<WallMs> {
        self.dice.chance(500).then(|| self.moment())
    }

    fn number(&mut self) -> u64 {
        let usual = self.wall * 1000 + self.dice.below(1 << 20);
        self.edge(usual)
    }

    fn small(&mut self) -> u32 {
        self.dice.pick(&[0, 1, 1, 2, 3, u32::MAX - 1, u32::MAX])
    }

    fn id(&mut self) -> Bytes<'static> {
        Bytes::of(self.dice.pick(&IDS))
    }

    fn ids(&mut self) -> Vec<Bytes<'static>> {
        (0..self.dice.below(4)).map(|_| self.id()).collect()
    }

    fn text(&mut self) -> Bytes<'static> {
        let texts: [&'static [u8]; 5] = [
            b"",
            b"x",
            b"unpaid",
            b"a text of just thirty-two bytes!",
            b"one that is longer than thirty-two",
        ];
        Bytes::of(self.dice.pick(&texts))
    }

    fn maybe_text(&mut self) -> Option<Bytes<'static>> {
        self.dice.chance(500).then(|| self.text())
    }

    fn owner(&mut self) -> Bytes<'static> {
        Bytes::of(self.dice.pick(&[&b"me"[..], b"me", b"another", b""]))
    }

    fn after(&mut self) -> AfterTry {
        match self.dice.below(3) {
            0 => AfterTry::Now,
            1 => AfterTry::At {
                since: self.moment(),
                at: self.moment(),
            },
            _ => AfterTry::Dead(self.moment()),
        }
    }

    fn kind(&mut self) -> LeaseKind {
        self.dice.pick(&[LeaseKind::Claim, LeaseKind::Lock])
    }

    fn setting(&mut self) -> Effect<'static> {
        if self.dice.chance(100) {
            return Effect::Configure {
                name: Bytes::of(TRANSITIONS),
                value: self.maybe_text(),
            };
        }
        let setting = self.dice.pick(&Setting::ALL);
        let (min, max) = setting.range();
        let value = match self.dice.below(8) {
            0 => min,
            1 => max,
            2 => max + 1,
            3 => self.dice.pick(&EDGES),
            _ => self.dice.below(2_000),
        };
        Effect::Configure {
            name: Bytes::of(setting.name().as_bytes()),
            value: self
                .dice
                .chance(900)
                .then(|| Bytes::copied(value.to_string().as_bytes())),
        }
    }

    fn phase(&mut self) -> SnapshotPhase<'static> {
        match self.dice.below(5) {
            0 => SnapshotPhase::Plain,
            1 => SnapshotPhase::Dead(self.moment()),
            2 => SnapshotPhase::Retrying {
                since: self.moment(),
                at: self.moment(),
            },
            _ => SnapshotPhase::Granted(SnapshotGrant {
                kind: self.kind(),
                owner: self.owner(),
                fence: self.number(),
                made: self.moment(),
                since: self.moment(),
                end: self.moment(),
                cap: self.moment(),
                holds: self.small(),
                last_try: self.dice.chance(500),
            }),
        }
    }

    fn whole(&mut self) -> Snapshot<'static> {
        let life = if self.dice.chance(300) {
            SnapshotLife::Finished {
                keep_end: self.moment(),
                result: self.maybe_text(),
                ending: self.dice.chance(500).then(|| SnapshotEnding {
                    at: self.moment(),
                    deadline: self.maybe_moment(),
                    attempt: self.small(),
                    holder: self.dice.chance(500).then(|| SnapshotHolder {
                        kind: self.kind(),
                        owner: self.owner(),
                    }),
                }),
            }
        } else {
            SnapshotLife::Open {
                deadline: self.dice.chance(700).then(|| self.moment()),
                payload: self.maybe_text(),
                attempt: self.small(),
                error: self.maybe_text(),
                phase: self.phase(),
            }
        };
        Snapshot {
            id: self.id(),
            status: self.text(),
            rev: self.number(),
            fp: self.dice.chance(300).then(|| Bytes::of(b"fp")),
            life,
        }
    }

    /// Any effect at all: for orders that are in no such state, with times and numbers
    /// that no decision makes.
    pub(super) fn effect(&mut self) -> Effect<'static> {
        match self.dice.below(19) {
            0 | 1 => Effect::Schedule {
                id: self.id(),
                deadline: self.moment(),
                rev: self.number(),
                status: self.maybe_text(),
                payload: self.maybe_text(),
                base: self
                    .dice
                    .pick(&[Base::Fresh, Base::Record, Base::RecordAndLock]),
            },
            2 => Effect::Finish {
                id: self.id(),
                rev: self.number(),
                status: self.maybe_text(),
                result: self.maybe_text(),
                keep_end: self.maybe_moment(),
                creates: self.dice.chance(300),
                by: self.dice.pick(&[FinishedBy::Finish, FinishedBy::Ack]),
                at: self.moment(),
                by_holder: self.dice.chance(500),
            },
            3 => Effect::Status {
                id: self.id(),
                rev: self.number(),
                status: self.text(),
                payload: self.maybe_text(),
                ends_grant: self.dice.chance(300),
            },
            4 | 5 => Effect::Claim {
                owner: self.owner(),
                since: self.moment(),
                end: self.moment(),
                cap: self.moment(),
                grants: (0..self.dice.below(4))
                    .map(|_| Granted {
                        id: self.id(),
                        fence: self.number(),
                        attempt: self.small(),
                        last_try: self.dice.chance(300),
                    })
                    .collect(),
            },
            6 => Effect::Nack {
                id: self.id(),
                rev: self.number(),
                then: self.after(),
                error: self.maybe_text(),
                untried: self.dice.chance(300),
            },
            7 => Effect::Renew {
                id: self.id(),
                rev: self.number(),
                since: self.moment(),
                end: self.moment(),
            },
            8 => Effect::Lock {
                id: self.id(),
                owner: self.owner(),
                fence: self.number(),
                since: self.moment(),
                end: self.moment(),
                cap: self.moment(),
                fp: self.dice.chance(500).then(|| Bytes::of(b"fp")),
                creates: self.dice.chance(300),
            },
            9 => Effect::Hold {
                id: self.id(),
                rev: self.number(),
                holds: self.small(),
                since: self.moment(),
                end: self.moment(),
            },
            10 => Effect::Release {
                id: self.id(),
                rev: self.number(),
                ended: if self.dice.chance(500) {
                    Ended::Lock
                } else {
                    Ended::Claim {
                        then: self.after(),
                        untried: self.dice.chance(500),
                    }
                },
            },
            11 => Effect::Forget { ids: self.ids() },
            12 => Effect::Requeue {
                rev: self.number(),
                orders: (0..self.dice.below(4))
                    .map(|_| Requeued {
                        id: self.id(),
                        attempt: self.small(),
                    })
                    .collect(),
            },
            13 => Effect::Pause {
                on: self.dice.chance(300),
                until: self.maybe_moment(),
                reason: self.text(),
            },
            14 => self.setting(),
            15 if self.dice.chance(30) => Effect::Floor(self.number()),
            16 => Effect::Lapse {
                end: self.moment(),
                leases: (0..self.dice.below(4))
                    .map(|_| LeaseOf {
                        id: self.id(),
                        fence: self.number(),
                    })
                    .collect(),
            },
            _ => Effect::Restore(self.whole()),
        }
    }
}
