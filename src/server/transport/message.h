// What travels between a client and a server of parameters: bytes in parts, whose owners live as
// long as the parts do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace convoy::server::transport {

// Bytes and what keeps them alive (null: the bytes outlive the message anyway).
struct Part {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

// A list of parts that is read as one run of bytes. Copies share the bytes. What a message refers
// to must not move until the last copy is gone; it may change, and the peer then gets old or new
// bytes.
//
// Threads: one at a time, as with a vector; copies are independent.
class Message {
 public:
  Message() = default;
  static Message of(std::vector<std::byte> bytes);  // takes the bytes over
  static Message copy_of(std::span<const std::byte> bytes);
  static Message copy_of(std::string_view text);
  // Refers to bytes that `owner` keeps alive.
  static Message view(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  void append(Part part);
  void append(const Message& other);

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const std::vector<Part>& parts() const { return parts_; }

  // Calls f(span) for each piece of the bytes [begin, begin + size). REQUIRES: they exist.
  template <class F>
  void for_each(std::size_t begin, std::size_t size, F&& f) const {
    for (const Part& part : parts_) {
      if (size == 0) return;
      if (begin >= part.bytes.size()) {
        begin -= part.bytes.size();
        continue;
      }
      const std::size_t piece = std::min(size, part.bytes.size() - begin);
      f(part.bytes.subspan(begin, piece));
      begin = 0;
      size -= piece;
    }
  }
  // Copies the bytes from `begin` on until `to` is full. REQUIRES: there are as many.
  void copy_to(std::span<std::byte> to, std::size_t begin = 0) const;
  // The bytes from `begin` on; none if there aren't as many.
  Message behind(std::size_t begin) const;
  std::vector<std::byte> gather() const;

  // What lives as long as the last copy of this message, though it owns no bytes: how the transport
  // learns that a request is done with.
  void hold(std::shared_ptr<const void> token) { token_ = std::move(token); }

 private:
  std::vector<Part> parts_;
  std::size_t size_ = 0;
  std::shared_ptr<const void> token_;
};

}  // namespace convoy::server::transport
