// Messages on their way out of one connection: cut into frames, several in turn, never more than
// the peer has memory for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/clock.h"
#include "server/transport/credits.h"
#include "server/transport/frame.h"

namespace convoy::server::transport {

struct Outgoing {
  FrameType type = FrameType::request;  // or reply
  std::uint64_t call = 0;
  std::uint8_t status = 0;     // of a reply
  std::string method;          // of a request
  Clock::time_point deadline;  // of a request
  Message message;
  std::uint64_t sent = 0;  // bytes
  std::size_t part = 0;    // of the message: the next byte to send is in it,
  std::size_t offset = 0;  // here
  bool begun = false;
};

// Threads: one at a time. A Message that the outbox lets go of is always handed to the caller, who
// destroys it without holding a lock: the end of a message may run foreign code.
class Outbox {
 public:
  // Credits of the peer, once it has said what it takes.
  void set_limits(const Limits& limits) { credits_ = Credits(limits); }
  const Limits& limits() const { return credits_.limits(); }

  void push(Outgoing outgoing);
  // Goes before all messages.
  void push_control(Frame frame) { control_.push_back(std::move(frame)); }
  // To be told to the peer with the next frame.
  void give_back(const Charge& charge) { released_ += charge; }
  // What the peer has given back. Throws Failure for more than it had.
  void on_given_back(const Charge& charge) { credits_.give_back(charge); }

  // The next frame, with at most so many bytes of payload; false when there is nothing that may be
  // sent. `gone` takes the last frame's message, see above.
  bool next(std::size_t max_payload, Frame& frame, Message& gone);

  enum class State { unknown, unsent, begun };
  struct Removed {
    State state = State::unknown;
    Message message;
  };
  // Takes a call's message out. Unknown: it is sent already, or never was here.
  Removed remove(std::uint64_t call);
  std::vector<Outgoing> take_all();  // in no order

  // Bytes that wait to be sent.
  std::uint64_t queued_bytes() const { return queued_; }

 private:
  void admit(std::deque<Outgoing>& waiting);
  Frame cut(Outgoing& outgoing, std::size_t max_payload);

  Credits credits_;
  std::deque<Frame> control_;
  std::deque<Outgoing> waiting_small_, waiting_large_;  // for credits
  std::deque<Outgoing> active_;                         // take turns
  Charge released_;
  std::uint64_t queued_ = 0;
};

}  // namespace convoy::server::transport
