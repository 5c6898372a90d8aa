// Messages on their way in: put together from frames, and refused where they break the rules.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "convoy/base/clock.h"
#include "server/transport/credits.h"
#include "server/transport/frame.h"
#include "server/transport/message_memory.h"

namespace convoy::server::transport {

struct Arrived {
  std::uint64_t call = 0;
  std::uint8_t status = 0;
  std::string method;
  Clock::time_point deadline;
  Message message;
  Charge charge;  // held until Inbox::give_back
};

// Threads: one at a time. As with the outbox, messages that end are handed to the caller.
class Inbox {
 public:
  // With `whole`, the bytes of large messages are put together there.
  explicit Inbox(const Limits& limits, std::shared_ptr<MessageMemory> whole = nullptr)
      : credits_(limits), whole_(std::move(whole)) {}

  // Where the payload of a frame that comes next belongs, if it has one place; copying it there
  // needs no lock. on_frame() sees by its address whether it is there.
  std::optional<MessageMemory::Run> place(const FrameHeader& header);

  // A request, reply or `more` frame; the message if it is complete with this. Throws Failure for a
  // message that is larger than allowed, for more than the peer had credits for, and for frames out
  // of order.
  std::optional<Arrived> on_frame(Frame&& frame);
  // The rest of a message does not come: its bytes, and its charge, which is no longer held.
  // Nothing if no message of the call is incomplete.
  struct Dropped {
    Message message;
    Charge charge;
  };
  std::optional<Dropped> drop(std::uint64_t call);
  // Forgets what has come and what will of a message, which stays charged until it ends: the sender
  // does not know yet. The bytes so far.
  Message discard(std::uint64_t call);
  // The receiver has done with a message.
  void give_back(const Charge& charge) { credits_.give_back(charge); }

  bool holds(std::uint64_t call) const { return partial_.contains(call); }

 private:
  struct Partial {
    Arrived arrived;
    std::uint64_t size = 0;
    std::uint64_t received = 0;
    bool discarded = false;
    MessageMemory::Run whole;  // of all of it, or empty
  };

  void add(Partial& partial, Frame&& frame);

  bool begins_in_order(const FrameHeader& header) const;

  Credits credits_;
  const std::shared_ptr<MessageMemory> whole_;
  std::unordered_map<std::uint64_t, Partial> partial_;
  MessageMemory::Run next_;  // of the message that begins with the next frame
};

}  // namespace convoy::server::transport
