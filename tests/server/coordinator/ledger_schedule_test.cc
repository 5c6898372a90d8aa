#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "server/coordinator/ledger.h"
#include "tests/base/effort.h"
#include "tests/server/coordinator/progress.h"

namespace convoy::server::coordinator {
namespace {

using test::so_far;
using HandedKind = Ledger::Handed::Kind;

// Replicas that come, work, push to two shards and die at any moment; now and then the ledger is
// another one, made of the bytes.
class Schedule {
 public:
  explicit Schedule(std::uint64_t seed) : random_(seed) {
    JobPlan& plan = plan_;
    plan.batch = 1 + random_() % 5;
    plan.portion = plan.batch * (1 + random_() % 4);
    plan.epochs = random_() % 4;
    if (plan.epochs == 0 || random_() % 3 == 0) plan.samples = 1 + random_() % 150;
    plan.drop_last = random_() % 2 == 0;
    plan.replicas = 1 + static_cast<std::uint32_t>(random_() % 4);
    if (random_() % 3 == 0) {
      plan.staleness_bound = 0;
      plan.portion = plan.batch;
    }
    epoch_samples_ = 1 + random_() % 60;
    if (random_() % 3 == 0 && plan.epochs != 1) {
      plan.first_epoch = plan.epochs == 0 ? random_() % 3 : random_() % plan.epochs;
      std::uint64_t at = random_() % 5;
      while (at < epoch_samples_) {
        const std::uint64_t end = std::min(epoch_samples_, at + 1 + random_() % 9);
        plan.consumed.emplace_back(at, end);
        at = end + 1 + random_() % 9;
      }
    }
    ledger_ = std::make_unique<Ledger>(plan, epoch_samples_);
    length_ = ledger_->epoch_length();
    for (const auto& [begin, end] : plan.consumed) {
      for (std::uint64_t each = begin; each < std::min(end, length_); ++each) {
        applied_[{plan.first_epoch, each}] = {1, 1};
      }
    }
    began_with_ = ledger_->samples();
  }

  void run() {
    for (int i = 0; i < 4000 && !over(); ++i) {
      step();
      if (HasFatalFailure()) return;
    }
    // All that are left work in order to the end.
    for (int i = 0; i < 100'000 && !over(); ++i) {
      if (replicas_.empty()) come();
      for (auto& [id, replica] : replicas_) work(id, replica, true);
    }
    ASSERT_TRUE(over()) << "something was left";
    check();
  }

 private:
  struct Replica {
    std::vector<Portion> portions;  // that it has, in order
    std::uint64_t at = 0;           // samples of the first that are pushed
    std::uint64_t last = 0;
    Progress pushed[2] = {0, 0};  // to each shard
  };
  static bool HasFatalFailure() { return ::testing::Test::HasFatalFailure(); }

  bool over() const { return ledger_->all_done(); }

  void come() {
    ledger_->enter(++ids_);
    replicas_[ids_];
  }

  void step() {
    const auto what = random_() % 100;
    if (replicas_.size() < 1 || (what < 4 && replicas_.size() < 5)) return come();
    auto at = replicas_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random_() % replicas_.size()));
    if (what < 8) {  // dies
      const auto [low, high] = std::minmax(at->second.pushed[0], at->second.pushed[1]);
      twice_ += ledger_->leave(at->first, low, high).twice;
      replicas_.erase(at);
    } else if (what < 10) {
      restart();
    } else {
      work(at->first, at->second, false);
    }
  }

  void restart() {
    auto again = std::make_unique<Ledger>(plan_, epoch_samples_);
    again->decode(ledger_->encode());
    for (const auto& [id, replica] : replicas_) again->decode(id, ledger_->encode(id));
    EXPECT_EQ(again->encode(), ledger_->encode());
    EXPECT_EQ(again->all_handed(), ledger_->all_handed());
    EXPECT_EQ(again->all_done(), ledger_->all_done());
    again->skip_numbers();
    ledger_ = std::move(again);
  }

  // Of its last share, as it is stored.
  std::uint64_t round_of(std::uint64_t id) const {
    const Bytes bytes = ledger_->encode(id);
    Reader reader(bytes, "portions");
    reader.version(1);
    return reader.u64();
  }

