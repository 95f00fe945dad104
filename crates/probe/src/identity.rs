//! Who a process says it is: arguments, name, program, cgroup, and the few environment variables that decide memory.
//!
//! Why an allow-list: an environment holds keys and passwords, a recording is sent around. Nothing that is not in
//! the list below leaves this module.

use crate::open_file::{CAP, Kind, read_capped, refusal};
use crate::parse;
use crate::{Root, cgroup, limits};
use lowtide_model::{Limit, Reading};
use std::path::Path;

/// The variables that are kept: allocators, thread counts, ranks, devices and schedulers.
pub const ENV_ALLOWED: &[&str] = &[
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_VISIBLE_DEVICES",
    "GROUP_RANK",
    "HF_DATASETS_IN_MEMORY_MAX_SIZE",
    "HF_HUB_OFFLINE",
    "JE_MALLOC_CONF",
    "LD_PRELOAD",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MIMALLOC_PURGE_DELAY",
    "MKL_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "NVIDIA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "PYTHONMALLOC",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "RANK",
    "RAYON_NUM_THREADS",
    "ROCR_VISIBLE_DEVICES",
    "SLURM_CPUS_ON_NODE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_GPUS_ON_NODE",
    "SLURM_JOB_ID",
    "SLURM_LOCALID",
    "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_GPU",
    "SLURM_MEM_PER_NODE",
    "SLURM_NTASKS",
    "SLURM_PROCID",
    "SLURM_STEP_ID",
    "TCMALLOC_RELEASE_RATE",
    "TOKENIZERS_PARALLELISM",
    "TORCHINDUCTOR_COMPILE_THREADS",
    "TORCHINDUCTOR_WORKER_START",
    "TORCH_COMPILE_DISABLE",
    "WORLD_SIZE",
];

/// Families of variables that are kept: glibc's and jemalloc's settings.
pub const ENV_ALLOWED_PREFIXES: &[&str] = &["MALLOC_", "GLIBC_TUNABLES"];

/// Whether a variable of this name is kept.
pub(crate) fn is_allowed(name: &str) -> bool {
    ENV_ALLOWED.binary_search(&name).is_ok()
        || ENV_ALLOWED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// What is known of a process besides its numbers. Empty arguments are those of a kernel thread or a dead process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Arguments, lossily as text. Secrets in them are not masked here.
    pub argv: Reading<Vec<String>>,
    /// The kernel's short name.
    pub comm: Reading<String>,
    /// File name of the program.
    pub exe: Reading<String>,
    /// The allow-listed part of its first environment.
    pub env: Reading<Vec<(String, String)>>,
    /// Path of its memory cgroup.
    pub cgroup: Reading<String>,
    /// `RLIMIT_AS`.
    pub address_space: Reading<Limit>,
}

impl Identity {
    /// A process that was gone before it could be asked.
    pub(crate) const fn gone() -> Self {
        Self {
            argv: Reading::Gone,
            comm: Reading::Gone,
            exe: Reading::Gone,
            env: Reading::Gone,
            cgroup: Reading::Gone,
            address_space: Reading::Gone,
        }
    }
}

/// Reads all of it.
pub(crate) fn read(root: &Root, pid: u32) -> Identity {
    let dir = root.process(pid);
    Identity {
        argv: argv(&dir),
        comm: file(&dir, "comm", 4096).map(|bytes| parse::text(bytes.strip_suffix(b"\n").unwrap_or(&bytes))),
        exe: exe(&dir),
        env: file(&dir, "environ", CAP).map(|bytes| parse::environ(&bytes, is_allowed)),
        cgroup: cgroup::path_of(root, pid),
        address_space: limits::address_space(root, pid),
    }
}

/// One variable of a process's first environment, by its exact name; not known where it is not set.
pub fn variable(root: &Root, pid: u32, name: &str) -> Reading<String> {
    let dir = root.process(pid);
    match file(&dir, "environ", CAP).map(|bytes| parse::environ(&bytes, |known| known == name)) {
        Reading::Known(found) => found.into_iter().next().map(|(_, value)| value).into(),
        Reading::Unsupported => Reading::Unsupported,
        Reading::Denied => Reading::Denied,
        Reading::Gone => Reading::Gone,
    }
}

/// Arguments only.
pub(crate) fn argv(dir: &Path) -> Reading<Vec<String>> {
    file(dir, "cmdline", parse::ARGV_CAP).map(|bytes| parse::cmdline(&bytes))
}

fn file(dir: &Path, name: &str, cap: usize) -> Reading<Vec<u8>> {
    match read_capped(&dir.join(name), cap) {
        Ok(bytes) => Reading::Known(bytes),
        Err(error) => refusal(&error, Kind::Process),
    }
}

fn exe(dir: &Path) -> Reading<String> {
    match std::fs::read_link(dir.join("exe")) {
        Ok(path) => {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            // The kernel adds this when the program file was replaced.
            name.map(|name| name.trim_end_matches(" (deleted)").to_owned()).into()
        }
        // A kernel thread has no program.
        Err(_) if dir.join("comm").exists() && !dir.join("exe").is_symlink() => Reading::Unsupported,
        Err(error) => refusal(&error, Kind::Process),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allow_list_is_sorted_so_that_it_can_be_searched() {
        assert!(ENV_ALLOWED.is_sorted());
    }

    #[test]
    fn names_that_hold_secrets_are_not_allowed() {
        for name in
            ["AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "WANDB_API_KEY", "PATH", "HOME", "RANKING", "malloc_x", ""]
        {
            assert!(!is_allowed(name), "{name}");
        }
        for name in ["RANK", "MALLOC_ARENA_MAX", "MALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "LD_PRELOAD"] {
            assert!(is_allowed(name), "{name}");
        }
    }
}
