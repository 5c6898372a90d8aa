#include "cli/plan/runs.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <list>
#include <map>
#include <memory>

#include "base/toml_text.h"
#include "cli/plan/numbers.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"

namespace convoy::cli {
namespace {

constexpr double kHopeless = 3;  // times the updates of a better rate
constexpr double kLeaving = 10;  // times the first loss
// A level that is reached within so many evaluations was reached too soon to say when; they come so
// many times until then when the run is made again.
constexpr std::int64_t kTooFew = 3, kEnough = 6;

// Updates until the hardest level, where the run reached it.
std::optional<std::int64_t> to_the_end(const plan::PointRun& run, const Goal& goal) {
  for (const auto& [level, updates] : run.reached) {
    if (level == goal.hardest()) return updates;
  }
  return std::nullopt;
}

// The fewest updates of any run of this batch with another rate.
std::optional<std::int64_t> fewest(const plan::PlanPoints& points, const Goal& goal,
                                   std::int64_t batch, double other_than) {
  std::optional<std::int64_t> least;
  for (const plan::PointRun& run : points.runs) {
    if (run.batch != batch || run.learning_rate == other_than) continue;
    const auto updates = to_the_end(run, goal);
    if (updates && (!least || *updates < *least)) least = updates;
  }
  return least;
}

std::string name_of(const WantedRun& run) {
  return "batch " + std::to_string(run.batch) + ", rate " + shortest(run.learning_rate) +
         ", seed " + std::to_string(run.seed);
}

class Runs {
 public:
  Runs(const Planned& planned, PlanFolder& folder, const std::vector<WantedRun>& wanted,
       const RunLimits& limits, const std::vector<int>& cores, std::FILE* out)
      : planned_(planned),
        folder_(folder),
        limits_(limits),
        out_(out),
        waiting_(wanted.begin(), wanted.end()),
        free_(cores.begin(), cores.end()) {}

  void run() {
    for (;;) {
      start();
      if (active_.empty()) return;
      for (auto at = active_.begin(); at != active_.end();) at = look_at(at);
      if (!active_.empty()) wait_a_little();
    }
  }

 private:
  struct Active {
    WantedRun wanted;
    int core = 0;
    std::int64_t every = 0;
    std::unique_ptr<Trial> trial;
    const char* why = "";  // it was stopped
    bool diverged = false;
  };

  bool late() const { return limits_.deadline && Clock::now() >= *limits_.deadline; }

  // Updates between evaluations: fewer than usual where training is quick.
  std::int64_t every(std::int64_t batch) const {
    if (limits_.every > 0) return limits_.every;
    std::int64_t interval = planned_.usual_interval(batch);
    if (const auto known = finer_.find(batch); known != finer_.end())
      interval = std::min(interval, known->second);
    for (const plan::PointRun& run : folder_.points().runs) {
      if (run.batch == batch && !run.reached.empty())
        interval = std::min(interval, run.reached.front().second / kEnough);
    }
    return std::max<std::int64_t>(interval, 1);
  }

  // Whether the run was over before it was looked at often enough; it waits to be made again then.
  bool again(const Active& active, const plan::PointRun& run) {
    if (limits_.every > 0 || active.every == 1 || run.reached.empty() || late()) return false;
    const std::int64_t first = run.reached.front().second;
    if (first > kTooFew * active.every) return false;
    std::int64_t& finer = finer_.try_emplace(run.batch, active.every).first->second;
    finer = std::max<std::int64_t>(1, std::min(finer, first / kEnough));
    waiting_.push_front(active.wanted);
    std::fprintf(out_, "%s: once more, evaluated more often\n", name_of(active.wanted).c_str());
    std::fflush(out_);
    return true;
  }

  void start() {
    while (!free_.empty() && !waiting_.empty() && !late()) {
      const WantedRun wanted = waiting_.front();
      waiting_.pop_front();
      const plan::PlanPoints& points = folder_.points();
      if (points.has(wanted.batch, wanted.learning_rate, wanted.seed) ||
          is_hopeless(points, planned_.goal, wanted.batch, wanted.learning_rate)) {
        continue;
      }
      const double updates = limits_.epochs * static_cast<double>(planned_.samples) /
                             static_cast<double>(wanted.batch);
      const auto longest = std::max<std::int64_t>(1, std::llround(std::ceil(updates)));
      const int core = free_.front();
      const std::int64_t interval = every(wanted.batch);
      active_.push_back(
          {wanted, core, interval,
           std::make_unique<Trial>(
               planned_.run(wanted.batch, wanted.learning_rate, wanted.seed, interval, longest),
               folder_.new_run(), 1, std::vector<int>{core}, planned_.goal.of_task)});
      free_.pop_front();
    }
  }

