#include "convoy/train/trainer.h"

#include <cmath>
#include <filesystem>
#include <utility>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/model/factory.h"
#include "convoy/train/checkpoint_writer.h"
#include "convoy/train/memory.h"
#include "convoy/train/threads.h"
#include "convoy/train/timeline.h"
#include "train/checkpoint/resume.h"
#include "train/checkpoint/run_lock.h"
#include "train/compute/compute.h"
#include "train/due.h"
#include "train/logging/outputs.h"
#include "train/logging/sample_log.h"
#include "train/rank_work.h"
#include "train/same_everywhere.h"
#include "train/samples.h"
#include "train/setup.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kTimelineSteps = 10;

}  // namespace

class Trainer::Impl final : public TrainerContext {
 public:
  Impl(const comm::World& world, const Registry& registry, const Recipe& recipe,
       TrainerOptions options);
  RunResult run();

  const Recipe& recipe() const override { return recipe_; }
  const comm::World& world() const override { return world_; }
  const std::shared_ptr<model::Network>& network() const override { return network_; }
  data::SampleSource& samples() override { return *source_; }
  const Schedule& schedule() const override { return *schedule_; }
  const Moment& moment() const override { return moment_; }
  Timeline* timeline() override { return timeline_ ? &*timeline_ : nullptr; }
  std::uint32_t requests() override;
  bool updated(const StepReport& report) override;
  void stopped() override;

 private:
  bool first() const { return world_.rank() == 0; }
  const comm::Communicator& all() const { return world_.communicator(); }
  // To begin with, in this order: what can be wrong is found before anything is touched.
  void take_folder();
  void open_inputs();
  void find_origin();
  void make_loader();
  void restore();
  void open_folder();
  void greet();
  // While it runs.
  void note_position();
  void count(const StepReport& report);
  bool act(Due due);
  void end_epoch();
  bool evaluate_now();
  void write_checkpoint_now();
  void note_checkpoint(std::optional<WrittenCheckpoint> written);
  void begin_timeline();
  void end_timeline();

  const comm::World& world_;
  const Registry& registry_;
  Recipe recipe_;
  TrainerOptions options_;
  std::string folder_;
  std::optional<RunLock> lock_;  // on rank 0
  CheckpointFolder checkpoints_;
  std::optional<CheckpointWriter> writer_;
  bool reserved_ = false;  // memory for it, with the optimizer's of the first update
  double waited_ = 0;      // before the checkpoint that is being written was begun
  DataSets data_;
  data::Shape shape_;  // of an image
  std::shared_ptr<model::Network> network_;
  std::unique_ptr<data::SampleSource> source_;
  SampleLog* sample_log_ = nullptr;  // source_, if samples are logged
  std::optional<Schedule> schedule_;
  std::unique_ptr<Strategy> strategy_;
  std::optional<Outputs> outputs_;  // on rank 0
  std::optional<Origin> origin_;    // if this run goes on
  bool epoch_was_over_ = false;     // there, and reported
  data::Position position_;         // after the last update
  Moment moment_;                   // the same
  double seconds_before_ = 0;       // of earlier parts of this run
  Clock::time_point started_ = Clock::now();
  Clock::time_point last_checkpoint_ = Clock::now();
  Clock::time_point epoch_started_ = Clock::now();
  double epoch_loss_ = 0;
  std::uint64_t epoch_samples_ = 0;
  std::optional<std::int64_t> evaluated_at_;  // step
  std::optional<double> score_;               // then
  std::optional<std::int64_t> saved_at_;
  std::int64_t timeline_from_ = -1;   // updates done before the first that is recorded
  std::optional<Timeline> timeline_;  // while updates are recorded
  RunResult result_;
};

