//! What was planted in real Pythons is named by who holds it, as its author named it.

mod live;
mod targets;

use lowtide_scan::Settings;
use targets::{MALLINFO, Target, pythons, random_name};

/// Programs that hold 20 MB each, and the end of the path that must be printed.
fn holdings(name: &str) -> Vec<(String, String)> {
    let fill = "bytearray(40_000) for _ in range(500)";
    let class = format!("class Owner{name}:\n    def __init__(s): s.attr{name} = []\n");
    let whole = |body: &str| format!("{MALLINFO}\n{body}\ngc.collect(); say(); wait()\n");
    vec![
        (whole(&format!("{name} = [{fill}]")), format!("list of 500 <- global {name} of module __main__")),
        (
            whole(&format!("{class}{name} = Owner{name}()\n{name}.attr{name}.extend({fill})")),
            format!("list of 500 <- Owner{name}.attr{name} <- global {name} of module __main__"),
        ),
        (whole(&format!("class {name}:\n    store = [{fill}]")), "list of 500 <- dict['store']".to_owned()),
        (
            whole(&format!(
                "import functools\n@functools.lru_cache(None)\ndef {name}(i): return bytearray(40_000)\nfor i in range(500): {name}(i)"
            )),
            format!("dict of 500 <- _lru_cache_wrapper <- global {name} of module __main__"),
        ),
        (
            whole(&format!(
                "def make():\n    seen = []\n    def inner(): seen.append(bytearray(40_000))\n    return inner\n{name} = make()\nfor i in range(500): {name}()"
            )),
            format!("function.__closure__ <- global {name} of module __main__"),
        ),
        (
            whole(&format!("def fun{name}():\n    {name} = [{fill}]\n    say(); wait()\nfun{name}()")),
            format!("list of 500 <- local {name} of function fun{name}"),
        ),
        (
            whole(&format!(
                "def fun{name}():\n    {name} = [{fill}]\n    while True: yield\nkeep = fun{name}()\nnext(keep)"
            )),
            format!("local {name} of function fun{name}"),
        ),
        (
            whole(&format!(
                "class Node:\n    __slots__ = 'load', 'next'\n{name} = None\nfor _ in range(500):\n    node = Node(); node.load = bytearray(40_000); node.next = {name}; {name} = node\ndel node"
            )),
            format!("Node.next <- ... <- Node.next <- global {name} of module __main__"),
        ),
        (
            whole(&format!(
                "keep = []\ndef fun{name}():\n    first, {name} = 1, bytearray(40_000)\n    try: raise ValueError\n    except ValueError as error: keep.append(error)\nfor _ in range(500): fun{name}()"
            )),
            format!("local {name} of function fun{name}"),
        ),
    ]
}

#[test]
fn what_is_left_beside_entries_and_values_holds_nothing() {
    for python in pythons() {
        let (name, other) = (random_name("deep"), random_name("Other"));
        let program = format!(
            r"{MALLINFO}
class {other}: pass
one = {other}()
for number in range(9): setattr(one, 'x%d' % number, number)
{name} = dict(a=dict(b=dict(c=dict(d=[bytearray(40_000) for _ in range(500)]))))
word = lambda at: ctypes.c_uint64.from_address(at).value
room = []
for number in range(5): room.append(number)
assert word(id(room) + 32) > 6
ctypes.c_uint64.from_address(word(id(room) + 24) + 6 * 8).value = id({name}['a']['b']['c']['d'])
if sys.version_info[:2] in ((3, 11), (3, 12)):
    values = word(id(one) - 32) if sys.version_info[1] == 11 else word(id(one) - 24) + 1
    head = ctypes.c_uint8.from_address(values - 1).value
    assert head >= 16, head
    ctypes.c_uint64.from_address(values - head).value = id({name}['a']['b']['c']['d'])
if sys.version_info >= (3, 12):
    import typing
    some = typing.TypeVar('some')
    ctypes.c_uint64.from_address(id(some) + typing.TypeVar.__basicsize__ - 8).value = id({name}['a']['b']['c']['d'])
gc.collect(); say(); wait()
"
        );
        let scan = Target::start(&python, &program).scan();
        let held = scan.holders.first().expect("bytearrays hold most");
        let end = format!(
            "<- dict['d'] of 1 <- dict['c'] of 1 <- dict['b'] of 1 <- dict['a'] of 1 <- global {name} of module __main__"
        );
        assert!(held.text.ends_with(&end) && held.share > 0.9, "{}: {held:?}", python.display());
    }
}

#[test]
fn a_list_of_more_than_a_million_holds_all_of_its_entries() {
    let python = pythons().pop().expect("a Python");
    let name = random_name("long");
    let program = format!("{MALLINFO}\n{name} = [float(i) for i in range(1_300_000)]\nsay(); wait()\n");
    let scan = Target::start(&python, &program).scan();
    let held = scan.holders.iter().find(|held| held.name == "float").expect("floats hold most");
    let end = format!("list of 1300000 <- global {name} of module __main__");
    assert!(held.text.ends_with(&end) && held.share > 0.95, "{held:?}");
}

