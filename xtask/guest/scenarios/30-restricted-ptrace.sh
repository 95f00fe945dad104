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
    if kernel_from 6 6; then
        want "scope $scope: the connector serves a user" is "$(source_of "$file")" connector
        want "scope $scope: the end of every process is known" is "$(ask "$file" "select exit || exit_number from process where comm = 'actor'")" code7
    else
        want "scope $scope: before Linux 6.6 a user has listing" is "$(source_of "$file")" listing
        # Seen only by a tick that falls between its end and its parent's wait.
        want "scope $scope: what nobody could see is unknown, not nought" is \
            "$(ask "$file" "select exit = 'unknown' or exit || exit_number = 'code7' from process where comm = 'actor'")" 1
    fi
    processes "$file"
    show "$T/err"

    # A stranger: the same user's, below a wrapper, not below us.
    rm -f "$T"/go*
    (exec actor as 1000 setsid sh -c "actor hold 24 $T/go; true" &)
    until_true there "$T/go.ready"
    stranger=$(pidof actor)
    # Yama is asked for the content of memory only; sharing, page flags and environment are as open as without it.
    for name in status statm smaps_rollup pagemap environ; do
        want "scope $scope: the kernel gives $name of a stranger" as_user dd if="/proc/$stranger/$name" of=/dev/null bs=8 count=1
    done
    want "scope $scope: the kernel refuses mem of a stranger" refused as_user sh -c "exec 3</proc/$stranger/mem"
    as_user lowtide watch --lines --for 3s --out "$T/watch$scope.tide" "$stranger" >"$T/out" 2>"$T/err"
    code=$?
    want "scope $scope: watching a stranger does not fail" is $code 0
    want "scope $scope: a stranger's memory is recorded" is \
        "$(ask "$T/watch$scope.tide" "select count(*) > 0 from sample_view where comm = 'actor' and anon_bytes > 23 << 20")" 1
    want "scope $scope: the stranger's wrapper is found and recorded as the root" is \
        "$(ask "$T/watch$scope.tide" "select comm from process where pid = (select json_extract(value, '$.pid') from meta where key = 'root')")" sh
    want "scope $scope: nobody else is recorded" is "$(ask "$T/watch$scope.tide" "select count(*) from process")" 2
    want "scope $scope: a stranger's sharing is recorded" is \
        "$(ask "$T/watch$scope.tide" "select count(*) > 0 from sample_view where comm = 'actor' and pss_bytes > 23 << 20")" 1
    want "scope $scope: the stranger was not disturbed" there "/proc/$stranger"
    processes "$T/watch$scope.tide"
    cat "$T/out" "$T/err" >"$T/all"
    show "$T/all"
    touch "$T/go"
    until_true gone "$stranger"
done
