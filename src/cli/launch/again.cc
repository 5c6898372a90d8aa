#include "cli/launch/again.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "convoy/base/error.h"

namespace convoy::cli {

bool is_a_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

bool is_a_lone_task() {
  const auto is_one = [](const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr && std::strcmp(value, "1") == 0;
  };
  // What mpirun starts there inherits the step's variables.
  const bool of_mpirun = std::getenv("OMPI_COMM_WORLD_RANK") != nullptr ||
                         (std::getenv("PMI_SIZE") != nullptr && !is_one("PMI_SIZE"));
  return is_a_rank() && !of_mpirun && is_one("SLURM_STEP_NUM_TASKS");
}

void run_again(const std::vector<std::string>& options) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::string> words{"convoy", "run"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", "/proc/self/exe"});
  std::vector<char> path(4096);
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length > 0) words.back().assign(path.data(), static_cast<std::size_t>(length));
  const std::string program = words.back();
  for (std::size_t at = all.find('\0') + 1; at < all.size(); at = all.find('\0', at) + 1)
    words.emplace_back(all.c_str() + at);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  throw Failure("can't start " + program + ": " + std::strerror(errno));
}

void run_again_as_ranks(int ranks) { run_again({"-n", std::to_string(ranks)}); }

}  // namespace convoy::cli
