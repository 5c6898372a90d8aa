// Which group a replica gets.
#include <algorithm>
#include <bit>
#include <cmath>

#include "server/coordinator/group_ledger.h"

namespace convoy::server::coordinator {
namespace {

// A replica's groups are so small that it gets at least so many more before the batch is over; of
// one that was never seen at work nobody knows how slow it is.
constexpr double kGroupsLeft = 2;
constexpr double kGroupsLeftOfUnknown = 8;
// Who is late by some time is expected to take so many times that.
constexpr double kLateFactor = 2;

}  // namespace

// How long a portion takes a replica of which nothing is known.
double GroupLedger::typical() const {
  double sum = 0;
  int known = 0;
  for (const auto& [id, replica] : replicas_) {
    if (replica.portion_time == 0) continue;
    sum += 1 / replica.portion_time;
    ++known;
  }
  return known == 0 ? 0 : known / sum;
}

std::optional<double> GroupLedger::pace(const Replica& replica) const {
  const double time = replica.portion_time != 0 ? replica.portion_time : typical();
  return time == 0 ? std::nullopt : std::optional(time);
}

// When a replica is done with its groups up to `last` (null: all of them). `late`: by how late it
// is already; else as it was expected to be. REQUIRES: pace(replica).
double GroupLedger::busy_until(Time now, const Replica& replica, const PortionGroup* last,
                               bool late) const {
  const double each = *pace(replica), at = static_cast<double>(now);
  if (replica.held.empty()) return at;
  double end = static_cast<double>(replica.began);
  for (std::size_t i = 0; i < replica.held.size(); ++i) {
    end += each * portions_of(replica.held[i]);
    if (i == 0 && late && end < at) end = at + kLateFactor * (at - end);
    if (last != nullptr && replica.held[i] == *last) break;
  }
  return end;
}

// How many portions a group of it may have now.
double GroupLedger::fair_share(const Replica& replica) const {
  const double usual = typical();
  const auto speed = [&](const Replica& each) {
    const double time = each.portion_time != 0 ? each.portion_time : usual;
    return time == 0 ? 1.0 : 1 / time;
  };
  double all = 0;
  for (const auto& [id, each] : replicas_) all += speed(each);
  const double left = free_count_ + orphan_count_;
  return left * speed(replica) / all /
         (replica.portion_time != 0 ? kGroupsLeft : kGroupsLeftOfUnknown);
}

// Whether others will have done all that is left before this one is done with so many portions of
// it. Who is late already isn't counted on; `until`: when the next of the others may be.
bool GroupLedger::others_are_sooner(Time now, const Replica& replica, std::uint32_t size,
                                    Time& until) const {
  if (replica.portion_time == 0) return false;
  const double at = static_cast<double>(now);
  const double mine = busy_until(now, replica, nullptr, true) + replica.portion_time * size;
  const double left = free_count_ + orphan_count_;
  double done = 0;
  double first_late = static_cast<double>(kNever);
  for (const auto& [id, other] : replicas_) {
    if (&other == &replica || other.portion_time == 0 || other.held.empty()) continue;
    const double free = busy_until(now, other, nullptr, false);
    if (free < at || free >= mine) continue;
    done += std::floor((mine - free) / other.portion_time);
    first_late = std::min(first_late, free);
    if (done < left) continue;
    until = std::min(until, static_cast<Time>(first_late) + 1);
    return true;
  }
  return false;
}

bool GroupLedger::is_free(std::uint32_t portion) const {
  auto after = free_.upper_bound(portion);
  return after != free_.begin() && std::prev(after)->second > portion;
}

// Where a replica goes on: behind what it had, in what it had in the evaluation before, or else in
// the middle of the largest range that is free, so that whoever is before that can go on, too.
std::optional<std::uint32_t> GroupLedger::place(std::uint64_t id, Replica& replica,
                                                std::uint8_t level) {
  const bool goes_on = replica.next && *replica.next < options_.portions && is_free(*replica.next);
  if (goes_on && (owner_[*replica.next] == id || owner_[*replica.next] == 0)) return replica.next;
  if (const auto home = homes_.find(id); home != homes_.end()) {
    const std::vector<Range>& ranges = home->second;
    for (; replica.home < ranges.size(); ++replica.home) {
      const auto [begin, end] = ranges[replica.home];
      if (is_free(begin)) return begin;
      const auto after = free_.upper_bound(begin);
      if (after != free_.end() && after->first < end) return after->first;
    }
  }
  if (goes_on) return replica.next;
  if (free_.empty()) return std::nullopt;
  const auto largest = std::max_element(
      free_.begin(), free_.end(),
      [](const auto& a, const auto& b) { return a.second - a.first < b.second - b.first; });
  const auto [begin, end] = *largest;
  const bool others = std::any_of(replicas_.begin(), replicas_.end(), [&](const auto& each) {
    return each.first != id && each.second.next == begin;
  });
  if (!others) return begin;
  const std::uint32_t middle = (begin + (end - begin) / 2) >> level << level;
  return std::max(begin, middle);
}

std::optional<PortionGroup> GroupLedger::cut(std::uint64_t id, Replica& replica) {
  const auto fair = static_cast<std::uint32_t>(std::max(1.0, fair_share(replica)));
  const auto most =
      std::min<std::uint8_t>(options_.largest, static_cast<std::uint8_t>(std::bit_width(fair) - 1));
  const auto begin = place(id, replica, most);
  if (!begin) return std::nullopt;
  const auto range = std::prev(free_.upper_bound(*begin));
  const auto [first, last] = *range;
  PortionGroup group{*begin, most};
  while (group.first % portions_of(group) != 0 || end_of(group) > last) --group.log2_size;
  free_.erase(range);
  if (first < group.first) free_[first] = group.first;
  if (end_of(group) < last) free_[end_of(group)] = last;
  free_count_ -= portions_of(group);
  groups_[group.first] = {
      .log2_size = group.log2_size, .done = false, .counted = false, .holders = {}};
  open_groups_.insert(group.first);
  ++counts_.groups;
  change(group.first);
  return group;
}

// The group that is done last, as things are, if this replica would be done with it before that.
std::optional<PortionGroup> GroupLedger::copy(Time now, std::uint64_t id, const Replica& replica,
                                              Time& until) const {
  const auto mine = pace(replica);
  const double at = static_cast<double>(now);
  std::optional<PortionGroup> found;
  double latest = 0;
  for (const std::uint32_t begin : open_groups_) {
    const Group& group = groups_.at(begin);
    if (group.holders.contains(id) || group.holders.size() >= options_.copies) continue;
    const PortionGroup which{begin, group.log2_size};
    double end = static_cast<double>(kNever), expected = end;
    Time began = kNever;
    for (const std::uint64_t holder : group.holders) {
      const Replica& other = replicas_.at(holder);
      began = std::min(began, other.began);
      if (!pace(other)) continue;
      end = std::min(end, busy_until(now, other, &which, true));
      expected = std::min(expected, busy_until(now, other, &which, false));
    }
    if (!mine) {  // and nobody else has a pace, either
      if (now < began + options_.blind) {
        until = std::min(until, began + options_.blind);
        continue;
      }
    } else if (at + *mine * portions_of(which) >= end) {
      // It is worth it if the others are late by as much as makes up for it.
      const double worth = std::max(at, expected) + *mine * portions_of(which) / kLateFactor;
      until = std::min(until, static_cast<Time>(worth) + 1);
      continue;
    }
    if (found && end <= latest) continue;
    latest = end;
    found = which;
  }
  return found;
}

}  // namespace convoy::server::coordinator
