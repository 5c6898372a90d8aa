// What came of a piece of work, as a text that other ranks can be told.
#pragma once

#include <exception>
#include <string>
#include <type_traits>

#include "convoy/base/error.h"

namespace convoy::train {

// The first character says what it is; a result or a message follows.
inline constexpr char kDone = 'd', kUsage = 'u', kFailed = 'f';

// Runs work that returns a text, or nothing, and gives its outcome.
template <class F>
std::string outcome_of(F&& work) {
  try {
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      return std::string(1, kDone);
    } else {
      return kDone + work();
    }
  } catch (const UsageError& error) {
    return kUsage + message_of(error);
  } catch (const std::exception& error) {
    return kFailed + message_of(error);
  }
}

inline std::string result_of(const std::string& outcome) {
  if (outcome[0] == kUsage) throw UsageError(outcome.substr(1));
  if (outcome[0] == kFailed) throw Failure(outcome.substr(1));
  return outcome.substr(1);
}

}  // namespace convoy::train
