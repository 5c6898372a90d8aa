#include "server/client/directory.h"

#include <algorithm>
#include <future>
#include <thread>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::server::client {
namespace {

using namespace std::chrono_literals;

constexpr auto kCoordinatorAttempt = 10s;  // of a call to the coordinator
constexpr auto kPause = 50ms;              // between two of them
constexpr auto kGiveUpLook = 100ms;        // between looks at whether to give up
constexpr auto kRefreshPause = 100ms;
constexpr auto kRefreshAttempt = 2s;

}  // namespace

Directory::Directory(const ClientOptions& options, Connectors connectors)
    : address_(options.coordinator),
      name_(options.name),
      shared_memory_(options.shared_memory),
      connectors_(std::move(connectors)) {
  transport::ChannelSettings settings;
  settings.identity = {std::string(calls::kCoordinator), ""};
  settings.name = name_;
  settings.shared_memory = false;  // few bytes
  coordinator_ = std::make_unique<transport::Channel>(settings, connectors_(address_));
}

Directory::~Directory() {
  coordinator_.reset();
  close_channels();
}

std::shared_ptr<transport::Channel> Directory::make_channel(const std::string& address,
                                                            const std::string& job) const {
  transport::ChannelSettings settings;
  settings.identity = {job, ""};
  settings.name = name_;
  settings.shared_memory = shared_memory_;
  return std::make_shared<transport::Channel>(settings, connectors_(address));
}

transport::Answer Directory::ask(std::string_view method, const transport::Message& request,
                                 Clock::time_point deadline, const GiveUp& give_up) {
  const auto check = [&] {
    if (give_up && give_up()) {
      throw GaveUp("told to stop while it waited for the coordinator " + address_);
    }
  };
  // A cut takes its time, and is begun anew when it is asked for again.
  const bool patient = method == calls::kMakeCut;
  while (true) {
    const auto attempt =
        patient ? deadline : std::min(deadline, Clock::now() + kCoordinatorAttempt);
    auto pending = coordinator_->call(std::string(method), request, attempt);
    while (give_up && pending.wait_for(kGiveUpLook) != std::future_status::ready) check();
    transport::Answer answer = pending.get();
    using Status = transport::Answer::Status;
    if (answer.status == Status::done || answer.status == Status::failed) return answer;
    const std::string about = "coordinator " + address_ + ": " + std::string(method) + ": ";
    if (answer.status == Status::refused) throw UsageError(about + answer.problem);
    if (Clock::now() + kPause >= deadline) throw Failure(about + answer.problem);
    check();
    std::this_thread::sleep_for(kPause);
  }
}

std::shared_ptr<const calls::JobState> Directory::fetch_state(Clock::time_point deadline,
                                                              const GiveUp& give_up) {
  const transport::Answer answer = ask(calls::kJob, calls::encode_nothing(), deadline, give_up);
  if (answer.status == transport::Answer::Status::failed) {
    throw Failure("coordinator " + address_ + ": " + answer.problem);
  }
  update(calls::decode_job_state(answer.message));
  return state();
}

void Directory::refresh() {
  {
    const std::lock_guard lock(mutex_);
    if (refreshing_ || Clock::now() < refreshed_ + kRefreshPause) return;
    refreshing_ = true;
  }
  coordinator_->call(std::string(calls::kJob), calls::encode_nothing(),
                     Clock::now() + kRefreshAttempt, [this](transport::Answer answer) {
                       if (answer.status == transport::Answer::Status::done) {
                         try {
                           update(calls::decode_job_state(answer.message));
                         } catch (const UsageError& error) {
                           const std::lock_guard lock(mutex_);
                           problem_ = "coordinator " + address_ + ": " + error.what();
                         }
                       }
                       const std::lock_guard lock(mutex_);
                       refreshing_ = false;
                       refreshed_ = Clock::now();
                     });
}

void Directory::update(calls::JobState state) {
  const std::lock_guard lock(mutex_);
  if (state_ && state_->id != state.id) {
    problem_ = "coordinator " + address_ + " has another job by now";
    return;
  }
  if (!state_) {
    shards_.resize(state.plan.shards);
    for (std::uint32_t shard = 0; shard < shards_.size(); ++shard) {
      shards_[shard].server = servers_of(shard, state.plan).front();
    }
  }
  for (const replication::Configuration& configuration : state.configurations) {
    if (configuration.shard >= shards_.size()) continue;
    Shard& shard = shards_[configuration.shard];
    if (configuration.epoch <= shard.epoch) continue;
    shard = {configuration.epoch, configuration.primary.node};
  }
  for (const calls::ServerAddress& server : state.servers) {
    Server& known = servers_[server.server];
    if (server.address.empty() || known.address == server.address) continue;
    known.address = server.address;
    if (known.channel) retired_.push_back(std::move(known.channel));
    known.channel = nullptr;
  }
  state_ = std::make_shared<const calls::JobState>(std::move(state));
}

std::shared_ptr<const calls::JobState> Directory::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

std::string Directory::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

Directory::Way Directory::to(std::uint32_t shard) {
  std::vector<std::shared_ptr<transport::Channel>> retired;  // ends behind the lock
  const std::lock_guard lock(mutex_);
  retired.swap(retired_);
  const std::uint64_t number = shards_[shard].server;
  Server& server = servers_[number];
  if (!server.channel && !server.address.empty()) {
    server.channel = make_channel(server.address, state_->id);
  }
  return {number, server.channel};
}

void Directory::not_primary(std::uint32_t shard, std::uint64_t server, std::uint64_t hint) {
  {
    const std::lock_guard lock(mutex_);
    Shard& known = shards_[shard];
    if (known.server == server) {  // else something newer is known
      const std::vector<std::uint64_t> all = servers_of(shard, state_->plan);
      if (hint != 0 && hint != server && std::find(all.begin(), all.end(), hint) != all.end()) {
        known.server = hint;
      } else {
        const auto at = std::find(all.begin(), all.end(), server);
        known.server = at == all.end() || at + 1 == all.end() ? all.front() : *(at + 1);
      }
    }
  }
  refresh();
}

void Directory::close_channels() {
  std::vector<std::shared_ptr<transport::Channel>> closed;
  {
    const std::lock_guard lock(mutex_);
    closed.swap(retired_);
    for (auto& [number, server] : servers_) {
      if (server.channel) closed.push_back(std::move(server.channel));
      server.channel = nullptr;
    }
  }
}

}  // namespace convoy::server::client
