// Parts of layers with which the partitions of a network cost the same (Dean et al. 2012, section
// 3: what a model gains from more machines is limited by the one that takes longest). No Torch
// header.
//
// All functions are pure: any thread may call them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "convoy/model/blueprint.h"
#include "convoy/model/partition.h"

namespace convoy::model {

// This is what partitions have to do or to hold, in one unit: parameters, multiply-adds, seconds.
struct PartitionCosts {
  // By node of the plan and partition, this is what grows with the part that the partition has of
  // the node's output.
  std::vector<std::vector<double>> parts;
  // By partition, this is what it has besides, however large its part is.
  std::vector<double> fixed;
};

enum class CountedCost : std::uint8_t { parameters, macs };
// Counts the costs of one sample. Parameters that all partitions hold are fixed. Multiply-adds are
// alike in all rows, as a partition computes them: beyond the image's borders windows lie on zeros.
PartitionCosts counted_costs(const Blueprint& blueprint, const PartitionPlan& plan,
                             CountedCost what);

// Costs that were measured, and how fast each partition is: the fastest is 1.
struct TimedCosts {
  PartitionCosts costs;  // seconds of a partition of speed 1
  std::vector<double> speeds;
};
// `seconds` by node of the plan and partition, 0 where it computes nothing. Of two partitions with
// as much of the layers that a plan can divide otherwise, one is half as fast if it took twice as
// long for these; one that had nothing of them is as fast as the mean of the others.
TimedCosts timed_costs(const PartitionPlan& plan, const std::vector<std::vector<double>>& seconds);

// Gives for each partition the sum of its costs.
std::vector<double> sums_of(const PartitionCosts& costs);

// Says by the name of a layer how many rows or units each partition has.
using LayerParts = std::map<std::string, std::vector<std::int64_t>>;

// Gives the parts of the plan's layers that are `divided_evenly`, as the plan divides them.
LayerParts parts_of(const PartitionPlan& plan, const Blueprint& blueprint);

// Gives parts of the same layers with which a partition's costs, divided by its speed, are as even
// as can be had: those of other layers, and what is fixed, count as they are. Layers with as many
// rows (or units) have the same parts, so that no more crosses the borders than has to; a border
// lies at most one row from where the costs have it, at that side which evens out what the others
// leave. Layers that cost nothing go with the others, or by speeds alone where no layer that is
// divided alike costs anything.
//
// What the plan has stays unless the partition that takes longest then takes less than 1 -
// `least_gain` of its time. REQUIRES: as many speeds as partitions, all above 0.
LayerParts balanced_parts(const PartitionPlan& plan, const Blueprint& blueprint,
                          const PartitionCosts& costs, const std::vector<double>& speeds,
                          double least_gain = 0);

// Says whether these are parts of just the layers that parts_of has, and of all of each.
bool fits(const LayerParts& parts, const PartitionPlan& plan, const Blueprint& blueprint);

// Gives the rules with these parts.
PartitionRules with_parts(PartitionRules rules, const LayerParts& parts, const PartitionPlan& plan,
                          const Blueprint& blueprint);

}  // namespace convoy::model
