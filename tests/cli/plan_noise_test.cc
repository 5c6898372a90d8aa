// convoy plan noise: trainings whose gradients' noise is measured.
#include <fcntl.h>
#include <sys/file.h>

#include "convoy/base/descriptor.h"
#include "tests/cli/plan_fixture.h"

namespace convoy::cli {
namespace {

class PlanNoiseTest : public PlanFixture {};

TEST_F(PlanNoiseTest, SaysWhichBatchTheNoiseNames) {
  measure();
  // With the plan's rate pictures as these are learned at once.
  const Words quick = words("noise", {"--windows", "6", "--batch", "32", "--parts", "2"});
  const JobResult soon = Job(quick).finish();
  EXPECT_EQ(soon.exit_status, 2);
  EXPECT_TRUE(has(soon.out, "batch 32 in 2 parts, rate 0.02, seed 1\n")) << soon.out;
  EXPECT_TRUE(has(soon.err, "too few to tell anything of their noise")) << soon.err;
  // In the folder where the plan is, beside what a killed one has left: no process has this number.
  make_folders(plan_ + "/trials/4194305-abcdef");
  test::spill(plan_ + "/trials/4194305-abcdef/lock", "");
  std::string slow = "cd " + scratch_.path() + " && exec " + convoy_program();
  for (const std::string& word : quick) slow += " " + (word == plan_ ? "plan" : word);
  const JobResult result = Job({"-c", slow + " --rate 0.0005"}, {}, "/bin/sh").finish();
  ASSERT_EQ(result.exit_status, 0) << result.out << result.err;
  EXPECT_TRUE(has(result.out, "train_loss 0.5: ")) << result.out;
  EXPECT_TRUE(has(result.out, "/M, whose alpha/N_inf is 4")) << result.out;
  EXPECT_FALSE(std::filesystem::exists(plan_ + "/trials"));
  const std::vector<Json> rows = written();
  ASSERT_GE(rows.size(), 7u);
  const Json& last = rows.back();
  EXPECT_EQ(last["kind"], "noise");
  EXPECT_EQ(last["metric"], "train_loss");
  EXPECT_EQ(last["target"], 0.5);
  EXPECT_EQ(last["batch"], 32);
  EXPECT_EQ(last["parts"], 2);
  EXPECT_EQ(last["learning_rate"], 0.0005);
  EXPECT_NEAR(last["plan_batch"].get<double>(), 40, 4);
  const int updates = last["updates"];
  // An update in which the rest of an epoch is too small to be cut has no measurement.
  int measurements = 0, before = 0;
  for (int i = 0; i < 6; ++i) {
    const Json& window = rows[static_cast<std::size_t>(i)];
    EXPECT_EQ(window["kind"], "noise_window");
    EXPECT_GT(window["first_update"], before);
    before = window["last_update"];
    measurements += window["measurements"].get<int>();
  }
  EXPECT_EQ(before, updates);
  EXPECT_EQ(measurements, updates);
  // Numbers of a training that went from noise to almost none; what they are is up to rounding.
  const double batch = last["noise_batch"];
  EXPECT_GT(batch, 0);
  EXPECT_LE(last["noise_batch_low"], batch);
  EXPECT_GE(last["noise_batch_high"], batch);
  EXPECT_NEAR(
      last["updates_at_infinity"].get<double>() + last["noise_sensitivity"].get<double>() / 32,
      updates, 1e-6);
}

// The recipe's batch, and a training that ends too soon; only the points are needed of the folder.
TEST_F(PlanNoiseTest, SaysWhereTheTargetWasNotReached) {
  const Planned plan = planned("0.5,0.001");
  PlanFolder(plan_, plan, false)
      .add({.batch = 40, .learning_rate = 0.04, .seed = 1, .updates = 9, .reached = {}}, {});
  // Another process's, whose number is none here: it may be in a container of its own.
  const std::string others = plan_ + "/trials/4194305-abcdef";
  make_folders(others);
  const Descriptor lock(open((others + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  ASSERT_EQ(flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  const JobResult result = Job(words("noise", {"--longest", "1.5", "--rate", "1e-5"})).finish();
  ASSERT_EQ(result.exit_status, 0) << result.out << result.err;
  EXPECT_TRUE(std::filesystem::exists(others));
  EXPECT_TRUE(has(result.out, "batch 40 in 4 parts, rate 1e-05, seed 1\n")) << result.out;
  EXPECT_TRUE(has(result.out, "train_loss 0.001 was not reached in 15 updates; --longest"))
      << result.out;
  const std::vector<Json> rows = written();
  ASSERT_EQ(rows.size(), 8u);  // seven windows of two or three
  EXPECT_TRUE(rows.back()["target"].is_null());
  EXPECT_EQ(rows.back()["updates"], 15);
  EXPECT_FALSE(rows.back().contains("plan_batch"));
  EXPECT_TRUE(has(complaint(words("noise", {"--longest", "0.5", "--rate", "1e-5"})),
                  "the training took 5 updates, too few to tell anything of their noise"));
  EXPECT_TRUE(
      has(complaint(words("noise", {"--rate", "1e6"})), "diverged; choose a smaller --rate"));
}

// Parts of one picture are none for batch normalization.
TEST_F(PlanNoiseTest, SaysThatBatchesCantBeCut) {
  std::string recipe = kRecipe;
  const auto replace = [&recipe](const std::string& from, const std::string& to) {
    recipe.replace(recipe.find(from), from.size(), to);
  };
  replace("\"lenet\"", "\"resnet18\"");
  replace("mean = [0.1]", "channels = 3\nmean = [0.1, 0.1, 0.1]");
  replace("deviation = [0.3]", "deviation = [0.3, 0.3, 0.3]");
  recipe += "[evaluation]\nfrom = \"training\"\nfraction = 0.005\n";
  test::spill(recipe_, recipe);
  const Planned plan = planned("0.001");
  PlanFolder(plan_, plan, false)
      .add({.batch = 3, .learning_rate = 0.04, .seed = 1, .updates = 9, .reached = {}}, {});
  const std::string text =
      complaint(words("noise", {"--batch", "2", "--longest", "0.1", "--rate", "1e-5"}));
  EXPECT_TRUE(has(text, "the noise was measured in 0 of 20 updates")) << text;
  EXPECT_TRUE(has(text, "batches of 2 can't be cut into parts")) << text;
}

TEST_F(PlanNoiseTest, MistakesAreNamed) {
  EXPECT_TRUE(has(complaint(words("noise", {})), "there are no points in " + plan_));
  measure();
  EXPECT_TRUE(has(complaint(words("noise", {"--batch", "1"})),
                  "--batch 1: it takes from 2, whose parts can be compared with it, to all 400"));
  EXPECT_TRUE(has(complaint(words("noise", {"--batch", "401"})), "--batch 401"));
  EXPECT_TRUE(
      has(complaint(words("noise", {"--set", "optimizer.momentum=0.5"})), "are of another recipe"));
  EXPECT_TRUE(has(complaint(words("noise", {"--parts", "1"})), "--parts"));
}

}  // namespace
}  // namespace convoy::cli
