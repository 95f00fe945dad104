use super::pages::{Pages, Way};
use super::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

/// 64 MiB of a pattern, 2 GiB never touched, 64 MiB of which every second page was, a page of zeroes that was only read, a
/// range that userfaultfd owns (where the kernel lets us) and the rings of an `io_uring`: everything that a careless reader
/// would change or hang on.
const TARGET: &str = r#"
import ctypes, fcntl, mmap, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
at = lambda m: ctypes.addressof(ctypes.c_char.from_buffer(m))
pattern = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE)
for i in range(0, 64 << 20, 4096):
    pattern[i:i + 8] = struct.pack("Q", i)
hole = mmap.mmap(-1, 2 << 30, flags=mmap.MAP_PRIVATE)
sparse = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE)
sparse.madvise(mmap.MADV_NOHUGEPAGE)
for i in range(0, 64 << 20, 8192):
    sparse[i] = 1
zero = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE)
zero[0]
asleep = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE)
uffd = libc.syscall(323, 1 | 0o2000000)
owned = 0
if uffd >= 0:
    fcntl.ioctl(uffd, 0xC018AA3F, struct.pack("QQQ", 0xAA, 0, 0))
    fcntl.ioctl(uffd, 0xC020AA00, struct.pack("QQQQ", at(asleep), 1 << 20, 1, 0))
    owned = 1
ring = libc.syscall(425, 4, ctypes.create_string_buffer(120))
rings = mmap.mmap(ring, 4096, flags=mmap.MAP_SHARED) if ring >= 0 else None
print(at(pattern), at(hole), at(zero), at(asleep), owned, flush=True)
for line in sys.stdin:
    if line.startswith("exec"):
        import os
        os.execv("/bin/sleep", ["sleep", "60"])
"#;

struct Target {
    child: Child,
    stdin: ChildStdin,
    pattern: u64,
    hole: u64,
    zero: u64,
    asleep: u64,
}

impl Target {
    fn start() -> Self {
        let mut child = Command::new("python3")
            .args(["-c", TARGET])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let stdin = child.stdin.take().unwrap();
        let [pattern, hole, zero, asleep, _] = numbers[..] else { panic!("the target said {line:?}") };
        let target = Self { child, stdin, pattern, hole, zero, asleep };
        target.wait_until_it_sleeps();
        target
    }

    /// It has more to do after its word to us: only when it waits for ours does it stop moving memory itself.
    fn wait_until_it_sleeps(&self) {
        let until = Instant::now() + Duration::from_secs(30);
        let asleep =
            || crate::stat_of(&Root::live(), self.child.id()).known().is_some_and(|stat| stat.state == 'S');
        while !asleep() {
            assert!(Instant::now() < until, "the target never waits");
            std::thread::yield_now();
        }
    }

    fn memory(&self) -> LiveMemory {
        LiveMemory::open(&Root::live(), self.child.id()).known().unwrap()
    }

    /// The ways this kernel has.
    fn ways(&self) -> Vec<Way> {
        let newest = self.memory().pages.way();
        if newest == Way::Scan { vec![Way::Scan, Way::Entries] } else { vec![newest] }
    }

    fn memory_by(&self, way: Way) -> LiveMemory {
        let mut memory = self.memory();
        let pagemap = File::open(format!("/proc/{}/pagemap", self.child.id())).unwrap();
        memory.pages = Pages::by(pagemap, memory.page, way);
        memory
    }

