#include "server/coordinator/group_ledger.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "convoy/base/error.h"

namespace convoy::server::coordinator {
namespace {

constexpr std::size_t kHeldAtOnce = 2;  // the one that it works on, and the next
constexpr double kNewestPart = 0.5;     // of a mean of portions' times

std::string group_text(const PortionGroup& group) {
  return "portions " + std::to_string(group.first) + " to " + std::to_string(end_of(group) - 1);
}

}  // namespace

void validate(const GroupOptions& options) {
  const auto require = [](bool right, const char* option, std::uint64_t value, const char* wanted) {
    if (right) return;
    throw UsageError("groups of portions: " + std::string(option) + " = " + std::to_string(value) +
                     " is not " + wanted);
  };
  require(options.portions >= 1 && options.portions <= GroupLedger::kMostPortions, "portions",
          options.portions, "a number from 1 to 16777216");
  require(options.largest <= GroupLedger::kBlockLevel, "largest", options.largest,
          "a number from 0 to 8");
  require(options.copies >= 1, "copies", options.copies, "at least 1");
}

GroupLedger::GroupLedger(const GroupOptions& options) : options_(options) {
  validate(options);
  owner_.resize(options.portions);
}

void GroupLedger::begin(const EvaluationId& evaluation) {
  evaluation_ = evaluation;
  open_ = true;
  groups_.clear();
  free_ = {{0, options_.portions}};
  free_count_ = options_.portions;
  open_groups_.clear();
  orphans_.clear();
  orphan_count_ = 0;
  homes_.clear();
  for (std::uint32_t at = 0; at < options_.portions;) {
    std::uint32_t end = at + 1;
    while (end < options_.portions && owner_[end] == owner_[at]) ++end;
    if (owner_[at] != 0) homes_[owner_[at]].emplace_back(at, end);
    at = end;
  }
  for (auto& [id, replica] : replicas_) {
    replica.held.clear();
    replica.next.reset();
    replica.home = 0;
  }
  sums_.clear();
  hopeless_ = false;
  not_finite_.reset();
  counts_ = {};
  changed_.clear();
}

GroupLedger::Group* GroupLedger::find(const PortionGroup& group) {
  const auto found = groups_.find(group.first);
  return found == groups_.end() || found->second.log2_size != group.log2_size ? nullptr
                                                                              : &found->second;
}

void GroupLedger::give(Time now, std::uint64_t id, Replica& replica, const PortionGroup& group) {
  Group& given = groups_.at(group.first);
  if (orphans_.erase(group.first) != 0) orphan_count_ -= portions_of(group);
  given.holders.insert(id);
  if (replica.held.empty()) replica.began = now;
  replica.held.push_back(group);
  replica.next = end_of(group);
}

void GroupLedger::let_go(Time now, Replica& replica, const PortionGroup& group) {
  const auto found = std::find(replica.held.begin(), replica.held.end(), group);
  if (found == replica.held.end()) return;
  if (found == replica.held.begin()) replica.began = now;
  replica.held.erase(found);
}

void GroupLedger::reopen(std::uint32_t begin, Group& group) {
  open_groups_.insert(begin);
  if (group.holders.empty() && orphans_.insert(begin).second)
    orphan_count_ += std::uint32_t{1} << group.log2_size;
}

void GroupLedger::leave(std::uint64_t id) {
  const auto found = replicas_.find(id);
  if (found == replicas_.end()) return;
  for (const PortionGroup& each : found->second.held) {
    Group* group = find(each);
    if (group == nullptr) continue;
    group->holders.erase(id);
    if (!group->done) reopen(each.first, *group);
  }
  replicas_.erase(found);
}

GroupLedger::Handed GroupLedger::lease(Time now, std::uint64_t id,
                                       std::span<const PortionGroup> held) {
  Replica& replica = replicas_.at(id);
  Handed handed;
  const auto names = [&](const PortionGroup& group) {
    return std::find(held.begin(), held.end(), group) != held.end();
  };
  for (const PortionGroup& each : held) {
    Group* group = open_ && !hopeless_ ? find(each) : nullptr;
    if (group == nullptr || group->done) {
      handed.unused.push_back(each);
    } else if (!group->holders.contains(id)) {
      give(now, id, replica, each);  // a coordinator before this one gave it
    }
  }
  for (const PortionGroup& each : std::vector<PortionGroup>(replica.held)) {
    Group* group = find(each);
    if (group->done || hopeless_) {
      group->holders.erase(id);
      let_go(now, replica, each);
    } else if (!names(each)) {
      handed.kind = Handed::Kind::group;
      handed.group = each;
      handed.copy = group->holders.size() > 1;
      return handed;
    }
  }
  if (!open_ || complete() || hopeless_) {
    handed.kind = Handed::Kind::ended;
    return handed;
  }
  if (replica.held.size() >= kHeldAtOnce) return handed;
  const bool ahead = !replica.held.empty();
  if (ahead && fair_share(replica) < 1) return handed;
  std::optional<PortionGroup> group;
  if (!orphans_.empty()) {
    const std::uint32_t begin = *orphans_.begin();
    const PortionGroup first{begin, groups_.at(begin).log2_size};
    if (!others_are_sooner(now, replica, portions_of(first), handed.until)) {
      group = first;
      counts_.again += portions_of(first);
    }
  } else if (free_count_ != 0 && !others_are_sooner(now, replica, 1, handed.until)) {
    group = cut(id, replica);
  }
  if (!group && !ahead && options_.backups && free_count_ + orphan_count_ == 0) {
    group = copy(now, id, replica, handed.until);
    if (group) {
      handed.copy = true;
      counts_.copies += portions_of(*group);
    }
  }
  if (!group) return handed;
  give(now, id, replica, *group);
  handed.kind = Handed::Kind::group;
  handed.group = *group;
  handed.changed = true;
  handed.until = kNever;
  return handed;
}

GroupLedger::Taken GroupLedger::finished(Time now, std::uint64_t id, const EvaluationId& evaluation,
                                         const PortionGroup& which,
                                         std::span<const double> losses) {
  if (!open_ || evaluation != evaluation_) return Taken::late;
  Group* group = find(which);
  if (group == nullptr) {
    throw UsageError(group_text(which) + " are no group of evaluation " +
                     std::to_string(evaluation.iteration) + "." +
                     std::to_string(evaluation.evaluation));
  }
  if (losses.size() != portions_of(which)) {
    throw UsageError(group_text(which) + " have " + std::to_string(losses.size()) + " losses");
  }
  if (const auto found = replicas_.find(id); found != replicas_.end()) {
    Replica& replica = found->second;
    if (group->holders.contains(id)) {
      const double time =
          static_cast<double>(now - std::min(now, replica.began)) / portions_of(which);
      const double old = replica.portion_time;
      replica.portion_time = std::max(1.0, old == 0 ? time : old + kNewestPart * (time - old));
      let_go(now, replica, which);
    }
  }
  group->holders.erase(id);
  if (group->done) {
    const std::uint64_t owner = owner_[which.first];  // 0: a coordinator before this one knew
    if (owner == id || owner == 0) return Taken::told;
    counts_.unused += portions_of(which);
    return Taken::repeated;
  }
  group->done = true;
  open_groups_.erase(which.first);
  if (orphans_.erase(which.first) != 0) orphan_count_ -= portions_of(which);
  counts_.done += portions_of(which);
  std::fill_n(owner_.begin() + which.first, portions_of(which), id);
  change(which.first);
  if (!group->counted) {
    group->counted = true;
    sums_[which.first / kBlock].add(losses);
    const auto bad = std::find_if(losses.begin(), losses.end(),
                                  [](double loss) { return !std::isfinite(loss); });
    if (bad != losses.end()) hopeless_ = true;
    if (bad != losses.end() && !not_finite_)
      not_finite_ = which.first + static_cast<std::uint32_t>(bad - losses.begin());
  }
  return Taken::counted;
}

void GroupLedger::missing(std::uint32_t begin, std::uint32_t end) {
  if (!open_) return;
  auto at = groups_.upper_bound(begin);
  if (at != groups_.begin()) --at;
  for (; at != groups_.end() && at->first < end; ++at) {
    auto& [first, group] = *at;
    const PortionGroup which{first, group.log2_size};
    if (end_of(which) <= begin || !group.done) continue;
    group.done = false;
    counts_.done -= portions_of(which);
    reopen(first, group);
    change(first);
  }
}

double GroupLedger::loss() const {
  ExactSum sum;
  for (const auto& [block, each] : sums_) sum.add(each);
  return sum.value();
}

std::vector<PortionGroup> GroupLedger::held(std::uint64_t replica) const {
  const auto found = replicas_.find(replica);
  return found == replicas_.end() ? std::vector<PortionGroup>() : found->second.held;
}

std::size_t GroupLedger::holders(const PortionGroup& group) const {
  const auto found = groups_.find(group.first);
  return found == groups_.end() ? 0 : found->second.holders.size();
}

}  // namespace convoy::server::coordinator
