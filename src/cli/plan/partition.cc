// convoy plan partition: what each of several machines has of a network that is divided over them.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench/step_recipe.h"
#include "cli/checks.h"
#include "cli/counts.h"
#include "cli/plan/network.h"
#include "cli/plan/subcommands.h"
#include "cli/rows.h"
#include "cli/training/set_option.h"
#include "convoy/base/units.h"
#include "convoy/model/factory.h"
#include "convoy/model/partition.h"
#include "convoy/optim/rule.h"
#include "convoy/train/optimizer_rule.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::ordered_json;
using model::Division;

// What is planned takes time and rows with the square of it.
constexpr int kMostPartitions = 1024;

struct Arguments {
  StepWords words;
  int partitions = 1;
  std::string by = "rows";
  std::string json;
};

// A plan with what its numbers mean in bytes.
struct Planned {
  train::Recipe recipe;
  model::Blueprint network;
  model::PartitionPlan plan;
  std::vector<model::PartitionLoad> loads;
  double macs = 0;  // of the network
  double parameter_bytes = 4, value_bytes = 4;
  double optimizer_values = 0;  // for each parameter

  double samples() const { return static_cast<double>(recipe.training.batch); }
  // Of values of a sample, in a mini-batch.
  double bytes(double values) const { return values * samples() * value_bytes; }
  // Parameters, their gradients, the optimizer's state, buffers, and what is kept for backward.
  double memory(const model::PartitionLoad& load) const {
    return (static_cast<double>(load.parameters) * (2 + optimizer_values) +
            static_cast<double>(load.buffers)) *
               parameter_bytes +
           bytes(load.activation_values);
  }
};

Planned planned_of(const Arguments& arguments) {
  model::check_model_name(arguments.words.model);
  train::Registry registry;
  add_made_up_images(registry);
  Planned p;
  p.recipe = step_recipe(arguments.words, 1, registry);
  p.network = network_of(p.recipe, registry);
  const auto inputs = inputs_of(p.recipe);
  p.plan = plan_partition(p.network, inputs,
                          {.partitions = arguments.partitions,
                           .images = {arguments.by == "tiles" ? Division::tiles : Division::rows}});
  p.loads = loads_of(p.network, p.plan);
  p.macs = static_cast<double>(cost_of(p.network, inputs).macs);
  const std::string& precision = p.recipe.precision;
  p.parameter_bytes = precision == "float64" ? 8 : 4;
  p.value_bytes = precision == "bfloat16" ? 2 : p.parameter_bytes;
  p.optimizer_values =
      static_cast<double>(optim::slots(train::optimizer_rule(p.recipe.optimizer)).size());
  return p;
}

// What partitions send each other of a value.
struct Exchange {
  std::size_t value = 0;
  bool output = false;
  std::map<std::pair<int, int>, double> pairs;  // values of a sample
  double values = 0;
};

std::vector<Exchange> exchanges_of(const model::PartitionPlan& plan) {
  std::map<std::pair<std::size_t, bool>, Exchange> all;
  for (const model::PartitionTraffic& sent : traffic_of(plan)) {
    Exchange& exchange = all[{sent.value, sent.output}];
    exchange.value = sent.value;
    exchange.output = sent.output;
    exchange.pairs[{sent.from, sent.to}] = sent.values;
    exchange.values += sent.values;
  }
  std::vector<Exchange> list;
  for (auto& [key, exchange] : all) list.push_back(std::move(exchange));
  return list;
}

// Of a value that layers read: borders if partitions need all channels of some positions, gather if
// they need everything.
const char* kind_of(const Planned& p, const Exchange& exchange) {
  const model::PartitionedValue& value = p.plan.values[exchange.value];
  if (exchange.output) return "outputs";
  if (value.input) return "inputs";
  const std::size_t inputs = p.plan.values.size() - p.plan.nodes.size();
  const Division how = p.plan.nodes[exchange.value - inputs].how;
  bool gather = true, halo = how == Division::rows || how == Division::tiles;
  for (const Slice& needed : value.needed) {
    if (needed.elements() == 0) continue;
    gather = gather && needed.whole();
    halo = halo && needed.size[0] == needed.shape[0];
  }
  return gather ? "gather" : halo ? "halo" : "all-to-all";
}

