#include "convoy/train/trainer.h"

#include <cmath>
#include <filesystem>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/data/comm_peers.h"
#include "convoy/model/factory.h"
#include "convoy/train/memory.h"
#include "convoy/train/threads.h"
#include "convoy/train/timeline.h"
#include "train/checkpoint/resume.h"
#include "train/compute/compute.h"
#include "train/logging/outputs.h"
#include "train/logging/sample_log.h"
#include "train/same_everywhere.h"
#include "train/samples.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kTimelineSteps = 10;

std::string count_text(const char* one, std::size_t n) {
  return std::to_string(n) + " " + one + (n == 1 ? "" : "s");
}

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
  std::int64_t steps_done() const override { return steps_; }
  std::int64_t steps_to_do() const override { return steps_to_do_; }
  Timeline* timeline() override { return timeline_ ? &*timeline_ : nullptr; }
  std::uint32_t requests() override;
  bool updated(const StepReport& report) override;

 private:
  bool first() const { return world_.rank() == 0; }
  const comm::Communicator& all() const { return world_.communicator(); }
  void open_data();
  void make_network();
  void make_loader();
  void open_folder();
  void log_samples();
  void greet();
  Moment moment() const;
  void end_epoch();
  void evaluate_now();
  void write_checkpoint_now();
  void begin_timeline();
  void end_timeline();

  const comm::World& world_;
  const Registry& registry_;
  Recipe recipe_;
  TrainerOptions options_;
  std::string folder_;
  CheckpointFolder checkpoints_;
  std::shared_ptr<data::Dataset> training_data_;
  std::shared_ptr<data::Dataset> validation_data_;
  std::shared_ptr<model::Network> network_;
  std::unique_ptr<data::SampleSource> source_;
  SampleLog* sample_log_ = nullptr;  // source_, if samples are logged
  std::optional<Schedule> schedule_;
  std::unique_ptr<Strategy> strategy_;
  std::optional<Outputs> outputs_;  // on rank 0
  std::optional<Origin> origin_;    // if this run goes on
  std::int64_t steps_ = 0;
  std::int64_t steps_to_do_ = 0;
  double seconds_before_ = 0;  // of earlier parts of this run
  Clock::time_point started_ = Clock::now();
  Clock::time_point last_checkpoint_ = Clock::now();
  Clock::time_point epoch_started_ = Clock::now();
  double epoch_loss_ = 0;
  std::uint64_t epoch_samples_ = 0;
  std::int64_t evaluated_at_ = -1;
  std::int64_t saved_at_ = -1;
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
      checkpoints_(folder_ + "/checkpoints") {
  recipe_.output.folder = folder_;
  set_threads(static_cast<int>(recipe_.threads));
  keep_large_blocks({.processes = world_.local_size()});
  check_same_recipe(all(), print_recipe(recipe_, false));
  open_data();
  make_network();
  if (!options_.resume.empty()) {
    origin_ = find_origin(options_.resume, checkpoints_, recipe_, registry_.vocabulary(),
                          *training_data_, first() ? &world_.log() : nullptr);
    steps_ = saved_at_ = origin_->manifest.step;
    seconds_before_ = origin_->manifest.seconds;
  }
  make_loader();
  const auto per_epoch = static_cast<std::int64_t>(source_->batches_per_epoch());
  if (per_epoch == 0) {
    throw UsageError("an epoch has no batch: the " + count_text("sample", source_->size()) +
                     " are fewer than training.batch, and data.drop_last is set");
  }
  steps_to_do_ =
      recipe_.training.steps > 0 ? recipe_.training.steps : recipe_.training.epochs * per_epoch;
  schedule_.emplace(recipe_.schedule, recipe_.optimizer.lr, static_cast<double>(per_epoch),
                    static_cast<double>(steps_to_do_));
  open_folder();
  if (recipe_.output.log_samples) log_samples();
  strategy_ = registry_.make_strategy(recipe_.strategy);
  std::optional<State> saved;
  if (origin_) {
    saved = read_checkpoint(origin_->path, origin_->manifest, world_.rank(), world_.size());
  }
  strategy_->prepare(*this, saved ? &*saved : nullptr);
  greet();
}

void Trainer::Impl::open_data() {
  data::CommPeers peers(all());
  training_data_ = registry_.open_data(recipe_.data.reader, recipe_.data.train, peers);
  check_same_data(all(), *training_data_, "data.train");
  if (training_data_->size() == 0) throw UsageError("data.train holds no samples");
  if (!recipe_.data.has_validation) return;
  validation_data_ = registry_.open_data(recipe_.data.reader, recipe_.data.validation, peers);
  check_same_data(all(), *validation_data_, "data.validation");
  const auto& train = training_data_->classes();
  const auto& validation = validation_data_->classes();
  if (train == validation) return;
  // Labels are numbers: different classes would be compared with each other.
  for (std::size_t i = 0; i < std::max(train.size(), validation.size()); ++i) {
    const std::string a = i < train.size() ? "'" + train[i] + "'" : "missing";
    const std::string b = i < validation.size() ? "'" + validation[i] + "'" : "missing";
    if (a == b) continue;
    throw UsageError("data.train and data.validation have different classes: number " +
                     std::to_string(i) + " is " + a + " in one, " + b + " in the other");
  }
}

