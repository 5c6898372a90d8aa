// What a process has of a Sandblaster job that is objects of this process.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "convoy/train/batch_service.h"
#include "tests/train/sandblaster_fake_job.h"

namespace convoy::train::testing_data {

// What one process has of it.
template <typename T>
class FakeBatchService final : public BatchService {
 public:
  FakeBatchService(FakeBatchJob<T>& job, const ServiceMember& member)
      : job_(job), member_(member) {}

  const server::JobPlan& plan() const override { return job_.plan_; }
  bool describe(const server::JobDescription& description) override {
    const std::lock_guard lock(job_.mutex_);
    if (job_.description_) {
      if (!(*job_.description_ == description)) throw UsageError("another description");
      return job_.initialized_;
    }
    job_.description_ = description;
    return false;
  }
  void open(server::Element element) override {
    if (element != job_.element()) throw UsageError("another element");
    const std::lock_guard lock(job_.mutex_);
    if (job_.space_) return;
    job_.space_ = std::make_unique<optim::MemorySpace<T>>(job_.elements());
  }
  void put(const optim::VectorName& name,
           std::span<const server::BatchView<const float>> values) override {
    put_values(name, values);
  }
  void put(const optim::VectorName& name,
           std::span<const server::BatchView<const double>> values) override {
    put_values(name, values);
  }
  void begin_from(const optim::BatchState& state) override {
    const std::lock_guard lock(job_.mutex_);
    job_.from_ = state;
  }
  bool initialized(const optim::VectorName& weights) override {
    const std::lock_guard lock(job_.mutex_);
    if (job_.given_[weights].elements < job_.elements()) return false;
    for (const auto& [name, given] : job_.given_) {
      if (given.elements < job_.elements()) throw UsageError(to_string(name) + " lacks something");
      job_.space_->put(name, given.values);
    }
    job_.initialized_ = true;
    job_.changed_.notify_all();
    return true;
  }
  void join(const server::JobDescription& description,
            std::optional<std::span<const std::uint32_t>>) override {
    std::unique_lock lock(job_.mutex_);
    job_.changed_.wait(lock, [&] { return job_.initialized_ || !job_.ended_.empty(); });
    if (!job_.ended_.empty()) throw Failure("the job is over");
    if (!(*job_.description_ == description)) throw UsageError("another description");
    id_ = ++job_.clients_;
  }
  std::uint64_t id() const override { return id_; }
  bool lost() const override {
    const std::lock_guard lock(job_.mutex_);
    return job_.lost_.contains(member_.group != 0 ? member_.group : id_);
  }
  std::string ended() const override { return job_.ended(); }
  void leave() override {}

  server::PortionLease lease(const server::EvaluationId& evaluation,
                             std::span<const server::PortionGroup> held,
                             std::span<const server::FinishedPortions> finished,
                             bool at_once) override {
    if (lost()) throw Failure("the coordinator has given this client up");
    std::unique_lock lock(job_.mutex_);
    for (const server::FinishedPortions& each : finished) {
      if (evaluation != job_.evaluation_) continue;
      std::uint32_t portion = each.group.first;
      for (const double loss : each.losses)
        job_.losses_.emplace(portion++, job_.loss_of ? job_.loss_of(evaluation, loss) : loss);
      std::erase(job_.held_[id_], each.group);
      server::GroupRecord record;
      record.number = job_.progress_.groups.size() + 1;
      record.evaluation = evaluation;
      record.group = each.group;
      record.replica = id_;
      job_.progress_.groups.push_back(record);
    }
    job_.changed_.notify_all();
    server::PortionLease lease;
    if (!at_once) {
      job_.changed_.wait_for(lock, std::chrono::milliseconds(50), [&] {
        return !job_.ended_.empty() || (job_.open_ && !job_.queue_.empty());
      });
    }
    auto& mine = job_.held_[id_];
    lease.evaluation = job_.evaluation_;
    lease.portions = job_.portions();
    if (!job_.ended_.empty()) {
      lease.kind = server::PortionLease::Kind::finished;
      lease.why = job_.ended_;
    } else if (const auto again = std::find_if(mine.begin(), mine.end(),
                                               [&](const auto& group) {
                                                 return std::find(held.begin(), held.end(),
                                                                  group) == held.end();
                                               });
               evaluation == job_.evaluation_ && again != mine.end()) {
      lease.kind = server::PortionLease::Kind::group;  // the answer got lost
      lease.group = *again;
    } else if (job_.open_ && !job_.queue_.empty() && held.size() < 2) {
      lease.kind = server::PortionLease::Kind::group;
      lease.group = job_.queue_.front();
      job_.queue_.pop_front();
      mine.push_back(lease.group);
    }
    return lease;
  }
  void fetch(const optim::VectorName& name, std::span<const server::BatchView<float>> to) override {
    fetch_values(name, to);
  }
  void fetch(const optim::VectorName& name,
             std::span<const server::BatchView<double>> to) override {
    fetch_values(name, to);
  }
  server::GroupAnswer add_group(const server::EvaluationId& id, const server::PortionGroup& group,
                                std::span<const server::BatchView<const float>> values) override {
    return add_values(id, group, values);
  }
  server::GroupAnswer add_group(const server::EvaluationId& id, const server::PortionGroup& group,
                                std::span<const server::BatchView<const double>> values) override {
    return add_values(id, group, values);
  }

