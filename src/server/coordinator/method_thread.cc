#include "server/coordinator/method_thread.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <future>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/hold.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "server/coordinator/batch_objective.h"
#include "server/coordinator/batch_run.h"

namespace convoy::server::coordinator {
namespace {

using namespace std::chrono_literals;
constexpr auto kLookForValues = 100ms;
constexpr auto kAfterFailure = 1000ms;
constexpr auto kPatienceWithServers = 20s;  // then it is said that they are away

std::string iteration_line(const optim::BatchIteration& done, const PortionCounts& portions) {
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, "loss %.8g, gradient norm %.4g, step %.4g", done.loss,
                done.gradient_norm, done.step);
  const auto count = [](std::uint64_t number) { return std::to_string(number); };
  // Before the first iteration there was one, at the first weights.
  const int evaluations = std::max(done.evaluations, done.iteration == 0 ? 1 : 0);
  std::string line = "iteration " + std::to_string(done.iteration) + ": " + numbers + ", " +
                     std::to_string(evaluations) +
                     (evaluations == 1 ? " evaluation" : " evaluations");
  if (done.restarted) line += ", along the gradient";
  line += "; " + count(portions.done) + " portions";
  if (portions.again > 0) line += ", " + count(portions.again) + " handed out again";
  if (portions.copies > 0) line += ", " + count(portions.copies) + " copied";
  if (portions.unused > 0) line += ", " + count(portions.unused) + " done twice";
  return line;
}

}  // namespace

template <typename T>
T MethodThread::ask(std::function<T(Core&, Time, Effects&)> what) {
  auto promise = std::make_shared<std::promise<T>>();
  auto answer = promise->get_future();
  post_([promise, what = std::move(what)](Core& core, Time now) {
    Effects effects;
    try {
      promise->set_value(what(core, now, effects));
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
    return effects;
  });
  promise.reset();
  while (answer.wait_for(kLookForValues) != std::future_status::ready) check_stop();
  try {
    return answer.get();
  } catch (const std::future_error&) {
    throw GaveUp("the coordinator ends");
  }
}

void MethodThread::check_stop() {
  const std::lock_guard lock(mutex_);
  if (stopping_) throw GaveUp("the coordinator ends");
}

void MethodThread::await(const std::function<bool()>& ready) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopping_ || ready(); });
  if (!ready()) throw GaveUp("the coordinator ends");
}

void MethodThread::pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [&] { return stopping_; });
  if (stopping_) throw GaveUp("the coordinator ends");
}

class MethodThread::Replicas final : public EvaluationReplicas {
 public:
  explicit Replicas(MethodThread& thread) : thread_(thread) {}

  void begin(const EvaluationId& id) override {
    thread_.ask<bool>([id](Core& core, Time now, Effects& effects) {
      effects = core.begin_evaluation(now, id);
      return true;
    });
    hold_at("batch.evaluation");
  }
  Outcome wait(const EvaluationId&) override {
    std::uint64_t token = 0;
    {
      const std::lock_guard lock(thread_.mutex_);
      token = thread_.next_token_++;
    }
    thread_.ask<bool>([token](Core& core, Time now, Effects& effects) {
      effects = core.await_evaluation(now, token);
      return true;
    });
    thread_.await([&] { return thread_.over_.contains(token); });
    const std::lock_guard lock(thread_.mutex_);
    const EvaluationOver over = thread_.over_.at(token);
    thread_.over_.clear();
    return {over.loss, over.not_finite, over.finite};
  }
  void missing(std::span<const PortionRange> ranges) override {
    thread_.ask<bool>([all = std::vector<PortionRange>(ranges.begin(), ranges.end())](
                          Core& core, Time now, Effects& effects) {
      effects = core.portions_missing(now, all);
      return true;
    });
  }

 private:
  MethodThread& thread_;
};

class MethodThread::Memory final : public BatchMemory {
 public:
  Memory(MethodThread& thread, const Client& client) : thread_(thread), client_(client) {}

