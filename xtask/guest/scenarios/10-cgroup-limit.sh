# A job that runs into the limit of a real cgroup v2 is explained as such, with doubt only where there is doubt.
make_cgroup job 64M
LOOK=$T/err

in_cgroup job lowtide run --interval 100ms --out "$T/alone.tide" -- actor eat 5 2>"$T/err"
code=$?
want "a job that hits the limit gives 137" is $code 137
want "it is called out of memory" has 'killed by the kernel: out of memory' "$T/err"
want "the cgroup is named" has 'cgroup /job' "$T/err"
want "the limit is named" has '64.0\? MiB' "$T/err"
want "alone in its cgroup there is no doubt" hasnt likely "$T/err"
want "the recording holds one oom event" is "$(ask "$T/alone.tide" "select count(*) from event where kind = 'oom'")" 1
want "the recording holds the signal" is "$(ask "$T/alone.tide" "select exit || ' ' || exit_number from process where comm = 'actor'")" "signal 9"
want "rows of the v2 cgroup hold the limit" is \
    "$(ask "$T/alone.tide" "select distinct path, version, limit_bytes from cgroup join cgroup_path p on p.id = cgroup_id")" "/job|2|67108864"
want "nobody else was counted in the cgroup" is "$(ask "$T/alone.tide" "select max(strangers) from cgroup")" 0
show "$T/err"

in_cgroup job lowtide run --out "$T/sudden.tide" -- actor eat 0 2>"$T/err"
code=$?
want "a job that dies in its first moments gives 137" is $code 137
want "a sudden death is called out of memory too" has 'killed by the kernel: out of memory' "$T/err"

in_cgroup job lowtide run --interval 100ms --out "$T/child.tide" -- sh -c 'actor eat 5; exit 3' 2>"$T/err"
code=$?
want "a job that outlives its killed child keeps its own code" is $code 3
want "the child's death is called out of memory" has 'killed by the kernel: out of memory' "$T/err"

in_cgroup job sleep 1000 &
until_true grep -q '^populated 1' /sys/fs/cgroup/job/cgroup.events
in_cgroup job lowtide run --interval 100ms --out "$T/shared.tide" -- actor eat 5 2>"$T/err"
code=$?
empty_cgroup job
want "with a stranger in the cgroup the code is 137" is $code 137
want "with a stranger it is called likely" has 'likely killed by the kernel: out of memory' "$T/err"
want "the stranger is given as the reason" has 'another process shares' "$T/err"
show "$T/err"

in_cgroup job actor as 1000 lowtide run --interval 100ms --out "$T/user.tide" -- actor eat 5 2>"$T/err"
code=$?
want "a user's job that hits the limit gives 137" is $code 137
want "a user is told without doubt as well" has 'was killed by the kernel: out of memory' "$T/err"

mkdir -p /sys/fs/cgroup/outer
echo 64M >/sys/fs/cgroup/outer/memory.max
echo +memory >/sys/fs/cgroup/outer/cgroup.subtree_control
make_cgroup outer/inner max
in_cgroup outer/inner lowtide run --interval 100ms --out "$T/outer.tide" -- actor eat 5 2>"$T/err"
code=$?
want "a limit further up kills with 137" is $code 137
want "a limit further up is called out of memory" has 'killed by the kernel: out of memory' "$T/err"
want "the limit is said of the cgroup that has it" has 'of cgroup /outer\( \|$\|;\|,\)' "$T/err"
