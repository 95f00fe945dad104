# A job kept apart on cgroup v2: in a cgroup that belongs to the user, and in a scope of the user's systemd. It dies alone at
# its own limit, and under the guard it saves, stops and goes on.
LOOK=$T/err
mkdir -p "$T/out"
chown 1000:1000 "$T/out"

# delegate NAME: a cgroup that the user may divide.
delegate() {
    mkdir -p "/sys/fs/cgroup/$1"
    chown 1000:1000 "/sys/fs/cgroup/$1" "/sys/fs/cgroup/$1/cgroup.procs" "/sys/fs/cgroup/$1/cgroup.subtree_control"
}
# count WORD FILE: the number behind a word of memory.events.
count() { awk -v word="$1" '$1 == word { print $2 }' "$2"; }
# died_alone WHERE [WORD]: what the last run has to look like, whoever made the cgroup.
died_alone() {
    want "$1: the job dies at its own limit" is $code 137
    want "$1: it is told as out of memory by that limit" has "was ${2-}killed by the kernel: out of memory, by the memory limit of 64.0 MiB" "$T/err"
    want "$1: the recording is whole" is "$(ask "$file" "select value from meta where key = 'state'" | tr -d '"')" finished
    want "$1: the recording holds one oom event" is "$(ask "$file" "select count(*) from event where kind = 'oom'")" 1
    want "$1: the limit is that of the job's cgroup" is "$(ask "$file" "select distinct limit_bytes from cgroup where limit_bytes is not null")" 67108864
    want "$1: no stranger was in it" is "$(ask "$file" "select max(strangers) from cgroup")" 0
}
# went_on WHERE STEPS: every step once, by more than one life, and nobody killed.
went_on() {
    want "$1: a job that leaks ends well under the guard" is $code 0
    want "$1: every step is made once, in order" is "$(cat "$T/out/log")" "$(seq 1 "$2")"
    want "$1: it was signalled, saved and began again" least "$(guard life)" 1
    want "$1: as often as it was stopped" is "$(guard stopped)" "$(guard signalled)"
    want "$1: the kernel killed nobody" is "$(ask "$file" "select count(*) from event where kind = 'oom'")" 0
}
guard() { ask "$file" "select count(*) from event where kind = 'guard' and json_extract(data, '$.guard') = '$1'"; }

delegate mine
file=$T/alone.tide
in_cgroup mine actor as 1000 lowtide run --isolate --max 64MiB --interval 100ms --out "$file" -- actor eat 5 2>"$T/err"
code=$?
died_alone "a delegated cgroup"
events=/sys/fs/cgroup/mine/memory.events
want "a delegated cgroup: one kill below it" is "$(count oom_kill $events)" 1
want "a delegated cgroup: and none of its own" is "$(count oom_kill $events.local)" 0
want "a delegated cgroup: nothing is left in it" is "$(find /sys/fs/cgroup/mine -mindepth 1 -type d)" ""
want "a delegated cgroup: it limits nobody any more" is "$(cat /sys/fs/cgroup/mine/cgroup.subtree_control)" ""
show "$T/err"

rm -f "$T"/out/*
file=$T/guard.tide
in_cgroup mine actor as 1000 lowtide run --guard --stop-signal TERM --resume 5 --isolate --max 48MiB --out "$file" \
    -- actor train "$T/out" 80 2>"$T/err"
code=$?
went_on "a delegated cgroup" 80
want "a delegated cgroup: the guard goes by the job's own limit" has 'of 48.0 MiB' "$T/err"
want "a delegated cgroup: still one kill below it" is "$(count oom_kill $events)" 1
show "$T/err"

# Somebody else in the same cgroup: no limits may be set below it, and there is no systemd to help.
in_cgroup mine actor as 1000 actor hold 1 "$T/go" &
until_true there "$T/go.ready"
in_cgroup mine actor as 1000 lowtide run --isolate --max 64MiB --out "$T/shared.tide" -- actor eat 5 2>"$T/err"
code=$?
want "a cgroup with others in it: refused" is $code 2
want "a cgroup with others in it: with its name" has 'cannot make a memory cgroup in /sys/fs/cgroup/mine' "$T/err"
want "a cgroup with others in it: and nothing is left in it" is "$(find /sys/fs/cgroup/mine -mindepth 1 -type d)" ""
touch "$T/go"
until_true grep -q '^populated 0' /sys/fs/cgroup/mine/cgroup.events
show "$T/err"

# Root is not stopped by that: the job goes beside, and does not get around the limit of where it came from.
make_cgroup rooted 64M
in_cgroup rooted actor hold 1 "$T/go2" &
until_true there "$T/go2.ready"
file=$T/beside.tide
in_cgroup rooted lowtide run --isolate --max 1GiB --interval 100ms --out "$file" -- actor eat 5 2>"$T/err"
code=$?
died_alone "beside a shared cgroup"
want "beside a shared cgroup: nobody was killed in it" is "$(count oom_kill /sys/fs/cgroup/rooted/memory.events)" 0
want "beside a shared cgroup: nothing is left" is "$(find /sys/fs/cgroup -maxdepth 1 -name 'lowtide-*')" ""
touch "$T/go2"
until_true grep -q '^populated 0' /sys/fs/cgroup/rooted/cgroup.events
show "$T/err"

# The user's own systemd, in a cgroup that is the user's; the shell is beside it in one that is not, as a login session is.
delegate session
echo +memory >/sys/fs/cgroup/session/cgroup.subtree_control
make_cgroup session/shell max
export XDG_RUNTIME_DIR=/run/user/1000 SYSTEMD_UNIT_PATH=$T/units HOME=/home/user
mkdir -p $XDG_RUNTIME_DIR /run/systemd/system "$T/units"
chown 1000:1000 $XDG_RUNTIME_DIR
chmod 700 $XDG_RUNTIME_DIR
printf '[Unit]\nDefaultDependencies=no\n' >"$T/units/default.target"
mkdir -p /sys/fs/cgroup/session/manager
chown -R 1000:1000 /sys/fs/cgroup/session/manager
in_cgroup session/manager actor as 1000 systemd --user --log-target=console --log-level=info >"$T/systemd" 2>&1 &
until_true there $XDG_RUNTIME_DIR/systemd/private
in_cgroup session/shell actor as 1000 systemd-run --user --scope --quiet -- cat /proc/self/cgroup >"$T/scope" 2>&1
LOOK=$T/systemd want "the user's systemd makes scopes" has '/session/manager/.*scope' "$T/scope"
show "$T/systemd"

file=$T/scope.tide
in_cgroup session/shell actor as 1000 lowtide run --isolate --max 64MiB --interval 100ms --out "$file" -- actor eat 5 2>"$T/err"
code=$?
# systemd removes it with its counter, now and then before anybody can read it.
died_alone "a scope of systemd" '\(likely \)\?'
events=/sys/fs/cgroup/session/shell/memory.events
want "a scope of systemd: nobody was killed where the shell is" is "$(count oom_kill $events)" 0
want "a scope of systemd: the job's cgroup is the scope" has '[.]scope' "$T/err"
show "$T/err"

rm -f "$T"/out/*
file=$T/scope-guard.tide
in_cgroup session/shell actor as 1000 lowtide run --guard --stop-signal TERM --resume 5 --isolate --max 48MiB --out "$file" \
    -- actor train "$T/out" 80 2>"$T/err"
code=$?
went_on "a scope of systemd" 80
show "$T/err"
empty_cgroup session/manager
unset XDG_RUNTIME_DIR SYSTEMD_UNIT_PATH
export HOME=/root
rm -rf /run/systemd
