#include "convoy/base/lines_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/append.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what, int error) {
  throw Failure("cannot write " + path + ": " + what + ": " + std::strerror(error));
}

}  // namespace

LinesFile::LinesFile(std::string path) : path_(std::move(path)) {
  for (;;) {
    file_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (!file_.open()) fail(path_, "open", errno);
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0)
      throw UsageError(path_ + " is in use by another process; one at a time can add to it");
    // Who had it may have removed it in between: what is written then would be nowhere.
    struct stat status {};
    if (::fstat(file_.get(), &status) != 0) fail(path_, "fstat", errno);
    if (status.st_nlink > 0) break;
  }
  const std::string all = text();
  const std::size_t end = all.rfind('\n');
  const std::size_t whole = end == std::string::npos ? 0 : end + 1;
  if (whole < all.size() && ::ftruncate(file_.get(), static_cast<off_t>(whole)) != 0)
    fail(path_, "ftruncate", errno);
}

std::string LinesFile::text() const { return read_text_file(path_); }

void LinesFile::append(const std::string& line) {
  append_whole(file_.get(), line + "\n", path_, Durability::synced);
}

void LinesFile::clear() {
  if (::ftruncate(file_.get(), 0) != 0) fail(path_, "ftruncate", errno);
}

}  // namespace convoy
