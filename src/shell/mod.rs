//! The side that knows the server: everything the engine must not know of.
//!
//! In storeys; a file knows its own storey and those below, never one above.
//!
//! | storey | what is in it |
//! |---|---|
//! | `commands` | what a client asks |
//! | `pass` | what time asks: end leases, forget, serve those who wait, announce |
//! | `callbacks` | what the server tells us: values, events, INFO |
//! | `write` | the one write path: open, decide, apply, reply, replicate, conclude |
//! | `schedule` | when to look at which queue |
//! | `state` | what the module remembers beside the keys |
//! | `server` | the module API, wrapped |
//!
//! The first three stand side by side and know nothing of each other. Where a lower storey
//! has to call a higher one it is handed a function ([`load`] does it): the timer the
//! pass, the settings what to do when one was set.

mod callbacks;
mod commands;
mod pass;
mod schedule;
mod server;
mod state;
mod write;

use std::hash::RandomState;

use redis_module::{Context, RedisString, Status};

use crate::engine::hash::hash_with;
use callbacks::{datatype, hooks, info};
use commands::{acl, describe};
use schedule::timer;
use server::api::{self, Ctx, Level, log};
use server::{reaper, value};
use state::{sessions, settings};

pub(crate) use callbacks::datatype::TYPE;

/// Sets the module up once the data type exists. Refuses to load, with a line in
/// the log, where the server lacks what the module can not do without.
pub(crate) fn load(context: &Context, args: &[RedisString]) -> Status {
    api::install_panic_hook();
    api::guarded(Status::Err, || {
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
        acl::register(ctx);
        describe::register(ctx);
        if !settings::register(ctx, timer::look_at_awaited) {
            log(
                Level::Warning,
                c"orderwheel: the server refused the settings, Redis 7.0 or newer is needed",
            );
            return Status::Err;
        }
        // Ids come from outside: nobody may know where they fall in an index.
        hash_with(RandomState::new());
        value::know_type(*TYPE.raw_type.borrow());
        datatype::set_options(ctx);
        info::register(ctx);
        hooks::subscribe(ctx);
        timer::start(ctx, pass::run);
        sessions::start(hooks::watch_clients);
        reaper::start();
        log(Level::Notice, c"orderwheel: loaded");
        Status::Ok
    })
}
