#include "server/transport/message.h"

#include <cstring>

namespace convoy::server::transport {

Message Message::of(std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return view(*owner, owner);
}

Message Message::copy_of(std::span<const std::byte> bytes) {
  return of({bytes.begin(), bytes.end()});
}

Message Message::copy_of(std::string_view text) { return copy_of(std::as_bytes(std::span(text))); }

Message Message::view(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  Message message;
  message.append(Part{bytes, std::move(owner)});
  return message;
}

void Message::append(Part part) {
  if (part.bytes.empty()) return;
  size_ += part.bytes.size();
  parts_.push_back(std::move(part));
}

void Message::append(const Message& other) {
  for (const Part& part : other.parts_) append(part);
}

void Message::copy_to(std::span<std::byte> to, std::size_t begin) const {
  std::size_t at = 0;
  for_each(begin, to.size(), [&](std::span<const std::byte> piece) {
    std::memcpy(to.data() + at, piece.data(), piece.size());
    at += piece.size();
  });
}

Message Message::behind(std::size_t begin) const {
  Message rest;
  for (const Part& part : parts_) {
    const std::size_t skipped = std::min(begin, part.bytes.size());
    begin -= skipped;
    rest.append(Part{part.bytes.subspan(skipped), part.owner});
  }
  return rest;
}

std::vector<std::byte> Message::gather() const {
  std::vector<std::byte> bytes(size_);
  copy_to(bytes);
  return bytes;
}

}  // namespace convoy::server::transport
