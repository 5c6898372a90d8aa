// Arithmetic that doesn't depend on the thread that does it.
#pragma once

#include <cfenv>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace convoy::comm {

// While it lives, this thread rounds to the nearest and keeps subnormals. A program may have told
// some of its threads otherwise (LibTorch's set_flush_denormal does); operations are advanced by
// whichever thread comes along.
class UsualRounding {
 public:
#if defined(__x86_64__)
  UsualRounding() : before_(_mm_getcsr()) {
    if (unusual()) _mm_setcsr(kDefault | (before_ & kFlags));
  }
  ~UsualRounding() {
    if (unusual()) _mm_setcsr(before_);
  }
#else
  UsualRounding() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~UsualRounding() { std::fesetenv(&before_); }
#endif
  UsualRounding(const UsualRounding&) = delete;
  UsualRounding& operator=(const UsualRounding&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned kDefault = 0x1f80;  // all exceptions masked
  static constexpr unsigned kFlags = 0x3f;
  bool unusual() const { return (before_ & ~kFlags) != kDefault; }
  unsigned before_;
#else
  std::fenv_t before_;
#endif
};

}  // namespace convoy::comm
