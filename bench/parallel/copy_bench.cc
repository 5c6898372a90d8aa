// Gradients into buckets: copy_scaled against a plain copy of as many bytes, and against mul_out.
//
// 32 tensors of 512 x 512 x 3 x 3 (9 MiB each, more than a cache holds) in turn; bytes are those
// that have to be read and written.
#include <benchmark/benchmark.h>
#include <torch/torch.h>

#include <cstring>
#include <vector>

#include "parallel/tensors.h"

namespace {

constexpr int kTensors = 32;
const std::vector<std::int64_t> kShape{512, 512, 3, 3};

using Copy = void (*)(at::Tensor& to, const at::Tensor& from);

void mul_out(at::Tensor& to, const at::Tensor& from) {
  at::mul_out(to, from, at::scalar_tensor(0.5, from.options()));
}
void copy_scaled(at::Tensor& to, const at::Tensor& from) {
  convoy::parallel::copy_scaled(to, from, 0.5);
}
void plain_copy(at::Tensor& to, const at::Tensor& from) {
  std::memcpy(to.data_ptr(), from.data_ptr(), from.nbytes());
}

void run(benchmark::State& state, Copy copy, at::ScalarType type, at::MemoryFormat to_format,
         at::MemoryFormat from_format) {
  at::set_num_threads(1);
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> to, from;
  for (int i = 0; i < kTensors; ++i) {
    to.push_back(torch::zeros(kShape, type).contiguous(to_format));
    from.push_back(torch::ones(kShape).contiguous(from_format));
  }
  std::size_t i = 0;
  for (auto unused : state) {
    copy(to[i], from[i]);
    i = (i + 1) % kTensors;
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(to[0].nbytes() + from[0].nbytes()));
}

constexpr auto kPlanar = at::MemoryFormat::Contiguous;
constexpr auto kLast = at::MemoryFormat::ChannelsLast;

BENCHMARK_CAPTURE(run, memcpy, plain_copy, at::kFloat, kPlanar, kPlanar);
BENCHMARK_CAPTURE(run, float_planar, copy_scaled, at::kFloat, kPlanar, kPlanar);
BENCHMARK_CAPTURE(run, float_channels_last, copy_scaled, at::kFloat, kLast, kLast);
BENCHMARK_CAPTURE(run, float_planar_to_channels_last, copy_scaled, at::kFloat, kLast, kPlanar);
BENCHMARK_CAPTURE(run, bfloat16_planar, copy_scaled, at::kBFloat16, kPlanar, kPlanar);
BENCHMARK_CAPTURE(run, bfloat16_channels_last, copy_scaled, at::kBFloat16, kLast, kLast);
BENCHMARK_CAPTURE(run, bfloat16_by_mul_out, mul_out, at::kBFloat16, kPlanar, kPlanar);
BENCHMARK_CAPTURE(run, bfloat16_channels_last_by_mul_out, mul_out, at::kBFloat16, kLast, kLast);

}  // namespace
