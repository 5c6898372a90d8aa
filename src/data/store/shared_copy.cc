#include "data/store/shared_copy.h"

#include <exception>

#include "data/store/agree.h"

namespace convoy::data {

std::unique_ptr<SharedCopy> SharedCopy::make(Peers& world, const HostRanks& here,
                                             std::uint64_t bytes, std::string& problem) {
  auto copy = std::make_unique<SharedCopy>();
  const auto gather = [&world](std::string_view text) { return world.gather(std::string(text)); };
  SharedParts shared =
      share_memory(gather, here.all, here.index, here.index == 0 ? bytes : 0, problem);
  if (!problem.empty()) return nullptr;
  copy->shared_ = std::move(shared.mapping);
  std::exception_ptr error;
  try {
    if (!copy->shared_) copy->own_ = Region(bytes);
  } catch (...) {
    error = std::current_exception();
  }
  agree(world, error);
  return copy;
}

}  // namespace convoy::data
