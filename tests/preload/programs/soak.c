/* An MPI program that uses much of what programs do around MPI_Allreduce, for as long as it is told:

     soak SPLITS LARGE_BYTES ROUNDS

   4 threads, each with a communicator of its own, reduce ROUNDS times, with MPI's operations and one
   of the program's, no elements at all now and then; the main thread then splits and frees SPLITS
   communicators, starts processes between, and reduces LARGE_BYTES at once.

   Standard output is the same with any correct MPI_Allreduce: "sum " and a checksum of all results.
   Standard error says what the process keeps after a tenth of the splits and at the end: memory as
   the kernel counts it, mappings of shared memory, open files. Status 1 if a result is wrong. */
#include <dirent.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ranks.h"

enum { kThreads = 4 };
static int rounds = 0;

static uint64_t mix(uint64_t sum, const void* data, size_t bytes) {
  const unsigned char* byte = data;
  for (size_t i = 0; i < bytes; ++i) sum = (sum ^ byte[i]) * 1099511628211u;
  return sum;
}

/* Associative and commutative, and nothing that MPI has: the sum modulo a prime. */
static void add_modulo(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i)
    ((int64_t*)inout)[i] = (((int64_t*)in)[i] + ((int64_t*)inout)[i]) % 1000003;
}

struct worker {
  MPI_Comm comm;
  MPI_Op op;
  int thread;
  uint64_t sum;
};

static void* work(void* argument) {
  struct worker* worker = argument;
  const int rank = rank_in(worker->comm);
  enum { kMost = 60000 };
  double* numbers = malloc(sizeof(double) * kMost);
  int64_t* integers = malloc(sizeof(int64_t) * kMost);
  for (int round = 0; round < rounds; ++round) {
    const int count = round % 5 == 4 ? 0 : (round * 7919 + worker->thread * 104729) % kMost;
    for (int i = 0; i < count; ++i) {
      numbers[i] = (double)((i + round) % 1000 - 500 + rank); /* exact sums */
      integers[i] = (int64_t)i * 31 + rank + round;
    }
    const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN};
    MPI_Allreduce(MPI_IN_PLACE, numbers, count, MPI_DOUBLE, ops[round % 3], worker->comm);
    MPI_Allreduce(MPI_IN_PLACE, integers, count, MPI_INT64_T, round % 2 ? worker->op : MPI_SUM,
                  worker->comm);
    worker->sum = mix(worker->sum, numbers, sizeof(double) * (size_t)count);
    worker->sum = mix(worker->sum, integers, sizeof(int64_t) * (size_t)count);
  }
  free(numbers);
  free(integers);
  return NULL;
}

static uint64_t use_threads(uint64_t sum, MPI_Op op) {
  struct worker workers[kThreads];
  pthread_t handles[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
    workers[i].op = op;
    workers[i].thread = i;
    workers[i].sum = 0;
  }
  for (int i = 0; i < kThreads; ++i) pthread_create(&handles[i], NULL, work, &workers[i]);
  for (int i = 0; i < kThreads; ++i) {
    pthread_join(handles[i], NULL);
    sum = mix(sum, &workers[i].sum, sizeof workers[i].sum);
    MPI_Comm_free(&workers[i].comm);
  }
  return sum;
}

/* A line of /proc/self/status, in KiB. */
static long kernel_says(const char* name) {
  FILE* file = fopen("/proc/self/status", "r");
  char line[256];
  long value = -1;
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, name, strlen(name)) == 0) value = atol(line + strlen(name) + 1);
  }
  fclose(file);
  return value;
}

static int shared_mappings(void) {
  FILE* file = fopen("/proc/self/maps", "r");
  char line[4096];
  int found = 0;
  while (fgets(line, sizeof line, file) != NULL) found += strstr(line, "/dev/shm/") != NULL;
  fclose(file);
  return found;
}

static int open_files(void) {
  DIR* folder = opendir("/proc/self/fd");
  int found = 0;
  while (readdir(folder) != NULL) ++found;
  closedir(folder);
  return found;
}

static void say(const char* when) {
  char line[256];
  snprintf(line, sizeof line,
           "rank %d %s: VmRSS %ld KiB VmHWM %ld KiB mappings %d files %d\n",
           rank_in(MPI_COMM_WORLD), when, kernel_says("VmRSS:"), kernel_says("VmHWM:"),
           shared_mappings(), open_files());
  fputs(line, stderr);
}

static uint64_t split_and_free(uint64_t sum, int splits) {
  enum { kCount = 20000 };
  float* data = malloc(sizeof(float) * kCount);
  for (int i = 0; i < splits; ++i) {
    const int rank = rank_in(MPI_COMM_WORLD);
    /* All ranks in another order, neighbors, or some of them. */
    const int color = i % 3 == 0 ? 0 : i % 3 == 1 ? rank / 2 : rank == 0 ? MPI_UNDEFINED : 1;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, color, i % 2 ? rank : -rank, &comm);
    if (comm != MPI_COMM_NULL) {
      const int count = i % 8 == 0 ? kCount : i % 4;
      for (int k = 0; k < count; ++k) data[k] = (float)(rank + k % 50 + i % 10);
      MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, comm);
      sum = mix(sum, data, sizeof(float) * (size_t)count);
      MPI_Comm_free(&comm);
    }
    if (i % (splits / 10 + 1) == 7) {
      const pid_t child = fork();
      if (child == 0) _exit(0);
      int status = -1;
      waitpid(child, &status, 0);
      CHECK(status == 0);
    }
    if (i == splits / 10) say("begins");
  }
  say("has split");
  free(data);
  return sum;
}

static uint64_t reduce_much(uint64_t sum, size_t bytes) {
  const size_t count = bytes / sizeof(double);
  double* data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) MPI_Abort(MPI_COMM_WORLD, 1);
  const int rank = rank_in(MPI_COMM_WORLD), ranks = size_of(MPI_COMM_WORLD);
  for (size_t i = 0; i < count; ++i) data[i] = (double)(i % 4096) + rank;
  MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  const double ranks_sum = ranks * (ranks - 1) / 2.0;
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) wrong += data[i] != (double)(i % 4096) * ranks + ranks_sum;
  CHECK(wrong == 0);
  sum = mix(sum, data + count - 4096, 4096 * sizeof(double));
  munmap(data, bytes);
  return sum;
}

int main(int argc, char** argv) {
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  if (argc != 4 || level != MPI_THREAD_MULTIPLE) MPI_Abort(MPI_COMM_WORLD, 2);
  rounds = atoi(argv[3]);
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(add_modulo, 1, &op);
  uint64_t sum = use_threads(14695981039346656037u, op);
  sum = split_and_free(sum, atoi(argv[1]));
  sum = reduce_much(sum, (size_t)strtoull(argv[2], NULL, 10));
  say("ends");
  MPI_Op_free(&op);
  uint64_t* sums = malloc(sizeof sum * (size_t)size_of(MPI_COMM_WORLD));
  MPI_Gather(&sum, 1, MPI_UINT64_T, sums, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  if (rank_in(MPI_COMM_WORLD) == 0) {
    for (int i = 0; i < size_of(MPI_COMM_WORLD); ++i)
      printf("sum %016llx\n", (unsigned long long)sums[i]);
  }
  free(sums);
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
