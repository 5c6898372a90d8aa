#include "convoy/train/state.h"

#include <gtest/gtest.h>

#include <numeric>

#include "convoy/base/error.h"
#include "convoy/comm/world.h"
#include "convoy/model/factory.h"
#include "convoy/train/safetensors.h"
#include "tests/base/scratch.h"
#include "train/checkpoint/weights.h"

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

// What a rank that holds parts of tensors takes of a file.
TEST_F(StateTest, SlicesOfWeights) {
  struct Part : torch::nn::Module {
    Part() {
      register_parameter("rows", torch::zeros({2, 3}));
      register_parameter("wider", torch::ones({2, 2}));
      register_parameter("elsewhere", torch::ones({1}));
      register_buffer("own", torch::full({1}, 7.0));
    }
  };
  std::vector<float> numbers(12);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const auto bytes = std::as_bytes(std::span(numbers));
  write_safetensors(file_, {{"rows", "F32", {4, 3}, bytes},
                            {"wider", "F32", {4, 3}, bytes},
                            {"elsewhere", "F32", {12}, bytes},
                            {"stranger", "F32", {12}, bytes}});
  const comm::World world = comm::World::join();
  const Part part;
  const auto wanted = [](const Slice& whole) -> std::optional<Slice> {
    if (whole.tensor == "elsewhere") return std::nullopt;
    Slice slice = whole;
    slice.begin = {2, 0};
    slice.size[0] = 2;
    return slice;
  };
  const auto read = [&](bool partial) {
    return read_weights(world.communicator(), part, file_, partial, wanted);
  };
  const std::string said = test::message_of<UsageError>([&] { read(false); });
  EXPECT_NE(said.find("1 tensors match; missing in the file: own; not in the model: stranger; of "
                      "another shape: wider[2:4, :] of [4, 3] in the file, [2, 2] in the model"),
            std::string::npos)
      << said;
  const Weights weights = read(true);
  EXPECT_EQ(weights.report.loaded, std::vector<std::string>{"rows"});
  // No more than is wanted, and what isn't there as it is.
  EXPECT_EQ(weights.state.model.size(), 3u);
  EXPECT_TRUE(
      weights.state.model.at("rows").equal(torch::arange(6, 12).to(torch::kFloat).view({2, 3})));
  EXPECT_EQ(weights.state.parts.at("rows").begin, (std::vector<std::int64_t>{2, 0}));
  EXPECT_TRUE(weights.state.model.at("wider").equal(torch::ones({2, 2})));
  EXPECT_EQ(weights.state.model.at("own").item<float>(), 7);
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

}  // namespace
}  // namespace convoy::train
