//! Calling other programs, loudly.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository's root folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What cargo told us of ourselves is not for what we build: some build scripts would run anew for it.
    for (name, _) in std::env::vars_os() {
        let told = name.to_string_lossy();
        if told.starts_with("CARGO_PKG_") || told.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command.current_dir(root());
    command
}

/// Runs a program and fails with its name when it fails.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    eprintln!("+ {}", words(command));
    let status = command.status().map_err(|error| format!("cannot start {}: {error}", words(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status})", words(command))) }
}

/// Runs a program and gives what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot start {}: {error}", words(command)))?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{}` failed ({}): {told}", words(command), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn words(command: &Command) -> String {
    let program = command.get_program().to_string_lossy().into_owned();
    let rest = command.get_args().map(|word| word.to_string_lossy().into_owned());
    std::iter::once(program).chain(rest).collect::<Vec<_>>().join(" ")
}
