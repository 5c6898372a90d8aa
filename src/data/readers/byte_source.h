// The bytes of a file that may be gzip-compressed, read from the front.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace convoy::data {

class ByteSource {
 public:
  // `bytes` must outlive this. `name` stands in errors.
  ByteSource(std::span<const std::byte> bytes, std::string name);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Fills `to`; returns how much of it, less only at the end. Throws UsageError naming the file
  // when the compressed data are damaged or truncated.
  std::size_t read(std::span<std::byte> to);

  // No more than this can still come: a bound before memory is allocated.
  std::size_t most_left() const;

 private:
  struct Inflater;
  std::span<const std::byte> rest_;
  std::string name_;
  std::unique_ptr<Inflater> inflater_;  // null when the bytes are as they are
};

}  // namespace convoy::data
