#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "comm/collectives/alltoallv/alltoallv.h"

namespace convoy::comm {
namespace {

// A round trip passes between a segment and the next of one slot; the other slots keep links busy
// meanwhile, with the next peer's segments where one's end.
constexpr std::size_t kSegmentBytes = 1 << 20;
constexpr std::size_t kInFlight = 4;

std::size_t begin_of(const std::vector<std::size_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
}

// The parts of all others, in the order in which they go out or come in.
template <class Bytes>
struct Parts {
  Bytes all;
  const std::vector<std::size_t>& counts;
  std::size_t element;

  Bytes of(int rank) const {
    return all.subspan(begin_of(counts, rank) * element,
                       counts[static_cast<std::size_t>(rank)] * element);
  }
};

// Starts messages one after the other, a few at a time. An empty part is one empty message, so that
// sides that disagree about it find out.
template <class Bytes, class Start>
Task stream(Parts<Bytes> parts, int size, Start peer_and_message) {
  std::array<Ticket, kInFlight> tickets;
  std::size_t slot = 0;
  for (int step = 1; step < size; ++step) {
    const int peer = peer_and_message.peer(step);
    Bytes left = parts.of(peer);
    bool first = true;
    while (first || !left.empty()) {
      first = false;
      Ticket& ticket = tickets[slot++ % kInFlight];
      co_await one(ticket);
      const Bytes segment = left.first(std::min(left.size(), kSegmentBytes));
      left = left.subspan(segment.size());
      ticket = peer_and_message.start(peer, segment);
    }
  }
  co_await all(tickets);
}

struct Sending {
  Io& io;
  int peer(int step) const { return (io.rank() + step) % io.size(); }
  Ticket start(int to, std::span<const std::byte> segment) const { return io.send(to, segment); }
};

struct Receiving {
  Io& io;
  int peer(int step) const { return (io.rank() + io.size() - step) % io.size(); }
  Ticket start(int from, std::span<std::byte> segment) const { return io.receive(from, segment); }
};

}  // namespace

Task alltoallv_pairwise(Io& io, ConstBuffer send, std::vector<std::size_t> send_counts,
                        Buffer receive, std::vector<std::size_t> receive_counts) {
  const Parts<std::span<const std::byte>> outgoing{bytes_of(send), send_counts, size_of(send.type)};
  const Parts<std::span<std::byte>> incoming{bytes_of(receive), receive_counts,
                                             size_of(receive.type)};
  const auto own = outgoing.of(io.rank());
  if (!own.empty()) std::memcpy(incoming.of(io.rank()).data(), own.data(), own.size());
  std::vector<Branch> both;
  both.reserve(2);
  both.emplace_back(stream(incoming, io.size(), Receiving{io}));
  both.emplace_back(stream(outgoing, io.size(), Sending{io}));
  co_await branches(both);
}

}  // namespace convoy::comm
