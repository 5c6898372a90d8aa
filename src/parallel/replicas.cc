// The same model on every rank: what is compared, and what is broadcast.
#include <set>
#include <sstream>

#include "convoy/base/error.h"
#include "convoy/parallel/gradient_reducer.h"

namespace convoy::parallel {
namespace {

template <class Named>
std::vector<NamedTensor> unique_tensors(const Named& named) {
  std::vector<NamedTensor> result;
  std::set<const c10::TensorImpl*> seen;
  for (const auto& item : named) {
    if (item.value().defined() && seen.insert(item.value().unsafeGetTensorImpl()).second) {
      result.push_back({item.key(), item.value()});
    }
  }
  return result;
}

const char* layout_of(const at::Tensor& tensor) {
  if (tensor.is_contiguous()) return "";
  if (tensor.is_contiguous(at::MemoryFormat::ChannelsLast) ||
      tensor.is_contiguous(at::MemoryFormat::ChannelsLast3d)) {
    return " channels-last";
  }
  return " with strides";
}

// One line a tensor: "conv1.weight\tFloat [64, 3, 7, 7] channels-last"
std::string describe(const std::vector<NamedTensor>& tensors) {
  std::ostringstream text;
  for (const NamedTensor& t : tensors) {
    text << t.name << '\t' << c10::toString(t.tensor.scalar_type()) << ' ' << t.tensor.sizes()
         << layout_of(t.tensor);
    if (!t.tensor.is_contiguous()) text << ' ' << t.tensor.strides();
    text << (t.tensor.requires_grad() ? "" : ", no gradient") << '\n';
  }
  return text.str();
}

// The first difference between two descriptions, from the point of view of a rank.
std::string difference(const std::string& mine, const std::string& roots) {
  std::istringstream a(mine), b(roots);
  std::string left, right;
  const auto name = [](const std::string& line) { return line.substr(0, line.find('\t')); };
  const auto rest = [](const std::string& line) {
    return line.substr(std::min(line.size(), line.find('\t') + 1));
  };
  while (true) {
    const bool more_left = static_cast<bool>(std::getline(a, left));
    const bool more_right = static_cast<bool>(std::getline(b, right));
    if (!more_left && !more_right) return "";
    if (!more_left) return "lacks '" + name(right) + "', which rank 0 has";
    if (!more_right) return "has '" + name(left) + "', which rank 0 lacks";
    if (left == right) continue;
    if (name(left) != name(right))
      return "has '" + name(left) + "' where rank 0 has '" + name(right) + "'";
    return "has '" + name(left) + "' as " + rest(left) + "; on rank 0 it is " + rest(right);
  }
}

}  // namespace

std::vector<NamedTensor> unique_parameters(const torch::nn::Module& module) {
  return unique_tensors(module.named_parameters());
}
std::vector<NamedTensor> unique_buffers(const torch::nn::Module& module) {
  return unique_tensors(module.named_buffers());
}

void check_same_on_all_ranks(const comm::Communicator& communicator,
                             const std::vector<NamedTensor>& tensors) {
  const std::string mine = describe(tensors);
  const std::string roots = communicator.broadcast_text(mine, 0);
  const auto verdicts = communicator.gather_text(difference(mine, roots));
  std::string message;
  for (std::size_t rank = 0; rank < verdicts.size(); ++rank) {
    if (!verdicts[rank].empty()) {
      message +=
          (message.empty() ? "" : "; ") + ("rank " + std::to_string(rank)) + " " + verdicts[rank];
    }
  }
  if (!message.empty()) throw UsageError("the ranks built different models: " + message);
}

void broadcast_tensors(const comm::Communicator& communicator,
                       const std::vector<NamedTensor>& tensors, int root) {
  if (communicator.size() == 1) return;
  const torch::NoGradGuard no_grad;
  // A few in flight at once: small ones don't wait for each other's round trips.
  constexpr std::size_t kAtOnce = 16;
  struct Flight {
    at::Tensor target, staged;
    comm::Operation operation;
  };
  std::vector<Flight> flights(std::min(kAtOnce, tensors.size()));
  const auto land = [](Flight& flight) {
    if (!flight.operation.valid()) return;
    flight.operation.wait();
    if (!flight.staged.is_same(flight.target)) flight.target.copy_(flight.staged);
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Flight& flight = flights[i % flights.size()];
    land(flight);
    flight.target = tensors[i].tensor.detach();
    const bool as_it_is = !flight.target.is_conj() && !flight.target.is_neg();
    // Elements travel in the order of their indices: another rank may lay them out otherwise.
    const bool direct = as_it_is && flight.target.is_cpu() && flight.target.is_contiguous();
    flight.staged = direct ? flight.target
                           : flight.target.to(at::kCPU).resolve_conj().resolve_neg().contiguous();
    // As bytes: those of any type can be copied, also of one that nobody can add.
    const comm::Buffer bytes(flight.staged.data_ptr(), flight.staged.nbytes(), comm::Type::u8);
    flight.operation = communicator.start_broadcast(
        bytes, root, {0, static_cast<std::uint16_t>(i % flights.size())});
  }
  for (Flight& flight : flights) land(flight);
}

}  // namespace convoy::parallel
