//! A scan from begin to end.

use crate::climb::{self, Ground};
use crate::contents::{Contents, contents};
use crate::edges::Graph;
use crate::layout::{Expected, Layout, layout};
use crate::links::Links;
use crate::mapped::mapped;
use crate::mappings;
use crate::memory::{Facts, Memory, Settings};
use crate::moved::Moved;
use crate::own::{Around, Owned, Search};
use crate::presample::Samples;
use crate::reader::Reader;
use crate::report::{Allocator, Cost, Coverage, Holders, Python, SCHEMA, Scan, TypeUse};
use crate::suspects::suspects;
use crate::totals::{Totals, totals};
use crate::tree::Tree;
use crate::types::{Types, Version, own_type};
use crate::ways::Ways;
use lowtide_model::Bytes;
use rustc_hash::FxHashSet;

/// Bytes of the head that Python's debug hooks put before each block.
const DEBUG_HEAD: usize = 16;
/// The search for owners may read this many times what is resident.
const OWN_READS: u64 = 8;

/// The search for holders may read this many times what is resident, and so may what comes after it.
const CLIMB_READS: u64 = 4;

/// Searches for ways up, at most: one more whenever a way turns out to go through a word that is left from before.
const SEARCHES: usize = 4;
/// Searches that turn out to go through hashes, or one strange word, which are made again without those.
const HASHES: usize = 4;
/// Times that containers are looked at again: one may move once more meanwhile.
const LOOKS: usize = 2;

/// Scans a process.
pub fn scan(memory: &dyn Memory, facts: &Facts, settings: &Settings) -> Scan {
    let reader = Reader::new(memory);
    let python = Interpreter::find(&reader, facts);
    let layout = layout(&reader, facts, python.as_ref().map(Interpreter::expected).unwrap_or_default());
    let resident = layout.resident.total();
    let mut types = types(&reader, facts, (python.as_ref(), resident));
    let mut links = Links::new(&types, facts);
    let remember = (settings.climbs > 0).then_some(settings.most_own_bytes.0 / 2);
    let limit = reader.effort().saturating_add(resident.saturating_mul(OWN_READS));
    let mut search = Search::new(remember, settings.most_own_bytes.0, limit, Samples::new(settings));
    let contents = contents(&reader, &layout, (&mut types, &mut links), &mut search, settings);
    reader.refresh();
    let around = Around { reader: &reader, index: &contents.index, types: &types, links: &links };
    let (owned, mut samples) = search.levels(around, resident.saturating_mul(OWN_READS));
    let mut totals = totals(&layout, &contents, &mut types, &mut samples);
    totals.give(&mapped((&reader, &contents.index, &types), &layout), &mut types);
    let mut rows = Totals::types(&types);
    samples.remember(&contents.index, &types, &mut rows);
    let outside = layout.outside();
    let ground = Ground {
        reader: &reader,
        index: &contents.index,
        types: &types,
        links: &links,
        tables: &owned.tables,
        resident: &layout.resident,
        frames: &layout.frames,
        outside: &outside,
        most_read: layout.resident.total().saturating_mul(CLIMB_READS),
        code_type: facts.symbol("PyCode_Type"),
        frame_type: facts.symbol("PyFrame_Type"),
        module_type: facts.symbol("PyModule_Type"),
        set_type: facts.symbol("PySet_Type"),
    };
    reader.refresh();
    let (holders, tree_bytes) = owned
        .graph
        .as_ref()
        .map(|graph| holders(&ground, (&samples, graph), &rows, settings))
        .unwrap_or_default();
    let suspects =
        if settings.suspects { suspects(&ground, owned.graph.as_ref(), &owned.places) } else { Vec::new() };
    let mut scan = Scan {
        holders,
        suspects,
        schema: SCHEMA.to_owned(),
        swap_bytes: facts.swap_bytes,
        python: python.map(|python| python.report),
        allocators: allocators(facts, memory, &layout, &contents),
        types: rows,
        native: totals.native(&contents),
        coverage: coverage(&layout, &contents, &owned, types.lost),
        ..Scan::default()
    };
    mappings::account(&mut scan, memory, facts, &layout, &totals);
    scan.cost = cost(&reader, &layout, &contents);
    scan.cost.own_bytes = scan.cost.own_bytes.saturating_add(Bytes(tree_bytes + samples.own_bytes()));
    scan
}

/// No types yet; of Python all that has to be known to tell them.
fn types<'a>(
    reader: &'a Reader<'a>,
    facts: &Facts,
    (python, resident): (Option<&Interpreter>, u64),
) -> Types<'a> {
    let (version, type_type) = python.map_or((Version(0, 0), 0), |python| (python.version, python.type_type));
    let skip = if debug_hooks(facts) { DEBUG_HEAD } else { 0 };
    let mut types = Types::new(reader, version, type_type, skip);
    let heap = reader.memory().mappings().iter().find(|map| map.name == "[heap]").map(|map| map.start);
    types.within(facts.rss_bytes().0.max(resident).saturating_add(facts.swap_bytes.0), heap);
    types
}

