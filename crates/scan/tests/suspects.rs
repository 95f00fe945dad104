//! The usual suspects in real Pythons: what they are said to hold is theirs, and what is no holder is no suspect.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "test code")]

mod live;
mod targets;

use lowtide_scan::{Scan, Suspect};
use targets::{MALLINFO, Target, near, pythons, random_name};

fn suspect<'s>(scan: &'s Scan, attribute: &str, holder: &str) -> &'s Suspect {
    let found = scan.suspects.iter().find(|found| found.attribute == attribute && found.holder == holder);
    found.unwrap_or_else(|| panic!("no {attribute} of {holder}: {:?}", scan.suspects))
}

#[test]
fn what_others_hold_as_well_and_what_is_left_from_before_is_not_told_of_a_suspect() {
    for python in pythons() {
        let (state, owner, weight) = (random_name("State"), random_name("Owner"), random_name("Weight"));
        let program = format!(
            r"{MALLINFO}
import collections
elsewhere = [bytearray(100_000) for _ in range(60)]
class {weight}:
    def __init__(s): s.load = bytearray(200_000)
model = [{weight}() for _ in range(50)]
class {state}:
    def __init__(s): s.step = 0; s.log_history = [dict(loss=float(i), step=i) for i in range(300)]
class {owner}:
    def __init__(s):
        s.cache = dict((weight, bytearray(10_000)) for weight in model)
        s.buffer = collections.deque(elsewhere)
        s.callbacks = [s, [float(i) for i in range(500)]]
trainer, owner = {state}(), {owner}()
# Both keep words to what they had, behind their last entry and before their first.
trainer.log_history.extend(elsewhere); del trainer.log_history[300:]
for _ in range(60): owner.buffer.popleft()
owner.buffer.extend(bytearray(1_000) for _ in range(20))
say(); wait()
"
        );
        let scan = Target::start(&python, &program).scan();
        let log = suspect(&scan, "log_history", &state);
        assert!((300 * 200..300 * 600).contains(&log.bytes.0) && !log.at_least, "{python:?} {log:?}");
        let buffer = suspect(&scan, "buffer", &owner);
        assert!((20_000..30_000).contains(&buffer.bytes.0) && buffer.count == 20, "{python:?} {buffer:?}");
        assert!(!buffer.at_least, "{python:?} {buffer:?}");
        let cache = suspect(&scan, "cache", &owner);
        assert!(near(cache.bytes.0, 50 * 10_000, 10) && cache.at_least, "{python:?} {cache:?}");
        let callbacks = suspect(&scan, "callbacks", &owner);
        assert!((500 * 32..500 * 48).contains(&callbacks.bytes.0) && callbacks.at_least, "{callbacks:?}");
    }
}

#[test]
fn what_only_describes_a_holder_is_no_suspect_and_an_attribute_has_its_class() {
    for python in pythons() {
        let (state, config, plain) = (random_name("State"), random_name("Config"), random_name("Plain"));
        let program = format!(
            r"{MALLINFO}
import dataclasses, inspect, typing
@dataclasses.dataclass
class {config}:
    log_history: typing.List[int] = dataclasses.field(default_factory=list)
    cache: typing.Optional[dict] = None
def run(buffer, cache, results=()): return buffer
signature = inspect.signature(run)
class {plain}:
    def __init__(s): s.x = 1
described = dict(queue={plain}(), outputs=(1, 2), losses=[float(i) for i in range(100)])
class {state}:
    def __init__(s): s.__dict__.update(history=[float(i) for i in range(200)])
state = {state}()
say(); wait()
"
        );
        let scan = Target::start(&python, &program).scan();
        let told: Vec<(&str, &str)> =
            scan.suspects.iter().map(|found| (found.attribute.as_str(), found.holder.as_str())).collect();
        for name in ["log_history", "buffer", "results", "queue", "outputs"] {
            assert!(!told.iter().any(|(attribute, _)| *attribute == name), "{python:?} {name}: {told:?}");
        }
        assert_eq!(suspect(&scan, "losses", "").count, 100, "{python:?}");
        assert_eq!(suspect(&scan, "history", &state).count, 200, "{python:?}");
    }
}

