#include "cli/plan/runs.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <list>
#include <map>
#include <memory>

#include "base/toml_text.h"
#include "cli/plan/numbers.h"
#include "cli/plan/rates.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"

namespace convoy::cli {
namespace {

constexpr double kLeaving = 10;  // times the first loss
// A first loss below it says nothing of how large losses are: of a batch of one, or of a network
// that knows the data already.
constexpr double kOrdinaryLoss = 1;
// A level that is reached within so many evaluations was reached too soon to say when; they come so
// many times until then when the run is made again.
constexpr std::int64_t kTooFew = 3, kEnough = 6;

std::string name_of(const WantedRun& run) {
  return "batch " + std::to_string(run.batch) + ", rate " + shortest(run.learning_rate) +
         ", seed " + std::to_string(run.seed);
}

const char* why(plan::Stop stop) {
  switch (stop) {
    case plan::Stop::hopeless:
      return "stopped: the best other rate took a third of that";
    case plan::Stop::budget:
      return "stopped at the end of the budget";
    default:
      return "";
  }
}

class Runs {
 public:
  Runs(const Planned& planned, PlanFolder& folder, const std::vector<WantedRun>& wanted,
       const RunLimits& limits, const std::vector<Place>& places, std::FILE* out,
       FailedBatches* failed)
      : planned_(planned),
        folder_(folder),
        limits_(limits),
        out_(out),
        failed_(failed),
        free_(places.begin(), places.end()) {
    for (const WantedRun& run : wanted) waiting_.push_back({run, std::nullopt, false});
  }
  // Where something has gone wrong all are told to end before any of them is waited for.
  ~Runs() {
    for (Active& active : active_) active.trial->stop();
  }
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;

  int run() {
    for (;;) {
      start();
      if (active_.empty()) break;
      for (auto at = active_.begin(); at != active_.end();) at = look_at(at);
      if (!active_.empty()) wait_a_little();
    }
    // There was no time to make them again.
    for (const Waiting& waiting : waiting_) {
      if (waiting.kept) add(*waiting.kept);
    }
    return added_;
  }

 private:
  struct Finished {
    plan::PointRun run;
    Curve curve;
  };
  struct Waiting {
    WantedRun wanted;
    std::optional<Finished> kept;  // the same, evaluated too seldom or put off
    bool put_off = false;
  };
  struct Active {
    Waiting waited;
    Place place;
    std::int64_t every = 0;
    std::unique_ptr<Trial> trial;
    plan::Stop stop = plan::Stop::none;
    bool diverged = false;
    bool put_off = false;
    // Of this batch, as far as runs tell that were added until `added`.
    int added = -1;
    std::optional<std::int64_t> best = {};  // updates with the best other rate
    std::optional<double> neighbors = {};   // updates_by_neighbors()
  };

  bool late() const { return is_late(limits_.deadline); }

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
  bool again(const Active& active, const Finished& finished) {
    const plan::PointRun& run = finished.run;
    if (limits_.every > 0 || active.every == 1 || run.reached.empty() || late()) return false;
    const std::int64_t first = run.reached.front().second;
    if (first > kTooFew * active.every) return false;
    std::int64_t& finer = finer_.try_emplace(run.batch, active.every).first->second;
    finer = std::max<std::int64_t>(1, std::min(finer, first / kEnough));
    waiting_.push_front({active.waited.wanted, finished, false});
    std::fprintf(out_, "%s: once more, evaluated more often\n",
                 name_of(active.waited.wanted).c_str());
    std::fflush(out_);
    return true;
  }

  bool is_left_out(std::int64_t batch) const {
    return failed_ != nullptr && failed_->why.contains(batch);
  }

  // Whether it would tell anything new.
  bool is_wanted(const Waiting& waiting) const {
    const plan::PlanPoints& points = folder_.points();
    const WantedRun& run = waiting.wanted;
    if (is_left_out(run.batch)) return false;
    if (is_hopeless(points, planned_.goal, run.batch, run.learning_rate)) return false;
    const plan::PointRun* before = points.find(run.batch, run.learning_rate, run.seed);
    return before == nullptr || would_go_on(*before, points, planned_.goal, longest(run.batch));
  }

  std::int64_t longest(std::int64_t batch) const {
    return limits_.longest(planned_.samples, batch);
  }

  // The first that waits, or another rate of its batch and seed that comes before it.
  Waiting take_next() {
    auto next = waiting_.begin();
    const auto rate = first_rate(folder_.points(), planned_.goal, next->wanted.batch);
    if (rate && !next->kept) {
      const auto before = [&rate](const WantedRun& a, const WantedRun& b) {
        const auto far = [&rate](double one) { return std::fabs(std::log(one / *rate)); };
        const double less = far(a.learning_rate) - far(b.learning_rate);
        constexpr double kSame = 1e-9;
        return less < -kSame || (less < kSame && a.learning_rate < b.learning_rate);
      };
      for (auto other = next; other != waiting_.end(); ++other) {
        if (other->kept || other->wanted.batch != next->wanted.batch ||
            other->wanted.seed != next->wanted.seed)
          continue;
        if (before(other->wanted, next->wanted)) next = other;
      }
    }
    Waiting taken = std::move(*next);
    waiting_.erase(next);
    return taken;
  }

