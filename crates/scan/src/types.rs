//! Python types, recognised by what they are: a ready type whose own type leads to `PyType_Type`.
//!
//! A block is an object when the word where its type should be points to such a type, the type's flags put the
//! object exactly there (collector head, managed-dict head), the block is large enough for it, and its reference
//! count is one an object can have. No name of a type decides anything.

mod gone;
mod text;
mod texts;
mod version;

use text::Copies;
pub(crate) use texts::{is_text, text_type};
use version::Counting;
pub(crate) use version::Version;

use crate::index::{FREE, Index, MOST_TYPES, Tag, object_tag};
use crate::links::unmarked;
use crate::names;
use crate::reader::{Reader, half, plausible, word};
use crate::suspects::Names;
use rustc_hash::FxHashMap;

/// Offsets in a type object, the same from 3.8 to 3.14 on 64-bit machines.
mod field {
    pub(super) const TYPE: usize = 8;
    pub(super) const NAME: usize = 24;
    pub(super) const BASIC_SIZE: usize = 32;
    pub(super) const ITEM_SIZE: usize = 40;
    pub(super) const FLAGS: usize = 168;
    pub(super) const MEMBERS: usize = 240;
    pub(super) const BASE: usize = 256;
    pub(super) const DICT: usize = 264;
    pub(super) const DICT_OFFSET: usize = 288;
    pub(super) const END: usize = 296;
}

/// Bits of `tp_flags`.
mod flag {
    pub(super) const INLINE_VALUES: u64 = 1 << 2;
    pub(super) const MANAGED_WEAKREF: u64 = 1 << 3;
    pub(super) const MANAGED_DICT: u64 = 1 << 4;
    pub(super) const HEAP_TYPE: u64 = 1 << 9;
    pub(super) const READY: u64 = 1 << 12;
    pub(super) const GC: u64 = 1 << 14;
    pub(super) const INT: u64 = 1 << 24;
    pub(super) const LIST: u64 = 1 << 25;
    pub(super) const TUPLE: u64 = 1 << 26;
    pub(super) const BYTES: u64 = 1 << 27;
    pub(super) const STR: u64 = 1 << 28;
    pub(super) const DICT: u64 = 1 << 29;
    pub(super) const TYPE: u64 = 1 << 31;
}

/// What a container is, by the flags every subclass inherits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Int,
    List,
    Tuple,
    Bytes,
    Str,
    Dict,
    Type,
    Other,
}

/// One type, and what was counted for it.
#[derive(Clone, Debug)]
pub(crate) struct Type {
    pub(crate) address: u64,
    /// What it is derived from.
    pub(crate) base: u64,
    pub(crate) name: String,
    pub(crate) module: String,
    flags: u64,
    pub(crate) basic: u64,
    /// Where its pointers end: numbers at its end are none.
    pub(crate) end: u64,
    item: u64,
    /// Bytes before the object proper.
    pub(crate) lead: u64,
    /// `str` itself, whose text lies inside the object.
    compact_text: bool,
    /// Where a text leads to a copy of itself; 0 where it does not.
    copy_at: u64,
    /// Where instances keep their dict; negative from the end.
    pub(crate) dict_offset: i64,
    /// Whether some object of it has a word that could lead to another block.
    pub(crate) leads: bool,
    /// Classes that this stands for: where there is no room for more types, one for all of a name.
    pub(crate) classes: u64,
    pub(crate) count: u64,
    pub(crate) own: u64,
    pub(crate) owned: u64,
    /// Of that, in small blocks.
    pub(crate) small: u64,
    pub(crate) absent: u64,
}

impl Type {
    pub(crate) fn has_gc(&self) -> bool {
        self.flags & flag::GC != 0
    }

    pub(crate) fn family(&self) -> Family {
        family(self.flags)
    }

    /// `str` itself.
    pub(crate) fn is_plain_text(&self) -> bool {
        self.compact_text
    }

    /// Whether its objects have words before the collector's head, one of them for their attributes.
    pub(crate) fn has_pre_header(&self) -> bool {
        self.lead > if self.has_gc() { 16 } else { 0 }
    }

