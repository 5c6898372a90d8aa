#include "convoy/base/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <new>
#include <random>

#include "convoy/base/error.h"

#if !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older headers lack it
#endif

namespace convoy {
namespace {

// The kernel's unit for memory: 4 KiB, or 16 or 64 on some machines with ARM processors.
const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
// Memory is asked for in steps: when a signal comes, the kernel gives back what it has found for
// one. Steps that signals interrupt become shorter down to the least one, or signals that come more
// often than a step takes would make it start over for ever.
constexpr std::size_t kCommitStep = 4 << 20;
constexpr std::size_t kLeastCommitStep = 64 << 10;

std::size_t up_to_page(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::string reason(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

using Ranges = std::map<std::size_t, std::size_t>;  // where they begin, and end; none touch

// Calls f(from, to) for each part of [begin, end) that is in none of the ranges, until it returns
// something other than 0.
template <class F>
int for_each_gap(const Ranges& ranges, std::size_t begin, std::size_t end, F&& f) {
  auto next = ranges.upper_bound(begin);
  if (next != ranges.begin()) begin = std::max(begin, std::prev(next)->second);
  for (; begin < end; ++next) {
    const std::size_t to = next == ranges.end() ? end : std::min(end, next->first);
    const int result = begin < to ? f(begin, to) : 0;
    if (result != 0 || to == end) return result;
    begin = next->second;
  }
  return 0;
}

// REQUIRES: begin < end.
void add(Ranges& ranges, std::size_t begin, std::size_t end) {
  auto range = ranges.try_emplace(begin, end).first;
  range->second = std::max(range->second, end);
  if (range != ranges.begin() && std::prev(range)->second >= begin) {
    const auto before = std::prev(range);
    before->second = std::max(before->second, range->second);
    ranges.erase(range);
    range = before;
  }
  for (auto next = std::next(range); next != ranges.end() && next->first <= range->second;) {
    range->second = std::max(range->second, next->second);
    next = ranges.erase(next);
  }
}

// Tells processes apart, also of two containers that have the same host name and process numbers,
// and those that were forked from one.
std::string process_identity() {
  static const std::string random = [] {
    std::random_device device;
    return std::to_string(device()) + "." + std::to_string(device());
  }();
  return std::to_string(getpid()) + "." + random;
}

// Of one object among all.
std::string new_token() {
  static std::atomic<unsigned> count = 0;
  return "convoy." + process_identity() + "." + std::to_string(++count);
}

// An address is the token and the path, which begins with a slash in either case.
std::string path_of(const std::string& address) { return address.substr(address.find('/')); }

bool in_proc(const std::string& path) { return path.starts_with("/proc/"); }

// What the creator tells the others of its host: its process, the object, and where it keeps the
// mapping, which a rank that is a thread of the same process takes over as it is.
struct Offer {
  std::string process, address;
  const std::shared_ptr<Mapping>* place = nullptr;

  std::string text() const {
    return process + ' ' + address + ' ' + std::to_string(reinterpret_cast<std::uintptr_t>(place));
  }
  explicit Offer(const std::string& text) {
    const std::size_t first = text.find(' '), last = text.rfind(' ');
    process = text.substr(0, first);
    address = text.substr(first + 1, last - first - 1);
    std::uintptr_t number = 0;
    std::from_chars(text.data() + last + 1, text.data() + text.size(), number);
    place = reinterpret_cast<const std::shared_ptr<Mapping>*>(number);
  }
  explicit Offer(const std::shared_ptr<Mapping>& place)
      : process(process_identity()), address(place->address()), place(&place) {}
};

}  // namespace

Mapping::Mapping(std::string address, int descriptor, std::size_t bytes)
    : address_(std::move(address)), descriptor_(descriptor), bytes_(up_to_page(bytes)) {
  void* base = mmap(nullptr, bytes_ + kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                    descriptor, 0);
  if (base == MAP_FAILED) {
    const std::string why = reason("mmap");
    ::close(descriptor);
    throw Failure(why);
  }
  base_ = static_cast<std::byte*>(base);
}

// Behind what callers see, so that whoever opens an address knows what it has found.
std::string_view Mapping::token() const {
  return {reinterpret_cast<const char*>(base_ + bytes_), address_.find('/')};
}

std::shared_ptr<Mapping> Mapping::create(std::size_t bytes, Kind kind) {
  const std::size_t size = up_to_page(bytes) + kPage;
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size)
    throw Failure("the limit of file sizes (ulimit -f) is below " + std::to_string(size) +
                  " bytes");
  const std::string token = new_token();
  const std::string name = kind == Kind::named ? '/' + token : "";
  const int descriptor = kind == Kind::named
                             ? shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600)
                             : ::open("/dev/shm", O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) throw Failure(reason(kind == Kind::named ? "shm_open" : "/dev/shm"));
  const std::string path = kind == Kind::named ? name
                                               : "/proc/" + std::to_string(getpid()) + "/fd/" +
                                                     std::to_string(descriptor);
  std::shared_ptr<Mapping> mapping;
  try {
    if (ftruncate(descriptor, static_cast<off_t>(size)) != 0) {
      const std::string why = reason("ftruncate");
      ::close(descriptor);
      throw Failure(why);
    }
    mapping.reset(new Mapping(token + path, descriptor, bytes));
  } catch (const Failure&) {
    if (kind == Kind::named) shm_unlink(name.c_str());
    throw;
  }
  mapping->linked_ = name;
  mapping->commit(mapping->bytes_, kPage);
  std::memcpy(mapping->base_ + mapping->bytes_, token.data(), token.size());
  return mapping;
}

std::string Mapping::address() const { return address_; }

std::shared_ptr<Mapping> Mapping::open(const std::string& address, std::size_t bytes) {
  const std::string path = path_of(address);
  // In another container the path may lead to anything: a pipe must not block, nor a terminal stay.
  const int descriptor = in_proc(path)
                             ? ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
                             : shm_open(path.c_str(), O_RDWR, 0600);
  if (descriptor < 0) throw Failure(reason(in_proc(path) ? path.c_str() : "shm_open"));
  struct stat info {};
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode) ||
      static_cast<std::size_t>(info.st_size) != up_to_page(bytes) + kPage) {
    ::close(descriptor);
    throw Failure(path + " is something else here");
  }
  std::shared_ptr<Mapping> mapping(new Mapping(address, descriptor, bytes));
  if (mapping->token() != std::string_view(address).substr(0, address.find('/')))
    throw Failure(path + " is something else here");
  return mapping;
}

