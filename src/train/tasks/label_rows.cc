#include "train/tasks/label_rows.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace convoy::train {

using OrderedJson = nlohmann::ordered_json;

std::string describe_labels(
    const data::Dataset& data, std::size_t sample,
    const std::function<std::optional<LabelClass>(const std::string& label)>& class_of) {
  const std::vector<std::string>& names = data.classes();
  if (names.empty()) return "";
  const bool lists = data.label_lists();
  OrderedJson labels = OrderedJson::array(), classes = OrderedJson::array();
  for (const std::int64_t label : lists ? data.labels(sample) : std::vector{data.label(sample)}) {
    if (label < 0 || label >= static_cast<std::int64_t>(names.size())) continue;
    const std::string& name = names[static_cast<std::size_t>(label)];
    labels.push_back({{"index", label}, {"name", name}});
    if (!class_of) continue;
    if (const auto one = class_of(name))
      classes.push_back({{"index", one->index}, {"name", one->name}});
  }
  if (!lists && labels.empty()) return "";
  OrderedJson row;
  row[lists ? "labels" : "label"] = lists ? labels : labels[0];
  if (class_of && classes.size() == labels.size())
    row[lists ? "label_classes" : "label_class"] = lists ? classes : classes[0];
  return row.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace convoy::train
