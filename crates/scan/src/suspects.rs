//! Containers people suspect first, by the names they are held under, with what they really hold.
//!
//! The table gives labels, never an answer: a container is counted by what is reached from it, whatever its name.
//! They are reported even when tiny, because people spend weeks on them.

mod heard;

pub(crate) use heard::Names;

use crate::attributes::{self, Home};
use crate::climb::{Ground, object_at};
use crate::edges::Graph;
use crate::frontier::Frontier;
use crate::gradients::gradients;
use crate::index::{Slot, object_of};
use crate::names::{self, DICT_KEYS, DICT_USED, DICT_VALUES, Table};
use crate::reach::{Deque, Reach, Reached};
use crate::reader::{Window, plausible, word};
use crate::report::Suspect;
use crate::types::{Family, Type, Version};
use lowtide_model::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};

/// Name of an attribute or global, and what people call it.
const SUSPECTS: [(&str, &str); 39] = [
    ("grads", "collected gradients"),
    ("gradients", "collected gradients"),
    ("queue", "queue"),
    ("replay_buffer", "replay buffer"),
    ("seen", "seen items"),
    ("results", "results"),
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
    // Of the regular expressions (from 3.12 on), and of functions that choose by type.
    ("_cache2", "cache"),
    ("dispatch_cache", "cache"),
    // torch.compile: what was compiled, why again, and how long it took.
    ("cached_backends", "compile cache"),
    ("input_codes", "compile cache"),
    ("output_codes", "compile cache"),
    ("guard_failures", "compile cache"),
    ("modules_no_attr", "compile cache"),
    ("linemaps", "compile cache"),
    ("compilation_time_metrics", "compile records"),
    ("_compilation_metrics", "compile records"),
    // Kernels of triton, by device.
    ("device_caches", "compile cache"),
];
/// A name that everybody uses, and the one beside it that tells what it is here: the label for it.
const BESIDE: (&str, &str, &str) = ("state", "param_groups", "optimizer state");
/// A name whose entries are objects of the user's: what those keep is suspected under the same label.
const KEEPERS: &str = "callbacks";
/// Objects among those that are looked at.
const MOST_KEEPERS: u64 = 64;
/// A type whose every object holds a cache: the label for it. C code has it, so no attribute leads there.
const CACHES: (&str, &str, &str) = ("functools", "_lru_cache_wrapper", "lru_cache");
/// Caches of those that are told one by one.
const SINGLE_CACHES: usize = 3;
/// Names of a table that are read to find another one beside a suspect.
const MOST_NAMED: u64 = 64;
/// Blocks followed from one container, and from all caches together.
const MOST_BLOCKS: usize = 20_000;
const MOST_CACHED: usize = 40_000;
/// Containers reported, and looked at.
const MOST_SHOWN: usize = 24;
pub(crate) const MOST_FOUND: usize = 512;
/// Objects whose attributes are looked at.
const MOST_OBJECTS: usize = 1 << 16;
/// Where a set keeps the number of its entries.
const SET_USED: u64 = 24;
/// Types with more instances than this keep no single container of interest.
const MOST_INSTANCES: u64 = 4096;

/// Larger tables of keys belong to data, not to attributes or globals.
pub(crate) const LARGEST_TABLE: u64 = 16 << 10;

/// Looks for all suspects.
pub(crate) fn suspects(ground: &Ground<'_, '_>, graph: Option<&Graph>, places: &[Place]) -> Vec<Suspect> {
    if places.is_empty() {
        return Vec::new();
    }
    let graph = graph.filter(|graph| !graph.full);
    let mut found = together(Finder { ground, graph, limit: ground.limit() }.containers(places));
    found.sort_by_key(|suspect| std::cmp::Reverse((suspect.cut, suspect.bytes, suspect.count)));
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
                line.absent_bytes = line.absent_bytes.saturating_add(one.absent_bytes);
                line.at_least |= one.at_least;
                line.cut |= one.cut;
            }
            None => lines.push(one),
        }
    }
    lines
}

