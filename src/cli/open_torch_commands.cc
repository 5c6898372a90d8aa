#include <dlfcn.h>

#include <string>

#include "cli/torch_commands.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

const TorchCommands* open_library() {
  // The linker's search finds it beside the other layers. Plugins and what LibTorch and MPI open by
  // themselves are to find their symbols, as if the program were linked with them.
  void* const library = dlopen(CONVOY_COMMANDS_LIBRARY, RTLD_LAZY | RTLD_GLOBAL);
  void* const function = library == nullptr ? nullptr : dlsym(library, "convoy_torch_commands");
  if (function == nullptr) {
    throw Failure("the part of convoy that needs LibTorch can't be opened: " +
                  std::string(dlerror()));
  }
  return reinterpret_cast<decltype(&convoy_torch_commands)>(function)();
}

}  // namespace

const TorchCommands& torch_commands() {
  static const TorchCommands* const commands = open_library();
  return *commands;
}

}  // namespace convoy::cli
