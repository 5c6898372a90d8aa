// A small network in float64: on N ranks with a share of the rows each, against the same on one
// process with all of them.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/comm/threads.h"
#include "tests/parallel/mpi_main.h"

namespace convoy {

constexpr std::int64_t kRows = 7;  // shares of 2 and 3 ranks differ

struct LayersImpl : torch::nn::Module {
  LayersImpl()
      : first(register_module("first", torch::nn::Linear(6, 8))),
        second(register_module("second", torch::nn::Linear(8, 8))),
        last(register_module("last", torch::nn::Linear(8, 3))) {
    to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) {
    return last(torch::tanh(second(torch::tanh(first(x)))));
  }
  torch::nn::Linear first, second, last;
};
TORCH_MODULE(Layers);

inline Layers make_layers() {
  torch::manual_seed(5);
  return Layers();
}

inline at::Tensor global_rows(int step) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(300 + step));
  return torch::randn({kRows, 6}, generator, torch::kDouble);
}

inline at::Tensor loss_of(const at::Tensor& y) { return (y - 0.5).square().sum(1).mean(); }

// Everything is float64, whose rounding is 1e-16. The sums over 7 rows and over ranks differ in
// their order alone, and in the division by the number of rows, which comes once per rank or once
// in all: some ten roundings of values around 1, and of few updates. 1e-12 leaves room for a
// hundred times as many.
constexpr double kTolerance = 1e-12;

inline void expect_same(const at::Tensor& got, const at::Tensor& want, const std::string& what) {
  ASSERT_EQ(got.defined(), want.defined()) << what;
  if (!got.defined()) return;
  EXPECT_TRUE(at::allclose(got, want, kTolerance, kTolerance))
      << what << " is off by " << (got - want).abs().max().item<double>();
  EXPECT_TRUE(same_on_all_ranks(got)) << what;
}

inline void expect_same(const torch::nn::Module& got, const torch::nn::Module& want,
                        const std::string& when = "") {
  const auto wanted = want.named_parameters();
  for (const auto& p : got.named_parameters()) {
    expect_same(p.value().detach(), wanted[p.key()].detach(), p.key() + when);
    expect_same(p.value().grad(), wanted[p.key()].grad(), "the gradient of " + p.key() + when);
  }
}

inline torch::optim::SGD optimizer_of(const torch::nn::Module& module) {
  return torch::optim::SGD(module.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
}

// For what ends a step with an error: no other rank is left in the middle of it.
inline World world_of_one() {
  return {std::move(comm::thread_transports(1).front()), WorldOptions()};
}

inline void expect_refused(const std::function<void()>& use,
                           const std::vector<std::string>& parts) {
  try {
    use();
    FAIL() << "accepted";
  } catch (const UsageError& e) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

}  // namespace convoy
