#include "convoy/data/peers.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "convoy/data/epoch_order.h"

namespace convoy::data {
namespace {

class Ended final : public Exchange {
  void wait() override {}
};

}  // namespace

std::vector<std::uint64_t> Peers::gather_numbers(std::uint64_t number) {
  // Ranks are processes of one program, so a number has the same bytes on all of them.
  const std::vector<std::string> all =
      gather(std::string(reinterpret_cast<const char*>(&number), sizeof number));
  std::vector<std::uint64_t> numbers(all.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    std::memcpy(&numbers[rank], all[rank].data(), sizeof number);
  return numbers;
}

// Rank 0 hands out a part to each, then everyone passes its part on to everyone.
void Peers::broadcast(std::vector<std::byte>& bytes) {
  const auto ranks = static_cast<std::size_t>(size());
  if (rank() != 0) bytes.clear();
  bytes.resize(gather_numbers(bytes.size())[0]);
  std::vector<std::size_t> counts(ranks);
  for (std::size_t i = 0; i < ranks; ++i)
    counts[i] = even_share({0, bytes.size()}, static_cast<int>(i), size()).size();
  const std::size_t mine = counts[static_cast<std::size_t>(rank())];
  std::vector<std::size_t> none(ranks, 0), from_first(ranks, 0);
  from_first[0] = mine;
  std::vector<std::byte> part(mine);
  exchange(rank() == 0 ? std::span<const std::byte>(bytes) : std::span<const std::byte>(),
           rank() == 0 ? counts : none, part, from_first);
  std::vector<std::byte> copies;
  copies.reserve(mine * ranks);
  for (std::size_t i = 0; i < ranks; ++i) copies.insert(copies.end(), part.begin(), part.end());
  exchange(copies, std::vector<std::size_t>(ranks, mine), bytes, counts);
}

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
