// What workers on one host lose to each other, and communication, from whole updates together.
//
// Updates of P workers with one share of a batch make a cell. Through the means of the cells goes T
// = (1 + c) Gamma + Delta(P), by least squares of what it misses of T as a part of T: a straight
// line over Gamma for each P, of one slope for all P that have as many workers on a host. What
// times are unsure of is drawn for each cell, and the lines are fitted again.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "convoy/plan/choice.h"
#include "plan/communication.h"
#include "plan/communication_fit.h"
#include "plan/group_means.h"
#include "plan/repetitions.h"

namespace convoy::plan {
namespace {

// Where computing differs less than this between the shares, its slope is not told.
constexpr double kApart = 1.5;
// Times of one worker say as much of the scatter of updates as so many more of several workers.
constexpr double kMoreFreedom = 4;

// By how much times of one worker scatter, with the degrees of freedom that this is known with; the
// fit's own scatter, which two parameters come out of, where none was repeated.
struct ScatterAlone {
  double scatter = 0;
  double freedom = 0;
};

ScatterAlone scatter_alone(const std::vector<TimeSample>& times, const ComputeFit& compute) {
  std::map<std::int64_t, std::vector<double>> logs;
  for (const TimeSample& time : times) logs[time.samples].push_back(std::log(time.seconds));
  std::vector<std::vector<double>> groups;
  for (auto& [samples, values] : logs) groups.push_back(std::move(values));
  const GroupMeans means = group_means(groups, 0, 0);
  if (means.freedom > 0) return {means.scatter, means.freedom};
  return {compute.scatter, std::max(static_cast<double>(times.size()) - 2, 1.0)};
}

// With how many degrees of freedom the mean of two squared scatters is known that count as `own`
// and `more` of them, when the second is known with `known`: by Welch and Satterthwaite.
double freedom_of_both(double own, double more, double known) {
  return (own + more) * (own + more) / (own + more * more / known);
}

struct ShareTimes {
  std::int64_t share = 0;  // samples of the largest; 0: of times that do not say it
  std::vector<double> logs;
  double gamma = 0;    // that one worker takes for it
  double seconds = 0;  // mean
  double weight = 0;
};

struct WorkersTimes {
  std::int64_t workers = 0;
  std::int64_t host_workers = 0;
  std::vector<ShareTimes> cells;  // by share
  double least = 0;               // that Delta can be
  double waited = 0;  // for communication at least, as rank 0 saw it; counts where no slope is told
  double count = 0;   // of times
  bool tells = false;  // what workers lose to each other, by shares that are far enough apart
};

bool says_share(const CommunicationSample& sample) {
  return sample.update_s > 0 && sample.batch >= sample.workers;
}

std::int64_t share_of(const CommunicationSample& sample) {
  return says_share(sample) ? (sample.batch + sample.workers - 1) / sample.workers : 0;
}

double time_of(const CommunicationSample& sample) {
  return says_share(sample) ? sample.update_s : sample.seconds;
}

using SharesOfWorkers = std::map<std::int64_t, std::map<std::int64_t, std::vector<double>>>;

SharesOfWorkers shares_of(const std::vector<CommunicationSample>& samples) {
  SharesOfWorkers shares;
  for (const CommunicationSample& sample : samples)
    shares[sample.workers][share_of(sample)].push_back(std::log(time_of(sample)));
  return shares;
}

std::int64_t host_workers_of(const std::vector<CommunicationSample>& samples,
                             std::int64_t workers) {
  std::int64_t most = 0;
  for (const CommunicationSample& sample : samples) {
    if (sample.workers == workers) most = std::max(most, sample.host_workers);
  }
  return most > 0 ? most : workers;
}

// Whether any updates of workers on one host had two shares of a batch.
bool has_several_shares(const std::vector<CommunicationSample>& samples) {
  for (const auto& [workers, cells] : shares_of(samples)) {
    const bool known = cells.size() > 2 || (cells.size() == 2 && !cells.contains(0));
    if (known && host_workers_of(samples, workers) > 1) return true;
  }
  return false;
}

// What lines go through.
struct Lines {
  std::vector<ContentionPoint> contention;
  std::vector<double> deltas;  // by numbers of workers, as the cells
};

// The slope of one number of workers on a host, and Delta of each that has it. Where Delta would
// be less than can be told it is that, and the slope follows.
double common_slope(const std::vector<WorkersTimes>& all, std::int64_t host_workers) {
  std::vector<bool> at_least(all.size(), false);
  for (;;) {
    double up = 0, across = 0;
    const auto each = [&](const auto& visit) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i].host_workers == host_workers && all[i].tells) visit(i);
      }
    };
    const auto means = [&](const WorkersTimes& one) {
      double weights = 0, gamma = 0, seconds = 0;
      for (const ShareTimes& cell : one.cells) {
        weights += cell.weight;
        gamma += cell.weight * cell.gamma, seconds += cell.weight * cell.seconds;
      }
      return std::pair(gamma / weights, seconds / weights);
    };
    each([&](std::size_t i) {
      const auto [gamma, seconds] = at_least[i] ? std::pair(0.0, all[i].least) : means(all[i]);
      for (const ShareTimes& cell : all[i].cells) {
        up += cell.weight * (cell.gamma - gamma) * (cell.seconds - seconds);
        across += cell.weight * (cell.gamma - gamma) * (cell.gamma - gamma);
      }
    });
    const double slope = std::max(across > 0 ? up / across : 1, 1.0);
    bool again = false;
    each([&](std::size_t i) {
      const auto [gamma, seconds] = means(all[i]);
      if (at_least[i] || seconds - slope * gamma >= all[i].least) return;
      at_least[i] = again = true;
    });
    if (!again) return slope;
  }
}