  Bytes start() override {
    return thread_.ask<Bytes>([](Core& core, Time, Effects&) { return core.batch_start(); });
  }
  Bytes answers() override {
    return thread_.ask<Bytes>([](Core& core, Time, Effects&) { return core.batch_answers(); });
  }
  void begin(Bytes start) override {
    hold_at("batch.iteration");
    keep(std::move(start), {});
  }
  void answered(Bytes answers) override {
    hold_at("batch.answer");
    keep(std::nullopt, std::move(answers));
  }

 private:
  void keep(std::optional<Bytes> start, Bytes answers) {
    std::uint64_t token = 0;
    {
      const std::lock_guard lock(thread_.mutex_);
      token = thread_.next_token_++;
    }
    const ClientTraffic traffic = client_.traffic();
    const std::uint64_t all = traffic.batch_sent_bytes + traffic.batch_received_bytes;
    const std::uint64_t more = all - std::exchange(counted_, all);
    thread_.ask<bool>([token, more, start = std::move(start), answers = std::move(answers)](
                          Core& core, Time now, Effects& effects) {
      core.count_method_bytes(more);
      effects = core.keep_batch(now, token, start, answers);
      return true;
    });
    thread_.await([&] { return thread_.kept_ >= token; });
  }

  MethodThread& thread_;
  const Client& client_;
  std::uint64_t counted_ = 0;  // of its bytes
};

class MethodThread::Shards final : public NumberedSpace, public EvaluationShards {
 public:
  Shards(BatchClient& client, MethodThread& thread)
      : client_(client), thread_(thread), space_(std::make_unique<ShardSpace>(client)) {}

  std::uint64_t commands() const override { return space_->last(); }
  void go_back(std::uint64_t commands) override {
    space_ = std::make_unique<ShardSpace>(client_, commands);
  }
  void skip() override { space_->skip(); }

  std::vector<double> dots(std::span<const optim::VectorPair> pairs) override {
    hold_at("batch.products");
    return space_->dots(pairs);
  }
  void combine(const optim::VectorName& into, std::span<const optim::Term> terms) override {
    hold_at(into.role == optim::VectorRole::direction ? "batch.direction"
            : into.role == optim::VectorRole::weights ? "batch.search"
                                                      : "batch.history");
    space_->combine(into, terms);
  }
  void multiply(const optim::VectorName& into, const optim::VectorName& a,
                const optim::VectorName& b) override {
    space_->multiply(into, a, b);
  }
  // Also what evaluators hold. All of it is there: they are given a state while it is the stored
  // one, and until the next one is stored, `names` has its vectors.
  void keep(std::span<const optim::VectorName> names) override {
    const auto held = thread_.ask<std::vector<optim::VectorName>>(
        [](Core& core, Time, Effects&) { return core.batch_held(); });
    std::set<optim::VectorName> all(names.begin(), names.end());
    all.insert(held.begin(), held.end());
    const std::vector<optim::VectorName> kept(all.begin(), all.end());
    hold_at("batch.keep");
    space_->keep(kept);
  }

  void open(const EvaluationId& id, std::uint32_t portions) override {
    space_->evaluate(id, portions);
  }
  std::vector<PortionRange> seal(const EvaluationId& id, double scale,
                                 std::span<const optim::Term> also) override {
    hold_at("batch.seal");
    return client_.seal(id, scale, also);
  }
  double square(const optim::VectorName& name) override {
    const optim::VectorPair pair{name, name};
    return client_.dots({&pair, 1}).front();
  }

 private:
  BatchClient& client_;
  MethodThread& thread_;
  std::unique_ptr<ShardSpace> space_;
};

MethodThread::MethodThread(const BatchSettings& settings, ClientOptions client, Post post)
    : settings_(settings), client_(std::move(client)), post_(std::move(post)) {
  optim::validate(settings_.method);
  client_.shared_memory = false;
  client_.patience = kPatienceWithServers;
  client_.role = ClientRole::observer;
  client_.name = "method";
  client_.give_up = [this] {
    const std::lock_guard lock(mutex_);
    return stopping_;
  };
  thread_ = std::thread([this] { run(); });
}

