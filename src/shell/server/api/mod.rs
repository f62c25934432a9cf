//! The module API of the server, each call wrapped once.
//!
//! Everything unsafe about talking to the server is here, in `datatype` (which
//! boxes and unboxes the value) and in the few lines of each callback that turn
//! raw pointers into the types below. The crate `redis_module` gives the
//! bindings; its own wrappers are not used where user bytes pass: several of
//! them treat text as a format or panic on a NUL byte.
//!
//! A call that an older server does not have is a null pointer: each wrapper
//! then does nothing and returns its neutral value.
//!
//! # Who runs when
//! These calls may run other code, our own commands included, before they
//! return: [`Ctx::call_apply`], [`Ctx::notify`], [`Key::open`] (a key that has
//! expired is deleted by it, which calls `unlink` and raises events),
//! [`Key::delete`], [`Blocked::unblock`], and storing a value
//! (`value::put`: the old one is unlinked). No reference into a queue is alive
//! across one of them; one into a queue that [`Key::open`] found is taken after it.

mod blocked;
mod call;
mod context;
mod key;
mod log;
mod text;
mod word;

pub(crate) use blocked::{Blocked, BlockedCalls};
pub(crate) use call::{ERR, OK, api, flag, guarded, is_valkey, replication_is_paused};
pub(crate) use context::{Ctx, Detached};
pub(crate) use key::{Key, Mode};
pub(crate) use log::{Level, install_panic_hook, log, log_once_a_second, log_text};
pub(crate) use text::{Kept, Name, Text};
pub(crate) use word::Word;
