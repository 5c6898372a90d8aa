// How much memory large pictures take that are decoded at the same time.
#pragma once

#include <cstddef>

namespace convoy::data {

// Of all threads of a process together, in bytes of pixels.
inline constexpr std::size_t kLargeTogether = std::size_t{2} << 30;

// A large picture from before it is decoded until its memory is given back. Without it, sixteen
// threads that meet the largest pictures at once would take what sixteen of them take, and a file
// of some kilobytes can be one.
class LargePicture {
 public:
  // Waits until it and those that are there fit, or there is none; in the order of calls. A thread
  // that has one must not ask for another.
  explicit LargePicture(std::size_t bytes);
  ~LargePicture();
  LargePicture(const LargePicture&) = delete;
  LargePicture& operator=(const LargePicture&) = delete;

  // How many wait.
  static std::size_t waiting();

 private:
  std::size_t bytes_;
};

}  // namespace convoy::data
