//! The one write path: open, decide, apply, reply, replicate, conclude.
//!
//! Every write goes the same way, and the order of its steps matters:
//!
//! 1. read the arguments ([`parse`](crate::request::parse)): errors come before the
//!    key is looked at;
//! 2. open the key; `decide`, `apply` and the reply, with the queue borrowed;
//! 3. file the queue in the agenda; the borrow ends here;
//! 4. replicate the effects as one `ORDER.APPLY`;
//! 5. store a new queue, or delete one that became empty; close the key;
//! 6. signal the key as modified; raise the events.
//!
//! From 5 on other code may run: modules that listen to events may call commands
//! of ours for the same key. Nothing is borrowed any more, and what they do is
//! replicated after what was done here.
//!
//! [`perform`] is that way, and every command that writes goes it: one on an order, one on
//! many, CLAIM, those on a queue as a whole, and ORDER.APPLY. What they differ in is what
//! they do with the [`Write`] in its middle.
//!
//! A pass decides by itself, but writes like everybody else: by `ORDER.APPLY` through
//! the server ([`call_apply`]), whose checks count for it too.

use crate::codec;
use crate::engine::effect::Effect;
use crate::engine::settings::Defaults;
use crate::engine::{Announcement, Decision, Env, Event, Outcome, Queue};
use crate::error::Error;
use crate::shell::schedule::timer;
use crate::shell::server::api::{Ctx, Kept, Key, Level, Mode, Name, guarded, log};
use crate::shell::server::buffer::Spare;
use crate::shell::server::cell::{Shared, SharedCell};
use crate::shell::server::gauges::Watch;
use crate::shell::server::reply::{self, LeaseAnswer};
use crate::shell::server::value::{self, Found};
use crate::shell::server::{clock, counters};
use crate::shell::state::{events, fences, sessions, settings, waiters};
use crate::words::time::Now;

/// [`codec::VERSION`] as the argument of APPLY.
pub(crate) static VERSION: Kept = Kept::new(c"2");

/// The buffer effects are encoded into, kept from command to command.
static BLOB: Shared<Spare> = Shared::new(Spare::new(codec::CHUNK_BYTES));

/// The kept buffer, to encode effects into.
pub(crate) fn take_blob() -> Vec<u8> {
    BLOB.with(Spare::take).unwrap_or_default()
}

/// Keeps the buffer for the next one.
pub(crate) fn give_back_blob(blob: Vec<u8>) {
    BLOB.with(|kept| kept.give_back(blob));
}

/// The list that events are noted in, kept from command to command.
static EVENTS: Shared<Vec<Event<'static>>> = Shared::new(Vec::new());

/// A longer list is not kept: as many as a command on many orders raises.
const EVENTS_KEPT_MAX: usize = 1_000;

/// The kept list.
fn take_events<'e>() -> Vec<Event<'e>> {
    EVENTS.with(std::mem::take).unwrap_or_default()
}

/// Keeps the list for the next one.
fn give_back_events(events: Vec<Event<'_>>) {
    if (1..=EVENTS_KEPT_MAX).contains(&events.capacity()) {
        // Collected in place: nothing is left in it but its room.
        let room = events.into_iter().map_while(|_| None).collect();
        EVENTS.with(|kept| *kept = room);
    }
}

/// Whether the next APPLY comes from our own pass.
static OURS: SharedCell<bool> = SharedCell::new(false);

/// What that APPLY has to publish before its own events.
static ANNOUNCEMENTS: Shared<Vec<Announcement>> = Shared::new(Vec::new());

/// APPLY of our own pass: `blob` under `name`, with what is to be published
/// before. False if the server refused. Runs other code.
pub(crate) fn ourselves(
    ctx: Ctx,
    name: Name<'_>,
    blob: &[u8],
    announcements: Vec<Announcement>,
) -> bool {
    ANNOUNCEMENTS.with(|waiting| *waiting = announcements);
    OURS.set(true);
    let done = VERSION
        .name()
        .is_some_and(|version| ctx.call_apply(name, version, blob));
    OURS.set(false);
    ANNOUNCEMENTS.with(Vec::clear);
    done
}

/// What an APPLY of our own pass has to publish before its own events; `None` for one
/// from elsewhere. Once: what runs inside that APPLY is not ours any more.
pub(crate) fn take_ours() -> Option<Vec<Announcement>> {
    let ours = OURS.get();
    OURS.set(false);
    ours.then(|| ANNOUNCEMENTS.with(std::mem::take).unwrap_or_default())
}

/// Encodes one effect and carries it out by APPLY. Whether it was.
pub(crate) fn call_apply(
    ctx: Ctx,
    name: Name<'_>,
    effect: &Effect<'_>,
    announcements: Vec<Announcement>,
) -> bool {
    let mut blob = take_blob();
    let done =
        codec::encode(effect, &mut blob).is_ok() && ourselves(ctx, name, &blob, announcements);
    give_back_blob(blob);
    done
}

