// A replica's part of a batch optimization: it asks for groups of portions, computes their losses
// and gradients, and sends these to the shards (Dean et al. 2012, section 4.2). Free of Torch, MPI
// and gRPC.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/server/batch.h"

namespace convoy::server {

// What a replica computes. T: the type of the space's elements, float or double.
template <typename T>
class PortionWork {
 public:
  virtual ~PortionWork() = default;
  // Where its vectors are, in the order in which gradients have them.
  virtual std::span<const BatchView<T>> weights() = 0;
  // weights() have those of another evaluation now. Random choices within an iteration have to be
  // the same in all its evaluations, whoever makes them.
  virtual void begin(const EvaluationId& id) = 0;
  // The loss of a portion, the sum over its samples; `gradient`, which is zeros, becomes the sum of
  // their gradients, one vector of weights() behind the other.
  virtual double compute(std::uint32_t portion, std::span<T> gradient) = 0;
  // These portions come next, behind those that this was said of before: their samples may be read.
  // Some of them may never be asked for.
  virtual void ahead(const PortionGroup& group) { static_cast<void>(group); }
  // compute() is called for its portions now, one after the other, and then, unless nobody needs
  // them any more, the sum of their gradients is sent.
  virtual void begin_group(const PortionGroup& group) { static_cast<void>(group); }
};

struct WorkerOptions {
  std::function<bool()> stop = [] { return false; };  // asked between two portions
  // Between two portions it asks so often whether others have done its group meanwhile.
  std::chrono::milliseconds look = std::chrono::seconds(2);
};

struct WorkerCounts {
  std::uint64_t portions = 0;  // computed
  std::uint64_t copies = 0;    // of these, while another one had them
  std::uint64_t unused = 0;    // of these, those that others had done before, or given up
  std::uint64_t evaluations = 0;
};

// `Leases` is a BatchClient, or what a test has for one.
template <typename T, typename Leases = BatchClient>
class PortionWorker {
 public:
  PortionWorker(Leases& leases, PortionWork<T>& work, WorkerOptions options = {})
      : leases_(leases), work_(work), options_(std::move(options)) {
    std::size_t elements = 0;
    for (const BatchView<T>& view : work_.weights()) elements += view.values.size();
    gradient_.resize(elements);
  }

  // Until the job is over, and returns why; or until it is to stop: an empty text. Throws what its
  // parts throw; a Failure of a client that was taken for dead among it.
  std::string run() {
    while (!options_.stop()) {
      std::optional<std::string> why = ask();
      if (why) return *why;
      if (held_.empty()) continue;
      if (held_.size() == 1 && got_) {  // the one after it
        why = ask();
        if (why) return *why;
        if (held_.empty()) continue;
      }
      why = compute();
      if (why) return *why;
    }
    return {};
  }

  const WorkerCounts& counts() const { return counts_; }

 private:
  struct Held {
    PortionGroup group;
    bool copy = false;
  };

  // Tells what is finished, and takes what there is. Why the job is over, if it is.
  std::optional<std::string> ask() {
    std::vector<PortionGroup> groups;
    for (const Held& each : held_) groups.push_back(each.group);
    const PortionLease lease = leases_.lease(evaluation_, groups, finished_, !held_.empty());
    finished_.clear();
    got_ = false;
    if (lease.kind == PortionLease::Kind::finished) return lease.why;
    if (lease.evaluation != evaluation_) {
      evaluation_ = lease.evaluation;
      held_.clear();
      fetched_ = false;
    }
    std::erase_if(held_, [&](const Held& each) {
      return std::find(lease.unused.begin(), lease.unused.end(), each.group) != lease.unused.end();
    });
    if (lease.kind != PortionLease::Kind::group) return std::nullopt;
    held_.push_back({lease.group, lease.copy});
    got_ = true;
    work_.ahead(lease.group);
    return std::nullopt;
  }

  // The first of the groups that it has.
  std::optional<std::string> compute() {
    const Held now = held_.front();
    const EvaluationId evaluation = evaluation_;
    if (!fetched_) {
      try {
        leases_.fetch({optim::VectorRole::weights, evaluation.iteration, evaluation.evaluation},
                      work_.weights());
      } catch (const UsageError&) {
        // Others may have done all of it meanwhile, so that the weights are gone. Then the group is
        // none of its any more.
        if (auto why = ask()) return why;
        if (evaluation_ == evaluation && !held_.empty() && held_.front().group == now.group) throw;
        return std::nullopt;
      }
      work_.begin(evaluation);
      fetched_ = true;
      ++counts_.evaluations;
    }
    FinishedPortions finished{now.group, {}};
    auto looked = Clock::now();
    sum_.clear();
    work_.begin_group(now.group);
    bool finite = true;
    for (std::uint64_t portion = now.group.first; portion < now.group.end(); ++portion) {
      if (!finite) {  // nobody needs the rest
        finished.losses.push_back(std::numeric_limits<double>::quiet_NaN());
        continue;
      }
      if (options_.stop()) return std::nullopt;
      if (Clock::now() >= looked + options_.look) {
        if (auto why = ask()) return why;
        if (evaluation_ != evaluation || held_.empty() || held_.front().group != now.group) {
          counts_.unused += portion - now.group.first;
          return std::nullopt;
        }
        looked = Clock::now();
      }
      std::fill(gradient_.begin(), gradient_.end(), T(0));
      finished.losses.push_back(work_.compute(static_cast<std::uint32_t>(portion), gradient_));
      ++counts_.portions;
      if (now.copy) ++counts_.copies;
      finite = std::isfinite(finished.losses.back());
      if (finite) sum_.add(gradient_);
    }
    if (finite) {
      const GroupAnswer answer = send(evaluation, now.group);
      if (answer == GroupAnswer::had || answer == GroupAnswer::ended)
        counts_.unused += finished.losses.size();
      if (answer == GroupAnswer::overlaps) {
        throw Failure("shards have some portions of the group " + std::to_string(now.group.first) +
                      " to " + std::to_string(now.group.end() - 1) +
                      " and lack others, which no coordinator hands out so");
      }
      if (answer == GroupAnswer::ended) {
        held_.clear();
        return std::nullopt;
      }
    }
    held_.erase(held_.begin());
    finished_.push_back(std::move(finished));
    return std::nullopt;
  }

  GroupAnswer send(const EvaluationId& evaluation, const PortionGroup& group) {
    const std::span<const T> sum = sum_.take();
    std::vector<BatchView<const T>> views;
    std::size_t at = 0;
    for (const BatchView<T>& view : work_.weights()) {
      views.push_back({view.vector, sum.subspan(at, view.values.size())});
      at += view.values.size();
    }
    return leases_.add_group(evaluation, group, std::span<const BatchView<const T>>(views));
  }

  Leases& leases_;
  PortionWork<T>& work_;
  const WorkerOptions options_;
  EvaluationId evaluation_;
  bool fetched_ = false;
  bool got_ = false;  // a group, with the last answer
  std::vector<Held> held_;
  std::vector<FinishedPortions> finished_;
  PortionSum<T> sum_;
  std::vector<T> gradient_;
  WorkerCounts counts_;
};

}  // namespace convoy::server
