// A server's ways to the coordinator and to other servers.
#include <algorithm>
#include <utility>

#include "convoy/base/error.h"
#include "server/host/replicate.h"
#include "server/host/server_core.h"
#include "server/service/shard_calls.h"
#include "server/transport/grpc_connector.h"

namespace convoy::server::host {
namespace {

using namespace std::chrono_literals;
using Status = transport::Answer::Status;

constexpr auto kAsk = 2s;              // how long one question to the coordinator may take
constexpr auto kAskAuthority = 1s;     // what it says later is of no use
constexpr auto kRegisterSoon = 300ms;  // when something is missing
constexpr auto kSayAgain = 10s;
constexpr auto kSmallCall = 2s;                              // between servers
constexpr std::uint64_t kSlowest = std::uint64_t{10} << 20;  // bytes per second, of large ones
constexpr std::uint64_t kBesideSlices = std::uint64_t{64} << 20;

// The largest message that a shard's client or peer has to say; 0: not known yet.
std::uint64_t largest_message(const calls::JobState& state) {
  std::uint64_t largest = 0;
  if (!state.description) return largest;
  const auto& vectors = state.description->vectors;
  for (const auto& slices : place(vectors, state.plan.shards)) {
    std::uint64_t bytes = kBesideSlices;
    for (const SliceSpec& slice : slices) {
      const auto& rule = vectors[slice.vector].rule;
      // Of a batch optimizer's vectors there are also doubles.
      const std::size_t each = sizeof(float) * (1 + (rule ? optim::slots(*rule).size() : 0));
      bytes += slice.size * std::max(each, sizeof(double));
    }
    largest = std::max(largest, bytes);
  }
  return largest;
}

}  // namespace

transport::Limits limits_of(std::uint64_t largest_message) {
  transport::Limits limits;
  limits.largest_message = limits.memory = largest_message;
  return limits;
}

std::unique_ptr<transport::Channel> ServerCore::channel_to(const std::string& address,
                                                           const std::string& job) const {
  transport::ChannelSettings channel;
  channel.identity = {job, ""};
  channel.name = "server " + std::to_string(settings_.number);
  channel.shared_memory = settings_.shared_memory;
  return std::make_unique<transport::Channel>(std::move(channel),
                                              transport::grpc_connector(address, settings_.tls));
}

// --- the coordinator ---

calls::JobState ServerCore::ask_for_job() {
  Clock::time_point say_at = Clock::now();
  while (true) {
    const auto answer =
        coordinator_->call(std::string(calls::kJob), calls::encode_nothing(), Clock::now() + kAsk)
            .get();
    if (answer.status == Status::done) return calls::decode_job_state(answer.message);
    const std::string about = "the coordinator at " + settings_.coordinator + ": ";
    if (answer.status == Status::refused || answer.status == Status::failed) {
      throw UsageError(about + answer.problem);
    }
    if (settings_.give_up()) throw Failure(about + answer.problem);
    if (Clock::now() >= say_at) {
      settings_.log.warning("waiting for " + about + answer.problem);
      say_at = Clock::now() + kSayAgain;
    }
    if (answer.status != Status::timed_out) std::this_thread::sleep_for(100ms);
  }
}

void ServerCore::keep() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (!registering_ && Clock::now() >= register_at_) {
      registering_ = true;
      lock.unlock();
      register_here();
      lock.lock();
      continue;
    }
    if (registering_) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, register_at_);
    }
  }
}

void ServerCore::register_here() {
  coordinator_->call(std::string(calls::kServer),
                     calls::encode(calls::ServerHello{settings_.number, incarnation_, advertised_}),
                     Clock::now() + kAsk, [this](transport::Answer answer) { registered(answer); });
}

