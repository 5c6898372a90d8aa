// Fully connected layers that write their gradients into buckets, against those that don't.
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "convoy/model/linear.h"
#include "parallel/direct_gradients.h"
#include "tests/parallel/mpi_main.h"

namespace convoy::parallel {
namespace {

constexpr std::int64_t kIn = 512, kOut = 640;  // 1.25 MiB of weights
constexpr std::uint64_t kWeightBytes = kIn * kOut * sizeof(float);

model::Linear make_layer(bool bias = true) {
  torch::manual_seed(11);
  return model::Linear(torch::nn::LinearOptions(kIn, kOut).bias(bias));
}

at::Tensor rows(std::int64_t step, std::int64_t count) {
  auto generator =
      at::detail::createCPUGenerator(static_cast<std::uint64_t>(100 * step + test_world().rank()));
  return torch::randn({count, kIn}, generator);
}

std::vector<NamedTensor> named(const model::Linear& layer) { return unique_parameters(*layer); }

at::Tensor average_over_ranks(const at::Tensor& tensor) {
  at::Tensor sum = tensor.clone();
  test_world().communicator().allreduce(
      {sum.data_ptr(), static_cast<std::size_t>(sum.numel()), comm::Type::f32},
      comm::ReduceOp::average);
  return sum;
}

// A layer that is trained with others on other ranks.
struct Reduced {
  explicit Reduced(bool compute_in_buckets) : layer(make_layer()) {
    ReducerOptions options;
    options.compute_in_buckets = compute_in_buckets;
    reducer.emplace(test_world().communicator(),
                    std::vector<std::vector<NamedTensor>>{named(layer)}, options);
  }
  const at::Tensor& gradient() const { return layer->weight.grad(); }

