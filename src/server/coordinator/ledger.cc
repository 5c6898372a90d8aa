#include "server/coordinator/ledger.h"

#include <algorithm>
#include <limits>

#include "convoy/base/error.h"

namespace convoy::server::coordinator {
namespace {

constexpr std::uint64_t kLargestNumber = std::numeric_limits<std::uint32_t>::max();

// How many samples of each portion of a replica that is so far are done. It works on them by
// number, one after the other, so those with smaller numbers than the one named are, even if that
// one isn't known: a power cut may have taken it.
std::vector<std::uint64_t> done_by(std::span<const Portion> portions, Progress progress) {
  std::vector<std::uint64_t> done;
  done.reserve(portions.size());
  const std::uint64_t number = progress >> 32;
  for (const Portion& each : portions) {
    const std::uint64_t size = each.end - each.begin;
    done.push_back(each.number < number    ? size
                   : each.number == number ? std::min(progress & kLargestNumber, size)
                                           : 0);
  }
  return done;
}

}  // namespace

Ledger::Ledger(const JobPlan& plan, std::uint64_t epoch_samples)
    : batch_(plan.batch),
      portion_(plan.portion),
      samples_(plan.samples),
      epochs_(plan.epochs),
      rounds_(plan.staleness_bound == 0) {
  // In rounds an update is of the batches of all replicas.
  const std::uint64_t unit = rounds_ ? plan.batch * plan.replicas : plan.batch;
  length_ = plan.drop_last ? epoch_samples / unit * unit : epoch_samples;
  first_open_ = epoch_ = plan.first_epoch;
  closed_ = handed_ = first_open_ * length_;
  for (const auto& [begin, end] : plan.consumed) {
    done(plan.first_epoch, begin, std::min(end, length_));
  }
  handed_ = samples();
  if (rounds_ && samples_ > handed_ && length_ != 0) samples_ = handed_ + samples_of_rounds(unit);
}

// Of the rounds that are left: the plan says how many samples they would have if all were whole,
// and they have no more. Steps are counted by samples of an epoch (the evaluator knows no more): a
// batch that was begun before this job is none of those that are left.
std::uint64_t Ledger::samples_of_rounds(std::uint64_t unit) const {
  const auto rounds_in = [unit](std::uint64_t samples) { return (samples + unit - 1) / unit; };
  const std::uint64_t rounds = rounds_in(samples_ - handed_);
  const std::uint64_t each = rounds_in(length_);
  const std::uint64_t first = length_ - (handed_ - closed_);  // samples of the epoch at hand
  const std::uint64_t in_first = each - rounds_in(handed_ - closed_);
  if (rounds <= in_first) return std::min(rounds * unit, first);
  const std::uint64_t behind = rounds - in_first;
  const std::uint64_t all =
      first + behind / each * length_ + std::min(behind % each * unit, length_);
  return std::min(all, rounds * unit);
}

void Ledger::enter(std::uint64_t group) {
  if (groups_.try_emplace(group).second) ++shares_due_;
}

void Ledger::done(std::uint64_t epoch, std::uint64_t begin, std::uint64_t end) {
  if (begin == end) return;  // perhaps of an epoch that is closed
  done_[epoch].add(begin, end);
  for (auto first = done_.begin(); first != done_.end() && first->first == first_open_ &&
                                   first->second.size() == length_ && length_ != 0;
       first = done_.begin()) {
    closed_ += length_;
    ++first_open_;
    done_.erase(first);
  }
  if (epoch_ < first_open_) {
    epoch_ = first_open_;
    position_ = 0;
  }
}

Range Ledger::next_new(std::uint64_t& epoch, std::uint64_t position) const {
  if (length_ == 0 || (samples_ != 0 && handed_ >= samples_)) return {};
  for (; epochs_ == 0 || epoch < epochs_; ++epoch, position = 0) {
    // What is done of this epoch behind the position was done before this job began.
    const auto found = done_.find(epoch);
    const Range gap =
        found == done_.end() ? Range{position, length_} : found->second.gap(position, length_);
    if (gap.first >= gap.second) continue;
    const std::uint64_t most = samples_ == 0 ? length_ : samples_ - handed_;
    return {gap.first, gap.first + std::min(gap.second - gap.first, most)};
  }
  return {};
}

// In rounds: the last batch of an epoch is divided among those who are to have a share.
std::uint64_t Ledger::share(std::uint64_t left) const {
  if (!rounds_) return portion_;
  const std::uint64_t due = std::max<std::uint64_t>(shares_due_, 1);
  return std::min(batch_, (left + due - 1) / due);
}

void Ledger::next_round() {
  ++round_;
  shares_due_ = groups_.size();
  round_epoch_.reset();
}

// In rounds: goes on to the one that a replica's next portion belongs to. False where it has to
// wait.
bool Ledger::to_round(const Group& group, std::uint64_t round) {
  const bool known = round != kAnyRound;
  if (known && shards_round_) {
    // An earlier one is another one, too: what shards had of this one is lost.
    if (round != *shards_round_) {
      next_round();
      shards_round_ = round;
    }
    return true;
  }
  if (group.round == round_) {
    if (shares_due_ > 0) return false;
    next_round();
    if (shards_round_) ++*shards_round_;
  }
  if (known) shards_round_ = round;
  return true;
}

void Ledger::take_rest(std::uint64_t most, Portion& portion) {
  Rest& rest = redo_.front();
  const std::uint64_t size = std::min({rest.end - rest.begin, portion_, most});
  portion = {next_number_++, rest.epoch, rest.begin, rest.begin + size};
  rest.begin += size;
  if (rest.begin == rest.end) redo_.pop_front();
  redo_samples_ -= size;
  ++redone_;
}

bool Ledger::take(std::uint64_t most, Portion& portion) {
  if (next_number_ > kLargestNumber) return false;
  // A round has samples of one epoch: who comes when others have the last ones has none.
  const auto fits = [this](std::uint64_t epoch) { return !round_epoch_ || *round_epoch_ == epoch; };
  if (!redo_.empty() && fits(redo_.front().epoch)) {
    take_rest(most, portion);
    return true;
  }
  std::uint64_t epoch = epoch_;
  const auto [begin, end] = next_new(epoch, position_);
  if (begin == end && redo_.empty()) return false;
  if (begin == end || !fits(epoch)) {
    portion = {next_number_++, *round_epoch_, length_, length_};
    return true;
  }
  const std::uint64_t size = std::min({share(end - begin), end - begin, most});
  portion = {next_number_++, epoch, begin, begin + size};
  epoch_ = epoch;
  position_ = begin + size;
  handed_ += size;
  return true;
}

bool Ledger::all_handed() const {
  if (!redo_.empty()) return false;
  std::uint64_t epoch = epoch_;
  const auto [begin, end] = next_new(epoch, position_);
  return begin == end;
}

Ledger::Handed Ledger::hand_out(std::uint64_t group, std::uint64_t last, std::size_t ahead,
                                std::uint64_t most, std::uint64_t round) {
  Group& to = groups_.at(group);
  for (const Portion& portion : to.portions) {
    if (portion.number > last) return {Handed::Kind::portion, portion, false};
  }
  if (all_handed()) {
    // In rounds the others wait for each other's pushes, so nobody waits for what may come back.
    const bool none = to.portions.empty() && (holding_ == 0 || rounds_);
    return {none ? Handed::Kind::finished : Handed::Kind::wait, {}, false};
  }
  if (to.portions.size() >= (rounds_ ? 1 : ahead)) return {};
  if (rounds_ && !to_round(to, round)) return {};
  Handed handed;
  if (!take(most, handed.portion)) return {};
  handed.kind = Handed::Kind::portion;
  handed.changed = true;
  to.portions.push_back(handed.portion);
  ++holding_;
  if (to.round != round_) --shares_due_;
  to.round = round_;
  if (rounds_) round_epoch_ = handed.portion.epoch;
  return handed;
}

bool Ledger::finished(std::uint64_t group, std::uint64_t number) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return false;
  auto& portions = found->second.portions;
  const auto at = std::find_if(portions.begin(), portions.end(),
                               [&](const Portion& each) { return each.number == number; });
  if (at == portions.end()) return false;
  const Portion portion = *at;
  portions.erase(at);
  --holding_;
  done(portion.epoch, portion.begin, portion.end);
  return true;
}

