#include "convoy/train/trainer.h"

#include <cmath>
#include <filesystem>
#include <utility>

#include "base/hold.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/train/checkpoint_writer.h"
#include "convoy/train/memory.h"
#include "convoy/train/named_optimizer.h"
#include "convoy/train/threads.h"
#include "train/checkpoint/resume.h"
#include "train/checkpoint/run_lock.h"
#include "train/due.h"
#include "train/finite.h"
#include "train/logging/outputs.h"
#include "train/logging/rank_times.h"
#include "train/logging/sample_log.h"
#include "train/logging/timeline_window.h"
#include "train/rank_work.h"
#include "train/run/inputs.h"
#include "train/run/place.h"
#include "train/run/saved_score.h"
#include "train/same_everywhere.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

}  // namespace

class Trainer::Impl final : public TrainerContext {
 public:
  Impl(const comm::World& world, const Registry& registry, const Recipe& recipe,
       TrainerOptions options);
  RunResult run();
  torch::nn::Module& module() { return strategy().module(); }

  const Recipe& recipe() const override { return recipe_; }
  const comm::World& world() const override { return world_; }
  const Task& task() const override { return *inputs_->task; }
  const Compute& compute() const override { return inputs_->compute; }
  NamedOptimizer make_optimizer(std::vector<parallel::NamedTensor> parameters) const override {
    return {recipe_.optimizer, std::move(parameters), optimizer_};
  }
  data::SampleSource& samples() override { return *source_; }
  const data::Dataset& training_data() const override { return *inputs_->data.training; }
  const Schedule& schedule() const override { return *schedule_; }
  const Moment& moment() const override { return moment_; }
  Timeline* timeline() override { return timeline_.timeline(); }
  std::uint32_t requests() override;
  bool updated(const StepReport& report) override;
  void stopped() override;

 private:
  bool owner() const { return inputs_->owner(); }
  // Whether any rank of this job has the run folder.
  bool owned() const { return inputs_->arrangement.owner >= 0; }
  const comm::Communicator& all() const { return world_.communicator(); }
  Strategy& strategy() { return *inputs_->strategy; }
  // Runs `work` on the rank that has the run folder, if there is one.
  void on_owner(const std::function<void()>& work);
  // Throws on every rank when another run has taken the folder over.
  void confirm_folder() {
    on_owner([this] { lock_->confirm(); });
  }
  // To begin with, in this order: what can be wrong is found before anything is touched.
  void take_folder(int owner);
  void open_samples();
  void restore();
  void open_folder();
  void greet();
  // While it runs.
  void note_position();
  void count(const StepReport& report);  // changes moment_
  void note_rank_times(const std::optional<GatheredTimes>& times) {
    if (times && outputs_) outputs_->ranks(*times, world_);
  }
  bool act(Due due);
  bool evaluate_now();
  void confirm_finite();
  void save_before_failing();
  // Ends the training, whose numbers are none any more. The same on every rank.
  [[noreturn]] void give_up(const std::string& why);
  void write_checkpoint_now();
  void note_checkpoint(std::optional<WrittenCheckpoint> written);

  const comm::World& world_;
  Recipe recipe_;
  TrainerOptions options_;
  OptimizerFactory optimizer_;  // a plugin's
  std::string folder_;
  std::optional<RunLock> lock_;  // on the owner
  CheckpointFolder checkpoints_;
  std::optional<Inputs> inputs_;
  std::optional<CheckpointWriter> writer_;  // where the job has a run folder
  bool reserved_ = false;  // memory for it, with the optimizer's of the first update
  double waited_ = 0;      // before the checkpoint that is being written was begun
  std::unique_ptr<data::SampleSource> source_;
  SampleLog* sample_log_ = nullptr;  // source_, if samples are logged
  std::optional<Schedule> schedule_;
  std::optional<Outputs> outputs_;  // on the owner
  std::optional<RankTimes> rank_times_;
  data::Position position_;    // after the last update
  Moment moment_;              // the same
  double seconds_before_ = 0;  // of earlier parts of this run
  Clock::time_point started_ = Clock::now();
  Clock::time_point last_checkpoint_ = Clock::now();
  std::optional<std::int64_t> evaluated_at_;  // step
  std::optional<double> score_;               // then
  std::optional<std::int64_t> saved_at_;
  TimelineWindow timeline_;
  RunResult result_;
};

