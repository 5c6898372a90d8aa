// A stream of bytes as lines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace convoy::cli {

// Holds back what is not a whole line yet. Bytes may be anything; only a newline ends a line, or
// its length does.
class LineCutter {
 public:
  static constexpr std::size_t kLongest = 65536;

  // Calls take(std::string_view) for each line that these bytes complete, with its newline; a piece
  // of kLongest bytes or a little more comes without one.
  template <class Take>
  void feed(std::string_view bytes, const Take& take) {
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      const std::size_t length = end == std::string_view::npos ? bytes.size() : end + 1;
      held_ += bytes.substr(0, length);
      bytes.remove_prefix(length);
      if (end != std::string_view::npos || held_.size() >= kLongest) finish(take);
    }
  }

  // Calls take() with what is held, if anything is: a line that nobody has ended.
  template <class Take>
  void finish(const Take& take) {
    if (!held_.empty()) take(std::string_view(held_));
    held_.clear();
  }

 private:
  std::string held_;
};

}  // namespace convoy::cli
