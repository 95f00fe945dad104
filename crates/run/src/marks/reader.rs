//! One page: opened once, checked, and read whenever it moved. Its writer is a stranger.

use lowtide_model::{Event, EventKind, Mark, MarkKind, MarkPhase, ProcKey, Tick};
use lowtide_store::Entry;
use lowtide_wire::page::{self, AgentState, GpuCounters, PageError, PageHeader, TensorCounters};
use lowtide_wire::{Phase, Progress};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// Counters of GPU memory and tensors become a mark at most this often ...
const COUNTERS_EVERY: Duration = Duration::from_secs(1);
/// ... and when they moved by more than this part, so that a busy allocator fills no file.
const MOVED_PART: u64 = 256;

/// Everybody but the owner.
const OTHERS: u32 = 0o077;

/// When a look is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Tick,
    /// The boot clock when the recording began.
    pub(crate) started_boot_ns: u64,
}

impl Moment {
    /// A moment that the job names: not before the recording, not after now.
    fn tick_of(self, boot_ns: u64) -> Tick {
        if boot_ns == 0 { self.now } else { Tick(boot_ns.saturating_sub(self.started_boot_ns)).min(self.now) }
    }
}

/// Why a file is not taken for a page, or no longer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is none.
    Gone,
    /// It is there and may not be trusted.
    Unsafe(&'static str),
    /// It can't be read.
    Unreadable(ErrorKind),
    /// Its bytes are wrong.
    Wrong(PageError),
}

impl Refusal {
    pub(crate) fn words(&self, key: ProcKey) -> String {
        let pid = key.pid;
        match self {
            Self::Gone => format!("the mark page of process {pid} is gone"),
            Self::Unsafe(why) => format!("the mark page of process {pid} is not read: {why}"),
            Self::Unreadable(kind) => format!("the mark page of process {pid} is not read: {kind}"),
            Self::Wrong(error) => format!("the mark page of process {pid} is not read: {error}"),
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        let kind = error.kind();
        if error.raw_os_error() == Some(libc::ELOOP) {
            Self::Unsafe("it is a link")
        } else if kind == ErrorKind::NotFound {
            Self::Gone
        } else if kind == ErrorKind::UnexpectedEof {
            Self::Wrong(PageError::Short)
        } else {
            Self::Unreadable(kind)
        }
    }
}

/// What was told of the counters, and when.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    steps: u64,
    gpu: GpuCounters,
    tensors: Option<TensorCounters>,
    counters_at: Option<Tick>,
    world_size: Option<u32>,
    off: bool,
}

/// An open page.
pub(crate) struct Page {
    file: File,
    key: ProcKey,
    /// The header as it was read last: nothing is done while it stays the same.
    bytes: [u8; page::HEADER_BYTES],
    header: PageHeader,
    taken: u64,
    told: Told,
    phase: Phase,
    lost: u64,
    lost_told: u64,
}

