// A batch optimization with its real coordinator, servers and replicas in one process, each of
// which can be killed.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/server/batch_worker.h"
#include "convoy/server/client.h"
#include "server/coordinator/coordinator.h"
#include "server/host/server.h"
#include "tests/base/patience.h"
#include "tests/base/scratch.h"
#include "tests/server/client/real_job.h"

namespace convoy::server {

inline constexpr std::uint64_t kBatchSamples = 118, kPortionSamples = 5;  // 24 portions, one of 3

inline JobDescription batch_description() {
  JobDescription description;
  description.model = "wells";
  for (const std::uint64_t size : {40, 20000, 3}) {
    description.vectors.push_back(
        {"w" + std::to_string(description.vectors.size()), size, optim::Sgd{.lr = 1}});
  }
  description.epoch_samples = kBatchSamples;
  description.data = "counted";
  return description;
}

// (x^2 - a)^2 / 4 + c (x - b)^2 / 2 of each element, with other a, b, c for each sample.
class Wells final : public PortionWork<double> {
 public:
  // `none`: the evaluations in which the loss of portion 7 is none.
  Wells(std::atomic<std::uint64_t>& computed, std::set<EvaluationId> none)
      : computed_(computed), none_(std::move(none)) {
    for (const VectorSpec& vector : batch_description().vectors) {
      values_.emplace_back(vector.elements);
      views_.push_back({static_cast<std::uint32_t>(views_.size()), values_.back()});
    }
  }
  std::span<const BatchView<double>> weights() override { return views_; }
  void begin(const EvaluationId& id) override { evaluation_ = id; }
  double compute(std::uint32_t portion, std::span<double> gradient) override {
    double loss = 0;
    const std::uint64_t end = std::min(kBatchSamples, (portion + 1) * kPortionSamples);
    for (std::uint64_t sample = portion * kPortionSamples; sample < end; ++sample) {
      std::size_t at = 0;
      for (const auto& vector : values_) {
        for (std::size_t i = 0; i < vector.size(); ++i, ++at) {
          const double a = 1 + 0.1 * static_cast<double>((sample + i) % 7);
          const double b = 0.3 * static_cast<double>(i % 5), c = 0.1 + 0.02 * (i % 11);
          const double well = vector[i] * vector[i] - a, away = vector[i] - b;
          loss += well * well / 4 + c * away * away / 2;
          gradient[at] += well * vector[i] + c * away;
        }
      }
    }
    ++computed_;
    return portion == 7 && none_.contains(evaluation_) ? std::nan("") : loss;
  }

 private:
  std::vector<std::vector<double>> values_;
  std::vector<BatchView<double>> views_;
  std::atomic<std::uint64_t>& computed_;
  const std::set<EvaluationId> none_;
  EvaluationId evaluation_;
};

// What a checkpoint has.
struct BatchCheckpoint {
  optim::BatchState state;
  std::map<optim::VectorName, std::vector<std::vector<double>>> vectors;
};

class BatchJob {
 public:
  explicit BatchJob(std::uint8_t largest, std::uint32_t shards = 2,
                    const BatchCheckpoint* from = nullptr)
      : largest_(largest), shards_(shards) {
    start_coordinator();
    for (std::uint64_t number : {1, 2}) start_server(number);
    give_weights(from);
  }
  ~BatchJob() {
    for (auto& [number, thread] : replicas_) {
      stop_[static_cast<std::size_t>(number)] = true;
      thread.join();
    }
  }

  void start_coordinator() {
    coordinator::CoordinatorSettings settings;
    settings.plan.name = "batch";
    settings.plan.shards = shards_;
    settings.plan.servers = 2;
    settings.plan.client_lease_ms = 120000;
    settings.plan.server_lease_ms = 3000;
    settings.plan.batch = settings.plan.portion = kPortionSamples;
    settings.plan.epochs = 1;
    settings.batch.emplace();
    settings.batch->method.history = 4;
    settings.batch->method.gradient_norm = 1e-7;
    settings.batch->iterations = 12;
    settings.batch->l2 = 0.01;
    settings.batch->groups.largest = largest_;
    settings.batch->mistake = [this](const std::string& why) {
      const std::lock_guard lock(mutex_);
      mistake_ = why;
    };
    settings.log = batch_log("coordinator");
    coordinator_ = test::started_coordinator(settings, scratch_.path("coordinator"), address_);
    address_ = coordinator_->address();
  }
  void kill_coordinator() { coordinator_.reset(); }
  std::string coordinators_folder() const { return scratch_.path("coordinator"); }
  // That its method has found.
  std::string mistake() const {
    const std::lock_guard lock(mutex_);
    return mistake_;
  }
  void start_server(std::uint64_t number) {
    const std::string name = "server-" + std::to_string(number);
    servers_[number] = test::started_server(address_, number, scratch_.path(name), batch_log(name));
  }
  void kill_server(std::uint64_t number) { servers_.erase(number); }

