#include "data/sound/filter_bank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>

#include "convoy/base/random.h"
#include "tests/data/support.h"
#include "tests/golden/read.h"

namespace convoy::data {
namespace {

// What the definition says, sum by sum.
TEST(PowerSpectrum, IsTheDefinition) {
  RandomStream random(5, 0);
  for (const std::size_t size : {2, 4, 8, 64, 256}) {
    SCOPED_TRACE(size);
    PowerSpectrum spectrum(size);
    EXPECT_EQ(spectrum.size(), size);
    for (const std::size_t count : {size, size - 1, std::size_t{1}}) {
      std::vector<double> x(count);
      for (double& value : x) value = random.uniform() - 0.5;
      const std::span<const double> power = spectrum.of(x);
      ASSERT_EQ(power.size(), size / 2 + 1);
      for (std::size_t k = 0; k < power.size(); ++k) {
        std::complex<double> sum = 0;
        for (std::size_t n = 0; n < count; ++n) {
          sum += std::polar(
              x[n], -2 * std::numbers::pi * static_cast<double>(k * n) / static_cast<double>(size));
        }
        EXPECT_NEAR(power[k], std::norm(sum), 1e-9);
      }
    }
  }
}

FilterBankOptions options_of(const nlohmann::json& c) {
  FilterBankOptions options;
  options.filters = c.at("filters");
  options.window_s = c.at("window_ms").get<double>() / 1000;
  options.step_s = c.at("step_ms").get<double>() / 1000;
  options.window = c.at("window") == "hann" ? FilterBankOptions::Window::hann
                                            : FilterBankOptions::Window::hamming;
  options.preemphasis = c.at("preemphasis");
  options.low_hz = c.at("low_hz");
  options.high_hz = c.at("high_hz");
  options.floor = c.at("floor");
  return options;
}

// tests/golden/make_mel.py has them from numpy and from Kaldi, which computes in single precision.
TEST(FilterBank, HasTheEnergiesOfTheFormulas) {
  const nlohmann::json cases = golden::read("mel.json");
  ASSERT_EQ(cases.size(), 6u);
  bool floor = false;
  for (const nlohmann::json& c : cases) {
    FilterBank bank(options_of(c), c.at("rate"));
    std::vector<float> samples;
    for (const int sample : c.at("samples")) samples.push_back(static_cast<float>(sample) / 32768);
    const std::vector<float> energies = bank.energies(samples);
    const nlohmann::json& want = c.at("energies");
    const double rounding = c.at("by") == "Kaldi" ? 1e-4 : 1e-5;
    ASSERT_EQ(want.size(), bank.frames(samples.size()));
    ASSERT_EQ(energies.size(), want.size() * bank.filters());
    for (std::size_t i = 0; i < energies.size(); ++i) {
      const double value = want[i / bank.filters()][i % bank.filters()];
      EXPECT_NEAR(energies[i], value, rounding) << i;
      floor = floor || std::abs(value - std::log(c.at("floor").get<double>())) < 1e-6;
    }
  }
  EXPECT_TRUE(floor);
}

TEST(FilterBank, FramesBeginAndEndWithinTheRecording) {
  FilterBank bank({}, 8000);
  EXPECT_EQ(bank.window(), 200u);
  EXPECT_EQ(bank.frames(0), 0u);
  EXPECT_EQ(bank.frames(199), 0u);
  EXPECT_EQ(bank.frames(200), 1u);
  EXPECT_EQ(bank.frames(279), 1u);
  EXPECT_EQ(bank.frames(280), 2u);
  EXPECT_TRUE(bank.energies(std::vector<float>(199, 0.5f)).empty());
}

TEST(FilterBank, RefusesWhatMakesNoSense) {
  const auto refused = [](const FilterBankOptions& options, const std::vector<std::string>& parts) {
    expect_error<UsageError>([&] { FilterBank(options, 8000); }, parts);
  };
  refused({.filters = 0}, {"0 filters"});
  refused({.filters = 1'000'000}, {"1000000 filters"});
  refused({.window_s = 0}, {"frames of 0 ms"});
  refused({.window_s = 1e9}, {"frames of"});
  refused({.window_s = std::nan("")}, {"frames of nan"});
  refused({.step_s = 0}, {"a step of 0 ms"});
  refused({.preemphasis = 1}, {"a pre-emphasis of 1"});
  refused({.window_s = 1e-4}, {"frames of 0.1 ms", "two samples"});
  refused({.step_s = 1e-4}, {"a step of 0.1 ms", "a sample"});
  refused({.low_hz = -1}, {"-1 to half the sampling rate"});
  refused({.low_hz = std::nan("")}, {"nan to half"});
  refused({.low_hz = 4000}, {"4000 to 4000 Hz"});
  refused({.low_hz = 3000, .high_hz = 2000}, {"3000 to 2000 Hz"});
  refused({.high_hz = 4001}, {"0 to 4001 Hz", "4000"});
  refused({.floor = 0}, {"a floor of 0"});
  refused({.filters = 200}, {"of 200 filters, number 0", "31.25 Hz", "(of 256 samples)"});
}

}  // namespace
}  // namespace convoy::data
