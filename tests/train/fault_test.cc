// Batches that are run once more, since their loss or gradient is not finite: what is found.
#include <ATen/record_function.h>

#include <cstring>
#include <limits>
#include <memory>

#include "convoy/base/error.h"
#include "convoy/data/epoch_order.h"
#include "convoy/model/modules.h"
#include "convoy/train/checkpoint_folder.h"
#include "tests/train/said.h"
#include "tests/train/trainer_fixture.h"
#include "train/diverged.h"

namespace convoy::train {
namespace {

constexpr double kLarge = 1000;  // no activation of another sample is as large

// Stripes, one of which is as large as no other, or no number.
class MarkedStripes final : public data::Dataset {
 public:
  MarkedStripes(std::size_t size, std::int64_t sample, bool broken)
      : inner_(size),
        sample_(sample),
        pixel_(broken ? std::numeric_limits<float>::quiet_NaN() : 1e6f) {}
  std::size_t size() const override { return inner_.size(); }
  const std::vector<std::string>& classes() const override { return inner_.classes(); }
  data::Record read(std::size_t i, std::vector<std::byte>& scratch) const override {
    data::Record record = inner_.read(i, scratch);
    if (static_cast<std::int64_t>(i) != sample_) return record;
    const std::vector<float> pixels(36, pixel_);
    scratch.resize(record.bytes.size());
    std::memcpy(scratch.data(), pixels.data(), scratch.size());
    record.bytes = scratch;
    return record;
  }
  std::string key(std::size_t i) const override { return inner_.key(i); }
  std::int64_t label(std::size_t i) const override { return inner_.label(i); }
  std::uint64_t fingerprint() const override { return inner_.fingerprint(); }

 private:
  testing_data::Stripes inner_;
  std::int64_t sample_;
  float pixel_;
};

// Whose gradient is no number.
struct BrokenGradient : torch::autograd::Function<BrokenGradient> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0] * std::numeric_limits<double>::quiet_NaN()};
  }
};

// What a network was given in training, a number a forward pass.
using SeenSums = std::shared_ptr<std::vector<double>>;

// Passes on what it gets, but for batches with a marked sample.
torch::Tensor trap(const torch::Tensor& x, const std::string& how, const SeenSums& seen) {
  seen->push_back(x.detach().sum().item<double>());
  if (x.detach().abs().max().item<double>() < kLarge) return x * 1;
  if (how == "output") return x + std::numeric_limits<double>::infinity();
  if (how == "gradient") return x + (x - x.detach()).sqrt();
  return BrokenGradient::apply(x);
}

class FaultTrapImpl final : public torch::nn::Module {
 public:
  FaultTrapImpl(std::string how, SeenSums seen) : how_(std::move(how)), seen_(std::move(seen)) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return is_training() ? trap(x, how_, seen_) : x * 1;
  }

 private:
  std::string how_;
  SeenSums seen_;
};
TORCH_MODULE(FaultTrap);

// A network that is code, with dropout from LibTorch's generator, and no layer around the trap.
class FaultCode final : public model::Network {
 public:
  FaultCode(std::int64_t classes, SeenSums seen)
      : classes_(classes),
        seen_(std::move(seen)),
        conv_(register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3)))),
        fc_(register_module("fc", torch::nn::Linear(64, classes))) {}
  torch::Tensor forward(torch::Tensor x) override {
    x = torch::dropout(conv_(x), 0.5, is_training());
    if (is_training()) x = trap(x, "output", seen_);
    return fc_(x.flatten(1));
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return classes_; }

 private:
  std::int64_t classes_;
  SeenSums seen_;
  torch::nn::Conv2d conv_;
  torch::nn::Linear fc_;
};

class FaultTest : public TrainerTest {
 protected:
  // Of the marked sample: the first epoch's third batch, and where it is in that.
  static constexpr std::size_t kBatch = 12, kBefore = 2 * kBatch, kIndex = 7;

  void SetUp() override {
    TrainerTest::SetUp();
    registry_.add_reader(
        "marked",
        [](const Options& o) {
          return std::make_shared<MarkedStripes>(static_cast<std::size_t>(o.integer("size")),
                                                 o.integer("sample"), o.flag("broken"));
        },
        {{"size", std::int64_t{61}, "samples"},  // as in kRecipe, whose reader is another one
         {"sample", std::int64_t{-1}, "that is marked; -1: none"},
         {"broken", false, "it is no number"}});
    registry_.add_model(
        "trapped",
        [this](const ModelRequest& r) -> std::shared_ptr<model::Network> { return trapped(r); },
        {{"how", std::string("output"), "what isn't finite"},
         {"norm", false, "batch normalization behind the trap"},
         {"dropout", 0.0, "before it"}});
    registry_.add_model("code", [this](const ModelRequest& r) -> std::shared_ptr<model::Network> {
      return std::make_shared<FaultCode>(r.classes, seen_);
    });
  }