    pub(crate) fn inline_values(&self, version: Version) -> bool {
        version >= Version(3, 13) && self.flags & flag::INLINE_VALUES != 0
    }

    pub(crate) fn is_heap_type(&self) -> bool {
        self.flags & flag::HEAP_TYPE != 0
    }

    /// Which bytes of a block of `size` bytes can hold pointers: `[0, lead)` without the collector's head, and
    /// `[lead, end)`. Data that merely looks like pointers stays out: text, digits, bytes.
    pub(crate) fn pointers(&self, size: u64, version: Version) -> (u64, u64, u64) {
        // Numbers and bytes have hardly anything before their digits; code has fields before its instructions (3.11 on).
        let digits = !self.has_gc() && (1..8).contains(&self.item) && self.basic < FIELDS;
        if self.copy_at > 0 {
            return (0, self.copy_at, self.copy_at + 8);
        }
        if self.compact_text || digits {
            return (0, 0, 0);
        }
        let head = if self.has_gc() { self.lead.saturating_sub(16) } else { self.lead };
        let whole =
            self.has_gc() && self.item != 0 && self.item.is_multiple_of(8) || self.inline_values(version);
        let end = if whole { size } else { size.min(self.lead + self.end) };
        (head, self.lead + 16, end)
    }
}

/// From this size on an object has fields of its own before what it is long by.
const FIELDS: u64 = 64;

/// Types that are found at once.
const NEAR: usize = 1 << 13;

/// A type that was just found: its place among those that are found at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found(u32);

/// What the first look at a block needs of a type, or that there is none at an address.
#[derive(Clone, Copy, Debug)]
struct Known {
    address: u64,
    kind: u32,
    /// Bytes that its objects have at least, with what is before them.
    least: u32,
    lead: u8,
    /// The words that could lead anywhere, where they are the same for all its objects.
    words: Option<(u16, u16)>,
    tag: Tag,
    text: bool,
    leads: bool,
    /// Whether nothing more is to be learnt from an object of it.
    plain: bool,
}

impl Known {
    const NOTHING: Self = Self {
        address: 0,
        kind: NONE,
        least: 0,
        lead: u8::MAX,
        words: None,
        tag: FREE,
        text: false,
        leads: false,
        plain: false,
    };

    fn new(kind: u32, found: &Type, version: Version) -> Self {
        let least = if found.family() == Family::Str { 0 } else { found.lead + found.basic };
        let (head, from, to) = found.pointers(u64::MAX, version);
        let words = u16::try_from(from).ok().zip(u16::try_from(to).ok());
        let words = words.filter(|_| head == 0 && (least > 0 || from == to));
        let learnt = found.leads || words.is_some_and(|(from, to)| from == to);
        Self {
            words,
            address: found.address,
            kind,
            tag: object_tag(kind),
            least: least as u32,
            lead: found.lead as u8,
            text: found.compact_text,
            leads: found.leads,
            plain: learnt && !found.compact_text,
        }
    }

    /// Where it is kept among those that are found at once.
    #[inline]
    fn place(address: u64) -> Found {
        Found((address >> 4 ^ address >> 16) as u32 % NEAR as u32)
    }
}

/// All types met so far.
pub(crate) struct Types<'a> {
    reader: &'a Reader<'a>,
    pub(crate) version: Version,
    type_type: u64,
    counting: Counting,
    copies: Copies,
    /// Bytes of a debug allocator's own head before each block.
    skip: usize,
    known: FxHashMap<u64, u32>,
    /// Quick answers, by address.
    near: Box<[Known]>,
    pub(crate) all: Vec<Type>,
    /// Times that a type did not fit any more, and the first of each name where that happened.
    pub(crate) lost: u64,
    first_of_name: FxHashMap<(String, String), u32>,
    /// Memory that is written to: start and end, ascending.
    writable: Vec<(u64, u64)>,
    /// Types that are new or were seen to lead to others, since somebody asked.
    pub(crate) changed: Vec<u32>,
    /// Texts that were met and are names people suspect.
    pub(crate) names: Names,
}

