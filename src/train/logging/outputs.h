// What rank 0 shows and writes while a run goes on.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/train/checkpoint_writer.h"
#include "convoy/train/evaluate.h"
#include "convoy/train/metrics.h"
#include "convoy/train/recipe.h"
#include "convoy/train/strategy.h"
#include "train/logging/lost_writes.h"
#include "train/logging/rank_times.h"
#include "train/logging/slow_rank.h"

namespace convoy::train {

// What is known before the first update.
struct RunFacts {
  std::string version;  // of the program
  std::string model;
  std::int64_t parameters = 0;
  std::size_t training_samples = 0;
  std::size_t validation_samples = 0;
  std::string data;  // what the task says of them
  int shares = 1;    // that a batch is cut into
  int cores = 1;     // of each rank
  int threads = 1;   // the same
  std::int64_t batch = 0;
  std::string folder;
  std::string resumed_from;   // empty: it begins
  double seconds_before = 0;  // of training, in earlier parts
  std::vector<Metric> metrics;
  std::string best;                    // one of them
  torch::Device device = torch::kCPU;  // rank 0's
};

PhaseSeconds phases_of(const StepReport& report);

class Outputs {
 public:
  // resumed_at: -1 for a new run; `evaluated` there as MetricsFile has it. `unit`: what updates
  // count, if not samples; else what samples are called.
  // What can't be written later, since the disk is full, say, is told to `log`, once.
  Outputs(const Recipe& recipe, const std::string& folder, std::int64_t resumed_at, bool evaluated,
          bool show_progress, const std::string& unit, bool counts_samples, const Log& log);

  // A line that stays.
  void say(const std::string& line);
  void begin(const RunFacts& facts, const Recipe& recipe, const comm::World& world,
             const Moment& moment);
  void step(const Moment& moment, const StepReport& report, const data::SourceStatistics& source);
  void noise(const Moment& moment, const GradientNoise& noise);
  // Over the updates since the last one, or since the run began or went on.
  // Notes an epoch that is over; tell_epoch() then shows it, with the evaluation made meanwhile.
  void epoch(const Moment& moment);
  void tell_epoch();
  // At the end of an epoch it is shown with that epoch's line.
  void evaluation(const Moment& moment, const Evaluation& evaluation);
  // The evaluation just reported is of an epoch that has ended long ago.
  void made_up(const Moment& moment);
  // A rank that this shows to be slow is told in the log.
  void ranks(const GatheredTimes& times, const comm::World& world);
  // The evaluation just reported has found training.target.
  void reached_target(const Moment& moment, const std::string& metric);
  // One that is there now, of this step or an earlier one.
  void checkpoint(const Moment& moment, const WrittenCheckpoint& written);
  // The last there is: "done", "target" (reached), "stopped" (told to), or "diverged"; then `where`
  // is what came first that is not finite, if it is known, and `of_data` says that a sample is to
  // blame ("cause": "data").
  void end(const Moment& moment, const std::string& how, const std::string& where = "",
           bool of_data = false);

 private:
  struct Epoch {
    double seconds = 0;  // of the updates alone
    double loss = 0;     // by weight
    double weight = 0;
    std::uint64_t samples = 0;
  };

  void keep(const MetricsRow& row);
  void show(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);
  double elapsed() const { return seconds_before_ + seconds_since(begun_); }
  void write_rank_times();
  std::string epoch_label(const Moment& moment) const;

  std::string unit_;
  bool counts_samples_;
  std::int64_t epochs_;
  std::int64_t every_;
  torch::Device device_ = torch::kCPU;
  double seconds_before_ = 0;
  Clock::time_point begun_ = Clock::now();
  std::string evaluated_;    // what evaluations are on, for people
  std::string board_table_;  // and in TensorBoard
  std::string more_table_;   // there, of what the strategy has to say
  Log log_;
  MetricsFile metrics_;
  LostWrites lost_rows_, lost_events_;
  std::unique_ptr<TensorBoardFile> board_;
  std::unique_ptr<Progress> progress_;
  std::string last_evaluation_;
  Epoch epoch_;
  struct {
    std::string result, rate;
  } ended_;  // of the epoch that is over, until it is shown
  static constexpr double kNoMean = std::numeric_limits<double>::quiet_NaN();
  // Rate over the steps since the last row, and the loss of the last of them that has one.
  double seconds_ = 0;
  double weight_ = 0;
  double loss_ = kNoMean;
  std::int64_t row_at_ = 0;  // step of the last row
  GatheredTimes times_;      // since the last row
  SlowRankWatch watch_;
};

}  // namespace convoy::train
