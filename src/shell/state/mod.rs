//! What the module remembers beside the keys.
//!
//! | file | what is in it |
//! |---|---|
//! | `settings` | `orderwheel.*` in CONFIG |
//! | `fences` | the number generator |
//! | `waiters` | clients that wait in CLAIM … BLOCK and LOCK … BLOCK |
//! | `events` | keyspace events, and whether anybody can hear them |
//! | `tokens` | the pace of announcements |

pub(crate) mod events;
pub(crate) mod fences;
pub(crate) mod settings;
pub(crate) mod tokens;
pub(crate) mod waiters;
