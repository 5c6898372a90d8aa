#include "server/state/group_trees.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::server {
namespace {

template <typename T>
void add_elements(BatchArray& to, const BatchArray& from) {
  T* sums = to.data<T>();
  const T* values = from.data<T>();
  for (std::size_t i = 0; i < to.size(); ++i) sums[i] += values[i];
}

BatchArrayPtr copy_of_array(const BatchArray& array) {
  auto copy = std::make_shared<BatchArray>(array.element(), array.size());
  if (array.size() > 0)
    std::memcpy(copy->bytes().data(), array.bytes().data(), array.bytes().size());
  return copy;
}

std::string told_of(const PortionGroup& group) {
  return "portions " + std::to_string(group.first) + " to " + std::to_string(group.end() - 1);
}

void check_group(const PortionGroup& group, std::uint32_t portions) {
  constexpr std::uint8_t kMostLevels = 31;
  const bool sound = group.log2_size <= kMostLevels &&
                     group.first % (std::uint64_t{1} << group.log2_size) == 0 &&
                     group.first < portions && group.log2_size <= root_level(portions);
  if (sound) return;
  throw UsageError("no group has 2^" + std::to_string(group.log2_size) + " portions from " +
                   std::to_string(group.first) + " of " + std::to_string(portions));
}

}  // namespace

std::uint8_t root_level(std::uint32_t portions) {
  return static_cast<std::uint8_t>(std::bit_width(portions - 1));
}

GroupTree::Look GroupTree::look(const PortionGroup& group) const {
  auto at = nodes_.upper_bound(group.first);
  if (at != nodes_.begin()) {
    const auto& [first, node] = *std::prev(at);
    if (first + (std::uint64_t{1} << node.level) >= group.end()) return Look::there;
    if (first + (std::uint64_t{1} << node.level) > group.first) return Look::partly;
  }
  return at != nodes_.end() && at->first < group.end() ? Look::partly : Look::missing;
}

void GroupTree::add(const PortionGroup& group, std::shared_ptr<BatchArray> sum) {
  std::uint32_t first = group.first;
  Node node{group.log2_size, std::move(sum)};
  while (node.level < root_level(portions_)) {
    const std::uint32_t half = std::uint32_t{1} << node.level;
    const bool is_left = (first & half) == 0;
    if (is_left && std::uint64_t{first} + half >= portions_) {  // nothing is on the right
      ++node.level;
      continue;
    }
    const std::uint32_t other = first ^ half;
    const auto found = nodes_.find(other);
    if (found == nodes_.end() || found->second.level != node.level) break;
    Node& left = is_left ? node : found->second;
    Node& right = is_left ? found->second : node;
    if (element_ == Element::f64) {
      add_elements<double>(*left.sum, *right.sum);
    } else {
      add_elements<float>(*left.sum, *right.sum);
    }
    Node whole{static_cast<std::uint8_t>(node.level + 1), std::move(left.sum)};
    nodes_.erase(found);
    first &= ~half;
    node = std::move(whole);
  }
  nodes_.insert_or_assign(first, std::move(node));
}

void GroupTree::remove(const PortionGroup& group) {
  nodes_.erase(nodes_.lower_bound(group.first),
               group.end() > UINT32_MAX
                   ? nodes_.end()
                   : nodes_.lower_bound(static_cast<std::uint32_t>(group.end())));
}

bool GroupTree::complete() const {
  return !nodes_.empty() && nodes_.begin()->first == 0 &&
         nodes_.begin()->second.level == root_level(portions_);
}

std::vector<PortionRange> GroupTree::missing() const {
  std::vector<PortionRange> ranges;
  std::uint64_t at = 0;
  for (const auto& [first, node] : nodes_) {
    if (first > at) ranges.push_back({static_cast<std::uint32_t>(at), first});
    at = first + (std::uint64_t{1} << node.level);
  }
  if (at < portions_) ranges.push_back({static_cast<std::uint32_t>(at), portions_});
  return ranges;
}

void GroupTrees::open(const OpenEvaluation& evaluation, Element element,
                      const std::vector<std::uint64_t>& sizes) {
  const std::lock_guard lock(mutex_);
  if (open_ == evaluation || evaluation.index < closed_ ||
      (open_ && evaluation.index < open_->index)) {
    return;
  }
  open_ = evaluation;
  element_ = element;
  sizes_ = sizes;
  trees_.clear();
  for (const std::uint64_t size : sizes) {
    trees_.emplace_back();
    if (size > 0) trees_.back().emplace(element, evaluation.portions);
  }
}

void GroupTrees::close(std::uint64_t index) {
  const std::lock_guard lock(mutex_);
  closed_ = std::max(closed_, index + 1);
  if (!open_ || open_->index > index) return;
  open_.reset();
  trees_.clear();
}

