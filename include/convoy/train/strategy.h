// How ranks work together on one model: a strategy owns the loop of updates.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "convoy/comm/world.h"
#include "convoy/data/sample_source.h"
#include "convoy/model/network.h"
#include "convoy/train/recipe.h"
#include "convoy/train/schedule.h"
#include "convoy/train/state.h"
#include "convoy/train/timeline.h"

namespace convoy::train {

// One update, as a strategy reports it. The same on every rank but for the seconds.
struct StepReport {
  double loss = 0;            // mean over the samples of the update
  std::uint64_t samples = 0;  // of all ranks
  double learning_rate = 0;
  double data_s = 0;  // waiting for samples
  double forward_s = 0;
  double backward_s = 0;       // without the next
  double communication_s = 0;  // not hidden behind backward
  double update_s = 0;
  // What all ranks together want, see TrainerContext::requests.
  std::uint32_t requests = 0;
};

// What a rank may wish for; a strategy unites the requests of all ranks (bitwise or) and hands them
// to TrainerContext::updated, since only together can they stop or write a checkpoint.
enum Wish : std::uint32_t { kStop = 1, kCheckpoint = 2 };

// What a trainer does for its strategy. Used from the thread that runs the strategy.
class TrainerContext {
 public:
  virtual ~TrainerContext() = default;

  virtual const Recipe& recipe() const = 0;
  virtual const comm::World& world() const = 0;
  // The network, initialized alike on all ranks, on the recipe's device and in its layout.
  virtual const std::shared_ptr<model::Network>& network() const = 0;
  virtual data::SampleSource& samples() = 0;
  virtual const Schedule& schedule() const = 0;
  virtual std::int64_t steps_done() const = 0;
  // Of the whole training.
  virtual std::int64_t steps_to_do() const = 0;

  // Where the spans of the next step go (row Timeline::kTraining and the rows of ReducerRows), or
  // null while no step is recorded.
  virtual Timeline* timeline() = 0;

  // This rank's requests now. Cheap.
  virtual std::uint32_t requests() = 0;
  // After every update, on every rank that takes part, at a point where state() is consistent:
  // counts it, writes metrics, and evaluates and writes checkpoints when they are due. False: the
  // strategy has to return.
  virtual bool updated(const StepReport& report) = 0;
};

class Strategy {
 public:
  virtual ~Strategy() = default;

  // Once, before run(); `saved` is the state to go on from, or null.
  virtual void prepare(TrainerContext& context, const State* saved) = 0;
  // Makes updates until TrainerContext::updated says no.
  virtual void run() = 0;
  // The state after the last update. Collective where the strategy needs it to be.
  virtual State state() = 0;
  // Calls `use` while the network holds what is to be evaluated and saved: weights, and running
  // statistics united over ranks. Collective.
  virtual void with_whole_model(const std::function<void()>& use) = 0;
};

}  // namespace convoy::train