Trainer::Impl::Impl(const comm::World& world, const Registry& registry, const Recipe& recipe,
                    TrainerOptions options)
    : world_(world),
      recipe_(recipe),
      options_(std::move(options)),
      optimizer_(registry.optimizer(recipe.optimizer.name)),
      folder_(recipe.output.folder.empty()
                  ? fs::absolute("runs/" + recipe.name).lexically_normal().string()
                  : recipe.output.folder),
      checkpoints_(checkpoints_in(folder_)),
      timeline_(world, options_.timeline) {
  recipe_.output.folder = folder_;
  set_threads(world_, static_cast<int>(recipe_.threads));
  keep_large_blocks({.processes = world_.local_size()});
  check_same_recipe(all(), print_recipe(recipe_, false));
  const bool automatic = recipe_.automatic();
  // Planning takes long. All that it may choose has the folder on rank 0.
  if (automatic) take_folder(0);
  recipe_ = placed(world_, registry, recipe_, options_.resume);
  inputs_.emplace(world_, registry, recipe_, options_.strategy);
  if (!automatic) take_folder(inputs_->arrangement.owner);
  inputs_->open(registry, options_.resume);
  open_samples();
  restore();
  all().barrier();  // nobody has found a mistake
  open_folder();
  if (owned()) {
    CheckpointOptions checkpoint = checkpoint_options(recipe_, world_);
    // Minutes may pass between the beginning of a checkpoint and its end.
    if (owner()) checkpoint.confirm = [this] { lock_->confirm(); };
    writer_.emplace(all(), checkpoints_, std::move(checkpoint));
  }
  if (owned() && recipe_.output.rank_times_every_steps > 0)
    rank_times_.emplace(all(), recipe_.output.rank_times_every_steps);
  greet();
}

void Trainer::Impl::on_owner(const std::function<void()>& work) {
  if (!owned()) return;
  on_rank(all(), inputs_->arrangement.owner, [&work]() -> std::string {
    work();
    return "";
  });
}

// Only one run may be in a folder, from before it looks at what is there.
void Trainer::Impl::take_folder(int owner) {
  if (owner < 0) return;
  const std::string start = on_rank(all(), owner, [this]() -> std::string {
    lock_.emplace(folder_, &world_.log(), RunLock::Times());
    if (options_.resume.empty()) check_run_folder(folder_, options_.overwrite);
    if (options_.resume != kResumeAuto) return "";
    return std::to_string(static_cast<int>(choose_start(folder_)));
  });
  if (start.empty()) return;
  const auto chosen = static_cast<Start>(std::stoi(start));
  options_.resume = chosen == Start::go_on ? "latest" : "";
  options_.overwrite = chosen == Start::begin_again;
}

void Trainer::Impl::open_samples() {
  source_ = open_training(*inputs_, strategy().least_share(*this));
  if (!recipe_.output.log_samples || !inputs_->arrangement.reads() || !owned()) return;
  auto log = std::make_unique<SampleLog>(std::move(source_), folder_ + "/samples", world_.rank());
  sample_log_ = log.get();
  source_ = std::move(log);
}

void Trainer::Impl::restore() {
  std::optional<State> saved;
  if (const auto& origin = inputs_->origin) {
    source_->seek(origin->manifest.position);
    moment_.step = origin->manifest.step;
    saved_at_ = moment_.step;
    const SavedScore score = saved_score(*inputs_, checkpoints_, origin->manifest);
    if (score.evaluated) evaluated_at_ = moment_.step;
    score_ = score.score;
    result_.target_reached = score.target_reached;
    seconds_before_ = origin->manifest.seconds;
    const auto wanted = [this](const Slice& whole) { return strategy().wanted(whole); };
    saved = read_checkpoint(all(), origin->path, origin->manifest, wanted, &strategy().module());
  }
  note_position();
  schedule_.emplace(recipe_.schedule, recipe_.optimizer.lr, recipe_.training,
                    static_cast<double>(source_->batches_per_epoch()));
  strategy().prepare(*this, saved ? &*saved : nullptr);
}

void Trainer::Impl::open_folder() {
  on_owner([this] {
    lock_->confirm();
    const auto& origin = inputs_->origin;
    const std::int64_t resumed_at = origin ? moment_.step : -1;
    if (origin) {
      const std::string aside = prepare_resumed_run(recipe_, *origin);
      if (!aside.empty()) world_.log().info("later checkpoints of this run are in " + aside);
      SampleLog::trim(folder_ + "/samples", resumed_at);
    } else {
      prepare_new_run(recipe_, options_.overwrite);
    }
    outputs_.emplace(recipe_, folder_, resumed_at, evaluated_at_.has_value(), options_.progress,
                     task().unit(), !task().cost(*inputs_->data.training));
  });
  if (sample_log_ != nullptr) sample_log_->open();
}

void Trainer::Impl::greet() {
  const std::int64_t parameters = strategy().parameters();
  if (!outputs_) return;
  outputs_->begin({.version = options_.version,
                   .model = recipe_.model.name,
                   .parameters = parameters,
                   .training_samples = source_->size(),
                   .validation_samples = inputs_->evaluated ? inputs_->evaluated->size() : 0,
                   .data = task().summary(),
                   .shares = inputs_->arrangement.shares,
                   .cores = world_.cores(),
                   .threads = at::get_num_threads(),
                   .batch = recipe_.training.batch,
                   .folder = folder_,
                   .resumed_from = inputs_->origin ? inputs_->origin->path : "",
                   .seconds_before = seconds_before_,
                   .metrics = task().metrics(),
                   .best = inputs_->best},
                  recipe_, world_, moment_);
}

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
  return act(due_since(recipe_, before, moment_, report.requests));
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
  if (!std::isfinite(report.loss))
    give_up("the loss of step " + std::to_string(moment_.step) + " is " +
            std::to_string(report.loss));
  if (outputs_) outputs_->step(moment_, report, source_->statistics());
  if (outputs_ && report.noise) outputs_->noise(moment_, *report.noise);
  if (rank_times_) note_rank_times(rank_times_->add(moment_.step, phases_of(report)));
}

