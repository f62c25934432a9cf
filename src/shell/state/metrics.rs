//! What queues have counted that are gone.

use std::sync::{Mutex, PoisonError};

use crate::engine::Queue;
use crate::engine::meters::Meters;

/// What the freed queues counted. `free` runs on any thread.
static RETIRED: Mutex<Option<Box<Meters>>> = Mutex::new(None);

/// Keeps what a queue that is being freed has counted. On any thread.
pub(crate) fn retire(queue: &Queue) {
    let mut retired = RETIRED.lock().unwrap_or_else(PoisonError::into_inner);
    queue.add_meters_to(retired.get_or_insert_with(Box::default));
}

/// Adds what the freed queues have counted to `sum`.
pub(crate) fn add_retired_to(sum: &mut Meters) {
    if let Some(retired) = &*RETIRED.lock().unwrap_or_else(PoisonError::into_inner) {
        sum.add(retired);
    }
}
