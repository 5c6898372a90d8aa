#include "server/transport/shared_link.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <new>
#include <string>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::server::transport {
namespace {

constexpr std::uint32_t kForData = 1;   // the side sleeps until there is something to read
constexpr std::uint32_t kForSpace = 2;  // it has more to write than there is room for
// The peer may begin to read before a long frame is written, and write again before one is read.
constexpr std::size_t kStep = 128 << 10;
constexpr int kYields = 16;  // before sleeping: the peer is often about to write
// A bell that a dying peer never rang is noticed by its stream; this only bounds what a mistake
// costs.
constexpr timespec kLongestSleep{1, 0};

}  // namespace

struct SharedLink::Ring {
  alignas(64) std::atomic<std::uint64_t> written;  // bytes, ever
  alignas(64) std::atomic<std::uint64_t> read;
};

struct SharedLink::Bell {
  alignas(64) std::atomic<std::uint32_t> rung;  // a futex
  std::atomic<std::uint32_t> waiting;           // kForData, kForSpace
};

struct SharedLink::Layout {
  Ring rings[2];  // of the server's reading, of the client's
  Bell bells[2];  // of the server, of the client
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              sizeof(std::atomic<std::uint32_t>) == 4);

std::size_t SharedLink::mapping_bytes() {
  static_assert(sizeof(Layout) <= 4096);
  return 4096 + 2 * kRingBytes;
}

std::shared_ptr<Mapping> SharedLink::create() {
  auto mapping = Mapping::create(mapping_bytes(), Mapping::Kind::unnamed);
  mapping->commit(0, mapping_bytes());
  new (mapping->bytes().data()) Layout{};
  return mapping;
}

SharedLink::SharedLink(Side side, std::shared_ptr<Mapping> mapping, std::weak_ptr<Session> session)
    : mapping_(std::move(mapping)), session_(std::move(session)), pool_(64 << 20) {
  auto* layout = std::launder(reinterpret_cast<Layout*>(mapping_->bytes().data()));
  const int own = side == Side::server ? 0 : 1;
  const auto data = [&](int which) {
    return mapping_->bytes().subspan(4096 + static_cast<std::size_t>(which) * kRingBytes,
                                     kRingBytes);
  };
  in_ = &layout->rings[own];
  out_ = &layout->rings[1 - own];
  in_data_ = data(own);
  out_data_ = data(1 - own);
  own_ = &layout->bells[own];
  peer_ = &layout->bells[1 - own];
}

