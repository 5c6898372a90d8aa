// Every algorithm of allreduce against a serial program, for thread ranks and MPI ranks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "comm/internals.h"
#include "convoy/base/random.h"

namespace convoy::comm {

// The same group as if its ranks were on hosts of `per_host` ranks each.
inline Communicator on_hosts(const Communicator& all, int per_host) {
  Communicator part = all.duplicate();
  std::vector<std::string> hosts;
  for (int rank = 0; rank < all.size(); ++rank)
    hosts.push_back("host" + std::to_string(rank / per_host));
  CommunicatorInternals::locate(part, hosts);
  return part;
}

// The same group with memory of its own, going the ways of processes.
inline Communicator apart(const Communicator& all) {
  Communicator part = all.duplicate();
  if (CommunicatorInternals::locality(part).node)
    CommunicatorInternals::locality(part).node->keep_apart();
  return part;
}

inline void PrintTo(const AllreduceChoice& choice, std::ostream* out) {
  *out << "algorithm " << static_cast<int>(choice.algorithm) << ", colors " << choice.colors
       << ", segments of " << choice.pipeline.segment_bytes << " B, " << choice.pipeline.in_flight
       << " in flight";
}

// All that the group can use.
inline std::vector<AllreduceChoice> every_allreduce(const Communicator& comm) {
  using enum AllreduceAlgorithm;
  const Pipeline one_by_one{64, 1}, short_segments{100, 3}, usual;
  std::vector<AllreduceChoice> choices{{naive}, {recursive_doubling}};
  for (const Pipeline& pipeline : {one_by_one, short_segments, usual}) {
    choices.push_back({ring, 0, pipeline});
    choices.push_back({ring_rsag, 0, pipeline});
    choices.push_back({multicolor, AllreduceChoice::kChosenColors, pipeline});
    choices.push_back({multicolor, AllreduceChoice::kColorPerRank, pipeline});
  }
  // Interiors that are disjoint and not, more colors than ranks, than elements, and than lanes.
  for (int colors : {1, 2, 3, 5, 8, 16, 70})
    choices.push_back({multicolor, colors, short_segments});
  const Abilities abilities = CommunicatorInternals::abilities(comm);
  if (abilities.shared) choices.push_back({shared});
  if (abilities.hierarchical) {
    for (int colors : {AllreduceChoice::kChosenColors, AllreduceChoice::kColorPerRank, 1, 3})
      choices.push_back({hierarchical, colors, short_segments});
  }
  return choices;
}

// Small whole numbers: every order of summation gives the same sum exactly, in every type.
inline double reference_value(int rank, std::size_t i) {
  return static_cast<double>((i * 7 + static_cast<std::size_t>(rank) * 5) % 16);
}

inline void store(Type type, void* data, std::size_t i, double value) {
  const auto put = [&]<class T>(T v) {
    std::memcpy(static_cast<char*>(data) + i * sizeof(T), &v, sizeof(T));
  };
  // Whole numbers up to 15 need no rounding in 16 bits: the exponent and three bits.
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  switch (type) {
    case Type::f32:
      return put(static_cast<float>(value));
    case Type::f64:
      return put(value);
    case Type::f16:
      return put(static_cast<std::uint16_t>(value == 0 ? 0 : (bits - (112U << 23)) >> 13));
    case Type::bf16:
      return put(static_cast<std::uint16_t>(bits >> 16));
    case Type::i32:
      return put(static_cast<std::int32_t>(value));
    case Type::i64:
      return put(static_cast<std::int64_t>(value));
    case Type::u8:
      return put(static_cast<std::uint8_t>(value));
  }
}

inline double load(Type type, const void* data, std::size_t i) {
  const auto get = [&]<class T>(T v) {
    std::memcpy(&v, static_cast<const char*>(data) + i * sizeof(T), sizeof(T));
    return v;
  };
  switch (type) {
    case Type::f32:
      return static_cast<double>(get(float{}));
    case Type::f64:
      return get(double{});
    case Type::f16: {
      const std::uint32_t bits = get(std::uint16_t{});  // no subnormals here
      return bits == 0 ? 0 : static_cast<double>(std::bit_cast<float>((bits << 13) + (112U << 23)));
    }
    case Type::bf16:
      return static_cast<double>(
          std::bit_cast<float>(static_cast<std::uint32_t>(get(std::uint16_t{})) << 16));
    case Type::i32:
      return get(std::int32_t{});
    case Type::i64:
      return static_cast<double>(get(std::int64_t{}));
    default:
      return get(std::uint8_t{});
  }
}

inline double reference_result(int ranks, std::size_t i, ReduceOp op) {
  double result = reference_value(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const double other = reference_value(rank, i);
    if (op == ReduceOp::max)
      result = std::max(result, other);
    else if (op == ReduceOp::min)
      result = std::min(result, other);
    else
      result += other;
  }
  return op == ReduceOp::average ? result / ranks : result;
}

inline void check_one_allreduce(const Communicator& comm, const AllreduceChoice& choice, Type type,
                                ReduceOp op, std::size_t count) {
  // One byte beyond an aligned address: buffers may lie anywhere.
  std::vector<char> memory(count * size_of(type) + 1);
  char* data = memory.data() + 1;
  for (std::size_t i = 0; i < count; ++i) store(type, data, i, reference_value(comm.rank(), i));
  CommunicatorInternals::start_allreduce(comm, Buffer(data, count, type), op, choice).wait();
  // Half a unit in the last place of what a quotient is rounded to.
  const bool rounds = op == ReduceOp::average;
  const double rounding = type == Type::f16 ? 0x1p-11 : type == Type::bf16 ? 0x1p-8 : 0x1p-24;
  for (std::size_t i = 0; i < count; ++i) {
    const double want = reference_result(comm.size(), i, op);
    ASSERT_NEAR(load(type, data, i), want, rounds ? want * rounding : 0)
        << testing::PrintToString(choice) << ", " << name_of(type) << ", " << name_of(op)
        << ", element " << i << " of " << count << ", " << comm.size() << " ranks";
  }
}

inline void check_every_allreduce(const Communicator& comm) {
  RandomStream random(11, static_cast<std::uint64_t>(comm.size()));  // the same on every rank
  const auto ranks = static_cast<std::size_t>(comm.size());
  for (const AllreduceChoice& choice : every_allreduce(comm)) {
    for (Type type :
         {Type::f32, Type::f64, Type::f16, Type::bf16, Type::i32, Type::i64, Type::u8}) {
      for (ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max, ReduceOp::min}) {
        const bool whole = type == Type::i32 || type == Type::i64 || type == Type::u8;
        if (whole && op == ReduceOp::average) continue;
        check_one_allreduce(comm, choice, type, op, random.below(ranks));
        check_one_allreduce(comm, choice, type, op, ranks + random.below(500));
        if (testing::Test::HasFatalFailure()) return;
      }
    }
    for (std::size_t count : {std::size_t{0}, ranks - 1, ranks, ranks + 1, std::size_t{4099}})
      check_one_allreduce(comm, choice, Type::f32, ReduceOp::sum, count);
  }
}

