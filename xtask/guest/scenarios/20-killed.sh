# Somebody's kill -9 is somebody's, also inside a limited cgroup.
make_cgroup kill 64M
LOOK=$T/err

in_cgroup kill lowtide run --interval 100ms --out "$T/kill.tide" -- actor hold 8 "$T/never" 2>"$T/err" &
recorder=$!
until_true there "$T/never.ready"
victim=$(pidof actor)
kill -9 "$victim"
wait $recorder
code=$?
want "a killed job gives 137" is $code 137
want "it is not called out of memory" hasnt 'out of memory' "$T/err"
want "it is called somebody's kill" has 'SIGKILL' "$T/err"
want "the recording holds no oom event" is "$(ask "$T/kill.tide" "select count(*) from event where kind = 'oom'")" 0
show "$T/err"

# A stranger dies of the limit while the job lives; the job is killed by hand seconds later.
rm -f "$T/never.ready"
in_cgroup kill lowtide run --interval 100ms --out "$T/later.tide" -- actor hold 8 "$T/never" 2>"$T/err" &
recorder=$!
until_true there "$T/never.ready"
victim=$(pidof actor)
in_cgroup kill actor eat 1
want "the stranger was the one who died of the limit" there "/proc/$victim"
before=$(ask "$T/later.tide" "select max(announced_ns) from progress")
later() { [ "$(ask "$T/later.tide" "select max(announced_ns) from progress")" -gt $((before + 2000000000)) ]; }
until_true later
kill -9 "$victim"
wait $recorder
want "a stranger's death of the limit does not explain a kill two seconds later" hasnt 'out of memory' "$T/err"
