//! The words of a block by which it holds others: for the pass that remembers them, and for finding one of them again.

use crate::index::{Index, RAW, Slot, Tag, object_of, owner_of};
use crate::memory::Facts;
use crate::names::{DICT_KEYS, DICT_USED, Hashes, Table};
use crate::reader::{Reader, Window, plausible, word};
use crate::types::{Family, Type, Types, Version};

/// Entries that are followed of a container whose table is new.
const MOST_ENTRIES: u64 = 1 << 20;
/// Larger than any object: a type whose objects hold others up to their end.
const WHOLE: u64 = 1 << 40;
/// Offsets in a list: how many, and where; in a set: the last number of an entry, and where.
const LIST: (usize, usize) = (16, 24);
const SET: (usize, usize) = (32, 40);
/// Where the fields of a list, a dict and a set end: what is behind them is of a class that is derived. A set has its first
/// entries and a weak reference in itself.
const LIST_END: u64 = 40;
const DICT_END: u64 = 48;
const SET_END: u64 = 200;
/// Where in a set those entries are.
const SMALL_SET: u64 = 64;
/// Where a class has its flags: a number that looks like an address where the heap is low, as in a program that is not relocatable.
const TYPE_FLAGS: u64 = 168;
/// How long the head of an instance's values can be: a byte for each of up to thirty, and two.
const VALUES_HEADS: [usize; 4] = [8, 16, 24, 32];
/// From 3.13 on: bytes before the values, and how many there can be.
const VALUES_HEAD: u64 = 8;
const MOST_VALUES: u8 = 30;
/// Where an object has the number of its entries, if it has some.
const COUNT: u64 = 16;
/// Bytes of the head of a container that tell its table.
pub(crate) const HEAD: usize = 48;

/// How objects of one type lead to others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lead {
    /// Where an object begins in its block.
    pub(crate) at: u64,
    /// Words before the object proper that count, and from where to where they do behind it, in the block.
    head: u64,
    from: u64,
    to: u64,
    /// Whether what it points to lives because of it.
    pub(crate) holds: bool,
    table: Container,
    /// Where it has words, by what those lead to: so many parts.
    parts: [Part; MOST_PARTS],
    some: u8,
    /// Where its words end is told by a number in it.
    counted: Option<Counted>,
}

/// Objects of one type that have a different number of words: where the number of them is, and where they begin.
#[derive(Clone, Copy, Debug)]
struct Counted {
    at: u64,
    from: u64,
    /// Whether the number is of an instance's values, which is a byte.
    values: bool,
}

impl Counted {
    fn new(found: &Type, inline: bool) -> Option<Self> {
        let tuple = Self { at: COUNT, from: found.basic, values: false };
        let values = Self { at: found.basic, from: found.basic + VALUES_HEAD, values: true };
        if inline { Some(values) } else { (found.family() == Family::Tuple).then_some(tuple) }
    }

    fn words(self, stored: u64) -> u64 {
        let number = stored.to_le_bytes()[0];
        match self.values {
            true if number > MOST_VALUES => WHOLE,
            true => u64::from(number),
            false => stored.min(WHOLE),
        }
    }
}

/// Parts of an object, at most: what is before it, and a table between other words.
const MOST_PARTS: usize = 5;

/// Some words of an object, from where to where behind its block's beginning, and what they lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    from: u64,
    to: u64,
    pub(crate) role: Role,
}

impl Part {
    const NONE: Self = Self { from: 0, to: 0, role: Role::Any };
}

/// What a word can lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Any,
    /// Objects, and the table that a container's entries are in.
    Table,
    /// Objects and nothing else: an entry of a container.
    Entries,
}

impl Role {
    /// The same where it is known otherwise which block is a table.
    pub(crate) fn without_table(self) -> Self {
        if self == Self::Table { Self::Entries } else { self }
    }
}

/// Words by which a block holds others, and which of them hold nothing: the hashes of keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holding {
    pub(crate) range: (u64, u64),
    pub(crate) hashes: Option<Hashes>,
}

/// Containers that keep their entries in a block that moves when they grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    None,
    List,
    Dict,
    Set,
}

