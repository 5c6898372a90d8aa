// Element types, reductions and buffers of communication.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace convoy::comm {

enum class Type : std::uint8_t { f32, f64, f16, bf16, i32, i64, u8 };

std::size_t size_of(Type type);
const char* name_of(Type type);
bool is_floating(Type type);

template <class T>
consteval Type type_of() {
  using V = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<V, float>)
    return Type::f32;
  else if constexpr (std::is_same_v<V, double>)
    return Type::f64;
  else if constexpr (std::is_same_v<V, std::int32_t>)
    return Type::i32;
  else if constexpr (std::is_integral_v<V> && std::is_signed_v<V> && sizeof(V) == 8)
    return Type::i64;
  else {
    static_assert(sizeof(V) == 1,
                  "convoy::comm has f32, f64, i32, i64 and bytes; name f16 and bf16 by their Type");
    return Type::u8;
  }
}

// f16 and bf16 are added in f32. An algorithm may round after each addition, or once after several;
// all ranks get the same bits either way. `average` is the sum divided by the number of ranks, and
// is for floating types. NaN in any contribution gives NaN for sum and average; max and min keep
// what a plain `a < b ? b : a` over ranks gives.
enum class ReduceOp : std::uint8_t { sum, average, max, min };
const char* name_of(ReduceOp op);

// `count` elements of `type` at `data`. Refers to the caller's memory, which must stay valid and,
// for what an operation writes, untouched until that operation is done. Any alignment; null when
// count is 0.
struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;
  Type type = Type::u8;

  Buffer() = default;
  Buffer(void* data, std::size_t count, Type type) : data(data), count(count), type(type) {}
  template <class T, std::size_t N>
  requires(!std::is_const_v<T>) Buffer(std::span<T, N> s)
      : data(s.data()), count(s.size()), type(type_of<T>()) {}  // NOLINT: implicit

  std::size_t bytes() const { return count * size_of(type); }
};

struct ConstBuffer {
  const void* data = nullptr;
  std::size_t count = 0;
  Type type = Type::u8;

  ConstBuffer() = default;
  ConstBuffer(const void* data, std::size_t count, Type type)
      : data(data), count(count), type(type) {}
  ConstBuffer(const Buffer& b) : data(b.data), count(b.count), type(b.type) {}  // NOLINT: implicit
  template <class T, std::size_t N>
  ConstBuffer(std::span<T, N> s) : data(s.data()), count(s.size()), type(type_of<T>()) {}  // NOLINT

  std::size_t bytes() const { return count * size_of(type); }
};

// This is one part of a buffer for each rank, in elements: as many as counts[r] for rank r, from
// offsets[r] on. Without offsets, each follows the one of the rank before. Refers to the caller's
// numbers, which a call copies.
struct Parts {
  std::span<const std::size_t> counts;
  std::span<const std::size_t> offsets = {};

  Parts(std::span<const std::size_t> counts, std::span<const std::size_t> offsets = {})
      : counts(counts), offsets(offsets) {}                          // NOLINT: implicit
  Parts(const std::vector<std::size_t>& counts) : counts(counts) {}  // NOLINT: implicit
};

// Gives a container (vector, array) as a buffer: allreduce(buffer_of(values)).
template <class C>
auto buffer_of(C& container) {
  return std::span(container);
}

// This is what pairs the calls of different ranks: not the order of the calls, but this. Calls of
// one communicator with the same Match pair up in the order in which each rank makes them,
// collectives with collectives and messages with messages between the same two ranks. Where
// messages carry them they take turns: one begins when the one before it is done on this rank,
// whoever is waited for first. With different ones they go on side by side. The key is the caller's
// (a bucket, a layer, a neighbor); the channel keeps independent streams of keys apart.
struct Match {
  std::uint16_t channel = 0;  // 0 .. kChannels-1
  std::uint16_t key = 0;

  static constexpr std::uint16_t kChannels = 62;
};

}  // namespace convoy::comm
