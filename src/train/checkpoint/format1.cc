// Checkpoints as they were written before tensors were stored in slices.
#include <algorithm>
#include <tuple>

#include "convoy/train/safetensors.h"
#include "train/checkpoint/open_checkpoint.h"

namespace convoy::train {

std::vector<StoredTensor> tensors_of_format_1(const std::string& checkpoint,
                                              const std::map<std::string, FileEntry>& files) {
  const std::pair<const char*, TensorGroup> kFiles[] = {
      {"model.safetensors", TensorGroup::model},
      {"optimizer.safetensors", TensorGroup::optimizer},
      {"ranks.safetensors", TensorGroup::rank}};
  std::vector<StoredTensor> tensors;
  for (const auto& [name, group] : kFiles) {
    if (!files.contains(name)) continue;
    const SafetensorsFile file(checkpoint + "/" + name);
    for (const TensorView& view : file.tensors()) {
      StoredTensor& tensor =
          tensors.emplace_back(StoredTensor{group, view.name, view.type, view.shape, {}});
      if (view.bytes.empty()) continue;
      const Slice whole = whole_of(view.name, view.shape);
      tensor.slices.push_back({name, whole.begin, whole.size, file.offset_of(view), std::nullopt});
    }
  }
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.group, a.name) < std::tie(b.group, b.name);
  });
  return tensors;
}

}  // namespace convoy::train
