//! Which block that is no object and not in a pool leads to which other one that is none, for the search for owners and for the one
//! for holders: all of them are read once, in the order of their addresses.
//!
//! Why: the search goes over them level by level, and the records of a large C++ library are one web of some twenty levels. Read
//! level by level, each of their pages came up again and again: six times what there is, in small pieces.

use crate::edges::layer::{Cursor, LONGEST, Layer};

/// Blocks whose lists are found together, as a power of two: a level is some blocks of many.
const TOGETHER: u32 = 2;
/// Own memory is looked at after each so many blocks.
const CHECKED: u32 = 64;

/// Where a word leads to in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Begin,
    Inside,
}

/// All of them.
pub(crate) struct Natives {
    begins: Lists,
    insides: Lists,
    /// Own memory that may be used.
    most_bytes: u64,
    /// Whether that was not enough: then there are no lists.
    pub(crate) full: bool,
    /// The last block that leads to some.
    last: Option<u32>,
}

#[derive(Default)]
struct Lists {
    layer: Layer,
    /// The list that is being made.
    targets: Vec<u32>,
}

impl Lists {
    fn push(&mut self, id: u32, target: u32) {
        if self.targets.last() != Some(&target) {
            self.targets.push(target);
            if self.targets.len() == LONGEST {
                self.end(id);
            }
        }
    }

    fn end(&mut self, id: u32) {
        if !self.targets.is_empty() {
            self.layer.push(id, &self.targets);
            self.targets.clear();
        }
    }
}

/// Where reading is, for those who ask in ascending order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursors {
    begins: Cursor,
    insides: Cursor,
}

impl Natives {
    /// With own memory of at most `most_bytes`.
    pub(crate) fn new(most_bytes: u64) -> Self {
        let lists = || Lists { layer: Layer::new(TOGETHER), ..Lists::default() };
        Self { begins: lists(), insides: lists(), most_bytes, full: false, last: None }
    }

    /// The block `id` that is read leads to `target`.
    #[inline]
    pub(crate) fn push(&mut self, id: u32, target: u32, place: Place) {
        self.last = Some(id);
        match place {
            _ if self.full => {}
            Place::Begin => self.begins.push(id, target),
            Place::Inside => self.insides.push(id, target),
        }
    }

    /// All of block `id` was read. Says whether it leads to some.
    pub(crate) fn end(&mut self, id: u32) -> bool {
        let leads = self.last == Some(id);
        self.begins.end(id);
        self.insides.end(id);
        if id.is_multiple_of(CHECKED) && self.own_bytes() > self.most_bytes {
            *self = Self { full: true, ..Self::new(self.most_bytes) };
        }
        leads
    }

    /// No more come.
    pub(crate) fn finish(&mut self) {
        self.begins.layer.finish();
        self.insides.layer.finish();
    }

    /// Calls `each` with every block that `id` leads to. Quick for those who ask in ascending order. Says whether that is known.
    pub(crate) fn below(&self, id: u32, cursors: &mut Cursors, each: &mut impl FnMut(u32, Place)) -> bool {
        self.begins(id, cursors, &mut |target| each(target, Place::Begin));
        self.insides(id, cursors, &mut |target| each(target, Place::Inside));
        !self.full
    }

    /// The same where it leads to the beginning of a block.
    pub(crate) fn begins(&self, id: u32, cursors: &mut Cursors, each: &mut impl FnMut(u32)) {
        self.begins.layer.visit(id, &mut cursors.begins, each);
    }

    /// The same where it leads to the inside of one.
    pub(crate) fn insides(&self, id: u32, cursors: &mut Cursors, each: &mut impl FnMut(u32)) {
        self.insides.layer.visit(id, &mut cursors.insides, each);
    }

    /// Bytes this takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        self.begins.layer.own_bytes() + self.insides.layer.own_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(natives: &Natives, id: u32) -> (Vec<u32>, Vec<u32>, bool) {
        let (mut begins, mut insides) = (Vec::new(), Vec::new());
        let known = natives.below(id, &mut Cursors::default(), &mut |target, place| match place {
            Place::Begin => begins.push(target),
            Place::Inside => insides.push(target),
        });
        (begins, insides, known)
    }

    #[test]
    fn what_a_block_leads_to_comes_back_by_where_it_leads() {
        let mut natives = Natives::new(16 << 20);
        for id in (0..9_000_u32).step_by(3) {
            natives.push(id, id + 7, Place::Begin);
            natives.push(id, id / 2, Place::Inside);
            natives.push(id, 9_000 - id, Place::Begin);
            natives.end(id);
        }
        for id in [0, 3, 5_997, 300] {
            assert_eq!(below(&natives, id), (vec![id + 7, 9_000 - id], vec![id / 2], true));
        }
        assert_eq!(below(&natives, 301), (vec![], vec![], true));
    }

    #[test]
    fn without_room_nothing_is_known() {
        let mut natives = Natives::new(10);
        natives.push(CHECKED, 2, Place::Begin);
        natives.end(CHECKED);
        natives.push(CHECKED + 3, 4, Place::Inside);
        natives.end(CHECKED + 3);
        assert_eq!(below(&natives, CHECKED), (vec![], vec![], false));
        assert_eq!(natives.own_bytes(), 0);
    }
}
