//! The tables of a recording, version 1. docs/FORMAT.md tells them column by column.
//!
//! Sizes decide the shapes here: rows are appended in the order of time (full pages, few dirty pages a commit), refer
//! to processes by a small number, and leave out what equals its neighbour (`*_min_bytes` NULL means "as `*_bytes`").
//! Small pages keep a commit of a few rows small. Not here: reading and writing of rows.

use rusqlite::Connection;

/// "TIDE": what tells a recording from any other `SQLite` file.
pub(crate) const APPLICATION_ID: i64 = 0x5449_4445;

/// The version this code writes. Every version up to it is read.
pub(crate) const VERSION: i64 = 1;

/// A commit writes whole pages: with 1 KiB pages a quiet one costs about 6 KiB instead of 24.
pub(crate) const PAGE_BYTES: u32 = 1024;

const TABLES: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE progress (
  id INTEGER PRIMARY KEY, announced_ns INTEGER, written_unix_ns INTEGER, dropped_rows INTEGER);
CREATE TABLE process (
  id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, start_ticks INTEGER NOT NULL,
  parent_pid INTEGER, parent_start_ticks INTEGER, born_ns INTEGER, died_ns INTEGER,
  exit TEXT, exit_number INTEGER, execed INTEGER, comm TEXT, argv TEXT, env TEXT, cgroup TEXT, peak_rss_bytes INTEGER);
CREATE UNIQUE INDEX process_key ON process (pid, start_ticks);
CREATE TABLE sample (
  id INTEGER PRIMARY KEY, t_ns INTEGER, process_id INTEGER, ticks INTEGER,
  rss_bytes INTEGER, rss_min_bytes INTEGER, rss_max_bytes INTEGER,
  anon_bytes INTEGER, anon_min_bytes INTEGER, anon_max_bytes INTEGER,
  file_bytes INTEGER, shmem_bytes INTEGER, swap_bytes INTEGER, locked_bytes INTEGER, size_bytes INTEGER,
  threads INTEGER, minor_faults INTEGER, major_faults INTEGER, cpu_ns INTEGER);
CREATE TABLE sharing (
  sample_id INTEGER PRIMARY KEY, pss_bytes INTEGER, pss_anon_bytes INTEGER, private_bytes INTEGER,
  shared_bytes INTEGER, private_dirty_bytes INTEGER, shared_dirty_bytes INTEGER);
CREATE TABLE cgroup_path (id INTEGER PRIMARY KEY, path TEXT, version INTEGER);
CREATE TABLE cgroup (
  id INTEGER PRIMARY KEY, t_ns INTEGER, cgroup_id INTEGER, ticks INTEGER,
  usage_bytes INTEGER, usage_min_bytes INTEGER, usage_max_bytes INTEGER, limited INTEGER, limit_bytes INTEGER,
  anon_bytes INTEGER, file_bytes INTEGER, shmem_bytes INTEGER, inactive_file_bytes INTEGER, kernel_bytes INTEGER,
  swap_bytes INTEGER, oom_kills INTEGER, limit_hits INTEGER,
  some_avg10_percent REAL, full_avg10_percent REAL, some_total_us INTEGER, full_total_us INTEGER, strangers INTEGER);
CREATE TABLE host (
  id INTEGER PRIMARY KEY, t_ns INTEGER, ticks INTEGER, total_bytes INTEGER,
  available_bytes INTEGER, available_min_bytes INTEGER, available_max_bytes INTEGER,
  swap_total_bytes INTEGER, swap_free_bytes INTEGER, oom_kills INTEGER,
  some_avg10_percent REAL, full_avg10_percent REAL, some_total_us INTEGER, full_total_us INTEGER,
  dev_shm_used_bytes INTEGER, dev_shm_total_bytes INTEGER);
CREATE TABLE gpu_device (id INTEGER PRIMARY KEY, gpu INTEGER, uuid TEXT);
CREATE TABLE gpu (
  id INTEGER PRIMARY KEY, t_ns INTEGER, device_id INTEGER, process_id INTEGER,
  used_bytes INTEGER, used_min_bytes INTEGER, used_max_bytes INTEGER, total_bytes INTEGER);
CREATE TABLE mark (
  id INTEGER PRIMARY KEY, t_ns INTEGER, process_id INTEGER, kind TEXT, phase TEXT, number REAL, rank INTEGER,
  extra TEXT);
CREATE TABLE event (
  id INTEGER PRIMARY KEY, t_ns INTEGER, kind TEXT, process_id INTEGER, text TEXT, data TEXT);
CREATE TABLE scan (id INTEGER PRIMARY KEY, t_ns INTEGER, process_id INTEGER, report TEXT);
CREATE TABLE limit_held (
  id INTEGER PRIMARY KEY, kind TEXT, path TEXT, process_id INTEGER, limit_bytes INTEGER, used_bytes INTEGER);
CREATE VIEW sample_view AS
  SELECT s.id, s.t_ns / 1e9 AS t_s, p.pid, p.start_ticks, p.comm, s.ticks, s.rss_bytes,
    coalesce(s.rss_min_bytes, s.rss_bytes) AS rss_min_bytes, coalesce(s.rss_max_bytes, s.rss_bytes) AS rss_max_bytes,
    s.anon_bytes, coalesce(s.anon_min_bytes, s.anon_bytes) AS anon_min_bytes,
    coalesce(s.anon_max_bytes, s.anon_bytes) AS anon_max_bytes,
    s.file_bytes, s.shmem_bytes, s.swap_bytes, s.locked_bytes, s.size_bytes, s.threads, s.minor_faults,
    s.major_faults, s.cpu_ns, h.pss_bytes, h.pss_anon_bytes, h.private_bytes, h.shared_bytes, h.private_dirty_bytes,
    h.shared_dirty_bytes
  FROM sample s JOIN process p ON p.id = s.process_id LEFT JOIN sharing h ON h.sample_id = s.id;
";

/// Lays the tables into an empty file and names it a recording. The caller owns the transaction.
pub(crate) fn lay(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(TABLES)?;
    conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    conn.pragma_update(None, "user_version", VERSION)
}
