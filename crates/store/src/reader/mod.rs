//! Reads a recording: whole, or only what is new since the last look at a live one.
//!
//! Damage costs the rows it hit, not the recording: what could not be read is told by an event in the result.

mod cells;
mod connect;
mod state;
mod tables;

use crate::StoreError;
use crate::files::beside;
use connect::{Link, connect};
use lowtide_model::{Event, EventKind, Meta, Process, Recording, RunState, Tick};
use rusqlite::Connection;
pub use state::own_key;
pub(crate) use state::{PID_NAMESPACE, SCRATCH, own_namespace};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tables::{Names, Progress, Range};

/// A process that ended may still get its last facts for this long.
const LAST_FACTS: Duration = Duration::from_mins(1);

/// An open recording.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    /// Where it is read from, if that is another file: the scratch original of a copy.
    path_read: Option<PathBuf>,
    /// Held only while nobody writes: an open reader would keep the writer from closing the file as one.
    held: Option<Link>,
    state: RunState,
}

/// How far a reader of a live recording has come.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    rows: BTreeMap<&'static str, i64>,
    names: Names,
    /// Processes whose row may still change.
    open: BTreeSet<i64>,
    damage: BTreeSet<String>,
}

/// Opens a recording. One that was cut off gets its log folded in, where that is allowed.
pub fn open(path: &Path) -> Result<Reader, StoreError> {
    let path = std::path::absolute(path).map_err(StoreError::io("resolve", path))?;
    let link = connect(&path)?;
    let mut reader = Reader { held: None, path_read: None, state: RunState::CutOff, path };
    let meta = reader.look(&link.conn)?;
    if reader.state == RunState::Running {
        return Ok(reader);
    }
    let original = original_of(&link.conn, &meta, reader.state);
    drop(link);
    let from = original.as_deref().unwrap_or(&reader.path);
    if beside(from, "-wal").exists() {
        connect::fold(from);
    }
    let link = connect(from)?;
    reader.path_read = original;
    reader.hold(link);
    Ok(reader)
}

/// The scratch file of a copied recording whose recorder died: it holds what came after the last copy.
fn original_of(conn: &Connection, meta: &Meta, state: RunState) -> Option<PathBuf> {
    let fields = tables::header_fields(conn).ok()?;
    let scratch = PathBuf::from(fields.get(SCRATCH)?.as_str()?);
    if state != RunState::CutOff || meta.run_id.is_empty() || !state::same_boot(meta) {
        return None;
    }
    let original = connect(&scratch).ok()?;
    let theirs = tables::header(&tables::header_fields(&original.conn).ok()?);
    (theirs.run_id == meta.run_id).then_some(scratch)
}

impl Reader {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The state when it was last read.
    pub fn state(&self) -> RunState {
        self.state
    }

    /// The header. `state` is the state as of now; `ended` of a run that was cut off is its last announced tick.
    pub fn meta(&mut self) -> Result<Meta, StoreError> {
        self.with(Self::look)
    }

    /// All of it.
    pub fn recording(&mut self) -> Result<Recording, StoreError> {
        self.since(&mut Cursor::default())
    }

    /// The rows that came since the cursor's last use; header and limits as of now; processes that are new or changed.
    pub fn since(&mut self, cursor: &mut Cursor) -> Result<Recording, StoreError> {
        self.with(|reader, conn| {
            let progress = tables::progress(conn).unwrap_or_default();
            let mut recording = Recording { meta: reader.look(conn)?, ..Recording::default() };
            cursor.read(conn, &progress, &mut recording);
            Ok(recording)
        })
    }

