#!/usr/bin/env bash
# Installs what is missing, builds everything and runs all tests; does only what is left to do.
#
#   build/        everything, with programs in build/bin/
#   build/asan/   the Torch-free layers with the address and undefined-behavior sanitizers
#   build/tsan/   tests of what has threads, with the thread sanitizer; ranks are threads
#   build/mpich/  the comm and preload layers on MPICH, where it is installed
#
# CONVOY_DATA (default: ../shared/data, if it is there) holds data sets that some tests need; those
# say so and are left out without it. JOBS (default: 2) compilations at a time; one that includes Torch takes 1.5 GB of memory.
set -euo pipefail
cd "$(dirname "$0")"
jobs=${JOBS:-2}
began=$SECONDS

step() {
  local minutes=$(((SECONDS - began) / 60)) seconds=$(((SECONDS - began) % 60))
  printf '\n==> [%d:%02d] %s\n' "$minutes" "$seconds" "$*"
}

configure() {
  local folder=$1
  shift
  mkdir -p "$folder"
  cmake -S . -B "$folder" -G Ninja "$@" >"$folder/configure.log" 2>&1 || {
    cat "$folder/configure.log" >&2
    echo "test.sh: cmake could not configure $folder" >&2
    exit 1
  }
}

# Of the folder $1 everything, or the targets that follow.
build() {
  ninja -C "$1" -j "$jobs" "${@:2}"
}

step "set-up"
tools/setup.sh --tests

suites="asan;tsan"
if command -v mpicxx.mpich >/dev/null; then
  suites+=";mpich"
else
  echo "no MPICH here: its suite is left out"
fi
# Debug: assertions stay on. Optimized all the same, since sanitized code is slow; at -O1, which
# compiles in two thirds of the time.
torch_free=(-DCONVOY_TORCH=OFF -DCONVOY_TESTS=ON -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1"
  -DCONVOY_QUICK_BUILD=ON)

step "building build/"
configure build -DCONVOY_TESTS=ON -DCONVOY_TORCH=ON -DCONVOY_EXAMPLES=ON "-DCONVOY_SUITES=$suites"
build build

step "building build/asan: address and undefined-behavior sanitizers"
configure build/asan "${torch_free[@]}" -DCONVOY_SANITIZE=address
build build/asan

step "building build/tsan: thread sanitizer"
configure build/tsan "${torch_free[@]}" -DCONVOY_SANITIZE=thread
build build/tsan tests.threads

if [[ $suites == *mpich* ]]; then
  step "building build/mpich"
  configure build/mpich "${torch_free[@]}" -DCONVOY_MPI=mpich
  build build/mpich tests.comm tests.preload
fi

# The tests of data sets that are too large to be kept here.
if [[ -z ${CONVOY_DATA:-} && -d ../shared/data ]]; then
  CONVOY_DATA=$(cd ../shared/data && pwd)
  export CONVOY_DATA
fi

step "tests; asan, tsan and mpich are suites among them"
exec ctest --test-dir build -j "$jobs" --output-on-failure