#[test]
fn an_optimizer_is_told_by_what_it_has_and_a_callback_by_what_it_keeps() {
    for python in pythons() {
        let (optimizer, other) = (random_name("Optimizer"), random_name("Other"));
        let (weight, callback, kept) = (random_name("Weight"), random_name("Callback"), random_name("kept"));
        let program = format!(
            r"{MALLINFO}
import collections
class {weight}:
    def __init__(s): s.load = bytearray(200_000)
model = [{weight}() for _ in range(30)]
class {optimizer}:
    def __init__(s):
        s.param_groups = [dict(params=list(model), lr=0.1)]
        s.state = collections.defaultdict(dict)
        for weight in model: s.state[weight]['average'] = bytearray(50_000)
class {other}:
    def __init__(s): s.state = [bytearray(1_000) for _ in range(100)]
class {callback}:
    def __init__(s): s.{kept} = []; s.number = 0; s.owner = None
optimizer, other = {optimizer}(), {other}()
callbacks = [{callback}(), {callback}()]
for callback in callbacks: callback.{kept}.extend(bytearray(700) for _ in range(90))
say(); wait()
"
        );
        let scan = Target::start(&python, &program).scan();
        let state = suspect(&scan, "state", &optimizer);
        assert_eq!((state.count, state.label.as_str()), (30, "optimizer state"), "{python:?}");
        assert!(near(state.bytes.0, 30 * 50_000, 5), "{python:?} {state:?}");
        assert!(!scan.suspects.iter().any(|found| found.holder == other), "{python:?} {:?}", scan.suspects);
        let kept = suspect(&scan, &kept, &callback);
        assert_eq!((kept.count, kept.label.as_str()), (180, "user callbacks"), "{python:?}");
        assert!(near(kept.bytes.0, 180 * 770, 15) && !kept.at_least, "{python:?} {kept:?}");
    }
}

#[test]
fn the_largest_caches_of_functions_are_told_by_their_names() {
    for python in pythons() {
        let (large, bounded) = (random_name("large"), random_name("bounded"));
        let program = format!(
            r"{MALLINFO}
import functools
@functools.lru_cache(maxsize=None)
def {large}(i): return bytearray(20_000)
@functools.lru_cache(maxsize=1_000_000)
def {bounded}(i, j): return bytearray(5_000)
for i in range(150): {large}(i); {bounded}(i, str(i))
say(); wait()
"
        );
        let scan = Target::start(&python, &program).scan();
        for (name, bytes) in [(&large, 150 * 20_000), (&bounded, 150 * 5_000)] {
            let cache = suspect(&scan, "lru_cache", &format!("__main__.{name}"));
            assert_eq!(cache.count, 150, "{python:?}");
            // The entries of a bounded one are no objects in 3.9: their type was never made ready.
            let seen = name == &large || !python.ends_with("python3.9");
            assert!(near(cache.bytes.0, bytes, 10) || !seen && cache.at_least, "{python:?} {cache:?}");
        }
        let all = suspect(&scan, "lru_cache", "");
        assert!(all.count >= 300 && all.bytes.0 >= 150 * 20_000, "{python:?} {all:?}");
    }
}

#[test]
fn a_name_that_the_interpreter_has_in_itself_is_known_wherever_its_memory_lies() {
    for python in pythons() {
        let (first, other) = (random_name("First"), random_name("Other"));
        // Without chance in where memory lies, in some versions no text is in the heap of C before the pools are read.
        let program = format!(
            r"{MALLINFO}
FIXED = 0x40000
if not libc.personality(0xffffffff) & FIXED:
    libc.personality(FIXED)
    os.execv(sys.executable, open('/proc/self/cmdline').read().split('\0')[:-1])
class {first}:
    def __init__(s): s.cache = {{}}
class {other}:
    def __init__(s): s.buffer = []
first, other = {first}(), {other}()
for i in range(300): first.cache[i] = os.urandom(3_000); other.buffer.append(os.urandom(2_000))
say(); wait()
"
        );
        let scan = Target::start(&python, &program).scan();
        for (name, holder, bytes) in [("cache", &first, 300 * 3_000), ("buffer", &other, 300 * 2_000)] {
            let found = suspect(&scan, name, holder);
            assert!(found.count == 300 && near(found.bytes.0, bytes, 10), "{python:?} {found:?}");
        }
    }
}
