//! The invariants of an index, for tests and debug builds.

use super::line::{Entry, Line, print_of};
use super::{At, Hashed, Index};
use crate::engine::tables::NIL;

impl Index {
    /// Tests the invariants at the head of the file, in tests and debug builds only.
    /// O(buckets + records).
    ///
    /// # Panics
    ///
    /// If one is broken.
    #[cfg(any(test, debug_assertions))]
    pub fn check(&self, records: &impl Hashed) {
        let (mut met, mut spilled) = (0, 0);
        for bucket in 0..self.buckets {
            let mut at = At::Home(bucket);
            while let Some(line) = self.line(at) {
                for Entry { handle, print } in line.entries() {
                    let hash = records.hash_of(handle);
                    assert_eq!(self.bucket_of(hash), bucket, "bucket of record {handle}");
                    assert_eq!(print, print_of(hash), "print of record {handle}");
                    met += 1;
                }
                let free = line.handles.iter().skip_while(|handle| **handle != NIL);
                assert!(free.clone().all(|handle| *handle == NIL), "a gap in a line");
                spilled += usize::from(matches!(at, At::Spilled(_)));
                let Some(next) = self.next(at) else { break };
                assert_eq!(free.count(), 0, "a line that is not full and not the last");
                at = next;
            }
        }
        assert_eq!(met, self.len, "records");
        assert_eq!(spilled, self.spilled.len(), "spilled lines");
        let homes: usize = self.pages.iter().map(Vec::len).sum();
        assert_eq!(homes, self.buckets as usize, "buckets in pages");
        let bytes: usize = self
            .pages
            .iter()
            .map(|page| page.capacity() * size_of::<Line>())
            .sum();
        assert_eq!(bytes, self.page_bytes, "bytes");
        let [.., last] = self.pages.as_slice() else {
            return;
        };
        assert!(
            self.pages.len() == 1 || !last.is_empty(),
            "an empty last page"
        );
    }
}
