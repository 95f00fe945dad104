//! What is told of objects that no name leads to: garbage, or what something that came while the scan went on may hold.

mod live;
mod targets;

use std::time::{Duration, Instant};
use targets::{MALLINFO, Moving, Target, pythons, random_name};

/// Has native code keep objects: nothing leads to them.
const LEAK: &str = "
import ctypes, json, os, sys
def leak(one): ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
";

#[test]
fn a_linked_list_whose_head_moved_while_it_was_read_is_no_garbage() {
    for python in pythons() {
        let (name, node) = (random_name("head"), random_name("Node"));
        let keeps = [
            format!(
                "{name} = None
def grow(i): global {name}; {name} = {node}({name}, [i])"
            ),
            format!(
                "class Owner:
    def __init__(s): s.head = None
{name} = Owner()
def grow(i): {name}.head = {node}({name}.head, [i])"
            ),
        ];
        for keep in keeps {
            let program = format!(
                r"{MALLINFO}
class {node}:
    def __init__(s, before, load): s.before = before; s.load = load
{keep}
# The names of the module lie in the heap of C, which is read after the objects.
globals().update(('other%d' % i, i) for i in range(100))
for i in range(20_000): grow(i)
print(json.dumps(dict(read=[id({name})])), flush=True); wait()
for i in range(20_000): grow(i)
say(); wait()
os._exit(0)
"
            );
            let mut target = Target::start(&python, &program);
            let scan = Moving::new(&mut target).scan();
            let held = scan.holders.iter().find(|held| held.name == node).expect("they hold most");
            let told = format!("global {name} of module __main__");
            assert!(!held.doubt.contains("garbage"), "{}: {held:?}", python.display());
            assert!(
                held.doubt.contains(&told) || held.text.contains(&told),
                "{}: {held:?}",
                python.display()
            );
        }
    }
}

#[test]
fn what_a_loop_works_on_is_not_said_to_hold_what_native_code_keeps() {
    for python in pythons() {
        for (again, make) in [1, 2, 3].into_iter().flat_map(|again| [(again, "[{}]"), (again, "({})")]) {
            let (name, made) = (random_name("batch"), make.replace("{}", "Sample(number), Sample(2), cfg"));
            let leaked = make.replace("{}", "number * 0.5, number * 0.25, number * 0.125");
            let program = format!(
                r"{LEAK}
class Sample:
    def __init__(s, number): s.number = number
cfg = dict(rate=0.1)
for number in range(100_000): leak({leaked})
{name} = None
def work(times):
    global {name}
    for number in range(times): {name} = {made}
work(50)
print(json.dumps(dict(read=[id({name})])), flush=True); sys.stdin.readline()
work({again})
print(json.dumps(dict()), flush=True); sys.stdin.readline()
os._exit(0)
"
            );
            let mut target = Target::start(&python, &program);
            let scan = Moving::new(&mut target).scan();
            let kind = if make.starts_with('[') { "list" } else { "tuple" };
            let held = scan.holders.iter().find(|held| held.name == kind).expect("they hold most");
            let told = held.share > 0.5 || held.doubt.contains(&name) || held.doubt.contains("may hold");
            assert!(!told, "{} {again} {make}: {held:?}", python.display());
        }
    }
}

#[test]
fn a_long_tuple_is_looked_at_once() {
    const MOST: Duration = Duration::from_secs(6);
    let python = pythons().pop().expect("a Python");
    let program = format!(
        r"{LEAK}
class One: __slots__ = ('all',)
for number in range(200_000): leak((number * 0.5, number * 0.25))
kept = tuple(One() for _ in range(100_000))
for one in kept: one.all = kept
print(json.dumps(dict()), flush=True); sys.stdin.readline()
os._exit(0)
"
    );
    let target = Target::start(&python, &program);
    let begun = Instant::now();
    let scan = target.scan();
    let took = begun.elapsed();
    let held = scan.holders.iter().find(|held| held.name == "tuple").expect("they hold most");
    assert!(held.share < 0.5 && !held.doubt.contains("may hold"), "{held:?}");
    assert!(took < MOST, "{took:?}");
}

#[test]
fn one_word_that_is_all_that_leads_to_them_is_told() {
    for python in pythons() {
        let [holder, other, name] = ["Holder", "Other", "kept"].map(random_name);
        let program = format!(
            r"{MALLINFO}{LEAK}
libc.malloc.restype = ctypes.c_void_p; libc.malloc.argtypes = [ctypes.c_size_t]
class {holder}(ctypes.c_void_p): pass
class {other}(ctypes.c_void_p): pass
def record(words):
    at = libc.malloc(max(len(words) * 8, 64))
    (ctypes.c_uint64 * len(words)).from_address(at)[:] = words
    return at
def made(number): one = bytearray(40_000); leak(one); return id(one)
block = record([made(number) for number in range(500)])
leak({other}(block))
{name} = {holder}(record([block]))
del block
gc.collect(); say(); wait()
"
        );
        let held = Target::start(&python, &program).scan().holders.swap_remove(0);
        let end = format!("{holder} <- global {name} of module __main__");
        let right = held.name == "bytearray" && held.text.ends_with(&end) && held.share > 0.95;
        assert!(right, "{}: {held:?}", python.display());
    }
}
