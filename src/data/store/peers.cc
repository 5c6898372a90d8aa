#include "convoy/data/peers.h"

#include <algorithm>

namespace convoy::data {

void Alone::exchange(std::span<const std::byte> send, std::span<const std::size_t>,
                     std::span<std::byte> receive, std::span<const std::size_t>) {
  std::copy(send.begin(), send.end(), receive.begin());
}

}  // namespace convoy::data
