//! Where named things of a program's files lie in its memory: the files are read, never the process.
//!
//! A Python is its executable or a libpython, or sits inside somebody else's program; only the exported symbol tables
//! are looked at, which survive `strip`. What a file claims is foreign: nothing here trusts a size.

use super::Region;
use crate::Root;
use object::read::{Object as _, ObjectSegment as _, ObjectSymbol as _, ReadCache};
use std::collections::BTreeSet;
use std::fs::File;

/// A symbol at its address in the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub address: u64,
    /// Its size, 0 where the file does not tell.
    pub size: u64,
    /// The file that defines it.
    pub file: String,
}

/// Files looked into at most. A torch process maps several hundred, none of which defines what we seek.
const MOST_FILES: usize = 48;
/// Symbols looked at in one file; libtorch has 200,000.
const MOST_SYMBOLS: usize = 40_000;

/// Looks for symbols in what is called after Python, then in the executable and the other files, until the first
/// of `names` was found. `names[0]` is what decides; the others are taken from the same file.
pub fn symbols(root: &Root, pid: u32, regions: &[Region], names: &[&str]) -> Vec<Symbol> {
    for name in candidates(regions).into_iter().take(MOST_FILES) {
        let found = in_file(root, pid, regions, &name, names);
        if found.iter().any(|symbol| Some(&symbol.name.as_str()) == names.first()) {
            return found;
        }
    }
    Vec::new()
}

/// Files with code in them, Python itself first, then as the process maps them: the executable is the lowest of them. Extension
/// modules come last: a torch process has more of them than are looked into, and they define nothing that others use.
fn candidates(regions: &[Region]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let files = regions.iter().filter(|region| region.executable && region.inode != 0);
    let mut names: Vec<&str> =
        files.map(|region| region.name.as_str()).filter(|name| seen.insert(*name)).collect();
    names.sort_by_key(|name| match name.rsplit('/').next().unwrap_or_default() {
        file if file.starts_with("python") || file.starts_with("libpython") => 0,
        file if file.contains(".cpython-") => 2,
        _ => 1,
    });
    names.into_iter().map(str::to_owned).collect()
}

fn in_file(root: &Root, pid: u32, regions: &[Region], name: &str, wanted: &[&str]) -> Vec<Symbol> {
    let mapped: Vec<&Region> = regions.iter().filter(|region| region.name == name).collect();
    let Some(file) = open(root, pid, &mapped) else {
        return Vec::new();
    };
    let cache = ReadCache::new(file);
    let Ok(object) = object::File::parse(&cache) else {
        return Vec::new();
    };
    let Some(bias) = bias(&object, &mapped) else {
        return Vec::new();
    };
    object
        .dynamic_symbols()
        .take(MOST_SYMBOLS)
        .filter(object::ObjectSymbol::is_definition)
        .filter_map(|symbol| {
            let name =
                wanted.iter().find(|name| symbol.name_bytes().is_ok_and(|bytes| bytes == name.as_bytes()))?;
            Some(((*name).to_owned(), symbol.address(), symbol.size()))
        })
        .map(|(symbol, address, size)| Symbol {
            name: symbol,
            address: address.wrapping_add(bias),
            size,
            file: name.to_owned(),
        })
        .collect()
}

/// The very file that is mapped where we may, else the one of that name as the process sees it.
fn open(root: &Root, pid: u32, mapped: &[&Region]) -> Option<File> {
    let first = mapped.first()?;
    let process = root.process(pid);
    let exact = process.join(format!("map_files/{:x}-{:x}", first.start, first.end));
    File::open(exact).ok().or_else(|| {
        let path = first.name.strip_prefix('/').filter(|name| !name.ends_with(" (deleted)"))?;
        File::open(process.join("root").join(path)).ok()
    })
}

/// What is to be added to an address in the file.
fn bias<'a>(object: &object::File<'a, &'a ReadCache<File>>, mapped: &[&Region]) -> Option<u64> {
    mapped.iter().find_map(|region| {
        object.segments().find_map(|segment| {
            let (offset, size) = segment.file_range();
            let inside =
                region.offset <= offset && offset < region.offset.checked_add(region.end - region.start)?;
            let at = region.start.wrapping_add(offset.wrapping_sub(region.offset));
            (inside && size > 0).then(|| at.wrapping_sub(segment.address()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_itself_is_looked_into_before_its_extension_modules() {
        let line = |number: u64, name: &str| {
            let (start, end) = (number << 20, (number + 1) << 20);
            super::super::region(format!("{start:x}-{end:x} r-xp 00000000 fe:00 {number} {name}").as_bytes())
        };
        let modules =
            (2..90).map(|number| line(number, &format!("/l/_m{number}.cpython-311-x86_64-linux-gnu.so")));
        let regions: Vec<Region> = std::iter::once(line(1, "/b/train"))
            .chain(modules)
            .chain([line(95, "/l/libpython3.11.so.1.0"), line(96, "/l/libc.so.6")])
            .flatten()
            .collect();
        assert_eq!(regions.len(), 91);
        assert_eq!(candidates(&regions)[..3], ["/l/libpython3.11.so.1.0", "/b/train", "/l/libc.so.6"]);
    }

    use crate::memory::LiveMemory;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn pythons_type_of_types_is_where_python_says() {
        let say = "import sys; print(id(type), flush=True); sys.stdin.read()";
        let mut child = Command::new("python3")
            .args(["-c", say])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let memory = LiveMemory::open(&Root::live(), child.id()).known().unwrap();
        let found = symbols(&Root::live(), child.id(), memory.regions(), &["PyType_Type", "Py_GetVersion"]);
        let _ = child.kill();
        let _ = child.wait();
        let of = |name: &str| found.iter().find(|symbol| symbol.name == name).unwrap();
        assert_eq!(of("PyType_Type").address, line.trim().parse::<u64>().unwrap());
        assert!(of("Py_GetVersion").address > 0);
    }

    #[test]
    fn a_program_without_it_has_none() {
        let pid = std::process::id();
        let memory = LiveMemory::open(&Root::live(), pid).known().unwrap();
        assert_eq!(symbols(&Root::live(), pid, memory.regions(), &["PyType_Type"]), []);
    }
}
