#include "train/fault/watch.h"

#include <algorithm>
#include <exception>
#include <string_view>

#include "train/fault/gradient_hooks.h"
#include "train/finite.h"

namespace convoy::train {
namespace {

thread_local FaultWatch* watch_of_thread = nullptr;

// FaultOrigin::order of what comes before the operations of a micro-batch, which are counted from
// 1, and of the first gradient behind them.
constexpr std::int64_t kOrderOfParameters = -2, kOrderOfInputs = -1;
constexpr std::int64_t kOrderOfGradients = std::int64_t{1} << 40;

bool can_look_at(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.layout() != at::kStrided ||
      tensor.is_meta() || tensor.numel() == 0)
    return false;
  const at::ScalarType type = tensor.scalar_type();
  return type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
}

// What can't be looked at is taken for finite. REQUIRES: no gradients are recorded.
bool is_faulty(const at::Tensor& tensor) {
  try {
    return can_look_at(tensor) && !has_finite_values(tensor);
  } catch (const std::exception&) {
    return false;
  }
}

// REQUIRES: it can be looked at, and no gradients are recorded.
bool has_nan(const at::Tensor& tensor) { return tensor.isnan().any().item<bool>(); }

// REQUIRES: it can be looked at.
bool covers_its_storage(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() && tensor.nbytes() >= tensor.storage().nbytes();
}

template <class Use>
void each_tensor_in(const c10::IValue& value, const Use& use) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (tensor.defined()) use(tensor);
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) each_tensor_in(item, use);
  }
}

// Of memory that nobody has written to yet nothing is known.
bool makes_room_alone(std::string_view operation) {
  return operation.starts_with("aten::empty") || operation.starts_with("aten::new_empty") ||
         operation.starts_with("aten::resize");
}

std::string name_of_operation(std::string_view operation) {
  const std::size_t colons = operation.rfind("::");
  return std::string(colons == std::string_view::npos ? operation : operation.substr(colons + 2));
}

}  // namespace

struct FaultWatch::Call final : at::ObserverContext {
  bool outermost = false;
  std::int64_t order = 0;
  FaultPlace place;
  std::optional<std::size_t> origin;  // the first of what it takes that is not finite
};

FaultWatch::FaultWatch(torch::nn::Module& network, const data::Dataset& samples)
    : samples_(samples), places_(network), before_(watch_of_thread) {
  {
    const torch::NoGradGuard no_grad;
    for (const torch::Tensor& buffer : network.buffers())
      if (buffer.defined()) buffers_.emplace_back(buffer, buffer.clone());
    for (const auto& item : network.named_parameters())
      if (is_faulty(item.value())) parameters_.emplace_back(item.key(), item.value());
  }
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&on_start, &on_end)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
  watch_of_thread = this;
}

FaultWatch::~FaultWatch() {
  watch_of_thread = before_;
  at::removeCallback(handle_);
  const torch::NoGradGuard no_grad;
  for (auto& [buffer, values] : buffers_) {
    try {
      buffer.copy_(values);
    } catch (const std::exception&) {
      // The training ends with what was found; a device that fails here fails at its next use.
    }
  }
}

FaultWatch* FaultWatch::current() { return watch_of_thread; }

// Operations that are of the look itself are not looked at. LibTorch would swallow what a callback
// throws: then nothing more is looked at.
template <class Work>
void FaultWatch::apart(const Work& work) {
  const torch::NoGradGuard no_grad;
  busy_ = true;
  try {
    work();
  } catch (const std::exception&) {
    listening_ = false;
  }
  busy_ = false;
}

std::unique_ptr<at::ObserverContext> FaultWatch::on_start(const at::RecordFunction& operation) {
  FaultWatch* const watch = current();
  if (watch == nullptr || !watch->listening_ || watch->busy_) return nullptr;
  auto call = std::make_unique<Call>();
  call->outermost = watch->depth_++ == 0;
  if (call->outermost) watch->apart([&] { watch->enter(operation, *call); });
  return call;
}

void FaultWatch::on_end(const at::RecordFunction& operation, at::ObserverContext* context) {
  FaultWatch* const watch = current();
  if (watch == nullptr || context == nullptr) return;
  auto& call = *static_cast<Call*>(context);
  --watch->depth_;
  if (call.outermost && watch->listening_) watch->apart([&] { watch->leave(operation, call); });
}

void FaultWatch::enter(const at::RecordFunction& operation, Call& call) {
  std::vector<at::Tensor> inputs;
  for (const c10::IValue& value : operation.inputs())
    each_tensor_in(value, [&](const at::Tensor& tensor) { inputs.push_back(tensor); });
  call.place = places_.begin_operation(inputs, name_of_operation(operation.name()));
  call.order = ++operations_;
  // Infinities may be meant to be there, as in masks; NaN beside them is not.
  bool nan = false;
  for (const at::Tensor& input : inputs) {
    if (!is_faulty(input)) continue;
    const std::optional<std::size_t> origin = origin_of(input);
    if (!origin) continue;
    const bool has = has_nan(input);
    if (nan && !has) continue;
    if (!call.origin || (has && !nan) || *origin < *call.origin) call.origin = origin;
    nan = has;
  }
}

