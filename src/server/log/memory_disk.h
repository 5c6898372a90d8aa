// Files that live as long as the process does.
#pragma once

#include <memory>

#include "server/log/disk.h"

namespace convoy::server {

// A disk in memory, for a node that keeps no files. `name` is what messages call it.
std::unique_ptr<Disk> memory_disk(const std::string& name);

}  // namespace convoy::server
