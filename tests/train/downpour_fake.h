// What a process has of a job that is objects of this process.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/train/downpour_fake_job.h"

namespace convoy::train::testing_data {

// What one process has of it.
class FakeService final : public ParameterService {
 public:
  explicit FakeService(FakeJob& job) : job_(job) {}

  const server::JobPlan& plan() const override { return job_.plan_; }
  void catch_up() override {
    if (job_.on_catch_up) job_.on_catch_up(id_);
    if (lost()) throw Failure("the coordinator has given this client up");
  }
  std::uint64_t id() const override { return id_; }
  bool lost() const override {
    const std::lock_guard lock(job_.mutex_);
    return job_.lost_.contains(id_);
  }
  std::string ended() const override {
    const std::lock_guard lock(job_.mutex_);
    return job_.ended_;
  }
  std::uint64_t fetches() const override { return fetches_; }

  bool describe(const server::JobDescription& description) override {
    const std::lock_guard lock(job_.mutex_);
    if (job_.description_) {
      if (!(*job_.description_ == description)) throw UsageError("another description");
      return job_.initialized_;
    }
    job_.description_ = description;
    job_.specs_ = description.vectors;
    job_.placement_ = server::place(job_.specs_, job_.shards_.size());
    for (std::size_t s = 0; s < job_.shards_.size(); ++s) {
      server::Definition definition;
      definition.staleness_bound = job_.plan_.staleness_bound;
      definition.scale_by_staleness = job_.plan_.scale_by_staleness;
      for (const server::SliceSpec& slice : job_.placement_[s]) {
        const server::VectorSpec& spec = job_.specs_[slice.vector];
        definition.slices.push_back({spec.name, spec.elements, slice.begin, slice.size, spec.rule});
      }
      job_.give(s, server::define_command(definition));
    }
    return false;
  }
  void initialize(std::span<const server::ReadView> values,
                  const std::vector<std::vector<std::span<const float>>>& slots,
                  std::uint64_t steps) override {
    const std::lock_guard lock(job_.mutex_);
    job_.for_slices([&](std::size_t s, std::uint32_t i, const server::SliceSpec& slice) {
      for (std::size_t v = 0; v < values.size(); ++v) {
        if (values[v].vector != slice.vector) continue;
        const auto encoded = [&](std::span<const float> all) {
          const auto part = all.subspan(slice.begin, slice.size);
          return server::EncodedValues(server::Encoding::f32, part.size(), std::as_bytes(part));
        };
        server::InitialSlice initial{i, steps, encoded(values[v].values), {}};
        if (!slots.empty()) {
          for (const auto& slot : slots[slice.vector]) initial.slots.push_back(encoded(slot));
        }
        job_.give(s, server::initialize_command({initial}));
        job_.slices_given_.insert({i, s});
      }
    });
    std::size_t all = 0;
    job_.for_slices([&](std::size_t, std::uint32_t, const server::SliceSpec&) { ++all; });
    job_.initialized_ = job_.slices_given_.size() == all;
    job_.changed_.notify_all();
  }
  void join(const server::JobDescription& description,
            std::optional<std::span<const std::uint32_t>> vectors) override {
    if (job_.before_join) job_.before_join();
    std::unique_lock lock(job_.mutex_);
    job_.changed_.wait(lock, [&] { return job_.initialized_ || !job_.ended_.empty(); });
    if (!job_.ended_.empty()) throw Failure("the job is over: " + job_.ended_);
    if (!(*job_.description_ == description)) throw UsageError("another description");
    id_ = ++job_.clients_;
    ++job_.joined_;
    job_.members_.insert(id_);
    // Of the shards that have parts of these.
    for (std::size_t s = 0; s < job_.shards_.size(); ++s) {
      const auto& slices = job_.placement_[s];
      const bool has =
          !vectors || std::any_of(slices.begin(), slices.end(), [&](const auto& slice) {
            return std::find(vectors->begin(), vectors->end(), slice.vector) != vectors->end();
          });
      if (has) job_.give(s, server::join_command(id_, "replica"));
    }
    job_.changed_.notify_all();
  }

