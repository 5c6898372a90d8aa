#include "train/strategies/partitioned/fetch.h"

#include <utility>

#include "parallel/tensors.h"
#include "train/channels.h"

namespace convoy::train {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

Tensor part_of(Tensor tensor, const Box& box) {
  for (std::size_t d = 0; d < box.begin.size(); ++d)
    tensor = tensor.narrow(static_cast<std::int64_t>(d), box.begin[d], box.size[d]);
  return tensor;
}

Tensor on_wire(const Tensor& part, at::ScalarType wire) {
  // contiguous() alone would be the tensor itself, where it is already what travels.
  return part.detach().to(torch::kCPU, wire).contiguous();
}

}  // namespace

// Both carry their Fetch as a number, as autograd has it.
struct StartFetch : torch::autograd::Function<StartFetch> {
  static variable_list forward(AutogradContext* context, const Tensor& held, std::int64_t fetch) {
    context->saved_data["fetch"] = fetch;
    // On the device of what it stands for, so that one thread of autograd comes to all of them.
    return {held.detach(), torch::empty({0}, held.options().dtype(torch::kFloat))};
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto& fetch = *reinterpret_cast<Fetch*>(context->saved_data["fetch"].toInt());  // NOLINT
    return {fetch.add_gradients(gradients[0]), Tensor()};
  }
};

struct FinishFetch : torch::autograd::Function<FinishFetch> {
  static variable_list forward(AutogradContext* context, const Tensor& token, std::int64_t fetch) {
    context->saved_data["fetch"] = fetch;
    auto& own = *reinterpret_cast<Fetch*>(fetch);  // NOLINT
    variable_list results = own.assemble(own.held_, own.boxes_);
    results.push_back(torch::empty_like(token));
    return results;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto& fetch = *reinterpret_cast<Fetch*>(context->saved_data["fetch"].toInt());  // NOLINT
    const Tensor of_token = gradients.back();
    gradients.pop_back();
    fetch.send_gradients(gradients);
    return {of_token, Tensor()};
  }
};

Fetch::Fetch(Links& links, Route route, Way way)
    : links_(links), route_(std::move(route)), way_(std::move(way)) {}

Tensor Fetch::start(const Tensor& held) {
  TORCH_INTERNAL_ASSERT(held.sizes() == at::IntArrayRef(route_.held), way_.name, ": ", held.sizes(),
                        " is held, not ", at::IntArrayRef(route_.held));
  like_ = held.options();
  format_ = held.suggest_memory_format();
  begin_ = Clock::now();
  send_parts(held);
  if (!way_.gradient || !torch::GradMode::is_enabled()) {
    held_ = held.detach();
    return held;
  }
  // A rank that computes nothing of it takes part in backward all the same.
  const Tensor from = held.requires_grad() ? held : held.detach().requires_grad_(true);
  const variable_list results = StartFetch::apply(from, reinterpret_cast<std::int64_t>(this));
  tokens_.push_back(results[1]);
  held_ = held.detach();
  return results[0];
}

void Fetch::send_parts(const Tensor& held) {
  sends_.resize(route_.out.size());
  receives_.resize(route_.in.size());
  const comm::Match match{channels::kFetchForward, way_.key};
  const auto bytes = [this](std::int64_t elements) {
    return static_cast<std::uint64_t>(elements) * c10::elementSize(way_.wire);
  };
  for (std::size_t q = 0; q < route_.in.size(); ++q) {
    if (route_.in[q].empty()) continue;
    receives_[q].memory = torch::empty(route_.in[q].size, torch::TensorOptions().dtype(way_.wire));
    receives_[q].operation = links_.group().start_receive(parallel::buffer_of(receives_[q].memory),
                                                          static_cast<int>(q), match);
  }
  for (std::size_t q = 0; q < route_.out.size(); ++q) {
    if (route_.out[q].empty()) continue;
    sends_[q].memory = part_to_send(held, q);
    sends_[q].operation = links_.group().start_send(parallel::buffer_of(sends_[q].memory),
                                                    static_cast<int>(q), match);
  }
  links_.count(way_.forward, bytes(route_.sent()), bytes(route_.received()));
}

// Those who get the same get it from the same memory.
Tensor Fetch::part_to_send(const Tensor& held, std::size_t to) const {
  for (std::size_t q = 0; q < to; ++q) {
    if (route_.out[q] == route_.out[to]) return sends_[q].memory;
  }
  return on_wire(part_of(held, route_.out[to]), way_.wire);
}

void Fetch::free_what_was_sent() {
  for (Message& message : sends_) {
    if (message.operation.valid() && message.operation.done()) message.memory = Tensor();
  }
}

std::vector<Tensor> Fetch::finish(const std::vector<Box>& boxes) {
  finished_ = true;
  boxes_ = boxes;
  for (Message& message : receives_) {
    if (message.operation.valid()) links_.wait(message.operation, way_.forward, way_.name, begin_);
  }
  free_what_was_sent();
  if (tokens_.empty()) {
    const torch::NoGradGuard no_grad;
    std::vector<Tensor> all = assemble(held_, boxes_);
    held_ = Tensor();
    return all;
  }
  variable_list results = FinishFetch::apply(tokens_[0], reinterpret_cast<std::int64_t>(this));
  held_ = Tensor();
  tokens_.push_back(results.back());
  results.pop_back();
  return results;
}

Tensor Fetch::finish_all() {
  return finish({Box{std::vector<std::int64_t>(route_.wanted.size(), 0), route_.wanted}}).front();
}

