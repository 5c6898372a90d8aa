#include "cli/bench/peer_script.h"

#include <vector>

#include "convoy/base/error.h"

namespace convoy::cli {

std::filesystem::path own_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::string find_peer(const std::string& script, const std::string& given) {
  const auto folder = own_program().parent_path();
  std::vector<std::filesystem::path> places{folder / "../share/convoy/peers" / script,
                                            folder / "../../bench/peers" / script};
  if (!given.empty()) places = {given};
  for (const auto& place : places) {
    if (std::filesystem::is_regular_file(place)) return place.lexically_normal().string();
  }
  throw UsageError(given.empty() ? script + " is not beside this program; name it: --peer PATH"
                                 : "--peer: there is no file '" + given + "'");
}

}  // namespace convoy::cli
