// How often 95% intervals hold the truth.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/plan/synthetic.h"

namespace {

using namespace convoy::plan;
using namespace convoy::plan::test;
using convoy::RandomStream;

constexpr int kSeeds = 2000;

struct Counter {
  std::atomic<int> below{0}, above{0};
  void add(const Interval& interval, double truth) {
    if (truth < interval.low) ++below;
    if (truth > interval.high) ++above;
  }
  double coverage() const { return 1 - double(below + above) / kSeeds; }
  void print(const char* what) const {
    std::printf("%-12s %.2f%%  truth below %.2f%% above %.2f%%\n", what, 100 * coverage(), 100. * below / kSeeds, 100. * above / kSeeds);
  }
};

template <typename Each>
void for_seeds(const Each& each) {
  std::atomic<int> next{0};
  const auto work = [&] {
    for (int seed = next++; seed < kSeeds; seed = next++) each(seed);
  };
  std::thread other(work);
  work();
  other.join();
}

int env(const char* n, int d) { const char* v = std::getenv(n); return v ? atoi(v) : d; }

void updates(const Training& training) {
  Counter n, a, r;
  std::atomic<int> untrusted{0}, lof{0};
  double ratio = training.law.noise_sensitivity / training.law.updates_at_infinity;
  for_seeds([&](int seed) {
    RandomStream random(17, static_cast<std::uint64_t>(seed));
    FitOptions options{env("R", 399), static_cast<std::uint64_t>(seed)};
    const UpdateFit fit = fit_updates(training.runs(random), options);
    n.add(fit.updates_at_infinity.interval, training.law.updates_at_infinity);
    a.add(fit.noise_sensitivity.interval, training.law.noise_sensitivity);
    std::vector<double> q;
    for (auto& d : fit.draws) q.push_back(d.updates_at_infinity > 0 ? d.noise_sensitivity / d.updates_at_infinity : 1e300);
    r.add(interval_of(q), ratio);
    untrusted += !fit.trusted;
    lof += fit.lack_of_fit < 0.01;
  });
  n.print("N_inf"); a.print("alpha"); r.print("ratio");
  std::printf("untrusted %d lof %d\n", untrusted.load(), lof.load());
}

std::vector<std::int64_t> powers(int step) {
  std::vector<std::int64_t> v;
  for (std::int64_t m = 1; m <= 1024; m *= step) v.push_back(m);
  return v;
}

TEST(Coverage, A_Lognormal) { updates({{800, 20000}, powers(2), 5, log_normal(0.15)}); }
TEST(Coverage, B_Gamma) { updates({{800, 20000}, powers(2), 5, gamma_of(40)}); }
TEST(Coverage, C_Censored) {
  updates({{800, 20000}, powers(2), 5, gamma_of(40), {1}, 1, 12000, 0.1});
}
TEST(Coverage, D_FewPoints) { updates({{800, 20000}, powers(4), 2, gamma_of(40), {1}, 1, 15000, 0.0}); }
TEST(Coverage, E_Rates) {
  updates({{800, 20000}, powers(4), 5, gamma_of(40), {0.5, 1, 2}, 0.5, 15000, 0.1});
}
TEST(Coverage, F_RatesClose) {
  updates({{800, 20000}, powers(4), 5, gamma_of(40), {0.7, 1, 1.4}, 0.5, 1<<30, 0.0});
}
TEST(Coverage, H0_rates05) { updates({{800, 20000}, powers(4), 5, gamma_of(40), {0.5, 1, 2}, 0.5}); }
TEST(Coverage, H1_rates1) { updates({{800, 20000}, powers(4), 5, gamma_of(40), {0.5, 1, 2}, 1}); }
TEST(Coverage, H2_rates025) { updates({{800, 20000}, powers(4), 5, gamma_of(40), {0.5, 1, 2}, 0.25}); }
TEST(Coverage, H3_rates05_ten) { updates({{800, 20000}, powers(2), 10, gamma_of(40), {0.5, 1, 2}, 0.5}); }
TEST(Coverage, G_BigNoise) { updates({{800, 20000}, powers(2), 5, gamma_of(10)}); }

void machine(double knee, int each, double s) {
  Machine m; m.seconds_per_sample = 2e-4; m.knee_samples = knee;
  Counter g, t; std::atomic<int> lof{0};
  for_seeds([&](int seed) {
    RandomStream random(18, static_cast<std::uint64_t>(seed));
    FitOptions options{env("R", 399), static_cast<std::uint64_t>(seed)};
    const ComputeFit fit = fit_compute(times(m, powers(2), each, log_normal(s), random), options);
    g.add(fit.seconds_per_sample.interval, m.seconds_per_sample);
    t.add(fit.knee_samples.interval, knee);
    lof += fit.lack_of_fit < 0.01;
  });
  g.print("gamma"); t.print("M_T"); std::printf("lof %d\n", lof.load());
}
TEST(Coverage, H5_tie) { updates({{800, 20000}, powers(4), 5, gamma_of(40), {0.5, 1, 1.000001}, 0.5}); }
TEST(Coverage, T1) { machine(12, 5, 0.05); }
TEST(Coverage, T2) { machine(16, 5, 0.05); }
TEST(Coverage, T3) { machine(16, 3, 0.2); }
TEST(Coverage, T4) { machine(2.5, 3, 0.05); }
TEST(Coverage, T5) { machine(5, 1, 0.05); }

void comm(std::vector<std::int64_t> p, int each, double s) {
  Communication c; c.kind = CommunicationKind::ring; c.delta_s = 0.01;
  Counter d; std::atomic<int> lof{0}, kind{0};
  for_seeds([&](int seed) {
    RandomStream random(19, static_cast<std::uint64_t>(seed));
    FitOptions options{env("R", 399), static_cast<std::uint64_t>(seed)};
    const auto fit = fit_communication(communication(c, p, each, log_normal(s), random), CommunicationKind::ring, options);
    d.add(fit.delta_s.interval, 0.01);
    lof += fit.lack_of_fit < 0.01; 
  });
  d.print("delta"); std::printf("lof %d\n", lof.load());
}
TEST(Coverage, U1) { comm({2,4,8}, 5, 0.1); }
TEST(Coverage, U2) { comm({4}, 3, 0.1); }
TEST(Coverage, U3) { comm({2,4,8}, 10, 0.3); }

}  // namespace
