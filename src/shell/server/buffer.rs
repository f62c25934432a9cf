//! A buffer that is kept between uses, so that a command allocates none.

/// The kept buffer.
#[derive(Debug)]
pub(crate) struct Spare {
    /// The buffer; empty while it is in use.
    kept: Vec<u8>,
    /// A longer one is not kept, bytes.
    bytes_max: usize,
}

impl Spare {
    /// None yet; one of more than `bytes_max` will not be kept.
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self {
            kept: Vec::new(),
            bytes_max,
        }
    }

    /// The kept buffer, or a new one: empty either way.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.kept)
    }

    /// Keeps a buffer that was used, unless it was stretched or is smaller than the
    /// one there is. (Who used none gives back one without any room.)
    pub(crate) fn give_back(&mut self, mut used: Vec<u8>) {
        if used.capacity() <= self.bytes_max && used.capacity() > self.kept.capacity() {
            used.clear();
            self.kept = used;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Spare;

    #[test]
    fn it_is_kept_until_it_was_stretched() {
        let mut spare = Spare::new(100);
        assert_eq!(spare.take().capacity(), 0);
        spare.give_back(vec![7; 50]);
        let kept = spare.take();
        assert_eq!((kept.len(), kept.capacity()), (0, 50));
        spare.give_back(kept);
        // Who needed none does not take it away.
        spare.give_back(Vec::new());
        // Two were in use at once: the larger one stays.
        spare.give_back(Vec::with_capacity(20));
        assert_eq!(spare.take().capacity(), 50);
        spare.give_back(Vec::with_capacity(101));
        assert_eq!(spare.take().capacity(), 0);
    }
}
