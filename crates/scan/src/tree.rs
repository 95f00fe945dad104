//! For every block the one above it on a shortest way from a name a person knows.
//!
//! One search in width from the namespaces of all modules, then from the locals of running functions for what is
//! left, both by references of Python's own; then by any word of the native blocks that were met, some of which are left from
//! before, those to blocks of the same owner first; then from the other words of frames, until everything that is asked for was met. It goes over what `edges.rs`
//! remembers and reads nothing of the target but where it begins; three bytes for each block that leads on remember the ways.

use crate::above::Above;
use crate::climb::{Ground, object_at};
use crate::edges::{Cursors, Graph, What, Words};
use crate::frames::{ByFrame, Running, is_frame};
use crate::frontier::Frontier;
use crate::index::{Index, object_of, owner_of};
use crate::links::Lead;
use crate::moved::Moved;
use crate::names;
use crate::reader::{Window, word};
use crate::types::{Family, Type, Version};
use rustc_hash::{FxHashMap, FxHashSet};

/// Modules that are read together.
const TOGETHER: usize = 1024;

/// The ways.
pub(crate) struct Tree<'g> {
    graph: &'g Graph,
    /// By the number of a block's list: the number of the list that leads to it.
    above: Above,
    /// Blocks that were asked for and lead nowhere: who leads to them.
    ends: FxHashMap<u32, u32>,
    /// Blocks that a frame holds directly, and by what.
    frames: FxHashMap<u32, ByFrame>,
    /// Whether words of frames that have no name were followed.
    nameless: bool,
    /// Whether something is missing for want of memory or time.
    pub(crate) cut: bool,
}

impl Tree<'_> {
    /// The block above.
    pub(crate) fn above(&self, id: u32) -> Option<u32> {
        let lists = &self.graph.lists;
        match lists.number(id) {
            Some(number) => self.above.of(number).and_then(|above| lists.select(above)).map(|id| id as u32),
            None => self.ends.get(&id).copied(),
        }
    }

    /// Calls `each` with every block that one led to when it was read. Quick for those who ask in ascending order.
    pub(crate) fn below(
        &self,
        ground: &Ground<'_, '_>,
        id: u32,
        cursors: &mut Cursors,
        each: impl FnMut(u32),
    ) {
        self.graph.below((id, what(ground, id)), (Words::All, |_| true), cursors, each);
    }

    /// By what a frame holds the block, if one does.
    pub(crate) fn frame(&self, id: u32) -> Option<ByFrame> {
        self.frames.get(&id).copied()
    }

    /// Whether a way from a name to the block is known.
    pub(crate) fn is_named(&self, id: u32) -> bool {
        !self.nameless && self.is_reached(id)
    }

    /// Bytes this takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        self.above.own_bytes() + (self.frames.capacity() as u64 + self.ends.capacity() as u64) * 16
    }

    /// Whether a way to the block is known.
    pub(crate) fn is_reached(&self, id: u32) -> bool {
        match self.graph.lists.number(id) {
            Some(number) => self.above.is_reached(number),
            None => self.ends.contains_key(&id) || self.frames.contains_key(&id),
        }
    }
}

/// What a block is.
fn what(ground: &Ground<'_, '_>, id: u32) -> What {
    match object_of(ground.index.tag(id)) {
        Some(_) => What::Object,
        None if ground.tables.contains(id) => What::Table,
        None => What::Native,
    }
}

