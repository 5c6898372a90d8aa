// How a server's process keeps memory.
#pragma once

namespace convoy::server::host {

// From now on what this process frees stays its own, up to some hundred MiB, for what comes next:
// by default the allocator gives large blocks back, and the kernel takes as long to find and clear
// fresh pages as it takes to receive into them. For programs that serve; others have other needs.
void keep_freed_memory();

}  // namespace convoy::server::host
