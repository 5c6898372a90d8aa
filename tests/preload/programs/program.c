/* An MPI program that knows nothing of Convoy. Its argument says which part of MPI_Allreduce it uses:

     program CASE

   Every case checks its own results against MPI_Reduce and MPI_Bcast, which nobody takes over, and
   ends with status 1 if one is wrong. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ranks.h"

static const char* program = "";

/* --- Numbers of every type. Sums of them are exact in each, in any order. --- */

enum number { F32, F64, I32, I64, U32, U64, C64, C128 };

struct type {
  MPI_Datatype mpi;
  enum number number;
};

static void fill(void* data, enum number number, int count, int rank) {
  for (int i = 0; i < count; ++i) {
    const int value = (i * 7 + rank * 13) % 201 - 100;
    switch (number) {
      case F32: ((float*)data)[i] = 0.5f * (float)value; break;
      case F64: ((double*)data)[i] = 0.25 * value; break;
      case I32: ((int32_t*)data)[i] = value; break;
      case I64: ((int64_t*)data)[i] = (int64_t)value * 0x200000001; break;
      case U32: ((uint32_t*)data)[i] = 0xfffffff0u + (uint32_t)i * 3u; break;
      case U64: ((uint64_t*)data)[i] = ~(uint64_t)0 - (uint64_t)(i + rank); break;
      case C64:
        ((float*)data)[2 * i] = (float)value;
        ((float*)data)[2 * i + 1] = (float)-i;
        break;
      case C128:
        ((double*)data)[2 * i] = value;
        ((double*)data)[2 * i + 1] = i;
        break;
    }
  }
}

/* Whether MPI_Allreduce gives what MPI_Reduce and MPI_Bcast give. */
static void compare(struct type type, MPI_Op op, int count, int in_place, MPI_Comm comm) {
  int width = 0;
  MPI_Type_size(type.mpi, &width);
  const size_t bytes = (size_t)width * (size_t)count;
  void* send = buffer(bytes);
  void* got = buffer(bytes);
  void* want = buffer(bytes);
  fill(send, type.number, count, rank_in(comm));
  void* before = buffer(bytes);
  memcpy(before, send, bytes);
  MPI_Reduce(send, want, count, type.mpi, op, 0, comm);
  MPI_Bcast(want, count, type.mpi, 0, comm);
  if (in_place) {
    memcpy(got, send, bytes);
    CHECK(MPI_Allreduce(MPI_IN_PLACE, got, count, type.mpi, op, comm) == MPI_SUCCESS);
  } else {
    CHECK(MPI_Allreduce(send, got, count, type.mpi, op, comm) == MPI_SUCCESS);
  }
  CHECK(memcmp(got, want, bytes) == 0);
  CHECK(memcmp(before, send, bytes) == 0);
  free(send);
  free(got);
  free(want);
  free(before);
}

static const struct type kFloat = {MPI_FLOAT, F32};

static void small_and_large(MPI_Comm comm) {
  compare(kFloat, MPI_SUM, 3, 0, comm);
  compare(kFloat, MPI_SUM, 50001, 0, comm);
  compare(kFloat, MPI_MAX, 50001, 1, comm);
}

/* --- The cases --- */

/* Types and operations that Convoy has. The driver makes the rules leave up to 4 KiB to MPI. */
static void results(void) {
  const struct type signed_types[] = {
      {MPI_FLOAT, F32},    {MPI_DOUBLE, F64},  {MPI_INT, I32},      {MPI_LONG, I64},
      {MPI_LONG_LONG, I64}, {MPI_INT32_T, I32}, {MPI_INT64_T, I64},  {MPI_REAL, F32},
      {MPI_REAL8, F64},    {MPI_INTEGER, I32}, {MPI_DOUBLE_PRECISION, F64}};
  const struct type sum_only[] = {{MPI_UNSIGNED, U32},  {MPI_UNSIGNED_LONG, U64},
                                  {MPI_UINT64_T, U64},  {MPI_C_FLOAT_COMPLEX, C64},
                                  {MPI_COMPLEX, C64},   {MPI_DOUBLE_COMPLEX, C128}};
  const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN};
  const int counts[] = {1, 1025, 30011};
  int taken = 0, calls = 0;
  for (int in_place = 0; in_place < 2; ++in_place) {
    for (size_t c = 0; c < 3; ++c) {
      for (size_t t = 0; t < sizeof signed_types / sizeof *signed_types; ++t) {
        for (size_t o = 0; o < 3; ++o, ++calls, taken += counts[c] > 1)
          compare(signed_types[t], ops[o], counts[c], in_place, MPI_COMM_WORLD);
      }
      for (size_t t = 0; t < sizeof sum_only / sizeof *sum_only; ++t, ++calls, taken += counts[c] > 1)
        compare(sum_only[t], MPI_SUM, counts[c], in_place, MPI_COMM_WORLD);
    }
  }
  if (rank_in(MPI_COMM_WORLD) == 0) printf("expected: %d of %d\n", size_of(MPI_COMM_WORLD) > 1 ? taken : 0, calls);
}

