// A coordinator's thread: what comes, and what the core wants done.
#include <chrono>
#include <exception>
#include <optional>
#include <set>
#include <variant>

#include "server/coordinator/coordinator_impl.h"
#include "server/transport/grpc_connector.h"

namespace convoy::server::coordinator {
namespace {

using namespace std::chrono_literals;
constexpr std::size_t kManyWaiting = 1000;  // answers, for the store
constexpr auto kTick = 50ms;
constexpr auto kUnused = 60s;  // a channel

}  // namespace

Time Coordinator::Impl::now() {
  return static_cast<Time>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
          .count());
}

void Coordinator::Impl::post(std::function<Effects()> event) {
  const std::lock_guard lock(mutex);
  if (stopping) return;
  events.push_back(std::move(event));
  changed.notify_all();
}

void Coordinator::Impl::loop() {
  Clock::time_point tick_at = Clock::now() + kTick;
  while (true) {
    std::deque<std::function<Effects()>> some;
    {
      std::unique_lock lock(mutex);
      changed.wait_until(lock, tick_at, [&] { return stopping || !events.empty(); });
      if (stopping) return;
      some.swap(events);
    }
    for (auto& event : some) carry_out(event());
    if (Clock::now() < tick_at) continue;
    tick_at = Clock::now() + kTick;
    carry_out(core->tick(now()));
    prune();
    forget_abandoned();
    const std::lock_guard lock(mutex);
    over = core->over();
  }
}

void Coordinator::Impl::receive(transport::Request request, transport::Reply reply) {
  const std::lock_guard lock(mutex);
  if (stopping) return;
  const CallId call = next_call++;
  replies.emplace(call, std::move(reply));
  events.push_back(
      [this, call, method = std::move(request.method), message = std::move(request.message)] {
        return core->call(now(), call, method, message);
      });
  changed.notify_all();
}

void Coordinator::Impl::carry_out(Effects effects) {
  for (Effect& effect : effects) {
    std::visit([this](auto& each) { carry_out(each); }, effect);
  }
}

void Coordinator::Impl::carry_out(AnswerCall& effect) {
  std::optional<transport::Reply> reply;
  {
    const std::lock_guard lock(mutex);
    const auto found = replies.find(effect.call);
    if (found == replies.end()) return;
    reply.emplace(std::move(found->second));
    replies.erase(found);
  }
  if (effect.problem.empty()) {
    reply->send(std::move(effect.message));
  } else {
    reply->fail(effect.problem);
  }
}

void Coordinator::Impl::carry_out(AskServer& effect) {
  const auto answered = [this, id = effect.id](std::optional<transport::Message> message,
                                               const std::string& problem) {
    post([this, id, message = std::move(message), problem] {
      return core->answered(now(), id, message, problem);
    });
  };
  try {
    channel(effect.address)
        .call(std::move(effect.method), std::move(effect.request),
              Clock::now() + std::chrono::microseconds(effect.patience),
              [answered](transport::Answer answer) {
                const bool done = answer.status == transport::Answer::Status::done;
                answered(done ? std::optional(std::move(answer.message)) : std::nullopt,
                         answer.problem);
              });
  } catch (const std::exception& error) {  // an address that is none
    answered(std::nullopt, error.what());
  }
}

void Coordinator::Impl::carry_out(ReadConfiguration& effect) {
  keeper->read(effect.shard, [this, shard = effect.shard](const auto& answer) {
    post([this, shard, answer] { return core->configuration(now(), shard, answer); });
  });
}

void Coordinator::Impl::carry_out(SetConfiguration& effect) {
  keeper->compare_and_set(effect.next, [this, shard = effect.next.shard](const auto& answer) {
    post([this, shard, answer] { return core->configuration(now(), shard, answer); });
  });
}

void Coordinator::Impl::carry_out(Tell& effect) {
  if (effect.level == Tell::Level::warning) {
    settings.log.warning(effect.line);
  } else {
    settings.log.info(effect.line);
  }
}

transport::Channel& Coordinator::Impl::channel(const std::string& address) {
  Way& way = ways[address];
  way.used = Clock::now();
  if (!way.channel) {
    transport::ChannelSettings channel_settings;
    channel_settings.identity = {job, ""};
    channel_settings.name = "coordinator";
    channel_settings.shared_memory = false;
    way.channel = std::make_unique<transport::Channel>(
        std::move(channel_settings), transport::grpc_connector(address, settings.tls));
  }
  return *way.channel;
}

// Servers have other addresses now and then.
void Coordinator::Impl::prune() {
  const auto before = Clock::now() - kUnused;
  std::erase_if(ways, [&](const auto& way) { return way.second.used < before; });
}

// While the store is away clients ask again and again.
void Coordinator::Impl::forget_abandoned() {
  if (core->waiting() < kManyWaiting) return;
  std::map<CallId, transport::Reply> all;
  {
    const std::lock_guard lock(mutex);
    all.swap(replies);
  }
  std::set<CallId> gone;  // asked behind the lock: sessions have their own
  for (const auto& [call, reply] : all) {
    if (reply.abandoned()) gone.insert(call);
  }
  core->abandoned(gone);
  for (const CallId call : gone) all.erase(call);
  const std::lock_guard lock(mutex);
  if (!stopping) replies.merge(all);
}

}  // namespace convoy::server::coordinator
