//! Announcements: what time has brought, told at the pace that is set.

use super::{Audience, Pass, Progress};
use crate::engine::tables::tokens::{Rate, Tokens};
use crate::shell::schedule::timer::{self, AGENDA};
use crate::shell::server::api::{Ctx, Mode, Name};
use crate::shell::server::cell::Shared;
use crate::shell::server::{clock, value};
use crate::shell::state::{events, settings};
use crate::shell::write;

/// How many announcements are taken out of a queue at a time.
const ANNOUNCE_MAX: u64 = 64;

/// As many as so many microseconds bring may be made at once, at least one.
const AT_ONCE_US: u64 = 10_000;

/// When they have run out, that many milliseconds' worth comes together before the next
/// are made: a backlog is late whatever is done, and each run of the timer costs. So
/// too where the time for announcing has run out and nobody can hear it.
pub(super) const GATHER_MS: u64 = 4;

/// The announcements that this server may make.
static TOKENS: Shared<Tokens> = Shared::new(Tokens::new());

/// The pace that is set.
fn rate() -> Rate {
    Rate {
        per_s: settings::ANNOUNCE_PER_S_MAX.get(),
        depth_us: AT_ONCE_US,
    }
}

/// In how many milliseconds announcements go on, where none may be made now.
fn next_token_ms() -> u64 {
    let now_us = clock::mono_us();
    let ahead_us = TOKENS.with(|tokens| tokens.next_us(rate(), now_us));
    ahead_us.unwrap_or(0).div_ceil(1000).max(GATHER_MS)
}

/// Takes at most `want` of the announcements that may be made now.
fn take_tokens(want: u64) -> u64 {
    TOKENS
        .with(|tokens| tokens.take(want, rate(), clock::mono_us()))
        .unwrap_or(0)
}

/// Publishes what time has brought, as fast as it may be published.
pub(super) fn announce(
    ctx: Ctx,
    pass: &Pass,
    db: i32,
    key: &[u8],
    name: Name<'_>,
    progress: &mut Progress,
) {
    let mut probed = false;
    loop {
        let due = value::with_queue(ctx, name, Mode::Quiet, |queue| {
            if queue.is_paused(&pass.now) {
                0
            } else {
                queue.announce_backlog(&pass.now)
            }
        });
        let Some(due) = due.filter(|due| *due > 0) else {
            break;
        };
        if held(db, key, pass) {
            let ahead_ms = pass
                .hold_until_us
                .saturating_sub(pass.now.mono_us)
                .div_ceil(1000);
            progress.held_until = Some(pass.in_ms(ahead_ms));
            break;
        }
        let may = take_tokens(due.min(ANNOUNCE_MAX));
        if may == 0 {
            let ahead_ms = next_token_ms();
            progress.held_until = Some(pass.in_ms(ahead_ms));
            break;
        }
        // A server that is not, or no longer, the primary of this key says nothing.
        if !probed && !write::ourselves(ctx, name, b"", Vec::new()) {
            progress.refused = true;
            return;
        }
        probed = true;
        let mut out = Vec::new();
        let max = usize::try_from(may).unwrap_or(0);
        value::with_queue(ctx, name, Mode::Quiet, |queue| {
            queue.announce(&pass.now, max, &mut out);
        });
        if out.is_empty() {
            break;
        }
        events::publish(ctx, name, &out);
        if !pass.may_announce() {
            if pass.audience == Audience::Nowhere {
                progress.held_until = Some(pass.in_ms(GATHER_MS));
            }
            break;
        }
    }
}

/// Whether this queue's announcements wait for subscribers to come back.
fn held(db: i32, key: &[u8], pass: &Pass) -> bool {
    if pass.now.mono_us < pass.hold_until_us {
        // Until the walk has come by, nobody knows whether it was overdue.
        return timer::sweeping()
            || AGENDA
                .with(|agenda| agenda.entry(db, key).is_some_and(|entry| entry.held))
                .unwrap_or(false);
    }
    false
}
