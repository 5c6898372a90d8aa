#include "data/store/load.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>

namespace convoy::data {
namespace {

// What a thread reads at a time: consecutive, so that the disk reads ahead.
constexpr std::uint64_t kPiece = std::uint64_t{8} << 20;

}  // namespace

std::uint64_t LoadableDataset::bytes(Range records) const {
  std::uint64_t total = 0;
  for (std::size_t i = records.begin; i < records.end; ++i) total += length(i);
  return total;
}

Range consecutive_part(const LoadableDataset& source, int rank, int ranks) {
  // A record weighs its bytes, and a byte more: empty ones are shared out as well.
  const std::uint64_t total = source.bytes({0, source.size()}) + source.size();
  const auto parts = static_cast<std::uint64_t>(ranks);
  const auto border = [&](int part) {
    const auto p = static_cast<std::uint64_t>(part);
    return total / parts * p + total % parts * p / parts;
  };
  Range part{source.size(), source.size()};
  std::uint64_t weight = 0;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (part.begin == source.size() && weight >= border(rank)) part.begin = i;
    if (weight >= border(rank + 1)) {
      part.end = i;
      break;
    }
    weight += source.length(i) + 1;
  }
  return part;
}

void load_records(const LoadableDataset& source, Range records,
                  const std::vector<std::uint64_t>& offsets, std::span<std::byte> to, int threads,
                  const Tell& tell) {
  std::mutex mutex;
  std::size_t next = 0;    // slot
  std::uint64_t done = 0;  // bytes
  std::exception_ptr error;
  std::size_t error_at = 0;
  const auto work = [&] {
    std::unique_lock lock(mutex);
    while (next < records.size() && !error) {
      const std::size_t first = next;
      const auto wanted = offsets[first] + kPiece;
      const auto end = std::upper_bound(offsets.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                                        offsets.end(), wanted) -
                       offsets.begin() - 1;
      const std::size_t last = std::max(first + 1, static_cast<std::size_t>(end));
      next = last;
      lock.unlock();
      std::exception_ptr mine;
      try {
        source.load({records.begin + first, records.begin + last},
                    to.subspan(offsets[first], offsets[last] - offsets[first]));
      } catch (...) {
        mine = std::current_exception();
      }
      lock.lock();
      done += offsets[last] - offsets[first];
      try {
        if (!mine && !error && tell)
          tell(static_cast<double>(done), static_cast<double>(offsets[records.size()]));
      } catch (...) {
        mine = std::current_exception();
      }
      if (mine && (!error || first < error_at)) {
        error = mine;
        error_at = first;
      }
    }
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  others.clear();  // joins them
  if (error) std::rethrow_exception(error);
}

}  // namespace convoy::data
