//! Gathers the Python agent's files, so that the one binary carries them: every `.py` under python/lowtide/_agent.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    let agent = Path::new("../../python/lowtide/_agent");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", agent.display());
    let mut files = Vec::new();
    gather(agent, &mut files)?;
    files.sort();
    let mut list = String::from("&[");
    for file in &files {
        let name = file.strip_prefix(agent).unwrap_or(file).display().to_string();
        let _ = write!(
            list,
            "({name:?}, include_str!({:?})),",
            std::fs::canonicalize(file)?.display().to_string()
        );
    }
    list.push(']');
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    std::fs::write(out.join("agent_files.rs"), list)
}

fn gather(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("__pycache__") {
            gather(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "py") {
            println!("cargo::rerun-if-changed={}", path.display());
            files.push(path);
        }
    }
    Ok(())
}
