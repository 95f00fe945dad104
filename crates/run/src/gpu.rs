//! GPU memory, through a helper process that is started only where a GPU is.
//!
//! Why a helper: the driver's library costs tens of megabytes and may hang with the driver. The recorder must do neither.

use crate::rows::HEARTBEAT;
use lowtide_model::{Bytes, GpuRow, ProcKey, Span, Tick};
use lowtide_wire::{GpuReading, LineReader};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Where the driver shows itself. Without it there is nothing to read and no helper is started.
const DRIVER: &str = "/proc/driver/nvidia/version";
/// Where it shows itself in sandboxes that hide /proc/driver.
const DEVICE: &str = "/dev/nvidiactl";

/// The helper and what it said last.
pub(crate) struct GpuHelper {
    child: Child,
    output: ChildStdout,
    lines: LineReader,
    silent: bool,
    last: BTreeMap<(u32, Option<u32>), (Tick, Bytes)>,
}

impl GpuHelper {
    /// Starts the helper, if there is a GPU to read.
    pub(crate) fn start(program: &Path, every_ms: u64) -> Option<Self> {
        if !Path::new(DRIVER).exists() && !Path::new(DEVICE).exists() {
            return None;
        }
        let mut child = Command::new(program)
            .args(["gpu-helper", "--every-ms", &every_ms.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let output = child.stdout.take()?;
        fcntl(&output, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).ok()?;
        Some(Self { child, output, lines: LineReader::default(), silent: false, last: BTreeMap::new() })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended and will say no more.
    pub(crate) fn silent(&self) -> bool {
        self.silent
    }

    /// Takes what it said since, as rows worth writing. Processes that are not of the job are left out.
    pub(crate) fn hear(&mut self, now: Tick, member: impl Fn(u32) -> Option<ProcKey>) -> Vec<GpuRow> {
        let mut buffer = [0; 8192];
        loop {
            match self.output.read(&mut buffer) {
                Ok(0) => {
                    self.silent = true;
                    break;
                }
                Ok(length) => self.silent |= self.lines.feed(&buffer[..length]).is_err(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.silent |= error.kind() != ErrorKind::WouldBlock;
                    break;
                }
            }
        }
        let mut rows = Vec::new();
        while let Some(reading) = self.lines.next_message::<GpuReading>() {
            rows.extend(reading.ok().into_iter().flat_map(|reading| self.rows(&reading, now, &member)));
        }
        rows
    }

    fn rows(
        &mut self,
        reading: &GpuReading,
        now: Tick,
        member: impl Fn(u32) -> Option<ProcKey>,
    ) -> Vec<GpuRow> {
        let mut rows = Vec::new();
        for card in &reading.gpus {
            let row = |process, used, total| {
                let (gpu, uuid) = (card.gpu, card.uuid.clone());
                GpuRow { gpu, uuid, process, tick: now, used: Span::one(used), total }
            };
            if self.is_news((card.gpu, None), now, card.used_bytes) {
                rows.push(row(None, card.used_bytes, Some(card.total_bytes)));
            }
            for user in &card.processes {
                let Some(key) = member(user.pid) else { continue };
                if self.is_news((card.gpu, Some(user.pid)), now, user.used_bytes) {
                    rows.push(row(Some(key), user.used_bytes, None));
                }
            }
        }
        rows
    }

    fn is_news(&mut self, whose: (u32, Option<u32>), now: Tick, used: Bytes) -> bool {
        let old = self.last.get(&whose).is_some_and(|(at, last)| *last == used && now.since(*at) < HEARTBEAT);
        if !old {
            self.last.insert(whose, (now, used));
        }
        !old
    }
}

impl AsFd for GpuHelper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }
}

impl Drop for GpuHelper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
