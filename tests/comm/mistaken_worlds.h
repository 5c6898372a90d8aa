// Worlds that can't be made because of what their ranks ask for.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/comm/threads.h"
#include "convoy/comm/world.h"

namespace convoy::comm {

// The UsageError that each rank gets; empty where it gets none.
inline std::vector<std::string> mistakes_of(const std::vector<WorldOptions>& options) {
  auto transports = thread_transports(static_cast<int>(options.size()));
  std::vector<std::string> messages(options.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < options.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        World world(std::move(transports[rank]), options[rank]);
      } catch (const UsageError& e) {
        messages[rank] = e.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return messages;
}

}  // namespace convoy::comm
