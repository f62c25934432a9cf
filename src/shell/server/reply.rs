//! The shapes of the replies.
//!
//! Words and ids are byte strings, never status replies: client libraries turn
//! a status `OK` into a boolean. RESP2 gets arrays, RESP3 maps where a reply has
//! named fields; fields are only ever appended.

use std::ffi::CString;
use std::sync::Arc;

use crate::engine::effect::LeaseKind;
use crate::engine::{OrderView, Outcome, ScanRow, StatValue, Stats};
use crate::error::Error;
use crate::shell::server::api::{Ctx, Word, flag};
use crate::words::state::State;
use crate::words::time::{Now, WallMs};

/// One order handed to a closer, kept until a waiting client is woken.
#[derive(Debug)]
pub(crate) struct Row {
    /// The order.
    pub(crate) id: Box<[u8]>,
    /// Fence of the claim.
    pub(crate) fence: u64,
    /// Its deadline.
    pub(crate) deadline: Option<WallMs>,
    /// Tries so far, this one included.
    pub(crate) attempt: u32,
    /// Length of the lease.
    pub(crate) lease_ms: u64,
    /// Its status.
    pub(crate) status: Box<[u8]>,
    /// Its payload.
    pub(crate) payload: Option<Box<[u8]>>,
}

/// A number that fits the server's integers.
fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A moment in Unix milliseconds, -1 for none.
fn moment(ctx: Ctx, at: Option<WallMs>) {
    ctx.reply_int(at.map_or(-1, |at| int(at.0)));
}

/// A byte string or nothing.
fn bytes_or_null(ctx: Ctx, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => ctx.reply_bytes(bytes),
        None => ctx.reply_null(),
    }
}

/// A word for each of these.
macro_rules! words {
    ($all:expr, $($number:literal)*) => {
        [$(Word::new($all[$number].word())),*]
    };
}

/// The words of the outcomes.
static OUTCOMES: [Word; Outcome::ALL.len()] = words![Outcome::ALL, 0 1 2 3 4 5 6 7 8 9 10 11 12];

/// The words of the states.
static STATES: [Word; State::ALL.len()] = words![State::ALL, 0 1 2 3 4 5 6 7];

/// Asks the server for the replies that these words are: once, where calls of other
/// commands are safe.
pub(crate) fn prepare(ctx: Ctx) {
    for word in OUTCOMES.iter().chain(&STATES) {
        word.prepare(ctx);
    }
}

/// The word of an outcome.
fn outcome_word(ctx: Ctx, outcome: Outcome) {
    match OUTCOMES.get(outcome as usize) {
        Some(word) => ctx.reply_word(word),
        None => ctx.reply_bytes(outcome.word().as_bytes()),
    }
}

/// The word of a state.
fn state_word(ctx: Ctx, state: State) {
    match STATES.get(state as usize) {
        Some(word) => ctx.reply_word(word),
        None => ctx.reply_bytes(state.word().as_bytes()),
    }
}

/// An error line.
pub(crate) fn error(ctx: Ctx, error: &Error) {
    // The texts are one line of printable ASCII; a NUL can not be in one.
    let line = CString::new(error.to_string()).unwrap_or_else(|_| c"ERR internal error".to_owned());
    ctx.reply_error(&line);
}

/// The order reply: `outcome state status deadline rev lease_ms was result`.
pub(crate) fn order(ctx: Ctx, outcome: Outcome, was: State, view: Option<&OrderView<'_>>) {
    let named = ctx.flags() & flag::RESP3 != 0;
    if named {
        ctx.reply_map(8);
    } else {
        ctx.reply_array(8);
    }
    let name = |name: &str| {
        if named {
            ctx.reply_bytes(name.as_bytes());
        }
    };
    name("outcome");
    outcome_word(ctx, outcome);
    name("state");
    state_word(ctx, view.map_or(State::Missing, |view| view.state));
    name("status");
    bytes_or_null(ctx, view.map(|view| view.status));
    name("deadline");
    moment(ctx, view.and_then(|view| view.deadline));
    name("rev");
    ctx.reply_int(view.map_or(0, |view| int(view.rev)));
    name("lease_ms");
    ctx.reply_int(view.and_then(|view| view.lease_ms).map_or(-2, int));
    name("was");
    state_word(ctx, was);
    name("result");
    bytes_or_null(ctx, view.and_then(|view| view.result));
}

