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
constexpr double kLongEnough = 0.2;  // seconds of a large one
constexpr std::size_t kLarger = 4;   // times as many bytes
constexpr std::size_t kLargest = std::size_t{16} << 20;
constexpr comm::Match kSum{50, 0}, kExchange{50, 1}, kAnswer{50, 2};
// Peers of an exchange at a time.
constexpr int kPeers = 8;

struct Taken {
  double seconds = 0, processor = 0;
};

// Of what moves on a link, each way.
struct Rate {
  double bytes_per_s = 0, processor_s = 0;  // the processor's for a byte
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

  // What more bytes take, of an operation that moves `moved` of its bytes on each link.
  Rate rate(const std::function<std::function<void()>(std::size_t)>& make, std::size_t bytes,
            std::size_t most, double moved) {
    // Larger and larger until they take long enough.
    for (;; bytes *= kLarger) {
      const auto use = make(bytes);
      use();
      all_.barrier(kAnswer);
      const Stopwatch wall;
      use();
      if (largest(wall.seconds()) >= kLongEnough || bytes * kLarger > most) break;
    }
    const Taken large = take(make(bytes), 1), small = take(make(bytes / kLarger), 1);
    const double all = moved * static_cast<double>(bytes), more = all * (1 - 1.0 / kLarger);
    const double seconds = large.seconds - small.seconds;
    // Something else has disturbed them, where the difference makes no sense.
    const bool good = seconds > large.seconds / 4;
    const double processor = large.processor - small.processor;
    return {good ? more / seconds : all / large.seconds,
            processor > 0 ? processor / more : large.processor / all};
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

  const Rate sums = rate([this](std::size_t n) { return sum(n); }, std::size_t{1} << 20, kLargest,
                         2 * others / ranks_);
  network.bandwidth_bytes_per_s = sums.bytes_per_s;
  const std::size_t ranks = counts_.size();
  const Rate exchanges = rate([this](std::size_t n) { return exchange(n); },
                              (std::size_t{256} << 10) / ranks, kLargest / ranks, others);
  network.exchange_bandwidth_bytes_per_s = exchanges.bytes_per_s;
  network.processor_s_per_byte = sums.processor_s / 2;  // of each that is sent, and received
  return network;
}

}  // namespace

plan::Network measure_links(const comm::World& world) { return Links(world).measure(); }

}  // namespace convoy::train
