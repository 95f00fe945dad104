//! Checkpoints in real folders: whole ones, and every way a save can be cut short.

use super::*;
use lowtide_model::{Mark, MarkKind, MarkPhase, Tick};
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

/// A folder of a run.
struct Run(TempDir);

impl Run {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// A checkpoint of a Trainer, `age` seconds old.
    fn trainer(&self, step: u64, age: u64) {
        let name = |file: &str| format!("checkpoint-{step}/{file}");
        self.put(&name("model.safetensors"), made::safetensors(&[("line.weight", 32)]));
        for file in ["optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"] {
            self.put(&name(file), made::torch(b"\x80\x02}."));
        }
        self.put(&name("config.json"), "{\"model_type\": \"tiny\"}");
        self.put(
            &name("trainer_state.json"),
            format!("{{\"global_step\": {step}, \"log_history\": [{{\"loss\": NaN}}]}}"),
        );
        self.age(&format!("checkpoint-{step}"), age);
    }

    fn age(&self, name: &str, seconds: u64) {
        let when = SystemTime::now() - Duration::from_secs(seconds);
        let path = self.path(name);
        let files = if path.is_dir() { entries(&path).collect() } else { vec![path] };
        for file in files {
            fs::File::options().write(true).open(file).unwrap().set_modified(when).unwrap();
        }
    }

    fn find(&self) -> Vec<Checkpoint> {
        let mut places = Places::default();
        places.name(self.0.path());
        find(&places)
    }

    fn newest(&self) -> Checkpoint {
        self.find().into_iter().next().unwrap()
    }
}

fn why(checkpoint: &Checkpoint) -> (&'static str, &str) {
    match &checkpoint.state {
        State::Complete => ("complete", ""),
        State::Unfinished { why } => ("unfinished", why),
        State::Broken { why } => ("broken", why),
    }
}

#[test]
fn the_newest_complete_checkpoint_is_taken_and_nothing_is_touched() {
    let run = Run::new();
    run.trainer(10, 300);
    run.trainer(20, 200);
    // A leftover of an older experiment: a higher number, but not newer.
    run.trainer(500, 9000);
    let found = run.find();
    assert_eq!(found.iter().map(|one| one.step).collect::<Vec<_>>(), [Some(20), Some(10), Some(500)]);
    assert!(found.iter().all(|one| one.is_complete() && one.kind == Kind::Trainer && one.bytes.0 > 500));
    fs::write(run.path("checkpoint-20/checkpoint-is-incomplete.txt"), "at step 20").unwrap();
    let found = run.find();
    assert_eq!(why(&found[0]).0, "unfinished");
    let (taken, newer) = newest_complete(&found).unwrap();
    assert_eq!((taken.step, newer), (Some(10), 1));
}

#[test]
fn every_part_of_a_trainers_checkpoint_that_is_missing_or_cut_is_named() {
    let damage: [Damage; 9] = [
        ("trainer_state.json", remove, "unfinished", "trainer_state.json, which is written last, is missing"),
        ("trainer_state.json", halve, "unfinished", "trainer_state.json ends before its last bracket"),
        ("model.safetensors", remove, "unfinished", "holds no weights"),
        ("model.safetensors", halve, "unfinished", "model.safetensors ends inside its header"),
        (
            "optimizer.pt",
            halve,
            "unfinished",
            "optimizer.pt has no end record: it is being written, or its writer was stopped",
        ),
        ("optimizer.pt", zero, "broken", "optimizer.pt begins with nothing but zeros"),
        (
            "optimizer.pt",
            remove,
            "broken",
            "holds no state of the optimizer (save_only_model): training can't go on from it as it was",
        ),
        ("scheduler.pt", remove, "unfinished", "scheduler.pt, though optimizer.pt is there, is missing"),
        ("rng_state.pth", empty, "unfinished", "rng_state.pth is empty"),
    ];
    for (name, harm, state, wanted) in damage {
        let run = Run::new();
        run.trainer(4, 1);
        harm(&run.path("checkpoint-4").join(name));
        assert_eq!(why(&run.newest()), (state, wanted), "{name}");
    }
}

/// A file, what happens to it, and what is then said.
type Damage = (&'static str, fn(&Path), &'static str, &'static str);

fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}

fn halve(path: &Path) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
}

fn zero(path: &Path) {
    fs::write(path, [0; 300]).unwrap();
}

