//! Limits that are not a cgroup's: the address space of a process and what Slurm granted.

use crate::Root;
use crate::open_file::{Kind, read_capped, refusal};
use crate::parse;
use lowtide_model::{Bytes, Limit, Reading};

/// The soft `RLIMIT_AS` of a process, which limits its `VmSize`.
pub fn address_space(root: &Root, pid: u32) -> Reading<Limit> {
    match read_capped(&root.process(pid).join("limits"), 1 << 14) {
        Ok(bytes) => parse::address_space_limit(&bytes).into(),
        Err(error) => refusal(&error, Kind::Process),
    }
}

/// What Slurm granted on this node, from the environment of a job step. `None` without Slurm or without a grant.
/// Slurm counts in MB and means MiB; 0 asks for all memory of the node, which is no limit of its own.
pub fn slurm(variable: impl Fn(&str) -> Option<String>) -> Option<Bytes> {
    let count = |name: &str| variable(name).and_then(|value| value.trim().parse::<u64>().ok());
    let grant = |each: &str, times: &str| Some(count(each)?.saturating_mul(count(times)?));
    let mib = count("SLURM_MEM_PER_NODE")
        .or_else(|| grant("SLURM_MEM_PER_CPU", "SLURM_CPUS_ON_NODE"))
        .or_else(|| grant("SLURM_MEM_PER_GPU", "SLURM_GPUS_ON_NODE"))?;
    (mib > 0).then(|| Bytes::from_mib(mib))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slurm_of(variables: &[(&str, &str)]) -> Option<Bytes> {
        slurm(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn slurm_grants_per_node_per_cpu_or_per_gpu() {
        assert_eq!(slurm_of(&[("SLURM_MEM_PER_NODE", "4096")]), Some(Bytes(4 << 30)));
        assert_eq!(
            slurm_of(&[("SLURM_MEM_PER_CPU", "2048"), ("SLURM_CPUS_ON_NODE", "4")]),
            Some(Bytes(8 << 30))
        );
        assert_eq!(
            slurm_of(&[("SLURM_MEM_PER_GPU", "1024"), ("SLURM_GPUS_ON_NODE", "2")]),
            Some(Bytes(2 << 30))
        );
    }

    #[test]
    fn no_grant_is_no_limit() {
        assert_eq!(slurm_of(&[]), None);
        assert_eq!(slurm_of(&[("SLURM_MEM_PER_NODE", "0")]), None);
        assert_eq!(slurm_of(&[("SLURM_MEM_PER_NODE", "lots")]), None);
        assert_eq!(slurm_of(&[("SLURM_MEM_PER_CPU", "2048")]), None);
    }

    #[test]
    fn the_address_space_of_this_process_is_read() {
        let pid = std::process::id();
        assert!(matches!(address_space(&Root::live(), pid), Reading::Known(_)));
        assert_eq!(address_space(&Root::live(), u32::MAX), Reading::Gone);
    }
}
