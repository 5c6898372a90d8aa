#include "train/strategies/local_buffers.h"

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "convoy/base/checksum.h"

namespace convoy::train {
namespace {

constexpr std::string_view kCounter = "num_batches_tracked";

// How much a rank's values count.
double weight_of(const parallel::NamedTensor& buffer,
                 const std::vector<parallel::NamedTensor>& all) {
  const std::string& name = buffer.name;
  if (!name.ends_with("running_mean") && !name.ends_with("running_var")) return 1;
  const std::string counter = name.substr(0, name.rfind('.') + 1) + std::string(kCounter);
  for (const auto& other : all) {
    if (other.name == counter) return other.tensor.item().toDouble();
  }
  return 1;
}

// Removes those that hold the same bits on every rank. All ranks have the same buffers. Collective.
void leave_different(const comm::Communicator& communicator,
                     std::vector<parallel::NamedTensor>& buffers) {
  std::vector<std::int64_t> most, least;
  for (const auto& buffer : buffers) {
    const torch::Tensor tensor = buffer.tensor.detach().cpu().contiguous();
    const auto* bytes = static_cast<const std::byte*>(tensor.const_data_ptr());
    most.push_back(static_cast<std::int64_t>(xxh3(std::span(bytes, tensor.nbytes()))));
  }
  least = most;
  communicator.allreduce(comm::buffer_of(most), comm::ReduceOp::max);
  communicator.allreduce(comm::buffer_of(least), comm::ReduceOp::min);
  std::vector<parallel::NamedTensor> different;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (most[i] != least[i]) different.push_back(std::move(buffers[i]));
  }
  buffers = std::move(different);
}

}  // namespace

void unite_buffers(const comm::Communicator& communicator,
                   const std::vector<parallel::NamedTensor>& buffers) {
  const auto reduce_as = [&communicator](torch::Tensor& values, comm::Type type,
                                         comm::ReduceOp op) {
    const auto count = static_cast<std::size_t>(values.numel());
    communicator.allreduce(comm::Buffer(values.mutable_data_ptr(), count, type), op);
  };
  const auto reduce = [&reduce_as](torch::Tensor& wide, comm::ReduceOp op) {
    reduce_as(wide, comm::Type::f64, op);
  };
  std::map<std::string, double> weights;  // of all, before counters change
  for (const auto& buffer : buffers) weights[buffer.name] = weight_of(buffer, buffers);
  for (const auto& buffer : buffers) {
    const bool complex = buffer.tensor.is_complex();
    if (!complex && !buffer.tensor.is_floating_point()) {
      // As they are: a seed or a hash has more digits than a double.
      torch::Tensor whole = buffer.tensor.to(torch::kCPU, torch::kLong, false, true).contiguous();
      reduce_as(whole, comm::Type::i64, comm::ReduceOp::max);
      buffer.tensor.copy_(whole);
      continue;
    }
    torch::Tensor wide =
        complex
            ? torch::view_as_real(buffer.tensor.to(torch::kCPU, torch::kComplexDouble).contiguous())
            : buffer.tensor.to(torch::kCPU, torch::kDouble).contiguous();
    // A network in another precision has its counters in that, too.
    if (buffer.name.ends_with(kCounter)) {
      reduce(wide, comm::ReduceOp::max);
      buffer.tensor.copy_(wide);
      continue;
    }
    // Of equal weights each is 1: the mean of equal values is that value.
    torch::Tensor most = torch::full({1}, weights.at(buffer.name), torch::kDouble);
    const double own = most.item<double>();
    reduce(most, comm::ReduceOp::max);
    const double scale = most.item<double>();
    const double weight = scale > 0 ? own / scale : 1.0;
    torch::Tensor sums =
        torch::cat({wide.flatten() * weight, torch::full({1}, weight, torch::kDouble)});
    reduce(sums, comm::ReduceOp::sum);
    const std::int64_t values = wide.numel();
    const double total = sums[values].item<double>();
    const torch::Tensor mean = (sums.narrow(0, 0, values) / total).view(wide.sizes());
    buffer.tensor.copy_(complex ? torch::view_as_complex(mean) : mean);
  }
}

LocalBuffers::LocalBuffers(comm::Communicator communicator, std::vector<parallel::NamedTensor> all)
    : communicator_(std::move(communicator)), all_(std::move(all)) {
  if (communicator_.size() == 1) all_.clear();
}

std::vector<parallel::NamedTensor> LocalBuffers::different() const {
  std::vector<parallel::NamedTensor> buffers = all_;
  if (!buffers.empty()) leave_different(communicator_, buffers);
  return buffers;
}

void LocalBuffers::load(const Tensors& saved) {
  const torch::NoGradGuard no_grad;
  for (const auto& buffer : all_) {
    const auto own = saved.find(buffer.name);
    if (own != saved.end()) buffer.tensor.copy_(own->second);
  }
}

Tensors LocalBuffers::own() const {
  if (united_) return own_;
  Tensors own;
  for (const auto& buffer : different()) own.emplace(buffer.name, buffer.tensor);
  return own;
}

void LocalBuffers::with_united(const std::function<void()>& use) {
  const torch::NoGradGuard no_grad;
  const std::vector<parallel::NamedTensor> buffers = different();
  for (const auto& buffer : buffers) own_[buffer.name] = buffer.tensor.clone();
  const auto restore = [&] {
    for (const auto& buffer : buffers) buffer.tensor.copy_(own_.at(buffer.name));
    own_.clear();
    united_ = false;
  };
  unite_buffers(communicator_, buffers);
  united_ = true;
  try {
    use();
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

}  // namespace convoy::train
