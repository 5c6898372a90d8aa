// Runs a fuzz target over its corpus without a fuzzer: every file as it is, then cut short at many
// places and with single bits flipped, the same ones each time.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "convoy/base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kCuts = 64;
constexpr std::size_t kFlips = 256;

std::size_t replay(const std::vector<std::uint8_t>& bytes) {
  std::size_t runs = 0;
  const auto run = [&runs](const std::vector<std::uint8_t>& input) {
    // A copy of the exact size, so that the sanitizer sees a read behind the end.
    const std::vector<std::uint8_t> exact(input.begin(), input.end());
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
    ++runs;
  };
  run(bytes);
  convoy::RandomStream random(1, bytes.size());
  for (std::size_t i = 0; i < std::min(kCuts, bytes.size()); ++i) {
    const std::size_t cut = bytes.size() <= kCuts ? i : random.below(bytes.size());
    run({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(cut)});
  }
  for (std::size_t i = 0; i < kFlips && !bytes.empty(); ++i) {
    std::vector<std::uint8_t> changed = bytes;
    // Headers stand at the front: half of the flips go there.
    const std::size_t range = i % 2 == 0 ? std::min<std::size_t>(bytes.size(), 128) : bytes.size();
    changed[random.below(range)] ^= static_cast<std::uint8_t>(1u << random.below(8));
    run(changed);
  }
  return runs;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  if (files.empty()) {
    std::fprintf(stderr, "replay: no file in the corpus\n");
    return 1;
  }
  std::sort(files.begin(), files.end());
  std::size_t runs = 0;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    runs += replay({std::istreambuf_iterator<char>(stream), {}});
  }
  std::printf("%zu files, %zu runs\n", files.size(), runs);
  return 0;
}
