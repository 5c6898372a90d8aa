// mpirun as a child of `convoy run`.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "convoy/base/descriptor.h"

namespace convoy::cli {

struct Child {
  pid_t pid = 0;
  Descriptor standard_output;  // not open if it was not asked for
  Descriptor standard_error;
};

// Blocks these signals for this thread and returns a descriptor that delivers them.
Descriptor signal_descriptor(const std::vector<int>& signals);

// Starts arguments[0] (a path) in a process group of its own, with `variables` (NAME=value) added
// to its environment and no signal blocked. It receives SIGTERM when the calling thread ends,
// however that happens. A terminal on standard input is replaced by /dev/null, since a background
// group can't read it. Throws Failure if it can't be started.
Child start_child(const std::vector<std::string>& arguments,
                  const std::vector<std::string>& variables, bool capture_output);

// Writes everything to a descriptor. False if nobody reads any more.
bool write_all(int fd, const std::string& bytes);

}  // namespace convoy::cli
