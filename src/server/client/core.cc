// A client's life, and its calls to the coordinator.
#include "server/client/core.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <thread>

#include "convoy/base/error.h"
#include "server/service/portion_calls.h"

namespace convoy::server::client {
namespace {

using namespace std::chrono_literals;
using AnswerStatus = transport::Answer::Status;

constexpr auto kValuesLook = 100ms;  // between looks at whether the parameters have values
constexpr auto kFindOut = 10s;       // whether this client was taken for dead
constexpr auto kReports = 10s;       // that the coordinator has got what was reported
constexpr auto kToldToStop = 3s;     // that an evaluator waits for a coordinator to come back then

}  // namespace

Core::Core(ClientOptions options, Connectors connectors)
    : options_(std::move(options)),
      directory_(options_, std::move(connectors)),
      plan_(directory_.fetch_state(deadline(), options_.give_up)->plan),
      traffic_(plan_.shards),
      batch_after_(plan_.shards) {}

transport::Message Core::ask(std::string_view method, const transport::Message& request) {
  transport::Answer answer = directory_.ask(method, request, deadline(), when_to_give_up(method));
  if (answer.status == AnswerStatus::failed) throw_failed(method, answer.problem);
  return std::move(answer.message);
}

// An evaluator that is told to stop has something to save, unless the coordinator is gone for good;
// and one that has told why it can't go on doesn't come back.
Directory::GiveUp Core::when_to_give_up(std::string_view method) const {
  // A cut takes its time.
  if (options_.role != ClientRole::evaluator || method == calls::kMakeCut) return nullptr;
  return [this, now = membership(), told = std::optional<Clock::time_point>()]() mutable {
    if (now && !now->heartbeat->refused().empty()) throw_failed("", "");
    if (!told && options_.give_up && options_.give_up()) told = Clock::now();
    return told && Clock::now() >= *told + kToldToStop;
  };
}

void Core::throw_failed(std::string_view method, const std::string& problem) const {
  const auto now = membership();
  const std::string refused = now ? now->heartbeat->refused() : "";
  if (!refused.empty()) throw UsageError("coordinator " + options_.coordinator + ": " + refused);
  // How far it is a coordinator says, or it can't go on.
  if (method == calls::kWatch)
    throw UsageError("coordinator " + options_.coordinator + ": " + problem);
  throw Failure("coordinator " + options_.coordinator + ": " + std::string(method) + ": " +
                problem);
}

transport::Message Core::ask_as_somebody(
    std::string_view method, const std::function<transport::Message(std::uint64_t)>& request) {
  const auto last = deadline();
  while (true) {
    const auto now = any_membership();
    transport::Answer answer =
        directory_.ask(method, request(now->id), last, when_to_give_up(method));
    if (answer.status != AnswerStatus::failed) return std::move(answer.message);
    // A process that stood still hears from this answer what the next sign of life would have told.
    if (Clock::now() >= last || !now->heartbeat->find_out_lost(kFindOut)) {
      throw_failed(method, answer.problem);
    }
  }
}

// --- the network ---

std::shared_ptr<Core::Parameters> Core::use(const JobDescription& description) {
  const std::lock_guard lock(mutex_);
  if (!parameters_ || !(parameters_->layout.description() == description)) {
    parameters_ = std::make_shared<Parameters>(plan_, description);
  }
  return parameters_;
}

std::shared_ptr<Core::Parameters> Core::parameters() {
  {
    const std::lock_guard lock(mutex_);
    if (parameters_) return parameters_;
  }
  const auto state = directory_.fetch_state(deadline());
  if (!state->description) {
    throw UsageError("nobody has said yet what the network of this job is: describe() it");
  }
  return use(*state->description);
}

bool Core::describe(const JobDescription& description) {
  const transport::Answer answer =
      directory_.ask(calls::kDescribe, calls::encode(description), deadline());
  if (answer.status == AnswerStatus::failed) throw UsageError(answer.problem);
  const auto state = directory_.fetch_state(deadline());
  use(description);
  return state->initialized;
}

// --- membership ---

std::shared_ptr<Core::Membership> Core::membership() const {
  const std::lock_guard lock(mutex_);
  return membership_;
}

std::shared_ptr<Core::Membership> Core::begin_membership(const JobDescription* description) {
  calls::ClientHello hello;
  hello.name = options_.name;
  hello.role = options_.role;
  hello.group = options_.group;
  hello.member = options_.member;
  hello.members = options_.members;
  std::random_device chance;
  hello.nonce = std::uint64_t{chance()} << 32 | chance() | 1;
  if (description != nullptr) hello.description = *description;
  const transport::Answer answer =
      directory_.ask(calls::kJoin, calls::encode(hello), deadline(),
                     options_.role == ClientRole::replica && description != nullptr
                         ? options_.give_up
                         : when_to_give_up(calls::kJoin));
  if (answer.status == AnswerStatus::failed) throw UsageError(answer.problem);
  const calls::ClientWelcome welcome = calls::decode_client_welcome(answer.message);
  auto membership = std::make_shared<Membership>();
  membership->id = welcome.client;
  membership->heartbeat =
      std::make_unique<Heartbeat>(directory_.coordinator(), welcome.client,
                                  std::chrono::milliseconds(welcome.lease_ms), options_.log);
  return membership;
}

std::shared_ptr<Core::Membership> Core::any_membership() {
  auto now = membership();
  if (now && !now->heartbeat->lost()) return now;
  if (now && options_.role == ClientRole::replica) throw_lost("");
  now = begin_membership(nullptr);
  const std::lock_guard lock(mutex_);
  membership_ = now;
  return now;
}

void Core::join(const JobDescription& description,
                std::optional<std::span<const std::uint32_t>> vectors) {
  // Before the coordinator counts it: whoever waits needs no lease.
  while (true) {
    const auto state = directory_.fetch_state(deadline(), options_.give_up);
    if (!state->ended.empty()) throw Failure("the job is over: " + state->ended);
    if (state->description) {
      const std::string problem = difference(description, *state->description);
      if (!problem.empty()) throw UsageError("this job trains another network: " + problem);
      if (state->initialized) break;
    }
    if (options_.give_up && options_.give_up()) {
      throw GaveUp("told to stop while it waited for the parameters to have values");
    }
    std::this_thread::sleep_for(kValuesLook);
  }
  const auto parameters = use(description);
  const auto membership = begin_membership(&description);
  if (options_.role == ClientRole::replica) {
    join_shards(membership, parameters->layout, vectors);
  }
  const std::lock_guard lock(mutex_);
  membership_ = membership;
}

void Core::catch_up() {
  const auto now = membership();
  if (!now) throw UsageError("only a member can catch up: join() first");
  if (plan_.staleness_bound == 0) catch_up(now, parameters()->layout);
}

std::uint64_t Core::id() const {
  const auto now = membership();
  return now ? now->id : 0;
}

bool Core::lost() const {
  const auto now = membership();
  return now && now->heartbeat->lost();
}

std::string Core::ended() {
  const auto now = membership();
  std::string ended = now ? now->heartbeat->ended() : "";
  if (!ended.empty()) return ended;
  if (!now) directory_.refresh();
  return directory_.state()->ended;
}

void Core::throw_lost(const std::string& why) const {
  throw Failure("the job goes on without this client" +
                (options_.name.empty() ? "" : " (" + options_.name + ")") +
                ", which was taken for dead: join again" + (why.empty() ? "" : " (" + why + ")"));
}

void Core::check(const std::shared_ptr<Membership>& membership) const {
  const std::string problem = directory_.problem();
  if (!problem.empty()) throw Failure(problem);
  if (membership && membership->heartbeat->lost()) throw_lost("");
}

void Core::leave() {
  const auto now = membership();
  if (!now) return;
  const std::vector<calls::Beat> left = now->heartbeat->stop(options_.patience);
  if (!now->heartbeat->lost()) {
    for (const calls::Beat& beat : left) ask(calls::kBeat, calls::encode(beat));
    ask(calls::kLeave, calls::encode(calls::ClientRequest{now->id}));
  }
  const std::lock_guard lock(mutex_);
  membership_ = nullptr;
}

// --- work ---

Lease Core::lease(std::span<const std::uint64_t> finished) {
  const auto now = membership();
  if (!now) throw UsageError("a lease is for those who have joined: join() first");
  check(now);
  // What portions were like is known before they are done: an evaluator that hears that all are may
  // end the job.
  if (!finished.empty())
    now->heartbeat->say_reports(std::min<std::chrono::milliseconds>(options_.patience, kReports));
  calls::LeaseRequest request;
  request.client = now->id;
  request.finished.assign(finished.begin(), finished.end());
  request.last = now->last_portion;
  if (plan_.staleness_bound == 0 && !now->shards.empty()) request.round = now->round;
  const calls::LeaseAnswer answer =
      calls::decode_lease_answer(ask(calls::kLease, calls::encode(request)));
  if (answer.kind == calls::LeaseAnswer::Kind::unknown_client) {
    now->heartbeat->found_lost();
    throw_lost("");
  }
  const Lease lease = calls::lease_of(answer);
  if (lease.kind == Lease::Kind::portion) {
    now->last_portion = std::max(now->last_portion, lease.portion.number);
  }
  return lease;
}

void Core::report(const ReplicaReport& report) {
  const auto now = membership();
  if (!now) throw UsageError("reports are of those who have joined: join() first");
  now->heartbeat->report(report);
}

// --- an evaluator's ---

JobProgress Core::progress() {
  return calls::decode_progress(ask(calls::kProgress, calls::encode_nothing()));
}

server::Cut Core::cut() {
  return calls::decode_made_cut(ask_as_somebody(
      calls::kMakeCut, [](std::uint64_t id) { return calls::encode(calls::ClientRequest{id}); }));
}

void Core::drop_cut(const server::Cut& cut) {
  ask_as_somebody(calls::kDropCut, [&](std::uint64_t id) {
    return calls::encode(calls::DropCutRequest{id, cut.id});
  });
}

void Core::end_job(const std::string& why) {
  ask_as_somebody(calls::kEnd, [&](std::uint64_t id) {
    return calls::encode(calls::EndRequest{id, why});
  });
}

std::string Core::status() {
  return calls::decode_text(ask(calls::kStatus, calls::encode_nothing()));
}

}  // namespace convoy::server::client
