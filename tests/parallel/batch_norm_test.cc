// Synchronized batch normalization against LibTorch's own on the whole batch.
#include <gtest/gtest.h>

#include "convoy/base/error.h"
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

DistributedOptions synchronized() {
  DistributedOptions options;
  options.batch_norm = BatchNormStatistics::synchronized;
  return options;
}

// The loss of the others is the mean of nothing.
TEST(SynchronizedBatchNorm, WithSharesThatCountNothing) {
  auto serial = make_net(true), net = make_net(true);
  DistributedModel model(test_world(), net, synchronized());
  const at::Tensor x = torch::randn({12, 3, 8, 8}, torch::kDouble);
  const at::Tensor target = torch::randn({12, 7}, torch::kDouble);
  const bool counts = test_world().rank() == 0;
  const at::Tensor mine = my_rows(x);
  const at::Tensor y = model.run(counts ? static_cast<double>(mine.size(0)) : 0.0,
                                 [&](auto& m) { return m.forward(mine); });
  const at::Tensor loss = torch::mse_loss(y, my_rows(target));
  (counts ? loss : loss * 0 / 0).backward();
  const auto first = static_cast<std::int64_t>(comm::chunk(12, test_world().size(), 0).count);
  torch::mse_loss(serial->forward(x).narrow(0, 0, first), target.narrow(0, 0, first)).backward();
  for (const auto& p : serial->named_parameters()) {
    const at::Tensor got = net->named_parameters()[p.key()].grad();
    EXPECT_TRUE(same_on_all_ranks(got)) << p.key();
    EXPECT_TRUE(at::isfinite(got).all().item<bool>()) << p.key();
    // Below, one process has what goes through the statistics to the samples of the others, too.
    const bool whole = p.key().starts_with("7.") || test_world().size() == 1;
    if (whole) EXPECT_TRUE(at::allclose(got, p.value().grad(), 1e-7, 1e-8)) << p.key();
  }
}

// The mean lies between two numbers of 16 bits.
TEST(SynchronizedBatchNorm, ComputesWith16BitInputsInFloat) {
  torch::manual_seed(3);
  const at::Tensor x = (torch::randn({48, 5}) + 100.25).to(torch::kBFloat16);
  const at::Tensor dy = torch::randn({48, 5}).to(torch::kBFloat16);
  const auto make = [](at::ScalarType type) {
    torch::nn::BatchNorm1d norm(5);
    torch::NoGradGuard no_grad;
    norm->weight.fill_(1.003);
    norm->to(type);
    return norm;
  };
  auto serial = make(torch::kDouble);
  auto norm = make(torch::kFloat);
  DistributedModel model(test_world(), norm, synchronized());
  const at::Tensor whole = x.to(torch::kDouble).set_requires_grad(true);
  const at::Tensor want = serial->forward(whole);
  want.backward(dy.to(torch::kDouble) * test_world().size());
  const at::Tensor mine = my_rows(x).clone().set_requires_grad(true);
  const at::Tensor got = model.forward(mine);
  EXPECT_EQ(got.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(at::allclose(got.to(torch::kDouble), my_rows(want), 0.005, 0.002));
  got.backward(my_rows(dy) * test_world().size());
  EXPECT_TRUE(at::allclose(mine.grad().to(torch::kDouble), my_rows(whole.grad()), 0.01, 0.01));
}

TEST(SynchronizedBatchNorm, IsNotDifferentiatedTwice) {
  if (test_world().size() == 1) GTEST_SKIP() << "LibTorch's own is";
  auto net = make_net(true);
  DistributedModel model(test_world(), net, synchronized());
  const at::Tensor x = torch::randn({4, 3, 8, 8}, torch::kDouble).set_requires_grad(true);
  const at::Tensor y = model.forward(x).square().sum();
  EXPECT_THROW(torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true),
               UsageError);
}

// The function of LibTorch takes each by itself.
struct Normalized : torch::nn::Module {
  Normalized() {
    factor = register_parameter("factor", torch::ones({5}, torch::kDouble) * 2);
    bias = register_parameter("bias", torch::ones({5}, torch::kDouble));
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto norm = [](const at::Tensor& of, const at::Tensor& w, const at::Tensor& b) {
      return torch::batch_norm(of, w, b, {}, {}, true, 0.1, 1e-5, false);
    };
    return norm(norm(x, {}, bias).square(), factor, {});
  }
  at::Tensor factor, bias;
};

TEST(SynchronizedBatchNorm, WithWeightOrBiasAlone) {
  torch::manual_seed(4);
  const at::Tensor x = torch::randn({12, 5}, torch::kDouble);
  const at::Tensor target = torch::randn({12, 5}, torch::kDouble);
  auto serial = std::make_shared<Normalized>(), net = std::make_shared<Normalized>();
  DistributedModel model(test_world(), net, synchronized());
  torch::mse_loss(serial->forward(x), target).backward();
  torch::mse_loss(model.forward(my_rows(x)), my_rows(target)).backward();
  for (const auto& p : serial->named_parameters()) {
    const at::Tensor got = net->named_parameters()[p.key()].grad();
    EXPECT_TRUE(at::allclose(got, p.value().grad(), 1e-7, 1e-8)) << p.key();
  }
}

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