/* Ranks name one type by different handles. */
static void mixed_handles(void) {
  const int count = 20000, odd = rank_in(MPI_COMM_WORLD) % 2;
  int* data = buffer(sizeof(int) * (size_t)count);
  for (int i = 0; i < count; ++i) data[i] = i + rank_in(MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, data, count, odd ? MPI_INT32_T : MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) CHECK(data[i] == i + size_of(MPI_COMM_WORLD) - 1);
  free(data);
#ifdef OPEN_MPI /* MPICH 4.0 has no sum of what MPI_Type_create_f90_real makes */
  MPI_Datatype made = MPI_DATATYPE_NULL;
  MPI_Type_create_f90_real(15, 307, &made);
  double* numbers = buffer(sizeof(double) * (size_t)count);
  for (int i = 0; i < count; ++i) numbers[i] = i;
  MPI_Allreduce(MPI_IN_PLACE, numbers, count, odd ? made : MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) CHECK(numbers[i] == (double)i * size_of(MPI_COMM_WORLD));
  free(numbers);
#endif
}

static int copies = 0;
static int count_copy(MPI_Comm comm, int keyval, void* extra, void* in, void* out, int* flag) {
  (void)comm, (void)keyval, (void)extra;
  ++copies;
  *(void**)out = in;
  *flag = 1;
  return MPI_SUCCESS;
}

static void communicators(void) {
  const int rank = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(count_copy, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
  MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, &copies);
  small_and_large(MPI_COMM_WORLD);
  small_and_large(MPI_COMM_SELF);
  CHECK(copies == 0); /* Convoy's communicators are no copies */

  MPI_Comm reversed = MPI_COMM_NULL, half = MPI_COMM_NULL, twin = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &reversed);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Comm_dup(MPI_COMM_WORLD, &twin);
  CHECK(copies == 1);
  for (int round = 0; round < 3; ++round) {
    small_and_large(reversed);
    small_and_large(half);
    small_and_large(twin);
  }
  MPI_Comm_free(&twin);
  /* Ranks may free in any order, as long as MPI's own libraries do: nobody waits here. */
  if (rank % 2 == 0) {
    MPI_Comm_free(&half);
    MPI_Comm_free(&reversed);
  } else {
    MPI_Comm_free(&reversed);
    MPI_Comm_free(&half);
  }
  for (int round = 0; round < 20; ++round) { /* their handles are used again */
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    small_and_large(twin);
    MPI_Comm_free(&twin);
  }
  MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
  /* One is left for MPI_Finalize. */
  MPI_Comm_dup(MPI_COMM_WORLD, &twin);
  small_and_large(twin);
}

static void first_wins(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) ((float*)inout)[i] = ((float*)in)[i];
}

static void sum_pairs(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < 2 * *count; ++i) ((float*)inout)[i] += ((float*)in)[i];
}

