#include "train/strategies/part_values.h"

#include <span>

#include "convoy/model/modules.h"
#include "convoy/model/randomness.h"

namespace convoy::train {

void fill_part(const model::Node& whole, const model::TensorInfo& info, const Slice& part,
               std::uint64_t seed, torch::Tensor to) {
  const torch::NoGradGuard no_grad;
  if (whole.module == nullptr) {
    if (to.scalar_type() == torch::kFloat && to.is_contiguous()) {
      auto* const values = static_cast<float*>(to.mutable_data_ptr());
      fill(part, info.first, seed, std::span(values, values + to.numel()));
      return;
    }
    const torch::Tensor values = torch::empty(to.sizes(), torch::kFloat);
    fill_part(whole, info, part, seed, values);
    to.copy_(values);
    return;
  }
  const std::string own = info.name.substr(whole.name.size() + 1);
  const auto module = whole.module->module.ptr();
  torch::Tensor from = info.buffer ? module->named_buffers()[own] : module->named_parameters()[own];
  const bool trained = from.requires_grad();
  for (std::size_t d = 0; d < part.size.size(); ++d)
    from = from.narrow(static_cast<std::int64_t>(d), part.begin[d], part.size[d]);
  to.copy_(from);
  // One that is frozen stays so.
  if (!info.buffer) to.set_requires_grad(trained);
}

}  // namespace convoy::train
