/* What the programs have in common. Each includes it once. */
#pragma once

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int failures = 0; /* checks that do not hold */

#define CHECK(condition) check((condition) != 0, #condition, __FILE__, __LINE__)

static int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

static int size_of(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}

static inline void check(int holds, const char* condition, const char* file, int line) {
  if (holds) return;
  fprintf(stderr, "%s:%d: rank %d: %s does not hold\n", file, line, rank_in(MPI_COMM_WORLD),
          condition);
  ++failures;
}

static inline void* buffer(size_t bytes) {
  void* memory = calloc(bytes + 1, 1);
  if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  return memory;
}