/* What Convoy has no reduction for. None of it is taken over. */
static void left(void) {
  const int rank = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
  enum { kCount = 100000 };
  float* send = buffer(sizeof(float) * kCount);
  float* got = buffer(sizeof(float) * kCount);
  for (int i = 0; i < kCount; ++i) send[i] = (float)(rank + 1);

  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(first_wins, 0, &op);
  MPI_Allreduce(send, got, kCount, MPI_FLOAT, op, MPI_COMM_WORLD);
  CHECK(got[0] == 1 && got[kCount - 1] == 1);
  MPI_Op_free(&op);

  MPI_Datatype pair = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, MPI_FLOAT, &pair);
  MPI_Type_commit(&pair);
  MPI_Op_create(sum_pairs, 1, &op);
  MPI_Allreduce(send, got, kCount / 2, pair, op, MPI_COMM_WORLD);
  CHECK(got[kCount - 1] == (float)(size * (size + 1) / 2));
  MPI_Type_free(&pair);
  MPI_Op_free(&op);

  compare((struct type){MPI_INT, I32}, MPI_BOR, kCount, 0, MPI_COMM_WORLD);
  compare((struct type){MPI_INT, I32}, MPI_PROD, kCount, 0, MPI_COMM_WORLD);
  compare((struct type){MPI_UNSIGNED, U32}, MPI_MAX, kCount, 0, MPI_COMM_WORLD);
  compare((struct type){MPI_UINT64_T, U64}, MPI_MIN, kCount, 1, MPI_COMM_WORLD);
  compare((struct type){MPI_2INT, I64}, MPI_MAXLOC, kCount, 0, MPI_COMM_WORLD);
  MPI_Allreduce(send, got, 0, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, NULL, 0, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  compare(kFloat, MPI_SUM, kCount, 0, MPI_COMM_SELF);

  MPI_Request request;
  MPI_Iallreduce(send, got, kCount, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(got[5] == (float)(size * (size + 1) / 2));

  if (size > 1) {
    MPI_Comm half = MPI_COMM_NULL, between = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 7, &between);
    for (int round = 0; round < 2; ++round) {
      MPI_Allreduce(send, got, kCount, MPI_FLOAT, MPI_SUM, between);
      CHECK(got[9] == (rank == 0 ? (float)(size * (size + 1) / 2 - 1) : 1.0f));
    }
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
  }
  free(send);
  free(got);
}

struct worker {
  MPI_Comm comm;
  int thread;
};

static void* work(void* argument) {
  const struct worker* worker = argument;
  const int size = size_of(worker->comm);
  for (int round = 0; round < 20; ++round) {
    MPI_Comm comm = worker->comm;
    const int fresh = round % 5 == 4; /* communicators come and go beside each other */
    if (fresh) MPI_Comm_dup(worker->comm, &comm);
    const int count = 20000 + 5000 * worker->thread + round;
    double* data = buffer(sizeof(double) * (size_t)count);
    for (int i = 0; i < count; ++i) data[i] = worker->thread + i;
    MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_DOUBLE, MPI_SUM, comm);
    int wrong = 0;
    for (int i = 0; i < count; ++i) wrong += data[i] != (double)size * (worker->thread + i);
    CHECK(wrong == 0);
    free(data);
    if (fresh) MPI_Comm_free(&comm);
  }
  return NULL;
}

static void threads(void) {
  enum { kThreads = 4 };
  struct worker workers[kThreads];
  pthread_t handles[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
    workers[i].thread = i;
  }
  for (int i = 0; i < kThreads; ++i) pthread_create(&handles[i], NULL, work, &workers[i]);
  for (int i = 0; i < kThreads; ++i) pthread_join(handles[i], NULL);
  for (int i = 0; i < kThreads; ++i) MPI_Comm_free(&workers[i].comm);
}

static void print_class(const char* what, int error) {
  int class = MPI_SUCCESS;
  if (error != MPI_SUCCESS) MPI_Error_class(error, &class);
  if (rank_in(MPI_COMM_WORLD) == 0) printf("%s: class %d\n", what, class);
}

/* Mistakes of the program: MPI has to say the same with and without Convoy. */
static void errors(void) {
  enum { kCount = 50000 };
  float* data = buffer(sizeof(float) * kCount);
  float* other = buffer(sizeof(float) * kCount);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm world = MPI_COMM_WORLD;
  for (int round = 0; round < 2; ++round) { /* before and after a call that was taken over */
    print_class("no operation", MPI_Allreduce(data, other, kCount, MPI_FLOAT, MPI_OP_NULL, world));
    print_class("no type", MPI_Allreduce(data, other, kCount, MPI_DATATYPE_NULL, MPI_SUM, world));
    print_class("a type that can't be added",
                MPI_Allreduce(data, other, kCount, MPI_BYTE, MPI_SUM, world));
#ifdef OPEN_MPI /* MPICH 4.0 crashes, with and without Convoy */
    print_class("a negative count", MPI_Allreduce(data, other, -1, MPI_FLOAT, MPI_SUM, world));
#endif
    print_class("one buffer twice", MPI_Allreduce(data, data, kCount, MPI_FLOAT, MPI_SUM, world));
    print_class("no communicator",
                MPI_Allreduce(data, other, kCount, MPI_FLOAT, MPI_SUM, MPI_COMM_NULL));
    compare(kFloat, MPI_SUM, kCount, 0, MPI_COMM_WORLD);
  }
  free(data);
  free(other);
}

