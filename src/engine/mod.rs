//! The pure core: the value under one key, and every rule of the product.
//!
//! It knows nothing of Redis, reads no clock and no random source, and contains
//! no `unsafe`. Time comes in as a [`time::Now`], what is to be done goes out as
//! data: a [`outcome::Decision`] with an [`effect::Effect`], events, wake times.
//! So everything here runs under plain `cargo test`.
//!
//! ```text
//! request ─► decide ─► outcome + effect ─► apply ─► store (ground state)
//!                                            └────► queue: wheels and lists (derived)
//! now ─────► queue.advance, announce, due_forget
//! ```
//!
//! | room | what is in it |
//! |---|---|
//! | `decide`, `lease`, `control` | what a request comes to: on an order, on a lock, on the queue |
//! | `apply` | carrying an effect out |
//! | `queue` | where a record stands, and what time does to it |
//! | `view`, `save` | questions, and the queue as effects |
//! | `store`, `record`, `status` | the records and what they are made of |
//! | `lookup` | from an id to its record, one or many at a time |
//! | `wheel`, `fifo`, `index`, `slab`, `arena` | data structures over 32-bit handles |
//! | `lazy` | parts that are made when they are needed |
//! | `effect`, `outcome`, `time`, `number`, `settings`, `meters`, `histogram` | words |

pub mod apply;
pub mod arena;
pub mod control;
pub mod decide;
pub mod effect;
pub mod fifo;
pub mod histogram;
pub mod index;
pub mod lazy;
pub mod lease;
pub mod lookup;
pub mod meters;
pub mod number;
pub mod outcome;
pub mod queue;
pub mod record;
pub mod save;
pub mod settings;
pub mod slab;
pub mod status;
pub mod store;
pub mod time;
pub mod view;
pub mod wheel;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub use decide::Env;
pub use outcome::{Announcement, Claimed, Decision, Event, EventKind, Outcome};
pub use queue::{Duty, Queue};
pub use settings::{Defaults, Own, Setting};
pub use view::{OrderView, ScanRow, StatValue, Stats};
