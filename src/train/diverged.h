// What trainings say that have no numbers any more. Torch-free.
#pragma once

namespace convoy::train {

// Begins the message of the Failure, by which those know it who start trainings to see how far they
// come.
inline constexpr const char* kDiverged = "training has diverged: ";

}  // namespace convoy::train
