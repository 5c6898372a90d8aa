#include "cli/bench/ddp_figures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/median.h"
#include "convoy/base/random.h"

namespace convoy::cli {
namespace {

constexpr int kResamples = 10'000;
constexpr std::uint64_t kBootstrapSeed = 1;

double spread_of_rates(const DdpSide& side) {
  const auto [least, most] =
      std::minmax_element(side.images_per_s.begin(), side.images_per_s.end());
  return (*most - *least) / median(side.images_per_s);
}

// Medians of as many ratios as there are, drawn from them, in ascending order.
std::vector<double> resampled_medians(const std::vector<double>& ratios) {
  RandomStream random(kBootstrapSeed, ratios.size());
  std::vector<double> medians, drawn(ratios.size());
  for (int i = 0; i < kResamples; ++i) {
    for (double& one : drawn) one = ratios[random.below(ratios.size())];
    medians.push_back(median(drawn));
  }
  std::sort(medians.begin(), medians.end());
  return medians;
}

}  // namespace

DdpRatio ddp_ratio(const std::vector<double>& rates, const std::vector<double>& others) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < rates.size(); ++i) ratios.push_back(rates[i] / others[i]);
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  const std::vector<double> medians = resampled_medians(ratios);
  const auto at = [&medians](double part) {
    return medians[static_cast<std::size_t>(part * static_cast<double>(medians.size() - 1))];
  };
  return {median(ratios), *least, *most, at(0.025), at(0.975)};
}

const DdpSide* measured_side(const DdpComparison& comparison, const std::string& name) {
  for (const DdpSide& side : comparison.sides) {
    if (side.name == name && side.error.empty()) return &side;
  }
  return nullptr;
}

double largest_difference(const DdpSide& side, const DdpSide& other, std::size_t steps) {
  double largest = 0;
  steps = std::min({steps, side.losses.size(), other.losses.size()});
  for (std::size_t i = 0; i < steps; ++i) {
    const double apart = std::abs(side.losses[i] - other.losses[i]);
    if (apart == 0) continue;
    const double relative = apart / std::abs(other.losses[i]);
    if (std::isnan(relative)) return relative;
    largest = std::max(largest, relative);
  }
  return largest;
}

std::string ddp_complaint(const DdpComparison& comparison, double tolerance) {
  const DdpSide* own = measured_side(comparison, "convoy");
  if (comparison.draws || own == nullptr) return "";
  for (const DdpSide& side : comparison.sides) {
    if (!side.error.empty() || largest_difference(side, *own, 1) <= tolerance) continue;
    char numbers[96];
    std::snprintf(numbers, sizeof numbers, "%.7g with convoy and %.7g with %s", own->losses.front(),
                  side.losses.front(), side.name.c_str());
    return comparison.model + " on " + std::to_string(comparison.ranks) +
           (comparison.ranks == 1 ? " rank" : " ranks") + ": the first loss is " + numbers +
           ", so they don't train the same (--tolerance)";
  }
  return "";
}

std::vector<nlohmann::ordered_json> ddp_rows(const DdpComparison& comparison) {
  std::vector<nlohmann::ordered_json> rows;
  for (const DdpSide& side : comparison.sides) {
    nlohmann::ordered_json row{{"kind", "ddp"},
                               {"model", comparison.model},
                               {"ranks", comparison.ranks},
                               {"side", side.name},
                               {"threads_per_rank", comparison.threads},
                               {"batch_per_rank", comparison.batch_per_rank},
                               {"precision", "float32"},
                               {"channels_last", true},
                               {"allocator", comparison.allocator}};
    if (!side.error.empty()) {
      row["error"] = side.error;
      rows.push_back(std::move(row));
      continue;
    }
    const auto [least, most] =
        std::minmax_element(side.images_per_s.begin(), side.images_per_s.end());
    const DdpSide& ddp = *measured_side(comparison, "ddp");
    const DdpRatio ratio = ddp_ratio(side.images_per_s, ddp.images_per_s);
    if (!side.torch.empty()) row["torch"] = side.torch;
    row.update({{"repetitions", side.images_per_s.size()},
                {"steps_per_repetition", comparison.steps},
                {"images_per_s", median(side.images_per_s)},
                {"images_per_s_min", *least},
                {"images_per_s_max", *most},
                {"spread", spread_of_rates(side)},
                {"ratio_to_ddp", ratio.middle},
                {"ratio_min", ratio.least},
                {"ratio_max", ratio.most},
                {"ratio_low", ratio.low},
                {"ratio_high", ratio.high},
                {"first_step_s", side.first_step_s},
                {"dropout", comparison.draws},
                {"first_loss", side.losses.front()},
                {"last_loss", side.losses.back()},
                {"first_loss_difference", largest_difference(side, ddp, 1)},
                {"largest_loss_difference", largest_difference(side, ddp, comparison.comparable)}});
    rows.push_back(std::move(row));
  }
  return rows;
}

void print_ddp_header(int repetitions) {
  std::printf("float32, channels-last, medians of %d alternating repetition%s\n", repetitions,
              repetitions == 1 ? "" : "s");
  std::printf("%-13s %5s %7s %5s %-11s %9s %7s %7s %-14s %-14s %10s %10s %10s %10s\n", "network",
              "ranks", "threads", "batch", "side", "images/s", "spread", "to ddp", "least to most",
              "95%", "first step", "first loss", "last loss", "difference");
}

void print_ddp(const DdpComparison& comparison) {
  for (const DdpSide& side : comparison.sides) {
    std::printf("%-13s %5d %7d %5lld %-11s ", comparison.model.c_str(), comparison.ranks,
                comparison.threads, static_cast<long long>(comparison.batch_per_rank),
                side.name.c_str());
    if (!side.error.empty()) {
      std::printf("%s\n", side.error.c_str());
      continue;
    }
    const DdpSide& ddp = *measured_side(comparison, "ddp");
    const DdpRatio ratio = ddp_ratio(side.images_per_s, ddp.images_per_s);
    std::printf("%9.2f %6.1f%% %6.3fx %6.3f %6.3f  %6.3f %6.3f  %8.2f s %10.6f %10.6f %10.1e%s\n",
                median(side.images_per_s), 100 * spread_of_rates(side), ratio.middle, ratio.least,
                ratio.most, ratio.low, ratio.high, side.first_step_s, side.losses.front(),
                side.losses.back(), largest_difference(side, ddp, comparison.comparable),
                comparison.draws ? " (dropout)" : "");
  }
  std::fflush(stdout);
}

}  // namespace convoy::cli
