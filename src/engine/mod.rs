//! The pure core: the value under one key, and every rule of the product.
//!
//! It knows nothing of Redis, reads no clock and no random source, and contains
//! no `unsafe`. Time comes in as a [`Now`](crate::words::time::Now), what is to be done goes out as
//! data: a [`outcome::Decision`] with an [`effect::Effect`], events, wake times.
//! So everything here runs under plain `cargo test`.
//!
//! ```text
//! request ─► decide ─► outcome + effect ─► apply ─► store (ground state)
//!                                            └────► queue: wheels and lists (derived)
//! now ─────► queue.advance, announce, due_forget
//! ```
//!
//! Where the time goes is measured in `docs/benchmarks.md`.
//!
//! # The rooms
//! | room | what is in it |
//! |---|---|
//! | `decide`, `lease`, `batch`, `control` | what a request comes to: on an order, on a lock, on many orders, on the queue |
//! | `apply` | carrying an effect out |
//! | `queue` | where a record stands, and what time does to it |
//! | `view`, `save` | questions, and the queue as effects |
//! | `store` | the records of a queue: made, found, changed and removed |
//! | `rows`, `record`, `status`, `ending` | what a record is made of, and its state at a moment |
//! | `views` | the records as the wheels see them |
//! | `lookup`, `hash` | from an id to its record, one or many at a time |
//! | `tables` | data structures over 32-bit handles: slab, arena, index, wheel, lists |
//! | `session` | leases that end with a connection |
//! | `notices` | what is still to be said of lapsed locks |
//! | `compact` | a queue that has shrunk gives memory back |
//! | `times` | how long things took |
//! | `effect`, `outcome`, `number`, `settings`, `meters` | words |

pub mod apply;
pub mod batch;
pub mod compact;
pub mod control;
pub mod decide;
pub mod effect;
pub mod ending;
pub mod hash;
pub mod lease;
pub mod lookup;
pub mod meters;
pub mod notices;
pub mod number;
pub mod outcome;
pub mod queue;
pub mod record;
pub mod rows;
pub mod save;
pub mod session;
pub mod settings;
pub mod status;
pub mod store;
pub mod tables;
pub mod times;
pub mod view;
pub mod views;

#[cfg(test)]
mod agree;
#[cfg(any(test, fuzzing))]
pub mod hostile;
#[cfg(test)]
mod model;
#[cfg(any(test, fuzzing))]
mod testing;
#[cfg(test)]
mod tests;

pub use decide::Env;
pub use outcome::{Announcement, Claimed, Decision, Event, EventKind, Outcome};
pub use queue::{Duty, Gauges, Queue};
pub use settings::{Defaults, Overrides, Setting};
pub use view::{OrderView, ScanRow, StatValue, Stats};