impl<'g> Tree<'g> {
    /// Searches until the ways to all of `wanted` are known, or everything was looked at; it does not begin anew from other places
    /// for what is left when that is `few`. Never from the first to the second of `stale`, and through the new tables of those that
    /// `moved`.
    pub(crate) fn grow(
        ground: &Ground<'_, '_>,
        graph: &'g Graph,
        (wanted, few): (Frontier, &dyn Fn(&Tree<'_>) -> bool),
        (stale, moved): (&FxHashSet<(u32, u32)>, &Moved),
    ) -> Self {
        let slots = ground.index.slots();
        let tree = Self {
            graph,
            above: Above::new(graph.len()),
            ends: FxHashMap::default(),
            frames: FxHashMap::default(),
            nameless: false,
            cut: graph.full,
        };
        let [next, spare, met, later] = [(); 4].map(|()| Frontier::new(slots));
        let mut search =
            Search { ground, tree, next, spare, wanted, met, stale, moved, words: Words::Begins, later };
        let is_over = |search: &Search<'_, '_, '_, '_>| search.is_over() || few(&search.tree);
        search.modules();
        search.run();
        if is_over(&search) {
            return search.tree;
        }
        let running = Running::find(ground);
        search.locals(&running);
        search.run();
        if !is_over(&search) {
            search.locals(&running.waiting(ground));
            search.run();
        }
        for words in [Words::Own, Words::All] {
            if !is_over(&search) {
                search.go_on(words);
                search.run();
            }
        }
        if !is_over(&search) {
            search.tree.nameless = true;
            search.frames(&running);
            search.run();
        }
        search.tree
    }
}

struct Search<'a, 'b, 'c, 'g> {
    ground: &'c Ground<'a, 'b>,
    tree: Tree<'g>,
    next: Frontier,
    /// An empty one, for the level after.
    spare: Frontier,
    /// What is asked for and was not reached yet.
    wanted: Frontier,
    /// Blocks that were met and lead on: quick to ask, most are met more than once.
    met: Frontier,
    stale: &'c FxHashSet<(u32, u32)>,
    moved: &'c Moved,
    /// Which words of native blocks are followed, and the blocks that lead on by others: native ones, and those that lead to
    /// blocks of another owner.
    words: Words,
    later: Frontier,
}

impl Search<'_, '_, '_, '_> {
    /// Begins at the namespaces of modules.
    fn modules(&mut self) {
        let ground = self.ground;
        namespaces(ground, |dict| ground.index.find(dict).into_iter().for_each(|slot| self.root(slot.id)));
    }

    /// Begins at the locals of running functions.
    fn locals(&mut self, running: &Running) {
        running.locals(self.ground, |local, stored| self.held_by_frame(stored, ByFrame::Local(local)));
    }

    /// Goes on by more words.
    fn go_on(&mut self, words: Words) {
        self.words = words;
        self.next = std::mem::replace(&mut self.later, Frontier::new(self.ground.index.slots()));
    }

    /// Begins at what else is in the frames of running functions: values that have no name, and words left from before.
    fn frames(&mut self, running: &Running) {
        let ground = self.ground;
        let mut window = Window::new(64 << 10);
        for range in &running.stacks {
            window
                .words(ground.reader, *range, |_, stored| self.held_by_frame(stored & !3, ByFrame::Nameless));
        }
        if ground.types.version < Version(3, 11) {
            let wanted = |tag| is_frame(ground, tag).is_some();
            ground.index.for_each_wanted(wanted, |slot, _, _| self.root(slot.id));
        }
    }

    fn held_by_frame(&mut self, address: u64, by: ByFrame) {
        let Ground { links, index, .. } = *self.ground;
        let foreign = |id: u32| self.wanted.contains(id) && is_foreign(index, id, None);
        let target = links.target(index, address);
        if let Some(slot) = target.filter(|slot| !self.tree.is_reached(slot.id) && !foreign(slot.id)) {
            self.root(slot.id);
            self.wanted.remove(slot.id);
            self.tree.frames.insert(slot.id, by);
        }
    }

    fn root(&mut self, id: u32) {
        if self.tree.is_reached(id) {
            return;
        }
        if let Some(number) = self.tree.graph.lists.number(id) {
            self.wanted.remove(id);
            self.tree.above.set_root(number);
            self.next.insert(id);
        }
    }

    /// Whether there is nothing left to look for, or no way to.
    fn is_over(&self) -> bool {
        self.wanted.is_empty() || self.tree.cut
    }

    fn run(&mut self) {
        let mut cursors = Cursors::default();
        // Each level has a block that was met in none before: they end, also those of a linked list that is long.
        while !self.next.is_empty() && !self.wanted.is_empty() {
            let spare = std::mem::take(&mut self.spare);
            let mut now = std::mem::replace(&mut self.next, spare);
            now.drain(|id| self.block(id, &mut cursors));
            self.spare = now;
        }
    }

    fn block(&mut self, id: u32, cursors: &mut Cursors) {
        let Self { tree, next, wanted, met, stale, moved, words, later, .. } = self;
        let graph = tree.graph;
        let Some(above) = graph.lists.number(id) else { return };
        let Ground { index, links, tables, .. } = *self.ground;
        let tag = index.tag(id);
        let kind = object_of(tag);
        let owner = kind.or_else(|| owner_of(tag));
        let container = kind.and_then(|kind| links.get(kind)).is_some_and(Lead::has_table);
        let what = what(self.ground, id);
        if what == What::Native && *words != Words::All {
            later.insert(id);
        }
        let mut lead = |below: u32| {
            if met.contains(below) || !stale.is_empty() && stale.contains(&(id, below)) {
                return;
            }
            // What is no container leads to a table only by a word that is none.
            let table = tables.contains(below);
            if table && !container {
                return;
            }
            let own = wanted.contains(below) || !table && *words != Words::All;
            if own && is_foreign(index, below, owner) {
                later.insert(id);
                return;
            }
            if let Some(number) = graph.lists.number(below) {
                met.insert(below);
                if !tree.above.is_reached(number) {
                    tree.above.set(number, above);
                    wanted.remove(below);
                    next.insert(below);
                }
            } else if wanted.remove(below) {
                tree.ends.insert(below, id);
            }
        };
        let is_object = |below: u32| object_of(index.tag(below)).is_some();
        graph.below((id, what), (*words, is_object), cursors, &mut lead);
        moved.below(id).iter().copied().for_each(lead);
    }
}

/// The namespaces of all modules: dicts whose first key is `__name__`.
pub(crate) fn namespaces(ground: &Ground<'_, '_>, mut each: impl FnMut(u64)) {
    let type_of = |tag| object_of(tag).and_then(|kind| ground.types.get(kind));
    let is_space = |found: &Type| match ground.module_type {
        Some(module) => found.address == module,
        None => found.family() == Family::Dict,
    };
    let wanted = |tag| type_of(tag).is_some_and(is_space);
    let mut spaces = Vec::with_capacity(TOGETHER);
    ground.index.for_each_wanted(wanted, |slot, tag, _| {
        spaces.extend(type_of(tag).map(|found| object_at(ground, slot, found)));
        if spaces.len() == TOGETHER {
            spaces_of(ground, &std::mem::take(&mut spaces)).into_iter().for_each(&mut each);
        }
    });
    spaces_of(ground, &spaces).into_iter().for_each(each);
}

/// Those of some modules, or of some dicts where modules are not known.
fn spaces_of(ground: &Ground<'_, '_>, spaces: &[u64]) -> Vec<u64> {
    const MODULE_DICT: usize = 16;
    let Ground { reader, types, module_type, .. } = *ground;
    let dicts = module_type.map(|_| {
        let modules = names::pieces::<{ MODULE_DICT + 8 }>(reader, spaces);
        modules.iter().map(|(_, module)| word(module, MODULE_DICT)).collect::<Vec<u64>>()
    });
    names::namespaces(reader, types.version, dicts.as_deref().unwrap_or(spaces))
}

/// Whether a block belongs to another type than `by`, whose word leads to it.
///
/// Why: native memory is met from anywhere, by a word that is left from before or by chance, and the records of a large C++ library
/// all lead to each other. Who owns a block was found with more care (`claims.rs`), and there a block of the owner's, or the owner,
/// leads to each of its blocks.
pub(crate) fn is_foreign(index: &Index, below: u32, by: Option<u32>) -> bool {
    owner_of(index.tag(below)).is_some_and(|owner| by != Some(owner))
}
