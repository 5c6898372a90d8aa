#include "train/strategies/local_buffers.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "convoy/base/checksum.h"

namespace convoy::train {
namespace {

constexpr std::string_view kCounter = "num_batches_tracked";
constexpr std::string_view kOfDevice = "device/";

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

// Reduces contiguous tensors of devices on the CPU, and of all ranks, into the first.
class ReductionOfDevices {
 public:
  explicit ReductionOfDevices(const comm::Communicator& communicator)
      : communicator_(communicator) {}

  void operator()(std::vector<torch::Tensor>& values, comm::Type type, comm::ReduceOp op) const {
    std::vector<comm::Buffer> buffers;
    for (torch::Tensor& one : values) {
      buffers.emplace_back(one.mutable_data_ptr(), static_cast<std::size_t>(one.numel()), type);
    }
    if (values.size() > 1 && communicator_.reproducible())
      return communicator_.allreduce_of_several(buffers, op);
    torch::Tensor& first = values.front();
    for (std::size_t i = 1; i < values.size(); ++i) {
      if (op == comm::ReduceOp::sum)
        first.add_(values[i]);
      else
        first.copy_(torch::maximum(first, values[i]));
    }
    communicator_.allreduce(buffers.front(), op);
  }

 private:
  const comm::Communicator& communicator_;
};

// A buffer as it is on each device.
std::vector<torch::Tensor> tensors_by_device(const BuffersOfDevices& devices, std::size_t buffer) {
  std::vector<torch::Tensor> tensors;
  for (const auto& buffers : devices) tensors.push_back(buffers[buffer].tensor);
  return tensors;
}

// Removes those that hold the same bits on every device of every rank. All have the same buffers.
// Collective.
void leave_different(const comm::Communicator& communicator, BuffersOfDevices& devices) {
  std::vector<std::int64_t> most, least;
  for (std::size_t i = 0; i < devices.front().size(); ++i) {
    std::vector<std::int64_t> sums;
    for (const torch::Tensor& buffer : tensors_by_device(devices, i)) {
      const torch::Tensor tensor = buffer.detach().cpu().contiguous();
      const auto* bytes = static_cast<const std::byte*>(tensor.const_data_ptr());
      sums.push_back(static_cast<std::int64_t>(xxh3(std::span(bytes, tensor.nbytes()))));
    }
    most.push_back(*std::max_element(sums.begin(), sums.end()));
    least.push_back(*std::min_element(sums.begin(), sums.end()));
  }
  communicator.allreduce(comm::buffer_of(most), comm::ReduceOp::max);
  communicator.allreduce(comm::buffer_of(least), comm::ReduceOp::min);
  for (auto& buffers : devices) {
    std::vector<parallel::NamedTensor> different;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      if (most[i] != least[i]) different.push_back(std::move(buffers[i]));
    }
    buffers = std::move(different);
  }
}

std::string name_of_device(std::size_t device, const std::string& name) {
  return device == 0 ? name : std::string(kOfDevice) + std::to_string(device) + "/" + name;
}

// How many devices the values of a rank are of.
std::size_t devices_in(const Tensors& saved) {
  std::size_t devices = 1;
  for (const auto& [name, tensor] : saved) {
    if (!name.starts_with(kOfDevice)) continue;
    const std::size_t device = std::strtoull(name.c_str() + kOfDevice.size(), nullptr, 10);
    devices = std::max(devices, device + 1);
  }
  return devices;
}

}  // namespace

