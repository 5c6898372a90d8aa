// convoy plan partition: what each of several machines has of a network that is divided over them.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/toml_text.h"
#include "cli/checks.h"
#include "cli/counts.h"
#include "cli/plan/network.h"
#include "cli/plan/partition_plan.h"
#include "cli/plan/subcommands.h"
#include "cli/rows.h"
#include "cli/training/set_option.h"
#include "cli/writes.h"
#include "convoy/base/units.h"
#include "convoy/model/partition.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::ordered_json;
using model::Division;

// What is planned takes time and rows with the square of it.
constexpr int kMostPartitions = 1024;

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
const char* kind_of(const PlannedPartition& p, const Exchange& exchange) {
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

// 1 where nothing is computed that counts.
double ratio(double a, double b) { return b > 0 ? a / b : 1; }

double macs_of(const model::PartitionLoad& load) { return load.macs; }
double parameters_of(const model::PartitionLoad& load) {
  return static_cast<double>(load.parameters);
}

void add_rows(Rows& rows, const PlannedPartition& p) {
  for (std::size_t i = 0; i < p.loads.size(); ++i) {
    const model::PartitionLoad& load = p.loads[i];
    rows.add({{"kind", "partition"},
              {"partition", i},
              {"parameters", load.parameters},
              {"summed_parameters", load.summed_parameters},
              {"macs", load.macs},
              {"macs_share", ratio(load.macs, p.macs)},
              {"speed", p.speeds[i]},
              {"activation_bytes", p.bytes(load.activation_values)},
              {"message_bytes", p.bytes(load.message_values)},
              {"memory_bytes", p.memory(i)},
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
  for (const auto& [layer, parts] : p.parts)
    rows.add({{"kind", "layer"}, {"layer", layer}, {"parts", parts}});
  rows.add({{"kind", "balance"},
            {"by", p.balance()},
            {"speeds", p.speeds},
            {"macs_max_over_mean", p.most_over_mean(macs_of)},
            {"parameters_max_over_mean", p.most_over_mean(parameters_of)},
            {"speedup_at_most", ratio(p.macs, p.longest())}});
}

std::string bytes_or_dash(double bytes) {
  return bytes == 0 ? "-" : format_bytes(static_cast<std::uint64_t>(bytes));
}

void print_partitions(const PlannedPartition& p) {
  std::printf("%-9s %15s %16s %7s %11s %11s %11s %11s\n", "partition", "parameters", "MACs", "",
              "activations", "memory", "sent", "received");
  for (std::size_t i = 0; i < p.loads.size(); ++i) {
    const model::PartitionLoad& load = p.loads[i];
    std::printf(
        "%9zu %15s %16s %5.1f %% %11s %11s %11s %11s\n", i, with_commas(load.parameters).c_str(),
        with_commas(static_cast<std::int64_t>(load.macs)).c_str(), 100 * ratio(load.macs, p.macs),
        bytes_or_dash(p.bytes(load.activation_values)).c_str(), bytes_or_dash(p.memory(i)).c_str(),
        bytes_or_dash(p.bytes(load.sent_values + load.returned_values)).c_str(),
        bytes_or_dash(p.bytes(load.received_values + load.collected_values)).c_str());
  }
}

void print_exchanges(const PlannedPartition& p) {
  const std::vector<Exchange> exchanges = exchanges_of(p.plan);
  if (exchanges.empty()) return;
  std::printf("\n%-26s %-10s %11s %11s  %s\n", "exchanged", "how", "forward", "backward",
              "from > to");
  for (const Exchange& exchange : exchanges) {
    const model::PartitionedValue& value = p.plan.values[exchange.value];
    const std::string bytes = bytes_or_dash(p.bytes(exchange.values));
    std::printf("%-26s %-10s %11s %11s  %s\n", value.name.c_str(), kind_of(p, exchange),
                bytes.c_str(), value.trained ? bytes.c_str() : "-",
                pairs_text(exchange, p.plan.partitions).c_str());
  }
}

void print_parts(const PlannedPartition& p) {
  if (p.parts.empty()) return;
  std::printf("\n%-26s %-10s  %s\n", "divided", "by", "parts");
  for (const model::PartitionedNode& place : p.plan.nodes) {
    const std::string& name = p.plan.node_of(p.network, place).name;
    const auto parts = p.parts.find(name);
    if (parts == p.parts.end()) continue;
    std::printf("%-26s %-10s ", name.c_str(), model::text_of(place.how));
    for (const std::int64_t part : parts->second)
      std::printf(" %lld", static_cast<long long>(part));
    std::printf("\n");
  }
}

const char* plural(std::size_t count) { return count == 1 ? "" : "s"; }

void print_balance(const PlannedPartition& p) {
  const std::size_t partitions = p.loads.size();
  const double macs = p.most_over_mean(macs_of);
  if (p.alike()) {
    std::printf(
        "Balance: the most MACs of a partition are %.3f times the mean; %zu partition%s can be "
        "%.2f times as fast as one at most.\n",
        macs, partitions, plural(partitions), ratio(p.macs, p.longest()));
  } else {
    std::string speeds;
    for (const double speed : p.speeds) speeds += (speeds.empty() ? "" : ", ") + shortest(speed);
    std::printf(
        "Balance: with speeds of %s the MACs take the partition that ends last %.3f times as long "
        "as "
        "if they were\neven; %zu partitions can be %.2f times as fast as one of speed 1 at most.\n",
        speeds.c_str(), macs, partitions, ratio(p.macs, p.longest()));
  }
  if (p.balance() == "parameters") {
    std::printf(
        "The partition with most parameters%s has %.3f times what it would have if they "
        "were even.\n",
        p.alike() ? "" : " for its speed", p.most_over_mean(parameters_of));
  }
  if (p.waits_for_times()) {
    std::printf(
        "A run measures how long layers take, and divides them by that: here they are "
        "divided evenly.\n");
  }
}

void print(const PlannedPartition& p) {
  const std::size_t partitions = p.loads.size();
  std::printf("%s on %zu partition%s, images by %s; mini-batches of %lld\n",
              p.recipe.model.name.c_str(), partitions, plural(partitions),
              p.recipe.strategy_options.text("images").c_str(),
              static_cast<long long>(p.recipe.training.batch));
  print_partitions(p);
  print_parts(p);
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
        bytes_or_dash(static_cast<double>(summed) * p.parameter_bytes).c_str());
  }
  print_balance(p);
}

void run_partition(const PartitionWords& words, const std::string& json) {
  const PlannedPartition p = plan_of(words);
  Rows rows(json);
  add_rows(rows, p);
  if (!rows.on_standard_output()) print(p);
}

}  // namespace

void add_plan_partition_command(CLI::App& plan) {
  struct Arguments {
    PartitionWords words;
    std::string json;
  };
  auto arguments = std::make_shared<Arguments>();
  PartitionWords& words = arguments->words;
  CLI::App* command = plan.add_subcommand(
      "partition",
      "What each of several machines has of a network divided over them, and what they send each "
      "other");
  command
      ->add_option("network", words.what, "A recipe's file, or a network: " + names_of_networks())
      ->type_name("RECIPE.toml|MODEL")
      ->required();
  command
      ->add_option("-P,--partitions", words.partitions,
                   "Over how many it is divided; with a recipe, its grid.partitions without")
      ->type_name("N")
      ->check(positive_integer(kMostPartitions));
  command
      ->add_option(
          "--by", words.by,
          "How images are divided: rows (usually), or tiles (rows x columns). Fully connected "
          "layers are by units")
      ->check(CLI::IsMember({"rows", "tiles"}));
  command
      ->add_option("--balance", words.balance,
                   "What is to be alike on all partitions: even (rows and units), parameters, or "
                   "macs (multiply-adds). Times are measured by runs alone")
      ->check(CLI::IsMember({"even", "parameters", "macs"}));
  command
      ->add_option("--speeds", words.speeds,
                   "Of the partitions, relative to each other: 1,1,0.5; what is balanced is "
                   "divided by them")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LIST");
  command
      ->add_option("--batch", words.batch,
                   "Samples of a mini-batch, of all; without it the recipe's, or 32")
      ->check(positive_integer());
  add_set_option(*command, words.overrides);
  command->add_option("--json", arguments->json, "The tables as JSON ('-': standard output)")
      ->type_name("FILE")
      ->check(writes_file(kTableFile));
  command->callback([arguments] { run_partition(arguments->words, arguments->json); });
}

}  // namespace convoy::cli
