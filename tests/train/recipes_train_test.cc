// The recipes of the repository train: some updates each, on a little data in CIFAR's formats, on
// MNIST, and on tones in the place of spoken digits.
#include <cstdlib>

#include "convoy/train/trained.h"
#include "tests/data/wav_support.h"
#include "tests/train/trainer_fixture.h"

namespace convoy::train {
namespace {

// Records of `labels` bytes before the pixels, the last of which is the class.
std::string records(int count, int labels, int classes) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes += std::string(static_cast<std::size_t>(labels - 1), '\0');
    bytes += static_cast<char>(i % classes);
    for (int pixel = 0; pixel < 3 * 32 * 32; ++pixel)
      bytes += static_cast<char>((i * 37 + pixel * 11) % 251);
  }
  return bytes;
}

std::string names(int classes) {
  std::string lines;
  for (int i = 0; i < classes; ++i) lines += "class" + std::to_string(i) + "\n";
  return lines;
}

class RecipesTrain : public TrainerTest {
 protected:
  void SetUp() override {
    TrainerTest::SetUp();
    if (const char* before = std::getenv("CONVOY_DATA")) before_ = before;
    setenv("CONVOY_DATA", folder_.c_str(), 1);
    const std::string ten = folder_ + "/cifar-10-batches-bin/";
    const std::string hundred = folder_ + "/cifar-100-binary/";
    make_folders(ten);
    make_folders(hundred);
    for (int i = 1; i <= 5; ++i)
      test::spill(ten + "data_batch_" + std::to_string(i) + ".bin", records(4, 1, 10));
    test::spill(ten + "test_batch.bin", records(4, 1, 10));
    test::spill(ten + "batches.meta.txt", names(10));
    test::spill(hundred + "train.bin", records(20, 2, 100));
    test::spill(hundred + "test.bin", records(4, 2, 100));
    test::spill(hundred + "fine_label_names.txt", names(100));
  }
  void TearDown() override {
    if (before_) {
      setenv("CONVOY_DATA", before_->c_str(), 1);
    } else {
      unsetenv("CONVOY_DATA");
    }
    TrainerTest::TearDown();
  }

 private:
  std::optional<std::string> before_;
};

TEST_F(RecipesTrain, OfMiniBatchesAndOfHybridParallelism) {
  if (test_world().size() > 1) GTEST_SKIP() << "says the same on several ranks";
  int trained = 0;
  std::vector<std::filesystem::directory_entry> recipes;
  for (const char* folder : {"/recipes/mini-batch", "/recipes/hybrid"}) {
    for (const auto& entry : std::filesystem::directory_iterator(test::source_folder() + folder))
      recipes.push_back(entry);
  }
  for (const auto& entry : recipes) {
    const std::string name = entry.path().stem();
    SCOPED_TRACE(name);
    const Recipe r =
        parse_recipe(read_recipe_file(entry.path()),
                     {"output.folder=\"" + folder_ + "/" + name + "\"", "training.batch=4",
                      "training.steps=2", "evaluation.fraction=0.002", "output.tensorboard=false"},
                     registry_.vocabulary());
    const RunResult result = train(r);
    EXPECT_EQ(result.steps, 2);
    EXPECT_GT(result.evaluation->samples, 0u);
    const TrainedSource source = find_trained(registry_, r.output.folder, Which::newest, {});
    const Trained network(test_world(), registry_, source);
    const std::size_t classes = network.task().facts().lists.at("classes").size();
    const bool hundred = name.starts_with("cifar100");
    EXPECT_EQ(network.task().outputs(), hundred ? 100 : 10);
    EXPECT_EQ(classes, hundred ? 100u : name.find("evenodd") != name.npos ? 2u : 10u);
    ++trained;
  }
  EXPECT_EQ(trained, 13);
}

