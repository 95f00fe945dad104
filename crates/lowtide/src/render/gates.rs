//! The outcome of gates: for people, for programs, as `JUnit` XML, and as annotations of GitHub Actions.

use super::plain;
use super::verdict::wrapped;
use crate::commands::check::{Gate, Says};
use std::fmt::Write as _;

/// The name of this JSON's form.
const SCHEMA: &str = "lowtide.check/1";

const fn word(says: Says) -> &'static str {
    match says {
        Says::Pass => "pass",
        Says::TooEarly => "too early",
        Says::CouldNot => "could not",
        Says::Fail => "FAIL",
    }
}

/// The worst first, in one sentence; then the gates of each file.
pub(crate) fn gates_text(gates: &[Gate], width: Option<usize>) -> String {
    let count = |says: Says| gates.iter().filter(|gate| gate.says == says).count();
    let all = times(gates.len());
    let mut text = match (count(Says::Fail), count(Says::CouldNot), count(Says::TooEarly)) {
        (0, 0, 0) => format!("Passed: {all}.\n"),
        (0, 0, early) => format!("Too early to say: {early} of {all} can't be decided yet.\n"),
        (0, unable, _) => format!("Could not be checked: {unable} of {all}.\n"),
        (failed, ..) => format!("Failed: {failed} of {all}.\n"),
    };
    for (file, gates) in by_file(gates) {
        if !file.is_empty() {
            let _ = writeln!(text, "{}", plain(file, 200));
        }
        for gate in gates {
            let words = wrapped(&plain(&gate.text, usize::MAX), 23, width);
            let _ = writeln!(text, "  {:<9} {:<10} {words}", word(gate.says), gate.flag);
        }
    }
    text
}

/// Files in the order they were given.
fn by_file(gates: &[Gate]) -> Vec<(&str, Vec<&Gate>)> {
    let mut files: Vec<(&str, Vec<&Gate>)> = Vec::new();
    for gate in gates {
        match files.iter_mut().find(|(file, _)| *file == gate.file) {
            Some((_, gates)) => gates.push(gate),
            None => files.push((&gate.file, vec![gate])),
        }
    }
    files
}

fn times(gates: usize) -> String {
    if gates == 1 { "1 gate".to_owned() } else { format!("{gates} gates") }
}

/// One object a line.
pub(crate) fn gates_json(gates: &[Gate]) -> String {
    let line = |gate: &Gate| {
        serde_json::json!({
            "schema": SCHEMA, "file": gate.file, "gate": gate.flag, "says": gate.says, "text": gate.text,
        })
    };
    gates.iter().map(|gate| format!("{}\n", line(gate))).collect()
}

/// A suite a file, a case a gate. What can't be decided yet is an error, not a failure: the two are told apart by readers.
pub(crate) fn gates_junit(gates: &[Gate]) -> String {
    let count =
        |gates: &[&Gate], says: &[Says]| gates.iter().filter(|gate| says.contains(&gate.says)).count();
    let sums = |gates: &[&Gate]| {
        format!(
            "tests=\"{}\" failures=\"{}\" errors=\"{}\"",
            gates.len(),
            count(gates, &[Says::Fail]),
            count(gates, &[Says::TooEarly, Says::CouldNot])
        )
    };
    let all: Vec<&Gate> = gates.iter().collect();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"lowtide check\" {}>\n",
        sums(&all)
    );
    for (file, gates) in by_file(gates) {
        let _ = writeln!(xml, "  <testsuite name=\"{}\" {}>", escaped(file), sums(&gates));
        for gate in gates {
            let _ = writeln!(xml, "    {}", case(gate));
        }
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

fn case(gate: &Gate) -> String {
    let (file, text) = (escaped(&gate.file), escaped(&gate.text));
    let start = format!("<testcase name=\"{}\" classname=\"{file}\"", escaped(&gate.flag));
    match gate.says {
        Says::Pass => format!("{start}><system-out>{text}</system-out></testcase>"),
        Says::Fail => format!("{start}><failure message=\"{text}\" type=\"finding\"/></testcase>"),
        Says::TooEarly => format!("{start}><error message=\"{text}\" type=\"too-early\"/></testcase>"),
        Says::CouldNot => format!("{start}><error message=\"{text}\" type=\"could-not\"/></testcase>"),
    }
}

/// Text for XML 1.0: the five signs escaped, and what no XML may hold left out.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' | '\r' | '\t' => out.push(' '),
            control if control.is_control() => out.push('\u{FFFD}'),
            '\u{FFFE}' | '\u{FFFF}' => out.push('\u{FFFD}'),
            other => out.push(other),
        }
    }
    out
}

/// One workflow command a gate; what passed is told plainly.
pub(crate) fn gates_github(gates: &[Gate]) -> String {
    let mut text = String::new();
    for gate in gates {
        let level = match gate.says {
            Says::Pass => "notice",
            Says::TooEarly => "warning",
            Says::Fail | Says::CouldNot => "error",
        };
        let title = property(&format!("lowtide check {}", gate.flag));
        let words = message(&format!("{}: {}", gate.file, gate.text));
        let _ = writeln!(text, "::{level} title={title}::{words}");
    }
    text
}

/// As GitHub's own toolkit escapes a message.
fn message(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// As GitHub's own toolkit escapes a property.
fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gate(file: &str, text: &str, says: Says) -> Gate {
        Gate { flag: "no-leak".into(), file: file.into(), says, text: text.into() }
    }

    #[test]
    fn a_hostile_name_stays_one_annotation() {
        let text = gates_github(&[gate("a\n::error::forged", "100 % of it", Says::Fail)]);
        assert_eq!(text, "::error title=lowtide check no-leak::a%0A::error::forged: 100 %25 of it\n");
        assert_eq!(property("a:b,c"), "a%3Ab%2Cc");
    }

    proptest! {
        #[test]
        fn any_names_make_well_formed_xml_that_gives_them_back(file: String, text in "[^\\p{C}]{0,40}") {
            let xml = gates_junit(&[gate(&file, &text, Says::Fail), gate("b", &text, Says::Pass)]);
            let mut reader = quick_xml::Reader::from_str(&xml);
            let mut messages = Vec::new();
            loop {
                let event = reader.read_event().unwrap();
                if matches!(event, quick_xml::events::Event::Eof) {
                    break;
                }
                let (quick_xml::events::Event::Start(tag) | quick_xml::events::Event::Empty(tag)) = event else { continue };
                for attribute in tag.attributes() {
                    let attribute = attribute.unwrap();
                    let value = attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0).unwrap().into_owned();
                    if attribute.key.as_ref() == "message" {
                        messages.push(value);
                    }
                }
            }
            prop_assert_eq!(messages, vec![text]);
        }
    }
}
