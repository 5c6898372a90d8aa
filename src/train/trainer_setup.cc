// What a training finds out and opens before its first update.
#include <utility>

#include "base/hold.h"
#include "convoy/base/error.h"
#include "convoy/train/memory.h"
#include "convoy/train/threads.h"
#include "train/checkpoint/resume.h"
#include "train/checkpoint/resume_rules.h"
#include "train/checkpoint/run_files.h"
#include "train/compute/gpu.h"
#include "train/finite.h"
#include "train/run/place.h"
#include "train/run/saved_score.h"
#include "train/run/set_up_watch.h"
#include "train/same_everywhere.h"
#include "train/strategies/devices/options.h"
#include "train/strategies/sandblaster/saved.h"
#include "train/trainer_impl.h"

namespace convoy::train {

Trainer::Impl::Impl(const comm::World& world, const Registry& registry, const Recipe& recipe,
                    TrainerOptions options)
    : world_(world),
      recipe_(recipe),
      options_(std::move(options)),
      optimizer_(registry.optimizer(recipe.optimizer.name)),
      folder_(run_folder_of(recipe)),
      by_itself_(options_.resume == "latest" || options_.resume == kResumeAuto),
      checkpoints_(checkpoints_in(folder_)),
      timeline_(world, options_.timeline) {
  recipe_.output.folder = folder_;
  SetUpWatch watch(all(), options_.should_stop, options_.stop_in_set_up);
  set_threads(world_, static_cast<int>(recipe_.threads));
  keep_large_blocks({.processes = world_.local_size()});
  check_same_recipe(all(), print_recipe(recipe_, false));
  open_device(recipe_.device, first_gpu_of_rank(recipe_, world_.local_rank()));
  const bool automatic = recipe_.automatic();
  // Planning takes long. All that it may choose has the folder on rank 0.
  if (automatic) take_folder(0);
  recipe_ = placed(world_, registry, recipe_, options_.resume);
  inputs_.emplace(world_, registry, recipe_, options_.strategy);
  if (!automatic) take_folder(inputs_->arrangement.owner);
  inputs_->open(registry, options_.resume);
  open_samples();
  restore();
  hold_at("setup");
  all().barrier();  // nobody has found a mistake
  watch.finish();   // from here on a request to stop is answered in run()
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
  all().barrier();  // so that all are ready at the same time
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
    const Start chosen = choose_start(folder_);
    return std::to_string(static_cast<int>(chosen)) +
           (chosen == Start::begin_again ? origin_of_lost_run(folder_) : "");
  });
  if (start.empty()) return;
  const auto chosen = static_cast<Start>(start[0] - '0');
  options_.resume = chosen == Start::go_on ? "latest" : start.substr(1);
  begins_again_ = chosen == Start::begin_again;
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
    best_score_ = score.best;
    result_.target_reached = score.target_reached;
    seconds_before_ = origin->manifest.seconds;
    const auto wanted = [this](const Slice& whole) { return strategy().wanted(whole); };
    saved = read_checkpoint(all(), origin->path, origin->manifest, wanted, &strategy().module());
    if (takes_weights_alone(recipe_.strategy, origin->manifest.strategy))
      saved = without_batch(*saved);
  }
  meant_ = buffers_not_finite(strategy().module());
  note_position();
  schedule_.emplace(recipe_.schedule, recipe_.optimizer.lr, recipe_.training,
                    static_cast<double>(source_->batches_per_epoch()));
  strategy().prepare(*this, saved ? &*saved : nullptr);
}

void Trainer::Impl::open_folder() {
  const std::int64_t resumed_at = inputs_->origin ? moment_.step : -1;
  on_owner([this, resumed_at] {
    lock_->confirm();
    const auto& origin = inputs_->origin;
    // What others train goes on while this one is away.
    if (by_itself_ && !options_.strategy) check_leads_elsewhere(recipe_, resumed_at);
    if (begins_again_) {
      const std::string aside = prepare_run_again(recipe_);
      if (!aside.empty()) world_.log().info("metrics of the run that was lost are in " + aside);
    } else if (origin) {
      const std::string aside = prepare_resumed_run(recipe_, *origin);
      if (!aside.empty()) world_.log().info("later checkpoints of this run are in " + aside);
      SampleLog::trim(folder_ + "/samples", resumed_at);
    } else {
      prepare_new_run(recipe_, options_.overwrite);
    }
    outputs_.emplace(recipe_, folder_, resumed_at, evaluated_at_.has_value(), options_.progress,
                     task().unit(), !task().cost(*inputs_->data.training), world_.log());
  });
  if (sample_log_ != nullptr) sample_log_->open(resumed_at);
}

// In the order of an evaluation's figures.
std::vector<Metric> Trainer::Impl::evaluated_metrics() const {
  std::vector<Metric> metrics = task().metrics();
  const std::size_t own = inputs_->evaluated_training ? metrics.size() : 0;
  for (std::size_t i = 0; i < own; ++i) metrics.push_back(metric_of_training(metrics[i]));
  return metrics;
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
                   .metrics = evaluated_metrics(),
                   .best = inputs_->best,
                   .device = compute().device()},
                  recipe_, world_, moment_);
}

}  // namespace convoy::train
