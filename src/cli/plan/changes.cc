#include "cli/plan/changes.h"

#include <algorithm>
#include <cmath>

#include "base/parse_toml.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/names.h"

namespace convoy::cli {
namespace {

using plan::Machine;

class Reader {
 public:
  Reader(const std::string& path, const toml::table& table, std::string inside)
      : path_(path), table_(table), inside_(std::move(inside)) {}

  // Above 0.
  double number(const char* key, std::optional<double> fallback) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr && fallback) return *fallback;
    const auto value = table_[key].value<double>();
    if (!value || !std::isfinite(*value) || *value <= 0) {
      throw UsageError(place(node) + inside_ + key +
                       (node == nullptr ? " is missing" : " has to be a number above 0"));
    }
    return *value;
  }

  // From 1 to `most`.
  std::int64_t count(const char* key, std::int64_t fallback, std::int64_t most) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return fallback;
    const auto value = table_[key].value_exact<std::int64_t>();
    if (!value || *value < 1 || *value > most) {
      throw UsageError(place(node) + inside_ + key + " has to be a whole number from 1 to " +
                       std::to_string(most));
    }
    return *value;
  }

  void only(const std::vector<std::string>& known) const {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      const std::string near = nearest_name(name, known);
      throw UsageError(place(&node) + "there is no key " + inside_ + name +
                       (near.empty() ? "" : "; did you mean " + inside_ + near + "?"));
    }
  }

  PriceList::Part part(const char* key) const {
    const toml::table* table = table_[key].as_table();
    if (table == nullptr)
      throw UsageError(place(table_.get(key)) + "there is no table [" + key + "]");
    const Reader inner(path_, *table, std::string(key) + ".");
    inner.only({"price", "power"});
    return {inner.number("price", std::nullopt), inner.number("power", 1.0)};
  }

 private:
  std::string place(const toml::node* node) const {
    return path_ + (node == nullptr ? "" : ":" + std::to_string(node->source().begin.line)) + ": ";
  }

  const std::string& path_;
  const toml::table& table_;
  std::string inside_;
};

}  // namespace

std::vector<Change> changes_of(const plan::UpdateLaw& law, const Machine& machine,
                               std::int64_t batch, std::int64_t workers, double factor) {
  std::vector<Change> changes;
  for (const plan::WhatIf& row : plan::what_if(law, machine, workers, factor)) {
    Change change{row.change, std::nullopt, row};
    if (row.workers <= batch)
      change.seconds = plan::convergence_seconds(law, row.machine, batch, row.workers);
    changes.push_back(change);
  }
  return changes;
}

PriceList read_prices(const std::string& path) {
  constexpr std::size_t kLimit = std::size_t{1} << 20;
  const toml::table table = parse_toml(read_text_file(path, kLimit), path);
  const Reader reader(path, table, "");
  reader.only({"budget", "most_workers", "compute", "bandwidth"});
  PriceList list;
  list.budget = reader.number("budget", std::nullopt);
  constexpr std::int64_t kMost = 100'000;  // each of them is tried
  list.most_workers = reader.count("most_workers", list.most_workers, kMost);
  list.compute = reader.part("compute");
  list.bandwidth = reader.part("bandwidth");
  return list;
}

plan::Prices prices_of(const PriceList& list, const Machine& machine) {
  const double gamma = machine.seconds_per_sample / machine.processor_share;
  const double delta = plan::delta_seconds(machine.communication);
  plan::Prices prices;
  prices.compute = [part = list.compute, gamma](double workers, double seconds_per_sample) {
    return part.price * workers * std::pow(gamma / seconds_per_sample, part.power);
  };
  prices.bandwidth = [part = list.bandwidth, delta](double other) {
    return part.price * std::pow(delta / other, part.power);
  };
  return prices;
}

}  // namespace convoy::cli
