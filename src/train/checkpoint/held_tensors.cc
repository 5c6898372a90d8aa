#include "train/checkpoint/held_tensors.h"

#include "convoy/base/error.h"
#include "train/checkpoint/scalar_types.h"

namespace convoy::train {
namespace {

void add(HeldTensors& all, TensorGroup group, const std::string& name, const torch::Tensor& tensor,
         const Slice* part) {
  Slice slice = part == nullptr ? whole_of(name, tensor.sizes().vec()) : *part;
  slice.tensor = name;
  slice.check();
  if (slice.size != tensor.sizes().vec()) {
    throw UsageError("a checkpoint can't be written: tensor '" + name + "' is not of the size of " +
                     slice.text());
  }
  all.slices.push_back({group, type_name_of(tensor.scalar_type(), name), std::move(slice)});
  all.tensors.push_back(tensor.detach());
}

}  // namespace

HeldTensors hold(const State& state) {
  const auto part_of = [&state](const std::string& parameter) {
    const auto part = state.parts.find(parameter);
    return part == state.parts.end() ? nullptr : &part->second;
  };
  HeldTensors all;
  for (const auto& [name, tensor] : state.model)
    add(all, TensorGroup::model, name, tensor, part_of(name));
  for (const auto& [name, tensor] : state.optimizer)
    add(all, TensorGroup::optimizer, name, tensor, part_of(name.substr(name.find('/') + 1)));
  for (const auto& [name, tensor] : state.rank) add(all, TensorGroup::rank, name, tensor, nullptr);
  return all;
}

void copy_piece(const HeldTensors& held, std::size_t which, const Slice& piece, std::byte* out) {
  const torch::NoGradGuard no_grad;
  const Slice& slice = held.slices[which].slice;
  torch::Tensor from = held.tensors[which];
  for (std::size_t d = 0; d < piece.size.size(); ++d) {
    if (piece.size[d] == slice.size[d]) continue;
    from =
        from.narrow(static_cast<std::int64_t>(d), piece.begin[d] - slice.begin[d], piece.size[d]);
  }
  torch::from_blob(out, piece.size, from.options().device(torch::kCPU)).copy_(from);
}

}  // namespace convoy::train