  // Whether what a run had come to when it was put off is enough by now.
  bool is_settled(const Waiting& waiting) {
    if (!waiting.put_off) return false;
    const WantedRun& run = waiting.wanted;
    const auto best =
        updates_of_best(folder_.points(), planned_.goal, run.batch, run.learning_rate);
    Finished finished = *waiting.kept;
    if (!best || static_cast<double>(finished.run.updates) < kHopeless * static_cast<double>(*best))
      return false;
    finished.run.stopped = plan::Stop::hopeless;
    add(finished);
    return true;
  }

  void start() {
    while (!free_.empty() && !waiting_.empty() && !late()) {
      Waiting next = take_next();
      if (is_settled(next)) continue;
      if (next.kept && is_left_out(next.wanted.batch)) {
        add(*next.kept);
        continue;
      }
      if ((!next.kept || next.put_off) && !is_wanted(next)) continue;
      const WantedRun wanted = next.wanted;
      const Place place = free_.front();
      const std::int64_t interval = every(wanted.batch);
      active_.push_back(
          {std::move(next), place, interval,
           std::make_unique<Trial>(planned_.run(wanted.batch, wanted.learning_rate, wanted.seed,
                                                interval, longest(wanted.batch)),
                                   folder_.new_run(), place, planned_.goal.of_task)});
      free_.pop_front();
    }
  }

  std::list<Active>::iterator look_at(std::list<Active>::iterator at) {
    if (at->trial->poll()) {
      judge(*at);
      return std::next(at);
    }
    finish(*at);
    free_.push_back(at->place);
    return active_.erase(at);
  }

  // Whether it is worth going on.
  void judge(Active& active) {
    if (active.trial->stopped()) return;
    const auto& updates = active.trial->metrics().updates();
    if (is_leaving(updates)) {
      active.diverged = true;
    } else if (late()) {
      active.stop = plan::Stop::budget;
    } else if (!updates.empty()) {
      judge(active, updates.back().step);
    }
    if (active.diverged || active.put_off || active.stop != plan::Stop::none) active.trial->stop();
  }

  void judge(Active& active, std::int64_t updates) {
    const WantedRun& run = active.waited.wanted;
    if (active.added != added_) {
      active.added = added_;
      active.best = updates_of_best(folder_.points(), planned_.goal, run.batch, run.learning_rate);
      active.neighbors = updates_by_neighbors(folder_.points(), planned_.goal, run.batch);
    }
    // A target that is reached is seen at the next evaluation.
    const auto done = static_cast<double>(updates - active.every);
    if (active.best && done >= kHopeless * static_cast<double>(*active.best)) {
      active.stop = plan::Stop::hopeless;
    } else if (active.neighbors && done >= kHopeless * *active.neighbors) {
      active.put_off = !active.waited.kept && others_wait(run);
    }
  }

  // Whether another rate of this batch has yet to be tried.
  bool others_wait(const WantedRun& run) const {
    return std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& other) {
      return !other.kept && other.wanted.batch == run.batch &&
             other.wanted.learning_rate != run.learning_rate && is_wanted(other);
    });
  }

  void put_off(const Active& active, Finished finished) {
    finished.run.stopped = plan::Stop::budget;  // if there is no time to go on with it
    waiting_.push_back({active.waited.wanted, finished, true});
    std::fprintf(out_, "%s: put off after %lld updates, other rates come first\n",
                 name_of(active.waited.wanted).c_str(),
                 static_cast<long long>(finished.run.updates));
    std::fflush(out_);
  }

  void finish(Active& active) {
    const Trial& trial = *active.trial;
    const WantedRun& wanted = active.waited.wanted;
    const bool diverged = active.diverged || trial.diverged();
    if (!diverged && !trial.good()) {
      if (active.waited.kept) add(*active.waited.kept);
      return leave_out(wanted.batch,
                       "the run with " + name_of(wanted) + " failed: " + trial.complaint());
    }
    const TrialMetrics& metrics = trial.metrics();
    Finished finished{{.batch = wanted.batch,
                       .learning_rate = wanted.learning_rate,
                       .seed = wanted.seed,
                       .updates = metrics.updates().empty() ? 1 : metrics.updates().back().step,
                       .seconds = trial.seconds(),
                       .diverged = diverged,
                       .reached = reached_levels(planned_.goal, metrics.curve())},
                      metrics.curve()};
    plan::PointRun& run = finished.run;
    if (!diverged && !to_the_hardest(run, planned_.goal))
      run.stopped = active.stop == plan::Stop::none ? plan::Stop::limit : active.stop;
    if (active.put_off && run.stopped != plan::Stop::none && run.updates < longest(run.batch))
      return put_off(active, finished);
    if (run.stopped == plan::Stop::budget && tells_less(active, run)) return;
    if (again(active, finished)) return;
    add(finished);
  }

