// Time that passes otherwise than on this machine's clock.
#pragma once

#include "convoy/base/clock.h"

namespace convoy::comm {

// A transport that derives from this as well says what time it is for its rank: who waits for its
// messages goes by that time, and not by the machine's. Tests let hours pass so, or none.
class OwnTime {
 public:
  virtual ~OwnTime() = default;
  virtual Clock::time_point now() = 0;
};

}  // namespace convoy::comm
