//! `lowtide gpu-helper`: reads GPUs for the recorder, so that the driver's library is never in the recorder itself.

use crate::failure::Failure;
use crate::render;
use lowtide_probe::gpu::{Card, Gpu, GpuProcess};
use lowtide_wire::{GpuLine, GpuReading, GpuUser, encode};
use std::process::ExitCode;
use std::time::Duration;

pub(crate) fn gpu_helper(every_ms: u64) -> Result<ExitCode, Failure> {
    let Some(gpu) = Gpu::open().known() else {
        return Err(
            Failure::new("cannot read GPUs").because("the NVIDIA driver's library could not be loaded")
        );
    };
    let user = |user: &GpuProcess| Some(GpuUser { pid: user.pid, used_bytes: user.used? });
    loop {
        let line = |card: Card| GpuLine {
            gpu: card.index,
            uuid: card.uuid,
            used_bytes: card.used,
            total_bytes: card.total,
            processes: card.processes.known().unwrap_or_default().iter().filter_map(user).collect(),
        };
        let reading = GpuReading { gpus: gpu.read().into_iter().map(line).collect() };
        // The recorder is gone when nobody reads any more.
        if render::bytes(&encode(&reading)).is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_millis(every_ms));
    }
}
