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
//! # Where the time goes
//! Instructions within redis-server 7.0.15 a command, by callgrind (20 000 orders,
//! so without most cache misses; release build):
//!
//! | | SCHEDULE | FINISH | CLAIM and MACK of 100, an order |
//! |---|---|---|---|
//! | all | 18.1 k | 17.3 k | 11.3 k |
//! | the server: reading the command, its arguments, calling us | 5.4 k | 5.1 k | 1.3 k |
//! | the server: the reply's fields | 2.9 k | 2.4 k | 2.7 k |
//! | the server: `RM_Replicate`, half of it to find ORDER.APPLY by name | 3.2 k | 3.0 k | 0.1 k |
//! | `apply`: index, wheel, lists, arena | 2.5 k | 2.4 k | 3.5 k |
//! | the rest of ours: `parse`, `decide`, `codec`, lookup, view | 4.1 k | 4.4 k | 3.7 k |
//!
//! A ZADD takes 7.8 k in all. What is ours to win there is small by now, and
//! more orders cost time, not instructions: at a million a command waits for some
//! three lines of memory one after the other - index line, record, id - and for the
//! neighbours in the wheel's list at once with the id. A new id waits for the first
//! of them alone. That is why a bucket is one cache line
//! (`index`), why a batch is looked ahead (`lookup`), why the wheel's lists are read
//! from both ends and several at once (`wheel`), and why SCHEDULE takes no longer at
//! ten million orders than at a million, where ZADD takes twice as long.
//! What is left of it is a CLAIM from among hundreds that are due in one millisecond:
//! they are one list, each record of which says where the next one is.
//!
//! # The rooms
//! | room | what is in it |
//! |---|---|
//! | `decide`, `lease`, `control` | what a request comes to: on an order, on a lock, on the queue |
//! | `apply` | carrying an effect out |
//! | `queue` | where a record stands, and what time does to it |
//! | `view`, `save` | questions, and the queue as effects |
//! | `store` | the records of a queue: made, found, changed and removed |
//! | `rows`, `record`, `status`, `ending` | what a record is made of, and its state at a moment |
//! | `views` | the records as the wheels see them |
//! | `lookup`, `hash` | from an id to its record, one or many at a time |
//! | `tables` | data structures over 32-bit handles: slab, arena, index, wheel, lists |
//! | `notices` | what is still to be said of lapsed locks |
//! | `compact` | a queue that has shrunk gives memory back |
//! | `effect`, `outcome`, `number`, `settings`, `meters` | words |

pub mod apply;
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
pub mod settings;
pub mod status;
pub mod store;
pub mod tables;
pub mod view;
pub mod views;

#[cfg(test)]
mod agree;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub use decide::Env;
pub use outcome::{Announcement, Claimed, Decision, Event, EventKind, Outcome};
pub use queue::{Duty, Queue};
pub use settings::{Defaults, Own, Setting};
pub use view::{OrderView, ScanRow, StatValue, Stats};
