// Memory that several ranks of one host can read and write.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace convoy {

// This is one mapping of a shared-memory object into this process; unmapped with its last
// reference.
//
// Threads: any.
class Mapping {
 public:
  // An object that never has a name, so that nothing of it can stay behind; or one in the list of
  // POSIX shared memory until unlink(), for processes that can't see each other's descriptors (in
  // containers with process numbers of their own, say).
  enum class Kind { unnamed, named };
  // Gives a new object of so many bytes, with no memory behind it yet. Throws Failure.
  static std::shared_ptr<Mapping> create(std::size_t bytes, Kind kind);
  // Says how another process of this host opens it, as long as its creator has its descriptor and
  // its name.
  std::string address() const;
  // Gives what another process of this host has created with as many bytes. Throws Failure, also
  // when the address leads to something else here.
  static std::shared_ptr<Mapping> open(const std::string& address, std::size_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::span<std::byte> bytes() const { return {base_, bytes_}; }
  // Puts memory behind a part of it, zeroed where there was none, and local to the caller's
  // processor; throws Failure when there is not enough: then the part is as it was before, and what
  // was free still is. Without this, a full machine would show as SIGBUS at the first access.
  // REQUIRES: no other process commits pages of the part.
  void commit(std::size_t begin, std::size_t bytes);
  // Does the same for the pages of a part of bytes(), and returns false when there is not enough.
  bool try_commit(std::span<std::byte> part) noexcept;
  // Is called when all who need it have opened it: takes its name away, so that the memory goes
  // with its last mapping, however processes end, and closes the descriptor (where the kernel puts
  // memory behind a mapping without one: Linux 5.14).
  void seal() noexcept;

 private:
  Mapping(std::string address, int descriptor, std::size_t bytes);
  int commit_pages(std::size_t begin, std::size_t bytes) noexcept;
  int populate(std::size_t begin, std::size_t end) noexcept;
  std::string_view token() const;

  std::string address_;
  std::mutex mutex_;  // of descriptor_ and committed_
  int descriptor_ = -1;
  std::map<std::size_t, std::size_t> committed_;  // by this process: where ranges begin, and end
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;  // without the page of the token
  std::string linked_;     // the name to take away
};

// This is a part for each rank of one host in one mapping.
struct SharedParts {
  std::shared_ptr<Mapping> mapping;
  std::vector<std::span<std::byte>> parts;  // by position in `members`
  bool one_process = false;                 // the members are threads of this process
};

// Every rank's text, in the order of ranks.
using Gather = std::function<std::vector<std::string>(std::string_view)>;

// This is the size of a rank's part: addresses, and how many of them have memory behind them at
// once; for the rest there is Mapping::try_commit().
struct SharedSize {
  std::size_t bytes = 0;
  std::size_t committed = 0;

  SharedSize(std::size_t bytes) : SharedSize(bytes, bytes) {}  // NOLINT: implicit
  SharedSize(std::size_t bytes, std::size_t committed) : bytes(bytes), committed(committed) {}
};

// Maps a part of `size` (multiples of 4 KiB after rounding up; may differ among ranks) for each of
// `members`, the ranks on this rank's host (itself at `index`), all of whom see all parts. All
// ranks of `gather` call this, also those alone on their host. If it fails on one of them it fails
// on all: `problem` says where and why, and nothing is mapped.
SharedParts share_memory(const Gather& gather, const std::vector<int>& members, std::size_t index,
                         SharedSize size, std::string& problem);

}  // namespace convoy
