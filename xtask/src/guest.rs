//! `cargo xtask guest`: boots a small virtual machine and tests lowtide on what a container cannot show.
//!
//! cgroup v2 with the memory controller, a user without rights under Yama, a proc connector that a namespace silences,
//! a file system without shared memory: each needs a kernel of one's own. So Debian's kernel is unpacked (never
//! installed), an image is laid from busybox, the real binary and the scripts in `xtask/guest`, and qemu runs it: by
//! KVM where that works, else in software. See docs/decisions/0003-guest-tests.md. Not here: what is tested (the
//! scenarios say it).

use crate::commands::{cargo, output, root, run};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The whole run of the machine.
const PATIENCE: Duration = Duration::from_mins(6);
/// KVM that works is up in two seconds; one that is nested badly never is.
const KVM_PATIENCE: Duration = Duration::from_secs(15);
const MEMORY_MIB: &str = "512";
/// Programs the host needs, with the Debian packages they come in.
const PROGRAMS: [(&str, &str); 6] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("cpio", "cpio"),
    ("sqlite3", "sqlite3"),
    ("systemd", "systemd"),
    ("systemd-run", "systemd"),
];
/// What a user's systemd of newer versions starts everything by; older ones do without.
const SYSTEMD_EXECUTOR: &str = "/usr/lib/systemd/systemd-executor";
/// The package that always depends on the newest kernel. The cloud flavour has no 9p.
const KERNEL: &str = "linux-image-amd64";
/// What the guest needs of the kernel's package: 9p over virtio, and what that stands on.
const MODULES: [&str; 5] = ["net/9p", "fs/9p", "fs/netfs", "fs/fscache", "drivers/virtio"];
/// A real init, so that orphans have the parent they have everywhere.
const INITTAB: &str = "::sysinit:/bin/sh /guest/boot\n";
const HELP: &str = "cargo xtask guest [--binary LOWTIDE] [--only TEXT] [--software] [--deb KERNEL.deb]";

/// Boots the machine, runs the scenarios, prints a table.
pub(crate) fn guest(args: &[String]) -> Result<(), String> {
    let asked = Asked::parse(args)?;
    need_programs()?;
    let house = root().join("target/guest");
    make(&house)?;
    let kernel = Kernel::have(&house, asked.deb.as_deref())?;
    let binary = asked.binary.map_or_else(build_lowtide, Ok)?;
    let scenarios = scenarios(&asked.only)?;
    let image = Image::lay(&house, &kernel, &binary, &scenarios)?;
    let mut told = Told::default();
    if asked.speed == Speed::Best && kvm_is_there() {
        told = image.boot(&kernel, Accelerator::Kvm)?;
    }
    if !told.up {
        told = image.boot(&kernel, Accelerator::Software)?;
    }
    told.blame_silence(&scenarios);
    say(&told.table());
    told.judge()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Speed {
    Best,
    Software,
}

struct Asked {
    binary: Option<PathBuf>,
    deb: Option<PathBuf>,
    only: String,
    speed: Speed,
}

impl Asked {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut asked = Self { binary: None, deb: None, only: String::new(), speed: Speed::Best };
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value: {HELP}"));
            match word.as_str() {
                "--binary" => asked.binary = Some(value()?.into()),
                "--deb" => asked.deb = Some(value()?.into()),
                "--only" => value()?.clone_into(&mut asked.only),
                "--software" => asked.speed = Speed::Software,
                other => return Err(format!("{other} is not known: {HELP}")),
            }
        }
        Ok(asked)
    }
}

/// Installs what is missing; says what, where that is not ours to do.
fn need_programs() -> Result<(), String> {
    let missing = |program: &str| !path_folders().iter().any(|folder| folder.join(program).is_file());
    let packages: Vec<&str> =
        PROGRAMS.iter().filter(|(program, _)| missing(program)).map(|(_, package)| *package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    if output(Command::new("id").arg("-u"))?.trim() != "0" {
        return Err(format!("missing here: install {} (Debian's names)", packages.join(", ")));
    }
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    run(Command::new("apt-get").args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages))
}

