#include "train/logging/append.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "convoy/base/error.h"

namespace convoy::train {

void append_whole(int fd, const std::string& text, const std::string& path) {
  struct stat before {};
  int error = ::fstat(fd, &before) == 0 ? 0 : errno;
  std::size_t done = 0;
  while (error == 0 && done < text.size()) {
    const ssize_t written = ::write(fd, text.data() + done, text.size() - done);
    if (written >= 0) {
      done += static_cast<std::size_t>(written);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0) return;
  std::string also;
  if (done > 0 && ::ftruncate(fd, before.st_size) != 0) also = "; its end is incomplete now";
  throw Failure("cannot write " + path + ": " + std::strerror(error) + also);
}

}  // namespace convoy::train
