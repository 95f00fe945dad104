//! One line of `maps` in full: what a mapping is and what it is called.

use crate::parse::{hexadecimal, number, text};

/// One mapping of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "the kernel's four letters, each one a yes or a no")]
pub struct Region {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Whether the process may read it.
    pub readable: bool,
    /// Whether the process may write to it.
    pub writable: bool,
    /// Whether the process may run it.
    pub executable: bool,
    /// Whether writes are seen by others.
    pub shared: bool,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file's inode; 0 for none.
    pub inode: u64,
    /// A path, `[heap]`, `[stack]` or nothing.
    pub name: String,
}

impl Region {
    /// Whether a driver stands behind it: reading may hang, wake a device or touch its registers.
    pub fn is_device(&self) -> bool {
        let memory = ["/dev/shm/", "/dev/zero", "/dev/hugepages/"];
        let special = self.name.starts_with("[vvar") || self.name == "[vsyscall]";
        special
            || (self.name.starts_with("/dev/") && !memory.iter().any(|start| self.name.starts_with(start)))
            || self.name.starts_with("anon_inode:[io_uring]")
            || self.name.starts_with("anon_inode:[perf_event]")
    }

    /// Whether its pages count as resident: all but what the kernel itself lends.
    pub fn may_be_counted(&self) -> bool {
        self.readable && !self.name.starts_with("[vvar") && self.name != "[vsyscall]"
    }

    /// Whether a scan may look into it.
    pub fn may_be_read(&self) -> bool {
        self.readable && !self.is_device()
    }
}

/// Reads one line of `maps`. A name holds whatever its file is called, with newlines as `\012`.
pub fn region(line: &[u8]) -> Option<Region> {
    let mut rest = line;
    let range = word(&mut rest)?;
    let dash = range.iter().position(|byte| *byte == b'-')?;
    let (start, end) = (hexadecimal(range.get(..dash)?)?, hexadecimal(range.get(dash + 1..)?)?);
    let permissions = word(&mut rest)?;
    let offset = hexadecimal(word(&mut rest)?)?;
    let _device = word(&mut rest)?;
    let inode = number(word(&mut rest)?)?;
    let may = |at: usize, letter: u8| permissions.get(at) == Some(&letter);
    (start < end).then(|| Region {
        start,
        end,
        readable: may(0, b'r'),
        writable: may(1, b'w'),
        executable: may(2, b'x'),
        shared: may(3, b's'),
        offset,
        inode,
        name: text(rest.trim_ascii_start()),
    })
}

/// Takes the next word off the line.
fn word<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let line = rest.trim_ascii_start();
    let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
    let (word, behind) = line.split_at_checked(end)?;
    *rest = behind;
    (!word.is_empty()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_tells_what_a_mapping_is() {
        let line =
            b"7f00a000-7f00b000 r-xp 00002000 08:01 4242                       /opt/my lib/a.so (deleted)";
        let expected = Region {
            start: 0x7f00_a000,
            end: 0x7f00_b000,
            readable: true,
            executable: true,
            offset: 0x2000,
            inode: 4242,
            name: "/opt/my lib/a.so (deleted)".to_owned(),
            ..Region::default()
        };
        assert_eq!(region(line), Some(expected));
        let nameless = region(b"1000-2000 rw-s 00000000 00:05 9 ").unwrap();
        assert!(nameless.shared && nameless.writable && nameless.name.is_empty());
        assert_eq!(region(b"2000-1000 rw-p 00000000 00:00 0"), None);
        assert_eq!(region(b"1000-2000"), None);
    }

    #[test]
    fn a_driver_behind_a_mapping_is_known_by_its_name() {
        let named = |name: &str| Region { readable: true, name: name.to_owned(), ..Region::default() };
        for device in ["/dev/nvidia0", "/dev/nvidia-uvm", "/dev/dri/card0", "[vvar]", "anon_inode:[io_uring]"]
        {
            assert!(!named(device).may_be_read(), "{device}");
        }
        for memory in
            ["", "[heap]", "/dev/shm/torch_1", "/dev/zero (deleted)", "/usr/lib/libc.so.6", "[vdso]"]
        {
            assert!(named(memory).may_be_read(), "{memory}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = region(&bytes);
        }
    }
}
