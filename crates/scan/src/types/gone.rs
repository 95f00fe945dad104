//! Objects that are gone and kept to be used again: their blocks are handed out, and what is left in them leads nowhere.

use super::{Types, Version};
use crate::reader::{plausible, word};

impl Types<'_> {
    /// Whether a block begins with an object that is gone and kept to be used again: what is left in it leads nowhere.
    #[inline]
    pub(crate) fn is_gone(&self, head: &[u8]) -> bool {
        self.is_gone_container(head) || self.is_gone_number(head)
    }

    /// Frames, lists, dicts and tuples: the collector does not know it, and nothing refers to it. In 3.14 the next one that is kept
    /// stands where references are counted, and the collector's word that leads on may be left from before.
    #[inline]
    fn is_gone_container(&self, head: &[u8]) -> bool {
        const LEAD: usize = 16;
        const MARKS: u64 = 3;
        let word = |at: usize| word(head, self.skip + at);
        let (next, previous) = (word(0), word(8) & !MARKS);
        let (count, kind) = (word(LEAD), word(LEAD + 8));
        let unknown = previous == 0 && (next == 0 || self.version >= Version(3, 14));
        let unused = || count == 0 || next == 0 && self.is_link(count) || self.is_next(count, kind);
        unknown && self.has_lead(kind, LEAD) && unused()
    }

    /// Numbers (3.14), which have no head of the collector's.
    #[inline]
    fn is_gone_number(&self, head: &[u8]) -> bool {
        let (count, kind) = (word(head, self.skip), word(head, self.skip + 8));
        self.is_link(count) && self.has_lead(kind, 0) && self.is_next(count, kind)
    }

    /// Whether that is a known type whose objects have so many bytes before them.
    fn has_lead(&self, address: u64, lead: usize) -> bool {
        let kind = || self.known.get(&address).and_then(|kind| self.get(*kind));
        plausible(address) && kind().is_some_and(|kind| kind.lead == lead as u64)
    }

    /// Whether the word that counts references may be the link to the next object that is kept (3.14).
    fn is_link(&self, count: u64) -> bool {
        self.version >= Version(3, 14) && plausible(count) && count.is_multiple_of(16)
    }

    /// Whether the word that counts references leads to one more of the type that is kept.
    fn is_next(&self, count: u64, kind: u64) -> bool {
        let mut next = [0; 16];
        self.is_link(count)
            && self.reader.cached(count, &mut next)
            && word(&next, 8) == kind
            && (word(&next, 0) == 0 || self.is_link(word(&next, 0)))
    }
}
