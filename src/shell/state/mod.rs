//! What the module remembers beside the keys.
//!
//! | file | what is in it |
//! |---|---|
//! | `settings` | `orderwheel.*` in CONFIG |
//! | `fences` | the number generator |
//! | `waiters` | clients that wait in CLAIM … BLOCK and LOCK … BLOCK |
//! | `events` | keyspace events, and whether anybody can hear them |
//! | `metrics` | what queues have counted that are gone |

pub(crate) mod events;
pub(crate) mod fences;
pub(crate) mod metrics;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod waiters;