const NONE: u32 = u32::MAX;

impl<'a> Types<'a> {
    pub(crate) fn new(reader: &'a Reader<'a>, version: Version, type_type: u64, skip: usize) -> Self {
        let near = vec![Known::NOTHING; NEAR].into_boxed_slice();
        let mappings = reader.memory().mappings().iter();
        let writable = mappings.filter(|map| map.writable && !map.shared).map(|map| (map.start, map.end));
        Self {
            reader,
            version,
            type_type,
            counting: Counting::of(version),
            copies: Copies::of(version),
            skip,
            known: FxHashMap::default(),
            near,
            all: Vec::new(),
            lost: 0,
            first_of_name: FxHashMap::default(),
            writable: writable.collect(),
            changed: Vec::new(),
            names: Names::new(version),
        }
    }

    /// All references to objects are within so many bytes of memory, and the heap begins there.
    pub(crate) fn within(&mut self, bytes: u64, heap: Option<u64>) {
        self.counting = self.counting.within(bytes, heap.unwrap_or(u64::MAX));
    }

    /// Bytes of a block of so many that are not of a debug allocator, where objects can be told at all.
    pub(crate) fn room_for_objects(&self, block: u64) -> Option<u64> {
        block.checked_sub(self.overhead()).filter(|_| self.type_type != 0)
    }

    /// The tag of a whole block at `at`, if it is an object; takes note of it. There is `room` for one.
    #[inline]
    pub(crate) fn object(&mut self, block: &[u8], (at, room): (u64, u64), index: &Index) -> Option<Tag> {
        let words = block.get(self.skip..)?.as_chunks().0;
        let found = self.find(words, room, &|address| index.may_be_type(address))?;
        let Known { tag, text, leads, plain, .. } = *self.nearby(found);
        if plain {
            return Some(tag);
        }
        if text {
            self.hear(block, at);
            return Some(self.text_tag(found, block));
        }
        if !leads {
            self.leads(found, block, block.len() as u64);
        }
        Some(tag)
    }

    /// Takes note of an object that was just met, and gives its tag: a text may be a name that is looked for.
    #[inline]
    pub(crate) fn met(&mut self, found: Found, block: &[u8], at: u64) -> Tag {
        if self.nearby(found).text {
            self.hear(block, at);
            return self.text_tag(found, block);
        }
        self.nearby(found).tag
    }

    /// Hears the names that are part of the interpreter itself.
    pub(crate) fn look_in_the_interpreter(&mut self) {
        self.names.look_in_the_interpreter(self.reader, self.type_type);
    }

    #[inline]
    fn hear(&mut self, block: &[u8], at: u64) {
        self.names.hear(block.get(self.skip..).unwrap_or_default(), at + self.skip as u64);
    }

    /// Whether objects of the type lead to other blocks, now that one more was read: `block` is what was seen of it, of a
    /// block of `size` bytes. A type leads when a word of some object of it could be a pointer: numbers never do.
    #[inline]
    pub(crate) fn leads(&mut self, found: Found, block: &[u8], size: u64) -> bool {
        let known = self.nearby(found);
        known.leads
            || match known.words {
                Some((from, to)) => {
                    let part = block.get(self.skip + usize::from(from)..self.skip + usize::from(to));
                    let pointer = |word: &[u8; 8]| plausible(unmarked(u64::from_le_bytes(*word)));
                    part.is_none_or(|part| part.as_chunks().0.iter().any(pointer))
                        && self.now_leads(found, block, size)
                }
                None => self.now_leads(found, block, size),
            }
    }

    fn now_leads(&mut self, place: Found, block: &[u8], size: u64) -> bool {
        let known = *self.nearby(place);
        let Some(found) = self.all.get_mut(known.kind as usize) else { return true };
        if !found.leads {
            let (head, from, to) = found.pointers(size.saturating_sub(self.skip as u64), self.version);
            let mut words =
                (0..head).step_by(8).chain((from..to).step_by(8)).map(|at| self.skip + at as usize);
            found.leads = words.any(|at| at + 8 > block.len() || plausible(unmarked(word(block, at))));
            if found.leads {
                self.changed.push(known.kind);
                let leads = Known::new(known.kind, found, self.version);
                self.near[place.0 as usize] = Known { address: known.address, ..leads };
            }
        }
        found.leads
    }

