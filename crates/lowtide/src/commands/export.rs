//! `lowtide export`: a recording for other tools.

use crate::cli::{ExportArgs, ExportTo};
use crate::failure::Failure;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::process::ExitCode;

pub(crate) fn export(args: &ExportArgs) -> Result<ExitCode, Failure> {
    let recording = lowtide_store::open(&args.file)?.recording()?;
    let mut out: Box<dyn Write> = match &args.out {
        Some(path) => {
            let cannot = |error| Failure::new(format!("cannot write {}", path.display())).because(error);
            Box::new(BufWriter::new(File::create(path).map_err(cannot)?))
        }
        None => Box::new(BufWriter::new(std::io::stdout().lock())),
    };
    let written = match args.to {
        ExportTo::Csv => lowtide_store::export::csv(&recording, &mut out),
        ExportTo::Perfetto => lowtide_store::export::perfetto(&recording, &mut out),
    };
    match written.and_then(|()| out.flush()) {
        // `lowtide export ... | head` is no failure.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new("cannot export").because(error))
        }
        Ok(()) | Err(_) => Ok(ExitCode::SUCCESS),
    }
}
