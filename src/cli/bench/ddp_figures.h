// What a comparison with PyTorch's DistributedDataParallel has measured, as rows.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace convoy::cli {

// One way to train a network on some ranks.
struct DdpSide {
  std::string name;                  // "convoy", "ddp" or "ddp_compile"
  std::string error;                 // why it could not be measured; empty: it was
  std::string torch;                 // the version that it computes with, as it says
  double first_step_s = 0;           // with all that is made in it: kernels chosen, code compiled
  std::vector<double> images_per_s;  // of all ranks, by repetition
  std::vector<double> losses;        // by step, over all of them, from the first one on
};

// A network on some ranks, trained in each of these ways in turn.
struct DdpComparison {
  std::string model;
  int ranks = 1;
  int threads = 1;  // of a rank
  std::int64_t batch_per_rank = 1;
  std::string allocator;
  bool draws = false;          // dropout: losses are not those of the other sides
  int steps = 0;               // of a turn
  std::size_t comparable = 0;  // steps of which all sides have the same samples
  std::vector<DdpSide> sides;  // where one could be measured, Convoy's and PyTorch's were
};

// Of the ratios within each repetition. What slows the machine down for a while slows both.
struct DdpRatio {
  double middle = 1;  // the median
  double least = 1, most = 1;
  double low = 1, high = 1;  // 95% of the medians of repetitions drawn from these (bootstrap)
};

// REQUIRES: as many rates as others, one at least.
DdpRatio ddp_ratio(const std::vector<double>& rates, const std::vector<double>& others);

// The side of this name, or null if there is none, or it could not be measured.
const DdpSide* measured_side(const DdpComparison& comparison, const std::string& name);

// The largest of the differences of losses over the loss of `other`, of the first `steps` steps.
double largest_difference(const DdpSide& side, const DdpSide& other, std::size_t steps);

// What is wrong with the losses of the first step, of which those of all sides are to be the same
// up to `tolerance` times the loss; empty: nothing, or the network draws.
std::string ddp_complaint(const DdpComparison& comparison, double tolerance);

// A row for each side.
std::vector<nlohmann::ordered_json> ddp_rows(const DdpComparison& comparison);

// The same for people. The header comes before the first comparison.
void print_ddp_header(int repetitions);
void print_ddp(const DdpComparison& comparison);

}  // namespace convoy::cli
