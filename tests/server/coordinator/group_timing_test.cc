// A batch in virtual time: how long it takes with replicas of unequal speed, and what goes through
// the coordinator.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <vector>

#include "base/exact_sum.h"
#include "server/coordinator/group_desk.h"
#include "tests/base/effort.h"
#include "tests/server/coordinator/group_shards.h"

namespace convoy::server::coordinator {
namespace {

using namespace test;
using calls::PortionAnswer;

constexpr Time kLatency = 1000;    // of a message, microseconds
constexpr Time kFetch = 20'000;    // of weights
constexpr Time kSum = 5000;        // a group to a shard
constexpr Time kBetween = 50'000;  // of evaluations: seal, direction

struct Pace {
  double portion_time = 500'000;  // microseconds
  double jitter = 0;              // relative
};

class TimedBatch {
 public:
  TimedBatch(const GroupOptions& options, std::vector<Pace> paces, std::uint64_t seed = 1)
      : options_(options), desk_(options), random_(seed) {
    for (const Pace& pace : paces) add(pace);
  }

  std::uint64_t add(const Pace& pace) {
    const std::uint64_t id = next_id_++;
    desk_.enter(id);
    workers_[id].id = id;
    workers_[id].pace = pace;
    send(workers_[id], {});
    return id;
  }
  void at(Time time, std::function<void()> what) {
    events_.push({time, order_++, std::move(what)});
  }
  void set_pace(std::uint64_t id, double portion_time) {
    workers_[id].pace.portion_time = portion_time;
  }
  // Without a word; the coordinator finds out after a lease.
  void kill(std::uint64_t id) {
    workers_[id].dead = true;
    at(now_ + 3'000'000, [this, id] {
      desk_.leave(now_, id);
      speak();
    });
  }
  // It is taken for dead, and comes back with what it had.
  void pause(std::uint64_t id, Time time) {
    workers_[id].frozen_until = now_ + time;
    if (time <= 3'000'000) return;
    at(now_ + 3'000'000, [this, id] {
      desk_.leave(now_, id);
      speak();
    });
    at(now_ + time, [this, id] {
      desk_.enter(id);
      Worker& worker = workers_[id];
      send(worker, {});
    });
  }

  // Seconds until all portions are done.
  double evaluate() {
    id_.iteration += 1;
    at(now_ + kBetween, [this] {
      for (GroupShard& shard : shards_) shard.begin(id_, options_.portions);
      desk_.begin(now_, id_);
      began_ = now_;
      bytes_ = desk_.bytes();
      last_sizes_.clear();
      speak();
    });
    bool open = false;
    while (!open || !desk_.ledger().complete()) {
      if (events_.empty()) {
        ADD_FAILURE() << "nothing happens any more";
        return 0;
      }
      auto event = events_.top();
      events_.pop();
      now_ = std::max(now_, event.time);
      event.what();
      open = desk_.ledger().open() && desk_.ledger().evaluation() == id_;
    }
    check();
    const double seconds = static_cast<double>(now_ - began_) / 1e6;
    desk_.end();
    speak();
    bytes_ = desk_.bytes() - bytes_;
    return seconds;
  }

  std::uint64_t bytes() const { return bytes_; }
  const GroupLedger& ledger() const { return desk_.ledger(); }
  // Sizes of the groups in the order in which they were handed out first.
  const std::vector<std::uint32_t>& sizes() const { return last_sizes_; }
  const std::map<std::uint64_t, std::uint64_t>& portions_done() const { return portions_done_; }

 private:
  struct Worker {
    std::uint64_t id = 0;
    Pace pace;
    bool dead = false;
    Time frozen_until = 0;
    EvaluationId evaluation;
    std::vector<PortionGroup> held;
    bool working = false;
    std::uint64_t work = 0;  // number of what it works on, so that it can be given up
    CallId call = 0;         // that it waits for
  };
  struct Event {
    Time time = 0;
    std::uint64_t order = 0;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return std::pair(time, order) > std::pair(other.time, other.order);
    }
  };

  void send(Worker& worker, std::vector<calls::FinishedGroup> finished) {
    calls::PortionRequest request{worker.id, worker.evaluation, worker.held, std::move(finished),
                                  !worker.held.empty()};
    const CallId call = worker.call = next_call_++;
    callers_[call] = worker.id;
    at(now_ + kLatency, [this, call, request] {
      if (!desk_.ledger().has(request.client)) return;
      desk_.ask(now_, call, calls::decode_portion_request(calls::encode(request)));
      speak();
    });
  }

  // What the coordinator has to say now, and when it has to look again.
  void speak() {
    for (auto& [call, answer] : desk_.answers(now_)) {
      if (answer.kind == PortionAnswer::Kind::group && !answer.copy)
        last_sizes_.push_back(portions_of(answer.group));
      const std::uint64_t id = callers_.at(call);
      callers_.erase(call);
      at(now_ + kLatency,
         [this, id, call = call, answer = calls::decode_portion_answer(calls::encode(answer))] {
           receive(workers_.at(id), call, answer);
         });
    }
    const Time due = desk_.due();
    if (due == GroupLedger::kNever || (due >= looks_at_ && looks_at_ > now_)) return;
    looks_at_ = std::max(due, now_ + 1);
    at(looks_at_, [this] { speak(); });
  }

