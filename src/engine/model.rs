//! The core against a naive model of it.
//!
//! The model is a sorted map of records and the rules of the design, written down
//! as they are read, with no wheel, list or index: every question is a walk over
//! all records. A seeded generator drives the core and the model with the same
//! operations and compares what they say after each. The core runs twice, as a
//! primary and as a replica with another clock, which gets the effects alone,
//! encoded and decoded; now and then they change places, or one is saved and
//! loaded again.
//!
//! ```text
//!   dice ─► operation ─┬► model                      outcome, order, fence ─┐
//!                      └► primary ─► effect ─► codec ─► replica             ├─ equal?
//!                           └► save ─► codec ─► load ─► copy    views ──────┘
//! ```
//!
//! A run prints its name, seed and step when it fails. `ORDER_TEST_SEED` gives
//! another seed, `ORDER_TEST_STEPS` another number of steps for each run.
//!
//! What is compared when depends on the run: *exact* runs have clocks that only
//! pass, and a pass before each operation, so that the order of claims, the
//! announcements, the counts of STATS and the wake times are certain. The others
//! have clock steps, promotions, and passes that come late or never; there it is
//! compared whatever must hold all the same.

#![allow(
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::option_option,
    reason = "a test that fails should fail loudly"
)]

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::decide::Env;
use super::effect::{AfterTry, Bytes, Effect, LeaseKind};
use super::number::{NUMBER_END, Numbers};
use super::outcome::{Announcement, Decision, EventKind, Outcome};
use super::queue::{Duty, Queue};
use super::record::Place;
use super::settings::{Defaults, Setting};
use super::tables::wheel::{Filed, Wheel};
use super::view::{OrderView, StatValue};
use super::views::{by_deadline, by_keep, by_lease};
use crate::codec;
use crate::error::Error;
use crate::request::{
    Ack, Again, Break, Claim, Configure, Direction, Finish, Guard, Lock, Mode, Nack, Pause, Pick,
    Purge, Renew, Scan, Schedule, SetStatus, Unlock, When,
};
use crate::testing::mix;
use crate::words::state::State;
use crate::words::time::{Now, WallMs};

// ------------------------------------------------- invariants of the structures

impl Queue {
    /// Tests that every record stands in the one place its `place` names, that
    /// the place is one its ground state allows, and every structure's own
    /// invariants. O(n).
    pub(super) fn check(&self) {
        let rows = &self.store.rows;
        let mut places: HashMap<u32, Place> = HashMap::new();
        let mut tally = super::queue::Tally::default();
        for i in 0..rows.end() {
            let Some(record) = rows.get(i) else { continue };
            assert_eq!(
                self.store.find(rows.id(i)),
                Some(i),
                "the index finds every id"
            );
            places.insert(i, record.place());
            let extra = rows.extra(i);
            let grant = extra.and_then(super::record::Extra::grant);
            let retry = extra.is_some_and(|extra| extra.retry().is_some());
            let dead = extra.is_some_and(|extra| extra.dead_at().is_some())
                || grant.is_some_and(super::record::Grant::is_last_try);
            let open = record.deadline().is_some();
            match record.place() {
                Place::Deadlines | Place::Drawn => {
                    assert!(open && !dead, "{i} waits for no deadline");
                }
                Place::Returned => assert!(open && !dead, "{i} is not claimable"),
                Place::Leases => {
                    assert!(
                        grant.is_some() || (open && retry),
                        "{i} is neither leased nor retrying"
                    );
                    *match grant {
                        None => &mut tally.retrying,
                        Some(_) if !open => &mut tally.reserved,
                        Some(grant) if grant.kind == LeaseKind::Claim => &mut tally.claims,
                        Some(_) => &mut tally.locks,
                    } += 1;
                }
                Place::Dead => assert!(open && dead, "{i} is not dead"),
                Place::Keeps => assert!(!open, "{i} is not finished"),
                Place::Nowhere | Place::Vacant => panic!("{i} stands nowhere"),
            }
        }
        assert_eq!(places.len(), self.store.len());
        assert_eq!(tally, self.busy.tally);
        let mut met = 0;
        let mut stands = |i: u32, place: Place| {
            assert_eq!(places.get(&i), Some(&place), "record {i}");
            met += 1;
        };
        check_wheel(&self.deadlines, &by_deadline(rows), |i| {
            stands(i, Place::Deadlines);
        });
        check_wheel(&self.busy.leases, &by_lease(rows), |i| {
            stands(i, Place::Leases);
        });
        check_wheel(&self.busy.keeps, &by_keep(rows), |i| {
            stands(i, Place::Keeps);
        });
        for (list, place) in [
            (&self.busy.drawn, Place::Drawn),
            (&self.busy.returned, Place::Returned),
            (&self.busy.dead, Place::Dead),
        ] {
            list.check(rows);
            let mut len = 0;
            for i in list.iter(rows) {
                stands(i, place);
                len += 1;
            }
            assert_eq!(len, list.len());
        }
        assert_eq!(met, places.len(), "each in exactly one place");
        self.check_stock();
    }
}

/// Tests a wheel and shows all that is in it.
fn check_wheel(wheel: &Wheel, records: &impl Filed, mut show: impl FnMut(u32)) {
    wheel.check(records);
    let (mut last, mut len) = (0, 0);
    wheel.for_each_in_order(records, &mut |i| {
        let time = records.filed(i);
        assert!(time >= last, "in order");
        last = time;
        len += 1;
        show(i);
        true
    });
    assert_eq!(len, wheel.len());
}

/// Ground state as a sorted list.
pub(super) fn digest(queue: &Queue) -> Vec<(Vec<Vec<u8>>, Vec<u64>)> {
    let mut elements = Vec::new();
    queue.digest(&mut |texts, numbers| {
        elements.push((
            texts.iter().map(|text| text.to_vec()).collect(),
            numbers.to_vec(),
        ));
    });
    elements.sort();
    elements
}

/// What a queue saves, each effect encoded, as a set: the order differs between
/// servers whose passes ran at other times.
pub(super) fn saved(queue: &Queue) -> BTreeSet<Vec<u8>> {
    let mut all = BTreeSet::new();
    queue.for_each_saved(&mut |effect| {
        let mut blob = Vec::new();
        codec::encode(effect, &mut blob).unwrap();
        assert!(all.insert(blob), "twice: {effect:?}");
        true
    });
    all
}

/// A queue loaded from what another one saves.
pub(super) fn loaded(queue: &Queue, now: &Now, defaults: &Defaults) -> Queue {
    let mut writer = codec::ChunkWriter::new();
    let mut copy = Queue::new();
    let mut chunks: Vec<Vec<u8>> = Vec::new();
    queue.for_each_saved(&mut |effect| {
        chunks.extend(writer.push(effect).map(<[u8]>::to_vec));
        true
    });
    chunks.extend(writer.finish().map(<[u8]>::to_vec));
    for chunk in &chunks {
        for effect in codec::decode_chunk(codec::VERSION, chunk).unwrap() {
            assert!(copy.replay(now, &effect, defaults), "{effect:?}");
        }
    }
    copy
}

// ------------------------------------------------------------------------- dice

