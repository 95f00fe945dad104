//! The file under the writer: created, committed to, folded, closed.

use super::queue::Batch;
use super::rows::{Numbers, header, progress};
use crate::reader::PID_NAMESPACE;
use crate::{StoreError, schema};
use lowtide_model::{Meta, Tick};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The write-ahead log is folded into the file at least this often.
const FOLD_EVERY: Duration = Duration::from_secs(30);

/// With nothing new to write, the sign of life in the file is renewed this often.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);

/// A reader in the middle of a portion is waited for this long when the file is closed.
const READER_PATIENCE: Duration = Duration::from_secs(5);

/// What stands after a commit.
pub(crate) struct Standing {
    /// Survives SIGKILL.
    pub(crate) durable: Option<Tick>,
    /// Wrong in spite of the commit.
    pub(crate) trouble: Option<String>,
}

/// An open recording.
pub(crate) struct Disk {
    conn: Connection,
    path: PathBuf,
    numbers: Numbers,
    folded: Instant,
    unfolded: bool,
    signed: Instant,
    io_at_start: Option<u64>,
}

impl Disk {
    pub(crate) fn create(path: &Path, meta: &Meta) -> Result<Self, StoreError> {
        let io_at_start = written_by_this_thread();
        make_parents(path)?;
        make_file(path)?;
        let conn = begin(path, meta)
            .inspect_err(|_| remove(path))
            .map_err(StoreError::sqlite("create", path))?;
        let now = Instant::now();
        Ok(Self {
            conn,
            path: path.to_owned(),
            numbers: Numbers::default(),
            folded: now,
            unfolded: false,
            signed: now,
            io_at_start,
        })
    }

    pub(crate) fn snapshot_every(&self) -> Option<Duration> {
        None
    }

    /// Bytes this thread handed to the file system.
    pub(crate) fn written_bytes(&self) -> Option<u64> {
        Some(written_by_this_thread()?.saturating_sub(self.io_at_start?))
    }

    /// Writes a batch: all of it or nothing.
    pub(crate) fn commit(&mut self, batch: &Batch) -> Result<Standing, StoreError> {
        if !batch.is_empty() || self.signed.elapsed() >= SIGN_OF_LIFE {
            let result = self.write(batch);
            if result.is_err() {
                self.numbers = Numbers::default();
            }
            result.map_err(StoreError::sqlite("write to", &self.path))?;
            self.signed = Instant::now();
            self.unfolded = true;
        }
        if self.unfolded && self.folded.elapsed() >= FOLD_EVERY {
            fold(&self.conn, "PASSIVE").map_err(StoreError::sqlite("fold the log into", &self.path))?;
            self.folded = Instant::now();
            self.unfolded = false;
        }
        Ok(Standing {
            durable: batch.announced,
            trouble: None,
        })
    }

    fn write(&mut self, batch: &Batch) -> rusqlite::Result<()> {
        let transaction = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        for entry in batch.facts.iter().chain(&batch.rows) {
            self.numbers.write(&transaction, entry)?;
        }
        if let Some(limits) = &batch.limits {
            self.numbers.limits(&transaction, limits)?;
        }
        if let Some(meta) = &batch.meta {
            header(&transaction, meta)?;
        }
        progress(&transaction, batch.announced, now_unix_ns(), batch.dropped)?;
        transaction.commit()
    }

    /// Makes it one file, for ever.
    pub(crate) fn close(self) -> Result<PathBuf, StoreError> {
        let Self { conn, path, .. } = self;
        one_file(&conn, READER_PATIENCE).map_err(StoreError::sqlite("close", &path))?;
        conn.close().map_err(|(_, source)| StoreError::Sqlite {
            doing: "close",
            path: path.clone(),
            source,
        })?;
        Ok(path)
    }
}

/// Folds the log in and leaves the mode that needs it. A reader in the middle of a read is waited for.
pub(crate) fn one_file(conn: &Connection, patience: Duration) -> rusqlite::Result<()> {
    conn.busy_timeout(patience)?;
    fold(conn, "TRUNCATE")?;
    conn.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))
}

fn fold(conn: &Connection, how: &str) -> rusqlite::Result<()> {
    conn.query_row(&format!("PRAGMA wal_checkpoint({how})"), [], |_| Ok(()))
}

fn make_parents(path: &Path) -> Result<(), StoreError> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(parent)
        .map_err(StoreError::io("create the folder", parent))
}

fn make_file(path: &Path) -> Result<(), StoreError> {
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    made.map(drop).map_err(|source| match source.kind() {
        std::io::ErrorKind::AlreadyExists => StoreError::Exists {
            path: path.to_owned(),
        },
        _ => StoreError::Io {
            doing: "create",
            path: path.to_owned(),
            source,
        },
    })
}

fn remove(path: &Path) {
    for tail in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(tail);
        // What is not there needs no removal.
        let _ = std::fs::remove_file(name);
    }
}

/// Tables, header and the proof that the log works here: a write, folded, read back.
fn begin(path: &Path, meta: &Meta) -> rusqlite::Result<Connection> {
    let mut conn = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    conn.pragma_update(None, "page_size", schema::PAGE_BYTES)?;
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(rusqlite::Error::InvalidQuery);
    }
    conn.pragma_update(None, "synchronous", "NORMAL")?;
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    conn.pragma_update(None, "cache_size", -512)?;
    conn.busy_timeout(Duration::from_secs(2))?;
    let transaction = conn.transaction()?;
    schema::lay(&transaction)?;
    header(&transaction, meta)?;
    if let Some(namespace) = crate::reader::own_namespace() {
        transaction.execute(
            "INSERT INTO meta (key, value) VALUES (?1, ?2)",
            (PID_NAMESPACE, namespace),
        )?;
    }
    progress(&transaction, None, now_unix_ns(), 0)?;
    transaction.commit()?;
    fold(&conn, "TRUNCATE")?;
    conn.query_row("SELECT count(*) FROM meta", [], |_| Ok(()))?;
    Ok(conn)
}

fn now_unix_ns() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// `wchar` of the calling thread: every byte it passed to write calls.
fn written_by_this_thread() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("wchar: "))?
        .trim()
        .parse()
        .ok()
}
