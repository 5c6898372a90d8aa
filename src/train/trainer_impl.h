// What a Trainer is made of: trainer_setup.cc has what comes before the first update, trainer.cc
// what comes after each. Who makes updates, one after the other, is the strategy (strategy.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "convoy/base/clock.h"
#include "convoy/train/checkpoint_writer.h"
#include "convoy/train/named_optimizer.h"
#include "convoy/train/trainer.h"
#include "train/checkpoint/run_lock.h"
#include "train/checkpoint/waits.h"
#include "train/due.h"
#include "train/logging/outputs.h"
#include "train/logging/rank_times.h"
#include "train/logging/sample_log.h"
#include "train/logging/timeline_window.h"
#include "train/rank_work.h"
#include "train/run/inputs.h"

namespace convoy::train {

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
  std::vector<Metric> evaluated_metrics() const;
  void greet();
  // While it runs.
  void note_position();
  void count(const StepReport& report);  // changes moment_
  void note_rank_times(const std::optional<GatheredTimes>& times) {
    if (times && outputs_) outputs_->ranks(*times, world_);
  }
  bool act(Due due);
  void write_before_evaluation();
  void add_score();
  bool evaluate_or_save();
  bool saves_the_best() const;
  bool is_a_new_best();
  bool evaluate_now(bool& all_have_failed);
  void check_update(const StepReport& report);
  std::string what_is_not_finite();
  void check_weights();
  void warn_of_evaluation(const Evaluation& evaluation) const;
  // Ends the training, whose numbers are none any more: `why` is what says so, `where` the layer,
  // parameter or sample; `of_data`: a sample is to blame. All ranks give the same.
  [[noreturn]] void give_up(const std::string& why, const std::string& where, bool of_data = false);
  void write_checkpoint_now();
  bool begin_checkpoint();
  void tell_of_waiting();
  // `waited_for`: training stood still until it was there.
  void note_checkpoint(std::optional<WrittenCheckpoint> written, bool waited_for = false);

  const comm::World& world_;
  Recipe recipe_;
  TrainerOptions options_;
  OptimizerFactory optimizer_;  // a plugin's
  std::string folder_;
  std::optional<RunLock> lock_;  // on the owner
  bool by_itself_ = false;       // nobody has said which checkpoint to go on from
  bool begins_again_ = false;    // a run ended here before its first checkpoint
  CheckpointFolder checkpoints_;
  std::optional<Inputs> inputs_;
  std::optional<CheckpointWriter> writer_;  // where the job has a run folder
  bool reserved_ = false;  // memory for it, with the optimizer's of the first update
  double waited_ = 0;      // before the checkpoint that is being written was begun
  CheckpointWaits waits_;
  bool ending_ = false;        // this step is the last
  bool nothing_left_ = false;  // the strategy says (StepReport::last)
  std::unique_ptr<data::SampleSource> source_;
  SampleLog* sample_log_ = nullptr;  // source_, if samples are logged
  std::optional<Schedule> schedule_;
  std::optional<Outputs> outputs_;  // on the owner
  std::set<std::string> meant_;     // buffers that are not finite, and meant to be so
  std::optional<RankTimes> rank_times_;
  data::Position position_;    // after the last update
  Moment moment_;              // the same
  double seconds_before_ = 0;  // of earlier parts of this run
  Clock::time_point started_ = Clock::now();
  Clock::time_point last_checkpoint_ = Clock::now();
  std::optional<std::int64_t> evaluated_at_;  // step
  std::optional<double> score_;               // then
  std::optional<double> best_score_;          // so far, with those before a resume
  std::optional<std::int64_t> saved_at_;
  std::optional<WrittenCheckpoint> unscored_;  // written before the evaluation that is under way
  std::mutex skipped_mutex_;
  std::set<std::string> skipped_;  // bad records of evaluations that were named; by the mutex
  TimelineWindow timeline_;
  RunResult result_;
};

}  // namespace convoy::train