struct Finder<'a, 'b, 'c> {
    ground: &'c Ground<'a, 'b>,
    /// Which block leads to which, where that is known.
    graph: Option<&'c Graph>,
    /// Where reading ends: what was not followed by then is said to be at least so much.
    limit: u64,
}

/// A dict's table that has a suspect among its keys: where its value is, or its number where values are elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) suspect: usize,
    pub(crate) value: u64,
    pub(crate) table: u64,
}

impl Place {
    /// The name, and its label.
    fn name(&self) -> (&'static str, &'static str) {
        SUSPECTS.get(self.suspect).copied().unwrap_or((BESIDE.0, BESIDE.2))
    }

    fn named(&self, holder: String) -> Named {
        let (attribute, label) = self.name();
        Named { label, attribute: attribute.to_owned(), holder }
    }
}

/// A name, who has it, and what people call it.
struct Named {
    label: &'static str,
    attribute: String,
    /// Empty where it is a key of a dict that is nobody's own.
    holder: String,
}

impl Named {
    /// What was found under the name.
    fn told(self, container: &str, count: u64, reached: Reached) -> Suspect {
        Suspect {
            label: self.label.to_owned(),
            attribute: self.attribute,
            holder: self.holder,
            container: container.to_owned(),
            count,
            bytes: Bytes(reached.bytes),
            absent_bytes: Bytes(reached.absent),
            at_least: reached.at_least,
            cut: reached.cut,
        }
    }
}

/// Who uses tables with suspected names.
#[derive(Default)]
struct Users {
    dicts: FxHashMap<u64, u64>,
    classes: FxHashMap<u64, u32>,
    /// Objects of those classes.
    instances: Vec<(u32, u64)>,
    /// Objects of [`CACHES`].
    caches: Vec<u64>,
}

/// What objects of a type are here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Role {
    dict: bool,
    instance: bool,
    cache: bool,
}

impl Role {
    fn of(kind: u32, found: &Type, wanted: &FxHashSet<u32>) -> Self {
        let instance = found.count <= MOST_INSTANCES && wanted.contains(&kind);
        let cache = (found.module.as_str(), found.name.as_str()) == (CACHES.0, CACHES.1);
        Self { dict: found.family() == Family::Dict, instance, cache }
    }
}

