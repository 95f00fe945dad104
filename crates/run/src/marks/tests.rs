use super::*;
use lowtide_model::MarkKind;
use lowtide_wire::page::{HEADER_BYTES, MAGIC, PAGE_BYTES, SLOTS, slot_at};
use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};

const STARTED: u64 = 1_000_000_000_000;

/// A folder and one process with a page in it, as an agent leaves them.
struct Stage {
    folder: tempfile::TempDir,
    key: ProcKey,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        Self { folder, key: ProcKey { pid: 4711, start_ticks: 99 } }
    }

    fn marks(&self) -> Marks {
        Marks::of(Some(self.folder.path().to_owned()))
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(name_of(self.key))
    }

    fn agent(&self) -> Agent {
        Agent { file: lay_page(self.folder.path(), self.key), head: 0 }
    }
}

/// A page as an agent leaves it at its start.
pub(crate) fn lay_page(folder: &Path, key: ProcKey) -> std::fs::File {
    let mut bytes = vec![0; PAGE_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    let (unknown, pid) = (u64::MAX, u64::from(key.pid));
    let words = [(8, 1), (16, pid), (24, key.start_ticks), (32, unknown), (40, unknown), (48, 1)];
    let words = words.into_iter().chain([(80, f64::NAN.to_bits())]);
    for (offset, value) in words.chain([112, 120, 128].map(|offset| (offset, unknown))) {
        bytes[offset..offset + 8].copy_from_slice(&u64::to_le_bytes(value));
    }
    let temporary = folder.join(format!(".{}.tmp", name_of(key)));
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    std::fs::rename(temporary, folder.join(name_of(key))).unwrap();
    file
}

struct Agent {
    file: std::fs::File,
    head: u64,
}

impl Agent {
    fn put(&self, offset: usize, value: u64) {
        self.file.write_all_at(&value.to_le_bytes(), offset as u64).unwrap();
    }

    fn step(&self, number: u64, seconds: u64) {
        self.put(64, number);
        self.put(72, STARTED + seconds * 1_000_000_000);
    }

    fn mark(&mut self, kind: u8, phase: u8, number: f64, extra: &str) {
        let mut slot = vec![0_u8; 256];
        slot[8..16].copy_from_slice(&(STARTED + 5).to_le_bytes());
        (slot[16], slot[17]) = (kind, phase);
        slot[18..20].copy_from_slice(&(extra.len() as u16).to_le_bytes());
        slot[20..24].copy_from_slice(&(-1_i32).to_le_bytes());
        slot[24..32].copy_from_slice(&number.to_le_bytes());
        slot[32..32 + extra.len()].copy_from_slice(extra.as_bytes());
        slot[..8].copy_from_slice(&(self.head + 1).to_le_bytes());
        self.file.write_all_at(&slot, slot_at(self.head) as u64).unwrap();
        self.head += 1;
        self.put(512, self.head);
    }
}

fn at(seconds: u64) -> Moment {
    Moment { now: Tick(seconds * 1_000_000_000), started_boot_ns: STARTED }
}

fn look(marks: &mut Marks, seconds: u64) -> Vec<Entry> {
    let mut out = Vec::new();
    marks.hear(at(seconds).now);
    marks.read(at(seconds), |key| key.pid == 4711, &mut out);
    out
}

fn said(entries: &[Entry]) -> Vec<(MarkKind, f64, Option<&str>)> {
    let mut found = Vec::new();
    for entry in entries {
        if let Entry::Mark(mark) = entry {
            found.push((mark.kind, mark.number, mark.extra.as_deref()));
        }
    }
    found
}

fn notes(entries: &[Entry]) -> Vec<&str> {
    let mut found = Vec::new();
    for entry in entries {
        if let Entry::Event(event) = entry {
            found.push(event.text.as_str());
        }
    }
    found
}

#[test]
fn a_page_that_comes_is_read_and_the_counter_is_one_mark_a_tick() {
    let stage = Stage::new();
    let mut marks = stage.marks();
    assert!(look(&mut marks, 1).is_empty());
    let mut agent = stage.agent();
    agent.mark(6, 3, 0.0, "{\"examples\":663}");
    agent.step(7, 2);
    let found = look(&mut marks, 3);
    assert_eq!(
        said(&found),
        [(MarkKind::Info, 0.0, Some("{\"examples\":663}")), (MarkKind::Step, 7.0, None)]
    );
    assert!(matches!(&found[1], Entry::Mark(mark) if mark.tick == Tick(2_000_000_000)));
    assert!(look(&mut marks, 4).is_empty(), "nothing moved");
    agent.step(9, 900);
    let found = look(&mut marks, 5);
    assert!(matches!(&found[..], [Entry::Mark(mark)] if mark.tick == at(5).now), "never after now");
    assert_eq!(marks.progress().unwrap().step, Some(9.0));
}

#[test]
fn a_page_found_when_recording_begins_gives_what_it_still_holds() {
    let stage = Stage::new();
    let mut agent = stage.agent();
    for number in 0..300 {
        agent.mark(7, 3, f64::from(number), "{}");
    }
    agent.step(500, 0);
    let found = look(&mut stage.marks(), 1);
    let records: Vec<f64> =
        said(&found).iter().filter(|mark| mark.0 == MarkKind::Custom).map(|mark| mark.1).collect();
    assert_eq!(records, (48..300).map(f64::from).collect::<Vec<_>>());
    assert_eq!(notes(&found), ["48 marks of process 4711 were overwritten before they were read"]);
    assert!(said(&found).contains(&(MarkKind::Step, 500.0, None)));
}

#[test]
fn what_was_written_just_before_the_end_is_not_lost_even_of_a_page_nobody_saw() {
    let stage = Stage::new();
    let mut marks = stage.marks();
    let mut agent = stage.agent();
    agent.mark(4, 2, 12.0, "");
    agent.step(12, 1);
    agent.put(112, 1 << 30);
    let mut out = Vec::new();
    marks.ended(stage.key, at(2), &mut out);
    let kinds: Vec<MarkKind> = said(&out).iter().map(|mark| mark.0).collect();
    assert_eq!(kinds, [MarkKind::Save, MarkKind::Step, MarkKind::Info, MarkKind::Info]);
    assert!(!stage.path().exists(), "it is read and needed no more");
    assert_eq!(marks.progress().unwrap().step, Some(12.0), "and what it said last stays");
    out.clear();
    marks.ended(stage.key, at(3), &mut out);
    assert!(out.is_empty());
}

#[test]
fn gpu_and_tensor_counters_are_told_once_a_second_and_only_when_they_moved() {
    let stage = Stage::new();
    let mut marks = stage.marks();
    let agent = stage.agent();
    agent.put(112, 1000);
    agent.put(128, 3);
    let found = look(&mut marks, 1);
    let facts: Vec<_> = said(&found).iter().filter_map(|mark| mark.2).map(str::to_owned).collect();
    assert_eq!(
        facts,
        [
            "{\"gpu_allocated_bytes\":1000,\"gpu_reserved_bytes\":null}",
            "{\"tensor_cpu_bytes\":0,\"tensor_device_bytes\":0,\"tensors\":3}",
        ]
    );
    agent.put(112, 2000);
    assert!(look(&mut marks, 1).is_empty(), "within the second");
    assert_eq!(said(&look(&mut marks, 2)).len(), 1);
    agent.put(112, 2001);
    assert!(look(&mut marks, 9).is_empty(), "a crumb");
    let mut out = Vec::new();
    marks.ended(stage.key, at(10), &mut out);
    assert_eq!(said(&out).len(), 1, "but the last word is exact");
}

#[test]
fn a_page_of_a_process_outside_the_job_waits_and_is_then_refused() {
    let stage = Stage::new();
    let mut marks = stage.marks();
    stage.agent();
    let mut out = Vec::new();
    marks.read(at(1), |_| false, &mut out);
    marks.read(at(2), |_| false, &mut out);
    assert!(out.is_empty());
    marks.read(at(5), |_| false, &mut out);
    assert_eq!(notes(&out), ["a mark page says it is of process 4711, which is not of this job"]);
    assert_eq!(marks.agents(), 0);
}

#[test]
fn files_that_are_no_page_are_refused_by_their_fault() {
    type Spoil = fn(&Stage, Agent);
    let cases: [(&str, Spoil); 6] = [
        ("others may write or read it", |stage, _| {
            std::fs::set_permissions(stage.path(), Permissions::from_mode(0o666)).unwrap();
        }),
        ("it has the wrong size", |_, agent| agent.file.set_len(100).unwrap()),
        ("it says it is another's", |_, agent| agent.put(16, 1)),
        ("the page does not begin as one", |_, agent| agent.put(0, 0)),
        ("the page has layout 7, which this version does not know", |_, agent| agent.put(8, 7)),
        ("it is a link", |stage, _| {
            let aside = stage.folder.path().join("aside");
            std::fs::rename(stage.path(), &aside).unwrap();
            std::os::unix::fs::symlink(aside, stage.path()).unwrap();
        }),
    ];
    for (fault, spoil) in cases {
        let stage = Stage::new();
        spoil(&stage, stage.agent());
        let found = look(&mut stage.marks(), 1);
        assert_eq!(notes(&found), [format!("the mark page of process 4711 is not read: {fault}")]);
    }
}

#[test]
fn a_pipe_of_that_name_does_not_hold_us_up() {
    let stage = Stage::new();
    nix::unistd::mkfifo(&stage.path(), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    let found = look(&mut stage.marks(), 1);
    assert_eq!(notes(&found), ["the mark page of process 4711 is not read: it is no plain file"]);
}

#[test]
fn a_page_of_another_user_is_refused() {
    let stage = Stage::new();
    stage.agent();
    if nix::unistd::chown(&stage.path(), Some(nix::unistd::Uid::from_raw(12_345)), None).is_err() {
        // Only root can give a file away; then nobody else can put one here either.
        return;
    }
    let found = look(&mut stage.marks(), 1);
    assert_eq!(notes(&found), ["the mark page of process 4711 is not read: it belongs to another user"]);
}

#[test]
fn a_page_cut_while_it_is_read_is_let_go_once() {
    let stage = Stage::new();
    let mut marks = stage.marks();
    let agent = stage.agent();
    agent.step(3, 1);
    assert_eq!(said(&look(&mut marks, 1)).len(), 1);
    agent.file.set_len(HEADER_BYTES as u64 - 1).unwrap();
    assert_eq!(
        notes(&look(&mut marks, 2)),
        ["the mark page of process 4711 is not read: the page is cut short"]
    );
    assert!(look(&mut marks, 3).is_empty());
    assert_eq!(marks.progress().unwrap().step, Some(3.0));
}

#[test]
fn a_head_that_never_ends_costs_one_ring_a_tick_and_one_word() {
    let stage = Stage::new();
    let mut marks = stage.marks();
    let agent = stage.agent();
    let mut words = 0;
    for (tick, head) in [u64::MAX, 5, u64::MAX - 3, 0, SLOTS * 1000].into_iter().enumerate() {
        agent.put(512, head);
        let found = look(&mut marks, tick as u64 + 1);
        assert!(said(&found).is_empty());
        words += notes(&found).len();
    }
    assert_eq!(words, 1);
}

#[test]
fn a_folder_that_others_can_reach_is_no_folder() {
    let stage = Stage::new();
    stage.agent();
    std::fs::set_permissions(stage.folder.path(), Permissions::from_mode(0o755)).unwrap();
    let mut marks = stage.marks();
    assert!(look(&mut marks, 1).is_empty());
    assert_eq!(marks.agents(), 0);
}

#[test]
fn without_inotify_the_folder_is_listed() {
    let stage = Stage::new();
    let mut marks = Marks { notices: None, ..stage.marks() };
    assert!(look(&mut marks, 1).is_empty());
    stage.agent().step(1, 1);
    assert!(look(&mut marks, 2).is_empty(), "not at every tick");
    assert_eq!(said(&look(&mut marks, 3)), [(MarkKind::Step, 1.0, None)]);
}

#[test]
fn a_new_page_of_the_same_process_is_an_exec_and_the_old_one_is_read_to_its_end() {
    let stage = Stage::new();
    let mut marks = stage.marks();
    let old = stage.agent();
    old.step(3, 1);
    look(&mut marks, 1);
    old.step(4, 2);
    stage.agent().step(1, 3);
    let found = look(&mut marks, 3);
    let steps: Vec<f64> =
        said(&found).iter().filter(|mark| mark.0 == MarkKind::Step).map(|mark| mark.1).collect();
    assert_eq!(steps, [4.0, 1.0]);
}

#[test]
fn a_mark_from_a_shell_takes_the_newest_step_for_its_number() {
    let mut marks = Marks::default();
    marks.said(Said::from_words("step 12").unwrap(), Tick(1)).unwrap();
    let eval = marks.said(Said::from_words("eval start").unwrap(), Tick(2)).unwrap();
    assert_eq!((eval.number, eval.phase), (12.0, MarkPhase::Start));
    assert_eq!(marks.progress().unwrap().phase, lowtide_wire::Phase::Eval);
    marks.said(Said::from_words("eval end").unwrap(), Tick(3)).unwrap();
    assert_eq!(marks.progress().unwrap().phase, lowtide_wire::Phase::Training);
}

#[test]
fn names_that_are_no_key_are_passed_over() {
    for name in [".4711.99.tmp", "4711", "4711.", "+1.2", "01.2", "1.2.3", "99999999999.1", ""] {
        assert_eq!(key_of(name), None, "{name}");
    }
    assert_eq!(key_of("4711.99"), Some(ProcKey { pid: 4711, start_ticks: 99 }));
}