impl Page {
    /// Opens a page and makes sure that it is what it says: a private file of ours, of the right size, about `key`.
    pub(crate) fn open(path: &Path, key: ProcKey) -> Result<Self, Refusal> {
        // Not to be held up by a pipe of that name, nor led astray by a link.
        let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(Refusal::Unsafe("it is no plain file"));
        }
        if found.uid() != nix::unistd::geteuid().as_raw() {
            return Err(Refusal::Unsafe("it belongs to another user"));
        }
        if found.mode() & OTHERS != 0 {
            return Err(Refusal::Unsafe("others may write or read it"));
        }
        if found.len() != page::PAGE_BYTES as u64 {
            return Err(Refusal::Unsafe("it has the wrong size"));
        }
        let mut bytes = [0; page::HEADER_BYTES];
        file.read_exact_at(&mut bytes, 0)?;
        let header = PageHeader::parse(&bytes).map_err(Refusal::Wrong)?;
        if (header.pid, header.start_ticks) != (u64::from(key.pid), key.start_ticks) {
            return Err(Refusal::Unsafe("it says it is another's"));
        }
        // Not the bytes just read: the first look has to find them new.
        let bytes = [0; page::HEADER_BYTES];
        let told = Told::default();
        Ok(Self { file, key, bytes, header, taken: 0, told, phase: Phase::Training, lost: 0, lost_told: 0 })
    }

    pub(crate) fn state(&self) -> AgentState {
        self.header.state
    }

    pub(crate) fn rank(&self) -> Option<u32> {
        self.header.rank
    }

    pub(crate) fn header(&self) -> &PageHeader {
        &self.header
    }

    pub(crate) fn progress(&self) -> Progress {
        let step = Some(self.told.steps).filter(|steps| *steps > 0).map(|steps| steps as f64);
        Progress { step, epoch: self.header.epoch, phase: self.phase }
    }

    /// Takes what is new.
    pub(crate) fn read(&mut self, moment: Moment, out: &mut Vec<Entry>) -> Result<(), Refusal> {
        let mut bytes = [0; page::HEADER_BYTES];
        self.file.read_exact_at(&mut bytes, 0)?;
        if bytes == self.bytes && !self.counters_wait() {
            return Ok(());
        }
        self.header = PageHeader::parse(&bytes).map_err(Refusal::Wrong)?;
        self.bytes = bytes;
        self.take_records(moment, out);
        self.take_facts(moment, out);
        self.take_step(moment, out);
        self.take_counters(moment, out);
        Ok(())
    }

    /// Takes what is new and then everything that waits for its second.
    pub(crate) fn read_last(&mut self, moment: Moment, out: &mut Vec<Entry>) {
        // What can't be read any more is lost with its process.
        let _ = self.read(moment, out);
        self.tell_counters(moment.now, out);
        let header = &self.header;
        if header.steps > 0 || header.micro_batches > 0 {
            let totals = serde_json::json!({"micro_batches": header.micro_batches, "examples_taken": header.examples,
                "hook_ns": header.hook_ns});
            self.info(moment.now, totals.to_string(), out);
        }
        self.tell_losses(moment.now, out);
    }

    fn take_records(&mut self, moment: Moment, out: &mut Vec<Entry>) {
        let (range, overwritten) = page::new_records(self.taken, self.header.head);
        self.lost = self.lost.saturating_add(overwritten);
        self.taken = range.end;
        for number in range {
            let mut slot = [0; page::SLOT_BYTES];
            match self.slot(number, &mut slot) {
                Some(record) => {
                    self.phase = phase_after(self.phase, record.kind, record.phase);
                    let mark = Mark {
                        tick: moment.tick_of(record.boot_ns),
                        process: Some(self.key),
                        kind: record.kind,
                        phase: record.phase,
                        number: record.number,
                        rank: record.rank.or(self.header.rank),
                        extra: record.extra.map(str::to_owned),
                    };
                    out.push(Entry::Mark(mark));
                }
                None => self.lost = self.lost.saturating_add(1),
            }
        }
        if self.lost > 0 && self.lost_told == 0 {
            self.tell_losses(moment.now, out);
        }
    }

    /// A record, if it was whole before and after it was copied.
    fn slot<'a>(&self, number: u64, slot: &'a mut [u8; page::SLOT_BYTES]) -> Option<page::Record<'a>> {
        let at = page::slot_at(number) as u64;
        self.file.read_exact_at(slot, at).ok()?;
        let mut again = [0; 8];
        self.file.read_exact_at(&mut again, at).ok()?;
        if page::slot_number(&again) != page::slot_number(slot) {
            return None;
        }
        page::record(slot, number)
    }

    fn take_step(&mut self, moment: Moment, out: &mut Vec<Entry>) {
        let steps = self.header.steps;
        if steps == self.told.steps {
            return;
        }
        self.told.steps = steps;
        if steps > 0 {
            out.push(Entry::Mark(Mark {
                tick: moment.tick_of(self.header.step_boot_ns),
                process: Some(self.key),
                kind: MarkKind::Step,
                phase: MarkPhase::Point,
                number: steps as f64,
                rank: self.header.rank,
                extra: None,
            }));
        }
    }

    fn take_facts(&mut self, moment: Moment, out: &mut Vec<Entry>) {
        let world_size = self.header.world_size;
        if world_size != self.told.world_size && world_size.is_some_and(|size| size > 0) {
            self.told.world_size = world_size;
            self.info(moment.now, serde_json::json!({"world_size": world_size}).to_string(), out);
        }
        if self.header.state == AgentState::Off && !std::mem::replace(&mut self.told.off, true) {
            let text = format!("the agent in process {} failed inside and withdrew", self.key.pid);
            out.push(self.event(moment.now, text, None));
        }
    }

    /// Whether counters moved and only wait for their second.
    fn counters_wait(&self) -> bool {
        gpu_moved(self.told.gpu, self.header.gpu) || tensors_moved(self.told.tensors, self.header.tensors)
    }

    fn take_counters(&mut self, moment: Moment, out: &mut Vec<Entry>) {
        let due = self.told.counters_at.is_none_or(|at| moment.now.since(at) >= COUNTERS_EVERY);
        if due && self.counters_wait() {
            self.tell_counters(moment.now, out);
        }
    }

    fn tell_counters(&mut self, now: Tick, out: &mut Vec<Entry>) {
        let (gpu, tensors) = (self.header.gpu, self.header.tensors);
        if gpu != self.told.gpu {
            let facts = serde_json::json!({"gpu_allocated_bytes": gpu.allocated_bytes,
                "gpu_reserved_bytes": gpu.reserved_bytes});
            self.info(now, facts.to_string(), out);
        }
        if let Some(now_live) = tensors.filter(|_| tensors != self.told.tensors) {
            let facts = serde_json::json!({"tensors": now_live.count, "tensor_cpu_bytes": now_live.cpu_bytes,
                "tensor_device_bytes": now_live.device_bytes});
            self.info(now, facts.to_string(), out);
        }
        self.told.gpu = gpu;
        self.told.tensors = tensors;
        self.told.counters_at = Some(now);
    }

    fn tell_losses(&mut self, now: Tick, out: &mut Vec<Entry>) {
        if self.lost == self.lost_told {
            return;
        }
        self.lost_told = self.lost;
        let text =
            format!("{} marks of process {} were overwritten before they were read", self.lost, self.key.pid);
        out.push(self.event(now, text, Some(serde_json::json!({"lost_marks": self.lost}).to_string())));
    }

    fn info(&self, tick: Tick, facts: String, out: &mut Vec<Entry>) {
        out.push(Entry::Mark(Mark {
            tick,
            process: Some(self.key),
            kind: MarkKind::Info,
            phase: MarkPhase::Point,
            number: self.header.steps as f64,
            rank: self.header.rank,
            extra: Some(facts),
        }));
    }

    fn event(&self, tick: Tick, text: String, data: Option<String>) -> Entry {
        Entry::Event(Event { tick, kind: EventKind::Note, process: Some(self.key), text, data })
    }
}

