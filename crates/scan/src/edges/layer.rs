//! Lists of blocks as bytes, each against the one before it: about two bytes a pointer (`edges.rs`).

/// Bytes after which the next list can be found without reading the ones before it.
const STRETCH: usize = 128;
/// Blocks of one list; a longer one is several.
pub(crate) const LONGEST: usize = 64;
/// Bytes of one piece of a stream: it grows without being moved.
pub(crate) const PIECE: usize = 1 << 20;
/// The most that one list takes: a head of 11 bytes and five for each block.
const LIST_BYTES: usize = 11 + LONGEST * 5;
/// A number this large in a head stands behind it.
const BEHIND: u32 = 15;

/// Lists of many blocks, one behind the other.
#[derive(Default)]
pub(crate) struct Stream {
    pieces: Vec<Vec<u8>>,
}

impl Stream {
    /// Room for one more list, and where it will begin.
    pub(crate) fn room(&mut self) -> (u32, &mut Vec<u8>) {
        let full = self.pieces.last().is_none_or(|piece| piece.len() + LIST_BYTES > PIECE);
        if full {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        let last = self.pieces.len() - 1;
        let piece = &mut self.pieces[last];
        ((last * PIECE + piece.len()) as u32, piece)
    }

    /// The bytes from `at` to the end of their piece.
    pub(crate) fn from(&self, at: u32) -> &[u8] {
        let piece = self.pieces.get(at as usize / PIECE);
        piece.and_then(|piece| piece.get(at as usize % PIECE..)).unwrap_or_default()
    }
}

/// A place where reading can begin: the block whose list begins there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) id: u32,
    pub(crate) at: u32,
}

/// What a list is written against: the block before, and the first block of its list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    id: u32,
    first: u32,
}

impl Before {
    /// At a mark nothing is before.
    pub(crate) fn mark(id: u32) -> Self {
        Self { id, first: id }
    }
}

/// Lists in the order of their blocks.
#[derive(Default)]
pub(crate) struct Layer {
    pub(crate) stream: Stream,
    pub(crate) marks: Vec<Mark>,
    pub(crate) before: Before,
    /// Whether every list has a mark.
    pub(crate) all_marked: bool,
    /// How many times marks are twice as close: for those who ask for a few lists here and there.
    pub(crate) closer: u32,
}

impl Layer {
    pub(crate) fn push(&mut self, id: u32, targets: &[u32]) {
        let (at, bytes) = self.stream.room();
        let begins = self.marks.last().is_none_or(|mark| {
            (at - mark.at) as usize >= STRETCH >> self.closer
                || at as usize / PIECE != mark.at as usize / PIECE
        });
        if begins {
            self.marks.push(Mark { id, at });
            self.before = Before::mark(id);
        }
        self.before = write(bytes, self.before, id, targets);
    }

    /// Calls `each` with every block that has a list and each block it leads to.
    pub(crate) fn each(&self, mut each: impl FnMut(u32, u32)) {
        for (number, mark) in self.marks.iter().enumerate() {
            let end = self.marks.get(number + 1).map_or(u32::MAX, |next| next.at);
            let mut bytes = Bytes(self.stream.from(mark.at));
            let length = bytes.0.len();
            let mut before = Before::mark(mark.id);
            while !bytes.0.is_empty()
                && (self.all_marked || mark.at + ((length - bytes.0.len()) as u32) < end)
            {
                let (id, count) = bytes.head(before);
                let first = bytes.list(count, before, |below| each(id, below));
                before = Before { id, first };
                if self.all_marked {
                    break;
                }
            }
        }
    }

    pub(crate) fn own_bytes(&self) -> u64 {
        (self.stream.pieces.len() * PIECE + self.marks.capacity() * size_of::<Mark>()) as u64
    }
}

