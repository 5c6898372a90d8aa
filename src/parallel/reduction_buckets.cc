// Which gradients lie in which bucket, and in which order.
#include <map>
#include <string_view>

#include "base/buckets.h"
#include "convoy/base/error.h"
#include "parallel/channels.h"
#include "parallel/reduction_step.h"
#include "parallel/tensors.h"

namespace convoy::parallel {
namespace {

bool can_be_reduced(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
}

}  // namespace

std::vector<std::size_t> ReductionStep::given_order() {
  std::map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < parameters_.size(); ++i) index[parameters_[i].name] = i;
  std::vector<std::size_t> order;
  for (const std::string& name : options_.order) {
    const auto found = index.find(name);
    if (found == index.end()) {
      throw UsageError("the order of gradients names '" + name +
                       "' twice, or it is no parameter that requires a gradient");
    }
    order.push_back(found->second);
    index.erase(found);
  }
  if (!index.empty()) {
    throw UsageError("the order of gradients lacks '" + std::string(index.begin()->first) + "'");
  }
  order_is_measured_ = true;
  return order;
}

at::ScalarType ReductionStep::wire_type(std::size_t i) const {
  const at::ScalarType own = parameters_[i].tensors[0].scalar_type();
  return options_.wire_type && own == at::kFloat ? *options_.wire_type : own;
}

void ReductionStep::make_buckets(const std::vector<std::size_t>& order) {
  std::vector<BucketItem> items;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::ScalarType type = wire_type(i);
    if (!can_be_reduced(type)) {  // before training starts
      throw UsageError("parameter '" + parameters_[i].name + "' would be reduced as " +
                       c10::toString(type) +
                       "; gradients are reduced as Float, Double, Half or BFloat16");
    }
    items.push_back(
        {static_cast<std::size_t>(parameters_[i].tensors[0].numel()) * c10::elementSize(type),
         static_cast<int>(type)});
  }
  const auto plan = plan_buckets(items, order, options_.first_bucket_bytes, options_.bucket_bytes);
  buckets_.clear();
  statistics_.bytes = 0;
  statistics_.buckets = plan.size();
  for (const auto& members : plan) {
    Bucket& bucket = buckets_.emplace_back();
    bucket.members = members;
    bucket.missing = members.size();
  }
  std::vector<std::size_t> bytes;
  for (const BucketItem& item : items) bytes.push_back(item.bytes);
  make_memory(plan, bytes);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    // Sums of float16 could overflow before they are divided.
    if (options_.averaging != Averaging::sum && bucket.flat.scalar_type() != at::kHalf) {
      bucket.operation = comm::ReduceOp::average;
    }
    std::int64_t offset = 0;
    for (std::size_t i : bucket.members) {
      Parameter& p = parameters_[i];
      p.bucket = b;
      p.slot = view_like(bucket.flat, offset, p.tensors[0]);
      p.apart.clear();
      for (const at::Tensor& other : bucket.apart)
        p.apart.push_back(view_like(other, offset, p.tensors[0]));
      offset += p.tensors[0].numel();
    }
    statistics_.bytes += bucket.flat.nbytes();
  }
}

std::vector<std::vector<std::string>> ReductionStep::bucket_names() const {
  std::vector<std::vector<std::string>> names;
  for (const Bucket& bucket : buckets_) {
    auto& list = names.emplace_back();
    for (std::size_t i : bucket.members) list.push_back(parameters_[i].name);
  }
  return names;
}

// After the first step: buckets in the order in which gradients came on rank 0. The .grad of this
// step keep the old buckets alive until they are replaced.
void ReductionStep::adopt_measured_order() {
  if (order_is_measured_) return;
  order_is_measured_ = true;
  std::vector<std::int64_t> order(parameters_.size(), -1);
  std::vector<bool> seen(parameters_.size(), false);
  std::size_t next = 0;
  for (std::size_t i : arrival_) {
    order[next++] = static_cast<std::int64_t>(i);
    seen[i] = true;
  }
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    if (!seen[i]) order[next++] = static_cast<std::int64_t>(i);
  }
  communicator_.broadcast(comm::buffer_of(order), 0, channels::kOrder);
  make_buckets({order.begin(), order.end()});
}

}  // namespace convoy::parallel