Trainer::Impl::Impl(const comm::World& world, const Registry& registry, const Recipe& recipe,
                    TrainerOptions options)
    : world_(world),
      registry_(registry),
      recipe_(recipe),
      options_(std::move(options)),
      folder_(recipe.output.folder.empty()
                  ? fs::absolute("runs/" + recipe.name).lexically_normal().string()
                  : recipe.output.folder),
      checkpoints_(checkpoints_in(folder_)) {
  recipe_.output.folder = folder_;
  set_threads(world_, static_cast<int>(recipe_.threads));
  keep_large_blocks({.processes = world_.local_size()});
  check_same_recipe(all(), print_recipe(recipe_, false));
  take_folder();
  open_inputs();
  if (!options_.resume.empty()) find_origin();
  strategy_ = registry_.make_strategy(recipe_.strategy);
  make_loader();
  restore();
  all().barrier();  // nobody has found a mistake
  open_folder();
  writer_.emplace(all(), checkpoints_, checkpoint_options(recipe_, world_));
  greet();
}

// Only one run may be in a folder, from before it looks at what is there.
void Trainer::Impl::take_folder() {
  on_rank_0(all(), [this]() -> std::string {
    lock_.emplace(folder_, &world_.log(), RunLock::Times());
    if (options_.resume.empty()) check_run_folder(folder_, options_.overwrite);
    return "";
  });
}

void Trainer::Impl::open_inputs() {
  data_ = open_data(all(), registry_, recipe_.data);
  shape_ = input_shape(*data_.training, recipe_.data);
  network_ = make_network(registry_, recipe_, shape_,
                          static_cast<std::int64_t>(data_.training->classes().size()));
  // A run that goes on has its weights, and may have lost this file.
  if (recipe_.model.weights.empty() || !options_.resume.empty()) return;
  const WeightsReport report =
      load_weights(*network_, recipe_.model.weights, recipe_.model.partial);
  if (first()) world_.log().info(recipe_.model.weights + ": " + describe(report));
}

void Trainer::Impl::find_origin() {
  origin_ = train::find_origin(all(), options_.resume, folder_);
  const Recipe before = check_origin(*origin_, recipe_, registry_.vocabulary(), *data_.training,
                                     first() ? &world_.log() : nullptr);
  epoch_was_over_ = is_over(origin_->manifest.position, data_.training->size(), before);
}

void Trainer::Impl::make_loader() {
  const Compute compute(recipe_);
  data::LoaderOptions options;
  options.batch = static_cast<std::size_t>(recipe_.training.batch);
  options.rank = world_.rank();
  options.world = world_.size();
  options.seed = static_cast<std::uint64_t>(recipe_.seed);
  options.drop_last = recipe_.data.drop_last;
  options.least_share = strategy_->least_share(*this, shape_);
  options.layout = compute.layout();
  options.threads = decoding_threads(recipe_);
  options.ahead = static_cast<std::size_t>(recipe_.data.ahead);
  options.on_bad = on_bad(recipe_.data);
  options.on_skip = [log = world_.log()](const std::string& text) { log.warning(text); };
  if (first() && options.batch > data_.training->size() && !options.drop_last) {
    world_.log().warning("training.batch is " + std::to_string(options.batch) +
                         ", but data.train holds " + std::to_string(data_.training->size()) +
                         ": each update takes all of it");
  }
  source_ =
      open_samples(world_, data_.training, training_transform(recipe_.data), options, recipe_.data);
  if (!recipe_.output.log_samples) return;
  auto log = std::make_unique<SampleLog>(std::move(source_), folder_ + "/samples", world_.rank());
  sample_log_ = log.get();
  source_ = std::move(log);
}

void Trainer::Impl::restore() {
  std::optional<State> saved;
  if (origin_) {
    source_->seek(origin_->manifest.position);
    moment_.step = origin_->manifest.step;
    saved_at_ = moment_.step;
    score_ = origin_->manifest.score;
    if (score_) evaluated_at_ = moment_.step;
    seconds_before_ = origin_->manifest.seconds;
    saved = read_checkpoint(all(), origin_->path, origin_->manifest);
  }
  note_position();
  schedule_.emplace(recipe_.schedule, recipe_.optimizer.lr, recipe_.training,
                    static_cast<double>(source_->batches_per_epoch()));
  strategy_->prepare(*this, saved ? &*saved : nullptr);
}

