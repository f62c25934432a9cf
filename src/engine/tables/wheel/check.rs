//! The invariants of a wheel, for tests and debug builds.

use super::node::{DIGIT_BITS, LEVELS, SLOTS, Slot, base_of};
use super::{Filed, LIST_MAX, MERGE_BELOW, Wheel, time_of};

impl Wheel {
    /// Tests the invariants at the head of the file, in tests and debug builds only.
    /// O(records).
    ///
    /// # Panics
    ///
    /// If one is broken.
    #[cfg(any(test, debug_assertions))]
    pub fn check(&self, records: &impl Filed) {
        let mut nodes = 0;
        let met = self.check_slot(records, self.root, LEVELS, 0, &mut nodes);
        assert_eq!(met, self.len, "records");
        assert_eq!(nodes, self.node_count(), "nodes");
        if let Some(nodes) = &self.nodes {
            nodes.check();
        }
    }

    /// Tests a slot that covers `64^height` ms from `base` and what is below it,
    /// and returns its records.
    #[cfg(any(test, debug_assertions))]
    fn check_slot(
        &self,
        records: &impl Filed,
        slot: Slot,
        height: u32,
        base: u64,
        nodes: &mut usize,
    ) -> u32 {
        let lies_in = |time: u64| time >> (DIGIT_BITS * height) == base >> (DIGIT_BITS * height);
        let Some(number) = slot.node() else {
            assert!(
                slot.len <= LIST_MAX || height == 0,
                "a list of {} at height {height}",
                slot.len
            );
            slot.check(records);
            for i in slot.iter(records) {
                assert!(
                    lies_in(time_of(records, i)),
                    "record {i} is not where its time says"
                );
            }
            return slot.len;
        };
        *nodes += 1;
        let node = self.node(number);
        assert!(node.is_some(), "node {number} is gone");
        let Some(node) = node else { return 0 };
        assert!(
            node.level() < height && lies_in(node.base),
            "node {number} is not within its slot"
        );
        assert_eq!(
            base_of(node.base, node.level()),
            node.base,
            "base of node {number}"
        );
        assert!(
            node.count >= MERGE_BELOW,
            "node {number} has but {} records",
            node.count
        );
        let mut met = 0;
        for digit in 0..SLOTS as u8 {
            let slot = node.slot(digit);
            assert_eq!(
                node.bits >> digit & 1 == 1,
                !slot.is_empty(),
                "bit {digit} of node {number}"
            );
            let base = node.base + (u64::from(digit) << (DIGIT_BITS * node.level()));
            met += self.check_slot(records, slot, node.level(), base, nodes);
        }
        assert_eq!(met, node.count, "count of node {number}");
        met
    }
}
