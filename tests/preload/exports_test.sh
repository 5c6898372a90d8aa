#!/usr/bin/env bash
# exports_test.sh NM LIBRARY MAP: the library defines the symbols of the map for others, and no other.
set -euo pipefail
nm=$1 library=$2 map=$3
shown=$("$nm" -D --defined-only "$library" | awk '{ print $3 }' | sort)
wanted=$(sed -n 's/^ *global: *//p' "$map" | tr -d ' ' | tr ';' '\n' | sed '/^$/d' | sort)
diff <(echo "$wanted") <(echo "$shown") || {
  echo "exports_test: left: $map; right: what $library shows" >&2
  exit 1
}
