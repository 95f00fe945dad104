//! Containers people suspect first, by the names they are held under, with what they really hold.
//!
//! The table gives labels, never an answer: a container is counted by what is reached from it, whatever its name.
//! They are reported even when tiny, because people spend weeks on them.

use crate::climb::{Ground, object_at};
use crate::index::{RAW, Slot, object_of, owner_of};
use crate::names::{self, DICT_KEYS, DICT_USED, DICT_VALUES, Table};
use crate::reader::{Window, plausible, word};
use crate::report::Suspect;
use crate::types::{Family, Type, Version};
use lowtide_model::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};

/// Name of an attribute or global, and what people call it.
const SUSPECTS: [(&str, &str); 22] = [
    ("log_history", "trainer log history"),
    ("history", "history"),
    ("losses", "metric list"),
    ("train_losses", "metric list"),
    ("val_losses", "metric list"),
    ("metrics", "metrics"),
    ("all_preds", "collected predictions"),
    ("all_predictions", "collected predictions"),
    ("predictions", "collected predictions"),
    ("all_labels", "collected labels"),
    ("outputs", "collected outputs"),
    ("validation_step_outputs", "collected outputs"),
    ("cache", "cache"),
    ("_cache", "cache"),
    ("caches", "cache"),
    ("_bpe_cache", "tokenizer cache"),
    ("param_groups", "optimizer parameters"),
    ("optimizer_state", "optimizer state"),
    ("callbacks", "user callbacks"),
    ("_task_info", "loader queue"),
    ("_data_queue", "loader queue"),
    ("buffer", "buffer"),
];
/// Blocks followed from one container.
const MOST_BLOCKS: usize = 20_000;
/// Containers reported, and looked at.
const MOST_SHOWN: usize = 24;
const MOST_FOUND: usize = 512;
/// Types with more instances than this keep no single container of interest.
const MOST_INSTANCES: u64 = 4096;

/// Looks for all suspects.
pub(crate) fn suspects(ground: &Ground<'_, '_>) -> Vec<Suspect> {
    let finder = Finder { ground };
    let names = finder.names();
    if names.is_empty() {
        return Vec::new();
    }
    let mut found = together(finder.containers(&names));
    found.sort_by_key(|suspect| std::cmp::Reverse((suspect.bytes, suspect.count)));
    found.truncate(MOST_SHOWN);
    found
}

/// One line for all instances of a class that have the same attribute.
fn together(found: Vec<Suspect>) -> Vec<Suspect> {
    let mut lines: Vec<Suspect> = Vec::new();
    for one in found {
        let same = |line: &&mut Suspect| {
            line.attribute == one.attribute && line.holder == one.holder && line.container == one.container
        };
        match lines.iter_mut().find(same) {
            Some(line) => {
                line.count = line.count.saturating_add(one.count);
                line.bytes = line.bytes.saturating_add(one.bytes);
                line.at_least |= one.at_least;
            }
            None => lines.push(one),
        }
    }
    lines
}

/// Which suspect's name the text at the beginning of `bytes` is.
fn suspect_at(bytes: &[u8], offset: usize) -> Option<usize> {
    let (length, text) = (word(bytes, 16) as usize, bytes.get(offset..)?);
    let same = |(name, _): &(&str, &str)| length == name.len() && text.starts_with(name.as_bytes());
    SUSPECTS.iter().position(same)
}

struct Finder<'a, 'b, 'c> {
    ground: &'c Ground<'a, 'b>,
}

/// A dict's table that has a suspect among its keys: where its value is, or its number where values are elsewhere.
struct Place {
    suspect: usize,
    value: u64,
    table: u64,
}

