//! orderwheel: a Redis module that closes unpaid orders on time.
//!
//! A shop schedules an order's deadline when it creates the order and finishes it
//! when the payment lands; closers outside Redis are told of, and handed, the
//! orders whose deadline has passed. Deadlines, leases, retries and the order's
//! status live together in one Redis key, behind one clock.
//!
//! ```text
//!  client ─► shell::commands ─► request (grammar) ─► engine: decide ─► outcome + effect
//!                                                                          │
//!   replica, AOF, slot import ─► ORDER.APPLY ─► codec ─► engine: apply ◄───┘
//!                                                          └─► records (ground state)
//!                                                              └─► index, wheels, lists (derived)
//!  server timer ─► shell::pass ─► advance, forget, grant to waiters, announce, re-arm
//! ```
//!
//! | module | pure? | what it knows |
//! |---|---|---|
//! | [`engine`] | yes | the value under one key, and every rule of the product |
//! | [`request`] | yes | the grammar of the commands |
//! | [`words`] | yes | words that all of these use: states, times, limits |
//! | [`error`] | yes | every error text |
//! | [`codec`] | yes | effects as bytes: replicated and saved form |
//! | `shell` | no | the server: commands, timer, callbacks, settings |
//!
//! # Invariants
//! - Pure modules import no `redis_module`, read no clock, environment or random
//!   source, and contain no `unsafe`. Time comes in as an argument; effects leave as
//!   data.
//! - Records are ground state: saved, copied, digested, replicated. Everything else
//!   is derived and built anew on load.
//! - The primary decides, with its clock; replicas and AOF replay apply what was
//!   decided, in absolute times. A deadline that passes writes nothing.
//! - No reference into a queue is alive across a call into the server that can run
//!   other code.
//! - Every entry from C catches panics; nothing a caller sends reaches a log line, an
//!   error text or an event name as a format or unescaped.
//!
//! The library exports the two functions the server calls, and nothing else: the
//! pure modules are public for their documentation.

pub mod codec;
pub mod engine;
pub mod error;
pub mod request;
#[cfg(not(fuzzing))]
mod shell;
#[cfg(any(test, fuzzing))]
mod testing;
pub mod words;

/// What the server needs of this library. A fuzzer has the pure modules alone: no
/// server, so no allocator of one.
#[cfg(not(fuzzing))]
mod library {
    use crate::shell::{TYPE, load};

    /// The allocator: the server's, so that `used_memory` and `maxmemory` see what
    /// the module takes. It does not exist outside a server, where tests run.
    #[cfg(not(test))]
    type Allocator = redis_module::alloc::RedisAlloc;
    /// The allocator under test.
    #[cfg(test)]
    type Allocator = std::alloc::System;

    /// The one allocator value.
    #[cfg(not(test))]
    const ALLOCATOR: Allocator = redis_module::alloc::RedisAlloc;
    /// The one allocator value, under test.
    #[cfg(test)]
    const ALLOCATOR: Allocator = std::alloc::System;

    /// The number of a decimal part of the version.
    #[allow(clippy::from_str_radix_10, reason = "parse is not const")]
    const fn number(part: &str) -> i32 {
        match i32::from_str_radix(part, 10) {
            Ok(number) => number,
            Err(_) => 0,
        }
    }

    /// The version as MODULE LIST shows it: 10203 is 1.2.3. Release 0.1.0 showed 1.
    const VERSION: i32 = 10_000 * number(env!("CARGO_PKG_VERSION_MAJOR"))
        + 100 * number(env!("CARGO_PKG_VERSION_MINOR"))
        + number(env!("CARGO_PKG_VERSION_PATCH"));

    redis_module::redis_module! {
        name: "orderwheel",
        version: VERSION,
        allocator: (Allocator, ALLOCATOR),
        data_types: [TYPE],
        init: load,
    }
}
