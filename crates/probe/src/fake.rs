//! A made-up machine in a folder, for tests of everything that reads one.
//!
//! Only what a test sets is there; the formats are the kernel's own. Not for use outside tests.

use crate::Root;
use lowtide_model::Bytes;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A folder that looks like `/proc`, `/sys` and `/dev/shm`.
#[derive(Clone, Debug)]
pub struct FakeProc {
    dir: PathBuf,
    root: Root,
}

impl FakeProc {
    /// Makes the folders under `dir`.
    pub fn at(dir: &Path) -> io::Result<Self> {
        let root = Root::fake(dir);
        for folder in [&root.proc, &root.sys, &root.dev_shm] {
            fs::create_dir_all(folder)?;
        }
        Ok(Self { dir: dir.to_owned(), root })
    }

    /// What the readers are given.
    pub const fn root(&self) -> &Root {
        &self.root
    }

    /// Writes any file, its path counted from the folder: `proc/meminfo`.
    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) -> io::Result<()> {
        let path = self.dir.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, content)
    }

    /// Begins a process; nothing is written before [`FakeProcess::write`].
    pub fn process(&self, pid: u32) -> FakeProcess<'_> {
        FakeProcess {
            tree: self,
            pid,
            ppid: 1,
            state: 'S',
            session: pid,
            terminal: 0,
            threads: 1,
            start_ticks: 1000,
            code: 4,
            comm: b"python".to_vec(),
            argv: vec![b"python".to_vec(), b"train.py".to_vec()],
            rss: Bytes::from_mib(64),
        }
    }

    /// Takes a process away.
    pub fn end(&self, pid: u32) -> io::Result<()> {
        fs::remove_dir_all(self.root.process(pid))
    }
}

/// One process of a made-up machine.
#[derive(Clone, Debug)]
pub struct FakeProcess<'a> {
    tree: &'a FakeProc,
    pid: u32,
    ppid: u32,
    state: char,
    session: u32,
    terminal: i32,
    threads: u32,
    start_ticks: u64,
    code: u64,
    comm: Vec<u8>,
    argv: Vec<Vec<u8>>,
    rss: Bytes,
}

impl FakeProcess<'_> {
    /// Its parent.
    #[must_use]
    pub const fn parent(mut self, ppid: u32) -> Self {
        self.ppid = ppid;
        self
    }

    /// Its state letter.
    #[must_use]
    pub const fn state(mut self, state: char) -> Self {
        self.state = state;
        self
    }

    /// Its session and the device number of its terminal.
    #[must_use]
    pub const fn session(mut self, session: u32, terminal: i32) -> Self {
        self.session = session;
        self.terminal = terminal;
        self
    }

    /// Its threads.
    #[must_use]
    pub const fn threads(mut self, threads: u32) -> Self {
        self.threads = threads;
        self
    }

    /// When it was started, in clock ticks.
    #[must_use]
    pub const fn started(mut self, ticks: u64) -> Self {
        self.start_ticks = ticks;
        self
    }

    /// Its code lies elsewhere than its parent's, as after an exec; else all is where it was before the fork.
    #[must_use]
    pub fn execed(mut self) -> Self {
        self.code = u64::from(self.pid) << 12;
        self
    }

    /// Its short name, which may be any bytes.
    #[must_use]
    pub fn comm(mut self, comm: impl AsRef<[u8]>) -> Self {
        comm.as_ref().clone_into(&mut self.comm);
        self
    }

    /// Its arguments.
    #[must_use]
    pub fn argv(mut self, argv: &[&str]) -> Self {
        self.argv = argv.iter().map(|argument| argument.as_bytes().to_vec()).collect();
        self
    }

    /// Its resident memory.
    #[must_use]
    pub const fn rss(mut self, rss: Bytes) -> Self {
        self.rss = rss;
        self
    }

    /// Writes its files.
    pub fn write(&self) -> io::Result<()> {
        let file =
            |name: &str, content: Vec<u8>| self.tree.file(&format!("proc/{}/{name}", self.pid), content);
        file("stat", self.stat())?;
        let pages = self.rss.0 / crate::host::page_bytes();
        file("statm", format!("{} {pages} {} 1 0 {pages} 0\n", pages * 2, pages / 4).into_bytes())?;
        file("status", self.status())?;
        file("comm", [self.comm.as_slice(), b"\n"].concat())?;
        file("cmdline", self.argv.iter().flat_map(|argument| [argument, b"\0".as_slice()].concat()).collect())
    }

    fn stat(&self) -> Vec<u8> {
        let Self { pid, ppid, state, session, terminal, threads, start_ticks, code, .. } = self;
        let head = format!("{pid} (").into_bytes();
        let tail = format!(
            ") {state} {ppid} {pid} {session} {terminal} -1 4194304 100 0 2 0 30 12 0 0 20 0 {threads} 0 {start_ticks} \
             1 2 3 {code} 5 6 7 8 9 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
        );
        [head, self.comm.clone(), tail.into_bytes()].concat()
    }

    fn status(&self) -> Vec<u8> {
        let kib = self.rss.0 / 1024;
        let name: Vec<u8> = self
            .comm
            .iter()
            .flat_map(|byte| match byte {
                b'\n' => b"\\n".to_vec(),
                other => vec![*other],
            })
            .collect();
        let rest = format!(
            "\nState:\t{} (sleeping)\nTgid:\t{}\nPPid:\t{}\nUid:\t1000\t1000\t1000\t1000\nNStgid:\t{}\nVmSize:\t{} kB\n\
             VmLck:\t0 kB\nVmPin:\t0 kB\nVmHWM:\t{kib} kB\nVmRSS:\t{kib} kB\nRssAnon:\t{} kB\nRssFile:\t{} kB\n\
             RssShmem:\t0 kB\nVmSwap:\t0 kB\nThreads:\t{}\nSigCgt:\t0000000000000440\n",
            self.state,
            self.pid,
            self.ppid,
            self.pid,
            kib * 2,
            kib - kib / 4,
            kib / 4,
            self.threads
        );
        [b"Name:\t".to_vec(), name, rest.into_bytes()].concat()
    }
}