fn empty(path: &Path) {
    fs::write(path, []).unwrap();
}

#[test]
fn shards_that_the_index_names_must_all_be_there() {
    let run = Run::new();
    run.trainer(4, 1);
    remove(&run.path("checkpoint-4/model.safetensors"));
    let index = r#"{"metadata": {"total_size": 64}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}"#;
    run.put("checkpoint-4/model.safetensors.index.json", index);
    run.put("checkpoint-4/model-1.safetensors", made::safetensors(&[("a", 32)]));
    let missing = "model-2.safetensors, which model.safetensors.index.json names, is missing";
    assert_eq!(why(&run.newest()), ("unfinished", missing));
    run.put("checkpoint-4/model-2.safetensors", made::safetensors(&[("b", 32)]));
    assert!(run.newest().is_complete());
}

#[test]
fn every_rank_has_its_random_state() {
    let run = Run::new();
    run.trainer(4, 1);
    for rank in [0, 1, 3] {
        run.put(&format!("checkpoint-4/rng_state_{rank}.pth"), made::torch(b"\x80\x02}."));
    }
    assert_eq!(why(&run.newest()).1, "rng_state_2.pth, which a rank has yet to write, is missing");
}

#[test]
fn lightning_torch_and_keras_files_are_known_by_what_is_in_them() {
    let run = Run::new();
    let mut pickle = made::pickle("global_step", 40);
    pickle.extend(b"X\x19\x00\x00\x00pytorch-lightning_version");
    run.put("lightning_logs/version_3/checkpoints/epoch=1-step=40.ckpt", made::torch(&pickle));
    assert_eq!((run.newest().kind, run.newest().step), (Kind::Lightning, Some(40)));
    run.put("model.keras", made::zip(&[("config.json", b"{}"), ("model.weights.h5", b"\x89HDF")]));
    run.put("ckpt_000100.pt", made::torch(b"\x80\x02}."));
    run.put("data.csv", "1,2");
    let found = run.find();
    let named = |kind| found.iter().find(|one| one.kind == kind).unwrap();
    assert_eq!((named(Kind::Keras).step, named(Kind::Torch).step), (None, Some(100)));
    assert!(found.len() == 3 && found.iter().all(Checkpoint::is_complete));
    halve(&run.path("ckpt_000100.pt"));
    assert_eq!(why(&run.newest()).0, "unfinished");
}

#[test]
fn deepspeed_says_by_latest_that_all_ranks_have_written() {
    let run = Run::new();
    for step in [5, 10] {
        run.put(&format!("out/global_step{step}/mp_rank_00_model_states.pt"), made::torch(b"\x80\x02}."));
        run.put(
            &format!("out/global_step{step}/zero_pp_rank_0_mp_rank_00_optim_states.pt"),
            made::torch(b"\x80\x02}."),
        );
        run.age(&format!("out/global_step{step}"), 20 - step);
    }
    run.put("out/latest", "global_step5");
    let found = run.find();
    assert_eq!((found[0].step, why(&found[0]).0), (Some(10), "unfinished"));
    assert_eq!((found[1].step, found[1].kind), (Some(5), Kind::DeepSpeed));
    assert!(found[1].is_complete());
    run.put("out/latest", "global_step10\n");
    assert!(run.find().iter().all(Checkpoint::is_complete));
}

