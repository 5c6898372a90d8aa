/* A launcher as MPICH sees it, whose processes put their rank at the end of each key: preloaded in
   front of libconvoy_mpi.so, it names so what MPI puts and asks for. Only who asks for the key of
   the right rank learns anything of it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As pmix_common.h has it. */
struct process {
  char job[256];
  uint32_t rank;
};

static void* next(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  return found != NULL ? found : dlsym(dlopen("libpmix.so.2", RTLD_LAZY | RTLD_NOLOAD), name);
}

/* PMIx's own keys keep their names. */
static const char* named(char* room, size_t size, const char* key, unsigned rank) {
  if (key == NULL || strncmp(key, "pmix.", 5) == 0) return key;
  snprintf(room, size, "%s-%u", key, rank);
  return room;
}

int PMIx_Put(uint8_t scope, const char* key, void* value) {
  int (*put)(uint8_t, const char*, void*) = NULL;
  *(void**)&put = next("PMIx_Put");
  char room[512];
  return put(scope, named(room, sizeof room, key, (unsigned)atoi(getenv("PMIX_RANK"))), value);
}

int PMIx_Get(const struct process* process, const char* key, const void* how, size_t count,
             void** value) {
  int (*get)(const struct process*, const char*, const void*, size_t, void**) = NULL;
  *(void**)&get = next("PMIx_Get");
  char room[512];
  const char* name = process == NULL ? key : named(room, sizeof room, key, process->rank);
  return get(process, name, how, count, value);
}
