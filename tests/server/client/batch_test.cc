// A batch optimizer whose vectors lie on shards, and whose objective replicas compute in portions.
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "convoy/optim/batch.h"
#include "convoy/server/batch.h"
#include "tests/server/client/cluster.h"

namespace convoy::server::client::test {
namespace {

using optim::BatchOptimizer;
using optim::Term;
using optim::VectorName;
using optim::VectorRole;

const std::vector<std::uint64_t> kSizes = {7, 17000, 0, 300};
constexpr std::uint64_t kElements = 7 + 17000 + 300;
constexpr std::uint32_t kPortions = 13;
constexpr double kDecay = 0.01;

JobDescription batch_description() {
  JobDescription description = description_of(kSizes);
  description.vectors.insert(description.vectors.begin() + 1, {"mean", 3, std::nullopt});
  return description;
}

// Of a row of all vectors, with the statistic left out.
template <typename T>
std::vector<BatchView<T>> views(std::span<T> row) {
  std::vector<BatchView<T>> views;
  std::size_t at = 0;
  for (const std::uint32_t vector : {0u, 2u, 3u, 4u}) {
    const std::size_t size = kSizes[vector == 0 ? 0 : vector - 1];
    views.push_back({vector, row.subspan(at, size)});
    at += size;
  }
  return views;
}

template <typename T>
std::vector<T> start_values() {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  std::vector<T> values(kElements);
  for (T& value : values) value = static_cast<T>(normal(random));
  return values;
}

// What a replica computes of one portion: a convex function whose terms differ by portion.
template <typename T>
double portion(const std::vector<T>& weights, std::uint32_t number, std::vector<T>& gradient) {
  gradient.resize(weights.size());
  double loss = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double curvature = 1 + static_cast<double>((i * 7 + number) % 11);
    const double away = static_cast<double>(weights[i]) - std::sin(static_cast<double>(i + number));
    loss += curvature * away * away / 2 / static_cast<double>(kElements);
    gradient[i] = static_cast<T>(curvature * away / static_cast<double>(kElements));
  }
  return loss;
}

// Portions are computed here, one group after the other; groups of 2^log2_size where they fit.
template <typename T>
class OnShards : public optim::Objective {
 public:
  OnShards(BatchClient& shards, ShardSpace& space, std::uint8_t log2_size)
      : shards_(shards), space_(space), log2_size_(log2_size) {}

  double evaluate(const VectorName& weights) override {
    const EvaluationId id{weights.iteration, weights.evaluation};
    space_.evaluate(id, kPortions);
    std::vector<T> values(kElements);
    shards_.fetch(weights, std::span<const BatchView<T>>(views(std::span(values))));
    std::vector<double> losses(kPortions);
    std::vector<PortionRange> missing = {{0, kPortions}};
    for (int round = 0; !missing.empty(); ++round) {
      if (round == 1) ++evaluations_with_losses;
      for (const PortionRange& range : missing) add_range(id, values, range, losses);
      if (round == 0 && before_seal) before_seal(id);
      const Term decay{kDecay, weights};
      missing = shards_.seal(id, 1.0 / kPortions, {&decay, 1});
    }
    const optim::VectorPair pair{weights, weights};
    double loss = 0;
    for (const double each : losses) loss += each;
    return loss / kPortions + kDecay / 2 * space_.dots({&pair, 1}).front();
  }

  std::function<void(const EvaluationId&)> before_seal;
  int evaluations_with_losses = 0;

 private:
  void add_range(const EvaluationId& id, const std::vector<T>& weights, const PortionRange& range,
                 std::vector<double>& losses) {
    for (std::uint32_t first = range.begin; first < range.end;) {
      PortionGroup group{first, log2_size_};
      while (first % (1u << group.log2_size) != 0 || group.end() > range.end) --group.log2_size;
      PortionSum<T> sum;
      std::vector<T> gradient;
      for (std::uint32_t i = first; i < group.end(); ++i) {
        losses[i] = portion(weights, i, gradient);
        sum.add(gradient);
      }
      const std::vector<BatchView<const T>> all = views(sum.take());
      shards_.add_group(id, group, std::span<const BatchView<const T>>(all));
      first = static_cast<std::uint32_t>(group.end());
    }
  }

