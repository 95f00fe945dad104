# What root records, a user may neither read nor follow.
LOOK=$T/err

mkdir -m 755 "$T/open"
lowtide run --interval 100ms --out "$T/open/run.tide" -- actor hold 8 "$T/go" 2>"$T/err" &
recorder=$!
until_true there "$T/go.ready"
job=$(pidof actor)
for file in "$T"/open/run.tide*; do
    want "$(basename "$file") is mode 600" is "$(stat -c %a "$file")" 600
    want "$(basename "$file") cannot be read by a user" refused as_user cat "$file"
done
until_true ls /tmp/lowtide-0/*/control.sock
socket=$(ls /tmp/lowtide-0/*/control.sock | head -n 1)
want "the folder of sockets is mode 700" is "$(stat -c %a /tmp/lowtide-0)" 700
want "the socket is mode 600" is "$(stat -c %a "$socket")" 600
want "root may connect" actor connect "$socket"
want "a user may not connect" refused as_user actor connect "$socket"
chmod 711 /tmp/lowtide-0 "$(dirname "$socket")"
want "a user may not connect even where the folders are opened" refused as_user actor connect "$socket"
chmod 700 /tmp/lowtide-0 "$(dirname "$socket")"
as_user lowtide watch --lines --for 1s --out "$T/seen.tide" "$job" >"$T/err" 2>&1
want "a user's watch does not follow root's recorder" hasnt "following" "$T/err"
show "$T/err"
touch "$T/go"
wait $recorder

lowtide run --quiet -- true
want "the usual folder is mode 700" is "$(stat -c %a $HOME/.local/state/lowtide/runs)" 700
want "a user cannot list root's recordings" refused as_user lowtide list $HOME/.local/state/lowtide/runs
want "a recording in an open folder is refused to a user" refused as_user lowtide export --to csv "$T/open/run.tide"

mkdir -m 1777 "$T/planted"
as_user mkdir "$T/planted/lowtide-0"
TMPDIR=$T/planted lowtide run --out "$T/planted.tide" -- true >"$T/err" 2>&1
want "a folder of sockets that a user planted is not used" is "$(ls "$T/planted/lowtide-0" | wc -l)" 0