Lines fitted_lines(const std::vector<WorkersTimes>& all) {
  Lines lines;
  std::map<std::int64_t, double> slopes;
  for (const WorkersTimes& one : all) {
    if (one.tells && !slopes.contains(one.host_workers))
      slopes[one.host_workers] = common_slope(all, one.host_workers);
  }
  for (const WorkersTimes& one : all) {
    const auto slope = slopes.find(one.host_workers);
    if (slope != slopes.end()) lines.contention.push_back({one.workers, slope->second - 1});
    if (one.host_workers == 1) lines.contention.push_back({one.workers, 0});
  }
  for (const WorkersTimes& one : all) {
    const double longer = 1 + contention_at(lines.contention, static_cast<double>(one.workers));
    double weights = 0, sum = 0;
    for (const ShareTimes& cell : one.cells) {
      weights += cell.weight;
      sum += cell.weight * (cell.seconds - longer * cell.gamma);
    }
    lines.deltas.push_back(std::max({sum / weights, one.least, one.tells ? 0 : one.waited}));
  }
  return lines;
}

// Logarithms of what each number of workers makes of delta, and their mean, by numbers of times.
std::vector<double> logs_of_delta(const std::vector<WorkersTimes>& all, const Lines& lines,
                                  CommunicationKind kind) {
  Communication unit;
  unit.kind = kind;
  unit.delta_s = 1;
  std::vector<double> logs;
  for (std::size_t i = 0; i < all.size(); ++i)
    logs.push_back(std::log(lines.deltas[i] / communication_seconds(unit, all[i].workers)));
  return logs;
}

double mean_of(const std::vector<WorkersTimes>& all, const std::vector<double>& logs) {
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < all.size(); ++i) sum += all[i].count * logs[i], count += all[i].count;
  return sum / count;
}

double squares_around(const std::vector<double>& logs, double mean,
                      const std::vector<double>& variances) {
  double sum = 0;
  for (std::size_t i = 0; i < logs.size(); ++i)
    sum += (logs[i] - mean) * (logs[i] - mean) / (variances.empty() ? 1 : variances[i]);
  return sum;
}

CommunicationKind best_kind(const std::vector<WorkersTimes>& all, const Lines& lines) {
  CommunicationKind best = CommunicationKind::constant;
  double least = std::numeric_limits<double>::infinity();
  if (all.size() < 2) return best;
  for (const auto kind : {CommunicationKind::constant, CommunicationKind::server,
                          CommunicationKind::ring, CommunicationKind::tree}) {
    const std::vector<double> logs = logs_of_delta(all, lines, kind);
    const double squares = squares_around(logs, mean_of(all, logs), {});
    if (squares < least) best = kind, least = squares;
  }
  return best;
}

