#!/usr/bin/env bash
# Installs what is missing, builds, and tests; does only what is left to do.
#
#   ./test.sh                 the gate: builds what users build, in build/, and runs the tests that are exact and short;
#                             parsers of bytes from outside also with sanitizers, in build/asan-fuzz/
#   ./test.sh --all           also all ranks, long trainings, random kills, measured times, packages, and what is built
#                             with sanitizers, on MPICH and with GCC:
#                               build/asan/   the Torch-free layers, address and undefined-behavior sanitizers
#                               build/tsan/   tests of what has threads, thread sanitizer; ranks are threads
#                               build/mpich/  the Torch-free layers with GCC, on MPICH; tests of comm and preload
#                               gcc           GCC reads the units that need LibTorch, for errors and warnings
#                               single        each unit is read by itself: whether it includes what it needs
#   ./test.sh --soak [N]      after a build: the tests that kill at random moments, and those that read the clock, N times
#                             each (default: 5), with tests/soak/kills.py
#   ./test.sh --changed [REV] after a build: the tests of the layers that differ from REV (default: from what last passed,
#                             or else from HEAD), and an end-to-end test of each layer above them
#
# CONVOY_DATA (default: ../shared/data, if it is there) holds data sets that some tests need; those
# say so and are left out without it, or fail with CONVOY_REQUIRE_ALL=1. JOBS (default: 2) compilations at a time; one that includes Torch takes 1.5 GB of memory.
set -euo pipefail
cd "$(dirname "$0")"
. tools/build_functions.sh

tier=usual revision= times_each=5
case ${1:-} in
  "") ;;
  --all) tier=all ;;
  --soak) tier=soak times_each=${2:-5} ;;
  --changed) tier=changed revision=${2:-} ;;
  -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
  *) echo "test.sh: unknown option '$1'; there are --all, --soak [N], --changed [REV] and --help" >&2; exit 2 ;;
esac
[[ $# -le 1 || ($tier =~ ^(changed|soak)$ && $# == 2) ]] || { echo "test.sh: too many arguments; see --help" >&2; exit 2; }

# What passes is what was there before it was built, whatever is edited meanwhile.
state=$(tools/changed_tests.py --state 2>/dev/null) || state=
# With --changed, only what differs from what has passed adds up to everything.
partial=false
if [[ $tier == changed && (-n $revision || ! -e build/passed) ]]; then partial=true; fi

step "set-up"
tools/setup.sh --tests

# Of tools/flatten_tests.py.
suites=()
if [[ $tier == all ]]; then
  suites=(asan tsan)
  if command -v mpicxx.mpich >/dev/null; then
    suites+=(mpich)
  else
    echo "no MPICH here: its suite is left out"
  fi
elif [[ $tier == usual ]]; then
  suites=(fuzz)
elif [[ $tier == changed ]]; then
  labels=$(tools/changed_tests.py --passed build/passed ${revision:+--since "$revision"})
  if [[ layer.fuzz =~ ${labels:-^$} ]]; then suites=(fuzz); fi
fi
# Debug: assertions stay on. Optimized all the same, since sanitized code is slow; at -O1, which
# compiles in two thirds of the time.
torch_free=(-DCONVOY_TORCH=OFF -DCONVOY_TESTS=ON -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1"
  -DCONVOY_QUICK_BUILD=ON)
readings=
if [[ $tier == all ]]; then readings="gcc;single"; fi

step "building build/"
configure build -DCONVOY_TESTS=ON -DCONVOY_TORCH=ON -DCONVOY_EXAMPLES=ON "-DCONVOY_SUITES=$readings"
build build

for suite in "${suites[@]}"; do
  case $suite in
    asan)
      step "building build/asan: address and undefined-behavior sanitizers"
      configure build/asan "${torch_free[@]}" -DCONVOY_SANITIZE=address
      build build/asan
      ;;
    fuzz)
      step "building build/asan-fuzz: parsers with the same sanitizers"
      configure build/asan-fuzz "${torch_free[@]}" "-DCMAKE_CXX_FLAGS_DEBUG=-O0 -g1" -DCONVOY_SANITIZE=address
      build build/asan-fuzz tests.fuzz
      ;;
    tsan)
      step "building build/tsan: thread sanitizer"
      configure build/tsan "${torch_free[@]}" -DCONVOY_SANITIZE=thread
      build build/tsan tests.threads
      ;;
    mpich)
      step "building build/mpich: GCC, MPICH"
      configure build/mpich "${torch_free[@]}" -DCMAKE_CXX_COMPILER=g++ -DCONVOY_MPI=mpich
      build build/mpich tests.comm tests.preload
      ;;
  esac
done
tools/flatten_tests.py build "${suites[@]}"

# The tests of data sets that are too large to be kept here.
if [[ -z ${CONVOY_DATA:-} && -d ../shared/data ]]; then
  CONVOY_DATA=$(cd ../shared/data && pwd)
  export CONVOY_DATA
fi

# Labels (cmake/ConvoyTargets.cmake): what only --all runs, and what reads the clock.
selection=(--tier gate -LE '^all$')
if [[ $tier == all ]]; then
  selection=(--tier all)
  export CONVOY_TEST_ALL=1 CONVOY_TEST_KILLS=50
elif [[ $tier == soak ]]; then
  step "soak: random kills, and tests that read the clock"
  ctest --test-dir build -j 1 --output-on-failure --no-tests=error --repeat "until-fail:$times_each" \
    -R '^cli_(kill|job_kill|arranged|checkpoint)_test|^soak\.' -LE '^layer\.checks$'
  ctest --test-dir build -j 1 --output-on-failure --no-tests=error --repeat "until-fail:$times_each" -L '^clock$'
  tests/soak/kills.py build/bin/convoy --kills "$((times_each * 10))"
  exit 0
elif [[ $tier == changed ]]; then
  if [[ -z $labels ]]; then
    echo "nothing that tests look at has changed"
    exit 0
  fi
  selection=(--tier part -LE '^all$' -L "$labels")
fi
step "tests${suites:+; among them those of ${suites[*]}}"
# Tests wait for each other and for the disk as long as they compute.
tools/gate.py build -j "$((2 * jobs))" "${selection[@]}"
if [[ -n $state ]] && ! $partial; then tools/changed_tests.py --passed build/passed --remember "$state"; fi