/* Ranks give different counts, which MPI does not allow. */
static void mismatch(void) {
  const int count = rank_in(MPI_COMM_WORLD) == 0 ? 50000 : 60000;
  float* data = buffer(sizeof(float) * 60000);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  free(data); /* not reached */
}

/* MPI has no communicator left to give. */
static void exhausted(void) {
  MPI_Comm twin = MPI_COMM_NULL;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  while (MPI_Comm_dup(MPI_COMM_WORLD, &twin) == MPI_SUCCESS) continue;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  small_and_large(MPI_COMM_WORLD);
}

static int reduce_at_the_end(MPI_Comm comm, int keyval, void* value, void* extra) {
  (void)comm, (void)keyval, (void)value, (void)extra;
  small_and_large(MPI_COMM_WORLD);
  if (failures != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  return MPI_SUCCESS;
}

/* As libraries for files do: a call inside of MPI_Finalize, from the end of MPI_COMM_SELF. */
static void at_the_end(void) {
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, reduce_at_the_end, &keyval, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
  small_and_large(MPI_COMM_WORLD);
}

/* Longer than Convoy's own worlds wait before they ask each other. */
static void late(void) {
  if (rank_in(MPI_COMM_WORLD) == 0) sleep(4);
  small_and_large(MPI_COMM_WORLD);
}

/* While rank 0 waits in MPI_Allreduce, its message to rank 1 must go on: rank 1 waits for that. */
static void progress(void) {
  enum { kBytes = 16 << 20 };
  const int counts[] = {50000, 3};
  char* message = buffer(kBytes);
  float* numbers = buffer(sizeof(float) * 50000);
  for (int round = 0; round < 6; ++round) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank_in(MPI_COMM_WORLD) == 0) MPI_Isend(message, kBytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
    if (rank_in(MPI_COMM_WORLD) == 1) {
      usleep(50000); /* rank 0 has given up spinning by then */
      MPI_Recv(message, kBytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    /* No other call that could help: compare() has some. */
    MPI_Allreduce(MPI_IN_PLACE, numbers, counts[round % 2], MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  free(message);
  free(numbers);
}

/* --- Communicators that come and go in unusual ways --- */

static int reduce_on_it(MPI_Comm comm, int keyval, void* value, void* extra) {
  (void)keyval, (void)extra;
  ++*(int*)value;
  small_and_large(comm);
  return MPI_SUCCESS;
}

/* A call on a communicator from a delete callback of an attribute of it, before or after Convoy's. */
static void attributes(void) {
  int keyval = MPI_KEYVAL_INVALID, called = 0;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, reduce_on_it, &keyval, NULL);
  for (int way = 0; way < 6; ++way) {
    MPI_Comm twin = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    if (way % 3 == 0) MPI_Comm_set_attr(twin, keyval, &called);
    if (way % 3 < 2) small_and_large(twin);
    if (way % 3 != 0) MPI_Comm_set_attr(twin, keyval, &called);
    if (way < 3)
      MPI_Comm_free(&twin);
    else
      MPI_Comm_disconnect(&twin);
    CHECK(called == way + 1);
  }
  /* On one that goes on, it is a call like any other. */
  MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, &called);
  MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
  CHECK(called == 7);
  MPI_Comm_free_keyval(&keyval);
}

/* Processes of another job, which may or may not have the library, in one communicator with ours. */
static void spawn(void) {
  MPI_Comm parent = MPI_COMM_NULL, between = MPI_COMM_NULL, all = MPI_COMM_NULL;
  MPI_Comm_get_parent(&parent);
  small_and_large(MPI_COMM_WORLD);
  if (parent == MPI_COMM_NULL) {
    char* arguments[] = {"spawn", NULL};
    MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between,
                   MPI_ERRCODES_IGNORE);
  } else {
    between = parent;
  }
  MPI_Intercomm_merge(between, parent != MPI_COMM_NULL, &all);
  CHECK(size_of(all) == 4);
  for (int round = 0; round < 3; ++round) small_and_large(all);
  small_and_large(MPI_COMM_WORLD);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&between);
}

