#include "cli/plan/rates.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "cli/plan/sweep.h"

namespace convoy::cli {
namespace {

// For each rate of the batch that reached the hardest level and never diverged, the most updates.
std::map<double, std::int64_t> good_rates(const plan::PlanPoints& points, const Goal& goal,
                                          std::int64_t batch) {
  struct Sum {
    bool reached = false, diverged = false;
    std::int64_t most = 0;
  };
  std::map<double, Sum> sums;
  for (const plan::PointRun& run : points.runs) {
    if (run.batch != batch) continue;
    Sum& sum = sums[run.learning_rate];
    const auto updates = to_the_hardest(run, goal);
    sum.reached = sum.reached || updates;
    sum.diverged = sum.diverged || run.diverged;
    if (updates || run.stopped != plan::Stop::budget)
      sum.most = std::max(sum.most, updates.value_or(run.updates));
  }
  std::map<double, std::int64_t> good;
  for (const auto& [rate, sum] : sums) {
    if (sum.reached && !sum.diverged) good[rate] = sum.most;
  }
  return good;
}

const auto kFewer = [](const auto& a, const auto& b) { return a.second < b.second; };

// Batches with a good rate, and their good rates.
std::map<std::int64_t, std::map<double, std::int64_t>> good_batches(const plan::PlanPoints& points,
                                                                    const Goal& goal) {
  std::map<std::int64_t, std::map<double, std::int64_t>> all;
  for (const plan::PointRun& run : points.runs) all[run.batch];
  for (auto& [batch, rates] : all) rates = good_rates(points, goal, batch);
  std::erase_if(all, [](const auto& one) { return one.second.empty(); });
  return all;
}

// Of `count` places: `middle`, those after and before it, and so on.
std::vector<std::size_t> outwards(std::size_t middle, std::size_t count) {
  std::vector<std::size_t> order{middle};
  for (std::size_t far = 1; order.size() < count; ++far) {
    if (middle + far < count) order.push_back(middle + far);
    if (far <= middle) order.push_back(middle - far);
  }
  return order;
}

}  // namespace

std::vector<WantedRun> grid(const std::vector<std::int64_t>& batches,
                            const std::vector<double>& rates, std::uint64_t seed) {
  std::vector<WantedRun> runs;
  for (const std::size_t rate : outwards(rates.size() / 2, rates.size())) {
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const std::size_t batch = i % 2 == 0 ? batches.size() - 1 - i / 2 : i / 2;
      runs.push_back({batches[batch], rates[rate], seed});
    }
  }
  return runs;
}

std::optional<std::int64_t> to_the_hardest(const plan::PointRun& run, const Goal& goal) {
  for (const auto& [level, updates] : run.reached) {
    if (level == goal.hardest()) return updates;
  }
  return std::nullopt;
}

std::optional<std::int64_t> updates_of_best(const plan::PlanPoints& points, const Goal& goal,
                                            std::int64_t batch, std::optional<double> other_than) {
  auto good = good_rates(points, goal, batch);
  if (other_than) good.erase(*other_than);
  if (good.empty()) return std::nullopt;
  return std::min_element(good.begin(), good.end(), kFewer)->second;
}

bool is_hopeless(const plan::PlanPoints& points, const Goal& goal, std::int64_t batch,
                 double learning_rate) {
  const auto best = updates_of_best(points, goal, batch, learning_rate);
  return std::any_of(points.runs.begin(), points.runs.end(), [&](const plan::PointRun& run) {
    if (run.batch != batch || run.learning_rate != learning_rate) return false;
    if (run.diverged) return true;
    return !to_the_hardest(run, goal) && best &&
           static_cast<double>(run.updates) >= kHopeless * static_cast<double>(*best);
  });
}

std::optional<double> first_rate(const plan::PlanPoints& points, const Goal& goal,
                                 std::int64_t batch) {
  const auto all = good_batches(points, goal);
  const auto distance = [batch](std::int64_t other) {
    return std::fabs(std::log(static_cast<double>(other) / static_cast<double>(batch)));
  };
  const auto nearest = std::min_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return distance(a.first) < distance(b.first);
  });
  if (nearest == all.end()) return std::nullopt;
  const auto& [there, rates] = *nearest;
  if (there > batch) return rates.begin()->first;
  return std::min_element(rates.begin(), rates.end(), kFewer)->first;
}

std::optional<RateBeyond> rate_beyond(const plan::PlanPoints& points, const Goal& goal) {
  std::set<double> tried, best;
  for (const plan::PointRun& run : points.runs) tried.insert(run.learning_rate);
  const auto all = good_batches(points, goal);
  for (const auto& [batch, rates] : all)
    best.insert(std::min_element(rates.begin(), rates.end(), kFewer)->first);
  if (tried.size() < 2 || all.size() < 2 || best.size() != 1) return std::nullopt;
  const double end = *best.begin();
  if (end == *tried.rbegin()) return RateBeyond{end, end * (end / *++tried.rbegin()), true};
  if (end == *tried.begin()) return RateBeyond{end, end * (end / *++tried.begin()), false};
  return std::nullopt;
}

std::optional<double> updates_by_neighbors(const plan::PlanPoints& points, const Goal& goal,
                                           std::int64_t batch) {
  const auto all = good_batches(points, goal);
  const auto fewest = [](const std::map<double, std::int64_t>& rates) {
    return static_cast<double>(std::min_element(rates.begin(), rates.end(), kFewer)->second);
  };
  std::optional<double> bound;
  const auto larger = all.upper_bound(batch);
  if (larger != all.end()) {
    bound =
        fewest(larger->second) * static_cast<double>(larger->first) / static_cast<double>(batch);
  }
  auto smaller = all.lower_bound(batch);
  if (smaller == all.begin()) return bound;
  const double most = fewest((--smaller)->second);
  return bound ? std::min(*bound, most) : most;
}

}  // namespace convoy::cli