  BatchClient& shards_;
  ShardSpace& space_;
  const std::uint8_t log2_size_;
};

template <typename T>
struct Trained {
  std::vector<T> weights;
  optim::BatchState state;
  bool operator==(const Trained& other) const {
    return state == other.state && weights.size() == other.weights.size() &&
           std::memcmp(weights.data(), other.weights.data(), weights.size() * sizeof(T)) == 0;
  }
};

constexpr int kIterations = 4;

optim::BatchOptions batch_options() {
  optim::BatchOptions options;
  options.history = 3;
  options.gradient_norm = 0;
  return options;
}

template <typename T>
struct Training {
  explicit Training(std::uint32_t shards, std::uint8_t log2_size = 2)
      : cluster(plan_of(shards)),
        core(cluster.client("coordinator")),
        client(*core),
        space(client),
        objective(client, space, log2_size),
        optimizer(batch_options(), space, objective) {
    core->describe(batch_description());
    client.open(std::is_same_v<T, double> ? Element::f64 : Element::f32);
    EXPECT_FALSE(client.initialized());
    const std::vector<T> start = start_values<T>();
    const std::vector<BatchView<const T>> all = views(std::span<const T>(start));
    client.put({}, std::span<const BatchView<const T>>(all));
    EXPECT_TRUE(client.initialized());
    EXPECT_TRUE(cluster.job().initialized);
  }

  Trained<T> run() {
    optimizer.begin();
    for (int i = 0; i < kIterations; ++i) optimizer.iterate();
    return trained();
  }
  Trained<T> trained() {
    Trained<T> trained{std::vector<T>(kElements), optimizer.state()};
    client.fetch(optimizer.state().weights,
                 std::span<const BatchView<T>>(views(std::span(trained.weights))));
    return trained;
  }

