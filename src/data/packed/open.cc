#include "data/packed/open.h"

#include <filesystem>
#include <vector>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::data {
namespace {

// More than the headers before a first record take up, unless the tar begins with other files.
constexpr std::uint64_t kMostHead = std::uint64_t{1} << 20;

std::vector<std::byte> read_index(const std::string& tar) {
  std::error_code error;
  if (!std::filesystem::exists(index_path(tar), error)) {
    throw UsageError(tar + " has no index (" + index_path(tar) +
                     "); convoy index makes one, convoy pack makes both");
  }
  return read_file(index_path(tar));
}

}  // namespace

OpenPacked::OpenPacked(const std::string& path)
    : tar(path), index(read_index(path), index_path(path)) {}

void OpenPacked::check_same_tar() const {
  const std::uint64_t bytes = index.header().tar_bytes;
  if (tar.size() != bytes) {
    throw UsageError(tar.path() + " has " + std::to_string(tar.size()) +
                     " bytes, the tar that its index was made for had " + std::to_string(bytes) +
                     (tar.size() < bytes ? ": truncated, or another file" : ": another file"));
  }
  if (index.size() == 0 || index[0].offset > kMostHead) return;
  std::vector<std::byte> head(static_cast<std::size_t>(index[0].offset));
  tar.read(0, head);
  if (xxh3(head) != index[0].gap_checksum) {
    throw UsageError(tar.path() +
                     ": its first bytes are not those of the tar that its index was "
                     "made for: damaged, or another file");
  }
}

}  // namespace convoy::data