fn path_folders() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

fn build_lowtide() -> Result<PathBuf, String> {
    run(cargo().args(["build", "--release", "--locked", "-p", "lowtide"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release/lowtide"))
}

/// The scenario scripts in their order.
fn scenarios(only: &str) -> Result<Vec<PathBuf>, String> {
    let folder = root().join("xtask/guest/scenarios");
    let mut scripts: Vec<PathBuf> =
        entries(&folder)?.into_iter().filter(|path| path.to_string_lossy().ends_with(".sh")).collect();
    scripts.retain(|path| stem(path).contains(only));
    scripts.sort();
    if scripts.is_empty() {
        Err(format!("no scenario in {} has `{only}`", folder.display()))
    } else {
        Ok(scripts)
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Whether trying KVM makes sense at all; whether it works is seen by booting.
fn kvm_is_there() -> bool {
    let opens = std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    opens && flags.split_whitespace().any(|flag| flag == "vmx" || flag == "svm")
}

/// An unpacked kernel.
struct Kernel {
    boot: PathBuf,
    /// `lib/modules/VERSION` as the package has it.
    modules: PathBuf,
}

impl Kernel {
    /// The one unpacked before, or a fresh one.
    fn have(house: &Path, deb: Option<&Path>) -> Result<Self, String> {
        let folder =
            house.join(deb.map_or_else(|| "kernel".to_owned(), |deb| format!("kernel-{}", stem(deb))));
        if let Ok(kernel) = Self::find(&folder) {
            return Ok(kernel);
        }
        let deb = deb.map_or_else(|| download(house), |deb| Ok(deb.to_owned()))?;
        unpack(&deb, &folder)?;
        Self::find(&folder)
    }

    fn find(folder: &Path) -> Result<Self, String> {
        let boot = named(&folder.join("boot"), "vmlinuz-")?;
        let version = boot.to_string_lossy().rsplit_once("vmlinuz-").map(|(_, version)| version.to_owned());
        let version = version.unwrap_or_default();
        let places = ["lib/modules", "usr/lib/modules"].map(|place| folder.join(place).join(&version));
        let modules = places.into_iter().find(|place| place.is_dir());
        let modules = modules.ok_or_else(|| format!("{} has no modules of {version}", folder.display()))?;
        Ok(Self { boot, modules })
    }
}

/// Gets the newest Debian kernel's package.
fn download(house: &Path) -> Result<PathBuf, String> {
    let depends = || output(Command::new("apt-cache").args(["depends", "--no-recommends", KERNEL]));
    let mut told = depends().unwrap_or_default();
    if !told.contains("Depends:") {
        run(Command::new("apt-get").args(["update", "-qq"]))?;
        told = depends()?;
    }
    let package = told.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let package = package.ok_or_else(|| format!("apt knows no kernel behind {KERNEL}"))?;
    let folder = house.join("download");
    make(&folder)?;
    run(Command::new("apt-get").args(["download", "-qq", package]).current_dir(&folder))?;
    named(&folder, package)
}

/// Takes the kernel and the few modules out of a package.
fn unpack(deb: &Path, folder: &Path) -> Result<(), String> {
    let _ = std::fs::remove_dir_all(folder);
    make(folder)?;
    let mut archive = Command::new("dpkg-deb").arg("--fsys-tarfile").arg(deb).stdout(Stdio::piped()).spawn();
    let source = archive.as_mut().ok().and_then(|child| child.stdout.take());
    let (Ok(mut archive), Some(source)) = (archive, source) else {
        return Err("cannot start dpkg-deb: is this a Debian?".to_owned());
    };
    let wanted = MODULES.iter().map(|module| format!("*/kernel/{module}/*"));
    // A pattern without a match fails tar (kernels differ); what counts is found or missed afterwards.
    let _ = Command::new("tar")
        .args(["-x", "--wildcards", "-C"])
        .arg(folder)
        .arg("./boot/vmlinuz-*")
        .args(wanted)
        .stdin(source)
        .stderr(Stdio::null())
        .status();
    let _ = archive.wait();
    run(Command::new("find").arg(folder).args(["-name", "*.ko.xz", "-exec", "busybox", "unxz", "{}", ";"]))
}

/// The first entry of a folder whose name begins so.
fn named(folder: &Path, start: &str) -> Result<PathBuf, String> {
    let begins =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start));
    let mut found: Vec<PathBuf> = entries(folder)?.into_iter().filter(begins).collect();
    found.sort();
    found.pop().ok_or_else(|| format!("nothing in {} begins with {start}", folder.display()))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let cannot = |error: std::io::Error| format!("cannot list {}: {error}", folder.display());
    std::fs::read_dir(folder)
        .map_err(cannot)?
        .map(|entry| entry.map(|entry| entry.path()).map_err(cannot))
        .collect()
}

fn make(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    to.parent().map_or(Ok(()), make)?;
    let cannot =
        |error: std::io::Error| format!("cannot copy {} to {}: {error}", from.display(), to.display());
    std::fs::copy(from, to).map(|_| ()).map_err(cannot)
}

/// What the machine boots into.
struct Image {
    house: PathBuf,
    archive: PathBuf,
}

impl Image {
    /// Gathers everything under `target/guest/root` and packs it.
    fn lay(house: &Path, kernel: &Kernel, binary: &Path, scenarios: &[PathBuf]) -> Result<Self, String> {
        let tree = house.join("root");
        let _ = std::fs::remove_dir_all(&tree);
        let parts = root().join("xtask/guest");
        for name in ["busybox", "sqlite3", "systemd", "systemd-run"] {
            lay_program(&tree, &find_program(name)?, name)?;
        }
        if Path::new(SYSTEMD_EXECUTOR).is_file() {
            lay_program(&tree, Path::new(SYSTEMD_EXECUTOR), "systemd-executor")?;
            copy(Path::new(SYSTEMD_EXECUTOR), &tree.join(SYSTEMD_EXECUTOR.trim_start_matches('/')))?;
        }
        lay_program(&tree, binary, "lowtide")?;
        lay_program(&tree, &build_actor(house)?, "actor")?;
        for name in ["sh", "init"] {
            symlink("busybox", tree.join("bin").join(name))
                .map_err(|error| format!("cannot link {name}: {error}"))?;
        }
        for part in ["boot", "scenario"] {
            copy(&parts.join(part), &tree.join("guest").join(part))?;
        }
        for script in scenarios {
            let name = script.file_name().unwrap_or(OsStr::new("scenario.sh"));
            copy(script, &tree.join("guest/scenarios").join(name))?;
        }
        for folder in ["proc", "sys", "dev", "etc", "lib/modules"] {
            make(&tree.join(folder))?;
        }
        std::fs::write(tree.join("etc/inittab"), INITTAB)
            .map_err(|error| format!("cannot write inittab: {error}"))?;
        run(Command::new("cp").arg("-r").arg(&kernel.modules).arg(tree.join("lib/modules")))?;
        let archive = house.join("initramfs");
        let pack =
            "find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet | gzip -1 >\"$0\"";
        run(Command::new("sh").args(["-c", pack]).arg(&archive).current_dir(&tree))?;
        Ok(Self { house: house.to_owned(), archive })
    }

    fn boot(&self, kernel: &Kernel, accelerator: Accelerator) -> Result<Told, String> {
        let share = self.house.join("share");
        let _ = std::fs::remove_dir_all(&share);
        make(&share)?;
        let console = self.house.join("console.log");
        let begun = Instant::now();
        let mut machine = Command::new("qemu-system-x86_64");
        machine.args(accelerator.words()).args([
            "-m",
            MEMORY_MIB,
            "-smp",
            "2",
            "-nodefaults",
            "-no-user-config",
        ]);
        machine
            .args(["-display", "none", "-no-reboot"])
            .arg("-kernel")
            .arg(&kernel.boot)
            .arg("-initrd")
            .arg(&self.archive);
        machine.args(["-append", "console=ttyS0 loglevel=5 panic=-1 rdinit=/bin/init"]);
        machine.arg("-serial").arg(format!("file:{}", console.display())).args(["-serial", "stdio"]);
        let share = share.display();
        machine.args([
            "-virtfs",
            &format!("local,path={share},mount_tag=share,security_model=none,multidevs=remap"),
        ]);
        machine.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = machine.spawn().map_err(|error| format!("cannot start qemu: {error}"))?;
        let told = listen(child, accelerator, begun);
        let how = if told.up { "done" } else { "did not boot" };
        let (name, seconds) = (accelerator.name(), begun.elapsed().as_secs_f64());
        say(&format!("{name}: {how} after {seconds:.0} s; the kernel's own words: {}", console.display()));
        Ok(told)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Accelerator {
    Kvm,
    Software,
}

impl Accelerator {
    const fn words(self) -> [&'static str; 4] {
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"],
            Self::Software => ["-accel", "tcg,thread=multi", "-cpu", "max"],
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Kvm => "KVM",
            Self::Software => "software emulation",
        }
    }

    const fn boot_patience(self) -> Duration {
        match self {
            Self::Kvm => KVM_PATIENCE,
            Self::Software => PATIENCE,
        }
    }
}

fn find_program(name: &str) -> Result<PathBuf, String> {
    let mut found = path_folders().into_iter().map(|folder| folder.join(name));
    found.find(|path| path.is_file()).ok_or_else(|| format!("{name} is not installed"))
}

/// Puts a program into the image with the libraries that its loader will look for.
fn lay_program(tree: &Path, program: &Path, name: &str) -> Result<(), String> {
    copy(program, &tree.join("bin").join(name))?;
    // A static program has none, which ldd calls an error.
    let told = output(Command::new("ldd").arg(program)).unwrap_or_default();
    for library in told.split_whitespace().filter(|word| word.starts_with('/')) {
        copy(Path::new(library), &tree.join(library.trim_start_matches('/')))?;
    }
    Ok(())
}

fn build_actor(house: &Path) -> Result<PathBuf, String> {
    let actor = house.join("actor");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(compiler);
    command.args(["--edition", "2024", "-O", "-C", "strip=symbols", "-o"]).arg(&actor);
    run(command.arg(root().join("xtask/guest/actor.rs")))?;
    Ok(actor)
}

/// Reads what the machine says until it is off, or has had its time.
fn listen(mut machine: Child, accelerator: Accelerator, begun: Instant) -> Told {
    let mut told = Told::default();
    let lines = lines_of(&mut machine);
    loop {
        let patience = if told.up { PATIENCE } else { accelerator.boot_patience() };
        match lines.recv_timeout(patience.saturating_sub(begun.elapsed())) {
            Ok(line) => {
                say(&line);
                told.take(line.trim_end());
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                told.timed_out = true;
                break;
            }
        }
    }
    // It is off already, or has to be now.
    let _ = machine.kill();
    let _ = machine.wait();
    told
}

fn lines_of(machine: &mut Child) -> Receiver<String> {
    let (sender, receiver) = channel();
    if let Some(stdout) = machine.stdout.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
    }
    receiver
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// One check of one scenario.
#[derive(Debug, PartialEq, Eq)]
struct Check {
    scenario: String,
    sentence: String,
    passed: bool,
}

/// What the machine said.
#[derive(Debug, Default)]
struct Told {
    up: bool,
    done: bool,
    timed_out: bool,
    checks: Vec<Check>,
}

impl Told {
    fn take(&mut self, line: &str) {
        self.up |= line.starts_with("guest: up");
        self.done |= line.starts_with("guest: done");
        let (passed, rest) = match (line.strip_prefix("ok "), line.strip_prefix("not ok ")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return,
        };
        let (scenario, sentence) = rest.split_once(": ").unwrap_or((rest, ""));
        self.checks.push(Check { scenario: scenario.to_owned(), sentence: sentence.to_owned(), passed });
    }

    /// A scenario that said nothing has failed.
    fn blame_silence(&mut self, scenarios: &[PathBuf]) {
        let silent: Vec<String> =
            scenarios.iter().map(|path| stem(path)).filter(|name| self.of(name).count() == 0).collect();
        for scenario in silent {
            self.checks.push(Check { scenario, sentence: "it said nothing".to_owned(), passed: false });
        }
    }

    fn count(&self) -> (usize, usize) {
        let passed = self.checks.iter().filter(|check| check.passed).count();
        (passed, self.checks.len() - passed)
    }

    fn judge(&self) -> Result<(), String> {
        match (self.timed_out, self.done, self.count()) {
            (true, ..) => Err(format!("the guest was not done after {} s", PATIENCE.as_secs())),
            (_, false, _) => {
                Err("the guest ended before it was done; see target/guest/console.log".to_owned())
            }
            (_, _, (0, 0)) => Err("no check ran".to_owned()),
            (_, _, (_, 0)) => Ok(()),
            (_, _, (_, failed)) => Err(format!("{failed} checks failed in the guest")),
        }
    }

    fn of<'a>(&'a self, scenario: &'a str) -> impl Iterator<Item = &'a Check> {
        self.checks.iter().filter(move |check| check.scenario == scenario)
    }

    fn table(&self) -> String {
        let mut table = format!("\n{:<26} {:>6} {:>6}\n", "scenario", "passed", "failed");
        let names: BTreeSet<&str> = self.checks.iter().map(|check| check.scenario.as_str()).collect();
        for name in names {
            let failed: Vec<&Check> = self.of(name).filter(|check| !check.passed).collect();
            let passed = self.of(name).count() - failed.len();
            let _ = writeln!(table, "{name:<26} {passed:>6} {:>6}", failed.len());
            for check in failed {
                let _ = writeln!(table, "    not ok: {}", check.sentence);
            }
        }
        let (passed, failed) = self.count();
        table + &format!("\n{passed} passed, {failed} failed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[&str], scenarios: &[&str]) -> Told {
        let mut told = Told::default();
        for line in lines {
            told.take(line);
        }
        told.blame_silence(&scenarios.iter().map(PathBuf::from).collect::<Vec<_>>());
        told
    }

    #[test]
    fn a_run_with_all_checks_passed_is_good() {
        let told = told(&["guest: up 1", "# words", "ok a: it works", "guest: done 2"], &["a.sh"]);
        assert_eq!(told.judge(), Ok(()));
        assert!(told.table().ends_with("\n1 passed, 0 failed"));
    }

    #[test]
    fn a_failed_check_is_told_with_its_reason() {
        let told = told(&["ok a: it works", "not ok a: that too: because", "guest: done 2"], &["a.sh"]);
        assert!(told.table().contains("not ok: that too: because"));
        assert!(told.judge().is_err());
    }

    #[test]
    fn a_silent_scenario_an_early_end_and_an_empty_run_are_failures() {
        let fine = ["ok a: it works", "guest: done 2"];
        assert!(told(&fine, &["a.sh", "b.sh"]).judge().is_err());
        assert!(told(&fine[..1], &["a.sh"]).judge().is_err());
        assert!(told(&fine[1..], &[]).judge().is_err());
    }

    #[test]
    fn an_unknown_word_is_refused() {
        assert!(Asked::parse(&["--fast".to_owned()]).is_err());
        assert!(Asked::parse(&["--binary".to_owned()]).is_err());
    }
}
