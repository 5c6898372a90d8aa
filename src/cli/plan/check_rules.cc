#include "cli/plan/check_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/toml_text.h"
#include "cli/bench/lists.h"
#include "convoy/base/error.h"
#include "convoy/base/names.h"
#include "convoy/plan/choice.h"

namespace convoy::cli {
namespace {

const std::vector<std::string> kRules{"quarter", "optimal", "four", "strong",
                                      "weak",    "linear",  "noise"};

struct WantedRow {
  std::int64_t batch = 0;
  double learning_rate = 0;
  std::string note;
};

class Rules {
 public:
  Rules(const plan::UpdateFit& updates, const plan::Machine& machine, const CheckQuestion& question)
      : updates_(updates),
        question_(question),
        best_(batch_for(machine, question.workers)),
        alone_(batch_for(machine, 1)) {}

  WantedRow wanted(const std::string& rule) const {
    if (rule == "quarter") return with_its_rate(std::llround(static_cast<double>(best_) / 4));
    if (rule == "optimal") return with_its_rate(best_);
    if (rule == "four") return with_its_rate(4 * best_);
    if (rule == "strong") return with_its_rate(alone_);
    if (rule == "noise") return with_its_rate(question_.noise_batch);
    WantedRow weak = with_its_rate(question_.workers * alone_);
    if (rule == "weak") return weak;
    WantedRow linear = weak;
    linear.learning_rate = static_cast<double>(question_.workers) * rate_for(alone_);
    if (linear.learning_rate != weak.learning_rate) {
      linear.note = "the rate is " + std::to_string(question_.workers) + " times that of batch " +
                    std::to_string(alone_) + "; the prediction is for " +
                    shortest(weak.learning_rate) + ", which goes with this batch";
    }
    return linear;
  }

 private:
  std::int64_t batch_for(const plan::Machine& machine, std::int64_t workers) const {
    return plan::choose_batch(updates_, {machine, {}, {}}, workers, question_.largest).batch;
  }
  double rate_for(std::int64_t batch) const {
    return plan::learning_rate_for(updates_.envelope, static_cast<double>(batch));
  }
  WantedRow with_its_rate(std::int64_t batch) const {
    return {batch, batch > 0 ? rate_for(batch) : 0, ""};
  }

  const plan::UpdateFit& updates_;
  const CheckQuestion& question_;
  std::int64_t best_, alone_;
};

std::string why_not(std::int64_t batch, const CheckQuestion& question) {
  const std::string of = "a batch of " + std::to_string(batch);
  if (batch < question.workers) return of + " has no sample for each worker";
  if (batch > question.largest)
    return of + " is more than the data has, " + std::to_string(question.largest);
  return "";
}

// That of the nearest batch that was measured.
double scatter_at(const plan::UpdateFit& updates, std::int64_t batch) {
  double scatter = updates.scatter, nearest = std::numeric_limits<double>::infinity();
  for (const plan::EnvelopePoint& point : updates.envelope) {
    const double far =
        std::fabs(std::log(static_cast<double>(point.batch) / static_cast<double>(batch)));
    if (far < nearest) nearest = far, scatter = point.scatter;
  }
  return scatter;
}

std::optional<double> predicted_update_s(const plan::Machine& machine, std::int64_t batch,
                                         std::int64_t workers) {
  try {
    return plan::seconds_per_update(machine, batch, workers);
  } catch (const UsageError&) {
    return std::nullopt;  // beyond what its tables have
  }
}

}  // namespace

std::vector<std::string> parse_rules(const std::string& text) {
  std::vector<std::string> rules;
  for (const std::string& rule : split_list(text, "--rules")) {
    if (std::find(kRules.begin(), kRules.end(), rule) == kRules.end()) {
      std::string all;
      for (const std::string& one : kRules) all += (all.empty() ? "" : ", ") + one;
      const std::string near = nearest_name(rule, kRules);
      throw UsageError("--rules: there is no rule '" + rule + "'; there are " + all +
                       (near.empty() ? "" : " (did you mean " + near + "?)"));
    }
    if (std::find(rules.begin(), rules.end(), rule) == rules.end()) rules.push_back(rule);
  }
  return rules;
}

CheckList list_checks(const std::vector<std::string>& rules, const plan::UpdateFit& updates,
                      const plan::MeasuredMachine& machine, const CheckQuestion& question) {
  const Rules known(updates, machine.machine, question);
  CheckList list;
  for (const std::string& rule : rules) {
    const WantedRow wanted = known.wanted(rule);
    if (const std::string why = why_not(wanted.batch, question); !why.empty()) {
      list.left_out.push_back({rule, why});
      continue;
    }
    list.checked.push_back({rule, wanted.batch, wanted.learning_rate,
                            plan::predicted_updates(updates, static_cast<double>(wanted.batch)),
                            predicted_update_s(machine.machine, wanted.batch, question.workers),
                            wanted.note});
    Checked& checked = list.checked.back();
    checked.scatter = scatter_at(updates, wanted.batch);
    if (!checked.seconds()) continue;
    checked.range =
        plan::predicted_seconds(updates, machine, wanted.batch, question.workers).value().interval;
  }
  return list;
}

}  // namespace convoy::cli
