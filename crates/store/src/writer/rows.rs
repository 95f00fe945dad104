//! Writes entries into the tables of an open transaction.
//!
//! Processes, cgroups and GPUs get small numbers here; the numbers of the living are remembered, the others looked up.
//! Not here: when to write, and where.

use super::Entry;
use crate::words::{int, size, unless_same, word};
use lowtide_model::{
    CgroupRow, CgroupVersion, Event, Exit, GpuRow, HostRow, Limit, LimitHeld, LimitKind, Mark, Meta,
    Pressure, ProcKey, Process, Pss, SampleRow, ScanRow, Tick,
};
use rusqlite::{Connection, OptionalExtension, Result, params};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Numbers remembered before the table is begun anew (a storm of short processes must not grow us).
const REMEMBERED: usize = 4096;

/// Small numbers of things, as they stand in the file. Forget them when a transaction is rolled back.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    processes: BTreeMap<ProcKey, i64>,
    cgroups: BTreeMap<Arc<str>, i64>,
    gpus: BTreeMap<u32, i64>,
    /// The facts of the living: what a recording that has to begin anew needs.
    living: BTreeMap<ProcKey, Process>,
}

impl Numbers {
    /// Numbers are no longer true; facts are.
    pub(crate) fn forget(&mut self) {
        *self = Self { living: std::mem::take(&mut self.living), ..Self::default() };
    }

    /// Tells an empty recording of the processes that live.
    pub(crate) fn write_living(&mut self, conn: &Connection) -> Result<()> {
        self.forget();
        let living: Vec<Process> = self.living.values().cloned().collect();
        living.iter().try_for_each(|process| self.process(conn, process))
    }

    /// Writes one entry.
    pub(crate) fn write(&mut self, conn: &Connection, entry: &Entry) -> Result<()> {
        match entry {
            Entry::Process(process) => self.process(conn, process),
            Entry::Sample(row) => self.sample(conn, row),
            Entry::Cgroup(row) => self.cgroup(conn, row),
            Entry::Host(row) => host(conn, row),
            Entry::Gpu(row) => self.gpu(conn, row),
            Entry::Mark(mark) => self.mark(conn, mark),
            Entry::Event(event) => self.event(conn, event),
            Entry::Scan(row) => self.scan(conn, row),
            Entry::Limits(limits) => self.limits(conn, limits),
            Entry::Meta(meta) => header(conn, meta),
        }
    }

    /// The number of a process; one that was never told of gets a bare row.
    fn number(&mut self, conn: &Connection, key: ProcKey, seen: Tick) -> Result<i64> {
        if let Some(id) = self.processes.get(&key) {
            return Ok(*id);
        }
        let known = conn
            .prepare_cached("SELECT id FROM process WHERE pid = ?1 AND start_ticks = ?2")?
            .query_row(params![key.pid, int(key.start_ticks)], |row| row.get(0))
            .optional()?;
        let id = if let Some(id) = known {
            id
        } else {
            conn.prepare_cached("INSERT INTO process (pid, start_ticks, born_ns) VALUES (?1, ?2, ?3)")?
                .insert(params![key.pid, int(key.start_ticks), int(seen.0)])?
        };
        self.remember(key, id);
        Ok(id)
    }

    fn remember(&mut self, key: ProcKey, id: i64) {
        if self.processes.len() >= REMEMBERED {
            self.processes.clear();
        }
        self.processes.insert(key, id);
    }

    fn maybe_number(&mut self, conn: &Connection, key: Option<ProcKey>, seen: Tick) -> Result<Option<i64>> {
        key.map(|key| self.number(conn, key, seen)).transpose()
    }

