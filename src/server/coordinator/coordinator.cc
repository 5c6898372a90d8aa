#include "server/coordinator/coordinator.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "convoy/base/checksum.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "server/coordinator/batch_record.h"
#include "server/coordinator/configuration_keeper.h"
#include "server/coordinator/core.h"
#include "server/coordinator/metrics_server.h"
#include "server/coordinator/store_thread.h"
#include "server/transport/address.h"
#include "server/transport/channel.h"
#include "server/transport/grpc_connector.h"
#include "server/transport/listener.h"

namespace convoy::server::coordinator {
namespace {

using namespace std::chrono_literals;
constexpr std::size_t kManyWaiting = 1000;  // answers, for the store
constexpr auto kTick = 50ms;
constexpr auto kFinish = 5s;
constexpr auto kUnused = 60s;  // a channel
constexpr std::uint64_t kLargestMessage = std::uint64_t{64} << 20;

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

Time now() {
  return static_cast<Time>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
          .count());
}

}  // namespace

std::optional<JobRecord> stored_job(StateStore& store) {
  const auto value = store.read(kPlanKey);
  if (!value) return std::nullopt;
  try {
    return decode_job(value->bytes);
  } catch (const UsageError& error) {
    throw Failure(store.where() + ": " + error.what());
  }
}

struct Coordinator::Impl {
  Impl(std::shared_ptr<StateStore> state_store, CoordinatorSettings with);
  ~Impl();

  void listen();
  void check_batch() const;
  void begin_method();
  void post(std::function<Effects()> event);
  void loop();
  void carry_out(Effects effects);
  void carry_out(AnswerCall& effect);
  void carry_out(StoreWrites& effect) { writer->write(std::move(effect)); }
  void carry_out(AskServer& effect);
  void carry_out(ReadConfiguration& effect);
  void carry_out(SetConfiguration& effect);
  void carry_out(EvaluationOver& effect) { method->over(effect); }  // which has asked for it
  void carry_out(BatchKept& effect) { method->kept(effect); }
  void carry_out(Tell& effect);
  void receive(transport::Request request, transport::Reply reply);
  transport::Channel& channel(const std::string& address);
  void prune();
  void forget_abandoned();
  void fatal(const Changed& why);
  void stop();
  template <typename T>
  T asked(std::function<T(const Core&)> question);

  const std::shared_ptr<StateStore> store;
  CoordinatorSettings settings;
  std::string job;
  std::uint64_t term = 0;
  std::unique_ptr<Core> core;  // of the thread alone, once it runs

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<Effects()>> events;
  std::map<CallId, transport::Reply> replies;
  CallId next_call = 1;
  bool stopping = false, over = false, fatal_said = false;

  struct Way {
    std::unique_ptr<transport::Channel> channel;
    Clock::time_point used;
  };
  std::map<std::string, Way> ways;  // of the thread alone
  std::unique_ptr<ConfigurationKeeper> keeper;
  std::unique_ptr<StoreThread> writer;  // before which the keeper must not go
  std::thread thread;
  std::unique_ptr<transport::Listener> listener;
  std::unique_ptr<MetricsServer> metrics;
  std::unique_ptr<MethodThread> method;
  std::string address, metrics_address;
};

Coordinator::Impl::Impl(std::shared_ptr<StateStore> state_store, CoordinatorSettings with)
    : store(std::move(state_store)), settings(std::move(with)) {
  if (settings.batch) check_batch();
  listen();  // an address that is taken ends no other coordinator's term
  term = store->begin();
  CoreOptions options;
  options.job = {to_hex(random_number()) + to_hex(random_number()), settings.plan};
  options.term = term;
  options.life = random_number();
  options.accept_loss = settings.accept_loss;
  options.largest_value = store->largest_value();
  if (settings.batch) {
    options.batch = settings.batch->groups;
    options.batch_method = settings.batch->method.method;
  }
  core = std::make_unique<Core>(now(), options, store->list(""));
  job = core->id();
  Effects first = core->begin();
  writer = std::make_unique<StoreThread>(
      *store, term,
      [this](std::uint64_t ticket) {
        post([this, ticket] { return core->stored(now(), ticket); });
      },
      [this](const Changed& why) { fatal(why); }, settings.log);
  keeper = std::make_unique<ConfigurationKeeper>(
      *store, term, [this](std::function<void()> what) { writer->run(std::move(what)); },
      [this](const Changed& why) { writer->end(why); });
  carry_out(std::move(first));
  if (settings.batch) begin_method();
  thread = std::thread([this] { loop(); });
}

