#include "cli/bench/allreduce_measure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/median.h"
#include "cli/bench/largest.h"
#include "comm/internals.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

using comm::CommunicatorInternals;

}  // namespace

AllreduceMeasure::AllreduceMeasure(const comm::World& world, AllreduceSettings settings)
    : world_(world), settings_(std::move(settings)) {
  for (const Candidate& candidate : settings_.candidates) {
    if (candidate.kind == Candidate::Kind::mpi && !mpi_)
      mpi_ = std::make_unique<comm::MpiAllreduce>(world.communicator());
  }
}

comm::AllreduceChoice AllreduceMeasure::choice(const Candidate& candidate,
                                               std::size_t bytes) const {
  const comm::Communicator& all = world_.communicator();
  if (candidate.kind == Candidate::Kind::algorithm) return candidate.choice;
  return CommunicatorInternals::choose(all, bytes);
}

void AllreduceMeasure::reduce(const Candidate& candidate, comm::Buffer data) {
  if (candidate.kind == Candidate::Kind::mpi) {
    mpi_->run(data, comm::ReduceOp::sum);
    return;
  }
  CommunicatorInternals::allreduce(world_.communicator(), data, comm::ReduceOp::sum,
                                   choice(candidate, data.bytes()));
}

// A benchmark of wrong results is worth nothing. Leaves zeros, which stay zeros however often they
// are summed.
void AllreduceMeasure::check(const Candidate& candidate, comm::Buffer data) {
  auto* bytes = static_cast<unsigned char*>(data.data);
  const std::size_t element = comm::size_of(data.type);
  const auto index = [&](int rank) {
    return data.count * static_cast<std::size_t>(rank) / static_cast<std::size_t>(world_.size());
  };
  std::memset(bytes, 0, data.bytes());
  if (data.count < static_cast<std::size_t>(world_.size())) return reduce(candidate, data);
  // One in each rank's own place: 0 and 1 add up without rounding in every type.
  const std::uint16_t f16 = 0x3c00, bf16 = 0x3f80;
  const float f32 = 1;
  const double f64 = 1;
  const std::int64_t whole = 1;  // little-endian: its first bytes are a 1 of any size
  const void* one = &whole;
  if (data.type == comm::Type::f16) one = &f16;
  if (data.type == comm::Type::bf16) one = &bf16;
  if (data.type == comm::Type::f32) one = &f32;
  if (data.type == comm::Type::f64) one = &f64;
  std::memcpy(bytes + index(world_.rank()) * element, one, element);
  reduce(candidate, data);
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (std::memcmp(bytes + index(rank) * element, one, element) != 0)
      throw Failure(candidate.name + " gave a wrong sum of " + std::to_string(data.count) + " " +
                    comm::name_of(data.type));
  }
  std::memset(bytes, 0, data.bytes());
}

double AllreduceMeasure::seconds(const Candidate& candidate, comm::Buffer data, int times) {
  world_.communicator().barrier();
  const auto start = Clock::now();
  for (int i = 0; i < times; ++i) reduce(candidate, data);
  return largest(world_, seconds_since(start)) / times;
}

comm::Buffer AllreduceMeasure::buffer(const Candidate& candidate, Memory& memory,
                                      std::size_t count) const {
  const bool registered = settings_.registered && candidate.kind != Candidate::Kind::mpi;
  return {registered ? memory.registered.bytes().data() : memory.ordinary.data(), count,
          settings_.type};
}

std::vector<AllreduceTimes> AllreduceMeasure::run(std::size_t count) {
  const std::size_t bytes = count * comm::size_of(settings_.type);
  Memory memory{std::vector<std::byte>(bytes), {}};
  if (settings_.registered) memory.registered = world_.communicator().allocate(bytes);
  const std::size_t n = settings_.candidates.size();
  std::vector<int> times;
  for (const Candidate& candidate : settings_.candidates) {
    const comm::Buffer data = buffer(candidate, memory, count);
    check(candidate, data);  // the first use, which allocates
    double one = seconds(candidate, data, 1);
    if (one < settings_.seconds) one = seconds(candidate, data, 3);
    times.push_back(static_cast<int>(std::clamp(std::ceil(settings_.seconds / one), 1.0, 1e5)));
  }
  std::vector<AllreduceTimes> result(n);
  for (int repetition = 0; repetition < settings_.repetitions; ++repetition) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t at = (i + static_cast<std::size_t>(repetition)) % n;
      const Candidate& candidate = settings_.candidates[at];
      result[at].push_back(seconds(candidate, buffer(candidate, memory, count), times[at]));
    }
  }
  return result;
}

double measure_goodput(const comm::World& world, int repetitions) {
  const comm::Communicator& all = world.communicator();
  const int next = (all.rank() + 1) % all.size();
  const int previous = (all.rank() + all.size() - 1) % all.size();
  constexpr std::size_t kMessage = 1 << 20, kInFlight = 4;
  std::vector<std::byte> out(kInFlight * kMessage), in(out.size());
  const auto pass = [&](int rounds) {
    all.barrier();
    const auto start = Clock::now();
    std::array<comm::Operation, kInFlight> sends, receives;
    for (int i = 0; i < rounds; ++i) {
      for (std::size_t slot = 0; slot < kInFlight; ++slot) {
        receives[slot].wait();  // what was in this slot before
        sends[slot].wait();
        const comm::Match match{0, static_cast<std::uint16_t>(slot)};
        receives[slot] = all.start_receive({in.data() + slot * kMessage, kMessage, comm::Type::u8},
                                           previous, match);
        sends[slot] =
            all.start_send({out.data() + slot * kMessage, kMessage, comm::Type::u8}, next, match);
      }
    }
    for (auto& operation : receives) operation.wait();
    for (auto& operation : sends) operation.wait();
    return static_cast<double>(rounds) * static_cast<double>(out.size()) /
           largest(world, seconds_since(start));
  };
  const double first = pass(2);
  // About a second each: starting and ending, when links are idle, must not count.
  const int rounds =
      std::clamp(static_cast<int>(std::ceil(first / static_cast<double>(out.size()))), 4, 10'000);
  std::vector<double> rates;
  for (int i = 0; i < repetitions; ++i) rates.push_back(pass(rounds));
  return median(rates);
}

double measure_stream(const comm::World& world, int repetitions) {
  std::vector<float> data(std::size_t{16} << 20, 0.0F);
  const auto pass = [&](int rounds) {
    world.communicator().barrier();
    const auto start = Clock::now();
    for (int i = 0; i < rounds; ++i) {
      for (float& value : data) value += 1.0F;
    }
    const double traffic =
        2.0 * static_cast<double>(rounds) * static_cast<double>(data.size() * sizeof(float));
    return traffic / largest(world, seconds_since(start));
  };
  pass(1);
  std::vector<double> rates;
  for (int i = 0; i < repetitions; ++i) rates.push_back(pass(5));
  return median(rates);
}

}  // namespace convoy::cli
