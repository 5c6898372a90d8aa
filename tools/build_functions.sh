# What quickstart.sh and test.sh share; sourced by them, in the project's folder.
jobs=${JOBS:-2}
began=$SECONDS

# Says what comes next, and when.
step() {
  local minutes=$(((SECONDS - began) / 60)) seconds=$(((SECONDS - began) % 60))
  printf '\n==> [%d:%02d] %s\n' "$minutes" "$seconds" "$*"
}

# The compiler of a new build tree: $CXX, or clang 19, which takes half as long as GCC 12 for units that include
# LibTorch, or what CMake finds.
compiler() {
  if [[ -z ${CXX:-} ]] && command -v clang++-19 >/dev/null; then
    echo "-DCMAKE_CXX_COMPILER=clang++-19"
  fi
}

# configure FOLDER ARGUMENTS...: a build tree keeps the compiler that it was made with.
configure() {
  local folder=$1 first=()
  shift
  mkdir -p "$folder"
  if [[ ! -e $folder/CMakeCache.txt && " $*" != *" -DCMAKE_CXX_COMPILER="* ]]; then
    mapfile -t first < <(compiler)
  fi
  cmake -S . -B "$folder" -G Ninja "${first[@]}" "$@" >"$folder/configure.log" 2>&1 || {
    cat "$folder/configure.log" >&2
    local place
    place=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$folder/CMakeCache.txt" 2>/dev/null) || true
    # With tools/at_one_place and without, the same tree has two paths, which CMake takes for two projects.
    if [[ -n $place && $place != "$PWD" ]]; then
      echo "${0##*/}: $folder was made at $place, and this is $PWD: remove it, or go on as it was made" >&2
    fi
    echo "${0##*/}: cmake could not configure $folder" >&2
    exit 1
  }
}

# configure_program FOLDER ARGUMENTS...: what users run, without what only tests need.
configure_program() {
  configure "$1" -DCONVOY_TESTS=OFF "${@:2}"
}

# Of the folder $1 everything, or the targets that follow.
build() {
  ninja -C "$1" -j "$jobs" "${@:2}"
}
