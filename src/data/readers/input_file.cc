#include "data/readers/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "convoy/base/error.h"
#include "convoy/base/system.h"

namespace convoy::data {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

InputFile::InputFile(std::string path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (fd_ < 0) throw UsageError("cannot read " + path_ + ": " + reason(errno));
  struct stat status {};
  const int error = ::fstat(fd_, &status) != 0 ? errno : S_ISDIR(status.st_mode) ? EISDIR : 0;
  if (error != 0) {
    ::close(fd_);
    throw UsageError("cannot read " + path_ + ": " + reason(error));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() { ::close(fd_); }

void InputFile::fail(const std::string& why) const {
  throw Failure("reading " + path_ + " on " + host_name() + ": " + why);
}

std::size_t InputFile::read_some(std::uint64_t offset, std::span<std::byte> to) const {
  while (true) {
    const ssize_t got = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) fail(reason(errno));
  }
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const std::size_t got = read_some(offset, to);
    if (got == 0) {
      fail("it ends at byte " + std::to_string(offset) + " and had " + std::to_string(size_) +
           " when it was opened: somebody has cut it short");
    }
    offset += got;
    to = to.subspan(got);
  }
}

void InputFile::announce(std::uint64_t offset, std::uint64_t count) const {
  ::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(count), POSIX_FADV_WILLNEED);
}

}  // namespace convoy::data
