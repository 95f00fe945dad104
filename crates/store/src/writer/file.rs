//! The `SQLite` side of a file being written: begun, folded, copied, made one.

use super::rows::{header, progress};
use crate::reader::{PID_NAMESPACE, SCRATCH, own_namespace};
use crate::{files, schema};
use lowtide_model::Meta;
use rusqlite::backup::Backup;
use rusqlite::{Connection, ErrorCode, OpenFlags, Result};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The recorder's whole budget is 16 MiB; the pages of a few rows need little of it.
const CACHE_KIB: i32 = 512;

fn connect(path: &Path) -> Result<Connection> {
    let conn = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    conn.busy_timeout(Duration::from_secs(2))?;
    Ok(conn)
}

fn use_log(conn: &Connection) -> Result<()> {
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(as_sqlite(std::io::Error::other("no write-ahead log here")));
    }
    // NORMAL: a commit is in the kernel's hands (SIGKILL can't undo it), a fold is on the disk.
    conn.pragma_update(None, "synchronous", "NORMAL")?;
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    conn.pragma_update(None, "cache_size", -CACHE_KIB)
}

/// Tables, header and the proof that the log works here: a write, folded, read back. `scratch` says, in the copies
/// of a recording that lies on scratch, where the original is.
pub(crate) fn begin(path: &Path, meta: &Meta, scratch: Option<&Path>) -> Result<Connection> {
    let mut conn = connect(path)?;
    conn.pragma_update(None, "page_size", schema::PAGE_BYTES)?;
    use_log(&conn)?;
    let transaction = conn.transaction()?;
    schema::lay(&transaction)?;
    header(&transaction, meta)?;
    note(&transaction, PID_NAMESPACE, own_namespace())?;
    note(&transaction, SCRATCH, scratch.map(|path| path.to_string_lossy().into_owned()))?;
    progress(&transaction, None, now_unix_ns(), 0)?;
    transaction.commit()?;
    fold(&conn, "TRUNCATE")?;
    conn.query_row("SELECT count(*) FROM meta", [], |_| Ok(()))?;
    Ok(conn)
}

fn note(conn: &Connection, key: &str, value: Option<String>) -> Result<()> {
    value.map_or(Ok(0), |value| {
        conn.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)", (key, value))
    })?;
    Ok(())
}

/// Opens a copy to go on writing in it.
pub(crate) fn reopen(path: &Path) -> Result<Connection> {
    let conn = connect(path)?;
    use_log(&conn)?;
    note(&conn, SCRATCH, Some(path.to_string_lossy().into_owned()))?;
    Ok(conn)
}

/// Moves what the log holds into the file.
pub(crate) fn fold(conn: &Connection, how: &str) -> Result<()> {
    conn.query_row(&format!("PRAGMA wal_checkpoint({how})"), [], |_| Ok(()))
}

/// Folds the log in and leaves the mode that needs it. That needs the file alone: a reader in the middle of a look is
/// waited for by asking again, because `SQLite` does not wait here. False if one did not let go.
pub(crate) fn one_file(conn: &Connection, patience: Duration) -> Result<bool> {
    let begun = Instant::now();
    conn.busy_timeout(patience)?;
    fold(conn, "TRUNCATE")?;
    loop {
        let mode: rusqlite::Result<String> =
            conn.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0));
        match mode {
            Ok(mode) if mode == "delete" => return Ok(true),
            Err(error) if error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) => return Err(error),
            Ok(_) | Err(_) if begun.elapsed() >= patience => return Ok(false),
            Ok(_) | Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Copies all of an open recording, as of its last commit, into the empty file `to`, which needs no log.
pub(crate) fn copy_whole(conn: &Connection, to: &Path) -> Result<()> {
    let mut copy = connect(to)?;
    copy.pragma_update(None, "synchronous", "OFF")?;
    Backup::new(conn, &mut copy)?.run_to_completion(i32::MAX, Duration::ZERO, None)?;
    copy.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))
}

/// Puts a consistent copy at `target` in one step; gives its size. The copy is made on scratch, so the target's file
/// system sees plain writing only.
pub(crate) fn put_copy(conn: &Connection, scratch: &Path, target: &Path) -> std::result::Result<u64, String> {
    let copy = files::beside(scratch, ".copy");
    files::remove(&copy);
    let made = files::make_file(&copy).map_err(|error| error.to_string()).and_then(|()| {
        copy_whole(conn, &copy).map_err(|error| error.to_string())?;
        files::place(&copy, target).map_err(|error| error.to_string())?;
        Ok(std::fs::metadata(&copy).map_or(0, |found| found.len()))
    });
    files::remove(&copy);
    made
}

/// An error of the operating system where `SQLite`'s are expected.
pub(crate) fn as_sqlite(error: std::io::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}

pub(crate) fn now_unix_ns() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// `wchar` of the calling thread: every byte it passed to write calls.
pub(crate) fn written_by_this_thread() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("wchar: "))?.trim().parse().ok()
}
