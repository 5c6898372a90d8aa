// A batch optimization without processes: shards, replicas and a store that outlive coordinators,
// and what one of these has of them.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "base/exact_sum.h"
#include "convoy/base/error.h"
#include "server/coordinator/batch_objective.h"
#include "server/coordinator/batch_run.h"
#include "server/coordinator/group_ledger.h"
#include "tests/server/coordinator/group_shards.h"

namespace convoy::server::coordinator::test {

using optim::Term;
using optim::VectorName;
using optim::VectorPair;
using optim::VectorRole;

inline constexpr std::uint32_t kBatchPortions = 21;
inline constexpr std::size_t kElements = 4;  // two on each of two shards
inline constexpr double kL2 = 0.01;
using Vector = std::vector<double>;

// The coordinator's process ends.
struct Crash {};

// What of everything outlives a coordinator: the shards, the replicas, its store.
struct BatchWorld {
  explicit BatchWorld(std::uint64_t seed) : random(seed) {}

  void crash_point() {
    if (crash_after == 0 || --crash_after > 0) return;
    throw Crash();
  }

  std::mt19937_64 random;
  int crash_after = 0;                                               // points; 0: never
  double bad_loss_below = -std::numeric_limits<double>::infinity();  // of the first element
  std::uint8_t largest = 3;

  std::map<VectorName, Vector> vectors = {{VectorName{}, Vector{3, -2, 1.5, 0.25}}};
  std::map<VectorName, std::uint64_t> made_by;  // numbers of commands
  std::uint64_t done = 0;                       // number of the last command that was done
  std::array<GroupShard, 2> shards;
  std::optional<EvaluationId> opened;
  std::set<EvaluationId> sealed;

  Bytes start, answers;
  Bytes ledger;
  std::map<std::uint32_t, Bytes> blocks;

  struct Worker {
    EvaluationId evaluation;
    std::vector<PortionGroup> held;
  };
  std::map<std::uint64_t, Worker> workers;
  std::uint64_t next_worker = 1;
  std::uint64_t portions_computed = 0, commands_given = 0;
};

class StoredInWorld final : public BatchMemory {
 public:
  explicit StoredInWorld(BatchWorld& world) : world_(world) {}
  Bytes start() override { return world_.start; }
  Bytes answers() override { return world_.answers; }
  void begin(Bytes start) override {
    world_.crash_point();
    world_.start = std::move(start);
    world_.crash_point();  // both may be too large for one step
    world_.answers.clear();
    world_.crash_point();
  }
  void answered(Bytes answers) override {
    world_.crash_point();
    world_.answers = std::move(answers);
    world_.crash_point();
  }

 private:
  BatchWorld& world_;
};

class SpaceOfWorld final : public NumberedSpace, public EvaluationShards {
 public:
  explicit SpaceOfWorld(BatchWorld& world) : world_(world) {}

  std::uint64_t commands() const override { return commands_; }
  void go_back(std::uint64_t commands) override { commands_ = commands; }
  void skip() override {
    ++commands_;
    ASSERT_LE(commands_, world_.done) << "it was never done";
  }

  std::vector<double> dots(std::span<const VectorPair> pairs) override {
    world_.crash_point();
    std::vector<double> results;
    for (const auto& [a, b] : pairs) {
      ExactSum sum;
      sum.add_products(get(a).data(), get(b).data(), kElements);
      results.push_back(sum.value());
    }
    return results;
  }
  void combine(const VectorName& into, std::span<const Term> terms) override {
    command([&] {
      EXPECT_FALSE(world_.made_by.contains(into)) << to_string(into) << " is given twice";
      world_.made_by[into] = commands_;
      make(into, terms);
    });
  }
  void multiply(const VectorName&, const VectorName&, const VectorName&) override { FAIL(); }
  void keep(std::span<const VectorName> names) override {
    command([&] {
      const std::set<VectorName> kept(names.begin(), names.end());
      for (const VectorName& name : kept) get(name);
      std::erase_if(world_.vectors, [&](const auto& each) { return !kept.contains(each.first); });
    });
  }

  void open(const EvaluationId& id, std::uint32_t portions) override {
    command([&] {
      if (world_.opened && id <= *world_.opened) return;
      world_.opened = id;
      for (GroupShard& shard : world_.shards) shard.begin(id, portions);
    });
  }
  std::vector<PortionRange> seal(const EvaluationId& id, double scale,
                                 std::span<const Term> also) override {
    world_.crash_point();
    if (world_.sealed.contains(id)) return {};
    if (world_.random() % 10 == 0) world_.shards[world_.random() % 2].lose(world_.random());
    for (const GroupShard& shard : world_.shards) {
      if (const auto missing = shard.missing(); !missing.empty()) return missing;
    }
    const VectorName sum{VectorRole::gradient, id.iteration, 1'000'000};
    const Gradient left = *world_.shards[0].sum(), right = *world_.shards[1].sum();
    world_.vectors[sum] = {left[0], left[1], right[0], right[1]};
    std::vector<Term> terms = {{scale, sum}};
    terms.insert(terms.end(), also.begin(), also.end());
    make({VectorRole::gradient, id.iteration, id.evaluation}, terms);
    world_.vectors.erase(sum);
    world_.sealed.insert(id);
    world_.crash_point();
    return {};
  }
  double square(const VectorName& name) override {
    const VectorPair pair{name, name};
    return dots({&pair, 1}).front();
  }

