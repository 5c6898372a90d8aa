// The recipes of the repository train: two updates each, on a little data in CIFAR's formats and on
// MNIST.
#include <cstdlib>

#include "convoy/train/trained.h"
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

}  // namespace
}  // namespace convoy::train