void Trainer::Impl::make_network() {
  const auto classes = static_cast<std::int64_t>(training_data_->classes().size());
  if (recipe_.model.classes > 0 && recipe_.model.classes < classes) {
    throw UsageError("model.classes is " + std::to_string(recipe_.model.classes) +
                     ", but the data has " + std::to_string(classes) + " classes");
  }
  torch::manual_seed(static_cast<std::uint64_t>(recipe_.seed));
  const data::Shape shape = input_shape(*training_data_, recipe_.data);
  network_ = registry_.make_model(
      recipe_.model.name,
      {recipe_.model.classes > 0 ? recipe_.model.classes : classes, shape, recipe_.model.options});
  const Compute compute(recipe_);
  compute.place(*network_);
  compute.check_takes(*network_, shape, recipe_.model.name);
  if (recipe_.model.weights.empty()) return;
  const WeightsReport report =
      load_weights(*network_, recipe_.model.weights, recipe_.model.partial);
  if (first()) {
    world_.log().info(recipe_.model.weights + ": " + describe(report));
  }
}

void Trainer::Impl::make_loader() {
  const Compute compute(recipe_);
  data::LoaderOptions options;
  options.batch = static_cast<std::size_t>(recipe_.training.batch);
  options.rank = world_.rank();
  options.world = world_.size();
  options.seed = static_cast<std::uint64_t>(recipe_.seed);
  options.drop_last = recipe_.data.drop_last;
  options.layout = compute.layout();
  options.threads = decoding_threads(recipe_);
  options.ahead = static_cast<std::size_t>(recipe_.data.ahead);
  options.on_bad = on_bad(recipe_.data);
  options.on_skip = [log = world_.log()](const std::string& text) { log.warning(text); };
  source_ =
      open_samples(world_, training_data_, training_transform(recipe_.data), options, recipe_.data);
  if (origin_) source_->seek(origin_->manifest.position);
}

void Trainer::Impl::open_folder() {
  if (!first()) return;
  if (origin_) {
    prepare_resumed_run(recipe_, checkpoints_, *origin_);
  } else {
    prepare_new_run(recipe_, options_.overwrite);
  }
  outputs_.emplace(recipe_, folder_, origin_ ? steps_ : -1, options_.progress);
}

void Trainer::Impl::log_samples() {
  const std::string folder = folder_ + "/samples";
  if (first()) SampleLog::trim(folder, origin_ ? steps_ : -1);
  all().barrier();
  auto log = std::make_unique<SampleLog>(std::move(source_), folder, world_.rank());
  sample_log_ = log.get();
  source_ = std::move(log);
}

void Trainer::Impl::greet() {
  if (!outputs_) return;
  const std::size_t validation = validation_data_ ? validation_data_->size() : 0;
  outputs_->run({{"ranks", world_.size()},
                 {"threads_per_rank", at::get_num_threads()},
                 {"parameters", static_cast<double>(model::parameter_count(*network_))},
                 {"training_samples", static_cast<double>(source_->size())},
                 {"validation_samples", static_cast<double>(validation)},
                 {"batch", static_cast<double>(recipe_.training.batch)},
                 {"steps", static_cast<double>(steps_to_do_)},
                 {"resumed_at", static_cast<double>(steps_)}});
  outputs_->say(recipe_.model.name + ", " + std::to_string(model::parameter_count(*network_)) +
                " parameters; " + std::to_string(source_->size()) + " training and " +
                std::to_string(validation) + " validation images, " +
                std::to_string(training_data_->classes().size()) + " classes");
  outputs_->say(count_text("rank", static_cast<std::size_t>(world_.size())) + " x " +
                count_text("thread", static_cast<std::size_t>(at::get_num_threads())) + ", batch " +
                std::to_string(recipe_.training.batch) + ", " + std::to_string(steps_to_do_) +
                " steps; in " + folder_);
  if (origin_) {
    outputs_->say("resumed after step " + std::to_string(steps_) + " from " + origin_->path);
  }
}

std::uint32_t Trainer::Impl::requests() {
  std::uint32_t requests = 0;
  if (options_.should_stop && options_.should_stop()) requests |= kStop;
  const double minutes = recipe_.checkpoint.every_minutes;
  constexpr double kMinute = 60;
  if (first() && minutes > 0 && seconds_since(last_checkpoint_) >= minutes * kMinute) {
    requests |= kCheckpoint;
  }
  return requests;
}

Moment Trainer::Impl::moment() const {
  const data::Position position = source_->position();
  return {steps_, steps_to_do_, position.epoch, position.count(), source_->size()};
}

