#include <array>

#include "comm/collectives/barrier/barrier.h"

namespace convoy::comm {

Task barrier_dissemination(Io& io) {
  const int size = io.size();
  int lane = 0;
  for (int distance = 1; distance < size; distance *= 2, ++lane) {
    std::array<Ticket, 2> exchange;
    exchange[0] = io.receive((io.rank() + size - distance) % size, {}, lane);
    exchange[1] = io.send((io.rank() + distance) % size, {}, lane);
    co_await all(exchange);
  }
}

}  // namespace convoy::comm
