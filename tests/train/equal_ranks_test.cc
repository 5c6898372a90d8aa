// N ranks train what one process does, dropout and first weights included.
#include <gtest/gtest.h>

#include "convoy/data/epoch_order.h"
#include "convoy/model/dropout.h"
#include "convoy/model/factory.h"
#include "convoy/model/randomness.h"
#include "tests/train/trainer_fixture.h"

namespace convoy::train {
namespace {

constexpr std::size_t kSamples = 18, kBatch = 7;  // batches of 7, 7 and 4: shares of unequal sizes

// Pictures of noise, brighter by their class.
class Noise final : public data::Dataset {
 public:
  explicit Noise(data::Shape shape)
      : shape_(shape), classes_{"a", "b", "c"}, each_(shape.channels * shape.height * shape.width) {
    pixels_.resize(kSamples * each_);
    for (std::size_t i = 0; i < pixels_.size(); ++i) {
      pixels_[i] = static_cast<float>(RandomStream(5, i).uniform() - 0.5) +
                   0.3f * static_cast<float>(label(i / each_));
    }
  }
  std::size_t size() const override { return kSamples; }
  const std::vector<std::string>& classes() const override { return classes_; }
  data::Record read(std::size_t i, std::vector<std::byte>&) const override {
    return {std::as_bytes(std::span(pixels_).subspan(i * each_, each_)), data::Encoding::planar_f32,
            shape_, label(i)};
  }
  std::string key(std::size_t i) const override { return "noise[" + std::to_string(i) + "]"; }
  std::int64_t label(std::size_t i) const override { return static_cast<std::int64_t>(i % 3); }
  std::uint64_t fingerprint() const override { return each_; }

  torch::Tensor images(const std::vector<std::size_t>& samples) const {
    torch::Tensor all = torch::empty(
        {static_cast<std::int64_t>(samples.size()), shape_.channels, shape_.height, shape_.width});
    auto* out = static_cast<float*>(all.mutable_data_ptr());
    for (const std::size_t i : samples) {
      std::memcpy(out, pixels_.data() + i * each_, each_ * sizeof(float));
      out += each_;
    }
    return all;
  }

 private:
  data::Shape shape_;
  std::vector<std::string> classes_;
  std::size_t each_;
  std::vector<float> pixels_;
};

struct Case {
  const char* name;
  const char* model;
  data::Shape image;
  std::vector<std::string> overrides;
  model::ModelOptions options;
  double float32_tolerance;
  double rate = 0.02;
  int epochs = 2;  // of three steps
};

// One whose forward is code, with two layers of dropout.
class Code final : public model::Network {
 public:
  Code() : Network("Code") {
    hidden_ = register_module("hidden", torch::nn::Linear(36, 50));
    inner_ = register_module("inner", model::Dropout(0.5));
    outer_ = register_module("outer", model::Dropout(0.3));
    fc_ = register_module("fc", torch::nn::Linear(50, 3));
  }
  torch::Tensor forward(torch::Tensor images) override {
    return fc_(inner_(torch::relu(hidden_(outer_(images.flatten(1))))));
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return 3; }

 private:
  torch::nn::Linear hidden_{nullptr}, fc_{nullptr};
  model::Dropout inner_{nullptr}, outer_{nullptr};
};

std::shared_ptr<model::Network> make_network(const Case& c) {
  if (std::string(c.model) != "code") return model::make_model(c.model, c.options, 1);
  torch::manual_seed(1);
  const auto net = std::make_shared<Code>();
  model::name_layers(*net);
  return net;
}

// The reference: whole batches, no ranks, no trainer.
model::Tensors plain_loop(const Case& c, torch::Dtype type) {
  const auto net = make_network(c);
  net->to(type);
  const Noise data(c.image);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(c.rate).momentum(0.9));
  std::uint64_t step = 0;
  for (int epoch = 0; epoch < c.epochs; ++epoch) {
    const data::EpochOrder order(kSamples, 1, static_cast<std::uint64_t>(epoch));
    for (std::size_t begin = 0; begin < kSamples; begin += kBatch) {
      const auto samples = order.samples({begin, std::min(begin + kBatch, kSamples)});
      std::vector<std::int64_t> labels;
      for (const std::size_t i : samples) labels.push_back(data.label(i));
      const model::RandomScope scope(1, step++, samples);
      optimizer.zero_grad();
      torch::nn::functional::cross_entropy(net->forward(data.images(samples).to(type)),
                                           torch::tensor(labels))
          .backward();
      optimizer.step();
    }
  }
  EXPECT_EQ(step, static_cast<std::uint64_t>(3 * c.epochs));
  model::Tensors all = net->parameters();
  for (const auto& buffer : net->buffers()) all.push_back(buffer);
  return all;
}

class EqualRanks : public TrainerTest, public testing::WithParamInterface<Case> {
 protected:
  // The largest difference of a trained parameter or buffer from the plain loop's, as a part of
  // the tensor's largest value; on rank 0.
  double difference(const std::string& precision, const std::vector<std::string>& more = {}) {
    const Case& c = GetParam();
    registry_.add_reader("noise", [&c](const Options&) { return std::make_shared<Noise>(c.image); },
                         {});
    registry_.add_model("code", [](const ModelRequest&) { return std::make_shared<Code>(); });
    const std::string text = std::string(R"(
name = "equal"
[model]
name = ")") + c.model + R"("
[data]
reader = "noise"
[optimizer]
lr = 0.02
momentum = 0.9
[schedule]
name = "constant"
[training]
batch = 7
epochs = 2
[output]
tensorboard = false
)";
    std::vector<std::string> overrides{
        "output.folder=\"" + folder_ + "/run\"", "precision=" + precision,
        "optimizer.lr=" + std::to_string(c.rate), "training.epochs=" + std::to_string(c.epochs)};
    overrides.insert(overrides.end(), c.overrides.begin(), c.overrides.end());
    overrides.insert(overrides.end(), more.begin(), more.end());
    const RunResult result = train(parse_recipe({text, "test.toml", "/"}, overrides,
                                                registry_.vocabulary(), Files::must_exist));
    EXPECT_EQ(result.steps, 3 * c.epochs);
    if (!first()) return 0;
    const auto net = make_network(c);
    const auto wanted = plain_loop(c, precision == "float64" ? torch::kDouble : torch::kFloat);
    const State state = state_of(result.checkpoint);
    double most = 0;
    std::size_t i = 0;
    const auto compare = [&](const std::string& name) {
      const auto mine = state.model.at(name).to(torch::kDouble);
      const auto other = wanted.at(i++).detach().to(torch::kDouble);
      const double largest = std::max(other.abs().max().item<double>(), 1e-3);
      most = std::max(most, (mine - other).abs().max().item<double>() / largest);
    };
    for (const auto& item : net->named_parameters()) compare(item.key());
    for (const auto& item : net->named_buffers()) compare(item.key());
    EXPECT_EQ(i, wanted.size());
    std::printf("%s %s: %.2g\n", c.name, precision.c_str(), most);
    return most;
  }
};

