# The calendar clock jumps while a job is recorded: lengths and order stay true, because ticks are on the boot clock.
LOOK=$T/err
lowtide run --interval 100ms --out "$T/clock.tide" -- sh -c 'sleep 1; date -s @2000000000 >/dev/null; sleep 1; date -s @1900000000 >/dev/null; sleep 1' 2>"$T/err"
code=$?
want "the job is not disturbed" is $code 0
seconds=$(ask "$T/clock.tide" "select max(t_ns) / 1000000000 from sample")
want "the recording is about 3 s long" most "$seconds" 30
want "and not shorter" least "$seconds" 2
want "no tick goes back" is "$(ask "$T/clock.tide" "select count(*) from (select t_ns - lag(t_ns) over (partition by process_id order by rowid) d from sample) where d < 0")" 0
