//! GPU memory through NVIDIA's management library, loaded at run time: without it there is simply no GPU here.
//!
//! Loading it costs tens of megabytes, so the recorder does this in a helper process. In a pid namespace newer
//! drivers tell our own pids, older ones those of the first namespace, which mean nothing or somebody else here: so
//! there each must be shown to hold the driver's device, or the processes are not told at all.

use crate::Root;
use lowtide_model::{Bytes, Reading};
use nvml_wrapper::Nvml;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use std::collections::BTreeMap;
use std::fmt;

/// Inode of the first pid namespace, fixed in the kernel.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// The GPUs of this machine.
pub struct Gpu {
    nvml: Nvml,
    root: Root,
    cards: u32,
    own_pids: bool,
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gpu")
            .field("cards", &self.cards)
            .field("own_pids", &self.own_pids)
            .finish_non_exhaustive()
    }
}

/// One card at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Index as the driver counts.
    pub index: u32,
    /// UUID as the driver tells.
    pub uuid: String,
    /// Memory in use.
    pub used: Bytes,
    /// All its memory.
    pub total: Bytes,
    /// The processes on it, by pid. `Unsupported` where a pid namespace hides them.
    pub processes: Reading<Vec<GpuProcess>>,
}

/// One process on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuProcess {
    /// Its pid.
    pub pid: u32,
    /// Its memory on the card, where the driver tells.
    pub used: Option<Bytes>,
}

impl Gpu {
    /// Loads the library. `Unsupported` without it, without a driver or without a card.
    pub fn open() -> Reading<Self> {
        let nvml = match Nvml::init() {
            Ok(nvml) => nvml,
            Err(error) => return refusal(&error),
        };
        let root = Root::live();
        let namespace = std::fs::read_link(root.proc.join("self/ns/pid"));
        let own_pids = namespace.is_ok_and(|link| link.as_os_str() != FIRST_PID_NAMESPACE);
        match nvml.device_count() {
            Ok(0) => Reading::Unsupported,
            Ok(cards) => Reading::Known(Self { nvml, root, cards, own_pids }),
            Err(error) => refusal(&error),
        }
    }

    /// Reads all cards. One that cannot be read (fallen off the bus) is left out.
    pub fn read(&self) -> Vec<Card> {
        (0..self.cards).filter_map(|index| self.card(index).ok()).collect()
    }

    fn card(&self, index: u32) -> Result<Card, NvmlError> {
        let device = self.nvml.device_by_index(index)?;
        let memory = device.memory_info()?;
        let compute = device.running_compute_processes();
        let graphics = device.running_graphics_processes().unwrap_or_default();
        let processes = match compute {
            Ok(compute) => self.visible(&compute, &graphics),
            Err(error) => refusal(&error),
        };
        Ok(Card {
            index,
            uuid: device.uuid()?,
            used: Bytes(memory.used),
            total: Bytes(memory.total),
            processes,
        })
    }

    fn visible(&self, compute: &[ProcessInfo], graphics: &[ProcessInfo]) -> Reading<Vec<GpuProcess>> {
        let processes = merge(compute.iter().chain(graphics).map(|info| match info.used_gpu_memory {
            UsedGpuMemory::Used(used) => (info.pid, Some(used)),
            UsedGpuMemory::Unavailable => (info.pid, None),
        }));
        // An empty list in a namespace of our own says nothing either.
        let shown = || processes.iter().all(|process| holds_device(&self.root, process.pid));
        let trusted = !self.own_pids || (!processes.is_empty() && shown());
        if trusted { Reading::Known(processes) } else { Reading::Unsupported }
    }
}

/// A process may stand in both lists, with the same number.
fn merge(processes: impl Iterator<Item = (u32, Option<u64>)>) -> Vec<GpuProcess> {
    let mut by_pid = BTreeMap::new();
    for (pid, used) in processes {
        let known: &mut Option<u64> = by_pid.entry(pid).or_default();
        *known = (*known).max(used);
    }
    by_pid.into_iter().map(|(pid, used)| GpuProcess { pid, used: used.map(Bytes) }).collect()
}

/// Whether the process with this pid, as we see it, has the driver's device open.
fn holds_device(root: &Root, pid: u32) -> bool {
    let Ok(entries) = std::fs::read_dir(root.process(pid).join("fd")) else {
        return false;
    };
    entries.filter_map(Result::ok).any(|entry| {
        std::fs::read_link(entry.path())
            .is_ok_and(|link| link.as_os_str().as_encoded_bytes().starts_with(b"/dev/nvidia"))
    })
}

fn refusal<T>(error: &NvmlError) -> Reading<T> {
    if matches!(error, NvmlError::NoPermission) { Reading::Denied } else { Reading::Unsupported }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_in_both_lists_is_counted_once() {
        let merged = merge([(7, Some(100)), (3, None), (7, Some(100)), (3, Some(5))].into_iter());
        let plain: Vec<_> = merged.iter().map(|process| (process.pid, process.used)).collect();
        assert_eq!(plain, [(3, Some(Bytes(5))), (7, Some(Bytes(100)))]);
    }

    #[test]
    fn opening_answers_with_or_without_a_gpu() {
        match Gpu::open() {
            Reading::Known(gpu) => assert!(!gpu.read().is_empty()),
            Reading::Unsupported | Reading::Denied => {}
            Reading::Gone => panic!("a machine cannot be gone"),
        }
    }

    #[test]
    fn this_process_holds_no_gpu_unless_there_is_one() {
        assert!(!holds_device(&Root::live(), u32::MAX));
    }
}