impl Finder<'_, '_, '_> {
    fn word(&self, address: u64) -> Option<u64> {
        self.ground.reader.word(address)
    }

    fn version(&self) -> Version {
        self.ground.types.version
    }

    /// Texts of the target that are a suspect's name, by address.
    fn names(&self) -> FxHashMap<u64, usize> {
        let mut names = FxHashMap::default();
        let offset: usize = if self.version() >= Version(3, 12) { 40 } else { 48 };
        let mut window = Window::new(64 << 10);
        self.ground.index.for_each(|slot, tag, _| {
            let Some(found) = object_of(tag).and_then(|kind| self.ground.types.get(kind)) else { return };
            if found.family() != Family::Str || slot.end - slot.start > 128 {
                return;
            }
            let size = (slot.end - slot.start) as usize;
            let Some(bytes) = window.at(self.ground.reader, slot.start, size, u64::MAX) else { return };
            names.extend(suspect_at(bytes, offset).map(|suspect| (slot.start, suspect)));
        });
        self.static_names(offset, &mut names);
        names
    }

    /// From 3.11 on, names the standard library uses as well are part of the interpreter's own data.
    fn static_names(&self, offset: usize, names: &mut FxHashMap<u64, usize>) {
        const LARGEST: u64 = 64 << 20;
        let text_type =
            self.ground.types.all.iter().find(|found| found.is_plain_text()).map_or(0, |found| found.address);
        let mappings = self.ground.reader.memory().mappings().iter();
        let data = mappings.filter(|map| map.readable && map.writable && !map.shared && map.inode != 0);
        for map in data.filter(|map| map.name.contains("python") && map.end - map.start <= LARGEST) {
            for (start, end) in self.ground.reader.memory().present(map.start, map.end) {
                let mut bytes = vec![0; (end - start) as usize];
                let got = self.ground.reader.fill(start, &mut bytes);
                for at in
                    (0..got.saturating_sub(64)).step_by(8).filter(|at| word(&bytes, at + 8) == text_type)
                {
                    let found = suspect_at(&bytes[at..got], offset);
                    names.extend(found.map(|suspect| (start + at as u64, suspect)));
                }
            }
        }
    }

    /// Tables of dicts with such a name among their keys.
    fn places(&self, names: &FxHashMap<u64, usize>) -> Vec<Place> {
        let mut places = Vec::new();
        let mut window = Window::new(64 << 10);
        self.ground.index.for_each(|slot, tag, _| {
            let raw = tag == RAW || owner_of(tag).is_some();
            if !raw || slot.end - slot.start > 16 << 10 || places.len() >= MOST_FOUND {
                return;
            }
            window.words(self.ground.reader, (slot.start, slot.end & !7), |at, stored| {
                if let Some(suspect) = names.get(&stored)
                    && places.len() < MOST_FOUND
                {
                    places.push(Place { suspect: *suspect, value: at + 8, table: slot.start });
                }
            });
        });
        places
    }

    fn containers(&self, names: &FxHashMap<u64, usize>) -> Vec<Suspect> {
        let places = self.places(names);
        let tables: FxHashSet<u64> = places.iter().map(|place| place.table).collect();
        let (dicts, classes) = self.users(&tables);
        let mut found = Vec::new();
        for place in &places {
            if let Some(dict) = dicts.get(&place.table) {
                let module = names::text_in_dict(self.ground.reader, self.version(), *dict, "__name__");
                let holder = module.map_or(String::new(), |module| format!("module {module}"));
                let value = self.word(place.value).unwrap_or(0);
                found.extend(self.measure(place.suspect, holder, value));
            }
            if let Some(kind) = classes.get(&place.table) {
                self.instances(place, *kind, &mut found);
            }
        }
        found
    }

    /// Who uses these tables: dicts with a table of their own, and classes whose instances share one.
    fn users(&self, tables: &FxHashSet<u64>) -> (FxHashMap<u64, u64>, FxHashMap<u64, u32>) {
        let mut dicts = FxHashMap::default();
        let mut window = Window::new(64 << 10);
        self.ground.index.for_each(|slot, tag, _| {
            let Some(found) = object_of(tag).and_then(|kind| self.ground.types.get(kind)) else { return };
            if found.family() != Family::Dict {
                return;
            }
            let at = object_at(self.ground, slot, found);
            let Some(bytes) = window.at(self.ground.reader, at, 48, u64::MAX) else { return };
            let (keys, values) = (word(bytes, DICT_KEYS as usize), word(bytes, DICT_VALUES as usize));
            if values == 0 && tables.contains(&keys) {
                dicts.insert(keys, at);
            }
        });
        let mut classes = FxHashMap::default();
        for (kind, found) in
            self.ground.types.all.iter().enumerate().filter(|(_, found)| found.is_heap_type())
        {
            // Where a class keeps the table moves from version to version; it is one of its last fields.
            let fields = (50..125).filter_map(|field| self.word(found.address + field * 8));
            fields.filter(|table| tables.contains(table)).for_each(|table| {
                classes.insert(table, kind as u32);
            });
        }
        (dicts, classes)
    }

    /// The attribute of every instance of a class.
    fn instances(&self, place: &Place, kind: u32, out: &mut Vec<Suspect>) {
        let Some(found) = self.ground.types.get(kind).filter(|found| found.count <= MOST_INSTANCES) else {
            return;
        };
        let Some(table) = Table::read(self.ground.reader, self.version(), place.table) else { return };
        let Some(index) =
            place.value.checked_sub(8 + table.entries + table.key).map(|bytes| bytes / table.step)
        else {
            return;
        };
        let tag = crate::index::object_tag(kind);
        self.ground.index.for_each(|slot, other, _| {
            if other == tag && out.len() < MOST_FOUND {
                let at = object_at(self.ground, slot, found);
                let value = self.attribute(found, at, index, place.suspect);
                out.extend(value.and_then(|value| self.measure(place.suspect, found.name.clone(), value)));
            }
        });
    }

    fn attribute(&self, found: &Type, at: u64, index: u64, suspect: usize) -> Option<u64> {
        let in_dict =
            |dict: u64| names::in_dict(self.ground.reader, self.version(), dict, SUSPECTS[suspect].0);
        match self.version() {
            version if found.inline_values(version) => {
                self.word(at + found.basic + 8 + index * 8).filter(|value| *value != 0)
            }
            version if version >= Version(3, 12) => {
                let stored = self.word(at.checked_sub(24)?)?;
                if stored & 7 == 7 { self.word(stored.checked_add(1 + index * 8)?) } else { in_dict(stored) }
            }
            Version(3, 11) => match self.word(at.checked_sub(32)?)? {
                0 => in_dict(self.word(at - 24)?),
                values => self.word(values.checked_add(index * 8)?),
            },
            _ => {
                let dict = self.word(at.checked_add(u64::try_from(found.dict_offset).ok()?)?)?;
                match self.word(dict.checked_add(DICT_VALUES)?)? {
                    0 => in_dict(dict),
                    values => self.word(values.checked_add(index * 8)?),
                }
            }
        }
    }

    /// What is reached from a container.
    fn measure(&self, suspect: usize, holder: String, value: u64) -> Option<Suspect> {
        let slot = if plausible(value) { self.ground.index.find(value) } else { None }?;
        let found = self.ground.types.get(object_of(self.ground.index.tag(slot.id))?)?;
        if object_at(self.ground, slot, found) != value {
            return None;
        }
        if !matches!(found.family(), Family::List | Family::Dict | Family::Tuple) {
            return None;
        }
        let count = self.word(value + DICT_USED).filter(|count| *count > 0)?;
        let (bytes, at_least) = self.reach(slot);
        let (attribute, label) = SUSPECTS[suspect];
        Some(Suspect {
            label: label.to_owned(),
            attribute: attribute.to_owned(),
            holder,
            container: found.name.clone(),
            count,
            bytes: Bytes(bytes),
            at_least,
        })
    }

    /// Bytes of all blocks reached from one, classes and modules left out, up to a bound.
    fn reach(&self, from: Slot) -> (u64, bool) {
        let mut seen: FxHashSet<u32> = std::iter::once(from.id).collect();
        let mut next = vec![from];
        let mut window = Window::new(64 << 10);
        let mut sum = 0;
        while let Some(slot) = next.pop() {
            let size = slot.end - slot.start;
            let found =
                object_of(self.ground.index.tag(slot.id)).and_then(|kind| self.ground.types.get(kind));
            if found.is_some_and(|found| self.is_border(slot, found)) {
                continue;
            }
            sum += size;
            if seen.len() >= MOST_BLOCKS {
                return (sum, true);
            }
            let (from, to) = match found {
                Some(found) => {
                    let (_, from, to) = found.pointers(size, self.version());
                    (slot.start + from, slot.start + to.max(from))
                }
                None => (slot.start, slot.end.min(slot.start + (256 << 10)) & !7),
            };
            window.words(self.ground.reader, (from, to), |_, stored| {
                let below = if plausible(stored) { self.ground.index.find(stored) } else { None };
                if let Some(below) =
                    below.filter(|below| self.ground.index.tag(below.id) != 0 && seen.insert(below.id))
                {
                    next.push(below);
                }
            });
        }
        (sum, false)
    }

    /// Classes and namespaces of modules belong to the program, not to a container.
    fn is_border(&self, slot: Slot, found: &Type) -> bool {
        let namespace =
            |at: u64| names::in_dict(self.ground.reader, self.version(), at, "__builtins__").is_some();
        match found.family() {
            Family::Type => true,
            Family::Dict => namespace(object_at(self.ground, slot, found)),
            Family::Int | Family::List | Family::Tuple | Family::Bytes | Family::Str | Family::Other => {
                Some(found.address) == self.ground.code_type
            }
        }
    }
}
