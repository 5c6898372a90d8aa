#include <dlfcn.h>

#include "cli/doctor/rows.h"

namespace convoy::cli {

Row allocator_row() {
#ifdef CONVOY_WITH_TCMALLOC
  return {"allocator", RowStatus::ok, "tcmalloc, linked into this program", ""};
#else
  // tcmalloc may have been preloaded.
  if (dlsym(RTLD_DEFAULT, "tc_version") != nullptr)
    return {"allocator", RowStatus::ok, "tcmalloc, preloaded", ""};
  return {"allocator", RowStatus::ok, "the C library's", ""};
#endif
}

}  // namespace convoy::cli