  Cluster cluster;
  std::unique_ptr<Core> core;
  BatchClient client;
  ShardSpace space;
  OnShards<T> objective;
  BatchOptimizer optimizer;
};

// In one process's memory, portions one by one.
template <typename T>
class InMemory : public optim::Objective {
 public:
  double evaluate(const VectorName& weights) override {
    std::vector<double> losses;
    PortionSum<T> sum;
    std::vector<T> gradient, zeros(kElements);
    for (std::uint32_t i = 0; i < kPortions; ++i) {
      losses.push_back(portion(space.get(weights), i, gradient));
      sum.add(gradient);
    }
    // The tree over 16 portions, of which 3 aren't there: x + 0 has the bits of x, but for -0.
    for (std::uint32_t i = kPortions; i < 16; ++i) sum.add(zeros);
    const auto all = sum.take();
    const VectorName whole{VectorRole::gradient, weights.iteration, 1000 + weights.evaluation};
    space.put(whole, {all.begin(), all.end()});
    const std::vector<Term> terms = {{1.0 / kPortions, whole}, {kDecay, weights}};
    space.combine(optim::gradient_of(weights), terms);
    const optim::VectorPair pair{weights, weights};
    double loss = 0;
    for (const double each : losses) loss += each;
    return loss / kPortions + kDecay / 2 * space.dots({&pair, 1}).front();
  }
  optim::MemorySpace<T> space{kElements};
};

template <typename T>
Trained<T> in_memory() {
  InMemory<T> objective;
  objective.space.put({}, start_values<T>());
  BatchOptimizer optimizer(batch_options(), objective.space, objective);
  optimizer.begin();
  for (int i = 0; i < kIterations; ++i) optimizer.iterate();
  return {objective.space.get(optimizer.state().weights), optimizer.state()};
}

template <typename T>
void expect_the_bits_of_one_memory() {
  const Trained<T> expected = in_memory<T>();
  EXPECT_EQ(expected.state.iteration, kIterations);
  for (const std::uint32_t shards : {1u, 2u, 5u}) {
    for (const int log2_size : {0, 2, 3}) {
      Training<T> training(shards, static_cast<std::uint8_t>(log2_size));
      EXPECT_TRUE(training.run() == expected) << shards << " shards, groups of 2^" << log2_size;
    }
  }
}

TEST(BatchOnShards, HasTheBitsOfOneMemory) {
  expect_the_bits_of_one_memory<double>();
  expect_the_bits_of_one_memory<float>();
}

// Every request to a shard may be lost, answered late, or come twice.
TEST(BatchOnShards, AnswersMayBeLost) {
  const Trained<double> expected = in_memory<double>();
  for (unsigned seed = 0; seed < 3; ++seed) {
    Training<double> training(2);
    std::mutex mutex;
    std::mt19937 random(seed);
    training.cluster.fault = [&](std::uint64_t, std::uint32_t, const std::string&) {
      const std::lock_guard lock(mutex);
      constexpr Fault kFaults[] = {Fault::lost_before,   Fault::lost_after, Fault::twice,
                                   Fault::unknown_after, Fault::busy,       Fault::unknown_before};
      return random() % 8 == 0 ? kFaults[random() % std::size(kFaults)] : Fault::none;
    };
    EXPECT_TRUE(training.run() == expected) << seed;
    EXPECT_GT(training.core->traffic().retries, 0u);
  }
}

// Groups are in memory alone: what a shard has lost is computed again.
TEST(BatchOnShards, LostGroupsAreComputedAgain) {
  Training<double> training(2);
  training.objective.before_seal = [&](const EvaluationId& id) {
    if (id.iteration != 2) return;
    training.cluster.forget_groups(1);
    EXPECT_EQ(training.client.missing(id), (std::vector<PortionRange>{{0, kPortions}}));
  };
  EXPECT_TRUE(training.run() == in_memory<double>());
  EXPECT_GE(training.objective.evaluations_with_losses, 1);
}

// A replica that stood still comes with what others have done, or what is over.
TEST(BatchOnShards, LateGroupsChangeNothing) {
  Training<double> training(2);
  const std::vector<double> wrong(kElements, 1e30);
  const std::vector<BatchView<const double>> all = views(std::span<const double>(wrong));
  const std::span<const BatchView<const double>> late(all);
  int told = 0;
  training.objective.before_seal = [&](const EvaluationId& id) {
    ++told;
    EXPECT_EQ(training.client.add_group(id, {4, 1}, late), GroupAnswer::had);
    // Its gradient is there.
    if (id.iteration == 1) {
      EXPECT_EQ(training.client.add_group({0, 0}, {0, 0}, late), GroupAnswer::had);
    }
  };
  const Trained<double> trained = training.run();
  EXPECT_TRUE(trained == in_memory<double>());
  EXPECT_GT(told, kIterations);
  // The gradient of the start is gone by now.
  EXPECT_EQ(training.client.add_group({0, 0}, {0, 0}, late), GroupAnswer::ended);
}

// A coordinator that begins an iteration again repeats its commands under the same numbers.
TEST(BatchOnShards, CommandsMayBeRepeated) {
  Training<double> training(2);
  training.optimizer.begin();
  training.optimizer.iterate();
  const std::uint64_t last = training.space.last();
  const optim::BatchState state = training.optimizer.state();
  training.optimizer.iterate();
  const Trained<double> expected = training.trained();
  // It stands as after the iteration: what the first time has freed must not come back, nor may
  // what is there go.
  const VectorName start = state.weights;
  ShardSpace again(training.client, last);
  const Term term{1, start};
  EXPECT_NO_THROW(again.combine({VectorRole::direction, 2}, {&term, 1}));
  EXPECT_NO_THROW(again.keep({&start, 1}));
  EXPECT_TRUE(training.trained() == expected);
  EXPECT_EQ(again.last(), last + 2);
  again.skip();
  EXPECT_EQ(again.last(), last + 3);
}

// A coordinator that is told to stop doesn't wait for servers that are away.
TEST(BatchOnShards, GivesUpWhenItIsToldToStop) {
  Training<double> training(2);
  std::atomic<bool> stop = false;
  ClientOptions options = training.cluster.options("method");
  options.give_up = [&] { return stop.load(); };
  const auto core = training.cluster.client(options);
  BatchClient client(*core);
  ShardSpace space(client);
  const Term term{1, VectorName{}};
  space.combine({VectorRole::direction, 1}, {&term, 1});
  training.cluster.fault = [&](std::uint64_t, std::uint32_t shard, const std::string&) {
    if (shard == 1) stop = true;
    return shard == 1 ? Fault::lost_before : Fault::none;
  };
  EXPECT_THROW(space.combine({VectorRole::direction, 2}, {&term, 1}), GaveUp);
  const optim::VectorPair pair{VectorName{}, VectorName{}};
  EXPECT_THROW(space.dots({&pair, 1}), GaveUp);
  EXPECT_THROW(client.seal({0, 0}, 1, {}), GaveUp);
}

// A failure to free vectors ends no iteration. The shards that have freed them don't take the next
// command for the same one.
TEST(BatchOnShards, ACommandThatFailedOnSomeShardsUsesItsNumberUp) {
  Training<double> training(2);
  std::atomic<bool> fails = true;
  training.cluster.fault = [&](std::uint64_t, std::uint32_t shard, const std::string&) {
    if (!fails || shard == 0) return Fault::none;
    while (training.cluster.shard(0).batch().ordinal == 0) std::this_thread::yield();
    return Fault::refused;
  };
  const VectorName start, twice{VectorRole::direction, 1};
  EXPECT_THROW(training.space.keep({&start, 1}), Failure);
  fails = false;
  const Term term{2, start};
  training.space.combine(twice, {&term, 1});
  const std::vector<optim::VectorPair> pairs = {{start, twice}, {start, start}};
  const std::vector<double> products = training.space.dots(pairs);
  EXPECT_EQ(products[0], 2 * products[1]);
}

// A coordinator that is to end doesn't wait for servers that are away.
TEST(BatchOnShards, GivesUpWhenItIsTold) {
  Training<double> training(2);
  std::atomic<bool> away = true, told = false;
  training.cluster.fault = [&](std::uint64_t, std::uint32_t, const std::string&) {
    return away ? Fault::busy : Fault::none;
  };
  ClientOptions options = training.cluster.options("method");
  options.patience = 1s;
  options.give_up = [&] { return told.load(); };
  const auto core = training.cluster.client(std::move(options));
  BatchClient client(*core);
  ShardSpace space(client);
  const VectorName start;
  const optim::VectorPair pair{start, start};
  told = true;
  EXPECT_THROW(space.dots({&pair, 1}), GaveUp);
  EXPECT_THROW(space.keep({&start, 1}), GaveUp);
  EXPECT_THROW(client.seal({0, 0}, 1, {}), GaveUp);
  away = told = false;
  EXPECT_GT(space.dots({&pair, 1}).front(), 0);
}

TEST(BatchOnShards, SaysWhatIsWrong) {
  Training<double> training(2);
  const VectorName none{VectorRole::step, 9};
  const optim::VectorPair pair{none, none};
  try {
    training.space.dots({&pair, 1});
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("'step 9'"), std::string::npos) << error.what();
  }
  const Term term{1, none};
  EXPECT_THROW(training.space.combine({VectorRole::step, 1}, {&term, 1}), UsageError);
  EXPECT_EQ(training.space.last(), 1u);
  EXPECT_THROW(training.space.keep({&none, 1}), UsageError);
  EXPECT_THROW(training.client.open(Element::f32), UsageError);
  std::vector<double> few(3);
  const BatchView<double> short_one{0, few};
  EXPECT_THROW(training.client.fetch({}, std::span(&short_one, 1)), UsageError);
  const BatchView<double> statistic{1, few};
  EXPECT_THROW(training.client.fetch({}, std::span(&statistic, 1)), UsageError);
  std::vector<double> row(kElements);
  const auto all = views(std::span(row));
  EXPECT_THROW(training.client.fetch(none, std::span<const BatchView<double>>(all)), UsageError);
  EXPECT_THROW(training.space.evaluate({0, 0}, 0), UsageError);
  training.space.evaluate({0, 0}, 3);
  EXPECT_EQ(training.client.missing({0, 0}), (std::vector<PortionRange>{{0, 3}}));
}

