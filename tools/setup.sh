#!/usr/bin/env bash
# Installs what Convoy builds with: Debian or Ubuntu packages (as root or with sudo), and LibTorch in
# a private folder. Does only what is left to do.
#
#   tools/setup.sh            what the programs need
#   tools/setup.sh --tests    also what ./test.sh needs
#   tools/setup.sh --cuda     a LibTorch with CUDA, for GPUs, instead of the one for CPUs (docs/install.md)
#   tools/setup.sh --list     only says what it would add (also with the others); alias --dry-run
#
# CONVOY_DEPS   the private folder (default: ${XDG_CACHE_HOME:-~/.cache}/convoy)
# LIBTORCH_ROOT a LibTorch or Python torch folder of yours: it is used and nothing is fetched
set -euo pipefail

readonly TORCH_VERSION=2.11.0
# What torch 2.11.0 was built with; its libtorch_cpu.so loads these two libraries of CUDA even on a
# machine without a GPU.
readonly TORCH_WHEELS=("torch==$TORCH_VERSION" nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)
# With --cuda, what its libtorch_cuda.so loads besides: the versions that the wheel of torch 2.11.0 asks for. A driver
# that knows CUDA 13.0 is the machine's matter.
readonly CUDA_WHEELS=(nvidia-cudnn-cu13==9.19.0.56 nvidia-cusparselt-cu13==0.8.0 nvidia-nccl-cu13==2.28.9
  nvidia-nvshmem-cu13==3.4.5 nvidia-cublas==13.1.0.3 nvidia-cuda-nvrtc==13.0.88 nvidia-cufft==12.0.0.61
  nvidia-cufile==1.15.1.6 nvidia-curand==10.4.0.35 nvidia-cusolver==12.0.4.66 nvidia-cusparse==12.6.3.3
  nvidia-nvjitlink==13.0.88 nvidia-nvtx==13.0.85)
readonly PACKAGES=(
  g++ clang-19 cmake ninja-build ccache mold git ca-certificates python3 python3-pip
  openmpi-bin libopenmpi-dev openssh-client
  libcli11-dev libspdlog-dev nlohmann-json3-dev libgtest-dev libbenchmark-dev
  libgoogle-perftools-dev libhwloc-dev libtomlplusplus-dev libxxhash-dev libhwy-dev libjpeg-dev libpng-dev
  zlib1g-dev
  libgrpc++-dev libssl-dev libcurl4-openssl-dev libcpp-httplib-dev  # the parameter server
  gnuplot-nox  # draws the pictures of reports
  libvips-tools)  # for libvips.so.42, loaded at run time; the library's own name differs by release
readonly TEST_PACKAGES=(libclang-rt-19-dev llvm-19 gfortran mpich libmpich-dev clang-format-14 iproute2 libsimgrid-dev
  etcd-server prometheus)
# Of these, what tests start is the programs: their services are not wanted.
readonly SERVICES=(etcd-server:etcd prometheus:prometheus)  # package:service
# With these, tests read what Convoy writes (tensorboard alone would bring its server), and check what it brings for
# Kubernetes.
readonly TEST_WHEELS=(tensorboard==2.20.0 protobuf==6.33.0 absl-py==2.3.1 numpy==2.2.6 safetensors==0.8.0
  pillow==12.0.0
  kubernetes-validate==1.37.0 jsonschema==4.26.0 jsonschema-specifications==2025.9.1 referencing==0.37.0
  rpds-py==2026.9.1 attrs==26.1.0 pyyaml==6.0.4 importlib-resources==7.1.0 packaging==26.3
  typing-extensions==4.16.0)

say() { echo "setup: $*"; }

tests=false list=false cuda=false
for argument in "$@"; do
  case $argument in
    --tests) tests=true ;;
    --cuda) cuda=true ;;
    --list | --dry-run) list=true ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "setup: unknown option '$argument'; there are --tests, --cuda, --list, --dry-run and --help" >&2
       exit 2 ;;
  esac
done

# Why installed by name and not probed by command: a package brings headers and libraries, too.
missing_packages() {
  local wanted=("${PACKAGES[@]}") installed
  if $tests; then wanted+=("${TEST_PACKAGES[@]}"); fi
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' 2>/dev/null |
              sed -n 's/^installed //p') || true
  for package in "${wanted[@]}"; do
    grep -qx -F -- "$package" <<<"$installed" || echo "$package"
  done
}

# Says which of these services (package:service) the machine has, be it without a package. `is-enabled` answers where
# systemd does not run, too, as in a container; `cat` does not.
present_services() {
  local service state
  for service in "$@"; do
    state=$(systemctl is-enabled "${service#*:}" 2>/dev/null) || true
    if [[ -n $state && $state != not-found ]]; then echo "$service"; fi
  done
}

