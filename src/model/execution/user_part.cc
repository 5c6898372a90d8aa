#include "model/execution/user_part.h"

#include <utility>

#include "convoy/base/error.h"
#include "model/blueprint/sizes.h"
#include "model/execution/cut.h"
#include "model/execution/layer_step.h"
#include "model/execution/torch_error.h"

namespace convoy::model {

Node as_data(Node node, const Shape& output) {
  node.module = nullptr;
  if (auto* opaque = std::get_if<layer::Opaque>(&node.kind))
    opaque->output = [output](const Shape&) { return output; };
  return node;
}

void check_requires_no_more(const std::string& who, const Slice& out, const Slice& needed,
                            const Slice& held) {
  if (lies_in(needed, held)) return;
  throw UsageError(who + ": states that " + out.text() + " needs " + needed.text() +
                   ", but that what it is a part of needs no more than " + held.text());
}

UserPart::UserPart(const Node& node, const Shape& input, const Shape& output,
                   std::vector<Slice> held, std::string who)
    : node_(as_data(node, output)),
      inputs_{input},
      held_(std::move(held)),
      who_(std::move(who)),
      module_(copy_of(node).ptr()),
      parts_(dynamic_cast<PartModule*>(module_.get())) {
  if (parts_ == nullptr)
    throw UsageError(who_ + ": is said to compute parts, but its module is no PartModule");
  const torch::NoGradGuard no_grad;
  auto parameters = module_->named_parameters(), buffers = module_->named_buffers();
  const auto& infos = std::get<layer::Opaque>(node.kind).tensors;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const TensorInfo& info = infos[i];
    torch::Tensor tensor = (info.buffer ? buffers : parameters)[info.name];
    if (!held_[i].whole())
      tensor.set_data(cut(tensor, whole_of(info.name, info.shape), held_[i]).clone());
    names_.push_back(info.name);
    tensors_.push_back(std::move(tensor));
  }
}

torch::Tensor UserPart::operator()(const torch::Tensor& x, const Slice& box, const Slice& out,
                                   GradientInPieces* pieces) const {
  ModulePart part{box, out, {}};
  const std::vector<Slice> needed = required_parameters(node_, inputs_, out);
  for (std::size_t i = 0; i < needed.size(); ++i) {
    check_requires_no_more(who_, out, needed[i], held_[i]);
    part.tensors.emplace(names_[i], pieces != nullptr
                                        ? pieces->cut(tensors_[i], held_[i], needed[i])
                                        : cut(tensors_[i], held_[i], needed[i]));
  }
  const auto changes = x._version();
  torch::Tensor result;
  try {
    result = parts_->forward_part(x, part);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    throw UsageError(who_ + ": forward_part can't compute " + out.text() + " from " + box.text() +
                     ", which is what the layer states to require. " + text_of(error));
  }
  if (pieces != nullptr && x._version() != changes) {
    throw UsageError(who_ +
                     ": forward_part changes what it is given, which other pieces read as well, "
                     "and is sent: let it make another tensor, or set partitioned.overlap = false");
  }
  Shape expected = out.size;
  expected.insert(expected.begin(), x.size(0));
  if (result.defined() && result.sizes() == expected) return result;
  throw UsageError(who_ + ": forward_part gives " +
                   (result.defined() ? text_of(result.sizes().vec()) : "nothing") + " for " +
                   out.text() + " of " + std::to_string(x.size(0)) + " samples from " + box.text() +
                   ", and has to give " + text_of(expected));
}

}  // namespace convoy::model
