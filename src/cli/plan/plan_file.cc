#include "cli/plan/plan_file.h"

#include <cmath>
#include <optional>
#include <sstream>

#include "base/own_files.h"
#include "base/parse_toml.h"
#include "base/toml_text.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "train/logging/environment.h"

namespace convoy::cli {
namespace {

// 1 had no contention.
constexpr std::int64_t kPlanFileVersion = 2;

class Reader {
 public:
  Reader(const std::string& path, const toml::table& table) : path_(path), table_(table) {}

  // A number above 0, or any.
  double number(const char* key, bool positive) const {
    const auto value = table_[key].value<double>();
    if (!value || !std::isfinite(*value) || (positive && *value <= 0)) bad(key, "a number");
    return *value;
  }
  std::int64_t count(const char* key) const {
    const auto value = table_[key].value_exact<std::int64_t>();
    if (!value || *value < 1) bad(key, "a whole number from 1 on");
    return *value;
  }
  std::string text(const char* key) const {
    const auto value = table_[key].value_exact<std::string>();
    if (!value) bad(key, "a text");
    return *value;
  }
  std::int64_t count_if_there(const char* key) const {
    return table_.contains(key) ? count(key) : 0;
  }
  double part_if_there(const char* key) const {
    if (!table_.contains(key)) return 0;
    const double value = number(key, false);
    if (value < 0) bad(key, "a number of 0 or more");
    return value;
  }
  std::vector<std::string> texts(const char* key) const {
    const toml::array* list = table_[key].as_array();
    if (list == nullptr) bad(key, "a list of texts");
    std::vector<std::string> all;
    for (const toml::node& one : *list) {
      const auto value = one.value_exact<std::string>();
      if (!value) bad(key, "a list of texts");
      all.push_back(*value);
    }
    return all;
  }

 private:
  [[noreturn]] void bad(const char* key, const char* type) const {
    const toml::node* node = table_.get(key);
    const auto line = node != nullptr ? node->source().begin.line : table_.source().begin.line;
    throw UsageError(path_ + ":" + std::to_string(line) + ": " + key +
                     (node == nullptr ? " is missing" : std::string(" has to be ") + type) +
                     "; is this a plan.toml of `convoy plan batch`?");
  }

  const std::string& path_;
  const toml::table& table_;
};

std::string to_toml(const PlanFile::MeasuredWith& measured) {
  std::string text = "\n[measured]\nmachine = " + toml_string(measured.machine) + "\n";
  if (measured.threads > 0) text += "threads = " + std::to_string(measured.threads) + "\n";
  if (measured.samples > 0) text += "samples = " + std::to_string(measured.samples) + "\n";
  text += "overrides = [";
  for (const std::string& one : measured.overrides)
    text += (&one == measured.overrides.data() ? "" : ", ") + toml_string(one);
  text += "]\nrecipe = [\n";
  std::istringstream lines(measured.recipe);
  for (std::string line; std::getline(lines, line);) text += "  " + toml_string(line) + ",\n";
  return text + "]\n";
}

PlanFile::MeasuredWith measured_with(const Reader& reader) {
  PlanFile::MeasuredWith measured{reader.text("machine"), reader.count_if_there("threads"),
                                  reader.count_if_there("samples"), reader.texts("overrides"), ""};
  for (const std::string& line : reader.texts("recipe")) measured.recipe += line + "\n";
  return measured;
}

// What the plan itself sets.
bool is_planned_key(const std::string& override) {
  return override.starts_with("training.batch=") || override.starts_with("optimizer.lr=");
}

}  // namespace

std::string to_toml(const PlanFile& plan) {
  std::string text(kPlanMark);
  text += "version = " + std::to_string(kPlanFileVersion) + "\n";
  text += "recipe = " + toml_string(plan.recipe) + "\n";
  text += "metric = " + toml_string(plan.metric) + "\n";
  text += "target = " + toml_number(plan.target) + "\n";
  for (const PlanFile::Workers& one : plan.workers) {
    text += "\n[[workers]]\ncount = " + std::to_string(one.count) + "\n";
    text += "batch = " + std::to_string(one.batch) + "\n";
    text += "learning_rate = " + toml_number(one.learning_rate) + "\n";
    text += "seconds = " + toml_number(one.seconds) + "\n";
    if (one.contention > 0) text += "contention = " + toml_number(one.contention) + "\n";
  }
  if (plan.measured) text += to_toml(*plan.measured);
  return text;
}

PlanFile read_plan_file(const std::string& path) {
  constexpr std::size_t kLimit = std::size_t{1} << 20;
  const toml::table table = parse_toml(read_text_file(path, kLimit), path);
  const Reader reader(path, table);
  if (const std::int64_t version = reader.count_if_there("version"); version > kPlanFileVersion) {
    throw UsageError(path + ": version is " + std::to_string(version) +
                     ", and this Convoy reads 1 to " + std::to_string(kPlanFileVersion) +
                     "; train with the Convoy that planned");
  }
  PlanFile plan{reader.text("recipe"), reader.text("metric"), reader.number("target", false), {}};
  const toml::array* workers = table["workers"].as_array();
  if (workers == nullptr || workers->empty() || !workers->is_array_of_tables())
    throw UsageError(path + ": it has no [[workers]]; is this a plan.toml of `convoy plan batch`?");
  for (const toml::node& node : *workers) {
    const Reader one(path, *node.as_table());
    plan.workers.push_back({one.count("count"), one.count("batch"),
                            one.number("learning_rate", true), one.number("seconds", true),
                            one.part_if_there("contention")});
  }
  if (const toml::node* measured = table.get("measured")) {
    if (!measured->is_table()) throw UsageError(path + ": measured has to be a table");
    plan.measured = measured_with(Reader(path, *measured->as_table()));
  }
  return plan;
}

const PlanFile::Workers& workers_of(const PlanFile& plan, std::int64_t count) {
  std::string known;
  for (const PlanFile::Workers& one : plan.workers) {
    if (one.count == count) return one;
    known += (known.empty() ? "" : ", ") + std::to_string(one.count);
  }
  throw UsageError("the plan says nothing of " + std::to_string(count) +
                   (count == 1 ? " worker" : " workers") + "; it does of " + known +
                   " (convoy plan batch --workers)");
}

std::vector<std::string> overrides_of(const PlanFile::Workers& workers) {
  return {"training.batch=" + std::to_string(workers.batch),
          "optimizer.lr=" + toml_number(workers.learning_rate)};
}

std::string training_command(const PlanFile& plan, std::int64_t workers, const std::string& recipe,
                             const std::string& plan_file, const std::string& hosts) {
  std::vector<std::string> words{"convoy", "train", recipe, "--plan", plan_file};
  if (hosts.empty()) {
    words.insert(words.end(), {"-n", std::to_string(workers)});
  } else {
    words.insert(words.end(), {"--hosts", hosts});
  }
  if (plan.measured) {
    bool threads = plan.measured->threads == 0;
    for (const std::string& override : plan.measured->overrides) {
      if (is_planned_key(override)) continue;
      threads = threads || override.starts_with("threads=");
      words.insert(words.end(), {"--set", override});
    }
    if (!threads)
      words.insert(words.end(), {"--set", "threads=" + std::to_string(plan.measured->threads)});
  }
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + train::shell_word(word);
  return text;
}

}  // namespace convoy::cli