// Pictures in folders, padded and shifted; the rate falls to the end of the cycle.
TEST_F(RecipesTrain, OfPicturesOfCifar) {
  if (test_world().size() > 1) GTEST_SKIP() << "says the same on several ranks";
  for (int i = 0; i < 10; ++i) {
    data::Image picture{32, 32, 3, {}};
    for (int byte = 0; byte < 3 * 32 * 32; ++byte)
      picture.pixels.push_back(static_cast<std::uint8_t>((i * 37 + byte * 11) % 251));
    const std::vector<std::byte> png = data::encode_png(picture);
    for (const std::string part : {"train", "test"}) {
      const std::string made = folder_ + "/cifar10/" + part + "/class" + std::to_string(i);
      make_folders(made);
      test::spill(made + "/1.png", {reinterpret_cast<const char*>(png.data()), png.size()});
    }
  }
  const Recipe r = parse_recipe(
      read_recipe_file(test::source_folder() + "/recipes/resnet20-cifar10.toml"),
      {"output.folder=\"" + folder_ + "/run\"", "training.batch=5", "training.epochs=1"},
      registry_.vocabulary());
  const RunResult result = train(r);
  EXPECT_EQ(result.steps, 2);
  ASSERT_TRUE(result.evaluation.has_value());
  EXPECT_EQ(result.evaluation->samples, 10u);
  const auto steps = rows(r, "step");
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_LT(steps[1]["learning_rate"].get<double>(), steps[0]["learning_rate"].get<double>());
}

class SpeechRecipe : public RecipesTrain {
 protected:
  static constexpr int kFrames = 9;

  // Each digit has a pitch, and each of two speakers a recording of every number.
  void SetUp() override {
    RecipesTrain::SetUp();
    const std::string recordings = folder_ + "/fsdd/recordings/";
    if (first()) {
      make_folders(recordings);
      for (const std::string speaker : {"ann", "bob"}) {
        for (const int number : {0, 4, 5, 49}) {
          for (int digit = 0; digit < 10; ++digit) {
            const double hz = 250 * (1 + digit) + number + (speaker == "ann" ? 5 : 0);
            const std::string name =
                std::to_string(digit) + "_" + speaker + "_" + std::to_string(number) + ".wav";
            data::write_bytes(recordings + name,
                              data::wav(data::tone(hz, 200 + kFrames * 80 - 80)));
          }
        }
      }
    }
    all().barrier();
  }
  Recipe speech(Overrides more = {}) {
    more.insert(more.begin(), {"output.folder=\"" + folder_ + "/speech\"", "training.batch=36",
                               "model.options.hidden=[32]", "output.tensorboard=false"});
    return parse_recipe(read_recipe_file(test::source_folder() + "/recipes/speech/fsdd-mlp.toml"),
                        more, registry_.vocabulary());
  }
  std::string problems(const Overrides& changes) {
    return test::message_of<UsageError>([&] { speech(changes); });
  }
};

TEST_F(SpeechRecipe, LearnsWhichFrameIsWhich) {
  const Recipe r = speech();
  const RunResult result = train(r);
  EXPECT_EQ(result.steps, 6 * 2 * 2 * 10 * kFrames / 36);
  EXPECT_EQ(result.evaluation->samples, 2u * 2 * 10 * kFrames);
  EXPECT_GT(result.evaluation->at("top1"), 0.1);  // of 50 classes
  const TrainedSource source = find_trained(registry_, r.output.folder, Which::newest, {});
  Trained network(test_world(), registry_, source);
  const std::vector<std::string>& classes = network.task().facts().lists.at("classes");
  ASSERT_EQ(classes.size(), 50u);
  EXPECT_EQ(classes[17], "3.2");
  EXPECT_EQ(network.task().facts().numbers.at("image.height"), 11);
  EXPECT_EQ(network.task().facts().numbers.at("image.width"), 40);
  Options other = r.data.validation;
  other.set("context", std::int64_t{4});
  const std::shared_ptr<data::Dataset> less = registry_.open_data("speech", other);
  const std::string shape = test::message_of<UsageError>([&] { network.evaluate(less); });
  EXPECT_NE(shape.find("has images of 1 x 9 x 40; the network was trained on 1 x 11 x 40"),
            std::string::npos)
      << shape;
  const std::string refused =
      test::message_of<UsageError>([&] { network.predict(pictures(r), 5); });
  EXPECT_NE(refused.find("samples of the reader 'speech', which are none"), std::string::npos)
      << refused;
}

