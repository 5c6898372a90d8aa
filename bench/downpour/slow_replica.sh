#!/bin/sh
# What one slow replica of four costs: Downpour beside synchronous SGD, on emulated hosts (docs/cluster.md).
#
#   sudo bench/downpour/slow_replica.sh build/bin/convoy recipes/mnist-downpour.toml FOLDER [convoy bench downpour's options]
#
# A replica on each host h0 to h3, each with 20% of a core, and once more with 4% for h3: five times slower. h0 and h1 have 25%
# and 15% on top, for the servers, coordinator and evaluator that run there. Reports: FOLDER/even, FOLDER/slow.
set -eu
trap 'exit 130' INT TERM HUP # else a signal would end it without what stands under EXIT
[ $# -ge 3 ] || { sed -n '2,7p' "$0"; exit 2; }
convoy=$(readlink -f "$1") recipe=$(readlink -f "$2")
mkdir -p "$3"
folder=$(readlink -f "$3")
shift 3
cluster=$(dirname "$(readlink -f "$0")")/../../tools/cluster
hosts=h0,h1,h2,h3
"$convoy" certs "$folder/certs" --hosts $hosts > /dev/null
for kind in even slow; do
  last=20%
  [ $kind = even ] || last=4%
  id=$("$cluster" up --hosts 4 --rate 1gbit --cpu 45%,35%,20%,$last)
  trap '"$cluster" down "$id" > /dev/null 2>&1' EXIT
  "$cluster" exec "$id" switch -- "$convoy" bench downpour "$recipe" --hosts $hosts --certs "$folder/certs" \
    --replicas 4 --folder "$folder/$kind" --json "$folder/$kind.jsonl" "$@"
  "$cluster" down "$id" > /dev/null
  trap - EXIT
done
