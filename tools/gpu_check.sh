#!/usr/bin/env bash
# Checks Convoy on this machine's GPUs: builds the program and the tests with the label cuda, runs these, and measures
# training steps. It takes some 6 minutes at most on a machine with 16 cores that has a LibTorch with CUDA; run again, it
# does only what is left to build.
#
#   tools/gpu_check.sh               in build/gpu
#   tools/gpu_check.sh --build DIR   in this build tree, which stays configured as it is where it is there
#   tools/gpu_check.sh --no-build    with what is built; with --build DIR, what is built there
#
# LIBTORCH_ROOT  a LibTorch with CUDA (default: the torch of python3, or that of tools/setup.sh --cuda)
# JOBS           compilations at a time (default: one for each core and 1.5 GiB of free memory)
#
# Exit status: 0, 1 where something failed or there is no GPU, 2 for what the script can't be used with. What was
# measured is also in DIR/gpu-check.jsonl.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=build/gpu building=true
while [[ $# -gt 0 ]]; do
  case $1 in
    --build) folder=${2:?"gpu_check: --build needs a folder"}; shift ;;
    --no-build) building=false ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "gpu_check: unknown option '$1'; there are --build DIR, --no-build and --help" >&2; exit 2 ;;
  esac
  shift
done

# As many compilations as the machine bears: one that includes LibTorch takes 1.5 GiB.
if [[ -z ${JOBS:-} ]]; then
  free=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo)
  JOBS=$(((${free:-0} / 1572864) < $(nproc) ? ${free:-0} / 1572864 : $(nproc)))
  if [[ $JOBS -lt 1 ]]; then JOBS=1; fi
  export JOBS
fi
. tools/build_functions.sh

# The LibTorch with CUDA that is there, or nothing.
find_libtorch() {
  local python private=${CONVOY_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/convoy}
  python=$(python3 -c 'import torch; print(torch.__path__[0])' 2>/dev/null) || python=
  for candidate in "${LIBTORCH_ROOT:-}" "$python" "$private"/torch-*-cuda/torch; do
    if [[ -n $candidate && -e $candidate/lib/libtorch_cuda.so ]]; then
      echo "$candidate"
      return
    fi
  done
}

if $building; then
  LIBTORCH_ROOT=$(find_libtorch)
  if [[ -z $LIBTORCH_ROOT ]]; then
    echo "gpu_check: there is no LibTorch with CUDA here: tools/setup.sh --cuda fetches one, LIBTORCH_ROOT names yours" >&2
    exit 2
  fi
  export LIBTORCH_ROOT
  step "set-up, with LibTorch in $LIBTORCH_ROOT"
  tools/setup.sh --cuda || echo "gpu_check: going on with the packages that are here"
  step "building the program and the tests in $folder, $JOBS compilations at a time"
  if [[ ! -e $folder/build.ninja ]]; then
    configure "$folder" -DCONVOY_TESTS=ON -DCONVOY_EXAMPLES=OFF "-DLIBTORCH_ROOT=$LIBTORCH_ROOT"
  fi
  if ! ninja -C "$folder" -t query tests.cuda >/dev/null 2>&1; then
    echo "gpu_check: $folder was configured with a LibTorch without CUDA: remove it, or name another one with --build" >&2
    exit 2
  fi
  build "$folder" convoy tests.cuda
fi
convoy=$folder/bin/convoy
if [[ ! -x $convoy ]]; then
  echo "gpu_check: there is no $convoy: leave --no-build out" >&2
  exit 2
fi

step "the GPUs"
nvidia-smi -L 2>/dev/null || true
row=$({ "$convoy" doctor --json - || true; } | grep '"CUDA"') || row=
echo "${row:-convoy doctor says nothing of CUDA}"
if ! grep -q '"ok"' <<<"$row"; then
  echo "gpu_check: there is no GPU to check: see the line above" >&2
  exit 1
fi

failed=0
step "tests with the label cuda"
ctest --test-dir "$folder" -L '^cuda$' --output-on-failure --no-tests=error || failed=1

# measure WHAT ARGUMENTS...: ResNet-50 with 64 images a step, together and as independent copies.
measure() {
  local what=$1
  shift
  step "convoy bench step: $what"
  "$convoy" bench step --model resnet50 --batch-per-rank 64 --repetitions 2 --seconds 2 --set device=cuda \
    --json "$folder/gpu-check.row" "$@" || failed=1
  cat "$folder/gpu-check.row" >>"$folder/gpu-check.jsonl" 2>/dev/null || true
  rm -f "$folder/gpu-check.row"
}
: >"$folder/gpu-check.jsonl"
measure "float32"
measure "TF32" --set tf32=true
measure "bfloat16" --precision bfloat16
measure "bfloat16, two ranks" --precision bfloat16 -n 2

step "$([[ $failed == 0 ]] && echo "done: all of it works" || echo "something failed, see above")"
exit "$failed"
