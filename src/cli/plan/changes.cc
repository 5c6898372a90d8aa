#include "cli/plan/changes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

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

  // `range`: of what can be bought; null: any.
  PriceList::Part part(const char* key, plan::ProcessorRange* range) const {
    const toml::table* table = table_[key].as_table();
    if (table == nullptr)
      throw UsageError(place(table_.get(key)) + "there is no table [" + key + "]");
    const Reader inner(path_, *table, std::string(key) + ".");
    std::vector<std::string> known{"price", "power"};
    if (range != nullptr) {
      known.insert(known.end(), {"slowest", "fastest"});
      range->slowest = inner.number("slowest", 1.0);
      range->fastest = inner.number("fastest", 1.0);
      if (range->slowest > 1) inner.refuse("slowest", "at most 1: processors of today are there");
      if (range->fastest < 1) inner.refuse("fastest", "at least 1: processors of today are there");
    }
    inner.only(known);
    return {inner.number("price", std::nullopt), inner.number("power", 1.0)};
  }

  [[noreturn]] void refuse(const char* key, const char* right) const {
    throw UsageError(place(table_.get(key)) + inside_ + key + " has to be " + right);
  }

 private:
  std::string place(const toml::node* node) const {
    return path_ + (node == nullptr ? "" : ":" + std::to_string(node->source().begin.line)) + ": ";
  }

  const std::string& path_;
  const toml::table& table_;
  std::string inside_;
};

bool is_possible(const plan::MachineChange& change, std::int64_t largest) {
  const Machine& machine = change.machine;
  return change.workers <= largest || (machine.table.empty() && machine.memory_samples == 0);
}

// Speed-ups of each change, by draws.
struct DrawnSpeedups {
  std::vector<double> same, best;
};

std::map<std::string, DrawnSpeedups> drawn_speedups(const PlannedTraining& t, double factor) {
  std::map<std::string, DrawnSpeedups> drawn;
  for (std::size_t i = 0; i < t.updates.draws.size(); ++i) {
    const Machine machine = plan::machine_of_draw(t.machine, i);
    const plan::UpdateLaw& law = t.updates.draws[i];
    const double each = plan::seconds_per_update(machine, t.batch, t.workers);
    // Without a floor no batch is the best.
    const bool floor = t.updates.trusted && law.updates_at_infinity > 0;
    const double before = floor ? plan::optimum(law, machine, t.workers, t.largest).seconds : 0;
    for (const plan::MachineChange& change : plan::machine_changes(machine, t.workers, factor)) {
      DrawnSpeedups& own = drawn[change.change];
      if (change.workers <= t.batch)
        own.same.push_back(each /
                           plan::seconds_per_update(change.machine, t.batch, change.workers));
      if (floor && is_possible(change, t.largest))
        own.best.push_back(before /
                           plan::optimum(law, change.machine, change.workers, t.largest).seconds);
    }
  }
  return drawn;
}

plan::Estimate with_interval(double value, const std::vector<double>& draws) {
  return {value, draws.empty() ? plan::Interval{value, value} : plan::interval_of(draws)};
}

}  // namespace

TrainingTime time_of(const PlannedTraining& t) {
  const auto seconds = plan::predicted_seconds(t.updates, t.machine, t.batch, t.workers);
  if (!seconds) {
    throw UsageError(
        "the law of updates is not trusted (see above), so nothing is known of batch " +
        std::to_string(t.batch) +
        ", which is not between those that were measured: take --batch from these, or measure it "
        "with `convoy plan batch`");
  }
  TrainingTime time{*seconds, std::nullopt};
  if (t.updates.trusted)
    time.best = plan::optimum(t.updates.law, t.machine.machine, t.workers, t.largest);
  return time;
}

std::vector<Change> changes_of(const PlannedTraining& t, double factor) {
  const TrainingTime now = time_of(t);
  const auto drawn = drawn_speedups(t, factor);
  const double updates = plan::predicted_updates(t.updates, static_cast<double>(t.batch)).value();
  std::vector<Change> changes;
  for (const plan::MachineChange& one :
       plan::machine_changes(t.machine.machine, t.workers, factor)) {
    const auto found = drawn.find(one.change);
    const DrawnSpeedups own = found == drawn.end() ? DrawnSpeedups() : found->second;
    Change change{one.change, std::nullopt, std::nullopt};
    if (one.workers <= t.batch) {
      const double seconds = updates * plan::seconds_per_update(one.machine, t.batch, one.workers);
      change.same = {static_cast<double>(t.batch), seconds,
                     with_interval(now.seconds.value / seconds, own.same)};
    }
    if (now.best && is_possible(one, t.largest)) {
      const auto [batch, seconds] =
          plan::optimum(t.updates.law, one.machine, one.workers, t.largest);
      change.best = {batch, seconds, with_interval(now.best->seconds / seconds, own.best)};
    }
    changes.push_back(std::move(change));
  }
  const auto seconds = [](const std::optional<Change::WithBatch>& with) {
    return with ? with->seconds : std::numeric_limits<double>::infinity();
  };
  std::sort(changes.begin(), changes.end(), [&](const Change& a, const Change& b) {
    return std::tuple(seconds(a.best), seconds(a.same), a.change) <
           std::tuple(seconds(b.best), seconds(b.same), b.change);
  });
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
  list.compute = reader.part("compute", &list.processors);
  list.bandwidth = reader.part("bandwidth", nullptr);
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
