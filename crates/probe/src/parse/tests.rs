use super::*;
use lowtide_model::{Bytes, Exit, Limit};
use proptest::prelude::*;

const STAT: &str = "4711 (python) S 12 4711 4711 34816 -1 4194304 8520 11 3 0 250 50 0 0 20 0 7 0 179909 3751936 659 \
     18446744073709551615 1 2 3 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 1 2 3 4 5 6 7 256\n";

#[test]
fn statm_counts_pages() {
    let statm = statm(b"916 659 620 87 0 102 0\n", 4096).unwrap();
    assert_eq!(
        (statm.size, statm.rss, statm.shared),
        (Bytes(916 * 4096), Bytes(659 * 4096), Bytes(620 * 4096))
    );
    assert_eq!(super::statm(b"916 659", 4096), None);
    assert_eq!(super::statm(b"916 99999999999999999999 1", 4096), None);
    assert_eq!(super::statm(b"1 18446744073709551615 1", 4096).unwrap().rss, Bytes(u64::MAX));
}

#[test]
fn stat_tells_a_life() {
    let stat = stat(STAT.as_bytes()).unwrap();
    assert_eq!((stat.pid, stat.ppid, stat.state, stat.session, stat.terminal), (4711, 12, 'S', 4711, 34816));
    assert_eq!((stat.minor_faults, stat.major_faults, stat.cpu_ns), (8520, 3, 3_000_000_000));
    assert_eq!((stat.threads, stat.start_ticks, stat.wait_status), (7, 179_909, Some(256)));
    assert!(!stat.is_dead() && !stat.is_kernel_thread());
    assert_eq!(stat.exit(), None, "a living process has not ended");
}

#[test]
fn a_name_may_hold_spaces_parentheses_newlines_and_invalid_text() {
    for name in ["a b", ") S 1 1 1 (", "x\ny) R 9", "((", "))", ""] {
        let line = STAT.replace("python", name);
        assert_eq!(stat(line.as_bytes()), stat(STAT.as_bytes()), "{name:?}");
        assert_eq!(comm(line.as_bytes()).as_deref(), Some(name));
    }
    let line = [b"1 (\xff\xfe) ".as_slice(), STAT.split_once(") ").unwrap().1.as_bytes()].concat();
    assert_eq!(stat(&line).unwrap().pid, 1);
    assert_eq!(comm(&line).as_deref(), Some("\u{fffd}\u{fffd}"));
}

#[test]
fn a_dead_process_tells_how_it_ended_but_a_leader_with_threads_is_not_dead() {
    let dead = |threads: u32, status: i32| {
        let line = STAT.replace(") S ", ") Z ").replace(" 20 0 7 ", &format!(" 20 0 {threads} "));
        stat(line.replace(" 256\n", &format!(" {status}\n")).as_bytes()).unwrap()
    };
    assert_eq!(dead(1, 256).exit(), Some(Exit::Code(1)));
    assert_eq!(dead(1, 9).exit(), Some(Exit::Signal(9)));
    assert_eq!(dead(1, 139).exit(), Some(Exit::Signal(11)), "with a core dump");
    assert_eq!(dead(1, 0).exit(), None, "the kernel says 0 to strangers too");
    assert!(!dead(2, 256).is_dead());
}

#[test]
fn status_tells_what_it_has_and_leaves_out_what_it_has_not() {
    let text = "Name:\ta\\nVmRSS:\t1 kB\nState:\tS (sleeping)\nUid:\t1000\t0\t0\t0\nNStgid:\t4711\t1\nVmSize:\t 200 kB\n\
         VmLck:\t 8 kB\nVmPin:\t 4 kB\nVmHWM:\t 120 kB\nVmRSS:\t 100 kB\nRssAnon:\t 60 kB\nRssFile:\t 30 kB\n\
         RssShmem:\t 10 kB\nVmSwap:\t 5 kB\nThreads:\t3\nSigCgt:\t0000000100004002\nCpus_allowed:\tff\n";
    let status = status(text.as_bytes()).unwrap();
    assert_eq!((status.anon, status.file), (Some(Bytes::from_kib(60)), Some(Bytes::from_kib(30))));
    assert_eq!((status.shmem, status.swap), (Some(Bytes::from_kib(10)), Some(Bytes::from_kib(5))));
    assert_eq!(status.held_in_place(), Some(Bytes::from_kib(12)));
    assert_eq!((status.uid, status.threads, status.namespace_pid), (Some(1000), Some(3), Some(1)));
    assert_eq!(
        (status.catches(15), status.catches(2), status.catches(10)),
        (Some(true), Some(true), Some(false))
    );
    assert_eq!(
        (status.catches(33), status.catches(0), status.catches(-1), status.catches(65)),
        (Some(true), None, None, None)
    );
    let kernel_thread = super::status(b"Name:\tkthreadd\nThreads:\t1\n").unwrap();
    assert_eq!((kernel_thread.anon, kernel_thread.rss), (None, None));
    assert_eq!(super::status(b"nonsense"), None);
}

