//! The side that knows the server: everything the engine must not know of.
//!
//! | file | what is in it |
//! |---|---|
//! | `ffi` | each call of the module API, wrapped once |
//! | `commands`, `reply` | the commands and the shapes of their answers |
//! | `locks`, `control` | LOCK and its family; commands on a queue as a whole |
//! | `apply` | ORDER.APPLY: effects from elsewhere, and our own |
//! | `docs`, `acl` | what COMMAND DOCS says, and what ACL goes by: keys, categories |
//! | `datatype` | saving, loading, copying; where values are boxed |
//! | `reaper` | the thread on which memory is given back |
//! | `scheduler`, `agenda` | the one timer, and which queue is looked at when |
//! | `alarm` | wakes the event loop on time for it |
//! | `pass` | what is due: advance, forget, serve those who wait, announce |
//! | `waiters` | clients that wait in CLAIM … BLOCK |
//! | `hooks` | keyspace events, flush, swap, role, loading, cron |
//! | `audience` | whether anybody can hear an event |
//! | `settings`, `info`, `counters` | CONFIG and INFO |
//! | `numbers`, `clock`, `cell` | fences, the two clocks, state under the server's lock |
//! | `tokens`, `buffer` | the pace of announcements; a buffer that is kept |

mod acl;
mod agenda;
mod alarm;
mod apply;
mod audience;
mod buffer;
mod cell;
mod clock;
mod commands;
mod control;
mod counters;
pub(crate) mod datatype;
mod docs;
mod ffi;
mod hooks;
mod info;
mod locks;
mod numbers;
mod pass;
mod reaper;
mod reply;
mod scheduler;
mod settings;
mod tokens;
mod waiters;

use std::hash::RandomState;

use redis_module::{Context, RedisString, Status};

use crate::engine::hash::hash_with;
use ffi::{Ctx, Level, log};

/// Sets the module up once the data type exists. Refuses to load, with a line in
/// the log, where the server lacks what the module can not do without.
pub(crate) fn load(context: &Context, args: &[RedisString]) -> Status {
    ffi::install_panic_hook();
    ffi::guarded(Status::Err, || {
        // SAFETY: the context of OnLoad, for as long as it runs.
        let ctx = unsafe { Ctx::new(context.ctx) };
        if !args.is_empty() {
            log(
                Level::Warning,
                c"orderwheel: takes no module arguments; use orderwheel.* settings in redis.conf",
            );
            return Status::Err;
        }
        if !commands::register(ctx) {
            log(Level::Warning, c"orderwheel: the server refused a command");
            return Status::Err;
        }
        acl::register(ctx, commands::names_and_flags());
        docs::register(ctx);
        if !settings::register(ctx) {
            log(
                Level::Warning,
                c"orderwheel: the server refused the settings, Redis 7.0 or newer is needed",
            );
            return Status::Err;
        }
        // Ids come from outside: nobody may know where they fall in an index.
        hash_with(RandomState::new());
        datatype::set_options(ctx);
        info::register(ctx);
        hooks::subscribe(ctx);
        scheduler::start(ctx);
        reaper::start();
        log(Level::Notice, c"orderwheel: loaded");
        Status::Ok
    })
}
