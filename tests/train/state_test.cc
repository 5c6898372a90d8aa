#include "convoy/train/state.h"

#include <gtest/gtest.h>

#include <numeric>

#include "convoy/base/error.h"
#include "convoy/comm/world.h"
#include "convoy/model/factory.h"
#include "convoy/train/safetensors.h"
#include "tests/base/scratch.h"
#include "train/checkpoint/weights.h"
#include "train/strategies/local_buffers.h"

namespace convoy::train {
namespace {

class StateTest : public testing::Test {
 protected:
  void write(const torch::nn::Module& module, const std::vector<std::string>& without = {}) const {
    State state;
    describe_module(module, state);
    std::vector<torch::Tensor> whole;
    std::vector<TensorView> views;
    for (const auto& [name, tensor] : state.model) {
      if (std::find(without.begin(), without.end(), name) != without.end()) continue;
      whole.push_back(tensor.contiguous());
      const bool counter = whole.back().scalar_type() == torch::kLong;
      views.push_back(
          {name,
           counter ? "I64" : "F32",
           whole.back().sizes().vec(),
           {static_cast<const std::byte*>(whole.back().const_data_ptr()), whole.back().nbytes()}});
    }
    write_safetensors(file_, views);
  }

  test::Scratch scratch_;
  std::string file_ = scratch_.path("weights.safetensors");
};

TEST_F(StateTest, WeightsOfTheSameModel) {
  torch::manual_seed(1);
  const auto from = model::make_model("resnet18", {.classes = 7});
  torch::manual_seed(2);
  const auto to = model::make_model("resnet18", {.classes = 7});
  // Counters may be missing, as in files of old.
  std::vector<std::string> counters;
  for (const auto& item : from->named_buffers()) {
    if (item.key().find("num_batches") != std::string::npos) counters.push_back(item.key());
  }
  write(*from, counters);
  const WeightsReport report = load_weights(*to, file_, false);
  EXPECT_EQ(report.loaded.size(), 122u - counters.size());
  for (const auto& item : from->named_parameters()) {
    EXPECT_TRUE(item.value().equal(to->named_parameters()[item.key()])) << item.key();
  }
}

TEST_F(StateTest, WeightsInPart) {
  const auto from = model::make_model("resnet18", {.classes = 1000});
  const auto to = model::make_model("resnet18", {.classes = 10});
  write(*from, {"bn1.bias"});
  try {
    load_weights(*to, file_, false);
    FAIL();
  } catch (const UsageError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("missing in the file: bn1.bias"), std::string::npos) << text;
    EXPECT_NE(text.find("fc.weight is [1000, 512] in the file, [10, 512] in the model"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("model.partial = true"), std::string::npos) << text;
  }
  const WeightsReport report = load_weights(*to, file_, true);
  EXPECT_EQ(report.missing, std::vector<std::string>{"bn1.bias"});
  EXPECT_EQ(report.mismatched.size(), 2u);
  EXPECT_TRUE(
      to->named_parameters()["conv1.weight"].equal(from->named_parameters()["conv1.weight"]));
}

TEST_F(StateTest, NothingFits) {
  write(*model::make_model("lenet", {}));
  EXPECT_THROW(load_weights(*model::make_model("resnet18", {}), file_, true), UsageError);
}

// What two ranks that hold parts of tensors take of a file.
TEST_F(StateTest, SlicesOfWeights) {
  struct Part : torch::nn::Module {
    explicit Part(std::int64_t rank) {
      register_parameter("rows", torch::zeros({2, 3}));
      register_parameter("wider", torch::ones({2, 2}));
      register_parameter("elsewhere", torch::ones({1}));
      register_parameter("one_rank", torch::ones({2 - rank, 3}));  // fits on rank 0
      register_parameter("flat", torch::ones({2, 3}));
      register_parameter("longer", torch::ones({2, 3}));
      register_buffer("own", torch::full({1}, 7.0));
    }
  };
  std::vector<float> numbers(18);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const auto all = std::as_bytes(std::span(numbers));
  const auto bytes = all.first(12 * sizeof(float));
  write_safetensors(file_, {{"rows", "F32", {4, 3}, bytes},
                            {"wider", "F32", {4, 3}, bytes},
                            {"elsewhere", "F32", {12}, bytes},
                            {"one_rank", "F32", {4, 3}, bytes},
                            {"flat", "F32", {12}, bytes},
                            {"longer", "F32", {6, 3}, all},
                            {"stranger", "F32", {12}, bytes}});
  comm::World::run_threads(2, [&](comm::World& world) {
    const Part part(world.rank());
    const auto wanted = [&world](const Slice& whole) -> std::optional<Slice> {
      if (whole.tensor == "elsewhere") return std::nullopt;
      Slice slice = whole;
      slice.begin.at(0) = 2 * world.rank();
      slice.begin.at(1) = 0;
      slice.size.at(0) = 2;
      return slice;
    };
    const auto read = [&](bool partial) {
      return read_weights(world.communicator(), part, file_, partial, wanted);
    };
    const std::string said = test::message_of<UsageError>([&] { read(false); });
    EXPECT_NE(said.find("1 tensors match; missing in the file: own; not in the model: stranger; of "
                        "another shape: flat is [12] in the file, [2, 3] in the model, "
                        "longer[4:6, :] of [6, 3] in the file, on no rank in the model, "
                        "one_rank[2:4, :] of [4, 3] in the file, [1, 3] in the model, "
                        "wider[0:2, :] of [4, 3] in the file, [2, 2] in the model, "
                        "wider[2:4, :] of [4, 3] in the file, [2, 2] in the model"),
              std::string::npos)
        << said;
    const Weights weights = read(true);
    EXPECT_EQ(weights.report.loaded, std::vector<std::string>{"rows"});
    // No more than is wanted, and what isn't there, or doesn't fit on all ranks, as it is.
    const auto& model = weights.state.model;
    EXPECT_EQ(model.size(), 6u);
    const int first = 6 * world.rank();
    EXPECT_TRUE(
        model.at("rows").equal(torch::arange(first, first + 6).to(torch::kFloat).view({2, 3})));
    EXPECT_EQ(weights.state.parts.at("rows").begin,
              (std::vector<std::int64_t>{2 * world.rank(), 0}));
    EXPECT_EQ(weights.state.parts.size(), 1u);
    EXPECT_TRUE(model.at("wider").equal(torch::ones({2, 2})));
    EXPECT_TRUE(model.at("one_rank").equal(torch::ones({2 - world.rank(), 3})));
    EXPECT_TRUE(model.at("flat").equal(torch::ones({2, 3})));
    EXPECT_TRUE(model.at("longer").equal(torch::ones({2, 3})));
    EXPECT_EQ(model.at("own").item<float>(), 7);
  });
}

struct Tied : torch::nn::Module {
  Tied() {
    a = register_parameter("a", torch::ones({2}));
    register_parameter("b", a);
  }
  torch::Tensor a;
};

// Whichever name the file has, or both.
TEST_F(StateTest, WeightsOfTiedParameters) {
  const float numbers[2] = {3, 4};
  const auto bytes = std::as_bytes(std::span(numbers));
  for (const std::vector<TensorView>& views :
       {std::vector<TensorView>{{"a", "F32", {2}, bytes}},
        std::vector<TensorView>{{"b", "F32", {2}, bytes}},
        std::vector<TensorView>{{"a", "F32", {2}, bytes}, {"b", "F32", {2}, bytes}}}) {
    write_safetensors(file_, views);
    Tied module;
    load_weights(module, file_, false);
    EXPECT_TRUE(module.a.equal(torch::tensor({3.0F, 4.0F})));
  }
}

TEST_F(StateTest, TiedParametersAreStoredOnce) {
  Tied module;
  State state;
  describe_module(module, state);
  EXPECT_EQ(state.model.size(), 1u);
  EXPECT_EQ(state.aliases, (std::map<std::string, std::string>{{"b", "a"}}));
  state.model["a"] = torch::full({2}, 5.0);
  load_module(module, state, "test");
  EXPECT_TRUE(module.a.equal(torch::full({2}, 5.0)));
}

// A seed or a hash has more digits than a double, and a complex number has two parts.
TEST(UniteBuffers, KeepsEachValueInItsOwnType) {
  constexpr std::int64_t kHash = (std::int64_t{1} << 53) + 1;
  comm::World::run_threads(3, [](comm::World& world) {
    const int rank = world.rank();
    const torch::NoGradGuard no_grad;
    const torch::Tensor hash = torch::tensor({kHash, kHash - 2 * rank}, torch::kLong);
    const torch::Tensor flags = torch::tensor({rank == 1, false}, torch::kBool);
    const torch::Tensor small = torch::full({2, 2}, 5 - rank, torch::kByte).t();
    const torch::Tensor phase = torch::complex(torch::full({2}, 1.0 + rank, torch::kFloat),
                                               torch::full({2}, -3.0 * rank, torch::kFloat));
    const torch::Tensor mean = torch::full({2}, static_cast<double>(rank), torch::kDouble);
    unite_buffers(
        world.communicator(),
        {{"hash", hash}, {"flags", flags}, {"small", small}, {"phase", phase}, {"mean", mean}});
    EXPECT_TRUE(torch::equal(hash, torch::tensor({kHash, kHash}, torch::kLong))) << hash;
    EXPECT_TRUE(torch::equal(flags, torch::tensor({true, false}, torch::kBool))) << flags;
    EXPECT_TRUE(torch::equal(small, torch::full({2, 2}, 5, torch::kByte))) << small;
    EXPECT_TRUE(
        torch::allclose(torch::view_as_real(phase), torch::tensor({{2.0f, -3.0f}, {2.0f, -3.0f}})))
        << phase;
    EXPECT_TRUE(torch::equal(mean, torch::ones({2}, torch::kDouble))) << mean;
  });
}

}  // namespace
}  // namespace convoy::train