std::vector<Tensor> Fetch::assemble(const Tensor& held, const std::vector<Box>& boxes) {
  std::vector<Tensor> all;
  for (const Box& box : boxes) {
    const bool image = box.size.size() == 4;
    Tensor own = torch::empty(box.size, like_, image ? std::optional(format_) : std::nullopt);
    const auto copy = [&](const Box& where, const Tensor& from, const Box& origin) {
      const Box both = overlap(box, where);
      if (both.empty()) return;
      part_of(own, within(box, both)).copy_(part_of(from, within(origin, both)));
    };
    if (!route_.kept_wanted.empty())
      copy(route_.kept_wanted, part_of(held, route_.kept_held), route_.kept_wanted);
    for (std::size_t q = 0; q < route_.in.size(); ++q) {
      if (!route_.in[q].empty()) copy(route_.in[q], receives_[q].memory, route_.in[q]);
    }
    all.push_back(std::move(own));
  }
  for (Message& message : receives_) message.memory = Tensor();
  return all;
}

void Fetch::send_gradients(const std::vector<Tensor>& gradients) {
  const torch::NoGradGuard no_grad;
  begin_ = Clock::now();
  // Those of forward end with it, at the latest here: their memory is used again.
  for (Message& message : sends_) {
    if (message.operation.valid()) links_.wait(message.operation, way_.backward, way_.name, begin_);
  }
  const comm::Match match{channels::kFetchBackward, way_.key};
  for (std::size_t q = 0; q < route_.out.size(); ++q) {
    if (route_.out[q].empty()) continue;
    receives_[q].memory = torch::empty(route_.out[q].size, torch::TensorOptions().dtype(way_.wire));
    receives_[q].operation = links_.group().start_receive(parallel::buffer_of(receives_[q].memory),
                                                          static_cast<int>(q), match);
  }
  for (std::size_t q = 0; q < route_.in.size(); ++q) {
    if (route_.in[q].empty()) continue;
    const Box& in = route_.in[q];
    Tensor sum;
    for (std::size_t b = 0; b < boxes_.size(); ++b) {
      const Box both = overlap(boxes_[b], in);
      if (both.empty()) continue;
      const Tensor part = part_of(gradients[b], within(boxes_[b], both));
      if (both == in && !sum.defined()) {
        sum = part;
        continue;
      }
      Tensor all = torch::zeros(in.size, part.options());
      if (sum.defined()) all.add_(sum);
      part_of(all, within(in, both)).add_(part);
      sum = all;
    }
    if (!sum.defined()) sum = torch::zeros(in.size, like_);
    sends_[q].memory = on_wire(sum, way_.wire);
    sends_[q].operation = links_.group().start_send(parallel::buffer_of(sends_[q].memory),
                                                    static_cast<int>(q), match);
  }
  const auto bytes = [this](std::int64_t elements) {
    return static_cast<std::uint64_t>(elements) * c10::elementSize(way_.wire);
  };
  links_.count(way_.backward, bytes(route_.received()), bytes(route_.sent()));
  box_gradients_ = gradients;
}

Tensor Fetch::add_gradients(const Tensor& own) {
  const torch::NoGradGuard no_grad;
  Tensor sum = own.clone();
  if (!route_.kept_wanted.empty()) {
    Tensor kept = part_of(sum, route_.kept_held);
    for (std::size_t b = 0; b < boxes_.size(); ++b) {
      const Box both = overlap(boxes_[b], route_.kept_wanted);
      if (both.empty()) continue;
      part_of(kept, within(route_.kept_wanted, both))
          .add_(part_of(box_gradients_[b], within(boxes_[b], both)));
    }
  }
  box_gradients_.clear();
  for (std::size_t q = 0; q < route_.out.size(); ++q) {
    if (route_.out[q].empty()) continue;
    links_.wait(receives_[q].operation, way_.backward, way_.name, begin_);
    part_of(sum, route_.out[q]).add_(receives_[q].memory.to(sum.device(), sum.scalar_type()));
    receives_[q].memory = Tensor();
  }
  free_what_was_sent();
  return sum;
}

namespace {

struct EndOfPass : torch::autograd::Function<EndOfPass> {
  static Tensor forward(AutogradContext* context, at::TensorList all, std::int64_t tokens) {
    context->saved_data["tokens"] = tokens;
    context->save_for_backward(variable_list(all.begin() + 1 + tokens, all.end()));
    return all[0].clone();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    variable_list all{gradients[0]};
    const std::int64_t tokens = context->saved_data["tokens"].toInt();
    const auto like = gradients[0].options().dtype(torch::kFloat);
    for (std::int64_t i = 0; i < tokens; ++i) all.push_back(torch::zeros({0}, like));
    for (const Tensor& parameter : context->get_saved_variables())
      all.push_back(torch::zeros_like(parameter));
    all.emplace_back();  // of the number of tokens
    return all;
  }
};

}  // namespace

Tensor end_of_pass(const Tensor& loss, const std::vector<Tensor>& tokens,
                   const std::vector<Tensor>& idle) {
  variable_list all{loss};
  all.insert(all.end(), tokens.begin(), tokens.end());
  for (const Tensor& parameter : idle) {
    if (parameter.requires_grad()) all.push_back(parameter);
  }
  return EndOfPass::apply(at::TensorList(all), static_cast<std::int64_t>(tokens.size()));
}

}  // namespace convoy::train
