//! The file under the writer: created, committed to, folded, closed, and moved to scratch when its place fails.
//!
//! A recording lies where it was asked for, or on local scratch with a copy put into the asked place every minute:
//! where the file system cannot carry a live recording, and after the file has vanished from under the writer.

use super::Options;
use super::file::{self, begin, fold, now_unix_ns, one_file};
use super::place::{cannot_carry, scratch_file};
use super::queue::Batch;
use super::rows::{Numbers, header, progress};
use crate::StoreError;
use crate::files::{self, identity};
use lowtide_model::{Event, EventKind, Meta, Tick};
use rusqlite::{Connection, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The write-ahead log is folded into the file at least this often; every commit is at most 5 s late for it.
const FOLD_EVERY: Duration = Duration::from_secs(24);

/// With nothing new to write, the sign of life in the file is renewed this often.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);

/// A copy writes the whole file: above this size copies come more seldom, in proportion.
const COPY_EVERY_MINUTE_BYTES: u64 = 32 << 20;

/// A copy that failed is tried again after this long.
const COPY_RETRY: Duration = Duration::from_secs(5);

/// A reader in the middle of a portion is waited for this long when the file is closed.
const READER_PATIENCE: Duration = Duration::from_secs(5);

/// What stands after a commit.
pub(crate) struct Standing {
    /// Survives SIGKILL at the asked place.
    pub(crate) durable: Option<Tick>,
    /// Wrong in spite of the commit.
    pub(crate) trouble: Option<String>,
    /// Set while copies are made.
    pub(crate) snapshot_every: Option<Duration>,
}

/// Where the open file lies.
#[derive(Debug)]
enum Place {
    /// Where it was asked for; `left` once that takes no more.
    Direct { identity: Identity, left: bool },
    /// On scratch.
    Scratch(Copies),
}

/// What tells our file from a stranger's of the same name.
type Identity = Option<(u64, u64)>;

/// Copies to the asked place.
#[derive(Debug)]
struct Copies {
    /// The file there that is ours to replace.
    ours: Identity,
    every: Duration,
    next: Instant,
    /// What the newest copy holds.
    holds: Option<Tick>,
    trouble: Option<String>,
}

impl Copies {
    /// The first is due at once.
    fn new(every: Duration, ours: Identity) -> Self {
        Self { ours, every, next: Instant::now(), holds: None, trouble: None }
    }
}

/// An open recording.
pub(crate) struct Disk {
    conn: Connection,
    file: PathBuf,
    asked: PathBuf,
    place: Place,
    options: Options,
    meta: Meta,
    numbers: Numbers,
    folded: Instant,
    unfolded: bool,
    signed: Instant,
    /// The newest tick whose announcement is on disk.
    announced: Option<Tick>,
    dropped_told: u64,
    io_at_start: Option<u64>,
}

impl Disk {
    /// Creates the recording in place, or on scratch where the place cannot carry it.
    pub(crate) fn create(asked: &Path, meta: Meta, options: Options) -> Result<Self, StoreError> {
        let io_at_start = file::written_by_this_thread();
        files::make_parents(asked)?;
        files::make_file(asked)?;
        let cannot = options.always_snapshot || cannot_carry(asked).is_some();
        let direct = if cannot { None } else { begin(asked, &meta, None).ok() };
        let (conn, path, place) = if let Some(conn) = direct {
            (conn, asked.to_owned(), Place::Direct { identity: identity(asked), left: false })
        } else {
            // A first try may have left a log; the first copy puts the file itself there.
            files::remove(asked);
            let (conn, path) = on_scratch(asked, &meta, &options)?;
            (conn, path, Place::Scratch(Copies::new(options.snapshot_every, None)))
        };
        let now = Instant::now();
        let mut disk = Self {
            conn,
            file: path,
            asked: asked.to_owned(),
            place,
            options,
            meta,
            numbers: Numbers::default(),
            folded: now,
            unfolded: false,
            signed: now,
            announced: None,
            dropped_told: 0,
            io_at_start,
        };
        // The place that was asked for has to take a first copy, or the user learns it now.
        disk.copy_if_due(None);
        match disk.refusal().map(str::to_owned) {
            Some(why) => Err(disk.give_up(&why)),
            None => Ok(disk),
        }
    }

    fn give_up(self, why: &str) -> StoreError {
        drop(self.conn);
        files::remove(&self.file);
        files::remove(&self.asked);
        StoreError::Io {
            doing: "write a recording to",
            path: self.asked,
            source: std::io::Error::other(why.to_owned()),
        }
    }

    /// Why the asked place did not take the last copy.
    fn refusal(&self) -> Option<&str> {
        match &self.place {
            Place::Direct { .. } => None,
            Place::Scratch(copies) => copies.trouble.as_deref(),
        }
    }

    /// The same of a recording that goes on all the same.
    fn trouble(&self) -> Option<String> {
        let (asked, scratch) = (self.asked.display(), self.file.display());
        let words = |why| format!("cannot write {asked}: {why}; the recording goes on in {scratch}");
        self.refusal().map(words)
    }

    pub(crate) fn snapshot_every(&self) -> Option<Duration> {
        match &self.place {
            Place::Direct { .. } => None,
            Place::Scratch(copies) => Some(copies.every),
        }
    }

    /// Bytes this thread handed to the file system.
    pub(crate) fn written_bytes(&self) -> Option<u64> {
        Some(file::written_by_this_thread()?.saturating_sub(self.io_at_start?))
    }

    /// Writes a batch: all of it or nothing.
    pub(crate) fn commit(&mut self, batch: &Batch, now: Instant) -> Result<Standing, StoreError> {
        self.follow_the_file()?;
        if !batch.is_empty() || now.saturating_duration_since(self.signed) >= SIGN_OF_LIFE {
            self.write(batch, now).map_err(StoreError::sqlite("write to", &self.file))?;
        }
        self.fold_if_due(now);
        self.copy_if_due(batch.announced);
        let durable = match &self.place {
            // Not the batch's: with nothing to write, its word is not on disk yet.
            Place::Direct { .. } => self.announced,
            Place::Scratch(copies) => copies.holds,
        };
        Ok(Standing { durable, trouble: self.trouble(), snapshot_every: self.snapshot_every() })
    }

    fn write(&mut self, batch: &Batch, now: Instant) -> rusqlite::Result<()> {
        let result = self.transaction(batch);
        match &result {
            Ok(()) => {
                self.signed = now;
                self.announced = batch.announced.or(self.announced);
                self.unfolded = true;
                self.dropped_told = batch.dropped;
                if let Some(meta) = &batch.meta {
                    self.meta = Meta::clone(meta);
                }
            }
            // Numbers given in a transaction that is undone are no longer true.
            Err(_) => self.numbers.forget(),
        }
        result
    }

    fn transaction(&mut self, batch: &Batch) -> rusqlite::Result<()> {
        let transaction = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for entry in batch.facts.iter().chain(&batch.rows) {
            self.numbers.write(&transaction, entry)?;
        }
        if let Some(limits) = &batch.limits {
            self.numbers.limits(&transaction, limits)?;
        }
        if let Some(meta) = &batch.meta {
            header(&transaction, meta)?;
        }
        if batch.dropped > self.dropped_told {
            let event = lost_rows(batch, batch.dropped - self.dropped_told);
            self.numbers.write(&transaction, &super::Entry::Event(event))?;
        }
        progress(&transaction, batch.announced, now_unix_ns(), batch.dropped)?;
        transaction.commit()
    }

    /// A fold that fails (a full disk) loses nothing: the log still holds all, and the next one tries again.
    fn fold_if_due(&mut self, now: Instant) {
        if self.unfolded
            && now.saturating_duration_since(self.folded) >= FOLD_EVERY
            && fold(&self.conn, "PASSIVE").is_ok()
        {
            self.folded = now;
            self.unfolded = false;
        }
    }

    /// Notices that the file is no longer where it was, and goes on on scratch with all that was recorded.
    fn follow_the_file(&mut self) -> Result<(), StoreError> {
        let Place::Direct { identity: known, left } = self.place else { return Ok(()) };
        if !left && identity(&self.file) == known {
            return Ok(());
        }
        let target = scratch_file(self.options.scratch.as_deref(), &scratch_name(&self.meta))?;
        let moved = file::copy_whole(&self.conn, &target)
            .and_then(|()| file::reopen(&target))
            .or_else(|_| self.begin_anew(&target));
        let conn = moved.map_err(StoreError::sqlite("go on at", &target))?;
        // The old connection would remove a log of the same name when it closes: nothing new may lie there yet.
        let old = std::mem::replace(&mut self.conn, conn);
        drop(old);
        self.file = target;
        self.place = Place::Scratch(Copies::new(self.options.snapshot_every, known));
        Ok(())
    }

    /// The old file gives nothing more: header and living processes are known, the rest is lost.
    fn begin_anew(&mut self, target: &Path) -> rusqlite::Result<Connection> {
        files::remove(target);
        std::fs::write(target, []).map_err(file::as_sqlite)?;
        let conn = begin(target, &self.meta, Some(target))?;
        self.numbers.write_living(&conn)?;
        Ok(conn)
    }

    fn copy_if_due(&mut self, announced: Option<Tick>) {
        let Place::Scratch(copies) = &mut self.place else {
            return;
        };
        if Instant::now() < copies.next {
            return;
        }
        let put = if may_replace(&self.asked, copies.ours, &self.meta) {
            file::put_copy(&self.conn, &self.file, &self.asked)
        } else {
            Err("another file lies there now".to_owned())
        };
        match put {
            Ok(bytes) => {
                copies.ours = identity(&self.asked);
                let share = u32::try_from(bytes / COPY_EVERY_MINUTE_BYTES).unwrap_or(u32::MAX);
                copies.every = self.options.snapshot_every.saturating_mul(share.saturating_add(1));
                copies.next = Instant::now() + copies.every;
                copies.holds = announced;
                copies.trouble = None;
            }
            Err(why) => {
                copies.trouble = Some(why);
                copies.next = Instant::now() + COPY_RETRY.min(copies.every);
                // What an earlier copy held may be gone with its folder.
                copies.holds = copies.holds.filter(|_| self.asked.exists());
            }
        }
    }

    /// Gives up a place that takes no more: the next commit goes to scratch, with all that was recorded before.
    /// False if that was tried already.
    pub(crate) fn leave(&mut self) -> bool {
        let Place::Direct { left, .. } = &mut self.place else { return false };
        !std::mem::replace(left, true)
    }

    /// Makes it one file, for ever, and says where it lies: the asked place, or scratch where that failed.
    pub(crate) fn close(mut self, announced: Option<Tick>) -> PathBuf {
        if let Place::Scratch(copies) = &mut self.place {
            copies.next = Instant::now();
        }
        self.copy_if_due(announced);
        let copied = self.trouble().is_none() && matches!(self.place, Place::Scratch(_));
        // A reader that does not let go leaves a log beside the file; all is there, and the next reader folds it in.
        let _ = one_file(&self.conn, READER_PATIENCE);
        drop(self.conn);
        if copied {
            files::remove(&self.file);
            return self.asked;
        }
        self.file
    }
}

/// Nothing is replaced but what we put there. Some file systems change a file's number: then its run id tells.
fn may_replace(asked: &Path, ours: Identity, meta: &Meta) -> bool {
    if asked.symlink_metadata().is_err() || (ours.is_some() && identity(asked) == ours) {
        return true;
    }
    let found = crate::open(asked).and_then(|mut reader| reader.meta());
    ours.is_some() && found.is_ok_and(|found| !found.run_id.is_empty() && found.run_id == meta.run_id)
}

fn lost_rows(batch: &Batch, lost: u64) -> Event {
    let tick = batch.announced.unwrap_or(Tick::START);
    let text = format!("{lost} rows were lost because they could not be written in time");
    Event { tick, kind: EventKind::Store, process: None, text, data: None }
}

fn on_scratch(asked: &Path, meta: &Meta, options: &Options) -> Result<(Connection, PathBuf), StoreError> {
    let path = scratch_file(options.scratch.as_deref(), &scratch_name(meta))?;
    let conn = begin(&path, meta, Some(&path))
        .inspect_err(|_| files::remove(&path))
        .map_err(StoreError::sqlite("create", asked))?;
    Ok((conn, path))
}

fn scratch_name(meta: &Meta) -> String {
    let id: String = meta.run_id.chars().filter(char::is_ascii_alphanumeric).take(32).collect();
    format!("run-{id}-{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::super::queue::Queue;
    use super::*;
    use crate::Entry;
    use lowtide_model::{
        Bytes, CgroupRow, CgroupVersion, HostRow, Limit, Mark, MarkKind, MarkPhase, Pressure, ProcKey,
        Process, SampleRow, Span,
    };

    const MIB: u64 = 1 << 20;

    fn key(pid: u32) -> ProcKey {
        ProcKey { pid: 40_000 + pid, start_ticks: 123_456_789 + u64::from(pid) }
    }

    fn process(pid: u32) -> Entry {
        let argv =
            ["/usr/bin/python3", "-m", "torch.distributed.run", "--nproc-per-node=8", "train.py", "--config"];
        Entry::Process(Process {
            key: key(pid),
            parent: Some(key(0)),
            born: Tick(0),
            died: None,
            exit: None,
            execed: true,
            comm: "python3".into(),
            argv: argv.map(str::to_owned).to_vec(),
            env: vec![("OMP_NUM_THREADS".into(), "8".into()), ("RANK".into(), pid.to_string())],
            cgroup: Some("/system.slice/slurmstepd.scope/job_1234/step_0".into()),
            peak_rss: None,
        })
    }

    /// Numbers of the size a real trainer has; `ticks` above 1 makes min and max differ from last.
    fn sample(pid: u32, second: u64, ticks: u32) -> Entry {
        let rss = 5_000_000_000 + second * 1_234_567 % 300_000_000;
        let wide = |value: u64| {
            let spread = u64::from(ticks - 1) * 4096;
            Span { min: Bytes(value - spread), max: Bytes(value + spread), last: Bytes(value) }
        };
        Entry::Sample(SampleRow {
            process: key(pid),
            tick: Tick(second * 1_000_000_000 + 123_456),
            ticks,
            rss: wide(rss),
            anon: Some(wide(rss - 300_000_000)),
            file: Some(Bytes(290_000_000)),
            shmem: Some(Bytes(10_000_000)),
            swap: Some(Bytes(0)),
            locked: Some(Bytes(0)),
            size: Bytes(40_000_000_000),
            threads: Some(64),
            minor_faults: 3_000_000 + second * 10,
            major_faults: 120,
            cpu_ns: second * 990_000_000,
            pss: None,
        })
    }

    fn cgroup(second: u64) -> Entry {
        let size = |bytes| Some(Bytes(bytes + second * 4096));
        Entry::Cgroup(CgroupRow {
            path: "/job".into(),
            version: CgroupVersion::V2,
            tick: Tick(second * 1_000_000_000),
            ticks: 1,
            usage: Span::one(Bytes(9_000_000_000 + second * 4096)),
            limit: Some(Limit::At(Bytes(64 << 30))),
            anon: size(5_000_000_000),
            file: size(3_000_000_000),
            shmem: size(100_000_000),
            inactive_file: size(2_000_000_000),
            kernel: size(50_000_000),
            swap: Some(Bytes(0)),
            oom_kills: Some(0),
            limit_hits: Some(0),
            pressure: Some(Pressure {
                some_avg10: 0.12,
                full_avg10: 0.0,
                some_total_us: second * 977,
                full_total_us: 9,
            }),
            strangers: None,
        })
    }

    fn host(second: u64) -> Entry {
        Entry::Host(HostRow {
            tick: Tick(second * 1_000_000_000),
            ticks: 10,
            total: Bytes(512 << 30),
            available: Span::one(Bytes(400_000_000_000 - second * 4096)),
            ..HostRow::default()
        })
    }

    fn step(tenth: u64) -> Entry {
        Entry::Mark(Mark {
            tick: Tick(tenth * 100_000_000),
            process: Some(key(1)),
            kind: MarkKind::Step,
            phase: MarkPhase::Point,
            number: tenth as f64,
            rank: Some(0),
            extra: None,
        })
    }

    /// One second of a job of 25 processes: the trainer moves, a worker moves now and then, the rest beat each minute.
    fn push_second(queue: &mut Queue, second: u64) {
        queue.push(sample(1, second, 1));
        for pid in 2..26 {
            if (second + u64::from(pid)).is_multiple_of(60) {
                queue.push(sample(pid, second, 60));
            }
        }
        if second.is_multiple_of(2) {
            queue.push(cgroup(second));
        }
        if second.is_multiple_of(10) {
            queue.push(host(second));
        }
        (0..10).for_each(|tenth| queue.push(step(second * 10 + tenth)));
        queue.announce(Tick(second * 1_000_000_000));
    }

    /// The promise of the recording: 25 mostly flat processes at 1 Hz and 10 steps a second, for an hour.
    #[test]
    fn an_hour_of_25_processes_keeps_1_mib_and_writes_20() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hour.tide");
        let mut disk = Disk::create(&path, Meta::default(), Options::default()).unwrap();
        let begun = Instant::now();
        let mut queue = Queue::default();
        (1..26).for_each(|pid| queue.push(process(pid)));
        for second in 0..3600 {
            push_second(&mut queue, second);
            if second % 5 == 4 {
                disk.commit(&queue.take(), begun + Duration::from_secs(second)).unwrap();
                queue.written();
            }
        }
        let written = disk.written_bytes();
        disk.close(None);
        let kept = path.metadata().unwrap().len();
        println!("kept {kept} B, written {written:?} B");
        assert!(kept <= MIB, "kept {kept}");
        assert!(written.unwrap() <= 20 * MIB, "written {written:?}");
        assert!(written.unwrap() >= kept, "the counter counts");
    }
}