/// What the lease reply says, kept until a waiting client is woken. Its copies share
/// what is long: many may wait for one order.
#[derive(Clone, Debug)]
pub(crate) struct LeaseAnswer {
    /// The outcome.
    outcome: Outcome,
    /// Fence of the last grant, 0 if there is none.
    fence: u64,
    /// What is left of a live lease.
    lease_ms: Option<u64>,
    /// How often a live lease is held.
    holds: u32,
    /// The order's state.
    state: State,
    /// Its status; `None`: it is missing.
    status: Option<Arc<[u8]>>,
    /// What came of it.
    result: Option<Arc<[u8]>>,
}

impl LeaseAnswer {
    /// The answer to those who waited for the lock of an order that was finished
    /// and not kept.
    pub(crate) fn finished(status: &[u8], result: Option<&[u8]>) -> Self {
        Self {
            outcome: Outcome::Finished,
            fence: 0,
            lease_ms: None,
            holds: 0,
            state: State::Missing,
            status: Some(status.into()),
            result: result.map(Into::into),
        }
    }

    /// The answer for an order as it stands.
    pub(crate) fn of(outcome: Outcome, view: Option<&OrderView<'_>>) -> Self {
        Self {
            outcome,
            fence: view.map_or(0, |view| view.fence),
            lease_ms: view.and_then(|view| view.lease_ms),
            holds: view.map_or(0, |view| view.holds),
            state: view.map_or(State::Missing, |view| view.state),
            status: view.map(|view| view.status.into()),
            result: view.and_then(|view| view.result).map(Into::into),
        }
    }

    /// The same answer, with the result of the one before where that is the same: all
    /// who are told of one order keep one copy.
    pub(crate) fn sharing(mut self, before: Option<&Self>) -> Self {
        if let Some(before) = before
            && before.result == self.result
        {
            self.result.clone_from(&before.result);
        }
        self
    }
}

/// The lease reply: `outcome fence lease_ms holds state status result`.
pub(crate) fn lease(ctx: Ctx, outcome: Outcome, view: Option<&OrderView<'_>>) {
    lease_answer(ctx, &LeaseAnswer::of(outcome, view));
}

/// The lease reply, from what was kept.
pub(crate) fn lease_answer(ctx: Ctx, answer: &LeaseAnswer) {
    let named = ctx.flags() & flag::RESP3 != 0;
    if named {
        ctx.reply_map(7);
    } else {
        ctx.reply_array(7);
    }
    let name = |name: &str| {
        if named {
            ctx.reply_bytes(name.as_bytes());
        }
    };
    name("outcome");
    outcome_word(ctx, answer.outcome);
    name("fence");
    ctx.reply_int(int(answer.fence));
    name("lease_ms");
    ctx.reply_int(answer.lease_ms.map_or(-2, int));
    name("holds");
    ctx.reply_int(i64::from(answer.holds));
    name("state");
    state_word(ctx, answer.state);
    name("status");
    bytes_or_null(ctx, answer.status.as_deref());
    name("result");
    bytes_or_null(ctx, answer.result.as_deref());
}

/// PTTL: milliseconds to the deadline, 0 once passed, -1 for none, -2 for no order.
pub(crate) fn pttl(ctx: Ctx, now: &Now, view: Option<&OrderView<'_>>) {
    ctx.reply_int(match view.map(|view| view.deadline) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline)) if deadline.is_due(now) => 0,
        // As a relative time counts, from the next full millisecond: never more
        // than was asked for.
        Some(Some(deadline)) => int(deadline.0.saturating_sub(now.wall_ms_ceil().0).max(1)),
    });
}

/// One row of a CLAIM.
pub(crate) fn claimed(ctx: Ctx, view: &OrderView<'_>) {
    ctx.reply_array(7);
    ctx.reply_bytes(view.id);
    ctx.reply_int(int(view.fence));
    moment(ctx, view.deadline);
    ctx.reply_int(i64::from(view.attempt));
    ctx.reply_int(view.lease_ms.map_or(-2, int));
    ctx.reply_bytes(view.status);
    bytes_or_null(ctx, view.payload);
}

/// The rows of a CLAIM that waited.
pub(crate) fn rows(ctx: Ctx, rows: &[Row]) {
    ctx.reply_array(rows.len());
    for row in rows {
        ctx.reply_array(7);
        ctx.reply_bytes(&row.id);
        ctx.reply_int(int(row.fence));
        moment(ctx, row.deadline);
        ctx.reply_int(i64::from(row.attempt));
        ctx.reply_int(int(row.lease_ms));
        ctx.reply_bytes(&row.status);
        bytes_or_null(ctx, row.payload.as_deref());
    }
}

/// Outcome words, as MACK answers.
pub(crate) fn outcomes(ctx: Ctx, outcomes: &[Outcome]) {
    ctx.reply_array(outcomes.len());
    for outcome in outcomes {
        outcome_word(ctx, *outcome);
    }
}

