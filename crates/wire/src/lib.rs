//! What crosses a process border: the messages of a recorder's control socket.
//!
//! One JSON object a line, in both directions, so that a shell with `nc -U` or ten lines of Python can speak it.
//! Not here: what a message is for, opening sockets, deciding anything.

mod control;
mod gpu;
mod snapshot;

pub use control::{Answer, Ask, LineReader, MAX_LINE_BYTES, WireError, encode};
pub use gpu::{GpuLine, GpuReading, GpuUser};
pub use snapshot::{Cost, Point, ProcessLine, RoleLine, Snapshot, Total};
