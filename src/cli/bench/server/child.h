// Processes that a benchmark starts and ends.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "convoy/base/descriptor.h"

namespace convoy::cli {

// A copy of this process in which a function runs. Killed with this object, and with the process
// that made it.
//
// REQUIRES: made while this process has one thread.
class Child {
 public:
  // What `body` returns is the child's first line, by which it says that it is ready; it then stays
  // until it is killed. What `body` throws is said in that line.
  static Child server(const std::function<std::string()>& body);
  // What `body` says with `say`, line by line; the child ends with it.
  using Say = std::function<void(const std::string& line)>;
  static Child talker(const std::function<void(const Say&)>& body);

  Child() = default;
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;

  // The next line; false when the child has ended. Throws what the child's body threw. A signal
  // that is handled ends the waiting with Failure.
  bool next(std::string& line);
  std::string ready();  // the first line

 private:
  static Child start(const std::function<void(const Say&)>& body);

  pid_t pid_ = -1;
  Descriptor from_;
  std::string pending_;
};

}  // namespace convoy::cli
