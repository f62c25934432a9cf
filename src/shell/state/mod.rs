//! What the module remembers beside the keys.
//!
//! | file | what is in it |
//! |---|---|
//! | `settings` | `orderwheel.*` in CONFIG |
//! | `fences` | the number generator |
//! | `waiters` | clients that wait in CLAIM … BLOCK and LOCK … BLOCK |
//! | `sessions` | which clients have leases that end with their connection |
//! | `events` | keyspace events, and whether anybody can hear them |

pub(crate) mod events;
pub(crate) mod fences;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod waiters;
