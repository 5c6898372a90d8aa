#!/usr/bin/env bash
# What tools/without_services.sh, and tools/setup.sh with it, do to services of packages: nothing is installed.
set -euo pipefail
tools=$1
folder=$(mktemp -d)
# The jobs that are left, too: those of two at once go on until their files come.
trap 'touch "$folder"/end.{a,b} 2>/dev/null; sleep 0.1; kill -s KILL $(jobs -p) 2>/dev/null || true; rm -rf "$folder"' EXIT
policy=$folder/sbin/policy-rc.d
mkdir "$folder/sbin" "$folder/bin"
without=("$tools/without_services.sh" --folder "$folder/sbin")

fail() { echo "without_services_test: $*" >&2; exit 1; }
nothing_left() { [[ -z $(ls -A "$folder/sbin") ]] || fail "$1 left $(ls -A "$folder/sbin")"; }
tries=12000  # with pauses of 0.02 s: for hangs alone
until_there() { for ((i = 0; i < tries; ++i)); do [[ -e $1 ]] && return; sleep 0.02; done; fail "no $1"; }

# Services are forbidden while the command runs, whatever becomes of it.
status=0
"${without[@]}" bash -c "$policy etcd start; echo \$? > $folder/said; exit 7" || status=$?
[[ $status == 7 ]] || fail "the command's status 7 is $status"
[[ $(cat "$folder/said") == 101 ]] || fail "a service may start: $(cat "$folder/said")"
nothing_left "a command that failed"
[[ $(echo word | "${without[@]}" cat) == word ]] || fail "the command has no input"
nothing_left "a command"

# One of somebody else's stays.
printf '#!/bin/sh\nexit 104\n' > "$policy"
chmod 755 "$policy"
"${without[@]}" bash -c "$policy; echo \$? > $folder/said"
[[ $(cat "$folder/said") == 104 ]] || fail "another policy was not asked"
[[ $(tail -1 "$policy") == 'exit 104' ]] || fail "another policy has changed"
rm "$policy"

# So is it when it is told to stop. (Jobs in the background begin with INT and QUIT ignored.)
begin() {
  env --default-signal=INT,QUIT "$@" bash -c "echo \$\$ > $folder/begun; exec sleep 1000" >/dev/null &
  # Only then: bash itself does not hear QUIT.
  for ((i = 0; i < tries; ++i)); do
    if grep -qsx sleep "/proc/$(cat "$folder/begun" 2>/dev/null)/comm"; then return; fi
    sleep 0.02
  done
  fail "no command"
}
ends() {
  local status=0
  kill -s "$1" -- "$2"
  for ((i = 0; i < tries; ++i)); do kill -0 "$3" 2>/dev/null || break; sleep 0.02; done
  if kill -0 "$3" 2>/dev/null; then
    kill -s KILL "$3" "$(cat "$folder/begun")"
    fail "$1 does not end it"
  fi
  wait "$3" || status=$?
  [[ $status != 0 ]] || fail "$1 ends it with 0"
  ! kill -0 "$(cat "$folder/begun")" 2>/dev/null || fail "$1 does not end the command"
  rm "$folder/begun"
  nothing_left "$1"
}
for signal in TERM HUP INT QUIT; do
  begin "${without[@]}"
  ends $signal $! $!
done
begin setsid "${without[@]}"
ends INT -$! $!  # of a terminal, to all of its processes

# One that doesn't hear a signal has a command that doesn't.
status=0
env --ignore-signal=INT "${without[@]}" bash -c 'kill -s INT $$; exit 7' || status=$?
[[ $status == 7 ]] || fail "a command that is not to hear INT: $status"

# Killed, it leaves one that forbids nothing, and that the next one removes.
begin "${without[@]}"
killed=$!
kill -s KILL $killed
wait $killed 2>/dev/null || true
kill "$(cat "$folder/begun")"
rm "$folder/begun"
"$policy" etcd start || fail "what was killed still forbids"
cp "$policy" "$folder/left"
status=0
"${without[@]}" "$policy" || status=$?
[[ $status == 101 ]] || fail "a policy that is left over is in the way: $status"
nothing_left "one that was killed"

