// The comparison with PyTorch, of which a script plays the part: what is said of both sides, and
// what is refused. Its figures are not judged here.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench/ddp_figures.h"
#include "tests/base/scratch.h"
#include "tests/cli/job.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::json;

// A peer whose steps take half a second, as it says, and all have this loss; torch.compile doesn't
// work there.
constexpr const char* kPeer = R"(
for word in "$@"; do
  if [ "$word" = --compile ]; then
    echo '{"error": "RuntimeError: no compiler"}'
    exit 1
  fi
done
while read steps; do
  losses=2.5
  more=$steps
  while [ "$more" -gt 1 ]; do
    losses="$losses, 2.5"
    more=$((more - 1))
  done
  echo "{\"seconds\": $((steps / 2)).$((steps % 2 * 5)), \"losses\": [$losses], \"torch\": \"1.0\"}"
done
)";

// `convoy bench ddp` of lenet, two turns of two steps beside such a peer, or with what `more` says.
class DdpRun {
 public:
  explicit DdpRun(const std::vector<std::string>& more, const std::string& peer = kPeer,
                  const std::vector<std::string>& variables = {}) {
    const std::string script = scratch_.path("peer.sh");
    test::spill(script, peer);
    std::vector<std::string> words{"bench", "ddp", "--json", "-"};
    words.insert(words.end(), more.begin(), more.end());
    const std::vector<std::pair<std::string, std::string>> usual{
        {"--models", "lenet"},  {"--batch-per-rank", "4"}, {"--steps", "2"},
        {"--repetitions", "2"}, {"--python", "/bin/sh"},   {"--peer", script}};
    for (const auto& [option, value] : usual) {
      if (std::find(more.begin(), more.end(), option) == more.end())
        words.insert(words.end(), {option, value});
    }
    std::vector<std::string> all{"TMPDIR=" + scratch_.path()};
    all.insert(all.end(), variables.begin(), variables.end());
    result = Job(words, all).finish();
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) rows.push_back(Json::parse(line));
  }

  JobResult result;
  std::vector<Json> rows;
  // Beside the script.
  std::size_t left() const { return test::entries(scratch_.path()) - 1; }

 private:
  test::Scratch scratch_;
};

TEST(BenchDdp, ReportsARowPerSide) {
  const DdpRun run({"-n", "1", "--compile", "--tolerance", "10"});
  ASSERT_EQ(run.result.exit_status, 0) << run.result.err;
  ASSERT_EQ(run.rows.size(), 3u) << run.result.out;
  const std::vector<std::string> sides{"convoy", "ddp", "ddp_compile"};
  for (std::size_t i = 0; i < sides.size(); ++i) {
    EXPECT_EQ(run.rows[i].at("side"), sides[i]);
    EXPECT_EQ(run.rows[i].at("model"), "lenet");
    EXPECT_EQ(run.rows[i].at("ranks"), 1);
    EXPECT_EQ(run.rows[i].at("batch_per_rank"), 4);
    EXPECT_EQ(run.rows[i].at("allocator"), run.rows[0].at("allocator"));
  }
  const Json &convoy = run.rows[0], &ddp = run.rows[1];
  for (const Json* row : {&convoy, &ddp}) {
    EXPECT_EQ(row->at("repetitions"), 2);
    EXPECT_EQ(row->at("steps_per_repetition"), 2);
    EXPECT_FALSE(row->at("dropout").get<bool>());
  }
  // Two steps of 4 images in a second.
  EXPECT_EQ(ddp.at("images_per_s"), 8);
  EXPECT_EQ(ddp.at("torch"), "1.0");
  EXPECT_FALSE(convoy.at("torch").get<std::string>().empty());
  EXPECT_EQ(ddp.at("spread"), 0);
  EXPECT_EQ(ddp.at("ratio_to_ddp"), 1);
  EXPECT_EQ(ddp.at("first_step_s"), 0.5);
  EXPECT_EQ(ddp.at("first_loss"), 2.5);
  EXPECT_EQ(ddp.at("largest_loss_difference"), 0);
  EXPECT_DOUBLE_EQ(convoy.at("ratio_min").get<double>(),
                   convoy.at("images_per_s_min").get<double>() / 8);
  EXPECT_LE(convoy.at("ratio_min"), convoy.at("ratio_low"));
  EXPECT_LE(convoy.at("ratio_low"), convoy.at("ratio_high"));
  EXPECT_LE(convoy.at("ratio_high"), convoy.at("ratio_max"));
  EXPECT_GT(convoy.at("first_loss_difference").get<double>(), 0);
  // It has a row of its own, and the others go on.
  EXPECT_EQ(run.rows[2].at("error"), "row 'ddp_compile': RuntimeError: no compiler");
  EXPECT_EQ(run.left(), 0u);
}

TEST(BenchDdp, ComparesLossesOfTheFirstStep) {
  const DdpRun run({"-n", "3"});
  EXPECT_EQ(run.result.exit_status, 1);
  ASSERT_EQ(run.rows.size(), 2u) << run.result.err;
  EXPECT_EQ(run.rows[0].at("side"), "convoy");
  EXPECT_EQ(run.rows[0].at("threads_per_rank"), run.rows[1].at("threads_per_rank"));
  // All three together.
  EXPECT_EQ(run.rows[1].at("images_per_s"), 24);
  EXPECT_NE(run.result.err.find("lenet on 3 ranks: the first loss is "), std::string::npos)
      << run.result.err;
  EXPECT_NE(run.result.err.find(" and 2.5 with ddp, so they don't train the same"),
            std::string::npos)
      << run.result.err;
}