void GroupTrees::forget() {
  const std::lock_guard lock(mutex_);
  open_.reset();
  trees_.clear();
  closed_ = 0;
}

bool GroupTrees::is_closed(const OpenEvaluation& evaluation) const {
  const std::lock_guard lock(mutex_);
  return evaluation.index < closed_;
}

void GroupTrees::check(const EvaluationId& id, const PortionGroup& group,
                       std::span<const BatchSlice> slices) const {
  if (!open_ || open_->id != id) {
    throw UsageError("evaluation " + to_string(id) + " is not the open one");
  }
  check_group(group, open_->portions);
  for (const BatchSlice& slice : slices) {
    if (slice.slice >= sizes_.size() || slice.values.size != sizes_[slice.slice] ||
        (!slice.values.zeros && slice.values.element != element_)) {
      throw UsageError(told_of(group) + ": slice " + std::to_string(slice.slice) +
                       " has another size or type here");
    }
  }
}

std::shared_ptr<BatchArray> GroupTrees::sum_of(const BatchValues& values) const {
  auto sum = std::make_shared<BatchArray>(element_, values.size, pool_);
  if (values.zeros) {
    std::fill(sum->bytes().begin(), sum->bytes().end(), std::byte{0});
  } else {
    std::memcpy(sum->bytes().data(), values.bytes.data(), values.bytes.size());
  }
  return sum;
}

GroupAnswer GroupTrees::add(const EvaluationId& id, const PortionGroup& group,
                            std::span<const BatchSlice> slices) {
  const std::lock_guard lock(mutex_);
  check(id, group, slices);
  bool all_there = true;
  for (const BatchSlice& slice : slices) {
    if (slice.values.size == 0) continue;
    const GroupTree::Look look = trees_[slice.slice]->look(group);
    if (look == GroupTree::Look::partly) return GroupAnswer::overlaps;
    all_there = all_there && look == GroupTree::Look::there;
  }
  if (all_there) return GroupAnswer::had;
  for (const BatchSlice& slice : slices) {
    const BatchValues& values = slice.values;
    if (values.size == 0) continue;
    GroupTree& tree = *trees_[slice.slice];
    if (tree.look(group) == GroupTree::Look::there) continue;
    tree.add(group, sum_of(values));
  }
  return GroupAnswer::kept;
}

void GroupTrees::keep(const EvaluationId& id, const PortionGroup& group,
                      std::span<const BatchSlice> slices) {
  const std::lock_guard lock(mutex_);
  check(id, group, slices);
  for (const BatchSlice& slice : slices) {
    if (slice.values.size == 0) continue;
    GroupTree& tree = *trees_[slice.slice];
    if (tree.look(group) == GroupTree::Look::there) continue;
    tree.remove(group);
    tree.add(group, sum_of(slice.values));
  }
}

std::vector<PortionRange> GroupTrees::missing(const EvaluationId& id,
                                              std::uint32_t portions) const {
  const std::lock_guard lock(mutex_);
  std::vector<PortionRange> ranges;
  const bool is_open = open_ && open_->id == id;
  if (!is_open) ranges.push_back({0, portions});
  for (const auto& tree : trees_) {
    if (is_open && tree) ranges = united(std::move(ranges), tree->missing());
  }
  return ranges;
}

std::optional<std::vector<BatchArrayPtr>> GroupTrees::roots(const EvaluationId& id) const {
  const std::lock_guard lock(mutex_);
  if (!open_ || open_->id != id) return std::nullopt;
  std::vector<BatchArrayPtr> roots;
  for (const auto& tree : trees_) {
    if (tree && !tree->complete()) return std::nullopt;
    roots.push_back(tree ? tree->root() : nullptr);
  }
  return roots;
}

std::vector<GroupTrees::Copy> GroupTrees::nodes() const {
  const std::lock_guard lock(mutex_);
  std::vector<Copy> nodes;
  for (std::uint32_t slice = 0; slice < trees_.size(); ++slice) {
    if (!trees_[slice]) continue;
    trees_[slice]->for_each([&](const PortionGroup& group, const BatchArrayPtr& sum) {
      nodes.push_back({*open_, element_, group, slice, copy_of_array(*sum)});
    });
  }
  return nodes;
}

std::uint64_t GroupTrees::bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < trees_.size(); ++i) {
    if (trees_[i]) bytes += trees_[i]->nodes() * sizes_[i] * size_of(element_);
  }
  return bytes;
}

std::vector<PortionRange> united(std::vector<PortionRange> a, std::span<const PortionRange> b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end(),
            [](const PortionRange& x, const PortionRange& y) { return x.begin < y.begin; });
  std::vector<PortionRange> all;
  for (const PortionRange& range : a) {
    if (!all.empty() && range.begin <= all.back().end) {
      all.back().end = std::max(all.back().end, range.end);
    } else {
      all.push_back(range);
    }
  }
  return all;
}

}  // namespace convoy::server
