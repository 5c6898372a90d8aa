// A Downpour job whose coordinator and servers are objects of this process: shards are the real
// ones (server::ShardState), the coordinator keeps its rules in the plainest way.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/server/vectors.h"
#include "convoy/train/parameter_service.h"
#include "server/state/shard_state.h"

namespace convoy::train::testing_data {

class FakeJob {
 public:
  explicit FakeJob(server::JobPlan plan) : plan_(std::move(plan)), shards_(plan_.shards) {
    next_epoch_ = plan_.first_epoch;
    // What replicas were at work on when a checkpoint was made lies in gaps.
    for (const auto& [begin, end] : plan_.consumed) {
      for (; next_ < begin; next_ = std::min(next_ + plan_.portion, begin)) {
        redo_.push_back({0, next_epoch_, next_, std::min(next_ + plan_.portion, begin)});
      }
      next_ = std::max(next_, end);
    }
    before_ = plan_.consumed;
  }

  // What tests look at.
  struct Used {
    std::uint64_t client = 0;
    server::Portion portion;
    std::uint64_t done = 0;  // samples of it that servers have
    bool open = true;        // leased, and neither finished nor given up
  };
  std::vector<Used> used() {
    const std::lock_guard lock(mutex_);
    return used_;
  }
  std::uint64_t clients() {
    const std::lock_guard lock(mutex_);
    return clients_;
  }
  std::uint64_t cuts() {
    const std::lock_guard lock(mutex_);
    return cuts_;
  }
  std::string ended() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  // All values as they are now.
  std::vector<std::vector<float>> values() {
    const std::lock_guard lock(mutex_);
    std::vector<std::vector<float>> all;
    for (const server::VectorSpec& spec : specs_) all.emplace_back(spec.elements);
    for_slices([&](std::size_t shard, std::uint32_t i, const server::SliceSpec& slice) {
      std::vector<float>& to = all[slice.vector];
      shards_[shard].fetch({i, 0, 0, slice.size}, server::Encoding::f32,
                           std::as_writable_bytes(std::span(to).subspan(slice.begin, slice.size)));
    });
    return all;
  }
  // Gives a client up, as when it isn't heard of any more.
  void drop(std::uint64_t client) {
    const std::lock_guard lock(mutex_);
    give_up(client);
    lost_.insert(client);
    changed_.notify_all();
  }
  // Another number of samples than the plan's.
  void limit(std::uint64_t samples) { plan_.samples = samples; }
  // Drops the cut that the evaluator is at work on, as when it stood still; if there is one, which
  // isn't one of the first `past`.
  bool drop_cut(std::uint64_t past = 0) {
    const std::lock_guard lock(mutex_);
    if (open_cut_ <= past) return false;
    for (std::size_t s = 0; s < shards_.size(); ++s) give(s, server::drop_cut_command(open_cut_));
    open_cut_ = 0;
    return true;
  }
  std::atomic<bool> deaf{false};  // to reports
  // Called before each push is applied, without any lock.
  std::function<void(std::uint64_t client, std::uint64_t pushes)> before_push;
  std::function<void()> before_join;
  std::function<void(std::uint64_t client)> on_catch_up;
  // Called when a fetch or a push has done its work, without any lock.
  std::function<void(std::uint64_t client)> after_fetch, after_push;

 private:
  friend class FakeService;
  void give(std::size_t shard, const server::Bytes& command, server::Reply* reply = nullptr) {
    const server::Reply got =
        server::decode_reply(shards_[shard].apply(shards_[shard].applied() + 1, command));
    if (reply != nullptr) {
      *reply = got;
    } else if (got.status != server::Status::done && got.status != server::Status::collected) {
      throw Failure("a shard refuses: " + got.message);
    }
  }
  void for_slices(
      const std::function<void(std::size_t, std::uint32_t, const server::SliceSpec&)>& use) const {
    for (std::size_t s = 0; s < placement_.size(); ++s) {
      for (std::uint32_t i = 0; i < placement_[s].size(); ++i) use(s, i, placement_[s][i]);
    }
  }
  void give_up(std::uint64_t client) {
    if (members_.erase(client) == 0) return;
    server::Reply said;  // of those that it never joined, that they don't know it
    for (std::size_t s = 0; s < shards_.size(); ++s) give(s, server::leave_command(client), &said);
    for (Used& used : used_) {
      if (used.client != client || !used.open) continue;
      used.open = false;
      const std::uint64_t at = used.portion.begin + used.done;
      if (at < used.portion.end) redo_.push_back({0, used.portion.epoch, at, used.portion.end});
    }
  }
  std::uint64_t end_of_epoch() const {
    const std::uint64_t n = description_->epoch_samples;
    return plan_.drop_last ? n / plan_.batch * plan_.batch : n;
  }
  std::uint64_t handed_out_before() const {
    return next_epoch_ * description_->epoch_samples + next_;
  }
  bool nothing_left() const {
    if (plan_.samples > 0) return handed_out_before() >= plan_.samples;
    // The last samples of an epoch may have been done before this job.
    return next_epoch_ + (description_ && next_ >= end_of_epoch() ? 1 : 0) >= plan_.epochs;
  }
  bool all_done() const {
    return nothing_left() && redo_.empty() &&
           std::none_of(used_.begin(), used_.end(), [](const Used& u) { return u.open; });
  }
  server::JobProgress progress() {
    server::JobProgress p;
    p.ended = ended_;
    p.replicas = static_cast<std::uint32_t>(members_.size());
    p.reported = reported_;
    std::map<std::uint64_t, std::vector<std::pair<std::uint64_t, std::uint64_t>>> done;
    done[plan_.first_epoch] = before_;
    for (const Used& used : used_) {
      if (used.done == 0) continue;
      done[used.portion.epoch].emplace_back(used.portion.begin, used.portion.begin + used.done);
      p.samples += used.done;
    }
    p.epoch = plan_.first_epoch;
    while (description_) {
      auto& ranges = done[p.epoch];
      std::sort(ranges.begin(), ranges.end());
      p.consumed.clear();
      std::uint64_t sum = 0;
      for (const auto& range : ranges) {
        sum += range.second - range.first;
        if (!p.consumed.empty() && p.consumed.back().second == range.first) {
          p.consumed.back().second = range.second;
        } else {
          p.consumed.push_back(range);
        }
      }
      if (sum < end_of_epoch()) break;
      p.consumed.clear();
      ++p.epoch;
    }
    p.all_done = description_ && all_done();
    return p;
  }

  server::JobPlan plan_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<server::ShardState> shards_;
  std::optional<server::JobDescription> description_;
  std::vector<server::VectorSpec> specs_;
  server::Placement placement_;
  bool initialized_ = false;
  std::set<std::pair<std::uint32_t, std::uint64_t>> slices_given_;
  std::uint64_t clients_ = 0, portions_ = 0, cuts_ = 0, open_cut_ = 0, rate_ordinal_ = 0;
  std::set<std::uint64_t> members_, lost_;
  std::uint64_t joined_ = 0;
  std::uint64_t next_epoch_ = 0, next_ = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> before_;
  std::vector<server::Portion> redo_;
  std::vector<Used> used_;
  server::ReplicaReport reported_;
  std::string ended_;
};

}  // namespace convoy::train::testing_data
