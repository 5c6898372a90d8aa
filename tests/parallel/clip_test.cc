// The norm of gradients that are on several ranks, against LibTorch's of the whole.
#include "convoy/parallel/clip.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/model/allocations.h"
#include "tests/parallel/mpi_main.h"

namespace convoy::parallel {
namespace {

at::Tensor with_gradient(std::int64_t elements, int number) {
  torch::manual_seed(static_cast<std::uint64_t>(number + 1));
  at::Tensor parameter = torch::zeros({elements}, torch::kDouble).requires_grad_();
  parameter.mutable_grad() = torch::randn({elements}, torch::kDouble);
  return parameter;
}

TEST(ClipGradNorm, SumsOverPartitionsAndCountsReplicatedOnesOnce) {
  const comm::Communicator& all = test_world().communicator();
  for (const double most : {0.0, 0.5, 1e9}) {
    // Parameter r is rank r's; another, and one that has no gradient, are everybody's.
    std::vector<at::Tensor> whole;
    for (int rank = 0; rank < all.size(); ++rank) whole.push_back(with_gradient(5 + rank, rank));
    whole.push_back(with_gradient(11, 100));
    const std::vector<at::Tensor> own{with_gradient(5 + all.rank(), all.rank())};
    const std::vector<at::Tensor> replicated{with_gradient(11, 100), torch::zeros({3})};
    const double expected = torch::nn::utils::clip_grad_norm_(whole, most > 0 ? most : 1e30, 2.0);
    const double norm = clip_grad_norm(all, own, replicated, most);
    EXPECT_NEAR(norm, expected, 1e-12 * expected);
    EXPECT_TRUE(torch::allclose(own[0].grad(), whole[static_cast<std::size_t>(all.rank())].grad(),
                                1e-12, 0));
    EXPECT_TRUE(torch::allclose(replicated[0].grad(), whole.back().grad(), 1e-12, 0));
  }
}

TEST(ClipGradNorm, WhatIsNotFiniteIsSaidOnEveryRank) {
  const comm::Communicator& all = test_world().communicator();
  const at::Tensor own = with_gradient(3, 0);
  if (all.rank() == all.size() - 1) own.mutable_grad()[1] = std::nan("");
  EXPECT_TRUE(std::isnan(clip_grad_norm(all, {own}, {}, 1)));
}

// Of all that gradients are, sums have at least six digits.
TEST(ClipGradNorm, TakesWhatGradientsAre) {
  torch::manual_seed(3);
  const auto square_of = [](const at::Tensor& gradient) {
    const at::Tensor parameter = torch::zeros_like(gradient).requires_grad_();
    parameter.mutable_grad() = gradient;
    return gradient_square({parameter});
  };
  const auto expect = [&](const at::Tensor& gradient, const char* what) {
    const double expected = gradient.to(torch::kDouble).square().sum().item<double>();
    EXPECT_NEAR(square_of(gradient), expected, 1e-6 * expected) << what;
  };
  const at::Tensor large = torch::randn({70'001});
  expect(large, "several pieces");
  expect(large * 1e-25, "squares that float can't hold");
  expect(large * 1e25, "squares beyond float");
  expect(torch::zeros({5000}), "nothing");
  expect(torch::randn({64, 33}).t(), "transposed");
  expect(torch::randn({64, 33}).slice(1, 3, 9), "with gaps");
  expect(torch::randn({2, 3, 8, 8}).contiguous(at::MemoryFormat::ChannelsLast), "channels last");
  expect(torch::randn({300}, torch::kDouble), "double");
  expect(torch::randn({300}).to(torch::kBFloat16), "bfloat16");
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    for (const std::int64_t at : {0, 5000, 70'000}) {
      at::Tensor gradient = large.clone();
      gradient[at] = bad;
      EXPECT_FALSE(std::isfinite(square_of(gradient))) << bad << " at " << at;
    }
  }
}

// At the moment of most memory, since all gradients are there.
TEST(ClipGradNorm, CopiesNoGradient) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor parameter = torch::zeros({1 << 20}, type).requires_grad_();
    parameter.mutable_grad() = torch::ones({1 << 20}, type);
    double norm = 0;
    const auto seen = model::allocations_of([&] { norm = clip_grad_norm({parameter}, 0.5); });
    EXPECT_NEAR(norm, 1024, 1e-3);
    EXPECT_LT(seen.peak, 1 << 16);
  }
}

TEST(ClipGradNorm, LeavesWhatIsNotFiniteAsItIs) {
  const at::Tensor parameter = with_gradient(4, 1), other = with_gradient(3, 2);
  parameter.mutable_grad()[2] = HUGE_VAL;
  const at::Tensor before = other.grad().clone();
  EXPECT_TRUE(std::isinf(clip_grad_norm({parameter, other}, 0.5)));
  EXPECT_TRUE(other.grad().equal(before));
  EXPECT_EQ(last_not_finite({{"a", parameter}, {"b", other}}), "a");
  EXPECT_EQ(last_not_finite({{"b", other}, {"none", torch::zeros({2})}}), "");
}

}  // namespace
}  // namespace convoy::parallel