 private:
  template <typename What>
  void command(const What& what) {
    world_.crash_point();
    ++world_.commands_given;
    if (++commands_ > world_.done) {
      what();
      world_.done = commands_;
    }
    world_.crash_point();
  }
  const Vector& get(const VectorName& name) {
    const auto found = world_.vectors.find(name);
    if (found == world_.vectors.end()) throw UsageError("there is no " + to_string(name));
    return found->second;
  }
  void make(const VectorName& into, std::span<const Term> terms) {
    std::vector<double> factors;
    std::vector<const double*> from;
    for (const Term& term : terms) {
      factors.push_back(term.factor);
      from.push_back(get(term.vector).data());
    }
    Vector values(kElements);
    optim::combine_slices<double>(factors, from, values.data(), kElements);
    world_.vectors[into] = std::move(values);
  }

  BatchWorld& world_;
  std::uint64_t commands_ = 0;
};

// Replicas, driven by whoever waits for them.
class ReplicasOfWorld final : public EvaluationReplicas {
 public:
  explicit ReplicasOfWorld(BatchWorld& world) : world_(world) {
    GroupOptions options;
    options.portions = kBatchPortions;
    options.largest = world.largest;
    ledger_ = std::make_unique<GroupLedger>(options);
    if (!world.ledger.empty()) {
      ledger_->decode(world.ledger);
      for (const auto& [block, bytes] : world.blocks) ledger_->decode(block, bytes);
    }
    for (const auto& [id, worker] : world.workers) ledger_->enter(id);
  }

  void begin(const EvaluationId& id) override {
    if (ledger_->open() && ledger_->evaluation() == id) return;
    ledger_->begin(id);
    store();
  }
  Outcome wait(const EvaluationId& id) override {
    EXPECT_EQ(ledger_->evaluation(), id);
    while (!ledger_->complete() && !ledger_->hopeless()) {
      world_.crash_point();
      step();
    }
    return {ledger_->loss(), ledger_->not_finite(), !ledger_->hopeless()};
  }
  void missing(std::span<const PortionRange> ranges) override {
    for (const auto& [begin, end] : ranges) ledger_->missing(begin, end);
    store();
  }

 private:
  void store() {
    world_.crash_point();
    world_.ledger = ledger_->encode();
    for (const std::uint32_t block : ledger_->take_changed())
      world_.blocks[block] = ledger_->encode(block);
    world_.crash_point();
  }

  void step() {
    now_ += 100'000;
    if (world_.workers.size() < 3) {
      ledger_->enter(world_.next_worker);
      world_.workers[world_.next_worker++];
    }
    auto at = std::next(world_.workers.begin(),
                        static_cast<std::ptrdiff_t>(world_.random() % world_.workers.size()));
    auto& [id, worker] = *at;
    if (world_.random() % 30 == 0) {  // killed
      ledger_->leave(id);
      world_.workers.erase(at);
      return;
    }
    if (!worker.held.empty() && world_.random() % 3 != 0) return work(id, worker);
    if (worker.evaluation != ledger_->evaluation()) {
      worker.held.clear();
      worker.evaluation = ledger_->evaluation();
    }
    const auto handed = ledger_->lease(now_, id, worker.held);
    store();  // before it is told
    for (const PortionGroup& each : handed.unused) std::erase(worker.held, each);
    if (handed.kind == GroupLedger::Handed::Kind::group) worker.held.push_back(handed.group);
  }

  void work(std::uint64_t id, BatchWorld::Worker& worker) {
    const PortionGroup group = worker.held.front();
    const VectorName name{VectorRole::weights, worker.evaluation.iteration,
                          worker.evaluation.evaluation};
    const auto found = world_.vectors.find(name);
    if (found == world_.vectors.end()) {  // of an evaluation that is over
      worker.held.clear();
      return;
    }
    PortionSum<double> sum;
    std::vector<double> losses;
    for (std::uint32_t portion = group.first; portion < end_of(group); ++portion) {
      losses.push_back(add_portion(found->second, portion, sum));
      ++world_.portions_computed;
    }
    const auto gradient = sum.take();
    bool ended = false;
    for (std::size_t shard = 0; shard < world_.shards.size(); ++shard) {
      const auto answer = world_.shards[shard].add(worker.evaluation, group,
                                                   {gradient[2 * shard], gradient[2 * shard + 1]});
      EXPECT_NE(answer, GroupAnswer::overlaps);
      ended = ended || answer == GroupAnswer::ended;
      if (world_.random() % 20 == 0) return;  // it stands still, and sends it again
    }
    worker.held.erase(worker.held.begin());
    if (ended) return;
    ledger_->finished(now_, id, worker.evaluation, group, losses);
    store();
  }

  // Rosenbrock's function, slightly another one for each portion.
  double add_portion(const Vector& x, std::uint32_t portion, PortionSum<double>& sum) const {
    const double b = 10 + portion * 0.37, a = 1 + portion * 0.01;
    double loss = 0;
    Vector gradient(kElements);
    for (std::size_t i = 0; i + 1 < kElements; ++i) {
      const double bend = x[i + 1] - x[i] * x[i], away = a - x[i];
      loss += b * bend * bend + away * away;
      gradient[i] += -4 * b * bend * x[i] - 2 * away;
      gradient[i + 1] += 2 * b * bend;
    }
    sum.add(gradient);
    const bool bad = x[0] < world_.bad_loss_below && portion == 5;
    return bad ? std::numeric_limits<double>::quiet_NaN() : loss;
  }

  BatchWorld& world_;
  std::unique_ptr<GroupLedger> ledger_;
  Time now_ = 0;
};

}  // namespace convoy::server::coordinator::test