  void apply(const Portion& portion, std::uint64_t begin, std::uint64_t end, int shard) {
    for (std::uint64_t each = portion.begin + begin; each < portion.begin + end; ++each) {
      ++applied_[{portion.epoch, each}][static_cast<std::size_t>(shard)];
    }
  }

  void work(std::uint64_t id, Replica& replica, bool to_the_end) {
    if (replica.portions.empty() || random_() % 4 == 0) {
      const auto handed = ledger_->hand_out(id, replica.last, 2);
      // An answer may get lost.
      if (handed.kind == HandedKind::portion && (to_the_end || random_() % 5 != 0)) {
        ASSERT_LE(handed.portion.begin, handed.portion.end);
        if (plan_.staleness_bound != 0) ASSERT_LT(handed.portion.begin, handed.portion.end);
        ASSERT_LE(handed.portion.end, length_);
        ASSERT_LE(handed.portion.end - handed.portion.begin, plan_.portion);
        if (handed.changed) ASSERT_TRUE(numbers_.insert(handed.portion.number).second);
        if (plan_.staleness_bound == 0) {
          const auto [round, is_new] = rounds_.emplace(round_of(id), handed.portion.epoch);
          ASSERT_EQ(round->second, handed.portion.epoch) << "a round of two epochs";
        }
        replica.portions.push_back(handed.portion);
        replica.last = handed.portion.number;
      }
    }
    if (replica.portions.empty()) return;
    const Portion portion = replica.portions.front();
    const std::uint64_t size = portion.end - portion.begin;
    if (size == 0) replica.pushed[0] = replica.pushed[1] = so_far(portion, 0);
    if (replica.at == size) {
      ASSERT_TRUE(ledger_->finished(id, portion.number));
      replica.portions.erase(replica.portions.begin());
      replica.at = 0;
      return;
    }
    const std::uint64_t to = std::min(size, replica.at + 1 + random_() % plan_.batch);
    const Progress progress = so_far(portion, to);
    apply(portion, replica.at, to, 0);
    replica.pushed[0] = progress;
    if (!to_the_end && random_() % 10 == 0) {  // dies with the push on one shard only
      twice_ += ledger_->leave(id, replica.pushed[1], progress).twice;
      replicas_.erase(id);
      return;
    }
    apply(portion, replica.at, to, 1);
    replica.pushed[1] = progress;
    replica.at = to;
  }

  void check() {
    // By the shard that has the least of each, every sample is there exactly once; what the other
    // one has besides was counted.
    std::uint64_t extra = 0, count = 0;
    for (const auto& [sample, times] : applied_) {
      ASSERT_EQ(times[1], 1) << "epoch " << sample.first << ", sample " << sample.second;
      ASSERT_GE(times[0], 1);
      extra += static_cast<std::uint64_t>(times[0] - 1);
      ++count;
      ASSERT_LT(sample.second, length_);
    }
    EXPECT_EQ(extra, ledger_->twice());
    EXPECT_EQ(extra, twice_);
    EXPECT_EQ(count + plan_.first_epoch * length_, ledger_->samples());
    std::uint64_t wanted = plan_.epochs == 0 ? UINT64_MAX : plan_.epochs * length_;
    if (plan_.samples != 0) wanted = std::min(wanted, ledger_->limit());
    if (plan_.samples != 0 && plan_.staleness_bound != 0)
      EXPECT_EQ(ledger_->limit(), plan_.samples);
    if (length_ == 0) wanted = 0;
    EXPECT_EQ(ledger_->samples(), std::max(wanted, began_with_));
  }

  std::mt19937_64 random_;
  JobPlan plan_;
  std::uint64_t epoch_samples_ = 0, length_ = 0, began_with_ = 0;
  std::unique_ptr<Ledger> ledger_;
  std::uint64_t ids_ = 0, twice_ = 0;
  std::map<std::uint64_t, Replica> replicas_;
  std::set<std::uint64_t> numbers_;
  std::map<std::uint64_t, std::uint64_t> rounds_;  // the epoch of each
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::array<int, 2>> applied_;
};

TEST(LedgerSchedule, DoesEverySampleOnceWhateverDies) {
  const std::uint64_t schedules = convoy::test::all_cases() ? 2000 : 500;
  for (std::uint64_t seed = 1; seed <= schedules; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Schedule(seed).run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace convoy::server::coordinator
