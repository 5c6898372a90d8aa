// Networks that are no one function of their parameters, and such as leave some of them out.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/train/sandblaster_fixture.h"

namespace convoy::train {
namespace {

// Softmax, with something that is no part of a function of its parameters.
class Odd final : public model::Network {
 public:
  Odd(std::int64_t classes, bool counts) : classes_(classes), counts_(counts) {
    fc_ = register_module("fc", torch::nn::Linear(36, classes));
    if (counts)
      passes_ = register_buffer("passes", torch::zeros({1}));
    else
      spare_ = register_module("spare", torch::nn::Linear(5, 7));
  }
  torch::Tensor forward(torch::Tensor x) override {
    if (counts_ && is_training()) passes_ += 1;
    return fc_(x.flatten(1));
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return classes_; }

 private:
  std::int64_t classes_;
  bool counts_;
  torch::nn::Linear fc_{nullptr}, spare_{nullptr};
  torch::Tensor passes_;
};

// Softmax of what dropout leaves. Its first weights need no generator either.
class Thinned final : public model::Network {
 public:
  explicit Thinned(std::int64_t classes) : classes_(classes) {
    fc_ = register_module("fc", torch::nn::Linear(36, classes));
    const torch::NoGradGuard no_grad;
    fc_->weight.copy_(torch::linspace(-0.1, 0.1, fc_->weight.numel()).view({classes, 36}));
    fc_->bias.zero_();
  }
  torch::Tensor forward(torch::Tensor x) override {
    return fc_(torch::dropout(x.flatten(1), 0.5, is_training()));
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return classes_; }

 private:
  std::int64_t classes_;
  torch::nn::Linear fc_{nullptr};
};

// Whatever is drawn by chance, each evaluation is of the same function.
TEST_F(SandblasterTest, AugmentationAndDropoutAreTheSameInEachEvaluation) {
  registry_.add_model("thinned",
                      [](const ModelRequest& r) { return std::make_shared<Thinned>(r.classes); });
  std::vector<double> before;
  for (const std::uint8_t level : {0, 2}) {
    const Recipe r =
        recipe({"model={name=\"thinned\"}", "data.augment.crop=random_padded",
                "data.augment.padding=2", "data.augment.flip=true", "sandblaster.replicas=1"});
    FakeBatchJob<double> job(r, level);
    const Outcome outcome = run(job, r);
    ASSERT_EQ(outcome.error, "");
    // A function that changed between evaluations would have no minimum to come near to.
    EXPECT_LT(job.state().loss, 1.0);
    const std::vector<double>& mine = job.weights(job.state().weights);
    if (before.empty()) before = mine;
    EXPECT_EQ(mine, before);
  }
}

TEST_F(SandblasterTest, NetworksThatAreNoOneFunctionAreRefused) {
  const Recipe r =
      recipe({"model={name=\"small\", options={norm=true}}", "sandblaster.replicas=1"});
  FakeBatchJob<double> job(r, 1);
  const Outcome outcome = run(job, r);
  EXPECT_NE(outcome.error.find("the network has batch normalization ('bn.running_mean')"),
            std::string::npos)
      << outcome.error;
}

// One whose training passes change a buffer that no optimizer knows.
TEST_F(SandblasterTest, ABufferThatChangesIsRefused) {
  registry_.add_model("counting",
                      [](const ModelRequest& r) { return std::make_shared<Odd>(r.classes, true); });
  const Recipe r = recipe({"model={name=\"counting\"}", "sandblaster.replicas=1"});
  FakeBatchJob<double> job(r, 1);
  const Outcome outcome = run(job, r);
  EXPECT_NE(outcome.error.find("a pass in training changes 'passes' of the network"),
            std::string::npos)
      << outcome.error;
}

TEST_F(SandblasterTest, ParametersThatNothingUsesStayAsTheyAre) {
  registry_.add_model(
      "spare", [](const ModelRequest& r) { return std::make_shared<Odd>(r.classes, false); });
  const Recipe r = recipe({"model={name=\"spare\"}", "sandblaster.replicas=1"});
  FakeBatchJob<double> job(r, 1);
  std::vector<double> first;
  job.before_fetch = [&](std::uint64_t, const optim::VectorName& name) {
    if (name == optim::VectorName{}) first = job.weights(name);
  };
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  const std::vector<double>& last = job.weights(job.state().weights);
  std::size_t changed = 0, alike = 0;
  for (std::size_t i = 0; i < last.size(); ++i) ++(last[i] == first[i] ? alike : changed);
  EXPECT_EQ(alike, 5u * 7 + 7);
  EXPECT_EQ(changed, 36u * 3 + 3);
}

}  // namespace
}  // namespace convoy::train
