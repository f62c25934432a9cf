//! When to look at which queue.
//!
//! | file | what is in it |
//! |---|---|
//! | `agenda` | which queue is looked at when |
//! | `timer` | the one server timer, and the walk over all queues |
//! | `alarm` | wakes the event loop on time for it |

pub(crate) mod agenda;
pub(crate) mod alarm;
pub(crate) mod timer;