// Parts of a divided network come from several processes; floats may be asked of doubles.
TEST(BatchOnShards, ProcessesHaveSomeVectorsEach) {
  Cluster cluster(plan_of(3));
  const auto core = cluster.client("one");
  core->describe(batch_description());
  BatchClient client(*core);
  client.open(Element::f64);
  const std::vector<double> start = start_values<double>();
  const auto all = views(std::span<const double>(start));
  for (std::size_t i = all.size(); i-- > 0;) {
    EXPECT_FALSE(client.initialized());
    client.put({}, std::span(&all[i], 1));
  }
  EXPECT_TRUE(client.initialized());
  std::vector<float> rounded(kElements);
  client.fetch({}, std::span<const BatchView<float>>(views(std::span(rounded))));
  for (std::size_t i = 0; i < kElements; ++i) ASSERT_EQ(rounded[i], static_cast<float>(start[i]));

  ShardSpace space(client);
  space.evaluate({0, 0}, 1);
  const BatchView<const double> unused{2, {}};  // zeros
  EXPECT_EQ(client.add_group({0, 0}, {0, 0}, std::span(&unused, 1)), GroupAnswer::kept);
  EXPECT_EQ(client.seal({0, 0}, 1, {}), (std::vector<PortionRange>{{0, 1}}));
  for (const std::size_t i : {0, 3}) {
    EXPECT_EQ(client.add_group({0, 0}, {0, 0}, std::span(&all[i], 1)), GroupAnswer::kept);
  }
  EXPECT_TRUE(client.seal({0, 0}, 2, {}).empty());
  EXPECT_TRUE(client.seal({0, 0}, 2, {}).empty());
  std::vector<double> gradient(kElements);
  client.fetch({VectorRole::gradient, 0, 0},
               std::span<const BatchView<double>>(views(std::span(gradient))));
  EXPECT_EQ(gradient[0], 2 * start[0]);
  EXPECT_EQ(gradient[7 + 1234], 0);
  EXPECT_EQ(gradient.back(), 2 * start.back());
}

// What goes through the coordinator are scalars, however long vectors are.
TEST(BatchOnShards, OnlyScalarsAreMoved) {
  Training<double> training(2);
  training.run();
  const ClientTraffic traffic = training.core->traffic();
  const auto bytes = traffic.batch_sent_bytes + traffic.batch_received_bytes;
  EXPECT_GT(bytes, 0u);
  EXPECT_LT(bytes / static_cast<std::uint64_t>(training.optimizer.state().evaluations), 20'000u);
}

}  // namespace
}  // namespace convoy::server::client::test
