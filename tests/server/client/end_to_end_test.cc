// A job with its real coordinator, servers and clients in one process, while servers and the
// coordinator are killed: every update is in the parameters once.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/server/batch.h"
#include "convoy/server/client.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/log_store.h"
#include "server/host/server.h"
#include "server/service/shard_calls.h"
#include "server/transport/grpc_connector.h"
#include "tests/base/patience.h"
#include "tests/base/scratch.h"
#include "tests/server/client/real_job.h"

namespace convoy::server {
namespace {

using namespace std::chrono_literals;
using convoy::test::Scratch;

constexpr std::uint64_t kSamples = 600, kPortion = 20, kBatch = 5;
constexpr std::uint64_t kUpdates = kSamples / kBatch;

// Of update `id`: small whole numbers, so that sums are exact in any order.
float gradient_of(std::uint64_t id, std::uint32_t vector) {
  return static_cast<float>(id % 7 + vector);
}

class Job {
 public:
  Job() {
    start_coordinator();
    for (std::uint64_t number : {1, 2}) start(number);
  }

  void start_coordinator() {
    coordinator::CoordinatorSettings settings;
    settings.plan = plan();
    settings.log = log("coordinator");
    coordinator_ = test::started_coordinator(settings, scratch_.path("coordinator"), address_);
    address_ = coordinator_->address();
  }
  void kill_coordinator() { coordinator_.reset(); }
  void start(std::uint64_t number) {
    const std::string name = "server-" + std::to_string(number);
    servers_[number] = test::started_server(address_, number, scratch_.path(name), log(name));
  }
  void kill(std::uint64_t number) { servers_.erase(number); }

  ClientOptions options(const std::string& name, ClientRole role = ClientRole::replica) const {
    ClientOptions options;
    options.coordinator = address_;
    options.name = name;
    options.role = role;
    options.log = log(name);
    return options;
  }
  void await_backups() {
    for (std::uint32_t shard : {0, 1}) {
      while (report(shard).backup == 0) std::this_thread::sleep_for(20ms);
    }
  }
  // What the shard's primary says of itself.
  calls::ShardReport report(std::uint32_t shard) {
    const auto until = Clock::now() + convoy::test::patience();
    while (Clock::now() < until) {
      for (auto& [number, server] : servers_) {
        transport::ChannelSettings settings;
        settings.identity = {coordinator_->job(), ""};
        transport::Channel channel(settings, transport::grpc_connector(server->address()));
        const transport::Answer answer =
            channel
                .call(std::string(calls::kReport), calls::report_request(shard), Clock::now() + 10s)
                .get();
        if (answer.status != transport::Answer::Status::done) continue;
        const calls::Answered answered = calls::decode_answered(answer.message);
        if (answered.outcome != calls::Outcome::done) continue;
        const calls::ShardReport report = calls::decode_report(answered.content);
        if (report.role == static_cast<std::uint8_t>(replication::Role::primary)) return report;
      }
      std::this_thread::sleep_for(20ms);
    }
    throw Failure("shard " + std::to_string(shard) + " has no primary");
  }

 private:
  static JobPlan plan() {
    JobPlan plan;
    plan.name = "end to end";
    plan.shards = 2;
    plan.servers = 2;
    plan.replicas = 3;
    plan.client_lease_ms = 120000;  // nobody is to be taken for dead
    // Nor a server that lives, and waits for a core: with the other one killed, its shards would
    // have nobody.
    plan.server_lease_ms = 3000;
    plan.batch = kBatch;
    plan.portion = kPortion;
    plan.epochs = 1;
    return plan;
  }
  static convoy::Log log(const std::string& name) {
    const bool lines = !environment("CONVOY_TEST_LINES").empty();
    using Level = convoy::Log::Level;
    return convoy::Log(name, lines ? Level::info : Level::error);
  }

