//! One number for each block: the block above it on a way, or a mark. Three bytes each while that is enough.

/// Not reached.
const NOBODY: u32 = 0;

/// For each block the one above it.
#[derive(Default)]
pub(crate) struct Above {
    low: Vec<u16>,
    high: Vec<u8>,
    /// Empty while numbers fit into three bytes.
    top: Vec<u8>,
    /// The mark of a block that a name leads to directly: larger than any number of a block and one.
    root: u32,
}

impl Above {
    /// For so many blocks, none of them reached.
    pub(crate) fn new(slots: usize) -> Self {
        let root = u32::try_from(slots).unwrap_or(u32::MAX - 1).saturating_add(1);
        let top = if root < 1 << 24 { 0 } else { slots };
        Self { low: vec![0; slots], high: vec![0; slots], top: vec![0; top], root }
    }

    #[inline]
    fn get(&self, id: u32) -> u32 {
        let at = id as usize;
        let (Some(low), Some(high)) = (self.low.get(at), self.high.get(at)) else { return NOBODY };
        let top = self.top.get(at).copied().unwrap_or(0);
        u32::from(*low) | u32::from(*high) << 16 | u32::from(top) << 24
    }

    #[inline]
    fn put(&mut self, id: u32, value: u32) {
        let at = id as usize;
        if let (Some(low), Some(high)) = (self.low.get_mut(at), self.high.get_mut(at)) {
            (*low, *high) = (value as u16, (value >> 16) as u8);
        }
        if let Some(top) = self.top.get_mut(at) {
            *top = (value >> 24) as u8;
        }
    }

    /// Whether a way to the block is known.
    #[inline]
    pub(crate) fn is_reached(&self, id: u32) -> bool {
        self.get(id) != NOBODY
    }

    /// The block above; nothing for one that was not reached, and for one that a name leads to directly.
    pub(crate) fn of(&self, id: u32) -> Option<u32> {
        Some(self.get(id)).filter(|above| *above != NOBODY && *above != self.root).map(|above| above - 1)
    }

    /// A name leads to the block.
    pub(crate) fn set_root(&mut self, id: u32) {
        self.put(id, self.root);
    }

    /// The block `above` leads to it.
    #[inline]
    pub(crate) fn set(&mut self, id: u32, above: u32) {
        self.put(id, above.saturating_add(1));
    }

    /// Bytes this takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        (self.low.capacity() * 2 + self.high.capacity() + self.top.capacity()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_whatever_their_width() {
        for slots in [1_usize, 70_000, (1 << 24) + 5] {
            let mut above = Above::new(slots);
            let last = slots as u32 - 1;
            assert!(!above.is_reached(last) && above.of(last).is_none());
            above.set(last, last);
            assert_eq!(above.of(last), Some(last));
            above.set(last, 0);
            assert_eq!((above.of(last), above.is_reached(last)), (Some(0), true));
            above.set_root(0);
            assert_eq!((above.of(0), above.is_reached(0)), (None, true));
            assert_eq!(above.own_bytes(), slots as u64 * if slots < 1 << 24 { 3 } else { 4 });
            above.set(u32::MAX, 1);
            assert!(!above.is_reached(u32::MAX), "a block that does not exist");
        }
    }
}