// Before anything begins.
void Coordinator::Impl::check_batch() const {
  const BatchSettings& batch = *settings.batch;
  optim::validate(batch.method);
  GroupOptions groups;
  groups.largest = batch.groups.largest;
  validate(groups);
  if (!(batch.l2 >= 0 && std::isfinite(batch.l2))) {
    throw UsageError("batch optimization: l2 = " + std::to_string(batch.l2) +
                     " is not a number of at least 0");
  }
  require_room(batch.method, store->largest_value());
  const std::string host = transport::Address::parse(settings.listen).host;
  if (host != "0.0.0.0" && host != "::") return;
  throw UsageError(
      "a batch optimization reaches its coordinator under the address at which it "
      "listens, and no certificate is for " +
      settings.listen + ": listen on a name or an address of this host");
}

void Coordinator::Impl::begin_method() {
  ClientOptions options;
  options.coordinator = address;
  if (settings.tls) {
    options.tls = {settings.tls->authority, settings.tls->certificate, settings.tls->key};
  }
  options.log = settings.log;
  method = std::make_unique<MethodThread>(
      *settings.batch, std::move(options), [this](MethodThread::Event event) {
        post([this, event = std::move(event)] { return event(*core, now()); });
      });
}

// What comes is kept until the thread runs.
void Coordinator::Impl::listen() {
  transport::ListenerSettings listening;
  listening.address = settings.listen;
  listening.tls = settings.tls;
  listening.log = settings.log;
  listening.most_clients = kMaxClients + 1024;
  listening.server.identity = {std::string(calls::kCoordinator), ""};
  listening.server.limits = {kLargestMessage, kLargestMessage, std::uint64_t{1} << 20};
  listening.server.shared_memory = false;  // which would be a thread for each client
  listening.server.handler = [this](transport::Request request, transport::Reply reply) {
    receive(std::move(request), std::move(reply));
  };
  if (!settings.metrics.empty()) {
    metrics = std::make_unique<MetricsServer>(settings.metrics, settings.tls, [this] {
      return asked<std::string>([](const Core& from) { return metrics_text(from.facts()); });
    });
  }
  listener = std::make_unique<transport::Listener>(std::move(listening));
  address = listener->address();
  if (metrics) metrics_address = metrics->address();
}

Coordinator::Impl::~Impl() { stop(); }

void Coordinator::Impl::stop() {
  if (method) method->stop();  // while the core still answers
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  if (thread.joinable()) thread.join();
  metrics.reset();
  listener.reset();
  ways.clear();
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

void Coordinator::Impl::fatal(const Changed& why) {
  std::map<CallId, transport::Reply> unanswered;  // which their clients are told
  {
    const std::lock_guard lock(mutex);
    if (std::exchange(fatal_said, true)) return;
    stopping = true;
    unanswered.swap(replies);
  }
  changed.notify_all();
  const std::string line = why.kind == Changed::Kind::fenced
                               ? "another coordinator has taken over the job: " + why.problem
                               : "the coordinator's store can't be used any more: " + why.problem;
  settings.log.error(line);
  if (settings.fatal) settings.fatal(line);
}

// In the core's thread, between two events.
template <typename T>
T Coordinator::Impl::asked(std::function<T(const Core&)> question) {
  auto promise = std::make_shared<std::promise<T>>();
  auto answer = promise->get_future();
  post([this, promise, question = std::move(question)] {
    try {
      promise->set_value(question(*core));
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
    return Effects{};
  });
  // The promise goes with an event that is never run.
  promise.reset();
  if (answer.wait_for(kFinish) != std::future_status::ready) {
    throw Failure("the coordinator is busy or ends");
  }
  try {
    return answer.get();
  } catch (const std::future_error&) {
    throw Failure("the coordinator ends");
  }
}

Coordinator::Coordinator(std::shared_ptr<StateStore> store, CoordinatorSettings settings)
    : impl_(std::make_unique<Impl>(std::move(store), std::move(settings))) {}

Coordinator::~Coordinator() = default;

void Coordinator::close() {
  impl_->stop();
  impl_->writer->finish(Clock::now() + kFinish);
}

std::string Coordinator::address() const { return impl_->address; }

std::string Coordinator::metrics_address() const { return impl_->metrics_address; }

std::string Coordinator::job() const { return impl_->job; }

bool Coordinator::over() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->over;
}

std::string Coordinator::status() const {
  return impl_->asked<std::string>([](const Core& from) { return status_json(from.facts()); });
}

std::string Coordinator::metrics() const {
  return impl_->asked<std::string>([](const Core& from) { return metrics_text(from.facts()); });
}

}  // namespace convoy::server::coordinator
