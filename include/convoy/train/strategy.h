// This says how ranks work together on one model: a strategy arranges them, and owns the loop of
// updates.
//
// docs/strategies.md walks through one of your own.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "convoy/base/slice.h"
#include "convoy/comm/communicator.h"
#include "convoy/comm/world.h"
#include "convoy/data/dataset.h"
#include "convoy/data/portions.h"
#include "convoy/data/sample_source.h"
#include "convoy/model/blueprint.h"
#include "convoy/model/network.h"
#include "convoy/parallel/gradient_reducer.h"
#include "convoy/train/metrics.h"
#include "convoy/train/moment.h"
#include "convoy/train/recipe.h"
#include "convoy/train/schedule.h"
#include "convoy/train/state.h"
#include "convoy/train/task.h"
#include "convoy/train/timeline.h"

namespace convoy::train {

class NamedOptimizer;

// Says who does what, before anything is opened.
struct Arrangement {
  // Each batch is cut into `shares` parts of consecutive samples; this rank works on part `share`.
  // Several ranks may work on the same one.
  int share = 0;
  int shares = 1;
  // Says where the samples of the share come from.
  enum class Samples : std::uint8_t {
    read,    // from the data, by this rank; of those that work on a share only one does
    handed,  // from another rank of `group`, which reads them
    none     // this rank needs none: its shares are empty
  };
  Samples samples = Samples::read;
  // Has a reader that hands its samples on, and those it hands them to, who work on the same share:
  // the reader is its rank 0. It is not valid on other ranks.
  comm::Communicator group;
  // 0: rank 0 has the run folder, and writes metrics and checkpoints. -1: none of this job, and
  // nothing is written. The same on all ranks.
  int owner = 0;
  // False: others train, and of what there is to train on this job needs no samples, only how far
  // they have come in it (SampleSource::seek, by the strategy). The same on all ranks.
  bool trains = true;
  // These are samples that a coordinator assigns: those of what is put in here, by whom the
  // strategy asks, cut into batches that end with each portion. Null: whole epochs.
  std::shared_ptr<data::Portions> portions = nullptr;

  bool reads() const { return samples == Samples::read; }
};

// Says how much the gradient of a batch tells of that of all there is to learn from, and how much
// it scatters by which samples are in it (McCandlish et al. 2018, An Empirical Model of Large-Batch
// Training, appendix A.1): squared norms of the gradient of a part of the batch and of all of it.
// The two estimates have no bias, where samples are independent and what they count is their
// number; their quotient, the noise scale, has one: average them first.
struct GradientNoise {
  double part = 0;   // what the samples of the part count, in Task::unit(); of parts of several
                     // ranks the harmonic mean
  double batch = 0;  // what those of the batch do
  double part_square = 0;  // the mean over these parts
  double batch_square = 0;

