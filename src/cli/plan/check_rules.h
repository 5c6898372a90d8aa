// The batches that `convoy plan check` trains with, and what the plan says of each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convoy/plan/machine_fit.h"
#include "convoy/plan/update_fit.h"

namespace convoy::cli {

// "optimal,strong": rules, in the order given, each once. Throws UsageError naming the nearest.
std::vector<std::string> parse_rules(const std::string& text);

struct Checked {
  std::string rule;
  std::int64_t batch = 0;
  double learning_rate = 0;
  // Predictions; nothing where the law is not trusted and this batch is beyond those measured, or
  // where the machine has a table that does not reach so far.
  std::optional<double> updates;
  std::optional<double> update_s;
  std::string note;  // to bear in mind; or empty
  // These are the 95% interval of the predicted seconds, and the standard deviation of log(updates)
  // between single trainings with such a batch; nothing, and 0, where nothing says so.
  std::optional<plan::Interval> range = {};
  double scatter = 0;

  std::optional<double> seconds() const {
    return updates && update_s ? std::optional(*updates * *update_s) : std::nullopt;
  }
};

struct LeftOut {
  std::string rule, why;
};

struct CheckList {
  std::vector<Checked> checked;
  std::vector<LeftOut> left_out;
};

struct CheckQuestion {
  std::int64_t workers = 1;
  std::int64_t largest = 0;      // batch
  std::int64_t noise_batch = 0;  // of the rule noise
};

// What the rules say for so many workers; those whose batch has no sample for each of them, or is
// above the largest, are left out. Throws UsageError as plan::choose_batch() does.
CheckList list_checks(const std::vector<std::string>& rules, const plan::UpdateFit& updates,
                      const plan::MeasuredMachine& machine, const CheckQuestion& question);

}  // namespace convoy::cli
