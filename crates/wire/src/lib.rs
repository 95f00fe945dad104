//! What crosses a process border: the mark page and the messages of a recorder's control socket.
//!
//! One JSON object a line, in both directions, so that a shell with `nc -U` or ten lines of Python can speak it.
//! Not here: what a message is for, opening sockets, deciding anything.

mod control;
mod gpu;
pub mod page;
mod said;
mod snapshot;

pub use control::{Answer, Ask, LineReader, MAX_LINE_BYTES, WireError, encode};
pub use gpu::{GpuLine, GpuReading, GpuUser};
pub use said::Said;
pub use snapshot::{Cost, Phase, Point, ProcessLine, Progress, RoleLine, Snapshot, Total};
