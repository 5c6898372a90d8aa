#include "convoy/parallel/clip.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "parallel/parallel_pieces.h"

namespace convoy::parallel {
namespace {

// Elements that a thread takes at a time.
constexpr std::int64_t kPiece = 64 * 1024;

// Compilers make vector instructions of sums that are apart, which are then the same sums on every
// processor.
constexpr std::int64_t kLanes = 16;

template <typename T>
double square_exactly(const T* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return sum;
}

// In single precision few squares are added at a time, so that six digits stay.
double square_of(const float* values, std::int64_t count) {
  constexpr std::int64_t kBlock = 64 * kLanes;
  // Beyond these, squares have lost digits, or are no numbers though their roots are.
  constexpr double kLeast = 1e-30, kMost = 1e30;
  double sum = 0;
  for (; count >= kBlock; count -= kBlock, values += kBlock) {
    std::array<float, kLanes> lanes{};
    for (std::int64_t i = 0; i < kBlock; i += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane)
        lanes[static_cast<std::size_t>(lane)] += values[i + lane] * values[i + lane];
    }
    double block = 0;
    for (const float lane : lanes) block += static_cast<double>(lane);
    const bool precise = block > kLeast && block < kMost;
    sum += precise ? block : square_exactly(values, kBlock);
  }
  return sum + square_exactly(values, count);
}

double square_of(const double* values, std::int64_t count) { return square_exactly(values, count); }

// Whether its values lie in memory one after the other, in whatever order, as square_of takes them.
bool is_plain(const at::Tensor& gradient) {
  return gradient.device().is_cpu() && gradient.layout() == at::kStrided &&
         gradient.is_non_overlapping_and_dense() &&
         (gradient.scalar_type() == at::kFloat || gradient.scalar_type() == at::kDouble);
}

void scale(const std::vector<at::Tensor>& parameters, double factor) {
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) parameter.grad().mul_(factor);
  }
}

void scale_down(const std::vector<at::Tensor>& parameters, double norm, double max_norm) {
  // LibTorch's clip_grad_norm_ adds as little to the norm.
  constexpr double kTiny = 1e-6;
  const double factor = max_norm / (norm + kTiny);
  if (max_norm > 0 && std::isfinite(norm) && factor < 1) scale(parameters, factor);
}

}  // namespace

double gradient_square(const std::vector<at::Tensor>& parameters) {
  const torch::NoGradGuard no_grad;
  struct Piece {
    const at::Tensor* gradient;
    std::int64_t begin, end;
    double square = 0;
  };
  std::vector<Piece> pieces;
  std::vector<at::Tensor> others;  // norms, which a device works out without being waited for
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined() || gradient.numel() == 0) continue;
    if (!is_plain(gradient)) {
      const at::Tensor dense = gradient.is_sparse() ? gradient.to_dense() : gradient;
      const at::Tensor real = dense.is_complex() ? dense.abs() : dense;
      others.push_back(
          at::linalg_vector_norm(real, 2, at::OptionalIntArrayRef(), false, at::kDouble));
      continue;
    }
    for (std::int64_t begin = 0; begin < gradient.numel(); begin += kPiece)
      pieces.push_back({&gradient, begin, std::min(begin + kPiece, gradient.numel())});
  }
  const int threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  parallel_pieces(pieces.size(), threads, [&](std::size_t i) {
    Piece& piece = pieces[i];
    const auto of = [&]<typename T>(const T* values) {
      return square_of(values + piece.begin, piece.end - piece.begin);
    };
    piece.square = piece.gradient->scalar_type() == at::kFloat
                       ? of(piece.gradient->const_data_ptr<float>())
                       : of(piece.gradient->const_data_ptr<double>());
  });
  double sum = 0;
  for (const Piece& piece : pieces) sum += piece.square;
  if (!others.empty()) sum += at::stack(others).square().sum().item<double>();
  return sum;
}

double clip_grad_norm(const comm::Communicator& partitions, const std::vector<at::Tensor>& own,
                      const std::vector<at::Tensor>& replicated, double max_norm) {
  const torch::NoGradGuard no_grad;
  std::array<double, 1> sum{gradient_square(own)};
  if (partitions.rank() == 0) sum[0] += gradient_square(replicated);
  if (partitions.size() > 1) partitions.allreduce(comm::buffer_of(sum), comm::ReduceOp::sum);
  const double norm = std::sqrt(sum[0]);
  scale_down(own, norm, max_norm);
  scale_down(replicated, norm, max_norm);
  return norm;
}

double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm) {
  const torch::NoGradGuard no_grad;
  const double norm = std::sqrt(gradient_square(parameters));
  scale_down(parameters, norm, max_norm);
  return norm;
}

std::string last_not_finite(const std::vector<NamedTensor>& parameters) {
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter)
    if (!std::isfinite(gradient_square({parameter->tensor}))) return parameter->name;
  return "";
}

}  // namespace convoy::parallel
