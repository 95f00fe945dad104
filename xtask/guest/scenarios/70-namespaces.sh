# Where a namespace silences the kernel's proc connector, another source is used, and the file says which.
LOOK=$T/err
short='for i in 1 2 3 4 5 6 7 8 9 10; do /bin/actor nothing; done; exit 4'

lowtide run --out "$T/host.tide" -- sh -c "$short" 2>"$T/err"
want "outside of namespaces root has the connector" is "$(source_of "$T/host.tide")" connector
want "the connector tells every code" is "$(ask "$T/host.tide" "select count(*) from process where exit = 'code' and exit_number = 2")" 10

for flags in "-p -n -f --mount-proc" "-p -f --mount-proc" "-n"; do
    name=$(printf %s "$flags" | tr -d ' -')
    unshare $flags lowtide run --out "$T/$name.tide" -- sh -c "$short" 2>"$T/err"
    code=$?
    want "unshare $flags: the code is passed on" is $code 4
    want "unshare $flags: not the connector" is "$(source_of "$T/$name.tide")" perf
    want "unshare $flags: every short process is seen" is "$(ask "$T/$name.tide" "select count(*) from process")" 11
    want "unshare $flags: the command's end is known" is "$(end_of_root "$T/$name.tide")" "code 4"
    processes "$T/$name.tide"
    want "unshare $flags: the recording is whole" is "$(lowtide list --format json "$T" | grep -F "/$name.tide" | grep -c finished)" 1
done
show "$T/err"

# A user without perf events either: only listing is left.
unshare -p -n -f --mount-proc actor as 1000 lowtide run --interval 100ms --out "$T/listing.tide" -- actor hold 8 "$T/go" 3 2>"$T/err" &
recorder=$!
until_true there "$T/go.ready"
seen() { least "$(ask "$T/listing.tide" "select count(*) from sample")" 1; }
until_true seen
touch "$T/go"
wait $recorder
code=$?
want "a user in a namespace has listing" is "$(source_of "$T/listing.tide")" listing
want "a user in a namespace gets the code" is $code 3
want "the user is told what is not seen" has 'shorter than a tick' "$T/err"
show "$T/err"

# The same user where perf events are allowed.
echo 2 >/proc/sys/kernel/perf_event_paranoid
unshare -p -n -f --mount-proc actor as 1000 lowtide run --out "$T/perf.tide" -- sh -c "$short" 2>"$T/err"
code=$?
want "a user with perf events gets the code" is $code 4
want "a user with perf events has them as the source" is "$(source_of "$T/perf.tide")" perf
want "a user with perf events sees every short process" is "$(ask "$T/perf.tide" "select count(*) from process")" 11

# perf tells that a process ended before anybody can wait for it, and not how.
known=0
for i in 1 2 3 4 5 6 7 8 9 10; do
    unshare -n lowtide run --quiet --out "$T/end$i.tide" -- sh -c 'exit 4'
    [ "$(end_of_root "$T/end$i.tide")" = "code 4" ] && known=$((known + 1))
done
want "with perf events the command's end is known each time" is $known 10

# As pid 1 of a container, orphans come to us and are reaped.
unshare -p -f --mount-proc lowtide run --out "$T/pid1.tide" -- sh -c "(actor hold 4 $T/orphan 6 &) ; sleep 0.2; touch $T/orphan; exit 0" 2>"$T/err"
code=$?
want "as pid 1 the code is passed on" is $code 0
want "as pid 1 an orphan's end is known" is "$(ask "$T/pid1.tide" "select exit || exit_number from process where comm = 'actor'")" code6
processes "$T/pid1.tide"
