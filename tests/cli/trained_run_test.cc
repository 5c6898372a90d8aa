// Trains the run that other tests of the program begin with (Train::take_trained_run).
#include "tests/cli/train_fixture.h"

namespace convoy::cli {
namespace {

TEST_F(Train, ARunForOtherTests) {
  fs::remove_all(trained_run());
  auto words = of_steps(command(2, "run", kOften), kTrainedSteps);
  words.insert(words.end(), {"--set", "output.folder=" + trained_run()});
  const JobResult result = Job(words).finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  for (const char* step : {"000000000009", "000000000018", "000000000020"})
    EXPECT_TRUE(fs::exists(trained_run() + "/checkpoints/step-" + step)) << step;
}

}  // namespace
}  // namespace convoy::cli