  void fetch(std::span<const server::WriteView> to) override {
    {
      const std::lock_guard lock(job_.mutex_);
      std::map<std::pair<std::size_t, std::uint32_t>, std::uint64_t> versions;
      read(to, [&](std::size_t s, std::uint32_t i, const server::FetchRange& range,
                   std::span<std::byte> bytes) {
        versions[{s, i}] = job_.shards_[s].fetch(range, server::Encoding::f32, bytes);
      });
      versions_[++fetches_] = versions;
    }
    if (job_.after_fetch) job_.after_fetch(id_);
  }
  server::PushResult push(std::span<const server::ReadView> gradients, std::uint64_t samples,
                          std::pair<std::uint64_t, std::uint64_t> progress,
                          std::uint64_t fetched) override {
    if (job_.before_push) job_.before_push(id_, sequence_);
    server::PushResult result;
    {
      std::unique_lock lock(job_.mutex_);
      if (!job_.ended_.empty()) throw Failure("the job is over");
      ++sequence_;
      std::uint64_t round = 0;
      std::size_t shard = 0;  // one that has a part of it
      bool collected = false;
      for (std::size_t s = 0; s < job_.shards_.size(); ++s) {
        server::Push push;
        push.client = id_;
        push.sequence = sequence_;
        push.samples = samples;
        for (std::uint32_t i = 0; i < job_.placement_[s].size(); ++i) {
          const server::SliceSpec& slice = job_.placement_[s][i];
          for (const server::ReadView& view : gradients) {
            if (view.vector != slice.vector) continue;
            const auto part = view.values.subspan(slice.begin, slice.size);
            push.slices.push_back({i,
                                   versions_.at(fetched).at({s, i}),
                                   {server::Encoding::f32, part.size(), std::as_bytes(part)}});
          }
        }
        const bool nothing = gradients.empty() && job_.plan_.staleness_bound == 0;
        if (push.slices.empty() && !nothing) continue;
        server::Reply reply;
        job_.give(s, server::push_command(push), &reply);
        result.staleness = std::max(result.staleness, reply.staleness);
        switch (reply.status) {
          case server::Status::done:
            break;
          case server::Status::collected:
            collected = true;
            shard = s;
            round = reply.round;
            break;
          case server::Status::fetch_again:
            result.kind = server::PushResult::Kind::fetch_again;
            break;
          case server::Status::not_member:
            throw Failure("not a member: " + reply.message);
          default:
            result.kind = server::PushResult::Kind::refused;
            result.why = reply.message;
        }
      }
      for (FakeJob::Used& used : job_.used_) {
        if (used.client != id_ || !used.open || used.portion.number > progress.first) continue;
        used.done = used.portion.number == progress.first ? progress.second
                                                          : used.portion.end - used.portion.begin;
      }
      job_.changed_.notify_all();
      if (collected) {
        job_.changed_.wait(lock, [&] {
          return job_.shards_[shard].status().round > round || !job_.members_.contains(id_) ||
                 !job_.ended_.empty();
        });
      }
    }
    if (job_.after_push) job_.after_push(id_);
    return result;
  }
  server::Lease lease(std::span<const std::uint64_t> finished) override {
    const std::lock_guard lock(job_.mutex_);
    if (job_.lost_.contains(id_)) throw Failure("the coordinator has given this client up");
    for (FakeJob::Used& used : job_.used_) {
      if (std::find(finished.begin(), finished.end(), used.portion.number) == finished.end())
        continue;
      used.open = false;
      used.done = used.portion.end - used.portion.begin;
    }
    using Kind = server::Lease::Kind;
    server::Lease lease;
    lease.wait = std::chrono::milliseconds(20);
    if (!job_.ended_.empty() || job_.all_done()) {
      lease.kind = Kind::finished;
    } else if (job_.plan_.staleness_bound == 0 && job_.joined_ < job_.plan_.replicas) {
      lease.why = "not all replicas are there";
    } else if (job_.progress().samples < job_.plan_.warm_samples && id_ != *job_.members_.begin()) {
      lease.why = "warm start";
    } else if (!job_.redo_.empty() || !job_.nothing_left()) {
      lease.kind = Kind::portion;
      if (!job_.redo_.empty()) {
        lease.portion = job_.redo_.back();
        job_.redo_.pop_back();
      } else {
        const std::uint64_t end = job_.end_of_epoch();
        if (job_.next_ >= end) {  // all of it was done before
          job_.next_ = 0;
          ++job_.next_epoch_;
        }
        std::uint64_t to = std::min(job_.next_ + job_.plan_.portion, end);
        if (job_.plan_.samples > 0)
          to = std::min(to, job_.next_ + job_.plan_.samples - job_.handed_out_before());
        lease.portion = {0, job_.next_epoch_, job_.next_, to};
        job_.next_ = to;
        if (to == end) {
          job_.next_ = 0;
          ++job_.next_epoch_;
        }
      }
      lease.portion.number = ++job_.portions_;
      job_.used_.push_back({id_, lease.portion});
    }
    return lease;
  }
  void report(const server::ReplicaReport& more) override {
    if (job_.deaf) return;
    const std::lock_guard lock(job_.mutex_);
    job_.reported_.steps += more.steps;
    job_.reported_.samples += more.samples;
    job_.reported_.loss_sum += more.loss_sum;
    job_.reported_.weight += more.weight;
  }
  void leave() override {
    const std::lock_guard lock(job_.mutex_);
    job_.give_up(id_);
    job_.changed_.notify_all();
  }

