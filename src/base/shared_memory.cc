#include "convoy/base/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <random>

#include "convoy/base/error.h"

namespace convoy {
namespace {

constexpr std::size_t kPage = 4096;

std::string reason(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

// Tells processes apart, also of two containers that have the same host name and process numbers.
const std::string& process_identity() {
  static const std::string identity = [] {
    std::random_device random;
    return std::to_string(getpid()) + "." + std::to_string(random()) + "." +
           std::to_string(random());
  }();
  return identity;
}

std::string new_name() {
  static std::atomic<unsigned> count = 0;
  return "/convoy." + process_identity() + "." + std::to_string(++count);
}

// What the creator tells the others of its host: its process, the object, and where it keeps the
// mapping, which a rank that is a thread of the same process takes over as it is.
struct Offer {
  std::string process, name;
  const std::shared_ptr<Mapping>* place = nullptr;

  std::string text() const {
    return process + ' ' + name + ' ' + std::to_string(reinterpret_cast<std::uintptr_t>(place));
  }
  explicit Offer(const std::string& text) {
    const std::size_t first = text.find(' '), last = text.rfind(' ');
    process = text.substr(0, first);
    name = text.substr(first + 1, last - first - 1);
    std::uintptr_t address = 0;
    std::from_chars(text.data() + last + 1, text.data() + text.size(), address);
    place = reinterpret_cast<const std::shared_ptr<Mapping>*>(address);
  }
  Offer(std::string name, const std::shared_ptr<Mapping>& place)
      : process(process_identity()), name(std::move(name)), place(&place) {}
};

}  // namespace

Mapping::Mapping(std::string name, int descriptor, std::size_t bytes)
    : name_(std::move(name)), descriptor_(descriptor), bytes_(bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (base == MAP_FAILED) {
    const std::string why = reason("mmap");
    ::close(descriptor);
    throw Failure(why);
  }
  base_ = static_cast<std::byte*>(base);
}

std::shared_ptr<Mapping> Mapping::create(const std::string& name, std::size_t bytes) {
  const int descriptor = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (descriptor < 0) throw Failure(reason("shm_open"));
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    const std::string why = reason("ftruncate");
    ::close(descriptor);
    shm_unlink(name.c_str());
    throw Failure(why);
  }
  std::shared_ptr<Mapping> mapping(new Mapping(name, descriptor, bytes));
  mapping->linked_ = true;
  return mapping;
}

std::shared_ptr<Mapping> Mapping::open(const std::string& name, std::size_t bytes) {
  const int descriptor = shm_open(name.c_str(), O_RDWR, 0600);
  if (descriptor < 0) throw Failure(reason("shm_open"));
  return std::shared_ptr<Mapping>(new Mapping(name, descriptor, bytes));
}

Mapping::~Mapping() {
  unlink();
  munmap(base_, bytes_);
  ::close(descriptor_);
}

void Mapping::commit(std::size_t begin, std::size_t bytes) {
  if (bytes == 0) return;
  const int error =
      posix_fallocate(descriptor_, static_cast<off_t>(begin), static_cast<off_t>(bytes));
  if (error != 0) throw Failure(std::string("posix_fallocate: ") + std::strerror(error));
}

void Mapping::unlink() {
  if (linked_) shm_unlink(name_.c_str());
  linked_ = false;
}

SharedParts share_memory(const Gather& gather, const std::vector<int>& members, std::size_t index,
                         std::size_t bytes, std::string& problem) {
  bytes = (bytes + kPage - 1) / kPage * kPage;
  const auto sizes = gather(std::to_string(bytes) + ' ' + process_identity());
  SharedParts shared;
  shared.one_process = true;
  std::vector<std::size_t> begins{0};
  for (int member : members) {
    const std::string& text = sizes[static_cast<std::size_t>(member)];
    std::size_t end = 0;
    begins.push_back(begins.back() + std::stoull(text, &end));
    if (text.substr(end + 1) != process_identity()) shared.one_process = false;
  }
  std::string own;  // what went wrong here
  const auto attempt = [&](auto&& body) {
    try {
      body();
    } catch (const Failure& failure) {
      own = failure.what();
    }
  };
  // A rank alone on its host shares nothing; it only hears how the others fare.
  const bool needed = members.size() > 1 && begins.back() > 0;
  std::string offer;
  if (needed && index == 0) {
    attempt([&] {
      const std::string name = new_name();
      shared.mapping = Mapping::create(name, begins.back());
      offer = Offer(name, shared.mapping).text();
    });
  }
  const auto offers = gather(offer);
  if (needed && own.empty()) {
    attempt([&] {
      const std::string& theirs = offers[static_cast<std::size_t>(members[0])];
      if (theirs.empty()) return;  // its rank says why
      if (index > 0) {
        const Offer from(theirs);
        shared.mapping = from.process == process_identity()
                             ? *from.place
                             : Mapping::open(from.name, begins.back());
      }
      shared.mapping->commit(begins[index], bytes);
    });
  }
  const auto results = gather(own);
  if (shared.mapping && index == 0) shared.mapping->unlink();
  for (std::size_t rank = 0; rank < results.size() && problem.empty(); ++rank) {
    if (!results[rank].empty()) problem = "rank " + std::to_string(rank) + ": " + results[rank];
  }
  if (!problem.empty()) return {};
  if (!needed) return {};
  for (std::size_t i = 0; i < members.size(); ++i)
    shared.parts.push_back(shared.mapping->bytes().subspan(begins[i], begins[i + 1] - begins[i]));
  return shared;
}

}  // namespace convoy
