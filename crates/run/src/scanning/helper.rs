//! The helper process itself: makes itself small and expendable, then scans.

use super::target::Target;
use super::{Depth, MOST_TYPES, Refusal, Reply, Report, Task, room};
use lowtide_model::{Bytes, ProcKey};
use lowtide_probe::{ProcessReader, Root, clock, stat_of};
use lowtide_scan::{Settings, TypeUse};
use nix::sys::resource::{Resource, setrlimit};
use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};

/// Above its index a helper needs this much address space: buffers, and what the allocator holds back.
const SLACK: Bytes = Bytes::from_mib(96);
/// A helper that takes longer hangs, or is on a machine that has no time for it.
const LONGEST_SECONDS: u32 = 300;
/// A command is cut at this length.
const COMMAND_CHARS: usize = 200;
/// The most that is read of a task.
const TASK_CAP: u64 = 4 << 20;

/// Reads a task from standard input, does it, and gives the line to answer with.
pub fn help() -> Vec<u8> {
    yield_to_the_job();
    let mut text = Vec::new();
    let _ = std::io::stdin().lock().take(TASK_CAP).read_to_end(&mut text);
    let reply = match serde_json::from_slice::<Task>(&text) {
        Ok(task) => scan(task).map_or_else(Reply::Refused, |report| Reply::Report(Box::new(report))),
        Err(_) => Reply::Refused(Refusal::Unsupported),
    };
    lowtide_wire::encode(&reply)
}

/// The job comes first: for the CPU, and when the kernel looks for somebody to kill.
fn yield_to_the_job() {
    // None of these can be refused to a process that lowers itself; if one is, the others still hold.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let _ = nix::sys::prctl::set_pdeathsig(Some(nix::sys::signal::Signal::SIGKILL));
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    // A recorder blocks its signals; ours must be heard, because whatever hangs here ends by one.
    let _ = nix::sys::signal::SigSet::empty().thread_set_mask();
    nix::unistd::alarm::set(LONGEST_SECONDS);
    be_nice();
}

#[allow(unsafe_code, reason = "there is no safe call for it")]
fn be_nice() {
    // SAFETY: nice takes a number and changes this process's priority, nothing else.
    unsafe { libc::nice(10) };
}

fn scan(task: Task) -> Result<Report, Refusal> {
    end_after(task.most_cpu_ms);
    let root = Root::live();
    let pid = task.pid;
    let process = key_of(&root, pid)?;
    let target = Target::open(&root, pid, task.doors)?;
    let facts = target.facts(&root, pid, task.stack_pointers)?;
    let own = std::process::id();
    let most = room::allowed(facts.rss_bytes(), room::left(&root, own))?;
    cap(&root, own, most);
    if task.stop {
        target.stop(&root, pid)?;
    }
    let settings = settings(most, task.before, task.depth);
    let mut scan = lowtide_scan::scan(&target, &facts, &settings);
    let stopped = target.release();
    scan.types.truncate(MOST_TYPES);
    scan.cost.cpu_ms = clock::own_cpu_ns() / 1_000_000;
    // What it really took, program and buffers included.
    scan.cost.own_bytes = peak().unwrap_or(scan.cost.own_bytes);
    if key_of(&root, pid)? != process || !target.is_there() {
        return Err(Refusal::Gone);
    }
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    let stopped_ms = stopped.as_secs_f64() * 1e3;
    Ok(Report { process, command: command_of(&root, pid), taken_unix_ns: unix, stopped_ms, scan })
}

/// Has the kernel end us when so much CPU time is used up, what was used until now among it.
#[allow(unsafe_code, reason = "there is no safe call for it")]
fn end_after(most_cpu_ms: u64) {
    let seconds = most_cpu_ms.div_ceil(1000) + 1;
    let _ = setrlimit(Resource::RLIMIT_CPU, seconds, seconds);
    let left_us = most_cpu_ms.saturating_mul(1000).saturating_sub(clock::own_cpu_ns() / 1000).max(1000);
    let value = libc::timeval { tv_sec: (left_us / 1_000_000) as i64, tv_usec: (left_us % 1_000_000) as i64 };
    let timer = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: value };
    // SAFETY: the timer is read and nothing is written back; SIGPROF is not handled here and ends this process.
    unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) };
}

fn settings(most_own_bytes: Bytes, before: Option<Vec<TypeUse>>, depth: Depth) -> Settings {
    let all = Settings { most_own_bytes, before, ..Settings::default() };
    match depth {
        Depth::Types => Settings { climbs: 0, suspects: false, ..all },
        Depth::Holders => Settings { suspects: false, ..all },
        Depth::Everything => all,
    }
}

fn key_of(root: &Root, pid: u32) -> Result<ProcKey, Refusal> {
    let stat = stat_of(root, pid).known().filter(|stat| !stat.is_dead()).ok_or(Refusal::Gone)?;
    Ok(ProcKey { pid, start_ticks: stat.start_ticks })
}

/// From here on an allocation beyond the cap fails, which ends the helper and nobody else.
fn cap(root: &Root, own: u32, most: Bytes) {
    let now = ProcessReader::open(root, own).known().and_then(|mut reader| reader.quick().known());
    let size = now.map_or(Bytes::from_mib(64), |now| now.size);
    let cap = size.saturating_add(most).saturating_add(SLACK).0;
    let _ = setrlimit(Resource::RLIMIT_AS, cap, cap);
}

/// The most memory this process had resident so far.
fn peak() -> Option<Bytes> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok().map(Bytes::from_kib)
}

fn command_of(root: &Root, pid: u32) -> String {
    let argv = ProcessReader::open(root, pid).known().and_then(|mut reader| reader.identity().argv.known());
    let masked = lowtide_store::mask_argv(&argv.unwrap_or_default());
    masked.join(" ").chars().take(COMMAND_CHARS).collect()
}