void ServerCore::registered(const transport::Answer& answer) {
  std::string problem = answer.problem;
  if (answer.status == Status::done) {
    try {
      learn(calls::decode_job_state(answer.message));
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  const std::lock_guard lock(mutex_);
  registering_ = false;
  register_at_ = Clock::now() + (problem.empty() ? settings_.ask_again : kRegisterSoon);
  // Once for each time that it is away; the shard is served meanwhile.
  if (!problem.empty() && !failing_ && answer.status != Status::closed) {
    settings_.log.warning("the coordinator at " + settings_.coordinator + ": " + problem);
  } else if (problem.empty() && failing_) {
    settings_.log.info("the coordinator at " + settings_.coordinator + " answers again");
  }
  failing_ = !problem.empty();
  changed_.notify_all();
}

// By one thread at a time.
void ServerCore::learn(const calls::JobState& state) {
  if (state.id != job_) {
    return fatal("the coordinator at " + settings_.coordinator + " has another job now (" +
                 state.id + ", this server has shards of " + job_ + ")");
  }
  std::vector<Peer> old;  // end without the lock
  const std::uint64_t largest = largest_message(state);
  bool larger = false, ended = false;
  {
    const std::lock_guard lock(mutex_);
    larger = std::exchange(largest_message_, std::max(largest_message_, largest)) < largest;
    largest_is_known_ = largest_is_known_ || state.description.has_value();
    ended = !state.ended.empty() && !std::exchange(ended_, true);
    for (const calls::ServerAddress& server : state.servers) {
      if (server.server == settings_.number || server.address.empty()) continue;
      Peer& peer = peers_[server.server];
      if (peer.address == server.address) continue;
      old.push_back(std::exchange(peer, {server.address, channel_to(server.address, job_)}));
    }
  }
  if (larger) {
    listener_->set_limits(limits_of(largest));
    whole_->keep(largest);  // as much as one client may have under way
  }
  if (ended)
    settings_.log.info("the job has ended: " + state.ended + "; it is served until SIGTERM");
}

// With mutex_: something isn't known that the coordinator may know.
void ServerCore::call_again() {
  const auto soon = Clock::now() + kRegisterSoon;
  if (register_at_ <= soon) return;
  register_at_ = soon;
  changed_.notify_all();
}

// --- the authority ---

// One call at a time; what is to be said meanwhile waits, and of reports the newest.
void ServerCore::to_authority(replication::Message message) {
  const std::lock_guard lock(mutex_);
  if (ending_) return;
  std::erase_if(for_authority_, [&](const replication::Message& other) {
    return other.shard == message.shard && other.body.index() == message.body.index();
  });
  for_authority_.push_back(std::move(message));
  if (!asking_authority_) call_authority();
}

// With mutex_.
void ServerCore::call_authority() {
  asking_authority_ = true;
  coordinator_->call(std::string(calls::kAuthority),
                     calls::encode(std::exchange(for_authority_, {})), Clock::now() + kAskAuthority,
                     [this](transport::Answer answer) { authority_answered(answer); });
}

void ServerCore::authority_answered(const transport::Answer& answer) {
  std::vector<replication::Message> messages;
  if (answer.status == Status::done) {
    try {
      messages = calls::decode_replication(answer.message);
    } catch (const UsageError& error) {
      settings_.log.warning(std::string("from the coordinator: ") + error.what());
    }
  }
  {
    const std::lock_guard lock(mutex_);
    asking_authority_ = false;
    if (ending_) return;
    for (const replication::Message& message : messages) {
      const auto* newest = std::get_if<replication::Newest>(&message.body);
      // A coordinator that was started again doesn't know where servers are.
      if (newest != nullptr &&
          std::exchange(authority_, newest->stamp.authority) != newest->stamp.authority) {
        call_again();
      }
    }
    if (answer.status != Status::done) call_again();
    if (!for_authority_.empty()) call_authority();
  }
  for (const replication::Message& message : messages) {
    const auto found = hosts_.find(message.shard);
    if (found != hosts_.end()) found->second->receive(message);
  }
}

// --- other servers ---

void ServerCore::to_node(std::uint64_t node, std::vector<replication::Message> messages,
                         std::function<void(bool)> arrived) {
  call_node(node, calls::kReplicate, replicate_request(messages), std::move(arrived));
}

void ServerCore::call_node(std::uint64_t node, std::string_view method,
                           const transport::Message& request, std::function<void(bool)> arrived) {
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(node);
  if (ending_ || found == peers_.end() || !found->second.channel) {
    call_again();
    if (arrived) later_.add([arrived = std::move(arrived)] { arrived(false); });
    return;
  }
  const auto time = kSmallCall + std::chrono::seconds(request.size() / kSlowest);
  found->second.channel->call(std::string(method), request, Clock::now() + time,
                              [arrived = std::move(arrived)](transport::Answer answer) {
                                if (arrived) arrived(answer.status == Status::done);
                              });
}

}  // namespace convoy::server::host
