// What a training came to.
#pragma once

#include "convoy/train/trainer.h"

namespace convoy::cli {

// On standard output.
void print_result(const train::RunResult& result);

}  // namespace convoy::cli