#[test]
fn the_sharing_split_is_summed() {
    let text = "55d0-7ffd ---p 00000000 00:00 0 [rollup]\nRss: 2636 kB\nPss: 1182 kB\nPss_Dirty: 1044 kB\nPss_Anon: 156 kB\n\
         Shared_Clean: 1500 kB\nShared_Dirty: 92 kB\nPrivate_Clean: 10 kB\nPrivate_Dirty: 1034 kB\n";
    let pss = smaps_rollup(text.as_bytes()).unwrap();
    assert_eq!((pss.pss, pss.pss_anon), (Bytes::from_kib(1182), Some(Bytes::from_kib(156))));
    assert_eq!((pss.private, pss.shared), (Bytes::from_kib(1044), Bytes::from_kib(1592)));
    assert_eq!(smaps_rollup(b"Pss: 5 kB\n"), None);
}

#[test]
fn the_address_space_limit_is_the_soft_one() {
    let table = |soft: &str| {
        format!(
            "Limit  Soft Limit  Hard Limit  Units\nMax address space         {soft}   unlimited   bytes\n"
        )
    };
    assert_eq!(address_space_limit(table("unlimited").as_bytes()), Some(Limit::Unlimited));
    assert_eq!(address_space_limit(table("1048576").as_bytes()), Some(Limit::At(Bytes(1 << 20))));
    assert_eq!(address_space_limit(b"Max cpu time unlimited"), None);
}

#[test]
fn arguments_are_split_at_zeros_and_padding_is_dropped() {
    assert_eq!(cmdline(b"python\0-c\0\0x y\0"), ["python", "-c", "", "x y"]);
    assert_eq!(cmdline(b"title of a server   \0\0\0\0"), ["title of a server   "]);
    assert_eq!(cmdline(b"\xff\0"), ["\u{fffd}"]);
    assert!(cmdline(b"").is_empty() && cmdline(b"\0\0").is_empty());
}

#[test]
fn only_wanted_variables_are_kept() {
    let kept = environ(b"RANK=3\0SECRET=x\0RANK\0=RANK\0LD_PRELOAD=a=b\0\xff=1\0", |name| {
        matches!(name, "RANK" | "LD_PRELOAD")
    });
    assert_eq!(kept, [("RANK".to_owned(), "3".to_owned()), ("LD_PRELOAD".to_owned(), "a=b".to_owned())]);
}

#[test]
fn the_machine_is_read() {
    let info =
        meminfo(b"MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 60 kB\nSwapTotal: 8 kB\nSwapFree: 7 kB\n")
            .unwrap();
    assert_eq!((info.total, info.available), (Bytes::from_kib(100), Bytes::from_kib(60)));
    assert_eq!((info.swap_total, info.swap_free), (Bytes::from_kib(8), Bytes::from_kib(7)));
    assert_eq!(meminfo(b"MemTotal: 100 kB\n"), None, "available is never guessed");
    assert_eq!(oom_kills(b"oom_kill_x 9\npgfault 3\noom_kill 4\n"), Some(4));
    assert_eq!(oom_kills(b"pgfault 3\n"), None);
    let psi = pressure(
        b"some avg10=1.50 avg60=0.00 avg300=0.00 total=77\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=9\n",
    )
    .unwrap();
    assert!((psi.some_avg10 - 1.5).abs() < 1e-9 && (psi.full_avg10 - 0.25).abs() < 1e-9);
    assert_eq!((psi.some_total_us, psi.full_total_us), (77, 9));
    for bad in [
        "some avg10=nan total=1",
        "some avg10=1e9 total=1",
        "some avg10=-1 total=1",
        "full avg10=0 total=1",
        "",
    ] {
        assert_eq!(pressure(bad.as_bytes()), None, "{bad}");
    }
}

#[test]
fn pids_handed_out_between_two_moments_lie_in_a_range_that_wraps() {
    let range = |after, up_to| PidRange { after, up_to };
    assert!(!range(5, 5).contains(5));
    assert!(range(5, 8).contains(6) && range(5, 8).contains(8) && !range(5, 8).contains(5));
    assert!(
        range(32000, 310).contains(32001)
            && range(32000, 310).contains(300)
            && !range(32000, 310).contains(400)
    );
}

