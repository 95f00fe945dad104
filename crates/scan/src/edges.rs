//! Which block leads to which, remembered while the blocks are read once: about two bytes a pointer.
//!
//! Why: the search for holders goes over all of it, level by level. Reading the target again for each level cost more than
//! all the rest of a scan. What leads nowhere is left out: text, numbers, and blocks that only lead to those, unless they are
//! asked for. Pools are read such that most blocks come after what they lead to, so little is written that turns out to lead
//! nowhere, and that is forgotten in the end ([`Edges::forget_dead_ends`]). A list is a head (how far from the block before, how many) and the blocks it leads to, each as the
//! difference to the one before it; the first one as the difference to the first of the list before.

pub(crate) mod layer;
#[cfg(test)]
mod tests;

use crate::natives::{self, Natives};
use crate::ranked::Ranked;
use layer::{Cursor, LONGEST, Layer};
use rustc_hash::FxHashSet;
use std::ops::Range;

/// Places in a stream are numbers of 32 bits.
const MOST_BYTES: u64 = 2 << 30;
/// Times that lists which were just made are gone over to see where they lead.
const ROUNDS: usize = 32;
/// Own memory is looked at after each so many lists.
const CHECKED: u64 = 64;

/// Blocks whose lists are found together, as a power of two; and how much more of them where few have a list.
const TOGETHER: u32 = 5;
const SELDOM: u32 = 3;
/// All lists.
pub(crate) struct Edges {
    /// Blocks of pools, while those are read.
    pools: Layer,
    /// Blocks of pools that led into one that was not read yet: these were read once more.
    late: Layer,
    /// Objects that are not in pools.
    objects: Layer,
    /// Blocks that are none and not in pools, as far as they lead to objects.
    natives: Layer,
    /// Blocks that have a list.
    has: Vec<u64>,
    /// Those, and the ones that are asked for: it is worth remembering who leads to them.
    worth: Vec<u64>,
    /// Those that are asked for, and those that once were.
    asked: FxHashSet<u32>,
    unasked: Vec<u32>,
    /// The first of the blocks at hand, and those of them that a list was made for.
    fresh: u32,
    made: Vec<u64>,
    /// The list that is being made.
    targets: Vec<u32>,
    draft: Draft,
    /// How many lists were written.
    written: u64,
    /// Own memory that may be used.
    most_bytes: u64,
    /// Whether that was not enough: then there are no lists.
    pub(crate) full: bool,
}

/// Lists that may turn out to lead nowhere when more is known.
#[derive(Default)]
struct Draft {
    lists: Vec<Drafted>,
    targets: Vec<u32>,
}

impl Draft {
    /// What a list leads to.
    fn targets_of(&self, at: usize) -> &[u32] {
        let from = at.checked_sub(1).map_or(0, |before| self.lists[before].end as usize);
        &self.targets[from..self.lists[at].end as usize]
    }
}

/// A list: the block, and where the blocks it leads to end.
#[derive(Clone, Copy)]
struct Drafted {
    id: u32,
    end: u32,
}

/// Where a list belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Pools,
    Late,
    Objects,
    Natives,
}

impl Part {
    fn is_pools(self) -> bool {
        matches!(self, Part::Pools | Part::Late)
    }
}

impl Edges {
    /// With own memory of at most `most_bytes`.
    pub(crate) fn new(most_bytes: u64) -> Self {
        Self {
            pools: Layer::new(TOGETHER),
            late: Layer::new(TOGETHER + SELDOM),
            objects: Layer::new(TOGETHER),
            natives: Layer::new(TOGETHER),
            has: Vec::new(),
            worth: Vec::new(),
            asked: FxHashSet::default(),
            unasked: Vec::new(),
            fresh: 0,
            made: Vec::new(),
            targets: Vec::with_capacity(LONGEST),
            draft: Draft::default(),
            written: 0,
            most_bytes: most_bytes.min(MOST_BYTES),
            full: false,
        }
    }

    /// There are blocks below `slots` now.
    pub(crate) fn grow(&mut self, slots: usize) {
        let words = slots / 64 + 1;
        if words > self.has.len() {
            self.has.resize(words, 0);
            self.worth.resize(words, 0);
        }
    }

