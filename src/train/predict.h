// What a network makes of the samples of a data set, one by one.
#pragma once

#include <memory>

#include "convoy/data/dataset.h"
#include "convoy/train/evaluate.h"
#include "convoy/train/trained.h"

namespace convoy::train {

// How the error of a sample begins that was left out of the data, see data.on_bad.
inline constexpr const char* kLeftOut = "left out";

// Does what Trained::predict says, with data that the network can take.
void predict(const Evaluated& what, const std::shared_ptr<const data::Dataset>& dataset, int most,
             const UseAnswers& use, const PredictionOptions& options);

}  // namespace convoy::train
