//! Data structures over 32-bit handles. They know no order and no rule: nothing here
//! imports anything from outside this folder.
//!
//! | room | what is in it |
//! |---|---|
//! | `slab` | values behind handles, in pages that never move |
//! | `arena` | byte strings behind handles |
//! | `index` | handles by hash |
//! | `list` | a list threaded through the records |
//! | `fifo` | such a list with a cursor: first in, first out |
//! | `wheel` | handles by time |
//! | `histogram` | percentiles in little memory |
//! | `buckets` | counts by fixed bounds, which add up |
//! | `tokens` | so many a second and no more |
//! | `seconds` | moments, counted by second |
//! | `lazy` | parts that are made when they are needed |
//! | `memory` | how an allocator rounds, how pages grow and who frees them |

pub mod arena;
pub mod buckets;
pub mod fifo;
pub mod histogram;
pub mod index;
pub mod lazy;
pub mod list;
pub mod memory;
pub mod seconds;
pub mod slab;
pub mod tokens;
pub mod wheel;

/// No handle: the end of every list. No structure ever gives it out.
pub const NIL: u32 = u32::MAX;
