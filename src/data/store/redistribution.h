// Moves records between the regions of several ranks with little more memory than the records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "convoy/data/peers.h"
#include "convoy/data/store.h"
#include "data/store/region.h"

namespace convoy::data {

// What goes from this rank to whom: slots are numbers of records in the order in memory.
struct Outgoing {
  std::vector<std::uint32_t> slots;  // of those for rank 0, those for rank 1, ...; each ascending
  std::vector<std::size_t> begins;   // where each rank's begin in `slots`, and the end
};

// One exchange. What rank i sends to rank j is one stream of bytes, in i's order of memory, and
// lies in j's new region as such, after the streams of ranks before i. All streams advance in step,
// in rounds: after k of K rounds k/K of each has moved, so the bytes of records on a rank go in a
// straight line from what it had to what it gets. Two rounds are under way at a time, so that links
// are busy while the next one is put together. What has been sent leaves gaps; pages that are gaps
// altogether are released at once, and when the rest of the gaps exceeds half a segment, what is
// left is pushed together.
class RecordRedistribution {
 public:
  // The record at a slot has the bytes offsets[slot] .. offsets[slot + 1] - 1 of `from`, all of
  // which are records. incoming[i]: bytes that will come from rank i. `peers` and `from` have to
  // stay. No communication.
  RecordRedistribution(Peers& peers, Region& from, const std::vector<std::uint64_t>& offsets,
                       Outgoing outgoing, std::vector<std::size_t> incoming, std::size_t segment);

  // Collective. Gives the new region, and empties the old one.
  Region run();

  const ShuffleReport& report() const { return report_; }

 private:
  // What travels in one round. The bytes outlive the exchange.
  struct Stage {
    std::vector<std::byte> bytes;
    std::unique_ptr<Exchange> exchange;
  };

  std::uint64_t agree_on_rounds();  // collective
  void take(int to, std::size_t bytes, std::byte* out);
  void sent(std::uint64_t begin, std::uint64_t bytes);
  void release_pages();
  void compact();
  void count_pages();
  void note_peak();

  Peers& peers_;
  Region& from_;
  Outgoing outgoing_;
  std::vector<std::size_t> totals_;    // of the outgoing streams
  std::vector<std::size_t> incoming_;  // and of the incoming ones
  std::size_t stage_;                  // bytes of each of the two buffers: a quarter of a segment
  std::size_t gaps_;                   // bytes that may be lost to gaps: half a segment
  // What is not sent yet.
  std::vector<std::uint64_t> at_;       // by slot
  std::vector<std::uint64_t> left_;     // by slot
  std::vector<std::size_t> next_;       // by rank: in outgoing_.slots
  std::vector<std::uint32_t> in_page_;  // bytes, by page of from_
  std::size_t pages_ = 0;               // that hold any
  std::uint64_t unsent_ = 0;
  std::vector<std::size_t> empty_;  // pages to release
  // What has arrived.
  std::vector<std::uint64_t> begin_of_;  // by rank, in the new region
  std::vector<std::uint64_t> arrived_;
  std::uint64_t staged_ = 0;  // bytes of the two buffers
  ShuffleReport report_;
};

}  // namespace convoy::data
