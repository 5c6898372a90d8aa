#include "convoy/base/error.h"

namespace convoy {

int exit_status(const std::exception& error) {
  return dynamic_cast<const UsageError*>(&error) != nullptr ? kExitUsage : kExitFailure;
}

}  // namespace convoy