  // Estimates the squared norm of the true gradient; it can be negative.
  double gradient_square() const {
    return (batch * batch_square - part * part_square) / (batch - part);
  }
  // Estimates the trace of the covariance of one sample's gradient.
  double variance() const { return (part_square - batch_square) / (1 / part - 1 / batch); }
};

// This is what a strategy has to say of an update beside what all of them do: keys of
// metrics.jsonl.
struct MoreNumbers {
  std::vector<std::pair<std::string, double>> numbers;  // TensorBoard shows them, too
  std::vector<std::pair<std::string, std::vector<double>>> lists;
  // Rows of other kinds for metrics.jsonl, each with a step; their elapsed_s is added to them.
  // These are written whether the update itself has a row or not.
  std::vector<MetricsRow> rows;
};

// This is what a strategy has found out of a loss or gradient that is not finite, by running that
// batch once more. The same on every rank.
struct FoundFault {
  std::string text = {};   // a clause: "run once more, the first layer ..."
  std::string where = {};  // the layer, parameter or sample that came first; empty: none is known
  bool of_data = false;    // it is a sample, so that no setting of the training can help
};

// This is one update, as a strategy reports it, or several, where others make them. The same on
// every rank but for the seconds and not_finite.
struct StepReport {
  double loss = 0;            // mean over the update
  std::uint64_t samples = 0;  // of all ranks
  double weight = 0;          // what they count, in Task::unit()
  double learning_rate = 0;
  double data_s = 0;     // waiting for samples
  double forward_s = 0;  // both without the next
  double backward_s = 0;
  double communication_s = 0;  // not hidden behind them
  double update_s = 0;
  // This is the Euclidean norm of the gradient that the update was made with, before it was
  // clipped; negative: the strategy doesn't say. Where it is not finite, the update was not made;
  // nor is it by strategies of Convoy's that make updates themselves where the loss is not finite.
  double gradient_norm = -1;
  // Then: the last of this rank's parameters, in their order, that has such a gradient, if one has.
  std::string not_finite = {};
  std::uint64_t skipped = 0;                          // bad records of all ranks so far
  std::optional<GradientNoise> noise = std::nullopt;  // where it was measured
  // This is what all ranks together want, see TrainerContext::requests.
  std::uint32_t requests = 0;
  // Says how many updates this is of: `loss` is then the mean over all, `samples` and `weight`
  // their sums, and the seconds above are those of a single one.
  std::int64_t updates = 1;
  // That have passed for them; negative: as long as the phases above take.
  double elapsed_s = -1;
  // Nothing is left to train, however much the recipe asks for: `updates` may be 0. The same on
  // every rank.
  bool last = false;
  MoreNumbers more = {};
  // Where loss or gradient_norm is not finite: what the strategy has found out, if it does.
  std::optional<FoundFault> fault = std::nullopt;
};

// This is what a rank and others have told each other since the beginning, in bytes.
struct Communicated {
  struct Kind {
    std::string name;
    std::uint64_t sent = 0, received = 0;
  };
  std::vector<Kind> exchanged;       // what ranks have for each other, once for each that it is for
  parallel::ReducerStatistics sums;  // of gradients, over all ranks
  std::uint64_t group_sum_bytes = 0;  // of gradients of divided layers, over groups of ranks
};

// This is the network that a recipe names, for the strategy to make what a rank has of it.
class NetworkSource {
 public:
  virtual ~NetworkSource() = default;
  // Gives all of it, new, with the recipe's first weights, which are the same on every rank, on the
  // recipe's device and in its layout; tried with a blank sample, where the task can make one.
  // Throws UsageError where model and data don't go together.
  virtual std::shared_ptr<model::Network> whole() const = 0;
  // Gives the network as data, to build parts of it (convoy/model/stage.h) with seed(); gives
  // nothing for a network that is code. Parts are to be place()d by compute().
  virtual std::optional<model::Blueprint> blueprint() const = 0;
  virtual std::uint64_t seed() const = 0;
  virtual const Recipe& recipe() const = 0;
  virtual const Task& task() const = 0;
  virtual const Compute& compute() const = 0;
  // Says whether the network is to be trained, or used as it is.
  virtual bool trains() const { return true; }
  // Says whether training begins with the state of a checkpoint (Strategy::prepare).
  virtual bool goes_on() const { return false; }
  // Gives the recipe of the job: that which recipe() was made of, where a strategy is around
  // another.
  virtual const Recipe& job() const { return recipe(); }
  // Gives how many copies of the parameters a strategy around this one keeps beside the network,
  // where others have the optimizer's state; -1: there is none around it.
  virtual int copies_beside() const { return -1; }
};

// This is what a trainer does for its strategy. Used from the thread that runs the strategy.
class TrainerContext {
 public:
  virtual ~TrainerContext() = default;

  virtual const Recipe& recipe() const = 0;
  virtual const comm::World& world() const = 0;
  virtual const Task& task() const = 0;
  virtual const Compute& compute() const = 0;
  // Gives the recipe's optimizer (convoy/train/named_optimizer.h) for parameters that this rank
  // has.
  virtual NamedOptimizer make_optimizer(std::vector<parallel::NamedTensor> parameters) const = 0;
  virtual data::SampleSource& samples() = 0;
  // Gives what they are of: data.train.
  virtual const data::Dataset& training_data() const = 0;
  virtual const Schedule& schedule() const = 0;
  // This is the moment after the last update that was counted.
  virtual const Moment& moment() const = 0;

  // Takes the spans of the next step (row Timeline::kTraining and the rows of ReducerRows); it is
  // null while no step is recorded.
  virtual Timeline* timeline() = 0;

