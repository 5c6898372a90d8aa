#include "server/host/memory.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace convoy::server::host {

void keep_freed_memory() {
#ifdef __GLIBC__
  // What gRPC receives comes in blocks of up to some MiB, allocated by any of its threads.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_TOP_PAD, 1 << 20);
#endif
}

}  // namespace convoy::server::host
