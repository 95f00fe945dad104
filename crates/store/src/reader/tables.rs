//! The tables as the words of `model`: one function a table.

use super::cells::{Cells, Table, each, is_table};
use crate::words::unword;
use lowtide_model::{
    Bytes, CgroupRow, CgroupVersion, Event, Exit, GpuRow, HostRow, Limit, LimitHeld, LimitKind, Mark, Meta,
    Pressure, ProcKey, Process, Pss, SampleRow, ScanRow, Tick,
};
use rusqlite::{Connection, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Row numbers to read: after the first, up to the second.
pub(crate) type Range = (i64, i64);

/// Small numbers back to processes, cgroups and GPUs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) processes: BTreeMap<u64, ProcKey>,
    pub(crate) cgroups: BTreeMap<u64, (Arc<str>, CgroupVersion)>,
    pub(crate) gpus: BTreeMap<u64, (u32, String)>,
}

const ALL: Range = (i64::MIN, i64::MAX);

const PROCESS: Table = Table {
    name: "process",
    columns: &[
        "pid",
        "start_ticks",
        "parent_pid",
        "parent_start_ticks",
        "born_ns",
        "died_ns",
        "exit",
        "exit_number",
        "execed",
        "comm",
        "argv",
        "env",
        "cgroup",
        "peak_rss_bytes",
    ],
    beside: None,
};

const SAMPLE: Table = Table {
    name: "sample",
    columns: &[
        "t_ns",
        "process_id",
        "ticks",
        "rss_bytes",
        "rss_min_bytes",
        "rss_max_bytes",
        "anon_bytes",
        "anon_min_bytes",
        "anon_max_bytes",
        "file_bytes",
        "shmem_bytes",
        "swap_bytes",
        "locked_bytes",
        "size_bytes",
        "threads",
        "minor_faults",
        "major_faults",
        "cpu_ns",
    ],
    beside: Some((
        "sharing",
        &[
            "pss_bytes",
            "pss_anon_bytes",
            "private_bytes",
            "shared_bytes",
            "private_dirty_bytes",
            "shared_dirty_bytes",
        ],
    )),
};

const CGROUP: Table = Table {
    name: "cgroup",
    columns: &[
        "t_ns",
        "cgroup_id",
        "ticks",
        "usage_bytes",
        "usage_min_bytes",
        "usage_max_bytes",
        "limited",
        "limit_bytes",
        "anon_bytes",
        "file_bytes",
        "shmem_bytes",
        "inactive_file_bytes",
        "kernel_bytes",
        "swap_bytes",
        "oom_kills",
        "limit_hits",
        "some_avg10_percent",
        "full_avg10_percent",
        "some_total_us",
        "full_total_us",
        "strangers",
    ],
    beside: None,
};

const HOST: Table = Table {
    name: "host",
    columns: &[
        "t_ns",
        "ticks",
        "total_bytes",
        "available_bytes",
        "available_min_bytes",
        "available_max_bytes",
        "swap_total_bytes",
        "swap_free_bytes",
        "oom_kills",
        "some_avg10_percent",
        "full_avg10_percent",
        "some_total_us",
        "full_total_us",
        "dev_shm_used_bytes",
        "dev_shm_total_bytes",
    ],
    beside: None,
};

const GPU: Table = Table {
    name: "gpu",
    columns: &[
        "t_ns",
        "device_id",
        "process_id",
        "used_bytes",
        "used_min_bytes",
        "used_max_bytes",
        "total_bytes",
    ],
    beside: None,
};