    fn process(&mut self, conn: &Connection, process: &Process) -> Result<()> {
        let id = self.number(conn, process.key, process.born)?;
        let (exit, exit_number) = exit_columns(process.exit);
        conn.prepare_cached(
            "UPDATE process SET parent_pid = ?2, parent_start_ticks = ?3, born_ns = ?4, died_ns = ?5, exit = ?6,
             exit_number = ?7, execed = ?8, comm = ?9, argv = ?10, env = ?11, cgroup = ?12, peak_rss_bytes = ?13
             WHERE id = ?1",
        )?
        .execute(params![
            id,
            process.parent.map(|parent| parent.pid),
            process.parent.map(|parent| int(parent.start_ticks)),
            int(process.born.0),
            process.died.map(|tick| int(tick.0)),
            exit,
            exit_number,
            process.execed,
            process.comm,
            json_unless_empty(&process.argv),
            json_unless_empty(&process.env),
            process.cgroup,
            size(process.peak_rss),
        ])?;
        if process.died.is_some() {
            self.processes.remove(&process.key);
            self.living.remove(&process.key);
        } else if self.living.len() < REMEMBERED {
            self.living.insert(process.key, process.clone());
        }
        Ok(())
    }

    fn sample(&mut self, conn: &Connection, row: &SampleRow) -> Result<()> {
        let process = self.number(conn, row.process, row.tick)?;
        let id = conn
            .prepare_cached(
                "INSERT INTO sample (t_ns, process_id, ticks, rss_bytes, rss_min_bytes, rss_max_bytes, anon_bytes,
                 anon_min_bytes, anon_max_bytes, file_bytes, shmem_bytes, swap_bytes, locked_bytes, size_bytes, threads,
                 minor_faults, major_faults, cpu_ns)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
            )?
            .insert(params![
                int(row.tick.0),
                process,
                row.ticks,
                int(row.rss.last.0),
                unless_same(row.rss.min, row.rss.last),
                unless_same(row.rss.max, row.rss.last),
                row.anon.map(|anon| int(anon.last.0)),
                row.anon.and_then(|anon| unless_same(anon.min, anon.last)),
                row.anon.and_then(|anon| unless_same(anon.max, anon.last)),
                size(row.file),
                size(row.shmem),
                size(row.swap),
                size(row.locked),
                int(row.size.0),
                row.threads,
                int(row.minor_faults),
                int(row.major_faults),
                int(row.cpu_ns),
            ])?;
        row.pss.map_or(Ok(()), |pss| sharing(conn, id, &pss))
    }

    fn cgroup(&mut self, conn: &Connection, row: &CgroupRow) -> Result<()> {
        let cgroup = self.cgroup_number(conn, row)?;
        let (limited, limit) = limit_columns(row.limit);
        let pressure = pressure_columns(row.pressure);
        conn.prepare_cached(
            "INSERT INTO cgroup (t_ns, cgroup_id, ticks, usage_bytes, usage_min_bytes, usage_max_bytes, limited,
             limit_bytes, anon_bytes, file_bytes, shmem_bytes, inactive_file_bytes, kernel_bytes, swap_bytes, oom_kills,
             limit_hits, some_avg10_percent, full_avg10_percent, some_total_us, full_total_us, strangers)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)",
        )?
        .execute(params![
            int(row.tick.0),
            cgroup,
            row.ticks,
            int(row.usage.last.0),
            unless_same(row.usage.min, row.usage.last),
            unless_same(row.usage.max, row.usage.last),
            limited,
            limit,
            size(row.anon),
            size(row.file),
            size(row.shmem),
            size(row.inactive_file),
            size(row.kernel),
            size(row.swap),
            row.oom_kills.map(int),
            row.limit_hits.map(int),
            pressure.0,
            pressure.1,
            pressure.2,
            pressure.3,
            row.strangers,
        ])?;
        Ok(())
    }

    fn cgroup_number(&mut self, conn: &Connection, row: &CgroupRow) -> Result<i64> {
        if let Some(id) = self.cgroups.get(&row.path) {
            return Ok(*id);
        }
        let version = match row.version {
            CgroupVersion::V1 => 1,
            CgroupVersion::V2 => 2,
        };
        let known = conn
            .prepare_cached("SELECT id FROM cgroup_path WHERE path = ?1 AND version = ?2")?
            .query_row(params![row.path, version], |row| row.get(0))
            .optional()?;
        let id = match known {
            Some(id) => id,
            None => conn
                .prepare_cached("INSERT INTO cgroup_path (path, version) VALUES (?1, ?2)")?
                .insert(params![row.path, version])?,
        };
        if self.cgroups.len() >= REMEMBERED {
            self.cgroups.clear();
        }
        self.cgroups.insert(row.path.clone(), id);
        Ok(id)
    }

    fn gpu(&mut self, conn: &Connection, row: &GpuRow) -> Result<()> {
        let device = self.gpu_number(conn, row)?;
        let process = self.maybe_number(conn, row.process, row.tick)?;
        conn.prepare_cached(
            "INSERT INTO gpu (t_ns, device_id, process_id, used_bytes, used_min_bytes, used_max_bytes, total_bytes)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            int(row.tick.0),
            device,
            process,
            int(row.used.last.0),
            unless_same(row.used.min, row.used.last),
            unless_same(row.used.max, row.used.last),
            size(row.total),
        ])?;
        Ok(())
    }

    fn gpu_number(&mut self, conn: &Connection, row: &GpuRow) -> Result<i64> {
        if let Some(id) = self.gpus.get(&row.gpu) {
            return Ok(*id);
        }
        let known = conn
            .prepare_cached("SELECT id FROM gpu_device WHERE gpu = ?1 AND uuid = ?2")?
            .query_row(params![row.gpu, row.uuid], |row| row.get(0))
            .optional()?;
        let id = match known {
            Some(id) => id,
            None => conn
                .prepare_cached("INSERT INTO gpu_device (gpu, uuid) VALUES (?1, ?2)")?
                .insert(params![row.gpu, row.uuid])?,
        };
        self.gpus.insert(row.gpu, id);
        Ok(id)
    }

    fn scan(&mut self, conn: &Connection, row: &ScanRow) -> Result<()> {
        let process = self.number(conn, row.process, row.tick)?;
        conn.prepare_cached("INSERT INTO scan (t_ns, process_id, report) VALUES (?1, ?2, ?3)")?
            .execute(params![int(row.tick.0), process, row.report])?;
        Ok(())
    }

    fn mark(&mut self, conn: &Connection, mark: &Mark) -> Result<()> {
        let process = self.maybe_number(conn, mark.process, mark.tick)?;
        conn.prepare_cached(
            "INSERT INTO mark (t_ns, process_id, kind, phase, number, rank, extra) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            int(mark.tick.0),
            process,
            word(&mark.kind),
            word(&mark.phase),
            mark.number,
            mark.rank,
            mark.extra
        ])?;
        Ok(())
    }

    fn event(&mut self, conn: &Connection, event: &Event) -> Result<()> {
        let process = self.maybe_number(conn, event.process, event.tick)?;
        conn.prepare_cached(
            "INSERT INTO event (t_ns, kind, process_id, text, data) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![int(event.tick.0), word(&event.kind), process, event.text, event.data])?;
        Ok(())
    }

    pub(crate) fn limits(&mut self, conn: &Connection, limits: &[LimitHeld]) -> Result<()> {
        conn.prepare_cached("DELETE FROM limit_held")?.execute([])?;
        for held in limits {
            let (kind, path, process) = match &held.kind {
                LimitKind::Cgroup { path } => ("cgroup", Some(&**path), None),
                LimitKind::AddressSpace { process } => ("address_space", None, Some(*process)),
                LimitKind::Host => ("host", None, None),
                LimitKind::DevShm => ("dev_shm", None, None),
                LimitKind::Slurm => ("slurm", None, None),
                LimitKind::Asked => ("asked", None, None),
            };
            let process = self.maybe_number(conn, process, Tick::START)?;
            conn.prepare_cached(
                "INSERT INTO limit_held (kind, path, process_id, limit_bytes, used_bytes) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![kind, path, process, int(held.limit.0), int(held.used.0)])?;
        }
        Ok(())
    }
}

fn host(conn: &Connection, row: &HostRow) -> Result<()> {
    let pressure = pressure_columns(row.pressure);
    conn.prepare_cached(
        "INSERT INTO host (t_ns, ticks, total_bytes, available_bytes, available_min_bytes, available_max_bytes,
         swap_total_bytes, swap_free_bytes, oom_kills, some_avg10_percent, full_avg10_percent, some_total_us,
         full_total_us, dev_shm_used_bytes, dev_shm_total_bytes)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
    )?
    .execute(params![
        int(row.tick.0),
        row.ticks,
        int(row.total.0),
        int(row.available.last.0),
        unless_same(row.available.min, row.available.last),
        unless_same(row.available.max, row.available.last),
        int(row.swap_total.0),
        int(row.swap_free.0),
        row.oom_kills.map(int),
        pressure.0,
        pressure.1,
        pressure.2,
        pressure.3,
        size(row.dev_shm_used),
        size(row.dev_shm_total),
    ])?;
    Ok(())
}