void SharedLink::ring_self() {
  own_->rung.fetch_add(1);
  syscall(SYS_futex, &own_->rung, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// If the peer waits for this. Whoever waits says so before it looks once more, and what it waits
// for has happened before this: with all of it sequentially consistent, one of the two sees the
// other.
void SharedLink::ring_peer(std::uint32_t reason) {
  if ((peer_->waiting.load() & reason) == 0) return;
  peer_->waiting.fetch_and(~reason);
  peer_->rung.fetch_add(1);
  syscall(SYS_futex, &peer_->rung, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void SharedLink::wait(std::uint32_t bell) {
  for (int i = 0; i < kYields; ++i) {
    if (own_->rung.load() != bell || readable() != 0 || closing_) return;
    sched_yield();
  }
  own_->waiting.fetch_or(kForData);
  if (readable() == 0 && !closing_) {
    syscall(SYS_futex, &own_->rung, FUTEX_WAIT, bell, &kLongestSleep, nullptr, 0);
  }
  own_->waiting.fetch_and(~kForData);
}

void SharedLink::run() {
  while (!closing_) {
    const std::uint32_t bell = own_->rung.load();
    bool progress = false;
    if (const auto session = session_.lock()) {
      try {
        progress = read_some(*session);
        if (session->has_work()) session->work();
      } catch (const Failure& e) {
        session->broken(std::string("shared memory: ") + e.what());
        return;
      }
      // Now and then the reading needs its turn.
      writing_.run([&] { write_some(*session, 4 * kRingBytes); });
    } else {
      return;
    }
    if (!progress) wait(bell);
  }
}

void SharedLink::wake() {
  if (closing_) return;
  // What is longer is left to run(): the caller has other things to do.
  if (const auto session = session_.lock()) writing_.run([&] { write_some(*session, kRingBytes); });
}

void SharedLink::close() {
  closing_ = true;
  ring_self();
}

std::uint64_t SharedLink::readable() const {
  // More than the ring holds can't be; who reads says so.
  return in_->written.load() - read_;
}

std::size_t SharedLink::take(std::span<std::byte> to) {
  const std::uint64_t available = readable();
  if (available > kRingBytes) throw Failure("an index that can't be");
  const std::size_t at = read_ % kRingBytes;
  const std::size_t bytes =
      std::min({to.size(), static_cast<std::size_t>(available), kRingBytes - at, kStep});
  if (bytes == 0) return 0;
  std::memcpy(to.data(), in_data_.data() + at, bytes);
  read_ += bytes;
  in_->read.store(read_);
  // A peer that waits for room is woken for much of it, not for each piece.
  if (available - bytes <= kRingBytes / 2) ring_peer(kForSpace);
  return bytes;
}

bool SharedLink::read_some(Session& session) {
  bool progress = false;
  // Now and then the writing needs its turn.
  for (int i = 0; i < 32 && receive(session); ++i) progress = true;
  return progress;
}

// Moves on within a frame by at most one piece; false when there is nothing to read.
bool SharedLink::receive(Session& session) {
  Incoming& in = incoming_;
  if (in.head_bytes < in.head.size()) {
    const std::size_t bytes = take(std::span(in.head).subspan(in.head_bytes));
    in.head_bytes += bytes;
    if (in.head_bytes < in.head.size()) return bytes > 0;
    in.frame.header = FrameHeader::decode(in.head);
    const std::uint32_t payload = in.frame.header.payload_bytes;
    if (payload > kMaxPayload) throw Failure("a frame of " + std::to_string(payload) + " bytes");
    in.frame.method.resize(in.frame.header.method_bytes);
    if (payload > 0) {
      if (const auto place = session.place(*this, in.frame.header)) {
        in.buffer = {place->bytes, place->owner};
      } else {
        in.buffer = pool_.take(payload);
      }
    }
  }
  if (in.method_bytes < in.frame.method.size()) {
    const auto method = std::as_writable_bytes(std::span(in.frame.method));
    const std::size_t bytes = take(method.subspan(in.method_bytes));
    in.method_bytes += bytes;
    if (in.method_bytes < method.size()) return bytes > 0;
  }
  if (in.payload_bytes < in.frame.header.payload_bytes) {
    const std::size_t bytes = take(in.buffer.bytes.subspan(in.payload_bytes));
    in.payload_bytes += bytes;
    if (in.payload_bytes < in.frame.header.payload_bytes) return bytes > 0;
    in.frame.payload.append(Part{in.buffer.bytes, in.buffer.owner});
  }
  Incoming whole = std::exchange(in, Incoming{});
  session.on_frame(*this, std::move(whole.frame));
  return true;
}

std::size_t SharedLink::space() const {
  const std::uint64_t unread = written_.load(std::memory_order_relaxed) - out_->read.load();
  return unread > kRingBytes ? 0 : kRingBytes - unread;  // a peer that lies gets nothing
}

bool SharedLink::begin_frame(Session& session) {
  Outgoing& out = outgoing_;
  if (!session.next_frame(*this, kMaxPayload, out.frame)) return false;
  out.head = out.frame.header.encode();
  out.pieces = {out.head, std::as_bytes(std::span(out.frame.method))};
  for (const Part& part : out.frame.payload.parts()) out.pieces.push_back(part.bytes);
  out.piece = out.offset = 0;
  out.open = true;
  return true;
}

// Within writing_. Whoever has written `most` bytes leaves the rest to run().
void SharedLink::write_some(Session& session, std::size_t most) {
  Outgoing& out = outgoing_;
  std::size_t quiet = 0, all = 0;  // bytes since the peer was last woken; since the call
  while (!closing_) {
    if (!out.open && !begin_frame(session)) return;
    while (out.piece < out.pieces.size()) {
      const auto piece = out.pieces[out.piece].subspan(out.offset);
      const std::uint64_t written = written_.load(std::memory_order_relaxed);
      const std::size_t at = written % kRingBytes;
      const std::size_t bytes = std::min({piece.size(), space(), kRingBytes - at, kStep});
      if (bytes == 0 && !piece.empty()) {
        ring_peer(kForData);
        own_->waiting.fetch_or(kForSpace);
        if (space() == 0) return;  // the peer's bell brings run() here again
        own_->waiting.fetch_and(~kForSpace);
        continue;
      }
      if (bytes > 0) std::memcpy(out_data_.data() + at, piece.data(), bytes);
      written_.store(written + bytes, std::memory_order_relaxed);
      out_->written.store(written + bytes);
      out.offset += bytes;
      quiet += bytes;
      all += bytes;
      if (bytes == piece.size()) {
        ++out.piece;
        out.offset = 0;
      }
      // A header alone is not worth waking for.
      if (quiet >= kStep / 2 || out.piece == out.pieces.size()) {
        ring_peer(kForData);
        quiet = 0;
      }
      if (all >= most) {
        ring_self();
        return;
      }
    }
    out.open = false;
    { const Frame sent = std::exchange(out.frame, Frame{}); }  // its end may wake this link again
    if (session.has_work()) ring_self();
  }
}

}  // namespace convoy::server::transport
