#include "data/store/redistribution.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace convoy::data {
namespace {

// total * part / parts without overflow, for part <= parts < 2^32.
std::uint64_t portion(std::uint64_t total, std::uint64_t part, std::uint64_t parts) {
  return total / parts * part + total % parts * part / parts;
}

std::uint64_t sum_of(const std::vector<std::size_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

}  // namespace

RecordRedistribution::RecordRedistribution(Peers& peers, Region& from,
                                           const std::vector<std::uint64_t>& offsets,
                                           Outgoing outgoing, std::vector<std::size_t> incoming,
                                           std::size_t segment)
    : peers_(peers),
      from_(from),
      outgoing_(std::move(outgoing)),
      incoming_(std::move(incoming)),
      stage_(std::max<std::size_t>(segment / 4, 1)),
      gaps_(segment / 2) {
  const auto ranks = static_cast<std::size_t>(peers.size());
  at_.assign(offsets.begin(), offsets.end() - 1);
  left_.resize(at_.size());
  for (std::size_t slot = 0; slot < at_.size(); ++slot)
    left_[slot] = offsets[slot + 1] - offsets[slot];
  totals_.resize(ranks);
  for (std::size_t to = 0; to < ranks; ++to) {
    for (std::size_t i = outgoing_.begins[to]; i < outgoing_.begins[to + 1]; ++i)
      totals_[to] += left_[outgoing_.slots[i]];
  }
  next_.assign(outgoing_.begins.begin(), outgoing_.begins.end() - 1);
  begin_of_.assign(ranks, 0);
  std::partial_sum(incoming_.begin(), incoming_.end() - 1, begin_of_.begin() + 1,
                   std::plus<std::uint64_t>());
  arrived_.assign(ranks, 0);
  unsent_ = offsets.back();
  in_page_.resize((unsent_ + Region::page() - 1) / Region::page());
  count_pages();
}

// As few as let what every rank sends and gets in one fit into its buffers.
std::uint64_t RecordRedistribution::agree_on_rounds() {
  std::uint64_t most = 0;
  for (const std::uint64_t bytes :
       peers_.gather_numbers(std::max(sum_of(totals_), sum_of(incoming_)))) {
    most = std::max(most, bytes);
  }
  return (most + stage_ - 1) / stage_;
}

Region RecordRedistribution::run() {
  const auto ranks = static_cast<std::size_t>(peers_.size());
  const auto me = static_cast<std::size_t>(peers_.rank());
  Region to(sum_of(incoming_));
  const std::uint64_t count = agree_on_rounds();
  std::vector<std::size_t> out_counts(ranks), in_counts(ranks), in_offsets(ranks);
  Stage stages[2];  // one is filled while the other's bytes travel
  for (Stage& stage : stages) {
    // Rounds differ by a byte for each rank: a vector that grew would double.
    if (count > 0) stage.bytes.reserve(sum_of(totals_) / count + ranks);
  }
  for (std::uint64_t round = 0; round < count; ++round) {
    const auto share = [&](std::uint64_t total) {
      return portion(total, round + 1, count) - portion(total, round, count);
    };
    Stage& stage = stages[round % 2];
    if (stage.exchange) stage.exchange->wait();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      out_counts[rank] = share(totals_[rank]);
      in_counts[rank] = share(incoming_[rank]);
      in_offsets[rank] = begin_of_[rank] + arrived_[rank];
    }
    stage.bytes.resize(sum_of(out_counts));
    std::byte* place = stage.bytes.data();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      take(static_cast<int>(rank), out_counts[rank], place);
      place += out_counts[rank];
    }
    staged_ = stages[0].bytes.capacity() + stages[1].bytes.capacity();
    note_peak();  // before any page is released
    release_pages();
    if (pages_ * Region::page() > unsent_ + gaps_) compact();
    for (std::size_t rank = 0; rank < ranks; ++rank) arrived_[rank] += in_counts[rank];
    note_peak();
    stage.exchange = peers_.start_exchange(stage.bytes, out_counts,
                                           {to.data(), static_cast<std::size_t>(to.size())},
                                           in_counts, in_offsets);
    report_.bytes += stage.bytes.size() - out_counts[me];
  }
  for (std::uint64_t round = count; round < count + 2; ++round) {
    Stage& stage = stages[round % 2];
    if (stage.exchange) stage.exchange->wait();
  }
  report_.rounds = count;
  return to;
}

// The next bytes of the stream to a rank.
void RecordRedistribution::take(int to, std::size_t bytes, std::byte* out) {
  std::size_t& next = next_[static_cast<std::size_t>(to)];
  while (bytes > 0) {
    const std::uint32_t slot = outgoing_.slots[next];
    const auto count = std::min<std::uint64_t>(bytes, left_[slot]);
    if (count > 0) {
      std::memcpy(out, from_.data() + at_[slot], count);
      sent(at_[slot], count);
    }
    at_[slot] += count;
    left_[slot] -= count;
    out += count;
    bytes -= count;
    if (left_[slot] == 0) ++next;
  }
}

void RecordRedistribution::sent(std::uint64_t begin, std::uint64_t bytes) {
  unsent_ -= bytes;
  for (std::uint64_t at = begin; at < begin + bytes;) {
    const std::size_t page = at / Region::page();
    const std::uint64_t end = std::min<std::uint64_t>((page + 1) * Region::page(), begin + bytes);
    in_page_[page] -= static_cast<std::uint32_t>(end - at);
    if (in_page_[page] == 0) empty_.push_back(page);
    at = end;
  }
}

void RecordRedistribution::release_pages() {
  std::sort(empty_.begin(), empty_.end());
  for (std::size_t i = 0; i < empty_.size();) {
    std::size_t end = i + 1;
    while (end < empty_.size() && empty_[end] == empty_[i] + (end - i)) ++end;
    from_.release(empty_[i], empty_[i] + (end - i));
    i = end;
  }
  pages_ -= empty_.size();
  empty_.clear();
}

// Pushes what is not sent to the region's end. Slots ascend with their places, and still do so
// afterwards.
void RecordRedistribution::compact() {
  std::uint64_t end = from_.size();
  for (std::size_t slot = at_.size(); slot-- > 0;) {
    if (left_[slot] == 0) continue;
    end -= left_[slot];
    if (at_[slot] != end) std::memmove(from_.data() + end, from_.data() + at_[slot], left_[slot]);
    at_[slot] = end;
  }
  count_pages();
  from_.release(0, in_page_.size() - pages_);
  ++report_.compactions;
}

// When everything unsent lies at the end of the region.
void RecordRedistribution::count_pages() {
  const std::uint64_t begin = from_.size() - unsent_;
  pages_ = 0;
  for (std::size_t page = 0; page < in_page_.size(); ++page) {
    const std::uint64_t first = std::max<std::uint64_t>(page * Region::page(), begin);
    const std::uint64_t last = std::min<std::uint64_t>((page + 1) * Region::page(), from_.size());
    in_page_[page] = last > first ? static_cast<std::uint32_t>(last - first) : 0;
    if (in_page_[page] > 0) ++pages_;
  }
}

void RecordRedistribution::note_peak() {
  std::uint64_t pages = pages_;
  for (std::size_t rank = 0; rank < arrived_.size(); ++rank) {
    if (arrived_[rank] == 0) continue;
    const std::uint64_t last = begin_of_[rank] + arrived_[rank] - 1;
    pages += last / Region::page() - begin_of_[rank] / Region::page() + 1;
  }
  report_.peak = std::max(report_.peak, pages * Region::page() + staged_);
}

}  // namespace convoy::data
