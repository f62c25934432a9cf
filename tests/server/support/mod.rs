//! The harness of the server tests: servers, clients, replies, waiting.
//!
//! Rules: every wait has a limit; nothing sleeps where it can poll; time is
//! asserted exactly on the "not before" side and generously on the other.

mod built;
mod client;
mod clock;
#[path = "../../support/states.rs"]
pub(crate) mod page;
mod reply;
mod server;
pub(crate) mod states;
pub(crate) mod wire;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) use built::{library, module_path};
pub(crate) use client::{Arg, Client, Message, REPLY_LIMIT, Value, args, argv, cmd, encode};
pub(crate) use clock::Clock;
pub(crate) use reply::{
    Claimed, GET_FIELDS, LEASE_REPLY, LeaseReply, ORDER_REPLY, Order, OrderReply,
};
pub(crate) use server::{Options, Server, read_file};

/// A limit for whatever should happen soon: long enough for a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Polls until `look` gives something, for at most `limit`.
#[track_caller]
pub(crate) fn wait_for<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            Instant::now() < until,
            "waited {limit:?} in vain for {what}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Polls until `holds`, for at most `limit`.
#[track_caller]
pub(crate) fn wait_until(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(limit, what, || holds().then_some(()));
}

/// This machine's clock, which is the server's too, in microseconds since the
/// Unix epoch.
pub(crate) fn wall_us() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("the clock is past 1970");
    u64::try_from(since.as_micros()).expect("microseconds fit")
}

/// A small seeded generator (splitmix64), so that a failing run can be had
/// again: set `ORDER_TEST_SEED`.
pub(crate) struct Random(u64);

impl Random {
    /// From `ORDER_TEST_SEED`, else from the clock; prints the seed, which the
    /// test runner shows when the test fails.
    pub(crate) fn new() -> Self {
        let seed = std::env::var("ORDER_TEST_SEED")
            .ok()
            .and_then(|s| s.parse().ok())
            .unwrap_or_else(wall_us);
        eprintln!("ORDER_TEST_SEED={seed}");
        Self(seed)
    }

    /// From this seed, for a thread of a test that has a generator.
    pub(crate) const fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Calls `visit` with every order of the items. For a handful of items only.
pub(crate) fn permutations<T: Clone>(items: &[T], visit: &mut dyn FnMut(&[T])) {
    /// Puts each remaining item at `at` in turn.
    fn from<T: Clone>(items: &mut Vec<T>, at: usize, visit: &mut dyn FnMut(&[T])) {
        if at == items.len() {
            return visit(items);
        }
        for i in at..items.len() {
            items.swap(at, i);
            from(items, at + 1, visit);
            items.swap(at, i);
        }
    }
    from(&mut items.to_vec(), 0, visit);
}
