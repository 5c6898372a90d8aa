#include "data/store/agree.h"

#include <new>
#include <string>

#include "convoy/base/error.h"

namespace convoy::data {
namespace {

constexpr char kUsage = 'u', kFailure = 'f';

std::string text_of(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const UsageError& e) {
    return kUsage + std::string(e.what());
  } catch (const std::bad_alloc&) {
    return kFailure + std::string("out of memory");
  } catch (const std::exception& e) {
    return kFailure + std::string(e.what());
  }
}

}  // namespace

void agree(Peers& peers, const std::exception_ptr& error) {
  for (const std::string& text : peers.gather(text_of(error))) {
    if (text.empty()) continue;
    if (text[0] == kUsage) throw UsageError(text.substr(1));
    throw Failure(text.substr(1));
  }
}

}  // namespace convoy::data
