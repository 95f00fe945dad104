//! `lowtide serve`: the live page over a folder of recordings.

use crate::cli::ServeArgs;
use crate::failure::Failure;
use crate::render;
use lowtide_serve::server::{self, Listen, Options, Ready};
use std::process::ExitCode;

pub(crate) fn serve(args: ServeArgs) -> Result<ExitCode, Failure> {
    let dir = match args.dir {
        Some(dir) => dir,
        None => runs_dir()?,
    };
    let listen = args.socket.map_or(Listen::Address(args.listen), Listen::Socket);
    let options = Options { dir, listen, hosts: args.hosts, token_file: args.token_file };
    let folder = options.dir.display().to_string();
    server::serve(options, |ready| announce(&folder, ready))?;
    Ok(ExitCode::SUCCESS)
}

/// The runs folder, made where there is none yet: the first run will come.
fn runs_dir() -> Result<std::path::PathBuf, Failure> {
    use std::os::unix::fs::DirBuilderExt as _;
    let dir = lowtide_store::runs_dir()?;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    made.map_err(|error| Failure::new(format!("cannot create {}", dir.display())).because(error))?;
    Ok(dir)
}

fn announce(folder: &str, ready: &Ready) {
    let token = ready.token_file.as_ref().map(|file| format!("token in {}\n", file.display()));
    let charts =
        if lowtide_serve::charts_are_built() { "" } else { "built without Node: the charts stand still\n" };
    // Who reads our output may be gone; the page is there all the same.
    let _ =
        render::say(&format!("{}\nrecordings of {folder}\n{}{charts}", ready.url, token.unwrap_or_default()));
}
