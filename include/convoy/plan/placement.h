// This says where the layers of a network should be: how long a training step takes, and what each
// rank sends and holds, when all layers are replicated (data parallelism), all are divided (model
// parallelism), or the last ones alone (hybrid: Krizhevsky 2014).
//
// All functions are pure: any thread may call them. They throw UsageError for an argument that is
// NaN, infinite or out of its range, naming it. Times are in seconds, sizes in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "convoy/plan/machine.h"

namespace convoy::plan {

// This is the time of a layer's pass, measured on one rank with a whole processor.
struct PassTime {
  std::int64_t samples = 0;  // >= 1
  std::int64_t units = 0;    // that were computed of the layer's; 0: all of it
  double forward_s = 0;
  double backward_s = 0;
  bool operator==(const PassTime&) const = default;
};

// This is a parameter's gradient.
struct GradientSize {
  double bytes = 0;       // as large as the parameter
  bool in_place = false;  // computed in the bucket that it is reduced in, not copied there
};

struct LayerCost {
  std::string name;
  std::int64_t units = 0;  // that ranks can share out among each other; 0: each computes all of it
  std::vector<GradientSize> gradients = {};  // of its parameters, in the order of the network
  double output_values = 0;                  // of one sample
  // Says whether what reads its output needs all units of it.
  bool gathered = false;
  double activation_bytes = 0;  // that a step keeps of one sample
  std::vector<PassTime> times = {};
  // These are the units of each rank of a group where hybrid divides it and they are not even. Then
  // there can't be groups of another size.
  std::vector<std::int64_t> parts = {};
};

// This is what it takes to train a network.
struct TrainingCost {
  std::vector<LayerCost> layers;  // in the order of computing
  std::size_t head = 0;           // hybrid divides the layers from this one on; layers.size(): none
  double boundary_values = 0;     // of one sample, that layer `head` reads
  double value_bytes = 4;         // of what travels between layers
  double update_s_per_byte = 0;   // of parameters
  double optimizer_values = 1;    // that are kept for each parameter
  // This is the time to copy gradients into buckets, and to put together what comes from several
  // ranks.
  double copy_s_per_byte = 0;
  // This part of the bytes of gradients travels. Below 1 (bfloat16: half) all are converted, and
  // back.
  double sent_part = 1;
  bool sums_converted = false;  // gradients between layers travel in another type than sums have
  // Gradients of divided weights are computed over all passes at once, when there is time.
  bool late_gradients = false;
  bool numbers_sent = false;        // ranks of a group tell each other the numbers of their samples
  std::vector<PassTime> loss = {};  // of scores
  double process_bytes = 0;         // that a rank has before there is a network
  double first_bucket_bytes = 1 << 20, bucket_bytes = 8 << 20;
};

// This is what ranks reach each other through. All of them at a time have as much.
struct Network {
  double bandwidth_bytes_per_s = 0;  // of a rank's link, each way, in sums over ranks
  double latency_s = 0;              // of a step of these
  // These are the same for what ranks have for each other; 0 stands for the ones above.
  double exchange_bandwidth_bytes_per_s = 0;
  double exchange_latency_s = 0;
  // This is what a byte costs the processor of the sender, and as much that of the receiver.
  double processor_s_per_byte = 0;
  bool operator==(const Network&) const = default;
};
// Gives the part of a machine that it is. Throws UsageError where there is no bandwidth.
Network network_of(const Machine& machine);

// This is what a rank has of its processor. Where that is a quota, it comes anew in each period; 0:
// there are none, as where ranks share cores.
struct Processor {
  double share = 1;  // in (0, 1]
  double period_s = 0;
};

enum class Parallelism { data, model, hybrid };

// Hybrid has so many passes under way at a time, where one need not have ended before the next
// begins. While what one needs travels, others compute; with more of them ranks wait less for each
// other, and hold more.
inline constexpr int kPassesUnderWay = 4;

struct Placement {
  Parallelism kind = Parallelism::data;
  int partitions = 1;           // hybrid: ranks of a group, which hold the divided layers together
  int senders = 0;              // hybrid: of a pass (bc); 0: one pass with all samples (a)
  bool variable_batch = false;  // hybrid: divided layers are updated after each pass
  int passes = 0;               // hybrid c: of a step; 0: as many as partitions
  bool operator==(const Placement&) const = default;
};

// "a", "b", "c", or "bc".
std::string scheme_of(const Placement& placement);
// "sync", "model parallelism", "hybrid c, 2 x 4" (groups x ranks of one), "hybrid bc 2, 1 x 8",
// "hybrid c in 2, 1 x 8" (passes).
std::string name_of(const Placement& placement, int world);

// This is the forecast of one training step.
struct StepForecast {
  Placement placement;
  double step_s = 0;
  double compute_s = 0;        // of it, as long as it takes while nobody waits and nothing travels
  double exposed_s = 0;        // waiting for what travels
  double communication_s = 0;  // that something is under way, hidden or not
  double sent_bytes = 0;       // by the rank that sends most
  double parameter_bytes = 0;  // that a rank holds
  // Counts the process, parameters, gradients, the optimizer's state, activations, and what is
  // exchanged.
  double memory_bytes = 0;
  // Gives what of the communication is behind computing.
  double hidden() const;
};

// REQUIRES: placements with partitions that divide the world, and at most as many senders. One rank
// needs no network.
StepForecast forecast(const TrainingCost& cost, const Network& network, const Processor& processor,
                      int world, std::int64_t samples_per_rank, const Placement& placement);

// Gives the numbers of ranks above 1 that hybrid's groups can have, descending: those that divide
// the world and leave each rank a unit of every divided layer.
std::vector<int> group_sizes(const TrainingCost& cost, int world);

// Gives all that there are: data and model parallelism, and hybrid in each scheme on each grid; bc
// with 2, 4, 8, ... senders, and c with as many passes. With `variable_batch` those of hybrid that
// can be had with it.
std::vector<Placement> placements(const TrainingCost& cost, int world, bool variable_batch = false);

// Gives the soonest of those that can be trained (model parallelism can't) with so much memory of a
// rank; 0: any. Its place in the list. Throws UsageError where none can.
std::size_t best_placement(const std::vector<StepForecast>& forecasts, double memory_bytes = 0);

// These are the costs of a network on a machine, which are read and written beside what
// machine_of_toml() reads:
//
//   [placement]
//   model = "alexnet-one-tower"
//   update_s_per_byte = 1e-10
//   copy_s_per_byte = 1e-10                  # default 0
//   processor_s_per_byte = 1e-9              # default 0
//   exchange_bandwidth_bytes_per_s = 2.2e7   # default: as [communication]
//   exchange_latency_s = 1e-3                # default: the same
//   processor_period_s = 0.1                 # of the quota that processor_share is; default: none
//   process_bytes = 3e8                      # default 0
//   loss = [{samples = 16, forward_s = 1e-4, backward_s = 1e-4}]   # default: it takes no time
//   [[placement.layers]]
//   name = "features.0"
//   times = [{samples = 16, forward_s = 0.01, backward_s = 0.02}]
//   [[placement.layers]]
//   name = "classifier.1"
//   times = [{samples = 16, units = 512, forward_s = 0.01, backward_s = 0.02}]
struct MeasuredPlacement {
  std::string model;
  Machine machine;
  Network network;
  double update_s_per_byte = 0;
  double copy_s_per_byte = 0;
  double processor_period_s = 0;
  double process_bytes = 0;
  std::vector<PassTime> loss;
  struct Layer {
    std::string name;
    std::vector<PassTime> times = {};
    bool operator==(const Layer&) const = default;
  };
  std::vector<Layer> layers;

  Processor processor() const { return {machine.processor_share, processor_period_s}; }
};
std::string to_toml(const MeasuredPlacement& measured);
// Throws UsageError with the file's name, and the line where there is one. A file without a
// [placement] gives one without layers.
MeasuredPlacement measured_placement_of_toml(const std::string& text,
                                             const std::string& name = "machine");

// Gives the machine gamma and an overhead, as equation 3 has an update of one worker: what passes
// of layers and of the loss take for each sample, by the line through their times; and what they
// take whatever the samples, with the update of so many bytes of parameters. With times of one
// number of samples alone, all of a pass counts for these. Times are those of all units. REQUIRES:
// layers with times.
void set_update_times(MeasuredPlacement& measured, double parameter_bytes);

// Gives the layers of the network their times, and what it takes beside them. Throws UsageError
// naming a layer that has none, or another model.
void add_times(TrainingCost& cost, const std::string& model, const MeasuredPlacement& measured);

}  // namespace convoy::plan
