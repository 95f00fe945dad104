# A setuid program in the job: what may not be read of it is left out and said, the rest is recorded.
LOOK=$T/err

file=$T/setuid.tide
as_user lowtide run --interval 100ms --out "$file" -- sh -c "actor hold 16 $T/go & actor-of-other hold 24 $T/go2 & wait" 2>"$T/err" &
recorder=$!
until_true there "$T/go.ready"
until_true there "$T/go2.ready"
other=$(pidof actor-of-other)
note "uid of the second: $(awk '/^Uid/ { print $2, $3 }' "/proc/$other/status"), its folder belongs to $(stat -c %u "/proc/$other")"
pss() { least "$(ask "$file" "select count(*) from sharing h join sample s on s.id = h.sample_id join process p on p.id = s.process_id where comm = 'actor'")" 1; }
until_true pss
touch "$T/go" "$T/go2"
wait $recorder
code=$?
want "the job's code is passed on" is $code 0
want "the second user's process is in the recording" is "$(ask "$file" "select count(*) from process where comm like 'actor-of%'")" 1
want "its memory is recorded" is \
    "$(ask "$file" "select count(*) > 0 from sample_view where comm like 'actor-of%' and anon_bytes > 23 << 20")" 1
want "its sharing is unknown, not nought" is "$(ask "$file" "select count(*) from sample_view where comm like 'actor-of%' and pss_bytes is not null")" 0
want "the user's own process has its sharing" is "$(ask "$file" "select count(*) > 0 from sample_view where comm = 'actor' and pss_bytes > 15 << 20")" 1
want "the recording says what was denied" is \
    "$(ask "$file" "select count(*) > 0 from event e join process p on p.id = e.process_id where e.kind = 'unreadable' and comm like 'actor-of%' and text like '%denied%'")" 1
processes "$file"
show "$T/err"