/// A seeded generator.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    /// The next number.
    pub(super) fn next(&mut self) -> u64 {
        mix(&mut self.0)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True in `of_thousand` of a thousand cases.
    pub(super) fn chance(&mut self, of_thousand: u64) -> bool {
        self.below(1000) < of_thousand
    }

    /// One of a few.
    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

// ------------------------------------------------------------------------ the model

/// The last grant of a record of the model.
#[derive(Clone, Debug)]
struct MGrant {
    /// Claim or lock.
    kind: LeaseKind,
    /// Who got it.
    owner: Vec<u8>,
    /// Its number.
    fence: u64,
    /// When it was made, the moment its cap counts from.
    made: u64,
    /// When it was made or renewed, the moment its end counts from.
    since: u64,
    /// When it ends, as stored.
    end: u64,
    /// When it ends by the monotonic clock of each server.
    over: [u64; 2],
    /// What renewals do not pass, as stored.
    cap: u64,
    /// The same by the monotonic clock of each server.
    cap_over: [u64; 2],
    /// How often it is held.
    holds: u32,
    /// Whether a failure is final.
    last_try: bool,
    /// Whether its lapse was announced.
    said: bool,
}

/// How a record of the model was finished.
#[derive(Clone, Debug)]
struct MEnding {
    /// When.
    at: u64,
    /// The deadline it had.
    deadline: Option<u64>,
    /// Tries.
    attempt: u32,
    /// Whose lease finished it.
    owner: Option<Vec<u8>>,
}

/// A record of the model.
#[derive(Clone, Debug, Default)]
struct MRecord {
    /// Status.
    status: Vec<u8>,
    /// Number of the last write.
    rev: u64,
    /// Deadline.
    deadline: Option<u64>,
    /// Finish mark.
    keep_end: Option<u64>,
    /// Payload.
    payload: Option<Vec<u8>>,
    /// Result.
    result: Option<Vec<u8>>,
    /// Tries.
    attempt: u32,
    /// Retry wait: its end as stored, and by the monotonic clock of each server.
    retry: Option<(u64, [u64; 2])>,
    /// Since when it waits.
    retry_since: u64,
    /// How it was finished.
    ending: Option<MEnding>,
    /// Dead mark.
    dead: bool,
    /// Why the last try failed.
    error: Option<Vec<u8>>,
    /// Last grant.
    grant: Option<MGrant>,
    /// Fingerprint of the request it was locked for.
    fp: Option<Vec<u8>>,
    /// Since when it is claimable, where no lease or wait says so.
    since: u64,
    /// Whether it waits for its deadline and nothing else ever was.
    plain: bool,
    /// Number of the write that set the deadline, for ties.
    seq: u64,
    /// Whether its present entry into expired or dead was announced.
    announced: bool,
}

impl MRecord {
    /// The state on a server.
    fn state(&self, now: &Now, server: usize) -> State {
        let (wall, mono) = (now.wall_us / 1000, now.mono_us / 1000);
        if let Some(keep_end) = self.keep_end {
            return if keep_end <= wall {
                State::Missing
            } else {
                State::Finished
            };
        }
        let live = self
            .grant
            .as_ref()
            .is_some_and(|grant| grant.over[server] > mono);
        let Some(deadline) = self.deadline else {
            return if live {
                State::Reserved
            } else {
                State::Missing
            };
        };
        if live {
            return State::Leased;
        }
        if self.dead
            || self
                .grant
                .as_ref()
                .is_some_and(|grant| grant.kind == LeaseKind::Claim && grant.last_try)
        {
            return State::Dead;
        }
        if self.retry.is_some_and(|(_, over)| over[server] > mono) {
            return State::Retrying;
        }
        if deadline > wall {
            State::Scheduled
        } else {
            State::Expired
        }
    }

    /// Since when it is claimable, given that it is.
    fn since(&self) -> u64 {
        let deadline = self.deadline.unwrap();
        match (&self.grant, self.retry) {
            (Some(grant), _) => grant.end.max(deadline),
            (None, Some((at, _))) => at.max(deadline),
            (None, None) => self.since,
        }
    }

    /// Ends whatever the record was about but the grant; a new entry into expired
    /// is ahead.
    fn renewed(&mut self) {
        self.attempt = 0;
        self.retry = None;
        self.dead = false;
        self.error = None;
        self.ending = None;
        self.announced = false;
    }
}

/// Milliseconds left of a lease, as shown.
fn left(over: u64, now: &Now) -> u64 {
    if over <= now.mono_us / 1000 {
        0
    } else {
        over.saturating_sub(now.mono_us.div_ceil(1000)).max(1)
    }
}

/// An order as it is shown.
#[derive(Debug, PartialEq)]
struct Shown {
    /// State.
    state: State,
    /// Status.
    status: Vec<u8>,
    /// Deadline.
    deadline: Option<u64>,
    /// Rev.
    rev: u64,
    /// Attempt.
    attempt: u32,
    /// Owner of the last grant, or whose lease finished it.
    owner: Option<Vec<u8>>,
    /// Kind and fence of the last grant.
    grant: Option<(LeaseKind, u64)>,
    /// What is left of the lease, and how often it is held.
    lease: Option<(u64, u32)>,
    /// End of the retry wait.
    retry_at: Option<u64>,
    /// Keep end.
    keep_end: Option<u64>,
    /// Payload.
    payload: Option<Vec<u8>>,
    /// Result.
    result: Option<Vec<u8>>,
    /// Error.
    error: Option<Vec<u8>>,
    /// When it was finished, and the deadline it had then.
    finished: (Option<u64>, Option<u64>),
}

impl Shown {
    /// As the core shows it.
    fn of(view: &OrderView<'_>) -> Self {
        let owned = |text: Option<&[u8]>| text.map(<[u8]>::to_vec);
        assert_eq!(view.lease_ms.is_some(), view.holds > 0);
        Self {
            state: view.state,
            status: view.status.to_vec(),
            deadline: view.deadline.map(|at| at.0),
            rev: view.rev,
            attempt: view.attempt,
            owner: owned(view.owner),
            grant: view.kind.map(|kind| (kind, view.fence)),
            lease: view.lease_ms.map(|ms| (ms, view.holds)),
            retry_at: view.retry_at.map(|at| at.0),
            keep_end: view.keep_end.map(|at| at.0),
            payload: owned(view.payload),
            result: owned(view.result),
            error: owned(view.error),
            finished: (
                view.finished_at.map(|at| at.0),
                view.finished_deadline.map(|at| at.0),
            ),
        }
    }

    /// As the model shows it.
    fn model(record: &MRecord, now: &Now, server: usize) -> Option<Self> {
        let state = record.state(now, server);
        let live = record
            .grant
            .as_ref()
            .filter(|_| matches!(state, State::Leased | State::Reserved));
        (state != State::Missing).then(|| Self {
            state,
            status: record.status.clone(),
            deadline: record.deadline,
            rev: record.rev,
            attempt: match &record.ending {
                Some(ending) => ending.attempt,
                None => record.attempt,
            },
            owner: match &record.ending {
                Some(ending) => ending.owner.clone(),
                None => record.grant.as_ref().map(|grant| grant.owner.clone()),
            },
            grant: record.grant.as_ref().map(|grant| (grant.kind, grant.fence)),
            lease: live.map(|grant| {
                let length = grant.end - grant.since;
                (left(grant.over[server], now).min(length), grant.holds)
            }),
            retry_at: record
                .retry
                .filter(|_| state == State::Retrying)
                .map(|(at, _)| at),
            keep_end: record.keep_end,
            payload: record.payload.clone(),
            result: record.result.clone(),
            error: record.error.clone(),
            finished: match &record.ending {
                Some(ending) => (Some(ending.at), ending.deadline),
                None => (None, None),
            },
        })
    }
}

/// Where a stored moment lies on a server's monotonic clock: no further ahead than
/// what ends there is long.
fn mono_of(end: u64, length: u64, now: &Now) -> u64 {
    let ceil = now.wall_us.div_ceil(1000);
    if end <= now.wall_us / 1000 || length == 0 {
        0
    } else {
        now.mono_us.div_ceil(1000) + end.saturating_sub(ceil).min(length)
    }
}

// ------------------------------------------------------------------------- the run

/// How often something happens.
#[derive(Clone, Copy, PartialEq)]
enum Often {
    /// Before every operation.
    Always,
    /// Now and then.
    Sometimes,
    /// Not at all.
    Never,
}

/// What a run is like.
#[derive(Clone, Copy)]
struct Kind {
    /// For messages.
    name: &'static str,
    /// Steps.
    steps: u64,
    /// Number of ids.
    ids: u64,
    /// Number of statuses.
    statuses: u64,
    /// Passes that advance.
    advance: Often,
    /// Passes that announce.
    announce: Often,
    /// Whether the wall clock is set now and then.
    clock_steps: bool,
    /// Whether primary and replica change places.
    promotions: bool,
    /// Whether the floor is raised far ahead of the clock.
    far: bool,
    /// Steps between comparisons of everything.
    compare_every: u64,
}

impl Kind {
    /// Whether everything is certain: the clocks only pass, and passes come first.
    fn is_exact(&self) -> bool {
        self.advance == Often::Always && !self.clock_steps && !self.promotions
    }
}

/// A process with a clock and a queue.
struct Server {
    /// The queue.
    queue: Queue,
    /// Its wall clock, microseconds.
    wall_us: u64,
    /// Its monotonic clock, microseconds.
    mono_us: u64,
}

impl Server {
    /// Both clocks.
    fn now(&self) -> Now {
        Now {
            wall_us: self.wall_us,
            mono_us: self.mono_us,
        }
    }
}

/// Fences and guards to ask with.
#[derive(Clone, Debug, Default)]
struct Asked {
    /// FROM.
    from: Vec<Vec<u8>>,
    /// IFREV.
    if_rev: Option<u64>,
    /// FENCE.
    fence: Option<u64>,
}

/// A run.
struct World {
    /// What it is like.
    kind: Kind,
    /// The dice.
    dice: Dice,
    /// Both servers.
    servers: [Server; 2],
    /// Which one is primary.
    active: usize,
    /// Number generator of the primary.
    numbers: Numbers,
    /// The same, of the model: numbers that are followed, and those far ahead.
    last: u64,
    /// See [`World::learn`].
    far: u64,
    /// The server's defaults.
    defaults: Defaults,
    /// Ids by number.
    ids: Vec<Vec<u8>>,
    /// Numbers by id.
    numbers_of: HashMap<Vec<u8>, u32>,
    /// The model's records.
    records: BTreeMap<u32, MRecord>,
    /// The model's floor.
    floor: u64,
    /// The queue's own settings.
    own: HashMap<Setting, u64>,
    /// Allowed changes of status.
    transitions: bool,
    /// The pause: its end, `None` for RESUME only.
    pause: Option<Option<u64>>,
    /// Writes that set a deadline.
    seq: u64,
    /// The largest fence each order ever had, whatever became of it.
    fences: BTreeMap<u32, u64>,
    /// Orders that were finished because paid, and not reopened.
    paid: BTreeSet<u32>,
    /// Lapses that may still be announced.
    credit: BTreeMap<u32, u32>,
    /// Whether the wall clock was ever set.
    stepped: bool,
    /// The wake of the scheduler.
    armed: u64,
    /// How much came of it all.
    counts: BTreeMap<&'static str, u64>,
}

/// Names of the settings the run changes, with some values.
const SETTINGS: [(Setting, [u64; 3]); 7] = [
    (Setting::LockMsMax, [5, 100, 5_000]),
    (Setting::MaxAttempts, [1, 3, 0]),
    (Setting::MaxLeased, [2, 10, 0]),
    (Setting::KeepMs, [0, 20, 60_000]),
    (Setting::BackoffMs, [0, 7, 1_000]),
    (Setting::DeadMax, [0, 3, 1_000]),
    (Setting::LeaseMs, [1, 50, 20_000]),
];

/// The allowed changes of status where there are any.
const TRANSITIONS: &[u8] = b"s1>s2 s2>s3 >s1 s3>s1";

impl World {
    /// The start of a run.
    fn new(kind: Kind, seed: u64) -> Self {
        let mut dice = Dice(seed);
        let ids: Vec<Vec<u8>> = (0..kind.ids)
            .map(|n| {
                let mut id = format!("order:{n}").into_bytes();
                // Some are as long as they may be, some are not text.
                if n % 13 == 0 {
                    id.resize(255, b'x');
                }
                if n % 7 == 0 {
                    id[0] = (n % 256) as u8;
                }
                id
            })
            .collect();
        let numbers_of = ids
            .iter()
            .enumerate()
            .map(|(n, id)| (id.clone(), n as u32))
            .collect();
        let start_us = 1_100_000_000_000_000 + dice.below(1_000_000);
        let phase = if kind.is_exact() {
            start_us % 1000
        } else {
            dice.below(1000)
        };
        let server = |skew_us: i64, mono_us: u64| Server {
            queue: Queue::new(),
            wall_us: start_us.checked_add_signed(skew_us).unwrap(),
            mono_us,
        };
        let skew_us = if kind.is_exact() {
            0
        } else {
            dice.below(400_000) as i64 - 200_000
        };
        let servers = [
            server(0, 5_000_000 + phase),
            server(skew_us, 9_000_000_000 + phase),
        ];
        let mut numbers = Numbers::new();
        numbers.guard(start_us, 10_000_000);
        let last = start_us + 10_000_000;
        let mut defaults = Defaults::default();
        defaults.set(Setting::MaxAttempts, 5);
        defaults.set(Setting::BackoffMs, 10);
        defaults.set(Setting::BackoffMsMax, 300);
        defaults.set(Setting::LeaseMs, 100);
        defaults.set(Setting::KeepMs, 500);
        defaults.set(Setting::DeadMax, 20);
        defaults.set(Setting::LockMsMax, 300);
        defaults.lease_ms_max = 30_000;
        Self {
            kind,
            dice,
            servers,
            active: 0,
            numbers,
            last,
            far: 0,
            defaults,
            ids,
            numbers_of,
            records: BTreeMap::new(),
            floor: 0,
            own: HashMap::new(),
            transitions: false,
            pause: None,
            seq: 0,
            fences: BTreeMap::new(),
            paid: BTreeSet::new(),
            credit: BTreeMap::new(),
            stepped: false,
            armed: u64::MAX,
            counts: BTreeMap::new(),
        }
    }

    /// Counts something that happened, so that a run can say it was not idle.
    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    // ---- clocks and servers

    /// Clocks of the primary.
    fn now(&self) -> Now {
        self.servers[self.active].now()
    }

    /// Clocks of both servers.
    fn nows(&self) -> [Now; 2] {
        [self.servers[0].now(), self.servers[1].now()]
    }

    /// The primary's queue.
    fn queue(&mut self) -> &mut Queue {
        &mut self.servers[self.active].queue
    }

    /// The primary's wall clock in milliseconds.
    fn wall(&self) -> u64 {
        self.now().wall_us / 1000
    }

    /// What a setting comes to.
    fn setting(&self, setting: Setting) -> u64 {
        self.own
            .get(&setting)
            .copied()
            .unwrap_or_else(|| self.defaults.get(setting))
    }

    /// How many dead orders are kept at most.
    fn dead_max(&self) -> Option<u64> {
        Some(self.setting(Setting::DeadMax)).filter(|most| *most > 0)
    }

    /// Whether the queue is paused.
    fn is_paused(&self) -> bool {
        self.pause
            .is_some_and(|until| until.is_none_or(|until| until > self.wall()))
    }

    /// State of an order on the primary.
    fn state(&self, n: u32) -> State {
        self.records.get(&n).map_or(State::Missing, |record| {
            record.state(&self.now(), self.active)
        })
    }

    /// Carries an effect out on both servers.
    fn carry(&mut self, effect: &Effect<'_>) {
        let nows = self.nows();
        let mut events = Vec::new();
        let primary = self.active;
        // What is to be said before is said once, and by this server alone.
        let before = |queue: &Queue| queue.lapses_before(&nows[primary], effect);
        for said in &before(&self.servers[primary].queue) {
            self.announced(said);
        }
        assert!(
            self.servers[primary]
                .queue
                .apply(&nows[primary], effect, &mut events),
            "{effect:?}"
        );
        let mut blob = Vec::new();
        codec::encode(effect, &mut blob).unwrap();
        let decoded = codec::decode(codec::VERSION, &blob).unwrap();
        assert_eq!(decoded.as_slice(), std::slice::from_ref(effect));
        let mut replicas_events = Vec::new();
        for effect in &decoded {
            let replica = &mut self.servers[1 - primary].queue;
            assert!(
                replica.apply(&nows[1 - primary], effect, &mut replicas_events),
                "{effect:?}"
            );
        }
        assert_eq!(events, replicas_events);
    }

    /// Lets time pass.
    fn pass_time(&mut self) {
        let us = match self.dice.below(100) {
            0..=39 => 0,
            40..=59 => self.dice.below(900),
            60..=74 => 1_000,
            75..=93 => self.dice.below(20_000),
            94..=97 => self.dice.below(400_000),
            98 => self.dice.below(5_000_000),
            _ if self.dice.chance(20) && self.wall() < 3_500_000_000_000 => {
                self.dice.below(31_536_000_000_000)
            }
            _ if self.dice.chance(300) => self.dice.below(600_000_000),
            _ => 0,
        };
        for server in &mut self.servers {
            server.wall_us += us;
            server.mono_us += us;
        }
        if self.kind.clock_steps && self.dice.chance(4) {
            self.stepped = true;
            let size = self.dice.pick(&[1, 300, 20_000, 2_000_000]);
            let step = self.dice.below(2 * size) as i64 - size as i64;
            let which = self.dice.below(2) as usize;
            let server = &mut self.servers[which];
            server.wall_us = server.wall_us.checked_add_signed(step).unwrap();
            self.count("clock steps");
        }
    }

    // ---- passes

    /// A pass or a part of one, as the run has it.
    fn pass(&mut self) {
        let exact = self.kind.is_exact();
        for server in 0..2 {
            // Whatever the run is like: nothing of a compaction shows.
            if self.dice.chance(20) {
                let mut budget = self.dice.below(4);
                self.servers[server].queue.compact_all(&mut || {
                    budget = budget.saturating_sub(1);
                    budget > 0
                });
            }
            let often = self.kind.advance;
            let now = self.servers[server].now();
            if often == Often::Always {
                assert!(self.servers[server].queue.advance(&now, &mut || true));
            } else if often == Often::Sometimes && self.dice.chance(100) {
                let mut budget = self.dice.below(4);
                self.servers[server].queue.advance(&now, &mut || {
                    budget = budget.saturating_sub(1);
                    budget > 0
                });
            }
        }
        if exact && self.kind.announce == Often::Always {
            self.announce_exactly();
        } else if self.kind.announce == Often::Always
            || (self.kind.announce == Often::Sometimes && self.dice.chance(100))
        {
            self.announce();
        }
        if exact && self.kind.announce == Often::Always {
            let now = self.now();
            self.armed = self
                .queue()
                .next_wake(&now, Duty::All)
                .map_or(u64::MAX, |wake| wake.0);
            self.check_wake();
        }
    }

    /// What was filed since the last pass has asked for a wake that is early
    /// enough.
    fn check_armed(&mut self) {
        let (now, wall) = (self.now(), self.wall());
        let hint = self.queue().take_hint();
        self.armed = self.armed.min(hint);
        let exact = self
            .queue()
            .next_wake(&now, Duty::All)
            .map_or(u64::MAX, |wake| wake.0);
        let armed = self.armed;
        assert!(
            armed <= exact.max(wall),
            "armed for {armed}, and {exact} is to be done"
        );
    }

    /// The exact wake is the exact one, right after a pass.
    fn check_wake(&mut self) {
        let (now, wall, active) = (self.now(), self.wall(), self.active);
        let exact = self
            .queue()
            .next_wake(&now, Duty::All)
            .map_or(u64::MAX, |wake| wake.0);
        let mut first = u64::MAX;
        for record in self.records.values() {
            let grant_end = record.grant.as_ref().map(|grant| grant.end);
            let at = match record.state(&now, active) {
                State::Scheduled => record.deadline.unwrap(),
                State::Leased | State::Reserved => grant_end.unwrap(),
                State::Retrying => record.retry.unwrap().0,
                // What was reserved is forgotten in the pass that finds it lapsed.
                State::Finished | State::Missing => record
                    .keep_end
                    .map_or(0, |end| end.div_ceil(256).saturating_mul(256)),
                State::Expired | State::Dead if !record.announced => 0,
                State::Expired | State::Dead => u64::MAX,
            };
            first = first.min(at);
        }
        // A lease end can be a millisecond early: both clocks are rounded.
        let (exact, first) = (exact.max(wall), first.max(wall));
        assert!(
            exact == first || exact + 1 == first,
            "wake at {exact}, not {first} (now {wall})"
        );
    }

    /// Takes one announcement into account.
    fn announced(&mut self, one: &Announcement) {
        let n = self.numbers_of[&*one.id];
        let state = self.state(n);
        match one.kind {
            EventKind::Lapsed => {
                let credit = self.credit.entry(n).or_default();
                assert!(*credit > 0, "lapsed without a lapse: {n}");
                *credit -= 1;
                self.count("lapsed");
            }
            EventKind::Expired | EventKind::Dead => {
                let expected = if one.kind == EventKind::Expired {
                    State::Expired
                } else {
                    State::Dead
                };
                assert_eq!(state, expected, "announced: {one:?}");
                let record = self.records.get_mut(&n).unwrap();
                assert!(
                    !record.announced || self.stepped,
                    "announced twice: {one:?}"
                );
                record.announced = true;
                self.count(if expected == State::Dead {
                    "dead"
                } else {
                    "expired"
                });
            }
            _ => panic!("{one:?}"),
        }
    }

    /// Announces some or all.
    fn announce(&mut self) {
        let now = self.now();
        let max = self.dice.pick(&[1, 3, 100_000]) as usize;
        let mut list = Vec::new();
        let caught_up = self.queue().advance(&now, &mut || true);
        assert!(caught_up);
        let backlog = self.queue().announce_backlog(&now);
        self.queue().announce(&now, max, &mut list);
        assert!(list.is_empty() || !self.is_paused(), "announced in a pause");
        assert!(list.is_empty() || backlog > 0);
        for one in &list {
            self.announced(one);
        }
        if max > 1000 && !self.is_paused() {
            for (n, record) in &self.records {
                let waits = matches!(
                    record.state(&now, self.active),
                    State::Expired | State::Dead
                );
                assert!(
                    record.announced || !waits,
                    "never announced: {n} {record:?}"
                );
            }
            // Of those that were set back, some may be due again.
            assert!(self.stepped || self.servers[self.active].queue.announce_backlog(&now) == 0);
        }
    }

    /// Announces all and knows exactly what that must be.
    fn announce_exactly(&mut self) {
        let (now, active) = (self.now(), self.active);
        let mut expected = BTreeSet::new();
        let mut since = BTreeMap::new();
        for (n, record) in &mut self.records {
            let state = record.state(&now, active);
            if record.deadline.is_some()
                && let Some(grant) = &mut record.grant
                && grant.over[active] <= now.mono_us / 1000
                && !grant.said
            {
                grant.said = true;
                expected.insert((1, *n));
            }
            match state {
                State::Expired if !record.announced => {
                    expected.insert((2, *n));
                    since.insert(*n, record.since());
                }
                State::Dead if !record.announced => {
                    expected.insert((3, *n));
                }
                _ => {}
            }
        }
        let mut list = Vec::new();
        self.queue().announce(&now, usize::MAX, &mut list);
        let mut latest = 0;
        for one in &list {
            let n = self.numbers_of[&*one.id];
            let number = match one.kind {
                EventKind::Lapsed => 1,
                EventKind::Expired => 2,
                EventKind::Dead => 3,
                _ => panic!("{one:?}"),
            };
            assert!(
                expected.remove(&(number, n)),
                "not to be announced, or twice: {one:?}"
            );
            if number == 2 {
                assert!(since[&n] >= latest, "announced out of order");
                latest = since[&n];
            }
            self.announced(one);
        }
        assert_eq!(expected, BTreeSet::new(), "not announced");
        assert_eq!(self.servers[active].queue.announce_backlog(&now), 0);
    }

    /// Forgets what is to be forgotten.
    fn forget(&mut self) {
        let (now, active) = (self.now(), self.active);
        let max = self.dice.pick(&[1, 3, 100]) as usize;
        let all = self.dice.chance(500);
        self.queue().advance(&now, &mut || true);
        while let Some(effect) = self.servers[active]
            .queue
            .due_forget(&now, &self.defaults, max)
        {
            match &effect {
                Effect::Forget { ids } => {
                    assert!((1..=max).contains(&ids.len()));
                    for id in ids {
                        let n = self.numbers_of[&**id];
                        match self.state(n) {
                            State::Missing => {}
                            State::Dead => {
                                let dead = self
                                    .records
                                    .values()
                                    .filter(|r| r.state(&now, active) == State::Dead)
                                    .count();
                                assert!(
                                    self.dead_max().is_some_and(|most| dead as u64 > most),
                                    "dropped for no reason"
                                );
                                self.count("dead dropped");
                            }
                            other => panic!("forgot an order that is {other:?}"),
                        }
                        assert!(self.records.remove(&n).is_some());
                        self.paid.remove(&n);
                        self.count("forgotten");
                    }
                }
                Effect::Pause { on: false, .. } => {
                    assert!(
                        self.pause
                            .is_some_and(|until| until.is_some_and(|until| until <= self.wall()))
                    );
                    self.pause = None;
                }
                other => panic!("{other:?}"),
            }
            self.carry(&effect);
            if !all {
                return;
            }
        }
        let mut dead = 0;
        for (n, record) in &self.records {
            let state = record.state(&now, active);
            dead += u64::from(state == State::Dead);
            assert!(
                state != State::Missing || self.stepped || !self.kind.is_exact(),
                "{n} is still there"
            );
        }
        assert!(
            self.dead_max().is_none_or(|most| dead <= most),
            "too many dead"
        );
    }

    // ---- what to ask with

    /// A status.
    fn status(&mut self) -> Vec<u8> {
        match self.dice.below(self.kind.statuses) {
            0 => Vec::new(),
            n => format!("s{n}").into_bytes(),
        }
    }

    /// A status or none.
    fn maybe_status(&mut self) -> Option<Vec<u8>> {
        self.dice.chance(500).then(|| self.status())
    }

    /// A payload, result or error, or none.
    fn maybe_text(&mut self) -> Option<Vec<u8>> {
        let len = match self.dice.below(20) {
            0..=9 => return None,
            10 => 0,
            11..=17 => self.dice.below(40),
            18 => self.dice.below(260),
            _ => self.dice.below(20_000).min(self.kind.ids * 20),
        };
        let byte = self.dice.below(256) as u8;
        Some(vec![byte; len as usize])
    }

    /// The right fence, an old one, or any.
    fn fence(&mut self, n: u32) -> u64 {
        let right = self
            .records
            .get(&n)
            .and_then(|record| record.grant.as_ref())
            .map(|grant| grant.fence);
        match self.dice.below(10) {
            0 => self.dice.below(1 << 53),
            1 => self.fences.get(&n).copied().unwrap_or(0),
            2 => right.unwrap_or(1).saturating_sub(1),
            _ => right.or_else(|| self.fences.get(&n).copied()).unwrap_or(0),
        }
    }

    /// A guard, mostly none.
    fn guard(&mut self, n: u32) -> Asked {
        let mut asked = Asked::default();
        if self.dice.chance(150) {
            let right = self.records.get(&n).map(|record| record.status.clone());
            if self.dice.chance(800) {
                asked.from.extend(right);
            }
            if self.dice.chance(500) {
                asked.from.push(self.status());
            }
        }
        if self.dice.chance(70) {
            let rev = self.records.get(&n).map_or(7, |record| record.rev);
            asked.if_rev = Some(if self.dice.chance(700) { rev } else { rev + 1 });
        }
        if self.dice.chance(200) {
            asked.fence = Some(self.fence(n));
        }
        asked
    }

    /// An order, more often one of the first, and often one that is leased.
    fn any_id(&mut self) -> u32 {
        let n = self.dice.below(self.kind.ids) as u32;
        if self.dice.chance(300) { n % 20 } else { n }
    }

    /// An order whose last grant is known, if a few looks find one.
    fn granted_id(&mut self) -> u32 {
        let start = self.any_id();
        let found = self
            .records
            .range(start..)
            .take(50)
            .find(|(_, record)| record.grant.is_some());
        found.map_or(start, |(n, _)| *n)
    }

    // ---- rules

    /// The number of a plain write.
    fn next_rev(&mut self, n: u32) -> u64 {
        let old = self.records.get(&n).map_or(0, |record| record.rev);
        let rev = if self.state(n) == State::Missing {
            self.next_grant()
        } else {
            let rev = (old + 1).max(self.last).max(self.now().wall_us);
            self.learn(rev);
            rev
        };
        assert!(rev > old, "revs grow");
        self.floor = self.floor.max(rev);
        rev
    }

    /// Takes note of a number: what is far ahead of the clock is known to queues alone
    /// that are as far ahead.
    fn learn(&mut self, number: u64) {
        if number <= self.now().wall_us + 3_600_000_000 {
            self.last = self.last.max(number);
        } else if number <= NUMBER_END - (1 << 40) {
            self.far = self.far.max(number);
        }
    }

    /// The number of a grant, or of an order that is made.
    fn next_grant(&mut self) -> u64 {
        let now_us = self.now().wall_us;
        let own = (self.last + 1).max(now_us);
        if own > self.floor {
            self.last = own;
            return own;
        }
        let mut number = self.floor + 1;
        if number > now_us + 3_600_000_000 && number <= NUMBER_END - (1 << 40) {
            number = number.max(self.far + 1);
        }
        self.learn(number);
        number
    }

    /// The number of a grant.
    fn next_fence(&mut self, n: u32) -> u64 {
        let fence = self.next_grant();
        self.floor = fence;
        let before = self.fences.insert(n, fence);
        assert!(before.is_none_or(|before| before < fence), "P4");
        fence
    }

    /// Fence, lease, rev, status, transitions: the first that is in the way.
    fn in_way(&self, n: u32, asked: &Asked, to: Option<&Vec<u8>>) -> Option<Outcome> {
        let record = &self.records[&n];
        let state = self.state(n);
        if let Some(fence) = asked.fence {
            if record
                .grant
                .as_ref()
                .is_none_or(|grant| grant.fence != fence)
            {
                return Some(Outcome::Stale);
            }
        } else if matches!(state, State::Leased | State::Reserved) {
            return Some(Outcome::Leased);
        }
        if asked.if_rev.is_some_and(|rev| rev != record.rev) {
            return Some(Outcome::Stale);
        }
        if !asked.from.is_empty() && !asked.from.contains(&record.status) {
            return Some(Outcome::State);
        }
        if self.transitions
            && let Some(to) = to
            && *to != record.status
        {
            let change = [record.status.as_slice(), b">", to].concat();
            if !TRANSITIONS
                .split(|byte| *byte == b' ')
                .any(|one| one == change)
            {
                return Some(Outcome::State);
            }
        }
        None
    }

    /// Compares outcome and state met, and carries the effect out.
    fn judge(
        &mut self,
        n: u32,
        decided: Result<Decision<'_>, Error>,
        outcome: Outcome,
        was: State,
    ) -> bool {
        let decision = decided.unwrap();
        assert_eq!(
            (decision.outcome, decision.was),
            (outcome, was),
            "order {n}"
        );
        let done = matches!(outcome, Outcome::Ok | Outcome::Held);
        assert_eq!(decision.effect.is_some(), done, "P12");
        self.count(outcome.word());
        if let Some(effect) = &decision.effect {
            self.carry(effect);
            return true;
        }
        false
    }

    /// Asks the primary.
    fn ask<'a>(
        &mut self,
        decide: impl FnOnce(&Queue, &mut Env<'_>) -> Result<Decision<'a>, Error>,
    ) -> Result<Decision<'a>, Error> {
        let now = self.now();
        let mut env = Env {
            now,
            numbers: &mut self.numbers,
            defaults: &self.defaults,
        };
        decide(&self.servers[self.active].queue, &mut env)
    }

    // ---- operations; each returns the order it touched

    /// SCHEDULE.
    fn schedule(&mut self) -> u32 {
        let n = self.any_id();
        let wall = self.wall();
        let when = match self.dice.below(20) {
            0 => When::In(0),
            1..=4 => When::In(self.dice.below(5)),
            5..=10 => When::In(self.dice.below(100)),
            11 => When::In(self.dice.below(100_000)),
            12 => When::In(self.dice.below(1 << 40)),
            13..=15 => When::At(WallMs((wall + self.dice.below(60)).next_multiple_of(16))),
            16 => When::At(WallMs(wall)),
            17 => When::At(WallMs(self.dice.below(wall))),
            _ => When::At(WallMs((wall + 50).saturating_sub(self.dice.below(100)))),
        };
        let mode = self.dice.pick(&[
            Mode::Create,
            Mode::Create,
            Mode::Create,
            Mode::Move,
            Mode::Upsert,
            Mode::Upsert,
        ]);
        let (mut only, mut asked) = (None, Asked::default());
        if mode != Mode::Create {
            asked = self.guard(n);
            only = self.dice.pick(&[
                None,
                None,
                None,
                Some(Direction::Later),
                Some(Direction::Earlier),
            ]);
        }
        let (status, payload) = (self.maybe_status(), self.maybe_text());
        let ask = Schedule {
            id: &self.ids[n as usize].clone(),
            when,
            mode,
            only,
            guard: Guard {
                from: asked.from.iter().map(Vec::as_slice).collect(),
                if_rev: asked.if_rev,
                fence: asked.fence,
            },
            status: status.as_deref(),
            payload: payload.as_deref(),
        };
        let decided = self.ask(|queue, env| queue.decide_schedule(env, &ask));

        let now = self.now();
        let deadline = match when {
            When::In(0) => wall,
            When::In(ms) => now.wall_us.div_ceil(1000) + ms,
            When::At(at) => at.0,
        };
        let was = self.state(n);
        let (mut base, mut keeps_lock) = (MRecord::default(), false);
        let outcome = 'outcome: {
            if was == State::Missing {
                break 'outcome if mode == Mode::Move {
                    Outcome::Missing
                } else {
                    Outcome::Ok
                };
            }
            let record = &self.records[&n];
            let holder = asked.fence.is_some()
                && record.grant.as_ref().map(|grant| grant.fence) == asked.fence;
            if was == State::Finished
                && (mode == Mode::Create || !asked.from.contains(&record.status))
            {
                break 'outcome Outcome::Finished;
            }
            if mode == Mode::Create && record.deadline.is_some() {
                break 'outcome Outcome::Exists;
            }
            if was == State::Reserved && mode == Mode::Move && holder {
                break 'outcome Outcome::Missing;
            }
            if let Some(outcome) = self.in_way(n, &asked, status.as_ref()) {
                break 'outcome outcome;
            }
            if let Some(old) = record.deadline {
                match only {
                    Some(Direction::Later) if deadline <= old => break 'outcome Outcome::Unchanged,
                    Some(Direction::Earlier) if deadline >= old => {
                        break 'outcome Outcome::Unchanged;
                    }
                    _ => {}
                }
            }
            keeps_lock = holder
                && matches!(was, State::Leased | State::Reserved)
                && record
                    .grant
                    .as_ref()
                    .is_some_and(|grant| grant.kind == LeaseKind::Lock);
            base = record.clone();
            Outcome::Ok
        };
        if self.judge(n, decided, outcome, was) {
            let mut record = base;
            record.renewed();
            record.rev = self.next_rev(n);
            record.deadline = Some(deadline);
            record.keep_end = None;
            record.result = None;
            if !keeps_lock {
                record.grant = None;
                record.fp = None;
            }
            if let Some(status) = status {
                record.status = status;
            }
            if payload.is_some() {
                record.payload = payload;
            }
            record.since = deadline.max(wall);
            record.plain = deadline >= wall;
            self.seq += 1;
            record.seq = self.seq;
            self.records.insert(n, record);
            self.paid.remove(&n);
        }
        n
    }

    /// What is left of an order that is finished now.
    fn finished(
        &mut self,
        n: u32,
        status: Option<Vec<u8>>,
        result: Option<Vec<u8>>,
        keep_ms: Option<u64>,
        by_holder: bool,
    ) {
        let (rev, wall) = (self.next_rev(n), self.wall());
        let keep_ms = keep_ms.unwrap_or_else(|| self.setting(Setting::KeepMs));
        let missing = self.state(n) == State::Missing;
        let old = self
            .records
            .remove(&n)
            .filter(|_| !missing)
            .unwrap_or_default();
        if keep_ms > 0 {
            let keep_end = Some(self.now().wall_us.div_ceil(1000) + keep_ms);
            let status = status.unwrap_or(old.status);
            let owner = old.grant.filter(|_| by_holder).map(|grant| grant.owner);
            self.records.insert(
                n,
                MRecord {
                    status,
                    rev,
                    keep_end,
                    result,
                    fp: old.fp,
                    ending: Some(MEnding {
                        at: wall,
                        deadline: old.deadline,
                        attempt: old.attempt,
                        owner,
                    }),
                    ..MRecord::default()
                },
            );
        }
        self.paid.insert(n);
    }

    /// FINISH.
    fn finish(&mut self) -> u32 {
        let n = if self.dice.chance(300) {
            self.granted_id()
        } else {
            self.any_id()
        };
        let (strict, create) = (self.dice.chance(200), self.dice.chance(200));
        let mut asked = self.guard(n);
        if create {
            (asked.fence, asked.if_rev) = (None, None);
        }
        let (status, result) = (self.maybe_status(), self.maybe_text());
        let keep_ms = self
            .dice
            .pick(&[None, None, Some(0), Some(5), Some(300), Some(86_400_000)]);
        let ask = Finish {
            id: &self.ids[n as usize].clone(),
            strict,
            create,
            guard: Guard {
                from: asked.from.iter().map(Vec::as_slice).collect(),
                if_rev: asked.if_rev,
                fence: asked.fence,
            },
            status: status.as_deref(),
            result: result.as_deref(),
            keep_ms,
        };
        let decided = self.ask(|queue, env| queue.decide_finish(env, &ask));

        let was = self.state(n);
        let outcome = if was == State::Missing {
            if create {
                Outcome::Ok
            } else {
                Outcome::Missing
            }
        } else if was == State::Finished {
            Outcome::Finished
        } else if let Some(outcome) = self.in_way(n, &asked, status.as_ref()) {
            outcome
        } else if strict
            && self.records[&n]
                .deadline
                .is_some_and(|deadline| deadline <= self.wall())
        {
            Outcome::Expired
        } else {
            Outcome::Ok
        };
        let by_holder = asked.fence.is_some();
        if self.judge(n, decided, outcome, was) {
            self.finished(n, status, result, keep_ms, by_holder);
        }
        n
    }

    /// STATUS.
    fn set_status(&mut self) -> u32 {
        let n = self.any_id();
        let asked = self.guard(n);
        let (status, payload) = (self.status(), self.maybe_text());
        let ask = SetStatus {
            id: &self.ids[n as usize].clone(),
            status: &status,
            guard: Guard {
                from: asked.from.iter().map(Vec::as_slice).collect(),
                if_rev: asked.if_rev,
                fence: asked.fence,
            },
            payload: payload.as_deref(),
        };
        let decided = self.ask(|queue, env| queue.decide_status(env, &ask));

        let was = self.state(n);
        let outcome = if was == State::Missing {
            Outcome::Missing
        } else if let Some(outcome) = self.in_way(n, &asked, Some(&status)) {
            outcome
        } else if was == State::Finished && payload.is_some() {
            Outcome::State
        } else {
            Outcome::Ok
        };
        if self.judge(n, decided, outcome, was) {
            let rev = self.next_rev(n);
            let record = self.records.get_mut(&n).unwrap();
            record.rev = rev;
            record.status = status;
            if asked.fence.is_none() && record.deadline.is_some() && record.grant.is_some() {
                record.since = record.since();
                record.plain = false;
                let grant = record.grant.take().unwrap();
                record.fp = None;
                record.dead |= grant.kind == LeaseKind::Claim && grant.last_try;
            }
            if payload.is_some() {
                record.payload = payload;
            }
        }
        n
    }

    /// CLAIM, of the next ones or of one.
    fn claim(&mut self) -> u32 {
        let one = self.dice.chance(250).then(|| self.any_id());
        let count = self.dice.pick(&[1, 1, 2, 5, 100, 1000]);
        let lease_ms = self
            .dice
            .pick(&[None, Some(1), Some(10), Some(200), Some(30_000)]);
        let owner = self.dice.pick(&[
            &b"one"[..],
            b"two",
            b"somebody with quite a long name, who takes his time",
        ]);
        let id = one.map(|n| self.ids[n as usize].clone());
        let pick = match &id {
            Some(id) => Pick::Id(id),
            None => Pick::Next {
                count,
                block_ms: None,
            },
        };
        let now = self.now();
        // A pass that is cut short may hand out less, never more or wrongly.
        let patient = self.kind.is_exact() || self.dice.chance(900);
        let mut env = Env {
            now,
            numbers: &mut self.numbers,
            defaults: &self.defaults,
        };
        let ask = Claim {
            owner,
            lease_ms,
            pick,
        };
        let queue = &mut self.servers[self.active].queue;
        queue.advance(&now, &mut || patient);
        let claimed = queue.decide_claim(&mut env, &ask).unwrap();

        let active = self.active;
        let live = |record: &&MRecord| {
            record.state(&now, active) == State::Leased
                && record
                    .grant
                    .as_ref()
                    .is_some_and(|grant| grant.kind == LeaseKind::Claim)
        };
        let max_leased = self.setting(Setting::MaxLeased);
        let room = if max_leased == 0 {
            usize::MAX
        } else {
            (max_leased as usize).saturating_sub(self.records.values().filter(live).count())
        };
        let mut claimable: Vec<u64> = self
            .records
            .values()
            .filter(|record| record.state(&now, active) == State::Expired)
            .map(MRecord::since)
            .collect();
        let expected = if self.is_paused() {
            0
        } else {
            match one {
                Some(n) => usize::from(self.state(n) == State::Expired).min(room),
                None => claimable.len().min(count as usize).min(room),
            }
        };
        if patient {
            assert_eq!(
                claimed.picks.len(),
                expected,
                "count {count}, {one:?}, room {room}"
            );
        } else {
            assert!(claimed.picks.len() <= expected);
        }
        let Some(effect) = claimed.effect else {
            assert!(claimed.picks.is_empty() && claimed.announcements.is_empty());
            self.count("claim: none");
            return one.unwrap_or(0);
        };
        self.count("claim: some");
        let Effect::Claim {
            owner: granted_to,
            since,
            end,
            cap,
            grants,
        } = &effect
        else {
            panic!("{effect:?}")
        };
        assert_eq!((&**granted_to, grants.len()), (owner, claimed.picks.len()));
        // What nobody had been told of is said now.
        let expired = |said: &&Announcement| said.kind == EventKind::Expired;
        let unheard = claimed.announcements.iter().filter(expired).count();
        assert_eq!(claimed.late_us.len(), unheard);
        let mut told: BTreeSet<u32> = BTreeSet::new();
        for said in &claimed.announcements {
            let n = self.numbers_of[&*said.id];
            if said.kind == EventKind::Expired {
                assert!(told.insert(n), "told twice");
            }
            self.announced(said);
        }
        let (ceil, nows) = (now.wall_us.div_ceil(1000), self.nows());
        let lease_ms = lease_ms
            .unwrap_or_else(|| self.setting(Setting::LeaseMs))
            .min(self.defaults.lease_ms_max);
        assert_eq!(
            (since.0, end.0, cap.0),
            (ceil, ceil + lease_ms, ceil + self.defaults.lease_ms_max)
        );
        claimable.sort_unstable();
        let mut touched = 0;
        let (mut before, mut seen): (Option<(u64, u64)>, BTreeSet<u32>) = (None, BTreeSet::new());
        for (at, (granted, i)) in grants.iter().zip(&claimed.picks).enumerate() {
            let view = self.servers[active].queue.view_at(&now, *i).unwrap();
            assert_eq!((view.id, view.state), (&*granted.id, State::Expired));
            let n = self.numbers_of[&*granted.id];
            touched = n;
            assert!(seen.insert(n), "granted twice");
            assert_eq!(self.state(n), State::Expired, "granted: {n}");
            assert!(!self.paid.contains(&n), "closed after it was paid");
            let fence = self.next_fence(n);
            let last_allowed = self.setting(Setting::MaxAttempts);
            let exact = self.kind.is_exact();
            let record = self.records.get_mut(&n).unwrap();
            assert!(record.announced, "claimed and never announced");
            assert!(one.is_none_or(|one| one == n));
            if exact && one.is_none() {
                assert_eq!(record.since(), claimable[at], "out of order");
                if record.plain && record.grant.is_none() && record.retry.is_none() {
                    let key = (record.since(), record.seq);
                    assert!(
                        before.is_none_or(|before| before.0 != key.0 || before.1 < key.1),
                        "tie out of order"
                    );
                    before = Some(key);
                }
            }
            record.attempt += 1;
            let last_try = last_allowed != 0 && u64::from(record.attempt) >= last_allowed;
            assert_eq!(
                (granted.fence, granted.attempt, granted.last_try),
                (fence, record.attempt, last_try)
            );
            assert!(fence > record.rev, "revs grow");
            record.rev = fence;
            record.fp = None;
            record.grant = Some(MGrant {
                kind: LeaseKind::Claim,
                owner: owner.to_vec(),
                fence,
                made: ceil,
                since: ceil,
                end: end.0,
                over: nows.map(|now| mono_of(end.0, end.0 - ceil, &now)),
                cap: cap.0,
                cap_over: nows.map(|now| mono_of(cap.0, cap.0 - ceil, &now)),
                holds: 1,
                last_try,
                said: false,
            });
            record.retry = None;
            record.dead = false;
            record.announced = false;
            *self.credit.entry(n).or_default() += 1;
        }
        self.carry(&effect);
        touched
    }

    /// ACK.
    fn ack(&mut self) -> u32 {
        let n = self.granted_id();
        let (fence, asked) = (self.fence(n), self.guard(n));
        let (status, result) = (self.maybe_status(), self.maybe_text());
        let keep_ms = self.dice.pick(&[None, Some(0), Some(30)]);
        let ask = Ack {
            id: &self.ids[n as usize].clone(),
            fence,
            from: asked.from.iter().map(Vec::as_slice).collect(),
            status: status.as_deref(),
            result: result.as_deref(),
            keep_ms,
        };
        let decided = self.ask(|queue, env| queue.decide_ack(env, &ask));

        let was = self.state(n);
        let asked = Asked {
            fence: Some(fence),
            if_rev: None,
            from: asked.from.clone(),
        };
        let outcome = match was {
            State::Missing => Outcome::Missing,
            State::Finished => Outcome::Finished,
            _ => self
                .in_way(n, &asked, status.as_ref())
                .unwrap_or(Outcome::Ok),
        };
        if self.judge(n, decided, outcome, was) {
            self.finished(n, status, result, keep_ms, true);
        }
        n
    }

    /// Ends the claim of a record as a failed try, or as none.
    fn fail(&mut self, n: u32, then: AfterTry, rev: u64, untried: bool) {
        let (wall, nows) = (self.wall(), self.nows());
        let was_dead = self.state(n) == State::Dead;
        let record = self.records.get_mut(&n).unwrap();
        record.rev = rev;
        record.grant = None;
        record.dead = matches!(then, AfterTry::Dead(_));
        record.retry = match then {
            AfterTry::At { since, at } => {
                record.retry_since = since.0;
                let length = at.0 - since.0;
                Some((at.0, nows.map(|now| mono_of(at.0, length, &now))))
            }
            _ => None,
        };
        record.attempt -= u32::from(untried);
        record.plain = false;
        record.since = wall.max(record.deadline.unwrap());
        // Who was dead and stays so does not die again.
        record.announced &= was_dead && record.dead;
    }

    /// NACK.
    fn nack(&mut self) -> u32 {
        let n = self.granted_id();
        let fence = self.fence(n);
        let again = match self.dice.below(10) {
            0..=3 => Again::Backoff,
            4 | 5 => Again::Delay(0),
            6 | 7 => Again::Delay(self.dice.below(50)),
            8 => Again::Delay(self.dice.below(1 << 40)),
            _ => Again::Dead,
        };
        let error = self.maybe_text().map(|mut text| {
            text.truncate(256);
            text
        });
        let untried = again != Again::Dead && self.dice.chance(300);
        let ask = Nack {
            id: &self.ids[n as usize].clone(),
            fence,
            again,
            error: error.as_deref(),
            untried,
        };
        let decided = self.ask(|queue, env| queue.decide_nack(env, &ask));

        let was = self.state(n);
        let grant = self.records.get(&n).and_then(|record| record.grant.clone());
        let outcome = match (was, &grant) {
            (State::Missing, _) => Outcome::Missing,
            (State::Finished, _) => Outcome::Finished,
            (_, Some(grant)) if grant.fence == fence => {
                if grant.kind == LeaseKind::Lock {
                    Outcome::State
                } else {
                    Outcome::Ok
                }
            }
            _ => Outcome::Stale,
        };
        let now = self.now();
        let ceil = now.wall_us.div_ceil(1000);
        let said = match &decided.as_ref().unwrap().effect {
            Some(Effect::Nack {
                then,
                untried: said,
                ..
            }) => {
                assert_eq!(*said, untried);
                Some(*then)
            }
            _ => None,
        };
        if self.judge(n, decided, outcome, was) {
            let last_try = grant.unwrap().last_try && !untried;
            let since = WallMs(ceil);
            let then = match again {
                _ if last_try => AfterTry::Dead(WallMs(self.wall())),
                Again::Dead => AfterTry::Dead(WallMs(self.wall())),
                Again::Delay(0) => AfterTry::Now,
                Again::Delay(ms) => AfterTry::At {
                    since,
                    at: WallMs(ceil + ms),
                },
                Again::Backoff => {
                    let doubled = u128::from(self.setting(Setting::BackoffMs))
                        * (1 << (self.records[&n].attempt - u32::from(untried))
                            .saturating_sub(1)
                            .min(60));
                    let wait = doubled.min(u128::from(self.setting(Setting::BackoffMsMax))) as u64;
                    let then = said.unwrap();
                    match then {
                        AfterTry::Now => assert_eq!(wait, 0),
                        AfterTry::At { since: said, at } => {
                            assert_eq!(said, since);
                            let waits = at.0 - ceil;
                            assert!(
                                waits >= 1 && waits.abs_diff(wait) <= wait / 10,
                                "waits {waits} for {wait}"
                            );
                        }
                        AfterTry::Dead(_) => panic!("dead before its time"),
                    }
                    then
                }
            };
            assert_eq!(said, Some(then));
            let rev = self.next_rev(n);
            self.fail(n, then, rev, untried);
            if let Some(error) = error {
                self.records.get_mut(&n).unwrap().error = Some(error);
            }
        }
        n
    }

    /// RENEW.
    fn renew(&mut self) -> u32 {
        let n = self.granted_id();
        let (fence, shorten) = (self.fence(n), self.dice.chance(400));
        let lease_ms = 1 + self.dice.pick(&[0, 5, 100, 29_999]);
        let id = self.ids[n as usize].clone();
        let ask = Renew {
            id: &id,
            fence,
            lease_ms,
            shorten,
        };
        let decided = self.ask(|queue, env| queue.decide_renew(env, &ask));

        let was = self.state(n);
        let (now, active) = (self.now(), self.active);
        let grant = self.records.get(&n).and_then(|record| record.grant.clone());
        let outcome = match (was, &grant) {
            (State::Missing, _) => Outcome::Missing,
            (_, None) => Outcome::Gone,
            (_, Some(grant)) if grant.fence != fence => Outcome::Stale,
            (_, Some(grant)) if grant.over[active] <= now.mono_us / 1000 => Outcome::Gone,
            _ => Outcome::Ok,
        };
        if self.judge(n, decided, outcome, was) {
            let grant = grant.unwrap();
            let rest = left(grant.over[active], &now);
            let wanted = if shorten {
                lease_ms.min(rest)
            } else {
                lease_ms.max(rest)
            };
            let end = now.wall_us.div_ceil(1000) + wanted.min(left(grant.cap_over[active], &now));
            self.regrant(n, end, None);
            let over = self.records[&n].grant.as_ref().unwrap().over[active];
            assert!(over <= grant.cap_over[active], "P5: past its cap");
        }
        n
    }

    /// Gives the last grant another end, and another number of holds.
    fn regrant(&mut self, n: u32, end: u64, holds: Option<u32>) {
        let (rev, nows) = (self.next_rev(n), self.nows());
        let ceil = self.now().wall_us.div_ceil(1000);
        let record = self.records.get_mut(&n).unwrap();
        record.rev = rev;
        let grant = record.grant.as_mut().unwrap();
        let since = ceil;
        let cap_over = grant.cap_over;
        grant.since = since;
        grant.end = end;
        grant.over = nows.map(|now| mono_of(end, end - since, &now));
        for (over, cap) in grant.over.iter_mut().zip(cap_over) {
            *over = cap.min(*over);
        }
        grant.holds = holds.unwrap_or(grant.holds);
    }

    /// LOCK.
    fn lock(&mut self) -> u32 {
        // One with a fingerprint is rare among many.
        let locked = || self.records.iter().find(|(_, record)| record.fp.is_some());
        let n = if self.dice.chance(20)
            && let Some((n, _)) = locked()
        {
            *n
        } else if self.dice.chance(600) {
            self.granted_id()
        } else {
            self.any_id()
        };
        let owner = self.dice.pick(&[&b"payer"[..], b"payer", b"another payer"]);
        let fp = self
            .dice
            .pick(&[None, None, Some(&b"one"[..]), Some(b"two")]);
        let lease_ms = 1 + self.dice.below(80);
        let max_ms = self
            .dice
            .pick(&[None, None, Some(1), Some(60), Some(30_000)]);
        let (reentrant, queued) = (self.dice.chance(500), self.dice.chance(100));
        let id = self.ids[n as usize].clone();
        let ask = Lock {
            id: &id,
            owner,
            lease_ms,
            reentrant,
            max_ms,
            fp,
            block_ms: None,
        };
        let now = self.now();
        let mut env = Env {
            now,
            numbers: &mut self.numbers,
            defaults: &self.defaults,
        };
        let queue = &self.servers[self.active].queue;
        let waiter = queue.lock_waiter_outcome(&now, &id, fp);
        let decided = queue.decide_lock(&mut env, &ask, queued);

        let (was, wall, active) = (self.state(n), self.wall(), self.active);
        let known = self.records.get(&n).filter(|_| was != State::Missing);
        let grant = known.and_then(|record| record.grant.clone());
        let late = matches!(was, State::Retrying | State::Dead)
            || known.is_some_and(|record| record.deadline.is_some_and(|at| at <= wall));
        let mismatch = known.is_some_and(|record| {
            fp.is_some_and(|fp| record.fp.as_ref().is_some_and(|old| old != fp))
        });
        let told = if mismatch {
            Some(Outcome::Mismatch)
        } else if was == State::Finished {
            Some(Outcome::Finished)
        } else {
            late.then_some(Outcome::Expired)
        };
        assert_eq!(waiter, told, "order {n}: one who waits");
        let outcome = match told {
            Some(told @ (Outcome::Mismatch | Outcome::Finished)) => told,
            _ if matches!(was, State::Leased | State::Reserved) => {
                let grant = grant.as_ref().unwrap();
                if grant.kind == LeaseKind::Lock && grant.owner == owner {
                    Outcome::Held
                } else {
                    Outcome::Busy
                }
            }
            Some(told) => told,
            None if queued => Outcome::Busy,
            None => Outcome::Ok,
        };
        let effect = decided.as_ref().unwrap().effect.clone();
        let ceil = now.wall_us.div_ceil(1000);
        if !self.judge(n, decided, outcome, was) {
            return n;
        }
        if outcome == Outcome::Held {
            let grant = grant.unwrap();
            let rest = left(grant.over[active], &now);
            let wanted = lease_ms.min(left(grant.cap_over[active], &now)).max(rest);
            let holds = grant.holds + u32::from(reentrant);
            self.regrant(n, ceil + wanted, Some(holds));
            let over = self.records[&n].grant.as_ref().unwrap().over[active];
            assert!(over >= grant.over[active], "never shortened");
            assert!(over <= grant.cap_over[active], "P5: past its cap");
            return n;
        }
        let cap_ms = max_ms
            .unwrap_or(u64::MAX)
            .min(self.setting(Setting::LockMsMax))
            .min(self.defaults.lease_ms_max);
        let fence = self.next_fence(n);
        let (end, cap) = (ceil + lease_ms.min(cap_ms), ceil + cap_ms);
        assert_eq!(
            effect,
            Some(Effect::Lock {
                id: Bytes::of(&id),
                owner: Bytes::of(owner),
                fence,
                since: WallMs(ceil),
                end: WallMs(end),
                cap: WallMs(cap),
                fp: fp.map(Bytes::of),
                creates: was == State::Missing,
            })
        );
        let nows = self.nows();
        let mut record = match self.records.remove(&n) {
            Some(record) if was != State::Missing => record,
            _ => MRecord::default(),
        };
        assert!(fence > record.rev, "revs grow");
        record.rev = fence;
        record.announced = false;
        record.retry = None;
        record.fp = fp.map(<[u8]>::to_vec);
        record.grant = Some(MGrant {
            kind: LeaseKind::Lock,
            owner: owner.to_vec(),
            fence,
            made: ceil,
            since: ceil,
            end,
            over: nows.map(|now| mono_of(end, end - ceil, &now)),
            cap,
            cap_over: nows.map(|now| mono_of(cap, cap - ceil, &now)),
            holds: 1,
            last_try: false,
            said: false,
        });
        self.records.insert(n, record);
        *self.credit.entry(n).or_default() += 1;
        self.count("lock");
        n
    }

    /// What is said to one who wants to end the lease with this fence, or any.
    fn end_of_lease(&self, n: u32, fence: Option<u64>) -> Outcome {
        if self.state(n) == State::Missing {
            return Outcome::Missing;
        }
        match &self.records[&n].grant {
            None => Outcome::Gone,
            Some(grant) if fence.is_some_and(|fence| fence != grant.fence) => Outcome::Stale,
            Some(grant) if grant.over[self.active] <= self.now().mono_us / 1000 => Outcome::Gone,
            Some(_) => Outcome::Ok,
        }
    }

    /// UNLOCK.
    fn unlock(&mut self) -> u32 {
        let n = self.granted_id();
        let fence = self.fence(n);
        let id = self.ids[n as usize].clone();
        let ask = Unlock { id: &id, fence };
        let decided = self.ask(|queue, env| queue.decide_unlock(env, &ask));
        let was = self.state(n);
        let mut outcome = self.end_of_lease(n, Some(fence));
        let grant = self.records.get(&n).and_then(|record| record.grant.clone());
        if let Some(grant) = grant.filter(|_| outcome == Outcome::Ok)
            && grant.kind == LeaseKind::Lock
            && grant.holds > 1
        {
            outcome = Outcome::Held;
            if self.judge(n, decided, outcome, was) {
                let now = self.now();
                let end = now.wall_us.div_ceil(1000) + left(grant.over[self.active], &now);
                self.regrant(n, end, Some(grant.holds - 1));
            }
            return n;
        }
        if self.judge(n, decided, outcome, was) {
            self.release(n, was, true);
            self.count("unlock");
        }
        n
    }

    /// BREAK.
    fn break_lease(&mut self) -> u32 {
        let n = self.granted_id();
        let fence = self.dice.chance(400).then(|| self.fence(n));
        let id = self.ids[n as usize].clone();
        let ask = Break { id: &id, fence };
        let decided = self.ask(|queue, env| queue.decide_break(env, &ask));
        let was = self.state(n);
        let outcome = self.end_of_lease(n, fence);
        if self.judge(n, decided, outcome, was) {
            self.release(n, was, false);
            self.count("break");
        }
        n
    }

    /// What is left of an order whose live lease is ended; of a claim, the try counts or
    /// not.
    fn release(&mut self, n: u32, was: State, untried: bool) {
        let (wall, rev) = (self.wall(), self.next_rev(n));
        let grant = self.records[&n].grant.clone().unwrap();
        if was == State::Reserved {
            self.records.remove(&n);
        } else if grant.kind == LeaseKind::Claim {
            let then = if grant.last_try && !untried {
                AfterTry::Dead(WallMs(wall))
            } else {
                AfterTry::Now
            };
            self.fail(n, then, rev, untried);
        } else {
            self.seq += 1;
            let seq = self.seq;
            let record = self.records.get_mut(&n).unwrap();
            record.rev = rev;
            record.grant = None;
            record.fp = None;
            record.announced = false;
            record.since = wall.max(record.deadline.unwrap());
            record.plain = record.deadline.unwrap() > wall;
            record.seq = seq;
        }
    }

    /// REQUEUE.
    fn requeue(&mut self) {
        let (now, active, wall) = (self.now(), self.active, self.wall());
        let count = self.dice.pick(&[1, 1, 3, 1000]) as usize;
        self.queue().advance(&now, &mut || true);
        let mut env = Env {
            now,
            numbers: &mut self.numbers,
            defaults: &self.defaults,
        };
        let swept = self.servers[active]
            .queue
            .decide_requeue(&mut env, count)
            .unwrap();
        let dead: BTreeSet<u32> = self
            .records
            .iter()
            .filter(|(_, record)| record.state(&now, active) == State::Dead)
            .map(|(n, _)| *n)
            .collect();
        let done = dead.len().min(count);
        assert_eq!(
            (swept.done, swept.left),
            (done as u64, (dead.len() - done) as u64)
        );
        assert_eq!(swept.effect.is_some(), done > 0, "P12");
        let Some(effect) = swept.effect else { return };
        let Effect::Requeue { rev, ids } = &effect else {
            panic!("{effect:?}")
        };
        assert_eq!(ids.len(), done);
        assert_eq!(*rev, (self.floor + 1).max(self.last).max(now.wall_us));
        self.learn(*rev);
        self.floor = *rev;
        let mut seen = BTreeSet::new();
        for id in ids {
            let n = self.numbers_of[&**id];
            assert!(dead.contains(&n) && seen.insert(n), "requeued: {n}");
            let record = self.records.get_mut(&n).unwrap();
            assert!(*rev > record.rev, "revs grow");
            record.attempt = 0;
            record.grant = None;
            record.fp = None;
            record.dead = false;
            record.retry = None;
            record.announced = false;
            record.rev = *rev;
            record.since = wall.max(record.deadline.unwrap());
            record.plain = false;
            self.count("requeue");
        }
        self.carry(&effect);
    }

    /// PURGE.
    fn purge(&mut self) {
        let (now, active) = (self.now(), self.active);
        let state = self.dice.pick(&State::LISTED);
        let status = self.dice.chance(400).then(|| self.status());
        let pattern: Option<&[u8]> = self.dice.chance(300).then_some(b"*1*");
        let count = self.dice.pick(&[1, 1, 2, 2, 5, 1000]);
        let matches = |id: &[u8]| pattern.is_none() || id.contains(&b'1');
        let ask = Purge {
            state,
            status: status.as_deref(),
            pattern,
            count,
        };
        self.queue().advance(&now, &mut || true);
        let swept = self.queue().decide_purge(&now, &ask, &matches);
        self.queue().purge_on(&swept);
        let takes = !matches!(state, State::Leased | State::Reserved);
        let wanted: BTreeSet<u32> = self
            .records
            .iter()
            .filter(|(n, record)| {
                record.state(&now, active) == state
                    && status
                        .as_ref()
                        .is_none_or(|status| *status == record.status)
                    && matches(&self.ids[**n as usize])
            })
            .map(|(n, _)| *n)
            .collect();
        let in_state = self
            .records
            .values()
            .filter(|record| record.state(&now, active) == state)
            .count() as u64;
        assert!(swept.done <= wanted.len() as u64 && swept.done <= u64::from(count));
        assert!(takes || swept.done == 0, "a lease was taken away");
        // With as many looks as there are records, all are found.
        let all = wanted.len().min(count as usize) as u64;
        if self.kind.is_exact() {
            assert_eq!(swept.left, in_state - swept.done);
            // A pattern makes a look dearer, by less than this.
            let looks = self.ids.len() * if pattern.is_some() { 4 } else { 1 };
            if takes && count as usize * 10 >= looks {
                assert_eq!(swept.done, all, "{ask:?}");
            }
        }
        let Some(effect) = swept.effect else {
            assert_eq!(swept.done, 0, "P12");
            return;
        };
        let Effect::Forget { ids } = &effect else {
            panic!("{effect:?}")
        };
        assert_eq!(ids.len() as u64, swept.done);
        for id in ids {
            let n = self.numbers_of[&**id];
            assert!(wanted.contains(&n), "purged: {n}");
            assert!(self.records.remove(&n).is_some(), "purged twice: {n}");
            self.paid.remove(&n);
            self.count("purge");
        }
        self.carry(&effect);
    }

    /// Carries out what a command of an operator comes to.
    fn carry_all(&mut self, effects: &[Effect<'_>]) {
        for effect in effects {
            self.carry(effect);
        }
    }

    /// CONFIG, PAUSE and RESUME; and the floor, which a restored queue may raise.
    fn configure(&mut self) {
        let now = self.now();
        if self.dice.chance(300) && !self.kind.is_exact() {
            if self.dice.chance(500) {
                let ms = self.dice.chance(700).then(|| 1 + self.dice.below(200));
                let ask = Pause {
                    ms,
                    reason: b"lunch",
                };
                let env = Env {
                    now,
                    numbers: &mut self.numbers,
                    defaults: &self.defaults,
                };
                let effect = self.servers[self.active].queue.decide_pause(&env, &ask);
                self.carry(&effect);
                self.pause = Some(ms.map(|ms| now.wall_us.div_ceil(1000) + ms));
            } else {
                let effect = self.queue().decide_resume();
                assert_eq!(effect.is_some(), self.pause.is_some(), "P12");
                self.carry_all(effect.as_slice());
                self.pause = None;
            }
            return;
        }
        if self.dice.chance(100) {
            let far = [4_070_908_810_022_341, NUMBER_END - (1 << 40) - 40];
            let floor = if self.kind.far && self.dice.chance(50) {
                self.dice.pick(&far).max(self.floor)
            } else {
                self.floor.max(1) + self.dice.below(3_000)
            };
            self.carry(&Effect::Floor(floor));
            self.floor = floor;
            return;
        }
        let (setting, values) = self.dice.pick(&SETTINGS);
        let value = self.dice.pick(&values);
        let text = value.to_string().into_bytes();
        let name = setting.name().as_bytes();
        let lists = self.dice.chance(20);
        let ask = match self.dice.below(20) {
            0..=10 if lists => Configure::Set(vec![
                (name, text.as_slice()),
                (&b"transitions"[..], TRANSITIONS),
            ]),
            0..=8 => Configure::Set(vec![(name, text.as_slice())]),
            9 | 10 => Configure::Set(vec![(name, text.as_slice()), (&b"lease-ms"[..], b"0")]),
            11 => Configure::Set(vec![(name, text.as_slice()), (&b"no-such"[..], b"1")]),
            12..=14 => Configure::Reset(None),
            15 | 16 => Configure::Reset(Some(b"transitions")),
            _ => Configure::Reset(Some(name)),
        };
        let decided = self.queue().decide_configure(&ask);
        let (own, transitions) = (self.own.clone(), self.transitions);
        match &ask {
            Configure::Set(pairs) => {
                if pairs.len() > 1 && pairs[1].1 != TRANSITIONS {
                    assert!(decided.is_err(), "{ask:?}");
                    self.count("bad setting");
                    return;
                }
                self.own.insert(setting, value);
                self.transitions |= pairs.len() > 1;
            }
            Configure::Reset(Some(b"transitions")) => self.transitions = false,
            Configure::Reset(Some(_)) => {
                self.own.remove(&setting);
            }
            Configure::Reset(None) => {
                self.own.clear();
                self.transitions = false;
            }
            Configure::Get(_) => {}
        }
        let effects = decided.unwrap();
        let changed = (own, transitions) != (self.own.clone(), self.transitions);
        assert!(!changed || !effects.is_empty());
        assert!(changed || matches!(ask, Configure::Set(_)) || effects.is_empty());
        self.carry_all(&effects);
    }

    /// One of the servers is stopped and loads what it saved.
    fn restart(&mut self) {
        let which = self.dice.below(2) as usize;
        let server = &mut self.servers[which];
        server.mono_us = 1_000 * (1 + self.dice.below(1_000_000)) + server.mono_us % 1000;
        let now = server.now();
        server.queue = loaded(&server.queue, &now, &self.defaults);
        let lease_ms_max = self.defaults.lease_ms_max;
        let lock_ms_max = self.setting(Setting::LockMsMax).min(lease_ms_max);
        for record in self.records.values_mut() {
            if let Some(grant) = &mut record.grant {
                let most = match grant.kind {
                    LeaseKind::Claim => lease_ms_max,
                    LeaseKind::Lock => lock_ms_max,
                };
                let left = |end, since| mono_of(end, most.min(end - since), &now);
                grant.over[which] = left(grant.end, grant.since);
                grant.cap_over[which] = left(grant.cap, grant.made);
            }
            if let Some((at, over)) = &mut record.retry {
                over[which] = mono_of(*at, *at - record.retry_since, &now);
            }
        }
        self.count("restart");
        if which == self.active {
            self.take_over();
            for record in self.records.values_mut() {
                if let Some(deadline) = record.deadline {
                    record.since = deadline;
                }
            }
            self.armed = 0;
        }
    }

    /// A server starts as primary: it knows no numbers but its queue's, and has
    /// announced nothing.
    fn take_over(&mut self) {
        let (now, floor) = (self.now(), self.floor);
        self.numbers = Numbers::new();
        self.numbers.learn(floor, now.wall_us);
        self.numbers.guard(now.wall_us, 10_000_000);
        (self.last, self.far) = (0, 0);
        self.learn(floor);
        self.last = self.last.max(now.wall_us) + 10_000_000;
        if self.far > 0 {
            self.far = (self.far + 10_000_000).min(NUMBER_END - (1 << 40));
        }
        self.credit.clear();
        for (n, record) in &mut self.records {
            record.announced = false;
            if let Some(grant) = &mut record.grant {
                grant.said = false;
                self.credit.insert(*n, 1);
            }
        }
    }

    /// The replica becomes the primary.
    fn promote(&mut self) {
        self.active = 1 - self.active;
        self.queue().announce_again();
        self.take_over();
        self.count("promotion");
    }

    // ---- comparing

    /// One order, on both servers.
    fn compare_order(&self, n: u32) {
        for (at, server) in self.servers.iter().enumerate() {
            let now = server.now();
            let core = server
                .queue
                .view(&now, &self.ids[n as usize])
                .map(|view| Shown::of(&view));
            let model = self
                .records
                .get(&n)
                .and_then(|record| Shown::model(record, &now, at));
            assert_eq!(core, model, "order {n} on server {at}");
        }
    }

    /// Everything.
    fn compare_all(&mut self) {
        for n in 0..self.ids.len() as u32 {
            self.compare_order(n);
        }
        let (now, active) = (self.now(), self.active);
        let [one, two] = &self.servers;
        one.queue.check();
        two.queue.check();
        let digest_of_one = digest(&one.queue);
        assert_eq!(digest_of_one, digest(&two.queue), "P9: primary and replica");
        let saved_of_one = saved(&one.queue);
        assert_eq!(saved_of_one, saved(&two.queue));
        let copy = loaded(&one.queue, &one.now(), &self.defaults);
        copy.check();
        assert_eq!(digest_of_one, digest(&copy), "P9: loaded");
        assert_eq!(saved_of_one, saved(&copy));
        for server in &self.servers {
            assert_eq!(
                (server.queue.len(), server.queue.floor()),
                (self.records.len(), self.floor)
            );
            let idle = self.records.is_empty()
                && self.own.is_empty()
                && !self.transitions
                && self.pause.is_none();
            assert_eq!(server.queue.is_empty(), idle);
        }
        // SCAN, in calls of any size, shows what is there.
        let mut listed = BTreeMap::new();
        let mut cursor = 0;
        loop {
            let count = 1 + self.dice.below(30) as u32;
            let ask = Scan {
                cursor,
                state: None,
                status: None,
                pattern: None,
                count,
            };
            let (next, rows) = self.servers[active].queue.scan(&now, &ask, &|_| true);
            for row in rows {
                let before = listed.insert(self.numbers_of[&row.id], row.state);
                assert_eq!(before, None, "listed twice though nothing changed");
            }
            if next == 0 {
                break;
            }
            cursor = next;
        }
        let expected: BTreeMap<u32, State> = self
            .records
            .iter()
            .map(|(n, record)| (*n, record.state(&now, active)))
            .filter(|(_, state)| *state != State::Missing)
            .collect();
        assert_eq!(listed, expected);
        // Whatever the clock did: counts and lists follow it as records do.
        self.queue().advance(&now, &mut || true);
        self.compare_next(&now);
        self.compare_counts(&now, &expected);
        if self.kind.is_exact() {
            self.compare_stats(&now, &expected);
        }
    }

    /// NEXT.
    fn compare_next(&mut self, now: &Now) {
        let mut scheduled: Vec<(u64, u64, u32)> = self
            .records
            .iter()
            .filter(|(_, record)| record.state(now, self.active) == State::Scheduled)
            .map(|(n, record)| (record.deadline.unwrap(), record.seq, *n))
            .collect();
        scheduled.sort_unstable();
        for count in [1, 7, usize::MAX] {
            let rows = self.servers[self.active]
                .queue
                .next(now, count.min(self.ids.len()));
            assert_eq!(rows.len(), count.min(scheduled.len()));
            let mut before = (0, 0);
            for ((id, deadline), (expected, _, _)) in rows.iter().zip(&scheduled) {
                let n = self.numbers_of[id];
                let record = &self.records[&n];
                assert_eq!(deadline.0, *expected);
                assert_eq!(
                    (record.deadline, record.state(now, self.active)),
                    (Some(deadline.0), State::Scheduled)
                );
                // Ties in schedule order, where no lapsed lock stood in between.
                if record.grant.is_none() && record.plain && !self.stepped {
                    assert!(
                        before.0 != deadline.0 || before.1 < record.seq,
                        "tie out of order"
                    );
                    before = (deadline.0, record.seq);
                }
            }
        }
    }

    /// The numbers of STATS by name.
    fn stats(&self, now: &Now) -> impl Fn(&str) -> i64 + use<> {
        let queue = &self.servers[self.active].queue;
        let answer = queue.stats(now, &self.defaults, (3, 4));
        move |name| match answer.iter().find(|(field, _)| *field == name) {
            Some((_, StatValue::Int(value))) => *value,
            other => panic!("{name}: {other:?}"),
        }
    }

    /// The counts of STATS.
    fn compare_counts(&self, now: &Now, states: &BTreeMap<u32, State>) {
        let value = self.stats(now);
        for state in State::LISTED {
            let count = states.values().filter(|other| **other == state).count();
            assert_eq!(value(state.word()), count as i64, "{}", state.word());
        }
        assert_eq!(value("orders"), states.len() as i64);
        let claims = |(n, state): &(&u32, &State)| {
            **state == State::Leased
                && self.records[n]
                    .grant
                    .as_ref()
                    .is_some_and(|grant| grant.kind == LeaseKind::Claim)
        };
        assert_eq!(
            value("live_claims"),
            states.iter().filter(claims).count() as i64
        );
    }

    /// What else STATS says.
    fn compare_stats(&self, now: &Now, states: &BTreeMap<u32, State>) {
        let (value, wall) = (self.stats(now), now.wall_us / 1000);
        let in_state = |wanted: State| {
            states
                .iter()
                .filter(move |(_, state)| **state == wanted)
                .map(|(n, _)| *n)
        };
        let next = in_state(State::Scheduled)
            .map(|n| self.records[&n].deadline.unwrap())
            .min();
        assert_eq!(value("next_deadline"), next.map_or(-1, |next| next as i64));
        let oldest = in_state(State::Expired)
            .map(|n| self.records[&n].since())
            .min();
        assert_eq!(
            value("oldest_expired_ms"),
            oldest.map_or(0, |oldest| (wall - oldest) as i64)
        );
        assert_eq!(
            (
                value("behind_ms"),
                value("claim_waiters"),
                value("lock_waiters")
            ),
            (0, 3, 4)
        );
        for (setting, value_of) in SETTINGS.map(|(setting, _)| (setting, self.setting(setting))) {
            assert_eq!(value(setting.name()), value_of as i64);
        }
    }

    // ---- the run itself

    /// One step.
    fn step(&mut self, step: u64) {
        self.pass_time();
        self.pass();
        let touched = match self.dice.below(1000) {
            0..=299 => Some(self.schedule()),
            300..=399 => Some(self.finish()),
            400..=459 => Some(self.set_status()),
            460..=659 => Some(self.claim()),
            660..=739 => Some(self.ack()),
            740..=819 => Some(self.nack()),
            820..=869 => Some(self.renew()),
            870..=919 => Some(self.lock()),
            920..=939 => Some(self.unlock()),
            940..=949 => Some(self.break_lease()),
            950..=959 => {
                self.requeue();
                None
            }
            960..=975 => {
                self.forget();
                None
            }
            976..=979 => {
                self.purge();
                None
            }
            980..=994 => {
                self.configure();
                None
            }
            995..=997 if self.dice.chance(1000 / (1 + self.kind.ids / 500)) => {
                self.restart();
                None
            }
            998 if self.kind.promotions => {
                self.promote();
                None
            }
            _ => None,
        };
        if let Some(n) = touched {
            self.compare_order(n);
        }
        for server in &self.servers {
            assert_eq!(server.queue.floor(), self.floor, "floor");
        }
        if self.kind.is_exact() && self.kind.announce == Often::Always {
            self.check_armed();
        }
        if step.is_multiple_of(self.kind.compare_every) {
            self.compare_all();
        }
    }
}

