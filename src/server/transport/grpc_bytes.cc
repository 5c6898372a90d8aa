#include "server/transport/grpc_bytes.h"

#include <grpcpp/support/slice.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "convoy/base/error.h"

namespace convoy::server::transport {
namespace {

// What is cheaper to copy than to refer to.
constexpr std::size_t kCopied = 2048;

grpc::Slice slice_of(const Part& part) {
  if (part.bytes.size() <= kCopied) return grpc::Slice(part.bytes.data(), part.bytes.size());
  auto* owner = new std::shared_ptr<const void>(part.owner);
  // gRPC never writes into it.
  return grpc::Slice(
      const_cast<std::byte*>(part.bytes.data()), part.bytes.size(),
      [](void* data) { delete static_cast<std::shared_ptr<const void>*>(data); }, owner);
}

std::size_t size_of(const std::vector<grpc::Slice>& slices) {
  std::size_t size = 0;
  for (const grpc::Slice& slice : slices) size += slice.size();
  return size;
}

// Refers to slices that share one owner.
Message message_of(std::shared_ptr<const std::vector<grpc::Slice>> slices) {
  Message message;
  for (const grpc::Slice& slice : *slices) {
    message.append(Part{{reinterpret_cast<const std::byte*>(slice.begin()), slice.size()}, slices});
  }
  return message;
}

}  // namespace

grpc::ByteBuffer to_grpc(const Frame& frame) {
  const auto header = frame.header.encode();
  std::vector<grpc::Slice> slices;
  slices.reserve(1 + frame.payload.parts().size());
  std::vector<std::byte> head(header.size() + frame.method.size());
  std::memcpy(head.data(), header.data(), header.size());
  std::memcpy(head.data() + header.size(), frame.method.data(), frame.method.size());
  slices.emplace_back(head.data(), head.size());
  for (const Part& part : frame.payload.parts()) slices.push_back(slice_of(part));
  return {slices.data(), slices.size()};
}

Frame from_grpc(const grpc::ByteBuffer& buffer) {
  auto slices = std::make_shared<std::vector<grpc::Slice>>();
  if (!buffer.Dump(slices.get()).ok()) throw Failure("a message that can't be read");
  const std::size_t size = size_of(*slices);
  if (size < FrameHeader::kBytes)
    throw Failure("a frame of " + std::to_string(size) + " bytes, shorter than its header");
  const Message whole = message_of(slices);
  std::array<std::byte, FrameHeader::kBytes> head;
  whole.copy_to(head);
  Frame frame;
  frame.header = FrameHeader::decode(head);
  const std::size_t method = frame.header.method_bytes, payload = frame.header.payload_bytes;
  if (size != head.size() + method + payload) throw Failure("a frame of another size than it says");
  frame.method.resize(method);
  whole.copy_to(std::as_writable_bytes(std::span(frame.method)), head.size());
  // Many small slices would cost many times what they carry.
  if (payload <= kCopied || payload / slices->size() < kCopied) {
    std::vector<std::byte> bytes(payload);
    whole.copy_to(bytes, head.size() + method);
    frame.payload = Message::of(std::move(bytes));
    return frame;
  }
  whole.for_each(head.size() + method, payload, [&](std::span<const std::byte> piece) {
    frame.payload.append(Part{piece, slices});
  });
  return frame;
}

}  // namespace convoy::server::transport
