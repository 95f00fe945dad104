//! The gradients of an optimizer's parameters. Python has no object that holds them: a tensor's native record leads to a second
//! record, and that one to the gradient.
//!
//! Nothing of torch has to be known for it: records of one C++ class begin with the same address, that of its functions. So the
//! gradient of a tensor is a record of the tensor's own class, two steps from its own.

use crate::climb::Ground;
use crate::index::{Slot, object_of};
use crate::names;
use crate::reach::{Reach, Reached};
use crate::reader::plausible;

/// Groups and parameters that are looked at.
const MOST_GROUPS: usize = 64;
const MOST_PARAMETERS: usize = 1 << 14;
/// Bytes of a native record that are looked at.
const RECORD: u64 = 512;

/// What the gradients of all parameters in a list of groups take, and how many there are.
pub(crate) fn gradients(
    ground: &Ground<'_, '_>,
    groups: u64,
    (most, limit): (usize, u64),
) -> Option<(u64, Reached)> {
    let groups = entries(ground, groups, MOST_GROUPS);
    let named = |group: u64| names::in_dict(ground.reader, ground.types.version, group, "params");
    let parameters =
        groups.into_iter().filter_map(named).flat_map(|list| entries(ground, list, MOST_PARAMETERS));
    let mut reach = Reach::new(ground, most, limit);
    let (mut count, mut all) = (0, Reached::default());
    for gradient in parameters.filter_map(|parameter| gradient(ground, parameter)) {
        let one = reach.take_in(vec![gradient]);
        count += 1;
        all.bytes += one.bytes;
        all.at_least |= one.at_least;
        all.cut |= one.cut;
    }
    (count > 0).then_some((count, all))
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
fn records(ground: &Ground<'_, '_>, (from, to): (u64, u64)) -> Vec<Slot> {
    let words = (from..to.min(from + RECORD)).step_by(8).map_while(|at| ground.reader.word(at));
    let begins = |address: u64| ground.index.find_raw(address).filter(|slot| slot.start == address);
    words.filter(|address| plausible(*address)).filter_map(begins).collect()
}

/// Where the functions of a record's class are: in no block of memory.
fn class_of(ground: &Ground<'_, '_>, record: Slot) -> Option<u64> {
    let class = ground.reader.word(record.start).filter(|class| plausible(*class))?;
    ground.index.find(class).is_none().then_some(class)
}
