//! Real Pythons with planted objects, for tests: names are random in each run, and the program itself says what it
//! planted.

#![allow(clippy::expect_used, clippy::panic, reason = "test code")]
#![allow(dead_code, reason = "each test file uses its part of this")]

use crate::live::Live;
use lowtide_scan::{Facts, Mapping, Memory, PythonFacts, Scan, Settings, TypeUse, scan};
use serde_json::Value;
use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Tells what mallinfo2 says, for all arenas together.
pub(crate) const MALLINFO: &str = r#"
import ctypes, json, os, sys, threading, gc
class Info(ctypes.Structure):
    _fields_ = [(n, ctypes.c_size_t) for n in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]
libc = ctypes.CDLL("libc.so.6"); libc.mallinfo2.restype = Info
def say(**more):
    m = libc.mallinfo2()
    print(json.dumps(dict(used=m.uordblks, free=m.fordblks, mapped=m.hblkhd, **more)), flush=True)
def wait(): sys.stdin.readline()
def alone():
    # A thread gives memory back when it is gone, which is after join() returns.
    while len(os.listdir('/proc/self/task')) > 1: pass
"#;

/// Where cargo builds.
fn target() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target")
}

/// Every Python of this machine between 3.9 and 3.14, one of each version; the last where `tests/python314.py` put it.
pub(crate) fn pythons() -> Vec<PathBuf> {
    let home = std::env::var("HOME").unwrap_or_default();
    let found: Vec<PathBuf> = (9..=14)
        .filter_map(|minor| {
            let name = format!("python3.{minor}");
            let versions =
                std::fs::read_dir(format!("{home}/.pyenv/versions")).into_iter().flatten().flatten();
            let installed = versions.map(|version| version.path().join("bin").join(&name));
            let system = [format!("/usr/bin/{name}"), format!("/usr/local/bin/{name}")].map(PathBuf::from);
            let fetched = target().join(&name).join("usr/bin").join(&name);
            installed.chain(system).chain([fetched]).find(runs)
        })
        .collect();
    assert!(!found.is_empty(), "no Python on this machine");
    found
}

/// Whether it is there and starts: one that was fetched knows its C library by where it was put.
fn runs(python: &PathBuf) -> bool {
    python.exists() && Command::new(python).args(["-c", ""]).status().is_ok_and(|status| status.success())
}

/// The Python that `cargo xtask test` makes, with numpy and Pillow.
pub(crate) fn with_numpy() -> Option<PathBuf> {
    let made = target().join("test-python/bin/python");
    let given = std::env::var_os("LOWTIDE_TEST_PYTHON").map(PathBuf::from);
    given.into_iter().chain([made]).find(|path| path.exists())
}

/// A name no other run has.
pub(crate) fn random_name(prefix: &str) -> String {
    let bytes = std::fs::read("/proc/sys/kernel/random/uuid").expect("a random number");
    let text: String =
        bytes.iter().map(|byte| char::from(*byte)).filter(char::is_ascii_alphanumeric).take(10).collect();
    format!("{prefix}{text}")
}

/// A running program.
pub(crate) struct Target {
    child: Child,
    out: BufReader<ChildStdout>,
    /// What it said when it was ready.
    pub(crate) truth: Value,
    /// Its Python, looked up once.
    python: Option<PythonFacts>,
    malloc: Option<String>,
}

impl Target {
    /// Runs `program`, which prints one JSON line when everything is planted, and waits for it.
    pub(crate) fn start(python: &Path, program: &str) -> Self {
        Self::start_with(python, program, None)
    }

    /// The same with another allocator for Python.
    pub(crate) fn start_with(python: &Path, program: &str, malloc: Option<&str>) -> Self {
        let mut child = Command::new(python)
            .args(["-c", program])
            .envs(malloc.map(|malloc| ("PYTHONMALLOC", malloc)))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python starts");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        out.read_line(&mut line).expect("the target speaks");
        let truth = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line:?}"));
        let python = Live::python(child.id());
        Self { child, out, truth, python, malloc: malloc.map(str::to_owned) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn scan(&self) -> Scan {
        self.scan_with(&Settings::default())
    }

    pub(crate) fn scan_with(&self, settings: &Settings) -> Scan {
        scan(&Live::open(self.pid()), &self.facts(), settings)
    }

    pub(crate) fn facts(&self) -> Facts {
        Facts { python: self.python.clone(), python_malloc: self.malloc.clone(), ..Live::facts(self.pid()) }
    }

    /// Lets the target go on to its next step and waits for its next line.
    pub(crate) fn step(&mut self) -> Value {
        use std::io::Write;
        self.child.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("the target listens");
        let mut line = String::new();
        self.out.read_line(&mut line).expect("the target speaks");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line:?}"))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that goes a step on right after some addresses were read, one after the other.
pub(crate) struct Moving<'t> {
    live: Live,
    facts: Facts,
    target: RefCell<&'t mut Target>,
    awaited: RefCell<Vec<u64>>,
}

impl<'t> Moving<'t> {
    /// The addresses are those that the program said it wants to be read.
    pub(crate) fn new(target: &'t mut Target) -> Self {
        let read = target.truth["read"].as_array().expect("addresses").iter();
        let awaited = read.map(|one| one.as_u64().expect("an address")).collect();
        let (live, facts) = (Live::open(target.pid()), target.facts());
        Self { live, facts, target: target.into(), awaited: RefCell::new(awaited) }
    }

    /// Scans it while it goes on.
    pub(crate) fn scan(&self) -> Scan {
        let found = scan(self, &self.facts, &Settings::default());
        assert!(self.awaited.borrow().is_empty(), "not all of them were read");
        found
    }
}

impl Memory for Moving<'_> {
    fn mappings(&self) -> &[Mapping] {
        self.live.mappings()
    }

    fn present(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        self.live.present(start, end)
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let got = self.live.read(address, into);
        let mut awaited = self.awaited.borrow_mut();
        let pool = got >= 4096;
        if pool && awaited.first().is_some_and(|one| (address..address + got as u64).contains(one)) {
            awaited.remove(0);
            if awaited.is_empty() {
                self.target.borrow_mut().step();
            }
        }
        got
    }
}

/// The line of a type.
pub(crate) fn row<'s>(scan: &'s Scan, name: &str) -> &'s TypeUse {
    scan.types.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name} is not among the types"))
}

/// Whether `found` is within `percent` of `truth`.
pub(crate) fn near(found: u64, truth: u64, percent: u64) -> bool {
    found.abs_diff(truth) <= truth * percent / 100
}