  void start_replica(int number) {
    stop_[static_cast<std::size_t>(number)] = false;
    replicas_.emplace(number, std::thread([this, number] {
                        try {
                          Client client(client_options("replica", ClientRole::replica));
                          client.join(batch_description());
                          BatchClient batch(client);
                          Wells work(computed_, none);
                          WorkerOptions options;
                          options.stop = [this, number] {
                            return stop_[static_cast<std::size_t>(number)] ||
                                   computed_ >= most_computed;
                          };
                          PortionWorker<double> worker(batch, work, options);
                          const std::string why = worker.run();
                          if (why.empty()) client.leave();
                        } catch (const std::exception& error) {
                          // It may come when all is done, or be late with what others have done.
                          const std::string what = error.what();
                          if (what.find("the job is over") == what.npos) ADD_FAILURE() << what;
                        }
                      }));
  }
  void stop_replica(int number) {
    stop_[static_cast<std::size_t>(number)] = true;
    replicas_.at(number).join();
    replicas_.erase(number);
  }

  nlohmann::json batch() const { return nlohmann::json::parse(coordinator_->status()).at("batch"); }
  bool ended() const {
    return nlohmann::json::parse(coordinator_->status()).at("job").at("ended") != "";
  }
  void await(const std::function<bool()>& what) {
    const auto until = Clock::now() + convoy::test::patience();
    while (!what()) {
      if (Clock::now() > until) throw Failure("waited in vain");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  void await_iteration(int iteration) {
    await([&] { return batch().at("iteration") >= iteration || ended(); });
  }
  // Without one a shard waits for its server to come back.
  void await_backups() {
    await([&] {
      const auto shards = nlohmann::json::parse(coordinator_->status()).at("shards");
      return std::all_of(shards.begin(), shards.end(),
                         [](const auto& shard) { return shard.at("backup") != 0; });
    });
  }
  std::uint64_t computed() const { return computed_; }

  std::set<EvaluationId> none;  // evaluations without a loss; before replicas are started

  // While the optimization goes on. `held`: is called when all of it is; then nothing may be gone.
  BatchCheckpoint checkpoint(const std::function<void()>& held = {}) {
    Client client(client_options("evaluator", ClientRole::evaluator));
    client.describe(batch_description());
    BatchClient batch(client);
    const auto until = Clock::now() + convoy::test::patience();
    while (true) {
      BatchProgress progress = batch.watch(0, true);
      if (held) held();
      // What these would free stays.
      await_iteration(static_cast<int>(progress.state.iteration) + 2);
      BatchCheckpoint checkpoint{progress.state, {}};
      try {
        for (const optim::VectorName& name : optim::vectors_of(progress.state, progress.method)) {
          auto& values = checkpoint.vectors[name];
          std::vector<BatchView<double>> views;
          for (const VectorSpec& vector : batch_description().vectors)
            values.emplace_back(vector.elements);
          for (std::uint32_t i = 0; i < values.size(); ++i) views.push_back({i, values[i]});
          batch.fetch(name, std::span<const BatchView<double>>(views));
        }
        batch.let_go();
        return checkpoint;
      } catch (const UsageError&) {  // an iteration has ended just then
        if (held || Clock::now() > until) throw;
      }
    }
  }

  std::atomic<std::uint64_t> most_computed = UINT64_MAX;  // portions, behind which replicas stop

  ClientOptions client_options(const std::string& name, ClientRole role) const {
    ClientOptions options;
    options.coordinator = address_;
    options.name = name;
    options.role = role;
    options.log = batch_log(name);
    return options;
  }

 private:
  void give_weights(const BatchCheckpoint* from) {
    Client client(client_options("evaluator", ClientRole::evaluator));
    client.describe(batch_description());
    BatchClient batch(client);
    batch.open(Element::f64);
    const auto put = [&](const optim::VectorName& name,
                         const std::vector<std::vector<double>>& all) {
      std::vector<BatchView<const double>> views;
      for (std::uint32_t i = 0; i < all.size(); ++i) views.push_back({i, all[i]});
      batch.put(name, std::span<const BatchView<const double>>(views));
    };
    if (from != nullptr) {
      for (const auto& [name, all] : from->vectors) put(name, all);
      batch.begin_from(from->state);
      EXPECT_TRUE(batch.initialized(from->state.weights));
      return;
    }
    std::vector<std::vector<double>> values;
    for (const VectorSpec& vector : batch_description().vectors) {
      values.emplace_back(vector.elements);
      for (std::size_t i = 0; i < vector.elements; ++i)
        values.back()[i] = 0.5 + 0.01 * static_cast<double>(i % 13);
    }
    put({}, values);
    EXPECT_TRUE(batch.initialized());
  }
  static convoy::Log batch_log(const std::string& name) {
    const bool lines = !environment("CONVOY_TEST_LINES").empty();
    using Level = convoy::Log::Level;
    return convoy::Log(name, lines ? Level::info : Level::error);
  }

  const std::uint8_t largest_;
  const std::uint32_t shards_;
  convoy::test::Scratch scratch_;
  std::string address_;
  mutable std::mutex mutex_;
  std::string mistake_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  std::map<std::uint64_t, std::unique_ptr<host::Server>> servers_;
  std::atomic<std::uint64_t> computed_ = 0;
  std::array<std::atomic<bool>, 8> stop_{};  // by replica
  std::map<int, std::thread> replicas_;
};

// What has the same bits whoever did what.
inline nlohmann::json outcome_of(const BatchJob& job) {
  const nlohmann::json batch = job.batch();
  nlohmann::json outcome;
  for (const char* key : {"iteration", "loss", "gradient_norm", "step", "evaluations", "ending"})
    outcome[key] = batch.at(key);
  return outcome;
}

}  // namespace convoy::server
