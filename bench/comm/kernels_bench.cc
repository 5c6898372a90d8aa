// The sums of communication against plain loops and against what memory gives.
//
//   kernels_bench --benchmark_filter=f32 --benchmark_repetitions=5
//
// "kernel/f32/4/67108864": four sources of 64 MiB in one pass; "chain/...": the same by sums of
// two; "loop/...": a chain of loops as the compiler vectorizes them. Bytes per second count each
// source once and the result once, whatever is passed over again, so rates compare as times do.
#include <benchmark/benchmark.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "comm/kernels/reduce.h"

namespace convoy::comm {
namespace {

float widen_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
std::uint16_t narrow_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
float widen_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t rest = bits & 0x7fff;
  if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | ((rest & 0x3ff) << 13));
  const float magnitude = std::bit_cast<float>(rest << 13) * 0x1p112F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
}
std::uint16_t narrow_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (magnitude < 0x38800000) {
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1;
  return static_cast<std::uint16_t>(sign | ((magnitude + 0xc8000fff + odd) >> 13));
}

template <class T, class F>
void plain_sum(void* into, const void* from, std::size_t count, F&& f) {
  auto* a = static_cast<char*>(into);
  const auto* b = static_cast<const char*>(from);
  for (std::size_t i = 0; i < count; ++i) {
    T x, y;
    std::memcpy(&x, a + i * sizeof(T), sizeof(T));
    std::memcpy(&y, b + i * sizeof(T), sizeof(T));
    x = f(x, y);
    std::memcpy(a + i * sizeof(T), &x, sizeof(T));
  }
}

void loop(Type type, void* into, const void* from, std::size_t count) {
  if (type == Type::f32)
    return plain_sum<float>(into, from, count, [](float x, float y) { return x + y; });
  if (type == Type::bf16) {
    return plain_sum<std::uint16_t>(into, from, count, [](std::uint16_t x, std::uint16_t y) {
      return narrow_bf16(widen_bf16(x) + widen_bf16(y));
    });
  }
  plain_sum<std::uint16_t>(into, from, count, [](std::uint16_t x, std::uint16_t y) {
    return narrow_f16(widen_f16(x) + widen_f16(y));
  });
}

enum class Way { kernel, chain, loop };

void run(benchmark::State& state, Way way, Type type) {
  const auto sources = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  const std::size_t count = bytes / size_of(type);
  // Zeros of each source's own pages; sums of zeros stay zeros, however often.
  std::vector<std::vector<std::byte>> memory(sources, std::vector<std::byte>(bytes));
  std::vector<const void*> pointers;
  for (const auto& source : memory) pointers.push_back(source.data());
  for (auto _ : state) {
    if (way == Way::kernel) reduce_all(ReduceOp::sum, type, memory[0].data(), pointers, count);
    for (std::size_t s = 1; s < sources && way == Way::chain; ++s)
      reduce(ReduceOp::sum, type, memory[0].data(), pointers[s], count);
    for (std::size_t s = 1; s < sources && way == Way::loop; ++s)
      loop(type, memory[0].data(), pointers[s], count);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>((sources + 1) * bytes));
}

// What memory gives: bytes read plus bytes written.
void copy(benchmark::State& state) {
  std::vector<std::byte> from(static_cast<std::size_t>(state.range(0))), to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * state.range(0));
}

const bool registered = [] {
  constexpr std::int64_t kSizes[] = {256 << 10, 64 << 20};  // in the cache, and not
  for (const std::int64_t bytes : kSizes) benchmark::RegisterBenchmark("copy", copy)->Arg(bytes);
  for (const Type type : {Type::f32, Type::bf16, Type::f16}) {
    for (const Way way : {Way::kernel, Way::chain, Way::loop}) {
      const char* ways[] = {"kernel", "chain", "loop"};
      const std::string name =
          std::string(ways[static_cast<std::size_t>(way)]) + "/" + name_of(type);
      auto* bench = benchmark::RegisterBenchmark(
          name.c_str(), [way, type](benchmark::State& state) { run(state, way, type); });
      for (const std::int64_t bytes : kSizes)
        for (const std::int64_t sources : {2, 4, 8}) bench->Args({sources, bytes});
    }
  }
  return true;
}();

}  // namespace
}  // namespace convoy::comm
