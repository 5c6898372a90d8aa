// The networks whose shape follows from their images, as recipes have them.
#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/export.h"
#include "convoy/train/trained.h"
#include "tests/train/many_labels.h"
#include "tests/train/trainer_fixture.h"

namespace convoy::train {
namespace {

class ZooTest : public TrainerTest {
 protected:
  using Shape = std::vector<std::int64_t>;

  void SetUp() override {
    TrainerTest::SetUp();
    testing_data::add_many_labels(registry_);
  }
  Recipe speech(const std::string& name, Overrides overrides = {}) const {
    overrides.insert(overrides.begin(), {"model.name=speech-dnn", "model.options.hidden=24",
                                         "model.options.depth=2", "training.epochs=40"});
    return recipe(name, overrides);
  }
  // For images of 6 x 6.
  Recipe local(const std::string& name, Overrides overrides = {}) const {
    overrides.insert(overrides.begin(),
                     {"model.name=local-image", "model.options.maps=[4, 5]",
                      "model.options.strides=[1, 1]", "model.options.pools=[2, 2]",
                      "model.options.pool_strides=[1, 1]", "model.options.filter=2",
                      "model.options.norm=3", "data.reader=many", "task.name=one_vs_all"});
    return recipe(name, overrides);
  }
  // The loss of the first update and the mean of the last six.
  static std::pair<double, double> losses(const Recipe& r) {
    const auto steps = rows(r, "step");
    double last = 0;
    for (std::size_t i = steps.size() - 6; i < steps.size(); ++i)
      last += steps[i]["loss"].get<double>() / 6;
    return {steps.front()["loss"].get<double>(), last};
  }
  static Shape shape_of(const RunResult& result, const std::string& tensor) {
    return state_of(result.checkpoint).model.at(tensor).sizes().vec();
  }
};

TEST_F(ZooTest, TheSpeechNetworkLearnsFromAnyImages) {
  for (const std::string precision : {"float64", "bfloat16"}) {
    const Recipe r = speech("speech-" + precision, {"precision=" + precision});
    const RunResult result = train(r);
    ASSERT_TRUE(result.evaluation);
    EXPECT_GT(result.evaluation->at("top1"), 0.8) << precision;
    if (!first()) continue;
    EXPECT_EQ(shape_of(result, "fc1.weight"), (Shape{24, 36}));
    EXPECT_EQ(shape_of(result, "fc3.weight"), (Shape{3, 24}));
  }
}

TEST_F(ZooTest, TheLocalNetworkLearnsManyLabels) {
  for (const std::string precision : {"float64", "bfloat16"}) {
    const Recipe r = local("local-" + precision, {"precision=" + precision, "training.epochs=30"});
    const RunResult result = train(r);
    if (!first()) continue;
    const auto [before, after] = losses(r);
    EXPECT_LT(after, 0.8 * before) << precision;
    EXPECT_EQ(shape_of(result, "filter1.weight"), (Shape{5, 5, 4, 1, 2, 2}));
    EXPECT_EQ(shape_of(result, "filter2.bias"), (Shape{3, 3, 5}));
    EXPECT_EQ(shape_of(result, "fc.weight"), (Shape{4, 5 * 2 * 2}));
  }
}

// Tensors of six dimensions, in files and back, and the image's shape without the data.
TEST_F(ZooTest, TheLocalNetworkIsKeptAndUsed) {
  const Recipe r = local("origin", {"training.epochs=2"});
  const RunResult before = train(r);
  all().barrier();
  const TrainedSource source = find_trained(registry_, r.output.folder, Which::newest, {});
  Trained trained(test_world(), registry_, source);
  const Evaluation again =
      trained.evaluate(registry_.open_data(r.data.reader, r.data.validation), {});
  EXPECT_NEAR(again.at("loss"), before.evaluation->at("loss"), 1e-12);
  const std::string picture = test::source_folder() + "/tests/data/fixtures/gray.png";
  EXPECT_EQ(trained.predict({picture}, 1).at(0).error, "");
  const std::string file = folder_ + "/weights.safetensors";
  if (first()) export_model(before.checkpoint, file, false);
  all().barrier();
  const RunResult after = train(local("started", {"model.weights=\"" + file + "\"", "seed=9",
                                                  "optimizer.lr=1e-13", "training.epochs=1"}));
  all().barrier();
  const State expected = state_of(before.checkpoint), got = state_of(after.checkpoint);
  EXPECT_EQ(got.model.size(), 6u);
  for (const auto& [name, tensor] : expected.model)
    EXPECT_LT((got.model.at(name) - tensor).abs().max().item<double>(), 1e-9) << name;
}

TEST_F(ZooTest, OptionsThatMakeNoNetworkAreRefused) {
  const std::vector<std::pair<Overrides, std::string>> cases{
      {{"model.options.maps=[4, 0.5]"}, "model.options.maps has to be 2 positive whole numbers"},
      {{"model.options.maps=[4, 5, 6, 7]"},
       "model.options.strides has to be 4 positive whole numbers, one for each stage"},
      {{"model.options.pools=[2]"},
       "model.options.pools has to be 2 positive whole numbers, one for each stage"},
      {{"model.options.pools=[]"},
       "model.options.pools has to be 2 positive whole numbers, one for each stage"},
      {{"model.options.maps=[4, 0]"}, "positive numbers for its filters, maps"},
      {{"model.options.preset=2B"}, "there are 80M, 330M and 1.7B"},
      {{"model.options.norm=4"},
       "stage 'local1', layer 'norm1': its window has to be of odd numbers of rows and columns"},
      {{"model.options.filter=7"},
       "stage 'local1', layer 'filter1': its kernel is larger than its input, [1, 6, 6]"}};
  int number = 0;
  for (const auto& [overrides, message] : cases) {
    const std::string name = "wrong" + std::to_string(number++);
    // What needs no image is said when the recipe is read.
    const std::string said = test::message_of<UsageError>([&] { train(local(name, overrides)); });
    EXPECT_NE(said.find(message), std::string::npos) << said;
  }
  EXPECT_NE(test::message_of<UsageError>([&] {
              speech("deep", {"model.options.depth=-1"});
            }).find("both have to be positive"),
            std::string::npos);
  // Of the preset what is not said otherwise; its pools are too large here.
  const Overrides of_preset{"model.options.maps=[]", "model.options.strides=[]",
                            "model.options.pools=[]", "model.options.pool_strides=[]",
                            "model.options.preset=330M"};
  EXPECT_EQ(refusal(local("preset", of_preset)),
            "stage 'local2', layer 'pool2': its kernel is larger than its input, [16, 2, 2]");
}

}  // namespace
}  // namespace convoy::train