TEST(BenchDdp, SaysWhyThereIsNothingToCompareWith) {
  const DdpRun run({"-n", "1"}, "echo '{\"error\": \"ModuleNotFoundError: no torch\"}'\n");
  EXPECT_EQ(run.result.exit_status, 1);
  ASSERT_EQ(run.rows.size(), 2u) << run.result.err;
  EXPECT_EQ(run.rows[0].at("error"), "there is nothing to compare it with");
  EXPECT_EQ(run.rows[1].at("error"), "row 'ddp': ModuleNotFoundError: no torch");
  EXPECT_NE(run.result.err.find("1 of 1 comparisons could not be made"), std::string::npos)
      << run.result.err;
}

// The others would wait for it as long as a row has patience.
TEST(BenchDdp, EndsAllRanksWhenOneFails) {
  const DdpRun run({"-n", "3"}, R"(
case "$*" in
  *"--rank 2 "*) echo '{"error": "RuntimeError: here alone"}' ;;
  *) exec sleep 1000 ;;
esac
)");
  EXPECT_EQ(run.result.exit_status, 1);
  ASSERT_EQ(run.rows.size(), 2u) << run.result.err;
  EXPECT_EQ(run.rows[1].at("error"), "row 'ddp': RuntimeError: here alone");
  EXPECT_EQ(run.left(), 0u);
}

TEST(BenchDdp, SaysWhatIsWrongWithItsEnvironment) {
  using Case = std::pair<std::string, std::string>;
  for (const auto& [variable, complaint] : std::vector<Case>{
           {"OMP_WAIT_POLICY=ACTIVE", "OMP_WAIT_POLICY is ACTIVE: the threads of the side"},
           {"GOMP_SPINCOUNT=infinity", "GOMP_SPINCOUNT is infinity: the threads of the side"},
           {"OMP_PROC_BIND=close", "OMP_PROC_BIND is close: the command binds the ranks"},
           {"TMPDIR=/no/such/folder", "can't make a folder in /no/such/folder: set TMPDIR"}}) {
    const DdpRun run({}, kPeer, {variable});
    EXPECT_NE(run.result.exit_status, 0);
    EXPECT_NE(run.result.err.find(complaint), std::string::npos) << run.result.err;
  }
}

TEST(BenchDdp, SaysWhatIsWrong) {
  using Case = std::pair<std::vector<std::string>, std::string>;
  for (const auto& [words, complaint] : std::vector<Case>{
           {{"--models", "resnet5"}, "did you mean 'resnet50'"},
           {{"--models", "lenet,mlp"}, "--models: 'mlp' is none of those that the peer has: lenet"},
           {{"-n", "1,0"}, "-n: '0' is not a whole number from 1"},
           {{"--python", "no-such-python"}, "--python: there is no program 'no-such-python'"},
           {{"--allocator", "libnone.so"}, "--allocator: there is no library 'libnone.so'"},
           {{"--set", "optimizer.lr=1"}, "--set optimizer.lr=1: PyTorch would train something"}}) {
    const DdpRun run(words);
    EXPECT_EQ(run.result.exit_status, 2);
    EXPECT_NE(run.result.err.find(complaint), std::string::npos) << run.result.err;
  }
}

TEST(BenchDdp, RatiosAreThoseWithinRepetitions) {
  // 1, 2, 3, 4 and 5 times as fast.
  const DdpRatio ratio = ddp_ratio({10, 40, 90, 160, 250}, {10, 20, 30, 40, 50});
  EXPECT_EQ(ratio.middle, 3);
  EXPECT_EQ(ratio.least, 1);
  EXPECT_EQ(ratio.most, 5);
  // A median of five drawn ratios is 1 with a chance of 5.8%, and 1 or 2 with one of 31.7%.
  EXPECT_EQ(ratio.low, 1);
  EXPECT_EQ(ratio.high, 5);
  const DdpRatio one = ddp_ratio({3}, {2});
  EXPECT_EQ(one.low, 1.5);
  EXPECT_EQ(one.high, 1.5);
}

TEST(BenchDdp, LossesAreComparedAsFarAsSamplesAreTheSame) {
  DdpComparison comparison;
  comparison.model = "lenet";
  comparison.sides.resize(2);
  DdpSide &convoy = comparison.sides[0], &ddp = comparison.sides[1];
  convoy.name = "convoy";
  ddp.name = "ddp";
  convoy.losses = {2, 2, 2};
  ddp.losses = {2, 1, 4};
  EXPECT_EQ(largest_difference(convoy, ddp, 1), 0);
  EXPECT_EQ(largest_difference(convoy, ddp, 2), 1);
  EXPECT_EQ(ddp_complaint(comparison, 1e-3), "");
  // Nothing is no difference, even of what is nothing itself.
  convoy.losses[2] = ddp.losses[2] = 0;
  EXPECT_EQ(largest_difference(convoy, ddp, 3), 1);
  ddp.losses[0] = 2.1;
  EXPECT_NE(ddp_complaint(comparison, 1e-3), "");
  comparison.draws = true;
  EXPECT_EQ(ddp_complaint(comparison, 1e-3), "");
  EXPECT_EQ(measured_side(comparison, "ddp"), &ddp);
  ddp.error = "no torch";
  EXPECT_EQ(measured_side(comparison, "ddp"), nullptr);
}

}  // namespace
}  // namespace convoy::cli
