//! The hash of ids, with secret keys.

use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// Keys of the hash of ids, the same for all queues of a process: a small queue
/// has no room for its own. Once an id was hashed they stay as they are.
static KEYS: OnceLock<Option<RandomState>> = OnceLock::new();

/// Has ids hashed with these keys, which must be secret: ids come from outside.
/// To be called once, before anything else; false if it is too late.
pub fn hash_with(keys: RandomState) -> bool {
    KEYS.set(Some(keys)).is_ok()
}

/// The hash of an id; with keys that everybody knows if none were given.
pub fn hash_of_id(id: &[u8]) -> u64 {
    // An id is all there is, so its length need not be hashed before it: `hash_one` does,
    // and takes half as long again.
    let mut hasher = match KEYS.get_or_init(|| None) {
        Some(keys) => keys.build_hasher(),
        None => DefaultHasher::new(),
    };
    hasher.write(id);
    hasher.finish()
}