#[test]
fn one_large_object_is_not_outvoted_by_small_ones() {
    for python in pythons() {
        let name = random_name("large");
        let program = format!(
            "{MALLINFO}\n{name} = [None] * 4_000_000\nother, another, third = ([None] * 400_000 for _ in range(3))\nsay(); wait()\n"
        );
        let scan = Target::start(&python, &program).scan();
        let held = scan.holders.iter().find(|held| held.name == "list").expect("a list holds most");
        let end = format!("list of 4000000 <- global {name} of module __main__");
        assert!(held.text == end && held.doubt.is_empty(), "{}: {held:?}", python.display());
        assert!(held.share > 0.7 && held.agree < held.samples, "{}: {held:?}", python.display());
    }
}

#[test]
fn the_holder_is_named_as_its_author_named_it() {
    for python in pythons() {
        let name = random_name("x");
        for (program, end) in holdings(&name) {
            let target = Target::start(&python, &program);
            let scan = target.scan();
            let held = scan.holders.first().unwrap_or_else(|| panic!("no holders: {}", python.display()));
            assert_eq!(held.name, "bytearray", "{}", python.display());
            assert!(held.text.contains(&end), "{}: {} does not say {end}", python.display(), held.text);
            assert!(held.share > 0.9 && held.doubt.is_empty(), "{held:?}");
        }
    }
}

/// A process whose list moves its table right after the list itself was read.
struct Moving<'t> {
    live: live::Live,
    list: u64,
    target: std::cell::RefCell<&'t mut Target>,
    moved: std::cell::Cell<bool>,
}

impl lowtide_scan::Memory for Moving<'_> {
    fn mappings(&self) -> &[lowtide_scan::Mapping] {
        self.live.mappings()
    }

    fn present(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        self.live.present(start, end)
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let got = self.live.read(address, into);
        let pool = got >= 4096;
        if pool && (address..address + got as u64).contains(&self.list) && !self.moved.replace(true) {
            self.target.borrow_mut().step();
        }
        got
    }
}

#[test]
fn a_list_that_moves_its_entries_after_it_was_read_is_still_the_holder() {
    for python in pythons() {
        let name = random_name("grown");
        let program = format!(
            r"
import ctypes, json, mmap, sys
class Item:
    __slots__ = ('load',)
    def __init__(s): s.load = bytearray(20_000)
{name} = [Item() for _ in range(400)]
new = mmap.mmap(-1, 8192, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
at = ctypes.addressof(ctypes.c_char.from_buffer(new))
ctypes.memset(at, 0, 3200)
print(json.dumps(dict(list=id({name}))), flush=True)
sys.stdin.readline()
table = ctypes.c_void_p.from_address(id({name}) + 24)
old = table.value
ctypes.memmove(at, old, 3200)
table.value = at
ctypes.memset(old, 0, 3200)
print(json.dumps(dict()), flush=True)
sys.stdin.readline()
"
        );
        let mut target = Target::start(&python, &program);
        let (live, facts) = (live::Live::open(target.pid()), target.facts());
        let list = target.truth["list"].as_u64().expect("an address");
        let moving = Moving { live, list, target: (&mut target).into(), moved: false.into() };
        let scan = lowtide_scan::scan(&moving, &facts, &Settings::default());
        assert!(moving.moved.get(), "{}", python.display());
        let held = scan.holders.iter().find(|held| held.name == "bytearray").expect("bytearrays hold most");
        let end = format!("Item.load <- list of 400 <- global {name} of module __main__");
        assert!(held.share > 0.95 && held.text.ends_with(&end), "{}: {held:?}", python.display());
    }
}

/// Moves the table of a container to where no allocator put it, as one that grows during a scan does: `FIELD` is where the
/// container keeps its address.
const MOVED: &str = "
import ctypes, json, mmap, sys
class Item:
    __slots__ = ('load',)
    def __init__(s): s.load = bytearray(20_000)
NAME = MAKE
table = ctypes.c_void_p.from_address(id(NAME) + FIELD)
old = table.value
BYTES = sys.getsizeof(NAME) - OWN
new = mmap.mmap(-1, BYTES + 8192, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
at = ctypes.addressof(ctypes.c_char.from_buffer(new))
ctypes.memmove(at, old, BYTES)
table.value = at
ctypes.memset(old, 0, BYTES)
print(json.dumps({}), flush=True); sys.stdin.readline()
";

#[test]
fn a_container_that_got_a_new_table_meanwhile_is_still_the_holder() {
    let makes = [
        ("[Item() for _ in range(400)]", "24", "list.__basicsize__", "list of 400"),
        ("{'k%d' % i: Item() for i in range(400)}", "32", "dict.__basicsize__", "dict of 400"),
        ("set(Item() for _ in range(400))", "40", "set.__basicsize__", "set"),
    ];
    for python in pythons() {
        for (make, field, own, holder) in makes {
            let name = random_name("grown");
            let program = MOVED
                .replace("NAME", &name)
                .replace("MAKE", make)
                .replace("FIELD", field)
                .replace("OWN", &format!("{own} - 16"));
            let scan = Target::start(&python, &program).scan();
            let held =
                scan.holders.iter().find(|held| held.name == "bytearray").expect("bytearrays hold most");
            let end = format!("Item.load <- {holder} <- global {name} of module __main__");
            assert!(held.share > 0.9 && held.text.ends_with(&end), "{}: {held:?}", python.display());
        }
    }
}
