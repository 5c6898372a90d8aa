// Where layers are static libraries, the program is linked with all of it.
#include "cli/torch_commands.h"

namespace convoy::cli {

const TorchCommands& torch_commands() { return *convoy_torch_commands(); }

}  // namespace convoy::cli
