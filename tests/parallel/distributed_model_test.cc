// Training on N ranks against training on one, from the same start on the same samples.
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/parallel/mpi_main.h"

namespace convoy {
namespace {

namespace F = torch::nn::functional;

// Convolutions (channels-last in some tests), a weight used twice, and a frozen parameter.
struct NetImpl : torch::nn::Module {
  NetImpl()
      : conv1(register_module("conv1",
                              torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1)))),
        conv2(register_module("conv2",
                              torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 8, 3).padding(1)))),
        fc(register_module("fc", torch::nn::Linear(8 * 16, 10))) {
    tied = register_parameter("tied", conv2->weight);
    frozen = register_parameter("frozen", torch::ones({10}), /*requires_grad=*/false);
  }
  at::Tensor forward(at::Tensor x) {
    x = torch::relu(conv1(x));
    x = torch::relu(F::conv2d(torch::tanh(conv2(x)), tied, F::Conv2dFuncOptions().padding(1)));
    return fc(F::adaptive_avg_pool2d(x, F::AdaptiveAvgPool2dFuncOptions(4)).flatten(1)) * frozen;
  }
  torch::nn::Conv2d conv1, conv2;
  torch::nn::Linear fc;
  at::Tensor tied, frozen;
};
TORCH_MODULE(Net);

struct Batches {
  at::Tensor x, y;
};
Batches global_batch(int step, std::int64_t size, at::ScalarType type) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(1000 + step));
  const at::Tensor x = torch::randn({size, 3, 8, 8}, generator, torch::kDouble).to(type);
  const at::Tensor y = torch::randint(10, {size}, generator, torch::kLong);
  return {x, y};
}

Net make_net(at::ScalarType type, std::uint64_t seed = 3) {
  torch::manual_seed(seed);
  Net net;
  net->to(type);
  return net;
}

// The loss of the global batch before each update, computed by one process alone.
std::vector<double> serial_losses(int steps, std::int64_t batch, at::ScalarType type) {
  Net net = make_net(type);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const auto [x, y] = global_batch(step, batch, type);
    optimizer.zero_grad();
    const at::Tensor loss = F::cross_entropy(net->forward(x), y);
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

// The same on all ranks, each with its share; the mean loss is weighted with the shares.
std::vector<double> distributed_losses(int steps, std::int64_t batch, at::ScalarType type,
                                       DistributedOptions options = {}) {
  World& world = test_world();
  // Other ranks start from other weights: the model must be broadcast.
  Net net = make_net(type, 3 + static_cast<std::uint64_t>(world.rank()));
  DistributedModel model(world, net, options);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const auto [x, y] = global_batch(step, batch, type);
    optimizer.zero_grad();
    const at::Tensor mine = my_rows(y);
    const at::Tensor loss = F::cross_entropy(model.forward(my_rows(x)), mine);
    loss.backward();
    optimizer.step();
    std::vector<double> sum{loss.item<double>() * static_cast<double>(mine.size(0))};
    world.communicator().allreduce(comm::buffer_of(sum), comm::ReduceOp::sum);
    losses.push_back(sum[0] / static_cast<double>(batch));
  }
  for (const auto& p : net->named_parameters())
    EXPECT_TRUE(same_on_all_ranks(p.value())) << p.key();
  return losses;
}

// Only the order of additions differs: 1e-9 relative leaves room for 50 steps of growth from 1e-16.
TEST(DistributedModel, EqualsOneProcessInFloat64) {
  const auto want = serial_losses(50, 60, torch::kDouble);
  const auto got = distributed_losses(50, 60, torch::kDouble);
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got[i], want[i], 1e-9 * want[i]) << "step " << i;
}

TEST(DistributedModel, EqualsOneProcessInFloat32) {
  const auto want = serial_losses(50, 60, torch::kFloat);
  const auto got = distributed_losses(50, 60, torch::kFloat);
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got[i], want[i], 1e-3 * want[i]) << "step " << i;
}

// 61 samples are no multiple of 2, 3, 4 or 5: the shares differ, and so do the weights.
TEST(DistributedModel, WeightsUnevenSharesInFloat64) {
  const auto want = serial_losses(20, 61, torch::kDouble);
  const auto got = distributed_losses(20, 61, torch::kDouble);
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got[i], want[i], 1e-9 * want[i]) << "step " << i;
}

TEST(DistributedModel, SmallBucketsAndCopiesGiveTheSame) {
  DistributedOptions options;
  options.first_bucket_bytes = 64;
  options.bucket_bytes = 2000;
  options.gradient_as_bucket_view = false;
  const auto want = serial_losses(10, 60, torch::kDouble);
  const auto got = distributed_losses(10, 60, torch::kDouble, options);
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-9 * want[i]);
}

