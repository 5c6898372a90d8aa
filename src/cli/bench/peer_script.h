// Scripts in Python that run beside benchmarks.
#pragma once

#include <filesystem>
#include <string>

namespace convoy::cli {

// The file of this program.
std::filesystem::path own_program();

// The path of a script of bench/peers: beside an installed program, or in the source tree that a
// build folder lies in; or what --peer has named, unless that is empty. Throws UsageError where it
// is not.
std::string find_peer(const std::string& script, const std::string& given);

}  // namespace convoy::cli