# Prints a prefix for commands that need root; fails when there is no way to become it.
root_prefix() {
  if [[ $(id -u) == 0 ]]; then
    echo env
  elif command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
    echo sudo
  else
    return 1
  fi
}

install_packages() {
  local missing as_root
  mapfile -t missing < <(missing_packages)
  if [[ ${#missing[@]} == 0 ]]; then
    say "system packages: all there"
    return
  fi
  if ! command -v apt-get >/dev/null; then
    say "this is not Debian or Ubuntu. Convoy needs what these Debian packages hold: ${missing[*]}"
    say "going on; CMake names what it does not find (see docs/install.md)"
    return
  fi
  if $list; then
    say "would install these system packages: ${missing[*]}"
    return
  fi
  if ! as_root=$(root_prefix); then
    say "not root and no sudo. These system packages are missing: ${missing[*]}"
    say "going on: where modules or your own folders provide them the build finds them"
    say "(docs/install.md); otherwise ask for: apt-get install ${missing[*]}"
    return
  fi
  say "installing system packages: ${missing[*]}"
  $as_root apt-get update -qq
  # Later releases have only newer versions of some tools for tests; the checks then say so.
  local available=()
  for package in "${missing[@]}"; do
    if apt-cache show "$package" >/dev/null 2>&1; then
      available+=("$package")
    else
      say "this release has no package $package; going on without it"
    fi
  done
  if [[ ${#available[@]} == 0 ]]; then return; fi
  local present
  present=$(present_services "${SERVICES[@]}")
  # In a shell of its own, which does the last step also when this fails half-way, or is interrupted.
  (
    trap 'disable_services' EXIT
    $as_root "$(dirname "${BASH_SOURCE[0]}")/without_services.sh" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends "${available[@]}" >/dev/null
  )
}

# For install_packages. The next start of the machine doesn't bring services that came with these packages; what it had
# before is its own.
disable_services() {
  local service
  for service in "${SERVICES[@]}"; do
    if [[ " ${available[*]} " != *" ${service%:*} "* ]] || grep -qxF "$service" <<<"$present"; then continue; fi
    $as_root systemctl disable --quiet "${service#*:}" >/dev/null 2>&1 || true
    $as_root update-rc.d "${service#*:}" disable >/dev/null 2>&1 || true
  done
}

has_libtorch() {
  [[ -e $1/lib/libtorch_cpu.so && -e $1/lib/libc10.so &&
    -e $1/include/torch/csrc/api/include/torch/torch.h ]] || return 1
  ! $cuda || [[ -e $1/lib/libtorch_cuda.so ]]
}

# Removes what a C++ program on CPUs does not load: half of the wheel. With --cuda only what Python alone does.
trim() {
  local folder=$1
  rm -rf "${folder:?}"/{bin,functorch,torchgen}
  find "$folder/torch" -mindepth 1 -maxdepth 1 ! -name include ! -name lib ! -name share \
    -exec rm -rf {} +
  if $cuda; then
    find "$folder/torch/lib" -mindepth 1 -maxdepth 1 -name 'libtorch_python*' -delete
    chmod 755 "$folder"
    return
  fi
  find "$folder/torch/lib" -mindepth 1 -maxdepth 1 \( -name 'libtorch_cuda*' \
    -o -name 'libc10_cuda*' -o -name 'libtorch_nvshmem*' -o -name 'libcaffe2_nvrtc*' \
    -o -name 'libtorch_python*' -o -name 'libtorch.so' -o -name 'libtorch_global_deps*' \
    -o -name 'libshm*' \) -exec rm -rf {} +
  if [[ -d $folder/nvidia ]]; then
    find "$folder/nvidia" -type f ! -name 'libcudart.so.*' ! -name 'libcupti.so.*' -delete
  fi
  find "$folder" -type d -empty -delete
  chmod 755 "$folder"
}

fetch_libtorch() {
  local deps=${CONVOY_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/convoy}
  local home=$deps/torch-$TORCH_VERSION wheels=("${TORCH_WHEELS[@]}") size="600 MB to download, 1 GB unpacked"
  local missing="no lib/libtorch_cpu.so with its headers"
  if $cuda; then
    home+=-cuda
    wheels+=("${CUDA_WHEELS[@]}")
    size="2.5 GB to download, 5 GB unpacked"
    missing="no lib/libtorch_cuda.so, or not the rest of a LibTorch with CUDA"
  fi
  if [[ -n ${LIBTORCH_ROOT:-} ]]; then
    if ! has_libtorch "$LIBTORCH_ROOT"; then
      echo "setup: LIBTORCH_ROOT is $LIBTORCH_ROOT, but that folder holds $missing. Name a LibTorch folder or" \
        "the torch folder of a Python, or unset it." >&2
      exit 2
    fi
    say "LibTorch: yours in $LIBTORCH_ROOT"
    return
  fi
  if has_libtorch "$home/torch"; then
    say "LibTorch: $home"
    return
  fi
  if $list; then
    say "would fetch LibTorch $TORCH_VERSION (about $size) into $home"
    return
  fi
  if ! python3 -m pip --version >/dev/null 2>&1; then
    echo "setup: python3 with pip is needed to fetch LibTorch. Install python3-pip, or name a LibTorch" \
      "of yours: LIBTORCH_ROOT=/path/to/libtorch" >&2
    exit 1
  fi
  mkdir -p "$deps"
  exec 9>"$deps/.lock"  # two set-ups at once: the second finds the work done
  flock 9
  if has_libtorch "$home/torch"; then return; fi
  rm -rf "$deps"/.partial-*  # of a set-up that was killed
  local partial
  partial=$(mktemp -d "$deps/.partial-XXXXXX")
  trap 'rm -rf "'"$partial"'"' EXIT
  say "LibTorch: fetching $TORCH_VERSION (about ${size%%,*}) into $home"
  # The wheel's Python version does not matter to C++; a fixed one gives everybody the same files.
  python3 -m pip install --quiet --no-deps --no-compile --no-cache-dir --disable-pip-version-check \
    --root-user-action ignore --only-binary :all: --python-version 3.12 \
    --target "$partial" "${wheels[@]}"
  trim "$partial"
  if ! has_libtorch "$partial/torch"; then
    echo "setup: of the torch $TORCH_VERSION wheel for this machine ($(uname -m)) there is $missing" >&2
    exit 1
  fi
  rm -rf "$home"
  mv -T "$partial" "$home"
  say "LibTorch: $home ($(du -sh "$home" | cut -f1))"
}

# The folder is the one that tests/golden/packages.py looks for; its number changes with the wheels.
fetch_test_wheels() {
  local deps=${CONVOY_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/convoy} version home partial
  version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || version=3
  home=$deps/python$version-checks-3
  if [[ -d $home ]]; then
    say "Python packages for tests: $home"
    return
  fi
  if $list; then
    say "would fetch Python packages for tests (50 MB to download, 110 MB unpacked) into $home"
    return
  fi
  say "Python packages for tests: fetching ${TEST_WHEELS[*]} into $home"
  mkdir -p "$deps"
  partial=$(mktemp -d "$deps/.partial-XXXXXX")
  if python3 -m pip install --quiet --no-deps --no-compile --no-cache-dir \
      --disable-pip-version-check --root-user-action ignore --only-binary :all: \
      --target "$partial" "${TEST_WHEELS[@]}"; then
    # Of what Kubernetes takes, the oldest and the newest release that tests ask about: all are 100 MB.
    find "$partial" -path '*/kubernetes-json-schema/v*' -prune ! -name 'v1.31.0-local-strict' \
      ! -name 'v1.37.0-local-strict' -exec rm -rf {} +
    chmod 755 "$partial"
    mv -T "$partial" "$home" 2>/dev/null || [[ -d $home ]]  # another set-up was faster
  else
    rm -rf "$partial"
    echo "setup: the Python packages for tests could not be fetched; pip says above why. Try again, or go without" \
      "--tests" >&2
    exit 1
  fi
  rm -rf "$partial"
}

# Of libvips and GLib only the headers: the packages need a hundred others. A test compares with them
# what the sources declare, for the build goes without.
fetch_vips_headers() {
  local deps=${CONVOY_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/convoy} home partial
  home=$deps/vips-headers
  if [[ -d $home || -e /usr/include/vips/vips.h ]]; then
    say "headers of libvips for a test: there"
    return
  fi
  if ! command -v apt-get >/dev/null; then
    say "headers of libvips are fetched from Debian's packages alone; the test that needs them says so and is left out"
    return
  fi
  if $list; then
    say "would fetch the headers of libvips and GLib for a test (2 MB to download) into $home"
    return
  fi
  mkdir -p "$deps"
  partial=$(mktemp -d "$deps/.partial-XXXXXX")
  if (cd "$partial" && apt-get download -qq libvips-dev libglib2.0-dev &&
      for package in ./*.deb; do dpkg-deb -x "$package" all; done) >/dev/null 2>&1; then
    mkdir "$partial/headers"
    cp -r "$partial/all/usr/include/vips" "$partial/all/usr/include/glib-2.0/." "$partial/headers"
    cp "$partial"/all/usr/lib/*/glib-2.0/include/glibconfig.h "$partial/headers"
    mv -T "$partial/headers" "$home" 2>/dev/null || [[ -d $home ]]  # another set-up was faster
    say "headers of libvips for a test: $home"
  else
    rm -rf "$partial"
    echo "setup: libvips-dev and libglib2.0-dev, of which a test needs the headers, could not be downloaded: see" \
      "'apt-get download libvips-dev'" >&2
    exit 1
  fi
  rm -rf "$partial"
}

install_packages
fetch_libtorch
if $tests; then
  fetch_test_wheels
  fetch_vips_headers
fi
