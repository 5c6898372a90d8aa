#!/usr/bin/env bash
# What users build is configured without what only tests need, and tests where there is no Fortran.
set -euo pipefail
cd "$1"
. tools/build_functions.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

configure_program "$scratch/program"
if grep -E '^(CMAKE_Fortran_COMPILER|GTest_DIR|MPIRUN_MPICH):' "$scratch/program/CMakeCache.txt"; then
  echo "the configuration of quickstart.sh looks for what only tests need" >&2
  exit 1
fi
FC=$scratch/none configure "$scratch/tests" -DCONVOY_TESTS=ON
if grep '^CMAKE_Fortran_COMPILER:FILEPATH=/' "$scratch/tests/CMakeCache.txt"; then
  echo "a compiler of Fortran was found where there is none" >&2
  exit 1
fi
