use super::*;
use crate::fake::FakeProc;
use lowtide_model::Pressure;

const V1_NONE: &str = "9223372036854771712\n";

struct Machine {
    _dir: tempfile::TempDir,
    fake: FakeProc,
}

impl Machine {
    fn new(cgroup: &str, mountinfo: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fake = FakeProc::at(dir.path()).unwrap();
        fake.file("proc/7/cgroup", cgroup).unwrap();
        fake.file("proc/self/mountinfo", mountinfo).unwrap();
        std::fs::create_dir_all(dir.path().join("proc/self/ns")).unwrap();
        Self { _dir: dir, fake }
    }

    fn namespace(&self, name: &str) {
        std::os::unix::fs::symlink(name, self.fake.root().proc.join("self/ns/cgroup")).unwrap();
    }

    fn v2(&self, path: &str, current: u64, max: &str) {
        let file =
            |name: &str, text: &str| self.fake.file(&format!("sys/fs/cgroup{path}/{name}"), text).unwrap();
        file("memory.current", &format!("{current}\n"));
        file("memory.max", max);
        file("memory.high", "max\n");
        file("memory.peak", "900000\n");
        file("memory.swap.current", "4096\n");
        file("memory.swap.max", "max\n");
        // As Linux 6.1 writes it, shortened.
        file(
            "memory.stat",
            "anon 500000\nfile 300000\nkernel 90000\nkernel_stack 16384\npagetables 8192\nshmem 20000\ninactive_anon 1\nactive_anon 2\ninactive_file 250000\nactive_file 30000\nslab 5000\n",
        );
        file("memory.events", "low 0\nhigh 3\nmax 12\noom 2\noom_kill 2\noom_group_kill 0\n");
        file("memory.events.local", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\noom_group_kill 0\n");
        file(
            "memory.pressure",
            "some avg10=2.00 avg60=0.00 avg300=0.00 total=5\nfull avg10=1.00 avg60=0.00 avg300=0.00 total=4\n",
        );
        file("cgroup.procs", "7\n8\n");
        file("cgroup.type", "domain\n");
    }

    fn v1(&self, path: &str, usage: u64, limit: &str, lowest: &str) {
        let file = |name: &str, text: &str| {
            self.fake.file(&format!("sys/fs/cgroup/memory{path}/{name}"), text).unwrap();
        };
        file("memory.usage_in_bytes", &format!("{usage}\n"));
        file("memory.limit_in_bytes", limit);
        file(
            "memory.stat",
            &format!(
                "cache 1\nrss 2\nhierarchical_memory_limit {lowest}total_cache 300000\ntotal_rss 500000\ntotal_shmem 20000\ntotal_inactive_file 250000\ntotal_swap 77\n"
            ),
        );
        file("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
        file("memory.failcnt", "42\n");
        file("memory.kmem.usage_in_bytes", "90000\n");
        file("cgroup.procs", "7\n");
    }

    fn open(&self) -> Reading<Cgroups> {
        Cgroups::open(self.fake.root(), 7)
    }
}

const V2_MOUNT: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
const V1_MOUNT: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
    35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

#[test]
fn v2_is_read_with_all_its_levels_and_the_tightest_limit_named() {
    let machine = Machine::new("0::/user.slice/job.scope\n", V2_MOUNT);
    machine.namespace("cgroup:[4026531835]");
    machine.v2("/user.slice/job.scope", 1_000_000, "max\n");
    machine.v2("/user.slice", 3_000_000, "8000000\n");
    // The root of v2 has no memory files of its own.
    machine.fake.file("sys/fs/cgroup/cgroup.procs", "1\n").unwrap();
    let mut cgroups = machine.open().known().unwrap();
    assert_eq!((cgroups.version(), &**cgroups.path()), (CgroupVersion::V2, "/user.slice/job.scope"));
    assert_eq!((cgroups.levels().len(), cgroups.hides_ancestors()), (2, false));
    let reading = cgroups.read();
    assert_eq!(
        (reading.usage, reading.limit),
        (Reading::Known(Bytes(1_000_000)), Reading::Known(Limit::Unlimited))
    );
    assert_eq!(
        (reading.anon, reading.shmem, reading.kernel),
        (Some(Bytes(500_000)), Some(Bytes(20_000)), Some(Bytes(90_000)))
    );
    assert_eq!((reading.oom_kills, reading.local_oom_kills), (Reading::Known(2), Reading::Known(1)));
    assert_eq!((reading.limit_hits, reading.swap), (Reading::Known(12), Reading::Known(Bytes(4096))));
    assert_eq!(reading.peak, Reading::Known(Bytes(900_000)));
    assert_eq!(reading.working_set(), Some(Bytes(750_000)));
    let some = Pressure { some_avg10: 2.0, full_avg10: 1.0, some_total_us: 5, full_total_us: 4 };
    assert_eq!(reading.pressure, Reading::Known(some));
    let tight =
        TightLimit { path: "/user.slice".into(), limit: Bytes(8_000_000), used: Some(Bytes(2_750_000)) };
    assert_eq!(cgroups.tight_limit(), Reading::Known(Some(tight)));
    assert_eq!(cgroups.members(), Reading::Known(vec![7, 8]));
}

#[test]
fn a_controller_switched_off_below_leads_to_the_level_that_has_it() {
    let machine = Machine::new("0::/a/b/c\n", V2_MOUNT);
    machine.namespace("cgroup:[4026531835]");
    machine.v2("/a", 1_000_000, "2000000\n");
    machine.fake.file("sys/fs/cgroup/a/b/c/cgroup.procs", "7\n").unwrap();
    let mut cgroups = machine.open().known().unwrap();
    assert_eq!(&**cgroups.path(), "/a");
    assert_eq!(cgroups.read().limit, Reading::Known(Limit::At(Bytes(2_000_000))));
    assert_eq!(cgroups.members(), Reading::Known(vec![7, 8]), "those below are charged to it too");
}

#[test]
fn limits_above_a_cgroup_namespace_are_unknown_not_endless() {
    let machine = Machine::new("0::/\n", V2_MOUNT);
    machine.namespace("cgroup:[4026532700]");
    machine.v2("", 1_000_000, "max\n");
    let mut cgroups = machine.open().known().unwrap();
    assert_eq!((&**cgroups.path(), cgroups.hides_ancestors()), ("/", true));
    assert_eq!(cgroups.tight_limit(), Reading::Unsupported);
    machine.v2("", 1_000_000, "5000000\n");
    let tight = cgroups.tight_limit().known().flatten().unwrap();
    assert_eq!((&*tight.path, tight.limit), ("/", Bytes(5_000_000)));
}

#[test]
fn a_namespace_whose_top_is_the_real_root_hides_nothing() {
    let machine = Machine::new("0::/job\n", V2_MOUNT);
    machine.namespace("cgroup:[4026532700]");
    machine.v2("/job", 1, "max\n");
    let mut cgroups = machine.open().known().unwrap();
    assert!(!cgroups.hides_ancestors());
    assert_eq!(cgroups.tight_limit(), Reading::Known(None));
}

#[test]
fn a_bind_mount_shows_a_part_of_the_hierarchy() {
    let mount = "30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    let machine = Machine::new("0::/docker/abc/job\n", mount);
    machine.namespace("cgroup:[4026531835]");
    machine.v2("/job", 10, "100\n");
    let cgroups = machine.open().known().unwrap();
    assert_eq!((&**cgroups.path(), cgroups.hides_ancestors()), ("/job", true));
    let outside = Machine::new("0::/docker/other\n", mount);
    assert_eq!(outside.open().map(|_| ()), Reading::Unsupported);
    let leads_out = Machine::new("0::/../other\n", V2_MOUNT);
    assert_eq!(leads_out.open().map(|_| ()), Reading::Unsupported);
}

#[test]
fn v1_is_found_beside_an_empty_v2_and_tells_hidden_limits() {
    let machine = Machine::new("4:memory:/job\n1:cpu:/\n0::/\n", V1_MOUNT);
    machine.namespace("cgroup:[4026532700]");
    machine.v1("/job", 1_000_000, V1_NONE, "6000000\n");
    machine.v1("", 9_000_000, V1_NONE, V1_NONE);
    let mut cgroups = machine.open().known().unwrap();
    assert_eq!(
        (cgroups.version(), &**cgroups.path(), cgroups.hides_ancestors()),
        (CgroupVersion::V1, "/job", true)
    );
    let reading = cgroups.read();
    assert_eq!(
        (reading.usage, reading.limit),
        (Reading::Known(Bytes(1_000_000)), Reading::Known(Limit::Unlimited))
    );
    assert_eq!((reading.oom_kills, reading.limit_hits), (Reading::Known(5), Reading::Known(42)));
    assert_eq!((reading.anon, reading.kernel), (Some(Bytes(500_000)), Some(Bytes(90_000))));
    assert_eq!((reading.swap, reading.pressure), (Reading::Known(Bytes(77)), Reading::Unsupported));
    let tight = cgroups.tight_limit().known().flatten().unwrap();
    assert_eq!((&*tight.path, tight.limit, tight.used), ("(hidden)", Bytes(6_000_000), None));
}

#[test]
fn garbage_and_missing_files_are_unknown() {
    let machine = Machine::new("0::/job\n", V2_MOUNT);
    machine.fake.file("sys/fs/cgroup/job/memory.current", "what\n").unwrap();
    // A folder where a file should be cannot be read.
    std::fs::create_dir_all(machine.fake.root().sys.join("fs/cgroup/job/memory.max")).unwrap();
    let mut cgroups = machine.open().known().unwrap();
    let reading = cgroups.read();
    assert_eq!((reading.usage, reading.limit), (Reading::Unsupported, Reading::Unsupported));
    assert_eq!((reading.oom_kills, reading.anon), (Reading::Unsupported, None));
    assert_eq!(Cgroups::open(machine.fake.root(), 8).map(|_| ()), Reading::Gone);
    assert_eq!(Machine::new("nonsense", V2_MOUNT).open().map(|_| ()), Reading::Unsupported);
}