  server::JobProgress progress() override {
    const std::lock_guard lock(job_.mutex_);
    return job_.progress();
  }
  server::Cut cut() override {
    const std::lock_guard lock(job_.mutex_);
    server::Cut cut;
    cut.id = ++job_.cuts_;
    for (std::size_t s = 0; s < job_.shards_.size(); ++s) {
      job_.give(s, server::cut_command(cut.id));
      for (const std::uint64_t version : job_.shards_[s].status().versions)
        cut.version = std::max(cut.version, version);
    }
    cut.progress = job_.progress();
    job_.open_cut_ = cut.id;
    return cut;
  }
  void fetch_cut(const server::Cut& cut, std::span<const server::WriteView> to) override {
    fetch_cut_array(cut, 0, to);
  }
  void fetch_cut_slot(const server::Cut& cut, std::uint32_t slot,
                      std::span<const server::WriteView> to) override {
    fetch_cut_array(cut, slot + 1, to);
  }
  void drop_cut(const server::Cut&) override { job_.drop_cut(); }
  void set_rates(std::span<const std::pair<std::uint32_t, double>> rates) override {
    const std::lock_guard lock(job_.mutex_);
    ++job_.rate_ordinal_;
    for (std::size_t s = 0; s < job_.shards_.size(); ++s) {
      std::vector<std::pair<std::uint32_t, double>> own;
      for (std::uint32_t i = 0; i < job_.placement_[s].size(); ++i) {
        for (const auto& [vector, rate] : rates) {
          if (vector == job_.placement_[s][i].vector) own.emplace_back(i, rate);
        }
      }
      job_.give(s, server::set_rates_command(job_.rate_ordinal_, own));
    }
  }
  void end_job(const std::string& why) override {
    const std::lock_guard lock(job_.mutex_);
    if (job_.ended_.empty()) job_.ended_ = why;
    job_.changed_.notify_all();
  }
  server::ClientTraffic traffic() const override { return {}; }
  server::ShardTotals totals() override {
    const std::lock_guard lock(job_.mutex_);
    server::ShardTotals sums;
    for (const auto& shard : job_.shards_) {
      const auto pushes = shard.status().staleness.pushes;
      for (std::size_t i = 0; i < sums.staleness.size(); ++i) sums.staleness[i] += pushes[i];
    }
    return sums;
  }

 private:
  using ReadSlice = std::function<void(std::size_t shard, std::uint32_t slice,
                                       const server::FetchRange& range, std::span<std::byte> to)>;
  void read(std::span<const server::WriteView> to, const ReadSlice& read_slice,
            std::uint32_t array = 0) {
    job_.for_slices([&](std::size_t s, std::uint32_t i, const server::SliceSpec& slice) {
      for (const server::WriteView& view : to) {
        if (view.vector != slice.vector) continue;
        read_slice(s, i, {i, array, 0, slice.size},
                   std::as_writable_bytes(view.values.subspan(slice.begin, slice.size)));
      }
    });
  }
  void fetch_cut_array(const server::Cut& cut, std::uint32_t array,
                       std::span<const server::WriteView> to) {
    const std::lock_guard lock(job_.mutex_);
    read(
        to,
        [&](std::size_t s, std::uint32_t, const server::FetchRange& range,
            std::span<std::byte> bytes) {
          job_.shards_[s].fetch_cut(cut.id, range, server::Encoding::f32, bytes);
        },
        array);
  }

  FakeJob& job_;
  std::uint64_t id_ = 0;
  std::atomic<std::uint64_t> fetches_{0};
  std::uint64_t sequence_ = 0;
  std::map<std::uint64_t, std::map<std::pair<std::size_t, std::uint32_t>, std::uint64_t>>
      versions_;  // by number of the fetch
};

inline ParameterServiceFactory connect_to(FakeJob& job) {
  return [&job](const ServiceMember&) { return std::make_unique<FakeService>(job); };
}

}  // namespace convoy::train::testing_data
