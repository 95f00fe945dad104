//! Opens the file under a reader: read-only where that works, and never trusting what is in it.
//!
//! A recording that was cut off has a write-ahead log beside it; the first open folds it in. Where that is not allowed
//! (a read-only folder), file and log are read from a private copy. No file is opened here by hand: closing a second
//! descriptor would drop the locks a writer in the same process holds.

use crate::files::beside;
use crate::{StoreError, schema};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// No cell of ours comes near this.
const LONGEST_CELL_BYTES: i32 = 16 << 20;

/// An open file, and the private copy it lies in, if any.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) conn: Connection,
    copy: Option<PrivateCopy>,
}

impl Link {
    /// Whether it is open on a copy of our own, which no writer waits for.
    pub(crate) fn is_private(&self) -> bool {
        self.copy.is_some()
    }
}

/// Opens `path` and checks that it is a recording of a version we know.
pub(crate) fn connect(path: &Path) -> Result<Link, StoreError> {
    std::fs::metadata(path).map_err(StoreError::io("open", path))?;
    let attempts: &[fn(&Path) -> rusqlite::Result<Link>] =
        if beside(path, "-wal").exists() { &[read_only, writable, copied] } else { &[read_only, immutable] };
    let mut last = None;
    for attempt in attempts {
        match attempt(path).and_then(|link| check(&link.conn).map(|found| (link, found))) {
            Ok((link, found)) => return accept(path, link, found),
            Err(error) if is_not_a_database(&error) => {
                return Err(not_ours(path, "it is not an SQLite file"));
            }
            Err(error) => last = Some(error),
        }
    }
    let source = last.unwrap_or(rusqlite::Error::InvalidQuery);
    Err(StoreError::Sqlite { doing: "open", path: path.to_owned(), source })
}

/// Folds the log of a recorder that is gone into the file. Not being allowed to is no error: the log stays readable.
pub(crate) fn fold(path: &Path) {
    if let Ok(link) = writable(path) {
        let _ = crate::writer::one_file(&link.conn, Duration::from_millis(200));
    }
}

fn accept(path: &Path, link: Link, (application, version): (i64, i64)) -> Result<Link, StoreError> {
    if application != schema::APPLICATION_ID {
        return Err(not_ours(path, "it is an SQLite file of another program"));
    }
    if version > schema::VERSION {
        return Err(StoreError::Newer { path: path.to_owned(), found: version, known: schema::VERSION });
    }
    Ok(link)
}

fn not_ours(path: &Path, why: &str) -> StoreError {
    StoreError::NotARecording { path: path.to_owned(), why: why.to_owned() }
}

fn is_not_a_database(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::NotADatabase)
}

fn check(conn: &Connection) -> rusqlite::Result<(i64, i64)> {
    conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let application = conn.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let version = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    Ok((application, version))
}

fn read_only(path: &Path) -> rusqlite::Result<Link> {
    harden(Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?)
}

fn writable(path: &Path) -> rusqlite::Result<Link> {
    harden(Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?)
}

/// For a file that nobody writes in a folder where no lock or log file can be made.
fn immutable(path: &Path) -> rusqlite::Result<Link> {
    let mut uri = OsString::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                uri.push(char::from(*byte).to_string());
            }
            _ => uri.push(format!("%{byte:02x}")),
        }
    }
    uri.push("?immutable=1");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    harden(Connection::open_with_flags(PathBuf::from(uri), flags)?)
}

fn copied(path: &Path) -> rusqlite::Result<Link> {
    let copy = PrivateCopy::of(path).map_err(|error| {
        rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN),
            Some(error.to_string()),
        )
    })?;
    let link = writable(&copy.folder.join("copy.tide"))?;
    Ok(Link { copy: Some(copy), ..link })
}

/// A foreign file may hold views, triggers and expressions made to harm: none of them runs.
fn harden(conn: Connection) -> rusqlite::Result<Link> {
    conn.busy_timeout(Duration::from_secs(2))?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_CELL_BYTES)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "mmap_size", 0)?;
    Ok(Link { conn, copy: None })
}

/// File and log, copied to a folder of our own that goes with us.
#[derive(Debug)]
struct PrivateCopy {
    folder: PathBuf,
}

impl PrivateCopy {
    fn of(path: &Path) -> std::io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        use std::sync::atomic::{AtomicU32, Ordering};
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let name = format!("lowtide-copy-{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let copy = Self { folder };
        std::fs::copy(path, copy.folder.join("copy.tide"))?;
        std::fs::copy(beside(path, "-wal"), copy.folder.join("copy.tide-wal"))?;
        Ok(copy)
    }
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        // A leftover in the temporary folder harms nobody.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
