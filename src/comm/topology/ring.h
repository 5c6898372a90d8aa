// Neighbors on a ring of ranks.
#pragma once

namespace convoy::comm {

struct RingLinks {
  int next = 0;
  int previous = 0;
};

// The ring 0, 1, .. ranks-1, 0. With one rank both neighbors are the rank itself.
inline RingLinks ring_links(int ranks, int rank) {
  return {(rank + 1) % ranks, (rank + ranks - 1) % ranks};
}

}  // namespace convoy::comm
