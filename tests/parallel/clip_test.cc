// The norm of gradients that are on several ranks, against LibTorch's of the whole.
#include "convoy/parallel/clip.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace convoy::parallel