  // This rank's requests now (Request). Cheap.
  virtual std::uint32_t requests() = 0;
  // Is called after every update, on every rank that takes part, at a point where state() is
  // consistent: counts it, writes metrics, and evaluates and writes checkpoints when they are due.
  // False: the strategy has to return.
  virtual bool updated(const StepReport& report) = 0;
  // Says whether updated() ends the training where loss or gradient is not finite, so that it is
  // worth another step to find out why (StepReport::fault). The same on all ranks.
  virtual bool ends_at_faults() const { return true; }
  // Is called between updates, on every rank that takes part, when all ranks together have been
  // told to stop: writes a checkpoint, without what samples() has given since the last update. The
  // strategy has to return. For updates that are so long that one more could be one too many.
  virtual void stopped() = 0;
};

// Gets the outputs of the network for these rows of a batch.
using UseOutputs = std::function<void(const TensorList& outputs, const TaskBatch& rows)>;

// One run, or one use of what was trained, is one object. Calls come in this order, on every rank:
// arrange, settle, build, load unless the weights are new or come with prepare's state, and then
// either least_share, prepare, run, or infer and forward. All are collective unless they say
// otherwise.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // Before any file is opened. Throws UsageError for a recipe that can't be had in a world of this
  // size. (What is wrong whatever the world is found earlier: Registry::add_strategy's check.)
  virtual Arrangement arrange(const comm::World& world, const Recipe& recipe) = 0;

  // Chooses what the recipe leaves to the strategy: the keys of its table, as the recipe of the run
  // has them from then on, so that a run which goes on is as it was. `before` is the recipe that
  // the run had until then, or null; it may be of another strategy. Not called where nothing is
  // trained.
  virtual Options settle(const NetworkSource& source, const Recipe* before) {
    static_cast<void>(before);
    return source.recipe().strategy_options;
  }

  // Makes what this rank has of the network.
  virtual void build(const NetworkSource& source) = 0;
  // Gives what build made, with parameters and buffers under the names that they have in the whole.
  virtual torch::nn::Module& module() = 0;
  // Names a buffer of this rank with values that are not finite, of networks that it has beside
  // module(), but for those that are `meant`; "" if there is none. Not collective.
  virtual std::string not_finite_beside(const std::set<std::string>& meant) {
    static_cast<void>(meant);
    return "";
  }
  // Counts the parameters of the whole network. Not collective.
  virtual std::int64_t parameters() = 0;

  // Says how many samples a rank has to get for an update, if it gets any; the same on every rank.
  virtual std::size_t least_share(TrainerContext&) { return 1; }
  // Once, before run(); `saved` is the state to go on from, as for load(), or null.
  virtual void prepare(TrainerContext& context, const State* saved) = 0;
  // Makes updates until TrainerContext::updated says no. Called again, it goes on.
  virtual void run() = 0;
  // Gives nothing where the strategy doesn't count. Not collective.
  virtual Communicated communicated() { return {}; }
  // Gives the state after the last update.
  virtual State state() = 0;
  // Calls `use` while the network holds what is to be evaluated and saved: weights, and running
  // statistics united over ranks.
  virtual void with_whole_model(const std::function<void()>& use) { use(); }

  // Gives what this rank needs of a tensor of the model, and of the optimizer's slots for it, when
  // a checkpoint or a file of weights is read: a slice, or nothing. After build; not collective,
  // and from any thread.
  virtual std::optional<Slice> wanted(const Slice& whole) { return whole; }
  // Takes weights: of a network that was trained, to use it, or those to start from. `saved` has of
  // the model what was wanted, mostly as tensors of module() that have been filled; `from` names it
  // in messages.
  virtual void load(const State& saved, const std::string& from);
  // Gives the network's outputs, in the mode in which it is, on every rank, for inputs that every
  // rank has.
  virtual TensorList forward(const TensorList& inputs) = 0;
  // Runs the network on this rank's share of a batch (which may be empty, and without samples where
  // this rank has none), in the mode in which it is and without gradients, and calls `use` with
  // what comes out for it, unless the share is empty. True on exactly one of the ranks that work on
  // the share, whatever is in it: what its `use` makes of the outputs counts. Called with an empty
  // batch on all ranks first, which shows that. As it is here, it is for strategies whose ranks
  // hold the whole network and have shares of their own: no forward() for an empty share.
  virtual bool infer(const Task& task, const Compute& compute, const data::Batch& batch,
                     const UseOutputs& use);
};

}  // namespace convoy::train
