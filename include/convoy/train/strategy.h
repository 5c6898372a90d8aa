// How ranks work together on one model: a strategy owns the loop of updates.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "convoy/comm/world.h"
#include "convoy/data/sample_source.h"
#include "convoy/model/network.h"
#include "convoy/train/moment.h"
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
  std::uint64_t skipped = 0;  // bad records of all ranks so far
  // What all ranks together want, see TrainerContext::requests.
  std::uint32_t requests = 0;
};

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
  // After the last update that was counted.
  virtual const Moment& moment() const = 0;

  // Where the spans of the next step go (row Timeline::kTraining and the rows of ReducerRows), or
  // null while no step is recorded.
  virtual Timeline* timeline() = 0;

  // This rank's requests now (Request). Cheap.
  virtual std::uint32_t requests() = 0;
  // After every update, on every rank that takes part, at a point where state() is consistent:
  // counts it, writes metrics, and evaluates and writes checkpoints when they are due. False: the
  // strategy has to return.
  virtual bool updated(const StepReport& report) = 0;
  // Between updates, on every rank that takes part, when all ranks together have been told to stop:
  // writes a checkpoint, without what samples() has given since the last update. The strategy has
  // to return. For updates that are so long that one more could be one too many.
  virtual void stopped() = 0;
};

class Strategy {
 public:
  virtual ~Strategy() = default;

  // How many samples a rank has to get for an update, if it gets any; the same on every rank. Asked
  // once, before samples are opened, with the shape of what they become.
  virtual std::size_t least_share(TrainerContext&, const data::Shape&) { return 1; }
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
