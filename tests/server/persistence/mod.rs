//! What was acknowledged is there again: after a kill, a restart, a rewrite, a
//! copy; every field, every state, every deadline to the millisecond.
//!
//! | room | subject |
//! |---|---|
//! | `killed` | a server that is killed under load, again and again |
//! | `saving` | every way of saving, files with and without queues |
//! | `starting` | what happens at a start to what is overdue or leased |
//! | `digests` | digests are equal wherever a queue is |
//! | `keys` | keys that are renamed, moved, swapped and flushed |

mod digests;
mod keys;
mod killed;
mod saving;
mod starting;

use std::time::Duration;

/// How long "nothing happens" is watched.
const QUIET: Duration = Duration::from_millis(60);