impl Lead {
    fn new(found: &Type, types: &Types<'_>, special: &Special) -> Self {
        let skip = types.skip() as u64;
        let (head, from, to) = if found.leads { found.pointers(WHOLE, types.version) } else { (0, 0, 0) };
        let is = |kind: Option<u64>| kind.is_some_and(|kind| found.address == kind || found.base == kind);
        // Its last word is a number of 32 bits that no member tells (3.11 and later).
        let numbered = is(special.function) && types.version >= Version(3, 11);
        let to = if numbered { to.min((found.lead + found.basic).saturating_sub(8)) } else { to };
        let is_set = special.sets.into_iter().any(is);
        let table = match found.family() {
            Family::List => Container::List,
            Family::Dict => Container::Dict,
            Family::Other if is_set => Container::Set,
            Family::Int | Family::Tuple | Family::Bytes | Family::Str | Family::Type | Family::Other => {
                Container::None
            }
        };
        let parts = parts(found, (head, from, to.max(from)), table, types.version);
        Self {
            at: skip + found.lead,
            head,
            from,
            to: to.max(from),
            // A weak reference only looks at it, and code remembers globals it has seen (3.9, 3.10) without holding them.
            holds: !(is(special.weak) || is(special.code) && types.version < Version(3, 11)),
            table,
            parts,
            some: parts.iter().take_while(|part| part.from < part.to).count() as u8,
            counted: Counted::new(found, table == Container::None && found.inline_values(types.version)),
        }
    }

    /// Where an object has the number of its entries, in its block: what is behind those is left from before.
    #[inline]
    pub(crate) fn count_at(&self) -> Option<u64> {
        self.counted.map(|counted| self.at + counted.at)
    }

    /// Where the words of an object end, by the word that tells the number of its entries.
    #[inline]
    pub(crate) fn end(&self, slot: Slot, count: u64) -> u64 {
        let end = |counted: Counted| slot.start + self.at + counted.from + counted.words(count) * 8;
        self.counted.map_or(slot.end, end).min(slot.end)
    }

    /// The parts of an object that have words.
    #[inline]
    pub(crate) fn parts(&self) -> &[Part] {
        self.parts.get(..usize::from(self.some)).unwrap_or_default()
    }

    /// Whether objects of the type keep their entries in a block that moves.
    pub(crate) fn is_container(&self) -> bool {
        self.table != Container::None
    }

    /// Whether that is a dict.
    pub(crate) fn is_dict(&self) -> bool {
        self.table == Container::Dict
    }

    /// Whether objects of the type have a word that leads to a table.
    pub(crate) fn has_table(&self) -> bool {
        self.parts().iter().any(|part| part.role == Role::Table)
    }

    /// Whether objects of the type have no word that could lead anywhere.
    pub(crate) fn is_leaf(&self) -> bool {
        self.head == 0 && self.from == self.to
    }
}

/// The words of objects of a type: those before it, and those from where to where that is said.
fn parts(
    found: &Type,
    (head, from, to): (u64, u64, u64),
    table: Container,
    version: Version,
) -> [Part; MOST_PARTS] {
    let at = |offset: u64| found.lead + offset;
    // Where the fields of the container itself end, those that lead to a table, and where entries begin that are in the object.
    let (own, tables, entries) = match table {
        _ if found.family() == Family::Tuple => (0, (0, 0), COUNT),
        Container::List => (LIST_END, (LIST.1 as u64, LIST.1 as u64 + 8), WHOLE),
        Container::Dict => (DICT_END, (DICT_KEYS, DICT_END), WHOLE),
        Container::Set => (SET_END, (SET.1 as u64, SET.1 as u64 + 8), WHOLE),
        Container::None if found.inline_values(version) => (0, (0, 0), found.basic),
        Container::None => (0, (0, 0), WHOLE),
    };
    let entries = at(entries).max(from).min(to);
    let begin = at(own).max(from).min(entries);
    // Numbers at the end of an object may have values behind them (3.14).
    let inline = table == Container::None && found.inline_values(version);
    let end = if inline { at(found.end).clamp(begin, entries) } else { entries };
    let within = |(begin, end): (u64, u64)| (begin.clamp(from, to), end.clamp(from, to));
    let flags = if found.family() == Family::Type { at(TYPE_FLAGS) } else { end };
    let all = [
        ((0, head), Role::Table),
        (within((at(tables.0), at(tables.1))), Role::Table),
        (within((at(tables.1), at(own))), Role::Entries),
        ((begin, end.min(flags)), Role::Any),
        ((begin.max(flags + 8), end), Role::Any),
        ((entries, to), Role::Entries),
    ];
    let mut parts = [Part::NONE; MOST_PARTS];
    let some = all.into_iter().filter(|((from, to), _)| from < to);
    for (part, ((from, to), role)) in parts.iter_mut().zip(some) {
        *part = Part { from, to, role };
    }
    parts
}