// The loss of an update is of the weights before it. What it has made of them is looked at before
// they are evaluated, since a network of NaN has a class for each sample, too, and before they are
// saved, since a checkpoint of them would take the place of one from which training can go on.
void Trainer::Impl::confirm_finite() {
  const std::string name = first_not_finite(all(), module());
  if (!name.empty())
    give_up("after step " + std::to_string(moment_.step) + " '" + name +
            "' has values that are not finite");
}

void Trainer::Impl::give_up(const std::string& why) {
  if (writer_) note_checkpoint(writer_->finish());
  throw Failure(why +
                (checkpoints_.newest().empty()
                     ? "; there is no checkpoint yet"
                     : "; the last checkpoint before it is " + checkpoints_.newest()) +
                ". A smaller learning rate, a warm-up or clip_norm may help");
}

// An evaluation that fails, by a bad record or a file that is gone, doesn't take the updates since
// the last checkpoint with it. Where one rank alone has failed, the world has, and nothing can be
// saved; what is reported is the failure itself.
void Trainer::Impl::save_before_failing() {
  try {
    write_checkpoint_now();
    if (writer_) note_checkpoint(writer_->finish());
  } catch (const std::exception&) {
  }
}

// Whether training goes on.
bool Trainer::Impl::act(Due due) {
  if (due.evaluate || due.checkpoint) confirm_finite();
  try {
    if (due.evaluate && !evaluate_now()) due.checkpoint = due.end = true;  // told to stop meanwhile
  } catch (...) {
    if (due.checkpoint) save_before_failing();
    throw;
  }
  if (result_.target_reached) {
    due.checkpoint = due.end = true;
    if (outputs_) outputs_->reached_target(moment_, inputs_->target->name);
  }
  if (due.end_epoch && outputs_) outputs_->epoch(moment_);
  if (due.checkpoint) write_checkpoint_now();
  if (due.end) {
    if (writer_) note_checkpoint(writer_->finish());
    const bool whole = is_done(recipe_.training, moment_) &&
                       (!inputs_->evaluated || evaluated_at_ == moment_.step);
    result_.stopped = !whole && !result_.target_reached;
  }
  timeline_.updated(moment_, due.end);
  return !due.end;
}

// False: it was broken off, since a rank was told to stop.
bool Trainer::Impl::evaluate_now() {
  if (!inputs_->evaluated || evaluated_at_ == moment_.step) return true;
  const auto start = Clock::now();
  EvaluationOptions options;
  options.on_skip = [log = world_.log()](const std::string& text) { log.warning(text); };
  options.should_stop = options_.should_stop;
  // A checkpoint that is written meanwhile is there as soon as it can be.
  if (writer_) options.between_batches = [this] { note_checkpoint(writer_->poll()); };
  Evaluation evaluation;
  strategy().with_whole_model([&] {
    evaluation = evaluate({all(), recipe_, task(), compute(), inputs_->arrangement, strategy()},
                          inputs_->evaluated, options);
  });
  if (timeline()) timeline()->add(Timeline::kTraining, "evaluation", start, Clock::now());
  if (evaluation.broken_off) return false;
  result_.evaluation = evaluation;
  result_.evaluated_at = moment_.step;
  result_.evaluated = recipe_.evaluation.from == "training" ? "data.train" : "data.validation";
  evaluated_at_ = moment_.step;
  score_ = evaluation.score(inputs_->best);
  if (const auto& target = inputs_->target)
    result_.target_reached = inputs_->reached(evaluation.score(target->name));
  if (saved_at_ == moment_.step) saved_at_.reset();  // without the score
  if (outputs_) outputs_->evaluation(moment_, evaluation);
  return true;
}

// Begins to; what is being written meanwhile is asked for after every update.
void Trainer::Impl::write_checkpoint_now() {
  if (saved_at_ == moment_.step || !owned()) return;
  const auto start = Clock::now();
  note_checkpoint(writer_->finish());  // one at a time
  confirm_folder();
  waited_ = seconds_since(start);
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
  if (!recipe_.checkpoint.asynchronous) note_checkpoint(writer_->finish());
  if (timeline()) timeline()->add(Timeline::kTraining, "checkpoint", start, Clock::now());
}

void Trainer::Impl::note_checkpoint(std::optional<WrittenCheckpoint> written) {
  if (!written) return;
  result_.checkpoint = written->path;
  written->held_s = recipe_.checkpoint.asynchronous ? waited_ + written->held_s : written->seconds;
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
    : impl_(std::make_unique<Impl>(world, registry, recipe, std::move(options))) {}
Trainer::~Trainer() = default;
RunResult Trainer::run() { return impl_->run(); }
torch::nn::Module& Trainer::module() const { return impl_->module(); }

}  // namespace convoy::train
