#!/usr/bin/env bash
# Runs a command that installs Debian packages, so that it starts none of their services. As root.
#
#   tools/without_services.sh [--folder DIR] COMMAND ARGUMENT...
#
# Whoever starts services of packages asks /usr/sbin/policy-rc.d (in DIR) first. One that is there already
# is left as it is. This one names who is at work, and the last of them removes it; of one that was killed, it
# forbids nothing any more.
set -euo pipefail

folder=/usr/sbin
if [[ ${1:-} == --folder ]]; then folder=$2; shift 2; fi
readonly policy=$folder/policy-rc.d new=$folder/.policy-rc.d-$$ mark='# Of tools/without_services.sh of Convoy'

say() { echo "without_services: $*" >&2; }

# These two are in the policy, too, so they are POSIX. A PID alone may be another process's later: when the process
# has started, and which start of the machine it was. The name that comes first in /proc may hold spaces and ')'.
# shellcheck disable=SC2086
started() {
  set -- "$(cat "/proc/$1/stat" 2>/dev/null)"
  set -- ${1##*) }
  echo "${20:-?} $(cat /proc/sys/kernel/random/boot_id 2>/dev/null || echo '?')"
}
at_work() { kill -0 "$1" 2>/dev/null && [ "$(started "$1")" = "$2" ]; }

# Names those whom the policy named and who are still at work, and with `--me` this process.
write_policy() {
  local lines=() process since mine=false
  if [[ -e $policy ]]; then
    grep -q "^$mark" "$policy" || return 0
    mine=true
    while read -r process since; do
      if [[ $process != "$$" ]] && at_work "$process" "$since"; then
        lines+=("at_work $process '$since' && exit 101")
      fi
    done < <(sed -n "s/^at_work \([0-9]*\) '\(.*\)' && exit 101\$/\1 \2/p" "$policy")
  fi
  if [[ ${1:-} == --me ]]; then lines+=("at_work $$ '$(started $$)' && exit 101"); fi
  if [[ ${#lines[@]} == 0 ]]; then
    rm -f "$policy"
    return
  fi
  { printf '%s\n' '#!/bin/sh' "$mark"
    declare -f started at_work
    printf '%s\n' "${lines[@]}" 'exit 0'; } 2>/dev/null >"$new" && chmod 755 "$new" || return
  # Whole, or not at all; and never over another.
  if $mine; then
    mv -f "$new" "$policy"
  else
    ln "$new" "$policy" 2>/dev/null || [[ -e $policy ]]
  fi
}

# One at a time. The folder itself is locked, so no file is left; where this was stopped on the way, the same
# descriptor gives up the lock it had.
change_policy() {
  local status=0
  { exec 9<"$folder" && flock -w 10 9; } 2>/dev/null ||
    say "$folder can't be locked; should another set-up run now, services of packages may start"
  write_policy "$@" || status=$?
  rm -f "$new"
  exec 9<&-
  return $status
}

clean() {
  trap '' HUP INT QUIT TERM
  change_policy || true
}
stop() {
  local child
  for child in $(jobs -p); do
    kill -s "$1" "$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
  done
  exit 1
}
trap clean EXIT
# shellcheck disable=SC2064
for signal in HUP INT QUIT TERM; do trap "stop $signal" $signal; done

change_policy --me || say "$policy can't be made; services of packages may start"

# Signals are heard while it runs, and it has its input. The background would have it ignore INT and QUIT.
(trap - INT QUIT; exec "$@") <&0 &
wait $!
