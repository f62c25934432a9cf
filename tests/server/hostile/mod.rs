//! Forged queues: what is accepted can be used, saved, loaded and replicated.
//!
//! A RESTORE and an `ORDER.APPLY` bring bytes that no decision of ours has made. Each
//! setting and each number of each effect, of both versions, is put in as many wrong
//! ways as there are limits nearby; what is not refused is then carried through every
//! command, every way of saving and a replica. Thousands of queues share two servers.
//!
//! ```text
//!   forged ─┬─ refused: an error, nothing is changed
//!           └─ taken ─► commands ─► replica ─► SAVE, DEBUG RELOAD ─► commands
//!                         └► AOF ─► rewritten as RDB, as commands ─► commands
//!              after each: digests equal, no lease longer than there may be
//! ```
//!
//! | room | subject |
//! |---|---|
//! | `effects` | the effects that are forged, as they should be |
//! | `forging` | each number and each setting of them replaced |
//! | `carrying` | what is done to the queues that were taken |
//! | `queues` | the tests: forged queues, as payloads and as effects |
//! | `leases` | the tests: leases that end at the last moment, or too late |

mod carrying;
mod effects;
mod forging;
mod leases;
mod queues;

use std::collections::BTreeMap;

/// An hour in milliseconds.
const HOUR: u64 = 3_600_000;

/// A queue that no decision has made.
struct Forged {
    /// What was done to it.
    what: String,
    /// Version of its effects.
    version: u64,
    /// Its effects.
    blob: Vec<u8>,
}

/// The queues that were taken, by key, with what was done to each.
type Taken = BTreeMap<String, String>;
