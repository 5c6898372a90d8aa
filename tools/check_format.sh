#!/usr/bin/env bash
# Checks that the C++ files are as clang-format 14 would write them (.clang-format).
#   tools/check_format.sh         lists files that differ; exit status 1 if there are any
#   tools/check_format.sh --fix   rewrites them
# Other versions of clang-format format some constructs differently, so without version 14 the check
# says so and exits with 77, which ctest shows as skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

fix=false
case ${1:-} in
  '') ;;
  --fix) fix=true ;;
  *) echo "check_format: unknown option '$1'; there is --fix" >&2; exit 2 ;;
esac

formatter=
for candidate in clang-format-14 clang-format; do
  if command -v "$candidate" >/dev/null && "$candidate" --version | grep -q 'version 14\.'; then
    formatter=$candidate
    break
  fi
done
if [[ -z $formatter ]]; then
  echo "check_format: clang-format 14 is not installed; nothing was checked"
  exit 77
fi

# Tracked files; all of them in a tree that is no git checkout (a release archive).
mapfile -d '' files < <(
  git ls-files -z -- '*.h' '*.cc' 2>/dev/null ||
    find include src tests bench examples \( -name '*.h' -o -name '*.cc' \) -print0)
present=()
for file in "${files[@]}"; do
  if [[ -e $file ]]; then present+=("$file"); fi
done
if [[ ${#present[@]} == 0 ]]; then
  echo "check_format: found no C++ files in $PWD" >&2
  exit 2
fi

if $fix; then
  "$formatter" -i "${present[@]}"
  exit
fi
# One process for many files: starting it takes longer than reading a file.
bad=$("$formatter" --dry-run "${present[@]}" 2>&1 | sed -n 's/^\(.*\):[0-9]*:[0-9]*: warning: .*/\1/p' | sort -u)
for file in $bad; do echo "$file: not formatted; run tools/check_format.sh --fix"; done
echo "check_format: ${#present[@]} files, $(wc -w <<<"$bad") not formatted"
[[ -z $bad ]]