std::string range_text(int begin, int end) {
  return std::to_string(begin) + (end > begin ? "-" + std::to_string(end) : "");
}

// "0-2 > 1-3, 1-3 > 0-2": partition 0 to 1, 1 to 2, and so on.
std::string pairs_text(const Exchange& exchange, int partitions) {
  constexpr std::size_t kMostRanges = 6;
  const auto all = static_cast<std::size_t>(partitions) * static_cast<std::size_t>(partitions - 1);
  if (exchange.pairs.size() == all && partitions > 2) return "each > each";
  std::map<int, std::vector<std::pair<int, int>>> ranges;  // of senders, by how far away
  std::size_t count = 0;
  for (const auto& [pair, values] : exchange.pairs) {
    auto& own = ranges[pair.second - pair.first];
    if (!own.empty() && own.back().second + 1 == pair.first) {
      own.back().second = pair.first;
    } else {
      own.emplace_back(pair.first, pair.first);
      ++count;
    }
  }
  if (count > kMostRanges) return std::to_string(exchange.pairs.size()) + " pairs";
  std::string text;
  for (auto away = ranges.rbegin(); away != ranges.rend(); ++away) {
    for (const auto& [begin, end] : away->second) {
      text += (text.empty() ? "" : ", ") + range_text(begin, end) + " > " +
              range_text(begin + away->first, end + away->first);
    }
  }
  return text;
}

double most_macs(const Planned& p) {
  double most = 0;
  for (const model::PartitionLoad& load : p.loads) most = std::max(most, load.macs);
  return most;
}

double sum_of_macs(const Planned& p) {
  double sum = 0;
  for (const model::PartitionLoad& load : p.loads) sum += load.macs;
  return sum;
}

// 1 where nothing is computed that counts.
double ratio(double a, double b) { return b > 0 ? a / b : 1; }

double imbalance(const Planned& p) {
  return ratio(most_macs(p) * p.plan.partitions, sum_of_macs(p));
}

void add_rows(Rows& rows, const Planned& p) {
  for (std::size_t i = 0; i < p.loads.size(); ++i) {
    const model::PartitionLoad& load = p.loads[i];
    rows.add({{"kind", "partition"},
              {"partition", i},
              {"parameters", load.parameters},
              {"summed_parameters", load.summed_parameters},
              {"macs", load.macs},
              {"macs_share", ratio(load.macs, p.macs)},
              {"activation_bytes", p.bytes(load.activation_values)},
              {"memory_bytes", p.memory(load)},
              {"sent_bytes", p.bytes(load.sent_values + load.returned_values)},
              {"received_bytes", p.bytes(load.received_values + load.collected_values)}});
  }
  for (const Exchange& exchange : exchanges_of(p.plan)) {
    const model::PartitionedValue& value = p.plan.values[exchange.value];
    Json pairs = Json::array();
    for (const auto& [pair, values] : exchange.pairs)
      pairs.push_back({{"from", pair.first}, {"to", pair.second}, {"bytes", p.bytes(values)}});
    rows.add({{"kind", "exchange"},
              {"value", value.name},
              {"how", kind_of(p, exchange)},
              {"forward_bytes", p.bytes(exchange.values)},
              {"backward_bytes", value.trained ? p.bytes(exchange.values) : 0},
              {"pairs", std::move(pairs)}});
  }
  rows.add({{"kind", "balance"},
            {"macs_max_over_mean", imbalance(p)},
            {"speedup_at_most", ratio(p.macs, most_macs(p))}});
}

std::string bytes_text(double bytes) {
  return bytes == 0 ? "-" : format_bytes(static_cast<std::uint64_t>(bytes));
}