  model::Linear layer;
  std::optional<GradientReducer> reducer;
};

// A loss of the layer for a step.
using Loss = std::function<at::Tensor(model::Linear&, int step)>;

// Steps with and without `compute_in_buckets` must leave the same bits in .grad. Returns the bytes
// that the last step did not copy.
std::uint64_t same_either_way(const Loss& loss, ReducerOptions options = {}, bool bias = true) {
  std::vector<std::vector<at::Tensor>> gradients[2];
  std::uint64_t in_place = 0;
  for (const bool direct : {false, true}) {
    model::Linear layer = make_layer(bias);
    options.compute_in_buckets = direct;
    GradientReducer reducer(test_world().communicator(), {named(layer)}, options);
    for (int step = 0; step < 4; ++step) {
      layer->zero_grad();
      loss(layer, step).backward();
      auto& all = gradients[direct].emplace_back();
      for (const auto& p : layer->parameters()) {
        EXPECT_TRUE(same_on_all_ranks(p.grad()));
        all.push_back(p.grad().clone());
      }
    }
    in_place = reducer.statistics().in_place_bytes;
    if (!direct) {
      EXPECT_EQ(in_place, 0u);
    }
  }
  for (std::size_t step = 0; step < gradients[0].size(); ++step) {
    for (std::size_t i = 0; i < gradients[0][step].size(); ++i) {
      EXPECT_TRUE(gradients[0][step][i].equal(gradients[1][step][i])) << "step " << step;
    }
  }
  return in_place;
}

at::Tensor squares(model::Linear& layer, int step) { return layer(rows(step, 8)).square().mean(); }

TEST(DirectGradients, AreNotCopied) { EXPECT_EQ(same_either_way(squares), kWeightBytes); }

TEST(DirectGradients, WithoutBias) {
  EXPECT_EQ(same_either_way(squares, {}, /*bias=*/false), kWeightBytes);
}

TEST(DirectGradients, OfInputsWithOneAndThreeDimensions) {
  const auto loss = [](model::Linear& layer, int step) {
    return step % 2 == 0 ? layer(rows(step, 6).view({2, 3, kIn})).square().sum()
                         : layer(rows(step, 1).view({kIn})).square().sum();
  };
  EXPECT_EQ(same_either_way(loss), kWeightBytes);
}

// As AlexNet's ReLU does it.
TEST(DirectGradients, OfOutputsThatAreChangedInPlace) {
  const auto loss = [](model::Linear& layer, int step) {
    const at::Tensor x = rows(step, 6);
    return layer(step % 2 == 0 ? x : x.view({2, 3, kIn})).relu_().square().sum();
  };
  EXPECT_EQ(same_either_way(loss), kWeightBytes);
}

TEST(DirectGradients, WithEveryAveraging) {
  for (const auto averaging : {Averaging::samples, Averaging::ranks, Averaging::sum}) {
    ReducerOptions options;
    options.averaging = averaging;
    EXPECT_EQ(same_either_way(squares, options), kWeightBytes);
  }
}

TEST(DirectGradients, KeepNoMoreThanTheyNeed) {
  model::Linear layer = make_layer();
  GradientReducer reducer(test_world().communicator(), {named(layer)});
  const at::Tensor loss = squares(layer, 0);
  const torch::NoGradGuard no_grad;
  layer->weight.mul_(2);  // the gradient of a first layer's weight doesn't depend on it
  EXPECT_NO_THROW(loss.backward());
}

TEST(DirectGradients, GoBackToTheInput) {
  model::Linear layer = make_layer(), alone = make_layer();
  GradientReducer reducer(test_world().communicator(), {named(layer)});
  at::Tensor x = rows(0, 5).set_requires_grad(true), y = rows(0, 5).set_requires_grad(true);
  layer(x).square().sum().backward();
  alone(y).square().sum().backward();
  EXPECT_TRUE(x.grad().equal(y.grad()));
}

// The second use finds the memory taken.
TEST(DirectGradients, OfAWeightUsedTwice) {
  const auto loss = [](model::Linear& layer, int step) {
    return layer(rows(step, 4)).square().mean() + layer(rows(step + 50, 3)).square().mean();
  };
  EXPECT_EQ(same_either_way(loss), 0u);
}

TEST(DirectGradients, OfALossWithATermOfTheWeight) {
  const auto loss = [](model::Linear& layer, int step) {
    return layer(rows(step, 4)).square().mean() + 0.1 * layer->weight.square().sum();
  };
  EXPECT_EQ(same_either_way(loss), 0u);
}

TEST(DirectGradients, AreUnscaledToHooks) {
  model::Linear layer = make_layer(), alone = make_layer();
  GradientReducer reducer(test_world().communicator(), {named(layer)});
  at::Tensor seen;
  layer->weight.register_hook([&](const at::Tensor& g) {
    seen = g.clone();
    return 2 * g;
  });
  squares(layer, 0).backward();
  squares(alone, 0).backward();
  EXPECT_TRUE(seen.equal(alone->weight.grad()));
  const at::Tensor want = 2 * average_over_ranks(alone->weight.grad());
  EXPECT_TRUE(torch::allclose(layer->weight.grad(), want, 1e-6, 1e-7));
}

TEST(DirectGradients, AccumulateOverMicroBatches) {
  for (const bool direct : {false, true}) {
    Reduced reduced(direct);
    model::Linear alone = make_layer();
    for (int step = 0; step < 3; ++step) {
      reduced.layer->zero_grad();
      alone->zero_grad();
      reduced.reducer->set_synchronizing(false);
      squares(reduced.layer, 2 * step).backward();
      reduced.reducer->set_synchronizing(true);
      squares(reduced.layer, 2 * step + 1).backward();
      (squares(alone, 2 * step) + squares(alone, 2 * step + 1)).backward();
      const at::Tensor want = average_over_ranks(alone->weight.grad());
      EXPECT_TRUE(torch::allclose(reduced.gradient(), want, 1e-5, 1e-7)) << "step " << step;
    }
    // From the step after that which measures the order.
    EXPECT_EQ(reduced.reducer->statistics().in_place_bytes, direct ? kWeightBytes : 0u);
  }
}

TEST(DirectGradients, WithGradientsThatStay) {
  Reduced direct(true), copied(false);
  for (int step = 0; step < 3; ++step) {
    for (Reduced* r : {&direct, &copied}) {
      r->layer->zero_grad(/*set_to_none=*/false);
      squares(r->layer, step).backward();
    }
    EXPECT_TRUE(direct.gradient().equal(copied.gradient())) << "step " << step;
  }
}

// Shares that differ are weighted after the gradient is in the bucket.
TEST(DirectGradients, OfUnevenShares) {
  Reduced direct(true), copied(false);
  for (int step = 0; step < 4; ++step) {
    const std::int64_t samples = step == 3 ? 1 + test_world().rank() : 8;
    for (Reduced* r : {&direct, &copied}) {
      r->reducer->count_samples(static_cast<double>(samples));
      r->layer->zero_grad();
      r->layer(rows(step, samples)).square().mean().backward();
    }
    EXPECT_TRUE(direct.gradient().equal(copied.gradient())) << "step " << step;
  }
  EXPECT_EQ(direct.reducer->statistics().in_place_bytes, kWeightBytes);
}

// What torch::autograd::grad returns belongs to the caller, and second derivatives are exact.
TEST(DirectGradients, LeaveGradientsThatAreAskedForAlone) {
  model::Linear layer = make_layer(), alone = make_layer();
  GradientReducer reducer(test_world().communicator(), {named(layer)});
  for (int step = 0; step < 2; ++step) {
    layer->zero_grad();
    alone->zero_grad();
    const at::Tensor asked = torch::autograd::grad({squares(layer, 70)}, {layer->weight})[0];
    const at::Tensor before = asked.clone();
    const auto penalized = [&](model::Linear& l) {
      const at::Tensor first =
          torch::autograd::grad({squares(l, step)}, {l->weight}, {},
                                /*retain_graph=*/true, /*create_graph=*/true)[0];
      return squares(l, step) + first.square().sum();
    };
    penalized(layer).backward();
    penalized(alone).backward();
    EXPECT_TRUE(asked.equal(before));
    const at::Tensor want = average_over_ranks(alone->weight.grad());
    EXPECT_TRUE(torch::allclose(layer->weight.grad(), want, 1e-5, 1e-8));
  }
}

TEST(DirectGradients, NotIntoBucketsOfAnotherTypeNorIntoCopies) {
  ReducerOptions wire;
  wire.wire_type = at::kBFloat16;
  EXPECT_EQ(same_either_way(squares, wire), 0u);
  ReducerOptions copies;
  copies.gradient_as_bucket_view = false;
  EXPECT_EQ(same_either_way(squares, copies), 0u);
}

TEST(DirectGradients, EndWithTheReducer) {
  model::Linear layer = make_layer(), alone = make_layer();
  at::Tensor loss;
  {
    GradientReducer reducer(test_world().communicator(), {named(layer)});
    loss = squares(layer, 0);
  }
  loss.backward();
  squares(alone, 0).backward();
  EXPECT_TRUE(layer->weight.grad().equal(alone->weight.grad()));
}

// Its forward is no call of torch::linear: copied.
TEST(DirectGradients, NotOfTheLayerOfLibTorch) {
  torch::nn::Linear layer(kIn, kOut);
  GradientReducer reducer(test_world().communicator(), {unique_parameters(*layer)});
  layer(rows(0, 8)).square().mean().backward();
  EXPECT_EQ(reducer.statistics().in_place_bytes, 0u);
}

// Both would reduce the same memory.
TEST(DirectGradients, NotWithTwoReducersOfOneModel) {
  model::Linear layer = make_layer(), alone = make_layer();
  const auto average_alone = [&](int step) {
    alone->zero_grad();
    squares(alone, step).backward();
    return average_over_ranks(alone->weight.grad());
  };
  GradientReducer first(test_world().communicator(), {named(layer)});
  for (int round = 0; round < 2; ++round) {
    {
      GradientReducer second(test_world().communicator(), {named(layer)});
      layer->zero_grad();
      squares(layer, 0).backward();
      EXPECT_EQ(first.statistics().in_place_bytes + second.statistics().in_place_bytes, 0u);
      EXPECT_TRUE(torch::allclose(layer->weight.grad(), average_alone(0), 1e-6, 1e-7));
    }
    layer->zero_grad();
    squares(layer, 1).backward();
    EXPECT_EQ(first.statistics().in_place_bytes, kWeightBytes);
    EXPECT_TRUE(torch::allclose(layer->weight.grad(), average_alone(1), 1e-6, 1e-7));
  }
}

// What micro-batches left in .grad of a parameter that nobody, or only some, use in the last one.
TEST(DirectGradients, OfQuietPassesAloneAreReduced) {
  model::Linear used = make_layer(), unused = make_layer(), alone = make_layer();
  std::vector<NamedTensor> parameters;
  for (const auto& p : named(used)) parameters.push_back({"used." + p.name, p.tensor});
  for (const auto& p : named(unused)) parameters.push_back({"unused." + p.name, p.tensor});
  ReducerOptions options;
  options.allow_unused = true;
  GradientReducer reducer(test_world().communicator(), {parameters}, options);
  (squares(used, 0) + squares(unused, 0)).backward();  // measures the order
  for (int step = 1; step < 5; ++step) {
    for (auto* layer : {&used, &unused, &alone}) (*layer)->zero_grad();
    reducer.set_synchronizing(false);
    squares(unused, step).backward();
    reducer.set_synchronizing(true);
    squares(alone, step).backward();
    const bool passes = step == 3 && test_world().rank() > 0;
    const bool uses = step == 4 && test_world().rank() == test_world().size() - 1;
    if (uses) squares(alone, step + 10).backward();
    if (passes) {
      EXPECT_TRUE(reducer.join_with_zeros());
    } else if (uses) {
      (squares(used, step) + squares(unused, step + 10)).backward();
    } else {
      squares(used, step).backward();
    }
    const at::Tensor mine = alone->weight.grad();
    at::Tensor want = average_over_ranks(passes ? at::zeros_like(mine) : mine);
    if (step == 3) want = want * test_world().size();  // rank 0 alone has worked
    EXPECT_TRUE(torch::allclose(unused->weight.grad(), want, 1e-5, 1e-6)) << "step " << step;
  }
}

// What a DeferredGradient was left.
struct Kept {
  std::vector<at::Tensor> inputs, gradients;
  at::Tensor product() const { return torch::cat(gradients).t().mm(torch::cat(inputs)); }
};

TEST(DeferredGradients, AreTheProductOfWhatIsKept) {
  model::Linear layer = make_layer(), alone = make_layer();
  Kept kept;
  const DeferredGradient deferred(layer->weight, [&](const at::Tensor& x, const at::Tensor& dy) {
    kept.inputs.push_back(x);
    kept.gradients.push_back(dy);
  });
  for (int step = 0; step < 3; ++step) {
    at::Tensor x = rows(step, 6).set_requires_grad(true), y = rows(step, 6).set_requires_grad(true);
    layer(step == 1 ? x.view({2, 3, kIn}) : x).relu_().square().sum().backward();
    alone(y).relu_().square().sum().backward();
    EXPECT_TRUE(x.grad().equal(y.grad()));
  }
  EXPECT_FALSE(layer->weight.grad().defined());
  EXPECT_TRUE(layer->bias.grad().equal(alone->bias.grad()));
  ASSERT_EQ(kept.inputs.size(), 3u);
  EXPECT_FALSE(kept.inputs[0].requires_grad());
  EXPECT_TRUE(torch::allclose(kept.product(), alone->weight.grad(), 1e-5, 1e-4));
}

TEST(DeferredGradients, LeaveGradientsThatAreAskedForAlone) {
  model::Linear layer = make_layer(), alone = make_layer();
  int kept = 0;
  const DeferredGradient deferred(layer->weight,
                                  [&](const at::Tensor&, const at::Tensor&) { ++kept; });
  const at::Tensor asked = torch::autograd::grad({squares(layer, 1)}, {layer->weight})[0];
  EXPECT_TRUE(asked.equal(torch::autograd::grad({squares(alone, 1)}, {alone->weight})[0]));
  EXPECT_EQ(kept, 0);
}

// Whoever is asked about the weight's .grad has it to itself.
TEST(DeferredGradients, NotWithAnotherOfTheSameWeight) {
  model::Linear layer = make_layer(), alone = make_layer();
  int asked = 0;
  {
    const DeferredGradient deferred(layer->weight,
                                    [&](const at::Tensor&, const at::Tensor&) { ++asked; });
    const DirectGradient direct(layer->weight, [&] {
      ++asked;
      return at::Tensor();
    });
    squares(layer, 0).backward();
  }
  squares(layer, 1).backward();  // both are gone
  squares(alone, 0).backward();
  squares(alone, 1).backward();
  EXPECT_EQ(asked, 0);
  EXPECT_TRUE(layer->weight.grad().equal(alone->weight.grad()));
}

}  // namespace
}  // namespace convoy::parallel