  Scratch scratch_;
  std::string address_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  std::map<std::uint64_t, std::unique_ptr<host::Server>> servers_;
};

JobDescription description() {
  JobDescription description;
  description.model = "linear";
  for (const std::uint64_t size : {300, 70000, 5}) {
    description.vectors.push_back(
        {"w" + std::to_string(description.vectors.size()), size, optim::Sgd{.lr = 1}});
  }
  description.epoch_samples = kSamples;
  description.data = "counted";
  return description;
}

using Values = std::vector<std::vector<float>>;

Values filled(float value) {
  Values values;
  for (const VectorSpec& vector : description().vectors)
    values.emplace_back(vector.elements, value);
  return values;
}

// Of all replicas.
struct Updates {
  std::atomic<std::uint64_t> begun = 0, done = 0;
  std::atomic<std::uint64_t> allowed = 0;  // the test goes on when so many are done
};

// All portions that it gets.
void train(const ClientOptions& options, Updates& updates) {
  Client client(options);
  client.join(description());
  Values weights = filled(0), gradient = filled(0);
  std::vector<WriteView> to;
  std::vector<ReadView> from;
  for (std::uint32_t v = 0; v < weights.size(); ++v) {
    to.push_back({v, weights[v]});
    from.push_back({v, gradient[v]});
  }
  std::vector<std::uint64_t> finished;
  while (true) {
    const Lease lease = client.lease(finished);
    finished.clear();
    if (lease.kind == Lease::Kind::finished) break;
    if (lease.kind == Lease::Kind::wait) {
      std::this_thread::sleep_for(lease.wait);
      continue;
    }
    const Portion& portion = lease.portion;
    for (std::uint64_t begin = portion.begin; begin < portion.end; begin += kBatch) {
      const std::uint64_t number = ++updates.begun;
      while (number > updates.allowed) std::this_thread::sleep_for(2ms);
      client.fetch(to);
      const std::uint64_t id = begin / kBatch + 1;
      for (std::uint32_t v = 0; v < gradient.size(); ++v) {
        gradient[v].assign(gradient[v].size(), gradient_of(id, v));
      }
      const PushResult result =
          client.push(from, kBatch, {portion.number, begin + kBatch - portion.begin},
                      client.fetches(), std::vector{id});
      ASSERT_EQ(result.kind, PushResult::Kind::applied) << result.why;
      ++updates.done;
      client.report({1, kBatch, 0.5 * kBatch, kBatch});
    }
    finished.push_back(portion.number);
  }
  client.leave();
}

TEST(EndToEnd, EveryUpdateIsAppliedOnceWhoeverIsKilled) {
  Job job;
  Client evaluator(job.options("evaluator", ClientRole::evaluator));
  ASSERT_FALSE(evaluator.describe(description()));
  const Values first = filled(3);
  std::vector<ReadView> values;
  for (std::uint32_t v = 0; v < first.size(); ++v) values.push_back({v, first[v]});
  evaluator.initialize(values, {}, 0);
  ASSERT_TRUE(evaluator.describe(description()));

  Updates updates;
  std::atomic<int> ended = 0;
  std::vector<std::thread> replicas;
  for (int i = 1; i <= 3; ++i) {
    replicas.emplace_back([&, i] {
      try {
        train(job.options("replica-" + std::to_string(i)), updates);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "replica " << i << ": " << error.what();
      }
      ++ended;
    });
  }
  // Updates go on until so many are done.
  const auto reach = [&](std::uint64_t count) {
    updates.allowed = count;
    while (updates.done < count && ended < 3) std::this_thread::sleep_for(2ms);
  };
  reach(10);
  job.await_backups();
  updates.allowed = 40;  // while
  job.kill(1);
  reach(40);
  const Cut early = evaluator.cut();
  EXPECT_EQ(early.progress.samples, 40 * kBatch);
  evaluator.drop_cut(early);
  job.start(1);
  reach(50);
  job.await_backups();
  updates.allowed = 70;
  job.kill(2);  // now the other one has all
  reach(70);
  job.start(2);
  updates.allowed = 80;
  job.kill_coordinator();
  std::this_thread::sleep_for(300ms);  // fetches and pushes need none, leases wait for it
  job.start_coordinator();
  updates.allowed = kUpdates;
  for (std::thread& replica : replicas) replica.join();
  EXPECT_EQ(updates.done, kUpdates);

  Values there = filled(0);
  std::vector<WriteView> to;
  for (std::uint32_t v = 0; v < there.size(); ++v) to.push_back({v, there[v]});
  const Cut cut = evaluator.cut();
  EXPECT_EQ(cut.progress.samples, kSamples);
  EXPECT_EQ(cut.progress.twice, 0u);
  EXPECT_TRUE(cut.progress.all_done);
  EXPECT_EQ(cut.progress.reported.steps, kUpdates);
  evaluator.fetch_cut(cut, to);
  Values expected = filled(3);
  Ledger ledger;
  for (std::uint64_t id = 1; id <= kUpdates; ++id) {
    ledger.add(id);
    for (std::uint32_t v = 0; v < expected.size(); ++v) {
      for (float& w : expected[v]) w -= gradient_of(id, v);
    }
  }
  EXPECT_EQ(there, expected);
  evaluator.drop_cut(cut);
  for (std::uint32_t shard : {0, 1}) {
    const calls::ShardReport report = job.report(shard);
    EXPECT_EQ(report.ledger, ledger) << report.ledger.count << " " << report.ledger.sum;
    EXPECT_EQ(report.versions, std::vector<std::uint64_t>(report.versions.size(), kUpdates));
  }
  evaluator.end_job("all samples are done");
  EXPECT_EQ(evaluator.progress().ended, "all samples are done");
}

// --- a batch optimizer on shards ---

constexpr std::uint32_t kPortionsOfBatch = 24;

using Doubles = std::vector<std::vector<double>>;

// Of one portion: sums of these depend on their order.
Doubles portion_gradient(std::uint32_t portion) {
  Doubles values;
  std::mt19937_64 random(portion + 1);
  std::uniform_real_distribution<double> value(-1, 1);
  for (const VectorSpec& vector : description().vectors) {
    values.emplace_back();
    for (std::uint64_t i = 0; i < vector.elements; ++i) values.back().push_back(value(random));
  }
  return values;
}

// Portions begin to end - 1, in groups of two.
void add_groups(const ClientOptions& options, const EvaluationId& id, std::uint32_t begin,
                std::uint32_t end) {
  Client client(options);
  BatchClient shards(client);
  for (std::uint32_t first = begin; first < end; first += 2) {
    std::vector<PortionSum<double>> sums(description().vectors.size());
    for (std::uint32_t portion : {first, first + 1}) {
      const Doubles gradient = portion_gradient(portion);
      for (std::size_t v = 0; v < sums.size(); ++v) sums[v].add(gradient[v]);
    }
    std::vector<BatchView<const double>> views;
    for (std::uint32_t v = 0; v < sums.size(); ++v) views.push_back({v, sums[v].take()});
    EXPECT_EQ(shards.add_group(id, {first, 1}, std::span<const BatchView<const double>>(views)),
              GroupAnswer::kept);
  }
}

Doubles fetched(BatchClient& shards, const optim::VectorName& name) {
  Doubles values;
  std::vector<BatchView<double>> to;
  for (const VectorSpec& vector : description().vectors) values.emplace_back(vector.elements);
  for (std::uint32_t v = 0; v < values.size(); ++v) to.push_back({v, values[v]});
  shards.fetch(name, std::span<const BatchView<double>>(to));
  return values;
}

// Servers and the coordinator die in the middle of evaluations, and no portion is computed again.
TEST(EndToEnd, AGradientHasTheSameBitsWhoeverIsKilled) {
  Job job;
  Client client(job.options("method", ClientRole::observer));
  client.describe(description());
  BatchClient shards(client);
  shards.open(Element::f64);
  const Doubles start = portion_gradient(1000);
  std::vector<BatchView<const double>> from;
  for (std::uint32_t v = 0; v < start.size(); ++v) from.push_back({v, start[v]});
  shards.put({}, std::span<const BatchView<const double>>(from));
  ASSERT_TRUE(shards.initialized());
  job.await_backups();

  ShardSpace space(shards);
  const optim::VectorName weights{optim::VectorRole::weights, 0, 1};
  const auto evaluate = [&](const EvaluationId& id, const std::function<void()>& in_the_middle) {
    space.evaluate(id, kPortionsOfBatch);
    std::thread other([&] { add_groups(job.options("a"), id, 0, 8); });
    add_groups(job.options("b"), id, 8, 14);
    other.join();
    in_the_middle();
    add_groups(job.options("c"), id, 14, kPortionsOfBatch);
    const optim::Term decay{0.25, {optim::VectorRole::weights, 0, id.evaluation}};
    EXPECT_TRUE(shards.seal(id, 0.5, {&decay, 1}).empty());
    return fetched(shards, {optim::VectorRole::gradient, 0, id.evaluation});
  };
  const Doubles first = evaluate({0, 0}, [&] { job.kill(1); });
  job.start(1);
  job.await_backups();
  optim::scale(space, weights, 1, {});  // the same once more
  const Doubles second = evaluate({0, 1}, [&] {
    job.kill_coordinator();
    job.kill(2);
    job.start_coordinator();
  });
  EXPECT_EQ(first, second);
  const optim::VectorPair pair{{optim::VectorRole::gradient, 0, 0},
                               {optim::VectorRole::gradient, 0, 1}};
  EXPECT_GT(shards.dots({&pair, 1}).front(), 0);

  // Portion by portion, in one process.
  for (std::size_t v = 0; v < start.size(); ++v) {
    PortionSum<double> sum;
    const std::vector<double> zeros(start[v].size());
    for (std::uint32_t i = 0; i < 32; ++i) {
      sum.add(i < kPortionsOfBatch ? portion_gradient(i)[v] : zeros);
    }
    const auto all = sum.take();
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(first[v][i], 0.5 * all[i] + 0.25 * start[v][i]);
    }
  }
}

}  // namespace
}  // namespace convoy::server