void Trainer::Impl::open_folder() {
  on_rank_0(all(), [this]() -> std::string {
    lock_->confirm();
    const std::int64_t resumed_at = origin_ ? moment_.step : -1;
    if (origin_) {
      const std::string aside = prepare_resumed_run(recipe_, *origin_);
      if (!aside.empty()) world_.log().info("later checkpoints of this run are in " + aside);
      SampleLog::trim(folder_ + "/samples", resumed_at);
    } else {
      prepare_new_run(recipe_, options_.overwrite);
    }
    outputs_.emplace(recipe_, folder_, resumed_at, score_.has_value(), options_.progress);
    return "";
  });
  if (sample_log_ != nullptr) sample_log_->open();
}

void Trainer::Impl::greet() {
  if (!outputs_) return;
  outputs_->begin({.model = recipe_.model.name,
                   .parameters = model::parameter_count(*network_),
                   .training_samples = source_->size(),
                   .validation_samples = data_.validation ? data_.validation->size() : 0,
                   .classes = data_.training->classes().size(),
                   .ranks = world_.size(),
                   .threads = at::get_num_threads(),
                   .batch = recipe_.training.batch,
                   .folder = folder_,
                   .resumed_from = origin_ ? origin_->path : ""},
                  moment_);
}

std::uint32_t Trainer::Impl::requests() {
  if (lock_) lock_->check();
  std::uint32_t requests = 0;
  if (options_.should_stop && options_.should_stop()) requests |= kStop;
  const double minutes = recipe_.checkpoint.every_minutes;
  constexpr double kMinute = 60;
  if (first() && minutes > 0 && seconds_since(last_checkpoint_) >= minutes * kMinute) {
    requests |= kCheckpoint;
  }
  return requests;
}

// After an update, or a seek.
void Trainer::Impl::note_position() {
  position_ = source_->position();
  moment_ = moment_of(*source_, recipe_, moment_.step);
}

bool Trainer::Impl::updated(const StepReport& report) {
  count(report);
  note_checkpoint(writer_->poll());
  if (!writer_->writing() && !std::exchange(reserved_, true)) writer_->reserve(strategy_->state());
  return act(due(recipe_, moment_, report.requests));
}

void Trainer::Impl::stopped() { act({.checkpoint = true, .end = true}); }

void Trainer::Impl::count(const StepReport& report) {
  ++moment_.step;
  note_position();
  result_.loss = report.loss;
  epoch_loss_ += report.loss * static_cast<double>(report.samples);
  epoch_samples_ += report.samples;
  if (sample_log_ != nullptr) sample_log_->commit(moment_.step);
  if (!std::isfinite(report.loss)) {
    note_checkpoint(writer_->finish());
    throw Failure("the loss of step " + std::to_string(moment_.step) + " is " +
                  std::to_string(report.loss) +
                  (checkpoints_.newest().empty()
                       ? "; there is no checkpoint yet"
                       : "; the last checkpoint before it is " + checkpoints_.newest()) +
                  ". A smaller learning rate, a warm-up or clip_norm may help");
  }
  if (outputs_) outputs_->step(moment_, report, source_->statistics());
}

// Whether training goes on.
bool Trainer::Impl::act(Due due) {
  if (due.evaluate && !evaluate_now()) due.checkpoint = due.end = true;  // told to stop meanwhile
  if (due.end_epoch) end_epoch();
  if (due.checkpoint) write_checkpoint_now();
  if (due.end) {
    note_checkpoint(writer_->finish());
    const bool evaluated = !data_.validation || evaluated_at_ == moment_.step;
    result_.stopped = !is_done(recipe_.training, moment_) || !evaluated;
  }
  if (timeline_ && (due.end || moment_.step == timeline_from_ + kTimelineSteps)) end_timeline();
  begin_timeline();
  return !due.end;
}

