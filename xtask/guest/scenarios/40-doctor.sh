# The doctor tells a user what may be read here.
make_cgroup doctor 96M
LOOK=$T/out

in_cgroup doctor actor as 1000 lowtide doctor >"$T/out" 2>&1
code=$?
want "the doctor works for a user" is $code 0
want "it tells the ptrace scope" has 'ptrace scope *1' "$T/out"
want "it tells cgroup v2 and the path" has 'memory cgroup *v2, /doctor' "$T/out"
want "it tells the cgroup's limit" has '96.0\? MiB at /doctor' "$T/out"
want "it says that sharing may be read of a child" has 'yes *sharing' "$T/out"
want "it says why there are no events from perf" has 'NO *fork events (perf)' "$T/out"
show "$T/out"

echo 2 >/proc/sys/kernel/yama/ptrace_scope
as_user lowtide doctor >"$T/out" 2>&1
want "it tells a stricter scope" has 'ptrace scope *2' "$T/out"
want "it does not deny what the kernel gives under that scope" hasnt 'only root may read memory maps' "$T/out"
show "$T/out"

lowtide doctor >"$T/out" 2>&1
want "root has the connector" has 'yes *fork events (connector)' "$T/out"