    fn with<T>(
        &mut self,
        read: impl FnOnce(&mut Self, &Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let link = match self.held.take() {
            Some(link) => link,
            None => connect(self.path_read.as_deref().unwrap_or(&self.path))?,
        };
        let result = read(self, &link.conn);
        self.hold(link);
        result
    }

    /// Keeps the file open unless that could keep a writer from closing it: while it runs, and while its log is there.
    fn hold(&mut self, link: Link) {
        let log = beside(self.path_read.as_deref().unwrap_or(&self.path), "-wal").exists();
        if link.is_private() || (self.state != RunState::Running && !log) {
            self.held = Some(link);
        }
    }

    /// Reads header and progress, and with them the state.
    fn look(&mut self, conn: &Connection) -> Result<Meta, StoreError> {
        let fields =
            tables::header_fields(conn).map_err(StoreError::sqlite("read the header of", &self.path))?;
        if fields.is_empty() {
            let why = "its header is empty".to_owned();
            return Err(StoreError::NotARecording { path: self.path.clone(), why });
        }
        let progress = tables::progress(conn).unwrap_or_default();
        let mut meta = tables::header(&fields);
        let namespace = fields.get(PID_NAMESPACE).and_then(serde_json::Value::as_str);
        self.state = state::now(&meta, namespace, &progress);
        meta.state = Some(self.state);
        meta.dropped_rows = meta.dropped_rows.max(progress.dropped_rows);
        if self.state == RunState::CutOff && meta.ended.is_none() {
            meta.ended = progress.announced;
        }
        Ok(meta)
    }
}

impl Cursor {
    /// Reads what is new. The ends of all tables are taken first, so that every process a row names is read after it.
    fn read(&mut self, conn: &Connection, progress: &Progress, out: &mut Recording) {
        let ends: BTreeMap<&'static str, Range> =
            ["sample", "cgroup", "host", "gpu", "mark", "event", "scan", "process"]
                .into_iter()
                .map(|name| {
                    (name, (self.rows.get(name).copied().unwrap_or(i64::MIN), cells::newest(conn, name)))
                })
                .collect();
        let range = |name: &str| ends.get(name).copied().unwrap_or((0, 0));
        let mut damage = Vec::new();
        let mut note = |table: &str, result: rusqlite::Result<()>| {
            damage.extend(
                result.err().map(|error| format!("table {table} could not be read to its end: {error}")),
            );
        };
        note("process", self.processes(conn, progress, &mut out.processes));
        note("cgroup_path", tables::cgroup_paths(conn, &mut self.names));
        note("gpu_device", tables::gpu_devices(conn, &mut self.names));
        let names = &self.names;
        note("sample", tables::samples(conn, names, range("sample"), &mut out.samples));
        note("cgroup", tables::cgroups(conn, names, range("cgroup"), &mut out.cgroups));
        note("host", tables::host(conn, range("host"), &mut out.host));
        note("gpu", tables::gpus(conn, names, range("gpu"), &mut out.gpus));
        note("mark", tables::marks(conn, names, range("mark"), &mut out.marks));
        note("event", tables::events(conn, names, range("event"), &mut out.events));
        note("scan", tables::scans(conn, names, range("scan"), &mut out.scans));
        note("limit_held", tables::limits(conn, names).map(|limits| out.limits = limits));
        self.rows.extend(ends.into_iter().map(|(name, (_, upto))| (name, upto)));
        sort(out);
        self.tell(damage, out);
    }

    /// New processes, and again those whose row may have changed.
    fn processes(
        &mut self,
        conn: &Connection,
        progress: &Progress,
        out: &mut Vec<Process>,
    ) -> rusqlite::Result<()> {
        let after = self.rows.get("process").copied().unwrap_or(i64::MIN);
        let mut found = Vec::new();
        for id in std::mem::take(&mut self.open) {
            found.extend(tables::processes(conn, (id - 1, id))?);
        }
        found.extend(tables::processes(conn, (after, i64::MAX))?);
        for (id, process) in found {
            let settled = process.died.is_some_and(|died| {
                progress.announced.is_some_and(|announced| announced.since(died) > LAST_FACTS)
            });
            if !settled && id > i64::MIN {
                self.open.insert(id);
            }
            if let Ok(number) = u64::try_from(id) {
                self.names.processes.insert(number, process.key);
            }
            self.rows.insert("process", id.max(after));
            out.push(process);
        }
        Ok(())
    }

    fn tell(&mut self, damage: Vec<String>, out: &mut Recording) {
        let tick = out.samples.last().map_or(Tick::START, |row| row.tick);
        for text in damage {
            if self.damage.insert(text.clone()) {
                out.events.push(Event { tick, kind: EventKind::Store, process: None, text, data: None });
            }
        }
    }
}

/// Rows are pushed in about the order of time; readers may count on it.
fn sort(out: &mut Recording) {
    out.samples.sort_by_key(|row| row.tick);
    out.cgroups.sort_by_key(|row| row.tick);
    out.host.sort_by_key(|row| row.tick);
    out.gpus.sort_by_key(|row| row.tick);
    out.marks.sort_by_key(|mark| mark.tick);
    out.events.sort_by_key(|event| event.tick);
    out.scans.sort_by_key(|row| row.tick);
}
