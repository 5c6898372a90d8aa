// Indexes: refused, or consistent in all that they say.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "data/packed/index.h"
#include "tests/data/reseal.h"

namespace {

void parse(std::vector<std::byte> bytes) {
  using namespace convoy::data;
  try {
    const Index index(std::move(bytes), "an.index");
    std::uint64_t end = 0;
    std::size_t key_bytes = 0;
    for (std::size_t i = 0; i < index.size(); ++i) {
      const IndexEntry entry = index[i];
      if (index.gap_begin(i) != end || entry.offset < end) std::abort();
      end = entry.offset + entry.length;
      if (end < entry.offset || end > index.header().tar_bytes) std::abort();
      const auto classes = static_cast<std::int64_t>(index.header().classes.size());
      const std::vector<std::int64_t> labels = index.labels(i);
      if (!index.label_lists() && labels.size() != 1) std::abort();
      if (entry.label != (labels.empty() ? -1 : labels.front())) std::abort();
      std::int64_t last = -1;
      for (const std::int64_t label : labels) {
        if (label <= last || label >= classes) std::abort();
        last = label;
      }
      for (const char c : entry.key) key_bytes += c == 'x' ? 2 : 1;
    }
    static volatile std::size_t sink;  // so that the reads above stay
    sink = key_bytes;
    (void)sink;
  } catch (const convoy::UsageError&) {
    // Refused, as it should be.
  }
}

}  // namespace

// The input as it is, and with right checksums, without which nothing gets far.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  std::vector<std::byte> bytes(input.begin(), input.end());
  parse(bytes);
  convoy::data::reseal(bytes);
  parse(std::move(bytes));
  return 0;
}