    /// Blocks with these numbers are followed now.
    pub(crate) fn begin(&mut self, blocks: Range<u32>) {
        self.fresh = blocks.start;
        self.made.clear();
        self.made.resize(blocks.len() / 64 + 1, 0);
    }

    /// Whether a block is asked for or leads to one that is.
    #[inline]
    pub(crate) fn is_worth(&self, id: u32) -> bool {
        is_set(&self.worth, id)
    }

    /// Whether a block could be worth it after those at hand were followed: it is, or a list was made for it.
    #[inline]
    pub(crate) fn may_be_worth(&self, id: u32) -> bool {
        let made = id.checked_sub(self.fresh).is_none_or(|place| is_set(&self.made, place));
        made || self.is_worth(id)
    }

    /// Whether one of the blocks from `first` to before `end` is.
    pub(crate) fn some_worth(&self, first: u32, end: u32) -> bool {
        let (from, to) = (first as usize / 64, (end as usize).div_ceil(64));
        let words = self.worth.get(from..to).unwrap_or_default();
        let inside = |at: usize| {
            let low = if at == from { u64::MAX << (first % 64) } else { u64::MAX };
            let high =
                if at + 1 == to && !end.is_multiple_of(64) { u64::MAX >> (64 - end % 64) } else { u64::MAX };
            low & high
        };
        words.iter().enumerate().any(|(at, bits)| bits & inside(from + at) != 0)
    }

    /// A block is asked for.
    pub(crate) fn ask(&mut self, id: u32) {
        self.asked.insert(id);
        set(&mut self.worth, id);
    }

    /// A block that was asked for is not any more. It may still be worth it, because of what it leads to: that is known in the
    /// end.
    pub(crate) fn ask_no_more(&mut self, id: u32) {
        if self.asked.remove(&id) {
            self.unasked.push(id);
        }
    }

    /// What was known of a block by what it leads to.
    fn forget(&mut self, id: u32) {
        clear(&mut self.has, id);
        if !self.asked.contains(&id) {
            clear(&mut self.worth, id);
        }
    }

    /// How many lists were made and not kept yet.
    #[inline]
    pub(crate) fn drafted(&self) -> usize {
        self.draft.lists.len()
    }

    /// A block that was just followed led into a pool that was not read yet: its list is forgotten, and it counts as worth it
    /// until it is followed once more.
    pub(crate) fn put_off(&mut self, id: u32) {
        self.draft.lists.pop_if(|list| list.id == id);
        self.draft.targets.truncate(self.draft.lists.last().map_or(0, |list| list.end as usize));
        set(&mut self.worth, id);
    }

    /// A block that was put off was followed: it is worth what its list is.
    pub(crate) fn take_up(&mut self, id: u32) {
        self.forget(id);
    }

    /// All pools that are looked at together were followed. Keeps the lists that lead to a block that is worth it, or to one below
    /// `unread`.
    pub(crate) fn keep(&mut self, part: Part, unread: u32) {
        let mut draft = std::mem::take(&mut self.draft);
        self.spread(&draft, unread);
        // Blocks were followed in a few turns, each in the order of their numbers, and are written down in that order.
        let mut kept: Vec<usize> =
            (0..draft.lists.len()).filter(|at| self.is_worth(draft.lists[*at].id)).collect();
        kept.sort_by_key(|at| draft.lists[*at].id);
        for at in kept {
            let id = draft.lists[at].id;
            draft.targets_of(at).chunks(LONGEST).for_each(|targets| self.write(part, id, targets));
        }
        draft.lists.clear();
        draft.targets.clear();
        self.draft = draft;
    }

    /// Every block of the draft is worth it that leads to one that is, directly or through others.
    fn spread(&mut self, draft: &Draft, unread: u32) {
        // Most lead to nothing at once, and those that lead to them come after them.
        let mut left: Vec<usize> =
            (0..draft.lists.len()).filter(|at| self.is_open(draft, *at, unread)).collect();
        for round in 1..ROUNDS {
            let before = left.len();
            left.reverse();
            left.retain(|at| {
                let leads = draft.targets_of(*at).iter().any(|target| self.is_target(*target, unread));
                // After so many rounds, a long chain against the order: all of it counts.
                let worth = leads || round + 1 == ROUNDS;
                if worth {
                    set(&mut self.worth, draft.lists[*at].id);
                }
                !worth
            });
            if left.len() == before {
                break;
            }
        }
    }