fn sharing(conn: &Connection, sample: i64, pss: &Pss) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO sharing (sample_id, pss_bytes, pss_anon_bytes, private_bytes, shared_bytes, private_dirty_bytes,
         shared_dirty_bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        sample,
        int(pss.pss.0),
        size(pss.pss_anon),
        int(pss.private.0),
        int(pss.shared.0),
        int(pss.private_dirty.0),
        int(pss.shared_dirty.0),
    ])?;
    Ok(())
}

/// Writes the header: a row a field, plain where it is plain, JSON text where it is a list or an object.
pub(crate) fn header(conn: &Connection, meta: &Meta) -> Result<()> {
    let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(meta) else {
        return Ok(());
    };
    let mut put = conn.prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)")?;
    for (key, value) in fields {
        match value {
            serde_json::Value::Null => put.execute(params![key, rusqlite::types::Null])?,
            serde_json::Value::Bool(truth) => put.execute(params![key, truth])?,
            serde_json::Value::Number(number) => match number.as_u64() {
                Some(whole) => put.execute(params![key, int(whole)])?,
                None => put.execute(params![key, number.as_i64()])?,
            },
            serde_json::Value::String(text) => put.execute(params![key, text])?,
            serde_json::Value::Array(_) | serde_json::Value::Object(_) => {
                put.execute(params![key, value.to_string()])?
            }
        };
    }
    Ok(())
}

