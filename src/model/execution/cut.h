// Parts of tensors, as views.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "convoy/base/slice.h"

namespace convoy::model {

// Cuts `part` out of `tensor`, which holds `box`. The part lies in the box.
inline torch::Tensor cut(torch::Tensor tensor, const Slice& box, const Slice& part,
                         std::size_t first_dimension = 0) {
  for (std::size_t d = 0; d < part.size.size(); ++d) {
    if (part.size[d] == box.size[d]) continue;
    tensor = tensor.narrow(static_cast<std::int64_t>(d + first_dimension),
                           part.begin[d] - box.begin[d], part.size[d]);
  }
  return tensor;
}

// Cuts the part out of each sample of a batch.
inline torch::Tensor cut_samples(torch::Tensor batch, const Slice& box, const Slice& part) {
  return cut(std::move(batch), box, part, 1);
}

}  // namespace convoy::model
