#include "stripes.h"

#include <convoy/base/error.h>
#include <convoy/base/random.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string>
#include <vector>

namespace {

using convoy::RandomStream;

constexpr int kSide = 24;

class Stripes final : public convoy::data::Dataset {
 public:
  Stripes(std::size_t samples, std::uint64_t seed, double noise)
      : samples_(samples), seed_(seed), noise_(noise) {}

  std::size_t size() const override { return samples_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::string key(std::size_t i) const override { return "stripes[" + std::to_string(i) + "]"; }

  // As many of each class, without drawing anything.
  std::int64_t label(std::size_t i) const override {
    return static_cast<std::int64_t>(i % classes_.size());
  }

  // Called by the decoding threads of the loader at the same time: everything that changes is
  // `scratch`, which is the caller's.
  convoy::data::Record read(std::size_t i, std::vector<std::byte>& scratch) const override {
    scratch.resize(kSide * kSide);
    draw(i, scratch.data());
    return {.bytes = scratch,
            .encoding = convoy::data::Encoding::planar_u8,
            .shape = {1, kSide, kSide},
            .label = label(i)};
  }

  // Ranks compare it, and a checkpoint is resumed only with the data it was trained on.
  std::uint64_t fingerprint() const override {
    return RandomStream(samples_, seed_, std::bit_cast<std::uint64_t>(noise_))();
  }

 private:
  void draw(std::size_t i, std::byte* pixels) const {
    RandomStream random(seed_, i);
    const double turn = 2 * std::numbers::pi;
    const double frequency = turn / (4 + 4 * random.uniform());  // stripes of 2 to 4 pixels
    const double phase = turn * random.uniform();
    const double contrast = 0.2 + 0.3 * random.uniform();
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const double place[] = {1.0 * y, 1.0 * x, (x + y) / std::numbers::sqrt2,
                                (x - y) / std::numbers::sqrt2};
        const double wave = std::sin(frequency * place[label(i)] + phase);
        const double value = 0.5 + contrast * wave + noise_ * (2 * random.uniform() - 1);
        *pixels++ = static_cast<std::byte>(std::lround(255 * std::clamp(value, 0.0, 1.0)));
      }
    }
  }

  std::size_t samples_;
  std::uint64_t seed_;
  double noise_;
  std::vector<std::string> classes_{"horizontal", "vertical", "rising", "falling"};
};

}  // namespace

std::shared_ptr<convoy::data::Dataset> draw_stripes(std::int64_t samples, std::int64_t seed,
                                                    double noise) {
  // Values of a recipe come from a user: what is wrong with them is a UsageError.
  if (samples < 1) {
    throw convoy::UsageError("stripes: samples is " + std::to_string(samples) +
                             "; it has to be at least 1");
  }
  if (!(noise >= 0 && noise <= 1)) throw convoy::UsageError("stripes: noise has to be 0 to 1");
  return std::make_shared<Stripes>(static_cast<std::size_t>(samples),
                                   static_cast<std::uint64_t>(seed), noise);
}
