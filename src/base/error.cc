#include "convoy/base/error.h"

namespace convoy {

int exit_status(const std::exception& error) {
  return dynamic_cast<const UsageError*>(&error) != nullptr ? kExitUsage : kExitFailure;
}

std::string message_of(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find("\nException raised from "));
}

}  // namespace convoy
