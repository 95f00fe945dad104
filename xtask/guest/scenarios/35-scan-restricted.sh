# A user without rights under Yama: an own job is scanned through its recorder, a stranger and everything under scope 2 is
# refused in words.
LOOK=$T/err

for scope in 1 2; do
    echo $scope >/proc/sys/kernel/yama/ptrace_scope
    rm -f "$T"/go*
    as_user lowtide run --interval 100ms --out "$T/run$scope.tide" -- actor hold 24 "$T/go" 2>"$T/run.err" &
    recorder=$!
    until_true there "$T/go.ready"
    job=$(pidof actor)
    as_user lowtide scan "$job" --format json >"$T/scan.json" 2>"$T/err"
    code=$?
    if [ $scope = 1 ]; then
        want "scope $scope: a user's own job is scanned through its recorder" is $code 0
        json="readfile('$T/scan.json')"
        want "scope $scope: the scan is of the job" is "$(ask :memory: "select json_extract($json, '$.process.pid')")" "$job"
        want "scope $scope: its parts add up to what is resident" is "$(ask :memory: \
            "select sum(json_extract(value, '$.bytes')) = json_extract($json, '$.rss_bytes') from json_each($json, '$.kinds')")" 1
        want "scope $scope: its memory was read" is "$(ask :memory: \
            "select json_extract($json, '$.rss_bytes') > 23 << 20 and json_extract($json, '$.cost.read_bytes') > 0")" 1
    else
        want "scope $scope: nobody without rights reads memory" is $code 2
        want "scope $scope: the reason is said" has "may not read its memory" "$T/err"
    fi
    want "scope $scope: the job was not disturbed" there "/proc/$job"
    touch "$T/go"
    wait $recorder
    want "scope $scope: and ends as it would have" is $? 0
    show "$T/err"

    rm -f "$T"/go*
    (exec actor as 1000 setsid sh -c "actor hold 24 $T/go; true" &)
    until_true there "$T/go.ready"
    stranger=$(pidof actor)
    as_user lowtide scan "$stranger" >"$T/out" 2>"$T/err"
    code=$?
    want "scope $scope: a stranger is not scanned" is $code 2
    want "scope $scope: with the reason" has "may not read its memory" "$T/err"
    want "scope $scope: and what would help" has "lowtide run" "$T/err"
    touch "$T/go"
    until_true gone "$stranger"
done
