// A Sandblaster job that is objects of this process: its method, its vectors, and who has which
// portions.
#pragma once

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/exact_sum.h"
#include "convoy/base/error.h"
#include "convoy/optim/batch.h"
#include "convoy/train/batch_service.h"
#include "convoy/train/sandblaster.h"
#include "server/state/group_trees.h"
#include "tests/base/patience.h"

namespace convoy::train::testing_data {

// With vectors of T, which has to be the type of the recipe's.
template <typename T>
class FakeBatchJob final : public optim::Objective {
 public:
  // Groups have 2^level portions where they fit, in an order that depends on the evaluation.
  FakeBatchJob(const Recipe& recipe, std::uint8_t level)
      : recipe_(recipe), plan_(batch_plan(recipe)), level_(level) {}

  // The method, until it is over or the job has ended. Called by one thread.
  void optimize() {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return initialized_ || !ended_.empty(); });
      if (!ended_.empty()) return;
    }
    optim::BatchOptimizer optimizer(batch_options(recipe_), *space_, *this);
    try {
      optim::BatchIteration last;
      if (from_) {
        optimizer.resume(*from_);
      } else {
        last = optimizer.begin();
      }
      note(optimizer, last);
      while (last.ending == optim::BatchEnding::none &&
             optimizer.state().iteration < batch_iterations(recipe_)) {
        last = optimizer.iterate();
        note(optimizer, last);
      }
      const std::lock_guard lock(mutex_);
      over_ = last.ending == optim::BatchEnding::none ? "all iterations are done"
                                                      : optim::describe(last.ending);
      changed_.notify_all();
    } catch (const Failure&) {  // it has ended meanwhile
    }
  }

  double evaluate(const optim::VectorName& weights) override {
    std::unique_lock lock(mutex_);
    const server::EvaluationId id{weights.iteration, weights.evaluation};
    evaluation_ = id;
    weights_[weights] = space_->get(weights);
    losses_.clear();
    trees_.clear();
    held_.clear();
    for (const server::VectorSpec& vector : description_->vectors) {
      static_cast<void>(vector);
      trees_.emplace_back(element(), portions());
    }
    queue_.clear();
    for (std::uint32_t first = 0; first < portions();) {
      server::PortionGroup group{first, level_};
      while (group.first % (1u << group.log2_size) != 0 || group.end() > portions())
        --group.log2_size;
      queue_.push_back(group);
      first = static_cast<std::uint32_t>(group.end());
    }
    std::mt19937 random(static_cast<unsigned>(id.iteration * 31 + id.evaluation));
    std::shuffle(queue_.begin(), queue_.end(), random);
    open_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return losses_.size() == portions() || !ended_.empty(); });
    open_ = false;
    if (!ended_.empty()) throw Failure("the job is over");
    ExactSum sum;
    for (const auto& [portion, loss] : losses_) sum.add(loss);
    const bool lacks = std::any_of(trees_.begin(), trees_.end(),
                                   [](const server::GroupTree& tree) { return !tree.complete(); });
    if (!std::isfinite(sum.value()) && lacks) return sum.value();  // replicas sent no gradient
    std::vector<T> sums;
    for (std::size_t v = 0; v < trees_.size(); ++v) {
      if (!description_->vectors[v].rule || description_->vectors[v].elements == 0) continue;
      const server::BatchArrayPtr root = trees_[v].root();
      sums.insert(sums.end(), root->template data<T>(), root->template data<T>() + root->size());
    }
    // As shards make it: scaled, and with the weights for L2, rounded once.
    const double scale = 1 / static_cast<double>(description_->epoch_samples);
    const double l2 = sandblaster_of(recipe_).l2;
    const optim::VectorName sum_name{optim::VectorRole::change, -1 - evaluations_++, 0};
    space_->put(sum_name, sums);
    std::vector<optim::Term> terms{{scale, sum_name}};
    if (l2 != 0) terms.push_back({l2, weights});
    space_->combine(optim::gradient_of(weights), terms);
    double loss = sum.value() * scale;
    if (l2 != 0) {
      const optim::VectorPair square{weights, weights};
      loss += l2 / 2 * space_->dots({&square, 1}).front();
    }
    return loss;
  }

  void end(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (ended_.empty()) ended_ = why;
    changed_.notify_all();
  }
  // Its groups go to others.
  void drop(std::uint64_t replica) {
    const std::lock_guard lock(mutex_);
    lost_.insert(replica);
    for (const server::PortionGroup& group : held_[replica]) queue_.push_back(group);
    held_.erase(replica);
    changed_.notify_all();
  }

  // Likewise, of one that is only late.
  void hand_out_again(std::uint64_t replica) {
    const std::lock_guard lock(mutex_);
    for (const server::PortionGroup& group : held_[replica]) queue_.push_back(group);
    held_.erase(replica);
    changed_.notify_all();
  }
  // Whether another evaluation has begun.
  bool wait_past(const server::EvaluationId& evaluation) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, test::patience(),
                             [&] { return evaluation_ != evaluation || !ended_.empty(); });
  }

  std::string ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  const std::vector<T>& weights(const optim::VectorName& name) const { return weights_.at(name); }
  const optim::BatchState& state() const { return progress_.state; }
  int evaluations() const { return evaluations_; }

  std::function<void(std::uint64_t client, const server::PortionGroup& group)> before_add;
  std::function<void(std::uint64_t client, const optim::VectorName& name)> before_fetch;
  // What a portion's loss becomes.
  std::function<double(const server::EvaluationId& id, double loss)> loss_of;

 private:
  template <typename U>
  friend class FakeBatchService;

  static server::Element element() {
    return std::is_same_v<T, double> ? server::Element::f64 : server::Element::f32;
  }
  std::uint32_t portions() const {
    return static_cast<std::uint32_t>((description_->epoch_samples + plan_.portion - 1) /
                                      plan_.portion);
  }
  std::size_t elements() const {
    std::size_t all = 0;
    for (const server::VectorSpec& vector : description_->vectors) {
      if (vector.rule) all += vector.elements;
    }
    return all;
  }
  // Where a vector begins in a row of all.
  std::size_t begin_of(std::uint32_t vector) const {
    std::size_t at = 0;
    for (std::uint32_t v = 0; v < vector; ++v) {
      if (description_->vectors[v].rule) at += description_->vectors[v].elements;
    }
    return at;
  }
  void note(const optim::BatchOptimizer& optimizer, const optim::BatchIteration& last) {
    const std::lock_guard lock(mutex_);
    progress_.begun = true;
    progress_.state = optimizer.state();
    progress_.last = last;
    progress_.iteration = {portions() * static_cast<std::uint64_t>(last.evaluations), 0, 0, 0};
    for (const optim::VectorName& name :
         optim::vectors_of(optimizer.state(), batch_options(recipe_).method))
      kept_[name] = space_->get(name);
  }

  const Recipe recipe_;
  const server::JobPlan plan_;
  const std::uint8_t level_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<server::JobDescription> description_;
  std::unique_ptr<optim::MemorySpace<T>> space_;
  struct Given {
    std::vector<T> values;
    std::size_t elements = 0;  // that there are
  };
  std::map<optim::VectorName, Given> given_;
  std::optional<optim::BatchState> from_;
  bool initialized_ = false;
  std::map<optim::VectorName, std::vector<T>> weights_;
  std::map<optim::VectorName, std::vector<T>> kept_;  // of all states
  server::EvaluationId evaluation_;
  bool open_ = false;
  std::deque<server::PortionGroup> queue_;
  std::map<std::uint64_t, std::vector<server::PortionGroup>> held_;
  std::map<std::uint32_t, double> losses_;
  std::vector<server::GroupTree> trees_;  // of each vector
  std::set<std::uint64_t> lost_;
  std::uint64_t clients_ = 0;
  int evaluations_ = 0;
  server::BatchProgress progress_;
  std::string over_, ended_;
};

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
  void let_go() override {}
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
