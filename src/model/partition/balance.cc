#include "convoy/model/balance.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "model/partition/divisions.h"
#include "model/partition/loads.h"

namespace convoy::model {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// By node, the one whose parts it has: itself, or that which it follows; kNone where these are
// given, or it has none.
std::vector<std::size_t> leaders_of(const PartitionPlan& plan) {
  const std::size_t inputs = plan.values.size() - plan.nodes.size();
  std::vector<std::size_t> leaders;
  for (std::size_t n = 0; n < plan.nodes.size(); ++n) {
    const PartitionedNode& node = plan.nodes[n];
    const std::size_t first = node.inputs.front();
    const bool follows = node.follows && first >= inputs;
    leaders.push_back(node.divided_evenly ? n : follows ? leaders[first - inputs] : kNone);
  }
  return leaders;
}

std::vector<std::int64_t> counts_of(const PartitionPlan& plan, const Blueprint& blueprint,
                                    std::size_t node) {
  const PartitionedNode& place = plan.nodes[node];
  const PartitionedValue& value = plan.values[place.output];
  const std::size_t d = divided_dimension(plan.node_of(blueprint, place), value.shape, place.how);
  std::vector<std::int64_t> counts;
  for (const Slice& tile : value.tiles) counts.push_back(tile.size[d]);
  return counts;
}

// Layers that have the same parts, with those that follow them.
struct Group {
  std::vector<std::size_t> leaders;
  Division how = Division::rows;
  std::vector<std::int64_t> counts;  // by partition
  double cost = 0;                   // of all partitions

  double units() const {
    return static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  }
  double unit_cost() const { return cost / units(); }
};

// What is to be evened out.
struct Problem {
  std::vector<Group> groups;  // those whose units cost most are first
  std::vector<double> fixed;  // by partition
};

Problem problem_of(const PartitionPlan& plan, const Blueprint& blueprint,
                   const PartitionCosts& costs) {
  Problem problem{{}, costs.fixed};
  const std::vector<std::size_t> leaders = leaders_of(plan);
  std::map<std::pair<Division, std::int64_t>, std::size_t> places;
  std::vector<std::size_t> group_of(plan.nodes.size(), kNone);
  for (std::size_t n = 0; n < plan.nodes.size(); ++n) {
    const std::vector<double>& parts = costs.parts[n];
    if (leaders[n] == kNone) {
      for (std::size_t p = 0; p < parts.size(); ++p) problem.fixed[p] += parts[p];
      continue;
    }
    if (leaders[n] == n) {
      Group group{{}, plan.nodes[n].how, counts_of(plan, blueprint, n), 0};
      const std::pair key{group.how, static_cast<std::int64_t>(group.units())};
      const auto [place, added] = places.emplace(key, problem.groups.size());
      if (added) problem.groups.push_back(std::move(group));
      group_of[n] = place->second;
      problem.groups[place->second].leaders.push_back(n);
    }
    problem.groups[group_of[leaders[n]]].cost += sum(parts);
  }
  std::sort(problem.groups.begin(), problem.groups.end(), [](const Group& a, const Group& b) {
    if (a.unit_cost() != b.unit_cost()) return a.unit_cost() > b.unit_cost();
    return a.leaders.front() < b.leaders.front();
  });
  return problem;
}

// Of what can be divided, with which all are done at the same time, or those that have anything of
// it: who has too much that is fixed gets nothing.
std::vector<double> shares_of(const std::vector<double>& fixed, const std::vector<double>& speeds,
                              double divided) {
  std::vector<std::size_t> order(fixed.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto begins = [&](std::size_t p) { return std::pair{fixed[p] / speeds[p], p}; };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return begins(a) < begins(b); });
  double work = divided, speed = 0, end = 0;
  for (const std::size_t p : order) {
    if (speed > 0 && fixed[p] / speeds[p] >= end) break;
    work += fixed[p];
    speed += speeds[p];
    end = work / speed;
  }
  std::vector<double> shares;
  for (std::size_t p = 0; p < fixed.size(); ++p)
    shares.push_back(std::max(end * speeds[p] - fixed[p], 0.0));
  const double all = sum(shares);
  for (double& share : shares) share /= all;
  return shares;
}

