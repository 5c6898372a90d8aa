#include "convoy/data/peers.h"

#include <algorithm>
#include <numeric>

namespace convoy::data {
namespace {

class Ended final : public Exchange {
  void wait() override {}
};

}  // namespace

void Peers::exchange(std::span<const std::byte> send, std::span<const std::size_t> send_counts,
                     std::span<std::byte> receive, std::span<const std::size_t> receive_counts) {
  std::vector<std::size_t> offsets(receive_counts.size());
  std::exclusive_scan(receive_counts.begin(), receive_counts.end(), offsets.begin(),
                      std::size_t{0});
  start_exchange(send, send_counts, receive, receive_counts, offsets)->wait();
}

std::unique_ptr<Exchange> Alone::start_exchange(std::span<const std::byte> send,
                                                std::span<const std::size_t>,
                                                std::span<std::byte> receive,
                                                std::span<const std::size_t>,
                                                std::span<const std::size_t> receive_offsets) {
  std::copy(send.begin(), send.end(), receive.subspan(receive_offsets[0]).begin());
  return std::make_unique<Ended>();
}

}  // namespace convoy::data