/// Writes how far the recording is.
pub(crate) fn progress(
    conn: &Connection,
    announced: Option<Tick>,
    now_unix_ns: i64,
    dropped: u64,
) -> Result<()> {
    conn.prepare_cached(
        "INSERT OR REPLACE INTO progress (id, announced_ns, written_unix_ns, dropped_rows) VALUES (1, ?1, ?2, ?3)",
    )?
    .execute(params![announced.map(|tick| int(tick.0)), now_unix_ns, int(dropped)])?;
    Ok(())
}

fn exit_columns(exit: Option<Exit>) -> (Option<&'static str>, Option<i32>) {
    match exit {
        None => (None, None),
        Some(Exit::Code(code)) => (Some("code"), Some(code)),
        Some(Exit::Signal(signal)) => (Some("signal"), Some(signal)),
        Some(Exit::Unknown) => (Some("unknown"), None),
    }
}

fn limit_columns(limit: Option<Limit>) -> (Option<bool>, Option<i64>) {
    match limit {
        None => (None, None),
        Some(Limit::Unlimited) => (Some(false), None),
        Some(Limit::At(bytes)) => (Some(true), Some(int(bytes.0))),
    }
}

type PressureColumns = (Option<f64>, Option<f64>, Option<i64>, Option<i64>);

fn pressure_columns(pressure: Option<Pressure>) -> PressureColumns {
    pressure.map_or((None, None, None, None), |pressure| {
        (
            Some(pressure.some_avg10),
            Some(pressure.full_avg10),
            Some(int(pressure.some_total_us)),
            Some(int(pressure.full_total_us)),
        )
    })
}

fn json_unless_empty<T: serde::Serialize>(list: &[T]) -> Option<String> {
    (!list.is_empty()).then(|| serde_json::to_string(list).ok()).flatten()
}
