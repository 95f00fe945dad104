//! Lists of blocks as bytes, each against the one before it: about two bytes a pointer (`edges.rs`).

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

    /// Where the next list will begin at the earliest. No page behind it was written to.
    fn end(&self) -> u32 {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len()) as u32
    }

    /// The bytes from `at` to the end of their piece.
    pub(crate) fn from(&self, at: u32) -> &[u8] {
        let piece = self.pieces.get(at as usize / PIECE);
        piece.and_then(|piece| piece.get(at as usize % PIECE..)).unwrap_or_default()
    }
}

/// A place where reading can begin: the block whose list begins there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    id: u32,
    at: u32,
}

/// What a list is written against: the block before, and the first block of its list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Before {
    id: u32,
    first: u32,
}

impl Before {
    /// At a mark nothing is before.
    fn mark(id: u32) -> Self {
        Self { id, first: id }
    }
}

/// Pieces of long lists in the order of their blocks, each with a mark.
#[derive(Default)]
struct Long {
    stream: Stream,
    marks: Vec<Mark>,
}

impl Long {
    fn push(&mut self, id: u32, targets: &[u32]) {
        let (at, bytes) = self.stream.room();
        self.marks.push(Mark { id, at });
        write(bytes, Before::mark(id), id, targets);
    }

    fn visit(&self, id: u32, each: &mut impl FnMut(u32)) {
        let from = self.marks.partition_point(|mark| mark.id < id);
        for mark in self.marks[from..].iter().take_while(|mark| mark.id == id) {
            let mut bytes = Bytes(self.stream.from(mark.at));
            let (_, count) = bytes.head(Before::mark(id));
            bytes.list(count, Before::mark(id), &mut *each);
        }
    }

    fn own_bytes(&self) -> u64 {
        u64::from(self.stream.end()) + (self.marks.capacity() * size_of::<Mark>()) as u64
    }
}

/// Lists in the order of their blocks. Where those of some blocks begin is known by the numbers of the blocks, so that any list
/// is found at once.
#[derive(Default)]
pub(crate) struct Layer {
    stream: Stream,
    /// Where the lists of blocks that are found together begin: from the first that have one.
    begins: Vec<u32>,
    first: u32,
    before: Before,
    /// In the stream an empty list stands for these, so that nobody has to pass them.
    long: Long,
    /// How many blocks are found together, as a power of two: the lists before one of them have to be passed.
    together: u32,
}

impl Layer {
    /// Two to the power of `together` blocks are found together.
    pub(crate) fn new(together: u32) -> Self {
        Self { together, ..Self::default() }
    }

    /// The blocks that `id` is found with.
    fn together(&self, id: u32) -> u32 {
        id >> self.together
    }

    /// What the first list of those that are found together is written against.
    fn begin(&self, together: u32) -> Before {
        Before::mark(together << self.together)
    }

    pub(crate) fn push(&mut self, id: u32, targets: &[u32]) {
        let together = self.together(id);
        if self.begins.is_empty() {
            self.first = together;
        }
        let place = (together - self.first) as usize;
        let begin = self.begin(together);
        let (at, bytes) = self.stream.room();
        if place >= self.begins.len() {
            self.begins.resize(place + 1, at);
            self.before = begin;
        }
        if targets.len() < LONGEST {
            self.before = write(bytes, self.before, id, targets);
            return;
        }
        if self.long.marks.last().is_none_or(|mark| mark.id != id) {
            self.before = write(bytes, self.before, id, &[]);
        }
        self.long.push(id, targets);
    }

    /// Calls `each` with every block that has a list and each block it leads to.
    pub(crate) fn each(&self, mut each: impl FnMut(u32, u32)) {
        for place in 0..self.begins.len() {
            let mut reading = self.reading(place);
            while let Some((id, count, mut bytes)) = reading.next(self) {
                let first = bytes.list(count, reading.before, |below| each(id, below));
                if count == 0 {
                    self.long.visit(id, &mut |below| each(id, below));
                }
                reading.pass(id, first, &bytes);
            }
        }
    }

    /// No more lists come.
    pub(crate) fn finish(&mut self) {
        self.begins.shrink_to_fit();
        self.long.marks.shrink_to_fit();
    }

    pub(crate) fn own_bytes(&self) -> u64 {
        u64::from(self.stream.end())
            + (self.begins.capacity() * size_of::<u32>()) as u64
            + self.long.own_bytes()
    }

