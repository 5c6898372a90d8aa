// What ranks have to agree on before they train, and what they are given.
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/parallel/mpi_main.h"

namespace convoy::parallel {
namespace {

at::Tensor ones_with_gradient() { return torch::ones({2}).set_requires_grad(true); }

// Ranks that cut buckets differently would add up what doesn't belong together, or wait for ever.
TEST(Options, ThatDifferAreRefused) {
  const bool odd = test_world().rank() == test_world().size() - 1;
  const std::vector<std::pair<std::string, std::function<void(ReducerOptions&)>>> changes{
      {"bucket_bytes = '64' where rank 0 has '8388608'",
       [](ReducerOptions& o) { o.bucket_bytes = 64; }},
      {"first_bucket_bytes = '64'", [](ReducerOptions& o) { o.first_bucket_bytes = 64; }},
      {"wire_type = 'BFloat16' where rank 0 has 'none'",
       [](ReducerOptions& o) { o.wire_type = at::kBFloat16; }},
      {"allreduce = 'ring-rsag' where rank 0 has ''",
       [](ReducerOptions& o) { o.allreduce = "ring-rsag"; }},
      {"reproducible = 'true'", [](ReducerOptions& o) { o.reproducible = true; }},
      {"averaging = 'ranks' where rank 0 has 'samples'",
       [](ReducerOptions& o) { o.averaging = Averaging::ranks; }},
      {"allow_unused = 'true'", [](ReducerOptions& o) { o.allow_unused = true; }},
      {"nominal_samples = '2'", [](ReducerOptions& o) { o.nominal_samples = 2; }},
      {"order = 'a, b' where rank 0 has ''", [](ReducerOptions& o) {
         o.order = {"a", "b"};
       }}};
  const std::vector<NamedTensor> parameters{{"a", ones_with_gradient()},
                                            {"b", ones_with_gradient()}};
  for (const auto& [message, change] : changes) {
    ReducerOptions options;
    if (odd) change(options);
    try {
      GradientReducer reducer(test_world().communicator(), {parameters}, options);
      EXPECT_EQ(test_world().size(), 1) << message;
    } catch (const UsageError& e) {
      EXPECT_GT(test_world().size(), 1) << e.what();
      const std::string named = "rank " + std::to_string(test_world().size() - 1) + " has ";
      EXPECT_NE(std::string(e.what()).find(named + message), std::string::npos) << e.what();
    }
  }
  DistributedOptions options;
  if (odd) options.batch_norm = BatchNormStatistics::synchronized;
  const auto make = [&] { DistributedModel(test_world(), torch::nn::Linear(2, 2), options); };
  if (test_world().size() > 1) {
    EXPECT_THROW(make(), UsageError);
  } else {
    EXPECT_NO_THROW(make());
  }
}

TEST(Options, OfTypesThatNobodyAddsAreRefused) {
  const at::Tensor complex = torch::ones({2}, torch::kComplexDouble).set_requires_grad(true);
  ReducerOptions whole;
  whole.wire_type = at::kLong;
  const std::vector<std::pair<at::Tensor, ReducerOptions>> cases{{complex, {}},
                                                                 {ones_with_gradient(), whole}};
  for (const auto& [tensor, options] : cases) {
    try {
      GradientReducer reducer(test_world().communicator(), {{{"w", tensor}}}, options);
      FAIL() << "accepted";
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find("parameter 'w' would be reduced as"), std::string::npos)
          << e.what();
    }
  }
}

TEST(Replicas, BroadcastEveryLayoutAndType) {
  World& world = test_world();
  const auto make = [&](double value) {
    return std::vector<NamedTensor>{
        {"float", torch::full({3, 4}, value)},
        {"channels_last",
         torch::full({2, 3, 4, 5}, value).contiguous(at::MemoryFormat::ChannelsLast)},
        {"long", torch::full({}, value, torch::kLong)},
        {"bool", torch::full({5}, value != 0, torch::kBool)},
        {"short", torch::full({5}, value, torch::kShort)},
        {"complex", torch::full({5}, value, torch::kComplexFloat)},
        {"conjugate", torch::conj(torch::full({5}, value, torch::kComplexDouble))},
        {"holes", torch::full({6, 6}, value).slice(1, 0, 6, 2)},
        {"empty", torch::empty({0})},
        {"large", torch::full({300'000}, value)}};
  };
  for (int root = 0; root < world.size(); ++root) {
    auto tensors = make(world.rank() == root ? 7 : 0);
    broadcast_tensors(world.communicator(), tensors, root);
    for (const auto& t : tensors)
      EXPECT_TRUE(t.tensor.eq(t.tensor.scalar_type() == torch::kBool ? 1 : 7).all().item<bool>())
          << t.name;
  }
}

// Of the same bytes another layout makes other elements.
TEST(Replicas, BroadcastWhateverTheLayoutOfARankIs) {
  World& world = test_world();
  const auto format = [&](int rank) {
    return rank == world.size() - 1 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  };
  const at::Tensor elements = torch::arange(2 * 3 * 4 * 5, torch::kFloat).view({2, 3, 4, 5});
  for (int root = 0; root < world.size(); ++root) {
    const std::vector<NamedTensor> tensors{
        {"w", (world.rank() == root ? elements : torch::zeros_like(elements))
                  .contiguous(format(world.rank()))}};
    broadcast_tensors(world.communicator(), tensors, root);
    EXPECT_TRUE(tensors[0].tensor.equal(elements)) << root;
    EXPECT_TRUE(tensors[0].tensor.is_contiguous(format(world.rank()))) << root;
  }
}

}  // namespace
}  // namespace convoy::parallel
