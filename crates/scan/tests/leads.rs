//! What leads to an object and what only seems to, in real Pythons: words that are left from before, and frames of functions
//! that run.

mod live;
mod targets;

use lowtide_scan::Holders;
use std::path::Path;
use targets::{MALLINFO, Target, pythons, random_name};

/// Who holds the bytearrays, by far most of what a program keeps.
#[allow(clippy::expect_used, reason = "test code")]
fn holder(python: &Path, program: &str) -> Holders {
    let target = Target::start(python, &format!("{MALLINFO}\n{program}"));
    target.scan().holders.into_iter().find(|held| held.name == "bytearray").expect("bytearrays hold most")
}

const FILL: &str = "[bytearray(40_000) for _ in range(500)]";

#[test]
fn a_queue_holds_what_is_in_it_and_nothing_that_went_through_it() {
    for python in pythons() {
        let (name, other) = (random_name("kept"), random_name("Inner"));
        let class =
            format!("class {other}: pass\n{name} = {other}(); {name}.a = {other}(); {name}.a.kept = {{}}\n");
        let keep = format!("{name}.a.kept[len({name}.a.kept)] = ");
        let kept = format!("dict of 500 <- {other}.kept <- {other}.a <- global {name} of module __main__");
        let cases = [
            // Empty: taken from the other end than put in, from the same end, and put in at the other end.
            ("append", "popleft", 500, 500),
            ("append", "pop", 500, 500),
            ("appendleft", "popleft", 500, 500),
            // Some are left; then all but the first of those are gone too.
            ("append", "popleft", 500, 480),
            ("append", "popleft", 40, 38),
        ];
        for (put, take, all, taken) in cases {
            let rest = 500 - all;
            let program = format!(
                "import collections\n{class}
line = collections.deque()
for i in range({rest}): {keep}bytearray(40_000)
for i in range({all}):
    item = bytearray(40_000); line.{put}(item); {keep}item
del item
for i in range({taken}): line.{take}()
gc.collect(); say(); wait()"
            );
            let held = holder(&python, &program);
            assert!(held.text.ends_with(&kept), "{} {put} {take}: {held:?}", python.display());
            let most = 1.0 - f64::from(all - taken) / 500.0 - 0.05;
            assert!(held.share >= most && held.doubt.is_empty(), "{} {take}: {held:?}", python.display());
        }
    }
}

#[test]
fn what_code_holds_is_held_by_who_holds_the_code() {
    for python in pythons() {
        let name = random_name("made");
        let program = format!(
            "{MALLINFO}
{name} = {{}}
for number in range(300):
    text = ', '.join(str(number * 1000 + k + 10**9) for k in range(300))
    space = {{}}
    exec(f'def f(x): return x in [{{text}}]', space)
    {name}[number] = space['f']
del space, text
gc.collect(); say(modern=sys.version_info >= (3, 11)); wait()"
        );
        let target = Target::start(&python, &program);
        let scan = target.scan();
        let held = scan.holders.iter().find(|held| held.name == "int").unwrap();
        let named =
            held.text.contains("code") && held.text.ends_with(&format!("global {name} of module __main__"));
        assert!(named || target.truth["modern"] == false, "{}: {held:?}", python.display());
    }
}

#[test]
fn what_is_in_a_queue_is_held_by_it() {
    for python in pythons() {
        let name = random_name("line");
        for moved in [0, 30, 3000] {
            let program = format!(
                "import collections\n{name} = collections.deque()
for i in range(1000): {name}.append(bytearray(20_000))
for i in range({moved}): {name}.rotate(-1)
for i in range({moved}): {name}.append({name}.popleft())
gc.collect(); say(); wait()"
            );
            let held = holder(&python, &program);
            let end = format!("deque <- global {name} of module __main__");
            let right = held.text.ends_with(&end) && held.share > 0.95;
            assert!(right && held.doubt.is_empty(), "{} {moved}: {held:?}", python.display());
        }
    }
}