pub(crate) fn write(bytes: &mut Vec<u8>, before: Before, id: u32, targets: &[u32]) -> Before {
    let (far, count) = (id.wrapping_sub(before.id), targets.len() as u32);
    bytes.push((far.min(BEHIND) | count.min(BEHIND) << 4) as u8);
    for number in [far, count].into_iter().filter(|number| *number >= BEHIND) {
        put(bytes, number - BEHIND);
    }
    let mut last = before.first;
    for target in targets {
        let difference = target.wrapping_sub(last).cast_signed();
        put(bytes, (difference << 1 ^ difference >> 31).cast_unsigned());
        last = *target;
    }
    Before { id, first: targets.first().copied().unwrap_or(before.first) }
}

/// Seven bits a byte, the lowest first.
fn put(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Bytes that are read on.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl Bytes<'_> {
    #[inline]
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    #[inline]
    fn number(&mut self) -> u32 {
        let first = self.byte();
        if first < 0x80 { u32::from(first) } else { self.long(first) }
    }

    fn long(&mut self, first: u8) -> u32 {
        let mut number = u32::from(first & 0x7f);
        for shift in [7, 14, 21, 28] {
            let next = self.byte();
            number |= u32::from(next & 0x7f) << shift;
            if next < 0x80 {
                break;
            }
        }
        number
    }

    /// The block of the next list, and how many it leads to.
    pub(crate) fn head(&mut self, before: Before) -> (u32, u32) {
        let head = u32::from(self.byte());
        let mut wide = |number: u32| if number == BEHIND { BEHIND + self.number() } else { number };
        let far = wide(head & 15);
        (before.id.wrapping_add(far), wide(head >> 4))
    }

    /// Calls `each` with the blocks of a list; gives the first.
    #[inline]
    pub(crate) fn list(&mut self, count: u32, before: Before, mut each: impl FnMut(u32)) -> u32 {
        let (mut last, mut first) = (before.first, before.first);
        for number in 0..count {
            let coded = self.number();
            last = last.wrapping_add((coded >> 1) ^ (coded & 1).wrapping_neg());
            if number == 0 {
                first = last;
            }
            each(last);
        }
        first
    }
}

/// Where reading was, for those who ask for blocks in ascending order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    /// The next list begins here.
    at: u32,
    before: Before,
    /// The mark after it.
    mark: usize,
}

impl Layer {
    /// Reads on from the cursor where that is near, else from the last mark before the block.
    /// Says whether the block has a list here.
    pub(crate) fn visit(&self, id: u32, cursor: &mut Cursor, each: &mut impl FnMut(u32)) -> bool {
        const NEAR: usize = 4;
        if id > self.before.id || self.marks.first().is_none_or(|first| id < first.id) {
            return false;
        }
        let mut found = false;
        let ahead = self.marks.get(cursor.mark + NEAR);
        if cursor.mark == 0 || id <= cursor.before.id || ahead.is_some_and(|mark| mark.id < id) {
            let mark = self.marks.partition_point(|mark| mark.id < id).saturating_sub(1);
            let Some(begin) = self.marks.get(mark) else { return false };
            *cursor = Cursor { at: begin.at, before: Before::mark(begin.id), mark: mark + 1 };
        }
        loop {
            let mark = self.marks.get(cursor.mark);
            let mut bytes = Bytes(self.stream.from(cursor.at));
            if mark.is_some_and(|mark| mark.at == cursor.at || bytes.0.is_empty()) {
                let Some(mark) = mark else { return found };
                *cursor = Cursor { at: mark.at, before: Before::mark(mark.id), mark: cursor.mark + 1 };
                continue;
            }
            if bytes.0.is_empty() {
                return found;
            }
            let length = bytes.0.len();
            let (owner, count) = bytes.head(cursor.before);
            if owner > id {
                return found;
            }
            let first = if owner == id {
                found = true;
                bytes.list(count, cursor.before, &mut *each)
            } else {
                bytes.list(count, cursor.before, |_| ())
            };
            cursor.at += (length - bytes.0.len()) as u32;
            cursor.before = Before { id: owner, first };
        }
    }
}
