// Gradients of groups of portions, summed until an evaluation is complete.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convoy/server/batch.h"
#include "server/state/batch_commands.h"
#include "server/state/batch_vectors.h"

namespace convoy::server {

// The level of the root over so many portions: 2^level is the next power of two.
std::uint8_t root_level(std::uint32_t portions);

// Of one slice of one evaluation: nodes of a binary tree over the numbers of portions. Node (first,
// k) is the sum of its two halves, the left one plus the right one; a half that has no portions
// isn't there. So the root has the same bits in whatever order and in whatever groups portions
// come.
class GroupTree {
 public:
  GroupTree(Element element, std::uint32_t portions) : element_(element), portions_(portions) {}

  enum class Look { missing, there, partly };
  Look look(const PortionGroup& group) const;
  // REQUIRES: none of its portions are there.
  void add(const PortionGroup& group, std::shared_ptr<BatchArray> sum);
  // Forgets what is there of its portions. REQUIRES: look(group) isn't `there`.
  void remove(const PortionGroup& group);

  bool complete() const;
  BatchArrayPtr root() const { return nodes_.begin()->second.sum; }  // REQUIRES: complete()
  std::vector<PortionRange> missing() const;
  std::size_t nodes() const { return nodes_.size(); }
  // Calls each(group, sum) for each node. Of the last portions a group may be larger than what is
  // left of them.
  template <typename Each>
  void for_each(const Each& each) const {
    for (const auto& [first, node] : nodes_) each(PortionGroup{first, node.level}, node.sum);
  }

 private:
  struct Node {
    std::uint8_t level = 0;
    std::shared_ptr<BatchArray> sum;
  };

  Element element_;
  std::uint32_t portions_;
  std::map<std::uint32_t, Node> nodes_;  // by their first portions; none has another one's
};

// All slices of the evaluation that is open. In memory alone.
//
// Threads: any.
class GroupTrees {
 public:
  // Of the evaluation that a shard has open now; those of another one are forgotten. Without effect
  // if one that was opened later has been named, or closed. `sizes`: of each slice; 0 for those
  // that are in no space, or have no elements: they need no groups.
  void open(const OpenEvaluation& evaluation, Element element,
            const std::vector<std::uint64_t>& sizes);
  // Forgets evaluations that were opened by command `index` or before.
  void close(std::uint64_t index);
  bool is_closed(const OpenEvaluation& evaluation) const;
  void forget();  // all, also what is over

  // Parts of a group, of slices that are in the space. What is there already stays. Throws
  // UsageError for another evaluation than the open one, a group that isn't in it, slices of
  // another shape.
  GroupAnswer add(const EvaluationId& id, const PortionGroup& group,
                  std::span<const BatchSlice> slices);
  // The same of a primary's sums. What is there of a larger one's portions is in it, too: that
  // takes their place.
  void keep(const EvaluationId& id, const PortionGroup& group, std::span<const BatchSlice> slices);
  // Portions that some slice lacks, ascending; all of them if this evaluation isn't open.
  std::vector<PortionRange> missing(const EvaluationId& id, std::uint32_t portions) const;
  // The sums over all portions, by slice, null where there are no elements; nothing unless all are
  // there.
  std::optional<std::vector<BatchArrayPtr>> roots(const EvaluationId& id) const;
  std::uint64_t bytes() const;  // of all nodes
  std::uint64_t spare_bytes() const { return pool_->bytes(); }
  // Copies of all that is there, for a backup.
  struct Copy {
    OpenEvaluation evaluation;
    Element element = Element::f32;
    PortionGroup group;
    std::uint32_t slice = 0;
    BatchArrayPtr sum;
  };
  std::vector<Copy> nodes() const;

 private:
  // With mutex_. Throws as add().
  void check(const EvaluationId& id, const PortionGroup& group,
             std::span<const BatchSlice> slices) const;
  std::shared_ptr<BatchArray> sum_of(const BatchValues& values) const;

  const std::shared_ptr<ArrayPool> pool_ = std::make_shared<ArrayPool>();
  mutable std::mutex mutex_;  // of all that follows
  std::optional<OpenEvaluation> open_;
  Element element_ = Element::f32;
  std::vector<std::uint64_t> sizes_;
  std::vector<std::optional<GroupTree>> trees_;  // of slices with elements
  std::uint64_t closed_ = 0;                     // what was opened up to here is over
};

// Those that are in one of both, ascending, as few as can be.
std::vector<PortionRange> united(std::vector<PortionRange> a, std::span<const PortionRange> b);

}  // namespace convoy::server