  // What one training fails of others with its batch fail of, too: of memory, most of all.
  void leave_out(std::int64_t batch, const std::string& why) {
    if (failed_ == nullptr) throw TrialFailure(why);
    if (!failed_->why.try_emplace(batch, why).second) return;
    constexpr std::size_t kLaw = 2;
    if (failed_->why.size() + kLaw > failed_->all)
      throw TrialFailure(why + "; fewer than two batches are left, of which there is no law");
    std::fprintf(out_, "batch %lld is left out from now on: %s\n", static_cast<long long>(batch),
                 why.c_str());
    std::fflush(out_);
  }

  // Whether a run that the budget's end has stopped says less than what there is of it already.
  bool tells_less(const Active& active, const plan::PointRun& run) {
    const std::optional<Finished>& kept = active.waited.kept;
    if (kept && (!active.waited.put_off || run.updates < kept->run.updates)) {
      add(*kept);
      return true;
    }
    return active.trial->metrics().updates().empty();
  }

  // Unless more is known of the same run: it may have been stopped later before.
  void add(Finished finished) {
    plan::PointRun& run = finished.run;
    const plan::PointRun* before = folder_.points().find(run.batch, run.learning_rate, run.seed);
    if (before != nullptr && !run.diverged && !to_the_hardest(run, planned_.goal)) {
      if (before->updates >= run.updates) return;
      // Evaluated more seldom, it may have missed a level.
      if (before->reached.size() > run.reached.size()) run.reached = before->reached;
    }
    folder_.add(finished.run, finished.curve);
    ++added_;
    tell(finished.run, finished.curve);
  }

  void tell(const plan::PointRun& run, const Curve& curve) const {
    std::string text = name_of({run.batch, run.learning_rate, run.seed}) + ": ";
    for (const auto& [level, updates] : run.reached)
      text += shortest(level) + " after " + std::to_string(updates) + ", ";
    const bool all = run.reached.size() == planned_.goal.levels.size();
    const double best = best_value(planned_.goal, curve);
    if (run.diverged) {
      text += "diverged after " + std::to_string(run.updates) + " updates, ";
    } else if (!all) {
      text += "at best " + short_text(best) + " in " + std::to_string(run.updates) + " updates, ";
    }
    if (*why(run.stopped) != '\0') text += std::string(why(run.stopped)) + ", ";
    if (!curve.empty() && curve.front().first > 1 && !run.reached.empty() &&
        run.reached.back().second == curve.front().first) {
      text += "at the first evaluation (a smaller --every tells more), ";
    }
    std::fprintf(out_, "%s%s\n", text.c_str(), format_seconds(run.seconds).c_str());
    std::fflush(out_);
  }

  const Planned& planned_;
  PlanFolder& folder_;
  RunLimits limits_;
  std::FILE* out_;
  FailedBatches* failed_;
  std::deque<Waiting> waiting_;
  std::map<std::int64_t, std::int64_t> finer_;  // updates between evaluations, by batch
  std::deque<Place> free_;
  std::list<Active> active_;
  int added_ = 0;
};

}  // namespace

std::int64_t RunLimits::longest(std::int64_t samples, std::int64_t batch) const {
  return updates_in(epochs, samples, batch);
}

bool would_go_on(const plan::PointRun& run, const plan::PlanPoints& points, const Goal& goal,
                 std::int64_t longest) {
  if (run.diverged || to_the_hardest(run, goal) || run.updates >= longest) return false;
  return run.stopped != plan::Stop::hopeless ||
         !is_hopeless(points, goal, run.batch, run.learning_rate);
}

bool is_leaving(const std::vector<TrialMetrics::Update>& updates) {
  constexpr std::size_t kLast = 3;
  if (updates.size() <= kLast) return false;
  const double limit = kLeaving * std::max(std::fabs(updates.front().loss), kOrdinaryLoss);
  return std::all_of(updates.end() - kLast, updates.end(),
                     [limit](const auto& update) { return update.loss > limit; });
}

int measure_runs(const Planned& planned, PlanFolder& folder, const std::vector<WantedRun>& wanted,
                 const RunLimits& limits, const std::vector<Place>& places, std::FILE* out,
                 FailedBatches* failed) {
  return Runs(planned, folder, wanted, limits, places, out, failed).run();
}

}  // namespace convoy::cli
