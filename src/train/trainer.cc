// What a training does after each update: counts it, looks at it, evaluates, and writes
// checkpoints.
#include "convoy/train/trainer.h"

#include <cmath>
#include <utility>

#include "base/hold.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "train/checkpoint/resume.h"
#include "train/compute/gpu.h"
#include "train/diverged.h"
#include "train/finite.h"
#include "train/run/saved_score.h"
#include "train/setup.h"
#include "train/trainer_impl.h"

namespace convoy::train {

std::uint32_t Trainer::Impl::requests() {
  std::uint32_t requests = 0;
  if (options_.should_stop && options_.should_stop()) requests |= kStop;
  // All ranks have to end then: stopped() and updated() say why.
  if (lock_ && lock_->lost()) requests |= kStop;
  const double pause = 60 * recipe_.checkpoint.every_minutes;  // seconds
  // One at a time: training would have to wait for the one that is being written.
  if (owner() && pause > 0 && !(writer_ && writer_->writing()) &&
      seconds_since(last_checkpoint_) >= pause)
    requests |= kCheckpoint;
  return requests;
}

// After an update, or a seek.
void Trainer::Impl::note_position() {
  position_ = source_->position();
  moment_ = moment_of(*source_, recipe_, moment_.step);
}

bool Trainer::Impl::updated(const StepReport& report) {
  if ((report.requests & kStop) != 0) confirm_folder();
  const Moment before = moment_;
  count(report);
  hold_at("step");
  if (writer_) {
    note_checkpoint(writer_->poll());
    if (!writer_->writing() && !std::exchange(reserved_, true))
      writer_->reserve(strategy().state());
  }
  Due due = due_since(recipe_, before, moment_, report.requests);
  if (report.last && (report.requests & kStop) == 0) {
    nothing_left_ = due.checkpoint = due.end = true;
    due.evaluate = recipe_.evaluates();
  }
  return act(due);
}

void Trainer::Impl::stopped() {
  confirm_folder();
  act({.checkpoint = true, .end = true});
}

void Trainer::Impl::count(const StepReport& report) {
  moment_.step += report.updates;
  note_position();
  result_.loss = report.loss;
  if (sample_log_ != nullptr) sample_log_->commit(moment_.step);
  check_update(report);
  if (outputs_) outputs_->step(moment_, report, source_->statistics());
  if (outputs_ && report.noise) outputs_->noise(moment_, *report.noise);
  if (rank_times_) note_rank_times(rank_times_->add(moment_.step, phases_of(report)));
}

// Of all ranks. Collective.
std::string Trainer::Impl::what_is_not_finite() {
  std::string own = first_not_finite(module(), meant_);
  if (own.empty()) own = strategy().not_finite_beside(meant_);
  return first_said(all(), own);
}

// The loss is of the weights before the update, the gradient what they were updated by, or would
// have been.
void Trainer::Impl::check_update(const StepReport& report) {
  const bool loss = !std::isfinite(report.loss);
  if (!loss && std::isfinite(report.gradient_norm)) return;
  const std::string step = std::to_string(moment_.step);
  // Without the sign that the processor happens to give it.
  const auto text = [](double x) { return std::isnan(x) ? "nan" : std::to_string(x); };
  const std::string why = loss ? "the loss of step " + step + " is " + text(report.loss)
                               : "the norm of the gradient of step " + step + " is " +
                                     text(report.gradient_norm) + ", with which no update was made";
  if (report.fault && !report.fault->where.empty())
    give_up(why + "; " + report.fault->text, report.fault->where, report.fault->of_data);
  std::string more;
  if (report.fault) {
    more = "; " + report.fault->text;
  } else if (!(report.gradient_norm < 0)) {  // the strategy makes updates itself
    more = "; with the strategy " + recipe_.strategy + " no batch is run once more to find out why";
  }
  const std::string weights = what_is_not_finite();
  const std::string gradient = first_said(all(), report.not_finite);
  if (!weights.empty())
    give_up(why + ", and '" + weights + "' has values that are not finite" + more, weights);
  if (!gradient.empty()) give_up(why + ", by the gradient of '" + gradient + "'" + more, gradient);
  give_up(why + more, "");
}

// What an update has made of the weights is looked at before they are evaluated, since a network of
// NaN has a class for each sample, too, and before they are saved, since a checkpoint of them would
// take the place of one from which training can go on.
void Trainer::Impl::check_weights() {
  const std::string name = what_is_not_finite();
  if (!name.empty())
    give_up("after step " + std::to_string(moment_.step) + " '" + name +
                "' has values that are not finite",
            name);
}

// Finite weights may have outputs that are not, and so may samples.
void Trainer::Impl::warn_of_evaluation(const Evaluation& evaluation) const {
  if (!outputs_ || evaluation.samples == 0) return;
  for (const Evaluation::Figure& figure : evaluation.figures) {
    if (figure.metric.name != "loss" || !std::isnan(figure.value)) continue;
    world_.log().warning("after step " + std::to_string(moment_.step) +
                         " the loss of the evaluation is nan, though all weights are finite, so "
                         "that it is no score: look at the data of the evaluation");
  }
}

void Trainer::Impl::give_up(const std::string& why, const std::string& where, bool of_data) {
  if (writer_) note_checkpoint(writer_->finish());
  if (outputs_) outputs_->end(moment_, "diverged", where, of_data);
  throw Failure(kDiverged + why +
                (checkpoints_.newest().empty()
                     ? "; there is no checkpoint yet"
                     : "; the last checkpoint before it is " + checkpoints_.newest()) +
                ". " + advice_of_divergence(of_data));
}

// Once a rank has failed by itself in an evaluation, or what ranks do together there has, they can
// save nothing together any more: what is due with it is there before.
void Trainer::Impl::write_before_evaluation() {
  if (all().size() == 1 || !inputs_->evaluated || evaluated_at_ == moment_.step) return;
  const auto start = Clock::now();
  if (!begin_checkpoint()) return;
  unscored_ = writer_->finish();
  if (timeline()) timeline()->add(Timeline::kTraining, "checkpoint", start, Clock::now());
}

// Of the checkpoint that was written before the evaluation.
void Trainer::Impl::add_score() {
  on_owner([this] {
    lock_->confirm();
    const std::string warning = checkpoints_.add_score(
        unscored_->path, *score_, checkpoint_options(recipe_, world_).retention);
    if (!warning.empty()) world_.log().warning(warning);
  });
  unscored_->score = score_;
}

// False: the evaluation was broken off. One that fails, by a bad record or a file that is gone,
// doesn't take the updates since the last checkpoint with it, where all ranks know that it does;
// what is reported is the failure itself.
bool Trainer::Impl::evaluate_or_save() {
  bool all_have_failed = all().size() == 1;
  try {
    return evaluate_now(all_have_failed);
  } catch (...) {
    const std::exception_ptr failure = std::current_exception();
    try {
      note_checkpoint(std::exchange(unscored_, std::nullopt), true);
      if (all_have_failed) write_checkpoint_now();
      if (all_have_failed && writer_) note_checkpoint(writer_->finish());
    } catch (const std::exception&) {
    }
    std::rethrow_exception(failure);
  }
}

// A run that saves nothing as it gets on, but by the clock or at its end, saves nothing for its
// score either.
bool Trainer::Impl::saves_the_best() const {
  const CheckpointRecipe& checkpoint = recipe_.checkpoint;
  return checkpoint.keep_best && (checkpoint.every_steps > 0 || checkpoint.every_epochs > 0);
}

// Whether the evaluation of this step is the first or has a better score than all before. All ranks
// know the score.
bool Trainer::Impl::is_a_new_best() {
  if (evaluated_at_ != moment_.step || !score_) return false;
  if (best_score_ && *score_ <= *best_score_) return false;
  best_score_ = score_;
  return true;
}

// Whether training goes on.
bool Trainer::Impl::act(Due due) {
  ending_ = due.end;
  if (due.evaluate || due.checkpoint) check_weights();
  // A run that goes on from a checkpoint takes its epoch for told.
  if (due.end_epoch && outputs_) outputs_->epoch(moment_);
  if (due.evaluate && due.checkpoint) write_before_evaluation();
  if (due.evaluate && !evaluate_or_save()) due.checkpoint = due.end = true;  // told to stop
  // Evaluations and checkpoints have clocks of their own: the best network would else be one that
  // was seen and is nowhere.
  if (due.evaluate && is_a_new_best() && saves_the_best()) due.checkpoint = true;
  if (result_.target_reached) {
    due.checkpoint = due.end = true;
    if (outputs_) outputs_->reached_target(moment_, inputs_->target->name);
  }
  if (outputs_) outputs_->tell_epoch();
  note_checkpoint(std::exchange(unscored_, std::nullopt), true);
  if (due.checkpoint) write_checkpoint_now();
  if (due.end) {
    if (writer_) note_checkpoint(writer_->finish());
    const bool whole = (nothing_left_ || is_done(recipe_.training, moment_)) &&
                       (!inputs_->evaluated || evaluated_at_ == moment_.step);
    result_.stopped = !whole && !result_.target_reached;
  }
  timeline_.updated(moment_, due.end);
  return !due.end;
}

// False: it was broken off, since a rank was told to stop. Says when it throws on all ranks.
bool Trainer::Impl::evaluate_now(bool& all_have_failed) {
  if (!inputs_->evaluated || evaluated_at_ == moment_.step) return true;
  const auto start = Clock::now();
  EvaluationOptions options;
  options.on_skip = [this](const std::string& text) {
    const std::lock_guard lock(skipped_mutex_);
    if (skipped_.insert(text).second) world_.log().warning(text);
  };
  options.should_stop = options_.should_stop;
  options.when_all_fail = [&all_have_failed] { all_have_failed = true; };
  // A checkpoint that is written meanwhile is there as soon as it can be.
  if (writer_) options.between_batches = [this] { note_checkpoint(writer_->poll()); };
  Evaluation evaluation;
  strategy().with_whole_model([&] {
    const Evaluated what{all(), recipe_, task(), compute(), inputs_->arrangement, strategy()};
    evaluation = evaluate(what, inputs_->evaluated, options);
    if (!evaluation.broken_off && inputs_->evaluated_training)
      add_training(evaluation, evaluate(what, inputs_->evaluated_training, options));
  });
  if (timeline()) timeline()->add(Timeline::kTraining, "evaluation", start, Clock::now());
  if (evaluation.broken_off) return false;
  result_.evaluation = evaluation;
  result_.evaluated_at = moment_.step;
  result_.evaluated = recipe_.evaluation.from == "training" ? "data.train" : "data.validation";
  evaluated_at_ = moment_.step;
  score_.reset();
  const double score = evaluation.score(inputs_->best);
  if (!std::isnan(score)) score_ = score;
  if (const auto& target = inputs_->target)
    result_.target_reached = inputs_->reached(evaluation.score(target->name));
  if (unscored_ && score_) add_score();
  if (!unscored_ && saved_at_ == moment_.step) saved_at_.reset();  // without the score
  if (outputs_) outputs_->evaluation(moment_, evaluation);
  warn_of_evaluation(evaluation);
  return true;
}

// What is being written is asked for after every update.
void Trainer::Impl::write_checkpoint_now() {
  const auto start = Clock::now();
  if (!begin_checkpoint()) return;
  if (!recipe_.checkpoint.asynchronous) note_checkpoint(writer_->finish(), true);
  if (timeline()) timeline()->add(Timeline::kTraining, "checkpoint", start, Clock::now());
}

// False: there is one of this step, or nobody has a folder for it.
bool Trainer::Impl::begin_checkpoint() {
  if (saved_at_ == moment_.step || !owned()) return false;
  const auto start = Clock::now();
  note_checkpoint(writer_->finish());  // one at a time
  confirm_folder();
  waited_ = seconds_since(start);
  tell_of_waiting();
  Manifest manifest = manifest_of(recipe_, world_.size(), *inputs_->data.training, task().facts());
  manifest.step = moment_.step;
  manifest.position = position_;
  manifest.seconds = seconds_before_ + seconds_since(started_);
  manifest.metric = inputs_->figure;
  manifest.measured_on = inputs_->measured_on;
  if (evaluated_at_ == moment_.step) manifest.score = score_;
  strategy().with_whole_model([&] { writer_->begin(manifest, strategy().state()); });
  saved_at_ = moment_.step;
  last_checkpoint_ = Clock::now();
  return true;
}

void Trainer::Impl::tell_of_waiting() {
  if (ending_ || !outputs_ || !waits_.add(waited_, seconds_since(started_))) return;
  world_.log().warning(
      "training has waited " + format_seconds(waits_.waited_s()) + " of " +
      format_seconds(seconds_since(started_)) +
      " for checkpoints that were still being written when the next was due: make "
      "checkpoint.every_steps or every_epochs larger, or use every_minutes, which never waits");
}

void Trainer::Impl::note_checkpoint(std::optional<WrittenCheckpoint> written, bool waited_for) {
  if (!written) return;
  result_.checkpoint = written->path;
  if (!written->warning.empty()) world_.log().warning(written->warning);
  written->held_s = waited_ + (waited_for ? written->seconds : written->held_s);
  if (outputs_) outputs_->checkpoint(moment_, *written);
}

RunResult Trainer::Impl::run() {
  started_ = last_checkpoint_ = Clock::now();
  result_.folder = folder_;
  if (inputs_->origin) result_.checkpoint = inputs_->origin->path;
  if (is_done(recipe_.training, moment_) && outputs_)
    outputs_->say("nothing is left to train: all of it was done before");
  const Due left = due_at_start(recipe_, moment_, inputs_->epoch_was_over);
  if (act(left)) {
    if (left.evaluate && outputs_) outputs_->made_up(moment_);
    timeline_.begin(moment_);
    hold_at("start");
    strategy().run();
    while (const auto rest = rank_times_ ? rank_times_->finish() : std::nullopt)
      note_rank_times(rest);
  }
  if (outputs_)
    outputs_->end(moment_, result_.stopped          ? "stopped"
                           : result_.target_reached ? "target"
                                                    : "done");
  result_.steps = moment_.step;
  result_.seconds = seconds_before_ + seconds_since(started_);
  outputs_.reset();  // finishes the progress line
  return result_;
}

Trainer::Trainer(const comm::World& world, const Registry& registry, const Recipe& recipe,
                 TrainerOptions options)
    : impl_(naming_out_of_memory(world, recipe, [&] {
        return std::make_unique<Impl>(world, registry, recipe, std::move(options));
      })) {}
Trainer::~Trainer() = default;
RunResult Trainer::run() {
  return naming_out_of_memory(impl_->world(), impl_->recipe(), [this] { return impl_->run(); });
}
torch::nn::Module& Trainer::module() const { return impl_->module(); }

}  // namespace convoy::train
