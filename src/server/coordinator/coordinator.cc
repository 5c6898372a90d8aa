#include "server/coordinator/coordinator.h"

#include <cmath>
#include <exception>
#include <future>
#include <random>
#include <utility>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "server/coordinator/batch_record.h"
#include "server/coordinator/coordinator_impl.h"
#include "server/transport/address.h"

namespace convoy::server::coordinator {
namespace {

using namespace std::chrono_literals;
constexpr auto kFinish = 5s;

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
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
  if (batch.method.method == optim::BatchMethod::lbfgs && batch.method.history > kLongestHistory) {
    throw UsageError("batch optimization: history = " + std::to_string(batch.method.history) +
                     ": what is known of so many steps fits into no message; it can be " +
                     std::to_string(kLongestHistory) + " at most");
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
  listening.server.limits = {calls::kLargestRequest, calls::kLargestRequest,
                             std::uint64_t{1} << 20};
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