#[test]
fn states_of_accelerate_backups_of_keras_and_distributed_ones_end_with_their_last_file() {
    let run = Run::new();
    run.put("state/model.safetensors", made::safetensors(&[("a", 8)]));
    run.put("state/optimizer.bin", made::torch(b"\x80\x02}."));
    assert_eq!(why(&run.newest()).1, "random_states_0.pkl, which is written last, is missing");
    run.put("state/random_states_0.pkl", made::torch(&made::pickle("step", 9)));
    assert_eq!((run.newest().kind, run.newest().is_complete()), (Kind::Accelerate, true));

    let run = Run::new();
    run.put("backup/latest.weights.h5", made::hdf5(400));
    assert_eq!(why(&run.newest()).0, "unfinished");
    run.put("backup/training_metadata.json", r#"{"epoch": 2, "batch": 0}"#);
    assert_eq!((run.newest().kind, run.newest().is_complete()), (Kind::KerasBackup, true));
    run.put("backup/latest.weights.h5", &made::hdf5(400)[..399]);
    assert_eq!(why(&run.newest()), ("unfinished", "latest.weights.h5 holds 399 of 400 bytes"));

    let run = Run::new();
    run.put("step-30/__0_0.distcp", "tensors");
    assert_eq!(why(&run.newest()).1, ".metadata, which is written last, is missing");
    run.put("step-30/.metadata", "\u{2}.");
    assert_eq!((run.newest().kind, run.newest().step), (Kind::Distributed, Some(30)));
}

#[test]
fn what_moved_between_two_looks_is_still_being_written() {
    let run = Run::new();
    run.trainer(10, 60);
    run.trainer(20, 2);
    let first = run.find();
    assert!(settled(&first, run.find()).iter().all(Checkpoint::is_complete));
    run.age("checkpoint-20", 1);
    run.trainer(30, 0);
    let second = settled(&first, run.find());
    let states: Vec<_> = second.iter().map(|one| (one.step, one.is_complete())).collect();
    assert_eq!(states, [(Some(30), false), (Some(20), false), (Some(10), true)]);
}

#[test]
fn a_loops_own_files_are_found_by_the_shape_of_their_names() {
    let run = Run::new();
    run.put("state-90.json", r#"{"step": 90}"#);
    run.put("state-100.json", r#"{"step": 100}"#);
    run.put("data.json", "{}");
    run.age("state-90.json", 10);
    run.age("data.json", 1);
    run.age("state-100.json", 5);
    let mut places = Places::default();
    let folder = run.0.path().to_str().unwrap();
    let (head, tail) = folder.split_at(4);
    places.hear(&mark(MarkKind::Info, &format!(r#"{{"save_dir":"{head}"}}"#)));
    places.hear(&mark(MarkKind::Info, &format!(r#"{{"save_dir_more":"{tail}"}}"#)));
    places.hear(&mark(MarkKind::Save, r#"{"path":"data.json","failed":"OSError"}"#));
    places.hear(&mark(MarkKind::Save, r#"{"path":"state-100.json","save_bytes":13}"#));
    let found = find(&places);
    assert_eq!(found.iter().map(|one| one.step).collect::<Vec<_>>(), [Some(100), Some(90)]);
    assert!(found.iter().all(|one| one.kind == Kind::Plain && one.is_complete()));
    fs::write(run.path("state-100.json"), r#"{"step": 1"#).unwrap();
    let found = find(&places);
    assert_eq!(newest_complete(&found).unwrap().0.step, Some(90));
}

#[test]
fn folders_that_the_job_tells_are_searched_and_nonsense_is_not() {
    let run = Run::new();
    run.trainer(4, 1);
    let mut places = Places::default();
    let folder = run.0.path().to_str().unwrap();
    for text in ["", "[]", "{", r#"{"checkpoint_dir": 4}"#, r#"{"checkpoint_dir": "relative"}"#] {
        places.hear(&mark(MarkKind::Info, text));
    }
    assert!(places.is_empty() && find(&places).is_empty());
    let (head, tail) = folder.split_at(folder.len() - 3);
    places.hear(&mark(MarkKind::Info, &format!(r#"{{"checkpoint_dir":"{head}"}}"#)));
    places.hear(&mark(MarkKind::Info, &format!(r#"{{"checkpoint_dir_more":"{tail}"}}"#)));
    assert_eq!(places.told().collect::<Vec<_>>(), [run.0.path()]);
    assert_eq!(find(&places).len(), 1);
}

fn mark(kind: MarkKind, extra: &str) -> Mark {
    let extra = Some(extra.to_owned());
    Mark { tick: Tick(1), process: None, kind, phase: MarkPhase::End, number: 0.0, rank: None, extra }
}

#[test]
fn links_pipes_and_loops_hold_nobody_up() {
    let run = Run::new();
    run.put("step=3.ckpt", made::torch(b"\x80\x02}."));
    std::os::unix::fs::symlink("step=3.ckpt", run.path("last.ckpt")).unwrap();
    std::os::unix::fs::symlink(".", run.path("again")).unwrap();
    std::os::unix::fs::symlink("gone.ckpt", run.path("dead.ckpt")).unwrap();
    nix::unistd::mkfifo(&run.path("pipe.pt"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    nix::unistd::mkfifo(&run.path("checkpoint-9"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    let found = run.find();
    assert_eq!(found.len(), 1, "one file, however many names: {found:?}");
}
