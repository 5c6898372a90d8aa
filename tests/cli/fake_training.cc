#include "tests/cli/fake_training.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <toml++/toml.h>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "convoy/base/system.h"
#include "tests/base/scratch.h"
#include "train/diverged.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::json;

volatile std::sig_atomic_t told = 0;

void pause_a_little() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

class Training {
 public:
  Training(const std::string& recipe, const std::string& options)
      : options_(options),
        recipe_(toml::parse_file(recipe)),
        name_(recipe_["name"].value_or(std::string())),
        script_(Json::parse(test::slurp(name_))),
        batch_(recipe_["training"]["batch"].value_or(std::int64_t{0})),
        every_(recipe_["evaluation"]["every_steps"].value_or(std::int64_t{0})) {}

  int run() {
    for (const Json& refused : script_.value("refused", Json::array())) {
      if (refused != batch_) continue;
      std::fprintf(stderr, "batches of %lld are refused\n", static_cast<long long>(batch_));
      return 2;
    }
    std::ofstream(name_ + ".cores", std::ios::app)
        << batch_ << options_ << " on " << usable_cores().size() << std::endl;
    const char* gpu = std::getenv("CUDA_VISIBLE_DEVICES");
    const std::string begin = "begin " + std::to_string(batch_) + " ";
    note(begin + (gpu == nullptr ? "-" : gpu) + options_);
    again_ = noted(begin) > 1;
    if (script_.value("failing", std::int64_t{0}) == batch_) {
      while (noted("begin") < 3) pause_a_little();
      return 1;
    }
    if (again_ && script_.value("crashing_again", std::int64_t{0}) == batch_) return 1;
    for (const Json& crashing : script_.value("crashing", Json::array())) {
      if (crashing != batch_) continue;
      std::fprintf(stderr, "a batch of %lld needs more memory than there is\n",
                   static_cast<long long>(batch_));
      return 1;
    }
    if (diverges()) {
      std::fprintf(stderr, "%sthe loss of step 1 is nan\n", train::kDiverged);
      return 1;
    }
    train();
    if (told != 0) wait_for_others();
    note("end");
    return 0;
  }

 private:
  void note(const std::string& text) const {
    const int log = open((name_ + ".log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
    const std::string line = text + "\n";
    if (write(log, line.data(), line.size()) < 0) std::abort();
    close(log);
  }
  int noted(const std::string& begin) const {
    std::ifstream log(name_ + ".log");
    int count = 0;
    for (std::string line; std::getline(log, line);) count += line.starts_with(begin) ? 1 : 0;
    return count;
  }

  void wait_for_others() const {
    note("told");
    while (noted("told") < script_.value("told", 0)) pause_a_little();
  }

  double rate() const { return recipe_["optimizer"]["lr"].value_or(0.0); }

  bool diverges() const {
    return batch_ == script_.value("diverging", std::int64_t{0}) &&
           rate() == script_.value("rate", 0.0) &&
           recipe_["seed"].value_or(std::int64_t{0}) >= script_.value("seed", std::int64_t{0});
  }

  // Updates to the target.
  double needed() const {
    const double rate = this->rate();
    const double least = script_.value("infinity", 20.0) +
                         script_.value("sensitivity", 400.0) / static_cast<double>(batch_);
    return least * std::max(0.1 / rate, rate / 0.1);
  }

  // How many it makes before it waits to be told to end; "once": only the first with its batch.
  std::int64_t most() const {
    if (again_ && script_.value("once", false)) return INT64_MAX;
    const bool hanging = batch_ <= script_.value("hanging", std::int64_t{0}) ||
                         (every_ > 0 && every_ < script_.value("finest", std::int64_t{0}));
    return hanging ? script_.value("most", std::int64_t{0}) : INT64_MAX;
  }

  void train() const {
    const std::string folder = recipe_["output"]["folder"].value_or(std::string());
    std::filesystem::create_directories(folder);
    std::ofstream metrics(folder + "/metrics.jsonl");
    const auto steps = recipe_["training"]["steps"].value_or(std::int64_t{0});
    const double level = recipe_["training"]["target"]["level"].value_or(0.0);
    const double start = script_.value("start", 10.0);
    const bool stuck =
        batch_ <= script_.value("stuck", std::int64_t{0}) && rate() >= script_.value("rate", 0.0);
    for (std::int64_t step = 1; step <= steps; ++step) {
      while (told == 0 && step > most()) pause_a_little();
      if (told != 0) return;
      const double done = static_cast<double>(step) / needed();
      const double loss = stuck ? start : start + (level - start) * done;
      metrics << Json{{"kind", "step"},      {"step", step},
                      {"loss", loss},        {"samples", batch_},
                      {"data_s", 0},         {"forward_s", 0.05 * slowness()},
                      {"backward_s", 0.05},  {"exposed_communication_s", 0},
                      {"update_s", beside()}}
              << std::endl;
      if (every_ == 0) pause_a_little();
      if (every_ == 0 || step % every_ != 0) continue;
      // An update that changes nothing.
      const double found = rate() < 1e-5 ? start : loss;
      metrics << Json{{"kind", "evaluation"}, {"step", step}, {"loss", found}} << std::endl;
      if (found <= level + 1e-9 &&
          recipe_["training"]["target"]["metric"].value_or(std::string()) != "")
        return;
    }
  }

  // What an update takes besides, with so many seconds for a sample: "contention" is what its
  // workers lose of computing, "delta" what they wait.
  double beside() const {
    const double each = script_.value("per_sample", 0.0);
    const bool two = options_.find("-n 2") != std::string::npos;
    if (!two) return each * static_cast<double>(batch_);
    const double computing = 0.1 + each * static_cast<double>((batch_ + 1) / 2);
    return (1 + script_.value("contention", 0.0)) * computing - 0.1 + script_.value("delta", 0.0);
  }

  double slowness() const {
    const bool slow = options_.ends_with(" --hosts " + script_.value("slow", std::string()) + ":1");
    return slow ? 2 * script_.value("times", 1.0) - 1 : 1;  // half of an update is something else
  }

  std::string options_;
  toml::table recipe_;
  std::string name_;
  Json script_;
  std::int64_t batch_, every_;
  bool again_ = false;  // another one with this batch has begun before
};

}  // namespace

int fake_training(const std::string& recipe, const std::string& options) {
  std::signal(SIGTERM, [](int) { told = 1; });
  return Training(recipe, options).run();
}

}  // namespace convoy::cli

int main(int argc, char** argv) {
  if (argc >= 3 && std::string(argv[1]) == "train") {
    std::string options;
    for (int i = 3; i < argc; ++i) options += std::string(" ") + argv[i];
    return convoy::cli::fake_training(argv[2], options);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