Mapping::~Mapping() {
  if (!linked_.empty()) shm_unlink(linked_.c_str());
  munmap(base_, bytes_ + kPage);
  if (descriptor_ >= 0) ::close(descriptor_);
}

// An error number, or 0.
int Mapping::populate(std::size_t begin, std::size_t end) noexcept {
  std::size_t most = kCommitStep;
  while (begin < end) {
    const std::size_t step = std::min(most, end - begin);
    int error = 0;
    if (descriptor_ >= 0)
      error = posix_fallocate(descriptor_, static_cast<off_t>(begin), static_cast<off_t>(step));
    else if (madvise(base_ + begin, step, MADV_POPULATE_WRITE) != 0)
      error = errno == EFAULT ? ENOSPC : errno;
    if (error == EINTR || error == EAGAIN) {
      most = std::max(most / 2, kLeastCommitStep);
      continue;
    }
    if (error != 0) return error;
    begin += step;
    most = std::min(2 * most, kCommitStep);
  }
  return 0;
}

// An error number, or 0.
int Mapping::commit_pages(std::size_t begin, std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t end = up_to_page(begin + bytes);
  begin = begin / kPage * kPage;
  int error = for_each_gap(committed_, begin, end,
                           [&](std::size_t from, std::size_t to) { return populate(from, to); });
  try {
    if (error == 0) add(committed_, begin, end);
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  }
  if (error == 0) return 0;
  // The kernel keeps the pages that it found before there were no more.
  for_each_gap(committed_, begin, end, [&](std::size_t from, std::size_t to) {
    madvise(base_ + from, to - from, MADV_REMOVE);
    return 0;
  });
  return error;
}

void Mapping::commit(std::size_t begin, std::size_t bytes) {
  const int error = commit_pages(begin, bytes);
  if (error != 0) throw Failure(std::string("posix_fallocate: ") + std::strerror(error));
}

bool Mapping::try_commit(std::span<std::byte> part) noexcept {
  return commit_pages(static_cast<std::size_t>(part.data() - base_), part.size()) == 0;
}

