/* A launcher that is slow to say what a rank has put, or never does: preloaded behind
   libconvoy_mpi.so, it answers in the place of PMIx. Of what Convoy asks, the first questions that
   are not about this rank itself time out, SLOW_QUESTIONS of them on the rank SLOW_RANK, on which a
   question about itself ends the process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kTimedOut = -24 };

static int number(const char* name) {
  const char* text = getenv(name);
  return text == NULL ? -1 : atoi(text);
}

/* As pmix_common.h has it. */
struct process {
  char job[256];
  uint32_t rank;
};

int PMIx_Get(const struct process* process, const char* key, const void* how, size_t count,
             void** value) {
  static int convoys = 0, left = -1; /* MPI's questions come before */
  convoys = convoys || strcmp(key, "convoy.mpi") == 0;
  if (convoys && number("PMIX_RANK") == number("SLOW_RANK")) {
    if (left < 0) left = number("SLOW_QUESTIONS");
    if ((int)process->rank == number("PMIX_RANK")) {
      fprintf(stderr, "slow_launcher: a rank asks about itself\n");
      exit(9);
    }
    if (left > 0) {
      --left;
      return kTimedOut;
    }
  }
  int (*get)(const struct process*, const char*, const void*, size_t, void**) = NULL;
  void* library = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_NOLOAD);
  *(void**)&get = dlsym(library, "PMIx_Get");
  return get(process, key, how, count, value);
}
