//! The last word of a block of the C allocator lies in the head of the next one: what hangs on it has its holder.

#![allow(clippy::unwrap_used, reason = "test code")]

mod live;
mod targets;

use targets::{MALLINFO, Target, pythons, random_name};

/// How something is held whose last word matters, and how the way to it ends; `HELD` is what it is called.
const SHAPES: [(&str, &str); 4] = [
    (
        "def make():\n    mine = planted()\n    return lambda: mine\nHELD = make()",
        "cell <- tuple of 1 <- function.__closure__",
    ),
    ("HELD = [1, 2, planted()]", "list of 3"),
    ("HELD = [None] * 64 + [planted()]", "list of 65"),
    ("class Last: __slots__ = ('one', 'two', 'last')\nHELD = Last(); HELD.last = planted()", "Last.last"),
];

#[test]
fn what_hangs_on_the_last_word_of_a_block_has_its_holder() {
    for malloc in [None, Some("malloc"), Some("malloc_debug")] {
        for python in pythons() {
            for (shape, way) in SHAPES {
                let name = random_name("held");
                let shape = shape.replace("HELD", &name);
                let program = format!(
                    "{MALLINFO}\ndef planted(): return [bytearray(3000) for _ in range(999)]\n{shape}\nsay(); wait()\n"
                );
                let target = Target::start_with(&python, &program, malloc);
                let scan = target.scan();
                let held = scan.holders.iter().find(|held| held.name == "bytearray").unwrap();
                let wanted = format!("list of 999 <- {way} <- global {name} of module __main__");
                assert!(
                    held.text.ends_with(&wanted),
                    "{} {malloc:?}: {:?} {:?}",
                    python.display(),
                    held.text,
                    held.doubt
                );
            }
        }
    }
}

/// The upper half of a function's last word was never written, and the lower one is a number: where both together are the address
/// of something, that hangs on where it is held all the same.
#[test]
fn the_number_at_the_end_of_a_function_holds_nothing() {
    for python in pythons() {
        let (name, other) = (random_name("held"), random_name("other"));
        let program = format!(
            "{MALLINFO}
def planted(): return [bytearray(3000) for _ in range(999)]
{name} = [[[[planted()]]]]
def {other}(): pass
import types
if sys.version_info >= (3, 11):
    size = types.FunctionType.__basicsize__
    ctypes.c_size_t.from_address(id({other}) + size - 8).value = id({name}[0][0][0][0])
say(); wait()
os._exit(0)
"
        );
        let scan = Target::start(&python, &program).scan();
        let held = scan.holders.iter().find(|held| held.name == "bytearray").unwrap();
        let wanted = format!("<- list of 1 <- global {name} of module __main__");
        assert!(held.text.ends_with(&wanted), "{}: {:?} {:?}", python.display(), held.text, held.doubt);
    }
}
