/* MPI_Allreduce of any MPI library, timed as `convoy bench allreduce` times it:

     mpicc -O2 allreduce.c -o allreduce
     mpirun -n 2 ./allreduce 4 65536 16777216 97517568

   For each size in bytes one line of JSON: the median and the spread of 7 repetitions, each of as many
   calls as take 20 ms and as slow as its slowest rank. Sums of floats, in place, checked once. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRepetitions = 7 };

static double time_calls(float* data, int count, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double began = MPI_Wtime();
  for (int i = 0; i < calls; ++i)
    MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  const double mine = (MPI_Wtime() - began) / calls;
  double slowest = 0;
  MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Bcast(&slowest, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return slowest;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void measure(long bytes, int rank, int ranks) {
  const int count = (int)(bytes / (long)sizeof(float));
  float* data = malloc(bytes);
  if (data == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int i = 0; i < count; ++i) data[i] = (float)(i % 7 + rank);
  MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) {
    if (data[i] == (float)(i % 7 * ranks + ranks * (ranks - 1) / 2)) continue;
    fprintf(stderr, "element %d of %d is wrong\n", i, count);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  for (int i = 0; i < count; ++i) data[i] = 0; /* which stays as it is, however often it is summed */
  const double once = time_calls(data, count, bytes > 1 << 20 ? 1 : 20);
  const int calls = once < 0.02 ? (int)(0.02 / once) + 1 : 1;
  double seconds[kRepetitions];
  for (int r = 0; r < kRepetitions; ++r) seconds[r] = time_calls(data, count, calls);
  qsort(seconds, kRepetitions, sizeof(double), ascending);
  if (rank == 0) {
    printf("{\"bytes\": %ld, \"ranks\": %d, \"median_s\": %.4g, \"spread_s\": %.3g}\n", bytes, ranks,
           seconds[kRepetitions / 2], seconds[kRepetitions - 1] - seconds[0]);
    fflush(stdout);
  }
  free(data);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 1; i < argc; ++i) {
    const long bytes = atol(argv[i]);
    if (bytes < (long)sizeof(float)) {
      if (rank == 0) fprintf(stderr, "allreduce: '%s' is no size of 4 bytes or more\n", argv[i]);
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    measure(bytes, rank, ranks);
  }
  MPI_Finalize();
  return 0;
}
