//! The words for a way up: attributes, keys, globals, locals.

use crate::climb::{Climb, Ground, Node, object_at};
use crate::frames::{self, CODE_LOCALS, Local, MOST_LOCALS};
use crate::names::{self, DICT_KEYS, DICT_USED, DICT_VALUES, Table};
use crate::reader::plausible;
use crate::report::HolderStep;
use crate::types::{Family, Type, Version};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// Where a climb ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Top {
    /// The first node that is not on the way up any more, if there is one.
    pub(crate) end: Option<u32>,
    /// Which samples it holds.
    pub(crate) samples: u64,
    /// A name a person knows: `global DATASET of module data`.
    pub(crate) name: String,
    /// What kind of thing that is, for the last step.
    pub(crate) what: &'static str,
}

impl std::fmt::Display for Top {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// Reads names in the target.
pub(crate) struct Namer<'a, 'b> {
    pub(crate) ground: &'b Ground<'a, 'b>,
}

const MOST_MEMBERS: u64 = 256;
/// Equal steps from which on a chain is not written out.
pub(crate) const SHORT: usize = 4;
/// Offsets in a code object: names of locals, name of the function. Before 3.11 the names of locals, of those that inner functions
/// share, and of those that are shared with an outer one.
const CODE_NEW: (&[u64], u64) = (&[CODE_LOCALS], 128);
const CODE_OLD: (&[u64], u64) = (&[72, 88, 80], 112);

impl Namer<'_, '_> {
    fn version(&self) -> Version {
        self.ground.types.version
    }

    fn word(&self, address: u64) -> Option<u64> {
        self.ground.reader.word(address)
    }

    /// The word `offset` bytes into something whose address was read from the target.
    fn field(&self, base: u64, offset: u64) -> Option<u64> {
        self.word(base.checked_add(offset)?)
    }

    fn text(&self, address: u64) -> Option<String> {
        names::text(self.ground.reader, self.version(), address)
    }

    fn kind(&self, node: &Node) -> Option<&Type> {
        node.kind.and_then(|kind| self.ground.types.get(kind))
    }

    fn begin(&self, node: &Node) -> u64 {
        self.kind(node).map_or(node.slot.start, |found| object_at(self.ground, node.slot, found))
    }

    /// Whether a climb ends at a node: a module's namespace, a class, a frame that no other object than a frame (`above`)
    /// keeps. What a generator or a traceback keeps is no running function.
    pub(crate) fn is_end(&self, node: &Node, above: Option<u32>) -> bool {
        let Some(found) = self.kind(node) else { return false };
        let space = || names::is_namespace(self.ground.reader, self.version(), self.begin(node));
        match found.family() {
            Family::Type => true,
            Family::Dict => space(),
            Family::Int | Family::List | Family::Tuple | Family::Bytes | Family::Str | Family::Other => {
                self.is_old_frame(found) && above.is_none_or(|above| node.kind == Some(above))
            }
        }
    }

    /// Whether a node is a frame that holds what is below by none of its locals.
    pub(crate) fn is_nameless(&self, climb: &Climb, number: u32) -> bool {
        let node = &climb.nodes[number as usize];
        let frame = self.kind(node).is_some_and(|found| self.is_old_frame(found));
        frame && self.tops(climb, number).is_empty()
    }

    /// The names under which a node ends the climb (a module's namespace, a class, a frame), with the samples
    /// that hang on each.
    pub(crate) fn tops(&self, climb: &Climb, number: u32) -> Vec<Top> {
        let Some((node, found)) =
            climb.nodes.get(number as usize).and_then(|node| Some((node, self.kind(node)?)))
        else {
            return Vec::new();
        };
        let at = self.begin(node);
        match found.family() {
            Family::Dict => self.globals(climb, number, at).unwrap_or_default(),
            Family::Type => self.class(node, number, at).into_iter().collect(),
            Family::Other if self.is_old_frame(found) => {
                let local = |place| self.old_local_at(found, at, place);
                each_place(climb, number, "local", local)
            }
            Family::Int | Family::List | Family::Tuple | Family::Bytes | Family::Str | Family::Other => {
                Vec::new()
            }
        }
    }

