// Downpour with a staleness bound of 0, from the command line, is `sync` from the command line.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "convoy/train/safetensors.h"
#include "tests/cli/downpour_words.h"
#include "tests/cli/job.h"

namespace convoy::cli {
namespace {

using Words = std::vector<std::string>;

// Mini-batches of 3333: three of an epoch, and one of a single sample, which two of three replicas
// have no share of. Nine mini-batches are two epochs and one more.
Words words_of(const std::string& folder, const Words& more) {
  Words keys{"training.batch=3333", "training.steps=9", R"(optimizer={name="sgd", lr=0.01})",
             "optimizer.momentum=0.9"};
  keys.insert(keys.end(), more.begin(), more.end());
  return small_downpour(folder, keys);
}

void expect_done(const Words& words) {
  const JobResult result = Job(words).finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
}

float number(const train::TensorView& tensor, std::size_t i) {
  float value;
  std::memcpy(&value, tensor.bytes.data() + i * sizeof value, sizeof value);
  return value;
}

TEST(Rounds, AreSynchronousSgd) {
  const test::Scratch scratch;
  // A replica that is taken for dead, since it had no core for long, is missing in a round.
  expect_done(words_of(scratch.path("rounds"), {"downpour.staleness_bound=0", "downpour.replicas=3",
                                                "downpour.lease_s=30"}));
  expect_done(words_of(scratch.path("sync"), {"strategy=sync"}));
  for (const char* run : {"rounds", "sync"})
    expect_done({"export", scratch.path(run), scratch.path(run) + ".safetensors"});
  const train::SafetensorsFile rounds(scratch.path("rounds.safetensors"));
  const train::SafetensorsFile sync(scratch.path("sync.safetensors"));
  ASSERT_EQ(rounds.tensors().size(), 6u);
  // Sums of 3333 gradients in another order; a mini-batch that is missing moves weights by 1e-3.
  constexpr float kTolerance = 1e-5F;
  for (const train::TensorView& one : rounds.tensors()) {
    const train::TensorView* other = sync.find(one.name);
    ASSERT_NE(other, nullptr) << one.name;
    ASSERT_EQ(one.bytes.size(), other->bytes.size());
    float largest = 0;
    for (std::size_t i = 0; i < one.bytes.size() / sizeof(float); ++i)
      largest = std::fmax(largest, std::fabs(number(one, i) - number(*other, i)));
    EXPECT_LT(largest, kTolerance) << one.name;
  }
}

}  // namespace
}  // namespace convoy::cli
