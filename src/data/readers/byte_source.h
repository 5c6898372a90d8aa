// Bytes that are read from the front: of memory or of a file, gzip-compressed or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/readers/input_file.h"

namespace convoy::data {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills `to`; returns how much of it, less only at the end.
  virtual std::size_t read(std::span<std::byte> to) = 0;
  // Passes over `count` bytes; returns how many there were.
  virtual std::uint64_t skip(std::uint64_t count);
};

// One thread at a time. read() and skip() throw UsageError naming the file when its compressed data
// are damaged or truncated.
class ByteSource final : public ByteStream {
 public:
  // `bytes` must outlive this. `name` stands in errors.
  ByteSource(std::span<const std::byte> bytes, std::string name);
  // Holds a piece of the file at a time. `file` must outlive this.
  explicit ByteSource(const InputFile& file);
  ~ByteSource() override;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  std::size_t read(std::span<std::byte> to) override;
  std::uint64_t skip(std::uint64_t count) override;

  const std::string& name() const { return name_; }
  // Whether the bytes are stored in compressed form.
  bool compressed() const { return inflater_ != nullptr; }
  // No more than this can still come: a bound before memory is allocated.
  std::size_t most_left() const;
  // How much of the stored bytes has been read.
  std::uint64_t consumed() const { return fetched_ - rest_.size(); }

 private:
  struct Inflater;
  bool fetch();
  bool at_gzip();
  void start();
  std::size_t stored_left() const;

  const InputFile* file_ = nullptr;
  std::uint64_t fetched_ = 0;  // of the stored bytes
  std::vector<std::byte> piece_;
  std::span<const std::byte> rest_;  // fetched and not yet used
  std::string name_;
  std::unique_ptr<Inflater> inflater_;  // null when the bytes are as they are
};

}  // namespace convoy::data