    /// The globals of a module, if this dict is its namespace.
    fn globals(&self, climb: &Climb, number: u32, at: u64) -> Option<Vec<Top>> {
        let module = names::text_in_dict(self.ground.reader, self.version(), at, "__name__")?;
        let name = |place: u64| {
            let key = self.text(self.word(place.checked_sub(8)?)?)?;
            Some(format!("global {key} of module {module}"))
        };
        // Where the table is new and in no block, the entries are the dict's own.
        let is_table = |below: &u32| climb.nodes[*below as usize].kind.is_none();
        let tables = climb.below(number).filter(is_table).chain([number]);
        Some(tables.flat_map(|table| each_place(climb, table, "module", name)).collect())
    }

    fn class(&self, node: &Node, number: u32, at: u64) -> Option<Top> {
        let name = self.ground.reader.text(self.word(at + 24)?)?;
        Some(Top { end: Some(number), samples: node.samples, name: format!("class {name}"), what: "class" })
    }

    fn old_local_at(&self, found: &Type, at: u64, place: u64) -> Option<String> {
        self.named_local(frames::old_local(self.ground, at, found, place)?)
    }

    fn is_old_frame(&self, found: &Type) -> bool {
        self.version() < Version(3, 11) && self.ground.frame_type == Some(found.address)
    }

    /// A local of running functions, and the samples that it holds.
    pub(crate) fn local(&self, local: Local, samples: u64) -> Option<Top> {
        self.named_local(local).map(|name| Top { end: None, samples, name, what: "local" })
    }

    /// The name of the local at an address, whose frame begins no earlier than `least`: in an object that has its frame
    /// within it, as a generator has, or an exception's traceback.
    fn local_after(&self, least: u64, at: u64) -> Option<String> {
        let (_, to_locals) = frames::offsets(self.version())?;
        let code_type = self.ground.code_type?;
        (0..MOST_LOCALS).find_map(|index| {
            let frame = at.checked_sub(index * 8 + to_locals).filter(|frame| *frame >= least)?;
            let code = self.word(frame)? & !3;
            let is_code = plausible(code) && self.word(code + 8) == Some(code_type);
            is_code.then(|| self.named_local(Local { code, index })).flatten()
        })
    }

    fn named_local(&self, Local { code, index }: Local) -> Option<String> {
        let (tuples, function) = if self.version() >= Version(3, 11) { CODE_NEW } else { CODE_OLD };
        // Since 3.14 a tuple keeps its hash before its entries.
        let entries = if self.version() >= Version(3, 14) { 32 } else { 24 };
        let mut before = 0;
        let name = tuples.iter().find_map(|names| {
            let (tuple, number) = (self.field(code, *names)?, index - before);
            let count = self.field(tuple, 16)?;
            if number < count {
                return self.field(tuple, entries + number * 8);
            }
            before += count;
            None
        })?;
        let (local, function) = (self.text(name)?, self.text(self.field(code, function)?)?);
        Some(format!("local {local} of function {function}"))
    }

    /// How the object at `at` of a way (from above) holds the next one.
    fn link<'c>(&'c self, climb: &'c Climb, way: &[u32], at: usize) -> Option<Link<'c>> {
        let node = |at: usize| way.get(at).and_then(|number| climb.nodes.get(*number as usize));
        let (node, lower, further) = (node(at)?, node(at + 1)?, node(at + 2));
        let (_, place) = lower.above?;
        // Through a raw block the word that matters is the one inside it.
        let inside = further.filter(|_| lower.kind.is_none()).and_then(|further| further.above);
        let apart = !(node.slot.start..node.slot.end).contains(&place);
        Some(Link { node, found: self.kind(node)?, place, lower, inside: inside.map(|(_, at)| at), apart })
    }