Ledger::Lost Ledger::leave(std::uint64_t group, Progress least, Progress most) {
  Lost lost;
  const auto found = groups_.find(group);
  if (found == groups_.end()) return lost;
  const std::vector<Portion> portions = std::move(found->second.portions);
  if (found->second.round != round_) --shares_due_;
  groups_.erase(found);
  if (groups_.empty() && round_epoch_) next_round();  // shards have ended this one
  holding_ -= portions.size();
  const auto surely = done_by(portions, least);
  const auto perhaps = done_by(portions, std::max(least, most));
  for (std::size_t i = 0; i < portions.size(); ++i) {
    const Portion& portion = portions[i];
    const std::uint64_t begin = portion.begin + surely[i];
    lost.done += surely[i];
    lost.rest += portion.end - begin;
    if (perhaps[i] > surely[i]) lost.twice += perhaps[i] - surely[i];
    if (begin < portion.end) redo_.push_back({portion.epoch, begin, portion.end});
    done(portion.epoch, portion.begin, begin);
  }
  redo_samples_ += lost.rest;
  twice_ += lost.twice;
  return lost;
}

std::uint64_t Ledger::samples() const {
  std::uint64_t count = closed_;
  for (const auto& [epoch, ranges] : done_) count += ranges.size();
  return count;
}

std::span<const Portion> Ledger::held(std::uint64_t group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? std::span<const Portion>() : found->second.portions;
}

LedgerView Ledger::view() const {
  LedgerView view{first_open_, length_, closed_, done_, {}, all_done()};
  view.held.reserve(holding_);
  for (const auto& [id, group] : groups_) {
    for (const Portion& portion : group.portions) view.held.push_back({id, portion});
  }
  return view;
}

void LedgerView::fill(const std::map<std::uint64_t, Progress>& groups,
                      JobProgress& progress) const {
  std::map<std::uint64_t, Ranges> all = done;
  std::map<std::uint64_t, std::vector<Portion>> by_group;
  for (const HeldPortion& each : held) by_group[each.group].push_back(each.portion);
  for (auto& [group, portions] : by_group) {
    const auto found = groups.find(group);
    if (found == groups.end()) continue;
    std::sort(portions.begin(), portions.end(),
              [](const Portion& a, const Portion& b) { return a.number < b.number; });
    const auto part = done_by(portions, found->second);
    for (std::size_t i = 0; i < portions.size(); ++i) {
      // An epoch before the first open one is done as a whole.
      if (portions[i].epoch < first_open) continue;
      all[portions[i].epoch].add(portions[i].begin, portions[i].begin + part[i]);
    }
  }
  progress.all_done = all_done;
  progress.epoch = first_open;
  progress.samples = closed;
  for (const auto& [epoch, ranges] : all) {
    progress.samples += ranges.size();
    if (epoch == progress.epoch && length != 0 && ranges.size() == length) ++progress.epoch;
  }
  const auto open = all.find(progress.epoch);
  progress.consumed = open == all.end() ? std::vector<Range>{} : open->second.list();
}

}  // namespace convoy::server::coordinator