/// The map of GET.
pub(crate) fn map(ctx: Ctx, view: &OrderView<'_>) {
    ctx.reply_map(19);
    let name = |name: &str| ctx.reply_bytes(name.as_bytes());
    name("id");
    ctx.reply_bytes(view.id);
    name("state");
    state_word(ctx, view.state);
    name("status");
    ctx.reply_bytes(view.status);
    name("deadline");
    moment(ctx, view.deadline);
    name("rev");
    ctx.reply_int(int(view.rev));
    name("attempt");
    ctx.reply_int(i64::from(view.attempt));
    name("owner");
    bytes_or_null(ctx, view.owner);
    name("fence");
    ctx.reply_int(int(view.fence));
    name("lease_ms");
    ctx.reply_int(view.lease_ms.map_or(-2, int));
    name("kind");
    match view.kind {
        Some(LeaseKind::Claim) => name("claim"),
        Some(LeaseKind::Lock) => name("lock"),
        None => ctx.reply_null(),
    }
    name("holds");
    ctx.reply_int(i64::from(view.holds));
    name("retry_at");
    moment(ctx, view.retry_at);
    name("keep_end");
    moment(ctx, view.keep_end);
    name("payload");
    bytes_or_null(ctx, view.payload);
    name("result");
    bytes_or_null(ctx, view.result);
    name("error");
    bytes_or_null(ctx, view.reason().as_deref());
    name("finished_at");
    moment(ctx, view.finished_at);
    name("finished_deadline");
    moment(ctx, view.finished_deadline);
    name("session");
    // Once the connection has closed the lease only waits for its end.
    let connected = view.session != 0 && Ctx::client_lives(view.session);
    ctx.reply_int(if connected { int(view.session) } else { 0 });
}

/// `[id, deadline]` for each order of NEXT.
pub(crate) fn next(ctx: Ctx, orders: &[(Vec<u8>, WallMs)]) {
    ctx.reply_array(orders.len());
    for (id, deadline) in orders {
        ctx.reply_array(2);
        ctx.reply_bytes(id);
        ctx.reply_int(int(deadline.0));
    }
}

/// `[cursor, [[id, state, status, deadline, owner, attempt, error] …]]` of SCAN; the cursor as text, as
/// the server's own SCAN has it.
pub(crate) fn scan(ctx: Ctx, cursor: u64, rows: &[ScanRow]) {
    ctx.reply_array(2);
    ctx.reply_bytes(cursor.to_string().as_bytes());
    ctx.reply_array(rows.len());
    for row in rows {
        ctx.reply_array(7);
        ctx.reply_bytes(&row.id);
        state_word(ctx, row.state);
        ctx.reply_bytes(&row.status);
        moment(ctx, row.deadline);
        bytes_or_null(ctx, row.owner.as_deref());
        ctx.reply_int(i64::from(row.attempt));
        bytes_or_null(ctx, row.error.as_deref());
    }
}

/// The map of STATS.
pub(crate) fn stats(ctx: Ctx, stats: &Stats) {
    ctx.reply_map(stats.len());
    for (name, value) in stats {
        ctx.reply_bytes(name.as_bytes());
        match value {
            StatValue::Int(value) => ctx.reply_int(*value),
            StatValue::Real(value) if ctx.flags() & flag::RESP3 != 0 => ctx.reply_real(*value),
            // Microseconds are all there is; the server's own form has 17 digits.
            StatValue::Real(value) => ctx.reply_bytes(format!("{value:.3}").as_bytes()),
            StatValue::Text(value) => ctx.reply_bytes(value),
        }
    }
}

/// Names and texts of settings, as CONFIG GET answers: a map.
pub(crate) fn settings(ctx: Ctx, settings: &[(&'static str, Vec<u8>)]) {
    ctx.reply_map(settings.len());
    for (name, value) in settings {
        ctx.reply_bytes(name.as_bytes());
        ctx.reply_bytes(value);
    }
}

/// `[done, left]` of REQUEUE, RELEASE and PURGE.
pub(crate) fn swept(ctx: Ctx, done: u64, left: u64) {
    ctx.reply_array(2);
    ctx.reply_int(int(done));
    ctx.reply_int(int(left));
}

#[cfg(test)]
mod tests {
    use super::{OUTCOMES, STATES};
    use crate::engine::Outcome;
    use crate::words::state::State;

    #[test]
    fn every_word_is_at_the_number_of_its_outcome_or_state() {
        for outcome in Outcome::ALL {
            assert_eq!(OUTCOMES[outcome as usize].text(), outcome.word());
        }
        for state in State::ALL {
            assert_eq!(STATES[state as usize].text(), state.word());
        }
    }
}
