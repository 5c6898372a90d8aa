#include "server/coordinator/group_journal.h"

#include <algorithm>

namespace convoy::server::coordinator {
namespace {

double seconds_of(Time time) { return static_cast<double>(time) / 1e6; }

PortionCounts counts_with(const PortionCounts& a, const PortionCounts& b) {
  return {a.done + b.done, a.again + b.again, a.copies + b.copies, a.unused + b.unused};
}

std::uint64_t portions_in(const PortionGroup& group) { return std::uint64_t{1} << group.log2_size; }

}  // namespace

void GroupJournal::given(Time now, std::uint64_t id, const EvaluationId& evaluation,
                         const PortionGroup& group, bool copy, bool again) {
  Replica& replica = replicas_[id];
  const auto same = [&](const Had& had) {
    return had.record.group == group && had.record.evaluation == evaluation;
  };
  if (std::any_of(replica.has.begin(), replica.has.end(), same)) return;
  for (PortionCounts* counts : {&replica.portions, &all_}) {
    if (copy) counts->copies += portions_in(group);
    if (again) counts->again += portions_in(group);
  }
  Had had;
  had.record.evaluation = evaluation;
  had.record.group = group;
  had.record.replica = id;
  had.record.copy = copy;
  had.began = now;
  replica.has.push_back(had);
}

void GroupJournal::end(Time now, Replica& replica, std::deque<Had>::iterator had,
                       GroupRecord::End how) {
  GroupRecord record = had->record;
  const Time began = std::min(had->began, now);
  record.number = ++last_;
  record.end = how;
  record.began_s = seconds_of(began);
  record.ended_s = seconds_of(now);
  if (had == replica.has.begin()) {
    replica.busy += now - began;
    if (replica.has.size() > 1) (had + 1)->began = now;
  } else {
    record.began_s = record.ended_s;  // it never was its turn
  }
  replica.has.erase(had);
  records_.push_back(record);
  if (records_.size() > kMost) records_.pop_front();
}

void GroupJournal::done(Time now, std::uint64_t id, const EvaluationId& evaluation,
                        const PortionGroup& group, bool counted) {
  Replica& replica = replicas_[id];
  for (PortionCounts* counts : {&replica.portions, &all_})
    (counted ? counts->done : counts->unused) += portions_in(group);
  const auto had = std::find_if(replica.has.begin(), replica.has.end(), [&](const Had& each) {
    return each.record.group == group && each.record.evaluation == evaluation;
  });
  if (had == replica.has.end()) return;
  end(now, replica, had, counted ? GroupRecord::End::counted : GroupRecord::End::unused);
}

void GroupJournal::not_needed(Time now, std::uint64_t id, const PortionGroup& group) {
  const auto found = replicas_.find(id);
  if (found == replicas_.end()) return;
  auto& has = found->second.has;
  const auto had = std::find_if(has.begin(), has.end(),
                                [&](const Had& each) { return each.record.group == group; });
  if (had != has.end()) end(now, found->second, had, GroupRecord::End::unused);
}

void GroupJournal::drop(Time now, Replica& replica) {
  while (!replica.has.empty()) end(now, replica, replica.has.begin(), GroupRecord::End::lost);
}

void GroupJournal::left(Time now, std::uint64_t id) {
  const auto found = replicas_.find(id);
  if (found == replicas_.end() || !found->second.here) return;
  Replica& replica = found->second;
  drop(now, replica);
  replica.here = false;
  ++gone_;
  gone_busy_ += replica.busy;
  gone_portions_ = counts_with(gone_portions_, replica.portions);
  newest_gone_.push_back(id);
  if (newest_gone_.size() <= kMostGone) return;
  replicas_.erase(newest_gone_.front());
  newest_gone_.pop_front();
}

void GroupJournal::over(Time now) {
  for (auto& [id, replica] : replicas_) drop(now, replica);
}

GroupJournal::Gone GroupJournal::gone() const {
  return {gone_, gone_portions_, seconds_of(gone_busy_)};
}

std::vector<BatchReplica> GroupJournal::replicas(Time now) const {
  std::vector<BatchReplica> all;
  for (const auto& [id, replica] : replicas_) {
    Time busy = replica.busy;
    if (!replica.has.empty()) busy += now - std::min(now, replica.has.front().began);
    all.push_back({id, replica.name, replica.here, replica.portions, seconds_of(busy)});
  }
  return all;
}

std::vector<GroupRecord> GroupJournal::after(std::uint64_t number, std::size_t most) const {
  const auto first = std::find_if(records_.begin(), records_.end(),
                                  [&](const GroupRecord& each) { return each.number > number; });
  const auto count =
      std::min<std::size_t>(most, static_cast<std::size_t>(std::distance(first, records_.end())));
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace convoy::server::coordinator
