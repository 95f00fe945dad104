# A file system without shared memory (9p): recorded on scratch, whole at the end in the place that was asked for.
LOOK=$T/err
want "9p is mounted" grep -q ' /mnt/share 9p ' /proc/mounts

rm -f /mnt/share/*
lowtide run --interval 100ms --out /mnt/share/run.tide -- actor hold 16 "$T/go" 2>"$T/err" &
recorder=$!
until_true there "$T/go.ready"
want "no write-ahead log is laid on 9p" is "$(ls /mnt/share | grep -c -e -wal -e -shm)" 0
scratch=$(ls /tmp/lowtide-0/*.tide 2>/dev/null | head -n 1)
want "meanwhile it lies on scratch" there "${scratch:-/nowhere}"
want "scratch is mode 600" is "$(stat -c %a "${scratch:-/nowhere}")" 600
samples() { least "$(ask "$scratch" "select count(*) from sample")" 2; }
until_true samples
touch "$T/go"
wait $recorder
code=$?
want "the code is passed on" is $code 0
want "nothing but the recording is left on 9p" is "$(ls /mnt/share)" run.tide
want "scratch is cleaned up" is "$(ls /tmp/lowtide-0/*.tide* 2>/dev/null | wc -l)" 0
cp /mnt/share/run.tide "$T/copy.tide"
want "the recording is sound" is "$(ask "$T/copy.tide" "pragma integrity_check")" ok
want "it holds the job's memory" is "$(ask "$T/copy.tide" "select count(*) > 0 from sample_view where anon_bytes > 15 << 20")" 1
want "lowtide lists it as finished where it lies" is "$(lowtide list --format json /mnt/share | grep -c finished)" 1
want "lowtide exports it from there" is "$(lowtide export --to csv /mnt/share/run.tide | head -n 1 | cut -d, -f1)" t_s
ask "$T/copy.tide" "select text from event" >>"$T/err"
want "somebody is told that it lies on scratch" has '[Ss]cratch\|9p' "$T/err"
show "$T/err"
