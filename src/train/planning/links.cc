#include "train/planning/links.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "base/median.h"
#include "train/channels.h"
#include "train/planning/stopwatch.h"

namespace convoy::train {
namespace {

constexpr int kRepetitions = 5;
constexpr int kSmall = 20;           // operations of a few bytes, one after the other
constexpr double kLongEnough = 0.2;  // seconds of a large one
constexpr std::size_t kLarger = 4;   // times as many bytes
constexpr std::size_t kLargest = std::size_t{16} << 20;
// Peers of an exchange at a time.
constexpr int kPeers = 8;

// Of work beside a transfer, which takes some tenths of a millisecond, and how often it is made to
// know what it takes alone.
constexpr std::size_t kWorked = 4096;
constexpr int kTimesWorked = 100, kAlone = 100;

// A rank that computes.
void work(std::vector<float>& values) {
  for (int i = 0; i < kTimesWorked; ++i) {
    for (float& value : values) value = value * 0.999F + 0.001F;
  }
  volatile float seen = values.back();  // somebody wants to know
  static_cast<void>(seen);
}

class LinkTimes {
 public:
  explicit LinkTimes(const comm::World& world)
      : all_(world.communicator().duplicate()), ranks_(world.size()) {}

  plan::Network measure();

 private:
  double over_ranks(double value, comm::ReduceOp operation) {
    std::vector<double> values{value};
    all_.allreduce(comm::buffer_of(values), operation, channels::kMeasured);
    return values[0];
  }
  double largest(double value) { return over_ranks(value, comm::ReduceOp::max); }

  // On the slowest rank; the median.
  double take(const std::function<void()>& use, int times) {
    std::vector<double> seconds;
    for (int i = 0; i < kRepetitions; ++i) {
      all_.barrier(channels::kMeasured);
      const Stopwatch wall;
      for (int j = 0; j < times; ++j) use();
      seconds.push_back(largest(wall.seconds() / times));
    }
    return median(seconds);
  }

  // The processor's seconds for a byte that a rank sends or receives, of a sum that travels while
  // the rank computes: who waits for one looks after it all the time, which takes more. What all
  // takes together without what the work takes alone; the mean over ranks.
  double processor_of_sum(std::size_t bytes, double moved) {
    memory_ = all_.allocate(bytes);
    std::vector<float> values(kWorked, 1);
    const auto alone = [&values] {
      const Stopwatch own(1);
      for (int j = 0; j < kAlone; ++j) work(values);
      return own.seconds() / kAlone;
    };
    std::vector<double> of_a_byte;
    for (int i = 0; i < kRepetitions; ++i) {
      all_.barrier(channels::kMeasured);
      const double before = alone();
      int worked = 0;
      const Stopwatch own(1);
      comm::Operation sum =
          all_.start_allreduce({memory_.bytes().data(), bytes / sizeof(float), comm::Type::f32},
                               comm::ReduceOp::sum, channels::kMeasuredSum);
      for (; !sum.done(); ++worked) work(values);
      sum.wait();
      const double together = own.seconds();
      const double processor = together - worked * (before + alone()) / 2;
      of_a_byte.push_back(over_ranks(processor, comm::ReduceOp::sum) / ranks_ /
                          (2 * moved * static_cast<double>(bytes)));
    }
    return std::max(0.0, median(of_a_byte));
  }

  std::function<void()> sum(std::size_t bytes) {
    memory_ = all_.allocate(bytes);
    return [this, bytes] {
      all_.allreduce({memory_.bytes().data(), bytes / sizeof(float), comm::Type::f32},
                     comm::ReduceOp::sum, channels::kMeasuredSum);
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
                     {in_.data(), in_.size(), comm::Type::u8}, counts_,
                     channels::kMeasuredExchange);
    };
  }

  // Makes an operation of so many bytes ready to be repeated.
  using Make = std::function<std::function<void()>(std::size_t bytes)>;

  // How many bytes take long enough: kLarger times as many until they do, `most` at most.
  std::size_t large_enough(const Make& make, std::size_t bytes, std::size_t most) {
    for (;; bytes *= kLarger) {
      const auto use = make(bytes);
      use();
      all_.barrier(channels::kMeasured);
      const Stopwatch wall;
      use();
      if (largest(wall.seconds()) >= kLongEnough || bytes * kLarger > most) return bytes;
    }
  }

  // Bytes that move on a link in a second, each way, by what more of them take of an operation that
  // moves `moved` of its bytes on each: what `bytes` take, and a kLarger-th of them.
  double rate(const Make& make, std::size_t bytes, double moved) {
    const double large = take(make(bytes), 1), small = take(make(bytes / kLarger), 1);
    const double all = moved * static_cast<double>(bytes), more = all * (1 - 1.0 / kLarger);
    // Something else has disturbed them, where the difference makes no sense.
    return large - small > large / 4 ? more / (large - small) : all / large;
  }

  comm::Communicator all_;
  int ranks_;
  comm::RegisteredMemory memory_;
  std::vector<std::byte> out_, in_;
  std::vector<std::size_t> counts_;
};

plan::Network LinkTimes::measure() {
  const double others = ranks_ - 1;
  plan::Network network;
  const auto small_sum = sum(sizeof(double));
  small_sum();
  network.latency_s = take(small_sum, kSmall) / std::ceil(std::log2(ranks_));
  const auto small_exchange = exchange(sizeof(double));
  small_exchange();
  network.exchange_latency_s = take(small_exchange, kSmall) / std::ceil(others / kPeers);

  const double moved = 2 * others / ranks_;
  const Make sums = [this](std::size_t bytes) { return sum(bytes); };
  const std::size_t summed = large_enough(sums, std::size_t{1} << 20, kLargest);
  network.bandwidth_bytes_per_s = rate(sums, summed, moved);
  network.processor_s_per_byte = processor_of_sum(summed, moved);
  const std::size_t ranks = counts_.size();
  const Make exchanges = [this](std::size_t bytes) { return exchange(bytes); };
  const std::size_t exchanged =
      large_enough(exchanges, (std::size_t{256} << 10) / ranks, kLargest / ranks);
  network.exchange_bandwidth_bytes_per_s = rate(exchanges, exchanged, others);
  return network;
}

}  // namespace

plan::Network measure_links(const comm::World& world) { return LinkTimes(world).measure(); }

}  // namespace convoy::train
