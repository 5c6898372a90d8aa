// One training of a plan, as a `convoy train` of its own.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/launch/child.h"
#include "cli/plan/goal.h"
#include "cli/plan/place.h"
#include "cli/plan/trial_folders.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/plan/noise.h"
#include "convoy/train/recipe.h"

namespace convoy::cli {

// A row of kind `noise`.
struct MeasuredNoise {
  plan::NoiseMeasurement measurement;
  double batch = 0;  // what the samples of the update count: those that are learned from
};

// Converts this noise into that of one unit of what training.batch counts, of which a whole batch
// has `batch`. Where samples have a cost, what they count may be less: of a sequence, what is
// predicted, say.
std::vector<plan::NoiseMeasurement> noise_by_cost(const std::vector<MeasuredNoise>& noise,
                                                  double batch);

// The part of metrics.jsonl that a plan needs, read while it grows.
class TrialMetrics {
 public:
  struct Update {
    std::int64_t step = 0;
    double loss = 0;
    double seconds = 0;                // of the update, whatever took them
    double exposed_communication = 0;  // of these
    std::int64_t samples = 0;
    double elapsed = 0;  // since training began, without evaluations
    // It is the first one behind an evaluation, which has left its caches and buffers to others.
    bool after_evaluation = false;
  };

  // `metric` is the figure of evaluations that goes to the curve.
  TrialMetrics(std::string path, std::string metric)
      : path_(std::move(path)), metric_(std::move(metric)) {}

  void read();  // what has come since
  const std::vector<Update>& updates() const { return updates_; }
  const Curve& curve() const { return curve_; }
  // With training.noise_every.
  const std::vector<MeasuredNoise>& noise() const { return noise_; }

 private:
  void take(const std::string& line);

  std::string path_, metric_;
  std::string pending_;
  std::streamoff done_ = 0;
  double evaluations_s_ = 0;
  double told_s_ = 0;       // when the newest update was told, evaluations included
  bool evaluated_ = false;  // since then
  std::vector<Update> updates_;
  Curve curve_;
  std::vector<MeasuredNoise> noise_;
};

class Trial {
 public:
  // Starts it in its folder, which is removed at the end; its hosts have to see it. To be called
  // from the main thread: the training is told to end when that ends, however that happens. Throws
  // Failure when it can't be started.
  Trial(train::Recipe recipe, TrialFolder folder, const Place& place, const std::string& metric);
  // Ends it, within seconds.
  ~Trial();
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  // Reads what there is of metrics and output. False: it has ended, and all of it has been read.
  bool poll();
  const TrialMetrics& metrics() const { return metrics_; }
  double seconds() const { return seconds_since(started_); }

  // Tells it to end, once; poll() goes on until it has.
  void stop();
  bool stopped() const { return stopping_; }

  // After the end: whether it went as it should, or was stopped; whether it refused its recipe;
  // whether its loss became NaN or infinite; and what it last complained about.
  bool good() const;
  bool refused() const;
  bool diverged() const;
  std::string complaint() const;

 private:
  void drain();

  TrialFolder folder_;
  TrialMetrics metrics_;
  Child child_;
  std::string output_, errors_;
  Clock::time_point started_ = Clock::now();
  Clock::time_point told_;
  bool stopping_ = false;
  bool killed_ = false;
  bool ended_ = false;
  int status_ = 0;
};

// Thrown where a training ended with an error (of memory, say) that is none of its recipe.
class TrialFailure : public Failure {
 public:
  using Failure::Failure;
};

// Thrown where a plan is told to stop (SIGINT, SIGTERM): what is finished is kept.
struct PlanStopped {};

// Sleeps until it is worth polling again. Throws PlanStopped when told to stop.
void wait_a_little();

}  // namespace convoy::cli