    /// The lines of `status` that a careless reader would change.
    fn sizes(&self) -> Vec<String> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let kept = ["VmRSS", "RssAnon", "RssFile", "RssShmem", "VmSwap", "VmPTE", "VmHWM", "VmSize"];
        let wanted = |line: &&str| kept.iter().any(|key| line.starts_with(key));
        status.lines().filter(wanted).map(str::to_owned).collect()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every page of every mapping is asked for; gives the bytes that came.
fn read_everything(memory: &LiveMemory) -> u64 {
    let mut buffer = vec![0; 64 << 10];
    let mut sum = 0;
    for region in memory.regions() {
        let mut at = region.start;
        while at < region.end {
            let want = (region.end - at).min(buffer.len() as u64) as usize;
            let count = memory.read(at, &mut buffer[..want]) as u64;
            sum += count;
            at += if count == 0 { memory.page } else { count };
        }
    }
    sum
}

#[test]
fn reading_all_of_a_process_changes_nothing_in_it() {
    let target = Target::start();
    for way in target.ways() {
        let memory = target.memory_by(way);
        let before = target.sizes();
        let sum = read_everything(&memory);
        assert_eq!(target.sizes(), before, "{way:?}");
        assert!(sum > 64 << 20, "{way:?} read {sum}");
        assert_eq!(memory.read_bytes(), sum);
    }
}

#[test]
fn what_was_never_touched_is_not_there() {
    let target = Target::start();
    for way in target.ways() {
        let memory = target.memory_by(way);
        assert_eq!(memory.present(target.hole, target.hole + (2 << 30)), []);
        assert_eq!(memory.present(target.asleep, target.asleep + (1 << 20)), []);
        let mut buffer = [1; 64];
        assert_eq!(memory.read(target.hole + 4096, &mut buffer), 0);
        assert_eq!(memory.read(target.asleep, &mut buffer), 0);
    }
    // Only the newer kernels tell the page of zeroes from one of our own.
    if target.ways().contains(&Way::Scan) {
        assert_eq!(target.memory().present(target.zero, target.zero + (1 << 20)), []);
    }
}

#[test]
fn bytes_come_as_they_are_and_stop_at_a_hole() {
    let target = Target::start();
    for way in target.ways() {
        let memory = target.memory_by(way);
        let length = 64 << 20;
        let seen: u64 =
            memory.present(target.pattern, target.pattern + length).iter().map(|run| run.1 - run.0).sum();
        assert_eq!(seen, length);
        let mut buffer = vec![0; 3 << 20];
        let from = 5 << 20;
        assert_eq!(memory.read(target.pattern + from, &mut buffer), buffer.len());
        for (nth, page) in buffer.chunks(4096).enumerate() {
            assert_eq!(u64::from_le_bytes(page[..8].try_into().unwrap()), from + nth as u64 * 4096);
        }
        // A run that begins and ends inside pages is cut there.
        assert_eq!(
            memory.present(target.pattern + 8, target.pattern + 5000),
            [(target.pattern + 8, target.pattern + 5000)]
        );
    }
}

#[test]
fn many_places_are_read_at_once_up_to_the_first_that_is_not_there() {
    let target = Target::start();
    let pid = target.child.id();
    let memory = || LiveMemory::open(&Root::live(), pid).known().unwrap();
    let places: Vec<u64> = (0..3000).map(|page| target.pattern + page * 4096).collect();
    let mut with_hole = places[..5].to_vec();
    with_hole.extend([target.hole, target.pattern]);
    for memory in [memory(), memory().directly(pid)] {
        let mut bytes = vec![0; places.len() * 8];
        let count = memory.read_each(&places, 8, &mut bytes);
        assert_eq!(count, MOST_PIECES);
        let numbers = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        assert!(numbers.take(count).eq((0..count as u64).map(|page| page * 4096)));
        assert_eq!(memory.read_each(&with_hole, 8, &mut bytes), 5);
        assert_eq!(memory.read_each(&places, 8, &mut bytes[..20]), 2, "no room for more");
        assert_eq!(memory.read_each(&[], 8, &mut bytes) + memory.read_each(&places, 0, &mut bytes), 0);
    }
}

#[test]
fn the_kernels_two_answers_agree_on_what_is_there() {
    let target = Target::start();
    let (scan, entries) = (target.memory(), target.memory_by(Way::Entries));
    let mut most = 0;
    for region in scan.regions().iter().filter(|region| region.start != target.zero && region.inode == 0) {
        let by_scan = scan.present(region.start, region.end);
        let by_entries = entries.present(region.start, region.end);
        assert!(by_scan.is_sorted_by(|run, next| run.1 < next.0), "{region:?}: {by_scan:?}");
        most = most.max(by_scan.len());
        if by_scan != by_entries {
            // Pages of zeroes: the older answer has more, never less.
            let inside = |run: &Run| by_entries.iter().any(|other| other.0 <= run.0 && run.1 <= other.1);
            assert!(by_scan.iter().all(inside), "{region:?}: {by_scan:?} {by_entries:?}");
        }
    }
    assert!(most >= 8192, "more runs than one call gives: {most}");
}

#[test]
fn handed_descriptors_read_the_same_process() {
    let target = Target::start();
    let doors = Doors::open(&Root::live(), target.child.id()).known().unwrap();
    let numbers = doors.numbers();
    std::mem::forget(doors);
    let memory = LiveMemory::through(Doors::handed(numbers).unwrap(), crate::host::page_bytes()).unwrap();
    let mut word = [0; 8];
    assert_eq!(memory.read(target.pattern + 4096, &mut word), 8);
    assert_eq!(u64::from_le_bytes(word), 4096);
    assert!(Doors::handed([900, 901, 902]).is_err());
}

#[test]
fn after_an_exec_nothing_is_read() {
    let mut target = Target::start();
    let memory = target.memory();
    target.stdin.write_all(b"exec\n").unwrap();
    let name = format!("/proc/{}/comm", target.child.id());
    let until = Instant::now() + Duration::from_secs(30);
    while std::fs::read_to_string(&name).unwrap().trim() != "sleep" {
        assert!(Instant::now() < until, "the target never became another program");
        std::thread::yield_now();
    }
    let mut word = [0; 8];
    assert_eq!(memory.read(target.pattern + 4096, &mut word), 0);
    assert_eq!(memory.present(target.pattern, target.pattern + 4096), []);
}

#[test]
fn a_mapping_ends_where_it_ends_now_and_not_where_it_did() {
    let target = Target::start();
    let mut memory = target.memory();
    let region = memory.regions().iter().find(|region| region.may_be_read()).cloned().unwrap();
    let place = memory.regions().iter().position(|known| *known == region).unwrap();
    // As if it had been shorter when it was looked at.
    memory.regions[place].end = region.start + memory.page_bytes();
    assert_eq!(memory.end_now(region.start), Some(region.end));
    assert_eq!(memory.end_now(8), None);
}

#[test]
fn a_process_that_is_not_there_is_gone() {
    assert!(matches!(LiveMemory::open(&Root::live(), u32::MAX), Reading::Gone));
}

/// What `pagemap` says of swapped pages, in a file of ours: not every machine has swap. The kernel's own answer about a page that is not
/// present is the same bit.
#[test]
fn a_page_that_is_swapped_out_is_not_there() {
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    let entries = [PRESENT, SWAPPED | 0x1234, PRESENT, PRESENT | 1 << 55, 0, SWAPPED, PRESENT];
    let mut file = tempfile::tempfile().unwrap();
    let first = 16;
    file.write_all(&vec![0; first * 8]).unwrap();
    entries.iter().for_each(|entry| file.write_all(&entry.to_ne_bytes()).unwrap());
    let pages = Pages::by(file, 4096, Way::Entries);
    let page = |number: usize| (first + number) as u64 * 4096;
    let mut runs = Vec::new();
    pages.present(page(0), page(entries.len()), &mut runs);
    assert_eq!(runs, [(page(0), page(1)), (page(2), page(4)), (page(6), page(7))]);
}
