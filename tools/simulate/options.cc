#include "options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "cli/bench/lists.h"
#include "comm/collectives/allreduce/selection.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"

namespace convoy::simulate {
namespace {

constexpr int kMostRanks = 4096;
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

// "100gbit", as tools/cluster reads it: bytes per second.
double parse_rate(const std::string& text) {
  const char* end = text.data() + text.size();
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const std::string unit(rest, end);
  const double bits = unit == "kbit" ? 1e3 : unit == "mbit" ? 1e6 : unit == "gbit" ? 1e9 : 0;
  if (error != std::errc() || !(number * bits >= 1e3) || !std::isfinite(number)) {
    throw UsageError("--rate: '" + text +
                     "' is no rate of at least 1kbit; write 25gbit or 100gbit");
  }
  return number * bits / 8;
}

// "4x4x8"
std::vector<unsigned long> parse_torus(const std::string& text, int ranks) {
  std::vector<unsigned long> lengths;
  unsigned long hosts = 1;
  for (const char *at = text.data(), *end = at + text.size();;) {
    unsigned long length = 0;
    const auto [rest, error] = std::from_chars(at, end, length);
    if (error != std::errc() || length < 1 || length > kMostRanks || (rest != end && *rest != 'x'))
      throw UsageError("--torus: '" + text + "' is no shape such as 8x8 or 4x4x8");
    lengths.push_back(length);
    hosts = std::min<unsigned long>(hosts * length, kMostRanks + 1);
    if (rest == end) break;
    at = rest + 1;
  }
  if (hosts > kMostRanks || hosts < static_cast<unsigned long>(ranks)) {
    throw UsageError("--torus: " + text + " must have from " + std::to_string(ranks) +
                     " hosts, one for each rank, to " + std::to_string(kMostRanks));
  }
  return lengths;
}

Candidate parse_candidate(const std::string& name) {
  if (name == "mpi") return {Candidate::Kind::mpi, name, {}};
  if (name == "auto") return {Candidate::Kind::automatic, name, {}};
  const comm::AllreduceChoice choice =
      comm::parse_allreduce(name, "--algorithms (with 'auto' besides)");
  if (!comm::Abilities().allow(choice.algorithm)) {
    throw UsageError("--algorithms: '" + name +
                     "' can't be simulated: it needs several ranks on a host");
  }
  return {Candidate::Kind::algorithm, name, choice};
}

}  // namespace

void declare(CLI::App& app, Options& options) {
  app.add_option("--ranks", options.ranks, "Ranks, each on a host of its own")
      ->check(CLI::Range(2, kMostRanks))
      ->capture_default_str();
  app.add_option("--topology", options.topology, "fat-tree or torus")
      ->check(CLI::IsMember({"fat-tree", "torus"}))
      ->capture_default_str();
  app.add_option("--seed", options.seed,
                 "Of the random numbers for --placement and --spread; the same seed gives the same "
                 "times")
      ->capture_default_str();
  app.add_option("--placement", options.placement,
                 "Ranks on hosts: shuffled, or in-order (neighbors are near each other)")
      ->check(CLI::IsMember({"shuffled", "in-order"}))
      ->capture_default_str();
  app.add_option(
         "--spread", options.spread,
         "Each link's rate is up to this part lower, and its latency up to this part higher")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str();
  app.add_option("--rate", options.rate, "Of each link, each way")->capture_default_str();
  app.add_option("--latency", options.latency_us, "Of each link, in microseconds")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--leaf", options.leaf, "Of the fat tree: hosts at each leaf switch")
      ->check(CLI::Range(1, kMostRanks))
      ->capture_default_str();
  app.add_option("--spines", options.spines,
                 "Of the fat tree: switches that join the leaves, each by one link to each leaf "
                 "(default: as many as a leaf has hosts)")
      ->check(CLI::Range(1, kMostRanks));
  app.add_option("--torus", options.torus,
                 "The torus' hosts in each dimension, as in 4x4x8 (default: near to a cube)");
  app.add_option("--sizes", options.sizes, "Sizes of the buffer; 4..256MiB goes in steps of 4x")
      ->capture_default_str();
  app.add_option("--algorithms", options.algorithms,
                 "List of auto (the selection), and algorithms with parameters, as in 'ring-rsag "
                 "segment=1MiB,multicolor k=4'; mpi (Open MPI's selection) always is the first")
      ->capture_default_str();
  app.add_option("--sum-rate", options.sum_rate,
                 "Bytes per second that a rank adds to others; 0: additions take no time")
      ->capture_default_str();
  app.add_option("--simgrid", options.simgrid,
                 "An option of SimGrid, as in smpi/os:0:1e-6:0; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--json", options.json,
                 "One JSON object per row to this file, '-' for standard output");
}

Network network_of(const Options& options) {
  Network network;
  const bool tree = options.topology == "fat-tree";
  network.topology = tree ? Topology::fat_tree : Topology::torus;
  network.ranks = options.ranks;
  network.bytes_per_second = parse_rate(options.rate);
  network.latency_s = options.latency_us * 1e-6;
  network.spread = options.spread;
  network.shuffled = options.placement == "shuffled";
  network.seed = options.seed;
  if (tree && !options.torus.empty())
    throw UsageError("--torus is of --topology torus, not of the fat tree");
  if (!tree && options.spines > 0)
    throw UsageError("--spines is of --topology fat-tree, not of the torus");
  network.leaf = std::min(options.leaf, options.ranks);
  network.spines = options.spines > 0 ? options.spines : network.leaf;
  if (!tree) {
    network.torus =
        options.torus.empty() ? cubic(options.ranks) : parse_torus(options.torus, options.ranks);
  }
  return network;
}

Plan plan_of(const Options& options) {
  Plan plan;
  for (const std::size_t bytes : cli::parse_sizes(options.sizes)) {
    if (bytes > kMostBytes)
      throw UsageError("--sizes: " + format_bytes(bytes) + " is above the largest, 1 GiB");
    plan.counts.push_back(std::max<std::size_t>(1, bytes / sizeof(float)));
  }
  plan.candidates.push_back(parse_candidate("mpi"));
  std::set<std::string> seen;
  for (const std::string& name : cli::split_list(options.algorithms, "--algorithms")) {
    if (!seen.insert(name).second) throw UsageError("--algorithms: '" + name + "' is there twice");
    if (name != "mpi") plan.candidates.push_back(parse_candidate(name));
  }
  plan.sums_per_second = static_cast<double>(parse_bytes(options.sum_rate));
  return plan;
}

}  // namespace convoy::simulate
