#include "train/strategies/sandblaster/evaluator.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <sstream>
#include <thread>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/base/units.h"
#include "convoy/train/sandblaster.h"
#include "train/due.h"
#include "train/rank_work.h"

namespace convoy::train {
namespace {

constexpr auto kLookPause = std::chrono::milliseconds(100);

}  // namespace

// The method is not the inner strategy's optimizer, and has no state of that kind.
class BatchEvaluator::Context final : public InnerContext {
 public:
  Context(TrainerContext& outer, BatchEvaluator& evaluator)
      : InnerContext(outer, evaluator.inner_recipe()), evaluator_(evaluator) {}
  NamedOptimizer make_optimizer(std::vector<parallel::NamedTensor> parameters) const override {
    std::erase_if(parameters, [](const auto& p) { return !p.tensor.requires_grad(); });
    evaluator_.parameters_ = parameters;
    return make_telling_optimizer(recipe().optimizer, std::move(parameters),
                                  std::make_shared<RuleStates>(), {});
  }

 private:
  BatchEvaluator& evaluator_;
};

// Both are here since only this file knows what a Context is.
BatchEvaluator::BatchEvaluator(BatchServiceFactory connect) : connect_(std::move(connect)) {}

BatchEvaluator::~BatchEvaluator() = default;

Arrangement BatchEvaluator::arrange(const comm::World& world, const Recipe& recipe) {
  Arrangement arrangement = Around::arrange(world, recipe);
  check_world(world);
  arrangement.trains = false;
  return arrangement;
}

InnerUse BatchEvaluator::use_of(const NetworkSource& outer) const {
  optim::BatchOptions options = batch_options(outer.job());
  const auto iterations = std::max<std::int64_t>(1, batch_iterations(outer.job()));
  options.history = static_cast<int>(std::min<std::int64_t>(options.history, iterations));
  return {.trains = false, .copies = optim::most_vectors(options).state - 1};  // but the weights
}

void BatchEvaluator::build(const NetworkSource& source) {
  Around::build(source);
  const OneFunction minimized(inner().module());
}

void BatchEvaluator::prepare(TrainerContext& context, const State* saved) {
  outer_ = &context;
  context_ = std::make_unique<Context>(context, *this);
  std::optional<State> rest;
  if (saved != nullptr) rest = without_batch(*saved);
  inner().prepare(*context_, rest ? &*rest : nullptr);
  describe(context, parameters_);
  begin(saved);
}

// -- What the job begins with

void BatchEvaluator::check_memory() const {
  const Recipe& recipe = outer_->recipe();
  if (outer_->world().rank() == 0) {
    std::uint64_t elements = 0;
    for (const server::VectorSpec& vector : vectors().specs()) {
      if (vector.rule) elements += vector.elements;
    }
    const BatchBytes bytes = batch_bytes(recipe, elements, outer_->training_data().size());
    const std::string text = train::describe(bytes, recipe, elements);
    const std::uint64_t here = available_memory();
    // Of other hosts nothing is known here.
    const bool too_much = server_job_of(recipe).hosts.empty() && here > 0 && bytes.all() > here;
    if (too_much) {
      outer_->world().log().warning(text + "; this host has " + format_bytes(here) +
                                    " left: a smaller sandblaster.history, or "
                                    "sandblaster.backups = false, needs less");
    } else {
      outer_->world().log().info(text);
    }
  }
}

void BatchEvaluator::begin(const State* saved) {
  const comm::Communicator& ranks = outer_->world().communicator();
  const Recipe& recipe = outer_->recipe();
  const optim::BatchMethod method = batch_options(recipe).method;
  check_memory();
  bool initialized = false;
  service_ = connect_rank<BatchService>(ranks, connect_, [&](BatchService& service) {
    initialized = service.describe(description());
  });
  if (initialized) return;
  std::optional<optim::BatchState> state;
  on_every_rank(ranks, [&] {
    if (saved != nullptr) state = saved_batch_state(*saved, method);
    // Runs of before might have more of it than a message to the coordinator holds.
    if (state) shorten_history(*state, static_cast<std::size_t>(server::kLongestHistory));
    if (saved != nullptr && !state && outer_->moment().step > 0)
      throw UsageError(
          "the checkpoint has no state of a batch optimization to go on from; to "
          "begin with its weights, name it as model.weights");
    service_->open(batch_element(recipe));
    if (state) {
      give_saved_vectors(*saved, *state, method, vectors(), parameters_, *service_);
    } else if (batch_element(recipe) == server::Element::f64) {
      give_weights<double>();
    } else {
      give_weights<float>();
    }
  });
  on_every_rank(ranks, [&] {
    if (ranks.rank() > 0) return;
    if (state) service_->begin_from(*state);
    if (!service_->initialized(state ? state->weights : optim::VectorName()))
      throw Failure("the shards have not got all of the first weights");
  });
}

template <typename T>
void BatchEvaluator::give_weights() {
  BatchBlock<T> block(vectors(), true);
  block.take_weights();
  service_->put({}, block.const_views());
}

template <typename T>
void BatchEvaluator::fetch_weights(const optim::VectorName& name) {
  BatchBlock<T> block(vectors(), false);
  service_->fetch(name, block.views());
  block.set_weights();
}

// -- Where the job is

data::Position BatchEvaluator::position_of(std::int64_t iteration) const {
  data::Position position;
  if (iteration <= 0) return position;
  position.epoch = static_cast<std::uint64_t>(iteration - 1);
  position.consumed.push_back({0, outer_->training_data().size()});
  return position;
}

Moment BatchEvaluator::moment_of(const Seen& seen) const {
  Moment now = outer_->moment();
  const std::int64_t iteration = std::max(seen.progress.state.iteration, now.step);
  now.step = iteration;
  now.steps = std::max(iteration, batch_iterations(outer_->recipe()));
  if (iteration <= 0) return now;
  now.epoch = static_cast<std::uint64_t>(iteration - 1);
  now.consumed = outer_->training_data().size();
  now.epoch_over = true;
  return now;
}

BatchEvaluator::Seen BatchEvaluator::look(bool hold) {
  const comm::Communicator& ranks = outer_->world().communicator();
  Seen seen;
  std::array<std::int64_t, 8> told{};
  on_every_rank(ranks, [&] {
    if (ranks.rank() > 0) return;
    seen.progress = service_->watch(last_record_, hold);
    note_groups(seen.progress);
    const server::BatchProgress& p = seen.progress;
    seen.requests = outer_->requests();
    seen.over = !p.over.empty() || !p.ended.empty();
    // Behind an iteration comes the next one, or its end.
    seen.certain = seen.over || !p.begun || p.evaluation.iteration > p.state.iteration;
  });
  if (ranks.size() == 1) return seen;
  server::BatchProgress& p = seen.progress;
  told = {p.begun,
          p.state.iteration,
          p.state.weights.iteration,
          p.state.weights.evaluation,
          seen.requests,
          seen.over,
          seen.certain,
          static_cast<std::int64_t>(p.last.ending)};
  ranks.broadcast(comm::buffer_of(told), 0);
  p.begun = told[0] != 0;
  p.state.iteration = told[1];
  p.state.weights = {optim::VectorRole::weights, told[2], static_cast<std::int32_t>(told[3])};
  seen.requests = static_cast<std::uint32_t>(told[4]);
  seen.over = told[5] != 0;
  seen.certain = told[6] != 0;
  p.last.ending = static_cast<optim::BatchEnding>(told[7]);
  return seen;
}

// They may be gone by the time they are fetched: then the next iteration's are there. `all`: with
// what else a checkpoint has of them, since an evaluation before that may take long, and a
// coordinator that begins again meanwhile holds nothing.
BatchEvaluator::Seen BatchEvaluator::take_weights(bool all) {
  const comm::Communicator& ranks = outer_->world().communicator();
  std::int64_t before = -1;
  while (true) {
    const Seen seen = look(true);
    const optim::VectorName name = seen.progress.state.weights;
    try {
      on_every_rank(ranks, [&] {
        if (batch_element(outer_->recipe()) == server::Element::f64) {
          fetch_weights<double>(name);
        } else {
          fetch_weights<float>(name);
        }
      });
      held_state_ = seen.progress.state;
      saved_.reset();
      if (all) {
        fetch_saved();
        // The shards need hold no longer what is here, however long it takes to write. It is
        // written also where the coordinator is gone by now.
        on_every_rank(ranks, [&] {
          if (ranks.rank() > 0) return;
          try {
            service_->let_go();
          } catch (const std::exception&) {  // said when it is let go of behind that
          }
        });
      }
      holds_ = true;
      return seen;
    } catch (const UsageError&) {
      if (seen.progress.state.iteration == before) throw;
      before = seen.progress.state.iteration;
    }
  }
}

void BatchEvaluator::let_go() {
  holds_ = false;
  saved_.reset();
  const comm::Communicator& ranks = outer_->world().communicator();
  if (ranks.size() == 1) return service_->let_go();
  on_every_rank(ranks, [&] {
    if (ranks.rank() == 0) service_->let_go();
  });
}

void BatchEvaluator::fetch_saved() {
  const comm::Communicator& ranks = outer_->world().communicator();
  std::istringstream text(on_rank_0(ranks, [this] {
    std::string lines;
    for (const std::string& line : optim::lines_of(held_state_)) lines += line + "\n";
    return lines;
  }));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  const optim::BatchMethod method = batch_options(outer_->recipe()).method;
  on_every_rank(ranks, [&] {
    saved_.emplace(optim::batch_state_of(lines), method, vectors(), parameters_, *service_);
  });
}

State BatchEvaluator::state() {
  State state = without_batch(inner().state());
  if (!holds_) return state;
  if (!saved_) {
    try {
      fetch_saved();
    } catch (const UsageError& error) {  // the coordinator holds nothing behind a restart
      throw Failure(std::string("the vectors of a checkpoint are gone before it was written (") +
                    error.what() + "): the evaluator has to begin again");
    }
  }
  saved_->write(state);
  return state;
}

// -- The job goes on

// Nothing can be minimized from there, however often it is tried. Why is known to the first rank.
void BatchEvaluator::check_beginning(const Seen& seen) {
  if (seen.progress.last.ending != optim::BatchEnding::not_finite) return;
  const std::string why = on_rank_0(outer_->world().communicator(), [&] {
    return seen.progress.over.empty() ? seen.progress.ended : seen.progress.over;
  });
  end(why);
  throw UsageError(why +
                   ". Look at the data, or begin with weights of a network that has been trained "
                   "(model.weights)");
}

void BatchEvaluator::run() {
  told_at_ = Clock::now();
  while (true) {
    Seen seen = look(false);
    if (seen.over) check_beginning(seen);
    const Moment before = outer_->moment();
    const bool stop = (seen.requests & kStop) != 0;
    // A checkpoint of where the last one is would be no other one.
    if (moment_of(seen).step == before.step)
      seen.requests &= ~static_cast<std::uint32_t>(kCheckpoint);
    const bool news = seen.progress.begun && moment_of(seen).step > before.step;
    if (!seen.over && !stop && !(news && seen.certain)) {
      std::this_thread::sleep_for(kLookPause);
      continue;
    }
    const Due due = due_since(outer_->recipe(), before, moment_of(seen), seen.requests);
    const bool weights = due.evaluate || due.checkpoint || due.end || seen.over;
    if (weights && seen.progress.begun) {
      const Seen taken = take_weights(due.checkpoint || due.end || seen.over || stop);
      const std::uint32_t requests = seen.requests;
      seen = taken;
      seen.requests |= requests;
    }
    if (seen.over && outer_->world().rank() == 0)
      over_ = seen.progress.over.empty() ? seen.progress.ended : seen.progress.over;
    outer_->samples().seek(position_of(moment_of(seen).step));
    bool goes_on = true;
    if (moment_of(seen).step > before.step || seen.over) {
      goes_on = outer_->updated(report_of(seen));
    } else {  // told to stop before anything was done
      outer_->stopped();
      goes_on = false;
    }
    if (weights) let_go();
    if (!goes_on) return;
  }
}

// Also of a run that found nothing left to do: one before it may have died in its last moment.
void BatchEvaluator::end(const std::string& why) {
  on_every_rank(outer_->world().communicator(), [&] {
    if (outer_->world().rank() == 0 && service_->ended().empty() &&
        service_->watch(0, false).ended.empty())
      service_->end_job(why);
  });
}

RunResult run_batch_evaluator(const comm::World& world, const Registry& registry,
                              const Recipe& recipe, const BatchServiceFactory& connect,
                              TrainerOptions options) {
  BatchEvaluator* evaluator = nullptr;  // the trainer's
  options.strategy = [connect, &evaluator] {
    auto made = std::make_unique<BatchEvaluator>(connect);
    evaluator = made.get();
    return made;
  };
  Trainer trainer(world, registry, recipe, options);
  const RunResult result = trainer.run();
  // Told to stop, it leaves the job to another evaluator.
  if (!result.stopped) {
    evaluator->end(!evaluator->over().empty() ? evaluator->over()
                   : result.target_reached    ? "training.target is reached"
                                              : "all iterations are done");
  }
  return result;
}

}  // namespace convoy::train