/// A number from the environment.
pub(super) fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().expect("a plain number"))
}

/// Plays a run to its end, and says where it was if it fails.
fn play(kind: Kind, seed: u64) {
    /// Prints where the run was, unless it ended well.
    struct Where(&'static str, u64, u64, bool);
    impl Drop for Where {
        fn drop(&mut self) {
            if !self.3 {
                let Self(name, seed, step, _) = self;
                eprintln!("run '{name}' failed: ORDER_TEST_SEED={seed}, step {step}");
            }
        }
    }
    let seed = from_environment("ORDER_TEST_SEED").unwrap_or(seed);
    let steps = from_environment("ORDER_TEST_STEPS").unwrap_or(kind.steps);
    let mut place = Where(kind.name, seed, 0, false);
    let mut world = World::new(kind, seed);
    for step in 0..steps {
        place.2 = step;
        world.step(step);
    }
    world.compare_all();
    place.3 = true;
    // Everything the generator is there for must have happened.
    let mut lacking: Vec<&str> = vec![
        "OK",
        "EXISTS",
        "MISSING",
        "UNCHANGED",
        "LEASED",
        "FINISHED",
        "STATE",
        "STALE",
    ];
    lacking.extend([
        "EXPIRED",
        "GONE",
        "HELD",
        "BUSY",
        "MISMATCH",
        "claim: some",
        "claim: none",
        "lock",
        "unlock",
        "break",
        "requeue",
        "purge",
        "bad setting",
        "restart",
    ]);
    lacking.extend(["forgotten", "expired", "lapsed"]);
    if kind.announce != Often::Never {
        lacking.push("dead");
    }
    if kind.clock_steps {
        lacking.push("clock steps");
    }
    if kind.promotions {
        lacking.push("promotion");
    }
    lacking.retain(|what| !world.counts.contains_key(what));
    assert!(
        steps < 50_000 || lacking.is_empty(),
        "never happened in '{}': {lacking:?}",
        kind.name
    );
}

#[test]
fn few_orders_with_certain_clocks_and_passes() {
    play(
        Kind {
            name: "few, exact",
            steps: 300_000,
            ids: 40,
            statuses: 5,
            advance: Often::Always,
            announce: Often::Always,
            clock_steps: false,
            promotions: false,
            far: false,
            compare_every: 64,
        },
        1,
    );
}

#[test]
fn many_orders_with_certain_clocks_and_passes() {
    play(
        Kind {
            name: "many, exact",
            steps: 60_000,
            ids: 5_000,
            statuses: 6_000,
            advance: Often::Always,
            announce: Often::Sometimes,
            clock_steps: false,
            promotions: false,
            far: false,
            compare_every: 4_096,
        },
        2,
    );
}

#[test]
fn few_orders_with_late_passes_clock_steps_and_promotions() {
    play(
        Kind {
            name: "few, sloppy",
            steps: 400_000,
            ids: 40,
            statuses: 5,
            advance: Often::Sometimes,
            announce: Often::Sometimes,
            clock_steps: true,
            promotions: true,
            far: false,
            compare_every: 64,
        },
        3,
    );
}

#[test]
fn few_orders_with_prompt_passes_clock_steps_and_promotions() {
    play(
        Kind {
            name: "few, prompt",
            steps: 200_000,
            ids: 40,
            statuses: 5,
            advance: Often::Always,
            announce: Often::Always,
            clock_steps: true,
            promotions: true,
            far: false,
            compare_every: 64,
        },
        4,
    );
}

#[test]
fn few_orders_whose_numbers_are_far_ahead_of_the_clock() {
    play(
        Kind {
            name: "few, far ahead",
            steps: 100_000,
            ids: 40,
            statuses: 5,
            advance: Often::Sometimes,
            announce: Often::Always,
            clock_steps: true,
            promotions: true,
            far: true,
            compare_every: 64,
        },
        7,
    );
}

#[test]
fn many_orders_without_any_pass() {
    play(
        Kind {
            name: "many, no pass",
            steps: 60_000,
            ids: 5_000,
            statuses: 30,
            advance: Often::Never,
            announce: Often::Never,
            clock_steps: false,
            promotions: true,
            far: false,
            compare_every: 4_096,
        },
        5,
    );
}
