#include <algorithm>
#include <cstring>
#include <string>

#include "comm/collectives/alltoallv/alltoallv.h"
#include "convoy/base/error.h"

namespace convoy::comm {
namespace {

// Peers at a time: as many streams share a link well, and none of them waits for the slowest.
constexpr std::size_t kPeers = 8;
// Segments under way each way, to all peers together: as many keep a link busy.
constexpr std::size_t kInFlight = 8;

// Starts the messages of one peer after the other, a few at a time. `step` is what the branches of
// one direction share: the next peer that none of them has begun. The last message of a part is
// shorter than a segment, and may be empty, so that sides that disagree about it find out.
template <class Bytes, class Start>
Task stream(Bytes all_parts, const std::vector<BytePart>& parts, int& step,
            std::size_t segment_bytes, std::size_t in_flight, Start start) {
  std::vector<Ticket> tickets(in_flight);
  std::size_t slot = 0;
  while (step < static_cast<int>(parts.size())) {
    const int peer = start.peer(step++);
    const BytePart& part = parts[static_cast<std::size_t>(peer)];
    Bytes left = all_parts.subspan(part.offset, part.bytes);
    bool last = false;
    while (!last) {
      Ticket& ticket = tickets[slot++ % in_flight];
      co_await one(ticket);
      const Bytes segment = left.first(std::min(left.size(), segment_bytes));
      left = left.subspan(segment.size());
      last = segment.size() < segment_bytes;
      ticket = start.message(peer, segment);
    }
  }
  co_await all(tickets);
}

struct Sending {
  Io& io;
  int peer(int step) const { return (io.rank() + step) % io.size(); }
  Ticket message(int to, std::span<const std::byte> segment) const { return io.send(to, segment); }
};

struct Receiving {
  Io& io;
  int peer(int step) const { return (io.rank() + io.size() - step) % io.size(); }
  Ticket message(int from, std::span<std::byte> segment) const { return io.receive(from, segment); }
};

}  // namespace

std::vector<BytePart> byte_parts(Parts parts, int ranks, std::size_t elements, Type type,
                                 const char* side) {
  const auto wrong = [&](const std::string& what) {
    return UsageError(std::string("alltoallv: ") + side + " has " + what + "; there are " +
                      std::to_string(ranks) + " ranks and the buffer holds " +
                      std::to_string(elements) + " elements");
  };
  const auto expected = static_cast<std::size_t>(ranks);
  if (parts.counts.size() != expected) throw wrong(std::to_string(parts.counts.size()) + " counts");
  if (!parts.offsets.empty() && parts.offsets.size() != expected)
    throw wrong(std::to_string(parts.offsets.size()) + " offsets");
  std::vector<BytePart> result(expected);
  std::size_t next = 0;
  for (std::size_t rank = 0; rank < expected; ++rank) {
    const std::size_t offset = parts.offsets.empty() ? next : parts.offsets[rank];
    const std::size_t count = parts.counts[rank];
    if (offset > elements || count > elements - offset) {
      throw wrong("a part of " + std::to_string(count) + " elements from " +
                  std::to_string(offset) + " on for rank " + std::to_string(rank));
    }
    next = offset + count;
    result[rank] = {offset * size_of(type), count * size_of(type)};
  }
  return result;
}

Task alltoallv_spread(Io& io, ConstBuffer send, std::vector<BytePart> outgoing, Buffer receive,
                      std::vector<BytePart> incoming, std::size_t segment) {
  const std::span<const std::byte> from = bytes_of(send);
  const std::span<std::byte> to = bytes_of(receive);
  const auto me = static_cast<std::size_t>(io.rank());
  if (outgoing[me].bytes > 0)
    std::memcpy(to.data() + incoming[me].offset, from.data() + outgoing[me].offset,
                outgoing[me].bytes);
  const std::size_t peers = std::min(kPeers, outgoing.size() - 1);
  const std::size_t in_flight = kInFlight / std::max<std::size_t>(peers, 1);
  int next_from = 1, next_to = 1;
  std::vector<Branch> both;
  both.reserve(2 * peers);
  for (std::size_t i = 0; i < peers; ++i) {
    both.emplace_back(stream(to, incoming, next_from, segment, in_flight, Receiving{io}));
    both.emplace_back(stream(from, outgoing, next_to, segment, in_flight, Sending{io}));
  }
  co_await branches(both);
}

}  // namespace convoy::comm