const fn table(name: &'static str, columns: &'static [&'static str]) -> Table {
    Table { name, columns, beside: None }
}

/// A process with its row number. Rows without a pid are no processes.
pub(crate) fn processes(conn: &Connection, range: Range) -> Result<Vec<(i64, Process)>> {
    let mut out = Vec::new();
    each(conn, &PROCESS, range, |id, cells| {
        out.extend(process(cells).map(|process| (id, process)));
    })?;
    Ok(out)
}

fn process(cells: &mut Cells<'_>) -> Option<Process> {
    let (own, parent) = (key(cells), key(cells));
    let born = Tick(cells.count().unwrap_or(0));
    let died = cells.count().map(Tick);
    let (exit_word, exit_number) =
        (cells.text(), cells.signed().and_then(|number| i32::try_from(number).ok()));
    let exit = match (exit_word.as_deref(), exit_number) {
        (Some("code"), Some(code)) => Some(Exit::Code(code)),
        (Some("signal"), Some(signal)) => Some(Exit::Signal(signal)),
        (Some(_), _) => Some(Exit::Unknown),
        (None, _) => None,
    };
    let execed = cells.count().is_some_and(|flag| flag != 0);
    let comm = cells.text().unwrap_or_default();
    let argv = json(cells);
    let env = json(cells);
    let (cgroup, peak_rss) = (cells.text(), cells.bytes());
    Some(Process { key: own?, parent, born, died, exit, execed, comm, argv, env, cgroup, peak_rss })
}

fn key(cells: &mut Cells<'_>) -> Option<ProcKey> {
    let (pid, start_ticks) = (cells.small(), cells.count());
    Some(ProcKey { pid: pid?, start_ticks: start_ticks? })
}

fn json<T: serde::de::DeserializeOwned + Default>(cells: &mut Cells<'_>) -> T {
    cells.text().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Samples of processes that are known.
pub(crate) fn samples(
    conn: &Connection,
    names: &Names,
    range: Range,
    out: &mut Vec<SampleRow>,
) -> Result<()> {
    each(conn, &SAMPLE, range, |_, cells| out.extend(sample(cells, names)))
}

fn sample(cells: &mut Cells<'_>, names: &Names) -> Option<SampleRow> {
    let tick = cells.count().map(Tick);
    let process = cells.count().and_then(|id| names.processes.get(&id).copied());
    let ticks = cells.small().unwrap_or(1);
    let (rss, anon) = (cells.span(), cells.span());
    let (file, shmem, swap, locked) = (cells.bytes(), cells.bytes(), cells.bytes(), cells.bytes());
    let size = cells.bytes().unwrap_or_default();
    let threads = cells.small();
    let minor_faults = cells.count().unwrap_or(0);
    let major_faults = cells.count().unwrap_or(0);
    let cpu_ns = cells.count().unwrap_or(0);
    let pss = sharing(cells);
    Some(SampleRow {
        process: process?,
        tick: tick?,
        ticks,
        rss: rss?,
        anon,
        file,
        shmem,
        swap,
        locked,
        size,
        threads,
        minor_faults,
        major_faults,
        cpu_ns,
        pss,
    })
}

fn sharing(cells: &mut Cells<'_>) -> Option<Pss> {
    let (pss, pss_anon) = (cells.bytes(), cells.bytes());
    let mut next = || cells.bytes().unwrap_or_default();
    let (private, shared, private_dirty, shared_dirty) = (next(), next(), next(), next());
    Some(Pss { pss: pss?, pss_anon, private, shared, private_dirty, shared_dirty })
}

fn pressure(cells: &mut Cells<'_>) -> Option<Pressure> {
    let (some, full) = (cells.real(), cells.real());
    let (some_total_us, full_total_us) = (cells.count().unwrap_or(0), cells.count().unwrap_or(0));
    Some(Pressure { some_avg10: some?, full_avg10: full.unwrap_or(0.0), some_total_us, full_total_us })
}

/// The paths behind cgroup numbers.
pub(crate) fn cgroup_paths(conn: &Connection, names: &mut Names) -> Result<()> {
    each(conn, &table("cgroup_path", &["path", "version"]), ALL, |id, cells| {
        let (path, version) = (cells.text(), cells.count());
        let version = if version == Some(1) { CgroupVersion::V1 } else { CgroupVersion::V2 };
        if let (Ok(id), Some(path)) = (u64::try_from(id), path) {
            names.cgroups.insert(id, (path.into(), version));
        }
    })
}

/// cgroup rows.
pub(crate) fn cgroups(
    conn: &Connection,
    names: &Names,
    range: Range,
    out: &mut Vec<CgroupRow>,
) -> Result<()> {
    each(conn, &CGROUP, range, |_, cells| out.extend(cgroup(cells, names)))
}

fn cgroup(cells: &mut Cells<'_>, names: &Names) -> Option<CgroupRow> {
    let tick = cells.count().map(Tick);
    let named = cells.count().and_then(|id| names.cgroups.get(&id));
    let ticks = cells.small().unwrap_or(1);
    let usage = cells.span();
    let limit = match (cells.count(), cells.bytes()) {
        (Some(0), _) => Some(Limit::Unlimited),
        (Some(_), Some(at)) => Some(Limit::At(at)),
        (Some(_) | None, _) => None,
    };
    let (anon, file, shmem) = (cells.bytes(), cells.bytes(), cells.bytes());
    let (inactive_file, kernel, swap) = (cells.bytes(), cells.bytes(), cells.bytes());
    let (oom_kills, limit_hits) = (cells.count(), cells.count());
    let pressure = pressure(cells);
    let strangers = cells.small();
    let (path, version) = named?.clone();
    Some(CgroupRow {
        path,
        version,
        tick: tick?,
        ticks,
        usage: usage?,
        limit,
        anon,
        file,
        shmem,
        inactive_file,
        kernel,
        swap,
        oom_kills,
        limit_hits,
        pressure,
        strangers,
    })
}

/// Host rows.
pub(crate) fn host(conn: &Connection, range: Range, out: &mut Vec<HostRow>) -> Result<()> {
    each(conn, &HOST, range, |_, cells| out.extend(host_row(cells)))
}

fn host_row(cells: &mut Cells<'_>) -> Option<HostRow> {
    let tick = cells.count().map(Tick);
    let ticks = cells.small().unwrap_or(1);
    let total = cells.bytes();
    let available = cells.span();
    let (swap_total, swap_free) = (cells.bytes().unwrap_or_default(), cells.bytes().unwrap_or_default());
    let oom_kills = cells.count();
    let pressure = pressure(cells);
    let (dev_shm_used, dev_shm_total) = (cells.bytes(), cells.bytes());
    Some(HostRow {
        tick: tick?,
        ticks,
        total: total?,
        available: available?,
        swap_total,
        swap_free,
        oom_kills,
        pressure,
        dev_shm_used,
        dev_shm_total,
    })
}

/// The GPUs behind their numbers.
pub(crate) fn gpu_devices(conn: &Connection, names: &mut Names) -> Result<()> {
    each(conn, &table("gpu_device", &["gpu", "uuid"]), ALL, |id, cells| {
        let (gpu, uuid) = (cells.small(), cells.text().unwrap_or_default());
        if let (Ok(id), Some(gpu)) = (u64::try_from(id), gpu) {
            names.gpus.insert(id, (gpu, uuid));
        }
    })
}

/// GPU rows.
pub(crate) fn gpus(conn: &Connection, names: &Names, range: Range, out: &mut Vec<GpuRow>) -> Result<()> {
    each(conn, &GPU, range, |_, cells| out.extend(gpu_row(cells, names)))
}

fn gpu_row(cells: &mut Cells<'_>, names: &Names) -> Option<GpuRow> {
    let tick = cells.count().map(Tick);
    let device = cells.count().and_then(|id| names.gpus.get(&id));
    let process_id = cells.count();
    let (used, total) = (cells.span(), cells.bytes());
    let process = process_id.and_then(|id| names.processes.get(&id).copied());
    if process_id.is_some() && process.is_none() {
        return None;
    }
    let (gpu, uuid) = device?.clone();
    Some(GpuRow { gpu, uuid, process, tick: tick?, used: used?, total })
}

/// Marks.
pub(crate) fn marks(conn: &Connection, names: &Names, range: Range, out: &mut Vec<Mark>) -> Result<()> {
    let columns = table("mark", &["t_ns", "process_id", "kind", "phase", "number", "rank", "extra"]);
    each(conn, &columns, range, |_, cells| {
        let tick = cells.count().map(Tick);
        let process = cells.count().and_then(|id| names.processes.get(&id).copied());
        let kind = cells.text().and_then(|word| unword(&word));
        let phase = cells.text().and_then(|word| unword(&word));
        let number = cells.real().unwrap_or(f64::NAN);
        let (rank, extra) = (cells.small(), cells.text());
        if let (Some(tick), Some(kind), Some(phase)) = (tick, kind, phase) {
            out.push(Mark { tick, process, kind, phase, number, rank, extra });
        }
    })
}

/// Events. A kind this version does not know is a note.
pub(crate) fn events(conn: &Connection, names: &Names, range: Range, out: &mut Vec<Event>) -> Result<()> {
    each(conn, &table("event", &["t_ns", "kind", "process_id", "text", "data"]), range, |_, cells| {
        let tick = cells.count().map(Tick);
        let kind = cells.text().and_then(|word| unword(&word)).unwrap_or(lowtide_model::EventKind::Note);
        let process = cells.count().and_then(|id| names.processes.get(&id).copied());
        let (text, data) = (cells.text().unwrap_or_default(), cells.text());
        out.extend(tick.map(|tick| Event { tick, kind, process, text, data }));
    })
}

/// Scans. Recordings of the first days have no such table.
pub(crate) fn scans(conn: &Connection, names: &Names, range: Range, out: &mut Vec<ScanRow>) -> Result<()> {
    if !is_table(conn, "scan")? {
        return Ok(());
    }
    each(conn, &table("scan", &["t_ns", "process_id", "report"]), range, |_, cells| {
        let tick = cells.count().map(Tick);
        let process = cells.count().and_then(|id| names.processes.get(&id).copied());
        if let (Some(tick), Some(process), Some(report)) = (tick, process, cells.text()) {
            out.push(ScanRow { tick, process, report });
        }
    })
}

/// Limits, smallest headroom first.
pub(crate) fn limits(conn: &Connection, names: &Names) -> Result<Vec<LimitHeld>> {
    let mut out = Vec::new();
    let columns = table("limit_held", &["kind", "path", "process_id", "limit_bytes", "used_bytes"]);
    each(conn, &columns, ALL, |_, cells| {
        let (kind, path) = (cells.text().unwrap_or_default(), cells.text());
        let process = cells.count().and_then(|id| names.processes.get(&id).copied());
        let (limit, used) = (cells.bytes(), cells.bytes());
        let kind = match kind.as_str() {
            "cgroup" => path.map(|path| LimitKind::Cgroup { path: path.into() }),
            "address_space" => process.map(|process| LimitKind::AddressSpace { process }),
            "host" => Some(LimitKind::Host),
            "dev_shm" => Some(LimitKind::DevShm),
            "slurm" => Some(LimitKind::Slurm),
            "asked" => Some(LimitKind::Asked),
            _ => None,
        };
        if let (Some(kind), Some(limit)) = (kind, limit) {
            out.push(LimitHeld { kind, limit, used: used.unwrap_or(Bytes::ZERO) });
        }
    })?;
    out.sort_by_key(LimitHeld::headroom);
    Ok(out)
}

/// The header's fields as they stand, those that are not ours included.
pub(crate) fn header_fields(conn: &Connection) -> Result<BTreeMap<String, serde_json::Value>> {
    if !super::cells::is_table(conn, "meta")? {
        return Ok(BTreeMap::new());
    }
    let mut statement = conn.prepare("SELECT key, value FROM meta LIMIT 1000")?;
    let mut rows = statement.query([])?;
    let mut out = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let mut cells = Cells::of(row);
        if let Some(key) = cells.text() {
            out.insert(key, cells.json());
        }
    }
    Ok(out)
}

/// The header; a field that does not read as what it should be is left at its default.
pub(crate) fn header(fields: &BTreeMap<String, serde_json::Value>) -> Meta {
    let alone = |key: &str, value: serde_json::Value| {
        let one = serde_json::Value::Object([(key.to_owned(), value.clone())].into_iter().collect());
        serde_json::from_value::<Meta>(one).is_ok().then_some(value)
    };
    let mut good = serde_json::Map::new();
    for (key, value) in fields {
        let flag = || value.as_i64().and_then(|number| alone(key, (number != 0).into()));
        let inner = || {
            value
                .as_str()
                .and_then(|text| serde_json::from_str(text).ok())
                .and_then(|inner| alone(key, inner))
        };
        if let Some(value) = alone(key, value.clone()).or_else(flag).or_else(inner) {
            good.insert(key.clone(), value);
        }
    }
    serde_json::from_value(serde_json::Value::Object(good)).unwrap_or_default()
}

/// How far the recording is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) announced: Option<Tick>,
    pub(crate) written_unix_ns: Option<i64>,
    pub(crate) dropped_rows: u64,
}

/// The newest sign of life.
pub(crate) fn progress(conn: &Connection) -> Result<Progress> {
    let mut out = Progress::default();
    each(conn, &table("progress", &["announced_ns", "written_unix_ns", "dropped_rows"]), ALL, |_, cells| {
        out = Progress {
            announced: cells.count().map(Tick),
            written_unix_ns: cells.signed(),
            dropped_rows: cells.count().unwrap_or(0),
        };
    })?;
    Ok(out)
}
