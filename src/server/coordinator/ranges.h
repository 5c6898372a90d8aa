// A set of numbers, as ranges.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace convoy::server::coordinator {

using Range = std::pair<std::uint64_t, std::uint64_t>;  // [begin, end)

class Ranges {
 public:
  void add(std::uint64_t begin, std::uint64_t end);  // none of it when begin >= end
  std::uint64_t size() const { return size_; }
  bool empty() const { return ranges_.empty(); }
  // How many of begin to end - 1 are in it.
  std::uint64_t inside(std::uint64_t begin, std::uint64_t end) const;
  // The first run of numbers from `from` to `end - 1` that are not in it; {end, end} if there is
  // none.
  Range gap(std::uint64_t from, std::uint64_t end) const;
  std::vector<Range> list() const;
  bool operator==(const Ranges&) const = default;

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // begin, end; they don't touch
  std::uint64_t size_ = 0;
};

}  // namespace convoy::server::coordinator
