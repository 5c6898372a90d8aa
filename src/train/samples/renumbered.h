// Data whose labels are counted as another data set counts them: validation data that lacks a
// class, or has classes in another order. Torch-free.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "convoy/data/dataset.h"

namespace convoy::train {

// The data set with the labels that its classes have among `classes`, by name. It comes back as it
// is where its classes are these, or where they can't be found among them: one is missing there, or
// a name stands twice.
std::shared_ptr<const data::Dataset> renumbered(std::shared_ptr<const data::Dataset> dataset,
                                                const std::vector<std::string>& classes);

// Gives the names among `classes` that the data set has no class for.
std::vector<std::string> missing_classes(const data::Dataset& dataset,
                                         const std::vector<std::string>& classes);

}  // namespace convoy::train
