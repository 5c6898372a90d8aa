// Which versions of the slices a client has in its memory, and had.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace convoy::server::client {

// Threads: any.
class Versions {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};  // no slice has so many updates
  // Fetches that brought something and are kept, for pushes of what was computed with one of them.
  static constexpr std::size_t kKept = 1024;

  using Snapshot = std::shared_ptr<const std::vector<std::uint64_t>>;  // by number of the slice

  explicit Versions(std::size_t slices) : slices_(slices), known_(slices, kNone) {}

  // What is in memory at `to`, whole and of one version: this one need not be sent. From now on
  // nothing is there, until done() says so, since it is being written.
  std::uint64_t begin(std::size_t slice, const void* to);

  struct Fetched {
    std::size_t slice = 0;
    const void* to = nullptr;
    std::uint64_t least = kNone, most = 0;  // of the pieces that it came in
  };
  // A fetch of these is complete; returns its number.
  std::uint64_t done(const std::vector<Fetched>& fetched);

  std::uint64_t fetches() const;
  // After fetch number `fetches`, or, when more than kKept have come since the last call, after one
  // before it; those before are forgotten. Null if it is forgotten, or not complete yet.
  Snapshot after(std::uint64_t fetches);
  // They may have become older: everything has to be sent again.
  void forget();

 private:
  struct Slice {
    std::uint64_t whole = kNone;
    const void* at = nullptr;
  };

  void thin_out();

  mutable std::mutex mutex_;
  std::vector<Slice> slices_;
  std::vector<std::uint64_t> known_;  // kNone: never fetched
  std::uint64_t fetches_ = 0;
  std::deque<std::pair<std::uint64_t, Snapshot>> kept_;
};

}  // namespace convoy::server::client
