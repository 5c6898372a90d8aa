// Whether ranks can have what their parts of a network take, and how many partitions could.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/system.h"
#include "convoy/base/units.h"
#include "convoy/train/partition_rules.h"
#include "convoy/train/server_job.h"
#include "train/strategies/partitioned/needs.h"
#include "train/strategies/partitioned/options.h"

namespace convoy::train {
namespace {

constexpr int kMostPartitions = 256;

std::string size_text(double bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

// Processes that have the same are in one cgroup, whose memory they share.
std::string cgroup_name(const std::string& host) {
  char link[64];
  const ssize_t length = readlink("/proc/self/ns/cgroup", link, sizeof link);
  constexpr std::size_t kLongest = 1 << 16;
  std::string groups;
  try {
    groups = read_text_file("/proc/self/cgroup", kLongest);
  } catch (const std::exception&) {  // a kernel without them
  }
  return host + "\n" + std::string(link, static_cast<std::size_t>(std::max<ssize_t>(0, length))) +
         "\n" + groups;
}

// What all ranks told each other.
struct Memory {
  std::vector<double> needs, address, available, host, own;
  std::vector<std::string> hosts, groups;

  Memory(const comm::World& world, double need) {
    const comm::Communicator& all = world.communicator();
    needs = all.gather(need);
    address = all.gather(static_cast<double>(address_space_left()));
    // Where the kernel doesn't say what is left, nothing is refused for want of it.
    const bool known = host_memory() > 0;
    constexpr double kAny = 1e18;  // bytes
    available = all.gather(known ? static_cast<double>(available_memory()) : kAny);
    host = all.gather(known ? static_cast<double>(host_memory()) : kAny);
    own = all.gather(static_cast<double>(resident_memory()));
    for (int rank = 0; rank < world.size(); ++rank) hosts.push_back(world.host(rank));
    groups = all.gather_text(cgroup_name(world.host(world.rank())));
  }
  // Of ranks with the same name as this one: how many they are, and what the others need.
  MemoryLimit sharing(const std::vector<std::string>& names, std::size_t rank) const {
    MemoryLimit found{0, 0};
    for (std::size_t other = 0; other < needs.size(); ++other) {
      if (names[other] != names[rank]) continue;
      ++found.ranks;
      if (other != rank) found.bytes += needs[other];
    }
    return found;
  }
  double left(std::size_t rank) const {
    return std::max(0.0, std::min({address[rank], available[rank] - sharing(groups, rank).bytes,
                                   host[rank] - sharing(hosts, rank).bytes}));
  }
  MemoryLimits limits(std::size_t rank) const {
    return {.limits = {{address[rank], 0},
                       {available[rank], sharing(groups, rank).ranks},
                       {host[rank], sharing(hosts, rank).ranks}},
            .all = static_cast<int>(needs.size()),
            .own = own[rank]};
  }
};

bool are_enough(double largest, int ranks, const MemoryLimits& memory) {
  return std::all_of(memory.limits.begin(), memory.limits.end(), [&](const MemoryLimit& limit) {
    // Those that share it now, of a larger job.
    const double sharing = std::max(
        1.0, std::ceil(static_cast<double>(limit.ranks) * ranks / std::max(1, memory.all)));
    const double more = std::max(0.0, sharing - std::max(1, limit.ranks));
    return largest * sharing + memory.own * more <= limit.bytes;
  });
}

bool has_parts(const Recipe& recipe) {
  return std::any_of(recipe.placement.layers.begin(), recipe.placement.layers.end(),
                     [](const PlacementRule& rule) { return !rule.parts.empty(); });
}

bool divides_by_own_keys(const Recipe& job) {
  return job.strategy == "partitioned" || is_server_job(job.strategy);
}

// What a job has in [partitioned], whichever its strategy.
const Options* partitioned_keys_of(const Recipe& job) {
  if (job.strategy == "partitioned") return &job.strategy_options;
  const auto found = job.candidates.find("partitioned");
  return found == job.candidates.end() ? nullptr : &found->second;
}

std::string what_for(NetworkUse use, std::int64_t samples) {
  const std::string rows =
      samples == 0 ? ""
                   : " of " + std::to_string(samples) + (samples == 1 ? " sample" : " samples");
  const std::string values = samples == 0 ? "" : ", and values" + rows;
  switch (use) {
    case NetworkUse::inference:
      return "to use it (parameters" + values + ")";
    case NetworkUse::following:
      return "to evaluate it while others train it (parameters, copies of them for checkpoints" +
             values + ")";
    case NetworkUse::timing:
      return "to time its layers, as partitioned.balance = \"time\" does before it divides them "
             "(parameters, gradients of a layer" +
             values + ")";
    case NetworkUse::training:
      break;
  }
  return "to train it (parameters, gradients, the optimizer's state" +
         (samples == 0 ? "" : ", and activations" + rows) + ")";
}

// Whether the parts that are trained are noted ones, of measured times or somebody's own.
bool is_divided_by_time(const Recipe& recipe, NetworkUse use) {
  const Options& options = recipe.strategy_options;
  return use == NetworkUse::training && recipe.strategy == "partitioned" &&
         options.has("balance") && options.text("balance") == kByTime &&
         !options.texts("parts").empty();
}

}  // namespace

Recipe with_partitions(const Recipe& recipe, int partitions) {
  Recipe other = recipe;
  if (recipe.grid.partitions == partitions) return other;
  other.grid.partitions = partitions;
  for (PlacementRule& rule : other.placement.layers) rule.parts.clear();
  other.strategy_options.set("speeds", std::vector<double>{});
  other.strategy_options.set("parts", std::vector<std::string>{});
  return other;
}

// Whether so many ranks would do for this recipe, each with as much memory as the one that needs
// most. A recipe whose rules don't go with its division would not.
static bool would_do(const Recipe& other, const model::Blueprint& blueprint,
                     const std::vector<model::Shape>& inputs, const ReplicaShare& share,
                     const MemoryLimits& memory, int ranks, NetworkUse use) {
  try {
    const model::PartitionPlan plan =
        plan_partition(blueprint, inputs, partition_rules(other, blueprint, inputs));
    double largest = 0;
    for (const PartitionNeeds& needs : all_needs(other, blueprint, plan, share))
      largest = std::max(largest, needs.of(use));
    return are_enough(largest, ranks, memory);
  } catch (const UsageError&) {
    return false;
  }
}

int enough_partitions(const Recipe& recipe, const model::Blueprint& blueprint,
                      const model::PartitionPlan& plan, const ReplicaShare& share,
                      const MemoryLimits& memory, int replicas, NetworkUse use) {
  const std::vector<model::Shape> inputs = planned_inputs(plan);
  const auto do_so_many = [&](int partitions) {
    return would_do(with_partitions(recipe, partitions), blueprint, inputs, share, memory,
                    partitions * replicas, use);
  };
  // As it was trained, where it is to be used by fewer.
  const auto trained = static_cast<int>(recipe.grid.partitions);
  if (trained > plan.partitions && trained <= kMostPartitions && do_so_many(trained))
    return trained;
  for (int partitions = 2 * plan.partitions; partitions <= kMostPartitions; partitions *= 2) {
    if (do_so_many(partitions)) return partitions;
  }
  return 0;
}

// Whether as many ranks would do if all held as much.
static bool would_do_by_parameters(const Recipe& recipe, const model::Blueprint& blueprint,
                                   const model::PartitionPlan& plan, const ReplicaShare& share,
                                   const MemoryLimits& memory, NetworkUse use) {
  Recipe other = recipe;
  other.strategy_options.set("balance", std::string("parameters"));
  other.strategy_options.set("parts", std::vector<std::string>{});
  return would_do(other, blueprint, planned_inputs(plan), share, memory, memory.all, use);
}

std::string partitions_advice(const Recipe& job, int partitions, int replicas, NetworkUse use) {
  std::string set;
  const auto add = [&set](const std::string& text) { set += " --set " + text; };
  // Rules of other strategies say nothing of how this one divides.
  const bool own = divides_by_own_keys(job);
  if (!own) add("strategy=partitioned");
  if (!own && !job.placement.layers.empty()) add("'placement.layers=[]'");
  const bool as_trained = own && job.grid.partitions == partitions;
  if (!as_trained) add("grid.partitions=" + std::to_string(partitions));
  if (use == NetworkUse::inference && job.grid.replicas > 1) add("grid.replicas=1");
  const Options* const keys = partitioned_keys_of(job);
  if (own && !as_trained && keys != nullptr && !keys->numbers("speeds").empty())
    add("'partitioned.speeds=[]'");
  std::string text = as_trained && set.empty()
                         ? "use it in " + std::to_string(partitions) + " partitions ("
                         : "let grid.partitions be " + std::to_string(partitions) + " (";
  std::string words = set.empty() ? "" : set.substr(1);
  // `convoy train` starts as many ranks for each replica of such a job as it has partitions.
  if (use == NetworkUse::inference || !is_server_job(job.strategy))
    words += (words.empty() ? "-n " : " -n ") + std::to_string(partitions * replicas);
  text += words + ")";
  if (own && !as_trained && has_parts(job))
    text += ", without the parts in [[placement.layers]], which are for " +
            std::to_string(job.grid.partitions);
  return text;
}

// An evaluation of fewer samples at a time may fit; of `needs` bytes `fixed` are for none of them.
static std::string batch_advice(double left, double needs, double fixed,
                                const ReplicaShare& share) {
  if (share.samples <= 1 || left <= fixed || needs <= fixed) return "";
  const double each = (needs - fixed) / static_cast<double>(share.samples);
  const auto most = static_cast<std::int64_t>((left - fixed) / each) * share.replicas;
  if (most <= 0) return "";
  const std::string batch = std::to_string(most);
  return "let evaluation.batch be " + batch + " at most (--set evaluation.batch=" + batch + ")";
}

void check_needs(const comm::World& world, const Recipe& recipe, const Recipe& job,
                 const model::Blueprint& blueprint, const model::PartitionPlan& plan,
                 const ReplicaShare& share, int partition, NetworkUse use) {
  if (recipe.device != "cpu") return;
  const double own = needs_of(recipe, blueprint, plan, partition, share).of(use);
  const Memory memory(world, own);
  // Without samples; what an evaluation needs beyond it is the same for each of them.
  ReplicaShare none = share;
  none.samples = 0;
  const std::vector<double> fixed =
      world.communicator().gather(needs_of(recipe, blueprint, plan, partition, none).of(use));
  // The first rank that lacks most, and its numbers.
  std::size_t worst = 0;
  const auto lacks = [&](std::size_t rank) { return memory.needs[rank] - memory.left(rank); };
  for (std::size_t rank = 1; rank < memory.needs.size(); ++rank) {
    if (lacks(rank) > lacks(worst)) worst = rank;
  }
  if (lacks(worst) <= 0) return;
  // One that uses a network that was trained needs no replicas.
  const int replicas =
      use == NetworkUse::inference ? 1 : std::max(1, world.size() / plan.partitions);
  MemoryLimits limits = memory.limits(worst);
  const auto enough = [&] {
    return enough_partitions(recipe, blueprint, plan, share, limits, replicas, use);
  };
  std::string advice;
  const std::string fewer =
      use == NetworkUse::inference || use == NetworkUse::following
          ? batch_advice(memory.left(worst), memory.needs[worst], fixed[worst], share)
          : "";
  if (const int here = enough(); here > 0) {
    advice = partitions_advice(job, here, replicas, use);
  } else {
    for (MemoryLimit& limit : limits.limits) limit.ranks = 0;
    const int alone = enough();
    if (alone > 0)
      advice = partitions_advice(job, alone, replicas, use) + ", where each rank has " +
               size_text(memory.available[worst]) +
               " of its own, on other hosts or in a cgroup by itself: ranks here share it";
  }
  if (advice.empty() && fewer.empty()) advice = "no number of partitions would do";
  const std::string what_would = fewer + (fewer.empty() || advice.empty() ? "" : "; or ") + advice;
  const bool timed = plan.partitions > 1 && is_divided_by_time(recipe, use);
  const bool by_parameters =
      timed && would_do_by_parameters(recipe, blueprint, plan, share, memory.limits(worst), use);
  throw UsageError("rank " + std::to_string(worst) + " needs " + size_text(memory.needs[worst]) +
                   " for " + blueprint.name + " in " + std::to_string(plan.partitions) +
                   (plan.partitions == 1 ? " partition" : " partitions") +
                   (timed ? " with the parts that partitioned.parts notes" : "") + ", " +
                   what_for(use, share.samples) + ", and can have " +
                   size_text(memory.left(worst)) + ": " + what_would +
                   (by_parameters
                        ? "; or let all ranks hold as much (partitioned.balance = \"parameters\")"
                        : ""));
}

}  // namespace convoy::train