// Divides groups one after the other, and keeps what rounding has left.
class Borders {
 public:
  explicit Borders(std::size_t partitions) : excess_(partitions, 0) {}

  std::vector<std::int64_t> divide(const Group& group, const std::vector<double>& shares) {
    constexpr double kRounding = 1e-9;
    const double units = group.units(), cost = group.unit_cost();
    std::vector<std::int64_t> counts;
    double exact = 0, before = 0;
    for (std::size_t p = 0; p < shares.size(); ++p) {
      exact += units * shares[p];
      double border = units;  // the last one's
      if (p + 1 < shares.size()) {
        const double wanted = std::round(cost > 0 ? exact - excess_[p] / cost : exact);
        border =
            std::clamp(wanted, std::ceil(exact - 1 - kRounding), std::floor(exact + 1 + kRounding));
        border = std::clamp(border, before, units);
      }
      excess_[p] += cost * (border - exact);
      counts.push_back(static_cast<std::int64_t>(border - before));
      before = border;
    }
    return counts;
  }

 private:
  // By partition, what lies before its end and should lie behind it.
  std::vector<double> excess_;
};

double longest(const Problem& problem, const std::vector<std::vector<std::int64_t>>& counts,
               const std::vector<double>& speeds) {
  double most = 0;
  for (std::size_t p = 0; p < speeds.size(); ++p) {
    double cost = problem.fixed[p];
    for (std::size_t g = 0; g < counts.size(); ++g)
      cost += problem.groups[g].unit_cost() * static_cast<double>(counts[g][p]);
    most = std::max(most, cost / speeds[p]);
  }
  return most;
}

std::vector<std::vector<std::int64_t>> divide(const Problem& problem,
                                              const std::vector<double>& speeds) {
  double divided = 0;
  std::map<Division, double> alike;
  for (const Group& group : problem.groups) {
    divided += group.cost;
    alike[group.how] += group.cost;
  }
  const std::vector<double> nothing(speeds.size(), 0);
  const std::vector<double> by_speed = shares_of(nothing, speeds, 1);
  const std::vector<double> shares =
      divided > 0 ? shares_of(problem.fixed, speeds, divided) : by_speed;
  Borders borders(speeds.size());
  std::vector<std::vector<std::int64_t>> counts;
  for (const Group& group : problem.groups)
    counts.push_back(borders.divide(group, alike[group.how] > 0 ? shares : by_speed));
  return counts;
}

const std::string& name_of(const PartitionPlan& plan, const Blueprint& blueprint,
                           std::size_t node) {
  return plan.node_of(blueprint, plan.nodes[node]).name;
}

}  // namespace

PartitionCosts counted_costs(const Blueprint& blueprint, const PartitionPlan& plan,
                             CountedCost what) {
  const auto partitions = static_cast<std::size_t>(plan.partitions);
  PartitionCosts costs{{}, std::vector<double>(partitions, 0)};
  for (const PartitionedNode& place : plan.nodes) {
    std::vector<double>& parts = costs.parts.emplace_back(partitions, 0);
    const Node& node = plan.node_of(blueprint, place);
    for (std::size_t p = 0; p < partitions; ++p) {
      if (what == CountedCost::macs) {
        parts[p] = macs_of_part(blueprint, plan, place, p);
        continue;
      }
      const std::vector<TensorInfo> tensors = tensors_of(node);
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        if (tensors[t].buffer) continue;
        double& own = place.divides(t) ? parts[p] : costs.fixed[p];
        own += static_cast<double>(place.tensors[p][t].elements());
      }
    }
  }
  return costs;
}