void Trainer::Impl::end_epoch() {
  if (outputs_) {
    outputs_->epoch(moment_,
                    epoch_loss_ / static_cast<double>(std::max<std::uint64_t>(epoch_samples_, 1)),
                    seconds_since(epoch_started_), epoch_samples_);
  }
  epoch_loss_ = 0;
  epoch_samples_ = 0;
  epoch_started_ = Clock::now();
}

// False: it was broken off, since a rank was told to stop.
bool Trainer::Impl::evaluate_now() {
  if (!data_.validation || evaluated_at_ == moment_.step) return true;
  const auto start = Clock::now();
  EvaluationOptions options;
  options.on_skip = [log = world_.log()](const std::string& text) { log.warning(text); };
  options.should_stop = options_.should_stop;
  Evaluation evaluation;
  strategy_->with_whole_model(
      [&] { evaluation = evaluate(all(), *network_, data_.validation, recipe_, options); });
  if (timeline_) timeline_->add(Timeline::kTraining, "evaluation", start, Clock::now());
  if (evaluation.broken_off) return false;
  result_.evaluation = evaluation;
  evaluated_at_ = moment_.step;
  score_ = evaluation.top1_accuracy();
  if (saved_at_ == moment_.step) saved_at_.reset();  // without the score
  if (outputs_) outputs_->evaluation(moment_, evaluation);
  return true;
}

// Begins to; what is being written meanwhile is asked for after every update.
void Trainer::Impl::write_checkpoint_now() {
  if (saved_at_ == moment_.step) return;
  const auto start = Clock::now();
  on_rank_0(all(), [this]() -> std::string {
    lock_->confirm();
    return "";
  });
  note_checkpoint(writer_->finish());  // one at a time
  waited_ = seconds_since(start);
  Manifest manifest = manifest_of(recipe_, world_.size(), *data_.training, source_->shape());
  manifest.step = moment_.step;
  manifest.position = position_;
  manifest.seconds = seconds_before_ + seconds_since(started_);
  if (evaluated_at_ == moment_.step) manifest.score = score_;
  strategy_->with_whole_model([&] { writer_->begin(manifest, strategy_->state()); });
  saved_at_ = moment_.step;
  last_checkpoint_ = Clock::now();
  if (!recipe_.checkpoint.asynchronous) note_checkpoint(writer_->finish());
  if (timeline_) timeline_->add(Timeline::kTraining, "checkpoint", start, Clock::now());
}

void Trainer::Impl::note_checkpoint(std::optional<WrittenCheckpoint> written) {
  if (!written) return;
  result_.checkpoint = written->path;
  written->held_s = recipe_.checkpoint.asynchronous ? waited_ + written->held_s : written->seconds;
  if (outputs_) outputs_->checkpoint(moment_, *written);
}

// Starts to record where it is time.
void Trainer::Impl::begin_timeline() {
  if (!options_.timeline.empty() && moment_.step == timeline_from_) timeline_.emplace();
}

void Trainer::Impl::end_timeline() {
  write_timelines(world_, *timeline_, options_.timeline);
  timeline_.reset();
}

RunResult Trainer::Impl::run() {
  started_ = last_checkpoint_ = epoch_started_ = Clock::now();
  result_.folder = folder_;
  if (origin_) result_.checkpoint = origin_->path;
  if (is_done(recipe_.training, moment_) && outputs_)
    outputs_->say("nothing is left to train: all of it was done before");
  const Due left = due_at_start(recipe_, moment_, epoch_was_over_);
  if (act(left)) {
    if (left.evaluate && outputs_) outputs_->made_up(moment_);
    // The first updates are slower: memory is new, and the order of gradients is not known.
    timeline_from_ = std::min(moment_.step + kTimelineSteps,
                              std::max(moment_.step, moment_.steps - kTimelineSteps));
    begin_timeline();
    strategy_->run();
  }
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
const std::shared_ptr<model::Network>& Trainer::network() const { return impl_->network(); }

}  // namespace convoy::train
