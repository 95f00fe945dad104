# A user without rights under Yama: what may be read of an own job, and of a stranger's.
LOOK=$T/err

for scope in 1 2; do
    echo $scope >/proc/sys/kernel/yama/ptrace_scope
    rm -f "$T"/go*
    file=$T/run$scope.tide
    as_user lowtide run --interval 100ms --out "$file" -- sh -c "actor hold 24 $T/go 7 & wait \$!; exit 5" 2>"$T/err" &
    recorder=$!
    until_true there "$T/go.ready"
    pss() { least "$(ask "$file" "select count(*) from sharing")" 1; }
    until_true pss
    touch "$T/go"
    wait $recorder
    code=$?
    want "scope $scope: a user's job is recorded and its code passed on" is $code 5
    want "scope $scope: memory is split into anon and file" is \
        "$(ask "$file" "select count(*) > 0 from sample_view where comm = 'actor' and anon_bytes > 23 << 20 and file_bytes > 0")" 1
    want "scope $scope: sharing is read of an own job" is \
        "$(ask "$file" "select count(*) > 0 from sample_view where comm = 'actor' and pss_bytes > 23 << 20")" 1
    want "scope $scope: every process has an end" is "$(ask "$file" "select count(*) from process where died_ns is null or exit is null")" 0
    want "scope $scope: the command's own end is known" is "$(end_of_root "$file")" "code 5"
    want "scope $scope: the recording is mode 600" is "$(stat -c %a "$file")" 600
    processes "$file"
    show "$T/err"

    # A stranger: the same user's, not below us.
    rm -f "$T"/go*
    as_user setsid actor hold 24 "$T/go" &
    until_true there "$T/go.ready"
    stranger=$(pidof actor)
    for name in status statm smaps_rollup pagemap environ mem; do
        if as_user dd if="/proc/$stranger/$name" of=/dev/null bs=1 count=1 2>"$T/dd"; then
            note "scope $scope: $name of a stranger may be opened"
        else
            note "scope $scope: $name of a stranger: $(sed 's/.*: //' "$T/dd" | head -n 1)"
        fi
    done
    as_user lowtide watch --lines --for 3s --out "$T/watch$scope.tide" "$stranger" >"$T/out" 2>"$T/err"
    code=$?
    want "scope $scope: watching a stranger does not fail" is $code 0
    want "scope $scope: a stranger's memory is recorded" is \
        "$(ask "$T/watch$scope.tide" "select count(*) > 0 from sample_view where comm = 'actor' and anon_bytes > 23 << 20")" 1
    want "scope $scope: the stranger was not disturbed" there "/proc/$stranger"
    cat "$T/out" "$T/err" >"$T/all"
    show "$T/all"
    touch "$T/go"
    until_true gone "$stranger"
done
