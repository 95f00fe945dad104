//! `lowtide list`: the recordings of a folder.

use crate::cli::{Format, ListArgs};
use crate::failure::Failure;
use crate::render;
use std::process::ExitCode;

pub(crate) fn list(args: &ListArgs) -> Result<ExitCode, Failure> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => lowtide_store::runs_dir()?,
    };
    let listed = if args.dir.is_none() && !dir.exists() { Vec::new() } else { lowtide_store::list(&dir)? };
    match args.format {
        Format::Text => render::say(&render::list_text(&dir, &listed))?,
        Format::Json => render::say(&render::list_json(&listed))?,
    }
    Ok(ExitCode::SUCCESS)
}