impl Finder<'_, '_, '_> {
    fn word(&self, address: u64) -> Option<u64> {
        self.ground.reader.word(address)
    }

    fn version(&self) -> Version {
        self.ground.types.version
    }

    fn containers(&self, places: &[Place]) -> Vec<Suspect> {
        let places: Vec<Place> = places.iter().copied().chain(self.beside(places)).collect();
        let tables: FxHashSet<u64> = places.iter().map(|place| place.table).collect();
        let users = self.users(&tables);
        let holders = self.holders(users.dicts.values().copied());
        let mut found = Vec::new();
        for place in &places {
            if let Some(dict) = users.dicts.get(&place.table) {
                let holder = holders.get(dict).cloned().unwrap_or_default();
                self.add(place.named(holder), self.word(place.value).unwrap_or(0), &mut found);
            }
            if let Some(kind) = users.classes.get(&place.table) {
                let instances = users.instances.iter().filter(|(of, _)| of == kind).map(|(_, at)| *at);
                self.instances(place, *kind, instances, &mut found);
            }
        }
        found.extend(self.caches(&users.caches));
        found
    }

    /// Where the name of [`BESIDE`] stands that tells nothing alone.
    fn beside(&self, places: &[Place]) -> Vec<Place> {
        let telling = places.iter().filter(|place| place.name().0 == BESIDE.1);
        let beside = telling.filter_map(|place| {
            let table = Table::read(self.ground.reader, self.version(), place.table)?;
            let number = (0..table.count.min(MOST_NAMED)).find(|number| {
                let key = table.entry(self.ground.reader, *number).map(|(key, _)| key);
                key.and_then(|key| names::text(self.ground.reader, self.version(), key)).as_deref()
                    == Some(BESIDE.0)
            })?;
            let value = table.entries + number * table.step + table.key + 8;
            Some(Place { suspect: SUSPECTS.len(), value, table: place.table })
        });
        beside.collect()
    }

    /// What a name stands for, if that holds something, and what is kept by the objects in it.
    fn add(&self, named: Named, value: u64, out: &mut Vec<Suspect>) {
        if named.attribute == KEEPERS {
            self.kept(&named, value, out);
        }
        if named.attribute == BESIDE.1 {
            out.extend(self.gradients(&named.holder, value));
        }
        out.extend(self.measure(named, value));
    }

    /// The gradients of the parameters that an optimizer has.
    fn gradients(&self, holder: &str, groups: u64) -> Option<Suspect> {
        let (count, reached) = gradients(self.ground, groups, self.limit)?;
        let named = Named { label: "gradients", attribute: "grad".to_owned(), holder: holder.to_owned() };
        Some(named.told("native", count, reached))
    }

    /// Lists, dicts and the like that the objects of a list keep.
    fn kept(&self, named: &Named, list: u64, out: &mut Vec<Suspect>) {
        let slot = self.ground.index.find(list);
        let entries =
            slot.and_then(|slot| self.ground.links.list_entries(self.ground.reader, self.ground.index, slot));
        let Some((from, to)) = entries else { return };
        for at in (from..to.min(from.saturating_add(MOST_KEEPERS * 8))).step_by(8) {
            let Some((object, found)) = self.word(at).and_then(|at| Some((at, self.object(at)?.1))) else {
                continue;
            };
            for (attribute, value) in attributes::all(self.ground, found, object) {
                let known = SUSPECTS.iter().any(|(name, _)| *name == attribute);
                let named = Named { label: named.label, attribute, holder: found.name.clone() };
                let keeps = self.object(value).is_some_and(|(_, found)| found.family() != Family::Tuple)
                    && self.entries(&named, value).is_some_and(|count| count > 0);
                out.extend(self.measure(named, value).filter(|_| keeps && !known));
            }
        }
    }

    /// All objects of [`CACHES`] together, and the largest of them: what several lead to counts once.
    fn caches(&self, caches: &[u64]) -> Vec<Suspect> {
        let mut reach = Reach::new(self.ground, MOST_CACHED, self.limit);
        let named = |holder| Named { label: CACHES.2, attribute: CACHES.2.to_owned(), holder };
        let mut single = Vec::new();
        for (at, (count, slots)) in caches.iter().filter_map(|at| Some((*at, self.cache(*at)?))) {
            let Some(found) = slots.first().and_then(|dict| self.type_of(*dict)) else { continue };
            let reached = reach.take_in(slots);
            single.push(named(self.function_of(at).unwrap_or_default()).told(&found.name, count, reached));
        }
        let nameless = single.iter().map(|one| Suspect { holder: String::new(), ..one.clone() });
        let all = together(nameless.collect());
        single.retain(|one| !one.holder.is_empty());
        single.sort_by_key(|one| std::cmp::Reverse((one.bytes, one.count)));
        single.into_iter().take(SINGLE_CACHES).chain(all).collect()
    }

    /// The function that an object of [`CACHES`] is for, with its module.
    fn function_of(&self, at: u64) -> Option<String> {
        let (_, found) = self.object(at)?;
        let attributes = attributes::all(self.ground, found, at);
        let text = |name: &str| {
            let (_, value) = attributes.iter().find(|(attribute, _)| attribute == name)?;
            names::text(self.ground.reader, self.version(), *value)
        };
        Some(format!("{}.{}", text("__module__")?, text("__qualname__")?))
    }

    /// Who has each of some dicts: a module, a class, or an instance that has its attributes there.
    fn holders(&self, dicts: impl Iterator<Item = u64>) -> FxHashMap<u64, String> {
        let (mut named, mut nameless) = (FxHashMap::default(), FxHashSet::default());
        for dict in dicts {
            let holder = self.holder_of(dict);
            if holder.is_empty() {
                nameless.insert(dict);
            } else {
                named.insert(dict, holder);
            }
        }
        let users = self.graph.map(|graph| self.leading_to(graph, &nameless)).unwrap_or_default();
        for slot in users.into_iter().filter_map(|id| self.ground.index.slot(id)) {
            let Some(found) = self.type_of(slot) else { continue };
            let home = attributes::home(self.ground, found, object_at(self.ground, slot, found));
            if let Some(Home::Dict(dict)) = home
                && nameless.contains(&dict)
            {
                named.insert(dict, found.name.clone());
            }
        }
        named
    }

    /// Whose names a dict keeps: a module's, or those of a class in one.
    fn holder_of(&self, dict: u64) -> String {
        let text = |name: &'static str| names::text_in_dict(self.ground.reader, self.version(), dict, name);
        let module = text("__name__").map(|module| format!("module {module}"));
        module.or_else(|| text("__module__").map(|module| format!("class of {module}"))).unwrap_or_default()
    }

    /// The largest dict that an object of [`CACHES`] points to and how many entries it has, with the ends of the chain that
    /// its entries are in: nothing else leads to those.
    fn cache(&self, at: u64) -> Option<(u64, Vec<Slot>)> {
        const FIELDS: u64 = 16;
        let slot = self.ground.index.find(at)?;
        let fields = (2..FIELDS).map(|field| at + field * 8).take_while(|place| *place < slot.end);
        let objects: Vec<(u64, Slot, &Type)> = fields
            .filter_map(|place| self.word(place))
            .filter_map(|value| self.object(value).map(|(slot, found)| (value, slot, found)))
            .collect();
        let dicts = objects.iter().filter(|(_, _, found)| found.family() == Family::Dict);
        let sizes = dicts.filter_map(|(at, slot, _)| Some((self.word(at + DICT_USED)?, *slot)));
        let (count, dict) = sizes.max_by_key(|(count, _)| *count).filter(|(count, _)| *count > 0)?;
        let ends = objects.iter().filter(|(_, _, found)| !found.has_gc() && found.leads);
        Some((count, std::iter::once(dict).chain(ends.map(|(_, slot, _)| *slot)).collect()))
    }

    /// Who uses these tables: dicts with a table of their own, and classes whose instances share one.
    fn users(&self, tables: &FxHashSet<u64>) -> Users {
        let mut users = Users { classes: self.classes(tables), ..Users::default() };
        let wanted: FxHashSet<u32> = users.classes.values().copied().collect();
        let types = self.ground.types.all.iter().enumerate();
        let roles: Vec<Role> = types.map(|(kind, found)| Role::of(kind as u32, found, &wanted)).collect();
        let users_of = self.graph.map(|graph| self.leading_to(graph, tables));
        let mut window = Window::new(64 << 10);
        let role =
            |tag| object_of(tag).and_then(|kind| roles.get(kind as usize).copied()).unwrap_or_default();
        let mut dict = |users: &mut Users, at: u64| {
            let Some(bytes) = window.at(self.ground.reader, at, 48, u64::MAX) else { return };
            let (keys, values) = (word(bytes, DICT_KEYS as usize), word(bytes, DICT_VALUES as usize));
            if values == 0 && tables.contains(&keys) {
                users.dicts.insert(keys, at);
            }
        };
        let place = |slot: Slot| {
            let kind = object_of(self.ground.index.tag(slot.id))?;
            Some((kind, role(self.ground.index.tag(slot.id)), self.ground.types.get(kind)?))
        };
        for id in users_of.iter().flatten() {
            let slot = self.ground.index.slot(*id);
            if let Some((slot, (_, role, found))) = slot.and_then(|slot| Some((slot, place(slot)?)))
                && role.dict
            {
                dict(&mut users, object_at(self.ground, slot, found));
            }
        }
        let all_dicts = users_of.is_none();
        self.ground.index.for_each_wanted(
            |tag| {
                let role = role(tag);
                role.cache || role.instance || all_dicts && role.dict
            },
            |slot, _, _| {
                let Some((kind, role, found)) = place(slot) else { return };
                let at = object_at(self.ground, slot, found);
                if role.cache && users.caches.len() < MOST_FOUND {
                    users.caches.push(at);
                }
                if role.instance && users.instances.len() < MOST_OBJECTS {
                    users.instances.push((kind, at));
                }
                if all_dicts && role.dict {
                    dict(&mut users, at);
                }
            },
        );
        users
    }

    /// The objects that lead to these tables.
    fn leading_to(&self, graph: &Graph, tables: &FxHashSet<u64>) -> Vec<u32> {
        let mut wanted = Frontier::new(self.ground.index.slots());
        let slots = tables.iter().filter_map(|table| self.ground.index.find(*table));
        slots.for_each(|slot| wanted.insert(slot.id));
        let mut users = Vec::new();
        graph.each_object(|id, below| {
            if wanted.contains(below) {
                users.push(id);
            }
        });
        users.sort_unstable();
        users.dedup();
        users
    }

    fn classes(&self, tables: &FxHashSet<u64>) -> FxHashMap<u64, u32> {
        let mut classes = FxHashMap::default();
        let types = self.ground.types.all.iter().enumerate();
        for (kind, found) in types.filter(|(_, found)| found.is_heap_type()) {
            // Where a class keeps the table moves from version to version; it is one of its last fields.
            let fields = (50..125).filter_map(|field| self.word(found.address + field * 8));
            fields.filter(|table| tables.contains(table)).for_each(|table| {
                classes.insert(table, kind as u32);
            });
        }
        classes
    }

    /// The attribute of every instance of a class.
    fn instances(
        &self,
        place: &Place,
        kind: u32,
        instances: impl Iterator<Item = u64>,
        out: &mut Vec<Suspect>,
    ) {
        let Some(found) = self.ground.types.get(kind) else { return };
        let Some(table) = Table::read(self.ground.reader, self.version(), place.table) else { return };
        let Some(index) =
            place.value.checked_sub(8 + table.entries + table.key).map(|bytes| bytes / table.step)
        else {
            return;
        };
        for at in instances.take(MOST_FOUND.saturating_sub(out.len())) {
            let value = match attributes::home(self.ground, found, at) {
                Some(Home::Values(values)) => self.word(values.saturating_add(index * 8)),
                Some(Home::Dict(dict)) => {
                    names::in_dict(self.ground.reader, self.version(), dict, place.name().0)
                }
                None => None,
            };
            value.into_iter().for_each(|value| self.add(place.named(found.name.clone()), value, out));
        }
    }

    /// What is held under a name, if that is a holder.
    fn measure(&self, named: Named, value: u64) -> Option<Suspect> {
        let (slot, found) = self.object(value)?;
        let count = self.entries(&named, value)?;
        let reached = Reach::new(self.ground, MOST_BLOCKS, self.limit).take_in(vec![slot]);
        Some(named.told(&found.name, count, reached))
    }

    /// How many entries a container has; 0 where it does not tell (an object of some class). Nothing when it is empty or none.
    /// In a dict that is nobody's own, only what can grow is one: others describe what a class has by that name.
    fn entries(&self, named: &Named, at: u64) -> Option<u64> {
        let (slot, found) = self.object(at)?;
        let some = |count: u64| Some(count).filter(|count| *count > 0);
        let is_set = self.ground.set_type.is_some_and(|set| found.address == set || found.base == set);
        match found.family() {
            Family::List | Family::Dict => some(self.word(at + DICT_USED)?),
            Family::Other if is_set => some(self.word(at + SET_USED)?),
            Family::Other if let Some(deque) = Deque::at(self.ground, at) => some(deque.length),
            _ if named.holder.is_empty() => None,
            Family::Tuple => some(self.word(at + DICT_USED)?),
            Family::Other if found.has_gc() && found.is_heap_type() && slot.end - slot.start > 16 => Some(0),
            Family::Int | Family::Bytes | Family::Str | Family::Type | Family::Other => None,
        }
    }

    /// The object at an address.
    fn object(&self, at: u64) -> Option<(Slot, &Type)> {
        let slot = if plausible(at) { self.ground.index.find(at) } else { None }?;
        let found = self.type_of(slot)?;
        (object_at(self.ground, slot, found) == at).then_some((slot, found))
    }

    fn type_of(&self, slot: Slot) -> Option<&Type> {
        object_of(self.ground.index.tag(slot.id)).and_then(|kind| self.ground.types.get(kind))
    }
}
