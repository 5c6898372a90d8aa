// Runs for reports, as rows of their metrics.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "convoy/train/report.h"
#include "tests/base/scratch.h"

namespace convoy::train {

inline constexpr const char* kRun =
    R"({"kind": "run", "step": 0, "ranks": 2, "threads_per_rank": 1, "parameters": 431080, )"
    R"("training_samples": 60000, "validation_samples": 10000, "batch": 128, "steps": 100, )"
    R"("resumed_at": RESUMED, "elapsed_s": 0, "model": "lenet", "unit": "images", )"
    R"("command": "convoy train mine.toml", "hosts": ["a", "b"], "metrics": ["top1", "loss"], )"
    R"("metric_titles": ["top-1", "loss"], "metric_higher_is_better": [1, 0], )"
    R"("metric_percent": [1, 0], "best_metric": "top1"})";

inline std::string replaced(std::string text, const std::string& what, const std::string& by) {
  return text.replace(text.find(what), what.size(), by);
}

inline std::string run_row(int resumed = 0) {
  return replaced(kRun, "RESUMED", std::to_string(resumed)) + "\n";
}

// On as many ranks with as many threads.
inline std::string run_row_on(int ranks, int threads = 1, int resumed = 0) {
  return replaced(replaced(run_row(resumed), "\"ranks\": 2", "\"ranks\": " + std::to_string(ranks)),
                  "\"threads_per_rank\": 1", "\"threads_per_rank\": " + std::to_string(threads));
}

inline std::string end_row(int step, const std::string& how) {
  return R"({"kind": "end", "step": )" + std::to_string(step) + R"(, "elapsed_s": 1, "how": ")" +
         how + "\"}\n";
}

inline std::string make_report(const std::vector<std::string>& folders) {
  return Report(folders).page();
}

inline std::string step_row(int step, double loss, double seconds = 0.1) {
  return R"({"kind": "step", "step": )" + std::to_string(step) + R"(, "epoch": )" +
         std::to_string(step / 50.0) + R"(, "elapsed_s": )" + std::to_string(step * seconds) +
         R"(, "loss": )" + std::to_string(loss) + R"(, "learning_rate": 0.1, "images_per_s": )" +
         std::to_string(128 / seconds) +
         R"(, "data_s": 0.01, "forward_s": 0.03, "backward_s": 0.04, )"
         R"("exposed_communication_s": 0.01, "update_s": 0.01})" +
         "\n";
}

inline std::string evaluation_row(int step, double top1, double seconds = 0.1) {
  return R"({"kind": "evaluation", "step": )" + std::to_string(step) +
         R"(, "epoch": 1, "elapsed_s": )" + std::to_string(step * seconds) +
         R"(, "samples": 10000, "top1": )" + std::to_string(top1) +
         R"(, "loss": 0.5, "skipped": 0, "time_s": 1})" + "\n";
}

inline std::string ranks_row(int step) {
  return R"({"kind": "ranks", "step": )" + std::to_string(step) +
         R"(, "steps": 10, "data_s": [0.1, 0.1], "forward_s": [0.3, 0.9], "backward_s": [0.4, 0.4], )"
         R"("exposed_communication_s": [0.7, 0.1], "update_s": [0.1, 0.1]})" +
         "\n";
}

inline std::string steps_at(int from, int to, double seconds, int every = 1) {
  std::string rows;
  for (int step = from; step <= to; step += every) rows += step_row(step, 1, seconds);
  return rows;
}

class ReportTest : public testing::Test {
 protected:
  std::string make_run(const std::string& name, const std::string& metrics,
                       const std::string& recipe = "name = \"mine\"\n") const {
    const std::string folder = scratch_.path(name);
    std::filesystem::create_directories(folder);
    test::spill(folder + "/metrics.jsonl", metrics);
    if (!recipe.empty()) test::spill(folder + "/recipe.toml", recipe);
    return folder;
  }
  std::string usual(const std::string& name, double seconds = 0.1, double best = 0.98) const {
    std::string metrics = run_row();
    for (int step = 1; step <= 100; ++step) {
      metrics += step_row(step, 2.0 / step, seconds);
      if (step % 10 == 0) metrics += ranks_row(step);
      if (step % 50 == 0) metrics += evaluation_row(step, step == 50 ? 0.9 : best, seconds);
    }
    return make_run(name, metrics + end_row(100, "done"));
  }
  static int count(const std::string& text, const std::string& part) {
    int found = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
      ++found;
    return found;
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  const test::Scratch scratch_;
};

}  // namespace convoy::train
