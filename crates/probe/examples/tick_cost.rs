//! What a tick costs: CPU per process-sample for 25 processes, and what the other readers take.
//!
//! `cargo run --release -p lowtide-probe --example tick_cost`
#![allow(clippy::print_stdout, reason = "a measurement for people to read")]

use lowtide_probe::cgroup::Cgroups;
use lowtide_probe::events::{Feed, Source};
use lowtide_probe::host::Host;
use lowtide_probe::tree::Tree;
use lowtide_probe::{ProcessReader, Root, clock};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command};

const PROCESSES: u32 = 25;
const TICKS: u32 = 4000;
const FOREIGN: u32 = 2000;

fn main() -> std::io::Result<()> {
    let root = Root::live();
    let mut children = spawn(PROCESSES)?;
    let mut readers: Vec<ProcessReader> =
        children.iter().filter_map(|child| ProcessReader::open(&root, child.id()).known()).collect();
    let samples = f64::from(TICKS * PROCESSES);
    let each = |name: &str, per: f64, cpu: u64| println!("{name:<44} {:8.2} us", cpu as f64 / per / 1000.0);
    each("quick, per process-sample", samples, cost(|| over(&mut readers, |reader| eat(reader.quick()))));
    each("stat, per process-sample", samples, cost(|| over(&mut readers, |reader| eat(reader.stat()))));
    each("status, per process-sample", samples, cost(|| over(&mut readers, |reader| eat(reader.status()))));
    let both = |reader: &mut ProcessReader| eat((reader.quick(), reader.stat()));
    each("quick + stat, per process-sample", samples, cost(|| over(&mut readers, both)));
    let all = |reader: &mut ProcessReader| {
        eat((reader.quick(), reader.stat(), reader.status()));
    };
    each("quick + stat + status, per process-sample", samples, cost(|| over(&mut readers, all)));
    each("quick + stat + status, per tick of 25", f64::from(TICKS), cost(|| over(&mut readers, all)));
    for name in ["statm", "stat", "status"] {
        let files: Vec<File> = children
            .iter()
            .filter_map(|child| File::open(root.process(child.id()).join(name)).ok())
            .collect();
        let mut buffer = [0; 4096];
        let spent = cost(|| files.iter().for_each(|file| eat(file.read_at(&mut buffer, 0).ok())));
        each(&format!("the kernel's part of {name}"), samples, spent);
    }
    let mut host = Host::open(&root);
    each("host, per tick", f64::from(TICKS), cost(|| eat(host.read())));
    if let Some(mut cgroups) = Cgroups::open(&root, std::process::id()).known() {
        each("cgroup, per tick", f64::from(TICKS), cost(|| eat(cgroups.read())));
        each("tight limit of all levels, per tick", f64::from(TICKS), cost(|| eat(cgroups.tight_limit())));
    }
    children.extend(spawn(FOREIGN)?);
    for source in [Source::Connector, Source::Perf, Source::Listing] {
        let Some(mut feed) = Feed::open_as(&root, source).known() else { continue };
        let mut tree = Tree::attached(&root, children.first().map_or(1, Child::id));
        tree.update(&mut feed, clock::boot_ns());
        let name = format!("update by {source:?} among {FOREIGN} strangers");
        each(&name, f64::from(TICKS), cost(|| drop(tree.update(&mut feed, clock::boot_ns()))));
        let mut forks = 0;
        let busy = cost_of(200, || {
            forks += 1;
            let child = Command::new("/bin/true").spawn();
            let before = clock::own_cpu_ns();
            drop(tree.update(&mut feed, clock::boot_ns()));
            let spent = clock::own_cpu_ns() - before;
            drop(child.and_then(|mut child| child.wait()));
            spent
        });
        each(&format!("update by {source:?} after a stranger's fork"), f64::from(forks), busy);
    }
    for mut child in children {
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}

/// Keeps the compiler from leaving the work out.
fn eat<T>(value: T) {
    let _ = std::hint::black_box(value);
}

fn spawn(count: u32) -> std::io::Result<Vec<Child>> {
    (0..count).map(|_| Command::new("sleep").arg("1000").spawn()).collect()
}

fn over(readers: &mut [ProcessReader], mut read: impl FnMut(&mut ProcessReader)) {
    for reader in readers {
        read(reader);
    }
}

fn cost(mut tick: impl FnMut()) -> u64 {
    let begun = clock::own_cpu_ns();
    for _ in 0..TICKS {
        tick();
    }
    clock::own_cpu_ns() - begun
}

fn cost_of(times: u32, mut spent: impl FnMut() -> u64) -> u64 {
    (0..times).map(|_| spent()).sum()
}
