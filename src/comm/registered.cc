#include "convoy/comm/registered.h"

#include <cstdlib>
#include <cstring>

#include "comm/engine/reserved.h"
#include "comm/internals.h"
#include "convoy/base/error.h"

namespace convoy::comm {
namespace {

constexpr std::size_t kPage = 4096;

// Keeps the mapping, and takes the region out of the node's list at the end.
class Region {
 public:
  Region(std::shared_ptr<const Locality> locality, SharedParts parts)
      : locality_(std::move(locality)),
        parts_(std::move(parts)),
        number_(locality_->node->add_region(parts_)) {}
  ~Region() { locality_->node->forget_region(number_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

 private:
  std::shared_ptr<const Locality> locality_;
  SharedParts parts_;
  std::uint32_t number_;
};

}  // namespace

RegisteredMemory Communicator::allocate(std::size_t bytes) const {
  if (locality_->map.nodes() > 0 && locality_->map.nodes() < size() && locality_->problem.empty()) {
    const int node = locality_->map.node_of(rank());
    const Gather gather = [&](std::string_view text) {
      return CommunicatorInternals::gather(*this, Kind::allocate, text, reserved::kAllocate);
    };
    std::string problem;
    SharedParts parts =
        share_memory(gather, locality_->map.members(node),
                     static_cast<std::size_t>(locality_->map.index_of(rank())), bytes, problem);
    if (!parts.parts.empty()) {
      const std::span<std::byte> own = parts.parts[locality_->node->index()];
      return {own.first(bytes), true, std::make_shared<Region>(locality_, std::move(parts))};
    }
  }
  const std::size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  std::shared_ptr<void> memory(std::aligned_alloc(kPage, std::max(rounded, kPage)), std::free);
  if (!memory) throw std::bad_alloc();
  std::memset(memory.get(), 0, rounded);
  return {{static_cast<std::byte*>(memory.get()), bytes}, false, memory};
}

}  // namespace convoy::comm