class ContentionFitter {
 public:
  ContentionFitter(const std::vector<CommunicationSample>& samples,
                   const std::vector<TimeSample>& times, const ComputeFit& compute)
      : samples_(samples), alone_(measured_machine(compute)) {
    std::vector<std::vector<double>> groups;
    for (auto& [workers, shares] : shares_of(samples)) {
      WorkersTimes one{workers, host_workers_of(samples, workers), {}};
      for (auto& [share, logs] : shares) {
        groups.push_back(logs);
        one.count += static_cast<double>(logs.size());
        one.cells.push_back({share, logs});
      }
      cells_.push_back(std::move(one));
    }
    for (WorkersTimes& one : cells_) {
      one.waited = std::numeric_limits<double>::infinity();
      for (const CommunicationSample& sample : samples) {
        if (sample.workers == one.workers) one.waited = std::min(one.waited, sample.seconds);
      }
    }
    const ScatterAlone alone = scatter_alone(times, compute);
    means_ = group_means(groups, alone.scatter, kMoreFreedom);
    freedom_ = freedom_of_both(means_.freedom - kMoreFreedom, kMoreFreedom, alone.freedom);
    const double mean = mean_shift(means_.scatter);
    take(alone_.machine, cells_,
         [&](std::size_t g, const ShareTimes&) { return std::exp(means_.centers[g] + mean); });
    for (WorkersTimes& one : cells_) {
      const double low = one.cells.front().gamma, high = one.cells.back().gamma;
      one.tells = one.host_workers > 1 && low > 0 && high >= kApart * low;
    }
    lines_ = fitted_lines(cells_);
    kind_ = best_kind(cells_, lines_);
    logs_ = logs_of_delta(cells_, lines_, kind_);
  }

  CommunicationFit fit(const FitOptions& options) const {
    CommunicationFit fit;
    fit.kind = kind_;
    const double center = mean_of(cells_, logs_);
    fit.delta_s.value = std::exp(center);
    for (const ContentionPoint& point : lines_.contention)
      fit.contention.push_back({point.workers, {point.part, {}}, {}});
    draw(options, center, fit);
    fit.delta_s.interval = interval_of(fit.draws);
    for (ContentionFit& one : fit.contention) one.part.interval = interval_of(one.draws);
    // As one time's of communication, which choose_batch() takes them for.
    constexpr double kWidth = 3.92;  // of an interval of 95%, in standard deviations
    const Interval& range = fit.delta_s.interval;
    const double deviation = std::log(range.high / range.low) / kWidth;
    fit.scatter = deviation * std::sqrt(static_cast<double>(samples_.size()));
    report_times(fit);
    add_samples(fit);
    return fit;
  }

 private:
  // Fills in what one worker takes, and means, of each cell; `mean` gives these.
  template <class Mean>
  static void take(const Machine& machine, std::vector<WorkersTimes>& all, const Mean& mean) {
    std::size_t g = 0;
    for (WorkersTimes& one : all) {
      one.least = std::numeric_limits<double>::infinity();
      for (ShareTimes& cell : one.cells) {
        cell.gamma = cell.share > 0 ? compute_seconds(machine, static_cast<double>(cell.share)) : 0;
        cell.seconds = mean(g++, cell);
        cell.weight = static_cast<double>(cell.logs.size()) / (cell.seconds * cell.seconds);
        one.least = std::min(one.least, kToldOfUpdate * cell.seconds);
      }
    }
  }

  void draw(const FitOptions& options, double center, CommunicationFit& fit) const {
    std::vector<std::vector<double>> rounds;
    std::vector<WorkersTimes> drawn = cells_;
    for (int round = 0; round < options.rounds; ++round) {
      RandomStream random(options.seed, number_of("contention"), static_cast<std::uint64_t>(round));
      double squares = 0;
      const int freedom = std::max(1, static_cast<int>(std::lround(freedom_)));
      for (int i = 0; i < freedom; ++i) squares += std::pow(normal_draw(random), 2);
      const double again = std::sqrt(squares / freedom);  // the round's scatter, in units of ours
      take(machine_of_draw(alone_, static_cast<std::size_t>(round)), drawn,
           [&](std::size_t g, const ShareTimes& cell) {
             const double z = normal_draw(random) / again;
             const double off =
                 z * means_.scatter / std::sqrt(static_cast<double>(cell.logs.size()));
             return std::exp(means_.centers[g] + mean_shift(means_.scatter) +
                             std::clamp(off, -1.0, 1.0));
           });
      const Lines lines = fitted_lines(drawn);
      rounds.push_back(logs_of_delta(cells_, lines, kind_));
      for (std::size_t i = 0; i < fit.contention.size(); ++i)
        fit.contention[i].draws.push_back(lines.contention.at(i).part);
    }
    const double wider = check_kind(center, rounds, fit);
    for (const std::vector<double>& logs : rounds)
      fit.draws.push_back(std::exp(center + wider * (mean_of(cells_, logs) - center)));
  }