    /// Looks at a list of the draft for the first time: whether more may become known of where it leads.
    fn is_open(&mut self, draft: &Draft, at: usize, unread: u32) -> bool {
        let id = draft.lists[at].id;
        if self.is_worth(id) {
            return false;
        }
        let mut open = false;
        for target in draft.targets_of(at) {
            if self.is_target(*target, unread) {
                set(&mut self.worth, id);
                return false;
            }
            open = open || self.may_be_worth(*target);
        }
        if !open && let Some(place) = id.checked_sub(self.fresh) {
            clear(&mut self.made, place);
        }
        open
    }

    /// Whether a block that others lead to is worth it.
    #[inline]
    fn is_target(&self, id: u32, unread: u32) -> bool {
        id < unread || self.is_worth(id)
    }

    /// Forgets lists that lead to nothing that is worth it: that was not known when they were written. Blocks below `unread`
    /// are not read yet. Gives how many went.
    pub(crate) fn forget_dead_ends(&mut self, unread: u32) -> u64 {
        for id in std::mem::take(&mut self.unasked) {
            if !is_set(&self.has, id) {
                self.forget(id);
            }
        }
        let (mut now, mut led, mut dead) = (None, true, Vec::new());
        let (worth, asked) = (&mut self.worth, &self.asked);
        let is_worth = |worth: &[u64], id: u32| id < unread || is_set(worth, id);
        let mut end = |worth: &mut [u64], id: Option<u32>, led: bool| {
            if let Some(id) = id.filter(|id| !led && is_set(worth, *id) && !asked.contains(id)) {
                clear(worth, id);
                dead.push(id);
            }
        };
        let mut each = |id: u32, below: u32| {
            if now != Some(id) {
                end(worth, now, led);
                (now, led) = (Some(id), false);
            }
            led = led || is_worth(worth, below);
        };
        self.pools.each(&mut each);
        self.late.each(&mut each);
        end(worth, now, led);
        for id in &dead {
            self.forget(*id);
        }
        dead.len() as u64
    }

    /// The block of a pool that is read leads to `target`.
    #[inline]
    pub(crate) fn sketch(&mut self, target: u32) {
        self.draft.targets.push(target);
    }

    /// All of block `id` of a pool was read.
    #[inline]
    pub(crate) fn end_sketch(&mut self, id: u32) {
        let before = self.draft.lists.last().map_or(0, |list| list.end);
        let end = self.draft.targets.len() as u32;
        if end > before {
            self.draft.lists.push(Drafted { id, end });
            if let Some(place) = id.checked_sub(self.fresh) {
                set(&mut self.made, place);
            }
        }
    }

    /// The block that is read leads to `target`.
    #[inline]
    pub(crate) fn push(&mut self, part: Part, id: u32, target: u32) {
        if part.is_pools() {
            return self.sketch(target);
        }
        if self.targets.last() != Some(&target) {
            self.targets.push(target);
            if self.targets.len() == LONGEST {
                self.end(part, id);
            }
        }
    }

    /// All of block `id` was read.
    #[inline]
    pub(crate) fn end(&mut self, part: Part, id: u32) {
        if part.is_pools() {
            return self.end_sketch(id);
        }
        if !self.targets.is_empty() {
            let targets = std::mem::take(&mut self.targets);
            self.write(part, id, &targets);
            self.targets = targets;
            self.targets.clear();
        }
    }

    fn write(&mut self, part: Part, id: u32, targets: &[u32]) {
        let Some(bits) = self.has.get_mut(id as usize / 64).filter(|_| !self.full) else { return };
        *bits |= 1 << (id % 64);
        set(&mut self.worth, id);
        match part {
            Part::Pools => self.pools.push(id, targets),
            Part::Late => self.late.push(id, targets),
            Part::Objects => self.objects.push(id, targets),
            Part::Natives => self.natives.push(id, targets),
        }
        self.written += 1;
        if self.written.is_multiple_of(CHECKED) && self.own_bytes() > self.most_bytes {
            (self.pools, self.late, self.objects, self.natives) = Default::default();
            self.full = true;
        }
    }

