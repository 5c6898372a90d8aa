#include "convoy/plan/update_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "plan/checks.h"
#include "plan/envelope.h"
#include "plan/law_solver.h"
#include "plan/robust.h"

namespace convoy::plan {
namespace {

constexpr double kUnlikely = 0.01;
// Below this number of runs, their residuals say less about how scatter is distributed than that it
// is nearly normal and nearly the same for all batches.
constexpr std::size_t kEnoughResiduals = 20;

std::vector<LawGroup> groups_of(const std::vector<Row>& rows) {
  std::vector<LawGroup> groups;
  for (const Row& row : rows) {
    groups.push_back({row.x(), 1, &row.fitted});
  }
  return groups;
}

LawSolver solver_of(const std::vector<Row>& rows) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const Row& row : rows) {
    if (!row.usable()) continue;
    low = std::min(low, row.x());
    high = std::max(high, row.x());
  }
  return {low, high};
}

// Least squares through the centers, weighted as for scatter that is a fraction.
LawFit first_fit(const Envelope& envelope) {
  double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
  double low = std::numeric_limits<double>::infinity(), high = 0, least = low;
  for (const Row& row : envelope.rows) {
    if (!row.usable()) continue;
    const double x = row.x();
    const double y = std::exp(row.center);
    const double weight = static_cast<double>(row.fitted.reached.size()) / (y * y);
    w += weight, wx += weight * x, wxx += weight * x * x, wy += weight * y, wxy += weight * x * y;
    low = std::min(low, x), high = std::max(high, x), least = std::min(least, y);
  }
  const double slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  const double zero = (wy - slope * wx) / w;
  LawFit fit;
  fit.ends = {std::log(std::max(zero + slope * low, least / 4)),
              std::log(std::max(zero + slope * high, least / 4))};
  fit.scatter = envelope.scatter;
  return fit;
}

// Scores of the runs of batches where all reached the target, in groups of a batch.
struct FitScores {
  std::vector<double> values;
  std::vector<std::size_t> ends;
  bool repeated = false;

  FitScores(const LawSolver& solver, const LawFit& fit, const std::vector<LawGroup>& groups) {
    for (const LawGroup& group : groups) {
      if (!group.runs->stopped.empty()) continue;
      const double center = solver.center(fit, group);
      for (const double y : group.runs->reached) {
        values.push_back(huber((y - center) / (fit.scatter * group.scale)));
      }
      ends.push_back(values.size());
      repeated |= group.runs->reached.size() > 1;
    }
  }

  double misfit() const { return plan::misfit(values, ends); }
  bool testable() const { return repeated && ends.size() > 2; }
};

class Bootstrap {
 public:
  Bootstrap(const std::vector<LawGroup>& groups, const LawSolver& solver, const LawFit& fit)
      : solver_(solver), fit_(fit), drawn_(groups.size()) {
    for (std::size_t i = 0; i < groups.size(); ++i) {
      Drawn& drawn = drawn_[i];
      drawn.center = solver.center(fit, groups[i]);
      drawn.scatter = fit.scatter * groups[i].scale;
      const LogRuns& runs = *groups[i].runs;
      for (const double y : runs.reached) reached_.push_back((y - drawn.center) / drawn.scatter);
      for (const double y : runs.stopped) stopped_.push_back((y - drawn.center) / drawn.scatter);
      drawn.stops = stops_of(runs);
      groups_.push_back({groups[i].x, groups[i].scale, &drawn.runs});
    }
    // The two parameters have taken up some of the residuals.
    const double count = static_cast<double>(reached_.size() + stopped_.size());
    for (double& z : reached_) z *= std::sqrt(count / std::max(count - 2, 1.0));
  }

  // One round: the fit of drawn runs.
  LawFit round(RandomStream& random) {
    for (Drawn& drawn : drawn_) {
      drawn.runs.reached.clear();
      drawn.runs.stopped.clear();
      for (const double stop : drawn.stops) {
        const double y = drawn.center + drawn.scatter * residual(random);
        (y > stop ? drawn.runs.stopped : drawn.runs.reached).push_back(std::min(y, stop));
      }
    }
    return solver_.improved(groups_, fit_, 1e-3);
  }

  const std::vector<LawGroup>& groups() const { return groups_; }

 private:
  struct Drawn {
    double center = 0, scatter = 0;
    std::vector<double> stops;
    LogRuns runs;
  };

  // Where each run would have been stopped; infinite where nothing says so. A stop beyond what a
  // run took holds for it as well.
  static std::vector<double> stops_of(const LogRuns& runs) {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    std::vector<double> stops(runs.stopped);
    const double last =
        runs.stopped.empty() ? -kNever : *std::max_element(stops.begin(), stops.end());
    for (const double y : runs.reached) stops.push_back(last >= y ? last : kNever);
    return stops;
  }

  double residual(RandomStream& random) const {
    if (reached_.size() < kEnoughResiduals) return normal_draw(random);
    const std::size_t drawn = draw_index(random, reached_.size() + stopped_.size());
    if (drawn < reached_.size()) return reached_[drawn];
    return normal_draw_above(stopped_[drawn - reached_.size()], random);
  }