void FaultWatch::leave(const at::RecordFunction& operation, Call& call) {
  places_.end_operation();
  if (makes_room_alone(operation.name())) return;
  for (const c10::IValue& value : operation.outputs()) {
    each_tensor_in(value, [&](const at::Tensor& output) {
      if (!is_faulty(output)) {
        if (can_look_at(output) && covers_its_storage(output)) unmark(output);
        return;
      }
      if (!call.origin) {
        const FaultKind kind = call.place.in_loss ? FaultKind::loss : FaultKind::activation;
        call.origin = add({kind, call.place, part_, call.order});
      }
      mark(output, *call.origin);
    });
  }
}

std::size_t FaultWatch::add(FaultOrigin origin) {
  origins_.push_back(std::move(origin));
  return origins_.size() - 1;
}

// Views of the same memory are marked with it. What was last written to it counts.
void FaultWatch::mark(const at::Tensor& tensor, std::size_t origin) {
  const c10::Storage& storage = tensor.storage();
  bad_.insert_or_assign(storage.unsafeGetStorageImpl(), Bad{storage, origin});
}

void FaultWatch::unmark(const at::Tensor& tensor) {
  bad_.erase(tensor.storage().unsafeGetStorageImpl());
}

// REQUIRES: it can be looked at.
std::optional<std::size_t> FaultWatch::origin_of(const at::Tensor& tensor) const {
  const auto found = bad_.find(tensor.storage().unsafeGetStorageImpl());
  if (found == bad_.end()) return std::nullopt;
  return found->second.origin;
}

FaultPlace FaultWatch::place_of_input(const std::string& name, const torch::Tensor& tensor,
                                      const TaskBatch& rows) const {
  FaultPlace place;
  place.operation = name;
  const auto count = static_cast<std::int64_t>(rows.samples.size());
  if (count == 0 || tensor.dim() == 0 || tensor.size(0) % count != 0) return place;
  const std::int64_t each = tensor.size(0) / count;  // rows of a sample, one after the other
  for (std::int64_t i = 0; i < count; ++i) {
    if (!is_faulty(tensor.narrow(0, i * each, each))) continue;
    const std::size_t sample = rows.samples[static_cast<std::size_t>(i)];
    place.name = "sample " + std::to_string(sample);
    try {
      if (sample < samples_.size()) place.type = samples_.key(sample);
    } catch (const std::exception&) {
      // The data set can't say: the number is enough.
    }
    break;
  }
  return place;
}

void FaultWatch::begin_part(const TaskBatch& rows, std::int64_t part) {
  part_ = part;
  operations_ = gradients_ = 0;
  depth_ = 0;
  bad_.clear();
  places_.begin_forward();
  apart([&] {
    for (const auto& [name, parameter] : parameters_) {
      FaultPlace place;
      place.name = name;
      mark(parameter, add({FaultKind::parameter, std::move(place), part_, kOrderOfParameters}));
    }
    for (const auto& [name, tensor] : rows.tensors) {
      if (!is_faulty(tensor)) continue;
      FaultPlace place;
      place.operation = name;
      const std::size_t origin = add({FaultKind::input, std::move(place), part_, kOrderOfInputs});
      mark(tensor, origin);
      origins_[origin].place = place_of_input(name, tensor, rows);
    }
  });
  listening_ = true;
}

void FaultWatch::has_outputs(const TensorList& outputs) {
  apart([&] {
    for (const torch::Tensor& output : outputs) {
      // Of something that is no operation of LibTorch's.
      if (is_faulty(output) && !origin_of(output))
        mark(output, add({FaultKind::activation, places_.here(), part_, ++operations_}));
    }
  });
  places_.begin_loss();
}

void FaultWatch::has_loss(const torch::Tensor& loss) {
  listening_ = false;
  if (found_) return;
  bool faulty = false;
  apart([&] {
    faulty = is_faulty(loss);
    if (!faulty) return;
    const std::optional<std::size_t> origin = origin_of(loss);
    found_ = origin ? origins_[*origin]
                    : FaultOrigin{FaultKind::loss, places_.here(), part_, ++operations_};
  });
  if (faulty) return;
  hook_gradients(loss, [this](const auto& node, const auto& incoming, const auto& outgoing) {
    saw_gradients(node, incoming, outgoing);
  });
}

// Sums of gradients that come from several nodes may not be finite either, though these are.
void FaultWatch::saw_gradients(const torch::autograd::Node& node,
                               const torch::autograd::variable_list& incoming,
                               const torch::autograd::variable_list& outgoing) {
  const std::lock_guard lock(mutex_);
  const std::int64_t order = kOrderOfGradients + gradients_++;
  if (found_) return;
  const torch::NoGradGuard no_grad;
  if (std::none_of(incoming.begin(), incoming.end(), is_faulty) &&
      std::none_of(outgoing.begin(), outgoing.end(), is_faulty))
    return;
  FaultPlace place = places_.of_node(node.sequence_nr());
  place.operation = short_type_name(node.name());
  found_ = FaultOrigin{FaultKind::gradient, std::move(place), part_, order};
}

}  // namespace convoy::train
