// What a peer may write into the shared memory of a connection: its bytes, and indices that lie.
// The first byte: bit 0 the side, bit 1 whether the index of what was written is the input's own (8
// bytes that follow), bit 2 the same of what was read. The rest lies in the ring.
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <thread>

#include "convoy/base/error.h"
#include "server/transport/shared_link.h"

namespace {

using namespace convoy::server::transport;  // NOLINT

// Ends after the first thing that says that all was read, or that the peer lies.
struct Reader : Session {
  bool next_frame(const Link&, std::size_t max_payload, Frame& frame) override {
    if (sent == 4) return false;
    frame = {};
    frame.payload = Message::of(std::vector<std::byte>(std::min<std::size_t>(max_payload, 100)));
    frame.header.payload_bytes = static_cast<std::uint32_t>(frame.payload.size());
    ++sent;
    return true;
  }
  bool finished() override { return false; }
  void on_frame(const Link&, Frame&& frame) override {
    if (frame.payload.size() != frame.header.payload_bytes) __builtin_trap();
    if (frame.method.size() != frame.header.method_bytes) __builtin_trap();
  }
  void broken(const std::string&) override {}
  void ended(const std::string&) override {}
  // Asked after each round of reading.
  bool has_work() const override {
    if (++rounds == 8) link->close();
    // Nothing more comes: it must not sleep until then.
    std::memcpy(bell, &rounds, sizeof rounds);
    return false;
  }
  mutable int rounds = 0;
  int sent = 0;
  SharedLink* link = nullptr;
  std::byte* bell = nullptr;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 17) return 0;
  // Where the rings' indices are: docs/server-transport.md has no place for it, for both sides are
  // of one program; 64 bytes apart, what was written and what was read, and behind those of both
  // rings their bells.
  static const auto mapping = SharedLink::create();
  const auto memory = mapping->bytes();
  std::memset(memory.data(), 0, 4096);
  const bool client = (data[0] & 1) != 0;
  const std::size_t in = client ? 1 : 0, out = 1 - in;
  const auto rest = std::span(data, size).subspan(17);
  const auto put = [&](std::size_t at, std::uint64_t value) {
    std::memcpy(memory.data() + at, &value, 8);
  };
  std::uint64_t written = rest.size(), read = 0;
  if ((data[0] & 2) != 0) std::memcpy(&written, data + 1, 8);
  if ((data[0] & 4) != 0) std::memcpy(&read, data + 9, 8);
  put(in * 128, written);
  put(out * 128 + 64, read);
  const auto ring = memory.subspan(4096 + in * SharedLink::kRingBytes, SharedLink::kRingBytes);
  std::memcpy(ring.data(), rest.data(), std::min(rest.size(), ring.size()));
  const auto session = std::make_shared<Reader>();
  SharedLink link(client ? SharedLink::Side::client : SharedLink::Side::server, mapping, session);
  session->link = &link;
  session->bell = memory.data() + 256 + (client ? 64 : 0);
  link.run();
  return 0;
}
