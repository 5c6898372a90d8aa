#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "comm/collectives/alltoallv/alltoallv.h"

namespace convoy::comm {
namespace {

constexpr std::size_t kSegmentBytes = 4 << 20;

std::size_t begin_of(const std::vector<std::size_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
}

}  // namespace

Task alltoallv_pairwise(Io& io, ConstBuffer send, std::vector<std::size_t> send_counts,
                        Buffer receive, std::vector<std::size_t> receive_counts) {
  const int size = io.size();
  const int rank = io.rank();
  const std::size_t element = size_of(send.type);
  const auto outgoing = [&](int to) {
    return std::span(static_cast<const std::byte*>(send.data) + begin_of(send_counts, to) * element,
                     send_counts[static_cast<std::size_t>(to)] * element);
  };
  const auto incoming = [&](int from) {
    return std::span(
        static_cast<std::byte*>(receive.data) + begin_of(receive_counts, from) * element,
        receive_counts[static_cast<std::size_t>(from)] * element);
  };
  if (!outgoing(rank).empty())
    std::memcpy(incoming(rank).data(), outgoing(rank).data(), outgoing(rank).size());

  for (int step = 1; step < size; ++step) {
    const int to = (rank + step) % size;
    const int from = (rank + size - step) % size;
    std::span<const std::byte> out = outgoing(to);
    std::span<std::byte> in = incoming(from);
    // An empty part is one empty message, so that sides that disagree about it find out.
    bool first = true;
    while (first || !out.empty() || !in.empty()) {
      std::array<Ticket, 2> exchange;
      if (first || !in.empty()) {
        exchange[0] = io.receive(from, in.first(std::min(in.size(), kSegmentBytes)));
        in = in.subspan(std::min(in.size(), kSegmentBytes));
      }
      if (first || !out.empty()) {
        exchange[1] = io.send(to, out.first(std::min(out.size(), kSegmentBytes)));
        out = out.subspan(std::min(out.size(), kSegmentBytes));
      }
      co_await all(exchange);
      first = false;
    }
  }
}

}  // namespace convoy::comm
