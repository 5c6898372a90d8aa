#!/usr/bin/env bash
# The hash by which plugins are known: what a compiler doesn't see of a header doesn't change it, and all else does.
#
#   tests/checks/plugin_tag_test.sh SOURCE
set -euo pipefail
source=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -r "$source/include" "$scratch/include"

tag_of() {
  cmake -D "HEADERS=$1" -D "OUTPUT=$scratch/tag.h" -P "$source/cmake/PluginTag.cmake"
  sed -n 's/^#define CONVOY_PUBLIC_HEADERS "\(.*\)"$/\1/p' "$scratch/tag.h"
}
expect() {
  if [[ $1 == same && $2 != "$3" || $1 == other && $2 == "$3" ]]; then
    echo "plugin_tag_test: $4: the hash is $2, and was $3" >&2
    exit 1
  fi
}

as_it_is=$(tag_of "$source/include")
[[ $as_it_is =~ ^[0-9a-f]{16}$ ]] || { echo "plugin_tag_test: no hash: '$as_it_is'" >&2; exit 1; }
expect same "$(tag_of "$scratch/include")" "$as_it_is" "in another folder"

header=$scratch/include/convoy/train/task.h
printf '// One more.\n/* And\n   another. */\n\n' | cat - "$header" >"$scratch/new" && mv "$scratch/new" "$header"
sed -i 's/^  virtual/    virtual/' "$header"
expect same "$(tag_of "$scratch/include")" "$as_it_is" "with other comments and spaces"
# Nothing is written that would have a tree compiled anew.
touch -d 2000-01-01 "$scratch/tag.h"
tag_of "$scratch/include" >"$scratch/said"
[[ $(date -r "$scratch/tag.h" +%Y) == 2000 ]] || { echo "plugin_tag_test: written without need" >&2; exit 1; }

sed -i '0,/^    virtual [a-z]/s//    virtual void added() {}\n&/' "$header"
expect other "$(tag_of "$scratch/include")" "$as_it_is" "with one more function"
rm -r "$scratch/include" && cp -r "$source/include" "$scratch/include"
echo '#pragma once' >"$scratch/include/convoy/base/added.h"
expect other "$(tag_of "$scratch/include")" "$as_it_is" "with one more header"