TEST(DistributedModel, TwoHundredStepsEndWithTheSameBits) {
  distributed_losses(200, 16, torch::kFloat);  // compares the ranks' parameters at the end
}

TEST(DistributedModel, ReducingInBf16StaysClose) {
  DistributedOptions options;
  options.wire_type = torch::kBFloat16;
  const auto want = serial_losses(20, 60, torch::kFloat);
  const auto got = distributed_losses(20, 60, torch::kFloat, options);
  // bf16 keeps 8 bits: gradients are off by up to 0.4% each
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 0.02 * want[i]);
}

TEST(DistributedModel, ReproducibleGradientsDependOnNeitherAlgorithmNorBuckets) {
  std::vector<double> first;
  for (const char* rules : {"naive", "recursive-doubling", "multicolor k=2 segment=1KiB"}) {
    DistributedOptions options;
    options.reproducible = true;
    options.allreduce = rules;
    if (!first.empty()) options.first_bucket_bytes = options.bucket_bytes = 1500;
    const auto losses = distributed_losses(10, 60, torch::kFloat, options);
    if (first.empty()) first = losses;
    EXPECT_EQ(losses, first) << rules;
  }
}

// Gradients of one backward on the given rows of a global batch.
std::vector<at::Tensor> gradients(const Net& net) {
  std::vector<at::Tensor> result;
  for (const auto& p : parallel::unique_parameters(*net)) {
    if (p.tensor.requires_grad()) result.push_back(p.tensor.grad().clone());
  }
  return result;
}

std::vector<at::Tensor> serial_gradients(const at::Tensor& x, const at::Tensor& y) {
  Net net = make_net(x.scalar_type());
  F::cross_entropy(net->forward(x), y).backward();
  return gradients(net);
}

void expect_close(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& want,
                  double tolerance = 1e-12) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(at::allclose(got[i], want[i], tolerance, tolerance))
        << "tensor " << i << ", off by " << (got[i] - want[i]).abs().max().item<double>();
  }
}

TEST(DistributedModel, WorksWithEveryZeroGrad) {
  Net net = make_net(torch::kDouble);
  DistributedModel model(test_world(), net);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (int way = 0; way < 6; ++way) {
    const auto [x, y] = global_batch(way, 30, torch::kDouble);
    if (way % 3 == 0) optimizer.zero_grad(/*set_to_none=*/true);
    if (way % 3 == 1) optimizer.zero_grad(/*set_to_none=*/false);
    if (way % 3 == 2) {
      for (auto& p : net->parameters()) {
        if (p.grad().defined()) p.mutable_grad() = torch::zeros_like(p);
      }
    }
    F::cross_entropy(model.forward(my_rows(x)), my_rows(y)).backward();
    expect_close(gradients(net), serial_gradients(x, y));
  }
}

TEST(DistributedModel, AccumulatesWithoutCommunication) {
  Net net = make_net(torch::kDouble);
  DistributedModel model(test_world(), net);
  const auto [x, y] = global_batch(1, 60, torch::kDouble);
  for (int round = 0; round < 2; ++round) {
    net->zero_grad();
    const auto before = model.reducer().communicator().traffic().bytes_sent;
    const auto micro = [&](int part) {
      const at::Tensor px = my_rows(x.slice(0, part * 20, part * 20 + 20));
      const at::Tensor py = my_rows(y.slice(0, part * 20, part * 20 + 20));
      (F::cross_entropy(model.forward(px), py,
                        F::CrossEntropyFuncOptions().reduction(torch::kSum)) /
       20.0 * static_cast<double>(test_world().size()) / 3.0)
          .backward();
    };
    const auto steps = model.statistics().steps;
    {
      const auto quiet = model.no_sync();
      {
        const auto inner = model.no_sync();
        micro(0);
      }
      micro(1);
    }
    EXPECT_EQ(model.statistics().steps, steps);
    EXPECT_EQ(model.reducer().communicator().traffic().bytes_sent, before);
    micro(2);
    if (20 % test_world().size() == 0) expect_close(gradients(net), serial_gradients(x, y));
  }
}

// Autograd forgets what the model had hooked into.
TEST(DistributedModel, NoticesAConversion) {
  Net net = make_net(torch::kDouble);
  DistributedModel model(test_world(), net);
  const auto [x, y] = global_batch(1, 60, torch::kDouble);
  net->to(torch::kDouble);  // changes nothing
  F::cross_entropy(model.forward(my_rows(x)), my_rows(y)).backward();
  net->to(torch::kFloat);
  try {
    model.forward(my_rows(x).to(torch::kFloat));
    FAIL() << "accepted";
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("was converted"), std::string::npos) << e.what();
  }
}

