#!/usr/bin/env bash
# From a bare Debian or Ubuntu to a network trained by two workers: installs what is missing, builds
# what that needs in build/, and trains LeNet on MNIST. Run again, it only trains.
#
# JOBS     compilations at a time (default: 2); one that includes Torch takes 1.5 GB of memory
# WORKERS  workers that train (default: 2)
set -euo pipefail
cd "$(dirname "$0")"
jobs=${JOBS:-2} workers=${WORKERS:-2}
readonly EPOCHS=3 TARGET=98.5
data=build/data/mnist
began=$SECONDS

step() {
  local minutes=$(((SECONDS - began) / 60)) seconds=$(((SECONDS - began) % 60))
  printf '\n==> [%d:%02d] %s\n' "$minutes" "$seconds" "$*"
}

step "set-up"
tools/setup.sh

step "building"
mkdir -p build
if [[ ! -e build/build.ninja ]]; then
  cmake -S . -B build -G Ninja >build/configure.log 2>&1 || {
    cat build/configure.log >&2
    exit 1
  }
fi
ninja -C build -j "$jobs" convoy mnist_ddp

if [[ ! -d $data ]]; then
  step "unpacking MNIST"
  rm -rf "$data.partial"
  mkdir -p "$data.partial"
  for file in data/mnist/*.gz; do
    gzip -dc "$file" >"$data.partial/$(basename "$file" .gz)"
  done
  mv -T "$data.partial" "$data"
fi

step "training LeNet on MNIST with $workers workers, $EPOCHS epochs"
command=(build/bin/convoy run -n "$workers" build/bin/mnist_ddp "$data" "$EPOCHS")
echo "${command[*]}"
log=build/quickstart.log
"${command[@]}" | tee "$log"

accuracy=$(sed -n "s/^epoch $EPOCHS: test accuracy \([0-9.]*\)%.*/\1/p" "$log")
if ! awk -v got="${accuracy:-0}" -v want="$TARGET" 'BEGIN { exit !(got >= want) }'; then
  echo "quickstart: reached ${accuracy:-no accuracy} where at least $TARGET% was expected" >&2
  exit 1
fi
step "done: $accuracy% of the test images are recognized (expected: at least $TARGET%)"
cat <<END
the program you ran    examples/mnist_ddp/mnist_ddp.cc, built as build/bin/mnist_ddp
what made it parallel  examples/mnist_ddp/README.md: nine lines
the output             $log
where to go on         README.md, docs/README.md; ./test.sh runs all tests
END
