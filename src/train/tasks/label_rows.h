// What data sets say of their samples, in rows of predictions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "convoy/data/dataset.h"

namespace convoy::train {

// A class that a label stands for.
struct LabelClass {
  std::int64_t index;
  std::string name;
};

// The object that Task::labels is. With `class_of`, also the classes of these labels, if it knows
// all of them by their names, as "label_class" or "label_classes".
std::string describe_labels(
    const data::Dataset& data, std::size_t sample,
    const std::function<std::optional<LabelClass>(const std::string& label)>& class_of = {});

}  // namespace convoy::train