  // Whether communication goes with the workers as its kind says. Returns how much wider it makes
  // the interval of delta if not.
  double check_kind(double center, const std::vector<std::vector<double>>& rounds,
                    CommunicationFit& fit) const {
    if (cells_.size() < 2 || means_.scatter == 0) return 1;
    std::vector<double> variances(cells_.size(), 0);
    for (const std::vector<double>& logs : rounds) {
      for (std::size_t i = 0; i < logs.size(); ++i)
        variances[i] += std::pow(logs[i] - logs_[i], 2) / static_cast<double>(rounds.size());
    }
    constexpr double kExact = 1e-12;
    for (double& variance : variances) variance = std::max(variance, kExact);
    std::vector<double> spreads;
    for (std::vector<double> logs : rounds) {
      for (std::size_t i = 0; i < logs.size(); ++i) logs[i] -= logs_[i];
      spreads.push_back(squares_around(logs, mean_of(cells_, logs), variances));
    }
    const double spread = squares_around(logs_, center, variances);
    fit.lack_of_fit = probability_of(spread, spreads);
    const double expected =
        std::accumulate(spreads.begin(), spreads.end(), 0.0) / static_cast<double>(spreads.size());
    return std::sqrt(std::max(1.0, spread / std::max(expected, kExact)));
  }

  double center_of(const CommunicationSample& sample) const {
    std::size_t g = 0;
    for (const WorkersTimes& one : cells_) {
      for (const ShareTimes& cell : one.cells) {
        if (one.workers == sample.workers && cell.share == share_of(sample))
          return means_.centers[g];
        ++g;
      }
    }
    return 0;
  }

  void report_times(CommunicationFit& fit) const {
    const Sorted sorted(samples_, "the number of workers of a measured time", 2,
                        [](const CommunicationSample& sample) { return sample.workers; });
    std::vector<double> residuals;
    for (const std::size_t i : sorted.order) {
      const double off = std::log(time_of(samples_[i])) - center_of(samples_[i]);
      residuals.push_back(means_.scatter > 0 ? off / means_.scatter : 0);
    }
    report(fit, sorted, residuals, std::string("the model '") + std::string(name(fit.kind)) + "'",
           "; use the measured table");
  }

  // Of the smallest shares, in which communication is the largest part.
  void add_samples(CommunicationFit& fit) const {
    for (const CommunicationSample& sample : samples_) {
      const auto one = std::find_if(cells_.begin(), cells_.end(), [&](const WorkersTimes& workers) {
        return workers.workers == sample.workers;
      });
      const ShareTimes& smallest = one->cells.front();
      if (share_of(sample) != smallest.share) continue;
      const double longer =
          1 + contention_at(lines_.contention, static_cast<double>(sample.workers));
      fit.samples.push_back(sample);
      fit.samples.back().seconds = std::max(time_of(sample) - longer * smallest.gamma, one->least);
    }
    warn_of_batches(fit.samples, fit);
  }

  const std::vector<CommunicationSample>& samples_;
  MeasuredMachine alone_;
  std::vector<WorkersTimes> cells_;
  GroupMeans means_;
  double freedom_ = 0;  // degrees of freedom with which the scatter of the means is known
  Lines lines_;
  CommunicationKind kind_ = CommunicationKind::constant;
  std::vector<double> logs_;  // of delta, by each number of workers
};

}  // namespace

CommunicationFit fit_communication(const std::vector<CommunicationSample>& samples,
                                   const std::vector<TimeSample>& times, const ComputeFit& compute,
                                   const FitOptions& options) {
  check(options);
  for (const CommunicationSample& sample : samples) {
    check_at_least("the number of workers of a measured time", sample.workers, 2);
    check_positive("a measured time", sample.seconds);
  }
  if (!has_several_shares(samples))
    return fit_communication(beyond_compute(samples, times), options);
  return ContentionFitter(samples, times, compute).fit(options);
}

}  // namespace convoy::plan