  const LawSolver& solver_;
  const LawFit fit_;
  std::vector<double> reached_, stopped_;  // residuals in units of their batch's scatter
  std::vector<Drawn> drawn_;               // one for each batch
  std::vector<LawGroup> groups_;
};

// What the round missed the estimate by, in its own standard errors, taken off the estimate.
std::array<double, 2> reflected(const LawFit& fit, const LawFit& round) {
  const double t0 = (round.ends[0] - fit.ends[0]) / round.root[0];
  const double rest = round.ends[1] - fit.ends[1] - round.root[1] * t0;
  const double t1 = round.root[2] > 0 ? rest / round.root[2] : 0;
  const auto off = [](double log) { return std::clamp(log, -kFarthest, kFarthest); };
  return {fit.ends[0] - off(fit.root[0] * t0),
          fit.ends[1] - off(fit.root[1] * t0 + fit.root[2] * t1)};
}

// alpha below 0 has no meaning: then the updates are the same at all batches.
UpdateLaw law_of(const LawSolver& solver, const std::array<double, 2>& ends) {
  const auto [at_zero, slope] = solver.line(ends);
  if (slope < 0) return {std::exp((ends[0] + ends[1]) / 2), 0};
  return {at_zero, slope};
}

// Fits the law and, in turns with it, how scatter goes with the batch. Returns the trend.
double fit_with_trend(std::vector<LawGroup>& groups, const LawSolver& solver, LawFit& fit) {
  std::size_t reached = 0;
  for (const LawGroup& group : groups) reached += group.runs->reached.size();
  const int turns = reached < kEnoughResiduals ? 0 : 3;
  double trend = 0;
  for (int turn = 0;; ++turn) {
    fit = solver.improved(groups, fit, 1e-9);
    if (turn == turns) return trend;
    std::vector<Residuals> residuals;
    for (const LawGroup& group : groups) {
      const double center = solver.center(fit, group);
      Residuals of{-std::log(group.x), group.runs->reached, group.runs->stopped};
      for (double& y : of.reached) y = (y - center) / fit.scatter;
      for (double& y : of.stopped) y = (y - center) / fit.scatter;
      residuals.push_back(std::move(of));
    }
    trend = scatter_trend(residuals);
    const std::vector<double> scales = scatter_scales(residuals, trend);
    for (std::size_t i = 0; i < groups.size(); ++i) groups[i].scale = scales[i];
  }
}

std::vector<EnvelopePoint> points_of(const Envelope& envelope, const std::vector<LawGroup>& groups,
                                     const LawSolver& solver, const LawFit& fit) {
  std::vector<EnvelopePoint> points;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Row& row = envelope.rows[i];
    EnvelopePoint point;
    point.batch = row.batch;
    point.learning_rate = row.chosen().learning_rate;
    point.runs = static_cast<int>(row.fitted.size());
    point.reached = static_cast<int>(row.fitted.reached.size());
    const double center = solver.center(fit, groups[i]);
    point.scatter = fit.scatter * groups[i].scale;
    const double mean = mean_shift(point.scatter);
    point.fitted = std::exp(center + mean);
    point.updates = std::numeric_limits<double>::infinity();
    if (row.usable()) {
      const double own = center_of(row.fitted, point.scatter);
      point.updates = std::exp(own + mean);
      const double information = information_of(row.fitted, own, point.scatter);
      point.residual =
          (own - center) / point.scatter * std::sqrt(information * kMeanSlope / kMeanSquare);
    }
    for (const Cell& cell : row.cells) {
      if (&cell == &row.chosen()) continue;
      const double more = cell.center - row.chosen().center;
      point.others.push_back({cell.learning_rate, cell.usable()
                                                      ? std::exp(std::max(more, 0.0))
                                                      : std::numeric_limits<double>::infinity()});
    }
    points.push_back(point);
  }
  return points;
}

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

void judge(UpdateFit& fit) {
  const Interval& interval = fit.updates_at_infinity.interval;
  const std::string advice =
      "; the largest measured batch is recommended, and nothing is extrapolated";
  fit.trusted = true;
  if (!(fit.law.updates_at_infinity > 0) || !(interval.low > 0)) {
    fit.trusted = false;
    fit.warnings.push_back("N_inf is " + rounded(fit.law.updates_at_infinity) + ", in [" +
                           rounded(interval.low) + ", " + rounded(interval.high) +
                           "]: not surely above 0" + advice);
  }
  if (fit.lack_of_fit < kUnlikely) {
    fit.trusted = false;
    fit.warnings.push_back(
        "N_inf + alpha/M does not describe the updates: a difference as large as theirs has the "
        "probability " +
        rounded(fit.lack_of_fit) + advice);
  }
}

}  // namespace