    /// Tells the places apart through which objects of one type hold others, by what they are called: two instances may keep the
    /// same attribute in different ways. Those without a name are one: an entry of a list, either end of a queue.
    pub(crate) fn place(&self, climb: &Climb, way: &[u32], at: usize) -> u64 {
        let mut hasher = FxHasher::default();
        let through = self.through(climb, way, at);
        through.map_or(0, |name| {
            name.hash(&mut hasher);
            hasher.finish()
        })
    }

    /// Through what the object at `at` of a way holds the next one: `['key']`, `.attribute`.
    fn through(&self, climb: &Climb, way: &[u32], at: usize) -> Option<String> {
        let Link { node, found, place, lower, inside, apart } = self.link(climb, way, at)?;
        let at = self.begin(node);
        match (found.family(), inside) {
            (Family::Dict, Some(inside)) => self.dict_key(at, lower, inside).map(|key| format!("['{key}']")),
            (_, Some(inside)) => self.split_attribute(found, place, inside).map(|name| format!(".{name}")),
            (Family::Dict, None) if apart => {
                self.key_at(self.word(at + DICT_KEYS)?, place).map(|key| format!("['{key}']"))
            }
            (_, None) if apart => None,
            (_, None) => {
                let attribute = self.attribute(found, at, place).map(|name| format!(".{name}"));
                let local = || {
                    let old = self.is_old_frame(found);
                    if old { self.old_local_at(found, at, place) } else { self.local_after(at, place) }
                };
                attribute.or_else(|| local().map(|name| format!(" ({name})")))
            }
        }
    }

    fn dict_key(&self, dict: u64, lower: &Node, inside: u64) -> Option<String> {
        let values = self.word(dict + DICT_VALUES)?;
        let keys = self.word(dict + DICT_KEYS)?;
        let is_inside = |address: u64| (lower.slot.start..lower.slot.end).contains(&address);
        if is_inside(values) && !is_inside(keys) {
            let table = Table::read(self.ground.reader, self.version(), keys)?;
            return self.text(table.entry(self.ground.reader, self.value_index(values, inside)?)?.0);
        }
        // A dict that has another table by now leaves the old one as it was for a while.
        self.key_at(if is_inside(keys) { keys } else { lower.slot.start }, inside)
    }

    /// The key of the entry whose value is at `value`, in a dict's table.
    fn key_at(&self, keys: u64, value: u64) -> Option<String> {
        let table = Table::read(self.ground.reader, self.version(), keys)?;
        let place = value.checked_sub(8).filter(|_| table.has_value_at(value))?;
        let key = self.text(self.word(place)?)?;
        // Only what reads like a name: other keys may be the user's data.
        let named = key.len() <= 64 && key.chars().all(|c| c.is_alphanumeric() || "_.-".contains(c));
        named.then_some(key)
    }

    /// Values lie one after the other; from 3.13 on behind a head of eight bytes.
    fn value_index(&self, values: u64, inside: u64) -> Option<u64> {
        let head = if self.version() >= Version(3, 13) { 8 } else { 0 };
        Some(inside.checked_sub(values)?.checked_sub(head)? / 8)
    }

    /// An attribute whose value lies in an array of its own (3.11 and 3.12).
    fn split_attribute(&self, found: &Type, place: u64, inside: u64) -> Option<String> {
        let stored = self.word(place)?;
        let values = if stored & 7 == 7 { stored.wrapping_add(1) } else { stored };
        self.cached_key(found, self.value_index(values, inside)?)
    }

    /// An attribute inside the object: a slot, a C member, or a value behind the object (3.13).
    fn attribute(&self, found: &Type, at: u64, place: u64) -> Option<String> {
        let Some(offset) = place.checked_sub(at) else { return Some("__dict__".to_owned()) };
        if found.inline_values(self.version()) && offset >= found.basic + 8 {
            return self.cached_key(found, (offset - found.basic - 8) / 8);
        }
        if found.dict_offset > 0 && offset == found.dict_offset as u64 {
            return Some("__dict__".to_owned());
        }
        let members = self.word(found.address + 240).filter(|members| plausible(*members))?;
        let table = (0..MOST_MEMBERS).map(|number| members + number * 40);
        let mut named =
            table.map_while(|member| Some((member, self.word(member).filter(|name| *name != 0)?)));
        let (_, name) = named.find(|(member, _)| self.word(member + 16) == Some(offset))?;
        self.ground.reader.text(name)
    }

