//! `lowtide export`: a recording for other tools.

use crate::cli::{ExportArgs, ExportTo};
use crate::failure::Failure;
use crate::render;
use lowtide_serve::remote;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::process::ExitCode;

pub(crate) fn export(args: &ExportArgs) -> Result<ExitCode, Failure> {
    if let (ExportTo::RemoteWrite, Some(url)) = (args.to, &args.url) {
        return send(args, url);
    }
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
        // Without an address clap has said so already.
        ExportTo::RemoteWrite => Ok(()),
    };
    match written.and_then(|()| out.flush()) {
        // `lowtide export ... | head` is no failure.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new("cannot export").because(error))
        }
        Ok(()) | Err(_) => Ok(ExitCode::SUCCESS),
    }
}

/// Sends a run; with `--follow`, what is new of it until it ends.
fn send(args: &ExportArgs, url: &str) -> Result<ExitCode, Failure> {
    let hint = "send it again when the receiver is well: what it has already changes nothing";
    let sent = if args.follow {
        remote::follow(&args.file, url, args.wait)
    } else {
        remote::send_file(&args.file, url, args.wait)
    };
    let sent = sent.map_err(|error| Failure::from(error).hint(hint))?;
    let words = format!("{} samples of {} series in {} requests\n", sent.samples, sent.series, sent.requests);
    render::say(&words)?;
    Ok(ExitCode::SUCCESS)
}
