// What rank 0 shows and writes while a run goes on.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "convoy/train/evaluate.h"
#include "convoy/train/metrics.h"
#include "convoy/train/recipe.h"
#include "convoy/train/strategy.h"

namespace convoy::train {

// Where a run is after an update.
struct Moment {
  std::int64_t step = 0;   // updates done
  std::int64_t steps = 0;  // of the whole run
  std::uint64_t epoch = 0;
  std::size_t consumed = 0;  // samples of this epoch
  std::size_t samples = 0;   // in an epoch
};

class Outputs {
 public:
  // resumed_at: -1 for a new run.
  Outputs(const Recipe& recipe, const std::string& folder, std::int64_t resumed_at,
          bool show_progress);

  // A line that stays.
  void say(const std::string& line);
  void run(const std::vector<std::pair<std::string, double>>& numbers);
  void step(const Moment& moment, const StepReport& report, const data::SourceStatistics& source);
  void epoch(const Moment& moment, double loss, double seconds, std::uint64_t samples);
  void evaluation(const Moment& moment, const Evaluation& evaluation);
  void checkpoint(const Moment& moment, const std::string& path, double seconds,
                  std::optional<double> score);

 private:
  std::string epoch_label(const Moment& moment) const;

  std::int64_t epochs_;
  std::int64_t every_;
  MetricsFile metrics_;
  std::unique_ptr<TensorBoardFile> board_;
  std::unique_ptr<Progress> progress_;
  std::string last_evaluation_;
  // Rate over the steps since the last row.
  double seconds_ = 0;
  std::uint64_t images_ = 0;
  std::uint64_t total_images_ = 0;
};

}  // namespace convoy::train