UpdateFit fit_updates(const std::vector<UpdateRun>& runs, const FitOptions& options) {
  check(options);
  const Envelope envelope = envelope_of(runs);
  const LawSolver solver = solver_of(envelope.rows);
  std::vector<LawGroup> groups = groups_of(envelope.rows);
  LawFit best = first_fit(envelope);
  UpdateFit fit;
  fit.scatter_trend = fit_with_trend(groups, solver, best);
  fit.warnings = envelope.warnings;
  fit.scatter = best.scatter;
  fit.law = law_of(solver, best.ends);
  fit.envelope = points_of(envelope, groups, solver, best);
  Bootstrap bootstrap(groups, solver, best);
  std::vector<double> zeros, slopes, misfits;
  for (int i = 0; i < options.rounds; ++i) {
    RandomStream random(options.seed, number_of("updates"), static_cast<std::uint64_t>(i));
    const LawFit round = bootstrap.round(random);
    fit.draws.push_back(law_of(solver, reflected(best, round)));
    zeros.push_back(fit.draws.back().updates_at_infinity);
    slopes.push_back(fit.draws.back().noise_sensitivity);
    const FitScores scores(solver, round, bootstrap.groups());
    if (scores.testable()) misfits.push_back(scores.misfit());
  }
  fit.updates_at_infinity = {fit.law.updates_at_infinity, interval_of(zeros)};
  fit.noise_sensitivity = {fit.law.noise_sensitivity, interval_of(slopes)};
  const FitScores scores(solver, best, groups);
  if (scores.testable()) fit.lack_of_fit = probability_of(scores.misfit(), misfits);
  judge(fit);
  if (!scores.testable()) {
    fit.warnings.emplace_back(
        "nothing tests whether N_inf + alpha/M describes the updates: it takes three batches whose "
        "runs all reached the target, and several runs at one of them");
  }
  if (!(fit.noise_sensitivity.interval.low > 0)) {
    fit.warnings.push_back("alpha is " + rounded(fit.law.noise_sensitivity) + ", in [" +
                           rounded(fit.noise_sensitivity.interval.low) + ", " +
                           rounded(fit.noise_sensitivity.interval.high) +
                           "]: the runs do not tell that updates get fewer with larger batches; "
                           "measure smaller ones, or more seeds");
  }
  return fit;
}

namespace {

struct Beside {
  const EnvelopePoint *low = nullptr, *high = nullptr;  // high may be of the batch itself
};

// The nearest on either side that reached the target: other rates may be of no use at all.
Beside beside(const std::vector<EnvelopePoint>& envelope, double batch) {
  Beside found;
  for (const EnvelopePoint& point : envelope) {
    if (point.reached == 0) continue;
    if (static_cast<double>(point.batch) < batch) found.low = &point;
    if (static_cast<double>(point.batch) >= batch && found.high == nullptr) found.high = &point;
  }
  return found;
}

// What a rate costs at a batch, as a logarithm; nothing where it was not tried there.
std::optional<double> cost_of_rate(const EnvelopePoint& point, double rate) {
  const double most = std::log(2);  // that of a rate which is of no use is not known
  for (const EnvelopePoint::OtherRate& other : point.others) {
    if (other.learning_rate == rate) return std::min(std::log(other.times), most);
  }
  return std::nullopt;
}

// Of a number above 0: more says nothing of a learning rate.
double to_four_digits(double value) {
  const double scale = std::pow(10, 3 - std::floor(std::log10(value)));
  if (!std::isfinite(scale)) return value;
  return std::round(value * scale) / scale;
}

}  // namespace

double learning_rate_for(const std::vector<EnvelopePoint>& envelope, double batch) {
  check_batch(batch, 1);
  const auto [low, high] = beside(envelope, batch);
  if (low == nullptr && high == nullptr) {
    throw UsageError(
        "no batch of the envelope has a run that reached the target; a learning rate needs one at "
        "least");
  }
  if (low == nullptr || (high != nullptr && static_cast<double>(high->batch) == batch))
    return high->learning_rate;
  if (high == nullptr) return low->learning_rate;
  const double part = std::log(batch / static_cast<double>(low->batch)) /
                      std::log(static_cast<double>(high->batch) / static_cast<double>(low->batch));
  return to_four_digits(low->learning_rate *
                        std::pow(high->learning_rate / low->learning_rate, part));
}

double rate_doubt(const std::vector<EnvelopePoint>& envelope, double batch) {
  check_batch(batch, 1);
  const auto [low, high] = beside(envelope, batch);
  if (low == nullptr || high == nullptr || static_cast<double>(high->batch) == batch ||
      low->learning_rate == high->learning_rate)
    return 0;
  double sum = 0;
  int known = 0;
  for (const std::optional<double>& cost :
       {cost_of_rate(*low, high->learning_rate), cost_of_rate(*high, low->learning_rate)}) {
    if (!cost) continue;
    sum += *cost;
    ++known;
  }
  constexpr double kHalfTheDistance = 0.25;  // the cost goes with its square
  return known == 0 ? 0 : kHalfTheDistance * sum / known;
}

}  // namespace convoy::plan
