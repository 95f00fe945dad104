//! What a process's pages don't tell: how Python was asked to allocate, and where threads stand on their stacks.

use crate::Root;
use crate::open_file::{CAP, read_capped};
use crate::parse::{environ, hexadecimal, words};

/// Threads looked at.
const MOST_THREADS: usize = 4096;

/// `PYTHONMALLOC` as the process was started with it; Python's development mode asks for `debug`. `None` where nothing
/// was asked for or the environment may not be read.
pub fn python_malloc_of(root: &Root, pid: u32) -> Option<String> {
    let process = root.process(pid);
    let wanted = |name: &str| matches!(name, "PYTHONMALLOC" | "PYTHONDEVMODE");
    let variables = read_capped(&process.join("environ"), CAP).map(|bytes| environ(&bytes, wanted));
    let arguments = read_capped(&process.join("cmdline"), CAP).unwrap_or_default();
    let words: Vec<&[u8]> = arguments.split(|byte| *byte == 0).collect();
    let dev = words.windows(2).any(|pair| pair == [&b"-X"[..], b"dev"]) || words.contains(&&b"-Xdev"[..]);
    asked_for(&variables.unwrap_or_default(), dev)
}

fn asked_for(variables: &[(String, String)], dev: bool) -> Option<String> {
    let value = |wanted: &str| {
        variables.iter().find(|(name, value)| name == wanted && !value.is_empty()).map(|(_, v)| v)
    };
    let dev = dev || value("PYTHONDEVMODE").is_some();
    value("PYTHONMALLOC").cloned().or_else(|| dev.then(|| "debug".to_owned()))
}

/// The stack pointer of every thread that waits in the kernel; one that runs has none to tell.
pub fn stack_pointers(root: &Root, pid: u32) -> Vec<u64> {
    let Ok(tasks) = std::fs::read_dir(root.process(pid).join("task")) else {
        return Vec::new();
    };
    let lines = tasks.filter_map(|task| read_capped(&task.ok()?.path().join("syscall"), 4096).ok());
    lines.take(MOST_THREADS).filter_map(|line| stack_pointer(&line)).collect()
}

/// The last word but one of `syscall`: number, six arguments, stack pointer, program counter.
fn stack_pointer(line: &[u8]) -> Option<u64> {
    let words: Vec<&[u8]> = words(line).collect();
    let [.., pointer, _] = words.as_slice() else {
        return None;
    };
    hexadecimal(pointer.strip_prefix(b"0x")?).filter(|pointer| *pointer != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn python_is_asked_by_variable_or_by_development_mode() {
        let with = |name: &str, value: &str| asked_for(&[(name.to_owned(), value.to_owned())], false);
        assert_eq!(with("PYTHONMALLOC", "malloc").as_deref(), Some("malloc"));
        assert_eq!(with("PYTHONMALLOC", ""), None);
        assert_eq!(with("PYTHONDEVMODE", "1").as_deref(), Some("debug"));
        assert_eq!(asked_for(&[], true).as_deref(), Some("debug"));
        assert_eq!(asked_for(&[], false), None);
    }

    #[test]
    fn a_waiting_thread_tells_its_stack_pointer_and_a_running_one_does_not() {
        let waiting = b"0 0x0 0x7ffe5b0 0x1 0x0 0x0 0x0 0x7ffe5a90f4d8 0x7f2c8a4f1b6d\n";
        assert_eq!(stack_pointer(waiting), Some(0x7ffe_5a90_f4d8));
        assert_eq!(stack_pointer(b"-1 0x7ffe5a90f4d8 0x7f2c8a4f1b6d\n"), Some(0x7ffe_5a90_f4d8));
        assert_eq!(stack_pointer(b"running\n"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = stack_pointer(&bytes);
        }
    }
}