bool Trainer::Impl::updated(const StepReport& report) {
  ++steps_;
  result_.loss = report.loss;
  epoch_loss_ += report.loss * static_cast<double>(report.samples);
  epoch_samples_ += report.samples;
  if (sample_log_ != nullptr) sample_log_->commit(steps_);
  if (!std::isfinite(report.loss)) {
    throw Failure("the loss of step " + std::to_string(steps_) + " is " +
                  std::to_string(report.loss) +
                  (checkpoints_.newest().empty()
                       ? "; there is no checkpoint yet"
                       : "; the last checkpoint before it is " + checkpoints_.newest()) +
                  ". A smaller learning rate, a warm-up or clip_norm may help");
  }
  const Moment now = moment();
  if (outputs_) outputs_->step(now, report, source_->statistics());
  const bool done = steps_ >= steps_to_do_;
  const bool stop = (report.requests & kStop) != 0;
  const bool epoch_over = now.consumed == now.samples;
  const auto due = [](std::int64_t every, std::int64_t count) {
    return every > 0 && count % every == 0;
  };
  const auto epochs = static_cast<std::int64_t>(now.epoch) + 1;
  const bool evaluate = done || (epoch_over && due(recipe_.evaluation.every_epochs, epochs));
  if (evaluate && !(stop && !done)) evaluate_now();
  if (epoch_over) end_epoch();
  const bool save = done || stop || (report.requests & kCheckpoint) != 0 ||
                    due(recipe_.checkpoint.every_steps, steps_) ||
                    (epoch_over && due(recipe_.checkpoint.every_epochs, epochs));
  if (save) write_checkpoint_now();
  result_.stopped = stop && !done;
  if (timeline_ && (done || stop || steps_ == timeline_from_ + kTimelineSteps)) end_timeline();
  begin_timeline();
  return !done && !stop;
}

void Trainer::Impl::end_epoch() {
  if (outputs_) {
    outputs_->epoch(moment(),
                    epoch_loss_ / static_cast<double>(std::max<std::uint64_t>(epoch_samples_, 1)),
                    seconds_since(epoch_started_), epoch_samples_);
  }
  epoch_loss_ = 0;
  epoch_samples_ = 0;
  epoch_started_ = Clock::now();
}

void Trainer::Impl::evaluate_now() {
  if (!validation_data_ || evaluated_at_ == steps_) return;
  const auto start = Clock::now();
  strategy_->with_whole_model(
      [this] { result_.evaluation = evaluate(all(), *network_, validation_data_, recipe_); });
  if (timeline_) timeline_->add(Timeline::kTraining, "evaluation", start, Clock::now());
  evaluated_at_ = steps_;
  if (outputs_) outputs_->evaluation(moment(), *result_.evaluation);
}

void Trainer::Impl::write_checkpoint_now() {
  if (saved_at_ == steps_) return;
  const auto start = Clock::now();
  Manifest manifest;
  manifest.model = recipe_.model.name;
  manifest.strategy = recipe_.strategy;
  manifest.recipe = print_recipe(recipe_, false);
  manifest.classes = training_data_->classes();
  manifest.step = steps_;
  manifest.position = source_->position();
  manifest.world = world_.size();
  manifest.samples = training_data_->size();
  manifest.data_fingerprint = training_data_->fingerprint();
  const data::Shape shape = source_->shape();
  manifest.numbers = {{"input.channels", shape.channels},
                      {"input.height", shape.height},
                      {"input.width", shape.width}};
  manifest.seconds = seconds_before_ + seconds_since(started_);
  if (evaluated_at_ == steps_) manifest.score = result_.evaluation->top1_accuracy();
  const Retention retention{static_cast<int>(recipe_.checkpoint.keep),
                            recipe_.checkpoint.keep_best};
  strategy_->with_whole_model([&] {
    result_.checkpoint =
        write_checkpoint(all(), checkpoints_, manifest, strategy_->state(), retention);
  });
  if (timeline_) timeline_->add(Timeline::kTraining, "checkpoint", start, Clock::now());
  saved_at_ = steps_;
  last_checkpoint_ = Clock::now();
  if (outputs_) {
    outputs_->checkpoint(moment(), result_.checkpoint, seconds_since(start), manifest.score);
  }
}

// Starts to record where it is time.
void Trainer::Impl::begin_timeline() {
  if (!options_.timeline.empty() && steps_ == timeline_from_) timeline_.emplace();
}

void Trainer::Impl::end_timeline() {
  write_timelines(world_, *timeline_, options_.timeline);
  timeline_.reset();
}

RunResult Trainer::Impl::run() {
  started_ = last_checkpoint_ = epoch_started_ = Clock::now();
  result_.folder = folder_;
  if (origin_) result_.checkpoint = origin_->path;
  if (steps_ < steps_to_do_) {
    // The first updates are slower: memory is new, and the order of gradients is not known.
    timeline_from_ =
        std::min(steps_ + kTimelineSteps, std::max(steps_, steps_to_do_ - kTimelineSteps));
    begin_timeline();
    strategy_->run();
  } else {
    if (outputs_) outputs_->say("nothing is left to train: all steps were done before");
    evaluate_now();
  }
  result_.steps = steps_;
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
