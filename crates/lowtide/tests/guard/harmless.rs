//! No false stop, with real processes: jobs that fit, drawn from numbers, each under a guard of its own with a limit.

#[path = "drawn.rs"]
mod drawn;

use crate::support::{Stage, read};
use crate::{noted, said};
use drawn::{Variant, drawn};
use serde_json::{Value, json};
use std::ops::Range;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const VARIANTS: Range<u64> = 0..200;
/// Most of them sleep most of the time.
const AT_ONCE: usize = 12;
const MIB: f64 = 1_048_576.0;

/// As the actor takes it.
fn plan(variant: &Variant, seed: u64, folder: &std::path::Path) -> Value {
    let limit = variant.limit_mib as f64 * MIB;
    let bytes = |part: f64| (part * limit).max(0.0) as u64;
    let steps: Vec<(u64, f64)> =
        variant.steps(seed).into_iter().map(|(level, seconds)| (bytes(level), 1000.0 * seconds)).collect();
    let beside = |of: Option<(usize, f64, f64)>| {
        of.map(|(every, takes, seconds)| json!({"every": every, "takes": bytes(takes), "ms": seconds * 1e3}))
    };
    json!({"begins": bytes(variant.levels[0]), "steps": steps, "swing": bytes(variant.swing),
        "keeps": variant.keeps, "eval": beside(variant.eval), "save": beside(variant.save), "folder": folder,
        "threads": 1})
}

/// What is wrong with how it went, if anything is.
fn wrong(seed: u64) -> Option<String> {
    let variant = drawn(seed);
    let stage = Stage::new();
    let (file, limit) = (stage.path("run.tide"), format!("{}MiB", variant.limit_mib));
    let plan = plan(&variant, seed, stage.folder.path()).to_string();
    let mut command = stage.command(&["run", "--guard", "--limit", &limit, "--out", file.to_str().unwrap()]);
    command.arg("--").arg(crate::support::actor()).args(["job", &plan]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (words, told) = (said(&output), String::from_utf8_lossy(&output.stdout).into_owned());
    let noted = noted(&read(&file));
    let finished = told.starts_with(&format!("finished {} ", variant.levels.len() - 1));
    let left_alone = noted.is_empty() && !words.contains("will not fit");
    (output.status.code() != Some(0) || !finished || !left_alone).then(|| {
        let Variant { shape, step_seconds, swing, noise, keeps, save, .. } = &variant;
        let highest = variant.levels.iter().copied().fold(0.0, f64::max);
        format!(
            "{shape} {seed} of {limit}, steps of {step_seconds:.3} s up to {highest:.3}, swing {swing:.3}, noise \
             {noise:.4}, keeps {keeps}, saves {save:?}: {:?}, {told}, {noted:?}\n{words}",
            output.status
        )
    })
}

#[test]
fn two_hundred_real_jobs_that_fit_are_never_asked() {
    let (next, failures) = (AtomicU64::new(VARIANTS.start), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !VARIANTS.contains(&seed) {
                        break;
                    }
                    let found = wrong(seed);
                    failures.lock().unwrap().extend(found);
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    let told = format!("{} of {VARIANTS:?}:\n{}", failures.len(), failures.join("\n"));
    println!("{told}");
    assert!(failures.is_empty(), "{told}");
}
