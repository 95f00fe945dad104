//! What leads to an object and what only seems to, in real Pythons: words that are left from before.

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
