// Every algorithm of allreduce against a serial program, for thread ranks and MPI ranks.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

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

}  // namespace convoy::comm
