//! Tells from a command line whether it is Python, and whether its flags keep `sitecustomize` out.

use std::path::Path;

/// A Python, and whether it would load the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Python {
    /// Nothing on its command line keeps the agent out.
    Open,
    /// This flag does.
    Shut(&'static str),
}

/// What the command line says; nothing for what is no Python.
pub(crate) fn of(argv: &[String]) -> Option<Python> {
    let (program, words) = argv.split_first()?;
    is_name(Path::new(program)).then(|| flag(words).map_or(Python::Open, Python::Shut))
}

/// Whether a program of this name is a Python.
pub(crate) fn is_name(program: &Path) -> bool {
    let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    version.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.' || c == 't'))
}

fn flag(words: &[String]) -> Option<&'static str> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let letters = word.strip_prefix('-').filter(|letters| !letters.is_empty())?;
        if letters.starts_with('-') {
            continue;
        }
        for (at, letter) in letters.char_indices() {
            match letter {
                'I' => return Some("-I"),
                'E' => return Some("-E"),
                'S' => return Some("-S"),
                // What follows is the program, and no flag of Python's.
                'c' | 'm' => return None,
                'W' | 'X' => {
                    if at + 1 == letters.len() {
                        words.next();
                    }
                    break;
                }
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: &str) -> Option<Python> {
        of(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn flags_of_python_are_told_from_words_of_the_program() {
        assert_eq!(line("python train.py -I"), Some(Python::Open));
        assert_eq!(line("/usr/bin/python3.12 -I train.py"), Some(Python::Shut("-I")));
        assert_eq!(line("python3 -uBE -m train"), Some(Python::Shut("-E")));
        assert_eq!(line("python3 -m train -S"), Some(Python::Open));
        assert_eq!(line("python3 -X importtime -S x.py"), Some(Python::Shut("-S")));
        assert_eq!(line("python3 -Xdev -c I"), Some(Python::Open));
        assert_eq!(line("python3.13t x.py"), Some(Python::Open));
    }

    #[test]
    fn other_programs_are_no_python() {
        for other in ["pythonic x", "bash -I", "", "python-config --includes"] {
            assert_eq!(line(other), None, "{other}");
        }
    }
}