/// What the job does after a mark.
pub(crate) fn phase_after(before: Phase, kind: MarkKind, phase: MarkPhase) -> Phase {
    let of = match kind {
        MarkKind::Eval => Phase::Eval,
        MarkKind::Save => Phase::Save,
        MarkKind::Load => Phase::Load,
        MarkKind::Step | MarkKind::Epoch | MarkKind::Info | MarkKind::Custom => return before,
    };
    match phase {
        MarkPhase::Start => of,
        MarkPhase::End => Phase::Training,
        MarkPhase::Point => before,
    }
}

fn gpu_moved(told: GpuCounters, now: GpuCounters) -> bool {
    moved(told.allocated_bytes, now.allocated_bytes) || moved(told.reserved_bytes, now.reserved_bytes)
}

fn tensors_moved(told: Option<TensorCounters>, now: Option<TensorCounters>) -> bool {
    match (told, now) {
        (Some(told), Some(now)) => {
            let pairs = [
                (told.count, now.count),
                (told.cpu_bytes, now.cpu_bytes),
                (told.device_bytes, now.device_bytes),
            ];
            pairs.into_iter().any(|(told, now)| moved(Some(told), Some(now)))
        }
        (None, Some(_)) => true,
        (_, None) => false,
    }
}

fn moved(told: Option<u64>, now: Option<u64>) -> bool {
    match (told, now) {
        (Some(told), Some(now)) => told.abs_diff(now) > told.max(now) / MOVED_PART,
        (told, now) => told != now,
    }
}
