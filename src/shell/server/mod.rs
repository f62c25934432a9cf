//! The ground floor: the module API, wrapped. Knows no queue's rules.
//!
//! | file | what is in it |
//! |---|---|
//! | `api` | each call of the module API, wrapped once |
//! | `value` | the value under a key: looked at, stored, lent |
//! | `reply` | the shapes of answers |
//! | `clock`, `cell`, `counters` | the two clocks, state under the server's lock, counters |
//! | `gauges` | the counts and times of all queues together |
//! | `resets` | CONFIG RESETSTAT, noticed |
//! | `evicting` | a policy that evicts queues, and the warning of it |
//! | `buffer` | a buffer that is used again |
//! | `reaper` | the thread on which memory is given back |

pub(crate) mod api;
pub(crate) mod buffer;
pub(crate) mod cell;
pub(crate) mod clock;
pub(crate) mod counters;
pub(crate) mod evicting;
pub(crate) mod gauges;
pub(crate) mod reaper;
pub(crate) mod reply;
pub(crate) mod resets;
pub(crate) mod value;
