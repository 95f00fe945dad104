//! The words lowtide thinks in: bytes, ticks, processes, samples, marks, limits, curves, recordings.
//!
//! Every other crate speaks these types, so a unit or an identity can be mistaken in one place only.
//! Not here: any I/O, any judgement, any dependency on another crate of ours.

mod curve;
mod limit;
mod mark;
mod process;
mod reading;
mod recording;
mod sample;
mod time;
mod units;

pub use curve::{Axis, Context, Curve, Metric};
pub use limit::{Limit, LimitHeld, LimitKind};
pub use mark::{Mark, MarkKind, MarkPhase};
pub use process::{Exit, ProcKey, Process, Role};
pub use reading::Reading;
pub use recording::{Event, EventKind, Meta, Recording, RunState, ScanRow, Source};
pub use sample::{CgroupRow, CgroupVersion, GpuRow, HostRow, Pressure, Pss, SampleRow, Span};
pub use time::Tick;
pub use units::{ByteDelta, Bytes, ParseBytesError};
