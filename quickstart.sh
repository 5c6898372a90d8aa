#!/usr/bin/env bash
# From a bare Debian or Ubuntu to a network trained by two workers: installs what is missing, builds
# what that needs in build/, and trains LeNet on MNIST. Run again, it only trains.
#
# JOBS     compilations at a time (default: 2); one that includes Torch takes 1.5 GB of memory
# WORKERS  workers that train (default: 2)
set -euo pipefail
cd "$(dirname "$0")"
. tools/build_functions.sh
workers=${WORKERS:-2}
readonly TARGET=98.5 RUN=build/runs/lenet-mnist

step "set-up"
tools/setup.sh

step "building"
if [[ ! -e build/build.ninja ]]; then configure_program build; fi
build build convoy

step "training LeNet on MNIST with $workers workers"
command=(build/bin/convoy train recipes/lenet-mnist.toml -n "$workers" --overwrite
         --set "output.folder=$RUN")
echo "${command[*]}"
"${command[@]}"

# The last evaluation; "top1" is a part of 1.
accuracy=$(sed -n '/"kind": "evaluation"/s/.*"top1": \([0-9.e-]*\).*/\1/p' "$RUN/metrics.jsonl" |
           awk 'END { if (NR > 0) printf "%.2f", 100 * $1 }')
if ! awk -v got="${accuracy:-0}" -v want="$TARGET" 'BEGIN { exit !(got >= want) }'; then
  echo "quickstart: reached ${accuracy:-no accuracy} where at least $TARGET% was expected" >&2
  exit 1
fi
# Without gnuplot there is no report, and nothing else is missing.
build/bin/convoy report "$RUN" > /dev/null && report=$RUN/report.html || report="needs gnuplot"
build/bin/convoy export "$RUN" "$RUN/weights.safetensors" --overwrite > /dev/null
step "done: $accuracy% of the test images are recognized (expected: at least $TARGET%)"
cat <<END
the recipe             recipes/lenet-mnist.toml; every key: docs/recipes.md
the report             $report, for any browser
metrics                $RUN/metrics.jsonl, for TensorBoard: $RUN/tensorboard
the trained network    $RUN/weights.safetensors (its checkpoints: $RUN/checkpoints)
evaluate it again      build/bin/convoy eval $RUN -n $workers
in a program of yours  examples/mnist_ddp/README.md: nine lines
where to go on         README.md, docs/README.md; ./test.sh runs all tests
END
