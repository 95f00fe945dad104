//! The frames of running functions: where their locals lie.
//!
//! Why locals come before all else in a frame: a caller's stack still has the word of an argument that it handed over, and above
//! its top the words of values that are long gone. Those have no name; the local that has the argument now does.

use crate::climb::{Ground, object_at};
use crate::index::{Slot, object_of};
use crate::reader::{Window, plausible};
use crate::stacks::live_stacks;
use crate::types::{Type, Version};
use rustc_hash::FxHashSet;

/// Locals of a function that are looked at.
pub(crate) const MOST_LOCALS: u64 = 512;
/// Larger than what a code object has before its instructions.
const CODE_HEAD: u64 = 512;
/// Where a code object has the names of its locals (3.11 and later).
pub(crate) const CODE_LOCALS: u64 = 96;
/// Offsets in a frame that is an object (before 3.11): its code, and where the values begin that have no name.
const OLD_CODE: u64 = 32;
const OLD_VALUES: u64 = 64;

/// A local: the code of its function, and which of its locals it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Local {
    pub(crate) code: u64,
    pub(crate) index: u64,
}

/// By what a frame holds a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByFrame {
    Local(Local),
    /// A value that has no name, or a word that is left from before.
    Nameless,
}

/// A frame: the code of its function, and where its locals lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    code: u64,
    locals: (u64, u64),
}

/// Where the frames of running functions are, and the frames.
#[derive(Default)]
pub(crate) struct Running {
    /// The memory of frames that are no objects (3.11 and later).
    pub(crate) stacks: Vec<(u64, u64)>,
    frames: Vec<Frame>,
}

impl Running {
    pub(crate) fn find(ground: &Ground<'_, '_>) -> Self {
        let mut found = Self::default();
        if ground.types.version >= Version(3, 11) {
            found.stacks = live_stacks((ground.reader, ground.index), ground.frames, ground.outside);
            let mut window = Window::new(64 << 10);
            for range in &found.stacks {
                window.words(ground.reader, *range, |at, stored| {
                    found.frames.extend(frame_at(ground, at, stored & !3));
                });
            }
        } else {
            ground.index.for_each_wanted(
                |tag| is_frame(ground, tag).is_some(),
                |slot, tag, _| {
                    let frame = is_frame(ground, tag).map(|found| (object_at(ground, slot, found), found));
                    found.frames.extend(frame.and_then(|(at, found)| old_frame(ground, at, found, slot.end)));
                },
            );
        }
        found
    }

    /// Every local that has a value: what is in it.
    pub(crate) fn locals(&self, ground: &Ground<'_, '_>, mut each: impl FnMut(Local, u64)) {
        let mut window = Window::new(64 << 10);
        for Frame { code, locals } in &self.frames {
            window.words(ground.reader, *locals, |at, stored| {
                each(Local { code: *code, index: (at - locals.0) / 8 }, stored & !3);
            });
        }
    }
}

/// The types of objects that have a frame within them, which waits to go on.
const WAITING: [&str; 3] = ["generator", "coroutine", "async_generator"];
/// Of those, as many are looked at.
const MOST_WAITING: usize = 4096;

impl Running {
    /// The frames of generators and their like that a running function only works with, as a `for` does with the one it goes
    /// through: no name leads to those, and what they keep is theirs.
    pub(crate) fn waiting(&self, ground: &Ground<'_, '_>) -> Self {
        let mut found = Self::default();
        let mut window = Window::new(64 << 10);
        let mut seen = FxHashSet::default();
        let mut ranges = self.stacks.clone();
        while let Some(range) = ranges.pop() {
            let mut met = Vec::new();
            window.words(ground.reader, range, |_, stored| {
                let target = ground.links.target(ground.index, stored & !3);
                let waiting = target.filter(|slot| is_waiting(ground, *slot));
                met.extend(waiting.filter(|slot| seen.len() < MOST_WAITING && seen.insert(slot.id)));
            });
            for slot in met {
                // One of them may work with another.
                ranges.push((slot.start, slot.end));
                window.words(ground.reader, (slot.start, slot.end), |at, stored| {
                    found.frames.extend(frame_at(ground, at, stored & !3));
                });
            }
        }
        found
    }
}

fn is_waiting(ground: &Ground<'_, '_>, slot: Slot) -> bool {
    let found = object_of(ground.index.tag(slot.id)).and_then(|kind| ground.types.get(kind));
    found.is_some_and(|found| found.module == "builtins" && WAITING.contains(&found.name.as_str()))
}

/// The type of a frame, if a block with this tag is one.
pub(crate) fn is_frame<'g>(ground: &'g Ground<'_, '_>, tag: crate::index::Tag) -> Option<&'g Type> {
    let found = object_of(tag).and_then(|kind| ground.types.get(kind))?;
    (ground.frame_type == Some(found.address)).then_some(found)
}

/// Bytes from a frame's code to its place in that, and to its locals.
pub(crate) fn offsets(version: Version) -> Option<(u64, u64)> {
    match version {
        version if version >= Version(3, 14) => Some((56, 80)),
        version if version >= Version(3, 12) => Some((56, 72)),
        Version(3, 11) => Some((24, 40)),
        _ => None,
    }
}

/// The frame whose code is told at `at`: it says where in that code it is.
fn frame_at(ground: &Ground<'_, '_>, at: u64, code: u64) -> Option<Frame> {
    let (place, locals) = offsets(ground.types.version)?;
    let word = |address: u64| ground.reader.word(address);
    // Code that came with the interpreter lies in its own data.
    let other = || {
        let kind =
            ground.links.target(ground.index, code).and_then(|slot| object_of(ground.index.tag(slot.id)));
        let found = kind.and_then(|kind| ground.types.get(kind));
        found.is_some_and(|found| Some(found.address) != ground.code_type)
    };
    if !plausible(code) || other() || word(code + 8) != ground.code_type {
        return None;
    }
    let instructions = word(code + 16)?.checked_mul(2)?.checked_add(CODE_HEAD)?;
    let inside = word(at + place)?.checked_sub(code)? < instructions;
    let count = word(word(code + CODE_LOCALS)?.checked_add(16)?).filter(|count| *count <= MOST_LOCALS)?;
    let begin = at + locals;
    inside.then_some(Frame { code, locals: (begin, begin + count * 8) })
}

/// A frame that is an object: its locals, and behind them its cells, lie before its other values.
fn old_frame(ground: &Ground<'_, '_>, at: u64, found: &Type, end: u64) -> Option<Frame> {
    let begin = old_locals(at, found);
    let values = ground.reader.word(at + OLD_VALUES).filter(|values| (begin..=end).contains(values))?;
    let code = ground.reader.word(at + OLD_CODE)?;
    (values - begin <= MOST_LOCALS * 8).then_some(Frame { code, locals: (begin, values) })
}

/// Where the locals of a frame begin that is an object.
fn old_locals(at: u64, found: &Type) -> u64 {
    at + found.basic - 8
}

/// The local at a place of a frame that is an object.
pub(crate) fn old_local(ground: &Ground<'_, '_>, at: u64, found: &Type, place: u64) -> Option<Local> {
    let index = place.checked_sub(old_locals(at, found))? / 8;
    Some(Local { code: ground.reader.word(at + OLD_CODE)?, index })
}