/// What a command knows from its start.
pub(crate) struct Call<'a> {
    /// The server's context.
    pub(crate) ctx: Ctx,
    /// The key.
    pub(crate) name: Name<'a>,
    /// Its database.
    pub(crate) db: i32,
    /// The clocks.
    pub(crate) now: Now,
}

impl Call<'_> {
    /// A question whether there is time left to catch up.
    pub(crate) fn budget(&self) -> impl FnMut() -> bool + use<> {
        let end_us = self
            .now
            .mono_us
            .saturating_add(settings::TICK_BUDGET_US.get());
        move || clock::mono_us() < end_us
    }
}

/// What a writing command found under its key: the open key, and a queue of its
/// own where there was none.
struct Target {
    /// The key, open for writing.
    key: Key,
    /// The queue to be stored if it does not stay empty.
    fresh: Option<Queue>,
}

impl Target {
    /// Opens the key of a command.
    fn open(call: &Call<'_>) -> Self {
        Self {
            key: Key::open(call.ctx, call.name, Mode::Write),
            fresh: None,
        }
    }

    /// The queue: the one that is there or a fresh one; an error for a key of another
    /// type.
    fn queue(&mut self) -> Result<Watch<'_>, Error> {
        match value::look(&mut self.key) {
            Found::Queue(queue) => Ok(Watch::of(queue)),
            Found::Missing => Ok(Watch::fresh(self.fresh.get_or_insert_default())),
            Found::Other => Err(Error::WrongType),
        }
    }
}

/// What a command has done, to be told to the world.
#[derive(Default)]
struct Done<'e> {
    /// The effects, encoded; empty where the command replicates as it came.
    blob: Vec<u8>,
    /// It came as effects, and replicates as it came.
    verbatim: bool,
    /// What time had brought before and nobody was told of.
    announcements: Vec<Announcement>,
    /// The events of the effects.
    events: Vec<Event<'e>>,
}

/// A write that is going on: the queue, and what has been done to it so far.
pub(crate) struct Write<'w, 'e> {
    /// The call it is for.
    call: &'w Call<'e>,
    /// The queue.
    pub(crate) queue: &'w mut Queue,
    /// The server's defaults, read once: to read them is a copy.
    defaults: &'w Defaults,
    /// What has been done.
    done: &'w mut Done<'e>,
}

impl<'e> Write<'_, 'e> {
    /// Lets a decision be made with what the server brings to it.
    pub(crate) fn decide<R>(&mut self, body: impl FnOnce(&mut Queue, &mut Env<'_>) -> R) -> R {
        decide(self.call.now, self.defaults, |env| body(self.queue, env))
    }

    /// Decides one request on an order, counts the answer and does what follows from it.
    /// An error changes nothing.
    pub(crate) fn settle(
        &mut self,
        decision: impl FnOnce(&Queue, &mut Env<'_>) -> Result<Decision<'e>, Error>,
    ) -> Result<Decision<'e>, Error> {
        let decision = self.decide(|queue, env| decision(queue, env))?;
        self.queue.note(decision.outcome);
        if decision.outcome == Outcome::Stale {
            counters::STALE.add(1);
        }
        if let Some(effect) = &decision.effect {
            self.carry_out(effect)?;
        }
        Ok(decision)
    }

    /// Applies one effect and notes what is to be told of it. It is encoded first: what
    /// could not be read back is refused, and nothing is done.
    pub(crate) fn carry_out(&mut self, effect: &Effect<'e>) -> Result<(), Error> {
        let Call { db, name, now, .. } = *self.call;
        if self.done.blob.capacity() == 0 {
            self.done.blob = take_blob();
        }
        codec::encode(effect, &mut self.done.blob)?;
        if let Effect::Finish {
            id,
            status,
            result,
            keep_end: None,
            ..
        } = effect
            && waiters::lock_waiting(db, name.bytes(), id)
        {
            let old = self.queue.view(&now, id).map(|view| view.status.to_vec());
            let status = status.as_deref().or(old.as_deref()).unwrap_or_default();
            let answer = LeaseAnswer::finished(status, result.as_deref());
            waiters::finished(db, name.bytes(), id, &answer);
        }
        let lapses = self.queue.lapses_before(&now, effect);
        self.announce(lapses);
        let events = &mut self.done.events;
        apply_counted(&now, self.queue, effect, None, events);
        effect.each_id(&mut |id| waiters::changed(db, name.bytes(), id));
        Ok(())
    }

    /// Applies one effect that came as such: the command that brought it replicates as
    /// it came. With `limits` no lease of it passes them.
    pub(crate) fn carry_out_told(&mut self, effect: &Effect<'e>, limits: Option<&Defaults>) {
        self.done.verbatim = true;
        let events = &mut self.done.events;
        apply_counted(&self.call.now, self.queue, effect, limits, events);
    }

    /// The same for one that comes back from a file: what has fallen due since it was
    /// written goes by its deadline, not by when its effect is read.
    pub(crate) fn replay(&mut self, effect: &Effect<'e>) {
        self.done.verbatim = true;
        if !self.queue.replay(&self.call.now, effect, self.defaults) {
            counters::APPLY_MISMATCH.add(1);
        }
    }

    /// Has the lease of an order end with the caller's connection.
    pub(crate) fn bind(&mut self, id: &[u8]) {
        let Call { ctx, db, name, now } = *self.call;
        let client = ctx.client_id();
        self.queue.bind(&now, id, None, client);
        sessions::bound(client, db, name.bytes());
    }

    /// Notes a grant of claims that this server has decided and carried out: of a braked
    /// queue it uses up what may be handed out.
    pub(crate) fn spend(&mut self, effect: &Effect<'_>) {
        if let Effect::Claim { grants, .. } = effect {
            let count = grants.len() as u64;
            self.queue
                .spend_claims(&self.call.now, self.defaults, count);
        }
    }

    /// Counts a CLAIM that the brake has kept orders back from.
    pub(crate) fn note_held_back(&mut self) {
        self.queue.note_held_back();
        counters::CLAIMS_HELD_BACK.add(1);
    }

    /// What is published before the events of the effects.
    pub(crate) fn announce(&mut self, mut announcements: Vec<Announcement>) {
        self.done.announcements.append(&mut announcements);
    }
}

