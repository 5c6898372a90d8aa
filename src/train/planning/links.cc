#include "train/planning/links.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "base/median.h"
#include "train/planning/stopwatch.h"

namespace convoy::train {
namespace {

constexpr int kRepetitions = 5;
constexpr int kSmall = 20;           // operations of a few bytes, one after the other
constexpr double kLongEnough = 0.1;  // seconds of a large one
constexpr std::size_t kLargest = std::size_t{16} << 20;
constexpr comm::Match kSum{50, 0}, kExchange{50, 1}, kAnswer{50, 2};
// Peers of an exchange at a time.
constexpr int kPeers = 8;

struct Taken {
  double seconds = 0, processor = 0;
};

class Links {
 public:
  explicit Links(const comm::World& world)
      : all_(world.communicator().duplicate()), ranks_(world.size()) {}

  plan::Network measure();

 private:
  double largest(double value) {
    std::vector<double> values{value};
    all_.allreduce(comm::buffer_of(values), comm::ReduceOp::max, kAnswer);
    return values[0];
  }

  // On the slowest rank; medians.
  Taken take(const std::function<void()>& use, int times) {
    std::vector<double> seconds, processor;
    for (int i = 0; i < kRepetitions; ++i) {
      all_.barrier(kAnswer);
      const Stopwatch wall, own(1);
      for (int j = 0; j < times; ++j) use();
      const Taken taken{wall.seconds() / times, own.seconds() / times};
      seconds.push_back(largest(taken.seconds));
      processor.push_back(largest(taken.processor));
    }
    return {median(seconds), median(processor)};
  }

  std::function<void()> sum(std::size_t bytes) {
    memory_ = all_.allocate(bytes);
    return [this, bytes] {
      all_.allreduce({memory_.bytes().data(), bytes / sizeof(float), comm::Type::f32},
                     comm::ReduceOp::sum, kSum);
    };
  }

  // Every rank has as much for each other one.
  std::function<void()> exchange(std::size_t bytes) {
    const auto ranks = static_cast<std::size_t>(ranks_);
    out_.assign(bytes * ranks, std::byte{});
    in_.assign(bytes * ranks, std::byte{});
    counts_.assign(ranks, bytes);
    return [this] {
      all_.alltoallv({out_.data(), out_.size(), comm::Type::u8}, counts_,
                     {in_.data(), in_.size(), comm::Type::u8}, counts_, kExchange);
    };
  }

  // Larger and larger until they take long enough. The bytes, and what they took.
  std::pair<double, Taken> take_large(const std::function<std::function<void()>(std::size_t)>& make,
                                      std::size_t bytes, std::size_t most) {
    for (;; bytes *= 4) {
      const auto use = make(bytes);
      use();
      all_.barrier(kAnswer);
      const Stopwatch wall;
      use();
      if (largest(wall.seconds()) < kLongEnough && bytes * 4 <= most) continue;
      return {static_cast<double>(bytes), take(use, 1)};
    }
  }

  comm::Communicator all_;
  int ranks_;
  comm::RegisteredMemory memory_;
  std::vector<std::byte> out_, in_;
  std::vector<std::size_t> counts_;
};

plan::Network Links::measure() {
  const double others = ranks_ - 1;
  plan::Network network;
  const auto small_sum = sum(sizeof(double));
  small_sum();
  network.latency_s = take(small_sum, kSmall).seconds / std::ceil(std::log2(ranks_));
  const auto small_exchange = exchange(sizeof(double));
  small_exchange();
  network.exchange_latency_s = take(small_exchange, kSmall).seconds / std::ceil(others / kPeers);

  const auto [summed, sums] =
      take_large([this](std::size_t n) { return sum(n); }, std::size_t{1} << 20, kLargest);
  const double moved = 2 * summed * others / ranks_;
  const auto without = [](double seconds, double latency) {
    return std::max(seconds - latency, seconds / 2);
  };
  network.bandwidth_bytes_per_s = moved / without(sums.seconds, 2 * others * network.latency_s);
  const auto [each, exchanges] =
      take_large([this](std::size_t n) { return exchange(n); },
                 (std::size_t{256} << 10) / counts_.size(), kLargest / counts_.size());
  network.exchange_bandwidth_bytes_per_s =
      each * others / without(exchanges.seconds, network.exchange_latency_s);
  // Of each byte sent and each received.
  network.processor_s_per_byte = sums.processor / (2 * moved);
  return network;
}

}  // namespace

plan::Network measure_links(const comm::World& world) { return Links(world).measure(); }

}  // namespace convoy::train