/// Who holds the types that matter, and the memory it took to find out.
fn holders(
    ground: &Ground<'_, '_>,
    (samples, graph): (&Samples, &Graph),
    rows: &[TypeUse],
    settings: &Settings,
) -> (Vec<Holders>, u64) {
    let mut begun = climb::begin(ground, samples, rows, settings);
    let (mut stale, mut moved, mut looks) = (FxHashSet::default(), None, 0);
    let mut best: Option<(Tree<'_>, Ways)> = None;
    let mut more_ways = true;
    let mut strange = Vec::new();
    let (mut searches, mut hashes) = (0, 0);
    while searches < SEARCHES {
        searches += 1;
        let none = Moved::default();
        let before = best.as_ref().filter(|_| !more_ways).map(|(tree, _)| tree);
        let wanted = begun.wanted(ground, before);
        let few = |tree: &Tree<'_>| begun.few_left(tree);
        let tree = Tree::grow(ground, graph, (wanted, &few), (&stale, moved.as_ref().unwrap_or(&none)));
        let loose = begun.loose(&tree);
        if loose && best.as_ref().is_some_and(|(before, _)| !begun.loose(before)) {
            // What was left out is all that holds them.
            break;
        }
        let ways = begun.ways(ground, &tree, settings.levels);
        let mut seeming = ways.hashes();
        let apart = begun.strange(ground, &ways);
        seeming.extend(&apart);
        strange.extend(apart);
        if !seeming.is_empty() && hashes < HASHES {
            // Not a holder at all, whatever is found instead.
            (searches, hashes) = (searches - 1, hashes + 1);
            stale.extend(seeming);
            continue;
        }
        let left: FxHashSet<(u32, u32)> = ways.stale(ground).into_iter().chain(seeming).collect();
        let few = begun.few_through(&ways, &left);
        let lost = begun.lost(&ways);
        if lost {
            stale.extend(ways.lost());
        }
        best = Some((tree, ways));
        more_ways = false;
        if (loose || lost) && looks < LOOKS {
            looks += 1;
            let found = Moved::find(ground, graph);
            more_ways = lost || !found.is_empty();
            moved = Some(found);
        }
        if let Some(few) = few.filter(|_| !more_ways) {
            begun.leave_out(&few);
            break;
        }
        stale.extend(left);
    }
    let Some((tree, ways)) = best else { return Default::default() };
    let own = tree.own_bytes() + graph.own_bytes() + moved.as_ref().map_or(0, Moved::own_bytes);
    let mut came = begun.ascend(ground, (&tree, &ways));
    if came.lacks() && !strange.is_empty() {
        // Those were all that holds them.
        drop((tree, ways));
        stale.retain(|word| !strange.contains(word));
        let (wanted, few) = (begun.wanted(ground, None), |tree: &Tree<'_>| begun.few_left(tree));
        let tree = Tree::grow(ground, graph, (wanted, &few), (&stale, &moved.unwrap_or_default()));
        let ways = begun.ways(ground, &tree, settings.levels);
        begun.ascend_again(ground, (&tree, &ways), &mut came);
    }
    (begun.end(ground, &came), own)
}

/// The interpreter, as far as a scan needs it.
struct Interpreter {
    version: Version,
    type_type: u64,
    pools: bool,
    report: Python,
}

impl Interpreter {
    fn find(reader: &Reader<'_>, facts: &Facts) -> Option<Self> {
        let told = facts.python.as_ref();
        let (version, mut found) = match told {
            Some(python) => (Version(python.version.0, python.version.1), python.found.clone()),
            None => (version_of_mappings(reader.memory())?, "name of a mapped file".to_owned()),
        };
        let type_type = match facts.symbol("PyType_Type") {
            Some(address) => address,
            None => {
                found.push_str(", PyType_Type by its shape");
                search_type_type(reader)?
            }
        };
        let pools = !told.is_some_and(|python| python.free_threaded)
            && !facts.python_malloc.as_deref().is_some_and(|name| name.starts_with("malloc"));
        let report = Python { version: format!("{}.{}", version.0, version.1), found };
        Some(Self { version, type_type, pools, report })
    }
}

impl Interpreter {
    fn expected(&self) -> Expected {
        let pool = self.pools.then(|| self.version.pool_bytes());
        Expected { pool, frames: self.version >= Version(3, 11) }
    }
}

/// `libpython3.11.so.1.0` or `python3.11` among the mapped files.
fn version_of_mappings(memory: &dyn Memory) -> Option<Version> {
    memory.mappings().iter().find_map(|mapping| {
        let file = mapping.name.rsplit('/').next()?;
        let rest = file.strip_prefix("libpython3.").or_else(|| file.strip_prefix("python3."))?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok().map(|minor| Version(3, minor))
    })
}

/// `PyType_Type` is in the written data of the interpreter's file.
fn search_type_type(reader: &Reader<'_>) -> Option<u64> {
    const LARGEST: u64 = 16 << 20;
    let mappings = reader.memory().mappings().iter();
    let data = mappings.filter(|map| map.readable && map.writable && !map.shared && map.inode != 0);
    data.filter(|map| map.name.contains("python") && map.end - map.start <= LARGEST).find_map(|map| {
        reader.memory().present(map.start, map.end).iter().find_map(|(start, end)| {
            let mut bytes = vec![0; (end - start) as usize];
            let got = reader.fill(*start, &mut bytes);
            own_type(&bytes[..got], *start)
        })
    })
}

fn debug_hooks(facts: &Facts) -> bool {
    facts.python_malloc.as_deref().is_some_and(|name| name.contains("debug"))
}

/// Allocators by how the libraries that are mapped begin.
const STRANGERS: [(&str, &str); 5] = [
    ("libjemalloc", "jemalloc"),
    ("libtcmalloc", "tcmalloc"),
    ("libmimalloc", "mimalloc"),
    ("ld-musl", "musl"),
    // Inside of it is a mimalloc or a jemalloc that exports nothing: all that Arrow and data sets on it hold.
    ("libarrow.", "pyarrow's own"),
];
/// musl's own file where its loader is only a link to it; glibc's has a number behind it.
const MUSL: &str = "libc.so";

fn allocators(facts: &Facts, memory: &dyn Memory, layout: &Layout, contents: &Contents) -> Vec<Allocator> {
    let line = |name: &str, understood: bool, note: &str| Allocator {
        name: name.to_owned(),
        understood,
        note: note.to_owned(),
    };
    let mut all = Vec::new();
    if contents.pools.count > 0 {
        all.push(line("pymalloc", true, ""));
    }
    if !contents.arenas.is_empty() || contents.singles > 0 {
        let note = if layout.strange_heap { "[heap] is not in its form" } else { "" };
        all.push(line("glibc", !layout.strange_heap, note));
    }
    let mapped = |part: &str| {
        memory
            .mappings()
            .iter()
            .any(|map| map.name.rsplit('/').next().is_some_and(|file| file.starts_with(part)))
    };
    let musl = memory.mappings().iter().any(|map| map.name.rsplit('/').next() == Some(MUSL));
    for (file, name) in STRANGERS {
        if mapped(file) || name == "musl" && musl {
            all.push(line(
                name,
                false,
                "its blocks cannot be told apart from outside: only its mappings are counted",
            ));
        }
    }
    if facts.python.as_ref().is_some_and(|python| python.free_threaded) {
        all.push(line(
            "mimalloc",
            false,
            "a Python without GIL keeps its objects there: they are not counted",
        ));
    }
    if let Some(name) = &facts.python_malloc {
        all.push(line(&format!("PYTHONMALLOC={name}"), true, ""));
    }
    all
}

fn coverage(layout: &Layout, contents: &Contents, owned: &Owned, lost_types: u64) -> Vec<Coverage> {
    let mut all = Vec::new();
    let pools = contents.pools;
    if pools.count > 0 {
        let doubt =
            if pools.lost > 0 { "pools that changed each time they were read are left out" } else { "" };
        all.push(line("pools", pools.bytes - pools.lost, pools.bytes, pools.retries, doubt));
    }
    for (arena, sum) in &contents.arenas {
        let what = if *arena == 0 { "main heap".to_owned() } else { format!("thread arena {arena:#x}") };
        let doubt = if sum.walk.lost > 0 { "the walk lost its way: chunks are missing" } else { "" };
        all.push(line(&what, sum.bytes - sum.walk.lost.min(sum.bytes), sum.bytes, sum.walk.retries, doubt));
    }
    if lost_types > 0 {
        all.push(line(
            "types",
            0,
            0,
            0,
            "more than can be told apart: objects of some are counted as blocks",
        ));
    }
    if contents.over_budget > 0 {
        let total = layout.resident.total();
        let seen = total.saturating_sub(contents.over_budget);
        all.push(line("index", seen, total, 0, "left out: the scan's own memory was used up"));
    }
    if owned.graph.as_ref().is_some_and(|graph| graph.full) {
        all.push(line("holders", 0, 0, 0, "not looked for: the scan's own memory was used up"));
    }
    if owned.cut {
        all.push(line("ownership", 0, 0, 0, "the search for owners was ended by its budget"));
    }
    all
}

fn line(what: &str, seen: u64, of: u64, retries: u64, doubt: &str) -> Coverage {
    Coverage {
        what: what.to_owned(),
        seen_bytes: Bytes(seen),
        of_bytes: Bytes(of),
        retries,
        doubt: doubt.to_owned(),
    }
}

fn cost(reader: &Reader<'_>, layout: &Layout, contents: &Contents) -> Cost {
    let (reads, bytes) = reader.spent();
    let own =
        contents.index.own_bytes() + layout.resident.own_bytes() + (layout.regions.capacity() * 48) as u64;
    Cost { cpu_ms: 0, read_bytes: Bytes(bytes), reads, own_bytes: Bytes(own) }
}