void Mapping::seal() noexcept {
  const std::lock_guard lock(mutex_);
  if (!linked_.empty()) shm_unlink(linked_.c_str());
  linked_.clear();
  // The page of the token has its memory: this only asks whether the kernel can do it.
  if (descriptor_ < 0 || madvise(base_ + bytes_, kPage, MADV_POPULATE_WRITE) != 0) return;
  ::close(descriptor_);
  descriptor_ = -1;
}

namespace {

// Whether a failure would not be one if the memory were shared in another way.
enum class Outcome { done, unreachable, failed };

struct Result {
  Outcome outcome = Outcome::done;
  std::string problem;

  std::string text() const {
    return outcome == Outcome::done ? "" : (outcome == Outcome::failed ? '!' : '?') + problem;
  }
};

class Sharing {
 public:
  Sharing(const Gather& gather, const std::vector<int>& members, std::size_t index, SharedSize size)
      : gather_(gather), members_(members), index_(index), size_(size) {
    size_.bytes = up_to_page(size.bytes);
    const auto sizes = gather_(std::to_string(size_.bytes) + ' ' + process_identity());
    shared_.one_process = true;
    for (int member : members_) {
      const std::string& text = sizes[static_cast<std::size_t>(member)];
      std::size_t end = 0;
      begins_.push_back(begins_.back() + std::stoull(text, &end));
      if (text.substr(end + 1) != process_identity()) shared_.one_process = false;
    }
  }

  // The worst that happened to any rank; `problem` says which, and what.
  Outcome attempt(Mapping::Kind kind, std::string& problem) {
    Result own;
    // A rank alone on its host shares nothing; it only hears how the others fare.
    const bool needed = this->needed();
    std::string offer;
    if (needed && index_ == 0) {
      own = result_of(kind == Mapping::Kind::unnamed ? Outcome::unreachable : Outcome::failed, [&] {
        shared_.mapping = Mapping::create(begins_.back(), kind);
        offer = Offer(shared_.mapping).text();
      });
    }
    const auto offers = gather_(offer);
    const std::string& theirs = offers[static_cast<std::size_t>(members_[0])];
    if (needed && !theirs.empty()) {  // else its rank says why
      if (index_ > 0) own = result_of(Outcome::unreachable, [&] { take(Offer(theirs)); });
      if (own.outcome == Outcome::done)
        own = result_of(Outcome::failed,
                        [&] { shared_.mapping->commit(begins_[index_], size_.committed); });
    }
    const auto results = gather_(own.text());
    Outcome worst = Outcome::done;
    problem.clear();
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      if (results[rank].empty()) continue;
      const Outcome outcome = results[rank][0] == '!' ? Outcome::failed : Outcome::unreachable;
      if (outcome <= worst) continue;
      worst = outcome;
      problem = "rank " + std::to_string(rank) + ": " + results[rank].substr(1);
    }
    if (worst != Outcome::done) shared_.mapping.reset();
    return worst;
  }

  // After an attempt that did it.
  SharedParts parts() {
    if (!needed()) return {};
    // Threads of one process share the mapping: the first of them does it for all.
    if (index_ == 0 || !taken_over_) shared_.mapping->seal();
    for (std::size_t i = 0; i < members_.size(); ++i) {
      shared_.parts.push_back(
          shared_.mapping->bytes().subspan(begins_[i], begins_[i + 1] - begins_[i]));
    }
    return std::move(shared_);
  }

 private:
  bool needed() const { return members_.size() > 1 && begins_.back() > 0; }

  void take(const Offer& offer) {
    taken_over_ = offer.process == process_identity();
    shared_.mapping = taken_over_ ? *offer.place : Mapping::open(offer.address, begins_.back());
  }

  template <class F>
  static Result result_of(Outcome failure, F&& body) {
    try {
      body();
      return {};
    } catch (const Failure& e) {
      return {failure, e.what()};
    }
  }

  const Gather& gather_;
  const std::vector<int>& members_;
  std::size_t index_;
  SharedSize size_;
  std::vector<std::size_t> begins_{0};
  SharedParts shared_;
  bool taken_over_ = false;
};

}  // namespace

SharedParts share_memory(const Gather& gather, const std::vector<int>& members, std::size_t index,
                         SharedSize size, std::string& problem) {
  Sharing sharing(gather, members, index, size);
  Outcome outcome = sharing.attempt(Mapping::Kind::unnamed, problem);
  if (outcome == Outcome::unreachable) outcome = sharing.attempt(Mapping::Kind::named, problem);
  return outcome == Outcome::done ? sharing.parts() : SharedParts{};
}

}  // namespace convoy
