//! What people look at: one page a run, as a file to share or live from a server.
//!
//! Reads recordings and judges them through `verdict`; never touches a live system and never writes a recording, so a
//! crashed page can't touch a job. Not here: recording (see `run`), the terminal (see `lowtide`).

mod assets;
mod figure;
mod html;
mod markdown;
mod page;
mod redact;
pub mod remote;
mod report;
mod series;
pub mod server;

pub use assets::charts_are_built;
pub use figure::figure_svg;
pub use markdown::markdown;
pub use page::Page;
pub use report::report_html;
