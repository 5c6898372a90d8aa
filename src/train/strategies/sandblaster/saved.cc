#include "train/strategies/sandblaster/saved.h"

#include <set>
#include <span>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::train {
namespace {

constexpr const char* kBatchLines = "batch";  // State::lists

using optim::VectorName;
using optim::VectorRole;

// Gives the name of the slot that a vector is.
std::string slot_of(const VectorName& name) {
  switch (name.role) {
    case VectorRole::weights:
      return "weights";
    case VectorRole::gradient:
      return "gradient";
    case VectorRole::direction:
      return "direction";
    case VectorRole::step:
      return "step." + std::to_string(name.iteration);
    case VectorRole::change:
      return "change." + std::to_string(name.iteration);
  }
  return "";
}

std::vector<VectorName> vectors_but_weights(const optim::BatchState& state,
                                            optim::BatchMethod method) {
  std::vector<VectorName> names = optim::vectors_of(state, method);
  std::erase(names, state.weights);
  return names;
}

// Parameters of this rank that are vectors, with their names in the network.
class NamedVectors {
 public:
  NamedVectors(const Vectors& vectors, const std::vector<parallel::NamedTensor>& parameters) {
    std::map<const void*, std::string> names;
    for (const auto& parameter : parameters)
      names[parameter.tensor.unsafeGetTensorImpl()] = parameter.name;
    for (const OwnVector& own : vectors.own()) {
      if (!own.statistic) all_.emplace_back(&own, names.at(own.tensor.unsafeGetTensorImpl()));
    }
  }
  const std::vector<std::pair<const OwnVector*, std::string>>& all() const { return all_; }

 private:
  std::vector<std::pair<const OwnVector*, std::string>> all_;
};

template <typename T>
void fetch_into(torch::Tensor& block, const NamedVectors& vectors, const VectorName& name,
                BatchService& service) {
  std::vector<server::BatchView<T>> views;
  for (const auto& [own, parameter] : vectors.all())
    views.push_back({own->vector,
                     {block.mutable_data_ptr<T>() + own->begin,
                      static_cast<std::size_t>(own->tensor.numel())}});
  service.fetch(name, std::span<const server::BatchView<T>>(views));
}

template <typename T>
void put_from(const torch::Tensor& block, const NamedVectors& vectors, const VectorName& name,
              BatchService& service) {
  std::vector<server::BatchView<const T>> views;
  for (const auto& [own, parameter] : vectors.all()) {
    if (!own->pushed) continue;
    views.push_back(
        {own->vector,
         {block.const_data_ptr<T>() + own->begin, static_cast<std::size_t>(own->tensor.numel())}});
  }
  service.put(name, std::span<const server::BatchView<const T>>(views));
}

}  // namespace

SavedBatch::SavedBatch(optim::BatchState state, optim::BatchMethod method, const Vectors& vectors,
                       const std::vector<parallel::NamedTensor>& parameters, BatchService& service)
    : state_(std::move(state)) {
  const NamedVectors named(vectors, parameters);
  for (const VectorName& name : vectors_but_weights(state_, method)) {
    torch::Tensor block = vectors.new_block();
    if (block.scalar_type() == torch::kDouble) {
      fetch_into<double>(block, named, name, service);
    } else {
      fetch_into<float>(block, named, name, service);
    }
    for (const auto& [own, parameter] : named.all())
      slots_[slot_of(name) + "/" + parameter] = vectors.view(block, *own);
  }
}

void SavedBatch::write(State& to) const {
  for (const auto& [slot, tensor] : slots_) to.optimizer[slot] = tensor;
  to.lists[kBatchLines] = optim::lines_of(state_);
}

std::optional<optim::BatchState> saved_batch_state(const State& saved, optim::BatchMethod method) {
  const auto lines = saved.lists.find(kBatchLines);
  if (lines == saved.lists.end()) return std::nullopt;
  optim::BatchState state = optim::batch_state_of(lines->second);
  std::set<std::string> slots;
  for (const auto& [name, tensor] : saved.optimizer) slots.insert(name.substr(0, name.find('/')));
  for (const VectorName& name : vectors_but_weights(state, method)) {
    if (slots.empty() || slots.contains(slot_of(name))) continue;
    throw UsageError("the checkpoint has no vector '" + optim::to_string(name) + "', which " +
                     std::string(optim::name(method)) +
                     " goes on from: it was written with another sandblaster.method. Go on with "
                     "that one, or begin from its weights (model.weights)");
  }
  return state;
}

void shorten_history(optim::BatchState& state, std::size_t longest) {
  if (state.history.size() <= longest) return;
  state.history.erase(state.history.begin(),
                      state.history.end() - static_cast<std::ptrdiff_t>(longest));
  const auto is_gone = [&state](const VectorName& name) {
    const bool of_history = name.role == VectorRole::step || name.role == VectorRole::change;
    return of_history && (state.history.empty() || name.iteration < state.history.front());
  };
  std::erase_if(state.products, [&](const auto& product) {
    return is_gone(product.first.first) || is_gone(product.first.second);
  });
}

void give_saved_vectors(const State& saved, const optim::BatchState& state,
                        optim::BatchMethod method, const Vectors& vectors,
                        const std::vector<parallel::NamedTensor>& parameters,
                        BatchService& service) {
  const torch::NoGradGuard no_grad;
  const NamedVectors named(vectors, parameters);
  for (const VectorName& name : optim::vectors_of(state, method)) {
    torch::Tensor block = vectors.new_block();
    for (const auto& [own, parameter] : named.all()) {
      torch::Tensor to = vectors.view(block, *own);
      if (name == state.weights) {
        to.copy_(own->tensor);
        continue;
      }
      const auto found = saved.optimizer.find(slot_of(name) + "/" + parameter);
      if (found == saved.optimizer.end())
        throw UsageError("the checkpoint has no vector '" + optim::to_string(name) + "' of '" +
                         parameter + "'");
      if (found->second.sizes() != own->tensor.sizes())
        throw UsageError("the checkpoint's vector " + found->first +
                         " has another shape than the parameter");
      to.copy_(found->second);
    }
    if (block.scalar_type() == torch::kDouble) {
      put_from<double>(block, named, name, service);
    } else {
      put_from<float>(block, named, name, service);
    }
  }
}

State without_batch(const State& saved) {
  State rest = saved;
  rest.optimizer.clear();
  rest.lists.erase(kBatchLines);
  std::erase_if(rest.numbers,
                [](const auto& number) { return number.first.starts_with("optimizer.step"); });
  return rest;
}

}  // namespace convoy::train