    /// Bytes this takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        let layers = [&self.pools, &self.late, &self.objects, &self.natives];
        layers.iter().map(|layer| layer.own_bytes()).sum::<u64>() + self.has.len() as u64 * 16
    }

    /// A block that is no object and not in a pool leads to others that are none: that is remembered elsewhere.
    #[inline]
    pub(crate) fn has_list(&mut self, id: u32) {
        set(&mut self.has, id);
    }

    /// All lists are made: from now on they can be read, with those of blocks that are no objects and not in pools.
    pub(crate) fn finish(mut self, raw: Natives) -> Graph {
        self.full |= raw.full;
        let Self { pools, late, objects, natives, .. } = &mut self;
        [pools, late, objects, natives].into_iter().for_each(Layer::finish);
        if self.full {
            self.has = Vec::new();
        }
        let Self { pools, late, objects, natives, has, full, .. } = self;
        Graph { pools, late, objects, natives, raw, lists: Ranked::new(has), full }
    }
}

#[inline]
fn is_set(bits: &[u64], id: u32) -> bool {
    bits.get(id as usize / 64).is_some_and(|bits| bits >> (id % 64) & 1 == 1)
}

#[inline]
fn set(bits: &mut [u64], id: u32) {
    if let Some(bits) = bits.get_mut(id as usize / 64) {
        *bits |= 1 << (id % 64);
    }
}

#[inline]
fn clear(bits: &mut [u64], id: u32) {
    if let Some(bits) = bits.get_mut(id as usize / 64) {
        *bits &= !(1 << (id % 64));
    }
}

/// The lists, to be read.
pub(crate) struct Graph {
    pools: Layer,
    late: Layer,
    objects: Layer,
    natives: Layer,
    raw: Natives,
    /// Blocks that have a list, each with its number.
    pub(crate) lists: Ranked,
    /// Whether there are no lists because they would have taken too much.
    pub(crate) full: bool,
}

/// One for each part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursors {
    pools: Cursor,
    late: Cursor,
    objects: Cursor,
    natives: Cursor,
    raw: natives::Cursors,
}

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Object,
    /// The table of a container.
    Table,
    Native,
}

/// Which words of native blocks are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// To where another one of the same owner begins.
    Begins,
    /// To objects as well, and to the inside of other ones of the same owner: many of these are left from before.
    Own,
    /// All of them: a record of one type may lead to those of another.
    All,
}

impl Graph {
    /// How many blocks have a list.
    pub(crate) fn len(&self) -> usize {
        self.lists.len()
    }

    /// Bytes this takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        let layers = [&self.pools, &self.late, &self.objects, &self.natives];
        let lists = layers.iter().map(|layer| layer.own_bytes()).sum::<u64>();
        lists + self.raw.own_bytes() + self.lists.own_bytes()
    }

    /// Calls `each` with every object, and blocks of pools that are none, and each block it leads to.
    pub(crate) fn each_object(&self, mut each: impl FnMut(u32, u32)) {
        self.pools.each(&mut each);
        self.late.each(&mut each);
        self.objects.each(&mut each);
    }

    /// Calls `each` with every block that `id` leads to by such words; `is_object` tells which of them are objects.
    pub(crate) fn below(
        &self,
        (id, what): (u32, What),
        (words, is_object): (Words, impl Fn(u32) -> bool),
        cursors: &mut Cursors,
        mut each: impl FnMut(u32),
    ) {
        let begins = what == What::Native && words == Words::Begins;
        let mut some = |below: u32| {
            if !begins || !is_object(below) {
                each(below);
            }
        };
        let found = self.pools.visit(id, &mut cursors.pools, &mut some)
            || self.late.visit(id, &mut cursors.late, &mut some);
        match what {
            _ if found => {}
            What::Object => drop(self.objects.visit(id, &mut cursors.objects, &mut each)),
            What::Table | What::Native => {
                self.raw.begins(id, &mut cursors.raw, &mut each);
                if !begins {
                    self.natives.visit(id, &mut cursors.natives, &mut each);
                    self.raw.insides(id, &mut cursors.raw, &mut each);
                }
            }
        }
    }
}
