#include "cli/bench/downpour/table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/bench/downpour/cells.h"
#include "train/report/html.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string count(double value) { return std::isfinite(value) ? train::count_text(value) : ""; }

std::string level_cell(const ComparedRuns& runs, const Json& row) {
  const std::string at = seconds_text(number_in(row, "level_s"));
  return at.empty() && runs.level ? "never" : at;
}

std::vector<std::string> line_of(const ComparedRuns& runs, const ComparedRun& run) {
  const Json& row = run.row;
  const train::MetricInfo* metric = runs.metric();
  const auto figure = [&](const char* key) {
    const double value = number_in(row, key);
    return metric == nullptr || !std::isfinite(value) ? "" : train::metric_text(*metric, value);
  };
  const auto at = [&row](const char* key) { return number_in(row, key); };
  return {run.arm->name,
          row.value("state", ""),
          figure("best"),
          figure("last"),
          figure("last_of_training"),
          level_cell(runs, row),
          seconds_text(at("training_s")),
          count(at("samples_per_s")),
          formatted("%.2f", at("staleness_mean")),
          count(at("used_twice")),
          formatted("%.3g", at("cores_given")),
          formatted("%.2f", at("cores_used")),
          rate_text(at("pushed_bytes_per_s")),
          rate_text(at("fetched_bytes_per_s"))};
}

// Characters, not bytes.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u;
  }));
}

}  // namespace

std::string level_text(const train::MetricInfo* metric, double level) {
  if (metric == nullptr || !metric->percent) return formatted("%.4g", level);
  return formatted("%.4g", 100 * level) + "%";
}

void print_columns(const std::vector<std::string>& head,
                   const std::vector<std::vector<std::string>>& rows, std::FILE* out) {
  std::vector<std::vector<std::string>> lines{head};
  lines.insert(lines.end(), rows.begin(), rows.end());
  std::vector<std::size_t> widths(head.size());
  for (auto& line : lines) {
    std::replace(line.begin(), line.end(), std::string(), std::string("-"));
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width(line[i]));
  }
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string space(widths[i] - width(line[i]), ' ');
      text += (i == 0 ? "" : "  ") + (i == 0 ? line[i] + space : space + line[i]);
    }
    std::fprintf(out, "%s\n", text.c_str());
  }
}

void print_comparison(const ComparedRuns& runs, std::FILE* out) {
  const train::MetricInfo* metric = runs.metric();
  const std::string title = metric == nullptr ? "metric" : metric->title;
  const std::vector<std::string> head{
      "run",           "state",
      "best " + title, "last",
      "of training",   runs.level ? "to " + level_text(metric, *runs.level) : "to level",
      "training",      "samples/s",
      "staleness",     "used twice",
      "cores given",   "in use",
      "pushed",        "fetched"};
  std::vector<std::vector<std::string>> lines;
  for (const ComparedRun& run : runs.runs) lines.push_back(line_of(runs, run));
  print_columns(head, lines, out);
  for (const ComparedRun& run : runs.runs) {
    const std::string complaint = end_of(run.row).complaint;
    if (!complaint.empty()) std::fprintf(out, "%s: %s\n", run.arm->name.c_str(), complaint.c_str());
  }
}

}  // namespace convoy::cli