void unite_buffers_of_devices(const comm::Communicator& communicator,
                              const BuffersOfDevices& devices) {
  const ReductionOfDevices reduce(communicator);
  // Of all, before counters change.
  std::vector<std::map<std::string, double>> weights;
  for (const auto& buffers : devices) {
    auto& own = weights.emplace_back();
    for (const auto& buffer : buffers) own[buffer.name] = weight_of(buffer, buffers);
  }
  for (std::size_t i = 0; i < devices.front().size(); ++i) {
    const parallel::NamedTensor& buffer = devices.front()[i];
    const std::vector<torch::Tensor> tensors = tensors_by_device(devices, i);
    std::vector<torch::Tensor> values;
    const bool complex = buffer.tensor.is_complex();
    if (!complex && !buffer.tensor.is_floating_point()) {
      // As they are: a seed or a hash has more digits than a double.
      for (const torch::Tensor& tensor : tensors)
        values.push_back(tensor.to(torch::kCPU, torch::kLong, false, true).contiguous());
      reduce(values, comm::Type::i64, comm::ReduceOp::max);
      buffer.tensor.copy_(values.front());
      continue;
    }
    // Copies: nothing is left of what others than the first device bring to a sum.
    for (const torch::Tensor& tensor : tensors) {
      const torch::Tensor wide =
          tensor.to(torch::kCPU, complex ? torch::kComplexDouble : torch::kDouble, false, true)
              .contiguous();
      values.push_back(complex ? torch::view_as_real(wide) : wide);
    }
    const at::IntArrayRef sizes = values.front().sizes();
    // A network in another precision has its counters in that, too.
    if (buffer.name.ends_with(kCounter)) {
      reduce(values, comm::Type::f64, comm::ReduceOp::max);
      buffer.tensor.copy_(values.front());
      continue;
    }
    // Of equal weights each is 1: the mean of equal values is that value.
    std::vector<torch::Tensor> most;
    for (const auto& own : weights)
      most.push_back(torch::full({1}, own.at(buffer.name), torch::kDouble));
    reduce(most, comm::Type::f64, comm::ReduceOp::max);
    const double scale = most.front().item<double>();
    std::vector<torch::Tensor> sums;
    for (std::size_t device = 0; device < devices.size(); ++device) {
      const double weight = scale > 0 ? weights[device].at(buffer.name) / scale : 1.0;
      sums.push_back(torch::cat(
          {values[device].flatten() * weight, torch::full({1}, weight, torch::kDouble)}));
    }
    reduce(sums, comm::Type::f64, comm::ReduceOp::sum);
    const std::int64_t count = values.front().numel();
    const torch::Tensor& sum = sums.front();
    const torch::Tensor mean = (sum.narrow(0, 0, count) / sum[count].item<double>()).view(sizes);
    buffer.tensor.copy_(complex ? torch::view_as_complex(mean) : mean);
  }
}

void unite_buffers(const comm::Communicator& communicator,
                   const std::vector<parallel::NamedTensor>& buffers) {
  unite_buffers_of_devices(communicator, BuffersOfDevices{buffers});
}

LocalBuffers::LocalBuffers(comm::Communicator communicator, std::vector<parallel::NamedTensor> all)
    : LocalBuffers(std::move(communicator), BuffersOfDevices{std::move(all)}) {}

LocalBuffers::LocalBuffers(comm::Communicator communicator, BuffersOfDevices all)
    : communicator_(std::move(communicator)), all_(std::move(all)) {
  if (communicator_.size() == 1 && all_.size() == 1) all_.front().clear();
}

BuffersOfDevices LocalBuffers::different() const {
  BuffersOfDevices buffers = all_;
  if (!buffers.empty() && !buffers.front().empty()) leave_different(communicator_, buffers);
  return buffers;
}

void LocalBuffers::load(const Tensors& saved) {
  const torch::NoGradGuard no_grad;
  if (devices_in(saved) != std::max<std::size_t>(1, all_.size())) return;
  for (std::size_t device = 0; device < all_.size(); ++device) {
    for (const auto& buffer : all_[device]) {
      const auto own = saved.find(name_of_device(device, buffer.name));
      if (own != saved.end()) buffer.tensor.copy_(own->second);
    }
  }
}

Tensors LocalBuffers::own() const {
  if (united_) return own_;
  Tensors own;
  const BuffersOfDevices devices = different();
  for (std::size_t device = 0; device < devices.size(); ++device) {
    for (const auto& buffer : devices[device])
      own.emplace(name_of_device(device, buffer.name), buffer.tensor);
  }
  return own;
}

void LocalBuffers::with_united(const std::function<void()>& use) {
  const torch::NoGradGuard no_grad;
  const BuffersOfDevices devices = different();
  for (std::size_t device = 0; device < devices.size(); ++device) {
    for (const auto& buffer : devices[device]) {
      // The others stay as they are.
      own_[name_of_device(device, buffer.name)] =
          device == 0 ? buffer.tensor.clone() : buffer.tensor;
    }
  }
  const auto restore = [&] {
    if (!devices.empty()) {
      for (const auto& buffer : devices.front()) buffer.tensor.copy_(own_.at(buffer.name));
    }
    own_.clear();
    united_ = false;
  };
  if (!devices.empty()) unite_buffers_of_devices(communicator_, devices);
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