  void receive(Worker& worker, CallId call, const PortionAnswer& answer) {
    if (worker.dead || call != worker.call) return;
    if (worker.frozen_until > now_) return;  // it comes back with another request
    worker.call = 0;
    if (answer.kind == PortionAnswer::Kind::unknown_client) return;
    if (answer.evaluation != worker.evaluation) {
      worker.evaluation = answer.evaluation;
      give_up(worker);
      worker.held.clear();
    }
    for (const PortionGroup& each : answer.unused) {
      const auto found = std::find(worker.held.begin(), worker.held.end(), each);
      if (found == worker.held.end()) continue;
      if (found == worker.held.begin()) give_up(worker);
      worker.held.erase(found);
    }
    const bool more = answer.kind == PortionAnswer::Kind::group;
    if (more) worker.held.push_back(answer.group);
    begin_work(worker);
    if (worker.held.empty() || (more && worker.held.size() < 2)) send(worker, {});
  }

  void give_up(Worker& worker) {
    ++worker.work;
    worker.working = false;
  }

  void begin_work(Worker& worker) {
    if (worker.working || worker.held.empty()) return;
    worker.working = true;
    const PortionGroup group = worker.held.front();
    const EvaluationId evaluation = worker.evaluation;
    const double one = 1 + worker.pace.jitter * std::uniform_real_distribution(-1.0, 1.0)(random_);
    const bool fetches = fetched_[worker.id] != evaluation;
    fetched_[worker.id] = evaluation;
    const auto takes = static_cast<Time>(worker.pace.portion_time * portions_of(group) * one) +
                       kSum + (fetches ? kFetch : 0);
    finish_at(worker.id, now_ + takes, ++worker.work, evaluation, group);
  }

  void finish_at(std::uint64_t id, Time time, std::uint64_t work, const EvaluationId& evaluation,
                 const PortionGroup& group) {
    at(time, [=, this] {
      Worker& worker = workers_.at(id);
      if (worker.dead || worker.work != work) return;
      if (worker.frozen_until > now_)
        return finish_at(id, worker.frozen_until, work, evaluation, group);
      worker.working = false;
      bool ended = false;
      for (GroupShard& shard : shards_) {
        const auto answer = shard.add(evaluation, group, gradient_of_group(evaluation, group));
        EXPECT_NE(answer, GroupAnswer::overlaps);
        ended = ended || answer == GroupAnswer::ended;
      }
      if (ended) {
        worker.held.clear();
        return send(worker, {});
      }
      portions_done_[id] += portions_of(group);
      worker.held.erase(worker.held.begin());
      calls::FinishedGroup finished{group, {}};
      for (std::uint32_t each = group.first; each < end_of(group); ++each) {
        finished.losses.push_back(loss_of_portion(evaluation, each));
      }
      begin_work(worker);
      send(worker, {finished});
    });
  }

  void check() {
    ExactSum sum;
    for (std::uint32_t each = 0; each < options_.portions; ++each) {
      sum.add(loss_of_portion(id_, each));
    }
    EXPECT_EQ(desk_.ledger().loss(), sum.value());
    const Gradient expected = gradient_of_batch(id_, options_.portions);
    for (const GroupShard& shard : shards_) {
      const auto gradient = shard.sum();
      ASSERT_TRUE(gradient);
      EXPECT_EQ(*gradient, expected);
    }
  }