/// Types whose objects lead to others in their own way.
#[derive(Clone, Copy, Debug)]
struct Special {
    /// Sets, and those that never change.
    sets: [Option<u64>; 2],
    weak: Option<u64>,
    code: Option<u64>,
    function: Option<u64>,
}

/// How objects lead to others, by type.
pub(crate) struct Links {
    kinds: Vec<Lead>,
    special: Special,
    skip: u64,
    overhead: u64,
    version: Version,
}

impl Links {
    pub(crate) fn new(types: &Types<'_>, facts: &Facts) -> Self {
        let symbol = |name: &str| facts.symbol(name);
        let special = Special {
            sets: ["PySet_Type", "PyFrozenSet_Type"].map(symbol),
            weak: symbol("_PyWeakref_RefType"),
            code: symbol("PyCode_Type"),
            function: symbol("PyFunction_Type"),
        };
        Self {
            kinds: Vec::new(),
            special,
            skip: types.skip() as u64,
            overhead: types.overhead(),
            version: types.version,
        }
    }

    /// Takes up what was learnt about types since the last time.
    pub(crate) fn refresh(&mut self, types: &mut Types<'_>) {
        for kind in std::mem::take(&mut types.changed) {
            let Some(found) = types.get(kind) else { continue };
            let lead = Lead::new(found, types, &self.special);
            match self.kinds.get_mut(kind as usize) {
                Some(known) => *known = lead,
                None => self.kinds.push(lead),
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, kind: u32) -> Option<&Lead> {
        self.kinds.get(kind as usize)
    }

    /// The words of an object that can be pointers.
    #[inline]
    pub(crate) fn words(&self, lead: &Lead, slot: Slot) -> [(u64, u64); 2] {
        let start = slot.start + self.skip;
        let size = (slot.end - slot.start).saturating_sub(self.overhead);
        let end = lead.to.min(size).max(lead.from);
        [(start, start + lead.head.min(size)), (start + lead.from, start + end)]
    }

    /// Where a part of an object lies in its block, which has so many bytes.
    #[inline]
    pub(crate) fn within(&self, part: &Part, block: usize) -> (usize, usize) {
        let size = (block as u64).saturating_sub(self.overhead);
        ((self.skip + part.from) as usize, (self.skip + part.to.min(size).max(part.from)) as usize)
    }

    /// Where a part of an object lies.
    #[inline]
    pub(crate) fn place(&self, part: &Part, slot: Slot) -> (u64, u64) {
        let start = slot.start + self.skip;
        let size = (slot.end - slot.start).saturating_sub(self.overhead);
        (start + part.from, start + part.to.min(size).max(part.from))
    }

    /// How many bytes of a block that is no object can be pointers, by its beginning and its size, where it looks like the table
    /// of a dict.
    #[inline]
    pub(crate) fn length(&self, block: &[u8], size: u64) -> Option<u64> {
        self.small_table(block, size).map(|(length, _)| length)
    }

    /// The same, with where the hashes of its keys are.
    #[inline]
    pub(crate) fn small_table(&self, block: &[u8], size: u64) -> Option<(u64, Option<Hashes>)> {
        let head = block.get(self.skip as usize..).and_then(<[u8]>::first_chunk)?;
        let (length, hashes) = Table::length(head, self.version, size.saturating_sub(self.overhead))?;
        Some((length + self.skip, hashes.map(|hashes| hashes.behind(self.skip))))
    }

    /// Where the hashes of keys are in the block that a container of type `kind` has its entries in, by its beginning and its size:
    /// numbers, also where they are addresses.
    pub(crate) fn hashes(&self, kind: u32, block: &[u8], size: u64) -> Option<Hashes> {
        let hashes = match self.get(kind)?.table {
            Container::Dict => {
                let head = block.get(self.skip as usize..)?.first_chunk()?;
                Table::hashes(head, self.version, size.saturating_sub(self.overhead))?
            }
            Container::Set => Hashes::OF_SET.filter_size(size.saturating_sub(self.overhead))?,
            Container::List | Container::None => return None,
        };
        Some(hashes.behind(self.skip))
    }

    /// Where the entries of a container have the hashes of their keys, whose table is there now.
    pub(crate) fn hashes_now(&self, reader: &Reader<'_>, lead: &Lead, table: u64) -> Option<Hashes> {
        match lead.table {
            Container::Dict => Table::read(reader, self.version, table)
                .filter(|table| table.key > 0)
                .map(|_| Hashes::OF_ENTRIES),
            Container::Set => Some(Hashes::OF_SET),
            Container::List | Container::None => None,
        }
    }

    /// Where a text ends that a block begins with which is no object: what is behind it is left from before.
    #[inline]
    pub(crate) fn text_length(&self, block: &[u8]) -> Option<usize> {
        let size = (block.len() as u64).saturating_sub(self.overhead);
        let length = text_length(block.get(self.skip as usize..)?, size)?;
        // What is unused of an instance's order may read as text too.
        self.values(block).is_none().then_some(length + self.skip as usize)
    }

    /// Which bytes of a block that is no object can be pointers, where it looks like the values of an instance. With them is the
    /// order in which they were set: before them in 3.11 and 3.12, behind them later. What is unused of it is left from before.
    #[inline]
    pub(crate) fn values(&self, block: &[u8]) -> Option<(usize, usize)> {
        let (skip, size) = (self.skip as usize, block.len().saturating_sub(self.overhead as usize));
        let values = block.get(skip..skip + size)?;
        let (from, to) = match self.version {
            Version(3, 11 | 12) => ordered_before(values)?,
            version if version >= Version(3, 13) => ordered_behind(values)?,
            _ => return None,
        };
        Some((skip + from, skip + to))
    }

    /// Where the entries of a list lie, if that is one.
    pub(crate) fn list_entries(&self, reader: &Reader<'_>, index: &Index, slot: Slot) -> Option<(u64, u64)> {
        let lead = object_of(index.tag(slot.id)).and_then(|kind| self.get(kind))?;
        let at = slot.start.checked_add(lead.at).filter(|_| lead.table == Container::List)?;
        let (count, table) = (reader.word(at + LIST.0 as u64)?, reader.word(at + LIST.1 as u64)?);
        Some((table, table.checked_add(count.checked_mul(8)?)?))
    }

    /// The entries of a container whose table is in no block that was seen: it grew while the scan went on, and a container
    /// that grows is the very one that is looked for.
    pub(crate) fn new_table(
        &self,
        (reader, index): (&Reader<'_>, &Index),
        head: &[u8],
        (slot, lead): (Slot, &Lead),
    ) -> Option<(u64, u64)> {
        let (table, end) = Self::table(head, (slot, lead))?;
        let seen = index.find(table).is_some_and(|seen| {
            let tag = index.tag(seen.id);
            (tag == RAW || owner_of(tag).is_some()) && seen.end >= end
        });
        if seen { None } else { self.table_now(reader, head, (slot, lead)).map(|(_, entries)| entries) }
    }

    /// Where a container's table is, and where that ends at the earliest.
    pub(crate) fn table(head: &[u8], (slot, lead): (Slot, &Lead)) -> Option<(u64, u64)> {
        let (table, least) = match lead.table {
            Container::List => (word(head, LIST.1), word(head, LIST.0).min(MOST_ENTRIES) * 8),
            Container::Dict => {
                (word(head, DICT_KEYS as usize), word(head, DICT_USED as usize).min(MOST_ENTRIES) * 16)
            }
            Container::Set => (word(head, SET.1), word(head, SET.0).min(MOST_ENTRIES).saturating_add(1) * 16),
            Container::None => return None,
        };
        let apart = least > 0 && plausible(table) && !(slot.start..slot.end).contains(&table);
        apart.then(|| table.checked_add(least)).flatten().map(|end| (table, end))
    }

    /// A container's table and the place of its entries, as they are now.
    pub(crate) fn table_now(
        &self,
        reader: &Reader<'_>,
        head: &[u8],
        (slot, lead): (Slot, &Lead),
    ) -> Option<(u64, (u64, u64))> {
        let (table, end) = Self::table(head, (slot, lead))?;
        // One that moved may lie where nothing was mapped before.
        reader.memory().renew(table);
        let entries = match lead.table {
            Container::Dict => self.entries(reader, table)?,
            Container::List | Container::Set | Container::None => (table, end),
        };
        Some((table, entries))
    }

    /// Where the entries of a dict's table lie.
    fn entries(&self, reader: &Reader<'_>, keys: u64) -> Option<(u64, u64)> {
        let mut head = [0; Table::HEAD];
        let whole = reader.fill(keys, &mut head) == head.len();
        let table = Table::of(&head, self.version, keys).filter(|table| whole && table.count > 0)?;
        Some((table.entries, table.entries.checked_add(table.count.min(MOST_ENTRIES) * table.step)?))
    }

    /// The block that a pointer holds: an object where it begins, behind the collector's links; anything else anywhere.
    pub(crate) fn target(&self, index: &Index, address: u64) -> Option<Slot> {
        if !plausible(address) || !index.covers(address) {
            return None;
        }
        let slot = index.find(address)?;
        self.holds_at(slot.start, index.tag(slot.id), address).then_some(slot)
    }

    /// Whether a pointer to `address` holds the block it lies in, which begins at `start`.
    #[inline]
    pub(crate) fn holds_at(&self, start: u64, tag: Tag, address: u64) -> bool {
        match object_of(tag).and_then(|kind| self.get(kind)) {
            Some(lead) => start + lead.at == address,
            None => tag == RAW || owner_of(tag).is_some(),
        }
    }

    /// The parts of a block that can hold others, and the table it has now.
    pub(crate) fn holding(
        &self,
        (reader, index): (&Reader<'_>, &Index),
        window: &mut Window,
        slot: Slot,
    ) -> [Option<Holding>; 3] {
        match object_of(index.tag(slot.id)).and_then(|kind| self.get(kind)) {
            Some(lead) if !lead.holds => [None; 3],
            Some(lead) => {
                let [head, body] = self.words(lead, slot);
                let at = slot.start + lead.at;
                let need = HEAD.min(slot.end.saturating_sub(at) as usize);
                let bytes = window.at(reader, at, need, u64::MAX).filter(|_| lead.is_container());
                let now = bytes.and_then(|bytes| self.table_now(reader, bytes, (slot, lead)));
                let now =
                    now.map(|(table, range)| Holding { range, hashes: self.hashes_now(reader, lead, table) });
                // A set has its first entries in itself; what is behind those is of a class that is derived.
                let begin = (slot.start + lead.at + SMALL_SET).saturating_sub(body.0);
                let plain = lead.table == Container::Set && body.1 <= slot.start + lead.at + SET_END;
                let hashes = plain.then(|| Hashes::OF_SET.behind(begin));
                [Some(Holding { range: head, hashes: None }), Some(Holding { range: body, hashes }), now]
            }
            None => {
                let mut first = [0; HEAD];
                let owner = owner_of(index.tag(slot.id));
                let owner = owner.filter(|_| reader.cached(slot.start, &mut first));
                let hashes = owner.and_then(|kind| self.hashes(kind, &first, slot.end - slot.start));
                [Some(Holding { range: (slot.start, slot.end & !7), hashes }), None, None]
            }
        }
    }
}

/// Where a text ends that a block begins with, in whole words: its end and what is left behind that read as a pointer. No count
/// and no pointer reads as eight letters; in the smallest block, which has two words or three, fewer will do, but the first of those may be a
/// pointer all the same.
#[inline]
fn text_length(block: &[u8], size: u64) -> Option<usize> {
    const SMALLEST: [u64; 2] = [16, 24];
    const FEW: usize = 2;
    let first: &[u8; 8] = block.first_chunk()?;
    let small = SMALLEST.contains(&size);
    if small {
        // Of those only letters of ASCII tell.
        let is_letter = |byte: &u8| matches!(byte, b' '..=b'~');
        let end = block.iter().take_while(|byte| is_letter(byte)).count();
        return (end >= FEW && block.get(end) == Some(&0)).then_some(8);
    }
    if !first.iter().all(|byte| is_letter(*byte)) {
        return None;
    }
    let end = letters(block);
    (block.get(end) == Some(&0)).then_some(end / 8 * 8)
}

/// How many letters a block begins with: a few at a time, because texts are long.
#[inline]
fn letters(block: &[u8]) -> usize {
    const TOGETHER: usize = 16;
    let all = |some: &&[u8; TOGETHER]| some.iter().fold(true, |all, byte| all & is_letter(*byte));
    let whole = block.as_chunks().0.iter().take_while(all).count() * TOGETHER;
    whole + block[whole..].iter().take_while(|byte| is_letter(**byte)).count()
}

/// An instance's values in 3.11 and 3.12: from where to where they are.
#[inline]
fn ordered_before(block: &[u8]) -> Option<(usize, usize)> {
    let is_head = |length: &usize| {
        let Some([order @ .., set, told]) = block.get(..*length) else { return false };
        let most = order.len();
        let places = order.iter().rev().take(usize::from(*set));
        usize::from(*told) == *length
            && usize::from(*set) <= most
            && places.fold(true, |fits, place| fits & (usize::from(*place) < most))
    };
    VALUES_HEADS.into_iter().find(is_head).map(|length| (length, block.len()))
}

/// The same later: how many there can be, how many there are, and that they are not in an object; behind them which came first.
#[inline]
fn ordered_behind(block: &[u8]) -> Option<(usize, usize)> {
    const ROUNDED: usize = 16;
    let [most @ 1..=MOST_VALUES, set, 0, ..] = *block else { return None };
    let order = (usize::from(most) + 1) * 8;
    let end = order + usize::from(most).next_multiple_of(8);
    let fits = set <= most && (end..end + ROUNDED).contains(&block.len());
    let places = block.get(order..order + usize::from(set)).filter(|_| fits)?;
    let values =
        block[VALUES_HEAD as usize..order].as_chunks::<8>().0.iter().filter(|value| **value != [0; 8]);
    let told = places.iter().all(|place| *place < most) && values.count() == usize::from(set);
    told.then_some((VALUES_HEAD as usize, order))
}

/// Whether a byte can be of a text, in whatever script.
#[inline]
#[expect(clippy::needless_bitwise_bool, reason = "without a branch many are asked at once")]
fn is_letter(byte: u8) -> bool {
    (byte >= b' ') & (byte != 0x7f) | (byte == b'\t') | (byte == b'\n') | (byte == b'\r')
}

/// Low bits are marks: 3.12 takes one away from a pointer to values, 3.14 marks what a frame borrows.
#[inline]
pub(crate) fn unmarked(stored: u64) -> u64 {
    // Without a branch: which words have marks is anybody's guess.
    stored.wrapping_add(u64::from(stored & 7 == 7)) & !3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_a_text_nothing_leads_anywhere() {
        let block = |text: &[u8], size: usize| {
            let mut block = vec![0xa5; size];
            block[..text.len()].copy_from_slice(text);
            text_length(&block, size as u64)
        };
        assert_eq!(block(b"<H\0", 16), Some(8), "may be a pointer");
        assert_eq!(block(b"<HHHHHH\0", 16), Some(8));
        assert_eq!(block(&0x7f3e_90c0_a010_u64.to_le_bytes(), 16), None);
        assert_eq!(block(&0x55d4_c3c0_a010_u64.to_le_bytes(), 32), None);
        assert_eq!(block(b"a name of some\0", 32), Some(8));
        assert_eq!(block(b"sixteen letters.\0", 48), Some(16));
        assert_eq!(block("some lines,\n\tin any script: \u{e9}\u{4e2d}.\0".as_bytes(), 64), Some(32));
        assert_eq!(block(b"A\0", 16), None, "may be a count");
        assert_eq!(block(b"<H\0", 32), None, "may be a count");
        assert_eq!(block(b"eight or more, and no end", 48), None);
        assert_eq!(block(&0x7f12_3456_7890_u64.to_le_bytes(), 16), None);
    }
}