TEST(DistributedModel, KeepsChannelsLast) {
  Net net = make_net(torch::kDouble);
  for (auto& p : net->parameters()) {
    if (p.dim() == 4) p.set_data(p.contiguous(at::MemoryFormat::ChannelsLast));
  }
  DistributedModel model(test_world(), net);
  const auto [x, y] = global_batch(1, 60, torch::kDouble);
  F::cross_entropy(model.forward(my_rows(x).contiguous(at::MemoryFormat::ChannelsLast)), my_rows(y))
      .backward();
  expect_close(gradients(net), serial_gradients(x, y));
  EXPECT_TRUE(net->conv1->weight.grad().is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_EQ(net->conv1->weight.grad().strides(), net->conv1->weight.strides());
}

// Rank r has r extra batches: the others go along with weight 0, and momentum stays the same on
// all.
TEST(DistributedModel, RanksRunOutOfDataAtDifferentSteps) {
  World& world = test_world();
  Net serial = make_net(torch::kDouble);
  torch::optim::SGD serial_optimizer(serial->parameters(),
                                     torch::optim::SGDOptions(0.05).momentum(0.9));
  Net net = make_net(torch::kDouble);
  DistributedModel model(world, net);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const int size = world.size();
  for (int epoch = 0; epoch < 2; ++epoch) {
    const int longest = 2 + size - 1;
    for (int step = 0; step < longest; ++step) {
      // Ranks from step - 1 on still have data; rank r's rows are 4 r .. 4 r + 3.
      const auto [x, y] = global_batch(10 * epoch + step, 4 * size, torch::kDouble);
      const int first = std::max(0, step - 1);
      const at::Tensor rows = torch::arange(4 * first, 4 * size);
      serial_optimizer.zero_grad();
      F::cross_entropy(serial->forward(x.index({rows})), y.index({rows})).backward();
      serial_optimizer.step();
      if (world.rank() < first) continue;
      const at::Tensor own = torch::arange(4 * world.rank(), 4 * world.rank() + 4);
      optimizer.zero_grad();
      F::cross_entropy(model.forward(x.index({own})), y.index({own})).backward();
      optimizer.step();
    }
    int extra = 0;
    model.finish_epoch([&] {
      optimizer.step();
      ++extra;
    });
    EXPECT_EQ(extra, size - 1 - world.rank());
  }
  std::vector<at::Tensor> got, want;
  for (const auto& p : net->parameters()) got.push_back(p.detach());
  for (const auto& p : serial->parameters()) want.push_back(p.detach());
  expect_close(got, want, 1e-9);
  for (const auto& p : net->named_parameters())
    EXPECT_TRUE(same_on_all_ranks(p.value())) << p.key();
}

TEST(DistributedModel, ClipsByTheGlobalNorm) {
  Net net = make_net(torch::kDouble), serial = make_net(torch::kDouble);
  DistributedModel model(test_world(), net);
  const auto [x, y] = global_batch(1, 60, torch::kDouble);
  F::cross_entropy(model.forward(my_rows(x)), my_rows(y)).backward();
  F::cross_entropy(serial->forward(x), y).backward();
  std::vector<at::Tensor> parameters;
  for (const auto& p : parallel::unique_parameters(*serial)) parameters.push_back(p.tensor);
  const double want = torch::nn::utils::clip_grad_norm_(parameters, 0.01);
  EXPECT_NEAR(model.clip_grad_norm(0.01), want, 1e-12);
  expect_close(gradients(net), gradients(serial));
}

TEST(DistributedModel, RefusesDifferentModels) {
  World& world = test_world();
  const bool odd = world.rank() == world.size() - 1 && world.size() > 1;
  torch::nn::Sequential net(torch::nn::Linear(4, odd ? 5 : 6), torch::nn::Linear(4, 4));
  if (world.size() == 1) return;
  try {
    DistributedModel model(world, net);
    FAIL() << "accepted";
  } catch (const UsageError& e) {
    const std::string text = e.what();
    EXPECT_NE(
        text.find("rank " + std::to_string(world.size() - 1) + " has '0.weight' as Float [5, 4]"),
        std::string::npos)
        << text;
    EXPECT_NE(text.find("on rank 0 it is Float [6, 4]"), std::string::npos) << text;
  }
  torch::nn::Sequential same(torch::nn::Linear(4, 6));
  if (odd) same->push_back(torch::nn::Linear(1, 1));
  EXPECT_THROW(DistributedModel(world, same), UsageError);
}

}  // namespace
}  // namespace convoy
