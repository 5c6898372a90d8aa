// What jobs of real coordinators and servers in one process are started with.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/log_store.h"
#include "server/host/server.h"
#include "tests/base/patience.h"

namespace convoy::server::test {

// `address`: empty for any port, or that of the coordinator before, whose port may take a moment to
// be free.
inline std::unique_ptr<coordinator::Coordinator> started_coordinator(
    coordinator::CoordinatorSettings settings, const std::string& folder,
    const std::string& address) {
  if (!address.empty()) settings.listen = address;
  const auto until = std::chrono::steady_clock::now() + convoy::test::patience();
  while (true) {
    try {
      return std::make_unique<coordinator::Coordinator>(
          std::make_shared<coordinator::LogStore>(folder, settings.log), settings);
    } catch (const UsageError&) {
      if (address.empty() || std::chrono::steady_clock::now() > until) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
}

template <typename Log>
std::unique_ptr<host::Server> started_server(const std::string& coordinator, std::uint64_t number,
                                             const std::string& folder, Log log) {
  host::ServerSettings settings;
  settings.coordinator = coordinator;
  settings.number = number;
  settings.data = folder;
  settings.fatal = [](const std::string& why) { ADD_FAILURE() << why; };
  settings.log = std::move(log);
  return std::make_unique<host::Server>(settings);
}

}  // namespace convoy::server::test