void print_partitions(const Planned& p) {
  std::printf("%-9s %15s %16s %7s %11s %11s %11s %11s\n", "partition", "parameters", "MACs", "",
              "activations", "memory", "sent", "received");
  for (std::size_t i = 0; i < p.loads.size(); ++i) {
    const model::PartitionLoad& load = p.loads[i];
    std::printf(
        "%9zu %15s %16s %5.1f %% %11s %11s %11s %11s\n", i, with_commas(load.parameters).c_str(),
        with_commas(static_cast<std::int64_t>(load.macs)).c_str(), 100 * ratio(load.macs, p.macs),
        bytes_text(p.bytes(load.activation_values)).c_str(), bytes_text(p.memory(load)).c_str(),
        bytes_text(p.bytes(load.sent_values + load.returned_values)).c_str(),
        bytes_text(p.bytes(load.received_values + load.collected_values)).c_str());
  }
}

void print_exchanges(const Planned& p) {
  const std::vector<Exchange> exchanges = exchanges_of(p.plan);
  if (exchanges.empty()) return;
  std::printf("\n%-26s %-10s %11s %11s  %s\n", "exchanged", "how", "forward", "backward",
              "from > to");
  for (const Exchange& exchange : exchanges) {
    const model::PartitionedValue& value = p.plan.values[exchange.value];
    const std::string bytes = bytes_text(p.bytes(exchange.values));
    std::printf("%-26s %-10s %11s %11s  %s\n", value.name.c_str(), kind_of(p, exchange),
                bytes.c_str(), value.trained ? bytes.c_str() : "-",
                pairs_text(exchange, p.plan.partitions).c_str());
  }
}

void print(const Planned& p, const std::string& by) {
  const int partitions = p.plan.partitions;
  std::printf("%s on %d partition%s, images by %s; mini-batches of %lld\n",
              p.recipe.model.name.c_str(), partitions, partitions == 1 ? "" : "s", by.c_str(),
              static_cast<long long>(p.recipe.training.batch));
  print_partitions(p);
  print_exchanges(p);
  std::printf(
      "\nMACs (multiplications with additions) are those of one sample, bytes those of a "
      "mini-batch, of which each\npartition has an equal part of the samples, forward and "
      "backward. Memory is that of parameters, gradients,\nthe state of %s, and activations.\n",
      p.recipe.optimizer.name.c_str());
  const std::int64_t summed = p.loads.front().summed_parameters;
  if (summed > 0) {
    std::printf(
        "Not in what is sent: gradients of %s parameters that all partitions hold (%s), which are "
        "summed over them.\n",
        with_commas(summed).c_str(),
        bytes_text(static_cast<double>(summed) * p.parameter_bytes).c_str());
  }
  std::printf(
      "Balance: the most MACs of a partition are %.3f times the mean; %d partition%s can "
      "be %.2f times as fast as one at most.\n",
      imbalance(p), partitions, partitions == 1 ? "" : "s", ratio(p.macs, most_macs(p)));
}

void run(const Arguments& arguments) {
  const Planned p = planned_of(arguments);
  Rows rows(arguments.json);
  add_rows(rows, p);
  if (!rows.on_standard_output()) print(p, arguments.by);
}

}  // namespace

void add_plan_partition_command(CLI::App& plan) {
  auto arguments = std::make_shared<Arguments>();
  Arguments& a = *arguments;
  a.words.batch_per_rank = 32;
  CLI::App* command = plan.add_subcommand(
      "partition",
      "What each of several machines has of a network divided over them, and what they send each "
      "other");
  command->add_option("model", a.words.model, "The network: " + names_of_networks())
      ->type_name("MODEL")
      ->required();
  command->add_option("-P,--partitions", a.partitions, "Over how many it is divided")
      ->type_name("N")
      ->required()
      ->check(positive_integer(kMostPartitions));
  command
      ->add_option(
          "--by", a.by,
          "How images are divided: rows, or tiles (rows x columns). Fully connected layers "
          "are by units")
      ->check(CLI::IsMember({"rows", "tiles"}))
      ->capture_default_str();
  command->add_option("--batch", a.words.batch_per_rank, "Samples of a mini-batch, of all")
      ->check(positive_integer())
      ->capture_default_str();
  add_set_option(*command, a.words.overrides);
  command->add_option("--json", a.json, "The tables as JSON ('-': standard output)")
      ->type_name("FILE");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace convoy::cli