TEST_F(SpeechRecipe, TrainingAndValidationSeeTheSame) {
  const auto problem = [&](const std::string& change) { return problems({change}); };
  EXPECT_NE(problem("data.validation.states=4")
                .find("data.validation.states has to be the same as data.train.states"),
            std::string::npos);
  EXPECT_NE(problem("data.train.preemphasis=0").find("data.validation.preemphasis"),
            std::string::npos);
  EXPECT_NE(problem("data.validation.reference_numbers=[0, 4]").find("reference_numbers"),
            std::string::npos);
}

// Normalizing by what a network is evaluated on tells it something.
TEST_F(SpeechRecipe, WhatIsEvaluatedIsNoPartOfTheReference) {
  const auto with = [&](const std::string& trained, const std::string& reference,
                        const std::string& evaluated) {
    return problems({"data.train.numbers=" + trained, "data.validation.numbers=" + evaluated,
                     "data.train.reference_numbers=" + reference,
                     "data.validation.reference_numbers=" + reference});
  };
  const std::string said = "part of the reference, but not trained on";
  EXPECT_NE(with("[5, 49]", "[]", "[0, 4]").find(said), std::string::npos);
  EXPECT_NE(with("[5, 49]", "[4, 49]", "[0, 4]").find(said), std::string::npos);
  EXPECT_NE(with("[5, 49]", "[]", "[]").find(said), std::string::npos);
  EXPECT_EQ(with("[5, 9]", "[5, 49]", "[0, 4]"), "");
  EXPECT_EQ(with("[5, 49]", "[5, 49]", "[5, 6]"), "");  // how well it has learned these
  EXPECT_EQ(with("[]", "[]", "[]"), "");
}

TEST_F(SpeechRecipe, MistakesAreSaid) {
  int runs = 0;
  const auto expect_refused = [&](const Overrides& changes, const std::string& part) {
    Overrides all = changes;
    // Some are found once the folder is made.
    all.push_back("output.folder=\"" + folder_ + "/" + std::to_string(runs++) + "\"");
    const std::string message = refusal(speech(all));
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  };
  const auto expect_problem = [&](const Overrides& changes, const std::string& part) {
    const std::string message = problems(changes);
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  };
  expect_problem({"data.train.numbers=[5]"},
                 "data.train: speech: numbers has to be two whole numbers");
  expect_problem({"data.train.numbers=[59, 0]"}, "here the first is larger");
  expect_problem({"data.train.numbers=[5, 4.5]"}, "numbers has to be two whole numbers");
  expect_problem({"data.validation.numbers=[5, nan]"}, "data.validation: speech: numbers has to");
  expect_problem({"data.train.window=rect"}, "window is 'rect'; it can be hamming or hann");
  expect_problem({"data.train.states=8193"}, "states is 8193; it has to be from 1 to 8192");
  expect_problem({"data.train.context=-9000000000"}, "context is -2147483647; it has to be");
  expect_problem({"data.train.floor=nan"}, "a floor of nan");
  expect_problem({"data.train.high_hz=inf"}, "filters from 0 to inf Hz; both have to be finite");
  expect_problem({"data.train.low_hz=inf"}, "filters from inf to half the sampling rate; both");
  expect_problem({"data.size=32"}, "data.size is for pictures, and the reader speech has none");
  expect_problem({"data.channels=3"}, "data.channels is for pictures");
  expect_problem({"data.augment.flip=true"}, "data.augment.flip is for pictures");
  expect_problem({"data.evaluate.flip=true"}, "data.evaluate.flip is for pictures");
  expect_refused({"data.augment.brightness=0.5"}, "colors can be changed with 3 channels");
  expect_refused({"data.store=memory"}, "not for speech");
  for (const std::string units : {"1.5", "-1", "1e300", "nan"}) {
    expect_problem({"model.options.hidden=[" + units + "]"},
                   "hidden has to be positive whole numbers");
  }
}

}  // namespace
}  // namespace convoy::train