TimedCosts timed_costs(const PartitionPlan& plan, const std::vector<std::vector<double>>& seconds) {
  const auto partitions = static_cast<std::size_t>(plan.partitions);
  const std::vector<std::size_t> leaders = leaders_of(plan);
  TimedCosts timed{{seconds, std::vector<double>(partitions, 0)}, {}};
  // What its part would have taken at the mean speed, and what it took.
  std::vector<double> mean(partitions, 0), own(partitions, 0);
  for (std::size_t n = 0; n < plan.nodes.size(); ++n) {
    if (leaders[n] == kNone) continue;
    const PartitionedValue& value = plan.values[plan.nodes[n].output];
    const double all = static_cast<double>(elements_of(value.shape));
    for (std::size_t p = 0; p < partitions; ++p) {
      mean[p] += sum(seconds[n]) * static_cast<double>(value.tiles[p].elements()) / all;
      own[p] += seconds[n][p];
    }
  }
  double known = 0, total = 0;
  for (std::size_t p = 0; p < partitions; ++p) {
    timed.speeds.push_back(own[p] > 0 ? mean[p] / own[p] : 0);
    known += own[p] > 0 ? 1 : 0;
    total += timed.speeds.back();
  }
  for (double& speed : timed.speeds) {
    if (!(speed > 0)) speed = known > 0 ? total / known : 1;
  }
  const double fastest = *std::max_element(timed.speeds.begin(), timed.speeds.end());
  for (double& speed : timed.speeds) speed /= fastest;
  for (std::vector<double>& parts : timed.costs.parts) {
    for (std::size_t p = 0; p < partitions; ++p) parts[p] *= timed.speeds[p];
  }
  return timed;
}

std::vector<double> sums_of(const PartitionCosts& costs) {
  std::vector<double> sums = costs.fixed;
  for (const std::vector<double>& parts : costs.parts) {
    for (std::size_t p = 0; p < parts.size(); ++p) sums[p] += parts[p];
  }
  return sums;
}

LayerParts parts_of(const PartitionPlan& plan, const Blueprint& blueprint) {
  LayerParts parts;
  for (std::size_t n = 0; n < plan.nodes.size(); ++n) {
    if (plan.nodes[n].divided_evenly)
      parts[name_of(plan, blueprint, n)] = counts_of(plan, blueprint, n);
  }
  return parts;
}

LayerParts balanced_parts(const PartitionPlan& plan, const Blueprint& blueprint,
                          const PartitionCosts& costs, const std::vector<double>& speeds,
                          double least_gain) {
  const Problem problem = problem_of(plan, blueprint, costs);
  std::vector<std::vector<std::int64_t>> even;
  for (const Group& group : problem.groups) even.push_back(group.counts);
  const auto chosen = divide(problem, speeds);
  // Without costs there is nothing to gain, and speeds alone count.
  const double now = longest(problem, even, speeds), then = longest(problem, chosen, speeds);
  if (now > 0 && then >= now * (1 - least_gain)) return parts_of(plan, blueprint);
  LayerParts parts;
  for (std::size_t g = 0; g < chosen.size(); ++g) {
    for (const std::size_t leader : problem.groups[g].leaders)
      parts[name_of(plan, blueprint, leader)] = chosen[g];
  }
  return parts;
}

bool fits(const LayerParts& parts, const PartitionPlan& plan, const Blueprint& blueprint) {
  const LayerParts even = parts_of(plan, blueprint);
  return std::equal(parts.begin(), parts.end(), even.begin(), even.end(),
                    [](const auto& a, const auto& b) {
                      const auto all = [](const std::vector<std::int64_t>& counts) {
                        return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
                      };
                      return a.first == b.first && a.second.size() == b.second.size() &&
                             *std::min_element(a.second.begin(), a.second.end()) >= 0 &&
                             all(a.second) == all(b.second);
                    });
}

PartitionRules with_parts(PartitionRules rules, const LayerParts& parts, const PartitionPlan& plan,
                          const Blueprint& blueprint) {
  for (const PartitionedNode& place : plan.nodes) {
    const std::string& name = plan.node_of(blueprint, place).name;
    const auto own = parts.find(name);
    if (own == parts.end()) continue;
    rules.layers[name] = {place.how, {own->second.begin(), own->second.end()}};
  }
  return rules;
}

}  // namespace convoy::model
