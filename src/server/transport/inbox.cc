#include "server/transport/inbox.h"

#include <chrono>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::server::transport {
namespace {

// Frames within a message are at least this long, so that no peer can make a large message cost
// many times its size.
constexpr std::uint32_t kLeastPiece = 64 << 10;

std::string name_of(const FrameHeader& header) { return "call " + std::to_string(header.call); }

}  // namespace

void Inbox::add(Partial& partial, Frame&& frame) {
  const std::uint64_t left = partial.size - partial.received;
  const std::uint32_t bytes = frame.header.payload_bytes;
  if (bytes > left) throw Failure(name_of(frame.header) + ": more bytes than were announced");
  if (bytes < left && bytes < kLeastPiece)
    throw Failure(name_of(frame.header) + ": a piece of only " + std::to_string(bytes) + " bytes");
  if (partial.whole.owner) {
    const auto place = partial.whole.bytes.subspan(partial.received, bytes);
    const auto& parts = frame.payload.parts();
    if (parts.size() != 1 || parts.front().bytes.data() != place.data()) {
      frame.payload.copy_to(place);
    }
  } else if (!partial.discarded) {
    partial.arrived.message.append(frame.payload);
  }
  partial.received += bytes;
}

// Whether on_frame() will not refuse it: nobody gets memory for what isn't his.
bool Inbox::begins_in_order(const FrameHeader& header) const {
  return header.payload_bytes <= header.size && !partial_.contains(header.call) &&
         header.size <= credits_.limits().largest_message && credits_.fits(Charge::of(header.size));
}

std::optional<MessageMemory::Run> Inbox::place(const FrameHeader& header) {
  if (!whole_) return {};
  const std::uint64_t bytes = header.payload_bytes;
  if (header.type == FrameType::more) {
    const auto found = partial_.find(header.call);
    if (found == partial_.end()) return {};
    const Partial& partial = found->second;
    if (!partial.whole.owner || bytes > partial.size - partial.received) return {};
    return MessageMemory::Run{partial.whole.bytes.subspan(partial.received, bytes),
                              partial.whole.owner};
  }
  if (header.size <= Charge::kSmall || !begins_in_order(header)) return {};
  next_ = whole_->take(header.size, header.status);
  return MessageMemory::Run{next_.bytes.first(bytes), next_.owner};
}

std::optional<Arrived> Inbox::on_frame(Frame&& frame) {
  const FrameHeader& header = frame.header;
  auto found = partial_.find(header.call);
  if (header.type == FrameType::more) {
    if (found == partial_.end()) throw Failure(name_of(header) + " goes on and never began");
  } else {
    if (found != partial_.end()) throw Failure(name_of(header) + " begins twice");
    if (header.size > credits_.limits().largest_message) {
      throw Failure("a message of " + std::to_string(header.size) + " bytes; the largest is " +
                    std::to_string(credits_.limits().largest_message));
    }
    const Charge charge = Charge::of(header.size);
    if (!credits_.fits(charge)) throw Failure("a message for which there were no credits");
    credits_.take(charge);
    Partial partial;
    partial.size = header.size;
    partial.arrived.call = header.call;
    partial.arrived.status = header.status;
    partial.arrived.method = std::move(frame.method);
    partial.arrived.deadline = Clock::now() + std::chrono::milliseconds(header.time_left_ms);
    partial.arrived.charge = charge;
    if (next_.bytes.size() == header.size) partial.whole = std::exchange(next_, {});
    found = partial_.emplace(header.call, std::move(partial)).first;
  }
  add(found->second, std::move(frame));
  if (found->second.received < found->second.size) return std::nullopt;
  Arrived arrived = std::move(found->second.arrived);
  if (found->second.whole.owner) {
    arrived.message.append({found->second.whole.bytes, std::move(found->second.whole.owner)});
  }
  partial_.erase(found);
  return arrived;
}

std::optional<Inbox::Dropped> Inbox::drop(std::uint64_t call) {
  const auto found = partial_.find(call);
  if (found == partial_.end()) return std::nullopt;
  Dropped dropped{std::move(found->second.arrived.message), found->second.arrived.charge};
  partial_.erase(found);
  credits_.give_back(dropped.charge);
  return dropped;
}

Message Inbox::discard(std::uint64_t call) {
  const auto found = partial_.find(call);
  if (found == partial_.end()) return {};
  found->second.discarded = true;
  return std::move(found->second.arrived.message);
}

}  // namespace convoy::server::transport
