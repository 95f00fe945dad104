//! The gradients of an optimizer's parameters. Python has no object that holds them: a tensor's native record leads to a second
//! record, and that one to the gradient.
//!
//! Nothing of torch has to be known for it: records of one C++ class begin with the same address, that of its functions. So the
//! gradient of a tensor is a record of the tensor's own class, two steps from its own.

use crate::climb::Ground;
use crate::index::{Slot, object_of};
use crate::names;
use crate::reach::Reached;
use crate::reader::plausible;

/// Groups and parameters that are looked at.
const MOST_GROUPS: usize = 64;
const MOST_PARAMETERS: usize = 1 << 14;
/// Bytes of a native record that are looked at.
const RECORD: u64 = 512;
/// Data that is aligned begins at most so far behind its block.
const PAGE: u64 = 4 << 10;

/// What the gradients of all parameters in a list of groups take, and how many there are.
pub(crate) fn gradients(ground: &Ground<'_, '_>, groups: u64, limit: u64) -> Option<(u64, Reached)> {
    let groups = entries(ground, groups, MOST_GROUPS);
    let named = |group: u64| names::in_dict(ground.reader, ground.types.version, group, "params");
    let parameters: Vec<u64> = groups
        .into_iter()
        .filter_map(named)
        .flat_map(|list| entries(ground, list, MOST_PARAMETERS))
        .collect();
    let looked = parameters.iter().take_while(|_| ground.reader.effort() <= limit);
    let (mut number, mut count, mut bytes, mut absent) = (0, 0, 0, 0);
    for parameter in looked {
        number += 1;
        if let Some(record) = gradient(ground, *parameter) {
            count += 1;
            let parts = [Some(record), data(ground, record)].into_iter().flatten();
            for (here, not_here) in parts.map(|slot| ground.resident(slot)) {
                bytes += here;
                absent += not_here;
            }
        }
    }
    let cut = number < parameters.len();
    (count > 0).then_some((count, Reached { bytes, absent, at_least: cut, cut }))
}

/// The data of a tensor, given its record: two steps from it, and there is one of it. Where a word that was left from
/// before leads to another's as well, the smaller of the large ones is told, so that it is never too much.
fn data(ground: &Ground<'_, '_>, record: Slot) -> Option<Slot> {
    let storages = records(ground, (record.start, record.end)).into_iter().filter(|slot| *slot != record);
    let small = storages.filter(|slot| slot.end - slot.start <= RECORD);
    let words = small.flat_map(|slot| words(ground, (slot.start, slot.end)));
    let near = |address: u64| ground.index.find_raw(address).filter(|slot| address - slot.start < PAGE);
    let size = |slot: &Slot| slot.end - slot.start;
    let all: Vec<Slot> = words.filter_map(near).filter(|slot| *slot != record).collect();
    let large = all.iter().copied().filter(|slot| size(slot) >= PAGE).min_by_key(size);
    large.or_else(|| all.iter().copied().max_by_key(size))
}

/// The entries of a list.
fn entries(ground: &Ground<'_, '_>, list: u64, most: usize) -> Vec<u64> {
    let slot = if plausible(list) { ground.index.find(list) } else { None };
    let range = slot.and_then(|slot| ground.links.list_entries(ground.reader, ground.index, slot));
    let (from, to) = range.unwrap_or_default();
    (from..to).step_by(8).take(most).map_while(|at| ground.reader.word(at)).collect()
}

/// The record of the gradient of the tensor at an address.
fn gradient(ground: &Ground<'_, '_>, at: u64) -> Option<Slot> {
    let slot = if plausible(at) { ground.index.find(at) } else { None }?;
    object_of(ground.index.tag(slot.id))?;
    let own = records(ground, (at + 16, slot.end)).into_iter().next()?;
    let class = class_of(ground, own)?;
    let beside = records(ground, (own.start, own.end)).into_iter();
    let second = beside.flat_map(|beside| records(ground, (beside.start, beside.end)));
    second.filter(|record| *record != own).find(|record| class_of(ground, *record) == Some(class))
}

/// The native records whose beginnings the words of a range lead to.
fn records(ground: &Ground<'_, '_>, range: (u64, u64)) -> Vec<Slot> {
    let begins = |address: u64| ground.index.find_raw(address).filter(|slot| slot.start == address);
    words(ground, range).into_iter().filter_map(begins).collect()
}

/// The words of a record that can be addresses.
fn words(ground: &Ground<'_, '_>, (from, to): (u64, u64)) -> Vec<u64> {
    let words = (from..to.min(from + RECORD)).step_by(8).map_while(|at| ground.reader.word(at));
    words.filter(|address| plausible(*address)).collect()
}

/// Where the functions of a record's class are: in no block of memory.
fn class_of(ground: &Ground<'_, '_>, record: Slot) -> Option<u64> {
    let class = ground.reader.word(record.start).filter(|class| plausible(*class))?;
    ground.index.find(class).is_none().then_some(class)
}
