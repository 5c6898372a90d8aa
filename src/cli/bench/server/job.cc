#include "cli/bench/server/job.h"

#include <unistd.h>

#include <functional>
#include <memory>

#include "convoy/base/error.h"
#include "convoy/base/log.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/log_store.h"
#include "server/host/memory.h"
#include "server/host/server.h"

namespace convoy::cli {
namespace {

Log log_of(const std::string& name) { return Log(name, Log::Level::warning); }

std::function<void(const std::string&)> end_with(const Log& log) {
  return [log](const std::string& why) {
    log.error(why);
    _exit(kExitFailure);
  };
}

// Both live as long as their process, and say where they listen.

std::string serve_coordinator(const server::JobPlan& plan, const std::string& folder) {
  server::coordinator::CoordinatorSettings settings;
  settings.plan = plan;
  settings.log = log_of("coordinator");
  settings.fatal = end_with(settings.log);
  const auto store = std::make_shared<server::coordinator::LogStore>(
      std::shared_ptr<server::Disk>(server::open_folder(folder)), settings.log);
  return (new server::coordinator::Coordinator(store, settings))->address();
}

std::string serve_shards(const std::string& coordinator, std::uint64_t number,
                         const std::string& folder) {
  server::host::keep_freed_memory();  // as convoy serve does
  server::host::ServerSettings settings;
  settings.coordinator = coordinator;
  settings.number = number;
  settings.data = folder;
  settings.log = log_of("server " + std::to_string(number));
  settings.fatal = end_with(settings.log);
  return (new server::host::Server(std::move(settings)))->address();
}

}  // namespace

BenchJob::BenchJob(const server::JobPlan& plan, const std::string& folder) {
  processes_.push_back(
      Child::server([&] { return serve_coordinator(plan, folder + "/coordinator"); }));
  coordinator_ = processes_.back().ready();
  for (std::uint32_t number = 1; number <= plan.servers; ++number) {
    processes_.push_back(Child::server([&] {
      return serve_shards(coordinator_, number, folder + "/server-" + std::to_string(number));
    }));
  }
  for (std::size_t i = 1; i < processes_.size(); ++i) processes_[i].ready();
}

}  // namespace convoy::cli
