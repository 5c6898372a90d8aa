#!/usr/bin/env bash
# package_test.sh consumer|mnist_ddp|plugin SOURCE BUILD CMAKE COMPILER
# Installs BUILD into a folder, moves that folder, and builds against it what the first argument says.
set -euo pipefail
what=$1 source=$2 build=$3 cmake=$4 compiler=$5
work=$(mktemp -d "${TMPDIR:-/tmp}/convoy package XXXXXX")  # a path with spaces, on purpose
trap 'rm -rf "$work"' EXIT

fail() {
  echo "package_test: $*" >&2
  exit 1
}

"$cmake" --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved"
package=$work/moved

configure() {
  local folder=$1 into=$2
  shift 2
  local launcher=()
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  "$cmake" -S "$folder" -B "$into" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_PREFIX_PATH="$package" "${launcher[@]}" "$@"
}

# Everything that was installed must do without the build tree and the source tree.
while IFS= read -r -d '' file; do
  if ldd "$file" 2>&1 | grep -e 'not found' -e "$build/"; then
    fail "$file needs a library from the build tree, or one that is nowhere"
  fi
done < <(find "$package" \( -name '*.so*' -o -path '*/bin/*' \) -type f -print0)
if grep -rlF -e "$source/" -e "$build/" "$package/include" "$package"/lib*/cmake 2>/dev/null; then
  fail "these installed files name the source or build tree"
fi

# The program opens the part of it that needs LibTorch by itself, wherever the folder lies.
program() {
  [[ -x $package/bin/convoy ]] || return 0
  "$package/bin/convoy" train --help >"$work/log" 2>&1 || { cat "$work/log"; fail "convoy train --help"; }
  local library status=0
  for library in "$package"/lib*/libconvoy_commands.so.*; do
    [[ -e $library ]] || continue  # layers are static libraries
    mv "$library" "$library.away"
  done
  "$package/bin/convoy" run --help >"$work/log" 2>&1 || { cat "$work/log"; fail "convoy run --help"; }
  if compgen -G "$package/lib*/libconvoy_commands.so.*.away" >/dev/null; then
    "$package/bin/convoy" train --help >"$work/log" 2>&1 || status=$?
    [[ $status == 1 && $(wc -l <"$work/log") == 1 ]] &&
      grep -q "^convoy train: .* can't be opened: libconvoy_commands.so" "$work/log" ||
      { cat "$work/log"; fail "the message about a missing library is not clear (status $status)"; }
    for library in "$package"/lib*/libconvoy_commands.so.*.away; do mv "$library" "${library%.away}"; done
  fi
}

consumer() {
  program
  local here=$source/tests/package/consumer
  configure "$here" "$work/build" >"$work/log" 2>&1 || { cat "$work/log"; fail "configure"; }
  "$cmake" --build "$work/build"
  "$work/build/consumer"

  # A component that does not exist: required it is an error that lists what there is.
  if configure "$here" "$work/bad" -DEXTRA=nonsense >"$work/log" 2>&1; then
    fail "a missing component was accepted"
  fi
  tr -s '\n ' ' ' <"$work/log" | grep -q "no component 'nonsense'. It was built with: base, comm" ||
    { cat "$work/log"; fail "the message about a missing component is not clear"; }
}

mnist_ddp() {
  configure "$source/examples/mnist_ddp" "$work/build" -DCMAKE_BUILD_TYPE=Release >"$work/log" 2>&1 ||
    { cat "$work/log"; fail "configure"; }
  "$cmake" --build "$work/build" -j1
  mkdir "$work/mnist"
  for file in "$source"/data/mnist/*.gz; do
    gzip -dc "$file" >"$work/mnist/$(basename "$file" .gz)"
  done
  "$package/bin/convoy" run -n 2 "$work/build/mnist_ddp" "$work/mnist" 1 | tee "$work/log"
  [[ $(grep -c '^epoch 1: test accuracy 9[6-9]' "$work/log") == 1 ]] ||
    fail "expected one line with an accuracy of at least 96% after one epoch"

  # A LibTorch that is none is refused by name.
  if configure "$source/examples/mnist_ddp" "$work/bad" -DLIBTORCH_ROOT="$work" >"$work/log" 2>&1; then
    fail "a folder without LibTorch was accepted"
  fi
  grep -q 'LIBTORCH_ROOT is' "$work/log" || { cat "$work/log"; fail "unclear message"; }
}

# The run in this folder.
expect_learned() {
  local top1
  top1=$(sed -n '/"kind": "evaluation"/s/.*"top1": \([0-9.e-]*\).*/\1/p' "$1/metrics.jsonl" | tail -n 1)
  awk -v top1="${top1:-0}" 'BEGIN { exit !(top1 >= 0.98) }' ||
    fail "$1: the plugin's network reached '$top1' where at least 0.98 was expected"
}

plugin() {
  # Outside of the source tree: the recipe looks for the plugin in build/ beside it.
  cp -r "$source/examples/plugin" "$work/mine"
  rm -rf "$work/mine/build"
  configure "$work/mine" "$work/mine/build" >"$work/log" 2>&1 || { cat "$work/log"; fail "configure"; }
  "$cmake" --build "$work/mine/build" -j1
  (cd "$work" && "$package/bin/convoy" train mine/plugin.toml -n 2)
  local run=$work/runs/stripes top1
  expect_learned "$run"
  # A layer of its own, divided over two processes: its statement is right.
  (cd "$work" && "$package/bin/convoy" train mine/edges.toml -n 2 2>&1 | tee "$work/log")
  expect_learned "$work/runs/edges"
  if grep -q 'states more of its input' "$work/log"; then fail "the layer 'edges' states too much"; fi
  # A task of its own.
  (cd "$work" && "$package/bin/convoy" train mine/digits.toml -n 2)
  local sum
  sum=$(cd / && "$package/bin/convoy" predict "$work/runs/digits" 123456789 --json - |
    sed -n 's/.*"sum":\([0-9.-]*\).*/\1/p')
  awk -v sum="${sum:-0}" 'BEGIN { exit !(sum > 44 && sum < 46) }' ||
    fail "the sum of 123456789's digits is said to be '$sum'"
  # Of a sequence of its data, on two processes, as when it is typed.
  local answers=$work/answers.jsonl
  (cd / && "$package/bin/convoy" predict "$work/runs/digits" --data -n 2 --json "$answers")
  grep -c '"key":"digits\[[0-9]*\]","sum":[0-9.e-]*}' "$answers" | grep -qx 200 ||
    fail "the 200 sequences are answered with $(head -n 2 "$answers")"
  # A checkpoint knows its plugins, wherever it is used from.
  top1=$(cd / && "$package/bin/convoy" eval "$run" --json - | sed -n 's/.*"top1":\([0-9.e-]*\).*/\1/p')
  awk -v top1="${top1:-0}" 'BEGIN { exit !(top1 >= 0.98) }' ||
    fail "the checkpoint evaluates to '$top1' where at least 0.98 was expected"
}

case $what in
  consumer | mnist_ddp | plugin) $what ;;
  *) fail "unknown test '$what'" ;;
esac
