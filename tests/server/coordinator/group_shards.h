// Shards that sum groups of portions, as those of a parameter server do, with small vectors.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "convoy/server/batch.h"

namespace convoy::server::coordinator::test {

using Gradient = std::array<double, 2>;

inline Gradient operator+(const Gradient& a, const Gradient& b) {
  return {a[0] + b[0], a[1] + b[1]};
}

// Of one portion at the weights of an evaluation: numbers whose sums depend on their order.
inline Gradient gradient_of_portion(const EvaluationId& id, std::uint32_t portion) {
  std::mt19937_64 random(static_cast<std::uint64_t>(id.iteration * 1000 + id.evaluation) * 7919 +
                         portion);
  std::uniform_real_distribution<double> value(-1, 1);
  const double first = std::ldexp(value(random), static_cast<int>(random() % 20));
  return {first, value(random)};
}

inline double loss_of_portion(const EvaluationId& id, std::uint32_t portion) {
  return gradient_of_portion(id, portion)[0] * 3;
}

// The sum of a group as a replica makes it.
inline Gradient gradient_of_group(const EvaluationId& id, const PortionGroup& group) {
  PortionSum<double> sum;
  for (std::uint64_t portion = group.first; portion < group.end(); ++portion) {
    sum.add(gradient_of_portion(id, static_cast<std::uint32_t>(portion)));
  }
  const auto all = sum.take();
  return {all[0], all[1]};
}

class GroupShard {
 public:
  void begin(const EvaluationId& id, std::uint32_t portions) {
    id_ = id;
    portions_ = portions;
    groups_.clear();
  }
  GroupAnswer add(const EvaluationId& id, const PortionGroup& group, const Gradient& gradient) {
    if (id != id_) return GroupAnswer::ended;
    std::uint64_t here = 0;
    for (std::uint64_t each = group.first; each < group.end(); ++each) {
      here += covered(static_cast<std::uint32_t>(each)) ? 1 : 0;
    }
    if (here == group.end() - group.first) return GroupAnswer::had;
    if (here != 0) return GroupAnswer::overlaps;
    groups_[group.first] = {group, gradient};
    return GroupAnswer::kept;
  }
  std::vector<PortionRange> missing() const {
    std::vector<PortionRange> ranges;
    for (std::uint32_t each = 0; each < portions_; ++each) {
      if (covered(each)) continue;
      if (!ranges.empty() && ranges.back().end == each) {
        ++ranges.back().end;
      } else {
        ranges.push_back({each, each + 1});
      }
    }
    return ranges;
  }
  // Nothing if a portion is missing.
  std::optional<Gradient> sum() const {
    return missing().empty() ? node({0, static_cast<std::uint8_t>(std::bit_width(portions_ - 1))})
                             : std::nullopt;
  }
  // Both copies of it are gone, as with a server and its backup.
  void lose(std::uint64_t which) {
    if (groups_.empty()) return;
    groups_.erase(std::next(groups_.begin(), static_cast<std::ptrdiff_t>(which % groups_.size())));
  }

 private:
  bool covered(std::uint32_t portion) const {
    const auto after = groups_.upper_bound(portion);
    return after != groups_.begin() && std::prev(after)->second.first.end() > portion;
  }
  std::optional<Gradient> node(const PortionGroup& which) const {
    if (which.first >= portions_) return std::nullopt;
    const auto found = groups_.find(which.first);
    if (found != groups_.end() && found->second.first == which) return found->second.second;
    const auto half = static_cast<std::uint8_t>(which.log2_size - 1);
    const auto left = node({which.first, half});
    const auto right = node({which.first + (std::uint32_t{1} << half), half});
    return right ? *left + *right : left;
  }

  EvaluationId id_;
  std::uint32_t portions_ = 0;
  std::map<std::uint32_t, std::pair<PortionGroup, Gradient>> groups_;
};

// What it has to be, whoever did what.
inline Gradient gradient_of_batch(const EvaluationId& id, std::uint32_t portions) {
  GroupShard shard;
  shard.begin(id, portions);
  for (std::uint32_t each = 0; each < portions; ++each) {
    shard.add(id, {each, 0}, gradient_of_portion(id, each));
  }
  return *shard.sum();
}

}  // namespace convoy::server::coordinator::test
