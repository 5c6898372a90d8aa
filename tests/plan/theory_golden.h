// Made-up machines and laws of tests/golden/plan.py.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "convoy/plan/convergence.h"
#include "convoy/plan/hardware.h"
#include "tests/golden/read.h"

namespace convoy::plan::test {

inline const nlohmann::json& golden() {
  static const nlohmann::json values = convoy::golden::read("plan.json");
  return values;
}

inline Machine machine_of(const nlohmann::json& golden) {
  Machine machine;
  machine.seconds_per_sample = golden["gamma"];
  machine.knee_samples = golden["knee"];
  machine.communication.kind = communication_kind(golden["kind"]);
  machine.communication.delta_s = golden["delta"];
  machine.communication.latency_s = golden["latency"];
  return machine;
}

inline UpdateLaw law_of(const nlohmann::json& golden) { return {golden["n_inf"], golden["alpha"]}; }

inline void near(double value, double right, double part) {
  EXPECT_NEAR(value, right, std::abs(right) * part);
}

inline Prices prices_of(const nlohmann::json& design) {
  const double per_worker = design["per_worker"], bandwidth = design["bandwidth"];
  return {[=](double workers, double) { return per_worker * workers; },
          [=](double delta) { return bandwidth / delta; }};
}

}  // namespace convoy::plan::test