void MethodThread::over(const EvaluationOver& evaluation) {
  const std::lock_guard lock(mutex_);
  over_[evaluation.token] = evaluation;
  changed_.notify_all();
}

void MethodThread::kept(const BatchKept& kept) {
  const std::lock_guard lock(mutex_);
  kept_ = std::max(kept_, kept.token);
  changed_.notify_all();
}

void MethodThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MethodThread::run() {
  try {
    while (true) {
      try {
        if (!wait_for_values()) return;
        Client client(client_);
        optimize(client);
        return;
      } catch (const GaveUp&) {
        throw;
      } catch (const Failure& error) {  // servers are away
        client_.log.warning(std::string(error.what()) + "; trying again");
        pause(kAfterFailure);
      }
    }
  } catch (const GaveUp&) {
    // Another process goes on.
  } catch (const std::exception& error) {  // who begins it again finds the same
    const std::string why = std::string("the optimization can't go on: ") + error.what();
    client_.log.error(why);
    if (settings_.mistake) {
      tell_evaluators(why);
      return settings_.mistake(why);
    }
    try {
      end_job(why);
    } catch (const std::exception&) {
    }
  }
}

// Whoever runs this process may end it then, and nobody should wait for another one.
void MethodThread::tell_evaluators(const std::string& why) {
  try {
    const auto lease =
        ask<std::chrono::milliseconds>([why](Core& core, Time now, Effects& effects) {
          effects = core.batch_failed(now, why);
          return std::chrono::milliseconds(core.plan().client_lease_ms);
        });
    const auto until = Clock::now() + lease;
    while (Clock::now() < until &&
           !ask<bool>([](Core& core, Time, Effects&) { return core.evaluators_know_failure(); })) {
      pause(kLookForValues);
    }
    pause(kLookForValues);  // answers are on their way
  } catch (const GaveUp&) {
  }
}

// False when the job has ended.
bool MethodThread::wait_for_values() {
  while (true) {
    const auto [ready, ended] =
        ask<std::pair<bool, bool>>([](Core& core, Time, Effects&) -> std::pair<bool, bool> {
          const Facts facts = core.facts();
          return {facts.initialized && core.batch_groups(), !facts.progress.ended.empty()};
        });
    if (ended) return false;
    if (ready) return true;
    pause(kLookForValues);
  }
}

void MethodThread::optimize(Client& client) {
  const auto [groups, samples] =
      ask<std::pair<GroupOptions, std::uint64_t>>([](Core& core, Time, Effects&) {
        return std::pair(*core.batch_groups(), core.facts().epoch_samples);
      });
  BatchClient batch(client);
  Shards shards(batch, *this);
  Replicas replicas(*this);
  Memory memory(*this, client);
  BatchObjective objective({groups.portions, samples, settings_.l2}, shards, replicas);
  BatchRun run(settings_.method, shards, objective, memory);
  while (!run.over() &&
         (settings_.iterations == 0 || run.state().iteration < settings_.iterations)) {
    const optim::BatchIteration done = run.next();
    const auto portions = ask<PortionCounts>([](Core& core, Time, Effects&) {
      const auto facts = core.facts().batch;
      return facts ? facts->iteration : PortionCounts();
    });
    client_.log.info(iteration_line(done, portions));
  }
  std::string why = run.over()
                        ? std::string(optim::describe(run.last().ending))
                        : "all " + std::to_string(settings_.iterations) + " iterations are done";
  if (objective.not_finite()) {
    const std::uint64_t portion = *objective.not_finite();
    why += ": of portion " + std::to_string(portion) + " of " + std::to_string(groups.portions);
  }
  if (settings_.ends_job) return end_job(why);
  ask<bool>([why](Core& core, Time now, Effects& effects) {
    effects = core.batch_over(now, why);
    return true;
  });
}

void MethodThread::end_job(const std::string& why) {
  ask<bool>([why](Core& core, Time now, Effects& effects) {
    effects = core.end_job(now, why);
    return true;
  });
}

}  // namespace convoy::server::coordinator
