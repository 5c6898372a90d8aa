// A Sandblaster job that is objects of this process: its method, its vectors, and who has which
// portions.
#pragma once

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "base/exact_sum.h"
#include "convoy/base/error.h"
#include "convoy/optim/batch.h"
#include "convoy/server/batch.h"
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
  std::function<void()> before_let_go;
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
    // Where no replica sent one there is no gradient, and nothing that is fetched.
    if (last.ending == optim::BatchEnding::not_finite) return;
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

}  // namespace convoy::train::testing_data
