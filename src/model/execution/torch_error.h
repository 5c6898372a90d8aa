// What LibTorch says is wrong.
#pragma once

#include <c10/util/Exception.h>

#include <string>

namespace convoy::model {

// "LibTorch says: " and the first line of its message.
inline std::string text_of(const c10::Error& error) {
  const std::string reason = error.what_without_backtrace();
  return "LibTorch says: " + reason.substr(0, reason.find('\n'));
}

}  // namespace convoy::model
