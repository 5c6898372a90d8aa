// Memory of tensors on the CPU: an allocator that keeps large blocks instead of returning them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace convoy::train {

struct LargeBlockOptions {
  // Tensors from this size on are served from kept blocks, smaller ones by the allocator in use
  // before. Bytes.
  std::size_t smallest = std::size_t{1} << 20;
  // Most bytes of freed blocks to keep for reuse; the longest unused go back to the kernel first.
  // 0: this process's part of a quarter of the memory there is (the machine's, or its cgroup's
  // limit), which `processes` of this host share.
  std::size_t max_cached = 0;
  int processes = 1;
  // Ask for transparent huge pages (MADV_HUGEPAGE): fewer page faults and TLB misses. Where the
  // kernel has them switched off, this does nothing.
  bool huge_pages = true;
};

struct LargeBlockStats {
  std::size_t live_bytes = 0;    // in blocks that tensors hold
  std::size_t cached_bytes = 0;  // in blocks kept for reuse
  std::size_t peak_bytes = 0;    // most of live and cached together, so far
  std::uint64_t reused = 0;      // requests served by a kept block
  std::uint64_t mapped = 0;      // requests that took new memory from the kernel
  std::uint64_t unmapped = 0;    // blocks given back to the kernel
};

// Makes LibTorch take the memory of CPU tensors from an allocator that keeps large blocks, for the
// rest of the process. Training on CPU allocates the same gigabytes in every step, and glibc gives
// each of them back to the kernel and faults them in anew; see docs/performance.md for what that
// costs.
//
// Call once, early, before other threads use LibTorch (c10::SetCPUAllocator is not thread-safe);
// tensors made before stay valid. Afterwards allocation and freeing are safe from any thread.
// Memory is aligned to 64 bytes or more. The allocator is never destroyed, so tensors may be freed
// by static destructors and exit handlers.
//
// False, and nothing changed, when it is installed already (the first options stay) and in builds
// with the address or thread sanitizer, which have to see every allocation.
bool keep_large_blocks(const LargeBlockOptions& options = {});

// All zero before keep_large_blocks. From any thread.
LargeBlockStats large_block_stats();

// Gives every kept block back to the kernel, for instance between training and something that needs
// the memory elsewhere. From any thread.
void release_large_blocks();

}  // namespace convoy::train
