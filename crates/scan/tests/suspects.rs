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
