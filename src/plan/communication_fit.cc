#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "convoy/plan/machine_fit.h"
#include "plan/communication_fit.h"
#include "plan/repetitions.h"

namespace convoy::plan {
namespace {

struct Kind {
  CommunicationKind kind;
  double scatter;
  Location location;
  std::vector<double> residuals;  // log seconds - log f(P) - center, sorted
};

double log_factor(CommunicationKind kind, std::int64_t workers) {
  Communication unit;
  unit.kind = kind;
  unit.delta_s = 1;
  return std::log(communication_seconds(unit, workers));
}

Kind located(const Sorted& sorted, CommunicationKind kind) {
  std::vector<double> values;
  for (std::size_t g = 0; g < sorted.sizes.size(); ++g) {
    const double factor = log_factor(kind, sorted.sizes[g]);
    for (std::size_t i = sorted.begin(g); i < sorted.ends[g]; ++i) {
      values.push_back(sorted.logs[i] - factor);
    }
  }
  Kind result{kind, 0, location_of(values), {}};
  result.scatter = result.location.scatter;
  for (const double value : values) result.residuals.push_back(value - result.location.center);
  return result;
}

Sorted sorted_communication(const std::vector<CommunicationSample>& samples) {
  if (samples.size() < 2) {
    throw UsageError("a fit of communication needs at least 2 times; there are " +
                     std::to_string(samples.size()));
  }
  return {samples, "the number of workers of a measured time", 2,
          [](const CommunicationSample& sample) { return sample.workers; }};
}

CommunicationFit fit_of(const Sorted& sorted, const Kind& kind, const FitOptions& options) {
  CommunicationFit fit;
  fit.kind = kind.kind;
  fit.scatter = kind.scatter;
  const double mean = mean_shift(kind.scatter);
  fit.delta_s.value = std::exp(kind.location.center + mean);
  std::vector<double> residuals(kind.residuals);
  if (kind.scatter > 0) {
    for (double& z : residuals) z /= kind.scatter;
  }
  const double count = static_cast<double>(residuals.size());
  const ResidualPool pool(residuals, std::sqrt(count / (count - 1)));
  std::vector<double> values(residuals.size()), misfits, scores(residuals.size());
  for (int round = 0; round < options.rounds; ++round) {
    if (kind.scatter == 0) {
      fit.draws.push_back(fit.delta_s.value);
      continue;
    }
    RandomStream random(options.seed, number_of("communication"),
                        static_cast<std::uint64_t>(round));
    for (double& value : values) value = pool.draw(random);
    const Location again = improved_location(values, {0, 1}, 1, 1e-3);
    const double t = again.scatter > 0 ? again.center / again.scatter : 0;
    fit.draws.push_back(std::exp(kind.location.center + mean -
                                 std::clamp(t * kind.scatter, -kFarthest, kFarthest)));
    for (std::size_t i = 0; i < values.size(); ++i) {
      scores[i] = huber(again.scatter > 0 ? (values[i] - again.center) / again.scatter : 0);
    }
    misfits.push_back(misfit(scores, sorted.ends));
  }
  fit.delta_s.interval = interval_of(fit.draws);
  if (sorted.sizes.size() > 1 && sorted.repeated() && kind.scatter > 0) {
    fit.lack_of_fit = probability_of(misfit(clipped(residuals), sorted.ends), misfits);
  }
  report(fit, sorted, residuals, std::string("the model '") + std::string(name(kind.kind)) + "'",
         "; use the measured table");
  return fit;
}

bool is_enough_to_fit(const std::vector<TimeSample>& times) {
  return times.size() > 2 && std::any_of(times.begin(), times.end(), [&](const TimeSample& time) {
           return time.samples != times.front().samples;
         });
}

}  // namespace

void warn_of_batches(const std::vector<CommunicationSample>& samples, CommunicationFit& fit) {
  constexpr double kFar = 4;
  std::map<std::int64_t, std::int64_t> batches;  // by workers
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const CommunicationSample& sample : samples) {
    if (sample.batch == 0) continue;
    const std::int64_t batch = batches.try_emplace(sample.workers, sample.batch).first->second;
    if (batch != sample.batch) {
      fit.warnings.push_back("communication between " + std::to_string(sample.workers) +
                             " workers was timed with batches of " + std::to_string(batch) +
                             " and of " + std::to_string(sample.batch) +
                             ", which hide different parts of it; take the times of one");
      return;
    }
    const double share = static_cast<double>(batch) / static_cast<double>(sample.workers);
    least = std::min(least, share), most = std::max(most, share);
  }
  if (most > kFar * least) {
    fit.warnings.push_back("communication was timed with " + shortest(std::round(least)) + " to " +
                           shortest(std::round(most)) +
                           " samples for each worker, which hide different parts of it: how it "
                           "goes with the number of workers is uncertain; time it with batches "
                           "that grow with the number of workers");
  }
}

std::vector<CommunicationSample> beyond_compute(std::vector<CommunicationSample> samples,
                                                const std::vector<TimeSample>& times) {
  if (!is_enough_to_fit(times)) return samples;
  constexpr int kRounds = 39;  // no interval is taken from it
  const Machine machine = measured_machine(fit_compute(times, {.rounds = kRounds})).machine;
  const std::vector<ComputePoint> means = compute_table(times);
  for (CommunicationSample& sample : samples) {
    if (sample.update_s <= 0 || sample.batch < sample.workers) continue;
    const std::int64_t share = (sample.batch + sample.workers - 1) / sample.workers;
    const auto mean = std::find_if(means.begin(), means.end(), [share](const ComputePoint& point) {
      return point.samples == share;
    });
    const double alone =
        mean != means.end() ? mean->seconds : compute_seconds(machine, static_cast<double>(share));
    sample.seconds =
        std::max({sample.seconds, sample.update_s - alone, kToldOfUpdate * sample.update_s});
  }
  return samples;
}

CommunicationFit fit_communication(const std::vector<CommunicationSample>& samples,
                                   CommunicationKind kind, const FitOptions& options) {
  check(options);
  if (kind == CommunicationKind::none || kind == CommunicationKind::table) {
    throw UsageError(
        "a fit of communication is for the kinds constant, server, ring and tree, not '" +
        std::string(name(kind)) + "'");
  }
  const Sorted sorted = sorted_communication(samples);
  CommunicationFit fit = fit_of(sorted, located(sorted, kind), options);
  fit.samples = samples;
  warn_of_batches(samples, fit);
  return fit;
}

CommunicationFit fit_communication(const std::vector<CommunicationSample>& samples,
                                   const FitOptions& options) {
  check(options);
  const Sorted sorted = sorted_communication(samples);
  Kind best = located(sorted, CommunicationKind::constant);
  if (sorted.sizes.size() > 1) {
    for (const auto kind :
         {CommunicationKind::server, CommunicationKind::ring, CommunicationKind::tree}) {
      Kind other = located(sorted, kind);
      if (other.scatter < best.scatter) best = std::move(other);
    }
  }
  CommunicationFit fit = fit_of(sorted, best, options);
  fit.samples = samples;
  warn_of_batches(samples, fit);
  return fit;
}

Communication communication_table(const std::vector<CommunicationSample>& samples) {
  Communication communication;
  communication.kind = CommunicationKind::table;
  const Sorted sorted(samples, "the number of workers of a measured time", 2,
                      [](const CommunicationSample& sample) { return sample.workers; });
  communication.table = table_of<CommunicationPoint>(sorted);
  return communication;
}

}  // namespace convoy::plan