/// A write, from opening the key to telling the world: `body` decides, carries out and
/// replies. Its error is the reply, and so is that of a key of another type; what was
/// done before it stays done.
pub(crate) fn perform<'e>(
    call: &Call<'e>,
    body: impl FnOnce(&mut Write<'_, 'e>) -> Result<(), Error>,
) {
    if let Err(error) = perform_or(call, body) {
        reply::error(call.ctx, &error);
    }
}

/// As [`perform`]; the error is the caller's to reply. Nothing was done then.
pub(crate) fn perform_or<'e>(
    call: &Call<'e>,
    body: impl FnOnce(&mut Write<'_, 'e>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut target = Target::open(call);
    let mut done = Done {
        events: take_events(),
        ..Done::default()
    };
    let ended = body(&mut Write {
        call,
        queue: &mut *target.queue()?,
        defaults: &settings::defaults(),
        done: &mut done,
    });
    if done.blob.is_empty() && !done.verbatim {
        give_back_events(done.events);
        return ended;
    }
    if let Err(error) = ended {
        reply::error(call.ctx, &error);
    }
    conclude(call, target, done);
    Ok(())
}

/// Lets a decision be made with what the server brings to it. Who decides many hands in
/// the same `defaults`: to read them is a copy.
pub(crate) fn decide<R>(now: Now, defaults: &Defaults, body: impl FnOnce(&mut Env<'_>) -> R) -> R {
    fences::with(|numbers| {
        body(&mut Env {
            now,
            numbers,
            defaults,
        })
    })
}

/// Applies one effect, and counts what no event tells of. With `limits` no lease of it
/// passes them.
fn apply_counted<'e>(
    now: &Now,
    queue: &mut Queue,
    effect: &Effect<'e>,
    limits: Option<&Defaults>,
    events: &mut Vec<Event<'e>>,
) {
    let dropped = queue.dead_dropped();
    let known = match limits {
        Some(limits) => queue.apply_told(now, effect, limits, events),
        None => queue.apply(now, effect, events),
    };
    if !known {
        counters::APPLY_MISMATCH.add(1);
    }
    counters::DEAD_DROPPED.add(queue.dead_dropped().saturating_sub(dropped));
}

/// Everything that follows the reply: steps 3 to 6 of the module's text. Has a
/// guard of its own, so that no second reply is written for a panic.
fn conclude(call: &Call<'_>, target: Target, done: Done<'_>) {
    guarded((), || {
        let Target { mut key, mut fresh } = target;
        let was_missing = fresh.is_some();
        let empty = {
            let queue = match (&mut fresh, value::look(&mut key)) {
                (Some(queue), _) | (None, Found::Queue(queue)) => queue,
                (None, Found::Missing | Found::Other) => return,
            };
            let empty = queue.is_empty();
            if !empty {
                timer::touch(call.db, call.name.bytes(), queue, &call.now);
            }
            empty
        };
        if done.verbatim {
            call.ctx.replicate_verbatim();
        } else if let Some(version) = VERSION.name() {
            call.ctx.replicate_apply(call.name, version, &done.blob);
        }
        let deleted = empty && !was_missing;
        if deleted {
            key.delete();
        } else if let Some(queue) = fresh.filter(|_| !empty)
            && !value::put(&mut key, queue)
        {
            log(
                Level::Warning,
                c"orderwheel: the server refused to store a queue",
            );
        }
        drop(key);
        if !(empty && was_missing) {
            call.ctx.signal_modified(call.name);
        }
        events::publish(call.ctx, call.name, &done.announcements);
        for Event { kind, id } in &done.events {
            counters::count(*kind);
            events::notify_order(call.ctx, call.name, *kind, id);
        }
        if deleted {
            call.ctx.notify(events::CLASS_GENERIC, c"del", call.name);
        }
        give_back_events(done.events);
        if !done.verbatim {
            give_back_blob(done.blob);
        }
    });
}
