//! Tests of the module in a real server, over the wire.
//!
//! One test binary, one module per topic, the harness in `support`. A topic with many
//! tests is a folder with a room for each subject; its `mod.rs` says which. Each test
//! starts servers of its own; `scripts/test.sh` builds the module they load.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test ends by panicking, and the runner shows what it printed"
)]
#![allow(
    clippy::missing_docs_in_private_items,
    reason = "a test's name says what it shows"
)]
#![allow(
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "numbers on the wire are small"
)]
#![allow(dead_code, reason = "the harness is whole, whichever topics use it")]
#![allow(
    unused_imports,
    reason = "the harness is whole, whichever topics use it"
)]

mod acl_docs;
mod batches;
mod blocking;
mod bounds;
mod brake;
mod clocks;
mod commands;
mod compaction;
mod control;
mod errors;
mod events;
mod gauges;
mod hostile;
mod lock_existing;
mod locks;
mod pages;
mod persistence;
mod release;
mod replication;
mod requeue;
mod robustness;
mod sessions;
mod slots;
mod support;
mod timing;
