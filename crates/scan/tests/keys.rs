//! What is shown as the key of a dict is a text that is its key: never what only looks like one, and never a value.

mod live;
mod targets;

use lowtide_scan::{Holders, Scan};
use targets::{MALLINFO, Target, pythons, random_name};

/// Keys that are no texts, each with two numbers in it.
const KEYS: [&str; 6] = [
    "(i % 977, i // 977)",
    "i << 70 | i",
    "i + 0.5",
    "frozenset((i, -i))",
    "b'%020d' % i",
    "('NAME', (i, i))",
];

/// All that is said of who holds what.
fn told(scan: &Scan) -> String {
    let steps = |held: &Holders| held.path.iter().map(|step| step.through.clone()).collect::<String>();
    scan.holders.iter().map(|held| format!("{}{}{}", held.text, held.also, steps(held))).collect()
}

#[test]
fn a_key_that_is_no_text_is_never_shown_as_one() {
    for python in pythons() {
        for key in KEYS {
            let name = random_name("index");
            let program = format!(
                "{MALLINFO}
{name} = {{}}
for i in range(40_000): {name}[{}] = [float(i) + k for k in range(12)]
gc.collect(); say(); wait()
",
                key.replace("NAME", &name)
            );
            let scan = Target::start(&python, &program).scan();
            let all = told(&scan);
            let end = format!("list <- dict of 40000 <- global {name} of module __main__");
            assert!(all.contains(&end), "{} {key}: {all}", python.display());
            assert!(!all.contains("['") && all.is_ascii(), "{} {key}: {all}", python.display());
        }
    }
}

#[test]
fn the_digits_of_a_number_that_is_a_key_are_not_shown_where_they_spell_a_text() {
    for python in pythons() {
        let name = random_name("index");
        // As many digits as letters, and letters where a text would have them (until 3.11).
        let program = format!(
            "{MALLINFO}
letters = int.from_bytes(b'abc1', 'little')
key = sum(letters << 30 * i for i in range(6, 16)) + (1 << 30 * 39)
{name} = {{key: [bytearray(40_000) for _ in range(500)]}}
gc.collect(); say(); wait()
"
        );
        let all = told(&Target::start(&python, &program).scan());
        let end = format!("list of 500 <- dict of 1 <- global {name} of module __main__");
        assert!(all.contains(&end) && !all.contains("abc1"), "{}: {all}", python.display());
    }
}

#[test]
fn a_value_is_never_shown_as_the_key_of_what_a_key_holds() {
    for python in pythons() {
        let (name, secret) = (random_name("index"), random_name("secret"));
        // The second key has a copy of itself in UTF-8, which hangs on it; the word before a key is the value before it.
        let program = format!(
            "{MALLINFO}
copy = ctypes.pythonapi.PyUnicode_AsUTF8
copy.argtypes, copy.restype = [ctypes.py_object], ctypes.c_void_p
{name} = {{'first': '{secret}', '\\u017c' * 5_000_000: 0}}
for key in {name}: copy(key)
del key
gc.collect(); say(); wait()
"
        );
        let scan = Target::start(&python, &program).scan();
        let all = told(&scan);
        assert!(all.contains(&format!("dict of 2 <- global {name}")), "{}: {all}", python.display());
        assert!(!all.contains(&secret), "{}: {all}", python.display());
    }
}
