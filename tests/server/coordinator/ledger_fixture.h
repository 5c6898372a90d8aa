// Plans and portions in few words.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "server/coordinator/ledger.h"
#include "tests/server/coordinator/progress.h"

namespace convoy::server::coordinator::test {

using HandedKind = Ledger::Handed::Kind;

inline JobPlan plan(std::uint64_t batch, std::uint64_t portion, std::uint64_t epochs) {
  JobPlan plan;
  plan.batch = batch;
  plan.portion = portion;
  plan.epochs = epochs;
  return plan;
}

// A staleness bound of 0: each replica has a share of `batch` samples.
inline JobPlan in_rounds(std::uint64_t batch, std::uint32_t replicas, std::uint64_t epochs) {
  JobPlan rounds = plan(batch, batch, epochs);
  rounds.staleness_bound = 0;
  rounds.replicas = replicas;
  return rounds;
}

inline void enter(Ledger& ledger, std::uint64_t groups) {
  for (std::uint64_t group = 1; group <= groups; ++group) ledger.enter(group);
}

inline Portion next(Ledger& ledger, std::uint64_t group, std::size_t ahead = 100) {
  const auto handed = ledger.hand_out(group, UINT64_MAX, ahead);
  EXPECT_EQ(handed.kind, HandedKind::portion);
  return handed.portion;
}

inline Range range(const Portion& portion) { return {portion.begin, portion.end}; }

}  // namespace convoy::server::coordinator::test
