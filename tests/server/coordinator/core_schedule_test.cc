// Random schedules: replicas come, work, die and wake up again, messages get lost, the coordinator
// is killed at any moment with what it had not stored yet.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "server/coordinator/core.h"
#include "tests/base/effort.h"
#include "tests/server/coordinator/world.h"

namespace convoy::server::coordinator {
namespace {

using test::World;
using LeaseKind = calls::LeaseAnswer::Kind;

class JobSchedule {
 public:
  explicit JobSchedule(std::uint64_t seed) : random_(seed), world_(plan()) {
    world_.lost = [this] { return faults_ && chance(5); };
    world_.ready(samples_);
    evaluator_ = world_.join(ClientRole::evaluator);
  }

  void run() {
    for (int i = 0; i < 600; ++i) step();
    faults_ = false;
    world_.storing = true;
    world_.store_now();
    for (auto& shard : world_.shards) shard.away = false;
    for (int i = 0; i < 4000 && !world_.progress().all_done; ++i) {
      if (replicas_.empty()) come();
      for (Replica& each : replicas_) work(each);
      forget_dead();
      world_.pass(20);
    }
    ASSERT_TRUE(world_.progress().all_done) << "something was left";
    check();
  }

 private:
  struct Replica {
    std::uint64_t id = 0, sequence = 0, last = 0;
    std::vector<Portion> portions;
    std::vector<std::uint64_t> finished;  // not told yet
    std::uint64_t at = 0;                 // samples of the first portion
    bool pushed[2] = {true, true};        // the push under way
    std::uint64_t to = 0;
    bool dead = false;
  };

  bool chance(int percent) { return static_cast<int>(random_() % 100) < percent; }

  JobPlan plan() {
    JobPlan plan = test::small_plan();
    plan.batch = 1 + random_() % 4;
    plan.portion = plan.batch * (1 + random_() % 4);
    plan.epochs = 1 + random_() % 2;
    if (chance(30)) plan.warm_samples = 1 + random_() % 30;
    samples_ = 20 + random_() % 60;
    return plan;
  }

  void come() {
    Replica replica;
    const auto hello =
        calls::ClientHello{"r", ClientRole::replica, 0, 0, 1, test::small_description(samples_)};
    const auto answer = answered(calls::kJoin, calls::encode(hello));
    if (!answer) return;
    replica.id = calls::decode_client_welcome(*answer).client;
    world_.join_shards(replica.id);
    replicas_.push_back(replica);
  }

  // Nothing: it got lost.
  std::optional<transport::Message> answered(std::string_view method,
                                             const transport::Message& request) {
    const auto answer = world_.answer(world_.send(method, request));
    return faults_ && chance(5) ? std::nullopt : answer;
  }

  void step() {
    const auto what = random_() % 100;
    if (what < 2 && replicas_.size() < 4) come();
    if (what >= 2 && what < 4 && !replicas_.empty()) {
      replicas_.erase(replicas_.begin() +
                      static_cast<std::ptrdiff_t>(random_() % replicas_.size()));
    }
    if (what == 4) world_.start();
    if (what == 5) world_.storing = !world_.storing;
    if (what == 6) world_.shards[random_() % 2].away = chance(30);
    if (what == 7) cut();
    if (what == 8) world_.pass(1200);  // everybody was stopped: perhaps taken for dead
    if (world_.storing) world_.store_now();
    if (!replicas_.empty()) work(replicas_[random_() % replicas_.size()]);
    forget_dead();
    if (chance(30)) world_.pass(30);
  }

  void forget_dead() {
    std::erase_if(replicas_, [](const Replica& each) { return each.dead; });
  }

  void cut() {
    answered(calls::kBeat, calls::encode(calls::Beat{evaluator_, 0, {}}));
    try {
      world_.send(calls::kMakeCut, calls::encode(calls::ClientRequest{evaluator_}));
    } catch (const UsageError&) {
    }
  }

  void work(Replica& replica) {
    const auto beat = answered(calls::kBeat, calls::encode(calls::Beat{replica.id, 0, {}}));
    if (beat && !calls::decode_beat_answer(*beat).known) {
      replica.dead = true;
      return;
    }
    for (int shard = 0; shard < 2; ++shard) {
      if (!replica.pushed[shard]) return push(replica, shard);
    }
    if (!replica.portions.empty()) {
      const Portion& portion = replica.portions.front();
      const std::uint64_t size = portion.end - portion.begin;
      if (replica.at < size) {
        replica.to = std::min(size, replica.at + 1 + random_() % 4);
        ++replica.sequence;
        replica.pushed[0] = replica.pushed[1] = false;
        return push(replica, chance(50) ? 1 : 0);
      }
      replica.finished.push_back(portion.number);
      replica.portions.erase(replica.portions.begin());
      replica.at = 0;
    }
    if (!replica.portions.empty() && chance(50)) return;
    const auto answer =
        answered(calls::kLease,
                 calls::encode(calls::LeaseRequest{replica.id, replica.last, replica.finished}));
    if (!answer) return;
    replica.finished.clear();
    const auto lease = calls::decode_lease_answer(*answer);
    if (lease.kind == LeaseKind::unknown_client) replica.dead = true;
    if (lease.kind != LeaseKind::portion) return;
    ASSERT_GT(lease.portion.number, replica.last);
    replica.last = lease.portion.number;
    replica.portions.push_back(lease.portion);
  }

  void push(Replica& replica, int number) {
    test::FakeShard& shard = world_.shards[static_cast<std::size_t>(number)];
    if (shard.away) return;
    const Portion& portion = replica.portions.front();
    const auto reply =
        shard.push(replica.id, replica.sequence, portion.number << 32 | replica.to, {});
    if (!reply) return;  // held back
    if (reply->status == Status::not_member) {
      replica.dead = true;
      return;
    }
    ASSERT_EQ(reply->status, Status::done);
    for (std::uint64_t each = portion.begin + replica.at; each < portion.begin + replica.to;
         ++each) {
      ++applied_[{portion.epoch, each}][static_cast<std::size_t>(number)];
    }
    replica.pushed[number] = true;
    if (replica.pushed[0] && replica.pushed[1]) replica.at = replica.to;
  }

  void check() {
    const JobProgress progress = world_.progress();
    std::uint64_t extra = 0;
    for (const auto& [sample, times] : applied_) {
      for (const int each : times) {
        ASSERT_GE(each, 1) << "sample " << sample.second << " of epoch " << sample.first;
        extra += static_cast<std::uint64_t>(each - 1);
      }
    }
    EXPECT_EQ(applied_.size(), world_.core->plan().epochs * samples_);
    EXPECT_EQ(progress.samples, applied_.size());
    EXPECT_EQ(progress.twice, extra);
    // Nothing is left on the shards, either.
    answered(calls::kLeave, calls::encode(calls::ClientRequest{evaluator_}));
    world_.pass(20'000);
    for (auto& shard : world_.shards) {
      EXPECT_TRUE(shard.state.status().cuts.empty());
      EXPECT_TRUE(shard.state.status().clients.empty());
    }
  }

  std::mt19937_64 random_;
  std::uint64_t samples_ = 0, evaluator_ = 0;
  bool faults_ = true;
  World world_;
  std::vector<Replica> replicas_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::array<int, 2>> applied_;
};

TEST(CoreSchedule, EverySampleIsUsedOnceOrCountedTwice) {
  const std::uint64_t schedules = convoy::test::all_cases() ? 300 : 75;
  for (std::uint64_t seed = 1; seed <= schedules; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    JobSchedule(seed).run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace convoy::server::coordinator