    fn reading(&self, place: usize) -> Cursor {
        let begin = self.begins.get(place).copied().unwrap_or(0);
        let end = self.begins.get(place + 1).copied().unwrap_or(self.stream.end());
        Cursor { at: begin, end, before: self.begin(self.first + place as u32), left: 0 }
    }
}

fn write(bytes: &mut Vec<u8>, before: Before, id: u32, targets: &[u32]) -> Before {
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

/// The number that differs from another one by so much as was written.
#[inline]
fn apart(from: u32, coded: u32) -> u32 {
    from.wrapping_add((coded >> 1) ^ (coded & 1).wrapping_neg())
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
struct Bytes<'a>(&'a [u8]);

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
    fn head(&mut self, before: Before) -> (u32, u32) {
        let head = u32::from(self.byte());
        let mut wide = |number: u32| if number == BEHIND { BEHIND + self.number() } else { number };
        let far = wide(head & 15);
        (before.id.wrapping_add(far), wide(head >> 4))
    }

    /// Goes past a list; gives its first block.
    #[inline]
    fn pass(&mut self, count: u32, before: Before) -> u32 {
        // The last byte of each number.
        const LAST: u64 = 0x8080_8080_8080_8080;
        let Some(mut left) = count.checked_sub(1) else { return before.first };
        let first = apart(before.first, self.number());
        while left >= 8
            && let Some((eight, rest)) = self.0.split_first_chunk()
        {
            left -= (!u64::from_le_bytes(*eight) & LAST).count_ones();
            self.0 = rest;
        }
        while left > 0 {
            left -= u32::from(self.byte() < 0x80);
        }
        first
    }

    /// Calls `each` with the blocks of a list; gives the first.
    #[inline]
    fn list(&mut self, count: u32, before: Before, mut each: impl FnMut(u32)) -> u32 {
        let (mut last, mut first) = (before.first, before.first);
        for number in 0..count {
            last = apart(last, self.number());
            if number == 0 {
                first = last;
            }
            each(last);
        }
        first
    }
}

/// Where reading is among lists that are found together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    /// The next list begins here, and the last one ends there.
    at: u32,
    end: u32,
    before: Before,
    /// Bytes that were left where the next list begins.
    left: usize,
}

impl Cursor {
    /// The next list: its block, how many blocks it leads to, and the bytes that tell them.
    #[inline]
    fn next<'a>(&mut self, layer: &'a Layer) -> Option<(u32, u32, Bytes<'a>)> {
        let mut bytes = Bytes(layer.stream.from(self.at));
        if bytes.0.is_empty() && self.at < self.end {
            self.at = self.at.next_multiple_of(PIECE as u32);
            bytes = Bytes(layer.stream.from(self.at));
        }
        if self.at >= self.end {
            return None;
        }
        self.left = bytes.0.len();
        let (id, count) = bytes.head(self.before);
        Some((id, count, bytes))
    }

    /// A list was read.
    #[inline]
    fn pass(&mut self, id: u32, first: u32, rest: &Bytes<'_>) {
        self.at += (self.left - rest.0.len()) as u32;
        self.before = Before { id, first };
    }
}

impl Layer {
    /// Reads on from the cursor where that is among the same lists, else from the first of them. Says whether the block has
    /// a list here.
    pub(crate) fn visit(&self, id: u32, cursor: &mut Cursor, each: &mut impl FnMut(u32)) -> bool {
        let together = self.together(id);
        let Some(place) = together.checked_sub(self.first).map(|place| place as usize) else { return false };
        if place >= self.begins.len() {
            return false;
        }
        let on = self.together(cursor.before.id) == together && cursor.before.id < id && cursor.end > 0;
        if !on {
            *cursor = self.reading(place);
        }
        let mut found = false;
        while let Some((owner, count, mut bytes)) = cursor.next(self) {
            if owner > id {
                break;
            }
            let first = if owner == id {
                found = true;
                bytes.list(count, cursor.before, &mut *each)
            } else {
                bytes.pass(count, cursor.before)
            };
            if owner == id && count == 0 {
                self.long.visit(id, each);
            }
            cursor.pass(owner, first, &bytes);
            // What a long list leaves over comes last.
            if found && count > 0 {
                break;
            }
        }
        found
    }
}
