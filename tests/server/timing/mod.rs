//! Never early, never twice, never lost; one decision; leases that end.
//!
//! "Not before" is exact: by the server's own clock, read after the hand-over,
//! so that a hand-over before the deadline can not be missed by more than the
//! time between two commands. "Not after" only catches what hangs.
//!
//! | room | subject |
//! |---|---|
//! | `deadlines` | nothing before its deadline, nothing late |
//! | `once` | many at the same order, and one of them has it |
//! | `leases` | leases that end, and tries that fail |
//! | `scheduler` | many queues, no queue, and alarms for nothing |

mod deadlines;
mod leases;
mod once;
mod scheduler;
