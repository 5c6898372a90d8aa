// Data as users pack it and train on it.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <thread>

#include "convoy/base/clock.h"
#include "convoy/base/files.h"
#include "tests/base/patience.h"
#include "tests/base/scratch.h"
#include "tests/cli/exported.h"
#include "tests/cli/job.h"
#include "tests/cli/sample_log.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kRequeue = 75, kImages = 1000;

class Data : public testing::Test {
 protected:
  void SetUp() override {
    const std::string mnist = test::source_folder() + "/data/mnist/t10k-";
    const auto packed = Job({"pack", mnist + "images-idx3-ubyte.gz", tar_, "--labels",
                             mnist + "labels-idx1-ubyte.gz", "--limit", std::to_string(kImages)})
                            .finish();
    ASSERT_EQ(packed.exit_status, 0) << packed.err;
    std::ofstream(folder_ + "/recipe.toml") << R"(name = "lenet-packed"
[model]
name = "lenet"
[data]
reader = "packed"
mean = [0.1307]
deviation = [0.3081]
[data.train]
files = ["digits.tar"]
[optimizer]
name = "sgd"
lr = 0.02
momentum = 0.9
[training]
batch = 50
epochs = 3
[output]
tensorboard = false
log_samples = true
)";
  }

  std::vector<std::string> train(int ranks, const std::string& run,
                                 const std::vector<std::string>& settings) const {
    std::vector<std::string> words{"train", folder_ + "/recipe.toml", "-n", std::to_string(ranks)};
    words.insert(words.end(), {"--set", "output.folder=" + folder_ + "/" + run});
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    return words;
  }

  std::vector<std::byte> model(const std::string& run) const {
    return exported_model(folder_ + "/" + run);
  }

  SampleLog log_of(const std::string& run) const { return read_sample_log(folder_ + "/" + run); }

  const test::Scratch scratch_;
  const std::string folder_ = scratch_.path();
  const std::string tar_ = folder_ + "/digits.tar";
};

TEST_F(Data, IsInspectedAndVerified) {
  const auto inspected = Job({"inspect", tar_}).finish();
  EXPECT_EQ(inspected.exit_status, 0) << inspected.err;
  EXPECT_NE(inspected.out.find("1000"), std::string::npos) << inspected.out;
  const auto good = Job({"verify", tar_, "--decode"}).finish();
  EXPECT_EQ(good.exit_status, 0) << good.out << good.err;

  auto bytes = read_file(tar_);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  bytes[text.find("IDAT", text.size() / 2) + 10] ^= std::byte{4};
  std::ofstream(tar_, std::ios::binary)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
  const auto bad = Job({"verify", tar_}).finish();
  EXPECT_EQ(bad.exit_status, 1) << bad.out << bad.err;
  // Nothing is trained on it: the record is named as soon as it is read.
  for (const std::string store : {"memory", "host"}) {
    const auto trained = Job(train(2, "damaged-" + store, {"data.store=" + store})).finish();
    EXPECT_EQ(trained.exit_status, 2) << trained.out;
    EXPECT_NE(trained.err.find("digits.tar"), std::string::npos) << trained.err;
  }
}

// Where the records are changes nothing of what is computed. (With files, ranks share a batch in
// another way, and sums are rounded otherwise.)
TEST_F(Data, EveryStoreTrainsOnTheSameBatches) {
  for (const std::string store : {"memory", "host", "auto", "files"}) {
    const auto result = Job(train(3, store, {"data.store=" + store})).finish();
    ASSERT_EQ(result.exit_status, 0) << store << result.err;
    EXPECT_EQ(log_of(store).batches.size(), 60u);
    EXPECT_EQ(log_of(store).batches, log_of("memory").batches) << store;
    if (store != "files") {
      EXPECT_TRUE(model(store) == model("memory")) << store;
    }
  }
  const auto groups = Job(train(2, "groups", {"data.store=memory", "data.groups=2"})).finish();
  ASSERT_EQ(groups.exit_status, 0) << groups.err;
  const auto two = Job(train(2, "two", {"data.store=memory"})).finish();
  ASSERT_EQ(two.exit_status, 0) << two.err;
  EXPECT_TRUE(model("groups") == model("two"));
}

// In the middle of epochs, between shuffles, with other numbers of ranks and groups.
TEST_F(Data, InMemoryStoppedOnFourResumedOnTwoAndThree) {
  const auto stop = [&](int ranks, const std::vector<std::string>& settings, bool resume) {
    auto words = train(ranks, "run", settings);
    if (resume) words.push_back("--resume");
    Job job(words);
    const auto done = [&] { return log_of("run").times.size(); };
    const std::size_t before = resume ? done() : 0;
    const auto begin = Clock::now();
    while (!fs::exists(folder_ + "/run/samples") || done() < before + 500) {
      ASSERT_LT(seconds_since(begin), test::patience_s());
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    kill(job.pid(), SIGTERM);
    const auto result = job.finish();
    EXPECT_EQ(result.exit_status, kRequeue) << result.out << result.err;
  };
  const std::string memory = "data.store=memory", steps = "data.shuffle_every_steps=7",
                    endless = "training.epochs=100000";
  stop(4, {memory, steps, endless, "data.groups=2"}, false);
  stop(2, {memory, steps, endless}, true);
  // The one that goes on decides where all ends: at the end of an epoch.
  const std::size_t epochs = std::max<std::size_t>(20, log_of("run").times.size() / kImages + 1);
  auto words = train(3, "run", {memory, steps, "training.epochs=" + std::to_string(epochs)});
  words.push_back("--resume");
  const auto last = Job(words).finish();
  ASSERT_EQ(last.exit_status, 0) << last.err;
  const auto seen = log_of("run").times;
  EXPECT_EQ(seen.size(), epochs * kImages);
  for (const auto& [sample, times] : seen)
    ASSERT_EQ(times, 1) << "epoch " << sample.first << ", sample " << sample.second;
}

}  // namespace
}  // namespace convoy::cli
