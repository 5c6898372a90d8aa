// Memory for one copy of all records on a host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "convoy/base/shared_memory.h"
#include "data/store/admit.h"
#include "data/store/region.h"

namespace convoy::data {

class SharedCopy {
 public:
  // Collective over `world`. Null on all ranks when one of them can't share as much; `problem` then
  // says which and why. Throws Failure on all ranks when one that is alone has no addresses for it.
  static std::unique_ptr<SharedCopy> make(Peers& world, const HostRanks& here, std::uint64_t bytes,
                                          std::string& problem);

  std::span<std::byte> bytes() const {
    return shared_ ? shared_->bytes() : std::span(own_.data(), own_.size());
  }

 private:
  std::shared_ptr<Mapping> shared_;
  Region own_;  // where this is the only rank of its host
};

}  // namespace convoy::data
