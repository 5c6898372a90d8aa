// One connection as sessions see it, whether it is a stream of gRPC or shared memory; and a session
// as connections see it. Neither knows the other's kind.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "server/transport/frame.h"
#include "server/transport/message_memory.h"

namespace convoy::server::transport {

// Threads: any. No function waits for the peer or takes a lock of a session.
class Link {
 public:
  virtual ~Link() = default;
  // There may be something to send. Frames may be written before it returns, also by this thread.
  virtual void wake() = 0;
  // Ends the connection. The session of a stream hears of it once, later, from the link's own
  // thread.
  virtual void close() = 0;
};

// A link calls on_frame() from one thread at a time, and next_frame() from one at a time as well. A
// session that has moved to shared memory has two links: the stream, through which it began and
// which tells it that the peer is gone, and the shared memory.
class Session {
 public:
  virtual ~Session() = default;
  // The next frame to send, with at most so many bytes of payload. False: nothing until wake().
  virtual bool next_frame(const Link& from, std::size_t max_payload, Frame& frame) = 0;
  // Nothing follows the frame that was sent last: the server's link ends its stream.
  virtual bool finished() = 0;
  // Where the payload of a frame belongs, which on_frame() is about to be given; nothing: anywhere.
  // A link that copies payloads anyway copies them there.
  virtual std::optional<MessageMemory::Run> place(const Link&, const FrameHeader&) { return {}; }
  // Throws Failure when the peer breaks the rules; the link then calls broken().
  virtual void on_frame(const Link& from, Frame&& frame) = 0;
  // Whether the link should call work(), which runs foreign code, from the thread that calls
  // on_frame(): any thread may ask, after it has sent a frame.
  virtual bool has_work() const { return false; }
  virtual void work() {}
  // The peer breaks the rules: closes the session's links.
  virtual void broken(const std::string& why) = 0;
  // The stream has ended; once.
  virtual void ended(const std::string& why) = 0;
};

// Runs a body on one thread at a time without making any other wait: who comes while it runs has it
// run once more by the one who is at it. Also from within the body.
//
// What keeps the body's data alive is for the caller.
class Serializer {
 public:
  template <class F>
  void run(F&& body) {
    if (requests_.fetch_add(1, std::memory_order_acq_rel) != 0) return;
    std::uint64_t seen;
    do {
      seen = requests_.load(std::memory_order_acquire);
      body();
    } while (requests_.fetch_sub(seen, std::memory_order_acq_rel) != seen);
  }

 private:
  std::atomic<std::uint64_t> requests_ = 0;
};

}  // namespace convoy::server::transport