    /// Bytes of a debug allocator before each object.
    pub(crate) fn skip(&self) -> usize {
        self.skip
    }

    /// All bytes a debug allocator adds to a block: the head, and a fence of half its size behind the object.
    pub(crate) fn overhead(&self) -> u64 {
        self.skip as u64 * 3 / 2
    }

    pub(crate) fn get(&self, kind: u32) -> Option<&Type> {
        self.all.get(kind as usize)
    }

    /// The type whose object lies in this block, given its first bytes and its whole size; `may_be` says by what is known of the
    /// blocks so far whether a type could be at an address.
    #[inline]
    pub(crate) fn classify(
        &mut self,
        head: &[u8],
        size: u64,
        may_be: &impl Fn(u64) -> bool,
    ) -> Option<Found> {
        let room = self.room_for_objects(size)?;
        self.find(head.get(self.skip..)?.as_chunks().0, room, may_be)
    }

    /// The type of the object that begins with these words or behind some of them.
    #[inline]
    fn find(&mut self, mut words: &[[u8; 8]], room: u64, may_be: &impl Fn(u64) -> bool) -> Option<Found> {
        for lead in [0, 16, 32] {
            let [count, address, rest @ ..] = words else { return None };
            words = rest;
            // Before anything is looked up: most words are no count, and a pointer of the collector's head never is.
            let (count, address) = (u64::from_le_bytes(*count), u64::from_le_bytes(*address));
            if !self.counting.lives(count) || !plausible(address) {
                continue;
            }
            let found = self.at(address, may_be);
            let known = self.nearby(found);
            if known.lead == lead && u64::from(known.least) <= room {
                return Some(found);
            }
        }
        None
    }

    /// Where the type at an address is found, or that there is none.
    #[inline]
    fn at(&mut self, address: u64, may_be: &impl Fn(u64) -> bool) -> Found {
        let found = Known::place(address);
        if self.nearby(found).address != address {
            self.near[found.0 as usize] = self.look_for(address, may_be);
        }
        found
    }

    #[inline]
    fn nearby(&self, found: Found) -> &Known {
        &self.near[found.0 as usize % NEAR]
    }

    #[cold]
    fn look_for(&mut self, address: u64, may_be: &impl Fn(u64) -> bool) -> Known {
        let kind = self.known.get(&address).copied().or_else(|| self.look(address, may_be));
        let found = kind.and_then(|kind| Some(Known::new(kind, self.all.get(kind as usize)?, self.version)));
        Known { address, ..found.unwrap_or(Known::NOTHING) }
    }

    fn look(&mut self, address: u64, may_be: &impl Fn(u64) -> bool) -> Option<u32> {
        // A type object is written to: what points into code or constants (the tables of virtual functions of every C++ object)
        // need not be read.
        if !may_be(address) || !self.is_writable(address) {
            return None;
        }
        let found = self.read(address)?;
        if self.all.len() >= MOST_TYPES {
            return self.one_more_of_a_name(address, &found);
        }
        let kind = self.all.len() as u32;
        self.all.push(found);
        self.known.insert(address, kind);
        self.changed.push(kind);
        Some(kind)
    }

    /// There is no room for more types: one that was made again goes with the first of its name, others are not told apart.
    fn one_more_of_a_name(&mut self, address: u64, found: &Type) -> Option<u32> {
        if self.first_of_name.is_empty() {
            let names = self.all.iter().enumerate().rev();
            let names = names.map(|(kind, of)| ((of.module.clone(), of.name.clone()), kind as u32));
            self.first_of_name = names.collect();
        }
        let form = |of: &Type| (of.basic, of.item, of.end, of.lead, of.dict_offset, of.family());
        let kind = self.first_of_name.get(&(found.module.clone(), found.name.clone())).copied();
        let first = kind.and_then(|kind| self.all.get_mut(kind as usize));
        let Some(first) = first.filter(|first| form(first) == form(found)) else {
            self.lost += 1;
            return None;
        };
        first.classes += 1;
        self.known.extend(kind.map(|kind| (address, kind)));
        kind
    }

