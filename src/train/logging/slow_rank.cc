#include "train/logging/slow_rank.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "convoy/base/units.h"

namespace convoy::train {
namespace {

constexpr std::size_t kWindow = 4;
constexpr std::size_t kLeast = 3;
constexpr double kSlower = 1.25;
constexpr double kSlowerEachTime = 1.125;
constexpr double kStandardErrors = 5;
constexpr std::int64_t kFirstQuiet = 10;  // gatherings
// Per step. Less is not worth a word.
constexpr double kLeastSeconds = 500e-6;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

template <class F>
double median_without(std::size_t rank, const std::vector<PhaseSeconds>& ranks, F&& value) {
  std::vector<double> others;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (r != rank) others.push_back(value(ranks[r]));
  }
  return median(std::move(others));
}

}  // namespace

std::optional<SlowRank> SlowRankWatch::add(std::int64_t steps,
                                           const std::vector<PhaseSeconds>& ranks) {
  if (!std::exchange(begun_, true) || ranks.size() < 2 || steps < 1) return std::nullopt;
  ++gatherings_;
  last_.push_back({steps, ranks});
  if (last_.size() > kWindow) last_.pop_front();
  follow_noise();
  std::optional<SlowRank> slow = find();
  if (!slow) {
    if (++calm_ >= static_cast<int>(kWindow)) named_ = -1;
    return std::nullopt;
  }
  calm_ = 0;
  if (named_ == slow->rank) return std::nullopt;
  quiet_.resize(ranks.size());
  Quiet& quiet = quiet_[static_cast<std::size_t>(slow->rank)];
  if (gatherings_ < quiet.until) return std::nullopt;
  named_ = slow->rank;
  quiet.gatherings = std::max(kFirstQuiet, 2 * quiet.gatherings);
  quiet.until = gatherings_ + quiet.gatherings;
  return slow;
}

// How much each rank's own time changes from gathering to gathering, lately, apart from what all
// have in common.
void SlowRankWatch::follow_noise() {
  constexpr int kMemory = 20;
  if (last_.size() < 2) return;
  const Gathering& now = last_.back();
  const Gathering& before = last_[last_.size() - 2];
  const std::size_t ranks = now.ranks.size();
  std::vector<double> changes(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const double a = own(now.ranks[r]) / static_cast<double>(now.steps);
    const double b = own(before.ranks[r]) / static_cast<double>(before.steps);
    changes[r] = a > 0 && b > 0 ? std::log(a / b) : 0;
  }
  const double common = median(changes);
  const double taken = 1 - 1 / static_cast<double>(ranks);  // the common part is made of them
  variances_.resize(ranks, 0);
  seen_ = std::min(seen_ + 1, kMemory);
  for (std::size_t r = 0; r < ranks; ++r) {
    const double square = (changes[r] - common) * (changes[r] - common);
    variances_[r] += (square / 2 / taken - variances_[r]) / seen_;
  }
}

// The standard error of the difference between a rank's mean over the window and the others'
// median, relative to this, as the others scatter.
double SlowRankWatch::noise_without(std::size_t rank) const {
  constexpr double kOfMedian = 1.5;  // about pi / 2 times that of a mean
  double variance = 0;
  for (std::size_t r = 0; r < variances_.size(); ++r) variance += r == rank ? 0 : variances_[r];
  const double others = static_cast<double>(variances_.size()) - 1;
  return std::sqrt(variance / others / static_cast<double>(last_.size()) *
                   (1 + kOfMedian / others));
}

bool SlowRankWatch::is_slow(std::size_t rank, const std::vector<PhaseSeconds>& totals) const {
  std::int64_t steps = 0;
  std::size_t above = 0;
  for (const Gathering& g : last_) {
    steps += g.steps;
    if (own(g.ranks[rank]) > kSlowerEachTime * median_without(rank, g.ranks, own)) ++above;
  }
  const double mine = own(totals[rank]);
  const double theirs = median_without(rank, totals, own);
  const double waits =
      median_without(rank, totals, [](const PhaseSeconds& s) { return s[kCommunication]; });
  return above + 1 >= last_.size() && mine > kSlower * theirs &&
         mine - theirs > kStandardErrors * noise_without(rank) * theirs &&
         mine - theirs > kLeastSeconds * static_cast<double>(steps) &&
         totals[rank][kCommunication] < waits;
}

std::optional<SlowRank> SlowRankWatch::find() const {
  if (last_.size() < kLeast) return std::nullopt;
  std::vector<PhaseSeconds> totals(last_.front().ranks.size(), PhaseSeconds{});
  std::int64_t steps = 0;
  for (const Gathering& g : last_) {
    steps += g.steps;
    for (std::size_t r = 0; r < totals.size(); ++r) {
      for (std::size_t phase = 0; phase < kPhases; ++phase) totals[r][phase] += g.ranks[r][phase];
    }
  }
  const auto slowest = std::max_element(
      totals.begin(), totals.end(), [](const auto& a, const auto& b) { return own(a) < own(b); });
  const auto rank = static_cast<std::size_t>(slowest - totals.begin());
  if (!is_slow(rank, totals)) return std::nullopt;
  const auto per_step = static_cast<double>(steps);
  SlowRank slow;
  slow.rank = static_cast<int>(rank);
  slow.steps = steps;
  slow.own_s = own(totals[rank]) / per_step;
  slow.others_s = median_without(rank, totals, own) / per_step;
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    if (phase == kCommunication) continue;
    const double theirs =
        median_without(rank, totals, [phase](const PhaseSeconds& s) { return s[phase]; });
    const double more = (totals[rank][phase] - theirs) / per_step;
    if (more <= slow.phase_more_s) continue;
    slow.phase = phase;
    slow.phase_more_s = more;
  }
  return slow;
}

std::string text_of(const SlowRank& slow, const std::string& host) {
  char percent[32] = "";
  if (slow.others_s > 0)
    std::snprintf(percent, sizeof percent, " (+%.0f%%)", 100 * (slow.own_s / slow.others_s - 1));
  return "rank " + std::to_string(slow.rank) + " on host " + host + " is slower than the others, " +
         "which wait for it: over the last " + std::to_string(slow.steps) + " steps it took " +
         format_seconds(slow.own_s) + " of its own for each, they " +
         format_seconds(slow.others_s) + percent + "; most of it in " + kPhaseNames[slow.phase] +
         " (+" + format_seconds(slow.phase_more_s) + ")";
}

}  // namespace convoy::train
