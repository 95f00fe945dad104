//! The words for a way up: attributes, keys, globals, locals.

use crate::climb::{Climb, Ground, Node, object_at};
use crate::frames::{self, CODE_LOCALS, Local, MOST_LOCALS};
use crate::names::{self, DICT_KEYS, DICT_USED, DICT_VALUES, Table};
use crate::reader::plausible;
use crate::report::HolderStep;
use crate::types::{Family, Type, Version};

/// Where a climb ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Top {
    /// The last node on the way up.
    node: u32,
    /// A name a person knows: `global DATASET of module data`.
    name: String,
    /// What kind of thing that is, for the last step.
    what: &'static str,
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
const SHORT: usize = 4;
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
    pub(crate) fn tops(&self, climb: &Climb, number: u32) -> Vec<(Top, u64)> {
        let Some((node, found)) =
            climb.nodes.get(number as usize).and_then(|node| Some((node, self.kind(node)?)))
        else {
            return Vec::new();
        };
        let at = self.begin(node);
        match found.family() {
            Family::Dict => self.globals(climb, number, at).unwrap_or_default(),
            Family::Type => self.class(node, at).map(|top| (top, node.samples)).into_iter().collect(),
            Family::Other if self.is_old_frame(found) => {
                self.old_local(node, found, at).map(|top| (top, node.samples)).into_iter().collect()
            }
            Family::Int | Family::List | Family::Tuple | Family::Bytes | Family::Str | Family::Other => {
                Vec::new()
            }
        }
    }

    /// The globals of a module, if this dict is its namespace.
    fn globals(&self, climb: &Climb, number: u32, at: u64) -> Option<Vec<(Top, u64)>> {
        let (reader, version) = (self.ground.reader, self.version());
        let module = names::text_in_dict(reader, version, at, "__name__")?;
        let node = climb.nodes.get(number as usize)?;
        // Where the table is new and in no block, the entries are the dict's own.
        let table = if in_new_table(node) { number } else { node.below?.0 };
        let first = climb.nodes.get(table as usize)?.below.map(|(below, at)| (table, below, at));
        let mut ways: Vec<(u64, u32, u64)> = Vec::new();
        for (_, below, place) in first.iter().chain(climb.more.iter().filter(|way| way.0 == table)) {
            let samples = climb.nodes[*below as usize].samples;
            match ways.iter_mut().find(|way| way.0 == *place) {
                Some(way) => way.2 |= samples,
                None => ways.push((*place, *below, samples)),
            }
        }
        let top = |(place, node, samples): (u64, u32, u64)| {
            let key = self.text(self.word(place.checked_sub(8)?)?)?;
            Some((Top { node, name: format!("global {key} of module {module}"), what: "module" }, samples))
        };
        Some(ways.into_iter().filter_map(top).collect())
    }

    fn class(&self, node: &Node, at: u64) -> Option<Top> {
        let name = self.ground.reader.text(self.word(at + 24)?)?;
        Some(Top { node: node.below?.0, name: format!("class {name}"), what: "class" })
    }

    fn old_local(&self, node: &Node, found: &Type, at: u64) -> Option<Top> {
        let (below, place) = node.below?;
        Some(Top { node: below, name: self.old_local_at(found, at, place)?, what: "local" })
    }

    fn old_local_at(&self, found: &Type, at: u64, place: u64) -> Option<String> {
        self.named_local(frames::old_local(self.ground, at, found, place)?)
    }

    fn is_old_frame(&self, found: &Type) -> bool {
        self.version() < Version(3, 11) && self.ground.frame_type == Some(found.address)
    }

    /// A local of a running function.
    pub(crate) fn local(&self, local: Local, node: u32) -> Option<Top> {
        self.named_local(local).map(|name| Top { node, name, what: "local" })
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

    /// Through what a node holds the one below: `['key']`, `.attribute`.
    pub(crate) fn through(&self, climb: &Climb, number: u32) -> Option<String> {
        let node = climb.nodes.get(number as usize)?;
        let (below, place) = node.below?;
        let found = self.kind(node)?;
        let (at, lower) = (self.begin(node), climb.nodes.get(below as usize)?);
        // Through a raw block the word that matters is the one inside it.
        let inner = if lower.kind.is_none() { lower.below.map(|(_, inside)| inside) } else { None };
        if node.many || (lower.kind.is_none() && lower.many) {
            return None;
        }
        match (found.family(), inner) {
            (Family::Dict, Some(inside)) => self.dict_key(at, lower, inside).map(|key| format!("['{key}']")),
            (_, Some(inside)) => self.split_attribute(found, place, inside).map(|name| format!(".{name}")),
            (Family::Dict, None) if in_new_table(node) => self.key_at(place).map(|key| format!("['{key}']")),
            (_, None) if in_new_table(node) => None,
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
        if (lower.slot.start..lower.slot.end).contains(&values)
            && !(lower.slot.start..lower.slot.end).contains(&keys)
        {
            let table = Table::read(self.ground.reader, self.version(), keys)?;
            return self.text(table.entry(self.ground.reader, self.value_index(values, inside)?)?.0);
        }
        self.key_at(inside)
    }

    /// The key of the entry whose value is at `value`.
    fn key_at(&self, value: u64) -> Option<String> {
        let key = self.text(self.word(value.checked_sub(8)?)?)?;
        // Only what reads like a name: other keys may be the user's data.
        let named = key.len() <= 64 && key.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
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

    /// A step of the way that `agreed` go: what holds other samples only is none of its business.
    fn step(&self, climb: &Climb, number: u32, agreed: u64) -> Option<HolderStep> {
        let node = climb.nodes.get(number as usize)?;
        let found = self.kind(node)?;
        let same = |other: &&Node| {
            other.level == node.level && other.kind == node.kind && other.samples & agreed != 0
        };
        let count = climb.nodes.iter().filter(same).count() as u64;
        let entries = matches!(found.family(), Family::List | Family::Dict | Family::Tuple)
            .then(|| self.word(self.begin(node) + DICT_USED))
            .flatten();
        Some(HolderStep {
            name: found.name.clone(),
            module: found.module.clone(),
            through: self.through(climb, number).unwrap_or_default(),
            count,
            entries: entries.filter(|_| count == 1),
        })
    }
}

/// Whether a container holds the one below in a table that is in no block.
fn in_new_table(node: &Node) -> bool {
    node.below.is_some_and(|(_, place)| !(node.slot.start..node.slot.end).contains(&place))
}

/// The objects from `from` down to a sample, lowest first; `agreed` are all that hang on it or on one like it.
fn steps(namer: &Namer<'_, '_>, climb: &Climb, from: u32, agreed: u64) -> Vec<HolderStep> {
    let mut steps = Vec::new();
    let mut at = Some(from);
    while let Some(number) = at {
        steps.extend(namer.step(climb, number, agreed));
        at = climb.nodes.get(number as usize).and_then(|node| node.below).map(|(below, _)| below);
    }
    steps.reverse();
    steps
}

/// Steps and one line for a climb that ended at `top`, which holds the samples `held`.
pub(crate) fn describe(
    namer: &Namer<'_, '_>,
    climb: &Climb,
    (top, held): (&Top, u64),
) -> (Vec<HolderStep>, String) {
    let mut path = steps(namer, climb, top.node, held);
    let text = line(&path, Some(&top.name));
    path.push(HolderStep {
        name: top.what.to_owned(),
        through: top.name.clone(),
        count: 1,
        ..HolderStep::default()
    });
    (path, text)
}

/// The same for a climb that ended nowhere: the way to the lowest node that holds most samples, and those.
pub(crate) fn common(namer: &Namer<'_, '_>, climb: &Climb) -> (Vec<HolderStep>, String, u64) {
    let numbered = climb.nodes.iter().enumerate().filter(|(_, node)| node.kind.is_some() && node.level > 0);
    let most = numbered.max_by_key(|(_, node)| (node.samples.count_ones(), std::cmp::Reverse(node.level)));
    // What leads to a few of them only tells nothing of the rest.
    let most = most.filter(|(_, node)| node.samples.count_ones() * 2 >= climb.all.count_ones());
    let held = most.map_or(0, |(_, node)| node.samples);
    let path = most.map_or_else(Vec::new, |(number, _)| steps(namer, climb, number as u32, held));
    let text = line(&path, None);
    (path, text, held)
}

/// `ImagingCore <- Image.im <- dict['image'] <- list of 663 <- global ROWS of module data`
fn line(path: &[HolderStep], top: Option<&str>) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut key = None;
    for (at, step) in path.iter().enumerate() {
        let owner = path.get(at + 1).filter(|owner| owner.through == ".__dict__");
        if owner.is_some() && step.through.starts_with("['") {
            // An instance's own dict is part of the instance.
            key = Some(step.through.trim_matches(|c| "[]'".contains(c)));
            continue;
        }
        let through = key.take().map_or_else(|| step.through.clone(), |key| format!(".{key}"));
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
