//! What the GPU helper tells the recorder: one JSON line a reading.

use lowtide_model::Bytes;
use serde::{Deserialize, Serialize};

/// One reading of all cards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuReading {
    /// The cards.
    pub gpus: Vec<GpuLine>,
}

/// One card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuLine {
    /// Index as the driver counts.
    pub gpu: u32,
    /// UUID as the driver tells.
    pub uuid: String,
    /// Memory in use on the card, by everybody.
    pub used_bytes: Bytes,
    /// Memory of the card.
    pub total_bytes: Bytes,
    /// Processes on it. Empty where a pid namespace hides them.
    pub processes: Vec<GpuUser>,
}

/// One process on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuUser {
    /// Its pid, as we see it.
    pub pid: u32,
    /// Its memory on the card.
    pub used_bytes: Bytes,
}