// Numbers that round: the same bits on every rank, in every run, for every cut into segments.
inline void check_allreduce_bits(const Communicator& comm) {
  constexpr std::size_t kCount = 3001;
  const auto sum = [&](const AllreduceChoice& choice) {
    RandomStream random(3, static_cast<std::uint64_t>(comm.rank()));
    std::vector<float> data(kCount);
    for (float& value : data) value = static_cast<float>(random.uniform() - 0.5);
    CommunicatorInternals::start_allreduce(comm, Buffer(std::span(data)), ReduceOp::sum, choice)
        .wait();
    return data;
  };
  for (AllreduceChoice choice : every_allreduce(comm)) {
    const std::vector<float> mine = sum(choice);
    std::vector<float> first = mine;
    comm.broadcast(buffer_of(first), 0);
    ASSERT_EQ(mine, first) << testing::PrintToString(choice);
    choice.pipeline = {500, 2};
    ASSERT_EQ(mine, sum(choice)) << testing::PrintToString(choice);
  }
}

// Numbers that tell apart who added what to what, and in which mode: NaNs of several payloads and
// signs, infinities, zeros of both signs, subnormals, and numbers whose sums round.
inline void fill_hard_values(Type type, void* data, std::size_t count, int rank) {
  RandomStream random(17, static_cast<std::uint64_t>(rank), count);
  const std::size_t size = size_of(type);
  const int exponent_bits = type == Type::f64 ? 11 : type == Type::f16 ? 5 : 8;
  const int mantissa_bits = static_cast<int>(size) * 8 - 1 - exponent_bits;
  const std::uint64_t sign = std::uint64_t{1} << (size * 8 - 1);
  const std::uint64_t infinity = ((std::uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  const std::uint64_t fraction = (std::uint64_t{1} << mantissa_bits) - 1;
  const std::uint64_t one = (((std::uint64_t{1} << exponent_bits) - 1) >> 1) << mantissa_bits;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t any = random.below(std::uint64_t{1} << 62);
    std::uint64_t bits = random.below(2) == 0 ? sign : 0;
    switch (random.below(9)) {
      case 0:  // quiet
        bits |= infinity | (std::uint64_t{1} << (mantissa_bits - 1)) | (any & (fraction >> 1));
        break;
      case 1:
        bits |= infinity;
        break;
      case 2:
      case 3:
        break;
      case 4:
      case 5:
        bits |= any & fraction;  // subnormal
        break;
      case 6:
        bits |= (std::uint64_t{1} << mantissa_bits) | (any & fraction);  // sums may be subnormal
        break;
      default:
        bits |= (one + ((random.below(5)) << mantissa_bits)) | (any & fraction);
    }
    std::memcpy(static_cast<char*>(data) + i * size, &bits, size);  // little-endian
  }
}

// While it lives, this thread takes subnormals for zero, as LibTorch's set_flush_denormal has it.
class FlushSubnormals {
 public:
#if defined(__x86_64__)
  explicit FlushSubnormals(bool on) : before_(_mm_getcsr()) {
    if (on) _mm_setcsr(before_ | 0x8040);
  }
  ~FlushSubnormals() { _mm_setcsr(before_); }
#else
  explicit FlushSubnormals(bool) {}
#endif
  FlushSubnormals(const FlushSubnormals&) = delete;

 private:
  [[maybe_unused]] unsigned before_ = 0;
};

// Every algorithm and operation gives all ranks the same bits, also of numbers where `a op b` and
// `b op a` differ, and in threads that treat subnormals differently.
inline void check_hard_bits(const Communicator& comm) {
  const FlushSubnormals mode(comm.rank() % 2 == 1);
  for (const AllreduceChoice& choice : every_allreduce(comm)) {
    // Segments and colors only move the same additions to other ranks.
    if (choice.pipeline.segment_bytes < 100 || choice.colors > 3) continue;
    // Of one algorithm, all results after another.
    std::vector<char> mine;
    std::vector<std::string> parts;
    for (const Type type : {Type::f32, Type::f64, Type::f16, Type::bf16}) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max, ReduceOp::min}) {
        const bool large = (static_cast<int>(type) + static_cast<int>(op)) % 2 ==
                           0;  // the other way through shared memory
        const std::size_t count = (large ? 17'000 : 1500) / size_of(type);
        std::vector<char> data(count * size_of(type));
        fill_hard_values(type, data.data(), count, comm.rank());
        CommunicatorInternals::start_allreduce(comm, Buffer(data.data(), count, type), op, choice)
            .wait();
        mine.insert(mine.end(), data.begin(), data.end());
        parts.resize(mine.size() / 100 + 1, std::string(name_of(type)) + ", " + name_of(op));
      }
    }
    std::vector<char> first = mine;
    comm.broadcast(buffer_of(first), 0);
    const auto difference = std::mismatch(mine.begin(), mine.end(), first.begin()).first;
    ASSERT_EQ(difference, mine.end())
        << testing::PrintToString(choice) << ", "
        << parts[static_cast<std::size_t>(difference - mine.begin()) / 100] << ", " << comm.size()
        << " ranks";
  }
}

}  // namespace convoy::comm
