// In rounds: where `training.steps` end.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "server/coordinator/ledger.h"

namespace convoy::server::coordinator {
namespace {

using HandedKind = Ledger::Handed::Kind;

// A job that goes on behind `before` samples of an epoch, and is to make so many steps yet.
struct Case {
  std::uint64_t samples, batch, epoch;  // samples of an epoch; the batch of one replica
  std::uint32_t replicas;
  std::vector<Range> before;
  std::uint64_t steps;
  bool drop_last;

  std::uint64_t unit() const { return batch * replicas; }
  std::uint64_t length() const { return drop_last ? samples / unit() * unit() : samples; }
};

// By the samples that are done, not by the batches they were in: one that was begun before is none.
// The evaluator (train/strategies/downpour/evaluator.cc) counts as many, or that one as well.
std::uint64_t steps_until(const Case& job, std::uint64_t epoch, std::uint64_t consumed) {
  const std::uint64_t each = (job.length() + job.unit() - 1) / job.unit();
  return epoch * each + std::min((consumed + job.unit() - 1) / job.unit(), each);
}
std::uint64_t steps_of(const Case& job, const Ledger& ledger) {
  JobProgress progress;
  ledger.view().fill({}, progress);
  std::uint64_t consumed = 0, first = 0;
  for (const auto& [begin, end] : progress.consumed) consumed += end - begin;
  for (const auto& [begin, end] : job.before) first += end - begin;
  return steps_until(job, progress.epoch, consumed) - steps_until(job, job.epoch, first);
}

void run(const Case& job) {
  JobPlan plan;
  plan.staleness_bound = 0;
  plan.batch = plan.portion = job.batch;
  plan.replicas = job.replicas;
  plan.drop_last = job.drop_last;
  plan.epochs = 0;
  plan.first_epoch = job.epoch;
  plan.consumed = job.before;
  std::uint64_t had = job.epoch * job.length();
  for (const auto& [begin, end] : job.before) had += end - begin;
  plan.samples = had + job.steps * job.unit();
  Ledger ledger(plan, job.samples);
  for (std::uint64_t group = 1; group <= job.replicas; ++group) ledger.enter(group);
  std::map<std::uint64_t, std::uint64_t> last;
  while (!ledger.all_done()) {
    // Gaps make rounds smaller than a batch, of which there are more.
    const bool gaps = job.before.size() > 1 || (!job.before.empty() && job.before[0].first > 0);
    if (!gaps) ASSERT_LT(steps_of(job, ledger), job.steps) << "a round more than is needed";
    for (std::uint64_t group = 1; group <= job.replicas; ++group) {
      const auto handed = ledger.hand_out(group, last[group], 1);
      if (handed.kind == HandedKind::portion) last[group] = handed.portion.number;
    }
    for (std::uint64_t group = 1; group <= job.replicas; ++group) {
      if (!ledger.held(group).empty()) ASSERT_TRUE(ledger.finished(group, last[group]));
    }
  }
  EXPECT_EQ(steps_of(job, ledger), job.steps);
  EXPECT_EQ(ledger.samples(), ledger.limit());
  EXPECT_LE(ledger.limit(), plan.samples);
}

TEST(LedgerSteps, AreAllMadeWhereverTheJobGoesOn) {
  Case job{};
  for (job.samples = 1; job.samples <= 13; ++job.samples) {
    for (job.batch = 1; job.batch <= 4; ++job.batch) {
      for (job.replicas = 1; job.replicas <= 3; ++job.replicas) {
        for (const bool drop_last : {false, true}) {
          job.drop_last = drop_last;
          for (std::uint64_t consumed = 0; consumed <= job.length(); ++consumed) {
            if (job.length() == 0) break;  // an epoch without a whole batch
            for (job.steps = 1; job.steps <= 9; ++job.steps) {
              for (const bool holes : {false, true}) {
                job.epoch = consumed % 3;
                job.before.clear();
                const std::uint64_t half = holes ? consumed / 2 : 0;
                if (half > 0) job.before.emplace_back(0, half);
                if (consumed > half) {
                  const std::uint64_t shift = holes && consumed < job.length() ? 1 : 0;
                  job.before.emplace_back(half + shift, consumed + shift);
                }
                SCOPED_TRACE(std::to_string(consumed) + " of " + std::to_string(job.samples) +
                             " samples done, " + std::to_string(job.steps) + " steps of " +
                             std::to_string(job.replicas) + " x " + std::to_string(job.batch) +
                             (drop_last ? ", whole ones" : "") + (holes ? ", holes" : ""));
                run(job);
                if (HasFailure()) return;
              }
            }
          }
        }
      }
    }
  }
}

// Resumed behind half a batch.
TEST(LedgerSteps, ABatchThatWasBegunBeforeIsNoneOfThose) {
  JobPlan plan;
  plan.staleness_bound = 0;
  plan.batch = plan.portion = 16;
  plan.replicas = 2;
  plan.epochs = 0;
  plan.consumed = {{0, 16}};
  plan.samples = 16 + 5 * 32;
  EXPECT_EQ(Ledger(plan, 128).limit(), 176u);
  plan.samples = 16 + 3 * 32;
  EXPECT_EQ(Ledger(plan, 128).limit(), 112u);
  plan.samples = 16 + 4 * 32;
  EXPECT_EQ(Ledger(plan, 128).limit(), 144u);
}

}  // namespace
}  // namespace convoy::server::coordinator
