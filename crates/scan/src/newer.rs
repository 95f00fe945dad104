//! Names that lead to what came while the scan went on.
//!
//! The head of a linked list moves: by the time its name is read, it leads to an object that was not there when objects were
//! counted, and nothing that is known leads to the others. They are no garbage then.

use crate::attributes;
use crate::climb::{Ground, object_at};
use crate::frames::Running;
use crate::index::{FREE, Slot, object_of};
use crate::links::unmarked;
use crate::names::{self, DICT_KEYS, Table};
use crate::path::Namer;
use crate::reader::{Window, plausible};
use crate::tree::{Tree, namespaces};

/// What was counted, and the kinds of what nothing leads to.
type Known<'k, 'a, 'b> = (&'k Ground<'a, 'b>, &'k Tree<'k>, &'k [u32]);

/// Names of one module, and instances of classes that names lead to, that are looked at.
const MOST_NAMES: u64 = 4096;
const MOST_INSTANCES: usize = 4096;

/// The first name that leads to an object which came meanwhile, directly or by an attribute: one that was not there, or one of
/// `kinds`, which are what nothing leads to, that has been put where another one was.
pub(crate) fn newer((ground, tree, kinds): Known<'_, '_, '_>) -> Option<String> {
    ground.reader.refresh();
    let (mut found, mut instances) = (None, MOST_INSTANCES);
    let limit = ground.limit();
    namespaces(ground, |dict| {
        if found.is_none() && ground.reader.effort() < limit {
            found = global((ground, tree, kinds), dict, &mut instances);
        }
    });
    found.or_else(|| local((ground, tree, kinds)))
}

fn global((ground, tree, kinds): Known<'_, '_, '_>, dict: u64, instances: &mut usize) -> Option<String> {
    let (reader, version) = (ground.reader, ground.types.version);
    let table = Table::read(reader, version, reader.word(dict.checked_add(DICT_KEYS)?)?)?;
    let mut entries = (0..table.count.min(MOST_NAMES)).map_while(|number| table.entry(reader, number));
    let (key, _) = entries.find(|(_, value)| {
        came((ground, tree, kinds), *value) || attribute_came((ground, tree, kinds), *value, instances)
    })?;
    let module = names::text_in_dict(reader, version, dict, "__name__")?;
    Some(format!("global {} of module {module}", names::text(reader, version, key)?))
}

fn local((ground, tree, kinds): Known<'_, '_, '_>) -> Option<String> {
    let mut found = None;
    Running::find(ground).locals(ground, |local, stored| {
        if found.is_none() && came((ground, tree, kinds), stored) {
            found = Namer { ground }.local(local, 0).map(|top| top.name);
        }
    });
    found
}

/// Whether an instance of a class leads by an attribute to an object that came meanwhile.
fn attribute_came((ground, tree, kinds): Known<'_, '_, '_>, at: u64, instances: &mut usize) -> bool {
    let slot = if plausible(at) { ground.index.find(at) } else { None };
    let typed = slot.and_then(|slot| {
        let found = ground.types.get(object_of(ground.index.tag(slot.id))?)?;
        (found.is_heap_type() && object_at(ground, slot, found) == at).then_some(found)
    });
    let Some(found) = typed.filter(|_| *instances > 0) else { return false };
    *instances -= 1;
    attributes::all(ground, found, at).iter().any(|(_, value)| came((ground, tree, kinds), *value))
}

/// Whether what is at an address was not there when blocks were counted: it is in one that was free then, or where nothing was
/// resident. Memory of no allocator, and what came with a file, was not counted at all.
fn came((ground, tree, kinds): Known<'_, '_, '_>, address: u64) -> bool {
    if !plausible(address) {
        return false;
    }
    if let Some(slot) = ground.index.find(address)
        && object_of(ground.index.tag(slot.id)).is_some_and(|kind| kinds.contains(&kind))
    {
        return is_another((ground, tree), slot);
    }
    let within = |ranges: &[(u64, u64)]| ranges.iter().any(|range| (range.0..range.1).contains(&address));
    let of_file = || {
        let mut mappings = ground.reader.memory().mappings().iter();
        mappings.any(|map| map.inode != 0 && (map.start..map.end).contains(&address))
    };
    let new = match ground.index.find(address) {
        Some(slot) => ground.index.tag(slot.id) == FREE,
        None => ground.resident.within(address, address + 8) == 0 && !within(ground.outside) && !of_file(),
    };
    new && may_hold(ground, address)
}

/// Whether an object no longer leads to what it led to when it was read: allocators hand out again what was given back last, so the
/// next object of its kind lies where the one before it did.
fn is_another((ground, tree): (&Ground<'_, '_>, &Tree<'_>), slot: Slot) -> bool {
    let mut before = tree.led_to(slot.id);
    let mut window = Window::new(4096);
    window.words(ground.reader, (slot.start, slot.end), |_, stored| {
        let now = ground.links.target(ground.index, unmarked(stored)).map(|block| block.id);
        let raw = || ground.index.find(unmarked(stored)).map(|block| block.id);
        before.retain(|id| Some(*id) != now && Some(*id) != raw());
    });
    !before.is_empty()
}

/// Whether an object could hold others: a counter is a new number each time that it is looked at. What lies on a page that was not
/// there before is not read.
fn may_hold(ground: &Ground<'_, '_>, address: u64) -> bool {
    let Some(of) = ground.reader.word(address + 8) else { return true };
    let kind = ground.types.all.iter().position(|found| found.address == of);
    let lead = kind.and_then(|kind| ground.links.get(kind as u32));
    lead.is_some_and(|lead| lead.holds && !lead.is_leaf())
}
