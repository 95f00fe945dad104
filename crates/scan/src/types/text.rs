//! Texts that keep a copy of themselves in UTF-8: C code that asked for one (a tokenizer, a database) left it with them.
//!
//! A text in one piece has its letters in itself and leads nowhere, and there are many of them: so those with a copy are a kind of
//! their own, of the same type, that leads to the copy and to nothing else. ASCII is its own copy.

use super::{Found, Type, Types, Version};
use crate::index::{MOST_TYPES, Tag, object_tag};
use crate::reader::{half, plausible, word};

/// Where a text has what kind of text it is: behind two bits, the width in three, whether it is in one piece, and whether all is ASCII.
const STATE: usize = 32;
const SHIFT: u32 = 2;

/// Where texts of a version tell of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copies {
    /// The copy's address, in a text.
    at: usize,
    /// The kind of texts that have one, once one was met.
    kind: Option<u32>,
}

impl Copies {
    pub(super) fn of(version: Version) -> Self {
        let at = if version >= Version(3, 12) { 48 } else { 56 };
        Self { at, kind: None }
    }

    /// Whether a text in one piece has a copy.
    #[inline]
    fn has(self, text: &[u8]) -> bool {
        const IN_ONE_PIECE: u32 = 1;
        let state = half(text, STATE) >> SHIFT & 0x1f;
        state >> 3 == IN_ONE_PIECE && plausible(word(text, self.at))
    }
}

impl Types<'_> {
    /// The tag of a text that was just met.
    #[inline]
    pub(super) fn text_tag(&mut self, found: Found, block: &[u8]) -> Tag {
        let copied = self.copies.has(block.get(self.skip..).unwrap_or_default());
        if copied { self.copied_tag(found) } else { self.nearby(found).tag }
    }

    #[cold]
    fn copied_tag(&mut self, found: Found) -> Tag {
        let plain = self.nearby(found).kind;
        let kind = self.copies.kind.unwrap_or_else(|| {
            let Some(text) = self.all.get(plain as usize).filter(|_| self.all.len() < MOST_TYPES) else {
                return plain;
            };
            let copied = Type { copy_at: self.copies.at as u64, leads: true, classes: 0, ..text.clone() };
            let kind = self.all.len() as u32;
            self.all.push(copied);
            self.changed.push(kind);
            self.copies.kind = Some(kind);
            kind
        });
        object_tag(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_a_copy_where_it_is_in_one_piece_and_not_ascii() {
        let text = |state: u32, at: usize| {
            let mut text = [0; 64];
            text[STATE..STATE + 4].copy_from_slice(&state.to_le_bytes());
            text[at..at + 8].copy_from_slice(&0x7f00_0000_1000_u64.to_le_bytes());
            text
        };
        let (wide, ascii, apart) = (0b01010 << SHIFT, 0b11001 << SHIFT, 0b00010 << SHIFT);
        for (version, at) in [(Version(3, 9), 56), (Version(3, 12), 48), (Version(3, 14), 48)] {
            let has = |state: u32| Copies::of(version).has(&text(state, at));
            assert!(has(wide) && !has(ascii) && !has(apart), "{version:?}");
            assert!(!Copies::of(version).has(&text(wide, 8)), "{version:?}: there is none");
        }
    }
}
