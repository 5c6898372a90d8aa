// What `convoy plan partition` is about: a network, how a recipe divides it, and what follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "convoy/model/balance.h"
#include "convoy/model/partition.h"
#include "convoy/train/recipe.h"
#include "train/strategies/partitioned/needs.h"

namespace convoy::cli {

struct PartitionWords {
  std::string what;                    // a network's name, or a recipe's file
  int partitions = 0;                  // 0: a recipe's
  std::string by;                      // of images; empty: a recipe's, or rows
  std::string balance;                 // empty: a recipe's, or even
  std::vector<double> speeds;          // of the partitions; none: a recipe's, or all alike
  std::int64_t batch = 0;              // of all; 0: a recipe's, or 32
  std::vector<std::string> overrides;  // --set
};

// A plan with what its numbers mean in bytes.
struct PlannedPartition {
  train::Recipe recipe;
  model::Blueprint network;
  model::PartitionPlan plan;
  std::vector<model::PartitionLoad> loads;
  // Layers whose parts balance has chosen; none where it is even.
  model::LayerParts parts;
  std::vector<double> speeds;  // of the partitions
  double macs = 0;             // of the network
  double parameter_bytes = 4, value_bytes = 4;
  train::ReplicaShare share;  // of a mini-batch, that one network trains on

  // Gives the bytes in a mini-batch of so many values of a sample.
  double bytes(double values) const {
    return values * static_cast<double>(share.samples) * value_bytes;
  }
  // What a run says that it takes: parameters, their gradients, with the buckets in which these are
  // added up, the optimizer's state, buffers, what is kept for backward, messages, and copies of
  // what local filters see.
  double memory(std::size_t partition) const;
  const std::string& balance() const { return recipe.strategy_options.text("balance"); }
  // Whether a run would measure what is divided evenly here.
  bool waits_for_times() const { return balance() == "time" && parts.empty(); }
  bool alike() const;  // the speeds
  // How much of something the partition that has most for its speed has, by what it would have if
  // that were even.
  double most_over_mean(double (*of)(const model::PartitionLoad&)) const;
  // What its MACs take that partition, in those of one of speed 1.
  double longest() const;
};

// Nothing is built. The data of a recipe are looked at, since sizes and classes are theirs. Throws
// UsageError for words that make no sense, and for what the recipe's strategy refuses.
PlannedPartition plan_of(const PartitionWords& words);

}  // namespace convoy::cli
