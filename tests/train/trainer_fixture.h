// Trainings of a small network, on as many ranks as the job has.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/files.h"
#include "convoy/train/trainer.h"
#include "data/pack/png.h"
#include "tests/base/scratch.h"
#include "tests/parallel/mpi_main.h"
#include "tests/train/small_world.h"

namespace convoy::train {

// 61 samples in batches of 12: 5 full batches and one of 1, 18 updates in 3 epochs.
inline constexpr const char* kRecipe = R"(
name = "test"
precision = "float64"
[model]
name = "small"
[data]
reader = "stripes"
[data.train]
size = 61
[data.validation]
size = 40
[optimizer]
lr = 0.1
momentum = 0.9
[schedule]
name = "cosine"
[training]
batch = 12
epochs = 3
[output]
tensorboard = false
)";

class TrainerTest : public testing::Test {
 protected:
  using Overrides = std::vector<std::string>;

  void SetUp() override {
    testing_data::add_small_world(registry_, calls_);
    // One folder for all ranks, made by rank 0.
    if (first()) scratch_.emplace();
    const std::string mine = scratch_ ? scratch_->path() : "";
    folder_ = all().broadcast_text(mine, 0);
  }
  void TearDown() override { all().barrier(); }

  static const comm::Communicator& all() { return test_world().communicator(); }
  static bool first() { return test_world().rank() == 0; }

  Recipe recipe(const std::string& name, Overrides overrides = {},
                Files files = Files::must_exist) const {
    overrides.insert(overrides.begin(), "output.folder=\"" + folder_ + "/" + name + "\"");
    return parse_recipe({kRecipe, "test.toml", "/"}, overrides, registry_.vocabulary(), files);
  }

  // Trains; if stop_after > 0, to the end of so many updates.
  RunResult train(const Recipe& recipe, int stop_after = 0, const std::string& resume = "",
                  bool overwrite = false) {
    TrainerOptions options;
    options.resume = resume;
    options.overwrite = overwrite;
    options.progress = false;
    const auto forwards = stop_after * static_cast<int>(recipe.training.accumulate);
    // Rank 0 has samples of every batch.
    if (stop_after > 0 && first()) {
      options.should_stop = [this, forwards] { return calls_->training >= forwards; };
    }
    Trainer trainer(test_world(), registry_, recipe, options);
    calls_->training = calls_->evaluation = 0;
    return trainer.run();
  }

  template <class Error = UsageError>
  std::string refusal(const Recipe& recipe, const std::string& resume = "",
                      bool overwrite = false) {
    return test::message_of<Error>([&] { train(recipe, 0, resume, overwrite); });
  }

  // Whether two checkpoints hold the same bits, by their checksums, in files that are whole.
  static bool same_tensors(const std::string& a, const std::string& b) {
    return verify_checkpoint(a).tensors == verify_checkpoint(b).tensors;
  }
  static State state_of(const std::string& checkpoint) {
    return read_checkpoint(checkpoint, open_checkpoint(checkpoint), 0, 1);
  }
  static double largest_difference(const std::string& a, const std::string& b) {
    const State x = state_of(a), y = state_of(b);
    double most = 0;
    for (const auto& [name, tensor] : x.model) {
      most = std::max(most, (tensor - y.model.at(name)).abs().max().item<double>());
    }
    return most;
  }

  // To ask a model about: a file that is no picture, and more pictures than are taken at a time.
  // The first rank writes them.
  std::vector<std::string> pictures(const Recipe& trained) {
    std::vector<std::string> files{trained.output.folder + "/recipe.toml"};
    for (int i = 0; i < 20; ++i) {
      files.push_back(folder_ + "/" + std::to_string(i) + ".png");
      if (!first()) continue;
      data::Image image{6, 6, 1, std::vector<std::uint8_t>(36, static_cast<std::uint8_t>(12 * i))};
      image.pixels[7] = 255;
      const std::vector<std::byte> bytes = data::encode_png(image);
      test::spill(files.back(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
    all().barrier();
    return files;
  }

  // Of metrics.jsonl, those of one kind.
  static std::vector<nlohmann::json> rows(const Recipe& recipe, const std::string& kind) {
    std::istringstream lines(read_text_file(recipe.output.folder + "/metrics.jsonl"));
    std::vector<nlohmann::json> rows;
    std::string line;
    while (std::getline(lines, line)) {
      auto row = nlohmann::json::parse(line);
      if (row["kind"] == kind) rows.push_back(std::move(row));
    }
    return rows;
  }

  // (epoch, sample) of each use, with output.log_samples.
  static std::multiset<std::pair<int, int>> uses(const Recipe& recipe) {
    std::multiset<std::pair<int, int>> seen;
    std::string line;
    for (const auto& entry :
         std::filesystem::directory_iterator(recipe.output.folder + "/samples")) {
      if (entry.path().extension() != ".log") continue;
      std::istringstream log(read_text_file(entry.path().string()));
      while (std::getline(log, line)) {
        std::istringstream words(line);
        int step = 0, epoch = 0, sample = 0;
        words >> step >> epoch;
        while (words >> sample) seen.insert({epoch, sample});
      }
    }
    return seen;
  }
  static void expect_each_once(const Recipe& recipe, std::size_t samples) {
    const auto seen = uses(recipe);
    EXPECT_EQ(seen.size(), samples);
    EXPECT_EQ((std::set<std::pair<int, int>>(seen.begin(), seen.end()).size()), samples);
  }

  // Every file in a run folder with what is in it, and every folder.
  static std::map<std::string, std::string> contents(const std::string& folder) {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      all[entry.path().string()] =
          entry.is_directory() ? "" : read_text_file(entry.path().string());
    }
    return all;
  }

  std::shared_ptr<testing_data::Calls> calls_ = std::make_shared<testing_data::Calls>();
  Registry registry_;
  std::optional<test::Scratch> scratch_;  // on rank 0
  std::string folder_;
};

}  // namespace convoy::train
