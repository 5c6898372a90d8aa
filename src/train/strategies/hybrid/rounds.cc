#include "train/strategies/hybrid/rounds.h"

#include <algorithm>

#include "convoy/plan/placement.h"

namespace convoy::train {

std::size_t Round::samples() const {
  std::size_t sum = 0;
  for (const data::Range& piece : pieces) sum += piece.size();
  return sum;
}

std::int64_t rows_of(const data::Range& piece, std::int64_t views) {
  return static_cast<std::int64_t>(piece.size()) * views;
}

std::int64_t rows_of(const Round& round, std::int64_t views) {
  return static_cast<std::int64_t>(round.samples()) * views;
}

std::vector<Round> plan_rounds(std::span<const std::size_t> shares, int senders, int passes) {
  const int ranks = static_cast<int>(shares.size());
  if (passes > 0) {
    std::vector<Round> rounds(static_cast<std::size_t>(passes));
    for (int j = 0; j < passes; ++j) {
      for (const std::size_t share : shares)
        rounds[static_cast<std::size_t>(j)].pieces.push_back(
            data::even_share({0, share}, j, passes));
    }
    return rounds;
  }
  if (senders == 0) {
    Round all;
    for (const std::size_t share : shares) all.pieces.push_back({0, share});
    return {all};
  }
  std::vector<Round> rounds(shares.size(), {std::vector<data::Range>(shares.size())});
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int> own;
    for (int i = 0; i < senders; ++i) own.push_back((rank + i) % ranks);
    std::sort(own.begin(), own.end());
    const auto r = static_cast<std::size_t>(rank);
    for (int i = 0; i < senders; ++i) {
      rounds[static_cast<std::size_t>(own[static_cast<std::size_t>(i)])].pieces[r] =
          data::even_share({0, shares[r]}, i, senders);
    }
  }
  return rounds;
}

std::vector<Round> plan_inference_rounds(std::span<const std::size_t> shares, int senders,
                                         int passes) {
  if (senders == 0 && passes == 0) return plan_rounds(shares, 0);
  const int own = passes > 0 ? passes : static_cast<int>(shares.size());
  return plan_rounds(shares, senders, std::min(own, plan::kPassesUnderWay));
}

}  // namespace convoy::train