  server::BatchProgress watch(std::uint64_t after, bool) override {
    const std::lock_guard lock(job_.mutex_);
    server::BatchProgress progress = job_.progress_;
    progress.evaluation = job_.evaluation_;
    progress.over = job_.over_;
    progress.ended = job_.ended_;
    progress.term = 1;
    progress.method_bytes = 3000;
    progress.portion_bytes = 4000;
    std::erase_if(progress.groups, [&](const auto& each) { return each.number <= after; });
    for (std::uint64_t replica = 1; replica <= job_.clients_; ++replica)
      progress.replicas.push_back({replica, "replica-" + std::to_string(replica), true, {}, 0});
    return progress;
  }
  server::ShardTotals totals() override {
    server::ShardTotals totals;
    totals.pushed_bytes = 1000;
    totals.fetched_bytes = 2000;
    return totals;
  }
  void let_go() override {
    if (job_.before_let_go) job_.before_let_go();
  }
  void end_job(const std::string& why) override { job_.end(why); }
  server::ClientTraffic traffic() const override { return {}; }

 private:
  template <typename V>
  void put_values(const optim::VectorName& name,
                  std::span<const server::BatchView<const V>> values) {
    const std::lock_guard lock(job_.mutex_);
    auto& given = job_.given_[name];
    given.values.resize(job_.elements());
    for (const auto& view : values) {
      std::copy(view.values.begin(), view.values.end(),
                given.values.begin() + static_cast<std::ptrdiff_t>(job_.begin_of(view.vector)));
      given.elements += view.values.size();
    }
  }
  template <typename V>
  void fetch_values(const optim::VectorName& name, std::span<const server::BatchView<V>> to) {
    if (job_.before_fetch) job_.before_fetch(id_, name);
    const std::lock_guard lock(job_.mutex_);
    auto found = job_.weights_.find(name);
    if (found == job_.weights_.end()) {
      found = job_.kept_.find(name);
      if (found == job_.kept_.end()) throw UsageError("there is no vector " + to_string(name));
    }
    for (const auto& view : to) {
      const auto from =
          found->second.begin() + static_cast<std::ptrdiff_t>(job_.begin_of(view.vector));
      std::copy_n(from, view.values.size(), view.values.begin());
    }
  }
  template <typename V>
  server::GroupAnswer add_values(const server::EvaluationId& id, const server::PortionGroup& group,
                                 std::span<const server::BatchView<const V>> values) {
    if (!std::is_same_v<V, T>) throw UsageError("another type");
    if (job_.before_add) job_.before_add(id_, group);
    const std::lock_guard lock(job_.mutex_);
    if (id != job_.evaluation_ || !job_.open_) return server::GroupAnswer::ended;
    bool kept = false;
    for (const auto& view : values) {
      server::GroupTree& tree = job_.trees_[view.vector];
      if (tree.look(group) != server::GroupTree::Look::missing) continue;
      auto sum = std::make_shared<server::BatchArray>(job_.element(), view.values.size());
      std::memcpy(sum->bytes().data(), view.values.data(), view.values.size_bytes());
      tree.add(group, std::move(sum));
      kept = true;
    }
    return kept ? server::GroupAnswer::kept : server::GroupAnswer::had;
  }

  FakeBatchJob<T>& job_;
  const ServiceMember member_;
  std::uint64_t id_ = 0;
};

template <typename T>
BatchServiceFactory connect_to(FakeBatchJob<T>& job) {
  return [&job](const ServiceMember& member) {
    return std::make_unique<FakeBatchService<T>>(job, member);
  };
}

}  // namespace convoy::train::testing_data
