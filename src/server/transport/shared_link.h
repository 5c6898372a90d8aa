// Two processes of one host: a ring of shared memory in each direction.
//
// Neither side trusts what the other writes there: indices are checked, bytes copied out before
// they are looked at. A peer that owns the memory could still make it shorter, and so end this
// process; only the same user can open it, who could end it anyway.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "convoy/base/shared_memory.h"
#include "server/transport/buffer_pool.h"
#include "server/transport/link.h"

namespace convoy::server::transport {

class SharedLink : public Link {
 public:
  enum class Side { server, client };
  static constexpr std::size_t kRingBytes = 4 << 20;  // in each direction
  static constexpr std::size_t kMaxPayload =
      BufferPool::kPooled;  // of a frame, which may be longer than the ring

  // The memory for one client; throws Failure where there is none.
  static std::shared_ptr<Mapping> create();
  static std::size_t mapping_bytes();

  // One for each side of a mapping. The session must outlive run(), wake() and close().
  SharedLink(Side side, std::shared_ptr<Mapping> mapping, std::weak_ptr<Session> session);

  // When both sides have the mapping: no third can open it any more.
  void seal() { mapping_->seal(); }

  // Reads, and goes on with what other threads could not write, until close(). In a thread of its
  // own.
  void run();
  void wake() override;
  void close() override;

 private:
  struct Ring;
  struct Bell;
  struct Layout;
  // Where the reader is within a frame.
  struct Incoming {
    std::array<std::byte, FrameHeader::kBytes> head;
    std::size_t head_bytes = 0;
    Frame frame;
    std::size_t method_bytes = 0;
    BufferPool::Buffer buffer;
    std::size_t payload_bytes = 0;
  };
  // Where the writer is within a frame.
  struct Outgoing {
    Frame frame;
    std::vector<std::span<const std::byte>> pieces;  // header, method, payload
    std::size_t piece = 0;
    std::size_t offset = 0;
    std::array<std::byte, FrameHeader::kBytes> head;
    bool open = false;
  };

  bool read_some(Session& session);
  bool receive(Session& session);
  std::size_t take(std::span<std::byte> to);
  void write_some(Session& session, std::size_t most);
  bool begin_frame(Session& session);
  std::size_t space() const;
  std::uint64_t readable() const;
  void ring_peer(std::uint32_t reason);
  void ring_self();
  void wait(std::uint32_t bell);

  const std::shared_ptr<Mapping> mapping_;
  const std::weak_ptr<Session> session_;
  Ring* in_;
  Ring* out_;
  std::span<std::byte> in_data_, out_data_;
  Bell* own_;
  Bell* peer_;
  // The truth about this side's indices; the peer could change those that lie in the shared memory.
  std::uint64_t read_ = 0;
  std::atomic<std::uint64_t> written_ = 0;
  Incoming incoming_;
  Outgoing outgoing_;
  BufferPool pool_;
  Serializer writing_;
  std::atomic<bool> closing_ = false;
};

}  // namespace convoy::server::transport
