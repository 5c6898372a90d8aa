#include "data/store/agree.h"

#include <algorithm>
#include <chrono>
#include <future>
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

void together(Peers& peers, const std::function<void()>& work) {
  constexpr std::chrono::milliseconds kTick(100);
  const auto error_of = [&work]() -> std::exception_ptr {
    try {
      work();
      return nullptr;
    } catch (...) {
      return std::current_exception();
    }
  };
  if (peers.size() == 1) return agree(peers, error_of());
  // A sign of life, now and then, from those who work: the others wait for no more than that.
  auto error = std::async(std::launch::async, error_of);
  while (true) {
    const bool ready = error.wait_for(kTick) == std::future_status::ready;
    const std::vector<std::uint64_t> all = peers.gather_numbers(ready ? 1 : 0);
    if (std::find(all.begin(), all.end(), 0) == all.end()) break;
  }
  agree(peers, error.get());
}

}  // namespace convoy::data
