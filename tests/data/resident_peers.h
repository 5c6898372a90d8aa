// What the kernel says of the memory that a shuffle takes.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "convoy/data/store.h"

namespace convoy::data {

// Bytes of the pages between these addresses that are in memory.
inline std::uint64_t resident_bytes(std::span<const std::byte> addresses) {
  if (addresses.empty()) return 0;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(addresses.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(addresses.data()) + addresses.size();
  std::vector<unsigned char> pages((end - begin + page - 1) / page);
  if (mincore(reinterpret_cast<void*>(begin), end - begin, pages.data()) != 0) return 0;
  const auto there = std::count_if(pages.begin(), pages.end(), [](auto p) { return (p & 1) != 0; });
  return static_cast<std::uint64_t>(there) * page;
}

// Looks at the memory of records at each step of a shuffle: pages of what the store has, of what it
// is about to get, and the segments that travel.
struct ResidentWatch {
  std::span<const std::byte> from;  // what the store has
  std::span<const std::byte> to;
  std::uint64_t segment = 0;  // the largest that travels; there are two
  std::uint64_t most = 0;

  void look() { most = std::max(most, resident_bytes(from) + resident_bytes(to) + 2 * segment); }
};

// Peers that look whenever bytes begin or end to travel to the memory of records, which begins with
// a page.
class ResidentPeers final : public Peers {
 public:
  ResidentPeers(Peers& peers, ResidentWatch& watch) : peers_(&peers), watch_(watch) {}

  int rank() const override { return peers_->rank(); }
  int size() const override { return peers_->size(); }
  std::vector<std::string> gather(const std::string& text) override { return peers_->gather(text); }
  std::unique_ptr<Exchange> start_exchange(std::span<const std::byte> send,
                                           std::span<const std::size_t> send_counts,
                                           std::span<std::byte> receive,
                                           std::span<const std::size_t> receive_counts,
                                           std::span<const std::size_t> receive_offsets) override {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    // Numbers, which travel as well, may begin with a page too, but fill what they are received in.
    const bool records = reinterpret_cast<std::uintptr_t>(receive.data()) % page == 0 &&
                         std::accumulate(receive_counts.begin(), receive_counts.end(),
                                         std::size_t{0}) < receive.size();
    auto exchange =
        peers_->start_exchange(send, send_counts, receive, receive_counts, receive_offsets);
    if (!records) return exchange;
    watch_.to = receive;
    watch_.segment = std::max<std::uint64_t>(watch_.segment, send.size());
    watch_.look();
    return std::make_unique<Watched>(std::move(exchange), watch_);
  }
  std::unique_ptr<Peers> split(int color) override {
    return std::unique_ptr<Peers>(new ResidentPeers(peers_->split(color), watch_));
  }

 private:
  class Watched final : public Exchange {
   public:
    Watched(std::unique_ptr<Exchange> exchange, ResidentWatch& watch)
        : exchange_(std::move(exchange)), watch_(watch) {}
    void wait() override {
      exchange_->wait();
      watch_.look();
    }

   private:
    std::unique_ptr<Exchange> exchange_;
    ResidentWatch& watch_;
  };
  ResidentPeers(std::unique_ptr<Peers> own, ResidentWatch& watch)
      : own_(std::move(own)), peers_(own_.get()), watch_(watch) {}

  std::unique_ptr<Peers> own_;  // of a group
  Peers* peers_;
  ResidentWatch& watch_;
};

// The addresses of all records that a store holds.
inline std::span<const std::byte> records_of(const Store& store) {
  std::vector<std::byte> scratch;
  const std::byte* begin = nullptr;
  for (std::size_t i = 0; i < store.size(); ++i) {
    if (!store.holds(i)) continue;
    const std::byte* const at = store.read(i, scratch).bytes.data();
    if (begin == nullptr || at < begin) begin = at;
  }
  if (store.held_bytes() == 0) return {};
  return {begin, static_cast<std::size_t>(store.held_bytes())};
}

// Shuffles, and says the most bytes of memory that the kernel saw in use for it.
inline std::uint64_t watched_shuffle(Store& store, std::span<const std::size_t> order,
                                     ResidentWatch& watch) {
  watch = {records_of(store), {}, 0, 0};
  store.arrange(order);
  return watch.most;
}

}  // namespace convoy::data