#[test]
fn what_an_argument_of_a_running_function_holds_is_held_by_that() {
    for python in pythons() {
        let (name, function) = (random_name("arg"), random_name("fun"));
        let stop = "say(); wait()";
        let (own, this) = (format!("local {name} of function "), "local self of function ".to_owned());
        let cases = [
            (format!("def {function}({name}): {stop}\n{function}({FILL})"), &own),
            (format!("def {function}(*, {name}): {stop}\n{function}({name}={FILL})"), &own),
            (format!("def {function}(*{name}): {stop}\n{function}({FILL})"), &own),
            (format!("def {function}({name}): {stop}\ndef main(): {function}({FILL})\nmain()"), &own),
            (
                format!(
                    "class Some:\n    def {function}(self):\n        self.seen = {FILL}; {stop}\nSome().{function}()"
                ),
                &this,
            ),
            (
                format!(
                    "class Some:\n    def {function}(self):\n        self.seen = {FILL}; {stop}\ndef main(): Some().{function}()\nmain()"
                ),
                &this,
            ),
        ];
        for (program, local) in cases {
            let held = holder(&python, &program);
            let named = held.text.contains(local.as_str()) && held.text.ends_with(&function);
            assert!(named && held.share > 0.9 && held.doubt.is_empty(), "{}: {held:?}", python.display());
        }
    }
}

#[test]
fn a_local_that_an_inner_function_shares_is_named() {
    for python in pythons() {
        let (name, function) = (random_name("shared"), random_name("fun"));
        let outer = format!(
            "def {function}():\n    {name} = []\n    def inner():\n        for _ in range(500): {name}.append(bytearray(40_000))\n    inner(); del inner; say(); wait()\n{function}()"
        );
        let inner = format!(
            "def outer():\n    {name} = {FILL}\n    def {function}():\n        say(); wait(); {name}\n    return {function}\nouter()()"
        );
        for program in [outer, inner] {
            let held = holder(&python, &program);
            let local = format!("local {name} of function ");
            let named = held.text.contains(&local) && held.text.ends_with(&function);
            assert!(named && held.share > 0.9 && held.doubt.is_empty(), "{}: {held:?}", python.display());
        }
    }
}

#[test]
fn the_same_local_of_many_frames_of_one_function_is_one_holder() {
    for python in pythons() {
        let (name, function) = (random_name("mine"), random_name("fun"));
        let deep = format!(
            "def {function}(n):\n    {name} = bytearray(80_000)\n    if n: {function}(n - 1)\n    else: say(); wait()\n{function}(250)"
        );
        let beside = format!(
            "ready = threading.Barrier(9)
def {function}():
    {name} = [bytearray(40_000) for _ in range(80)]
    ready.wait(); threading.Event().wait()
for _ in range(8): threading.Thread(target={function}, daemon=True).start()
ready.wait(); say(); wait()"
        );
        for (program, way) in [(deep, "bytearray <-"), (beside, "bytearray <- list <-")] {
            let held = holder(&python, &program);
            let text = format!("{way} local {name} of function {function}");
            let right = held.text == text && held.share > 0.9 && held.doubt.is_empty();
            assert!(right, "{}: {held:?}", python.display());
        }
    }
}

#[test]
fn what_nothing_with_a_name_leads_to_is_told_as_that() {
    for python in pythons() {
        let garbage = "gc.disable()
class Cycle: pass
def make():
    for _ in range(500): one = Cycle(); one.own, one.load = one, bytearray(40_000)
make(); say(); wait()";
        let held = holder(&python, garbage);
        assert!(held.doubt.starts_with("no name leads to them: perhaps garbage"), "{held:?}");
        assert!(held.text.is_empty() && held.path.is_empty() && held.agree == 0, "{held:?}");
        let working = format!("def make():\n    for one in {FILL}:\n        say(); wait()\nmake()");
        let held = holder(&python, &working);
        assert!(held.doubt.starts_with("no name leads to them, only what a running function"), "{held:?}");
        assert!(held.text.contains("list of 500") && held.agree == held.samples, "{held:?}");
    }
}
