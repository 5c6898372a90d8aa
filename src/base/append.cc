#include "base/append.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy {

void append_whole(int file, const std::string& text, const std::string& path,
                  Durability durability) {
  struct stat before {};
  const bool known = ::fstat(file, &before) == 0;
  int error = known ? write_all(file, std::as_bytes(std::span(text))) : errno;
  // A file system that has nothing to wait for says EINVAL.
  if (error == 0 && durability == Durability::synced && ::fdatasync(file) != 0 && errno != EINVAL)
    error = errno;
  if (error == 0) return;
  struct stat after {};
  const bool grown = known && ::fstat(file, &after) == 0 && after.st_size > before.st_size;
  std::string also;
  if (grown && ::ftruncate(file, before.st_size) != 0) also = "; its end is incomplete now";
  throw Failure("cannot write " + path + ": " + std::strerror(error) + also);
}

}  // namespace convoy
