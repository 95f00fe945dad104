//! Whose allocator a process uses, told by the files it maps and the settings it was started with.
//!
//! A scan understands glibc's heap and Python's own pools. Any other allocator has to be said, not guessed through.

use super::Region;
use crate::Root;
use crate::open_file::{CAP, read_capped};
use crate::parse::environ;

/// The `malloc` of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malloc {
    /// The GNU C library's.
    Glibc,
    /// musl's.
    Musl,
    /// jemalloc, loaded as a library.
    Jemalloc,
    /// tcmalloc, loaded as a library.
    Tcmalloc,
    /// mimalloc, loaded as a library.
    Mimalloc,
    /// No C library that we know: a static program, most likely.
    Unknown,
}

/// Where Python takes its small objects from, as it was asked at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PythonMalloc {
    /// Its own pools: nothing else was asked for.
    Pools,
    /// Its own pools, with debug headers around every block.
    PoolsDebug,
    /// The C library's malloc.
    Malloc,
    /// mimalloc, which 3.13 brings with it.
    Mimalloc,
}

/// Library names that replace malloc, most telling first.
const REPLACEMENTS: [(&str, Malloc); 4] = [
    ("libjemalloc", Malloc::Jemalloc),
    ("libtcmalloc", Malloc::Tcmalloc),
    ("libmimalloc", Malloc::Mimalloc),
    ("ld-musl", Malloc::Musl),
];

/// Tells the malloc from what is mapped.
pub fn malloc_of(regions: &[Region]) -> Malloc {
    let base = |region: &Region| region.name.rsplit('/').next().unwrap_or_default().to_owned();
    let names: Vec<String> = regions.iter().filter(|region| region.executable).map(base).collect();
    let has = |start: &str| names.iter().any(|name| name.starts_with(start));
    let replaced = REPLACEMENTS.iter().find(|(start, _)| has(start)).map(|(_, malloc)| *malloc);
    let own = || if has("libc.so.6") || has("libc-2.") { Malloc::Glibc } else { Malloc::Unknown };
    replaced.unwrap_or_else(own)
}

/// Tells what Python was asked for by its environment and its command line.
pub fn python_malloc_of(root: &Root, pid: u32) -> PythonMalloc {
    let process = root.process(pid);
    let wanted = |name: &str| matches!(name, "PYTHONMALLOC" | "PYTHONDEVMODE");
    let variables = read_capped(&process.join("environ"), CAP).map(|bytes| environ(&bytes, wanted));
    let arguments = read_capped(&process.join("cmdline"), CAP).unwrap_or_default();
    let words: Vec<&[u8]> = arguments.split(|byte| *byte == 0).collect();
    let dev = words.windows(2).any(|pair| pair == [&b"-X"[..], b"dev"]) || words.contains(&&b"-Xdev"[..]);
    asked_for(&variables.unwrap_or_default(), dev)
}

fn asked_for(variables: &[(String, String)], dev: bool) -> PythonMalloc {
    let value =
        |wanted: &str| variables.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let dev = dev || value("PYTHONDEVMODE").is_some_and(|value| !value.is_empty());
    match value("PYTHONMALLOC") {
        Some("malloc" | "malloc_debug") => PythonMalloc::Malloc,
        Some("mimalloc" | "mimalloc_debug") => PythonMalloc::Mimalloc,
        Some("debug" | "pymalloc_debug") => PythonMalloc::PoolsDebug,
        Some("pymalloc") => PythonMalloc::Pools,
        _ if dev => PythonMalloc::PoolsDebug,
        _ => PythonMalloc::Pools,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(names: &[&str]) -> Vec<Region> {
        let region = |name: &&str| Region { executable: true, name: (*name).to_owned(), ..Region::default() };
        names.iter().map(region).collect()
    }

    #[test]
    fn a_preloaded_allocator_comes_before_the_c_library() {
        assert_eq!(malloc_of(&mapped(&["/usr/bin/python3", "/lib/libc.so.6"])), Malloc::Glibc);
        let preloaded = mapped(&["/lib/libc.so.6", "/usr/lib/libjemalloc.so.2"]);
        assert_eq!(malloc_of(&preloaded), Malloc::Jemalloc);
        assert_eq!(malloc_of(&mapped(&["/x/libtcmalloc_minimal.so.4"])), Malloc::Tcmalloc);
        assert_eq!(malloc_of(&mapped(&["/lib/ld-musl-x86_64.so.1"])), Malloc::Musl);
        assert_eq!(malloc_of(&mapped(&["/opt/static"])), Malloc::Unknown);
    }

    #[test]
    fn python_is_asked_by_variable_or_by_development_mode() {
        let with = |name: &str, value: &str| asked_for(&[(name.to_owned(), value.to_owned())], false);
        assert_eq!(with("PYTHONMALLOC", "malloc"), PythonMalloc::Malloc);
        assert_eq!(with("PYTHONMALLOC", "debug"), PythonMalloc::PoolsDebug);
        assert_eq!(with("PYTHONMALLOC", "mimalloc"), PythonMalloc::Mimalloc);
        assert_eq!(with("PYTHONDEVMODE", "1"), PythonMalloc::PoolsDebug);
        assert_eq!(asked_for(&[], true), PythonMalloc::PoolsDebug);
        assert_eq!(asked_for(&[], false), PythonMalloc::Pools);
    }

    #[test]
    fn this_test_runs_on_a_known_c_library() {
        let memory = crate::memory::LiveMemory::open(&Root::live(), std::process::id()).known().unwrap();
        assert_ne!(malloc_of(memory.regions()), Malloc::Unknown);
    }
}
