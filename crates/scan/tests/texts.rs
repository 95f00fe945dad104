//! What a text keeps beside itself is its own: the copy in UTF-8 that C code asked for.

#![allow(clippy::unwrap_used, reason = "test code")]

mod live;
mod targets;

use targets::{MALLINFO, Target, near, pythons, random_name, row};

/// Asks for the UTF-8 of texts as C code does that takes a `const char *`.
const ASK: &str = "
ask = ctypes.pythonapi.PyUnicode_AsUTF8
ask.argtypes, ask.restype = [ctypes.py_object], ctypes.c_void_p
";

#[test]
fn the_copy_of_a_text_in_utf_8_is_the_texts_in_every_python() {
    for malloc in [None, Some("malloc"), Some("malloc_debug")] {
        for python in pythons() {
            let (keep, small) = (random_name("keep"), random_name("small"));
            let program = format!(
                r#"{MALLINFO}{ASK}
{keep} = ["\u00e4\u00f6\u00fc" * 700 + str(i) for i in range(2000)] + ["\u65e5\u672c" * 40_000 + str(i) for i in range(20)]
{small} = ["\u00e9%d" % i for i in range(3000)]
plain = ["only ascii %d" % i for i in range(4000)]
for text in {keep} + {small} + plain: ask(text)
say(copies=sum(len(t.encode()) + 1 for t in {keep} + {small})); wait()
"#
            );
            let target = Target::start_with(&python, &program, malloc);
            let scan = target.scan();
            let (found, place) = (row(&scan, "str"), python.display());
            let copies = target.truth["copies"].as_u64().unwrap();
            assert!(
                near(found.owned_bytes.0, copies, 5),
                "{place} {malloc:?}: {} of {copies}",
                found.owned_bytes
            );
            assert_eq!(found.classes, 1, "{place}");
            let held = scan.holders.iter().find(|held| held.name == "str").unwrap();
            assert!(
                held.text.ends_with(&format!("list of 2020 <- global {keep} of module __main__")),
                "{place} {malloc:?}: {held:?}"
            );
        }
    }
}

#[test]
fn a_suspect_has_the_copies_of_its_texts() {
    for python in pythons() {
        let program = format!(
            r#"{MALLINFO}{ASK}
results = ["\u00e4\u00f6\u00fc" * 700 + str(i) for i in range(500)]
also = list(results)
for text in results: ask(text)
say(bytes=sum(sys.getsizeof(t) for t in results)); wait()
"#
        );
        let target = Target::start(&python, &program);
        let scan = target.scan();
        let found = scan.suspects.iter().find(|suspect| suspect.attribute == "results").unwrap();
        let bytes = target.truth["bytes"].as_u64().unwrap();
        assert!(near(found.bytes.0, bytes, 5), "{}: {found:?} of {bytes}", python.display());
    }
}