  std::shared_ptr<model::Network> trapped(const ModelRequest& r) const {
    model::ModuleList list("Trapped", {1, 6, 6});
    list.add("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3)));
    const double dropout = r.options.number("dropout");
    if (dropout > 0) list.add("drop", torch::nn::Dropout(dropout));
    list.add("trap", FaultTrap(r.options.text("how"), seen_));
    if (r.options.flag("norm")) list.add("bn", torch::nn::BatchNorm2d(4));
    list.add("relu", torch::nn::ReLU()).add("flat", torch::nn::Flatten());
    list.add("fc", torch::nn::Linear(64, r.classes));
    return list.network();
  }

  static std::size_t marked() {
    return data::EpochOrder(61, 1, 0).samples({kBefore + kIndex, kBefore + kIndex + 1}).front();
  }
  static bool holds(const data::Range& range, std::size_t index) {
    return range.begin <= index && index < range.end;
  }
  static int rank_of_mark() {
    int rank = 0;
    while (!holds(data::even_share({0, kBatch}, rank, all().size()), kIndex)) ++rank;
    return rank;
  }
  static std::string on_its_rank() {
    return all().size() == 1 ? "" : ", on rank " + std::to_string(rank_of_mark());
  }

  Recipe marked_recipe(const std::string& name, Overrides overrides,
                       std::size_t sample = marked()) const {
    overrides.insert(
        overrides.end(),
        {"data.reader=marked", "data.train.sample=" + std::to_string(sample),
         "checkpoint.every_steps=1", "checkpoint.keep=1", "checkpoint.keep_best=false"});
    return recipe(name, overrides);
  }
  Recipe trapped_recipe(const std::string& name, const std::string& how,
                        Overrides overrides = {}) const {
    overrides.insert(overrides.begin(), {"model.name=trapped", "model.options.how=" + how});
    return marked_recipe(name, overrides);
  }

  // What is said, alike on all ranks, of a run that ends with this update, which is not made.
  std::string said_at_the_end(const Recipe& r, int update = 3) {
    TrainerOptions options;
    options.progress = false;
    Trainer trainer(test_world(), registry_, r, options);
    const std::string said = test::message_of<Failure>([&] { trainer.run(); });
    for (const std::string& other : all().gather_text(said)) EXPECT_EQ(other, said);
    EXPECT_TRUE(said.starts_with(kDiverged)) << said;
    EXPECT_FALSE(at::hasThreadLocalCallbacks());
    const std::string newest = CheckpointFolder(r.output.folder + "/checkpoints").newest();
    EXPECT_TRUE(newest.ends_with("step-00000000000" + std::to_string(update - 1)))
        << newest << ": " << said;
    const State saved = state_of(newest);
    for (const auto& parameter : trainer.module().named_parameters())
      EXPECT_TRUE(parameter.value().equal(saved.model.at(parameter.key()))) << parameter.key();
    all().barrier();
    return said;
  }
  static std::string where(const Recipe& r) {
    const auto ends = rows(r, "end");
    return ends.size() == 1 ? ends[0]["where"].get<std::string>() : "";
  }

  SeenSums seen_ = std::make_shared<std::vector<double>>();
};

TEST_F(FaultTest, NamesTheLayerWhoseOutputIsNotFinite) {
  const Recipe r = trapped_recipe("output", "output");
  expect_part(said_at_the_end(r),
              "the loss of step 3 is nan; run once more, the first layer whose output isn't finite "
              "is 'trap' (FaultTrap)" +
                  on_its_rank() + "; the last checkpoint before it is ");
  EXPECT_EQ(where(r), "trap");
  EXPECT_EQ(rows(r, "step").size(), 2u);
  all().barrier();
}

// The loss is finite.
TEST_F(FaultTest, NamesTheLayerWhoseGradientIsNotFinite) {
  for (const std::string how : {"gradient", "function"}) {
    const Recipe r = trapped_recipe(how, how);
    const std::string said = said_at_the_end(r);
    expect_part(said, "the norm of the gradient of step 3 is ");
    expect_part(said,
                ", with which no update was made; run once more, the first layer whose gradient "
                "isn't finite is 'trap' (FaultTrap), at " +
                    std::string(how == "gradient" ? "SqrtBackward0" : "BrokenGradient") +
                    on_its_rank());
    EXPECT_EQ(where(r), "trap");
    all().barrier();
  }
}

// By numbers of samples, and from LibTorch's generator.
TEST_F(FaultTest, DropsTheSameUnitsAgain) {
  const auto expect_same = [this] {
    ASSERT_GE(seen_->size(), 4u);
    const auto last = seen_->end();
    EXPECT_EQ(last[-1], last[-2]);
    EXPECT_NE(last[-2], last[-3]);
  };
  expect_part(said_at_the_end(trapped_recipe("drop", "output", {"model.options.dropout=0.5"})),
              "is 'trap' (FaultTrap)");
  expect_same();
  seen_->clear();
  const Recipe r = marked_recipe("code", {"model.name=code"});
  expect_part(said_at_the_end(r),
              "run once more, the first output that isn't finite is that of the operation 'add', "
              "behind the layer 'conv' (Conv2d)" +
                  on_its_rank());
  EXPECT_EQ(where(r), "add");
  expect_same();
  all().barrier();
}

TEST_F(FaultTest, NamesTheMicroBatch) {
  const data::Range share = data::even_share({0, kBatch}, rank_of_mark(), all().size());
  int part = 0;
  while (!holds(data::even_share({0, share.size()}, part, 2), kIndex - share.begin)) ++part;
  if (all().size() == 1 || all().size() == 3) EXPECT_EQ(part, 1);
  expect_part(said_at_the_end(trapped_recipe("parts", "gradient", {"training.accumulate=2"})),
              "is 'trap' (FaultTrap), at SqrtBackward0, in micro-batch " +
                  std::to_string(part + 1) + on_its_rank());
}

// Of the last batch, of one sample.
TEST_F(FaultTest, RanksWithoutSamplesTakePart) {
  const std::size_t sample = data::EpochOrder(61, 1, 0).samples({60, 61}).front();
  int rank = 0;
  while (!holds(data::even_share({0, 1}, rank, all().size()), 0)) ++rank;
  const std::string on = all().size() == 1 ? "" : ", on rank " + std::to_string(rank);
  const Recipe r = marked_recipe("few", {"model.name=trapped", "model.options.how=output"}, sample);
  expect_part(said_at_the_end(r, 6), "is 'trap' (FaultTrap)" + on + "; the last checkpoint");
}

// What is not finite on one rank is so on all of them behind it.
TEST_F(FaultTest, NamesTheRankThoughStatisticsAreOfAll) {
  for (const std::string how : {"output", "gradient"}) {
    for (const std::string statistics : {"local", "synchronized"}) {
      const Recipe r = trapped_recipe(
          how + "-" + statistics, how,
          {"model.options.norm=true", "data.drop_last=true", "sync.batch_norm=" + statistics});
      const std::string said = said_at_the_end(r);
      expect_part(said, "is 'trap' (FaultTrap)");
      expect_part(said, on_its_rank() + "; the last checkpoint");
    }
  }
}

TEST_F(FaultTest, NamesTheSample) {
  const Recipe r = marked_recipe("sample", {"data.train.broken=true"});
  const std::string sample = "sample " + std::to_string(marked());
  const std::string said = said_at_the_end(r);
  expect_part(said, "run once more, an input isn't finite: 'images' of " + sample + " (stripes[" +
                        std::to_string(marked()) + "])" + on_its_rank());
  expect_part(said, ". Look at the data, and at what prepares it");
  EXPECT_EQ(where(r), sample);
  EXPECT_EQ(rows(r, "end").at(0)["cause"], "data");
  all().barrier();
  // The recipe is not to blame: where the data is mended, it may stay as it is.
  const std::string again = refusal(r, kResumeAuto);
  expect_part(again, "('" + sample +
                         "'), and this recipe is the same: from step 2 it would end so "
                         "again, unless the data has been mended. Look at the data, and at");
  expect_part(again, "; then name the checkpoint to go on from with --resume CHECKPOINT");
  all().barrier();
}

TEST_F(FaultTest, NamesTheParameter) {
  std::shared_ptr<model::Network> made;
  registry_.add_model("kept", [&](const ModelRequest& r) -> std::shared_ptr<model::Network> {
    made = std::make_shared<testing_data::Small>(r.classes, false, 0, false, calls_);
    return made;
  });
  calls_->on_training = [&] {
    const torch::NoGradGuard no_grad;
    if (calls_->training == 3)
      made->named_parameters()["conv.weight"].fill_(std::numeric_limits<double>::infinity());
  };
  const Recipe r = recipe("parameter", {"model.name=kept"});
  expect_part(refusal<Failure>(r),
              "run once more, the parameter 'conv.weight' was not finite before it; there is no ");
  all().barrier();
  EXPECT_EQ(where(r), "conv.weight");
  all().barrier();
}

}  // namespace
}  // namespace convoy::train
