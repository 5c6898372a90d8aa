// Synchronized batch normalization against LibTorch's own on the whole batch.
#include <gtest/gtest.h>

#include "tests/parallel/mpi_main.h"

namespace convoy {
namespace {

torch::nn::Sequential make_net(bool affine) {
  torch::manual_seed(5);
  torch::nn::Sequential net(torch::nn::Conv2d(3, 6, 3),
                            torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(6).affine(affine)),
                            torch::nn::ReLU(), torch::nn::Conv2d(6, 4, 3),
                            torch::nn::BatchNorm2d(4), torch::nn::Flatten(),
                            torch::nn::Linear(4 * 16, 7), torch::nn::BatchNorm1d(7));
  net->to(torch::kDouble);
  return net;
}

void compare(std::int64_t batch, bool affine) {
  auto serial = make_net(affine), net = make_net(affine);
  DistributedOptions options;
  options.batch_norm = BatchNormStatistics::synchronized;
  DistributedModel model(test_world(), net, options);
  torch::optim::SGD serial_optimizer(serial->parameters(), 0.1), optimizer(net->parameters(), 0.1);
  for (int step = 0; step < 5; ++step) {
    torch::manual_seed(100 + step);
    // A large mean: sums of squares alone would lose the variance.
    const at::Tensor x = torch::randn({batch, 3, 8, 8}, torch::kDouble) + 1000;
    const at::Tensor target = torch::randn({batch, 7}, torch::kDouble);
    serial_optimizer.zero_grad();
    optimizer.zero_grad();
    const at::Tensor want = serial->forward(x);
    const at::Tensor got = model.forward(my_rows(x));
    ASSERT_TRUE(at::allclose(got, my_rows(want), 1e-8, 1e-8)) << (got - my_rows(want)).abs().max();
    torch::mse_loss(want, target).backward();
    torch::mse_loss(got, my_rows(target)).backward();
    for (const auto& p : serial->named_parameters()) {
      const at::Tensor mine = net->named_parameters()[p.key()].grad();
      ASSERT_TRUE(at::allclose(mine, p.value().grad(), 1e-7, 1e-8))
          << p.key() << " step " << step << " off by " << (mine - p.value().grad()).abs().max();
    }
    serial_optimizer.step();
    optimizer.step();
  }
  for (const auto& b : serial->named_buffers()) {
    if (b.key().find("num_batches") != std::string::npos) continue;
    EXPECT_TRUE(at::allclose(net->named_buffers()[b.key()], b.value(), 1e-8, 1e-8)) << b.key();
  }
  serial->eval();
  net->eval();
  const at::Tensor x = torch::randn({4, 3, 8, 8}, torch::kDouble) + 1000;
  EXPECT_TRUE(at::allclose(model.forward(x), serial->forward(x), 1e-6, 1e-7));
}

TEST(SynchronizedBatchNorm, EqualsTheWholeBatch) { compare(12, true); }
TEST(SynchronizedBatchNorm, EqualsTheWholeBatchInUnevenShares) { compare(13, true); }
TEST(SynchronizedBatchNorm, WorksWithoutAffineParameters) { compare(12, false); }

TEST(SynchronizedBatchNorm, LeavesOtherModelsAlone) {
  auto net = make_net(true);
  DistributedModel model(test_world(), net);  // local statistics
  torch::manual_seed(test_world().rank());
  const at::Tensor x = torch::randn({8, 3, 8, 8}, torch::kDouble);
  auto serial = make_net(true);
  EXPECT_TRUE(model.forward(x).equal(serial->forward(x)));
  // Ranks saw different samples; afterwards all have rank 0's statistics.
  model.broadcast_buffers();
  for (const auto& b : net->named_buffers()) EXPECT_TRUE(same_on_all_ranks(b.value())) << b.key();
}

}  // namespace
}  // namespace convoy