# So it is where another process has its PID later: another start, and after a reboot maybe the same.
sleep 1000 >/dev/null 2>&1 &
sed "s/\b$killed\b/$!/" "$folder/left" > "$policy"
chmod 755 "$policy"
"$policy" etcd start || fail "what was killed forbids once another process has its PID"
"${without[@]}" true
nothing_left "one that was killed, of whose PID there is another process,"
kill $!
boot=$(cat /proc/sys/kernel/random/boot_id)
"${without[@]}" bash -c "sed 's/$boot/00000000-of-another/' $policy > $folder/rebooted; chmod 755 $folder/rebooted
  $folder/rebooted; echo \$? > $folder/said; cp $folder/rebooted $policy"
[[ $(cat "$folder/said") == 0 ]] || fail "what was left before a reboot forbids"
"${without[@]}" true
nothing_left "one before a reboot"

# Whatever the process is called.
cp "$(command -v bash)" "$folder/a) S 1 (b"
"$folder/a) S 1 (b" "${without[@]}" bash -c "cp $policy /proc/\$PPID/stat $folder; $policy; echo \$? > $folder/said"
grep -q ' (a) S 1 (b) ' "$folder/stat" || fail "$(cat "$folder/stat")"
[[ $(cat "$folder/said") == 101 ]] || fail "a service may start while one with another name is at work"
start=$(python3 -c 'import sys; print(sys.stdin.read().rsplit(")", 1)[1].split()[19])' < "$folder/stat")
grep -q "\b$start\b" "$folder/policy-rc.d" || fail "not of $start: $(cat "$folder/policy-rc.d")"
nothing_left "one with another name"

# Of two at once, the one that ends first leaves the other one's ban.
for first in a b; do
  for one in a b; do
    "${without[@]}" bash -c "echo > $folder/begun.$one; until [[ -e $folder/end.$one ]]; do sleep 0.02; done" &
    if [[ $one == "$first" ]]; then ends_first=$!; else ends_last=$!; fi
    until_there "$folder/begun.$one"
  done
  touch "$folder/end.$first"
  wait "$ends_first"
  status=0
  "$policy" etcd start || status=$?
  touch "$folder"/end.{a,b}
  wait "$ends_last"
  [[ $status == 101 ]] || fail "services may start while the other one of two is at work: $status"
  nothing_left "two at once"
  rm "$folder"/{begun,end}.{a,b}
done
all=()
for ((one = 0; one < 16; ++one)); do
  "${without[@]}" bash -c "sleep 0.0$((one % 4)); exec $policy" &
  all+=($!)
done
for one in "${all[@]}"; do
  status=0
  wait "$one" || status=$?
  [[ $status == 101 ]] || fail "services may start while one of many is at work: $status"
done
nothing_left "many at once"

# Where it can't forbid, or can't know that it is alone, it says so and goes on.
mkdir "$folder/none"
for program in flock ln; do
  printf '#!/bin/sh\nexit 1\n' > "$folder/none/$program"
  chmod 755 "$folder/none/$program"
  out=$(PATH=$folder/none:$PATH "${without[@]}" echo ran 2>"$folder/said") ||
    fail "without $program: $(cat "$folder/said")"
  [[ $out == ran ]] || fail "without $program it runs nothing"
  grep -q '^without_services: ' "$folder/said" || fail "it does not say that it is without $program"
  nothing_left "one without $program"
  rm "$folder/none/$program"
done
out=$("$tools/without_services.sh" --folder "$folder/nowhere" echo ran 2>"$folder/said") ||
  fail "without a folder: $(cat "$folder/said")"