  const GroupOptions options_;
  GroupDesk desk_;
  std::mt19937_64 random_;
  std::priority_queue<Event> events_;
  std::uint64_t order_ = 0;
  Time now_ = 0, began_ = 0, looks_at_ = 0;
  EvaluationId id_{-1, 0};
  std::array<GroupShard, 2> shards_;
  std::map<std::uint64_t, Worker> workers_;
  std::map<std::uint64_t, EvaluationId> fetched_;
  std::uint64_t next_id_ = 1;
  CallId next_call_ = 1;
  std::map<CallId, std::uint64_t> callers_;
  std::uint64_t bytes_ = 0;
  std::vector<std::uint32_t> last_sizes_;
  std::map<std::uint64_t, std::uint64_t> portions_done_;
};

GroupOptions batch_in(std::uint32_t portions, std::uint8_t largest = 4) {
  GroupOptions options;
  options.portions = portions;
  options.largest = largest;
  return options;
}

std::vector<Pace> one_slow(std::size_t replicas, double times, double jitter) {
  std::vector<Pace> paces(replicas, Pace{500'000, jitter});
  paces.back().portion_time *= times;
  return paces;
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// One of 8 replicas is 10 times as slow: together they have 7.1 times the speed of one.
TEST(GroupTiming, OneSlowReplicaHardlyHoldsTheBatch) {
  constexpr std::uint32_t kPortions = 200;
  const double ideal = kPortions * 0.5 / 7.1;
  const double divided_evenly = kPortions / 8 * 5.0;
  EXPECT_GT(divided_evenly / ideal, 8.8);
  for (const double jitter : {0.0, 0.1}) {
    TimedBatch batch(batch_in(kPortions), one_slow(8, 10, jitter));
    std::vector<double> times;
    for (int i = 0; i < 10; ++i) times.push_back(batch.evaluate());
    EXPECT_LE(median_of(times) / ideal, 1.2) << "jitter " << jitter;
    EXPECT_LE(*std::max_element(times.begin(), times.end()) / ideal, 1.3) << "jitter " << jitter;
    RecordProperty("ratio_" + std::to_string(jitter), std::to_string(median_of(times) / ideal));
    EXPECT_LT(batch.ledger().counts().copies, 16u);
  }
}

TEST(GroupTiming, WhoeverIsSlow) {
  for (std::uint64_t seed = 1; seed <= (convoy::test::all_cases() ? 1000u : 20u); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::vector<Pace> paces(2 + random() % 9);
    double speed = 0;
    for (Pace& pace : paces) {
      pace.portion_time = 500'000 * std::exp2(std::uniform_real_distribution(-1.0, 3.0)(random));
      pace.jitter = 0.2;
      speed += 1e6 / pace.portion_time;
    }
    const std::uint32_t portions = static_cast<std::uint32_t>(25 * paces.size() + random() % 200);
    TimedBatch batch(batch_in(portions, static_cast<std::uint8_t>(random() % 6)), paces, seed);
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) times.push_back(batch.evaluate());
    EXPECT_LE(median_of(times) / (portions / speed), 1.25);
  }
}

TEST(GroupTiming, GroupsHaveOnePortionAtTheEndOfABatch) {
  TimedBatch batch(batch_in(1000), std::vector<Pace>(8, Pace{500'000, 0.1}));
  for (int i = 0; i < 3; ++i) {
    batch.evaluate();
    const auto& sizes = batch.sizes();
    ASSERT_GT(sizes.size(), 8u);
    EXPECT_EQ(*std::max_element(sizes.begin(), sizes.end()), 16u);
    EXPECT_TRUE(std::all_of(sizes.end() - 8, sizes.end(), [](auto size) { return size == 1; }));
  }
}

TEST(GroupTiming, AReplicaThatBecomesSlowOrStandsStillHoldsTheBatchForLittle) {
  TimedBatch batch(batch_in(200), std::vector<Pace>(8, Pace{500'000, 0.1}));
  const double alone = batch.evaluate();
  batch.set_pace(3, 5'000'000);
  EXPECT_LE(batch.evaluate(), 1.3 * alone);
  batch.set_pace(3, 500'000);
  batch.evaluate();
  batch.at(0, [&] { batch.pause(5, 30'000'000); });
  EXPECT_LE(batch.evaluate(), 1.35 * alone);
  for (int i = 0; i < 4; ++i) batch.evaluate();
  const std::uint64_t late = batch.portions_done().at(5);
  batch.evaluate();
  EXPECT_GT(batch.portions_done().at(5), late) << "it came back";
}

TEST(GroupTiming, ReplicasMayComeAndDieAtAnyTime) {
  for (std::uint64_t seed = 1; seed <= (convoy::test::all_cases() ? 2000u : 40u); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    TimedBatch batch(batch_in(1 + static_cast<std::uint32_t>(random() % 150),
                              static_cast<std::uint8_t>(random() % 5)),
                     std::vector<Pace>(1 + random() % 5, Pace{300'000, 0.3}), seed);
    for (int evaluation = 0; evaluation < 3; ++evaluation) {
      std::vector<std::uint64_t> here;
      for (int i = 0; i < 4; ++i) {
        here.push_back(batch.add({static_cast<double>(100'000 + random() % 2'000'000), 0.3}));
      }
      for (const std::uint64_t id : here) {
        batch.at(random() % 40'000'000, [&batch, id, what = random() % 3] {
          if (what == 0) batch.kill(id);
          if (what == 1) batch.pause(id, 30'000'000);
        });
      }
      EXPECT_GT(batch.evaluate(), 0);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

// At most 64 KiB an evaluation and 100 bytes a portion, whatever the size of the network.
TEST(GroupTiming, FewBytesGoThroughTheCoordinator) {
  for (const std::uint8_t largest : {0, 4}) {
    for (const std::uint32_t portions : {1u, 200u, 5000u}) {
      TimedBatch batch(batch_in(portions, largest), one_slow(8, 10, 0.1));
      for (int i = 0; i < 3; ++i) {
        batch.evaluate();
        EXPECT_LE(batch.bytes(), 100u * portions + (64u << 10) / 4)
            << portions << " portions, groups of " << (1u << largest);
        if (portions > 1000) EXPECT_LE(batch.bytes(), 100u * portions);
      }
    }
  }
}

}  // namespace
}  // namespace convoy::server::coordinator
