#include "cli/agent/keeper.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "cli/launch/child.h"
#include "convoy/base/descriptor.h"
#include "convoy/base/error.h"

namespace convoy::cli {

int keep_folder(const std::string& path, bool make) {
  for (int signal_number : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) signal(signal_number, SIG_IGN);
  int error = make && mkdir(path.c_str(), 0700) != 0 ? errno : 0;
  const Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (error == 0 && !folder.open()) error = errno;
  write_all(STDOUT_FILENO, error == 0 ? "ok\n" : std::string(std::strerror(error)) + "\n");
  if (error != 0) return kExitFailure;
  std::array<char, 64> ignored;
  ssize_t count = 0;
  do {
    count = read(STDIN_FILENO, ignored.data(), ignored.size());
  } while (count > 0 || (count < 0 && errno == EINTR));
  while (flock(folder.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  std::error_code removing;
  std::filesystem::remove_all(path, removing);
  return removing ? kExitFailure : 0;
}

}  // namespace convoy::cli
