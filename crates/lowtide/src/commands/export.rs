//! `lowtide export`: a recording for other tools.

use crate::cli::{ExportArgs, ExportTo};
use crate::failure::Failure;
use crate::render;
use lowtide_serve::remote;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Stdin, Write};
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::time::Duration;

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
        let mut told = args.until_closed.then(std::io::stdin);
        remote::follow(&args.file, url, args.wait, &mut |pause| wait(&mut told, pause))
    } else {
        remote::send_file(&args.file, url, args.wait)
    };
    let sent = sent.map_err(|error| Failure::from(error).hint(hint))?;
    let words = format!("{} samples of {} series in {} requests\n", sent.samples, sent.series, sent.requests);
    render::say(&words)?;
    Ok(ExitCode::SUCCESS)
}

/// Waits, but not beyond the moment in which whoever started us closes our standard input.
fn wait(told: &mut Option<Stdin>, pause: Duration) {
    let Some(input) = told else {
        return std::thread::sleep(pause);
    };
    let timeout = PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX);
    let closed = poll(&mut [PollFd::new(input.as_fd(), PollFlags::POLLIN)], timeout);
    if closed.is_ok_and(|ready| ready > 0) {
        *told = None;
    }
}