#[test]
fn cgroup_lines_may_hold_colons_and_names() {
    let lines = membership(b"9:name=systemd:/\n4:memory,hugetlb:/a:b/c d (deleted)\n0::/user.slice\nbad\n");
    assert_eq!(lines.len(), 3);
    assert_eq!(
        (lines[1].controllers.as_slice(), lines[1].path.as_str()),
        (["memory".to_owned(), "hugetlb".to_owned()].as_slice(), "/a:b/c d")
    );
    assert_eq!((lines[2].hierarchy, lines[2].controllers.len()), (0, 0));
}

#[test]
fn mounts_are_found_behind_optional_fields_and_escapes() {
    let text = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 master:1 - cgroup cgroup rw,memory\n\
         36 31 0:33 /a\\040b /mnt/x\\134y rw - cgroup2 none rw,nsdelegate\n37 1 0:1 / /tmp rw - tmpfs tmpfs rw\n38 broken\n";
    let mounts = mountinfo(text.as_bytes(), |kind| kind.starts_with(b"cgroup"));
    assert_eq!(mounts.len(), 2);
    assert_eq!((mounts[0].kind.as_str(), mounts[0].options.last().unwrap().as_str()), ("cgroup", "memory"));
    assert_eq!((mounts[1].root.as_str(), mounts[1].point.as_str()), ("/a b", "/mnt/x\\y"));
}

#[test]
fn no_limit_is_said_in_two_ways() {
    assert_eq!(cgroup_limit(b"max\n"), Some(Limit::Unlimited));
    assert_eq!(cgroup_limit(b"9223372036854771712\n"), Some(Limit::Unlimited));
    assert_eq!(cgroup_limit(b"9223372036854710272\n"), Some(Limit::Unlimited), "64 KiB pages");
    assert_eq!(cgroup_limit(b"16777216\n"), Some(Limit::At(Bytes(16 << 20))));
    assert_eq!((cgroup_limit(b"-1"), cgroup_limit(b"")), (None, None));
}

#[test]
fn maps_lines_are_read() {
    let map = mapping(b"7f00-7f10 rw-p 00000000 00:00 0 [heap]").unwrap();
    assert_eq!((map.start, map.end, map.accessible, map.private), (0x7f00, 0x7f10, true, true));
    assert!(!mapping(b"7f00-7f10 ---p 0 00:00 0").unwrap().accessible);
    assert!(!mapping(b"7f00-7f10 rw-s 0 00:00 0").unwrap().private);
    for bad in ["", "7f10-7f00 rw-p", "zz-7f rw-p", "7f00 rw-p", "10000000000000000-2 rw-p"] {
        assert_eq!(mapping(bad.as_bytes()), None, "{bad}");
    }
}

/// Every parser over one input: nothing may panic, whatever it is.
fn parse_everything(bytes: &[u8]) {
    let _ = (statm(bytes, 4096), stat(bytes), comm(bytes), status(bytes), smaps_rollup(bytes));
    let _ = (address_space_limit(bytes), cmdline(bytes), environ(bytes, |_| true), mapping(bytes));
    let _ = (meminfo(bytes), oom_kills(bytes), pressure(bytes), pid_max(bytes), single_number(bytes));
    let _ = (membership(bytes), mountinfo(bytes, |_| true), cgroup_limit(bytes), cgroup_pids(bytes).count());
    let _ = (cgroup_stat_v1(bytes), cgroup_stat_v2(bytes), memory_events_v1(bytes), memory_events_v2(bytes));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        parse_everything(&bytes);
    }

    #[test]
    fn nothing_that_looks_like_a_kernel_file_panics(
        text in "([a-zA-Z_:. ]{0,12}[:= \t]{0,2}[0-9]{0,22}( kB| max|-|\\(|\\)|/|\0|,)?\n?){0,30}"
    ) {
        parse_everything(text.as_bytes());
    }

    #[test]
    fn a_stat_line_cut_off_anywhere_is_whole_or_unknown(cut in 0..STAT.len()) {
        let whole = stat(STAT.as_bytes()).unwrap();
        if let Some(part) = stat(&STAT.as_bytes()[..cut]) {
            prop_assert_eq!(part.ppid, whole.ppid);
            prop_assert_eq!(part.minor_faults, whole.minor_faults);
        }
    }

    #[test]
    fn any_name_leaves_the_fields_alone(name in proptest::collection::vec(any::<u8>(), 0..64)) {
        let rest = STAT.split_once("python").unwrap().1.as_bytes();
        let line = [b"4711 (".as_slice(), &name, rest].concat();
        prop_assert_eq!(stat(&line), stat(STAT.as_bytes()));
    }

    #[test]
    fn arguments_never_outgrow_the_cap(bytes in proptest::collection::vec(any::<u8>(), 0..40_000)) {
        // A byte that is no text becomes three.
        prop_assert!(cmdline(&bytes).iter().map(String::len).sum::<usize>() <= 3 * ARGV_CAP);
    }
}
