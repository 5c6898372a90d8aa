// A process that may have little more memory than it has, as `ulimit -v` makes one.
#pragma once

#include <sys/resource.h>

#include <cstdint>

#include "convoy/base/system.h"

namespace convoy::test {

// While it lives this process may map so many bytes more.
class MapsNoMore {
 public:
  explicit MapsNoMore(double bytes) {
    getrlimit(RLIMIT_AS, &before_);
    constexpr rlim_t kHuge = rlim_t{1} << 46;
    rlimit limit{before_.rlim_max < kHuge ? before_.rlim_max : kHuge, before_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur += static_cast<rlim_t>(bytes) - address_space_left();
    setrlimit(RLIMIT_AS, &limit);
  }
  MapsNoMore(const MapsNoMore&) = delete;
  ~MapsNoMore() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

}  // namespace convoy::test