    /// The name of an instance attribute by its number: classes of Python keep the names they saw.
    fn cached_key(&self, found: &Type, index: u64) -> Option<String> {
        if !found.is_heap_type() {
            return None;
        }
        // The keys object is one of the last fields of a heap type; its place moves from version to version.
        (50..125).find_map(|field| {
            let keys = self.word(found.address + field * 8).filter(|keys| plausible(*keys))?;
            let slot = self.ground.index.find_raw(keys)?;
            let mut head = [0; 16];
            let split = self.ground.reader.cached(keys, &mut head)
                && (self.version() < Version(3, 11) || head[10] == 2);
            let table = Table::read(self.ground.reader, self.version(), keys)
                .filter(|_| split && slot.start <= keys)?;
            let key =
                if table.count > index { table.entry(self.ground.reader, index)?.0 } else { return None };
            self.text(key)
        })
    }

    /// The object at `at` of a way, one of `count` such; through what it holds the next one only where that is `named`.
    pub(crate) fn step(
        &self,
        climb: &Climb,
        (way, at): (&[u32], usize),
        count: u64,
        named: bool,
    ) -> Option<HolderStep> {
        let node = climb.nodes.get(*way.get(at)? as usize)?;
        let found = self.kind(node)?;
        let entries = matches!(found.family(), Family::List | Family::Dict | Family::Tuple)
            .then(|| self.word(self.begin(node) + DICT_USED))
            .flatten();
        let through = if named { self.through(climb, way, at) } else { None };
        Some(HolderStep {
            name: found.name.clone(),
            module: found.module.clone(),
            through: through.unwrap_or_default(),
            count,
            entries: entries.filter(|_| count == 1),
        })
    }
}

/// A name for each place of a node that holds something.
fn each_place(
    climb: &Climb,
    number: u32,
    what: &'static str,
    name: impl Fn(u64) -> Option<String>,
) -> Vec<Top> {
    let top = |below: u32| {
        let node = climb.nodes[below as usize];
        let name = name(node.above?.1)?;
        Some(Top { end: Some(number), samples: node.samples, name, what })
    };
    climb.below(number).filter_map(top).collect()
}

/// An object, and by which word it holds what is below.
struct Link<'c> {
    node: &'c Node,
    found: &'c Type,
    place: u64,
    /// The block below, and where the word is in it where that is no object.
    lower: &'c Node,
    inside: Option<u64>,
    /// Whether a container holds it in a table that is in no block.
    apart: bool,
}

/// `ImagingCore <- Image.im <- dict['image'] <- list of 663 <- global ROWS of module data`
pub(crate) fn line(path: &[HolderStep], top: Option<&str>) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut key = None;
    for (at, step) in path.iter().enumerate() {
        let owner = path.get(at + 1).filter(|owner| owner.through == ".__dict__");
        if owner.is_some() && (step.through.is_empty() || step.through.starts_with("['")) {
            // An instance's own dict is part of the instance.
            key = Some(step.through.trim_matches(|c| "[]'".contains(c)));
            continue;
        }
        let through = match key.take() {
            None => step.through.clone(),
            Some("") => String::new(),
            Some(key) => format!(".{key}"),
        };
        let entries = step.entries.map_or(String::new(), |entries| format!(" of {entries}"));
        parts.push(format!("{}{through}{entries}", step.name));
    }
    parts.extend(top.map(str::to_owned));
    let chains = parts.chunk_by(|one, next| one == next);
    let short = chains.map(|chain| match chain.len() {
        1..SHORT => chain.join(" <- "),
        _ => format!("{} <- ... <- {}", chain[0], chain[0]),
    });
    short.collect::<Vec<_>>().join(" <- ")
}