/* Where Convoy frees what it has made for a communicator. */
static int say_what_ends = 0;
int PMPI_Comm_delete_attr(MPI_Comm comm, int keyval) {
  if (say_what_ends) {
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    MPI_Comm_get_name(comm, name, &length);
    printf("rank %d ends %s\n", rank_in(MPI_COMM_WORLD), name);
    fflush(stdout);
  }
  return MPI_Comm_delete_attr(comm, keyval);
}

/* The program leaves its communicators to MPI_Finalize; their handles are in another order on each
   rank. */
static void order(void) {
  enum { kComms = 12 };
  MPI_Comm before[kComms], comms[kComms];
  for (int i = 0; i < kComms; ++i) MPI_Comm_dup(MPI_COMM_SELF, &before[i]);
  const int step = rank_in(MPI_COMM_WORLD) == 0 ? 1 : rank_in(MPI_COMM_WORLD) == 1 ? 5 : 7;
  for (int i = 0; i < kComms; ++i) MPI_Comm_free(&before[i * step % kComms]);
  for (int i = 0; i < kComms; ++i) {
    char name[16];
    snprintf(name, sizeof name, "comm-%d", i);
    MPI_Comm_split(MPI_COMM_WORLD, 0, i % 2 == 0 ? 0 : -rank_in(MPI_COMM_WORLD), &comms[i]);
    MPI_Comm_set_name(comms[i], name);
  }
  for (int i = 0; i < kComms; ++i) small_and_large(comms[i]);
  say_what_ends = 1;
}

/* Files can't grow any more, those in shared memory included; communicators come and go. */
static void no_memory(void) {
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = 4096;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  for (int round = 0; round < 40; ++round) {
    MPI_Comm twin = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    compare(kFloat, MPI_SUM, 50001, 0, twin);
    MPI_Comm_free(&twin);
  }
}

/* One rank gives one buffer twice, which is a mistake that some MPIs let pass. */
static void alias(void) {
  enum { kCount = 50000 };
  float* send = buffer(sizeof(float) * kCount);
  float* got = buffer(sizeof(float) * kCount);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kCount; ++i) send[i] = got[i] = (float)(i % 100);
    const int twice = rank_in(MPI_COMM_WORLD) == 1;
    MPI_Allreduce(twice ? got : send, got, kCount, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(got[99] == 99.0f * (float)size_of(MPI_COMM_WORLD));
  }
  free(send);
  free(got);
}

#ifdef DEVICE_MEMORY
/* As an MPI that takes buffers in the memory of a GPU has it. */
static int is_kind(const char* kind) {
  const char* mine = getenv("DEVICE_KIND");
  return mine != NULL && strcmp(mine, kind) == 0;
}
int MPIX_Query_cuda_support(void) { return is_kind("cuda"); }
int MPIX_Query_hip_support(void) { return is_kind("hip") ? -1 : 0; } /* it doesn't know */
#endif

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "";
  int level = MPI_THREAD_SINGLE;
  program = argv[0];
  if (strcmp(name, "threads") == 0) {
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    CHECK(level == MPI_THREAD_MULTIPLE);
  } else {
    MPI_Init(&argc, &argv);
  }
  if (strcmp(name, "results") == 0)
    results();
  else if (strcmp(name, "mixed_handles") == 0)
    mixed_handles();
  else if (strcmp(name, "communicators") == 0)
    communicators();
  else if (strcmp(name, "left") == 0)
    left();
  else if (strcmp(name, "threads") == 0)
    threads();
  else if (strcmp(name, "errors") == 0)
    errors();
  else if (strcmp(name, "mismatch") == 0)
    mismatch();
  else if (strcmp(name, "exhausted") == 0)
    exhausted();
  else if (strcmp(name, "at_the_end") == 0)
    at_the_end();
  else if (strcmp(name, "late") == 0)
    late();
  else if (strcmp(name, "progress") == 0)
    progress();
  else if (strcmp(name, "attributes") == 0)
    attributes();
  else if (strcmp(name, "spawn") == 0)
    spawn();
  else if (strcmp(name, "order") == 0)
    order();
  else if (strcmp(name, "no_memory") == 0)
    no_memory();
  else if (strcmp(name, "alias") == 0)
    alias();
  else if (strcmp(name, "plain") == 0)
    small_and_large(MPI_COMM_WORLD);
  else
    CHECK(!"a known case");
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
