// What trainings say that have no numbers any more. Torch-free.
#pragma once

#include <string>

namespace convoy::train {

// Begins the message of the Failure, by which those know it who start trainings to see how far they
// come.
inline constexpr const char* kDiverged = "training has diverged: ";

// What mends data in which a sample is not finite.
inline constexpr const char* kLookAtTheData =
    "Look at the data, and at what prepares it (data.mean, data.deviation, data.augment)";

// Ends the message, without a full stop; `of_data`: a sample is to blame, so that no setting of the
// training can help.
inline std::string advice_of_divergence(bool of_data) {
  return of_data ? kLookAtTheData : "A smaller learning rate, a warm-up or clip_norm may help";
}

}  // namespace convoy::train