  std::list<Active>::iterator look_at(std::list<Active>::iterator at) {
    if (at->trial->poll()) {
      judge(*at);
      return std::next(at);
    }
    finish(*at);
    free_.push_back(at->core);
    return active_.erase(at);
  }

  // Whether it is worth going on.
  void judge(Active& active) {
    const TrialMetrics& metrics = active.trial->metrics();
    if (active.trial->stopped() || metrics.updates().empty()) return;
    const WantedRun& run = active.wanted;
    if (is_leaving(metrics.updates())) {
      active.diverged = true;
    } else if (late()) {
      active.why = "stopped at the end of the budget";
    } else if (const auto best =
                   fewest(folder_.points(), planned_.goal, run.batch, run.learning_rate)) {
      const double enough = kHopeless * static_cast<double>(*best);
      if (static_cast<double>(metrics.updates().back().step) >=
          enough + static_cast<double>(active.every)) {
        active.why = "stopped: another rate took a third of that";
      }
    }
    if (active.diverged || *active.why != '\0') active.trial->stop();
  }

  void finish(Active& active) {
    const Trial& trial = *active.trial;
    const bool diverged = active.diverged || trial.diverged();
    if (!diverged && !trial.good())
      throw Failure("the run with " + name_of(active.wanted) + " failed: " + trial.complaint());
    const TrialMetrics& metrics = trial.metrics();
    plan::PointRun run{.batch = active.wanted.batch,
                       .learning_rate = active.wanted.learning_rate,
                       .seed = active.wanted.seed,
                       .updates = metrics.updates().empty() ? 1 : metrics.updates().back().step,
                       .seconds = trial.seconds(),
                       .diverged = diverged,
                       .reached = reached_levels(planned_.goal, metrics.curve())};
    if (again(active, run)) return;
    folder_.add(run, metrics.curve());
    tell(active, run, metrics.curve());
  }

  void tell(const Active& active, const plan::PointRun& run, const Curve& curve) const {
    std::string text = name_of(active.wanted) + ": ";
    for (const auto& [level, updates] : run.reached)
      text += shortest(level) + " after " + std::to_string(updates) + ", ";
    const bool all = run.reached.size() == planned_.goal.levels.size();
    const double best = best_value(planned_.goal, curve);
    if (run.diverged) {
      text += "diverged after " + std::to_string(run.updates) + " updates, ";
    } else if (!all) {
      text += "at best " + short_text(best) + " in " + std::to_string(run.updates) + " updates, ";
    }
    if (!all && *active.why != '\0') text += std::string(active.why) + ", ";
    if (!curve.empty() && !run.reached.empty() &&
        run.reached.back().second == curve.front().first && active.every > 1) {
      text += "at the first evaluation (a smaller --every tells more), ";
    }
    std::fprintf(out_, "%s%s\n", text.c_str(), format_seconds(run.seconds).c_str());
    std::fflush(out_);
  }

  const Planned& planned_;
  PlanFolder& folder_;
  RunLimits limits_;
  std::FILE* out_;
  std::deque<WantedRun> waiting_;
  std::map<std::int64_t, std::int64_t> finer_;  // updates between evaluations, by batch
  std::deque<int> free_;
  std::list<Active> active_;
};

}  // namespace

bool is_hopeless(const plan::PlanPoints& points, const Goal& goal, std::int64_t batch,
                 double learning_rate) {
  const auto best = fewest(points, goal, batch, learning_rate);
  return std::any_of(points.runs.begin(), points.runs.end(), [&](const plan::PointRun& run) {
    if (run.batch != batch || run.learning_rate != learning_rate) return false;
    if (run.diverged) return true;
    return !to_the_end(run, goal) && best &&
           static_cast<double>(run.updates) >= kHopeless * static_cast<double>(*best);
  });
}

bool is_leaving(const std::vector<TrialMetrics::Update>& updates) {
  constexpr std::size_t kLast = 3;
  if (updates.size() <= kLast) return false;
  const double limit = kLeaving * std::fabs(updates.front().loss);
  return std::all_of(updates.end() - kLast, updates.end(),
                     [limit](const auto& update) { return update.loss > limit; });
}

void measure_runs(const Planned& planned, PlanFolder& folder, const std::vector<WantedRun>& wanted,
                  const RunLimits& limits, const std::vector<int>& cores, std::FILE* out) {
  Runs(planned, folder, wanted, limits, cores, out).run();
}

}  // namespace convoy::cli
