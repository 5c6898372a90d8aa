#include "train/fault/places.h"

#include <ATen/SequenceNumber.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

namespace convoy::train {

std::string short_type_name(const std::string& type) {
  constexpr std::string_view kFunction = "torch::autograd::CppNode<";  // around a user's function
  std::string name = type;
  if (name.starts_with(kFunction)) name.erase(0, kFunction.size());
  name = name.substr(0, name.find_first_of("<>"));
  const std::size_t colons = name.rfind("::");
  if (colons != std::string::npos) name.erase(0, colons + 2);
  constexpr std::string_view kHeld = "Impl";  // TORCH_MODULE's
  if (name.size() > kHeld.size() && name.ends_with(kHeld)) name.resize(name.size() - kHeld.size());
  return name;
}

FaultPlaces::FaultPlaces(torch::nn::Module& network) {
  add("", network);
  for (const auto& module : network.named_modules("", /*include_self=*/false))
    add(module.key(), *module.value());
  const auto* const staged = dynamic_cast<const model::StagedNetwork*>(&network);
  if (staged != nullptr) stages_ = staged->stages();
  for (const auto& stage : stages_)
    stage->set_observer([this](const model::Node& node, bool begins) { observe(node, begins); });
}

FaultPlaces::~FaultPlaces() {
  for (const auto& stage : stages_) stage->set_observer({});
}

// Of modules that share a parameter it is the first one's.
void FaultPlaces::add(const std::string& path, const torch::nn::Module& module) {
  const Layer layer{path, short_type_name(module.name())};
  const auto put = [&](const torch::Tensor& tensor) {
    if (tensor.defined()) layers_.try_emplace(tensor.unsafeGetTensorImpl(), layer);
  };
  for (const auto& parameter : module.named_parameters(/*recurse=*/false)) put(parameter.value());
  for (const auto& buffer : module.named_buffers(/*recurse=*/false)) put(buffer.value());
}

void FaultPlaces::observe(const model::Node& node, bool begins) {
  if (begins) {
    const auto* const opaque = std::get_if<model::layer::Opaque>(&node.kind);
    current_ = Layer{node.name, opaque != nullptr ? short_type_name(opaque->type)
                                                  : std::string(model::kind_name(node))};
  } else if (current_) {
    last_ = *std::exchange(current_, std::nullopt);
  }
  mark(here());
}

void FaultPlaces::mark(FaultPlace place) {
  marks_.push_back({at::sequence_number::peek(), std::move(place)});
}

void FaultPlaces::begin_forward() {
  marks_.clear();
  current_.reset();
  last_ = {};
  in_loss_ = false;
  mark(here());
}

void FaultPlaces::begin_loss() {
  in_loss_ = true;
  mark(here());
}

FaultPlace FaultPlaces::here() const {
  FaultPlace place;
  place.in_loss = in_loss_;
  if (in_loss_) return place;
  const Layer& layer = current_ ? *current_ : last_;
  place.name = layer.path;
  place.type = layer.type;
  place.behind = !current_;
  return place;
}

FaultPlace FaultPlaces::begin_operation(const std::vector<at::Tensor>& inputs,
                                        const std::string& operation) {
  FaultPlace place = here();
  place.operation = operation;
  for (std::size_t i = 0; !in_loss_ && i < inputs.size(); ++i) {
    const auto layer = layers_.find(inputs[i].unsafeGetTensorImpl());
    if (layer == layers_.end()) continue;
    // Of tied parameters it is the stage's layer that computes, not the first that has them.
    const auto is_inside = [&](const std::string& path) {
      return path == current_->path || path.starts_with(current_->path + ".");
    };
    if (current_ && !is_inside(layer->second.path)) continue;
    last_ = layer->second;
    place.name = last_.path;
    place.type = last_.type;
    place.behind = false;
    break;
  }
  mark(place);
  return place;
}

// Functions of a user's make their nodes outside of operations.
void FaultPlaces::end_operation() { mark(here()); }

FaultPlace FaultPlaces::of_node(std::uint64_t sequence_number) const {
  const auto next = std::upper_bound(
      marks_.begin(), marks_.end(), sequence_number,
      [](std::uint64_t number, const Mark& other) { return number < other.sequence_number; });
  if (next != marks_.begin()) return (next - 1)->place;
  FaultPlace unknown;
  unknown.behind = true;
  return unknown;
}

}  // namespace convoy::train
