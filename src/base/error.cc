#include "convoy/base/error.h"

#include <algorithm>

namespace convoy {

int exit_status(const std::exception& error) {
  return dynamic_cast<const UsageError*>(&error) != nullptr ? kExitUsage : kExitFailure;
}

std::string message_of(const std::exception& error) {
  const std::string text = error.what();
  // LibTorch's errors end with where they come from, those of its allocator with frames alone.
  return text.substr(0, std::min(text.find("\nException raised from "), text.find("\nframe #")));
}

}  // namespace convoy