    fn is_writable(&self, address: u64) -> bool {
        let after = self.writable.partition_point(|(start, _)| *start <= address);
        after.checked_sub(1).is_some_and(|at| address < self.writable[at].1)
    }

    fn read(&self, address: u64) -> Option<Type> {
        let mut bytes = [0; field::END];
        if !self.reader.cached(address, &mut bytes) || !self.is_metatype(word(&bytes, field::TYPE), 3) {
            return None;
        }
        let (basic, item) = (word(&bytes, field::BASIC_SIZE), word(&bytes, field::ITEM_SIZE));
        let flags = word(&bytes, field::FLAGS);
        if !(16..=1 << 16).contains(&basic) || item > 1 << 12 || flags & flag::READY == 0 {
            return None;
        }
        let text = self.reader.text(word(&bytes, field::NAME))?;
        let told = (flags & flag::HEAP_TYPE != 0)
            .then(|| names::text_in_dict(self.reader, self.version, word(&bytes, field::DICT), "__module__"))
            .flatten();
        let (module, name) = split_name(&text, told);
        let lead = u64::from(flags & flag::GC != 0) * 16 + u64::from(self.version.pre_header(flags)) * 16;
        let base = self.flags_at(word(&bytes, field::BASE)).unwrap_or(0);
        Some(Type {
            address,
            base: word(&bytes, field::BASE),
            name,
            module,
            flags,
            basic,
            end: self.pointers_end(word(&bytes, field::MEMBERS), basic),
            item,
            lead,
            copy_at: 0,
            compact_text: flags & flag::STR != 0 && base & flag::STR == 0,
            dict_offset: word(&bytes, field::DICT_OFFSET) as i64,
            leads: false,
            classes: 1,
            count: 0,
            own: 0,
            owned: 0,
            small: 0,
            absent: 0,
        })
    }

    /// Where the pointers of an object of `basic` bytes end, by the members that its type tells: what lies beside a truth value or a
    /// small number in its last words was never written, and may look like a pointer.
    fn pointers_end(&self, members: u64, basic: u64) -> u64 {
        /// Text, objects, and nothing at all: any other member is a number.
        const POINTERS: [u32; 4] = [5, 6, 16, 20];
        const MOST: u64 = 64;
        const LAST: u64 = 8;
        let table = (0..MOST).map_while(|number| {
            let mut member = [0; 24];
            let at = members.checked_add(number * 40)?;
            (plausible(members) && self.reader.cached(at, &mut member) && word(&member, 0) != 0)
                .then(|| (half(&member, 8), word(&member, 16)))
        });
        let least = basic.saturating_sub(LAST * 8);
        let mut numbers = [false; LAST as usize];
        for (kind, offset) in table.filter(|(kind, offset)| !POINTERS.contains(kind) && *offset < basic) {
            let place = offset.checked_sub(least).and_then(|offset| numbers.get_mut((offset / 8) as usize));
            place.into_iter().for_each(|place| *place = kind < 32);
        }
        if !basic.is_multiple_of(8) {
            return basic;
        }
        let words = (basic / 8).min(LAST);
        let last = numbers[..words as usize].iter().rev().take_while(|number| **number).count() as u64;
        basic - last * 8
    }

    /// Whether an address is `PyType_Type` or a type derived from it.
    fn is_metatype(&self, address: u64, depth: u8) -> bool {
        if address == self.type_type {
            return true;
        }
        depth > 0
            && plausible(address)
            && self.flags_at(address).is_some_and(|flags| flags & flag::READY != 0 && flags & flag::TYPE != 0)
            && self.reader.word(address + 8).is_some_and(|above| self.is_metatype(above, depth - 1))
    }

    fn flags_at(&self, address: u64) -> Option<u64> {
        self.reader.word(address.checked_add(field::FLAGS as u64)?)
    }
}

