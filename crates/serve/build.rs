//! Builds the page's script and style with Node, where Node and the packages of web/ are; else the charts stand still.
//!
//! `npm ci` in web/ is the switch: without it nothing of Node is touched, and a source build needs Rust alone.

#![allow(clippy::print_stdout, reason = "cargo reads what a build script prints")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the page is made of.
const FILES: [&str; 3] = ["app.js", "app.css", "app.js.sha256"];

fn main() {
    // Asked at run time: a target folder may have been copied from another checkout.
    let web = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../web");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("web");
    println!("cargo:rustc-check-cfg=cfg(page)");
    let packages = web.join("node_modules/.package-lock.json");
    if packages.exists() {
        for part in ["src", "vite.config.mjs", "package-lock.json", "node_modules/.package-lock.json"] {
            println!("cargo:rerun-if-changed={}", web.join(part).display());
        }
        match build(&web, &out) {
            Ok(()) => println!("cargo:rustc-cfg=page"),
            Err(why) => println!("cargo:warning=the page is built without its charts: {why}"),
        }
    } else {
        // The whole folder: installing the packages has to be noticed.
        println!("cargo:rerun-if-changed={}", web.display());
    }
}

fn build(web: &Path, out: &Path) -> Result<(), String> {
    let vite = web.join("node_modules/vite/bin/vite.js");
    let built = Command::new("node")
        .arg(vite)
        .args(["build", "--logLevel", "error", "--outDir"])
        .arg(out)
        .current_dir(web)
        .output()
        .map_err(|error| format!("cannot start node: {error}"))?;
    if !built.status.success() {
        let told = String::from_utf8_lossy(&built.stderr);
        return Err(told.lines().take(5).collect::<Vec<_>>().join("; "));
    }
    let missing = FILES.into_iter().find(|file| !out.join(file).exists());
    missing.map_or(Ok(()), |file| Err(format!("vite made no {file}")))
}
