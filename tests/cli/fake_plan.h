// Plans whose trainings are made up (fake_training.h).
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/plan/sweep.h"
#include "tests/base/patience.h"
#include "tests/base/scratch.h"

namespace convoy::cli {

class FakePlan : public testing::Test {
 protected:
  // A budget that doubles until it has been enough is no longer than this: all together are as long
  // as a wait may be.
  static constexpr double kLongest_s = test::patience_s() / 2;

  FakePlan() {
    planned.recipe.name = scratch.path("script.json");
    planned.recipe.optimizer.lr = 0.1;
    planned.recipe.training.steps = 1'000'000'000;
    planned.goal = {"loss", "loss", false, false, {5, 1}};
    planned.samples = 1000;
    planned.evaluated = 1;
    planned.epochs = 10;
    planned.fingerprint = "fake";
    script();
  }

  void script(const nlohmann::json& text = nlohmann::json::object()) const {
    test::spill(planned.recipe.name, text.dump());
    std::remove((planned.recipe.name + ".log").c_str());
  }
  // What trainings have noted since the script was written.
  std::string log() const {
    std::ifstream file(planned.recipe.name + ".log");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  PlanFolder open(bool resume = true) const { return {scratch.path("plan"), planned, resume}; }

  static RunLimits limits(double epochs, Deadline deadline = {}) {
    return {.epochs = epochs, .every = 1, .deadline = deadline};
  }
  static Deadline in(double seconds) {
    return Clock::now() +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  // With two batches and one rate, at two places.
  Sweep sweep(Deadline deadline = {}) const {
    Sweep sweep;
    sweep.batches = {8, 64};
    sweep.rates = {0.1};
    sweep.seeds = 2;
    sweep.repetitions = 2;
    sweep.workers = {1};
    sweep.timed = {4, 64};
    sweep.limits = limits(100, deadline);
    sweep.workplace.cores = {0};
    sweep.workplace.places = {{{0}, ""}, {{0}, ""}};
    return sweep;
  }

  // What a plan says while `measure` does.
  template <class Measure>
  std::string told(const Measure& measure) {
    const std::string name = scratch.path("told");
    std::FILE* out = std::fopen(name.c_str(), "w");
    try {
      measure(out);
    } catch (...) {
      std::fclose(out);
      throw;
    }
    std::fclose(out);
    return test::slurp(name);
  }

  const test::Scratch scratch;
  Planned planned;
};

}  // namespace convoy::cli