// In float64 rounding alone stays under 1e-12.
TEST_P(EqualRanks, InDouble) { EXPECT_LT(difference("float64"), 1e-9); }

// Micro-batches and the layout of images change nothing either.
TEST_P(EqualRanks, InDoubleWithAccumulationAndChannelsLast) {
  if (std::string(GetParam().model) == "resnet18") return;  // whose statistics are a micro-batch's
  EXPECT_LT(difference("float64", {"training.accumulate=2", "model.channels_last=true"}), 1e-9);
}

// Sums of gradients in another order differ by some 1e-7 of their largest terms, and six steps with
// momentum carry that on: to some 5e-7 of a tensor's largest value, and 1e-5 leaves room for other
// kernels. Normalizations over few values amplify it: hence ResNet-18 takes fewer and smaller steps
// from blocks that begin as the identity, and is given 1e-4.
TEST_P(EqualRanks, InFloat) { EXPECT_LT(difference("float32"), GetParam().float32_tolerance); }

INSTANTIATE_TEST_SUITE_P(
    Networks, EqualRanks,
    testing::Values(Case{"alexnet",
                         "alexnet",
                         {3, 63, 63},
                         {"model.options.hidden=64"},
                         {.classes = 3, .hidden = 64},
                         1e-5},
                    Case{"lenet", "lenet", {1, 28, 28}, {}, {.classes = 3}, 1e-5},
                    Case{"code", "code", {1, 6, 6}, {}, {}, 1e-5},
                    // Of this size, every rank has several values of a channel.
                    Case{"resnet18",
                         "resnet18",
                         {3, 64, 64},
                         {"sync.batch_norm=synchronized", "model.options.zero_init_residual=true"},
                         {.classes = 3, .zero_init_residual = true},
                         1e-3,
                         0.005,
                         1}),
    [](const auto& info) { return std::string(info.param.name); });

// A plugin's network that is data: described without being built, and built from the seed.
TEST_F(TrainerTest, RegistryTakesBlueprints) {
  registry_.add_model("data", [](const ModelRequest& request) {
    const std::int64_t pixels = request.image.channels * request.image.height * request.image.width;
    return model::Blueprint{
        "Data",
        {{request.image.channels, request.image.height, request.image.width}},
        {{"all",
          {"images"},
          {{"flatten", model::layer::Flatten(), {"images"}, {}},
           {"fc", model::layer::Linear{pixels, request.classes}, {"flatten"}, {}}},
          {"fc"}}}};
  });
  const Options none;
  const TaskFacts facts;
  const ModelRequest request{4, {1, 6, 6}, none, facts, 7};
  const auto data = registry_.blueprint("data", request);
  ASSERT_TRUE(data);
  EXPECT_EQ(data->stages.size(), 1u);
  EXPECT_FALSE(registry_.blueprint("small", request));
  const auto net = registry_.make_model("data", request);
  EXPECT_EQ(net->classes(), 4);
  const auto same = registry_.make_model("data", request);
  EXPECT_TRUE(net->parameters()[0].equal(same->parameters()[0]));
  EXPECT_THROW(registry_.add_model("data", [](const ModelRequest&) { return model::Blueprint(); }),
               UsageError);
}

}  // namespace
}  // namespace convoy::train
