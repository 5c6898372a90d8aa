#pragma once

#include <torch/torch.h>

#include "convoy/convoy.h"

namespace convoy {

World& test_world();

// This rank's even share of the rows of a global batch.
inline at::Tensor my_rows(const at::Tensor& global) {
  const auto part = comm::chunk(static_cast<std::size_t>(global.size(0)), test_world().size(),
                                test_world().rank());
  return global.narrow(0, static_cast<std::int64_t>(part.begin),
                       static_cast<std::int64_t>(part.count));
}

// Whether all ranks hold the same bits.
inline bool same_on_all_ranks(const at::Tensor& tensor) {
  at::Tensor mine = tensor.detach().contiguous().clone();
  std::string bytes(static_cast<const char*>(mine.data_ptr()), mine.nbytes());
  const auto all = test_world().communicator().gather_text(bytes);
  for (const auto& other : all) {
    if (other != all[0]) return false;
  }
  return true;
}

}  // namespace convoy
