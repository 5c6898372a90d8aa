#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "base/exact_sum.h"
#include "server/coordinator/group_ledger.h"
#include "tests/base/effort.h"
#include "tests/server/coordinator/group_shards.h"

namespace convoy::server::coordinator {
namespace {

using namespace test;

// Replicas that come, work, stand still, come back and die at any moment, also when only some
// shards have a group; shards that lose groups; now and then the ledger is another one, made of the
// bytes.
class GroupSchedule {
 public:
  explicit GroupSchedule(std::uint64_t seed) : random_(seed) {
    options_.portions = 1 + static_cast<std::uint32_t>(random_() % (random_() % 4 == 0 ? 700 : 60));
    options_.largest = static_cast<std::uint8_t>(random_() % 6);
    options_.backups = random_() % 4 != 0;
    options_.copies = 1 + static_cast<std::uint32_t>(random_() % 3);
    ledger_ = std::make_unique<GroupLedger>(options_);
  }

  void run() {
    for (int evaluation = 0; evaluation < 3; ++evaluation) {
      id_ = {evaluation / 2, evaluation % 2};
      ledger_->begin(id_);
      for (GroupShard& shard : shards_) shard.begin(id_, options_.portions);
      losses_.clear();
      for (int i = 0;; ++i) {
        ASSERT_LT(i, 200'000) << "it doesn't end";
        now_ += 1 + random_() % 200'000;
        if (random_() % 16 == 0) disturb();
        if (replicas_.size() < 6 && (replicas_.empty() || random_() % 20 == 0)) enter();
        step(std::next(replicas_.begin(), static_cast<std::ptrdiff_t>(random_() % replicas_.size()))
                 ->second);
        if (::testing::Test::HasFatalFailure()) return;
        if (ledger_->complete() && sealed()) break;
      }
      check();
      if (::testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  struct Worker {
    std::uint64_t id = 0;
    bool taken_for_dead = false;
    EvaluationId evaluation;
    std::vector<PortionGroup> held;
    std::size_t pushed = 0;  // shards that have the first of them
  };

  void enter() {
    Worker worker;
    worker.id = next_id_++;
    ledger_->enter(worker.id);
    replicas_[worker.id] = worker;
  }

  void disturb() {
    if (replicas_.empty()) return;
    Worker& worker =
        std::next(replicas_.begin(), static_cast<std::ptrdiff_t>(random_() % replicas_.size()))
            ->second;
    switch (random_() % 4) {
      case 0:  // dies
        ledger_->leave(worker.id);
        replicas_.erase(worker.id);
        break;
      case 1:  // stands still for so long that it is taken for dead, and goes on working
        ledger_->leave(worker.id);
        worker.taken_for_dead = true;
        break;
      case 2:
        restart();
        break;
      case 3:
        shards_[random_() % shards_.size()].lose(random_());
        break;
    }
  }

  void restart() {
    auto next = std::make_unique<GroupLedger>(options_);
    next->decode(ledger_->encode());
    for (std::uint32_t block = 0; block * GroupLedger::kBlock < options_.portions; ++block) {
      next->decode(block, ledger_->encode(block));
    }
    ASSERT_EQ(next->loss(), ledger_->loss());
    ASSERT_EQ(next->counts().done, ledger_->counts().done);
    for (const auto& [id, worker] : replicas_) {
      if (!worker.taken_for_dead) next->enter(id);
    }
    ledger_ = std::move(next);
  }

  void step(Worker& worker) {
    const bool works = !worker.held.empty();
    if (works && random_() % 3 != 0) return push(worker);
    if (worker.taken_for_dead) {
      if (!works) replicas_.erase(worker.id);
      return;
    }
    if (worker.evaluation != id_) {
      worker.held.clear();
      worker.pushed = 0;
      worker.evaluation = id_;
    }
    const auto handed = ledger_->lease(now_, worker.id, worker.held);
    if (random_() % 10 == 0) return;  // the answer is lost
    for (const PortionGroup& each : handed.unused) {
      const auto found = std::find(worker.held.begin(), worker.held.end(), each);
      ASSERT_NE(found, worker.held.end());
      if (found == worker.held.begin()) worker.pushed = 0;
      worker.held.erase(found);
    }
    if (handed.kind != GroupLedger::Handed::Kind::group) return;
    ASSERT_LE(handed.group.log2_size, options_.largest);
    ASSERT_EQ(handed.group.first % portions_of(handed.group), 0u);
    ASSERT_LE(end_of(handed.group), options_.portions);
    if (handed.changed) {
      ASSERT_LE(ledger_->holders(handed.group), options_.copies);
      ASSERT_FALSE(handed.copy && !options_.backups);
    }
    ASSERT_LT(worker.held.size(), 2u);
    worker.held.push_back(handed.group);
  }

  // To the next shard; behind the last one it is finished.
  void push(Worker& worker) {
    const PortionGroup group = worker.held.front();
    const auto answer = shards_[worker.pushed].add(worker.evaluation, group,
                                                   gradient_of_group(worker.evaluation, group));
    ASSERT_NE(answer, GroupAnswer::overlaps) << "copies are of whole groups";
    if (answer == GroupAnswer::ended) {
      worker.held.clear();
      worker.pushed = 0;
      return;
    }
    if (++worker.pushed < shards_.size()) return;
    std::vector<double> losses;
    for (std::uint32_t each = group.first; each < end_of(group); ++each) {
      losses.push_back(loss_of_portion(worker.evaluation, each));
    }
    const int times = random_() % 10 == 0 ? 2 : 1;  // the answer was lost
    for (int i = 0; i < times; ++i) {
      const auto taken = ledger_->finished(now_, worker.id, worker.evaluation, group, losses);
      if (taken == GroupLedger::Taken::counted && losses_.insert(group).second) {
        for (std::uint32_t each = group.first; each < end_of(group); ++each) {
          ASSERT_TRUE(portions_.insert(each).second) << "portion " << each << " is in two groups";
        }
      }
    }
    worker.held.erase(worker.held.begin());
    worker.pushed = 0;
  }

  bool sealed() {
    bool all = true;
    for (const GroupShard& shard : shards_) {
      for (const PortionRange& range : shard.missing()) {
        all = false;
        ledger_->missing(range.begin, range.end);
      }
    }
    return all;
  }

  void check() {
    ASSERT_EQ(portions_.size(), options_.portions) << "each portion is in one group";
    portions_.clear();
    ExactSum sum;
    for (std::uint32_t each = 0; each < options_.portions; ++each) {
      sum.add(loss_of_portion(id_, each));
    }
    ASSERT_EQ(ledger_->loss(), sum.value());
    const Gradient expected = gradient_of_batch(id_, options_.portions);
    for (const GroupShard& shard : shards_) {
      const auto gradient = shard.sum();
      ASSERT_TRUE(gradient);
      ASSERT_EQ(*gradient, expected) << "to the last bit";
    }
  }

  std::mt19937_64 random_;
  GroupOptions options_;
  std::unique_ptr<GroupLedger> ledger_;
  std::array<GroupShard, 2> shards_;
  std::map<std::uint64_t, Worker> replicas_;
  std::uint64_t next_id_ = 1;
  EvaluationId id_;
  Time now_ = 0;
  std::set<PortionGroup> losses_;
  std::set<std::uint32_t> portions_;
};

TEST(GroupSchedule, EachPortionIsSummedOnceOnEveryShardWhoeverDies) {
  const std::uint64_t seeds = convoy::test::all_cases() ? 5000 : 200;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    GroupSchedule(seed).run();
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace convoy::server::coordinator
