# /proc mounted with hidepid=2: other users' processes are not there at all.
LOOK=$T/err

cat >"$T/inside" <<'END'
mount -o remount,hidepid=2 /proc || exit 9
exec actor as 1000 lowtide run --interval 100ms --out "$T/hide.tide" -- sh -c "actor hold 16 $T/go & actor-of-other hold 8 $T/go2 & wait; exit 6"
END
unshare -p -f --mount-proc sh "$T/inside" 2>"$T/err" &
recorder=$!
until_true there "$T/go.ready"
until_true there "$T/go2.ready"
pss() { least "$(ask "$T/hide.tide" "select count(*) from sharing h join sample s on s.id = h.sample_id join process p on p.id = s.process_id where comm = 'actor'")" 1; }
until_true pss
touch "$T/go" "$T/go2"
wait $recorder
code=$?
want "the code is passed on" is $code 6
want "the user's own processes are recorded" is "$(ask "$T/hide.tide" "select count(*) > 0 from sample_view where comm = 'actor' and anon_bytes > 15 << 20")" 1
want "nothing is made up for what is hidden" is "$(ask "$T/hide.tide" "select count(*) from sample_view where comm like 'actor-of%'")" 0
want "the recording is whole" is "$(ask "$T/hide.tide" "select value from meta where key = 'state'" | tr -d '"')" finished
processes "$T/hide.tide"
show "$T/err"
