// Shards that have the slices of one long vector between them.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "convoy/optim/space.h"
#include "server/state/batch_commands.h"
#include "tests/server/state/shard.h"

namespace convoy::server::test {

using optim::VectorName;
using optim::VectorRole;

template <typename T>
constexpr Element element_of() {
  return std::is_same_v<T, double> ? Element::f64 : Element::f32;
}

template <typename T>
BatchValues batch_values(std::span<const T> values) {
  return {element_of<T>(), false, values.size(), std::as_bytes(values)};
}

// With numbers of very different sizes, some of them zeros of both signs.
template <typename T>
std::vector<T> random_values(std::size_t size, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<T> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    values[i] = static_cast<T>(normal(random) * std::exp2(static_cast<int>(random() % 40) - 20));
    if (i % 17 == 0) values[i] = i % 2 == 0 ? T{0} : -T{0};
  }
  return values;
}

// Each with two slices, as even as can be, and a statistic between them.
template <typename T>
struct BatchShards {
  BatchShards(std::size_t shards, std::size_t size) : size(size) {
    for (std::size_t s = 0; s < shards; ++s) {
      const std::size_t begin = size * s / shards, end = size * (s + 1) / shards;
      const std::size_t middle = begin + (end - begin) / 3;
      begins.push_back({begin, middle, end});
      states.emplace_back();
      EXPECT_EQ(give(states[s], define_command(definition({slice("a", middle - begin),
                                                           slice("mean", 2, std::nullopt),
                                                           slice("b", end - middle)})))
                    .status,
                Status::done);
    }
    all(space_command(element_of<T>()));
  }

  // To all shards; what the first one says.
  Reply all(const Bytes& command) {
    Reply first;
    for (std::size_t s = 0; s < states.size(); ++s) {
      const Reply reply = give(states[s], command);
      if (s == 0) first = reply;
      EXPECT_EQ(reply.status, first.status) << reply.message;
    }
    return first;
  }
  std::vector<BatchSlice> slices(std::size_t shard, const std::vector<T>& values) const {
    const auto& [begin, middle, end] = begins[shard];
    const std::span<const T> span(values);
    return {{0, batch_values(span.subspan(begin, middle - begin))},
            {2, batch_values(span.subspan(middle, end - middle))}};
  }
  void put(const VectorName& name, const std::vector<T>& values, std::uint64_t ordinal = 0) {
    for (std::size_t s = 0; s < states.size(); ++s) {
      EXPECT_EQ(give(states[s], put_command(ordinal, name, slices(s, values))).status,
                Status::done);
    }
  }
  std::vector<T> get(const VectorName& name) const {
    std::vector<T> values;
    for (const ShardState& state : states) {
      const BatchVectorPtr vector = state.vector(name);
      for (const std::size_t slice : {0, 2}) {
        const T* data = vector->slices[slice]->template data<T>();
        values.insert(values.end(), data, data + vector->slices[slice]->size());
      }
    }
    return values;
  }
  double dot(const VectorName& a, const VectorName& b) const {
    const optim::VectorPair pair{a, b};
    ExactSum sum;
    for (const ShardState& state : states) sum.add(state.dots({&pair, 1}).front());
    return sum.value();
  }

  struct Begins {
    std::size_t begin, middle, end;
  };
  std::size_t size;
  std::vector<Begins> begins;
  std::deque<ShardState> states;
};

template <typename T>
void expect_same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(T)), 0);
}

}  // namespace convoy::server::test