[[ $out == ran ]] || fail "without a folder it runs nothing"
grep -q 'services .* may start' "$folder/said" || fail "it does not say that it has no folder"
"${without[@]}" true 2>"$folder/said"
[[ ! -s $folder/said ]] || fail "it says $(cat "$folder/said")"

# The set-up installs in this way, and disables the services of what it has installed, no others.
for program in dpkg-query apt-get apt-cache systemctl update-rc.d sudo; do
  cat > "$folder/bin/$program" <<'END'
#!/bin/bash
if [[ ${0##*/} == sudo ]]; then
  if [[ $1 == -n ]]; then shift; fi
  exec "$@"
fi
echo "${0##*/} $* (of $(ps -o args= $PPID))" >> "$NOTES"
if [[ ${0##*/} == apt-get && $1 == install && -n ${FAILS:-} ]]; then
  if [[ $FAILS == INT ]]; then kill -s INT -- "-$(ps -o pgid= $$ | tr -d ' ')"; sleep 5; fi
  exit 100
fi
if [[ ${0##*/} == dpkg-query && -n ${INSTALLED:-} ]]; then printf 'installed %s\n' $INSTALLED; fi
if [[ ${0##*/} == systemctl && $1 == is-enabled ]]; then
  if [[ " ${UNITS:-} " == *" $2 "* ]]; then echo disabled; else echo not-found; fi
  exit 1
fi
END
  chmod 755 "$folder/bin/$program"
done
mkdir -p "$folder/torch/lib" "$folder/torch/include/torch/csrc/api/include/torch"
touch "$folder/torch/lib/libtorch_cpu.so" "$folder/torch/lib/libc10.so" \
  "$folder/torch/include/torch/csrc/api/include/torch/torch.h"
mkdir "$folder/tools"
cp "$tools/setup.sh" "$folder/tools"
sed "s|^folder=/usr/sbin|folder=$folder/sbin|" "$tools/without_services.sh" > "$folder/tools/without_services.sh"
chmod 755 "$folder/tools/without_services.sh"
python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
mkdir -p "$folder/deps/python$python-checks-3" "$folder/deps/vips-headers"
setup() {
  : > "$folder/notes"
  env PATH="$folder/bin:$PATH" NOTES="$folder/notes" CONVOY_DEPS="$folder/deps" LIBTORCH_ROOT="$folder/torch" \
    "$folder/tools/setup.sh" --tests >"$folder/out" 2>&1 || fail "$(cat "$folder/out")"
}
setup
grep -q 'apt-get install .* etcd-server .*(of .*without_services' "$folder/notes" || fail "$(cat "$folder/notes")"
grep -q 'systemctl disable --quiet etcd ' "$folder/notes" || fail "etcd is not disabled"
grep -q 'update-rc.d prometheus disable ' "$folder/notes" || fail "prometheus is not disabled"
INSTALLED='etcd-server prometheus' setup
if grep -q 'disable' "$folder/notes"; then fail "what was there before is disabled"; fi
UNITS=etcd setup
if grep -Eq '(disable .*etcd|etcd disable)' "$folder/notes"; then fail "a service of the machine's own is disabled"; fi
grep -q 'systemctl disable --quiet prometheus ' "$folder/notes" || fail "prometheus is not disabled beside it"
nothing_left "the set-up"
# Also when the installation fails after a package with a service, or is interrupted there.
for how in failure INT; do
  : > "$folder/notes"
  status=0
  env --default-signal=INT PATH="$folder/bin:$PATH" NOTES="$folder/notes" CONVOY_DEPS="$folder/deps" \
    LIBTORCH_ROOT="$folder/torch" FAILS=$how setsid --wait "$folder/tools/setup.sh" --tests >"$folder/out" 2>&1 || status=$?
  [[ $status != 0 ]] || fail "an installation that fails ($how) ends with 0"
  grep -q 'systemctl disable --quiet etcd ' "$folder/notes" || fail "etcd is not disabled after $how"
  nothing_left "a set-up that failed ($how)"
done