/// The family of what has these flags.
fn family(flags: u64) -> Family {
    const FAMILIES: [(u64, Family); 7] = [
        (flag::INT, Family::Int),
        (flag::LIST, Family::List),
        (flag::TUPLE, Family::Tuple),
        (flag::BYTES, Family::Bytes),
        (flag::STR, Family::Str),
        (flag::DICT, Family::Dict),
        (flag::TYPE, Family::Type),
    ];
    FAMILIES.iter().find(|(bit, _)| flags & bit != 0).map_or(Family::Other, |(_, family)| *family)
}

/// The module and the class's own name. Types of C say both in one text; classes of Python keep the module apart.
fn split_name(text: &str, told: Option<String>) -> (String, String) {
    let (before, name) = text.rsplit_once('.').map_or(("", text), |(before, name)| (before, name));
    let module =
        told.unwrap_or_else(|| if before.is_empty() { "builtins".to_owned() } else { before.to_owned() });
    (module, name.to_owned())
}

/// Looks for `PyType_Type` in bytes of a library's data: the one type that is its own type.
pub(crate) fn own_type(bytes: &[u8], base: u64) -> Option<u64> {
    (0..bytes.len().saturating_sub(field::END)).step_by(8).find_map(|at| {
        let address = base + at as u64;
        let flags = word(bytes, at + field::FLAGS);
        let fits = word(bytes, at + field::TYPE) == address
            && flags & flag::READY != 0
            && flags & flag::TYPE != 0
            && (400..2000).contains(&word(bytes, at + field::BASIC_SIZE))
            && half(bytes, at) != 0;
        fits.then_some(address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heads_before_an_object_follow_the_version() {
        let managed = flag::MANAGED_DICT;
        assert!(!Version(3, 10).pre_header(managed));
        assert!(Version(3, 11).pre_header(managed));
        assert!(!Version(3, 11).pre_header(flag::MANAGED_WEAKREF));
        assert!(Version(3, 12).pre_header(flag::MANAGED_WEAKREF));
        assert_eq!((Version(3, 9).pool_bytes(), Version(3, 10).pool_bytes()), (4096, 16384));
    }

    #[test]
    fn a_reference_count_must_be_one_an_object_can_have() {
        let lives = |version, count| Counting::of(version).lives(count);
        assert!(!lives(Version(3, 9), 0) && lives(Version(3, 9), 1));
        assert!(!lives(Version(3, 11), 0x7f00_0000_0000));
        assert!(lives(Version(3, 12), 0xffff_ffff) && !lives(Version(3, 12), 1 << 32));
        assert!(lives(Version(3, 14), 0x0003_0000_c000_0000), "flags above the count");
        assert!(!lives(Version(3, 14), 0x7f12_3456_7890), "a link of a free list");
        let within = |version, count| Counting::of(version).within(1 << 30, u64::MAX).lives(count);
        for version in [9, 11, 12, 14].map(|minor| Version(3, minor)) {
            assert!(within(version, 1) && within(version, 1 << 27) && !within(version, 0x4055_9010));
        }
        assert!(within(Version(3, 12), 0xffff_fff0) && within(Version(3, 14), 0x0003_0000_c000_0000));
        assert!(!within(Version(3, 11), 0xffff_fff0), "more references than there is memory for");
        assert!(
            Counting::of(Version(3, 11)).within(100, 1).lives(1 << 20),
            "some that were never given back"
        );
        let low = Counting::of(Version(3, 12)).within(1 << 34, 0x0210_0000);
        assert!(low.lives(0x020f_ffff) && !low.lives(0x0210_0010) && low.lives(0xffff_ffff));
    }

    #[test]
    fn a_name_with_dots_is_module_and_class() {
        assert_eq!(split_name("numpy.ndarray", None), ("numpy".into(), "ndarray".into()));
        assert_eq!(split_name("list", None), ("builtins".into(), "list".into()));
        assert_eq!(split_name("Net", Some("train".into())), ("train".into(), "Net".into()));
        assert_eq!(split_name("a.b.C", Some("a.b".into())), ("a.b".into(), "C".into()));
    }
}
