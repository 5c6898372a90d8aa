// Memory that several ranks of one host can read and write.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace convoy {

// One mapping of a shared-memory object into this process; unmapped with its last reference.
class Mapping {
 public:
  // A new object of so many bytes, with no memory behind it yet. Throws Failure.
  static std::shared_ptr<Mapping> create(const std::string& name, std::size_t bytes);
  // The object that another process has created.
  static std::shared_ptr<Mapping> open(const std::string& name, std::size_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::span<std::byte> bytes() const { return {base_, bytes_}; }
  // Puts memory behind a part of it, zeroed and local to the caller's processor; throws Failure
  // when there is not enough. Without this, a full machine would show as SIGBUS at the first
  // access.
  void commit(std::size_t begin, std::size_t bytes);
  // Takes the name away, so that the memory goes with its last mapping, however processes end.
  void unlink();

 private:
  Mapping(std::string name, int descriptor, std::size_t bytes);
  std::string name_;
  int descriptor_ = -1;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  bool linked_ = false;
};

// A part for each rank of one host in one mapping.
struct SharedParts {
  std::shared_ptr<Mapping> mapping;
  std::vector<std::span<std::byte>> parts;  // by position in `members`
  bool one_process = false;                 // the members are threads of this process
};

// Every rank's text, in the order of ranks.
using Gather = std::function<std::vector<std::string>(std::string_view)>;

// Maps a part of `bytes` (multiples of 4 KiB after rounding up; may differ among ranks) for each of
// `members`, the ranks on this rank's host (itself at `index`), all of whom see all parts. All
// ranks of `gather` call this, also those alone on their host. If it fails on one of them it fails
// on all: `problem` says where and why, and nothing is mapped.
SharedParts share_memory(const Gather& gather, const std::vector<int>& members, std::size_t index,
                         std::size_t bytes, std::string& problem);

}  // namespace convoy
