// A file that is read at any place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace convoy::data {

// Not mapped into memory: a mapped file that somebody cuts short kills the process with SIGBUS,
// while a read that finds less than there was is an error like any other. Any thread may read.
class InputFile {
 public:
  // Throws UsageError when there is no such file, it may not be read, or it is a folder.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  // When it was opened.
  std::uint64_t size() const { return size_; }

  // Fills `to` with the bytes from `offset` on. Throws Failure naming file and host when they can't
  // be read, also because the file has shrunk.
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  // Reads at most as much as fits; returns how much, 0 at the end.
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> to) const;
  // These bytes will be read soon.
  void announce(std::uint64_t offset, std::uint64_t count) const;

 private:
  [[noreturn]] void fail(const std::string& why) const;

  std::string path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace convoy::data
