#include "server/transport/outbox.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

#include "server/transport/message_memory.h"

namespace convoy::server::transport {
namespace {

// Rounded up, so that a call with time left never travels as one without.
std::uint32_t milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(left, 1, kMost));
}

// Where a message has to begin, modulo a line, so that its largest part lies as it does here:
// numbers where numbers may lie are used in place.
std::uint8_t best_place(const Message& message) {
  std::size_t begin = 0, largest = 0;
  std::uintptr_t place = 0;
  for (const Part& part : message.parts()) {
    if (part.bytes.size() > largest) {
      largest = part.bytes.size();
      place = reinterpret_cast<std::uintptr_t>(part.bytes.data()) - begin;
    }
    begin += part.bytes.size();
  }
  return static_cast<std::uint8_t>(place % MessageMemory::kLine);
}

}  // namespace

void Outbox::push(Outgoing outgoing) {
  queued_ += outgoing.message.size();
  auto& waiting = outgoing.message.size() <= Charge::kSmall ? waiting_small_ : waiting_large_;
  waiting.push_back(std::move(outgoing));
}

void Outbox::admit(std::deque<Outgoing>& waiting) {
  while (!waiting.empty()) {
    const Charge charge = Charge::of(waiting.front().message.size());
    if (!credits_.fits(charge)) return;
    credits_.take(charge);
    // A small one is through with its first frame.
    if (charge.large == 0) {
      active_.push_front(std::move(waiting.front()));
    } else {
      active_.push_back(std::move(waiting.front()));
    }
    waiting.pop_front();
    if (charge.large == 0) return;
  }
}

Frame Outbox::cut(Outgoing& outgoing, std::size_t max_payload) {
  Frame frame;
  FrameHeader& header = frame.header;
  header.call = outgoing.call;
  if (outgoing.begun) {
    header.type = FrameType::more;
  } else {
    outgoing.begun = true;
    header.type = outgoing.type;
    header.status = outgoing.status;
    header.size = outgoing.message.size();
    if (outgoing.type == FrameType::request) {
      frame.method = outgoing.method;
      header.method_bytes = static_cast<std::uint16_t>(frame.method.size());
      header.time_left_ms = milliseconds_until(outgoing.deadline);
      header.status = best_place(outgoing.message);
    }
  }
  const std::size_t piece =
      std::min<std::uint64_t>(max_payload, outgoing.message.size() - outgoing.sent);
  header.payload_bytes = static_cast<std::uint32_t>(piece);
  for (std::size_t left = piece; left > 0;) {
    const Part& part = outgoing.message.parts()[outgoing.part];
    const std::size_t bytes = std::min(left, part.bytes.size() - outgoing.offset);
    frame.payload.append(Part{part.bytes.subspan(outgoing.offset, bytes), part.owner});
    left -= bytes;
    outgoing.offset += bytes;
    if (outgoing.offset == part.bytes.size()) {
      ++outgoing.part;
      outgoing.offset = 0;
    }
  }
  outgoing.sent += piece;
  queued_ -= piece;
  return frame;
}

bool Outbox::next(std::size_t max_payload, Frame& frame, Message& gone) {
  if (!control_.empty()) {
    frame = std::move(control_.front());
    control_.pop_front();
  } else {
    admit(waiting_large_);
    admit(waiting_small_);  // last, for they go to the front
    if (!active_.empty()) {
      Outgoing outgoing = std::move(active_.front());
      active_.pop_front();
      frame = cut(outgoing, max_payload);
      if (outgoing.sent == outgoing.message.size()) {
        gone = std::move(outgoing.message);
      } else {
        active_.push_back(std::move(outgoing));
      }
    } else if (released_.large > 0 || released_.small >= credits_.limits().small_memory / 4) {
      frame = Frame{};
    } else {
      return false;
    }
  }
  // Small credits ride on other frames, and alone only before the peer could run out of them.
  const std::uint64_t small = std::min<std::uint64_t>(released_.small, 1u << 30);
  frame.header.released_small = static_cast<std::uint32_t>(small);
  frame.header.released_large = released_.large;
  released_.small -= small;
  released_.large = 0;
  return true;
}

Outbox::Removed Outbox::remove(std::uint64_t call) {
  for (auto* queue : {&active_, &waiting_small_, &waiting_large_}) {
    const auto found = std::find_if(queue->begin(), queue->end(),
                                    [&](const Outgoing& one) { return one.call == call; });
    if (found == queue->end()) continue;
    queued_ -= found->message.size() - found->sent;
    Removed removed{found->begun ? State::begun : State::unsent, std::move(found->message)};
    // Admitted, but the peer will never hear of it, and so can't give the credits back.
    if (queue == &active_ && !found->begun) credits_.give_back(Charge::of(removed.message.size()));
    queue->erase(found);
    return removed;
  }
  return {};
}

std::vector<Outgoing> Outbox::take_all() {
  std::vector<Outgoing> all;
  for (auto* queue : {&active_, &waiting_small_, &waiting_large_}) {
    for (Outgoing& outgoing : *queue) all.push_back(std::move(outgoing));
    queue->clear();
  }
  queued_ = 0;
  return all;
}

}  // namespace convoy::server::transport
