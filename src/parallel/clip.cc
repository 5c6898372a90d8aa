#include "convoy/parallel/clip.h"

#include <array>
#include <cmath>

namespace convoy::parallel {
namespace {

void scale(const std::vector<at::Tensor>& parameters, double factor) {
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) parameter.grad().mul_(factor);
  }
}

}  // namespace

double gradient_square(const std::vector<at::Tensor>& parameters) {
  const torch::NoGradGuard no_grad;
  double sum = 0;
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor& gradient = parameter.grad();
    if (gradient.defined()) sum += gradient.to(at::kDouble).square().sum().item<double>();
  }
  return sum;
}

double clip_grad_norm(const comm::Communicator& partitions, const std::vector<at::Tensor>& own,
                      const std::vector<at::Tensor>& replicated, double max_norm) {
  const torch::NoGradGuard no_grad;
  std::array<double, 1> sum{gradient_square(own)};
  if (partitions.rank() == 0) sum[0] += gradient_square(replicated);
  if (partitions.size() > 1) partitions.allreduce(comm::buffer_of(sum), comm::ReduceOp::sum);
  const double norm = std::sqrt(sum[0]);
  // LibTorch's clip_grad_norm_ adds as little to the norm.
  constexpr double kTiny = 1e-6;
  const double factor = max_norm / (norm + kTiny);
  if (max_norm > 0 && factor < 1) {
    scale(own, factor);
    scale(replicated, factor);
  }
  return norm;
}

}  // namespace convoy::parallel
