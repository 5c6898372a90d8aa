#include "train/finite.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace convoy::train {

// A sum is finite only if all of it is, and takes no memory. Of finite values that are close to the
// largest it may not be finite either, so that each is then looked at, a piece at a time.
bool has_finite_values(const torch::Tensor& values) {
  if (!values.is_floating_point() || values.numel() == 0) return true;
  if (std::isfinite(values.sum().item<double>())) return true;
  constexpr std::int64_t kPiece = 1 << 20;
  const torch::Tensor flat = values.reshape({-1});
  for (std::int64_t begin = 0; begin < flat.numel(); begin += kPiece) {
    const torch::Tensor piece = flat.slice(0, begin, std::min(begin + kPiece, flat.numel()));
    if (!torch::isfinite(piece).all().item<bool>()) return false;
  }
  return true;
}

std::set<std::string> buffers_not_finite(const torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  std::set<std::string> names;
  for (const auto& buffer : module.named_buffers())
    if (buffer.value().defined() && !has_finite_values(buffer.value())) names.insert(buffer.key());
  return names;
}

std::string first_not_finite(const torch::nn::Module& module, const std::set<std::string>& meant) {
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : module.named_parameters())
    if (!has_finite_values(parameter.value())) return parameter.key();
  for (const auto& buffer : module.named_buffers())
    if (buffer.value().defined() && !meant.contains(buffer.key()) &&
        !has_finite_values(buffer.value()))
      return buffer.key();
  return "";
}

std::string first_said(const comm::Communicator& communicator, const std::string& own) {
  for (const std::string& said : communicator.gather_text(own))
    if (!said.empty()) return said;
  return "";
}

}  // namespace convoy::train
